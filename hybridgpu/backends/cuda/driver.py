# SPDX-License-Identifier: Apache-2.0
"""The seam between programs and a GPU: loading kernels, starting them one by one or as a CUDA graph.

Production is :class:`CupyDriver`. Tests put an emulated driver in its place, which executes the same
kernel texts on the CPU under checks, reading the same argument blocks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from ...compiler.program import KernelInfo
from .user_kernels import UserModule

__all__ = [
    "Driver",
    "KernelGraph",
    "Launch",
    "LibraryStart",
    "Memory",
    "NoGraphError",
    "NotCapturedError",
    "Stream",
    "module_source",
]

#: starts a library's call on a stream; False, with nothing done, if the library cannot after all
LibraryStart = Callable[[int], bool]


class NoGraphError(RuntimeError):
    """CUDA graphs cannot be used; the message says why, for ``explain``."""


class NotCapturedError(RuntimeError):
    """A library's call cannot be part of a graph; the message says why, for ``explain``.

    Attributes:
        node: its number in the graph.
    """

    def __init__(self, node: int, reason: str) -> None:
        super().__init__(reason)
        self.node = node

    @classmethod
    def of(cls, node: int, error: Exception) -> NotCapturedError:
        """With the first line of what a library raised, without the name of the operator."""
        return cls(node, re.sub(r"^Error in operator \S+: ", "", str(error).splitlines()[0]))


class Memory(NamedTuple):
    """The memory behind a pointer argument: how many bytes, and if the kernel writes them.

    ``part`` is how many it writes of them if others write the rest, as those of a join do; else 0.
    """

    nbytes: int
    written: bool
    part: int = 0


class Launch(NamedTuple):
    """One start of a kernel, prepared.

    Attributes:
        kernel: a handle of :meth:`Driver.load`.
        grid: blocks along x and y.
        threads: of a block.
        shared: bytes of dynamic shared memory.
        parameters: address of an array of pointers, one an argument, each to the 8 bytes that hold it: an
            address for a pointer, a signed integer for a run-time extent. What stands there when the kernel
            is started counts; the array itself stays as it is.
        memory: of the pointer arguments, which come first.
        numbers: how many integers follow.
        cooperative: all blocks live at once.
    """

    kernel: Any
    grid: tuple[int, int]
    threads: int
    shared: int
    parameters: int
    memory: tuple[Memory, ...]
    numbers: int
    cooperative: bool = False


class Stream(Protocol):
    """A CUDA stream; whoever holds the object keeps the stream's address from being given to another one."""

    @property
    def ptr(self) -> int:
        """Its address (cudaStream_t): 0 for the default stream, 2 for that of each thread."""


class KernelGraph(Protocol):
    """An executable CUDA graph: kernels and libraries' calls one after the other."""

    def update(self, node: int) -> None:
        """Give a kernel the arguments that its ``parameters`` point to now, a library's call those that it would start with
        now; later launches use them.

        Raises:
            NotCapturedError: the library starts something else with them.
        """

    def launch(self, stream: int) -> None:
        """Start all of it on a stream."""


class Driver(Protocol):
    """The functions of a device that a CUDA program needs. The device is the current one when a method is called.

    Attributes:
        arch: compute capability as in 'sm_90'.
        multiprocessors: number of them, for grid sizes.
        identity: compiler and architecture, part of cache keys.
        compiled: modules compiled so far (not found in a cache).
        compiled_kernels: names of the kernels in them.
        cooperative: kernels may be started whose blocks all live at once.
        limits: constants of :class:`~...compiler.devices.gpu.GpuConstants` -> the most that the device has of it, which may
            be less than others of its architecture have, or of the one that kernels are compiled for.
        constants: others of these -> what is known of the device, see device_tables.py.
    """

    arch: str
    multiprocessors: int
    identity: str
    compiled: int
    compiled_kernels: list[str]
    cooperative: bool
    limits: Mapping[str, int]
    constants: Mapping[str, float]

    def load(self, kernels: Sequence[KernelInfo]) -> dict[str, Any]:
        """Name -> handle for every kernel; those that are missing are compiled together."""

    def resident(self, kernel: Any, threads: int, shared: int) -> int:
        """Blocks of a kernel (a handle) that a multiprocessor holds at once, given ``shared`` bytes of dynamic memory."""

    def attach(self) -> None:
        """Let the calling thread use the device; once a thread is enough."""

    def stream(self) -> Stream:
        """The device's current stream in the calling thread."""

    def is_capturing(self) -> bool:
        """Whether it is captured into a CUDA graph of the user's."""

    def starter(self, launch: Launch) -> Callable[[int], None]:
        """A function of a stream that starts a kernel with the arguments that stand in its block then."""

    def user_function(self, module: UserModule, name: str) -> Any:
        """The kernel of a user's module.

        Raises:
            MXNetError: it has no kernel of this name.
        """

    def start_user_function(
        self, function: Any, grid: Sequence[int], block: Sequence[int], shared: int, arguments: Sequence[Any]
    ) -> None:
        """Start it on the current stream with arrays of the device and zero-dimensional ones of the host, which are numbers."""

    def graph(self, steps: Sequence[Launch | LibraryStart]) -> KernelGraph:
        """A CUDA graph of kernels, with the arguments that stand in their blocks now, and of libraries' calls, which are
        captured. A library that was not called before may load code then, which no capture allows.

        Raises:
            NoGraphError: this driver has no CUDA graphs, or cannot make this one.
            NotCapturedError: it could without one of the libraries' calls.
        """


def module_source(kernels: Sequence[KernelInfo]) -> str:
    """One translation unit with several kernels."""
    from ...compiler.codegen.render import includes

    headers = ["cuda.h", *includes(k.headers for k in kernels)]
    return "".join(f'#include "{h}"\n' for h in headers) + "\n".join(k.text for k in kernels)
