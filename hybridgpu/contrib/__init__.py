# SPDX-License-Identifier: Apache-2.0
"""``mx.contrib``: the operators of ``nd.contrib`` and ``sym.contrib`` under the names of MXNet's package, and more."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from ..ndarray import contrib as ndarray
from ..symbol import contrib as symbol

nd, sym = ndarray, symbol
# for import statements: ``from hybridgpu.contrib.ndarray import MultiBoxPrior``
sys.modules |= {f"{__name__}.ndarray": ndarray, f"{__name__}.symbol": symbol}
_MODULES = ("amp", "autograd", "io", "tensorboard", "text")

__all__ = ["amp", "autograd", "io", "nd", "ndarray", "sym", "symbol", "tensorboard", "text"]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
