# SPDX-License-Identifier: Apache-2.0
"""Blocks that are one step of a program, forward, on both targets: gathers, pooling, and convolutions with what follows."""

from __future__ import annotations

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import autograd, nd
from hybridgpu.compiler import pipeline
from hybridgpu.compiler.program import KernelStep
from hybridgpu.compiler.target import CUDA
from hybridgpu.gluon import HybridBlock, nn
from hybridgpu.runtime import compilation as runtime

pytestmark = pytest.mark.usefixtures("compiler")


class Made(HybridBlock):
    """A function of its children, by their names, and of arrays."""

    def __init__(self, function, children):
        super().__init__()
        self.function = function
        for name, child in children.items():
            setattr(self, name, child)

    def hybrid_forward(self, F, *arrays):
        return self.function(F, self, *arrays)


def steps(program):
    return [program.kernels[s.kernel].kind if isinstance(s, KernelStep) else s.primitive for s in program.steps]


@pytest.fixture
def forward(monkeypatch):
    """(net, arrays, training) -> the steps of the forward program on the CPU and on CUDA, and the CPU's."""
    made = []
    compile_graph = pipeline.compile_graph

    def keeping(graph, target, *given, **named):
        program = compile_graph(graph, target, *given, **named)
        made.append((graph, given, named, program))
        return program

    monkeypatch.setattr(runtime, "_stored", lambda *given: None)  # programs of earlier runs would not be compiled
    monkeypatch.setattr(pipeline, "compile_graph", keeping)

    def run(net, arrays, training):
        want = net(*arrays).asnumpy().astype(np.float64)
        net.hybridize()
        with autograd.record() if training else autograd.pause():
            y = net(*arrays)
        np.testing.assert_allclose(y.asnumpy().astype(np.float64), want, rtol=2e-2, atol=2e-2)
        # behind its prelude, before the backward program
        graph, given, named, program = [m for m in made if not m[0].name.endswith("_backward")][-1]
        return steps(program), steps(compile_graph(graph, CUDA, *given, **named)), program

    return run


TOKENS = nd.array(np.random.default_rng(0).integers(0, 50, (4, 16)))
PLACES = nd.arange(16)


def embedded(F, s, x, p):
    return s.norm(F.broadcast_add(s.words(x), F.expand_dims(s.places(p), 0)))


def embedding(columns, dtype, **more):
    children = {"words": nn.Embedding(50, columns), "places": nn.Embedding(16, columns)}
    return {**children, "norm": nn.LayerNorm(in_channels=columns), **more}, dtype


EMBEDDINGS = {
    "words and places": (embedded, *embedding(64, "float32"), False),
    "halves": (embedded, *embedding(768, "float16"), False),
    "bfloat16": (embedded, *embedding(768, "bfloat16"), False),
    "float64": (embedded, *embedding(64, "float64"), False),
    "in training": (embedded, *embedding(64, "float32"), True),
    "in training, dropout": (
        lambda F, s, x, p: s.drop(embedded(F, s, x, p)), *embedding(64, "float32", drop=nn.Dropout(0.0)), True,
    ),
    "scaled": (
        lambda F, s, x, p: s.norm(F.broadcast_add(s.words(x) * 8, F.expand_dims(s.places(p), 0))),
        *embedding(64, "float32"), True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_embedding_sum_and_normalisation(name, forward):
    function, children, dtype, training = EMBEDDINGS[name]
    net = Made(function, children)
    net.initialize(mx.init.Normal(1), force_reinit=True)
    net.cast(dtype)
    host, device, program = forward(net, [TOKENS, PLACES], training)
    assert (host, device) == (["rows"], ["rows"])
    # the rows that were looked up are in no result: the backward pass looks them up again
    assert [len(shape) for shape, _ in program.outputs].count(3) == 1


def test_rows_that_a_library_reads_are_kept(forward):
    net = Made(
        lambda F, s, x: s.dense(s.words(x)), {"words": nn.Embedding(50, 64), "dense": nn.Dense(8, flatten=False)}
    )
    net.initialize()
    _, _, program = forward(net, [TOKENS], True)
    assert ((4, 16, 64), "f32") in program.outputs


def test_gradients_of_rows_looked_up_again():
    net = Made(embedded, embedding(64, "float32")[0])
    net.initialize(mx.init.Normal(1))
    found = []
    for hybrid in (False, True):
        if hybrid:
            net.hybridize()
        with autograd.record():
            loss = (net(TOKENS, PLACES) * nd.arange(4 * 16 * 64).reshape((4, 16, 64)).sin()).sum()
        loss.backward()
        found.append([p.grad().asnumpy() for p in net.collect_params().values()])
    for eager, compiled in zip(*found, strict=True):
        np.testing.assert_allclose(compiled, eager, rtol=1e-4, atol=1e-4)


IMAGE = nd.random.uniform(shape=(2, 8, 12, 12))
POOLS = {
    "max": lambda: nn.MaxPool2D(2),
    "max, overlapping": lambda: nn.MaxPool2D(3, 2, 1),
    "average": lambda: nn.AvgPool2D(2),
    "global": nn.GlobalAvgPool2D,
}


@pytest.mark.parametrize("name", POOLS)
def test_pooling_with_what_is_before_and_behind(name, forward):
    net = Made(
        lambda F, s, x: F.relu(s.behind(s.pool(F.relu(s.before(x))))),
        {"before": nn.BatchNorm(in_channels=8), "pool": POOLS[name](), "behind": nn.BatchNorm(in_channels=8)},
    )
    net.initialize()
    # overlapping windows would normalise most elements twice or more, which takes longer than a way through the cache
    cpu = ["map", "reduce"] if name == "max, overlapping" else ["reduce"]
    assert forward(net, [IMAGE], False)[:2] == (cpu, ["reduce"])


CONVOLUTIONS = {
    "3 x 3": lambda: nn.Conv2D(16, 3, padding=1, in_channels=8),
    "pixels": lambda: nn.Conv2D(16, 1, in_channels=8),
    "strides": lambda: nn.Conv2D(16, 3, 2, 1, in_channels=8),
    "dilated": lambda: nn.Conv2D(16, 3, padding=2, dilation=2, in_channels=8),
    "grouped": lambda: nn.Conv2D(16, 3, padding=1, groups=4, in_channels=8),
    "depthwise": lambda: nn.Conv2D(8, 3, padding=1, groups=8, in_channels=8),
    "transposed": lambda: nn.Conv2DTranspose(16, 4, 2, 1, in_channels=8),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution_normalisation_activation_and_sum(name, forward):
    conv = CONVOLUTIONS[name]()
    net = Made(lambda F, s, x, r: F.relu(s.norm(s.conv(x))) + r, {"conv": conv, "norm": nn.BatchNorm()})
    net.initialize(mx.init.Uniform(0.2))
    rest = nd.random.uniform(shape=conv(IMAGE).shape)
    assert forward(net, [IMAGE, rest], False)[:2] == (["conv"], ["conv"])
