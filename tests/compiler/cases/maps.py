# SPDX-License-Identifier: Apache-2.0
"""Element by element: broadcasting, views, element types, random numbers."""

from __future__ import annotations

from typing import Any

from compiler.cases.table import case

from hybridgpu.compiler.ir import Builder, Node
from hybridgpu.core.dtypes import from_short


@case("f32[100,7]", "f32[7]")
def bias(b: Builder, x: Node, y: Node) -> Node:
    return b.max((x + y) * 2.0 - 1.0, 0.0)


@case("f32[1000]")
def chain(b: Builder, x: Node) -> Node:
    return b.tanh(x * 1.1 + 0.2) * b.sigmoid(x) + b.max(x - 0.3, 0.0) * 0.5 - b.exp(-(x * x))


@case("f32[1001]")
def odd_tail(b: Builder, x: Node) -> Node:
    return b.sqrt(b.abs(x)) + 1


@case("f32[7001]")
def two_loads_at_once(b: Builder, x: Node) -> Node:
    """More than one step of a thread, where few blocks run; the last ones are not all there."""
    return b.abs(x) + 1


@case("f16[12,1100]", "f32[12,1]")
def four_loads_at_once(b: Builder, x: Node, y: Node) -> Node:
    """Eight bytes a thread, of rows whose position is taken apart."""
    return b.cast(x, y.dtype) * y - b.abs(b.cast(x, y.dtype))


@case("f32[]")
def scalar(b: Builder, x: Node) -> Node:
    return b.exp(x)


@case("f32[6,40]", "f32[6,1]", "f32[1,40]")
def broadcast_both(b: Builder, x: Node, r: Node, c: Node) -> Node:
    return x * r + c


@case("f32[3,1,5]", "f32[4,1]")
def broadcast_outer(b: Builder, x: Node, y: Node) -> Node:
    return x + y


@case("f32[4,6]", "f32[4,3]")
def concats(b: Builder, x: Node, y: Node) -> Any:
    return (
        b.concat([b.exp(x), y, b.reverse(x, axes=(1,))], 1),
        b.pad(x, low=(1, 0), high=(0, 2), value=3.0),
        b.transpose(b.reshape(x, (2, 12)), (1, 0)),
    )


@case("f32[2,6,4]")
def joins_of_joins(b: Builder, x: Node) -> Node:
    """Taken apart across both: a quotient of a remainder is found inside others."""
    y = b.reshape(x, (4, 2, 1, 6))
    y = b.concat([y, y * y], 2)
    return b.reshape(b.concat([y, y * y], 0), (4, 1, 12, 4))


@case("f32[5,6,7]")
def slices(b: Builder, x: Node) -> Any:
    y = b.slice(x, (1, 0, 2), (5, 6, 7), (2, 1, 3))
    return y * 2, b.slice(x * x, (0, 5, 0), (5, 6, 7))


@case("f32[8,12]")
def transposed_sum(b: Builder, x: Node) -> Node:
    return b.transpose(x, (1, 0)) + b.reshape(x, (12, 8))


@case("f32[6,8]")
def reshaped_chain(b: Builder, x: Node) -> Node:
    y = b.reshape(b.exp(x), (3, 2, 8)) * 2
    return b.reshape(b.transpose(y, (0, 2, 1)), (24, 2)) - 1


@case("f32[10,8]")
def several_outputs(b: Builder, x: Node) -> Any:
    h = b.tanh(x)
    return h, h * h, b.sum(h, (1,))


@case("f32[64]", "f32[64]")
def same_output_twice(b: Builder, x: Node, y: Node) -> Any:
    z = x + y
    return z, z, b.reshape(z, (8, 8))


@case("f32[7]")
def input_is_output(b: Builder, x: Node) -> Any:
    return x, b.broadcast(b.reshape(x, (1, 7)), (3, 7))


@case("f32[33]")
def constants_only(b: Builder, x: Node) -> Any:
    return b.full((5,), 2.5, x.dtype), b.iota((3, 4), 1, x.dtype), x + b.iota((33,), 0, x.dtype)


@case("f32[40]")
def selects(b: Builder, x: Node) -> Any:
    positive = b.gt(x, 0.0)
    return (
        b.select(positive, x, b.full_like(x, 0.0)),
        b.cast(b.logical_and(positive, b.lt(x, 1.0)), x.dtype),
        b.isnan(x),
    )


@case("f16[65]", "f16[65]")
def half(b: Builder, x: Node, y: Node) -> Any:
    return x * y + 1, b.cast(b.exp(x), from_short("f32")), b.sum(x)


@case("bf16[65]", "bf16[65]")
def bfloat16(b: Builder, x: Node, y: Node) -> Any:
    other = b.cast(x, from_short("f16"))
    return x * y + 1, b.cast(b.exp(x), from_short("f32")), b.sum(x), b.cast(other * 0.5, x.dtype), b.amax(y, axes=(0,))


@case("bf16[6,40]", "bf16[40]")
def layer_norm_bfloat16(b: Builder, x: Node, scale: Node) -> Node:
    centred = x - b.mean(x, (1,), keepdims=True)
    return centred * b.rsqrt(b.mean(centred * centred, (1,), keepdims=True) + 1e-5) * scale


@case("f64[50]")
def double(b: Builder, x: Node) -> Any:
    return b.exp(x) * 0.1, b.sum(x * x)


@case("i32[30]", "i32[30]")
def integers(b: Builder, x: Node, y: Node) -> Any:
    return x + y, b.div(x, y), b.mod(x, y), b.max(x, y), b.abs(x), b.sign(y), b.sum(x), b.neg(x)


@case("u8[30]", "u8[30]")
def bytes_(b: Builder, x: Node, y: Node) -> Any:
    return x - y, x * y, b.div(x, y), b.mod(x, y), b.min(x, y)


@case("f64[40]", "f32[40]")
def powers(b: Builder, x: Node, y: Node) -> Any:
    return [b.pow(a, p) for a in (x, y) for p in (0.5, 2.0, -1.0, 0.0, 1.5)]


@case("i64[20]")
def longs(b: Builder, x: Node) -> Any:
    return x * (1 << 33), b.cast(x, from_short("f64")) / 3.0, b.cast(x, from_short("i8"))


@case("f32[30]")
def casts(b: Builder, x: Node) -> Any:
    y = x * 100
    return [b.cast(y, from_short(s)) for s in ("i32", "i64", "u8", "i8", "f64", "f16", "bf16", "bool")]


@case("f32[20,30]", "u32[4]")
def random_mask(b: Builder, x: Node, state: Node) -> Node:
    bits = b.apply(b._table["random_bits"], (state,), {"shape": x.shape, "stream": 1})
    u = b.cast(bits / 256, x.dtype) * 2.0**-24
    return b.select(b.ge(u, 0.3), x * (1 / 0.7), b.full_like(x, 0.0))


@case("f32[4,6]")
def reversed_and_taken_apart(b: Builder, x: Node) -> Node:
    """Quotients of a falling index: rounding towards zero would be wrong."""
    line = b.reverse(b.reshape(b.transpose(x, (1, 0)), (24,)), axes=(0,))
    return b.max(line, 0.0)


@case("f32[3,40]")
def many_kernels(b: Builder, x: Node) -> list[Node]:
    """So many different ones that they are compiled in several units."""
    results = [b.sum(x, (1,))]
    for n in range(2, 15):
        y = b.slice(x, (0, 0), (3, n))
        for _ in range(n):
            y = b.tanh(y)
        results.append(b.sum(y, (1,)))
    return results


@case("f32[3,40]", *["f32[3]"] * 42)
def many_kernels_and_pointers(b: Builder, x: Node, *rows: Node) -> list[Node]:
    """So many arguments and results that the CPU's entry takes an array of pointers."""
    sums = many_kernels(b, x)
    return [y + a * c - d for y, a, c, d in zip(sums, rows[::3], rows[1::3], rows[2::3], strict=True)]
