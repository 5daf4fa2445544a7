# SPDX-License-Identifier: Apache-2.0
"""Prefetch of a persistent kernel: weights of later phases, fetched while the blocks are at earlier ones.

Nothing orders a phase behind a barrier of the grid but what earlier phases write. Arrays that no step writes can be
under way from the start, so that the latency of memory lies beside the work of the first phase rather than behind each
barrier. Into the second-level cache goes what is read as a whole; into shared memory the part of a weight that a block
is going to multiply with, where it is known, in one piece and small (the columns of a dense layer).

A window of the cache that persists (``cudaAccessPolicyWindow``) is not asked for: it is a setting of the stream and
takes a share of the cache from all that runs on the device, while weights of graphs that are worth one kernel are a
hundredth of it, and stay there anyway if little else runs between calls.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....core.dataclass import dataclass, field
from ... import cost
from ...devices.gpu import GpuConstants
from ...ir.graph import Node
from ...target import Target
from ..kernel import Kernel

__all__ = ["Prefetch", "StagedOperand", "plan_prefetch"]

_COPY_BYTES = GpuConstants.access_bytes  #: bytes that a thread copies at once
_MAX_STAGED_BYTES = 64 << 10  #: bytes of shared memory for weights


@dataclass(frozen=True)
class StagedOperand:
    """The part of a weight that a block copies into shared memory.

    Attributes:
        offset: bytes from the beginning of dynamic shared memory.
        line: bytes of a column, which follow each other.
        nbytes: those of all columns that a block computes.
    """

    offset: int
    line: int
    nbytes: int


@dataclass(frozen=True)
class Prefetch:
    """The arrays that are fetched from the start.

    Attributes:
        l2: arrays that are fetched into the second-level cache.
        staged: number of a step -> what its blocks copy.
        shared_bytes: bytes of dynamic shared memory, with what steps take anyway.
    """

    l2: list[Node] = field(default_factory=list)
    staged: dict[int, StagedOperand] = field(default_factory=dict)
    shared_bytes: int = 0

    @property
    def figures(self) -> dict[str, int]:
        """For a kernel's ``choice``: bytes into the second-level cache, and of a block into shared memory."""
        sizes = {"l2": sum(n.type.nbytes for n in self.l2), "shared": sum(s.nbytes for s in self.staged.values())}
        return {k: n for k, n in sizes.items() if n}

    def __str__(self) -> str:
        where = {"l2": "bytes into the second-level cache", "shared": "bytes a block into shared memory"}
        return " and ".join(f"{n} {where[k]}" for k, n in self.figures.items())


def plan_prefetch(
    kernels: Sequence[Kernel], phases: Sequence[int], seconds: Sequence[float], held: int, grid: int, target: Target
) -> Prefetch:
    """The plan of what to fetch for ``kernels``, steps of the given phases.

    Args:
        seconds: what each of them takes, on all of the device.
        held: blocks that a multiprocessor holds at once.
        grid: blocks that there are going to be.
    """
    gpu = target.gpu
    written = {n for k in kernels for n in k.outputs}
    used = -(-max((k.launch.shared for k in kernels if k.launch), default=0) // _COPY_BYTES) * _COPY_BYTES
    near: dict[int, StagedOperand] = {}
    staged: set[Node] = set()
    if gpu.async_copies:
        pools = max(k.fields.shared_bytes for k in kernels)
        room = min(gpu.shared_bytes, gpu.shared_total // held - gpu.system_shared) - pools - used
        room = min(room, _MAX_STAGED_BYTES)
        for k, kernel in enumerate(kernels):
            piece, config = kernel.stageable_columns, kernel.matmul_config
            if piece is None or config is None or not phases[k] or phases[k] in phases[:k]:
                continue
            if config.vectors[1] * piece.node.dtype.size % _COPY_BYTES or piece.node in written or piece.nbytes > room:
                continue
            near[k] = StagedOperand(used, piece.line, piece.nbytes)
            used += piece.nbytes
            room -= piece.nbytes
            staged.add(piece.node)
    return Prefetch(_l2_arrays(kernels, phases, seconds, written | staged, grid, target), near, used)


def _l2_arrays(
    kernels: Sequence[Kernel],
    phases: Sequence[int],
    seconds: Sequence[float],
    others: set[Node],
    grid: int,
    target: Target,
) -> list[Node]:
    """Arrays that later phases read as a whole, phase by phase, where waiting for them would take longer."""
    gpu = target.gpu
    soon = {n for k, phase in zip(kernels, phases, strict=True) if not phase for n in k.inputs}
    far: dict[Node, None] = {}
    for phase in range(1, 1 + max(phases)):
        arrays: dict[Node, None] = {}
        for k, at in zip(kernels, phases, strict=True):
            if at == phase:
                arrays |= {n: None for n in k.inputs if n not in others | soon and k.elements_read.get(n) == n.size}
        fresh = [n for n in arrays if n not in far]
        nbytes = sum(n.type.nbytes for n in fresh)
        beside = sum(s for s, at in zip(seconds, phases, strict=True) if at < phase)
        saved = gpu.memory_seconds + min(cost.seconds(target, nbytes), beside)
        lines = sum(-(-n.type.nbytes // gpu.line_bytes) for n in fresh)
        if fresh and lines / min(grid, gpu.multiprocessors) * (gpu.prefetch_cycles / gpu.clock) < saved:
            far |= dict.fromkeys(fresh)
    return list(far)
