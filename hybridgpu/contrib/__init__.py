# SPDX-License-Identifier: Apache-2.0
"""``mx.contrib``: the operators of ``nd.contrib`` and ``sym.contrib`` under the names of MXNet's package, and more."""

from __future__ import annotations

import importlib
from typing import Any

_SPACES = {"nd": "ndarray", "ndarray": "ndarray", "sym": "symbol", "symbol": "symbol"}
_MODULES = ("autograd", "io", "text")

__all__ = ["autograd", "io", "nd", "ndarray", "sym", "symbol", "text"]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    if name not in _SPACES:
        from ..elsewhere import CONTRIB, no_attribute

        raise no_attribute(__name__, name, CONTRIB)
    found = importlib.import_module(f"..{_SPACES[name]}", __name__).contrib
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_SPACES, *_MODULES})
