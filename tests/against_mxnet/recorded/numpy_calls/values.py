# SPDX-License-Identifier: Apache-2.0
"""The arrays of expressions: ``a(type, shape)``."""

import zlib

TYPES = {"f2": "float16", "f4": "float32", "f8": "float64", "i1": "int8", "u1": "uint8", "i4": "int32", "i8": "int64"}
TYPES["b1"] = "bool"
FLOATS, WHOLE = ("f2", "f4", "f8"), ("i1", "u1", "i4", "i8", "b1")


def values(onp, kind, shape, low=-3, high=3):
    """The values of ``a(kind, shape, low, high)``."""
    rng = onp.random.RandomState(zlib.crc32(repr((kind, tuple(shape), low, high)).encode()) % (1 << 31))
    if kind == "b1":
        return rng.randint(0, 2, shape).astype("bool")
    if kind in FLOATS:
        return (rng.randint(4 * low, 4 * high + 1, shape) / 4.0).astype(TYPES[kind])
    return rng.randint(max(low, 0) if kind == "u1" else low, high + 1, shape).astype(TYPES[kind])
