# SPDX-License-Identifier: Apache-2.0
"""Several kernels as steps of one."""

from __future__ import annotations

from typing import Any

from compiler.cases.convolutions import plain_conv
from compiler.cases.rows import softmax
from compiler.cases.table import case

from hybridgpu.compiler.ir import Builder, Node


def layer(b: Builder, x: Node, w: Node, bias: Node) -> Node:
    return b.dot(x, b.transpose(w, (1, 0))) + bias


@case(
    "f32[16,64]",
    *("f32[128,64]", "f32[128]"),
    *("f32[64,128]", "f32[64]"),
    *("f32[10,64]", "f32[10]"),
    resident="always",
    persistent_cluster=0,
)
def steps_mlp(b: Builder, x: Node, *p: Node) -> Node:
    for k in (0, 2):
        x = b.max(layer(b, x, *p[k : k + 2]), 0.0)
    return softmax(b, layer(b, x, *p[4:]))


@case(
    "f32[3,20]",
    "f32[3,16]",
    "f32[3,16]",
    "f32[64,20]",
    "f32[64,16]",
    "f32[64]",
    resident="always",
    persistent_cluster=0,
)
def steps_lstm(b: Builder, x: Node, h: Node, c: Node, wx: Node, wh: Node, bias: Node) -> Any:
    gates = layer(b, x, wx, bias) + b.dot(h, b.transpose(wh, (1, 0)))
    i, f, g, o = (b.slice(gates, (0, 16 * k), (3, 16 * (k + 1))) for k in range(4))
    kept = b.sigmoid(f) * c + b.sigmoid(i) * b.tanh(g)
    return b.sigmoid(o) * b.tanh(kept), kept


@case("f32[4,3,12,12]", "f32[6,3,3,3]", "f32[6]", "f32[10,150]", "f32[10]", resident="always", persistent_cluster=0)
def steps_lenet(b: Builder, x: Node, w: Node, bias: Node, dense: Node, last: Node) -> Node:
    y = b.tanh(plain_conv(b, x, w) + b.reshape(bias, (6, 1, 1)))
    y = b.reduce("amax", b.reshape(y, (4, 6, 5, 2, 5, 2)), (3, 5))
    return softmax(b, layer(b, b.reshape(y, (4, 150)), dense, last))


@case("f32[300,40]", resident="always", persistent_cluster=0)
def steps_bare(b: Builder, x: Node) -> Node:
    """Steps without shared memory."""
    return b.reverse(softmax(b, x), axes=(0,)) * 2.0


@case("f32[5,3000]", resident="always", persistent_cluster=0)
def steps_of_long_rows(b: Builder, x: Node) -> Any:
    """A row a block, whose warps meet in the memory that all steps share."""
    return b.reverse(softmax(b, x), axes=(0,)) * 2.0, b.sum(x * x, (1,))


@case("f32[9,3000]", "f32[96,80]", resident="always", persistent_cluster=0)
def steps_in_one_memory(b: Builder, x: Node, y: Node) -> Any:
    """Steps of a phase that use the same shared memory one after the other."""
    return softmax(b, x), b.transpose(b.exp(y), (1, 0))


@case("f32[3,8,16]", "f32[3,16,40]", resident="always", persistent_cluster=0)
def steps_of_batches(b: Builder, x: Node, y: Node) -> Any:
    """Blocks beyond the last matrix would read something else."""
    return b.reverse(b.dot(b.abs(x), y), axes=(0,)) * 2.0


@case("f32[64,4]", "f32[40,4]", resident="always", persistent_cluster=0)
def steps_narrow(b: Builder, x: Node, w: Node) -> Any:
    """A step whose threads are less than a warp, and wait for each other."""
    total = b.sum(x * x, (0,))
    return total, b.dot(x, b.transpose(w, (1, 0))) * b.sum(total, (0,))


@case("f32[96,80]", "f32[96,80]", "f32[80,96]", "f32[70,300]", resident="always", persistent_cluster=0)
def steps_apart(b: Builder, x: Node, y: Node, z: Node, r: Node) -> Any:
    """Steps that do not depend on each other share a phase; a later one reads what several wrote."""
    turned = b.transpose(b.exp(x), (1, 0)) + z
    columns = b.sum(y * x, (0,))
    rows = softmax(b, r)
    return turned, columns, rows, b.dot(turned, y) + columns


@case("f16[5,64]", "f16[32,64]", "f16[16,32]", resident="always", persistent_cluster=0)
def steps_halves(b: Builder, x: Node, w: Node, v: Node) -> Node:
    h = b.tanh(b.dot(x, b.transpose(w, (1, 0))) * 0.1)
    return b.tanh(b.dot(h, b.transpose(v, (1, 0))) * 0.1)


@case("f32[20,64]", "f32[48,64]", "f32[40,48]", "f32[24,48]", "f32[40,24]", resident="always", persistent_cluster=0)
def steps_heads(b: Builder, x: Node, w: Node, left: Node, right: Node, scale: Node) -> Any:
    """Two products of a phase, of which the first finds its weight in shared memory; a whole array is read later."""
    h = b.tanh(b.dot(x, b.transpose(w, (1, 0))))
    y, z = (b.dot(h, b.transpose(v, (1, 0))) for v in (left, right))
    return y, b.sum(y, (0,)), b.tanh(z), b.dot(y, scale)


# -- steps on both sides of what is none


def _around(b: Builder, x: Node, between: Node) -> Any:
    """Two steps, the second of which need not wait for what stands between them in the graph."""
    e = softmax(b, x)
    return e, between, b.reverse(e, axes=(0,)) * 2.0


@case("f32[5,64]", "f32[2,40000]", resident="always", persistent_cluster=0)
def steps_around_a_cluster(b: Builder, x: Node, y: Node) -> Any:
    return _around(b, x, b.sum(y * y, (1,)))


@case("f32[5,64]", "f32[9,6]", "i32[9]", resident="always", persistent_cluster=0)
def steps_around_a_scatter(b: Builder, x: Node, y: Node, at: Node) -> Any:
    return _around(b, x, b.scatter_add(y, b.max(b.min(at, 11), 0), axis=0, extent=12))


@case("f32[5,64]", "f32[9,6]", resident="always", persistent_cluster=0)
def steps_around_a_sort(b: Builder, x: Node, y: Node) -> Any:
    """What follows a library's call waits for it."""
    return _around(b, x, b.argsort(b.abs(y), axis=1, ascending=True) + 1)


@case("f32[1,256]", "f32[64,256]", "f32[64]", "f32[48,64]", "f32[48]", "f32[10,48]", "f32[10]", resident="always")
def steps_in_a_cluster(b: Builder, x: Node, *p: Node) -> Node:
    """Few rows: one cluster of blocks has enough threads, and a barrier that takes a fraction of the grid's."""
    for k in (0, 2):
        x = b.max(layer(b, x, *p[k : k + 2]), 0.0)
    return softmax(b, layer(b, x, *p[4:]))


@case("f32[4,6]", "f32[6,6]", resident="always")
def steps_in_a_block(b: Builder, x: Node, w: Node) -> Any:
    """So little that a single block has enough threads."""
    return b.tanh(b.dot(b.tanh(b.dot(x, w)), w)), b.sum(x, (0,))
