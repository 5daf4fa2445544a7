# SPDX-License-Identifier: Apache-2.0
"""Convolutions, spread ones, and derivatives by the weight."""

from __future__ import annotations

from typing import Any

from compiler.cases.table import case

from hybridgpu.compiler.ir import Builder, Node


def plain_conv(b: Builder, x: Node, w: Node, groups: int = 1, stride: int = 1) -> Node:
    """Without padding: whether 0 times an infinite weight is added there is left open."""
    n = x.ndim - 2
    steps = {"stride": (stride,) * n, "dilate": (1,) * n, "base_dilate": (1,) * n}
    return b.conv(x, w, groups=groups, low=(0,) * n, high=(0,) * n, **steps)


@case("f32[2,4,30]", "f32[6,4,3]")
def convolved_line(b: Builder, x: Node, w: Node) -> Node:
    return b.max(plain_conv(b, x, w), 0.0)


@case("f32[2,4,12,16]", "f32[8,2,3,3]", "f32[8]")
def convolved(b: Builder, x: Node, w: Node, c: Node) -> Node:
    return b.tanh(plain_conv(b, x, w, groups=2) + b.reshape(c, (1, 8, 1, 1)))


@case("f32[2,4,6,18]", "f32[8,2,3,3]", "f32[8]", multiprocessors=1)
def convolved_together(b: Builder, x: Node, w: Node, c: Node) -> Node:
    """Four neighbours a thread, where there are elements enough."""
    return b.tanh(plain_conv(b, x, w, groups=2) + b.reshape(c, (1, 8, 1, 1)))


@case("f32[3,2,9,21]", "f32[8,2,2,4]", "f32[21]", multiprocessors=1)
def convolved_together_with_prologue(b: Builder, x: Node, w: Node, c: Node) -> Node:
    """Two neighbours, which share what is computed as it is loaded."""
    return plain_conv(b, b.max(x + c, 0.0), w)


@case("f32[1,2,5,6,16]", "f32[8,2,3,3,3]")
def convolved_volume(b: Builder, x: Node, w: Node) -> Node:
    return plain_conv(b, x, w, stride=2) * 0.5


@case("f32[2,4,12,16]", "f32[4,1,1]", "f32[4,1,1]", "f32[8,4,3,3]")
def convolved_with_prologue(b: Builder, x: Node, scale: Node, shift: Node, w: Node) -> Node:
    """A normalised and clipped image, as before the convolutions of a residual block."""
    return plain_conv(b, b.max(x * scale + shift, 0.0), w) * 0.5


@case("f32[2,4,12,16]", "f32[8,4,1,1]")
def thinned_with_prologue(b: Builder, x: Node, w: Node) -> Node:
    """Every other pixel."""
    return plain_conv(b, b.max(x, 0.0), w, stride=2)


@case("f32[1,2,5,6,16]", "f32[8,2,3,3,3]")
def convolved_volume_with_prologue(b: Builder, x: Node, w: Node) -> Node:
    return plain_conv(b, b.abs(x) * 0.5, w)


@case("f32[2,3,8]", "f32[4,3,3]")
def input_dilated_line(b: Builder, x: Node, w: Node) -> Node:
    return b.conv(x, w, stride=(1,), low=(0,), high=(0,), dilate=(1,), base_dilate=(2,), groups=1)


@case("f32[2,6,5,7]", "f32[8,3,3,2]", "f32[8]")
def input_dilated(b: Builder, x: Node, w: Node, c: Node) -> Node:
    """Zeros between elements, of which there are more along one axis; what follows knows the channel."""
    y = b.conv(x, w, stride=(1, 1), low=(0, 0), high=(0, 0), dilate=(1, 2), base_dilate=(2, 3), groups=2)
    return b.max(y + b.reshape(c, (1, 8, 1, 1)), 0.0)


def _finite(b: Builder, x: Node) -> Node:
    """What padding may be multiplied by."""
    return b.select(b.lt(b.abs(x), 100.0), x, 0.5)


@case("f32[2,4,5,7,13]", "f32[6,2,2,3,2]", "f32[2,6,1,1,1]", "f32[2,1,1]")
def convolved_uneven(b: Builder, x: Node, w: Node, r: Node, d: Node) -> Node:
    """No two axes alike; what follows knows the depth."""
    steps = {"stride": (2, 1, 3), "low": (0, 2, 1), "high": (1, 0, 2), "dilate": (3, 1, 2)}
    return b.conv(x, _finite(b, w), groups=2, base_dilate=(1, 1, 1), **steps) * d + r


@case("f32[2,4,3,5,4]", "f32[6,2,2,3,2]", "f32[2,6,5,7,1]")
def spread_uneven(b: Builder, x: Node, w: Node, r: Node) -> Node:
    steps = {"stride": (1, 2, 1), "low": (1, 0, 2), "high": (0, 1, 3), "dilate": (1, 2, 1)}
    return b.conv(x, _finite(b, w), groups=2, base_dilate=(2, 4, 3), **steps) + r


@case("f32[2,4,9,4]", "f32[6,4,3,2]", "f32[2,1,19,1]")
def spread_tall(b: Builder, x: Node, w: Node, r: Node) -> Node:
    steps = {"stride": (1, 1), "low": (3, 0), "high": (1, 1), "dilate": (1, 2)}
    return b.conv(x, _finite(b, w), groups=1, base_dilate=(2, 3), **steps) * r


@case("f64[1,128,100,2]", "f64[1,128,2,2]")
def spread_in_bands(b: Builder, x: Node, w: Node) -> Node:
    """So many channels that a copy has room for some rows only."""
    return b.conv(x, w, stride=(1, 1), low=(0, 0), high=(0, 0), dilate=(1, 1), base_dilate=(2, 2), groups=1)


@case("f32[1,2,9,8]", "f32[8,2,3,3]")
def spread_in_tiles(b: Builder, x: Node, w: Node) -> Node:
    """Vectors of a phase that two tiles share unevenly."""
    steps = {"stride": (1, 1), "low": (1, 1), "high": (2, 2), "dilate": (1, 1)}
    return b.conv(x, _finite(b, w), groups=1, base_dilate=(2, 2), **steps)


def _slope(b: Builder, x: Node, g: Node, **params: Any) -> Node:
    """The derivative of a convolution by its weight, channels of the operand first."""
    n = x.ndim - 2
    swap = (1, 0, *range(2, x.ndim))
    ones, zeros = (1,) * n, (0,) * n
    steps = {"stride": ones, "dilate": ones, "base_dilate": ones, "low": zeros, "high": zeros}
    return b.conv(b.transpose(x, swap), b.transpose(g, swap), **{**steps, "groups": 1, **params})


@case("f32[3,2,20]", "f32[3,6,18]")
def slope_line(b: Builder, x: Node, g: Node) -> Node:
    return _slope(b, x, g)


@case("f32[3,4,9,9]", "f32[3,8,7,7]", "f32[8,4,3,3]")
def slope(b: Builder, x: Node, g: Node, w: Node) -> Node:
    """With weight decay; of operands that are computed first."""
    made = _slope(b, b.max(x, 0.0), g * 2.0)
    return b.transpose(made, (1, 0, 2, 3)) + w * 0.01


@case("f32[2,4,5,6,7]", "f32[2,8,5,6,7]", "f32[8]")
def slope_volume(b: Builder, x: Node, g: Node, c: Node) -> Node:
    """One element of every window; what follows knows the channel."""
    return _slope(b, x, g) * b.reshape(c, (1, 8, 1, 1, 1))


@case("f32[2,4,9,7,8]", "f32[2,8,3,5,4]", "f32[2,1,1]")
def slope_uneven(b: Builder, x: Node, g: Node, d: Node) -> Node:
    """No two axes alike: of a convolution with strides and dilations."""
    steps = {"stride": (3, 1, 2), "dilate": (3, 1, 2), "low": (1, 0, 2), "high": (0, 1, 1)}
    return _slope(b, x, _finite(b, g), **steps) * d


@case("f32[2,128,5,7]", "f32[9,128,1,1]", "f32[6,137,1,1]")
def convolved_pixels(b: Builder, x: Node, w: Node, v: Node) -> Node:
    """Windows of one element: the number of channels is an argument."""
    y = b.max(plain_conv(b, x, w), 0.0)
    return plain_conv(b, b.concat([x, y], 1), v)


def of_packed(b: Builder, packed: Node) -> Node:
    """A weight behind blocks of output channels; see primitives/packed_weight.py."""
    blocks, *inner, block = packed.shape
    n = len(inner)
    return b.reshape(b.transpose(packed, (0, n + 1, *range(1, n + 1))), (blocks * block, *inner))


@case("f32[2,5,9,9]", "f32[2,5,3,3,32]", "f32[64]")
def packed_weight(b: Builder, x: Node, w: Node, c: Node) -> Node:
    """Tiles of two rows, and of the last one."""
    y = plain_conv(b, x, of_packed(b, w))
    return b.max(y + b.reshape(c, (1, 64, 1, 1)), 0.0)


@case("f32[2,3,19,33]", "f32[3,3,1,1,16]")
def packed_pixels(b: Builder, x: Node, w: Node) -> Node:
    """Every other pixel of three blocks, where it lies."""
    return plain_conv(b, x, of_packed(b, w), stride=2)


@case("f32[2,4,12,16]", "f32[16]", "f32[1,4,3,3,16]")
def packed_weight_with_prologue(b: Builder, x: Node, c: Node, w: Node) -> Node:
    return plain_conv(b, b.max(x + c, 0.0), of_packed(b, w)) * 0.5
