# SPDX-License-Identifier: Apache-2.0
"""What the compiler knows of the machine it compiles for.

The figures steer choices (what to fuse, what to recompute); they are no promises. A target is part
of every cache key, so changing one recompiles.
"""

from __future__ import annotations

from dataclasses import replace

from ..dataclass import dataclass

__all__ = ["CPU", "CUDA", "Target", "cuda_target"]


_ALONE = 2.5  #: shares of the memory's rate that one multiprocessor can take if the others are idle


@dataclass(frozen=True)
class Target:
    """A kind of machine.

    Attributes:
        name: 'cpu' or 'cuda'; also the folder of templates.
        op_seconds: one scalar operation of a fused kernel, vectorised.
        byte_seconds: one byte to or from memory.
        caches: CPU: (bytes, seconds) of what an array of so many bytes is written to and read from instead, the
            smallest first.
        launch_seconds: starting one more kernel.
        max_arguments: pointers a kernel may take.
        max_nodes: primitives a kernel may hold.
        register_row: longest row whose values a kernel keeps on chip, in bytes a value.
        multiprocessors, registers, resident_threads: CUDA: how many there are, and what each has.
        clock: CUDA: cycles a second.
        shared_bytes, shared_total: CUDA: shared memory that one block may have, and that all of a multiprocessor have.
        thread_items: CUDA: most elements of a row that a thread keeps in registers.
        part_elements: CUDA: fewest elements of a part of a row whose parts are reduced on their own.
        cluster_blocks: CUDA: most blocks that may read each other's shared memory, 1 where there are no clusters.
        async_copies: CUDA: threads may copy into shared memory without waiting for it.
        library_products: CUDA: a library computes products of floats where that is faster.
        library_epilogues: a library's products may add a row to every row of the result, at no cost.
        library_convolutions: a library's convolutions may add a bias and an array of the result's shape, at no cost.
        resident: CUDA: whether small kernels become steps of one, which needs cooperative launches: one of
            settings.GRAPH_KERNELS.
        panels: CPU: products read weights faster in panels of columns (passes/pack.py). With vectors of 64 bytes they
            do; with those of 32 bytes there are too few registers for it.
        numeric: how results are rounded, one of settings.NUMERIC_MODES.
    """

    name: str
    op_seconds: float
    byte_seconds: float
    launch_seconds: float
    caches: tuple[tuple[int, float], ...] = ()
    max_arguments: int = 28
    max_nodes: int = 256
    register_row: int = 64 * 1024
    multiprocessors: int = 1
    registers: int = 65536
    resident_threads: int = 2048
    clock: float = 1.5e9
    shared_bytes: int = 0
    shared_total: int = 0
    thread_items: int = 32
    part_elements: int = 4096
    cluster_blocks: int = 1
    async_copies: bool = False
    library_products: bool = True
    library_epilogues: bool = False
    library_convolutions: bool = False
    resident: str = "never"
    panels: bool = False
    numeric: str = "strict"

    def boost(self, blocks: int) -> float:
        """CUDA: shares of the memory's rate that each multiprocessor gets while only so many blocks run."""
        return min(_ALONE, self.multiprocessors / min(self.multiprocessors, blocks))

    def seconds_a_byte(self, nbytes: float) -> float:
        """What it takes to write, or to read, a byte of an array of ``nbytes`` that is read soon."""
        return next((seconds for size, seconds in self.caches if nbytes <= size), self.byte_seconds)

    def with_numeric(self, numeric: str) -> Target:
        """The same machine in another numeric mode."""
        return self if numeric == self.numeric else replace(self, numeric=numeric)


_KIB = 1024
CPU = Target(
    "cpu",
    op_seconds=3e-11,
    byte_seconds=2.5e-11,
    launch_seconds=1e-8,
    caches=((1024 * _KIB, 4e-12), (16 * 1024 * _KIB, 8e-12)),
)

#: compute capability -> (shared memory of a block, of a multiprocessor in KiB, resident threads). Unknown ones have
#: those of the newest that is older.
_CUDA = {
    70: (96, 96, 2048),
    75: (64, 64, 1024),
    80: (163, 164, 2048),
    86: (99, 100, 1536),
    87: (163, 164, 1536),
    89: (99, 100, 1536),
    90: (227, 228, 2048),
    100: (227, 228, 2048),
    120: (99, 100, 1536),
}
_CLUSTERS = range(90, 120)  #: compute capabilities with clusters …
_PORTABLE = 8  #: … of so many blocks on every device
_COPIES = 80  #: the first compute capability that copies asynchronously


def cuda_target(arch: str, multiprocessors: int) -> Target:
    """The target for ``arch`` such as 'sm_90' (or 'compute_90') with so many multiprocessors."""
    capability = int("".join(c for c in arch.rpartition("_")[2] if c.isdigit()))
    block, total, threads = _CUDA[max(c for c in _CUDA if c <= max(capability, min(_CUDA)))]
    return Target(
        "cuda",
        op_seconds=1e-13,
        byte_seconds=3e-13,
        launch_seconds=2e-6,
        multiprocessors=multiprocessors,
        resident_threads=threads,
        shared_bytes=block * _KIB,
        shared_total=total * _KIB,
        cluster_blocks=_PORTABLE if capability in _CLUSTERS else 1,
        async_copies=capability >= _COPIES,
    )


CUDA = cuda_target("sm_90", 132)  #: an H100 or H200; a backend makes that of its device
