# SPDX-License-Identifier: Apache-2.0
"""Convolutions whose results are reduced in windows."""

from __future__ import annotations

from typing import Any

from compiler.cases.convolutions import plain_conv
from compiler.cases.table import case
from compiler.cases.windows import spread_windows

from hybridgpu.compiler.ir import Builder, Node


def windows(b: Builder, x: Node, *sizes: int) -> tuple[Node, tuple[int, ...]]:
    """``x`` with every spatial axis cut into windows, what is left over left out; and the axes inside these."""
    spatial = tuple(d // s * s for d, s in zip(x.shape[2:], sizes, strict=True))
    if spatial != x.shape[2:]:
        x = b.slice(x, (0,) * x.ndim, (*x.shape[:2], *spatial))
    cut = [e for d, s in zip(spatial, sizes, strict=True) for e in (d // s, s)]
    return b.reshape(x, (*x.shape[:2], *cut)), tuple(range(3, 3 + 2 * len(sizes), 2))


def pooled(b: Builder, x: Node, *sizes: int, how: str = "amax") -> Node:
    return b.reduce(how, *windows(b, x, *sizes))


@case("f32[3,2,12,14]", "f32[5,2,3,3]", "f32[5]")
def pooled_squares(b: Builder, x: Node, w: Node, c: Node) -> Node:
    """Blocks have more threads than there are elements."""
    return pooled(b, b.max(plain_conv(b, x, w) + b.reshape(c, (5, 1, 1)), 0.0), 2, 2)


@case("f32[2,2,9,12]", "f32[4,2,2,3]", "f32[2,4,4,2]")
def pooled_mean(b: Builder, x: Node, w: Node, r: Node) -> Node:
    """Ten elements a window, which two threads share; what follows reads an array of the result's shape."""
    y = b.tanh(plain_conv(b, x, w))
    return pooled(b, y, 2, 5, how="sum") * 0.1 + r


@case("f32[2,3,13,13]", "f32[4,3,3,3]")
def pooled_partly(b: Builder, x: Node, w: Node) -> Node:
    """A row and a column belong to no window."""
    return pooled(b, plain_conv(b, x, w), 2, 2) * 2.0


@case("f32[2,4,11,11]", "f32[6,2,3,3]")
def pooled_by_nines(b: Builder, x: Node, w: Node) -> Node:
    """Nine elements a thread; groups, and another operation."""
    return pooled(b, plain_conv(b, x, w, groups=2), 3, 3, how="amin")


@case("f32[2,3,10,10]", "f32[4,3,3,3]", "f32[4,1,1]")
def pooled_and_kept(b: Builder, x: Node, w: Node, c: Node) -> Any:
    """Training: the convolution is a result, too."""
    y = plain_conv(b, x, w)
    return pooled(b, b.max(y + c, 0.0), 2, 2), y


@case("f32[2,3,21]", "f32[4,3,2]")
def pooled_line(b: Builder, x: Node, w: Node) -> Any:
    """Two reductions of a window."""
    y = plain_conv(b, x, w)
    return pooled(b, y, 4), pooled(b, y, 4, how="sum")


@case("f32[1,2,6,7,8]", "f32[3,2,3,2,3]")
def pooled_volume(b: Builder, x: Node, w: Node) -> Node:
    return pooled(b, plain_conv(b, x, w), 2, 3, 2)


@case("f32[2,3,12,12]", "f32[3,1,1]", "f32[4,3,5,5]")
def pooled_with_prologue(b: Builder, x: Node, scale: Node, w: Node) -> Node:
    """Pictures are scaled as they are loaded."""
    return pooled(b, plain_conv(b, b.abs(x) * scale, w), 2, 2)


@case("f32[2,3,9,9]", "f32[4,3,2,2]")
def pooled_all(b: Builder, x: Node, w: Node) -> Node:
    """One window of 64 elements, two a thread."""
    return b.sum(plain_conv(b, x, w), (2, 3)) * (1 / 64)


@case("f32[2,3,13,13]", "f32[4,3,2,2]")
def pooled_strided(b: Builder, x: Node, w: Node) -> Node:
    """Every third row and column is met by no tap."""
    return pooled(b, plain_conv(b, x, w, stride=3), 2, 2)


@case("f16[2,3,10,10]", "f16[4,3,3,3]", "f16[4,1,1]")
def pooled_halves(b: Builder, x: Node, w: Node, c: Node) -> Node:
    return pooled(b, b.max(plain_conv(b, x, w) * 0.1 + c, 0.0), 2, 2, how="sum") * 0.25


@case("f64[1,2,8,8]", "f64[3,2,3,3]")
def pooled_doubles(b: Builder, x: Node, w: Node) -> Node:
    return pooled(b, plain_conv(b, x, w), 2, 2, how="prod")


@case("f32[2,3,10,10]", "f32[4,3,3,3]", "f32[1,64,4]", resident="always", persistent_cluster=0)
def steps_pooled(b: Builder, x: Node, w: Node, y: Node) -> Any:
    """Threads exchange what they have reduced beside a step of less than a warp."""
    return pooled(b, plain_conv(b, x, w), 2, 2), b.sum(y * y, (1,))


# -- what stays apart


@case("f32[2,3,9,9]", "f32[4,3,3,3]")
def pooled_where_windows_meet(b: Builder, x: Node, w: Node) -> Node:
    """Windows of three rows and columns, two apart."""
    return b.amax(spread_windows(b, plain_conv(b, x, w), (3, 3), (2, 2), (1, 1)), axes=(0, 1))


@case("f32[2,3,13,13]", "f32[4,3,3,3]")
def pooled_partly_and_kept(b: Builder, x: Node, w: Node) -> Any:
    y = plain_conv(b, x, w)
    return pooled(b, y, 2, 2), y


@case("f32[2,3,9,9]", "f32[4,3,3,3]")
def pooled_in_one(b: Builder, x: Node, w: Node) -> Node:
    """49 elements a window."""
    return b.reduce("amax", plain_conv(b, x, w), (2, 3))


@case("f32[2,3,6,6]", "f32[4,3,3,3]")
def pooled_channels(b: Builder, x: Node, w: Node) -> Node:
    return b.sum(plain_conv(b, x, w), (1,))


@case("f32[2,3,6,6]", "f32[4,3,3,3]")
def pooled_and_centred(b: Builder, x: Node, w: Node) -> Node:
    """Elements wait for the sum of their window."""
    y = plain_conv(b, x, w)
    return b.exp(y - b.reduce("amax", y, (2, 3), keepdims=True))


@case("f32[2,3,6,6]", "f32[4,3,3,3]")
def pooled_place(b: Builder, x: Node, w: Node) -> Node:
    return b.reduce("argmax", b.reshape(plain_conv(b, x, w), (2, 4, 16)), (2,))
