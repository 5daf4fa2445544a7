# SPDX-License-Identifier: Apache-2.0
"""What the compiler knows of the machine it compiles for.

The figures steer choices (what to fuse, what to recompute); they are no promises. A target is part
of every cache key, so changing one recompiles.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CPU", "CUDA", "Target"]


@dataclass(frozen=True)
class Target:
    """A kind of machine.

    Attributes:
        name: 'cpu' or 'cuda'; also the folder of templates.
        op_seconds: one scalar operation of a fused kernel, vectorised.
        byte_seconds: one byte to or from memory.
        launch_seconds: starting one more kernel.
        max_arguments: pointers a kernel may take.
        max_nodes: primitives a kernel may hold.
        register_row: longest row whose values a kernel keeps on chip, in bytes a value.
    """

    name: str
    op_seconds: float
    byte_seconds: float
    launch_seconds: float
    max_arguments: int = 28
    max_nodes: int = 256
    register_row: int = 64 * 1024


CPU = Target("cpu", op_seconds=3e-11, byte_seconds=2.5e-11, launch_seconds=1e-8)
CUDA = Target("cuda", op_seconds=1e-13, byte_seconds=3e-13, launch_seconds=2e-6)
