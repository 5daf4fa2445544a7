# SPDX-License-Identifier: Apache-2.0
"""The record of one kernel, and the C text of scalars and index expressions.

Nothing here is more than a scalar expression: loops, loads and stores are written in the files of
``templates/``, device functions in ``kernels/``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ...core.dataclass import dataclass, field
from ...core.dtypes import DType
from ..ir.dim_texts import literal_text
from ..ir.dims import Dim
from ..ir.dynamic_constants import DrawNumber, DynamicFloat, LastIndex
from ..ir.graph import Node
from ..ir.indexing import Atom, Expr, IndirectIndex, Quotient, Remainder, Var, of_var
from ..primitives import TABLE
from ..size_buckets import worth_argument
from ..target import Target
from .choice import Choice
from .runtime_args import OPAQUE_ZERO, RuntimeArgs
from .scalar import Scalar, ScalarProgram, Store, is_combine

if TYPE_CHECKING:
    from typing_extensions import Self  # which checkers know without the package; in typing from Python 3.11 on

    from .matmul.config_cuda import MatmulConfig
    from .persistent.grid_loops import Loop

__all__ = [
    "COMBINE",
    "CWriter",
    "FlatFields",
    "Kernel",
    "Launch",
    "Pointer",
    "StageableColumns",
    "Statement",
    "TemplateFields",
]

#: reduction -> its combiner in reduce.h
COMBINE = {"sum": "Sum", "prod": "Prod", "amax": "Max", "amin": "Min", "argmax": "ArgMax", "argmin": "ArgMin"}


@dataclass(frozen=True)
class Pointer:
    """A pointer parameter: its C name, element type, and whether the kernel writes through it.

    What is ``aliased`` is read through one pointer and written through another.
    """

    name: str
    dtype: DType
    written: bool = False
    aliased: bool = False

    @property
    def type(self) -> str:
        """The type that it points to."""
        return f"{'' if self.written else 'const '}{self.dtype.storage}"

    @property
    def declaration(self) -> str:
        return f"{self.type}* {'' if self.aliased else 'HG_RESTRICT '}{self.name}"


@dataclass(frozen=True)
class Statement:
    """``const TYPE name = text;``, or a store when ``type`` is empty.

    Attributes:
        variables: the loop variables that it names, if the writer knows: of others no definition is needed.
    """

    type: str
    name: str
    text: str
    variables: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return f"const {self.type} {self.name} = {self.text};" if self.type else f"{self.name} = {self.text};"


@dataclass(frozen=True)
class Launch:
    """The launch of a CUDA kernel.

    The grid has ``ceil(extents[extent] * scale / per_block)`` blocks of ``threads`` threads. ``limit`` caps
    the blocks that a multiprocessor gets (the kernel's loop takes the rest), 0 for none. A ``cluster`` of
    blocks takes the place of each.
    """

    threads: int
    extent: int
    scale: int
    per_block: int
    limit: int = 0
    shared: int = 0  #: bytes of dynamic shared memory
    cooperative: bool = False  #: all blocks live at once, no more than the device holds
    cluster: int = 1  #: blocks that share the work of one


@dataclass(frozen=True, kw_only=True)
class TemplateFields:
    """Fields of a kernel that its template reads as ``k``: numbers and statements. Each template has a record of its own.

    Attributes:
        template: the file in ``templates/``.
        pointers: parameters: what is loaded, then what is stored.
    """

    template: ClassVar[str] = ""
    pointers: Sequence[Pointer]

    def with_aliased(self, names: set[str]) -> Self:
        """The same, but pointers of these names make no promises: results are written over operands."""
        return replace(self, pointers=[replace(p, aliased=p.aliased or p.name in names) for p in self.pointers])

    @property
    def uses_pool(self) -> bool:
        """True if the text declares shared memory."""
        return False

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory that the text declares, at most."""
        return 0


@dataclass(frozen=True, kw_only=True)
class FlatFields(TemplateFields):
    """A kernel whose threads compute an element (or some neighbours) each: blocks may have any number of ``threads``."""

    threads: int


@dataclass(frozen=True)
class StageableColumns:
    """The columns of the right operand ``node`` that a block of a product reads, if they lie in one piece.

    Attributes:
        line: bytes of a column, which follow each other.
        nbytes: those of all columns that a block computes.
    """

    node: Node
    line: int
    nbytes: int


@dataclass(eq=False)
class Kernel:
    """A kernel before its text is written: the numbers and statements that a template fills in.

    Attributes:
        kind: map, foreach, reduce, rows, matmul, conv, scatter or graph; loop before it is part of a graph.
        summary: short name made of the operators.
        fields: what the template sees as ``k``.
        inputs, outputs: nodes in memory behind the pointer parameters, in order.
        extents: values of the run-time extents, in parameter order.
        runtime_args: dynamic extents, strides and offsets besides.
        headers: files of ``kernels/`` that it needs.
        members: the primitives it computes.
        launch: how CUDA starts it.
        choice: what the schedule decided, for reports.
        bytes_read, bytes_written: traffic of one run.
        in_place: the operands and results that may share memory (see ``in_place``).
        elements_read: elements that one run reads of each input (CUDA).
        reread_bytes: bytes that it reads a second time, because nothing on chip has room for them (CUDA).
        matmul_config: how a product is computed (CUDA).
        stageable_columns: what blocks of a product may copy into shared memory before they begin (CUDA).
        loop: what one of kind loop runs again and again (schedule/persistent/grid_loops.py).
        compile_cost: how long the host's compiler takes for it, in fiftieths of a second.
        chunk_multiple: CPU: what chunks of its outermost loop, which threads share, are multiples of; 0: it runs as a whole.
        library: CPU: functions of a unit of their own that it calls, as :attr:`KernelInfo.library`.
        most_chunks: CPU: chunks that it has states for, which it merges itself; 0: chunks have nothing to do with each other.
    """

    kind: str
    summary: str
    fields: TemplateFields
    inputs: list[Node]
    outputs: list[Node]
    extents: tuple[int, ...]
    headers: tuple[str, ...]
    members: list[Node]
    launch: Launch | None = None
    choice: Choice = Choice()
    bytes_read: int = 0
    bytes_written: int = 0
    in_place: Sequence[tuple[Node, Node]] = ()
    elements_read: dict[Node, int] = field(default_factory=dict)
    reread_bytes: int = 0
    matmul_config: MatmulConfig | None = None
    stageable_columns: StageableColumns | None = None
    loop: Loop | None = None
    runtime_args: RuntimeArgs = field(default_factory=RuntimeArgs)
    compile_cost: int = 2
    chunk_multiple: int = 0
    most_chunks: int = 0
    library: tuple[str, ...] = ()

    @property
    def arguments(self) -> tuple[int, ...]:
        """Every runtime argument, in parameter order."""
        return (*self.extents, *self.runtime_args.values.values())


def literal(value: Any, dtype: DType) -> str:
    """A C literal of ``dtype``'s compute type."""
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.is_float:
        if math.isnan(value):
            return f"hg::nan<{dtype.compute}>()"
        if math.isinf(value):
            return f"{'-' if value < 0 else ''}hg::infinity<{dtype.compute}>()"
        single = dtype.compute == "float"
        text = str(np.float32(value)) if single else repr(float(value))
        if "." not in text and "e" not in text:
            text += ".0"
        text += "f" if single else ""
    else:
        text = str(int(value))
        suffix = {"long long": "ll", "unsigned long long": "ull", "unsigned int": "u"}.get(dtype.compute, "")
        if value == -(1 << 63):
            return "(-9223372036854775807ll - 1)"
        if value == -(1 << 31) and not suffix:
            return "(-2147483647 - 1)"
        text += suffix
        if dtype.size < 4:
            return f"({dtype.compute}){text}"
    return f"({text})" if text.startswith("-") else text


@dataclass
class CWriter:
    """C printer of one kernel: names scalars and pointers, prints expressions."""

    target: Target
    program: ScalarProgram
    names: dict[Scalar, str] = field(default_factory=dict)
    pointers: dict[Node, str] = field(default_factory=dict)
    columns: dict[Node, str] = field(default_factory=dict)  #: pointers that a table holds (cpu/rolled_loops.py)
    renamed: dict[Var, str] = field(default_factory=dict)
    tile_elements: dict[Scalar | Store, str] = field(
        default_factory=dict
    )  #: loads from and stores to a copy: its element
    count: int = 0  #: names given to scalars
    printed: set[str] = field(default_factory=set)  #: loop variables in what was printed since the last statement
    bit_copied: set[Scalar] = field(default_factory=set)  #: those held as they are in memory
    result_prefix: str = "y"  #: what names of pointers to results begin with
    runtime_args: RuntimeArgs = field(default_factory=RuntimeArgs)
    allows_dynamic: bool = (
        False  #: the kernel takes runtime arguments besides its extents: those of the CPU, and some of CUDA
    )

    split_axis: Var | None = None  #: the outermost variable: something else begins at values that are arguments
    dynamic_axes: frozenset[str] = frozenset()  #: variables whose extents are arguments, and with them strides
    inner: Var | None = None  #: the innermost one then
    literal_axes: frozenset[str] = frozenset()  #: those of them whose extents are literals all the same
    delinearized_axes: tuple[Var, ...] = ()  #: count rows of several axes, by extents that are arguments

    def __post_init__(self) -> None:
        self.allows_dynamic = self.allows_dynamic or self.target.device.loop_nests
        for s in self.program.scalars:
            if s.op == "load":
                assert s.node is not None
                self.pointers.setdefault(s.node, f"x{len(self.pointers)}")
        self.name_scalars(self.program.scalars)

    def name_scalars(self, scalars: Sequence[Scalar]) -> None:
        """Give each scalar that has none a name: its literal, or the next one free."""
        for s in scalars:
            if s in self.names:
                continue
            if s.op == "const":
                if self.allows_dynamic and isinstance(s.value, DynamicFloat):
                    self.names[s] = self.dynamic_float(s)
                elif self.allows_dynamic and (isinstance(s.value, LastIndex) or type(s.value) is Dim):
                    self.names[s] = f"({s.dtype.compute}){self.runtime_args.by_value('last', s.value)}"
                elif self.allows_dynamic and isinstance(s.value, DrawNumber):
                    self.names[s] = f"({s.dtype.compute}){self.runtime_args.by_value('draw', s.value)}"
                else:
                    self.names[s] = literal(s.value, s.dtype)
            else:
                self.names[s] = f"v{self.count}"
                self.count += 1

    def dynamic_float(self, s: Scalar) -> str:
        """C text of a number that follows from an extent, whose bits are an argument."""
        name, compute = self.runtime_args.dynamic_float(s.value, s.dtype), s.dtype.compute
        text = f"hg::FloatArgument<{compute}>::from_bits({name})"
        if not self.target.device.loop_nests:
            return text
        self.runtime_args.lines[f"const {compute} {name}_ = {text};"] = None
        return f"{name}_"

    def reset_names(self) -> None:
        """Begin to name scalars anew."""
        self.names.clear()
        self.count = 0

    @property
    def inputs(self) -> list[Node]:
        return list(self.pointers)

    def pointer_list(self, outputs: Sequence[Node]) -> list[Pointer]:
        """Parameters: what is loaded, then what is stored."""
        loaded = [Pointer(name, node.dtype) for node, name in self.pointers.items()]
        return loaded + [Pointer(f"y{k}", node.dtype, True) for k, node in enumerate(outputs)]

    # -- index expressions

    def expr(self, e: Expr) -> str:
        """C text of an index expression."""
        parts: list[str] = []
        along = {self.inner.name, "at"} & {v.name for v in e.vars} if self.dynamic_axes and self.inner else None
        row = self.inner.extent if along and self.inner else 1  # elements that neighbours in such rows are apart
        rest = e.const
        near = min((c for atom, c in e.terms if self.is_delinearized(atom)), default=0)
        for k, (atom, c) in enumerate(sorted(e.terms, key=lambda t: -abs(t[1]))):
            text = self.atom(atom)
            if (
                rest
                and worth_argument(c)
                and isinstance(atom, Var)
                and atom.name in self.dynamic_axes & self.literal_axes
                and rest % c == 0
            ):
                text, rest = f"({text} {'-' if rest < 0 else '+'} {abs(rest) // c})", 0  # where a part begins
            far = near and (c > near or (k == 0 and self.is_delinearized(atom)))
            known = type(c) is Dim and self.allows_dynamic  # of another length it is another number
            if worth_argument(c) and (far or known or (self.is_dynamic(atom) and c != row)):
                what = f"{self.atom(atom)}_stride" if isinstance(atom, Var) else "stride"
                text = f"{text} * {self.runtime_args.by_value(what, c)}"
            elif c == -1:
                text = f"-{text}"
            elif c != 1:
                text = f"{text} * {c}" if c > 0 else f"-{text} * {-c}"
            parts.append(text)
        if rest or not parts:
            parts.append(str(rest))
        return " + ".join(parts).replace("+ -", "- ")

    def address_text(self, e: Expr, terms: Sequence[tuple[Atom, int]] | None = None, matrix: bool = False) -> str:
        """C text of an index expression in memory, of one element or where a ``matrix`` begins; of some ``terms`` of it, if
        others are elsewhere.

        Where it begins, if that is beyond all that it walks, is an argument: a slice of an outer axis lies further behind in a
        larger batch, and every slice has the same text. So is how far a part of a join or pad is moved.
        """
        shifted = (
            self.split_axis is not None
            and worth_argument(abs(e.const))
            and self.split_axis.name in (v.name for v in e.vars)
        )
        beyond = e.const > 0 and e.const > e.high - e.low
        printed = e if terms is None else Expr(tuple(terms), e.const)
        if not self.allows_dynamic or not (e.terms or matrix) or not e.affine or not (beyond or shifted):
            return self.expr(printed)
        start = self.runtime_args.by_value("start", e.const)
        return f"{self.expr(Expr(printed.terms))} + {start}" if printed.terms else start

    def place(self, pointer: str, offset: Expr, renamed: dict[Var, str]) -> str:
        """C text of the address of ``offset`` behind ``pointer``, where some variables go by other names."""
        self.renamed = renamed
        text = address(pointer, self.address_text(offset))
        self.renamed = {}
        return text

    def extent(self, v: Var) -> str:
        """C text of the extent of ``v``."""
        dynamic = v.name in self.dynamic_axes and v.name not in self.literal_axes and worth_argument(v.extent)
        return self.runtime_args.extent(v) if dynamic else literal_text(v.extent)

    def boundary(self, value: int) -> str:
        """C text of a value of the outermost variable at which something else begins."""
        dynamic = (self.split_axis is not None or type(value) is Dim) and worth_argument(value)
        return self.runtime_args.by_value("boundary", value) if dynamic else literal_text(value)

    def is_dynamic(self, atom: Any) -> bool:
        """True for a variable whose extent is an argument, and for a part of one."""
        if isinstance(atom, (Quotient, Remainder)):
            return bool(self.dynamic_axes) and all(v.name in self.dynamic_axes for v in atom.expr.vars)
        return isinstance(atom, Var) and atom.name in self.dynamic_axes

    def is_delinearized(self, atom: Any) -> bool:
        """True for a part of the position of a row, by an extent that is an argument."""
        if not isinstance(atom, (Quotient, Remainder)):
            return False
        return worth_argument(atom.by) and any(atom.expr == of_var(v) for v in self.delinearized_axes)

    def atom(self, atom: Any) -> str:
        if isinstance(atom, Var):
            name = self.renamed.get(atom, atom.name)
            self.printed.add(name)
            return name
        if isinstance(atom, IndirectIndex):
            return f"(Index){self.names[atom.value]}"
        inner = self.expr(atom.expr)
        if self.is_delinearized(atom):
            by = self.runtime_args.by_value("extent", atom.by)
            by = by if self.target.name == "cpu" else f"(Index){by}"
        else:
            by = literal_text(atom.by)
        if len(atom.expr.terms) + bool(atom.expr.const) > 1:
            inner = f"({inner})"
        return f"{inner} / {by}" if isinstance(atom, Quotient) else f"({inner} % {by})"

    def conditions(self, s: Scalar) -> str:
        """C text of a scalar's conditions."""
        tests = []
        # of a masked load whose mask it knows, GCC 12 makes a load of the whole vector: past the end of an array
        nil = OPAQUE_ZERO if s.op == "load" and self.target.name == "cpu" else ""
        for c in s.conditions:
            if self.split_axis is not None and c.expr.terms == ((self.split_axis, 1),):
                begin, end = -c.expr.const, c.bound - c.expr.const
                tests += [f"{self.atom(self.split_axis)} >= {self.boundary(begin)}"] if c.expr.low < 0 else []
                tests += [f"{self.atom(self.split_axis)} < {self.boundary(end)}"] if c.expr.high >= c.bound else []
                continue
            e, before = self.expr(c.expr), len(tests)
            if c.expr.low < 0:
                tests.append(f"{e} >= {nil or 0}")
            if c.expr.high >= c.bound:
                # a constant on the left is easier to read on the right
                tests.append(f"{e} < {c.bound}{nil and f' + {nil}'}")
            self.runtime_args.uses_opaque_zero |= bool(nil) and len(tests) > before
        return " && ".join(tests) or "true"

    # -- scalars

    def pointer(self, s: Scalar) -> str:
        """The pointer to the array of a load."""
        assert s.node is not None
        return self.columns.get(s.node) or self.pointers[s.node]

    def load_text(self, s: Scalar) -> str:
        """C text of a load through its pointer."""
        assert s.offset is not None
        if s in self.tile_elements:
            return self.tile_elements[s]
        text = f"{self.pointer(s)}[{self.address_text(s.offset)}]"
        if s.conditions:
            if s in self.bit_copied:
                return f"{self.conditions(s)} ? {self.as_stored(s, text)} : (unsigned short)0"
            zero = literal(0, s.dtype)
            value = f"({s.dtype.compute}){text}" if s.dtype.compute != s.dtype.storage else text
            return f"{self.conditions(s)} ? {value} : {zero}"
        return self.as_stored(s, text)

    def store_address(self, k: int, store: Store) -> str:
        """C text of where ``store``, the ``k``-th of the kernel, writes."""
        return self.tile_elements.get(store) or f"{self.result_prefix}{k}[{self.address_text(store.offset)}]"

    def stored_value(self, store: Store, target: str) -> str:
        """C text of what ``store`` writes to ``target``."""
        value, node = self.names[store.value], store.node
        if not store.scattered or node.prim.name == "scatter_set":
            return value
        expr = TABLE["add"].expr
        assert callable(expr)
        return expr([node.dtype] * 2, node.dtype).format(target, value, T=node.dtype.compute)

    def statement(self, s: Scalar) -> Statement | None:
        """The statement that computes ``s``; None for constants and reductions."""
        if s.op in ("const", "reduction"):
            return None
        self.printed.clear()
        if s.op == "load":
            text = self.load_text(s)
        elif s.op == "index":
            assert s.offset is not None
            position = self.expr(s.offset)
            text = f"({s.dtype.compute})" + (position if position.isidentifier() else f"({position})")
        elif s.op == "predicate":
            text = self.conditions(s)
        elif s.node is None:
            text = f"{self.names[s.args[0]]} ? {self.select_arm(s, 1)} : {self.select_arm(s, 2)}"
        else:
            text = self.arithmetic(s)
        return Statement(self.c_type(s), self.names[s], text, self.variables())

    def variables(self) -> frozenset[str]:
        """The loop variables in what was printed since this was asked before, or a statement begun."""
        names = frozenset(self.printed)
        self.printed.clear()
        return names

    def store(self, target: str, value: str) -> Statement:
        """A store to ``target``, which was just printed."""
        return Statement("", target, value, self.variables())

    def c_type(self, s: Scalar) -> str:
        """The C type that holds ``s``."""
        return "unsigned short" if s in self.bit_copied else s.dtype.compute

    def as_stored(self, s: Scalar, text: str) -> str:
        """C text of the element ``text`` in memory that ``s`` is read from or stored to."""
        return f"{text}.bits" if s in self.bit_copied else text

    def select_arm(self, s: Scalar, k: int) -> str:
        """One of the two values that a choice is between."""
        arg = s.args[k]
        as_bits = s in self.bit_copied and arg.op == "const"
        return f"{s.dtype.storage}({self.names[arg]}).bits" if as_bits else self.names[arg]

    def arithmetic(self, s: Scalar) -> str:
        """A primitive's expression over the names of its operands."""
        assert s.node is not None
        if is_combine(s):  # two states of a reduction that is written out
            first, second = (self.names[a] for a in s.args)
            return f"hg::{COMBINE[s.node.prim.name]}<{s.dtype.compute}>::merge({first}, {second})"
        expr = _expression(s)
        assert expr, f"{s.node.prim.name} has no scalar expression"
        if self.target.name == "cpu" and expr == _EXP and s.dtype.compute == "float" and _below_maximum(s.args[0]):
            expr = "hg::exp_not_above_0({0})"
        return expr.format(*(self.names[a] for a in s.args), T=s.dtype.compute)


_EXP = "hg::exp({0})"


def _below_maximum(s: Scalar) -> bool:
    """True if ``s`` is an element minus the largest of its row: no number above 0."""
    if s.op != "compute" or s.node is None or s.node.prim.name != "sub":
        return False
    element, most = s.args
    return (
        most.op == "reduction" and most.node is not None and most.node.prim.name == "amax" and most.args == (element,)
    )


def address(pointer: str, offset: str) -> str:
    """C text of ``pointer`` moved by ``offset`` elements."""
    return pointer if offset == "0" else f"{pointer} + {offset if offset.isidentifier() else f'({offset})'}"


def unravel(variables: Sequence[Var], source: str) -> list[Statement]:
    """Definitions of the variables from their row-major position ``source``; the first one is the quotient."""
    out, step = [], 1
    inside = f"({source})" if " " in source else source
    for k, v in reversed(list(enumerate(variables))):
        text = f"{inside} / {step}" if step > 1 else inside if k else source
        text = f"{text} % {v.extent}" if k else text
        out.append(Statement("Index", v.name, f"{text} + {v.start}" if v.start else text))
        step *= v.extent
    return out[::-1]


def variables_of(statements: Iterable[Statement]) -> frozenset[str]:
    """The loop variables that statements name: others need not be defined."""
    return frozenset[str]().union(*(s.variables for s in statements))


def summary(nodes: Sequence[Node]) -> str:
    """A short name for a kernel: its operators in order, repeated ones once, of many the first two and the last."""
    seen: dict[str, None] = {}
    for node in nodes:
        word = (node.prov.op if node.prov else node.prim.name).strip("_").lower()
        word = word.removeprefix("npi_").removeprefix("npx_").removeprefix("np_")
        seen[word.replace("broadcast_", "").replace("elemwise_", "").replace("_scalar", "")] = None
    words = list(seen)
    if len(words) > 3:
        words = [*words[:2], words[-1]]
    return "_".join(words) or "kernel"


def headers(program: ScalarProgram) -> tuple[str, ...]:
    """The device headers that the scalars of ``program`` call for."""
    includes: dict[str, None] = {}
    dtypes = {s.dtype for s in program.scalars} | {s.node.dtype for s in program.stores}
    if any(d.is_half for d in dtypes):
        includes["half.h"] = None
    if any(s.op == "compute" and s.node is not None and s.node.prim.name == "random_bits" for s in program.scalars):
        includes["philox.h"] = None
    if any(s.op == "compute" and s.node is not None and _needs_math(s) for s in program.scalars):
        includes["math.h"] = None
    return tuple(includes)


def _needs_math(s: Scalar) -> bool:
    """True for a function of floats; those of integers are in core.h, which every kernel has."""
    return "hg::" in _expression(s) and any(a.dtype.is_float for a in (s, *s.args))


def _expression(s: Scalar) -> str:
    assert s.node is not None
    expr = s.node.prim.expr
    if expr is None or isinstance(expr, str):
        return expr or ""
    return expr([a.dtype for a in s.args], s.dtype)
