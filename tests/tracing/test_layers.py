# SPDX-License-Identifier: Apache-2.0
"""Layers of gluon, other graphs and custom operators inside of a traced ``forward``."""

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import autograd, gluon, nd
from hybridgpu.gluon import nn, rnn


class Square(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], in_data[0] ** 2)

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], 2 * in_data[0] * out_grad[0])


@mx.operator.register("square_in_a_trace")
class SquareProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes):
        return Square()


def stacked_cells():
    cells = rnn.HybridSequentialRNNCell()
    for cell in (rnn.LSTMCell(3), rnn.DropoutCell(0.0), rnn.GRUCell(4)):
        cells.add(cell)
    return cells


def dense_symbol():
    data = mx.sym.var("data")
    return gluon.SymbolBlock(mx.sym.FullyConnected(data, num_hidden=3, name="fc"), data)


def loop_symbol():
    data = mx.sym.var("data")
    out, _ = mx.sym.contrib.foreach(lambda a, s: (a + s, a * s), data, mx.sym.sum(data, axis=0))
    return gluon.SymbolBlock(out, data)


class Sequence(nn.HybridSequential):
    def forward(self, x):
        for block in self:
            x = block(x) + x.shape[0]
        return x


def sequence():
    net = Sequence()
    net.add(nn.Dense(3), nn.Dense(2))
    return net


tanh = nd.CachedOp(mx.sym.tanh(mx.sym.var("a")))
SERIES, ROWS = (5, 2, 4), (2, 4)

#: layer, body of (layer, x), shape of x
LAYERS = {
    "LSTM": (lambda: rnn.LSTM(3), lambda layer, x: layer(x), SERIES),
    "LSTM with states": (
        lambda: rnn.LSTM(3, 2, bidirectional=True),
        lambda layer, x: layer(x, layer.begin_state(batch_size=x.shape[1])),
        SERIES,
    ),
    "cell": (lambda: rnn.GRUCell(3), lambda layer, x: layer(x[0], layer.begin_state(batch_size=2)), SERIES),
    "unrolled": (
        stacked_cells,
        lambda layer, x: layer.unroll(5, x, layout="TNC", merge_outputs=True),
        SERIES,
    ),
    "both ways": (
        lambda: rnn.BidirectionalCell(rnn.LSTMCell(3), rnn.LSTMCell(3)),
        lambda layer, x: layer.unroll(5, x, layout="TNC", merge_outputs=True),
        SERIES,
    ),
    "convolution": (lambda: nn.Conv2D(4, 3, activation="relu"), lambda layer, x: layer(x[None])[:, 1:], (3, 8, 8)),
    "embedding": (lambda: nn.Embedding(5, 3), lambda layer, x: layer(x * 4).sum(axis=1), ROWS),
    "loss": (lambda: gluon.loss.L2Loss(), lambda layer, x: layer(x, x * 2 + 1), ROWS),
    "graph": (dense_symbol, lambda layer, x: layer(x) * 2, ROWS),
    "graph with a loop": (loop_symbol, lambda layer, x: layer(x)[1:], ROWS),
    "sequence": (sequence, lambda layer, x: layer(x), ROWS),
    "CachedOp": (lambda: nn.Dense(2), lambda layer, x: tanh(layer(x)) + 1, ROWS),
    "custom operator": (
        lambda: nn.Dense(2),
        lambda layer, x: nd.Custom(layer(x), op_type="square_in_a_trace")[:, 0],
        ROWS,
    ),
}


class Net(gluon.HybridBlock):
    def __init__(self, make, body):
        super().__init__(prefix="net_")
        with self.name_scope():
            self.layer = make()
        self.body = body

    def forward(self, x):
        return self.body(self.layer, x)


def flat(result):
    return [result] if isinstance(result, nd.NDArray) else [v for r in result for v in flat(r)]


@pytest.mark.long_table
@pytest.mark.parametrize("name", LAYERS)
def test_layers_inside_of_a_traced_forward(name):
    make, body, shape = LAYERS[name]
    x = nd.array(np.random.default_rng(1).uniform(0, 1, shape))
    found = []
    for hybrid in (False, True):
        mx.random.seed(0)
        np.random.seed(0)
        net = Net(make, body)
        net.initialize(mx.init.Normal(0.3))
        if hybrid:
            net.hybridize()
        x.attach_grad()
        for _ in range(2):
            net(x)
            with autograd.record():
                total = sum(r.sum() for r in flat(net(x)))
            total.backward()
        grads = [p.grad().asnumpy() for p in net.collect_params().values() if p.grad_req != "null"]
        found.append([*(r.asnumpy() for r in flat(net(x))), x.grad.asnumpy(), *grads])
    assert net._hg_traced is not None
    for got, expected in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def rows_of(x):
    return nd.contrib.foreach(lambda row, total: (row + total, row + total), x, nd.zeros_like(x[0]))[0]


#: how it is made, what it computes, (the shape of its input, another one that its file is for)
OF_ANY_EXTENT = {
    "LSTM": (lambda: rnn.LSTM(3, layout="NTC"), lambda net, x: net(x)[:, -1], ((2, 4, 5), (3, 6, 5))),
    "GRU of both directions": (
        lambda: rnn.GRU(3, bidirectional=True),
        lambda net, x: net(x)[0],
        ((4, 2, 5), (4, 3, 5)),
    ),
    "cell": (
        lambda: rnn.LSTMCell(3),
        lambda net, x: net.unroll(4, x, layout="NTC", merge_outputs=True)[0],
        ((2, 4, 5), (3, 4, 5)),
    ),
    "cells": (
        stacked_cells,
        lambda net, x: net.unroll(2, [x[:, 0], x[:, 1]], merge_outputs=True)[0],
        ((2, 4, 5), (3, 4, 5)),
    ),
    "loop": (lambda: nn.Dense(3), lambda net, x: rows_of(net(x)), ((2, 5), (3, 5))),
    "loss": (lambda: gluon.loss.L2Loss(), lambda net, x: net(x, x[::-1].reshape((0, -1, 1))), ((2, 5), (3, 4))),
}


@pytest.mark.parametrize("name", OF_ANY_EXTENT)
def test_the_file_of_a_traced_forward_is_for_other_batches(name, tmp_path, no_compiler):
    make, body, (shape, other) = OF_ANY_EXTENT[name]
    net = Net(make, body)
    net.initialize()
    net.hybridize()
    net(nd.ones(shape))
    net.export(str(tmp_path / "net"))
    again = gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0000.params"))
    for extents in (shape, other):
        x = nd.random.uniform(shape=extents)
        np.testing.assert_allclose(again(x).asnumpy(), net(x).asnumpy(), rtol=1e-6)


def test_a_function_with_a_derivative_of_its_own_is_refused():
    class Own(autograd.Function):
        def forward(self, x):
            return x

        def backward(self, dy):
            return dy

    with pytest.raises(mx.NotImplementedForSymbol, match="does not call the backward of an autograd.Function"):
        mx.hybridize(lambda x: Own()(x))(nd.ones((2,)))
