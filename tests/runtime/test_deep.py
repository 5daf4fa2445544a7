# SPDX-License-Identifier: Apache-2.0
"""5,000 layers: traced, inferred, written, read, copied, run, differentiated, with the stack that Python has by default.

Operators run one by one here; that compiled graphs of such depth need no recursion is in compiler/test_fuse_plan.py.
"""

from __future__ import annotations

import copy
import pickle
import sys

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import autograd, nd
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.target import CPU, CUDA
from hybridgpu.runtime.recorded_program import RecordedProgram

LAYERS = 5_000


class Layers(mx.gluon.HybridBlock):
    """Mostly elementwise, with a normalisation every hundred layers."""

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.w = self.params.get("w", shape=(1, 4), init="ones")

    def hybrid_forward(self, F, x, w):
        for k in range(LAYERS):
            if k % 100:
                x = F.sin(x) if k % 2 else x * 1.01
            else:
                x = F.broadcast_mul(F.broadcast_sub(x, F.mean(x, axis=1, keepdims=True)), w)
        return x


@pytest.fixture(scope="module")
def net():
    assert sys.getrecursionlimit() <= 3000
    net = Layers()
    net.initialize()
    return net


@pytest.fixture(scope="module")
def traced(net):
    return net(mx.sym.var("data"))


def test_symbol(traced):
    assert len(traced.get_internals()) > LAYERS
    again = mx.sym.load_json(traced.tojson())
    assert again.tojson() == traced.tojson()
    assert pickle.loads(pickle.dumps(traced)).tojson() == copy.deepcopy(traced).tojson() == traced.tojson()
    assert traced.infer_shape(data=(2, 4))[1] == [(2, 4)]
    assert traced.infer_type(data="float64")[1] == [np.float64]
    assert traced(data=mx.sym.var("other")).list_arguments()[0] == "other"
    assert len(traced.debug_str()) > LAYERS


def test_gradients_of_every_order(net):
    x = nd.array([[0.1, 0.2, 0.3, 0.4], [1, 2, 3, 5]])
    x.attach_grad()
    with autograd.record():
        y = net(x)
        (g,) = autograd.grad(y, [x], create_graph=True, retain_graph=True)
        total = (g * g).sum()
    total.backward()
    assert np.isfinite(y.asnumpy()).all() and np.isfinite(x.grad.asnumpy()).all()
    del y, g, total  # nor does letting go of them


def test_programs_of_a_training_step(traced):
    names = traced.list_inputs()
    shapes = dict(zip(traced.list_arguments(), traced.infer_shape(data=(2, 4))[0]))
    types = [nd.zeros(shapes[n])._type.tensor for n in names]
    training = RecordedProgram(traced, types, True, (True,) * len(names))
    training._follow(training._plan())
    for graph in (training._forward_graph(), training.derivative().graph):
        assert len(graph.nodes) > LAYERS
        for target in (CPU, CUDA):
            program = compile_graph(graph, target)
            assert len(program.kernels) > 1 and all(cut[3] for cut in program.refusals)
