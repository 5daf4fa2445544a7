# SPDX-License-Identifier: Apache-2.0
"""The constants of a GPU: what a driver tells of it, what its data sheet says, and what kernels' models assume.

The defaults are those of an H100 or H200 (sm_90) as they were assumed when there was no GPU to measure on; a backend
replaces what its driver tells, and what a table of the device or ``hybridgpu calibrate`` says. Choices between forms of
kernels follow from them, and so does the order in which these add up: they are part of every program's key.
"""

from __future__ import annotations

from ...core.dataclass import dataclass
from .record import DeviceConstants, constant

__all__ = ["PORTABLE_CLUSTER", "TF32_CAPABILITY", "GpuConstants"]

PORTABLE_CLUSTER = 8  #: blocks of a cluster that every device with clusters starts
TF32_CAPABILITY = 80  #: the first compute capability whose tensor cores multiply TF32

_KIB = 1024
_GUIDE = "CUDA C++ Programming Guide, compute capabilities"
_ASSUMED = "assumed: no GPU was at hand"
_LATENCY = "assumed: 900 cycles at 1.5 GHz, between published latencies of memory when idle and when busy"


@dataclass(frozen=True)
class GpuConstants(DeviceConstants):
    """A GPU. 'Cycles' are those of a multiprocessor; rates 'a cycle' are a multiprocessor's."""

    has_shared_memory = True
    saves_library_operands = True
    library_swaps_axes = True

    op_seconds: float = constant(1e-13, "s", "a scalar operation of a kernel that fills the device", _ASSUMED)
    byte_seconds: float = constant(
        3e-13, "s/byte", "a byte to or from memory, of a kernel that fills the device", _ASSUMED
    )
    launch_seconds: float = constant(2e-6, "s", "starting one more kernel", _ASSUMED)
    graph_node_seconds: float = constant(
        1.2e-6, "s", "one more kernel in a CUDA graph", "assumed: published figures are 1.1 to 1.3 us"
    )

    product_load_ops: float = constant(
        2, "operations", "one more array, for an element of a product's operand", _ASSUMED
    )

    row_load_ops: int = constant(6, "operations", "loading an element of a row again", _ASSUMED)
    concat_trips: float = constant(2, "count", "trips through memory of what slices of a concat share", "counted")
    concat_operands: int = constant(24, "count", "arrays that one kernel concatenates", _ASSUMED)
    concat_step_operands: int = constant(12, "count", "arrays of a step where a concat has more", _ASSUMED)
    pointer_alignment: int = constant(16, "bytes", "what kernels take their pointers to be multiples of", "our choice")

    strided_read_bytes: int = constant(
        1 << 20, "bytes", "an array that a product may compute from across its rows: the cache has its lines", _ASSUMED
    )
    contiguous_run: int = constant(1, "count", "neighbours in memory that are worth one more pass", _ASSUMED)

    # what a driver tells, and architectures say
    multiprocessors: int = constant(
        132, "count", "multiprocessors", "data sheet of H100 SXM and H200; told by the driver"
    )
    clock: float = constant(1.5e9, "cycles/s", "a multiprocessor's clock under load", _ASSUMED)
    registers: int = constant(65536, "count", "registers of a multiprocessor, of 4 bytes", _GUIDE)
    register_unit: int = constant(8, "count", "registers of a thread are given in multiples of it", _GUIDE)
    resident_threads: int = constant(2048, "count", "threads that a multiprocessor holds", _GUIDE)
    resident_blocks: int = constant(32, "count", "blocks that a multiprocessor holds", _GUIDE + "; 16 or 24 for some")
    shared_bytes: int = constant(0, "bytes", "shared memory that a block may have", _GUIDE)
    shared_total: int = constant(0, "bytes", "shared memory that all blocks of a multiprocessor have", _GUIDE)
    static_shared: int = constant(48 * _KIB, "bytes", "shared memory that a block has without asking", _GUIDE)
    system_shared: int = constant(1024, "bytes", "shared memory that the system takes of each block", _GUIDE)
    cluster_blocks: int = constant(1, "count", "blocks of a cluster, at most; 1 where there are none", _GUIDE)
    row_cluster_blocks: int = constant(
        1, "count", "the same of blocks that share rows alone: more than 8 are asked of the device", _GUIDE
    )
    async_copies: bool = constant(False, "flag", "threads copy into shared memory without waiting for it", _GUIDE)
    warp_threads: int = constant(32, "count", "threads of a warp", _GUIDE)
    access_bytes: int = constant(16, "bytes", "a thread's widest access", _GUIDE + ": 32 from sm_100 on")
    sector_bytes: int = constant(32, "bytes", "what memory moves at least", _GUIDE)
    line_bytes: int = constant(128, "bytes", "what one access of a warp looks up, and one prefetch fetches", _GUIDE)

    # memory
    memory_seconds: float = constant(6e-7, "s", "from asking memory to the answer", _LATENCY)
    l2_seconds: float = constant(3e-7, "s", "from asking the second-level cache to the use of the answer", _ASSUMED)
    bytes_in_flight: int = constant(
        48 * _KIB,
        "bytes",
        "under way on a multiprocessor that keep memory busy",
        "NVIDIA's CCCL for an H200, cub::DeviceTransform; 64 KiB for a B200",
    )
    product_bytes_in_flight: int = constant(32 * _KIB, "bytes", "the same, for products with few rows", _ASSUMED)
    lone_share: float = constant(
        2.5, "share", "times its part of the bandwidth, which a multiprocessor gets if the others are idle", _ASSUMED
    )
    l1_cycle_bytes: int = constant(128, "bytes/cycle", "from the first-level cache", _GUIDE)
    l2_cycle_bytes: int = constant(24, "bytes/cycle", "from the second-level cache, if all read at once", _ASSUMED)
    shared_cycle_bytes: int = constant(128, "bytes/cycle", "to or from shared memory", _GUIDE)
    cycle_loads: int = constant(32, "1/cycle", "loads of threads", _GUIDE)
    prefetch_cycles: int = constant(4, "cycles", "asking for a line ahead, with the address and the loop", _ASSUMED)

    # arithmetic
    lanes: int = constant(128, "1/cycle", "float32 operations, a multiplication with an addition counting once", _GUIDE)
    wide_lanes: int = constant(64, "1/cycle", "the same in float64", _GUIDE + ": 2 on sm_86, 89 and 120")
    integer_lanes: int = constant(64, "1/cycle", "the same in integers of 32 bits", _GUIDE)
    tensor_lanes: int = constant(
        512,
        "1/cycle",
        "multiplications of halves that a library reaches",
        "assumed: half of an A100's 1024; sm_90 has 2048",
    )

    # latencies
    shuffle_cycles: int = constant(30, "cycles", "a step of a reduction among lanes", _ASSUMED)
    barrier_cycles: int = constant(60, "cycles", "a barrier of a block, besides its warps", _ASSUMED)
    cluster_barrier_cycles: int = constant(700, "cycles", "a barrier of a cluster", _ASSUMED)
    loop_cycles: int = constant(40, "cycles", "an iteration of a loop that is not unrolled", _ASSUMED)
    block_cycles: int = constant(100, "cycles", "starting a block", _ASSUMED)
    cluster_fill: float = constant(
        7 / 8, "share", "of the multiprocessors that clusters fill: those of one lie in one part of the GPU", _ASSUMED
    )
    grid_barrier_seconds: float = constant(
        8e-7,
        "s",
        "a barrier of the grid, from the last arrival to the first read behind",
        "assumed: two trips to the second-level cache and a fence",
    )
    grid_arrival_seconds: float = constant(6e-10, "s", "the same, more for each block: all count on one word", _ASSUMED)
    cooperative_seconds: float = constant(5e-7, "s", "starting a cooperative kernel, beyond another one", _ASSUMED)

    # a scatter's kernel (kernels/scatter_cuda.h)
    scatter_round_cycles: int = constant(150, "cycles", "a round of a scatter: a multiprocessor's work", _ASSUMED)
    scatter_round_latency: int = constant(700, "cycles", "from a round of a scatter to the next", _ASSUMED)
    scatter_hit_cycles: int = constant(10, "cycles", "an update that a block lists: a multiprocessor's work", _ASSUMED)
    scatter_hit_latency: int = constant(600, "cycles", "until what an update brings is there", _ASSUMED)
    scatter_block_cycles: int = constant(3000, "cycles", "from a scatter's block's start to its end, besides", _ASSUMED)

    # libraries and the host
    library_share: float = constant(
        0.8, "share", "of the arithmetic, outside tensor cores, that a library reaches", _ASSUMED
    )
    direct_conv_ops: int = constant(
        1 << 24, "operations", "multiplications up to which a convolution is computed directly", _ASSUMED
    )
    library_scatter_gain: float = constant(
        2, "share", "times faster that a library has to be for what it adds up in any order", _ASSUMED
    )
    library_tile: int = constant(64, "count", "rows and columns of a library's tile", _ASSUMED)
    library_depth: int = constant(256, "count", "terms of a sum that a library gives a block, at least", _ASSUMED)
    library_scatter_steps: int = constant(3, "count", "library steps of a scatter", "counted")
    dot_share: float = constant(0.6, "share", "of the arithmetic that products with few rows reach", _ASSUMED)
    library_seconds: float = constant(
        6e-6,
        "s",
        "a library's call, beyond starting a kernel: the host's work, and what a small product takes",
        _ASSUMED,
    )
    library_step_seconds: float = constant(2e-5, "s", "a library step that Python starts", _ASSUMED)
    atomic_seconds: float = constant(2e-12, "s", "an element that a library adds where others may, too", _ASSUMED)
    iteration_seconds: float = constant(
        1.3e-5,
        "s",
        "the host's work for an iteration of a loop, besides starting kernels",
        "measured: an LSTM with NumPy's arrays and a driver that starts nothing",
        True,
    )

    @property
    def row_cycles(self) -> float:
        """Cycles until the first bytes of a row are there."""
        return self.memory_seconds * self.clock

    def boost(self, blocks: int) -> float:
        """Shares of the memory's rate that each multiprocessor gets while only so many blocks run."""
        return min(self.lone_share, self.multiprocessors / min(self.multiprocessors, blocks))

    def rate(self, blocks: int) -> float:
        active = min(blocks, self.multiprocessors)
        share = 1 / (self.byte_seconds * self.multiprocessors)
        return active * share * self.boost(active)
