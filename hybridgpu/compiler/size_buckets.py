# SPDX-License-Identifier: Apache-2.0
"""Size buckets: nearby sizes share kernels, so that a new batch size or length mostly compiles nothing."""

from __future__ import annotations

from collections.abc import Collection, Sequence

__all__ = [
    "MAX_SPLIT_PARTS",
    "MIN_DYNAMIC_EXTENT",
    "MIN_LANE_ROWS",
    "MIN_SPLIT_EXTENT",
    "bucket",
    "bucket_bytes",
    "bucket_scale",
    "length_bucket",
    "next_power_of_two",
]

MIN_DYNAMIC_EXTENT = 5  #: turns of a loop whose number is better an argument: compilers write shorter loops out
MIN_SPLIT_EXTENT = 32  #: turns of an inner loop that is not cut into pieces if all of them are shorter
MAX_SPLIT_PARTS = 12  #: CUDA: parts that a kernel is cut into where the operands of concats meet
MIN_LANE_ROWS = 32  #: CPU: rows side by side, fewer of which are walked as they lie in memory
_SMALLEST_BUCKET = 32  #: turns of an outermost loop that decide at least …
_BUCKET_RATIO = 8  #: … and the factor from one such number to the next


def next_power_of_two(extent: int) -> int:
    """The least power of two that is no less: arrays of so many elements serve a class of lengths."""
    return 1 << max(extent - 1, 0).bit_length()


def bucket(turns: int) -> int:
    """The bucket of an outermost loop's extent: the extent that decides for all of the bucket.

    So batches of most sizes, and what is left over at the end of an epoch, have the same kernels. A power of two and
    a little more are alike.
    """
    if turns < MIN_DYNAMIC_EXTENT:
        return turns
    counted = _SMALLEST_BUCKET
    while counted * 3 // 2 < turns:
        counted *= _BUCKET_RATIO
    return counted


def bucket_scale(shape: Sequence[int]) -> float:
    """The ratio of the bucket of an array's first extent to that extent; see :func:`bucket`.

    Vectors decide as they are: mostly they hold a number for each feature, not for each example of a batch.
    """
    return bucket(shape[0]) / shape[0] if len(shape) > 1 and shape[0] else 1.0


def bucket_bytes(shape: Sequence[int], nbytes: int, batches: Collection[int]) -> int:
    """The bytes that an array of ``nbytes`` has at the size of its bucket, if its first extent is one of ``batches``."""
    if len(shape) < 2 or not shape[0] or shape[0] not in batches:
        return nbytes
    return nbytes // shape[0] * bucket(shape[0])


def length_bucket(terms: int, least: int = 64) -> int:
    """The bucket of a sum's length, by which its kernel is chosen: a power of four from ``least`` on.

    Each stands for lengths up to one and a half times as many, so that a power of two and a little more are of one class.
    """
    bits = max(-(-2 * terms // 3) - 1, least - 1).bit_length()
    return 1 << (bits + bits % 2)
