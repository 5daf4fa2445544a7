# SPDX-License-Identifier: Apache-2.0
"""How a scatter is shared out over the blocks of a GPU, by a model of what takes the time.

A block that has more rows keeps more of its shared memory in use and fewer multiprocessors busy; one that has fewer rows
looks through the positions of all updates for less. The model knows no more than that.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ....dataclass import dataclass
from ...ir.graph import Node
from ...size_buckets import alike, length_class
from ...target import Target

__all__ = ["THREADS", "Form", "Work", "choose", "library_seconds", "seconds", "work_of"]

THREADS = 256  #: of a block; scatter_cuda.h has its warps
_ROUND = 1024  #: positions that a block looks at in a round, see there
_HELD = 28 * 1024  #: bytes of shared memory for rows, at most: 48 KiB are there without asking, …
_LISTED = 20 * 1024  #: … of which the list of updates has no more than these
_BLOCKS = 4  #: blocks that a multiprocessor should hold
_FEWER_BLOCKS = 2  #: … where rows are many and long
_WORTH = 1.15  #: times that this has to be faster
_LEAST_HELD = 8 * 1024
_EQUAL = 2e-7  #: seconds that make no difference


@dataclass(frozen=True)
class Work:
    """What is to be done.

    Attributes:
        rows: of the table.
        lead: groups of rows that have updates of their own, one after the other.
        updates: how many there are.
        columns: elements of a row.
        vector: elements of one access.
        held: bytes of an element on chip, …
        size: … and in memory.
    """

    rows: int
    lead: int
    updates: int
    columns: int
    vector: int
    held: int
    size: int


@dataclass(frozen=True)
class Form:
    """A choice.

    Attributes:
        lanes: threads that share a row: a power of two, or all that are of use.
        most: rows that a block has room for …
        rows: … and those that it takes.
        seconds: what the model says.
    """

    lanes: int
    most: int
    rows: int
    seconds: float = 0.0

    def shared(self, work: Work) -> int:
        """Bytes of shared memory that its rows take, if a launch has to ask for them; else 0."""
        held = self.most * self.lanes * work.vector * work.held
        return held if held > _HELD else 0

    @property
    def teams(self) -> int:
        """Groups of threads that have rows in turn."""
        return THREADS // self.lanes

    def tiles(self, work: Work) -> int:
        """Blocks that share a row."""
        return -(-work.columns // (self.lanes * work.vector))

    def blocks(self, work: Work) -> int:
        """How many there are."""
        return -(-work.rows // self.rows) * self.tiles(work)

    def looks(self, work: Work) -> float:
        """Positions that a block looks through, on average."""
        groups = min(work.lead, 1 + (self.rows - 1) * work.lead / work.rows)
        return work.updates / work.lead * groups


def choose(work: Work, target: Target, usual: int = 0) -> Form:
    """The form that takes the least time.

    Args:
        usual: the columns that decide how many threads share a row, if how many there are is an argument.
    """
    spans = -(-(usual or work.columns) // work.vector)
    lanes = min(THREADS, 1 << max(0, spans - 1).bit_length())
    if lanes == THREADS > spans == -(-work.columns // work.vector):  # a team has them all, and no room is left empty
        lanes = spans
    few, many = (max(1, s // (lanes * work.vector * work.held)) for s in _spaces(target))
    best = _fastest(work, target, lanes, few)
    if many == few:
        return best
    # kernels have room for as many rows whatever the batch
    groups = alike(work.lead) if work.lead > 1 else 1
    updates = work.updates // work.lead * groups if work.lead > 1 else length_class(work.updates)
    like = replace(work, lead=groups, rows=work.rows // work.lead * groups, updates=updates)
    if _fastest(like, target, lanes, many).seconds * _WORTH > _fastest(like, target, lanes, few).seconds:
        return best
    return _fastest(work, target, lanes, many)


def _spaces(target: Target) -> tuple[int, int]:
    """Bytes of shared memory for rows, and more of them: a multiprocessor then has fewer blocks."""
    gpu = target.gpu
    few = max(_LEAST_HELD, min(_HELD, gpu.shared_total // _BLOCKS - _LISTED))
    return few, max(few, min(gpu.shared_bytes - _LISTED, gpu.shared_total // _FEWER_BLOCKS - _LISTED))


def _fastest(work: Work, target: Target, lanes: int, most: int) -> Form:
    room = min(most, work.rows)
    rows = [room, *(1 << k for k in range(room.bit_length()))]
    forms = [Form(lanes, most, r, seconds(work, Form(lanes, most, r), target)) for r in rows]
    return min(forms, key=lambda f: (round(f.seconds / _EQUAL), -f.rows))


def seconds(work: Work, form: Form, target: Target) -> float:
    """What the model says of a form."""
    gpu = target.gpu
    blocks, looks = form.blocks(work), form.looks(work)
    busy = min(blocks, gpu.multiprocessors)
    shared = form.most * form.lanes * work.vector * work.held + _LISTED
    resident = max(1, min(gpu.resident_threads // THREADS, gpu.shared_total // shared))
    turns = -(-blocks // (gpu.multiprocessors * resident))
    rounds = -(-looks // _ROUND)
    hits = work.updates * form.tiles(work) / blocks
    computed = blocks / busy * (rounds * gpu.scatter_round_cycles + hits * gpu.scatter_hit_cycles)
    waited = (
        rounds * gpu.scatter_round_latency
        + hits / min(form.teams, form.rows) * gpu.scatter_hit_latency
        + gpu.scatter_block_cycles
    )
    moved = (work.updates + work.rows) * work.columns * work.size * target.byte_seconds
    moved *= gpu.multiprocessors / busy / gpu.boost(busy)
    return max(moved, computed / gpu.clock, turns * waited / gpu.clock)


def library_seconds(work: Work, target: Target) -> float:
    """What a library takes, which adds each element where it belongs: in no order, and after the updates are in memory."""
    gpu = target.gpu
    elements = work.updates * work.columns
    moved = (3 * elements + 2 * work.rows * work.columns) * work.size
    return 3 * gpu.library_step_seconds + moved * target.byte_seconds + elements * gpu.atomic_seconds


def work_of(node: Node) -> Work:
    """What the scatter ``node`` has to do on CUDA, as far as its operands tell before anything is fused."""
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
    return Work(
        rows=rows,
        lead=lead,
        updates=updates.size // columns,
        columns=columns,
        vector=max(1, min(16 // size, columns & -columns)),
        held=max(size, 4) if node.dtype.is_float else size,
        size=size,
    )
