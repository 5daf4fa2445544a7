# SPDX-License-Identifier: Apache-2.0
"""Shared by the harness's own tests: the example kernels and short ways to launch one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import DTypeLike

from . import Buffer, Module, Report
from .toolchain import nvidia_includes

KERNELS = Path(__file__).resolve().parent / "kernels"
needs_nvidia_headers = pytest.mark.skipif(
    not any((Path(d) / "crt/host_defines.h").exists() for d in nvidia_includes()),
    reason="NVIDIA's header wheels are not installed",
)


ORDERS = ["forward", "reverse", "shuffle"]  #: in which threads are executed
GROUPS = "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\n"

DAILY = "sm_90"  #: the architecture that NVRTC compiles tables for in every run


def by_architecture(rows: Iterable[Any]) -> list[Any]:
    """Rows of a table, which are architectures or start with one: those of others than DAILY are left to the second job,
    but for the first where DAILY has none."""
    table = [(row,) if isinstance(row, str) else row for row in rows]
    daily = [values for values in table if values[0] == DAILY] or table[:1]
    return [pytest.param(*v, marks=() if v in daily else pytest.mark.architectures) for v in table]


def kernel_text(name: str) -> str:
    """The text of an example kernel."""
    return (KERNELS / f"{name}.cu").read_text()


def inject(text: str, old: str, new: str) -> str:
    """The text with its first 'old' replaced."""
    assert old in text
    return text.replace(old, new, 1)


def normal(*shape: int, seed: int = 7) -> np.ndarray:
    """Normally distributed float32 values."""
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def out(count: int | tuple[int, ...] = 64, dtype: DTypeLike = np.float32) -> Buffer:
    """An output buffer named 'out'."""
    return Buffer.empty(count, dtype, name="out")


def launch(
    text: str,
    *args: Any,
    grid: int | Sequence[int] = 1,
    block: int | Sequence[int] = 32,
    name: str = "k",
    names: Sequence[str] = (),
    options: Sequence[str] = (),
    include_dirs: Sequence[Path] = (),
    check: bool = True,
    **how: Any,
) -> Report:
    """Compiles the text and launches its kernel 'k'."""
    module = Module(text, include_dirs, options, names, check)
    return module[name](grid, block, args, **how)
