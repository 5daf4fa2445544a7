# SPDX-License-Identifier: Apache-2.0
"""Loops whose turns are phases of one kernel, and what stands around them in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.cases.rows import softmax
from compiler.cases.table import case

from hybridgpu.compiler.ir import Builder, Node, tensor_type
from hybridgpu.compiler.passes.differentiate import differentiate
from hybridgpu.compiler.primitives.loop import inline, loop


def lstm(b: Builder, z: Node, h: Node, c: Node, w: Node, reverse: bool = False, stacked: Sequence[bool] = ()) -> Any:
    """States of every step (or the last ones) of an LSTM over what the inputs add to its gates."""
    length, n, size = z.shape[0], *h.shape
    s = b.nested()
    types = (tensor_type(z.shape[1:], z.dtype), h.type, c.type, w.type)
    gates, old, kept, weight = (s.input(t, f"x{k}") for k, t in enumerate(types))
    gates = gates + s.dot(old, s.transpose(weight, (1, 0)))
    i, f, g, o = (s.slice(gates, (0, size * k), (n, size * (k + 1))) for k in range(4))
    kept = s.sigmoid(f) * kept + s.sigmoid(i) * s.tanh(g)
    body = s.finish([s.sigmoid(o) * s.tanh(kept), kept], "turn")
    return loop(b, body, [z], [h, c], [w], length=length, reverse=reverse, stacked=stacked or None)


STATES = ("f32[4,16]", "f32[4,16]", "f32[64,16]")


@case("i32[5,4]", "f32[30,12]", "f32[64,12]", *STATES, "f32[10,16]", resident="always", persistent_cluster=0)
def looped(b: Builder, words: Node, table: Node, wx: Node, h: Node, c: Node, wh: Node, dense: Node) -> Any:
    """Words are looked up, a layer of an LSTM, a dense one and softmax: one kernel."""
    x = b.reshape(b.take(table, b.max(words, 0), axis=0), (20, 12))
    z = b.reshape(b.dot(x, b.transpose(wx, (1, 0))), (5, 4, 64))
    states, _ = lstm(b, z, h, c, wh)
    return softmax(b, b.dot(b.reshape(states, (20, 16)), b.transpose(dense, (1, 0))))


@case("f32[5,4,64]", *STATES, "f32[5,4,64]", *STATES, resident="always", persistent_cluster=0)
def looped_both_ways(b: Builder, z: Node, h: Node, c: Node, w: Node, *back: Node) -> Any:
    """Two loops that do not wait for each other; one keeps last values only."""
    states, cells = lstm(b, z, h, c, w)
    last, stack = lstm(b, *back, reverse=True, stacked=(False, True))
    return b.tanh(states + stack), cells, last * 2.0


@case("f32[5,1,128]", "f32[1,32]", "f32[1,32]", "f32[128,32]", resident="always")
def looped_in_a_cluster(b: Builder, *x: Node) -> Any:
    """Two barriers a turn, which cost a cluster less than the grid."""
    return b.tanh(lstm(b, *x)[0])


@case("f32[3,32,256]", "f32[32,64]", "f32[32,64]", "f32[256,64]", resident="always", persistent_cluster=0)
def looped_wide(b: Builder, *x: Node) -> Any:
    """Several blocks in every phase."""
    return b.tanh(b.reverse(lstm(b, *x)[0], axes=(1,)))


def counted(b: Builder, x: Node, h: Node, count: Node, w: Node) -> Any:
    """States of two types, and results; only the last states are kept."""
    s = b.nested()
    types = (tensor_type(x.shape[1:], x.dtype), h.type, count.type, w.type)
    new, old, seen, weight = (s.input(t, f"x{k}") for k, t in enumerate(types))
    scale = s.broadcast(s.reshape(s.cast(seen, x.dtype), (x.shape[1], 1)), h.shape)
    state = s.tanh(s.dot(old, weight) + new * scale * 0.1)
    body = s.finish([state * 2.0, state, s.add(seen, 1)], "turn")
    return loop(b, body, [x], [h, count], [w], length=x.shape[0], stacked=(False, False))


@case("f32[4,4,8]", "f32[4,8]", "i32[4]", "f32[8,8]", resident="always", persistent_cluster=0)
def looped_last(b: Builder, *x: Node) -> Any:
    return counted(b, *x)


@case("f32[2,4,8]", "f32[4,8]", "i32[4]", "f32[8,8]", resident="always", persistent_cluster=0)
def looped_twice(b: Builder, *x: Node) -> Any:
    return counted(b, *x)


@case("f32[1,4,8]", "f32[4,8]", "i32[4]", "f32[8,8]", resident="always", persistent_cluster=0)
def looped_once(b: Builder, *x: Node) -> Any:
    return counted(b, *x)


@case("f16[3,4,64]", "f16[4,16]", "f16[4,16]", "f16[64,16]", resident="always", persistent_cluster=0)
def looped_halves(b: Builder, z: Node, h: Node, c: Node, w: Node) -> Any:
    return lstm(b, z, h, c, w * 0.1)[0]


@case("f32[4,4,64]", *STATES, "f32[4,4,16]", resident="always", persistent_cluster=0)
def looped_slopes(b: Builder, *x: Node) -> Any:
    """The gradients of a recurrent layer."""
    s = b.nested()
    inputs = [s.input(n.type, f"x{k}") for k, n in enumerate(x[:-1])]
    made = differentiate(s.finish(lstm(s, *inputs)[:1]), [], [True], [True] * 4)
    return inline(b, made.graph, [x[k] for k in made.input_positions])


@case("f32[3,3,5]", "f32[3,5]", "f32[5,5]", resident="always", persistent_cluster=0)
def looped_out_of_step(b: Builder, x: Node, h: Node, w: Node) -> Any:
    """Slices that begin where no vector of four does: the host goes through the loop."""
    s = b.nested()
    types = (tensor_type(x.shape[1:], x.dtype), h.type, w.type)
    new, old, weight = (s.input(t, f"x{k}") for k, t in enumerate(types))
    body = s.finish([s.tanh(s.dot(old, weight) + new)], "turn")
    return loop(b, body, [x], [h], [w], length=x.shape[0])
