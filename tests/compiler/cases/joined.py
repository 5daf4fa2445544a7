# SPDX-License-Identifier: Apache-2.0
"""Joins of what no map kernel computes: their parts are written where they belong."""

from __future__ import annotations

from typing import Any

from compiler.cases.convolutions import plain_conv
from compiler.cases.rows import softmax
from compiler.cases.table import case

from hybridgpu.compiler.ir import Builder, Node


@case("f32[64,96]", "f32[33,96]")
def softmaxes_in_rows(b: Builder, x: Node, y: Node, axis: int = 0) -> Node:
    return b.concat([softmax(b, x), softmax(b, y)], axis)


@case("f32[5,67]", "f32[9,67]")
def softmaxes_in_uneven_rows(b: Builder, x: Node, y: Node) -> Node:
    """The second part begins between two vectors."""
    return softmaxes_in_rows(b, x, y)


@case("f32[33,192]", "f32[33,64]")
def softmaxes_in_columns(b: Builder, x: Node, y: Node) -> Node:
    return softmaxes_in_rows(b, x, y, 1)


@case("f32[33,67]", "f32[33,129]")
def softmaxes_in_uneven_columns(b: Builder, x: Node, y: Node) -> Node:
    return softmaxes_in_rows(b, x, y, 1)


@case("f16[33,68]", "f16[33,132]")
def softmaxes_of_halves(b: Builder, x: Node, y: Node) -> Node:
    return softmaxes_in_rows(b, x, y, 1)


@case("f32[4,9,40]", "f32[4,7,40]")
def softmaxes_in_the_middle(b: Builder, x: Node, y: Node) -> Node:
    return softmaxes_in_rows(b, x, y, 1)


@case("f32[3,9000]", "f32[3,8000]")
def long_softmaxes(b: Builder, x: Node, y: Node) -> Node:
    return softmaxes_in_rows(b, x, y, 1)


@case("f32[600,12]", "f32[600,8]")
def short_softmaxes(b: Builder, x: Node, y: Node) -> Node:
    """Rows that a CPU turns, a tile of them at a time."""
    return softmaxes_in_rows(b, x, y, 1)


@case("f32[32,96]", "f32[32,96]")
def stacked_softmaxes(b: Builder, x: Node, y: Node, axis: int = 0) -> Node:
    parts = [softmax(b, v) for v in (x, y)]
    return b.concat([b.reshape(p, (*p.shape[:axis], 1, *p.shape[axis:])) for p in parts], axis)


@case("f32[32,96]", "f32[32,96]")
def stacked_softmaxes_inside(b: Builder, x: Node, y: Node) -> Node:
    return stacked_softmaxes(b, x, y, 1)


@case("f32[32,96]", "f32[32,64]", "f32[32,32]")
def joined_with_a_map(b: Builder, x: Node, y: Node, z: Node) -> Node:
    """What no kernel of rows computes stays a kernel, of its own part."""
    return b.concat([softmax(b, x), y * 2.0, softmax(b, z)], 1)


@case("f32[32,96]", "f32[32,64]")
def joined_with_an_argument(b: Builder, x: Node, y: Node) -> Node:
    return b.concat([y, softmax(b, x)], 1)


@case("f32[32,96]", "f32[32,64]", "f32[160]")
def joined_and_followed(b: Builder, x: Node, y: Node, g: Node) -> Node:
    """What follows the join is computed by each of its parts."""
    joined = b.concat([softmax(b, x), softmax(b, y)], 1)
    return b.max(joined * b.broadcast(b.reshape(g, (1, g.size)), joined.shape), 0.1)


@case("f32[32,96]", "f32[32,64]", "f32[16,160]")
def join_of_joins(b: Builder, x: Node, y: Node, z: Node) -> Node:
    return b.concat([softmaxes_in_rows(b, x, y, 1), softmax(b, z)], 0)


@case("f32[32,96]", "f32[32,96]")
def joined_and_an_output(b: Builder, x: Node, y: Node) -> Any:
    s = softmax(b, x)
    return b.concat([s, softmax(b, y)], 1), s


@case("f32[32,96]", "f32[32,96]")
def joined_and_read(b: Builder, x: Node, y: Node) -> Any:
    s = softmax(b, x)
    return b.concat([s, softmax(b, y)], 1), b.sum(s * y, (0,))


@case("f32[32,96]", "f32[32,96]", "f32[96,40]")
def joined_and_multiplied(b: Builder, x: Node, y: Node, w: Node) -> Any:
    """Another kernel reads a part, whose rows would lie apart."""
    s = softmax(b, x)
    return b.concat([s, softmax(b, y)], 1), b.dot(s, w)


@case("f32[32,96]", "f32[32,96]")
def joined_and_summed(b: Builder, x: Node, y: Node) -> Any:
    """Another kernel reads the join as its parts."""
    joined = softmaxes_in_rows(b, x, y, 1)
    return joined, b.sum(joined, (0,))


@case("f32[6]", "f32[5]")
def joined_vectors(b: Builder, x: Node, y: Node) -> Node:
    """Shorter than a sector of memory, but nothing lies between them."""
    return softmaxes_in_rows(b, x, y)


@case("f32[40,96]", "i32[40]", "f32[32,96]")
def joined_with_a_scatter(b: Builder, x: Node, i: Node, y: Node) -> Node:
    """A kernel that scatters adds up where its result lies, which must be an array of its own."""
    found = b.scatter_add(x, b.max(b.min(i, 31), 0), axis=0, extent=32)
    return b.max(b.concat([found * 2.0, softmax(b, y)], 1), 0.1)


@case("f32[32,96]")
def joined_twice(b: Builder, x: Node) -> Node:
    s = softmax(b, x)
    return b.concat([s, s], 1)


@case("f32[32,96]")
def joined_with_what_is_made_of_it(b: Builder, x: Node) -> Node:
    s = softmax(b, x)
    return b.concat([s, softmax(b, s * 3.0)], 1)


@case("f32[2,8,10,10]", "f32[16,72]", "f32[8,72]")
def joined_inside(b: Builder, x: Node, v: Node, w: Node) -> Node:
    """A join that is no result of the program."""
    return plain_conv(b, x, b.reshape(softmaxes_in_rows(b, v, w), (24, 8, 3, 3)))


@case("f32[8,64,96]", "f32[8,32,96]")
def joined_means(b: Builder, x: Node, y: Node) -> Node:
    return b.concat([b.mean(x, (2,)), b.mean(y, (2,))], 1)


@case("f32[6,20,64]", "f32[6,20,32]")
def joined_columns(b: Builder, x: Node, y: Node) -> Node:
    """The maps after reductions are joined, which become kernels of rows again."""
    return b.concat([v - b.reduce("amax", v, (1,), keepdims=True) for v in (x, y)], 2)


@case("f32[2,8,14,14]", "f32[16,8,3,3]", "f32[24,8,3,3]")
def joined_convolutions(b: Builder, x: Node, v: Node, w: Node) -> Node:
    return b.concat([b.max(plain_conv(b, x, v), 0.0), b.max(plain_conv(b, x, w), 0.0)], 1)


@case("f32[1,8,14,14]", "f32[16,8,3,3]", "f32[24,8,3,3]")
def joined_convolutions_of_one(b: Builder, x: Node, v: Node, w: Node) -> Node:
    return joined_convolutions(b, x, v, w)


@case("f32[2,8,50]", "f32[16,8,3]", "f32[24,8,3]")
def joined_lines(b: Builder, x: Node, v: Node, w: Node) -> Node:
    return joined_convolutions(b, x, v, w)


@case("f32[2,8,14,14]", "f32[16,8,3,3]", "f32[24,8,3,3]")
def fired(b: Builder, x: Node, v: Node, w: Node) -> Node:
    """As SqueezeNet expands, its activation behind the join."""
    return b.max(b.concat([plain_conv(b, x, v), plain_conv(b, x, w)], 1), 0.0)


@case("f32[2,32,12,12]", "f32[16,32,1,1]")
def dense_block(b: Builder, x: Node, w: Node) -> Node:
    """A layer of a DenseNet: what it gets, and what it adds."""
    return b.concat([x, plain_conv(b, b.max(x, 0.0), w)], 1)


@case("f32[64,48]", "f32[64,48]", "f32[48,32]")
def joined_products(b: Builder, x: Node, y: Node, w: Node, axis: int = 1) -> Node:
    return b.concat([b.dot(x, w), b.tanh(b.dot(y, w))], axis)


@case("f32[64,48]", "f32[32,48]", "f32[48,32]")
def joined_products_in_rows(b: Builder, x: Node, y: Node, w: Node) -> Node:
    return joined_products(b, x, y, w, 0)


@case("f32[6,32,32]", "f32[6,32,32]")
def joined_batches_of_products(b: Builder, x: Node, y: Node) -> Node:
    return b.concat([b.dot(x, y), b.dot(y, x)], 2)
