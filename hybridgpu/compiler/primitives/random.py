# SPDX-License-Identifier: Apache-2.0
"""Counter-based random bits: Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).

The state is an argument of the graph, four words: the seed's two and the call's two. Word ``w`` of
element ``i`` is the first word of Philox with the seed as key and (i, stream, call) as counter: every
element stands for itself, so a kernel can make its bits wherever it needs them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Any, NamedTuple

import numpy as np

from ...core.dtypes import u32
from ..ir.graph import NO_DERIVATIVE, Params, Primitive
from ..ir.types import TensorType, tensor_type

__all__ = ["ROWS", "STATE", "philox", "words"]

STATE = tensor_type((4,), u32)  #: type of the state argument

_CHUNK = 1 << 13  #: elements that NumPy makes at a time: what it needs on the way stays in the cache
_FACTORS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


def _infer(types: Sequence[TensorType], params: Params) -> TensorType:
    if types[0] is not STATE:
        raise TypeError(f"the state of random bits is {STATE!r}, not {types[0]!r}")
    return tensor_type(params["shape"], u32)


def _word(xp: Any, w: Any) -> Any:
    """An array of 64-bit words, or one word as NumPy's scalar (which CuPy's arrays take as well)."""
    return w.astype(xp.uint64, copy=False) if getattr(w, "ndim", 0) else np.uint64(int(w))


def philox(xp: Any, counter: Sequence[Any], key: Sequence[Any]) -> Any:
    """First word of Philox 4x32-10 for counters of four words, arrays or single words, under a key of two."""
    c = [_word(xp, w) for w in counter]
    k0, k1 = int(key[0]), int(key[1])
    for _ in range(10):
        p0, p1 = c[0] * _FACTORS[0], c[2] * _FACTORS[1]
        y0, y2 = p1 >> _HALF, p0 >> _HALF  # what follows writes into these four, which are new
        y0 ^= c[1]
        y0 ^= np.uint64(k0)
        y2 ^= c[3]
        y2 ^= np.uint64(k1)
        p0 &= _LOW
        p1 &= _LOW
        c = [y0, p1, y2, p0]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c[0].astype(xp.uint32)


def words(xp: Any, state: Any, i: Any, stream: int) -> Any:
    """The words of elements ``i`` (an array of uint64) of a stream under a state argument."""
    k0, k1, c2, c3 = state.tolist()
    number: Any = stream & 0xFFFFFFFF
    if i.size and int(i.max()) >> 32:
        number = (xp.uint64(stream) + (i >> _HALF) * xp.uint64(0x10000)) & _LOW
        i = i & _LOW
    return philox(xp, (i, number, c2, c3), (k0, k1))


_SMALL = 1 << 10  #: elements of an array up to which NumPy's calls take longer than their work
_TABLE_WORDS = 1 << 12  #: words of small arrays that are made at once, …
_TABLE_CALLS = 64  #: … and for how many calls at most
_MOST_TABLES = 64  #: of sizes, streams and seeds; beyond it all are dropped


class _Calls(NamedTuple):
    """Calls that asked for small arrays of one size, stream and seed.

    Attributes:
        last: the number of the latest call that was made alone, or that the table has.
        step: how far it was from the one before; None of a first one.
        table: the words of calls that are ``step`` apart, a row each, of which the last one is ``last``.
    """

    last: int
    step: int | None = None
    table: Any = None


_calls: dict[tuple[int, ...], _Calls] = {}


def _small_words(state: Any, stream: int, count: int) -> Any:
    """The words of few elements, those of coming calls beforehand: each word depends on its own numbers alone.

    The calls of a loop are as far apart as there are draws in between, so the greatest common divisor of two distances is
    taken for that of the next ones, as long as every other row of a table is likely to be asked for.
    """
    k0, k1, call, high = state.tolist()
    key = k0, k1, high, stream, count
    known = _calls.get(key)
    step = None
    if known is not None:
        if known.table is not None:
            back, between = divmod(known.last - call, known.step)
            if not between and 0 <= back < len(known.table):
                return known.table[-1 - back].copy()
        if call >= known.last:
            step = call - known.last
            rows = min(_TABLE_WORDS // max(count, 1), _TABLE_CALLS)
            distance = gcd(step, known.step or 0) if known.step is not None else 0
            if distance and step + known.step <= rows * distance and call + rows * distance <= _LOW:
                numbers = np.repeat(np.arange(call, call + rows * distance, distance, dtype=np.uint64), count)
                i = np.tile(np.arange(count, dtype=np.uint64), rows)
                table = philox(np, (i, stream & 0xFFFFFFFF, numbers, high), (k0, k1)).reshape(rows, count)
                _calls[key] = _Calls(call + (rows - 1) * distance, distance, table)
                return table[0].copy()
    elif len(_calls) >= _MOST_TABLES:
        _calls.clear()
    _calls[key] = _Calls(call, step)
    return words(np, state, np.arange(count, dtype=np.uint64), stream)


def _evaluate(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    state, stream = inputs[0], params["stream"]
    if xp is np and out.size <= _SMALL:
        return _small_words(state, stream, out.size).reshape(out.shape)
    if xp is not np:
        return words(xp, state, xp.arange(out.size, dtype=xp.uint64), stream).reshape(out.shape)
    values = np.empty(out.size, np.uint32)
    for at in range(0, out.size, _CHUNK):
        part = values[at : at + _CHUNK]
        part[...] = words(np, state, np.arange(at, at + part.size, dtype=np.uint64), stream)
    return values.reshape(out.shape)


ROWS = [
    Primitive(
        "random_bits",
        "random",
        _infer,
        _evaluate,
        NO_DERIVATIVE,
        "hg::random_bits({0}, {1}, {2}, {3}, {4}, {5})",
        60,
        "32 random bits an element",
    )
]
