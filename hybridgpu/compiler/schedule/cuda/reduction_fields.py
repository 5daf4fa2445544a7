# SPDX-License-Identifier: Apache-2.0
"""Records that the templates of CUDA's reduction kernels read."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import ClassVar, TypedDict

from ....core.dataclass import dataclass, field
from ..blocks import Line
from ..kernel import Pointer, Statement, TemplateFields
from ..reduction_passes import Accumulator
from .reduction_config import LaunchConfig

__all__ = [
    "CachedValue",
    "ColumnsFields",
    "PassFields",
    "ReductionFields",
    "ReductionInputs",
    "RowsFields",
    "RowsWithSumsFields",
]

_MAX_STATE_BYTES = 16  #: bytes of the state of a reduction, at most


def cluster_dims(blocks: int) -> str:
    """C text that makes clusters of so many blocks, a blank before it; '' for one."""
    return f" __cluster_dims__({blocks}, 1, 1)" if blocks > 1 else ""


@dataclass
class PassFields:
    """One pass over a row as a template sees it.

    Attributes:
        row: what is computed of the row before it.
        step: the body of its loop, which takes a span of elements, or some threads' one.
        accumulators: reductions that end with it.
        variables: the loop variables that it names, but for those of a row that is a team's.
        arrives: behind it no block of the cluster reads what others hold until the results are written.
    """

    row: Sequence[Line]
    step: Sequence[Line]
    accumulators: list[Accumulator]
    variables: frozenset[str]
    arrives: bool = False


@dataclass(frozen=True)
class CachedValue:
    """A value of elements that is kept in shared memory: its type, its pointer, and where it begins, in bytes."""

    type: str
    name: str
    offset: str | int


class ReductionInputs(TypedDict):
    """The fields of :class:`ReductionFields` that both forms fill in alike."""

    pointers: Sequence[Pointer]
    index_type: str
    inner_rows: int
    form: LaunchConfig
    vector: int
    steps: str | int
    items: int
    unroll: str
    cached: list[CachedValue]
    arrays: list[tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class ReductionFields(TemplateFields):
    """Fields that both forms of reductions read.

    Attributes:
        index_type: of positions.
        passes, after: the passes over a row, and what follows the last one.
        row, row_index: the variable of a row (or its position), and definitions from that.
        inner_rows: rows for each value of the outermost variable.
        form: threads and blocks of a row, and threads of a block.
        vector: elements of a span.
        steps, items, unroll: steps of a pass, elements of them all, and the pragma of their loop.
        lanes: threads whose states meet in a warp.
        cached, arrays: values kept for later passes, in shared memory and (type, name) in registers.
        shared_states, state_dims: states that threads leave each other, and the extents of each one's array, …
        cluster_states, cluster_shape: … and likewise those of blocks.
        sums, sums_shape: (sum over all rows, the result it is left in), and the array in which a block's teams meet.
        reuses_states: states lie where those of the row before do.
    """

    index_type: str
    passes: list[PassFields]
    after: Sequence[Line]
    row: str
    row_index: list[Statement]
    inner_rows: int
    form: LaunchConfig
    vector: int
    steps: str | int
    items: int
    unroll: str
    lanes: int
    cached: list[CachedValue]
    arrays: list[tuple[str, str]]
    shared_states: list[Accumulator]
    state_dims: tuple[int, ...]
    reuses_states: bool
    cluster_states: list[Accumulator] = field(default_factory=list)
    cluster_shape: str = ""
    sums: list[tuple[Accumulator, str]] = field(default_factory=list)
    sums_shape: str = ""

    @property
    def bounds(self) -> str:
        """C text of the launch's bounds and clusters."""
        return f"HG_BOUNDS({self.form.threads}){cluster_dims(self.form.cluster)}"

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
        warps: of a team.
        guarded: there may be teams without a row.
        reads_row: statements mention the row.
        anchor: the offset of a row, where rows begin anywhere; '' if they begin with a span all the same.
        state_slot: which of several rows' states are meant.
    """

    template: ClassVar[str] = "cuda/rows.j2"
    warps: int
    guarded: bool
    reads_row: bool
    anchor: str
    state_slot: str

    @property
    def lane(self) -> str:
        """C text that declares a thread's number in its team."""
        return "int lane" if self.form.recompute_indices else "const int lane"

    @property
    def warp_merge(self) -> tuple[str, int]:
        """The function that puts the states of warps together: what it is named by, and blocks, or teams of a block."""
        return ("cluster", self.form.cluster) if self.form.cluster > 1 else ("warps", self.form.teams)


@dataclass(frozen=True, kw_only=True)
class RowsWithSumsFields(RowsFields):
    """The same with sums over all rows.

    Attributes:
        sums_at: where each sum's array begins in shared memory, in bytes.
        width: elements of a row.
        span_place: the position ``at`` of a step's first element, and what skips steps beyond the row.
    """

    template: ClassVar[str] = "cuda/rows_with_sums.j2"
    sums_at: list[int]
    width: int
    span_place: list[str]

    @property
    def blocks_of_part(self) -> int:
        """Blocks that leave sums together."""
        return self.form.cluster * self.form.cluster_reduced

    @property
    def bounds(self) -> str:
        return f"HG_BOUNDS_FOR({self.form.threads}, {self.form.blocks}){cluster_dims(self.blocks_of_part)}"


@dataclass(frozen=True, kw_only=True)
class ColumnsFields(ReductionFields):
    """Rows that are neighbours in memory: a thread has a span of them.

    Attributes:
        lane_stride: how far apart states of a row that meet in shared memory are.
        row_values: (type, name) of row values that outlive the block that computes them.
    """

    template: ClassVar[str] = "cuda/columns.j2"
    lane_stride: int
    row_values: list[tuple[str, str]]

    @property
    def bounds(self) -> str:
        wide = "_WIDE" if self.form.cluster > 1 else ""
        return f"HG_BOUNDS{wide}({self.form.threads}){cluster_dims(self.form.cluster)}"

    @property
    def leaves_state(self) -> str:
        """C text of which threads of a block leave their states, those of their warp; '' if all do."""
        return f"if (threadIdx.x % 32 < {self.form.teams}) " if self.lanes > 1 else ""

    @property
    def state_place(self) -> str:
        """C text of where in its array."""
        return "[threadIdx.x / 32]" if self.lanes > 1 else "[down]"
