# SPDX-License-Identifier: Apache-2.0
"""Tiles of turned arrays, joins, and rows of every width."""

from __future__ import annotations

from typing import Any

from compiler.cases.maps import random_mask
from compiler.cases.rows import softmax
from compiler.cases.table import case

from hybridgpu.compiler.ir import Builder, Node
from hybridgpu.core.dtypes import from_short


@case("f32[45,70]", "f32[70]", "f32[70,45]")
def tiled(b: Builder, x: Node, y: Node, z: Node) -> Any:
    t = b.max(b.transpose(x, (1, 0)), 0.0)
    return t + z, t * b.broadcast(b.reshape(y, (70, 1)), (70, 45))


@case("f32[3,40,33]", "f32[3,40,33]", "f64[33]")
def tiled_batches(b: Builder, x: Node, y: Node, z: Node) -> Node:
    s = b.transpose(x, (0, 2, 1)) - b.transpose(y, (0, 2, 1))
    return b.cast(s, from_short("f64")) * b.reshape(z, (33, 1))


@case("f64[200,24]")
def tiled_long(b: Builder, x: Node) -> Node:
    return b.max(b.transpose(x, (1, 0)), 0.0)


@case("f32[64,48]")
def tiled_on_the_way_out(b: Builder, x: Node) -> Any:
    e = b.exp(x)
    return e, b.transpose(e * 2.0, (1, 0))


@case("f64[64,48]", "u32[4]")
def tiled_mask(b: Builder, x: Node, state: Node) -> Node:
    """Random bits in a tile, and joined with something else: the same ones at the same places."""
    t = random_mask(b, b.transpose(x, (1, 0)), state)
    return b.concat([t, b.transpose(random_mask(b, x, state), (1, 0))], 0)


@case("f32[64,48]", "f32[48,64]")
def tiled_both_ways(b: Builder, x: Node, y: Node) -> Any:
    s = x + b.transpose(y, (1, 0))
    return s, b.transpose(b.exp(s), (1, 0)), s * 2.0


@case("f16[64,96]", "f16[96,64]")
def tiled_halves(b: Builder, x: Node, y: Node) -> Any:
    s = b.transpose(x, (1, 0)) * y
    return s, b.transpose(s * 2.0, (1, 0))


@case("f16[2,33,40]", "bf16[2,33,40]")
def moved_halves(b: Builder, x: Node, y: Node) -> Any:
    return b.transpose(x, (0, 2, 1)), b.pad(b.concat([y, y], 2), low=(0, 0, 1), high=(0, 0, 2), value=3.0)


@case("u8[16,8,64]")
def tiled_bytes(b: Builder, x: Node) -> Node:
    return b.transpose(x, (0, 2, 1)) + 1


@case("f32[4,6,9,5,8]")
def permuted(b: Builder, x: Node) -> Node:
    return b.exp(b.transpose(x, (0, 4, 2, 1, 3)))


@case("f32[4,3,20,20]", "f32[3]")
def channels_last(b: Builder, x: Node, y: Node) -> Node:
    return b.transpose(x, (0, 2, 3, 1)) * y


@case("f32[2,20,30,3]")
def channels_first(b: Builder, x: Node) -> Node:
    return b.transpose(x, (0, 3, 1, 2)) / 255.0


@case("f32[40,64]", "f32[40,100]", "f32[36,40]")
def wide_joins(b: Builder, x: Node, y: Node, z: Node) -> Any:
    return b.tanh(b.concat([x, y * 2.0, b.transpose(z, (1, 0))], 1))


@case("f32[40,64]", "f32[7,64]", "f32[50,64]")
def joined_rows(b: Builder, x: Node, y: Node, z: Node) -> Node:
    return b.exp(b.concat([x, y, z], 0))


@case("f32[80,70]", "f32[70,50]")
def joined_on_the_way_out(b: Builder, x: Node, y: Node) -> Any:
    j = b.concat([b.transpose(x, (1, 0)), y], 1)
    return b.transpose(j, (1, 0)), j


@case("f32[6,30,50]")
def wide_pad(b: Builder, x: Node) -> Node:
    return b.pad(x, low=(0, 1, 1), high=(0, 1, 1), value=3.0) * 2.0


@case("f32[300]", "f32[300]", "f32[300]")
def stacked(b: Builder, x: Node, y: Node, z: Node) -> Node:
    return b.concat([b.reshape(v, (300, 1)) for v in (x, y, z)], 1)


@case("f32[9,1023]", "f32[1023]", "f32[9,1023]")
def odd_rows(b: Builder, x: Node, y: Node, z: Node) -> Node:
    return b.max(x + y, 0.0) * z


@case("f16[5,50]", "f16[50]")
def odd_rows_of_halves(b: Builder, x: Node, y: Node) -> Node:
    return x * y


@case("f32[40,30]", "f32[1001]", "f32[5]", "f32[40,30]", "f32[1001]", "f32[5]", "f16[2000]", "f32[3,8]", "f32[8]")
def steps_of_many(b: Builder, *x: Node) -> Any:
    """Kernels of several texts over arrays of several shapes, which share a launch on CUDA."""
    steps = [w - b.min(b.max(g, -1.0), 1.0) * 0.1 for w, g in zip(x[:3], x[3:6])]
    return [*steps, x[6] * 2.0, x[7] + x[8], b.slice(x[1], (1,), (1001,), (3,))]


@case("f32[40,30]", "f32[1001]")
def steps_alike(b: Builder, *x: Node) -> Any:
    return [b.max(w, 0.0) for w in x]


@case("f32[9,1024]", "f32[9,1001]")
def odd_slices(b: Builder, x: Node, y: Node) -> Any:
    return b.exp(b.slice(x, (0, 3), (9, 1003))) + b.slice(y, (0, 1), (9, 1001))


@case("f16[60,48]", "f32[60,48]")
def computed_twice(b: Builder, x: Node, g: Node) -> Any:
    """Rows and columns of one product cannot share a kernel: each multiplies for itself, nothing is written between."""
    y = b.max(b.cast(x, g.dtype) * g, 0.0)
    return softmax(b, y), b.sum(y, (0,)), b.transpose(y, (1, 0)) + 1.0


@case("f32[6,300]", "f32[6,200]", "f32[6,100]")
def joined_functions(b: Builder, x: Node, y: Node, z: Node) -> Node:
    """Each operand is computed in its own loop of the join."""
    return b.concat([b.tanh(x), b.exp(y), b.log(b.abs(z))], 1) * 2.0
