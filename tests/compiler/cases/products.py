# SPDX-License-Identifier: Apache-2.0
"""Matrix products, and elements that are picked by index."""

from __future__ import annotations

from typing import Any

from compiler.cases.table import case

from hybridgpu.compiler.ir import Builder, Node


@case("f32[3,512]", "f32[256,512]", "f32[256]")
def dense(b: Builder, x: Node, w: Node, c: Node) -> Node:
    return b.max(b.dot(x, b.transpose(w, (1, 0))) * 0.05 + c, 0.0)


@case("f32[1,70]", "f32[33,70]", "f32[33]")
def dense_one(b: Builder, x: Node, w: Node, c: Node) -> Node:
    return b.tanh(b.dot(x, b.transpose(w, (1, 0))) + c)


@case("f32[6,20]", "f32[20,37]")
def product(b: Builder, x: Node, w: Node) -> Node:
    return b.dot(x, w)


@case("f32[96,200]", "f32[150,200]", "f32[150]")
def dense_large(b: Builder, x: Node, w: Node, c: Node) -> Node:
    return b.max(b.dot(x, b.transpose(w, (1, 0))) * 0.05 + c, 0.0)


@case("f32[24,600]", "f32[600,40]", "f32[40]")
def in_blocks(b: Builder, x: Node, w: Node, c: Node) -> Node:
    """A sum of so many terms that operands are copied, in blocks."""
    return b.max(b.dot(x, w) * 0.05 + c, 0.0)


@case("f32[24,600]", "f32[600,40]", "f32[24,39]")
def in_blocks_with_padding(b: Builder, x: Node, w: Node, r: Node) -> Node:
    """What is added to the sums has a column less."""
    return b.dot(x, w) + b.pad(r, low=(0, 1), high=(0, 0), value=0.0)


@case("f64[40,48]", "f64[40,33]")
def over_batch_in_blocks(b: Builder, x: Node, w: Node) -> Node:
    """As the gradient of a weight."""
    return b.dot(b.transpose(x, (1, 0)), w) * 0.5


@case("f32[2,3,8,64]", "f32[2,3,64,180]")
def batched_in_blocks(b: Builder, x: Node, w: Node) -> Node:
    return b.transpose(b.dot(x, w), (0, 2, 1, 3)) * 2.0


@case("f32[4,23,24]", "f32[4,23,24]", "f32[24]")
def batched_with_a_bias(b: Builder, q: Node, k: Node, c: Node) -> Node:
    """Scores of words: the right operand is computed row by row, and how many there are is dynamic."""
    return b.dot(q, b.transpose(k + c, (0, 2, 1)))


@case("f32[2,3,4,5]", "f32[2,3,5,6]")
def batched(b: Builder, x: Node, w: Node) -> Node:
    return b.transpose(b.dot(x, w), (0, 2, 1, 3)) * 2.0


@case("f32[4,7,5]", "f32[4,9,5]")
def batched_transposed(b: Builder, x: Node, w: Node) -> Node:
    return b.dot(x, b.transpose(w, (0, 2, 1)))


@case("f64[4,6]", "f64[6,5]")
def product_double(b: Builder, x: Node, w: Node) -> Node:
    return b.dot(x, w) + 1


@case("f16[4,32]", "f16[6,32]")
def product_half(b: Builder, x: Node, w: Node) -> Node:
    return b.dot(x, b.transpose(w, (1, 0)))


@case("bf16[4,32]", "bf16[6,32]")
def product_bfloat16(b: Builder, x: Node, w: Node) -> Node:
    return b.dot(x, b.transpose(w, (1, 0)))


@case("f32[5,8]", "f32[8,8]", "f32[8,8]")
def two_layers(b: Builder, x: Node, w: Node, v: Node) -> Node:
    h = b.max(b.dot(x, w), 0.0)
    return b.dot(h, v) + h


@case("f32[2,3,8]", "f32[8,10]", "f32[10]")
def dense_of_sequence(b: Builder, x: Node, w: Node, c: Node) -> Node:
    y = b.reshape(b.dot(b.reshape(x, (6, 8)), w), (2, 3, 10))
    return b.max(y + c, 0.0)


@case("f32[3,3]", "f32[3,70]", "f32[3,2,5,7]")
def epilogue_of_other_axes(b: Builder, a: Node, w: Node, x: Node) -> Any:
    """Beside a product of two axes the kernel stores what it reads by four."""
    scaled = x * 0.25
    test = b.gt(scaled, 0.0)
    product = b.reshape(b.dot(a, w), (3, 2, 5, 7))
    return b.select(test, product, 0.0), scaled, test


@case("f16[2,264]", "f16[24,264]", "f16[24]")
def thin_half(b: Builder, x: Node, w: Node, c: Node) -> Node:
    return b.max(b.dot(x, b.transpose(w, (1, 0))) + c, 0.0)


@case("f32[9,20]", "f32[2,20,128]", "f32[256]")
def panels(b: Builder, x: Node, w: Node, c: Node) -> Node:
    """A weight in panels of columns; see passes/prepack_weights.py."""
    y = b.dot(b.broadcast(b.reshape(x, (1, 9, 20)), (2, 9, 20)), w)
    return b.max(b.reshape(b.transpose(y, (1, 0, 2)), (9, 256)) + c, 0.0)


@case("f32[3,136]", "f32[136,72]")
def thin_columns(b: Builder, x: Node, w: Node) -> Node:
    return b.dot(x, w) * 2.0


@case("i32[33,150]", "i32[150,50]", "i32[33,50]")
def tiled_product(b: Builder, x: Node, w: Node, r: Node) -> Node:
    return b.dot(x, w) + r


@case("f32[2,3,20,70]", "f32[2,3,18,70]")
def batched_patches(b: Builder, x: Node, w: Node) -> Node:
    return b.dot(x, b.transpose(w, (0, 1, 3, 2))) * 0.125


@case("f32[16,200]", "f32[200,3]")
def product_of_few_columns(b: Builder, x: Node, w: Node) -> Node:
    """Patches with more rows than columns."""
    return b.dot(x, w)


@case("f32[3,16,30]", "f32[3,30,200]")
def batched_blocks(b: Builder, x: Node, w: Node) -> Node:
    """Each product of a batch has several patches in both directions."""
    return b.dot(x, w) + 1.0


@case("f32[5,4]", "f32[4,3]")
def padded_operand(b: Builder, x: Node, w: Node) -> Node:
    return b.dot(b.pad(x, low=(0, 0), high=(1, 0), value=0.0), w)


@case("f32[0,4]", "f32[4,3]")
def empty_product(b: Builder, x: Node, w: Node) -> Node:
    return b.dot(x, w)


# operands that products compute as they load them


@case("f32[7,70]", "f32[70]", "f16[24,70]", "f32[24]")
def dense_with_prologue(b: Builder, x: Node, scale: Node, w: Node, c: Node) -> Node:
    """Both operands, the left one a row at a time, and a bias."""
    made = b.max(x * scale, 0.0)
    return b.dot(made, b.transpose(b.cast(w, x.dtype), (1, 0))) + c


@case("f32[37,2100]", "f32[2100,5]")
def product_with_prologues(b: Builder, x: Node, w: Node) -> Node:
    """Several panels of rows, of which the last is shorter."""
    return b.dot(b.abs(x) * 0.5, w)


@case("f32[3,9,24]", "f32[3,24,600]")
def batched_with_prologue(b: Builder, x: Node, w: Node) -> Node:
    """Matrices of a batch, and columns of which some are left over in the last panel."""
    return b.dot(x, b.abs(w) - 1.0)


@case("f32[2,3,5,6]", "f32[2,1,5,6]", "f32[2,3,6,4]")
def small_with_prologue(b: Builder, x: Node, r: Node, w: Node) -> Node:
    return b.dot(x * r, w)


@case("f32[10,48]", "i32[9]", "f32[9,48]", "f32[48,72]")
def product_of_rows(b: Builder, table: Node, at: Node, x: Node, w: Node) -> Node:
    """Gathered rows, and what is added to them."""
    return b.dot(b.take(table, b.max(b.min(at, 9), 0), axis=0) + x, w)


@case("f32[10,6]", "i32[4,5]")
def take(b: Builder, x: Node, i: Node) -> Any:
    t = b.take(x, b.max(b.min(i, 9), 0), axis=0)
    return t * 2.0, b.sum(t, (2,))


@case("f32[5,8,3]", "i64[4]")
def take_middle(b: Builder, x: Node, i: Node) -> Node:
    return b.take(b.exp(x), b.mod(i, 8), axis=1) + 1


@case("f32[6,9]", "i32[6,2]")
def take_along(b: Builder, x: Node, i: Node) -> Node:
    return b.take_along(x, b.max(b.min(i, 8), 0), axis=1) * 3
