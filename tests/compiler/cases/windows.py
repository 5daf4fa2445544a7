# SPDX-License-Identifier: Apache-2.0
"""Windows taken and put back: pooling and its derivatives."""

from __future__ import annotations

from typing import Any

from compiler.cases.table import case

from hybridgpu.compiler.ir import Builder, Node
from hybridgpu.core.dtypes import i64


def spread_windows(
    b: Builder, x: Node, kernel: tuple[int, ...], stride: tuple[int, ...], dilate: tuple[int, ...]
) -> Node:
    n = len(kernel)
    extents = zip(x.shape[-n:], kernel, stride, dilate, strict=True)
    extent = tuple((d - (k - 1) * e - 1) // s + 1 for d, k, s, e in extents)
    wide = b.broadcast(b.reshape(x, (1,) * n + x.shape), (*kernel, *x.shape))
    return b.unfold(wide, stride=stride, dilate=dilate, extent=extent)


@case("f32[2,3,9,8]")
def max_pool(b: Builder, x: Node) -> Node:
    padded = b.pad(x, low=(0, 0, 1, 0), high=(0, 0, 1, 1), value=float("-inf"))
    return b.amax(spread_windows(b, b.max(padded, 0.5), (3, 2), (2, 1), (1, 1)), axes=(0, 1))


@case("f32[2,17]")
def dilated_windows(b: Builder, x: Node) -> list[Node]:
    taken = spread_windows(b, x, (3,), (2,), (3,))
    return [b.sum(taken, (0,)), b.argmax(taken, axes=(0,))]


@case("f32[3,2,2,4,5]")
def windows_put_back(b: Builder, x: Node) -> Node:
    back = b.fold(x, stride=(2, 3), dilate=(1, 2), extent=(10, 15))
    return b.sum(back, (0, 1)) * 2.0


@case("f32[2,3,8,12]", "f32[2,3,4,6]")
def disjoint_windows(b: Builder, x: Node, g: Node) -> Node:
    """A pooling's derivative where windows do not overlap, and that of what was before it."""
    y = b.tanh(x)
    best = b.argmax(spread_windows(b, y, (2, 2), (2, 2), (1, 1)), axes=(0, 1))
    shape = (2, 2, *g.shape)
    place = b.iota(shape, 1, i64) + b.iota(shape, 0, i64) * 2
    chosen = b.eq(place, b.broadcast(b.reshape(best, (1, 1, *g.shape)), shape))
    given = b.select(chosen, b.broadcast(b.reshape(g, (1, 1, *g.shape)), shape), 0.0)
    back = b.sum(b.fold(given, stride=(2, 2), dilate=(1, 1), extent=(8, 12)), (0, 1))
    return back * (1.0 - y * y)


@case("f32[2,3,12,40]")
def windows_over_the_border(b: Builder, x: Node) -> Any:
    """Pools of which only windows at the border meet the padding."""
    padded = b.pad(x * 0.5, low=(0, 0, 1, 1), high=(0, 0, 1, 1), value=0.0)
    taken = spread_windows(b, padded, (3, 3), (2, 2), (1, 1))
    return b.max(b.amax(taken, axes=(0, 1)), 0.0) - b.sum(taken, (0, 1)) * 0.125


@case("f32[2,3,12,40]", "f32[2,3,6,20]")
def windows_over_each_other(b: Builder, x: Node, g: Node) -> Node:
    """A pooling's derivative where windows overlap."""
    padded = b.pad(x, low=(0, 0, 1, 1), high=(0, 0, 1, 1), value=-1.0)
    best = b.argmax(spread_windows(b, padded, (3, 3), (2, 2), (1, 1)), axes=(0, 1))
    shape = (3, 3, *g.shape)
    place = b.iota(shape, 1, i64) + b.iota(shape, 0, i64) * 3
    chosen = b.eq(place, b.broadcast(b.reshape(best, (1, 1, *g.shape)), shape))
    given = b.select(chosen, b.broadcast(b.reshape(g, (1, 1, *g.shape)), shape), 0.0)
    back = b.sum(b.fold(given, stride=(2, 2), dilate=(1, 1), extent=(14, 42)), (0, 1))
    return b.slice(back, (0, 0, 1, 1), (2, 3, 13, 41), (1, 1, 1, 1))


@case("f32[2,5,210]")
def wide_disjoint_windows(b: Builder, x: Node) -> Node:
    """More windows in a row than a tile has."""
    return b.amax(spread_windows(b, b.exp(x), (3,), (3,), (1,)), axes=(0,))
