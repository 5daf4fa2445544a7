# SPDX-License-Identifier: Apache-2.0
"""What a library's convolutions take in of what follows them: which nodes, and that these mean the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from compiler.cases import arrays, parse
from compiler.cases.convolutions import plain_conv
from compiler.one_pass import run_pass

from hybridgpu.compiler.passes.library import conv_epilogues
from hybridgpu.compiler.passes.library.conv_epilogues import why_not_fused
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.reference import evaluate
from hybridgpu.compiler.target import CUDA
from hybridgpu.core.dtypes import f32

pytestmark = pytest.mark.no_host_code

LIBRARY = replace(CUDA, library_convolutions=True)
TYPES = ("f32[2,3,5,6]", "f32[4,3,3,3]", "f32[4]", "f32[4]", "f32[4]", "f32[2,4,3,4]")


def of(b, vector):
    """A value for each channel."""
    return b.broadcast(b.reshape(vector, (1, 4, 1, 1)), (2, 4, 3, 4))


def normalised(b, y, c, s, t):
    return (y + of(b, c)) * of(b, s) + of(b, t)


def kept(b, y, c):
    z = y + of(b, c)
    return [z, z * 2.0]


SCALE, ZERO = "alone", "0 of NaN"
#: what is made of a convolution y, vectors c, s, t and an array r
#: -> nodes that are left of the epilogue in 'strict' and 'fast' mode (None: it is not joined), why not in 'strict'
TABLE = {
    "bias": (lambda b, y, c, s, t, r: y + of(b, c), [], [], ""),
    "bias and array": (lambda b, y, c, s, t, r: y + of(b, c) + r, [], [], ""),
    "array and bias": (lambda b, y, c, s, t, r: r + y + of(b, c), [], [], ""),
    "relu": (lambda b, y, c, s, t, r: b.max(y + of(b, c), 0.0), None, [], ZERO),
    "relu, the other way round": (lambda b, y, c, s, t, r: b.max(b.full((2, 4, 3, 4), 0.0, y.dtype), y + of(b, c)), None, [], ZERO),
    "a greater limit": (lambda b, y, c, s, t, r: b.max(y + of(b, c), 0.5), None, None, "of what else follows"),
    "a result, too": (lambda b, y, c, s, t, r: kept(b, y, c), None, None, "of what else follows"),
    "scale and shift": (lambda b, y, c, s, t, r: normalised(b, y, c, s, t), None, [], SCALE),
    "scale of nothing": (lambda b, y, c, s, t, r: y * of(b, s) + of(b, t), None, [], SCALE),
    "bias and scale": (lambda b, y, c, s, t, r: (y + of(b, c)) * of(b, s), None, [], SCALE),
    "scale alone": (lambda b, y, c, s, t, r: y * of(b, s), None, None, SCALE),
    "normalised, array, relu": (
        lambda b, y, c, s, t, r: b.max(normalised(b, y, c, s, t) + r, 0.0), None, [], SCALE,
    ),
    "a scale of the array": (lambda b, y, c, s, t, r: (y + of(b, c) + r) * of(b, s), None, None, "of what else follows"),
    "two scales": (lambda b, y, c, s, t, r: (y + of(b, c)) * of(b, s) * of(b, t), None, None, SCALE),
    "two biases": (lambda b, y, c, s, t, r: y + of(b, c) + of(b, s), None, None, "of what else follows"),
    "two arrays": (lambda b, y, c, s, t, r: y + of(b, c) + r + r * 2.0, None, None, "of what else follows"),
    "its square": (lambda b, y, c, s, t, r: (y + of(b, c)) * (y + of(b, c)), None, None, "of what else follows"),
    "less": (lambda b, y, c, s, t, r: y - of(b, c), None, None, "wants a bias"),
    "array alone": (lambda b, y, c, s, t, r: y + r, None, None, "wants a bias"),
    "the array twice": (lambda b, y, c, s, t, r: y + of(b, c) + r + r, None, None, "of what else follows"),
    "times an array": (lambda b, y, c, s, t, r: (y + of(b, c)) * r, None, None, "of what else follows"),
    "two shifts": (lambda b, y, c, s, t, r: normalised(b, y, c, s, t) + of(b, c), None, None, SCALE),
    "the lesser of it and 0": (lambda b, y, c, s, t, r: b.min(y + of(b, c), 0.0), None, None, "of what else follows"),
    "an array behind relu": (lambda b, y, c, s, t, r: b.max(y + of(b, c), 0.0) + r, None, None, ZERO),
    "an array that is computed": (lambda b, y, c, s, t, r: y + of(b, c) + b.exp(r), None, None, "of what else follows"),
    "… and a result": (lambda b, y, c, s, t, r: [y + of(b, c) + (e := b.exp(r)), e], [], [], ""),
    "… and read by a library": (
        lambda b, y, c, s, t, r: [y + of(b, c) + (e := b.exp(r)), b.cumsum(e, axis=0)], [], [], "",
    ),
    "an array of a library": (lambda b, y, c, s, t, r: y + of(b, c) + b.cumsum(r, axis=0), [], [], ""),
    "a part of an argument": (
        lambda b, y, c, s, t, r: y + of(b, c) + b.pad(b.slice(r, (0,) * 4, (2, 4, 3, 3)), (0,) * 4, (0, 0, 0, 1), 1.0),
        None, None, "of what else follows",
    ),
    "nothing": (lambda b, y, c, s, t, r: y, None, None, "wants a bias"),
    "the root": (lambda b, y, c, s, t, r: b.sqrt(y), None, None, "wants a bias"),
}  # fmt: skip


def graph_of(make):
    b = builder()
    x, w, *rest = (b.input(parse(t), f"x{k}") for k, t in enumerate(TYPES))
    made = make(b, plain_conv(b, x, w), *rest)
    return b.finish(made if isinstance(made, list) else [made])


def fused(graph, target, constant=frozenset(), kernel=False):
    return run_pass("conv_epilogues", graph, target, folded_inputs=constant, generates=lambda node: kernel)


@pytest.mark.parametrize("name", TABLE)
def test_what_is_left(name):
    make, *wanted, why = TABLE[name]
    graph = graph_of(make)
    inputs = arrays(graph, 1)
    for numeric, left in zip(("strict", "fast"), wanted, strict=True):
        target = LIBRARY.with_numeric(numeric)
        joined = fused(graph, target, frozenset(range(1, 5)))
        convolutions = [n for n in joined.nodes if n.prim.name in ("conv", "conv_bias_act")]
        assert [n.prim.name for n in convolutions] == ["conv" if left is None else "conv_bias_act"]
        for got, want in zip(evaluate(joined, inputs), evaluate(graph, inputs), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
        if left is not None:
            behind = {convolutions[0]}
            for n in joined.nodes:
                behind |= {n} if behind.intersection(n.inputs) else set()
            assert sorted(n.prim.name for n in behind) == sorted(["conv_bias_act", *left])
    said = why_not_fused(graph, LIBRARY, lambda node: False)
    (conv,) = (n for n in graph.nodes if n.prim.name == "conv")
    assert why in said(conv)
    assert not any(said(n) for n in graph.nodes if n is not conv)


#: types of x, w and c, what is made of y and c -> why no library computes that
REFUSED = {
    "halves that are scaled": (
        ("f16[2,3,5,6]", "f16[4,3,3,3]", "f16[4]"), lambda b, y, c: y * of(b, c), "halves be rounded twice",
    ),
    "halves made float": (
        ("f16[2,3,5,6]", "f16[4,3,3,3]", "f32[4]"), lambda b, y, c: b.cast(y, f32) + of(b, c), "halves be rounded twice",
    ),
    "one position": (
        ("f32[2,3,3,3]", "f32[4,3,3,3]", "f32[2,4,1,1]"), lambda b, y, c: y + c, "adds nothing to transposed convolutions",
    ),
    "four axes": (
        ("f32[1,2,3,3,3,3]", "f32[2,2,2,2,2,2]", "f32[2]"),
        lambda b, y, c: y + b.broadcast(b.reshape(c, (1, 2, 1, 1, 1, 1)), y.shape), "does not compute it",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    types, make, why = REFUSED[name]
    b = builder()
    x, w, c = (b.input(parse(t), f"x{k}") for k, t in enumerate(types))
    graph = b.finish([make(b, y := plain_conv(b, x, w), c)])
    target = LIBRARY.with_numeric("fast")
    assert fused(graph, target, frozenset({1, 2})) is graph
    assert why in why_not_fused(graph, target, lambda node: False)(y)


@pytest.mark.parametrize(("largest", "joined"), [(179, False), (180, True)])
def test_more_elements_than_cudnn_counts(largest, joined, monkeypatch):
    monkeypatch.setattr(conv_epilogues, "_MAX_ELEMENTS", largest)
    graph = graph_of(lambda b, y, c, s, t, r: y + of(b, c))
    assert (fused(graph, LIBRARY) is not graph) is joined


@pytest.mark.parametrize("constant", range(1, 5))
def test_a_scale_is_joined_where_all_that_it_meets_is_constant(constant):
    """The weight, the bias, the scale and the shift: without one of them, what is left is a kernel, which does it all."""
    graph = graph_of(lambda b, y, c, s, t, r: normalised(b, y, c, s, t))
    known = frozenset(range(1, 5)) - {constant}
    assert fused(graph, LIBRARY.with_numeric("fast"), known) is graph


@pytest.mark.parametrize(
    ("target", "kernel"), [(CUDA, False), (LIBRARY, True)], ids=["no such library", "a kernel of our own"]
)
def test_what_is_not_asked_for(target, kernel):
    graph = graph_of(lambda b, y, c, s, t, r: y + of(b, c))
    assert fused(graph, target, kernel=kernel) is graph
    said = why_not_fused(graph, target, lambda node: kernel)
    assert all(said(n) == "" for n in graph.nodes) or kernel
