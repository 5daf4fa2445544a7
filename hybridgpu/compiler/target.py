# SPDX-License-Identifier: Apache-2.0
"""The target: what the compiler knows of the machine it compiles for.

The figures steer choices (what to fuse, what to recompute); they are no promises. A target is part
of every cache key, so changing one recompiles.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from ..core.dataclass import dataclass
from .devices.cpu import CpuConstants
from .devices.record import DeviceConstants

if TYPE_CHECKING:
    from .devices.gpu import GpuConstants

__all__ = ["CPU", "CUDA", "Target", "cuda_target"]


@dataclass(frozen=True)
class Target:
    """A kind of machine, and how it is used.

    Attributes:
        name: 'cpu' or 'cuda'; also the folder of templates.
        device: its constants, a record of :mod:`.devices`.
        max_arguments: pointers a kernel may take.
        max_nodes: primitives a kernel may hold.
        register_row: longest row whose values a kernel keeps on chip, in bytes a value.
        thread_items: CUDA: most elements of a row that a thread keeps in registers.
        part_elements: CUDA: fewest elements of a part of a row whose parts are reduced on their own.
        library_products: CUDA: a library computes products of floats where that is faster.
        library_epilogues: a library's products may add a row to every row of the result, at no cost.
        library_convolutions: a library's convolutions may add a bias and an array of the result's shape, at no cost.
        resident: CUDA: whether small kernels become steps of one, which needs cooperative launches: one of
            settings.GRAPH_KERNELS.
        persistent_cluster: CUDA: most blocks of a kernel of several steps that is one block or one cluster of blocks instead
            of a cooperative grid, 0 if there are to be none; also no more than a cluster may have.
        replayed: CUDA: programs run as CUDA graphs.
        panels: CPU: products read weights faster in panels of columns (passes/prepack_weights.py). With vectors of 64 bytes they
            do; with those of 32 bytes there are too few registers for it.
        numeric: how results are rounded, one of settings.NUMERIC_MODES.
        tf32: CUDA: whether libraries may multiply float32 as TF32; None: in the numeric mode fast.
        disabled_passes: names of passes that do not run, sorted.
    """

    name: str
    device: DeviceConstants
    max_arguments: int = 28
    max_nodes: int = 256
    register_row: int = 64 * 1024
    thread_items: int = 32
    part_elements: int = 4096
    library_products: bool = True
    library_epilogues: bool = False
    library_convolutions: bool = False
    resident: str = "never"
    persistent_cluster: int = 8
    replayed: bool = False
    panels: bool = False
    numeric: str = "strict"
    tf32: bool | None = False
    disabled_passes: tuple[str, ...] = ()

    @property
    def rounds_to_tf32(self) -> bool:
        """Whether libraries round operands of float32 to TF32."""
        return self.numeric == "fast" if self.tf32 is None else self.tf32

    @property
    def gpu(self) -> GpuConstants:
        """The constants of a target that is a GPU."""
        assert self.name == "cuda", f"{self.name} is no GPU"
        return self.device  # type: ignore[return-value]

    @property
    def cpu(self) -> CpuConstants:
        """The constants of a target that is a processor."""
        assert isinstance(self.device, CpuConstants), f"{self.name} is no processor"
        return self.device

    def with_numeric(self, numeric: str) -> Target:
        """The same machine in another numeric mode."""
        return self if numeric == self.numeric else replace(self, numeric=numeric)

    def without_passes(self, names: tuple[str, ...]) -> Target:
        """The same machine for programs that are made without some passes of the compiler."""
        return self if names == self.disabled_passes else replace(self, disabled_passes=names)

    @property
    def passes_key(self) -> str:
        """The part of a program's key that tells which passes were disabled."""
        return f" without {' '.join(self.disabled_passes)}" if self.disabled_passes else ""

    def with_replay(self, replayed: bool) -> Target:
        """The same machine for programs that run as CUDA graphs, or that do not: where choices depend on it."""
        return self if self.resident != "auto" or replayed == self.replayed else replace(self, replayed=replayed)

    def changed(self, **figures: Any) -> Target:
        """The same target with other figures, its own or its device's."""
        names = {f.name for f in fields(self.device)}
        device = replace(self.device, **{k: figures.pop(k) for k in names & figures.keys()})
        return replace(self, device=device, **figures)


_KIB = 1024
CPU = Target("cpu", CpuConstants())

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
_LARGE_CLUSTER = 16  #: … of so many blocks where a device allows it, which its driver asks
_FAST_MEMORY = range(100, 120)  #: compute capabilities whose memory takes more bytes under way
_COPIES = 80  #: the first compute capability that copies asynchronously


def cuda_target(arch: str, multiprocessors: int) -> Target:
    """The target for ``arch`` such as 'sm_90' (or 'compute_90') with so many multiprocessors."""
    from .devices.gpu import PORTABLE_CLUSTER, GpuConstants  # half a millisecond that a host does without

    capability = int("".join(c for c in arch.rpartition("_")[2] if c.isdigit()))
    block, total, threads = _CUDA[max(c for c in _CUDA if c <= max(capability, min(_CUDA)))]
    device = GpuConstants(
        multiprocessors=multiprocessors,
        resident_threads=threads,
        shared_bytes=block * _KIB,
        shared_total=total * _KIB,
        cluster_blocks=PORTABLE_CLUSTER if capability in _CLUSTERS else 1,
        row_cluster_blocks=_LARGE_CLUSTER if capability in _CLUSTERS else 1,
        async_copies=capability >= _COPIES,
        **({"bytes_in_flight": 64 * _KIB} if capability in _FAST_MEMORY else {}),
    )
    return Target("cuda", device)


if TYPE_CHECKING:
    CUDA: Target  #: an H100 or H200; a backend makes that of its device
else:

    def __getattr__(name):
        if name != "CUDA":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        global CUDA
        CUDA = cuda_target("sm_90", 132)
        return CUDA
