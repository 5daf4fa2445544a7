# SPDX-License-Identifier: Apache-2.0
"""Writes what type checkers and editors see of functions that are made at run time, as stubs (``.pyi``) in the package.

    python docs/make_stubs.py [--check]

Functions of nd and sym, and methods, follow from the operator records; those of np and npx from their definitions. A module
takes the names of its stub ``if TYPE_CHECKING``; so what it defines in Python stays as it is. ``--check`` writes nothing and
exits with 1 if a stub is not current.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import hybridgpu as mx  # noqa: E402
from hybridgpu.core.dtypes import DType  # noqa: E402
from hybridgpu.ndarray import methods as nd_methods  # noqa: E402
from hybridgpu.ops.functions import OperatorSignature  # noqa: E402
from hybridgpu.ops.numpy import NP, NPX  # noqa: E402
from hybridgpu.ops.numpy.application import falls_back, is_on_host  # noqa: E402
from hybridgpu.ops.numpy.documentation import argument, record_of, signature_of  # noqa: E402
from hybridgpu.ops.params import REQUIRED, Bool, Enum  # noqa: E402
from hybridgpu.ops.record import OPERATORS, Operator  # noqa: E402

PACKAGE = ROOT / "hybridgpu"
HEAD = '''\
# SPDX-License-Identifier: Apache-2.0
# Made from records and definitions by `python docs/make_stubs.py`; do not edit.
"""{doc}"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, overload

import numpy
from numpy.typing import ArrayLike

from hybridgpu.context import Context
from {module} import {name}

_Array: TypeAlias = {name}
_DType: TypeAlias = str | type[Any] | numpy.dtype[Any]
_Device: TypeAlias = Context | str

'''
#: kind of operand -> (its module, its class)
ARRAYS = {
    "nd": ("hybridgpu.ndarray.ndarray", "NDArray"),
    "sym": ("hybridgpu.symbol.symbol", "Symbol"),
    "np": ("hybridgpu.ndarray.numpy.array", "ndarray"),
    "sym.np": ("hybridgpu.symbol.numpy.symbol", "_Symbol"),
}


# -- one function


def spelled(kind: str) -> str:
    """A type of ``ARGUMENTS`` or of a record in a stub."""
    return re.sub(r"\b(Array|DType|Device)\b", r"_\1", kind)


def default(value: Any) -> str:
    """A default as text."""
    if isinstance(value, DType):
        return repr(value.name)
    simple = value is None or type(value) in (bool, int, float, str, tuple)
    return repr(value) if simple and repr(value) not in ("inf", "-inf", "nan") else "..."


def first_line(text: str | None) -> str:
    """The first line of a docstring, as one."""
    line = (inspect.cleandoc(text or "").splitlines() or [""])[0].strip()
    return line.replace("\\", "\\\\").replace('"""', "'''") + (" " if line.endswith('"') else "")


def function(name: str, arguments: list[str], result: str, doc: str | None, decorators: str = "") -> str:
    """A definition."""
    line = first_line(doc)
    body = f'\n    """{line}"""\n' if line else " ...\n"
    return f"{decorators}def {name}({', '.join(arguments)}) -> {result}:{body}"


def always_given(op: Operator) -> set[str]:
    """Inputs that every call needs: ``optional`` leaves out none of them, whatever truth values and words it is given."""
    if op.optional is None:
        return set(op.inputs)
    needed = set(op.inputs)
    required = {n: p for n, p in op.params.items() if p.default is REQUIRED}
    tried: list[dict[str, Any]] = [{}, *(s.attributes for s in op.samples)]
    for n, p in op.params.items():
        values = (True, False) if isinstance(p, Bool) else p.choices if isinstance(p, Enum) else ()
        tried += [{**s, n: v} for s in ({}, *(s.attributes for s in op.samples[:1])) for v in values]
    for attributes in tried:
        if required.keys() <= attributes.keys():
            needed &= set(op.optional(op.parse(attributes)))
    return needed


def of_record(name: str, op: Operator, symbols: bool, method: bool = False) -> str:
    """The function or method that a record makes."""
    needed = set() if symbols or op.binder is not None else always_given(op)
    found = ["self"] if method else []
    if op.variadic:
        found.append(f"*{op.inputs[0][1:]}: _Array")
    free = True  # so far, everything needs a value
    for n in () if op.variadic else op.inputs[method:]:
        free = free and n in needed
        found.append(f"{n}: _Array" if free else f"{n}: _Array | None = None")
    for n, p in op.params.items():
        if n == op.count_param:
            continue
        kind = spelled(p.annotation)
        if p.default is REQUIRED and (free or op.variadic):
            found.append(f"{n}: {kind}")
        else:
            free = False
            found.append(f"{n}: {kind} = {'...' if p.default is REQUIRED else default(p.default)}")
    rest = ["**attributes: Any"] if op.python is not None else []  # of a class of the user's
    more = ["name: str | None = None", *(["attr: dict[str, str] | None = None"] if symbols else [])]
    if not op.inputs and "ctx" not in op.params:
        more.insert(0, "ctx: _Device | None = None")
    found += [*([] if op.variadic else ["*"]), "out: Any = None", *more, *rest]
    count = op.outputs if op.visible is None else op.visible
    result = "_Array" if symbols or count == 1 else "list[_Array]" if isinstance(count, int) else "Any"
    return function(name, found, result, op.doc)


def of_signature(name: str, signature: inspect.Signature, kinds: Callable[[inspect.Parameter], str], doc: Any) -> str:
    """A function of Python; ``kinds`` gives the types of its arguments."""
    result = str(signature.return_annotation)
    return function(name, given(signature, kinds), RESULTS.get(result, result), doc)


RESULTS = {"Any": "_Array", "<class 'inspect._empty'>": "_Array", "ArrayOrNumber": "Any", "ArrayOrList": "Any"}


def given(signature: inspect.Signature, kinds: Callable[[inspect.Parameter], str]) -> list[str]:
    """The arguments of a signature; keywords without names only where there is nothing else to go by."""
    found, star = [], False
    for p in signature.parameters.values():
        if p.kind is p.VAR_KEYWORD:
            continue
        kind = spelled(kinds(p) or "Any")
        word = type(p.default).__name__
        if word in ("bool", "str") and not re.search(
            rf"\b({word}|_DType|Any)\b", kind
        ):  # the table of arguments tells the usual kind
            kind += f" | {word}"
        if p.kind is p.KEYWORD_ONLY and not star:
            found.append("*")
            star = True
        star = star or p.kind is p.VAR_POSITIONAL
        value = "" if p.default is p.empty else f" = {default(p.default)}"
        found.append(f"{'*' * (p.kind is p.VAR_POSITIONAL)}{p.name}: {kind}{value}")
    return found


def of_definition(name: str, table: dict[str, Callable[..., Any]], symbols: bool) -> str:
    """A function of np or npx."""
    definition, short = table[name], name.rpartition(".")[2]
    if hasattr(definition, "operator"):
        return of_record(short, definition.operator, symbols)
    signature = signature_of(definition)
    if is_on_host(definition):
        rest = given(signature, lambda p: "Any")
        spread = [f"**{p.name}: Any" for p in signature.parameters.values() if p.kind is p.VAR_KEYWORD]
        return function(short, rest + spread, "Any", definition.__doc__)
    record = record_of(name, table)
    host = falls_back(definition) and not symbols  # which also takes what NumPy does, and gives what it does

    def kinds(p: inspect.Parameter) -> str:
        kind = argument(p, record)[0]
        return re.sub(r"\bArray\b", "Array | ArrayLike", kind) if host and p.name != "out" else kind

    doc = definition.__doc__
    if record is not None and (doc or "").startswith("numpy."):
        doc = record.doc
    names = list(signature.parameters)[:2]
    if not symbols and not host and names[0] == "x" and record is not None and record.same_shape:  # or of a number
        rest = given(signature, kinds)[1:]
        one = function(short, ["x: _Array", *rest], "_Array", "", "@overload\n")
        return one + function(short, ["x: float", *rest], "float", doc, "@overload\n")
    if not symbols and not host and names == ["x1", "x2"]:
        rest = given(signature, kinds)[2:]
        pairs = [("_Array", "_Array | float", "_Array"), ("float", "_Array", "_Array"), ("float", "float", "float")]
        return "".join(
            function(short, [f"x1: {a}", f"x2: {b}", *rest], r, doc if r == "float" else "", "@overload\n")
            for a, b, r in pairs
        )
    result = str(signature.return_annotation)
    if not host:
        result = re.sub(r"([\[ ])Any\b", r"\1_Array", result)
    result = RESULTS.get(result, result)
    return function(short, given(signature, kinds), result.replace("_Array", "Any") if host else result, doc)


# -- files

#: what namespaces have beside their functions: a function of Python; whatever ``mx.image`` has
BESIDE = {
    "numpy_extension.random": "def seed(seed: int, ctx: _Device = 'all') -> None: ...\n",
    "numpy_extension.image": "def __getattr__(name: str) -> Any: ...\n",
}


def stub(kind: str, doc: str, parts: Iterable[str]) -> str:
    """A file."""
    module, name = ARRAYS[kind]
    return HEAD.format(doc=doc, module=module, name=name) + "".join(parts)


def namespace(space: Any, symbols: bool) -> Iterator[str]:
    """Functions of a namespace of operators; those that are written in Python are imported."""
    for name in sorted(n for n in dir(space) if not n.startswith("_")):
        value = getattr(space, name)
        signature = getattr(value, "__signature__", None)
        if isinstance(signature, OperatorSignature):
            yield of_record(name, signature._op, symbols)
        elif getattr(sys.modules[value.__module__], name, None) is value:
            yield f"from {value.__module__} import {name} as {name}\n"
        else:
            yield of_signature(name, inspect.signature(value), lambda p: argument(p, None)[0], value.__doc__)


def top(space: Any, symbols: bool) -> Iterator[str]:
    """Functions of nd or sym that no ``def`` has under their names."""
    for name in sorted(n for n in dir(space) if not n.startswith("_")):
        value = getattr(space, name)
        signature = getattr(value, "__signature__", None)
        if isinstance(signature, OperatorSignature):
            yield of_record(name, signature._op, symbols)
        elif inspect.isfunction(value) and inspect.unwrap(value).__code__.co_name != name and not symbols:
            yield of_signature(name, inspect.signature(value), lambda p: "Array | float", value.__doc__)


def samplers(module: Any, symbols: bool) -> Iterator[str]:
    """Functions of ``nd.random`` or ``sym.random``."""
    for name in sorted(n for n in dir(module) if not n.startswith("_")):
        value = getattr(module, name)
        signature = getattr(value, "__signature__", None)
        if isinstance(signature, OperatorSignature):
            yield of_record(name, signature._op, symbols)
        else:
            yield of_signature(name, inspect.signature(value), lambda p: argument(p, None)[0], value.__doc__)


def members(cls: type, symbols: bool) -> str:
    """The methods of arrays or Symbols that records make, and those that are made at first use."""
    made = {op.method: op for op in OPERATORS.values() if op.method}
    in_python = {"split_v2": (mx.sym if symbols else mx.nd).split_v2, **({} if symbols else nd_methods._WRITTEN)}
    text = f'class OperatorMethods:\n    """Methods of :class:`{cls.__name__}` that operators are."""\n\n    __slots__ = ()\n\n'
    for name in sorted({*made, *in_python}):
        if any(getattr(vars(c).get(name), "__qualname__", "") == f"{c.__name__}.{name}" for c in cls.__mro__):
            continue
        if name in in_python:
            arguments = given(inspect.signature(in_python[name]), lambda p: "Any")
            method = function(name, ["self", *arguments[1:]], "Any", in_python[name].__doc__)
        else:
            method = of_record(name, made[name], symbols, method=True)
        text += "".join(f"    {line}\n" for line in method.splitlines())
    return text


def functions(table: dict[str, Callable[..., Any]], part: str, symbols: bool) -> Iterator[str]:
    """Functions of np, npx, or of a part of them."""
    prefix = f"{part}." if part else ""
    for name in sorted(table):
        if name.startswith(prefix) and "." not in name[len(prefix) :]:
            yield of_definition(name, table, symbols)


def stubs() -> dict[Path, str]:
    """All of them."""
    found = {}
    for kind, folder, space, cls in (("nd", "ndarray", mx.nd, mx.nd.NDArray), ("sym", "symbol", mx.sym, mx.sym.Symbol)):
        symbols = kind == "sym"
        found[f"{folder}/functions.pyi"] = stub(kind, f"Functions of ``mx.{kind}``.", top(space, symbols))
        for part in ("contrib", "linalg", "image"):
            parts = namespace(getattr(space, part), symbols)
            found[f"{folder}/{part}.pyi"] = stub(kind, f"Functions of ``mx.{kind}.{part}``.", parts)
        found[f"{folder}/samplers.pyi"] = stub(
            kind, f"Functions of ``mx.{kind}.random``.", samplers(space.random, symbols)
        )
        found[f"{folder}/operator_methods.pyi"] = stub(
            kind, f"Methods of ``mx.{kind}.{cls.__name__}``.", [members(cls, symbols)]
        )
    for kind, prefix in (("np", ""), ("sym.np", "symbol/")):
        symbols = kind == "sym.np"
        shown = "mx.sym." if symbols else "mx."
        for folder, table, short in (("numpy", NP, "np"), ("numpy_extension", NPX, "npx")):
            for part in ("", "random", "linalg" if table is NP else "image"):
                space = f"{prefix.replace('/', '.')}{folder}.{part}"
                doc = f"Functions of ``{shown}{short}{'.' * bool(part)}{part}``."
                found[f"{prefix}{folder}/{part or 'functions'}.pyi"] = stub(
                    kind, doc, [*functions(table, part, symbols), BESIDE.get(space, "")]
                )
    return {PACKAGE / name: text for name, text in found.items()}


def main() -> int:
    """Write the stubs, or check them."""
    old = [path for path, text in stubs().items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in old:
        if "--check" not in sys.argv:
            path.write_text(stubs()[path], encoding="utf-8")
        print(
            f"{path.relative_to(ROOT)}{' is not current: run python docs/make_stubs.py' if '--check' in sys.argv else ''}"
        )
    return int("--check" in sys.argv and bool(old))


if __name__ == "__main__":
    sys.exit(main())
