# SPDX-License-Identifier: Apache-2.0
"""Vectorized accesses of CUDA reduction kernels: which arrays are read and written several elements at a time.

A *span* is ``vector`` neighbours along one loop variable. A thread reads its spans, computes their elements one
after the other, and writes spans.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ....core.dataclass import dataclass, field
from ...devices.gpu import GpuConstants
from ...ir.indexing import ZERO, Expr, Var
from ..kernel import CWriter, Statement, address, variables_of
from ..reduction_passes import Pass, PassPlan
from ..scalar import Scalar, ScalarProgram, Store, indirect_positions
from ..transpose_tiling import unit_stride
from .map_fields import VectorAccess

__all__ = ["SpanBody", "SpanBuilder", "SpanDivision", "choose_vector"]

_MAX_ACCESS_BYTES = GpuConstants.access_bytes  #: bytes of the widest access
_MAX_SPAN_BYTES = 2 * GpuConstants.access_bytes  #: most bytes of a span of the widest array
_MIN_PEELED_SPANS = 16  #: spans that a row must have before its ragged ends are taken apart


@dataclass(frozen=True)
class SpanDivision:
    """A span of floats, ``span``, that is divided as a whole: by what, its reciprocal, and where the quotients go.

    ``target`` is a span of half precision, or ``span`` itself.
    """

    span: str
    divisor: str
    reciprocal: str
    target: str


@dataclass
class SpanBody:
    """The statements of one span's elements.

    Attributes:
        reads, writes: spans before and after the elements.
        cache_reads: spans of values kept in shared memory that are read, …
        cache_writes: … and those that are written.
        each: statements of every element.
        scalar_stores: stores of single elements.
        divisions: spans that are divided before they are written.
    """

    reads: list[VectorAccess] = field(default_factory=list)
    cache_reads: list[VectorAccess] = field(default_factory=list)
    each: list[Statement] = field(default_factory=list)
    scalar_stores: list[Statement] = field(default_factory=list)
    writes: list[VectorAccess] = field(default_factory=list)
    cache_writes: list[VectorAccess] = field(default_factory=list)
    divisions: list[SpanDivision] = field(default_factory=list)

    @property
    def element_variables(self) -> frozenset[str]:
        """The loop variables that statements and stores of single elements name."""
        return variables_of([*self.each, *self.scalar_stores])

    @property
    def variables(self) -> frozenset[str]:
        """All loop variables that it names."""
        return self.element_variables.union(*(s.variables for s in (*self.reads, *self.writes)))


@dataclass(frozen=True)
class SpanBuilder:
    """Builder of the spans of one kernel.

    Attributes:
        writer: names and expressions.
        var: the variable along which elements of a span follow each other.
        vector: elements of a span.
        anchor: where rows begin whose first element is not at a multiple of ``vector``, as an offset in elements;
            None if all begin at one.
        computed_inside: variables on which a position read at run time may not depend if spans lie there, because it is known
            only while an element is computed; None if every such position is.
        divisions: of stored values that are quotients, these and the reciprocals of their divisors: spans are divided
            as a whole.
    """

    writer: CWriter
    var: Var
    vector: int
    anchor: Expr | None = None
    computed_inside: frozenset[Var] | None = None
    divisions: Mapping[Scalar, tuple[Scalar, Scalar]] = field(default_factory=dict)

    @property
    def base(self) -> str:
        """The variable of the text that holds the position of a span's first element."""
        return f"{self.var.name}_0"

    @property
    def shifted(self) -> bool:
        """True if some row does not begin at a multiple of a span."""
        return self.anchor is not None and not _is_multiple(self.anchor, self.vector)

    def is_span(self, e: Expr | None) -> bool:
        """True if neighbours at ``e`` are a span that one access takes."""
        if e is None or not unit_stride(e, self.var):
            return False
        row = _without(e, self.var)
        inside = self.computed_inside
        known = all(inside is not None and not s.vars & inside for s in indirect_positions(row))
        return known and _is_multiple(row + (self.anchor or ZERO) * -1, self.vector)

    def address(self, pointer: str, e: Expr) -> str:
        """The address of a span; where rows are ragged, that of its row."""
        if self.anchor is not None:
            return address(pointer, self.writer.address_text(_without(e, self.var)))
        return self.writer.place(pointer, e, {self.var: self.base})

    def statement(self, s: Scalar, block: SpanBody) -> Statement | None:
        """The statement that computes ``s``, that of a load by a span of ``block`` where that is possible."""
        if s.op != "load" or s.conditions or not self.is_span(s.offset):
            return self.writer.statement(s)
        assert s.offset is not None and s.node is not None
        name = f"p{len(block.reads)}"
        self.writer.printed.clear()
        place = self.address(self.writer.pointers[s.node], s.offset)
        block.reads.append(VectorAccess(name, s.node.dtype.storage, place, self.writer.variables()))
        return Statement(s.dtype.compute, self.writer.names[s], f"{name}.v[j]")

    def store(self, number: int, store: Store, block: SpanBody) -> None:
        """Write ``store`` by a span of ``block`` where that is possible."""
        value = self.writer.names[store.value]
        self.writer.printed.clear()
        if not self.is_span(store.offset):
            block.scalar_stores.append(self.writer.store(f"y{number}[{self.writer.address_text(store.offset)}]", value))
            return
        name = f"q{number}"
        place = self.address(f"y{number}", store.offset)
        block.writes.append(VectorAccess(name, store.node.dtype.storage, place, self.writer.variables()))
        if store.value in self.divisions:
            quotient, by = self.divisions[store.value]
            value, divisor = (self.writer.names[a] for a in quotient.args)
            reciprocal, target = self.writer.names[by], name
            name = f"n{number}" if store.node.dtype.is_half else name
            block.divisions.append(SpanDivision(name, divisor, reciprocal, target))
        block.each.append(Statement("", f"{name}.v[j]", value))

    def row_body(self, scalars: Sequence[Scalar], stores: Sequence[tuple[int, Store]]) -> SpanBody:
        """Values of rows that are neighbours along ``var``."""
        block = SpanBody()
        for s in scalars:
            if statement := self.statement(s, block):
                block.each.append(statement)
        for number, store in stores:
            self.store(number, store, block)
        return block

    def pass_body(self, plan: PassPlan, row_pass: Pass, places: dict[Scalar, str], slot: str, stride: int) -> SpanBody:
        """The elements of one pass over a row.

        Args:
            places: of the kept values: 'registers', or the array in shared memory where the thread's own begin.
            slot: a kept value's index in its array of registers.
            stride: elements of shared memory from one span of a thread to its next.
        """
        block = SpanBody()
        at = plan.passes.index(row_pass)
        before = {s for w in plan.passes[:at] for s in w.scalars}
        divided = {*self.divisions, *(quotient for quotient, _ in self.divisions.values())}
        for s in row_pass.scalars:
            name = self.writer.names[s]
            if s in plan.cache and s in before:
                cache = plan.cache[s]
                if places[s] == "registers":
                    text = f"{cache}[{slot}]"
                else:
                    block.cache_reads.append(
                        VectorAccess(f"h_{cache}", cached_type(s), f"{places[s]} + step * {stride}")
                    )
                    text = f"h_{cache}.v[j]"
                block.each.append(Statement(s.dtype.compute, name, text))
                continue
            if s not in divided and (statement := self.statement(s, block)):
                block.each.append(statement)
        for s, cache in plan.cache.items():
            if s not in row_pass.scalars or s in before:
                continue
            if places[s] == "registers":
                block.each.append(Statement("", f"{cache}[{slot}]", self.writer.names[s]))
            else:
                block.cache_writes.append(VectorAccess(f"w_{cache}", cached_type(s), f"{places[s]} + step * {stride}"))
                block.each.append(Statement("", f"w_{cache}.v[j]", self.writer.names[s]))
        for number in row_pass.targets:
            self.store(number, plan.program.stores[number], block)
        return block


def cached_type(s: Scalar) -> str:
    """The C type in which a value is kept on chip: as in memory if it came from there, else as computed."""
    return s.dtype.storage if s.op == "load" else s.dtype.compute


def cached_size(s: Scalar) -> int:
    """Bytes of a kept value."""
    return s.dtype.size if s.op == "load" or not s.dtype.is_half else 4


def choose_vector(program: ScalarProgram, var: Var, unaligned_rows: bool) -> tuple[int, Expr | None]:
    """(elements of a span along ``var``, the anchor of ragged rows).

    16 bytes of the narrowest array that spans the domain. Rows that begin anywhere (``unaligned_rows`` allows them) are taken
    apart at multiples of a span if they are long; else spans are as wide as every row allows.
    """
    reduced = set(program.reduced)
    across = {v for v in program.vars if v not in reduced and v.extent > 1} if var in reduced else reduced
    accesses = [(s.offset, s.node) for s in program.scalars if s.op == "load" and s.node and not s.conditions]
    accesses += [(s.offset, s.node) for s in program.stores]
    wide = [(e, n) for e, n in accesses if e and unit_stride(e, var)]
    main = [(e, n) for e, n in wide if not across or e.vars & across]  # others come from caches
    if not main:
        return 1, None
    vector = _MAX_ACCESS_BYTES // min(n.dtype.size for _, n in main)
    while vector * max(n.dtype.size for _, n in wide) > _MAX_SPAN_BYTES:
        vector //= 2
    even = vector
    while even > 1 and (var.extent % even or not all(_is_multiple(_without(e, var), even) for e, _ in main)):
        even //= 2
    if even == vector or not unaligned_rows or var.extent < _MIN_PEELED_SPANS * vector:
        return even, None
    anchor = _without(max(main, key=lambda p: p[1].size)[0], var)
    if indirect_positions(anchor):  # the head of a row, where its span is found, comes before
        return even, None
    if all(_is_multiple(_without(e, var) + anchor * -1, vector) for e, _ in main):
        return vector, anchor
    return even, None


def _without(e: Expr, var: Var) -> Expr:
    return Expr(tuple((a, c) for a, c in e.terms if a is not var), e.const)


def _is_multiple(e: Expr, by: int) -> bool:
    """True if ``e`` is a multiple of ``by`` whatever its atoms are."""
    return e.const % by == 0 and all(c % by == 0 for _, c in e.terms)
