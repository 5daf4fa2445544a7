# SPDX-License-Identifier: Apache-2.0
"""Runs CUDA kernels on the CPU, exactly as written, fully checked. See README.md.

module = Module(kernel_text, include_dirs=["kernels"])
a, out = Buffer(np.arange(8, dtype=np.float32), name="a"), Buffer.empty(8, np.float32)
report = module["my_kernel"](1, 32, (a, out, np.int32(8)))
out.get(), report.traffic["a"].read_unique
"""

from .buffer import Buffer, Pointer
from .faults import (
    BadLaunch,
    BarrierFault,
    CompileError,
    Hang,
    KernelFault,
    Misaligned,
    OutOfBounds,
    Race,
    RestrictViolation,
    SharedLifetime,
    ToolMissing,
    UndefinedBehaviour,
    UninitialisedRead,
    WarpFault,
)
from .launch import Kernel
from .module import Module
from .report import Access, Report, Traffic

__all__ = [
    "Access",
    "BadLaunch",
    "BarrierFault",
    "Buffer",
    "CompileError",
    "Hang",
    "Kernel",
    "KernelFault",
    "Misaligned",
    "Module",
    "OutOfBounds",
    "Pointer",
    "Race",
    "Report",
    "RestrictViolation",
    "SharedLifetime",
    "ToolMissing",
    "Traffic",
    "UndefinedBehaviour",
    "UninitialisedRead",
    "WarpFault",
]
