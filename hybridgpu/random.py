# SPDX-License-Identifier: Apache-2.0
"""``mx.random``: seeding, and the samplers of ``mx.nd.random``."""

from __future__ import annotations

from typing import Any

from .generator import seed

__all__ = ["seed"]


def __getattr__(name: str) -> Any:
    """The samplers: ``mx.random.uniform`` is ``mx.nd.random.uniform``."""
    if name.startswith("__"):
        raise AttributeError(name)
    from .ndarray import random as samplers

    return getattr(samplers, name)
