# SPDX-License-Identifier: Apache-2.0
"""What is written at positions that are known only at run time."""

from __future__ import annotations

from typing import Any

from compiler.cases.table import case

from hybridgpu.compiler.ir import Builder, Node
from hybridgpu.core.dtypes import i64


@case("f32[4,5,6]", "i32[4,5]")
def scatter(b: Builder, g: Node, i: Node) -> Node:
    return b.scatter_add(g, b.max(b.min(i, 7), 0), axis=0, extent=8) * 2


@case("f32[6,24]", "i32[6,9]")
def scatter_of_means(b: Builder, g: Node, i: Node) -> Node:
    """The gradient of a table whose rows are averaged over time: no update is ever in memory."""
    share = b.broadcast(b.reshape(g * 0.125, (6, 1, 24)), (6, 9, 24))
    return b.scatter_add(share, b.max(b.min(i, 11), 0), axis=0, extent=12)


@case("f64[3,40,5]", "i64[40]")
def scatter_inside(b: Builder, g: Node, i: Node) -> Any:
    """Along an inner axis, and the updates are wanted themselves."""
    u = b.tanh(g)
    return b.scatter_add(u, b.max(b.min(i, 6), 0), axis=1, extent=7), u


@case("i32[300]", "i32[300]")
def counts(b: Builder, x: Node, i: Node) -> Node:
    """A histogram: neighbours go anywhere, perhaps to the same place."""
    return b.scatter_add(b.cast(b.gt(x, 0), i64), b.max(b.min(i, 8), 0), axis=0, extent=9)


@case("bf16[60,4]", "i32[60]")
def scatter_of_halves(b: Builder, g: Node, i: Node) -> Node:
    """A table that is summed in float."""
    return b.scatter_add(g * 2.0, b.max(b.min(i, 2), 0), axis=0, extent=3)


@case("f32[5,70,3]", "i32[5,70,3]")
def scatter_along(b: Builder, g: Node, i: Node) -> Node:
    return b.scatter_along(g * g, b.max(b.min(i, 9), 0), axis=1, extent=10)


@case("f16[9,6]", "f16[4,6]", "i32[4]")
def rows_replaced(b: Builder, x: Node, u: Node, i: Node) -> Any:
    """Rows that are replaced twice hold what came last; the second table begins as ones."""
    at = b.max(b.min(i, 8), 0)
    return b.scatter_set(x, u, at), b.scatter_set(b.full((9, 6), 1.0, u.dtype), b.reverse(u, axes=(1,)), at)


@case("f32[4,6]", "f32[3,6]", "i32[3]")
def rows_replaced_with_prologue(b: Builder, x: Node, u: Node, i: Node) -> Node:
    """The table is computed, and so in memory first."""
    return b.scatter_set(b.exp(x), u + 1.0, b.max(b.min(i, 3), 0))


@case("f32[5]", "i32[1]")
def scatter_to_one_place(b: Builder, g: Node, i: Node) -> Node:
    return b.scatter_add(b.reshape(g, (1, 5)), b.mod(i, 4), axis=0, extent=4)


@case("f32[40,1100]", "i32[40]")
def scatter_of_long_rows(b: Builder, g: Node, i: Node) -> Node:
    """Rows that several blocks of a GPU share."""
    return b.scatter_add(b.tanh(g), b.max(b.min(i, 5), 0), axis=0, extent=6)


@case("f16[3000,4]", "i32[3000]")
def scatter_in_parts(b: Builder, g: Node, i: Node) -> Node:
    """Many updates of few rows, which a GPU sums in several tables first."""
    return b.scatter_add(g, b.max(b.min(i, 9), 0), axis=0, extent=10)


@case("f64[2100]", "i32[2100]", launch_seconds=1.0)
def long_scatter(b: Builder, g: Node, i: Node) -> Node:
    """One table after all: a list of updates that fills up."""
    return b.scatter_add(g, b.max(b.min(i, 6), 0), axis=0, extent=7)


@case("f32[600,16]", "i32[600]", shared_total=120 << 10, byte_seconds=0.0, multiprocessors=1)
def scatter_into_many_rows(b: Builder, g: Node, i: Node) -> Node:
    """Of which a block of a GPU takes as many as it may have memory for."""
    at = b.max(b.min(i, 6), 0) * 1999 + b.iota((600,), 0, i.dtype)
    return b.scatter_add(g, at, axis=0, extent=13000)


@case("f32[40,24]", "i32[40]", "f32[9,24]", "f32[24]", "f32[1]")
def scatter_and_what_follows(b: Builder, g: Node, i: Node, r: Node, c: Node, s: Node) -> Any:
    """A gradient with another one, a row and a number, and its signs: no table is ever in memory."""
    y = b.scatter_add(g, b.max(b.min(i, 8), 0), axis=0, extent=9) * 2
    y = y + r + b.broadcast(b.reshape(c, (1, 24)), (9, 24)) * b.broadcast(b.reshape(s, (1, 1)), (9, 24))
    return b.max(y, 0), b.gt(y, 0)


@case("f16[9,6]", "f16[4,6]", "i32[4]")
def rows_replaced_and_what_follows(b: Builder, x: Node, u: Node, i: Node) -> Node:
    return b.scatter_set(x, u, b.max(b.min(i, 8), 0)) * 0.5 - x
