# SPDX-License-Identifier: Apache-2.0
"""Protocols of backends and of the programs that they load."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from enum import Enum
from typing import Any, Protocol

from ..compiler.program import LibraryStep, Program
from ..compiler.target import Target

__all__ = ["Backend", "BuildInfo", "Loaded", "Mode", "NotBuiltError", "this_thread"]


class _ThreadOptions(threading.local):
    """Options of a thread that compiles.

    Attributes:
        background: while another thread computes, to which compilers leave a processor where there are several.
    """

    background = False


this_thread = _ThreadOptions()


class Mode(Enum):
    """The way calls of a program are repeated: what ``hybridize``'s flags ask for."""

    EAGER_ALLOC = "fresh"  #: neither flag
    STATIC_ALLOC = "kept"  #: static_alloc: the memory of intermediate results is kept between calls
    GRAPH = "graph"  #: static_alloc and static_shape: kernels are started together, as a CUDA graph


class NotBuiltError(RuntimeError):
    """Compiled code could not be made or kept: every disk is full or read-only, or the compiler has gone
    or is another one by now.

    Attributes:
        advice: what to do.
    """

    def __init__(self, what: str, advice: str = "Free some space, or name a folder in TMPDIR.") -> None:
        super().__init__(what)
        self.advice = advice


class BuildInfo:
    """The cost of loading a program.

    Attributes:
        seconds: wall time of compiling and loading.
        compiled: number of modules compiled now (0 when all came from the cache).
        kernels: names of the kernels in them.
        detail: compiler and flags, for reports.
    """

    __slots__ = ("compiled", "detail", "kernels", "seconds")

    def __init__(self, seconds: float, compiled: int, detail: str, kernels: tuple[str, ...] = ()) -> None:
        self.seconds, self.compiled, self.detail, self.kernels = seconds, compiled, detail, kernels


class Loaded(Protocol):
    """A program that can run. Calls may come from several threads at once."""

    @property
    def info(self) -> BuildInfo:
        """The cost of loading it."""

    @property
    def execution_mode(self) -> str:
        """The way calls run, in words, for ``explain``; empty where there is only one."""

    def in_mode(self, mode: Mode) -> Loaded:
        """The same program, called in another way."""

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Run on C-contiguous arrays of the backend's array module, writing ``outputs``."""

    def describe(self, step: LibraryStep) -> str:
        """The library that computes a step of the program (or of a loop's body in it), in words; '' if there was no choice."""


class Backend(Protocol):
    """Compiles and loads programs for one device."""

    @property
    def target(self) -> Target:
        """The device as the compiler sees it."""

    @property
    def xp(self) -> Any:
        """The array module."""

    def loads_in_parallel(self, program: Program) -> bool:
        """Whether a thread that loads ``program`` while others work is done earlier than one after the other."""

    def prewarm(self, numeric: str) -> AbstractContextManager[Any]:
        """Begin with what compiling a new program of a numeric mode takes whatever the program is.

        What is given within the ``with`` is for one :meth:`load`; it may be None.
        """

    def load(self, program: Program, prewarmed: Any = None) -> Loaded:
        """Compile (or find in the cache) and load ``program``."""

    def key(self, target: Target | None = None) -> str:
        """Everything about the device and its compiler that a stored program depends on, which is compiled for ``target``
        (None: for what :attr:`target` is now).
        """
