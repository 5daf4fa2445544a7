# SPDX-License-Identifier: Apache-2.0
"""Inline PTX: ``asm`` statements become calls of the functions in ``include/coc/ptx.h``.

Only the instructions in the tables here are supported. Any other is a CompileError that names it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass

from .faults import CompileError

__all__ = ["replace_asm", "supported_instructions"]

# instruction -> (function, type letters of the destination and the sources)
ARITHMETIC: dict[str, tuple[str, str]] = {
    "cvt.f32.f16": ("cvt_f32_f16", "fh"),
    "cvt.rn.f16.f32": ("cvt_rn_f16_f32", "hf"),
    "cvt.f32.bf16": ("cvt_f32_bf16", "fh"),
    "cvt.rn.bf16.f32": ("cvt_rn_bf16_f32", "hf"),
    "cvt.rn.f16x2.f32": ("cvt_rn_f16x2_f32", "rff"),
    "cvt.rn.bf16x2.f32": ("cvt_rn_bf16x2_f32", "rff"),
    "tanh.approx.f32": ("tanh_approx_f32", "ff"),
    "max.NaN.f32": ("max_nan_f32", "fff"),
    "min.NaN.f32": ("min_nan_f32", "fff"),
    "fma.rn.f32": ("fma_rn_f32", "ffff"),
    "fma.rn.ftz.f32": ("fma_rn_ftz_f32", "ffff"),
    "fma.rn.f64": ("fma_rn_f64", "dddd"),
}
for _name in (
    "ex2.approx",
    "lg2.approx",
    "rcp.approx",
    "rcp.rn",
    "rsqrt.approx",
    "sqrt.approx",
    "sqrt.rn",
    "sin.approx",
    "cos.approx",
):
    _function = _name.replace(".", "_")
    ARITHMETIC[f"{_name}.f32"] = (f"{_function}_f32", "ff")
    ARITHMETIC[f"{_name}.ftz.f32"] = (f"{_function}_ftz_f32", "ff")

SPECIAL_REGISTERS = {
    "laneid": "coc::ptx::lane()",
    "warpid": "coc::ptx::warp_of_block()",
    "smid": "(coc::ptx::block_linear() % coc::ptx::SM_COUNT)",
    "nsmid": "coc::ptx::SM_COUNT",
    "lanemask_eq": "coc::ptx::lanemask_eq()",
    "lanemask_lt": "coc::ptx::lanemask_lt()",
    "lanemask_le": "coc::ptx::lanemask_le()",
    "lanemask_gt": "coc::ptx::lanemask_gt()",
    "lanemask_ge": "coc::ptx::lanemask_ge()",
    "cluster_ctarank": "coc_cluster_rank()",
    "cluster_nctarank": "coc::ptx::cluster_blocks()",
}
for _axis in "xyz":
    SPECIAL_REGISTERS |= {
        f"tid.{_axis}": f"coc_thread_idx().{_axis}",
        f"ntid.{_axis}": f"coc_block_dim().{_axis}",
        f"ctaid.{_axis}": f"coc_block_idx().{_axis}",
        f"nctaid.{_axis}": f"coc_grid_dim().{_axis}",
    }

MEMORY = re.compile(
    r"(?P<op>ld|st)(?P<space>\.global|\.shared|)"
    r"(?P<hints>(?:\.(?:nc|ca|cg|cs|lu|cv|wb|wt|weak"
    r"|L1::(?:evict_normal|evict_unchanged|evict_first|evict_last|no_allocate)"
    r"|L2::(?:evict_normal|evict_first|evict_last|64B|128B|256B)))*)"
    r"(?P<vector>\.v[248]|)\.(?P<type>[busf]\d+)"
)
ASYNC_COPY = re.compile(r"cp\.async\.(?P<level>ca|cg)\.shared\.global(?:\.L2::(?:64|128|256)B)?")
_SCOPE = r"\.(?P<scope>cta|cluster|gpu|sys)"
_CELL = r"\.(?P<type>[bus](?:16|32|64))"
_SPACE = r"(?P<space>\.global|\.shared|)"
SYNC_ACCESS = re.compile(
    rf"(?:(?P<load>ld)\.(?:relaxed|(?P<acquires>acquire))|st\.(?:relaxed|(?P<releases>release))){_SCOPE}{_SPACE}{_CELL}"
)
ATOMIC = re.compile(
    rf"(?:(?P<atom>atom)(?:\.(?:relaxed|(?P<acquires>acquire|acq_rel(?P<both>))|(?P<releases>release)))?"
    rf"|red(?:\.(?:relaxed|(?P<only>release)))?)(?:{_SCOPE})?{_SPACE}\.(?P<op>add|exch|min|max|and|or|xor){_CELL}"
)
FENCE = re.compile(rf"fence\.(?:acq_rel|sc){_SCOPE}|membar\.(?P<level>cta|gl|sys)")
SCOPES = {"cta": 0, "cluster": 1, "gpu": 2, "sys": 3}
MOVE = re.compile(r"mov\.[busf](16|32|64)")
MAX_ACCESS_BYTES = 32
CLUSTER = re.compile(
    r"barrier\.cluster\.(?:arrive(?:\.release|(?P<relaxed>\.relaxed))?|(?P<wait>wait)(?:\.acquire)?)\.aligned"
)

_ASM = re.compile(r"\b(?:asm|__asm__|__asm)\b")
_STRING = re.compile(r'"(?:\\.|[^"\\])*"')
_WORD = re.compile(r'\s+|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|[A-Za-z_]\w*|::|.', re.S)


def supported_instructions() -> list[str]:
    """The names of the instructions with a function each (loads, stores and moves come on top)."""
    return sorted(ARITHMETIC)


@dataclass(frozen=True)
class Operand:
    """%n of an asm statement: its constraint letter, whether it is written, the C++ expression."""

    letter: str
    output: bool
    expression: str

    def value(self) -> str:
        """C++ for reading it, with the type that the letter stands for."""
        if self.letter == "n":
            return f"coc::ptx::immediate({self.expression})"
        return f"coc::ptx::get<'{self.letter}'>({self.expression})"


def replace_asm(text: str) -> str:
    """Replaces every asm statement of a text, in place; line numbers stay as they are."""
    out: list[str] = []
    at = 0
    while match := _ASM.search(text, at):
        out.append(text[at : match.start()])
        end = _statement_end(text, match.end())
        statement = text[match.start() : end]
        out.append(_translate(statement) + "\n" * statement.count("\n"))
        at = end
    return "".join([*out, text[at:]])


def _statement_end(text: str, at: int) -> int:
    depth = 0
    for match in _WORD.finditer(text, at):
        depth += (match[0] == "(") - (match[0] == ")")
        if match[0] == ";" and depth == 0:
            return match.end()
    raise CompileError(f"asm statement without an end: {text[at : at + 60]!r}")


def _translate(statement: str) -> str:
    body = statement[statement.index("(") + 1 : statement.rindex(")")]
    sections = _split(body, ":")
    template = "".join(ast.literal_eval(s) for s in _STRING.findall(sections[0]))
    outputs = _operands(sections[1] if len(sections) > 1 else "", True)
    operands = outputs + _operands(sections[2] if len(sections) > 2 else "", False)
    calls = [_instruction(i, operands) for i in _instructions(template)]
    return "{ " + " ".join(calls) + " }" if calls else "((void)0);"


def _split(text: str, separator: str) -> list[str]:
    """At separators outside of brackets and strings; '::' is not ':'."""
    parts = [""]
    depth = 0
    for match in _WORD.finditer(text):
        token = match[0]
        depth += (token in "([{") - (token in ")]}") if len(token) == 1 else 0
        if depth == 0 and token == separator:
            parts.append("")
        elif depth == 0 and token == "::" and separator == ":":
            parts += ["", ""]
        else:
            parts[-1] += token
    return parts


def _operands(text: str, output: bool) -> list[Operand]:
    found = []
    for part in _split(text, ","):
        match = re.match(r'\s*"([^"]*)"\s*\((.*)\)\s*$', part, re.S)
        if match:
            letter = match[1].lstrip("=+&")
            if letter not in ("h", "r", "l", "f", "d", "n"):
                raise CompileError(f"inline PTX: constraint {match[1]!r} is not supported")
            found.append(Operand(letter, output, f"({match[2]})"))
        elif part.strip():
            raise CompileError(f"inline PTX: operand {part.strip()!r} is not understood")
    return found


def _instructions(template: str) -> list[str]:
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", template, flags=re.S)
    return [" ".join(part.split()) for part in text.split(";") if part.strip()]


# --------------------------------------------------------------------------------- instructions
def _instruction(text: str, operands: Sequence[Operand]) -> str:
    name, _, rest = text.partition(" ")
    fields = [f.strip() for f in re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s][^,]*", rest)]
    if name in ARITHMETIC:
        return _arithmetic(name, fields, operands, text)
    if match := CLUSTER.fullmatch(name):
        if match["wait"]:
            return "coc_cluster_wait(__builtin_LINE());"
        return f"coc_cluster_arrive({int(not match['relaxed'])}, __builtin_LINE());"
    if MOVE.fullmatch(name):
        return _move(name, fields, operands, text)
    if match := MEMORY.fullmatch(name):
        return _memory(match, fields, operands, text)
    if match := SYNC_ACCESS.fullmatch(name):
        return _sync_access(match, fields, operands, text)
    if match := ATOMIC.fullmatch(name):
        return _atomic(match, fields, operands, text)
    if match := FENCE.fullmatch(name):
        scope = match["scope"] or {"gl": "gpu"}.get(match["level"], match["level"])
        return f"coc_fence({SCOPES[scope]});"
    if match := ASYNC_COPY.fullmatch(name):
        return _async_copy(match["level"], fields, operands, text)
    if name == "bar.sync":
        number, *threads = (_value(f, operands, text) for f in fields)
        if not threads:
            return "coc_barrier(0, 0, __builtin_LINE());"
        return f"coc_part_barrier({number}, (unsigned){threads[0]}, __builtin_LINE());"
    if name == "prefetch.global.L2":
        return f"coc::ptx::prefetch({_address(fields[0], '.global', operands, text)});"
    if name == "cp.async.commit_group":
        return "coc_async_commit();"
    if name == "cp.async.wait_group":
        return f"coc_async_wait({_value(fields[0], operands, text)});"
    if name == "cp.async.wait_all":
        return "coc_async_wait(~0u);"
    if name == "mapa.u64":
        pointer, rank = (_value(f, operands, text) for f in fields[1:])
        mapped = f"coc_map_shared((const void*){pointer}, {rank}, __builtin_LINE())"
        return _assign(fields[0], f"(unsigned long long){mapped}", operands, text)
    raise CompileError(f"inline PTX: instruction {name!r} is not supported (in {text!r})")


def _operand(field: str, operands: Sequence[Operand], text: str) -> Operand:
    match = re.fullmatch(r"%(\d+)", field)
    if not match or int(match[1]) >= len(operands):
        raise CompileError(f"inline PTX: {field!r} is no operand (in {text!r})")
    return operands[int(match[1])]


def _value(field: str, operands: Sequence[Operand], text: str) -> str:
    """C++ for a source: an operand, a number, or a special register."""
    if re.fullmatch(r"-?(?:0[xX][0-9a-fA-F]+|\d+)", field):
        return field
    if match := re.fullmatch(r"0[fF]([0-9a-fA-F]{8})", field):
        return f"coc::ptx::bits<float>(0x{match[1]}u)"
    if field.startswith("%%"):
        register = SPECIAL_REGISTERS.get(field[2:])
        if register is None:
            raise CompileError(f"inline PTX: special register {field[2:]!r} is not supported")
        return register
    return _operand(field, operands, text).value()


def _assign(field: str, value: str, operands: Sequence[Operand], text: str) -> str:
    target = _operand(field, operands, text)
    if not target.output:
        raise CompileError(f"inline PTX: {field} is written but is no output (in {text!r})")
    return f"coc::ptx::set<coc::ptx::operand<'{target.letter}'>::type>({target.expression}, {value});"


def _arithmetic(name: str, fields: list[str], operands: Sequence[Operand], text: str) -> str:
    function, letters = ARITHMETIC[name]
    if len(fields) != len(letters):
        raise CompileError(f"inline PTX: {name} takes {len(letters)} operands (in {text!r})")
    for field, letter in zip(fields, letters, strict=True):
        if field.startswith("%") and _operand(field, operands, text).letter != letter:
            raise CompileError(f"inline PTX: {field} must have constraint {letter!r} (in {text!r})")
    sources = ", ".join(_value(f, operands, text) for f in fields[1:])
    return _assign(fields[0], f"coc::ptx::{function}({sources})", operands, text)


def _list(field: str) -> list[str]:
    return [f.strip() for f in field.strip("{}").split(",")]


def _move(name: str, fields: list[str], operands: Sequence[Operand], text: str) -> str:
    if len(fields) != 2:
        raise CompileError(f"inline PTX: mov takes 2 operands (in {text!r})")
    to, source = fields
    width = name[-2:]
    if source.startswith("{"):
        low, high = (_value(f, operands, text) for f in _list(source))
        return _assign(to, f"coc::ptx::pack_b{width}({low}, {high})", operands, text)
    value = _value(source, operands, text)
    if to.startswith("{"):
        low, high = _list(to)
        parts = [f"coc::ptx::half_of_b{width}(coc_whole, {k})" for k in (0, 1)]
        return (
            f"const auto coc_whole = {value}; "
            + _assign(low, parts[0], operands, text)
            + " "
            + _assign(high, parts[1], operands, text)
        )
    return _assign(to, value, operands, text)


def _address(field: str, space: str, operands: Sequence[Operand], text: str) -> str:
    match = re.fullmatch(r"\[\s*(%\d+)\s*(?:\+\s*(-?\w+)\s*)?\]", field)
    if not match:
        raise CompileError(f"inline PTX: address {field!r} is not understood (in {text!r})")
    value = _value(match[1], operands, text)
    if match[2]:
        value = f"({value} + ({match[2]}))"
    return f"coc::ptx::shared_address({value})" if space == ".shared" else value


def _memory(match: re.Match[str], fields: list[str], operands: Sequence[Operand], text: str) -> str:
    count = int(match["vector"][2:] or 1)
    bits = int(match["type"][1:])
    size = bits // 8 * count
    if bits not in (8, 16, 32, 64) or size > MAX_ACCESS_BYTES or len(fields) != 2:
        raise CompileError(f"inline PTX: {text!r} is not supported")
    letters = {"f32": "f", "f64": "d"}.get(match["type"], {8: "h", 16: "h", 32: "r", 64: "l"}[bits])
    cell = f"coc::ptx::operand<'{letters}'>::type"
    loads = match["op"] == "ld"
    pointer, values = (fields[1], fields[0]) if loads else (fields[0], fields[1])
    address = _address(pointer, match["space"], operands, text)
    names = _list(values)
    if len(names) != count:
        raise CompileError(f"inline PTX: {text!r} needs {count} values")
    # an 8-bit value travels in a 16-bit register
    memory = "unsigned char" if bits == 8 and match["type"][0] != "s" else cell
    memory = "signed char" if match["type"] == "s8" else memory
    if loads:
        read_only = int(".nc" in match["hints"])
        call = f"coc::ptx::load<{size}>(coc_v, {address}, {read_only});"
        sets = [_assign(n, f"({cell})coc_v[{i}]", operands, text) for i, n in enumerate(names)]
        return f"{memory} coc_v[{count}]; {call} " + " ".join(sets)
    list_ = ", ".join(f"({memory}){_value(n, operands, text)}" for n in names)
    return f"const {memory} coc_v[] = {{{list_}}}; coc::ptx::store<{size}>({address}, coc_v);"


def _cell(match: re.Match[str]) -> tuple[str, str]:
    """The C++ types of a cell of memory and of the register that it travels in."""
    bits = int(match["type"][1:])
    register = f"coc::ptx::operand<'{ {16: 'h', 32: 'r', 64: 'l'}[bits] }'>::type"
    return (f"std::make_signed<{register}>::type" if match["type"][0] == "s" else register), register


def _sync_access(match: re.Match[str], fields: list[str], operands: Sequence[Operand], text: str) -> str:
    cell, register = _cell(match)
    scope = SCOPES[match["scope"]]
    if len(fields) != 2:
        raise CompileError(f"inline PTX: {text!r} takes an address and a value")
    if match["load"]:
        at = _address(fields[1], match["space"], operands, text)
        call = f"coc::ptx::sync_load<{cell}>({at}, {int(bool(match['acquires']))}, {scope})"
        return _assign(fields[0], f"({register}){call}", operands, text)
    at = _address(fields[0], match["space"], operands, text)
    value = f"({cell}){_value(fields[1], operands, text)}"
    return f"coc::ptx::sync_store<{cell}>({at}, {value}, {int(bool(match['releases']))}, {scope});"


def _atomic(match: re.Match[str], fields: list[str], operands: Sequence[Operand], text: str) -> str:
    cell, register = _cell(match)
    gives = bool(match["atom"])
    if len(fields) != 2 + gives:
        raise CompileError(f"inline PTX: {text!r} takes {2 + gives} operands")
    at = _address(fields[gives], match["space"], operands, text)
    value = f"({cell}){_value(fields[1 + gives], operands, text)}"
    releases = bool(match["releases"] or match["only"]) or match["both"] is not None
    order = f"{int(bool(match['acquires']))}, {int(releases)}, {SCOPES[match['scope'] or 'gpu']}"
    call = f"coc::ptx::atom_{match['op']}<{cell}>({at}, {value}, {order})"
    return _assign(fields[0], f"({register}){call}", operands, text) if gives else f"{call};"


def _async_copy(level: str, fields: list[str], operands: Sequence[Operand], text: str) -> str:
    if len(fields) not in (3, 4):
        raise CompileError(f"inline PTX: cp.async takes 3 or 4 operands (in {text!r})")
    to = re.sub(r"[\[\]\s]", "", fields[0])
    source = _address(fields[1], ".global", operands, text)
    size = _value(fields[2], operands, text)
    if level == "cg" and size.isdigit() and int(size) != 16:
        raise CompileError(f"inline PTX: cp.async.cg copies 16 bytes (in {text!r})")
    given = _value(fields[3], operands, text) if len(fields) == 4 else size
    target = _value(to, operands, text)
    return f"coc::ptx::async_copy((unsigned){target}, {source}, {size}, {given});"
