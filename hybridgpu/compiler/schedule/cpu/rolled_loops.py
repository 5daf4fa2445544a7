# SPDX-License-Identifier: Apache-2.0
"""Rolled loops: parts that differ in their arrays and positions alone are one loop over a table of these.

A concat that a kernel reads is as many parts as it has operands (``index_set_splitting``). In a dense block of a network
there are dozens, whose loops a C++ compiler would optimise one by one: a third of a second for a kernel that does no more than
one with a single operand. Extents and strides of inner loops stay literals, so that the loop is the code that each was.

This stays beside ``index_set_splitting``, which makes the parts: whether they are alike shows only when their scalars, tiles and
conditions are known, and on CUDA, where threads find their part, they are no loops at all. It stays beside
``repeated_groups``, too: that spares the scheduler groups that are alike, this the C++ compiler loops within one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from itertools import dropwhile, groupby
from typing import Any

from ....core.dataclass import dataclass, field
from ...ir.dim_texts import report_text
from ...ir.dynamic_constants import argument_kind
from ...ir.graph import Node
from ...ir.indexing import ZERO, Expr, Var, of_var, substitute
from ..kernel import CWriter
from ..scalar import Scalar, ScalarProgram

__all__ = ["Column", "LoopPart", "Table", "alike_parts", "roll"]

#: what is computed over some values of a variable, and the variable; None where that is one value
LoopPart = tuple[ScalarProgram, Var | None]

_MIN_LOOPS = 4  #: loops that are worth a table


@dataclass(frozen=True, eq=False)
class Column(Var):
    """A position that each row of a table has.

    Attributes:
        values: what it is in each, in variables of the loops around the table.
    """

    values: tuple[Expr, ...] = ()

    @property
    def low(self) -> int:
        return min(e.low for e in self.values)

    @property
    def high(self) -> int:
        return max(e.high for e in self.values)

    @property
    def vars(self) -> frozenset[Var]:
        return frozenset[Var]().union(*(e.vars for e in self.values))


@dataclass
class Table:
    """The differences of parts that are alike: a row for each, of which the columns are variables.

    Attributes:
        var: the variable of the loop over all of their values.
        rows: how many.
        columns_around: how many columns the tables around have, whose names are taken.
        columns: C texts of the values -> (C type, name).
    """

    var: Var
    rows: int
    columns_around: int
    columns: dict[tuple[str, ...], tuple[str, str]] = field(default_factory=dict)

    def column(self, type: str, values: Iterable[str]) -> str:
        """The name of the column of these values."""
        return self.columns.setdefault(tuple(values), (type, f"p{self.columns_around + len(self.columns)}"))[1]

    @property
    def declaration(self) -> str:
        """C text of the table, which is called ``loops``."""
        fields = " ".join(f"{type} {name};" for type, name in self.columns.values())
        rows = ", ".join("{" + ", ".join(row) + "}" for row in zip(*self.columns, strict=True))
        return f"const struct {{ {fields} }} loops[] = {{{rows}}};"

    @property
    def definitions(self) -> list[str]:
        """C text of the variables in row ``loop``."""
        return [f"{type} const {name} = loops[loop].{name};" for type, name in self.columns.values()]


def alike_parts(parts: Sequence[LoopPart], var: Var) -> list[list[LoopPart]]:
    """``parts`` of what is computed over ``var``, in order: neighbours together of which one loop can be made."""
    if len(parts) < _MIN_LOOPS:
        return [[part] for part in parts]
    runs = [list(run) for _, run in groupby(parts, lambda part: _form(part, var))]
    return [some for run in runs for some in ([run] if len(run) >= _MIN_LOOPS else [[part] for part in run])]


def _form(part: LoopPart, var: Var) -> Any:
    """The form that alike parts share: all but which arrays are loaded, and where the loop along them begins."""
    program, v = part
    if v is None:
        return part
    table, own = {v: of_var(var)}, _varying_scalars(part)
    numbers = {s: k for k, s in enumerate(own)}

    def of_operand(s: Scalar) -> Any:
        return (report_text(s.value), argument_kind(s.value), s.dtype) if s.op == "const" else numbers.get(s, s)

    def of_scalar(s: Scalar) -> Any:
        what: Any = s.node and s.node.prim
        where = s.offset and substitute(s.offset, table)
        if s.op == "load":
            what, where = s.node and s.node.dtype, s.offset and substitute(_split_offset(s.offset, part)[1], table)
        conditions = [(substitute(c.expr, table), c.bound) for c in s.conditions]
        return s.op, s.dtype, list(map(of_operand, s.args)), what, where, conditions

    stores = [(t.node, of_operand(t.value), substitute(t.offset, table), t.scattered) for t in program.stores]
    return list(map(of_scalar, own)), stores


def _varying_scalars(part: LoopPart) -> list[Scalar]:
    """The scalars of a part that depend on its variable: the others are those of other parts as well."""
    program, v = part
    return [s for s in program.scalars if v in s.vars]


def _split_offset(e: Expr, part: LoopPart) -> tuple[Expr, Expr]:
    """``e`` as where the loop over the part begins, and the walk of it and of loops within."""
    program, v = part
    if not e.affine:
        return ZERO, e
    within = set(dropwhile(lambda other: other is not v, program.vars))
    begin = tuple(t for t in e.terms if t[0] not in within)
    return Expr(begin, e.const), Expr(tuple(t for t in e.terms if t[0] in within))


def roll(
    parts: Sequence[LoopPart], bounds: Callable[[Var], tuple[str, str]], writer: CWriter, columns_around: int
) -> Table:
    """The table of some alike parts, bounds of the loop first. The program of the first part becomes that of the loop.

    Args:
        bounds: C texts of where the loop over a variable begins and ends.
        columns_around: how many columns the tables around have.
    """
    program, variables = parts[0][0], [v for _, v in parts if v]
    first, last = variables[0], variables[-1]
    loads = [alike for alike in zip(*map(_varying_scalars, parts), strict=True) if alike[0].op == "load"]
    begins = [
        [_split_offset(s.offset, part)[0] for s, part in zip(alike, parts, strict=True) if s.offset] for alike in loads
    ]
    places, ends = [], []  # printed in the order in which loops of their own would be, since arguments are numbered
    for k, v in enumerate(variables):
        places.append([writer.address_text(s[k].offset, b[k].terms) for s, b in zip(loads, begins, strict=True)])
        ends.append(bounds(v))
    table = Table(Var(first.name, last.high + 1 - first.low, first.low), len(parts), columns_around)
    for positions in zip(*ends, strict=True):
        table.column("Index", positions)
    program.replace({first: of_var(table.var)})
    program.vars = [table.var if v is first else v for v in program.vars]
    arrays: dict[str, Node] = {}
    for alike, values, texts in zip(loads, begins, zip(*places, strict=True), strict=True):
        s, pointers = alike[0], [writer.pointer(x) for x in alike]
        assert s.node is not None and s.offset is not None
        if len(set(pointers)) > 1:
            name = table.column(f"const {s.node.dtype.storage}*", pointers)
            s.node = arrays.setdefault(name, copy(s.node))
            writer.columns[s.node] = name
        if len(set(texts)) > 1:
            column = Column(table.column("Index", texts), 0, values=tuple(values))
            s.offset = _split_offset(s.offset, (program, table.var))[1] + Expr(((column, 1),))
    return table
