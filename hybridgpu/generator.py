# SPDX-License-Identifier: Apache-2.0
"""The random number generators of the devices.

Every device has a seed and counts its draws; both go into Philox (see
``compiler/primitives/random.py``), so the same seed gives the same numbers.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .context import Context, current_context
from .locks import Lock

__all__ = ["next_state", "next_words", "position", "seed", "set_position"]


class _Generator:
    def __init__(self, seed: int) -> None:
        self.seed, self.calls = seed & 0xFFFFFFFFFFFFFFFF, 0


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
            _generators.clear()
        else:
            assert isinstance(ctx, Context)
            _generators[_key(ctx)] = _Generator(int(seed_state))


def _key(ctx: Context) -> tuple[int, int]:
    return (2 if ctx.device_typeid == 2 else 1, ctx.device_id)


def next_state(ctx: Context | None = None) -> Any:
    """The state argument of the next random program on a device: seed and call number, uint32[4]."""
    return np.array(next_words(ctx), np.uint32)


def next_words(ctx: Context | None = None) -> tuple[int, int, int, int]:
    """The numbers of :func:`next_state`."""
    where = _key(ctx or current_context())
    with _lock:
        g = _generators.get(where)
        if g is None:
            # devices draw different numbers from one seed
            g = _generators[where] = _Generator(_default_seed + (where[0] - 1) * 1_000_003 + where[1] * 7_919)
        g.calls += 1
        calls, value = g.calls, g.seed
    return value & 0xFFFFFFFF, value >> 32, calls & 0xFFFFFFFF, calls >> 32 & 0xFFFFFFFF


def position(ctx: Context) -> int:
    """How often a device's generator has drawn."""
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
