# SPDX-License-Identifier: Apache-2.0
"""Column sums beside a row-wise kernel, on CUDA: two kernels.

Blocks of the first walk all rows, as many blocks as a GPU holds at once. Each keeps its sums in registers, of every
element of a row, and leaves them in memory, a *part*. The second kernel adds the parts up in their order, and computes
what waits for the sums. How rows are shared out depends on shapes and the GPU alone: results are the same in every run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from ...ir.graph import Node, closure
from ...ir.indexing import ZERO, Var, linearize, of_var
from ...target import Target
from ..collapse_axes import collapse_axes
from ..kernel import CWriter, Kernel
from ..scalar import Reduction, Scalar, ScalarProgram, Store, operands_of
from .rows import schedule_reduction

__all__ = ["schedule_column_sums"]


def schedule_column_sums(
    program: ScalarProgram, target: Target, row_members: list[Node], combine_members: list[Node]
) -> list[Kernel]:
    """The kernels of a group with sums over all rows (``program`` is normalised).

    Args:
        row_members, combine_members: the members that the first kernel computes, and those of the second; both have the sums.
    """
    behind = set(program.reduced)
    last = [s for s in program.stores if (s.value.vars | s.offset.vars) <= behind]  # what waits for sums is among them
    first = _row_program(program, [s for s in program.stores if s not in last])
    rows = [v for v in first.vars if v not in behind]
    walked = schedule_reduction(CWriter(target, first, allows_dynamic=True), rows, False, row_members, None)
    # the first one's text is written: from here on these scalars are those of the second
    second = _combine_program(program, last, walked.outputs[len(first.stores) :])
    collapse_axes(second)
    columns = [v for v in second.vars if v not in second.reduced]
    writer = CWriter(target, second, allows_dynamic=True)
    added = schedule_reduction(writer, columns, True, combine_members, second.reduced[0])
    return [walked, added]


def _row_program(program: ScalarProgram, stores: list[Store]) -> ScalarProgram:
    """The program of the first kernel."""
    needed = closure([*(s.value for s in stores), *(r.result for r in program.column_sums)], operands_of)
    return replace(
        program,
        scalars=[s for s in program.scalars if s in needed],
        reductions=[r for r in program.reductions if r.result in needed],
        stores=stores,
    )


def _combine_program(program: ScalarProgram, stores: list[Store], parts: Sequence[Node]) -> ScalarProgram:
    """The program of the second kernel, of the ``parts`` of each sum, arrays of (part, element of a row)."""
    columns = program.reduced
    each = linearize([of_var(v) for v in columns], [v.extent for v in columns])
    part = Var("part", parts[0].shape[0])
    sums, scalars = [], []
    for r, node in zip(program.column_sums, parts, strict=True):
        at = each + of_var(part) * prod(v.extent for v in columns)
        load = Scalar("load", node.dtype, node=node, offset=at, vars=at.vars)
        r.result.args = (load,)
        sums.append(Reduction(r.node, load, r.result, ZERO))
        scalars += [load, r.result]
    known = {r.result for r in sums}
    needed = closure([s.value for s in stores], lambda s: () if s in known else operands_of(s))
    scalars += [s for s in program.scalars if s in needed and s not in scalars]
    return replace(
        program, scalars=scalars, reductions=sums, stores=stores, vars=[*columns, part], reduced=[part], column_sums=[]
    )
