# SPDX-License-Identifier: Apache-2.0
"""``mx.random``: seeding, and the samplers of ``mx.nd.random``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .core.rng import seed
from .core.source_location import located_hint

__all__ = ["seed"]


if TYPE_CHECKING:
    from .ndarray.random import *  # noqa: F403
else:

    def __getattr__(name: str) -> Any:
        """The samplers: ``mx.random.uniform`` is ``mx.nd.random.uniform``."""
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "manual_seed":
            raise AttributeError(
                f"module '{__name__}' has no attribute '{name}'\n{located_hint('Write mx.random.seed(seed).')}"
            )
        from .ndarray import random as samplers

        return getattr(samplers, name)
