# SPDX-License-Identifier: Apache-2.0
"""Repeated groups: programs whose repeated groups are scheduled once are those of groups scheduled one by one."""

from __future__ import annotations

from copy import copy

import numpy as np
import pytest

from hybridgpu import autograd, gluon, nd
from hybridgpu.compiler import pipeline
from hybridgpu.compiler.ir.dims import symbolic_dims
from hybridgpu.compiler.ir.types import tensor_type
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.schedule import repeated_groups, schedule_groups
from hybridgpu.compiler.size_templates import at_own_extents
from hybridgpu.compiler.target import CPU
from hybridgpu.core.dtypes import f32
from hybridgpu.gluon import nn, rnn
from hybridgpu.runtime import compilation


class Residual(gluon.HybridBlock):
    def __init__(self, channels):
        super().__init__()
        self.body = nn.HybridSequential()
        for _ in range(2):
            self.body.add(nn.Conv2D(channels, 3, padding=1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"))

    def hybrid_forward(self, F, x):
        return F.relu(self.body(x) + x)


class Attention(gluon.HybridBlock):
    def __init__(self, width):
        super().__init__()
        self.keys, self.values, self.norm = (
            nn.Dense(width, flatten=False),
            nn.Dense(width, flatten=False),
            nn.LayerNorm(),
        )

    def hybrid_forward(self, F, x):
        scores = F.softmax(F.batch_dot(self.keys(x), x, transpose_b=True) * 0.25)
        return self.norm(x + F.LeakyReLU(F.batch_dot(scores, self.values(x)), act_type="gelu"))


class Words(gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.layer = nn.Embedding(20, 16), nn.Embedding(20, 16), rnn.LSTM(16, layout="NTC")

    def hybrid_forward(self, F, x):
        return self.layer(self.first(x) + self.second(x) * 2.0)


def stacked(make, count):
    net = nn.HybridSequential()
    net.add(*(make() for _ in range(count)))
    return net


#: name -> (net, shape, how many groups at least are like another one)
NETS = {
    "residual blocks": (lambda: stacked(lambda: Residual(8), 3), (2, 8, 10, 10), 12),
    "attention": (lambda: stacked(lambda: Attention(16), 3), (4, 12, 16), 6),
    "perceptron": (lambda: stacked(lambda: nn.Dense(32, activation="tanh"), 4), (6, 32), 3),
    "words": (Words, (4, 7), 0),
}


@pytest.fixture
def programs(monkeypatch):
    """(graph, the other arguments, program) of everything that is planned."""
    found, plan = [], pipeline.compile_graph
    monkeypatch.setattr(compilation, "_stored", lambda data: None)

    def noted(*args):
        made = plan(*args)
        found.append((args, made))
        return made

    monkeypatch.setattr(pipeline, "compile_graph", noted)
    yield found
    monkeypatch.setattr(pipeline, "compile_graph", plan)


def without_times(program):
    program = copy(program)
    program.passes = []
    if program.prelude is not None:
        program.prelude = without_times(program.prelude)
    return program.to_bytes()


def one_by_one(monkeypatch):
    monkeypatch.setattr(schedule_groups, "RepeatedGroups", lambda schedule, *_: schedule)


@pytest.mark.parametrize("name", NETS)
def test_programs_are_those_of_groups_one_by_one(name, compiler, programs, monkeypatch):
    make, shape, least = NETS[name]
    copies, with_nodes = [], repeated_groups._with_nodes
    monkeypatch.setattr(repeated_groups, "_with_nodes", lambda *a: copies.append(with_nodes(*a)) or copies[-1])
    net = make()
    net.initialize()
    net.hybridize()
    x = nd.array(np.random.default_rng(0).integers(0, 9, shape))
    with autograd.record():
        loss = nd.square(net(x)).sum()
    loss.backward()
    planned = list(programs)
    assert len(copies) >= least and len(planned) >= 2
    one_by_one(monkeypatch)
    for args, program in planned:
        assert without_times(pipeline.compile_graph(*args)) == without_times(program)


def layers(changes, count=2):
    """Layers that are alike, but for what ``changes`` does to the second one."""
    b = builder()
    x = b.input(tensor_type((6, 8, 5), f32))
    weights = [b.input(tensor_type((8,), f32)) for _ in range(count)]
    outputs = []
    for k, w in enumerate(weights):
        settings = {"axis": 1, "number": 2.0, "kind": "amax", "twice": w} | (changes if k else {})
        spread = b.broadcast(b.reshape(w, (1, 8, 1)), (6, 8, 5)) * settings["number"]
        other = b.broadcast(b.reshape(settings["twice"], (1, 8, 1)), (6, 8, 5))
        y = b.exp(x * spread + other)
        outputs.append(b.reduce(settings["kind"], y, (settings["axis"],)) * -1.0)
    return b, x, outputs


#: what is different in the second layer
DIFFERENCES = {
    "nothing": {},
    "an axis": {"axis": 2},
    "a number": {"number": 3.0},
    "its sign": {"number": -2.0},
    "the reduction": {"kind": "amin"},
}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_what_differs_is_scheduled_apart(name, monkeypatch):
    found = []
    for way in ("repeated", "one by one"):
        if way == "one by one":
            one_by_one(monkeypatch)
        b, _, outputs = layers(DIFFERENCES[name])
        found.append(without_times(pipeline.compile_graph(b.finish(outputs, "g"), CPU)))
    assert found[0] == found[1]


def test_dimensions_have_the_same_guards(monkeypatch):
    found = []
    for way in ("repeated", "one by one"):
        if way == "one by one":
            one_by_one(monkeypatch)
        with symbolic_dims() as scope:
            n = scope.dim(70, 64)
            b = builder()
            x = b.input(tensor_type((n, 24), f32))
            rows = [b.input(tensor_type((24,), f32)) for _ in range(3)]
            outputs = []
            for row in rows:
                x = b.exp(x * b.broadcast(b.reshape(row, (1, 24)), (n, 24)))
                outputs.append(b.sum(x, (0,)))
            program = pipeline.compile_graph(b.finish([*outputs, x], "g"), CPU)
            found.append((without_times(at_own_extents(scope, program)), dict(scope.guards)))
    assert found[0] == found[1]
