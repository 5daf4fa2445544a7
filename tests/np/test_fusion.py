# SPDX-License-Identifier: Apache-2.0
"""Networks written with np: the graph of primitives and the kernels of their twins written with nd, for both targets.

The twins are the benchmark's workloads W1 to W9.
"""

from __future__ import annotations

import re

import pytest

import hybridgpu as mx
from hybridgpu.cli.bench.workloads import dense, elementwise, pictures, rows
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.target import CPU, cuda_target
from hybridgpu.gluon import HybridBlock, nn
from hybridgpu.gluon.symbolic_trace import inferred
from hybridgpu.symbol.lowering import lower_symbol
from hybridgpu.symbol.node import topological


class Chain(elementwise.Chain):
    def hybrid_forward(self, F, x):
        a, b, c = elementwise.A, elementwise.B, elementwise.C
        return F.np.tanh(a * x + b) * F.npx.sigmoid(x) + 0.5 * F.npx.relu(x - c) - F.np.exp(-x * x)


class Normalise(elementwise.Normalise):
    def hybrid_forward(self, F, x, mean, scale, gamma, beta):
        return F.npx.relu((x - mean) * scale * gamma + beta)


class Gelu(elementwise.Gelu):
    def hybrid_forward(self, F, x, bias, residual):
        return F.npx.leaky_relu(x + bias, act_type="gelu") + residual


class Softmax(HybridBlock):
    def hybrid_forward(self, F, x):
        return F.npx.softmax(x)


class NormGelu(rows.NormGelu):
    def hybrid_forward(self, F, x):
        return F.npx.leaky_relu(self.norm(x), act_type="gelu")


class Residual(pictures.Residual):
    def hybrid_forward(self, F, x):
        y = self.second_norm(self.second(F.npx.relu(self.first_norm(self.first(x)))))
        return F.npx.relu(y + self.fit(x))


class Rows(HybridBlock):
    """Reductions, written out."""

    def hybrid_forward(self, F, x):
        y = F.exp(F.broadcast_sub(x, F.max(x, axis=1, keepdims=True)))
        return F.broadcast_div(y, F.sum(y, axis=1, keepdims=True))


class NumpyRows(HybridBlock):
    def hybrid_forward(self, F, x):
        y = F.np.exp(x - F.np.max(x, axis=1, keepdims=True))
        return y / F.np.sum(y, axis=1, keepdims=True)


def residual(block):
    net = nn.HybridSequential()
    net.add(
        nn.Conv2D(8, 3, 1, 1, use_bias=False),
        nn.BatchNorm(),
        nn.Activation("relu"),
        block(8, 1, False),
        block(16, 2, True),
    )
    return net


SHAPE = (64, 256)
#: name -> (written with nd, written with np, shapes of the inputs)
TWINS = {
    "perceptron": (dense.layers, dense.layers, [(16, 512)]),
    "chain": (elementwise.Chain, Chain, [(10_000,)]),
    "normalise": (lambda: elementwise.Normalise(SHAPE), lambda: Normalise(SHAPE), [SHAPE]),
    "gelu": (lambda: elementwise.Gelu(SHAPE), lambda: Gelu(SHAPE), [SHAPE]),
    "softmax": (rows.Softmax, Softmax, [SHAPE]),
    "softmax, written out": (Rows, NumpyRows, [SHAPE]),
    "norm, gelu": (lambda: rows.NormGelu(256), lambda: NormGelu(256), [SHAPE]),
    "lenet": (pictures.lenet, pictures.lenet, [(2, 1, 28, 28)]),
    "residual": (lambda: residual(pictures.Residual), lambda: residual(Residual), [(1, 3, 16, 16)]),
}  # fmt: skip
TARGETS = {"cpu": CPU, "cuda": cuda_target("sm_90", 132)}


def traced(make, shapes, np_mode):
    """The Symbol of a block, and the types of its inputs."""
    if np_mode:
        mx.npx.set_np()
    try:
        net = make()
        net.initialize()
        arrays = [mx.nd.zeros(shape) for shape in shapes]
        args = tuple(x.as_np_ndarray() if np_mode else x for x in arrays)
        _, out = graph = net._get_graph(*args)
        inference = inferred(graph, args)
    finally:
        mx.npx.reset_np()
    types = {
        n.name: mx.nd.zeros(inference.shapes[id(n), 0])._type.tensor for n in topological(out._heads) if n.op is None
    }
    return out, types


def plain(graph):
    """The printed graph without the comments, which name operators."""
    return re.sub(r" *#.*", "", str(graph))


@pytest.mark.parametrize("name", TWINS)
def test_one_graph_and_the_same_kernels(name):
    of_nd, of_np, shapes = TWINS[name]
    graphs = []
    for make, np_mode in ((of_nd, False), (of_np, True)):
        symbol, types = traced(make, shapes, np_mode)
        assert (symbol._kind is not None) is np_mode
        with mx.util.np_shape(np_mode):
            graphs.append(lower_symbol(symbol, types, False, shared=True))
    assert plain(graphs[0]) == plain(graphs[1])
    for target in TARGETS.values():
        programs = [compile_graph(g, target) for g in graphs]
        first, second = (
            [(k.kind, k.text.replace(k.name, "name"), k.launch, k.choice) for k in p.kernels] for p in programs
        )
        assert first == second
        assert programs[0].steps == programs[1].steps and programs[0].arena_bytes == programs[1].arena_bytes
        assert programs[0].kernels or name.startswith("perceptron")  # products may be a library's
