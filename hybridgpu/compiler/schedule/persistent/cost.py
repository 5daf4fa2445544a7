# SPDX-License-Identifier: Apache-2.0
"""Cost model of a persistent kernel against as many launches: phases, barriers and threads (CUDA).

Nothing here was measured on a device yet: the constants are estimates.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....core.dataclass import dataclass
from ...cost import barrier_seconds, launch_seconds, node_operations, read_seconds, seconds
from ...devices.gpu import GpuConstants
from ...target import Target
from ..cuda.map_fields import MapFields
from ..cuda.reduction_fields import RowsFields
from ..kernel import FlatFields, Kernel
from .grid_loops import Loop

__all__ = [
    "Estimate",
    "PhaseStep",
    "barriers_of",
    "block_threads",
    "blocks_held",
    "compare",
    "grid_blocks",
    "max_phase_blocks",
    "registers_of",
    "seconds_alone",
    "size_of",
]

# What NVRTC 12.9 gives a thread (sm_90, blocks of 128 threads and more, the cases of tests/compiler). A launch asks how many
# blocks of the compiled kernel fit: a wrong figure here costs a worse choice, no more.
_REGISTERS = 64  #: of a thread where no step is a product or a convolution: 40 to 64 were counted, …
_PRODUCT_REGISTERS = 80  #: … where one is: 66 to 88, …
_MANY_REGISTERS = 168  #: … and with more steps than _MANY_STEPS, loops among them: 121 to 180
_MANY_STEPS = 8
_WARP = GpuConstants.warp_threads  #: threads: those that exchange values are all there
_DEFAULT_THREADS = 256  #: threads of a block where every step takes any number


def possible_clusters(placed: Sequence[PhaseStep], threads: int, target: Target) -> list[int]:
    """The clusters, of so many blocks, that a kernel of such steps may be instead of a cooperative grid, which is 0 here.

    Blocks of a cluster need no cooperative launch, and their barrier takes a fraction of the grid's; but they are few.
    There is one size of clusters, so that the text of a kernel depends little on the batch.
    """
    most = min(target.persistent_cluster, target.gpu.cluster_blocks, target.gpu.multiprocessors)
    needed = max_phase_blocks(placed, threads)
    return [0, *(n for n in dict.fromkeys((1, most)) if n <= most and (n == 1 or needed > 1))]


@dataclass(frozen=True)
class Estimate:
    """Seconds that one kernel would save and cost.

    Attributes:
        steps: kernels that it takes the place of.
        barriers: how often its blocks wait for each other, beyond what loops among the steps do in any case.
        cluster: of the forms that costs least: the grid is one cluster of so many blocks, or one block; 0: it is cooperative,
            as large as the device holds and the phases need.
        iterations: of a loop that the host need not go through.
        replayed: kernels are nodes of a CUDA graph.
    """

    steps: int
    barriers: int
    saved: float
    cost: float
    cluster: int = 0
    iterations: int = 0
    replayed: bool = False

    @property
    def wins(self) -> bool:
        return self.saved > self.cost

    @property
    def reason(self) -> str:
        """Why it is one kernel, if it is."""
        return str(self) if self.wins else f"asked for, although {self}"

    def __str__(self) -> str:
        host = f", and {self.iterations} iterations of the host fewer," if self.iterations else ""
        one = "one node of a CUDA graph" if self.replayed else "one launch"
        many = f"{one} instead of {self.steps}{host} {'save' if self.iterations else 'saves'} about {self.saved * 1e6:.1f} us"
        few = {0: "the grid", 1: "one block"}.get(self.cluster, f"a cluster of {self.cluster} blocks")
        barriers = f"{abs(self.barriers)} barrier{'' if abs(self.barriers) == 1 else 's'} of {few}"
        if self.barriers < 0:
            return f"{many}; there are {barriers} fewer, as loops run side by side"
        return f"{many}; {barriers} and a smaller grid cost about {self.cost * 1e6:.1f} us"


@dataclass(frozen=True, eq=False)
class PhaseStep:
    """A kernel of a run, or of an iteration of a loop in it, and its phase."""

    kernel: Kernel
    phase: int
    loop: Loop | None = None

    @property
    def times(self) -> int:
        """The number of times it runs."""
        return self.loop.length if self.loop else 1

    @property
    def size(self) -> tuple[str, int]:
        """How it takes blocks of another size, and its own size (see :func:`size_of`)."""
        return size_of(self.kernel)


def size_of(kernel: Kernel) -> tuple[str, int]:
    """The way a step takes blocks of another size, and its own size.

    'any': it makes use of all threads; 'flat': likewise, an element each; 'own': others return at once; 'exact': there
    may be no others.
    """
    launch, f, config = kernel.launch, kernel.fields, kernel.matmul_config
    assert launch is not None
    threads = launch.threads
    if isinstance(f, FlatFields):
        return "flat", threads
    if kernel.kind == "foreach":
        return "any", threads
    if isinstance(f, MapFields):
        tiles = [p.is_tiled for p in f.parts]  # other parts walk with all threads
        return ("own" if all(tiles) else "exact" if any(tiles) else "any"), threads
    if config is not None:  # barriers of tiles are in matmul_cuda.h
        return ("exact" if config.name == "tiles" else "own"), threads
    if isinstance(f, RowsFields) and f.form.team == 1:  # a thread a row, in a loop over the grid
        return ("exact" if launch.shared else "any"), threads
    return "own", threads


def block_threads(sizes: Sequence[tuple[str, int]]) -> int | None:
    """The size of the blocks of a kernel with steps of such sizes, if there is one."""
    exact = {n for how, n in sizes if how == "exact"}
    least = max((n for how, n in sizes if how == "own"), default=0)
    if len(exact) > 1 or (exact and least > max(exact)):
        return None
    return max(exact) if exact else -(-least // _WARP) * _WARP or _DEFAULT_THREADS


def barriers_of(placed: Sequence[PhaseStep]) -> int:
    """The number of barriers of the grid."""
    times = {p.phase: p.times for p in placed}
    return sum(times.values()) - 1


def _blocks(step: PhaseStep, threads: int) -> int:
    """Blocks that a step of a kernel with blocks of so many threads is made of."""
    launch = step.kernel.launch
    assert launch is not None
    each = threads if step.size[0] == "flat" else launch.per_block
    return -(-step.kernel.extents[launch.extent] * launch.scale // each)


def max_phase_blocks(placed: Sequence[PhaseStep], threads: int) -> int:
    """Blocks that the largest phase has."""
    blocks = [0] * (1 + max(p.phase for p in placed))
    for p in placed:
        blocks[p.phase] += _blocks(p, threads)
    return max(blocks)


def registers_of(placed: Sequence[PhaseStep]) -> int:
    """Registers that a thread of a kernel of such steps is thought to hold."""
    if len(placed) > _MANY_STEPS and any(p.loop for p in placed):
        return _MANY_REGISTERS
    return _PRODUCT_REGISTERS if any(p.kernel.kind in ("matmul", "conv") for p in placed) else _REGISTERS


def blocks_held(placed: Sequence[PhaseStep], threads: int, target: Target) -> int:
    """Blocks of a kernel of such steps that a multiprocessor is thought to hold at once."""
    gpu = target.gpu
    fits = gpu.resident_threads // threads, gpu.registers // (registers_of(placed) * threads), gpu.resident_blocks
    return max(1, min(fits))


def compare(placed: Sequence[PhaseStep], launches: int, target: Target, loops: Sequence[Estimate] = ()) -> Estimate:
    """Launches that are saved, of so many, against barriers, and against threads that the grid has not.

    Args:
        loops: what loops among them cost in any case.
    """
    threads = block_threads([p.size for p in placed])
    assert threads is not None
    barriers = barriers_of(placed)
    clusters = possible_clusters(placed, threads, target)
    costs = {n: _cost(placed, threads, barriers, n, target) for n in clusters}
    cluster = min(costs, key=lambda n: costs[n])
    barriers -= sum(loop.barriers for loop in loops)
    cost = max(costs[cluster] - sum(loop.cost for loop in loops), 0.0)
    return Estimate(
        launches, barriers, (launches - 1) * launch_seconds(target), cost, cluster, replayed=target.replayed
    )


def _cost(placed: Sequence[PhaseStep], threads: int, barriers: int, cluster: int, target: Target) -> float:
    """Seconds that such blocks take beyond kernels of their own: barriers, and what fewer threads and blocks take longer."""
    gpu = target.gpu
    grid = grid_blocks(placed, threads, cluster, target)
    cost = barrier_seconds(gpu, barriers, grid, cluster)
    everywhere = gpu.resident_threads * gpu.multiprocessors
    all_held = blocks_held(placed, threads, target) * gpu.multiprocessors
    for p in placed:
        launch, (how, _) = p.kernel.launch, p.size
        assert launch is not None
        # threads that would be at work
        own = _blocks(p, threads)
        alone = min(own * (threads if how == "flat" else launch.threads), everywhere)
        here = min(alone, grid * (min(threads, launch.threads) if how == "own" else threads))
        slower = seconds_alone(p.kernel, target) * (alone / here - 1)
        # a few blocks get a part of the bandwidth, whatever their threads, and wait for the cache each time around
        moved = p.kernel.bytes_read + p.kernel.bytes_written
        reading = read_seconds(target, moved, min(grid, own)) - read_seconds(target, moved, own)
        latency = (-(-own // grid) - max(1, -(-own // all_held))) * gpu.l2_seconds
        cost += p.times * max(slower, reading, latency)
    return cost


def grid_blocks(placed: Sequence[PhaseStep], threads: int, cluster: int, target: Target) -> int:
    """The number of blocks."""
    if cluster:
        return cluster
    return min(max_phase_blocks(placed, threads), blocks_held(placed, threads, target) * target.gpu.multiprocessors)


def seconds_alone(kernel: Kernel, target: Target) -> float:
    """Seconds of a kernel on all of the device."""
    return seconds(target, kernel.bytes_read + kernel.bytes_written, sum(map(node_operations, kernel.members)))
