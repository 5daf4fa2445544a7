# SPDX-License-Identifier: Apache-2.0
"""``gluon.contrib``: layers that are not (yet) part of ``gluon.nn``."""

from __future__ import annotations

import importlib
from typing import Any

from . import nn

__all__ = ["nn"]

_MODULES = ("cnn", "data", "estimator", "nn", "rnn")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(_MODULES)
