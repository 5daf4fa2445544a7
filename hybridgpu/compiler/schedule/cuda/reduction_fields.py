# SPDX-License-Identifier: Apache-2.0
"""Records that the templates of CUDA's reduction kernels read."""

from __future__ import annotations

from dataclasses import fields
from math import prod
from typing import ClassVar

from ....core.dataclass import dataclass, field
from ..kernel import Statement, TemplateFields
from ..reduction_passes import Accumulator, ColumnSum, Pass
from .vector_access import SpanBody

__all__ = ["CachedValue", "ColumnsFields", "PassFields", "ReductionFields", "RowsFields", "RowsWithSumsFields"]

_MAX_STATE_BYTES = 16  #: bytes of the state of a reduction, at most


@dataclass
class PassFields:
    """One walk over a row as a template sees it.

    Attributes:
        row: statements of the row before it.
        row_body: the same for rows side by side.
        first: the variable with the position of a span's first element ('' if nothing needs it), and what follows
            from it.
        inner, row_inner: the variable along a span, where statements mention it.
        body, accumulators, sums: of an element.
        row_live_in, row_live_out, live_in: row values that cross from block to block, as (type, name).
        arrives: behind it no block of the cluster reads what others hold until the results are written.
    """

    row: list[Statement]
    row_body: SpanBody
    first: str
    coordinates: list[Statement]
    inner: str
    row_inner: str
    body: SpanBody
    accumulators: list[Accumulator]
    sums: list[ColumnSum] = field(default_factory=list)
    row_live_in: list[tuple[str, str]] = field(default_factory=list)
    row_live_out: list[tuple[str, str]] = field(default_factory=list)
    live_in: list[tuple[str, str]] = field(default_factory=list)
    arrives: bool = False

    @property
    def variables(self) -> frozenset[str]:
        """The loop variables that it names, but for statements of the row."""
        return self.row_body.variables.union(self.body.variables, *(a.variables for a in self.accumulators))


@dataclass(frozen=True)
class CachedValue:
    """A value of elements that is kept in shared memory: its type, its pointer, and where it begins, in bytes."""

    type: str
    name: str
    offset: str | int


@dataclass(frozen=True, kw_only=True)
class ReductionFields(TemplateFields):
    """What both forms of reductions read.

    Attributes:
        index_type: of positions.
        passes, last: the walks over a row, and what follows the last one.
        row, row_index: the variable of a row (or its position), and definitions from that.
        inner_rows: rows for each value of the outermost variable.
        width, position, partial: elements of a row, C text of the first one of a step, and whether steps may go beyond.
        threads, vector: of a block, and elements of a span.
        steps, items, unroll: steps of a walk, elements of them all, and the pragma of their loop.
        cluster: blocks that share a row.
        lanes: threads whose states meet in a warp.
        cached, arrays: values kept for later walks, in shared memory and (type, name) in registers.
        shared_states, state_dims: states that threads leave each other, and the extents of each one's array, …
        cluster_states, cluster_shape: … and likewise those of blocks.
        sums, sums_shape: (sum over all rows, the result it is left in), and the array in which a block's teams meet.
        cluster_reduced: blocks that put their sums together.
        reuses_states: states lie where those of the row before do.
    """

    index_type: str
    passes: list[PassFields]
    last: Pass
    row: str
    row_index: list[Statement]
    inner_rows: int
    width: str | int
    position: str
    partial: bool
    threads: int
    vector: int
    steps: str | int
    items: int
    unroll: str
    cluster: int
    lanes: int
    cached: list[CachedValue]
    arrays: list[tuple[str, str]]
    shared_states: list[Accumulator]
    state_dims: tuple[int, ...]
    reuses_states: bool
    cluster_states: list[Accumulator] = field(default_factory=list)
    cluster_shape: str = ""
    sums: list[tuple[ColumnSum, str]] = field(default_factory=list)
    sums_shape: str = ""
    cluster_reduced: int = 1

    @property
    def state_shape(self) -> str:
        """C text of the extents of a state's array."""
        return "".join(f"[{n}]" for n in self.state_dims)

    @property
    def uses_pool(self) -> bool:
        return bool(self.shared_states or self.sums_shape)

    @property
    def shared_bytes(self) -> int:
        return len(self.shared_states) * _MAX_STATE_BYTES * prod(self.state_dims)


@dataclass(frozen=True, kw_only=True)
class RowsFields(ReductionFields):
    """Rows whose elements are neighbours in memory: a team of threads, or of blocks, has one.

    Attributes:
        team, teams, warps: threads of a team, teams of a block, and warps of a team.
        guarded: there may be teams without a row.
        reads_row: statements mention the row.
        unaligned_rows, anchor: rows begin anywhere; the offset of one ('' if it begins with a span all the same).
        row_stores: stores of one value a row.
        state_slot: which of several rows' states are meant.
        recompute_indices: positions are found anew in every walk.
    """

    template: ClassVar[str] = "cuda/rows.j2"
    team: int
    teams: int
    warps: int
    guarded: bool
    reads_row: bool
    unaligned_rows: bool
    anchor: str
    row_stores: list[Statement]
    state_slot: str
    recompute_indices: bool


@dataclass(frozen=True, kw_only=True)
class RowsWithSumsFields(RowsFields):
    """The same with sums over all rows.

    Attributes:
        blocks: of a multiprocessor, each of which takes rows to the end.
        sums_at: where each sum's array begins in shared memory, in bytes.
    """

    template: ClassVar[str] = "cuda/rows_with_sums.j2"
    blocks: int
    sums_at: list[int]

    @staticmethod
    def of(rows: RowsFields, blocks: int, sums_at: list[int]) -> RowsWithSumsFields:
        """The record of ``rows`` with what is known of their sums."""
        return RowsWithSumsFields(
            **{f.name: getattr(rows, f.name) for f in fields(rows)}, blocks=blocks, sums_at=sums_at
        )


@dataclass(frozen=True, kw_only=True)
class ColumnsFields(ReductionFields):
    """Rows that are neighbours in memory: a thread has a span of them.

    Attributes:
        tile: the variable along a span of rows.
        row_spans, down: spans that a block takes, and threads that share one.
        states_per_row, lane_stride: states of a row that meet in shared memory, and how far apart they are.
        row_values: (type, name) of row values that outlive the block that computes them.
        after, after_inner: what follows the last walk, and the variable along a span, where statements mention it.
        stores_rows: there are stores of one value a row.
    """

    template: ClassVar[str] = "cuda/columns.j2"
    tile: str
    row_spans: int
    down: int
    states_per_row: int
    lane_stride: int
    row_values: list[tuple[str, str]]
    after: SpanBody
    after_inner: str
    stores_rows: bool
