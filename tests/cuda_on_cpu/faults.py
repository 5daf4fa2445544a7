# SPDX-License-Identifier: Apache-2.0
"""What can go wrong: the exceptions that compiling and launching a kernel raise."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .report import Report

__all__ = [
    "BadLaunch",
    "BarrierFault",
    "CompileError",
    "FAULTS",
    "Hang",
    "KernelFault",
    "Misaligned",
    "OutOfBounds",
    "Race",
    "RestrictViolation",
    "SharedLifetime",
    "ToolMissing",
    "UndefinedBehaviour",
    "UninitialisedRead",
    "WarpFault",
]


class CompileError(Exception):
    """The kernel text does not compile, or uses what the harness does not support."""


class ToolMissing(CompileError):
    """A program or library that the harness needs is not installed."""


class KernelFault(Exception):
    """A defect in a kernel or its launch. The process goes on; the launch was abandoned.

    line: line in the kernel text, None if unknown; where: the inlined frames at the fault as
    'file:line', innermost first; report: the figures of the launch so far.
    """

    line: int | None = None
    where: tuple[str, ...] = ()
    report: Report | None = None


class OutOfBounds(KernelFault):
    """An access outside every buffer, shared variable or declared array."""


class Misaligned(KernelFault):
    """An access to an address that is no multiple of its size."""


class Race(KernelFault):
    """Two accesses by different threads, one a write, that no barrier orders."""


class UninitialisedRead(KernelFault):
    """A read of memory that nothing has written."""


class BarrierFault(KernelFault):
    """A barrier that not all of its threads reach, or that they reach at different places."""


class WarpFault(KernelFault):
    """A warp operation whose mask is wrong, or whose lanes are elsewhere."""


class UndefinedBehaviour(KernelFault):
    """Shift counts, signed overflow, division by zero, assert, __trap, stack overflow."""


class BadLaunch(KernelFault):
    """Grid, block, cluster or shared memory out of range, or arguments of the wrong type."""


class Hang(KernelFault):
    """Still running after the timeout."""


class RestrictViolation(KernelFault):
    """A buffer written by one parameter and used by another, one of them __restrict__."""


class SharedLifetime(KernelFault):
    """Shared memory of another block used before that block started, or when it may have exited."""


# In the order of 'enum Fault' in runtime/state.hpp.
FAULTS: tuple[type[KernelFault] | None, ...] = (
    None,
    OutOfBounds,
    Misaligned,
    Race,
    UninitialisedRead,
    BarrierFault,
    WarpFault,
    UndefinedBehaviour,
    BadLaunch,
    Hang,
    RestrictViolation,
    SharedLifetime,
)
