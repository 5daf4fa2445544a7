# SPDX-License-Identifier: Apache-2.0
"""Operands that the forward pass writes for a library and the backward pass keeps in place of what they are made of."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from compiler.cases import arrays, parse

from hybridgpu.compiler.ir import Builder, Graph, Node
from hybridgpu.compiler.passes.differentiate import differentiate, residuals
from hybridgpu.compiler.passes.library.shared_residuals import choose_residuals, materialized_operands
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.reference import evaluate
from hybridgpu.compiler.select import library_computes
from hybridgpu.compiler.target import CPU, CUDA
from hybridgpu.core.dtypes import f32

pytestmark = pytest.mark.no_host_code

PLANES = "f32[4,32,28,28]"
ROWS = "f32[1024,512]"
CONV = {"stride": (1, 1), "low": (1, 1), "high": (1, 1), "dilate": (1, 1), "base_dilate": (1, 1), "groups": 1}


def conv(b: Builder, x: Node, name: str, outputs: int = 32) -> Node:
    return b.conv(x, b.input(parse(f"f32[{outputs},{x.shape[1]},3,3]"), name), **CONV)


def dense(b: Builder, x: Node, name: str) -> Node:
    return b.dot(x, b.input(parse("f32[512,512]"), name))


def relu(b: Builder, x: Node) -> Node:
    y = b.max(x, 0.0)
    return b.custom_gradient(y, x, rule="relu")


def net(between, of: str):
    """Two layers with something between them."""

    def make(b: Builder) -> Node:
        x = b.input(parse(of), "x")
        layer = conv if x.ndim == 4 else dense
        return layer(b, between(b, layer(b, x, "w0")), "w1")

    return make


def joined(b: Builder, y: Node) -> Node:
    return b.concat([y * 2.0, b.input(y.type, "skip")], 1)


def heads(b: Builder, y: Node) -> Node:
    """Axes of a computed product in another order."""
    parts = b.transpose(b.reshape(y, (8, 128, 8, 64)), (0, 2, 1, 3))
    made = b.dot(parts, b.input(parse("f32[8,8,64,64]"), "v"))
    return b.reshape(b.transpose(made, (0, 2, 1, 3)), (1024, 512))


def swish(b: Builder, y: Node) -> Node:
    return y * b.sigmoid(y)


def normalised(b: Builder, y: Node) -> Node:
    """With batch statistics, whose derivative needs what they are of."""
    mean = b.sum(y, (0, 2, 3), keepdims=True) * (1 / 3136)
    d = y - mean
    return relu(b, d * b.rsqrt(b.sum(d * d, (0, 2, 3), keepdims=True) * (1 / 3136) + 1e-5))


def pooled(b: Builder, y: Node) -> Node:
    """An activation of which another result is the maximum."""
    r = relu(b, y * 1.5)
    b.pooled = b.reduce("amax", r, (2, 3))  # type: ignore[attr-defined]
    return r


#: what stands between two layers, of which arrays -> whether what it makes is kept, and of what before it instead
CASES = {
    "relu": (relu, PLANES, True),
    "relu of rows": (relu, ROWS, True),
    "tanh": (lambda b, y: b.tanh(y), ROWS, True),
    "bias and relu": (lambda b, y: relu(b, y + b.broadcast(b.input(parse("f32[512]"), "b"), y.shape)), ROWS, True),
    "a join": (joined, PLANES, True),
    "another order": (heads, ROWS, True),
    "swish, which needs its operand": (swish, ROWS, False),
    "a normalisation, which does, too": (normalised, PLANES, False),
}


def made_by(make) -> tuple[Graph, Node]:
    b = builder()
    out = make(b)
    graph = b.finish([out, b.pooled] if hasattr(b, "pooled") else [out])
    return graph, out.inputs[0]


def kept_of(graph: Graph, target=CUDA) -> list[Node]:
    given, wanted = [True] * len(graph.outputs), [True] * len(graph.inputs)
    return residuals(graph, given, wanted, target.numeric == "strict", library_computes(target))


@pytest.mark.parametrize("name", CASES)
def test_what_a_library_reads_is_kept_in_place_of_what_it_is_made_of(name):
    between, of, wanted = CASES[name]
    graph, operand = made_by(net(between, of))
    kept, usual = kept_of(graph), kept_of(graph, CPU)
    assert (operand in kept) is wanted
    assert operand not in usual
    if wanted:
        before, after = (sum(n.type.nbytes for n in k) for k in (usual, kept))
        assert after <= before or name == "a join"
        assert set(usual) - set(kept)
    given, asked = [True] * len(graph.outputs), [True] * len(graph.inputs)
    inputs = arrays(graph, 1)
    cotangent = [np.ones(o.shape, np.float32) for o in graph.outputs]
    found = []
    for nodes in (kept, usual):
        made = differentiate(graph, nodes, given, asked)
        values = evaluate(Graph("kept", graph.inputs, tuple(nodes)), inputs, wide=True) if nodes else []
        arguments = [*inputs, *(v.astype(np.float32) for v in values), *cotangent]
        found.append(evaluate(made.graph, [arguments[k] for k in made.input_positions], wide=True))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * max(1.0, np.abs(b).max()))


@pytest.mark.parametrize(("numeric", "wanted"), [("strict", True), ("fast", False)])
def test_what_is_compared_with_its_extreme_is_computed_as_it_was(numeric, wanted):
    graph, operand = made_by(net(pooled, PLANES))
    assert (operand in kept_of(graph, replace(CUDA, numeric=numeric))) is wanted


#: what an extreme is taken of -> whether the halves that it is made of are kept
EXTREMES = {
    "of something else": (lambda b, x, y: b.cast(x, f32), True),
    "of them as floats": (lambda b, x, y: b.cast(y, f32), False),
    "of a part of them, turned": (lambda b, x, y: b.transpose(b.max(b.cast(y, f32), 0.25), (1, 0)), False),
}


@pytest.mark.parametrize("numeric", ["strict", "fast"])
@pytest.mark.parametrize("name", EXTREMES)
def test_halves_are_not_compared_with_the_extreme_of_what_they_were_rounded_from(name, numeric):
    of, wanted = EXTREMES[name]
    b = builder()
    x, w, v = (b.input(parse(f"f16[{d},512]"), n) for n, d in (("x", 1024), ("w", 512), ("v", 512)))
    y = b.tanh(b.dot(x, w))
    graph = b.finish([b.dot(y, v), b.reduce("amax", of(b, x, y), (1,))])
    assert (y in kept_of(graph, replace(CUDA, numeric=numeric))) is wanted


#: the left operand of a product, made of a product y -> what of it lies in memory for a library
OPERANDS = {
    "an activation": lambda b, y: [b.tanh(y)] * 2,
    "in another shape": lambda b, y: [b.reshape(made := b.tanh(y), (512, 1024)), made],
    "turned": lambda b, y: [b.transpose(made := b.tanh(y), (1, 0)), made],
    "a product": lambda b, y: [b.reshape(y, (512, 1024)), None],
}


@pytest.mark.parametrize("library", [True, False])
@pytest.mark.parametrize("name", OPERANDS)
def test_where_operands_of_a_library_lie(name, library):
    b = builder()
    operand, wanted = OPERANDS[name](b, dense(b, b.input(parse(ROWS), "x"), "w"))
    v = b.input(parse(f"f32[{operand.shape[1]},512]"), "v")
    found = materialized_operands(b.finish([b.dot(operand, v)]), lambda node: library, True)
    assert found == ([wanted] if library and wanted is not None else [])


def test_where_the_operand_of_a_convolution_lies():
    b = builder()
    made = b.tanh(conv(b, b.input(parse(PLANES), "x"), "w"))
    again = conv(b, b.reshape(made, (8, 16, 28, 28)), "v")
    assert materialized_operands(b.finish([again]), lambda node: True, True) == [made]


@pytest.mark.parametrize(("steps", "wanted"), [(23, True), (24, False)])
def test_what_is_made_of_far_away_values_is_not_kept(steps, wanted):
    """So many values are looked at on the way to what an operand is made of, itself included."""

    def chain(b: Builder, y: Node) -> Node:
        for _ in range(steps):
            y = b.tanh(y)
        return y

    graph, operand = made_by(net(chain, ROWS))
    ends = materialized_operands(graph, lambda node: True, True)
    (product,) = [n for n in graph.nodes if n.prim.name == "dot" and n is not graph.outputs[0]]
    assert ends == [operand]
    assert (choose_residuals(ends, {product}, [product], [operand]) == [operand]) is wanted


@pytest.mark.parametrize("reduction", ["sum", "amax"])
def test_halves_are_not_kept_beside_a_softmax_of_what_they_were_rounded_from(reduction):
    """The exponentials may be summed before what they are of is rounded; the backward pass would have others."""
    b = builder()
    x, w, v = (b.input(parse(f"f16[{d},512]"), n) for n, d in (("x", 1024), ("w", 512), ("v", 512)))
    y = b.tanh(b.dot(x, w))
    e = b.exp(b.cast(y, f32))
    other = b.sum(e, (1,)) if reduction == "sum" else b.reduce("amax", e, (1,))
    for results, wanted in (([b.dot(y, v), other], False), ([b.dot(y, v)], True)):
        assert (y in kept_of(b.finish(results))) is wanted
