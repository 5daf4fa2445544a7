# SPDX-License-Identifier: Apache-2.0
"""``gluon.contrib``: layers that are not (yet) part of ``gluon.nn``."""

from __future__ import annotations

import importlib
from typing import Any

from . import nn

__all__ = ["nn"]


def __getattr__(name: str) -> Any:
    try:
        return importlib.import_module(f".{name}", __name__)
    except ModuleNotFoundError as e:
        if e.name != f"{__name__}.{name}":
            raise
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
