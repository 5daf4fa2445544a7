# SPDX-License-Identifier: Apache-2.0
"""Cost model: seconds from traffic, operations, blocks and launches, by the constants of a device's record.

What fuses, recomputes, splits, folds, or chooses among kernels and libraries compares seconds from here. Every number
that describes a device is a constant of :mod:`.devices`, with its unit and its source; what describes a kernel (blocks,
rounds, bytes in flight) is what the caller knows of it. All figures are estimates that steer choices.

- :func:`seconds`: kernels that fill the device, by bytes, operations and launches;
- :func:`cpu_kernel_seconds`: a CPU's kernel on one thread;
- :func:`read_seconds`, :func:`block_traffic_seconds`: traffic of few blocks, or of few bytes in flight;
- :func:`gpu_kernel_seconds`, :func:`overlapped_seconds`, :func:`scatter_seconds`: what limits a kernel of a GPU: traffic,
  arithmetic, or waiting;
- :func:`launch_seconds`, :func:`separate_launch_seconds`, :func:`barrier_seconds`: starting kernels, and waiting for all blocks of one;
- :func:`library_product_seconds`, :func:`library_scatter_seconds`: libraries' calls;
- :func:`node_operations`: scalar operations of a node.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ..core.dtypes import f32
from .ir.computed import computed

if TYPE_CHECKING:
    from ..core.dtypes import DType
    from .devices.cpu import CpuConstants
    from .devices.gpu import GpuConstants
    from .ir.graph import Node
    from .target import Target

__all__ = [
    "barrier_seconds",
    "block_traffic_seconds",
    "cpu_kernel_seconds",
    "gpu_kernel_seconds",
    "launch_seconds",
    "library_product_seconds",
    "library_scatter_seconds",
    "multiply_adds_per_cycle",
    "node_operations",
    "overlapped_seconds",
    "read_seconds",
    "round_trip_seconds",
    "scatter_seconds",
    "seconds",
    "separate_launch_seconds",
]


# -- kernels that fill the device


def seconds(target: Target, nbytes: float = 0, operations: float = 0, launches: float = 0) -> float:
    """Kernels that fill the device: ``nbytes`` to and from memory, scalar ``operations``, and so many ``launches``."""
    device = target.device
    return operations * device.op_seconds + nbytes * device.byte_seconds + launches * device.launch_seconds


def round_trip_seconds(target: Target, nbytes: float, resident: float) -> float:
    """Writing ``nbytes`` and reading them back soon, of an array of ``resident`` bytes, which a cache may hold."""
    return 2 * nbytes * target.device.seconds_a_byte(resident)


def launch_seconds(target: Target) -> float:
    """Starting one more kernel: in a CUDA graph, where programs run as one, else by itself."""
    return target.gpu.graph_node_seconds if target.replayed else separate_launch_seconds(target)


def separate_launch_seconds(target: Target) -> float:
    """Starting one more kernel by itself: what fusion saves, which does not know how programs will run."""
    return target.device.launch_seconds


def node_operations(node: Node) -> int:
    """Scalar operations that compute all of ``node``; a multiplication with an addition counts as two."""
    if node.prim.name == "dot":
        return 2 * node.size * node.inputs[0].shape[-1]
    if node.prim.name == "conv":
        weight = node.inputs[1]
        return 2 * node.size * (weight.size // max(1, weight.shape[0]))
    return node.prim.cost * _largest([node.size, *(i.size for i in node.inputs)])


@computed
def _largest(sizes: Sequence[int]) -> int:
    return max(sizes)


def cpu_kernel_seconds(target: Target, nbytes: float, nodes: Iterable[Node]) -> float:
    """A CPU's kernel on one thread: the longer of its traffic, through a cache that holds it, and its arithmetic."""
    cpu, operations, products = target.cpu, 0, 0
    for node in nodes:
        if node.prim.name in ("dot", "conv"):
            products += node_operations(node)
        else:
            operations += node_operations(node)
    return _slower(cpu, nbytes, operations, products)


@computed
def _slower(cpu: CpuConstants, nbytes: float, operations: int, products: int) -> float:
    arithmetic = operations * cpu.long_op_seconds + products * cpu.product_op_seconds
    return max(nbytes * cpu.seconds_a_byte(nbytes), arithmetic)


# -- kernels of few blocks


def read_seconds(target: Target, nbytes: float, blocks: int) -> float:
    """Traffic of a kernel of so many blocks."""
    return nbytes / target.device.rate(blocks)


def block_traffic_seconds(target: Target, nbytes: float, blocks: int, in_flight: float) -> float:
    """Traffic of a multiprocessor, one of those that ``blocks`` keep at work, with so many bytes ``in_flight`` on each."""
    gpu = target.gpu
    share = 1 / (target.device.byte_seconds * gpu.multiprocessors)
    boost = gpu.boost(blocks)
    rate = share * boost * min(1.0, in_flight / (gpu.bytes_in_flight * boost))
    return nbytes / rate


def overlapped_seconds(traffic: float, arithmetic: float, latency: float, streams: float) -> float:
    """Work whose traffic and arithmetic overlap, among so many independent ``streams``, and what all of it waits."""
    return max(traffic, arithmetic) + min(traffic, arithmetic) / streams + latency


def gpu_kernel_seconds(
    target: Target,
    *,
    nbytes: float,
    read: float,
    blocks: int,
    in_flight: float,
    rounds: float,
    cycles: float,
    cached: float = 0,
    used: float = 1,
) -> float:
    """A GPU's kernel from start to end: the longest of its traffic, its work, and waiting for memory.

    Args:
        nbytes, read: bytes that are moved, and that are read of them.
        blocks: of its grid.
        in_flight: bytes that a block has asked for at a time.
        rounds: how often a thread waits for memory.
        cycles: of a multiprocessor, for all arithmetic and loads.
        cached: bytes through the first-level caches.
        used: share of memory accesses' bytes that are used.
    """
    gpu = target.gpu
    many = gpu.multiprocessors
    at_work = min(1.0, blocks / many)
    waited = read / min(1.0, blocks * in_flight / (many * gpu.product_bytes_in_flight))
    traffic = max(nbytes, waited) * target.device.byte_seconds / used
    busy = (max(cycles, cached / gpu.l1_cycle_bytes) + blocks * gpu.block_cycles) / (gpu.clock * many * at_work)
    return separate_launch_seconds(target) + gpu.memory_seconds + max(traffic, busy, rounds * gpu.memory_seconds)


def multiply_adds_per_cycle(gpu: GpuConstants, dtype: DType) -> int:
    """Multiplications with an addition that a multiprocessor does in a cycle, outside tensor cores."""
    if not dtype.is_float:
        return gpu.integer_lanes
    return gpu.wide_lanes if dtype.size == 8 else gpu.lanes


def scatter_seconds(
    target: Target, *, nbytes: float, blocks: int, waves: int, rounds: float, hits: float, hits_in_turn: float
) -> float:
    """A scatter's kernel: the longest of its traffic, its work, and waiting for updates.

    Args:
        nbytes: that are moved.
        blocks: of its grid.
        waves: times that a multiprocessor takes new blocks.
        rounds: in which a block looks through positions.
        hits: updates that a block lists, …
        hits_in_turn: … and those that one team of its threads adds up one after the other.
    """
    gpu = target.gpu
    busy = min(blocks, gpu.multiprocessors)
    work = blocks / busy * (rounds * gpu.scatter_round_cycles + hits * gpu.scatter_hit_cycles)
    round_latency = (
        rounds * gpu.scatter_round_latency + hits_in_turn * gpu.scatter_hit_latency + gpu.scatter_block_cycles
    )
    traffic = nbytes * target.device.byte_seconds
    traffic *= gpu.multiprocessors / busy / gpu.boost(busy)
    return max(traffic, work / gpu.clock, waves * round_latency / gpu.clock)


def barrier_seconds(gpu: GpuConstants, barriers: int, blocks: int, cluster: int) -> float:
    """So many barriers of a persistent kernel, and its start beyond that of any kernel.

    Args:
        blocks: of its grid.
        cluster: blocks of the one cluster that it is, 1 for a single block; 0: its start is cooperative.
    """
    if cluster:
        cycles = gpu.cluster_barrier_cycles if cluster > 1 else gpu.barrier_cycles
        return barriers * cycles / gpu.clock
    return gpu.cooperative_seconds + barriers * (gpu.grid_barrier_seconds + blocks * gpu.grid_arrival_seconds)


# -- libraries


def library_product_seconds(target: Target, dtype: DType, nbytes: int, batch: int, m: int, n: int, k: int) -> float:
    """A library's matrix product: so many matrices of ``m`` by ``k`` and ``k`` by ``n``, ``nbytes`` in all."""
    gpu = target.gpu
    rate = gpu.tensor_lanes if dtype.is_half else multiply_adds_per_cycle(gpu, dtype) * gpu.library_share
    if dtype is f32 and target.rounds_to_tf32:
        rate = gpu.tensor_lanes / 2
    tiles = batch * -(-m // gpu.library_tile) * -(-n // gpu.library_tile) * max(1, k // gpu.library_depth)
    share = min(1.0, tiles / gpu.multiprocessors)
    arithmetic = batch * m * n * k / (rate * gpu.clock * gpu.multiprocessors * share)
    return separate_launch_seconds(target) + gpu.library_seconds + max(nbytes * target.device.byte_seconds, arithmetic)


def library_scatter_seconds(target: Target, elements: int, nbytes: int) -> float:
    """A library's scatter, which adds each of the ``elements`` atomically after the updates are in memory."""
    gpu = target.gpu
    steps = gpu.library_scatter_steps * gpu.library_step_seconds
    return steps + nbytes * target.device.byte_seconds + elements * gpu.atomic_seconds
