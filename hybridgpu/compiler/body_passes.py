# SPDX-License-Identifier: Apache-2.0
"""Registry of the passes that a loop's body needs when it runs: passes know primitives, so they register, and load late."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["BODY_PASSES"]

#: 'simplify' and 'differentiate' -> what imports that function and returns it
BODY_PASSES: dict[str, Callable[[], Callable[..., Any]]] = {}
