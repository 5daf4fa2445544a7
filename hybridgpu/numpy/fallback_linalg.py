# SPDX-License-Identifier: Apache-2.0
"""The functions of np.linalg that are NumPy's own."""

from __future__ import annotations

from typing import Any

from ..ops.numpy.on_host import on_host_names
from . import linalg as _functions

__all__ = [*on_host_names("linalg")]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(_functions, name)
