# SPDX-License-Identifier: Apache-2.0
"""Sizes that decide for others near them, so that a new batch size or length mostly has the kernels of another."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["FEWEST", "NARROW", "SHORT", "alike", "enlarged", "length_class"]

FEWEST = 5  #: turns of a loop whose number is better an argument: compilers write shorter loops out
SHORT = 32  #: turns of an inner loop that is not cut into pieces if all of them are shorter
NARROW = 32  #: CPU: rows side by side, fewer of which are walked as they lie in memory
_BATCH = 32  #: turns of an outermost loop that decide at least …
_COARSE = 8  #: … and the factor from one such number to the next


def alike(turns: int) -> int:
    """The turns of an outermost loop that decide for ``turns``: those of one of few sizes of a batch.

    So batches of most sizes, and what is left over at the end of an epoch, have the same kernels. A power of two and
    a little more are alike.
    """
    if turns < FEWEST:
        return turns
    counted = _BATCH
    while counted * 3 // 2 < turns:
        counted *= _COARSE
    return counted


def enlarged(shape: Sequence[int]) -> float:
    """How many times larger than an array of this shape the one is that decides; see :func:`alike`.

    Vectors decide as they are: mostly they hold a number for each feature, not for each example of a batch.
    """
    return alike(shape[0]) / shape[0] if len(shape) > 1 and shape[0] else 1.0


def length_class(terms: int, least: int = 64) -> int:
    """The length that forms for sums of so many terms are chosen by: a power of four from ``least`` on.

    Each stands for lengths up to one and a half times as many, so that a power of two and a little more are of one class.
    """
    bits = max(-(-2 * terms // 3) - 1, least - 1).bit_length()
    return 1 << (bits + bits % 2)
