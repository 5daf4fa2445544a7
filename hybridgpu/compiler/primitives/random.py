# SPDX-License-Identifier: Apache-2.0
"""Counter-based random bits: Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).

The state is an argument of the graph, four words: the seed's two and the call's two. Word ``w`` of
element ``i`` is the first word of Philox with the seed as key and (i, stream, call) as counter: every
element stands for itself, so a kernel can make its bits wherever it needs them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...dtypes import u32
from ..ir.graph import NO_DERIVATIVE, Params, Primitive
from ..ir.types import TensorType, tensor_type

__all__ = ["ROWS", "STATE", "philox", "words"]

STATE = tensor_type((4,), u32)  #: type of the state argument


def _infer(types: Sequence[TensorType], params: Params) -> TensorType:
    if types[0] is not STATE:
        raise TypeError(f"the state of random bits is {STATE!r}, not {types[0]!r}")
    return tensor_type(params["shape"], u32)


def philox(xp: Any, counter: Sequence[Any], key: Sequence[Any]) -> Any:
    """First word of Philox 4x32-10 for arrays of counters (four words) under a key (two words)."""
    c = [xp.asarray(w, xp.uint64) for w in counter]
    k0, k1 = int(key[0]), int(key[1])
    low = xp.uint64(0xFFFFFFFF)
    for _ in range(10):
        p0, p1 = c[0] * xp.uint64(0xD2511F53), c[2] * xp.uint64(0xCD9E8D57)
        c = [
            (p1 >> xp.uint64(32)) ^ c[1] ^ xp.uint64(k0),
            p1 & low,
            (p0 >> xp.uint64(32)) ^ c[3] ^ xp.uint64(k1),
            p0 & low,
        ]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c[0].astype(xp.uint32)


def words(xp: Any, state: Any, i: Any, stream: int) -> Any:
    """The words of elements ``i`` (uint64) of a stream under a state argument."""
    key = state.astype(xp.uint64)
    number = (xp.uint64(stream) + (i >> xp.uint64(32)) * xp.uint64(0x10000)) & xp.uint64(0xFFFFFFFF)
    counter = (i & xp.uint64(0xFFFFFFFF), number, key[2], key[3])
    return philox(xp, counter, (int(key[0]), int(key[1])))


def _evaluate(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    return words(xp, inputs[0], xp.arange(out.size, dtype=xp.uint64), params["stream"]).reshape(out.shape)


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
