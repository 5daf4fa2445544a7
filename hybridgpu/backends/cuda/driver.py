# SPDX-License-Identifier: Apache-2.0
"""The seam between programs and a GPU: loading kernels and starting them.

Production is :class:`CupyDriver`. Tests put an emulated driver in its place, which executes the same
kernel texts on the CPU under checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from ...compiler.program import KernelInfo

__all__ = ["Driver", "Memory", "module_source"]


class Memory(NamedTuple):
    """A pointer argument: where it points, how many bytes are there, and if the kernel writes them."""

    address: int
    nbytes: int
    written: bool


class Driver(Protocol):
    """What a CUDA program needs of a device.

    Attributes:
        arch: compute capability as in 'sm_90'.
        multiprocessors: number of them, for grid sizes.
        identity: compiler and architecture, part of cache keys.
        compiled: modules compiled so far (not found in a cache).
    """

    arch: str
    multiprocessors: int
    identity: str
    compiled: int

    def load(self, kernels: Sequence[KernelInfo]) -> dict[str, Any]:
        """Name -> handle for every kernel; those that are missing are compiled together."""

    def launch(
        self,
        kernel: Any,
        grid: tuple[int, int],
        threads: int,
        shared: int,
        memory: Sequence[Memory],
        numbers: Sequence[int],
    ) -> None:
        """Start a kernel with its pointers and its run-time extents on the current stream."""


def module_source(kernels: Sequence[KernelInfo]) -> str:
    """One translation unit with several kernels."""
    from ...compiler.codegen.render import includes

    headers = ["cuda.h", *includes(k.headers for k in kernels)]
    return "".join(f'#include "{h}"\n' for h in headers) + "\n".join(k.text for k in kernels)
