# SPDX-License-Identifier: Apache-2.0
"""Random number generators, one a device.

Every device has a seed and counts its draws; both go into Philox (see
``compiler/primitives/random.py``), so the same seed gives the same numbers.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from ..context import Context, current_context
from .fork_safe_lock import Lock

__all__ = ["drawing", "next_state", "position", "seed", "set_position"]


class _Generator:
    """Of one device; its seed may change while calls hold it."""

    def __init__(self, seed: int) -> None:
        self.restart(seed)

    def restart(self, seed: int) -> None:
        self.seed = seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF
        self.calls = 0

    def draw(self) -> tuple[int, int, int, int]:
        """The next numbers: seed and number of the draw, in words of 32 bits."""
        with _lock.raw:
            calls = self.calls = self.calls + 1
            low, high = self.seed
        return low, high, calls & 0xFFFFFFFF, calls >> 32 & 0xFFFFFFFF


_generators: dict[tuple[int, int], _Generator] = {}
_lock = Lock()
_default_seed = int.from_bytes(os.urandom(8), "little")


def seed(seed_state: int, ctx: str | Context = "all") -> None:
    """Seed the generators of all devices, or of one.

    Raises:
        ValueError: the seed is no integer.
    """
    global _default_seed
    if not isinstance(seed_state, (int, np.integer)):
        raise ValueError("seed_state must be int")
    with _lock:
        if ctx == "all":
            _default_seed = int(seed_state)
            for where, g in _generators.items():
                g.restart(_seed_of(where))
        else:
            assert isinstance(ctx, Context)
            _generator(_key(ctx)).restart(int(seed_state))


def _key(ctx: Context) -> tuple[int, int]:
    return (2 if ctx.device_typeid == 2 else 1, ctx.device_id)


def _seed_of(where: tuple[int, int]) -> int:
    return _default_seed + (where[0] - 1) * 1_000_003 + where[1] * 7_919  # devices draw different numbers


def _generator(where: tuple[int, int]) -> _Generator:
    with _lock:
        g = _generators.get(where)
        if g is None:
            g = _generators[where] = _Generator(_seed_of(where))
        return g


def next_state(ctx: Context | None = None) -> Any:
    """The state argument of the next random program on a device: seed and call number, uint32[4]."""
    return np.array(drawing(ctx)(), np.uint32)


def drawing(ctx: Context | None = None) -> Callable[[], tuple[int, int, int, int]]:
    """The function that gives the numbers of :func:`next_state`, of this device at every call."""
    return _generator(_key(ctx or current_context())).draw


def position(ctx: Context) -> int:
    """The number of draws of a device's generator."""
    with _lock:
        g = _generators.get(_key(ctx))
        return g.calls if g is not None else 0


def set_position(ctx: Context, calls: int) -> int:
    """Let a device's generator go on as if it had drawn ``calls`` times; how often it had."""
    with _lock:
        g = _generators.get(_key(ctx))
        if g is None:  # it has drawn nothing
            return 0
        before, g.calls = g.calls, calls
    return before
