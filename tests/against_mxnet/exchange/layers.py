# SPDX-License-Identifier: Apache-2.0
"""A net for every kind of layer, small versions of the architectures, and control flow; see nets.py."""

from __future__ import annotations

import numpy as np
from against_mxnet.exchange.nets import Case, block, index, real, recurrent


def layer(kind, *args, **kwargs):
    """One layer of ``gluon.nn``, or of ``gluon.contrib.nn``."""

    def make(mx, name):
        home = mx.gluon.nn if hasattr(mx.gluon.nn, kind) else mx.gluon.contrib.nn
        return getattr(home, kind)(*args, prefix=name + "_", **kwargs)

    return make


def lambdas(mx, name):
    net = mx.gluon.nn.HybridSequential(prefix=name + "_")
    with net.name_scope():
        net.add(mx.gluon.nn.HybridLambda("tanh"))
        net.add(mx.gluon.nn.HybridLambda(lambda F, x: F.broadcast_mul(x, F.sum(x, axis=1, keepdims=True))))
    return net


def shuffle(n):
    def make(mx, name):
        net = mx.gluon.nn.HybridSequential(prefix=name + "_")
        with net.name_scope():
            net.add(getattr(mx.gluon.contrib.nn, f"PixelShuffle{n}D")(2))
        return net

    return make


def parallel(kind, **kwargs):
    def make(mx, name):
        net = getattr(mx.gluon.contrib.nn, kind)(prefix=name + "_", **kwargs)
        with net.name_scope():
            net.add(mx.gluon.nn.Dense(3, flatten=False), mx.gluon.contrib.nn.Identity())
        return net

    return make


def cell(build, steps=3, **kwargs):
    """``build(rnn, contrib.rnn, prefix)`` unrolled over an input (N, steps, C), with the default first state."""

    def make(mx, name):
        class Unrolled(mx.gluon.HybridBlock):
            def __init__(self, **given):
                super().__init__(**given)
                with self.name_scope():
                    self.cell = build(mx.gluon.rnn, mx.gluon.contrib.rnn)

            def hybrid_forward(self, F, x):
                self.cell.reset()
                outputs, states = self.cell.unroll(steps, x, layout="NTC", merge_outputs=True, **kwargs)
                return outputs, list(states)

        return Unrolled(prefix=name + "_")

    return make


def stacked(rnn, contrib):
    made = rnn.HybridSequentialRNNCell()
    made.add(rnn.LSTMCell(4))
    made.add(rnn.DropoutCell(0.0))
    made.add(rnn.ResidualCell(rnn.GRUCell(4)))
    return made


def small(family, *args, **kwargs):
    """An architecture of ``model_zoo.vision`` with few channels."""
    return lambda mx, name: getattr(mx.gluon.model_zoo.vision, family)(*args, prefix=name + "_", **kwargs)


def resnet(version, kind):
    def make(mx, name):
        zoo = mx.gluon.model_zoo.vision
        unit = getattr(zoo, f"{kind}V{version}")
        return getattr(zoo, f"ResNetV{version}")(unit, [1, 1], [8, 8, 16], classes=3, thumbnail=True, prefix=name + "_")

    return make


def while_loop(F, net, x, weight):
    def body(i, y):
        y = F.tanh(F.dot(y, weight))
        return F.broadcast_mul(y, i), [i + 1, y]

    outputs, (count, last) = F.contrib.while_loop(lambda i, y: i < 3, body, [F.sum(x * 0), x], max_iterations=5)
    return F.slice_axis(outputs, axis=0, begin=0, end=3), count, last  # further rows hold nothing


def cond(F, net, x, weight):
    return F.contrib.cond(F.sum(x) < 0, lambda: F.dot(x, weight), lambda: F.broadcast_mul(F.relu(x), F.sum(weight)))


def nested(F, net, x, weight):
    """A loop in a branch; an array from outside is in both."""

    def step(row, state):
        new = F.broadcast_add(F.tanh(row + state), F.sum(weight))
        return new * 2, new

    def loop():
        outputs, state = F.contrib.foreach(step, x, F.sum(x, axis=0))
        return F.broadcast_add(outputs, state)

    return F.contrib.cond(F.sum(x * x) > 0, loop, lambda: F.broadcast_add(x, F.sum(weight)))


def square(net, mx):
    net.weight = net.params.get("weight", shape=(4, 4))


def several(F, net, x):
    """Operators with hidden results, and some of several that nobody uses."""
    mean, var = F.moments(x, axes=(0, 2))
    parts = F.split(x, num_outputs=3, axis=2)
    pooled = F.Pooling(F.expand_dims(x, axis=1), kernel=(2, 2))
    best = F.topk(x, k=2, ret_typ="both")
    matrix = x.reshape((-1, 6))
    sign, size = F.linalg.slogdet(F.dot(matrix, matrix, transpose_a=True))
    return mean, var, parts[1], pooled, best[0], best[1], F.sort(x, axis=1), size


def attributes(F, net, x, weight, bias):
    with net.scope:
        y = F.Convolution(x, weight, bias, kernel=[2, 2], num_filter=3, dilate=(1, 2))
    return y * net.factor


def with_attributes(net, mx):
    net.factor, net.scope = np.float32(0.1), mx.AttrScope(mirror_stage="1")
    with mx.AttrScope(ctx_group="first", __note__='says "no"\n'):
        net.weight = net.params.get(
            "weight",
            shape=(3, 2, 2, 2),
            lr_mult=2.5,
            wd_mult=0.0,
            init=mx.init.Xavier(factor_type="in", magnitude=2.34),
        )
        net.bias = net.params.get("bias", shape=(3,), init="zeros", grad_req="null")


def integers(F, net, x, y):
    z = F.cast(x, dtype="int64")
    return (
        z * z - 3,
        F.take(y, z),
        F.cast(z > 2, dtype="int8"),
        F.arange(0, 6, 2, dtype="int32"),
        F.one_hot(z, 5, dtype="uint8"),
    )


MAPS, CUBES, ROWS = real(2, 4, 7, 6), real(1, 2, 5, 6, 5), real(2, 4, 9)

NETS = {
    "Dense": Case(layer("Dense", 3, use_bias=False, flatten=False, in_units=5), [real(2, 4, 5)]),
    "Dense64": Case(layer("Dense", 3, "softsign", dtype="float64", weight_initializer="ones"), [real(2, 4, 5, dtype="float64")]),
    "Conv1D": Case(layer("Conv1D", 3, 2, 2, 1, 2, use_bias=False), [ROWS]),
    "Conv2D": Case(layer("Conv2D", 6, (3, 2), (2, 1), (1, 0), groups=2, activation="relu"), [MAPS]),
    "Conv2D-dilated": Case(layer("Conv2D", 4, 1, dilation=(1, 2), bias_initializer="ones"), [MAPS]),
    "Conv3D": Case(layer("Conv3D", 2, 3, 1, 1, groups=2), [CUBES]),
    "Conv1DTranspose": Case(layer("Conv1DTranspose", 3, 3, 2, 1, 1), [ROWS]),
    "Conv2DTranspose": Case(layer("Conv2DTranspose", 4, (3, 4), (2, 3), (1, 0), (1, 2), groups=2, in_channels=4, use_bias=False), [MAPS]),
    "Conv3DTranspose": Case(layer("Conv3DTranspose", 2, 2, 2), [CUBES]),
    **{f"{kind}Pool{n}D": Case(layer(f"{kind}Pool{n}D", 3, 2, 1, ceil_mode=True, **({"count_include_pad": False} if kind == "Avg" else {})), [shape])
       for kind in ("Max", "Avg") for n, shape in ((1, ROWS), (2, MAPS), (3, CUBES))},
    **{f"Global{kind}Pool{n}D": Case(layer(f"Global{kind}Pool{n}D"), [shape])
       for kind in ("Max", "Avg") for n, shape in ((1, ROWS), (2, MAPS), (3, CUBES))},
    "ReflectionPad2D": Case(layer("ReflectionPad2D", (0, 0, 0, 0, 1, 2, 3, 1)), [MAPS]),
    "BatchNorm": Case(layer("BatchNorm", axis=-1, momentum=0.5, epsilon=1e-3, scale=False), [MAPS], tolerance=5e-4),
    "BatchNormFixed": Case(layer("BatchNorm", use_global_stats=True, center=False, gamma_initializer="zeros"), [MAPS]),
    "BatchNormReLU": Case(layer("BatchNormReLU"), [MAPS], tolerance=5e-4),
    "SyncBatchNorm": Case(layer("SyncBatchNorm", in_channels=4, num_devices=1), [MAPS], tolerance=5e-4),
    "LayerNorm": Case(layer("LayerNorm", axis=1, epsilon=1e-3, center=False), [MAPS]),
    "InstanceNorm": Case(layer("InstanceNorm", scale=True, center=False), [MAPS], tolerance=5e-4),
    "GroupNorm": Case(layer("GroupNorm", 2, scale=False), [MAPS], tolerance=5e-4),
    "Embedding": Case(layer("Embedding", 7, 3, dtype="float64"), [index(7, 2, 3, dtype="int32")]),
    "Dropout": Case(layer("Dropout", 0.4, axes=(1, 2)), [ROWS], train=False),
    "Flatten": Case(layer("Flatten"), [MAPS]),
    "HybridLambda": Case(lambdas, [real(2, 3)]),
    **{f"Activation-{kind}": Case(layer("Activation", kind), [real(2, 5)]) for kind in ("relu", "sigmoid", "tanh", "softrelu", "softsign")},
    "LeakyReLU": Case(layer("LeakyReLU", 0.1), [real(2, 5)]),
    "SELU": Case(layer("SELU"), [real(2, 5)], wrong="input0 gradient"),
    "ELU": Case(layer("ELU", 0.7), [real(2, 5)]),
    "GELU": Case(layer("GELU"), [real(2, 5)]),
    "Swish": Case(layer("Swish", 0.5), [real(2, 5)]),
    "PReLU": Case(layer("PReLU", in_channels=4), [MAPS]),
    "HybridConcurrent": Case(parallel("HybridConcurrent", axis=-1), [real(2, 4)]),
    **{f"PixelShuffle{n}D": Case(shuffle(n), [real(1, 2**n, *(3,) * n)]) for n in (1, 2, 3)},
    "RNN-relu": Case(recurrent("RNN", 3, 2, "relu", "NTC"), [real(2, 4, 3)]),
    "LSTM-dropout": Case(recurrent("LSTM", 4, input_size=3, dropout=0.5), [real(4, 2, 3)]),
    "GRU-both": Case(recurrent("GRU", 3, num_layers=2, bidirectional=True, h2h_weight_initializer="orthogonal"), [real(4, 2, 3)]),
    "RNNCell": Case(cell(lambda rnn, contrib: rnn.RNNCell(4, "relu")), [real(2, 3, 5)]),
    "LSTMCell": Case(cell(lambda rnn, contrib: rnn.LSTMCell(4)), [real(2, 3, 5)]),
    "stacked cells": Case(cell(stacked), [real(2, 3, 4)]),
    "BidirectionalCell": Case(cell(lambda rnn, contrib: rnn.BidirectionalCell(rnn.LSTMCell(3), rnn.GRUCell(2))), [real(2, 3, 5)]),
    "ZoneoutCell": Case(cell(lambda rnn, contrib: rnn.ZoneoutCell(rnn.RNNCell(3), 0.2, 0.3)), [real(2, 3, 5)], train=False),
    "LSTMPCell": Case(cell(lambda rnn, contrib: contrib.LSTMPCell(4, 2)), [real(2, 3, 5)]),
    "Conv2DLSTMCell": Case(cell(lambda rnn, contrib: contrib.Conv2DLSTMCell((2, 4, 4), 3, 3, 3, 1)), [real(1, 3, 2, 4, 4)]),
    "Conv1DGRUCell": Case(cell(lambda rnn, contrib: contrib.Conv1DGRUCell((2, 6), 3, 3, 3, 1)), [real(1, 3, 2, 6)]),
    "ResNetV1": Case(resnet(1, "BasicBlock"), [real(2, 3, 12, 12)], tolerance=2e-3),
    "ResNetV2": Case(resnet(2, "Bottleneck"), [real(2, 3, 12, 12)], tolerance=2e-3, wrong="bind output0"),
    "MobileNet": Case(small("MobileNet", 0.125, classes=5), [real(1, 3, 32, 32)], train=False, tolerance=2e-3),
    "MobileNetV2": Case(small("MobileNetV2", 0.1, classes=5), [real(1, 3, 32, 32)], train=False, tolerance=2e-3),
    "while": Case(block(while_loop, square), [real(2, 4)]),
    "cond": Case(block(cond, square), [real(3, 4)]),
    "nested": Case(block(nested, square), [real(3, 4)]),
    "several": Case(block(several), [real(2, 4, 6)]),
    "scopes": Case(block(attributes, with_attributes), [real(1, 2, 5, 5)]),
    "integers": Case(block(integers), [index(3, 2, 3), real(4)]),
}  # fmt: skip
