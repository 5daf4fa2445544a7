# SPDX-License-Identifier: Apache-2.0
"""Convolutions whose results are reduced in windows (CUDA): which thread computes what, and where it stands.

Neighbouring threads share a window: each computes its elements, one after the other, and they exchange what they have
reduced. What follows is computed by all of them, and the first one stores it.
"""

from __future__ import annotations

from math import prod

from ....dataclass import dataclass
from ...ir.indexing import Index, Var
from ...passes.fuse.conv_pool import lanes_of
from ..kernel import COMBINE, Statement, Writer, coordinates
from ..reduction_passes import Accumulator
from ..scalar import ScalarProgram

__all__ = ["Windows", "windows_of"]


@dataclass(frozen=True)
class Windows:
    """What a template sees of windows.

    Attributes:
        lanes: neighbouring threads that share one.
        turns: elements that each of them computes.
        samples: how many there are, …
        count: … and windows of each.
        rows, inside: where a window stands, and an element in it.
        before, each, after: statements of a window, of its elements, and of what was reduced.
        kept: stores of elements.
        accumulators: the reductions.
        stores: those of a window.
    """

    lanes: int
    turns: int
    samples: int
    count: int
    rows: list[Statement]
    inside: list[Statement]
    before: list[Statement]
    each: list[Statement]
    kept: list[Statement]
    accumulators: list[Accumulator]
    after: list[Statement]
    stores: list[Statement]


def windows_of(program: ScalarProgram, index: Index, writer: Writer) -> tuple[Windows, list[Var]]:
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
    before: list[Statement] = []
    each: list[Statement] = []
    after: list[Statement] = []
    for s in program.scalars:
        if late.intersection(s.args) and s not in late:
            late.add(s)
        statement = writer.statement(s)
        if statement:
            (after if s in late else each if s.vars & reduced else before).append(statement)
    kept: list[Statement] = []
    stores: list[Statement] = []
    for k, store in enumerate(program.stores):
        inner = store.offset.vars & reduced
        text = Statement("", writer.destination(k, store), writer.names[store.value])
        (kept if inner else stores).append(text)
    window = prod(v.extent for v in program.reduced)
    return (
        Windows(
            lanes=lanes_of(window),
            turns=window // lanes_of(window),
            samples=first.extent,
            count=prod(v.extent for v in rows[1:]),
            rows=[*coordinates(rows, "e"), *(t for e, t in places if not e.vars & reduced)],
            inside=[*coordinates(program.reduced, "r"), *(t for e, t in places if e.vars & reduced)],
            before=before,
            each=each,
            kept=kept,
            accumulators=[
                Accumulator(
                    name=f"a{k}",
                    combine=COMBINE[r.node.prim.name],
                    type=r.operand.dtype.compute,
                    operand=writer.names[r.operand],
                    position="",
                    step=0,
                    origin="",
                    first=0,
                    rising=False,
                    result=writer.names[r.result],
                    result_type=r.result.dtype.compute,
                )
                for k, r in enumerate(program.reductions)
            ],
            after=after,
            stores=stores,
        ),
        axes,
    )
