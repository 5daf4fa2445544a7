# SPDX-License-Identifier: Apache-2.0
"""Cost model of scatters on a GPU: how their rows are distributed over blocks.

A block that has more rows keeps more of its shared memory in use and fewer multiprocessors busy; one that has fewer rows
looks through the positions of all updates for less. The model knows no more than that.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ....core.dataclass import dataclass
from ...cost import library_scatter_seconds, scatter_seconds
from ...ir.graph import Node
from ...size_buckets import bucket, length_bucket
from ...target import Target

__all__ = [
    "THREADS",
    "ScatterConfig",
    "ScatterWorkload",
    "choose_config",
    "estimate_library_seconds",
    "estimate_seconds",
    "scatter_workload",
]

THREADS = 256  #: of a block; scatter_cuda.h has its warps
_POSITIONS_PER_ROUND = 1024  #: positions that a block looks at in a round, see there
_MAX_ROW_BYTES = 28 * 1024  #: bytes of shared memory for rows, at most: 48 KiB are there without asking, …
_UPDATE_LIST_BYTES = 20 * 1024  #: … of which the list of updates has no more than these
_BLOCKS_PER_MULTIPROCESSOR = 4  #: blocks that a multiprocessor should hold
_FEW_BLOCKS_PER_MULTIPROCESSOR = 2  #: … where rows are many and long
_MIN_SPEEDUP = 1.15  #: times that this has to be faster
_MIN_ROW_BYTES = 8 * 1024  #: bytes of shared memory for rows, at least
_EQUAL_SECONDS = 2e-7  #: seconds that make no difference


@dataclass(frozen=True)
class ScatterWorkload:
    """The work of a scatter.

    Attributes:
        rows: of the table.
        groups: of rows that have updates of their own, one after the other.
        updates: their number.
        columns: elements of a row.
        vector: elements of one access.
        accumulator_bytes: of an element on chip, …
        element_bytes: … and in memory.
    """

    rows: int
    groups: int
    updates: int
    columns: int
    vector: int
    accumulator_bytes: int
    element_bytes: int


@dataclass(frozen=True)
class ScatterConfig:
    """A distribution over blocks.

    Attributes:
        lanes: threads that share a row: a power of two, or all that are of use.
        row_capacity: rows that a block has room for …
        rows: … and those that it takes.
        seconds: the estimate.
    """

    lanes: int
    row_capacity: int
    rows: int
    seconds: float = 0.0

    def shared_bytes(self, work: ScatterWorkload) -> int:
        """Bytes of shared memory that its rows take, if a launch has to ask for them; else 0."""
        row_bytes = self.row_capacity * self.lanes * work.vector * work.accumulator_bytes
        return row_bytes if row_bytes > _MAX_ROW_BYTES else 0

    @property
    def teams(self) -> int:
        """Groups of threads, each of which has a row at a time."""
        return THREADS // self.lanes

    def tiles(self, work: ScatterWorkload) -> int:
        """Blocks that share a row."""
        return -(-work.columns // (self.lanes * work.vector))

    def blocks(self, work: ScatterWorkload) -> int:
        """The number of blocks."""
        return -(-work.rows // self.rows) * self.tiles(work)

    def positions_scanned(self, work: ScatterWorkload) -> float:
        """Positions that a block looks through, on average."""
        groups = min(work.groups, 1 + (self.rows - 1) * work.groups / work.rows)
        return work.updates / work.groups * groups


def choose_config(work: ScatterWorkload, target: Target, usual_columns: int = 0) -> ScatterConfig:
    """The configuration that takes the least time.

    Args:
        usual_columns: decide how many threads share a row, if the number of columns is a runtime argument.
    """
    spans = -(-(usual_columns or work.columns) // work.vector)
    lanes = min(THREADS, 1 << max(0, spans - 1).bit_length())
    if lanes == THREADS > spans == -(-work.columns // work.vector):  # a team has them all, and no room is left empty
        lanes = spans
    few, many = (max(1, s // (lanes * work.vector * work.accumulator_bytes)) for s in _row_spaces(target))
    best = _fastest(work, target, lanes, few)
    if many == few:
        return best
    # kernels have room for as many rows whatever the batch
    groups = bucket(work.groups) if work.groups > 1 else 1
    updates = work.updates // work.groups * groups if work.groups > 1 else length_bucket(work.updates)
    like = replace(work, groups=groups, rows=work.rows // work.groups * groups, updates=updates)
    if _fastest(like, target, lanes, many).seconds * _MIN_SPEEDUP > _fastest(like, target, lanes, few).seconds:
        return best
    return _fastest(work, target, lanes, many)


def _row_spaces(target: Target) -> tuple[int, int]:
    """Bytes of shared memory for rows, and more of them: a multiprocessor then has fewer blocks."""
    gpu = target.gpu
    few = max(_MIN_ROW_BYTES, min(_MAX_ROW_BYTES, gpu.shared_total // _BLOCKS_PER_MULTIPROCESSOR - _UPDATE_LIST_BYTES))
    return few, max(
        few,
        min(
            gpu.shared_bytes - _UPDATE_LIST_BYTES,
            gpu.shared_total // _FEW_BLOCKS_PER_MULTIPROCESSOR - _UPDATE_LIST_BYTES,
        ),
    )


def _fastest(work: ScatterWorkload, target: Target, lanes: int, most: int) -> ScatterConfig:
    room = min(most, work.rows)
    rows = [room, *(1 << k for k in range(room.bit_length()))]
    forms = [ScatterConfig(lanes, most, r, estimate_seconds(work, ScatterConfig(lanes, most, r), target)) for r in rows]
    return min(forms, key=lambda f: (round(f.seconds / _EQUAL_SECONDS), -f.rows))


def estimate_seconds(work: ScatterWorkload, form: ScatterConfig, target: Target) -> float:
    """The time of a configuration."""
    gpu = target.gpu
    blocks = form.blocks(work)
    shared = form.row_capacity * form.lanes * work.vector * work.accumulator_bytes + _UPDATE_LIST_BYTES
    resident = max(1, min(gpu.resident_threads // THREADS, gpu.shared_total // shared))
    hits = work.updates * form.tiles(work) / blocks
    return scatter_seconds(
        target,
        nbytes=(work.updates + work.rows) * work.columns * work.element_bytes,
        blocks=blocks,
        waves=-(-blocks // (gpu.multiprocessors * resident)),
        rounds=-(-form.positions_scanned(work) // _POSITIONS_PER_ROUND),
        hits=hits,
        hits_in_turn=hits / min(form.teams, form.rows),
    )


def estimate_library_seconds(work: ScatterWorkload, target: Target) -> float:
    """The time of a library, which adds each element atomically, in no order, after the updates are in memory."""
    elements = work.updates * work.columns
    moved = (3 * elements + 2 * work.rows * work.columns) * work.element_bytes
    return library_scatter_seconds(target, elements, moved)


def scatter_workload(node: Node) -> ScatterWorkload:
    """The workload of the scatter ``node`` on CUDA, as far as its operands tell before anything is fused."""
    updates, at = node.inputs[-2:]
    axis = node.params.get("axis", 0)
    lead, rows, columns = 1, node.shape[axis], node.size // node.shape[axis]
    if node.prim.name == "scatter_along":
        last = node.ndim  # the axes behind this one have the same positions
        while at.prim.name == "broadcast" and last > axis + 1 and at.inputs[0].shape[last - 1] == 1:
            last -= 1
        columns = prod(node.shape[last:])
        lead, rows = prod(node.shape[:axis]), node.size // columns
    size = node.dtype.size
    return ScatterWorkload(
        rows=rows,
        groups=lead,
        updates=updates.size // columns,
        columns=columns,
        vector=max(1, min(16 // size, columns & -columns)),
        accumulator_bytes=max(size, 4) if node.dtype.is_float else size,
        element_bytes=size,
    )
