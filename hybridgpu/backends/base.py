# SPDX-License-Identifier: Apache-2.0
"""The protocol of a backend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ..compiler.program import Program
from ..compiler.target import Target

__all__ = ["Backend", "BuildInfo", "Loaded", "NoPlaceError"]


class NoPlaceError(RuntimeError):
    """Compiled code could not be kept anywhere: every disk is full or read-only."""


class BuildInfo:
    """What loading a program cost.

    Attributes:
        seconds: wall time of compiling and loading.
        compiled: number of modules compiled now (0 when all came from the cache).
        detail: compiler and flags, for reports.
    """

    __slots__ = ("compiled", "detail", "seconds")

    def __init__(self, seconds: float, compiled: int, detail: str) -> None:
        self.seconds, self.compiled, self.detail = seconds, compiled, detail


class Loaded(Protocol):
    """A program that can run. Calls may come from several threads at once."""

    @property
    def info(self) -> BuildInfo:
        """What loading it cost."""

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Run on C-contiguous arrays of the backend's array module, writing ``outputs``."""


class Backend(Protocol):
    """Compiles and loads programs for one device."""

    @property
    def target(self) -> Target:
        """What the compiler is told of the device."""

    @property
    def xp(self) -> Any:
        """The array module."""

    def load(self, program: Program) -> Loaded:
        """Compile (or find in the cache) and load ``program``."""

    def key(self) -> str:
        """Everything about the device and its compiler that a stored program depends on."""
