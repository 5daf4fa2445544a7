# SPDX-License-Identifier: Apache-2.0
"""Size buckets: nearby sizes share kernels, so that a new batch size or length mostly compiles nothing."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from .ir.computed import computed
from .ir.dims import Scope, nominal
from .ir.types import TensorType, tensor_type

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
    "nominal_types",
    "symbolic_type",
    "with_dims",
    "worth_argument",
]

MIN_DYNAMIC_EXTENT = 5  #: iterations of a loop whose number is better an argument: compilers write shorter loops out
MIN_SPLIT_EXTENT = 32  #: iterations of an inner loop that is not cut into pieces if all of them are shorter
MAX_SPLIT_PARTS = 12  #: CUDA: parts that a kernel is cut into where the operands of concats meet
MIN_LANE_ROWS = 32  #: CPU: rows side by side, fewer of which are walked as they lie in memory
_SMALLEST_BUCKET = 32  #: iterations of an outermost loop that decide at least …
_MIN_NOMINAL = 16  #: first extents that decide for others: loops over fewer may be written out
_MAX_GROWTH = 4  #: times the first extent, up to which it decides
_BUCKET_RATIO = 8  #: … and the factor from one such number to the next


def worth_argument(extent: int) -> bool:
    """Whether a loop's extent, or a number that follows from it, may be an argument rather than a literal."""
    return nominal(extent) >= MIN_DYNAMIC_EXTENT


@computed
def next_power_of_two(extent: int) -> int:
    """The least power of two that is no less: arrays of so many elements serve a class of lengths."""
    return 1 << max(extent - 1, 0).bit_length()


def bucket(extent: int) -> int:
    """The bucket of an outermost loop's extent: the extent that decides for all of the bucket.

    So batches of most sizes, and what is left over at the end of an epoch, have the same kernels. A power of two and
    a little more are alike.
    """
    extent = nominal(extent)
    if extent < MIN_DYNAMIC_EXTENT:
        return extent
    counted = _SMALLEST_BUCKET
    while counted * 3 // 2 < extent:
        counted *= _BUCKET_RATIO
    return counted


def bucket_scale(shape: Sequence[int]) -> float:
    """The ratio of the bucket of an array's first extent to that extent; see :func:`bucket`.

    Vectors decide as they are: mostly they hold a number for each feature, not for each example of a batch.
    """
    return bucket(shape[0]) / nominal(shape[0]) if len(shape) > 1 and shape[0] else 1.0


def bucket_bytes(shape: Sequence[int], nbytes: int, batches: Collection[int]) -> int:
    """The bytes that an array of ``nbytes`` has at the size of its bucket, if its first extent is one of ``batches``."""
    nbytes = nominal(nbytes)
    if len(shape) < 2 or not shape[0] or shape[0] not in batches:
        return nbytes
    return nbytes // nominal(shape[0]) * bucket(shape[0])


def length_bucket(terms: int, least: int = 64) -> int:
    """The bucket of a sum's length, by which its kernel is chosen: a power of four from ``least`` on.

    Each stands for lengths up to one and a half times as many, so that a power of two and a little more are of one class.
    """
    terms = max(terms, nominal(terms))  # of what is kept on chip there is room for the rest
    bits = max(-(-2 * terms // 3) - 1, least - 1).bit_length()
    return 1 << (bits + bits % 2)


def symbolic_type(plain: TensorType, first: TensorType, scope: Scope) -> TensorType:
    """A type whose axes are dimensions where it differs from that of the ``first`` signature, see ir/dims.py."""
    return plain if plain is first else tensor_type(with_dims(plain.shape, first.shape, scope), plain.dtype)


def nominal_types(types: Sequence[TensorType]) -> list[TensorType]:
    """Types whose extents are the nominal ones of dimensions, for programs that serve any size; extents of 0 and 1 stay.

    Equal extents are one dimension: an operator mostly asks that they are equal. Nominal extents are odd, since a multiple of 16
    would be a literal.
    """
    nominals: dict[int, int] = {}
    for extent in {n: None for t in types for n in t.shape if n > 1}:
        nominal_extent = bucket(max(extent, MIN_DYNAMIC_EXTENT)) - 1
        while nominal_extent in nominals.values() or nominal_extent == extent:
            nominal_extent -= 2
        nominals[extent] = nominal_extent
    return [tensor_type(tuple(nominals.get(n, n) for n in t.shape), t.dtype) for t in types]


def with_dims(shape: Sequence[int], first: Sequence[int], scope: Scope) -> tuple[int, ...]:
    """``shape`` with the axes as dimensions of ``scope`` that were of another extent at first.

    Extents of 0 and 1 are none: their loops vanish, and what is the same along such an axis is stored once.
    """
    if len(shape) != len(first):
        return tuple(shape)
    return tuple(
        scope.dim(n, _nominal_extent(n, at_first)) if n != at_first and n > 1 else n
        for n, at_first in zip(shape, first, strict=True)
    )


def _nominal_extent(n: int, first: int) -> int:
    """The extent that decides for a dimension of ``n``: the first one, but its bucket for what is far larger.

    So the rest of an epoch has the kernels of all batches, and a large batch does not have those of a first call with one
    example. An extent so short that its loops are literals decides for none.
    """
    usual = first if first >= _MIN_NOMINAL else _SMALLEST_BUCKET
    return usual if n <= _MAX_GROWTH * max(usual, _SMALLEST_BUCKET) else bucket(n)
