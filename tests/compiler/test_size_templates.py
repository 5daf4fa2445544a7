# SPDX-License-Identifier: Apache-2.0
"""Templates: what is made of one for a size is what is planned for that size, or nothing."""

from __future__ import annotations

import random

import pytest

import hybridgpu as mx
from hybridgpu import gluon
from hybridgpu.compiler.ir.dims import symbolic_dims
from hybridgpu.compiler.ir.types import tensor_type
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.size_buckets import symbolic_type
from hybridgpu.compiler.size_templates import Template, at_own_extents
from hybridgpu.compiler.target import CPU, CUDA
from hybridgpu.core.dtypes import f32
from hybridgpu.gluon import nn
from hybridgpu.runtime.recorded_program import RecordedProgram


def sequential(*layers):
    net = nn.HybridSequential()
    net.add(*layers)
    return net


class Function(gluon.HybridBlock):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def hybrid_forward(self, F, x):
        return self.function(F, x)


def attention(F, x):
    scores = F.softmax(F.batch_dot(x, x, transpose_b=True) * 0.25)
    return F.batch_dot(scores, x)


def interleaved_attention(F, x):
    """Queries, keys and values side by side, words before sentences."""
    scores = F.softmax(F.contrib.interleaved_matmul_selfatt_qk(x, heads=2))
    return F.contrib.interleaved_matmul_selfatt_valatt(x, scores, heads=2)


def picked_words(F, x):
    return F.mean(F.pick(F.log_softmax(x, axis=-1), F.argmax(x, axis=-1), axis=-1), axis=1)


class Positions(gluon.HybridBlock):
    """Words, and a table of what is learned of their places."""

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.table, self.dense = self.params.get("table", shape=(64, 16)), nn.Dense(16, flatten=False)

    def hybrid_forward(self, F, x, table):
        return self.dense(F.broadcast_add(x, F.slice_like(F.expand_dims(table, 0), x, axes=(1,))))


#: name -> (what makes the net, shape of its input for n and another size m)
NETS = {
    "dense": (lambda: sequential(nn.Dense(32, activation="relu"), nn.Dense(10)), lambda n, m: (n, 20)),
    "wide dense": (lambda: sequential(nn.Dense(512, activation="tanh"), nn.Dense(7)), lambda n, m: (n, 300)),
    "convolution": (
        lambda: sequential(
            nn.Conv2D(8, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(), nn.Dense(5)
        ),
        lambda n, m: (n, 3, 16, 16),
    ),
    "strided convolution": (
        lambda: sequential(nn.Conv2D(16, 3, strides=2), nn.LeakyReLU(0.1), nn.GlobalAvgPool2D()),
        lambda n, m: (n, 3, 33, 33),
    ),
    "transposed convolution": (lambda: sequential(nn.Conv2DTranspose(8, 4, 2, 1)), lambda n, m: (n, 6, 9, 9)),
    "any image": (lambda: sequential(nn.Conv2D(8, 3), nn.GlobalMaxPool2D()), lambda n, m: (2, 3, n + 5, m + 5)),
    "layer norm": (lambda: sequential(nn.Dense(16, flatten=False), nn.LayerNorm()), lambda n, m: (n, m, 12)),
    "recurrent": (lambda: gluon.rnn.LSTM(8), lambda n, m: (5, n, 6)),
    "embedding": (lambda: sequential(nn.Embedding(30, 16), nn.Dense(4, flatten=False)), lambda n, m: (n, m)),
    "attention": (lambda: Function(attention), lambda n, m: (n, m, 16)),
    "interleaved attention": (lambda: Function(interleaved_attention), lambda n, m: (m, n, 96)),
    "positions": (Positions, lambda n, m: (n, m, 16)),
    "picked words": (lambda: Function(picked_words), lambda n, m: (n, m, 30)),
    "softmax": (lambda: Function(lambda F, x: F.log_softmax(x, axis=1)), lambda n, m: (m, n, 3)),
    "concat": (
        lambda: Function(lambda F, x: F.concat(x * 2, F.relu(x), F.flip(x, axis=1), dim=0)),
        lambda n, m: (n, 6),
    ),
    "slices": (
        lambda: Function(
            lambda F, x: F.slice_axis(x, axis=0, begin=1, end=None) * F.slice_axis(x, axis=0, begin=0, end=-1)
        ),
        lambda n, m: (n, 10),
    ),
    "pad": (
        lambda: Function(lambda F, x: F.pad(x, mode="constant", pad_width=(0, 0, 0, 0, 1, 2, 3, 1))),
        lambda n, m: (2, 3, n, m),
    ),
    "reductions": (
        lambda: Function(lambda F, x: F.concat(F.mean(x, axis=0), F.sum(x, axis=0), F.max(x, axis=0), dim=0)),
        lambda n, m: (n, m),
    ),
    "sum of all": (lambda: Function(lambda F, x: F.sum(F.square(x))), lambda n, m: (n, m, 4)),
    "norm": (lambda: Function(lambda F, x: F.L2Normalization(x)), lambda n, m: (n, 3, 5)),
    "transposes": (lambda: Function(lambda F, x: F.exp(F.transpose(x, (2, 0, 1)))), lambda n, m: (n, m, 7)),
    "reshape": (lambda: Function(lambda F, x: F.tanh(F.reshape(x, (-1, 6)))), lambda n, m: (n, m, 12)),
    "argmax": (lambda: Function(lambda F, x: F.argmax(x, axis=1)), lambda n, m: (n, m)),
    "last step": (lambda: Function(lambda F, x: F.SequenceLast(x)), lambda n, m: (n, m, 3)),
    "repeat": (lambda: Function(lambda F, x: F.repeat(x, repeats=3, axis=0)), lambda n, m: (n, m)),
    "variance": (
        lambda: Function(lambda F, x: F.mean(F.square(F.broadcast_sub(x, F.mean(x, axis=0, keepdims=True))), axis=0)),
        lambda n, m: (n, m),
    ),
}
FIRST = 24, 20


class Planned:
    """A net's training programs, planned for sizes."""

    def __init__(self, make, shape, target):
        net = make()
        net.initialize()
        self.symbol = net(mx.sym.var("data"))
        if isinstance(self.symbol, (list, tuple)):
            self.symbol = self.symbol[0]
        self.shape, self.target = shape, target

    def types(self, sizes):
        names = self.symbol.list_inputs()
        arguments, _, states = self.symbol.infer_shape(data=self.shape(*sizes))
        shapes = dict(zip(self.symbol.list_arguments(), arguments, strict=True))
        shapes |= dict(zip(self.symbol.list_auxiliary_states(), states, strict=True))
        return [tensor_type(tuple(shapes[n]), f32) for n in names]

    def at(self, sizes):
        """(template, programs planned for these sizes, extents, nominal extents)."""
        types, first = self.types(sizes), self.types(FIRST)
        changed = tuple((k, b) for k, (a, b) in enumerate(zip(types, first, strict=True)) if a is not b)
        recorded = RecordedProgram(self.symbol, types, True, (True,) * len(types), changed)
        with symbolic_dims() as scope:
            for k, b in changed:  # numbers them
                symbolic_type(types[k], b, scope)
            recorded._scope = scope
            recorded._follow(recorded._plan())
            graphs = recorded._forward_graph(), recorded.derivative().graph
            programs = [compile_graph(g, self.target) for g in graphs if g.outputs]
        template = Template(scope, programs)
        extents, at_first = ([n[k] for n in scope.dimensions] for k in (0, 1))
        return template, at_own_extents(scope, programs), extents, at_first


#: nets whose kernels have numbers in their texts that differ: each size is planned
EVERY_SIZE = {"any image", "pad", "transposes", "repeat"}


@pytest.mark.parametrize(
    ("name", "target"),
    [*((name, CPU) for name in NETS), *((name, CUDA) for name in ("concat", "slices", "dense"))],
    ids=lambda x: x if type(x) is str else x.name,
)
def test_a_template_gives_what_is_planned(name, target):
    make, shape = NETS[name]
    planned = Planned(make, shape, target)
    template, own, extents, at_first = planned.at((9, 11))
    assert [p.to_bytes() for p in template.at(extents)] == [p.to_bytes() for p in own]
    rng, reused = random.Random(name), 0
    for k in range(6):
        sizes = (rng.randint(2, 60), rng.randint(2, 60)) if k else (13, 14)
        _, want, extents, nominals = planned.at(sizes)
        found = template.at(extents) if (len(extents), nominals) == (len(at_first), at_first) else None
        if found is None:
            continue
        reused += 1
        for a, b in zip(found, want, strict=True):
            assert_same(a, b)
    assert bool(reused) == (name not in EVERY_SIZE and (name, target) != ("dense", CUDA))


def assert_same(found, want):
    """Programs are the same, bit for bit (a first sight of what differs is worth more than that it does)."""
    for name, value in vars(want).items():
        assert getattr(found, name) == value, name
    assert found.to_bytes() == want.to_bytes()
