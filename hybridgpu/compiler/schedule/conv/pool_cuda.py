# SPDX-License-Identifier: Apache-2.0
"""Convolution with pooling as its epilogue (CUDA): which thread computes what, and where it stands.

Neighbouring threads share a window: each computes its elements, one after the other, and they exchange what they have
reduced. What follows is computed by all of them, and the first one stores it.

It is the schedule's half of ``passes/fuse/conv_pool.py``. Reductions elsewhere walk rows in passes; here a thread's loop is
a convolution's, in whose template a window is one loop more.
"""

from __future__ import annotations

from math import prod

from ....core.dataclass import dataclass
from ...ir.indexing import Index, Var
from ...passes.fuse.conv_pool import lanes_per_window
from ..kernel import CWriter, Statement, unravel
from ..reduction_passes import Accumulator
from ..scalar import ScalarProgram

__all__ = ["PoolingEpilogue", "pooling_epilogue"]


@dataclass(frozen=True)
class PoolingEpilogue:
    """Fields of a template about windows.

    Attributes:
        lanes: neighbouring threads that share one.
        per_lane: elements that each of them computes.
        samples: how many there are, …
        count: … and windows of each.
        element_coordinates: where an element stands in a window.
        before, each, after: statements of a window, first where it stands, of its elements, and of what was reduced.
        element_stores: stores of elements.
        accumulators: the reductions.
        stores: those of a window.
    """

    lanes: int
    per_lane: int
    samples: int
    count: int
    element_coordinates: list[Statement]
    before: list[Statement]
    each: list[Statement]
    element_stores: list[Statement]
    accumulators: list[Accumulator]
    after: list[Statement]
    stores: list[Statement]


def pooling_epilogue(program: ScalarProgram, index: Index, writer: CWriter) -> tuple[PoolingEpilogue, list[Var]]:
    """The windows of a convolution, and where its results stand: a variable an axis.

    Args:
        index: the convolution's, in variables of ``program``.
    """
    reduced = set(program.reduced)
    first = next((v for v in program.vars if index[0].vars == {v}), Var("i_", 1))
    rows = [first, *(v for v in program.vars if v not in reduced and v is not first)]
    axes = [Var(f"z{k}", 1) for k in range(len(index))]
    places = [(e, Statement("Index", v.name, writer.expr(e))) for v, e in zip(axes, index, strict=True)]
    late = {r.result for r in program.reductions}
    before = [*unravel(rows, "e"), *(t for e, t in places if not e.vars & reduced)]
    each: list[Statement] = []
    after: list[Statement] = []
    for s in program.scalars:
        if late.intersection(s.args) and s not in late:
            late.add(s)
        statement = writer.statement(s)
        if statement:
            (after if s in late else each if s.vars & reduced else before).append(statement)
    element_stores: list[Statement] = []
    stores: list[Statement] = []
    for k, store in enumerate(program.stores):
        inner = store.offset.vars & reduced
        text = Statement("", writer.store_address(k, store), writer.names[store.value])
        (element_stores if inner else stores).append(text)
    window = prod(v.extent for v in program.reduced)
    return (
        PoolingEpilogue(
            lanes=lanes_per_window(window),
            per_lane=window // lanes_per_window(window),
            samples=first.extent,
            count=prod(v.extent for v in rows[1:]),
            element_coordinates=[*unravel(program.reduced, "r"), *(t for e, t in places if e.vars & reduced)],
            before=before,
            each=each,
            element_stores=element_stores,
            accumulators=[Accumulator.of(f"a{k}", r, writer) for k, r in enumerate(program.reductions)],
            after=after,
            stores=stores,
        ),
        axes,
    )
