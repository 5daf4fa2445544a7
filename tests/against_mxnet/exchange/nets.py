# SPDX-License-Identifier: Apache-2.0
"""Nets whose files go from hybridgpu to MXNet and back: the same code makes them with either package.

Python 3.8, which MXNet 1.9.1 needs, runs this module too.
"""

from __future__ import annotations

import zlib

import numpy as np


class Case:
    """A row: ``make(mx, name)`` returns the block; ``inputs`` are (shape, dtype, least, bound) of its arguments.

    ``train``: results in training mode are compared, too (not where they are random). ``tolerance``: of
    float32 sums in another order, unless the case says more. ``wrong``: the end of names of results that MXNet
    itself gives differently from call to call: the gradients of LeakyReLU in graphs, where it overwrites its input,
    and BatchNorm before a convolution in an executor.
    """

    def __init__(self, make, inputs, train=True, tolerance=1e-4, wrong=None):
        self.make, self.inputs, self.train, self.tolerance, self.wrong = make, inputs, train, tolerance, wrong


def real(*shape, dtype="float32"):
    return shape, dtype, None, None


def index(bound, *shape, dtype="float32"):
    return shape, dtype, 0, bound


def draw(case, name):
    """The inputs of a case."""
    out = []
    for k, (shape, dtype, least, bound) in enumerate(case.inputs):
        rng = np.random.RandomState(zlib.crc32(f"{name} {k}".encode()))
        values = rng.normal(size=shape) if least is None else rng.randint(least, bound, size=shape)
        out.append(values.astype(dtype))
    return out


def array(mx, values, dtype):
    """An array of nd, or of np in np mode."""
    return mx.np.array(values, dtype=dtype) if mx.util.is_np_array() else mx.nd.array(values, dtype=dtype)


def files(mx):
    """What saves and loads arrays in this mode."""
    return mx.npx if mx.util.is_np_array() else mx.nd


def fill(mx, net):
    """Give every parameter numbers that depend on its name only."""
    for name, p in net.collect_params().items():
        if isinstance(p, mx.gluon.Constant):
            continue
        rng = np.random.RandomState(zlib.crc32(name.encode()))
        values = 0.4 * rng.normal(size=p.shape)
        if name.endswith(("gamma", "running_var")):
            values = np.abs(values) + 0.5
        p.set_data(array(mx, values, p.dtype))


def sequential(mx, name, *blocks):
    """``blocks``: functions of ``mx.gluon.nn``, called where names get the prefix."""
    net = mx.gluon.nn.HybridSequential(prefix=name + "_")
    with net.name_scope():
        for make in blocks:
            net.add(make(mx.gluon.nn))
    return net


def chain(*blocks):
    return lambda mx, name: sequential(mx, name, *blocks)


def block(forward, build=None):
    """A block with ``forward(F, mx, self, *args)`` and what ``build(self, mx)`` adds to it."""

    def make(mx, name):
        class Net(mx.gluon.HybridBlock):
            def hybrid_forward(self, F, *args, **parameters):
                return forward(F, self, *args, **parameters)

        net = Net(prefix=name + "_")
        if build is not None:
            with net.name_scope():
                build(net, mx)
        return net

    return make


def lenet(mx, name):
    """The tutorial's: the last weight by hand, a reshape that keeps the batch."""

    class LeNet(mx.gluon.HybridBlock):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            nn = mx.gluon.nn
            with self.name_scope():
                self.conv1, self.pool1 = nn.Conv2D(6, kernel_size=5), nn.MaxPool2D((2, 2), (2, 2))
                self.conv2, self.pool2 = nn.Conv2D(16, kernel_size=5), nn.MaxPool2D((2, 2), (2, 2))
                self.fc1, self.fc2 = nn.Dense(120), nn.Dense(84)
                self.fc3_weight = self.params.get("fc3_weight", shape=(10, 84))

        def hybrid_forward(self, F, x, fc3_weight):
            x = self.pool1(F.tanh(self.conv1(x)))
            x = self.pool2(F.tanh(self.conv2(x)))
            x = x.reshape((0, -1))
            x = F.tanh(self.fc2(F.tanh(self.fc1(x))))
            return F.FullyConnected(x, fc3_weight, no_bias=True, num_hidden=10)

    return LeNet(prefix=name + "_")


def residual(mx, name):
    nn = mx.gluon.nn

    class Residual(mx.gluon.HybridBlock):
        def __init__(self, channels, stride, shortcut, **kwargs):
            super().__init__(**kwargs)
            with self.name_scope():
                self.body = nn.HybridSequential(prefix="")
                self.body.add(
                    nn.Conv2D(channels, 3, stride, 1, use_bias=False),
                    nn.BatchNorm(),
                    nn.Activation("relu"),
                    nn.Conv2D(channels, 3, 1, 1, use_bias=False),
                    nn.BatchNorm(scale=False),
                )
                self.shortcut = nn.Conv2D(channels, 1, stride, use_bias=False) if shortcut else None

        def hybrid_forward(self, F, x):
            return F.Activation(self.body(x) + (x if self.shortcut is None else self.shortcut(x)), act_type="relu")

    return sequential(
        mx,
        name,
        lambda nn: nn.Conv2D(4, 3, 1, 1),
        lambda nn: Residual(4, 1, False),
        lambda nn: Residual(6, 2, True),
        lambda nn: nn.GlobalAvgPool2D(),
        lambda nn: nn.Dense(3),
    )


def recurrent(kind, *args, **kwargs):
    def make(mx, name):
        return sequential(mx, name, lambda nn: getattr(mx.gluon.rnn, kind)(*args, **kwargs))

    return make


def unrolled(mx, name):
    class Unrolled(mx.gluon.HybridBlock):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            with self.name_scope():
                self.cell = mx.gluon.rnn.GRUCell(5)

        def hybrid_forward(self, F, x, state):
            outputs, states = self.cell.unroll(3, x, [state], layout="NTC", merge_outputs=True)
            return outputs, states[0]

    return Unrolled(prefix=name + "_")


def looped(F, net, x, state, weight):
    def step(row, states):
        new = F.tanh(F.broadcast_add(F.FullyConnected(row, weight, no_bias=True, num_hidden=4), states[0]))
        return new * 2, [new]

    outputs, states = F.contrib.foreach(step, x, [state])
    return outputs, states[0]


def loop_weight(net, mx):
    net.weight = net.params.get("weight", shape=(4, 4))


def branches(F, net, x, y):
    both = F.concat(net.left(x), net.right(y), dim=1)
    return F.softmax(both), (F.sum(both, axis=1), both.slice_axis(axis=1, begin=1, end=3))


def two_denses(net, mx):
    net.left, net.right = mx.gluon.nn.Dense(3, activation="sigmoid"), mx.gluon.nn.Dense(4, flatten=False)


def shared(mx, name):
    net = mx.gluon.nn.HybridSequential(prefix=name + "_")
    with net.name_scope():
        net.add(mx.gluon.nn.Dense(5, in_units=5, activation="tanh"))
        net.add(mx.gluon.nn.Dense(5, in_units=5, params=net[0].params))
        net.add(mx.gluon.nn.Dense(2))
    return net


def constants(net, mx):
    net.table = net.params.get_constant("table", np.arange(6, dtype="float32").reshape(2, 3))
    net.dense = mx.gluon.nn.Dense(2)


def symbol_of_symbols(mx, name):
    """A SymbolBlock inside a graph that becomes a SymbolBlock."""
    inner = sequential(mx, name + "_inner", lambda nn: nn.Dense(4, activation="relu"), lambda nn: nn.BatchNorm())
    data = mx.sym.var("data")
    block = mx.gluon.SymbolBlock(inner(data), data, params=inner.collect_params())
    outer = mx.sym.var("data")
    outputs = block(outer * 2) + 1
    outer_block = mx.gluon.SymbolBlock([outputs, mx.sym.sum(outputs)], outer, params=block.collect_params())
    return outer_block


def half(mx, name):
    net = sequential(mx, name, lambda nn: nn.LayerNorm(), lambda nn: nn.Activation("tanh"), lambda nn: nn.PReLU())
    net.cast("float16")
    return net


def hung(F, net, x):
    """Operators whose attributes are printed in unusual ways."""
    y = F.LeakyReLU(x, act_type="elu", slope=0.3).transpose((0, 2, 1)).expand_dims(1)
    y = F.pad(y, mode="constant", pad_width=(0, 0, 0, 0, 1, 2, 0, 1), constant_value=0.5)
    y = F.clip(y, -1.5, 1e-7 + 2).slice(begin=(None, 0, 1), end=(None, None, 5))
    y = 2 ** F.norm(y, axis=(1, 3)) - F.mean(y, axis=(0, 2), exclude=True) / 3
    return F.one_hot(F.argmax(y, axis=-1), depth=4, on_value=2, dtype="float32"), F.topk(y, k=2, ret_typ="value")


NETS = {
    "mlp": Case(chain(lambda nn: nn.Dense(8, "relu"), lambda nn: nn.Dense(4, "tanh"), lambda nn: nn.Dense(2)), [real(3, 5)]),
    "lenet": Case(lenet, [real(2, 1, 28, 28)]),
    "residual": Case(residual, [real(2, 3, 8, 8)], tolerance=5e-4),
    "lstm": Case(recurrent("LSTM", 4, num_layers=2, bidirectional=True), [real(5, 2, 3)]),
    "gru": Case(recurrent("GRU", 4, layout="NTC", input_size=3), [real(2, 5, 3)]),
    "rnn": Case(recurrent("RNN", 3, activation="tanh"), [real(4, 2, 3)]),
    "unrolled": Case(unrolled, [real(2, 3, 4), real(2, 5)]),
    "foreach": Case(block(looped, loop_weight), [real(3, 2, 4), real(2, 4)]),
    "embedding": Case(
        chain(lambda nn: nn.Embedding(10, 4), lambda nn: nn.Dense(3)), [index(10, 2, 6)]
    ),
    "branches": Case(block(branches, two_denses), [real(2, 5), real(2, 3)]),
    "deconvolution": Case(
        chain(lambda nn: nn.Conv2DTranspose(3, 4, 2, 1, output_padding=1, in_channels=2), lambda nn: nn.ELU(0.5)),
        [real(2, 2, 4, 4)],
    ),
    "layernorm": Case(chain(lambda nn: nn.LayerNorm(), lambda nn: nn.Dense(3, flatten=False)), [real(2, 3, 5)]),
    "groupnorm": Case(chain(lambda nn: nn.InstanceNorm(), lambda nn: nn.Activation("sigmoid"), lambda nn: nn.GroupNorm(2)), [real(2, 4, 3, 3)], tolerance=5e-4),
    # in a graph LeakyReLU overwrites its input, and MXNet takes the slope's gradient from the result instead
    "prelu": Case(chain(lambda nn: nn.Dense(4), lambda nn: nn.GELU(), lambda nn: nn.Swish(1.5), lambda nn: nn.PReLU(), lambda nn: nn.Dense(2)), [real(3, 4)], wrong="alpha gradient"),
    "dropout": Case(chain(lambda nn: nn.Dense(6), lambda nn: nn.Dropout(0.3), lambda nn: nn.Dropout(0.5, axes=(1,))), [real(2, 4)], train=False),
    "shared": Case(shared, [real(2, 5)]),
    "constant": Case(block(lambda F, net, x, table: net.dense(F.broadcast_mul(x, table)), constants), [real(2, 3)]),
    "symbols": Case(symbol_of_symbols, [real(3, 4)], tolerance=5e-4),
    "half": Case(half, [real(2, 6, dtype="float16")], tolerance=2e-2),
    "pooling": Case(
        block(
            lambda F, net, x: (
                net.one(x), net.two(x), net.three(x), net.four(x),
                F.Pooling(x, kernel=(2, 2), pool_type="lp", p_value=2, stride=(2, 2)),
                F.Pooling(x, kernel=(3, 3), pool_type="sum", pooling_convention="full", stride=(2, 2)),
            ),
            lambda net, mx: [
                setattr(net, "one", mx.gluon.nn.MaxPool2D(3, 2, 1, ceil_mode=True)),
                setattr(net, "two", mx.gluon.nn.AvgPool2D(3, 2, 1, count_include_pad=False)),
                setattr(net, "three", mx.gluon.nn.GlobalMaxPool2D()),
                setattr(net, "four", mx.gluon.nn.ReflectionPad2D(1)),
            ],
        ),
        [real(2, 2, 7, 7)],
    ),
    "volumes": Case(
        chain(lambda nn: nn.Conv3D(2, (1, 2, 3), padding=(0, 1, 1), use_bias=False), lambda nn: nn.BatchNorm(axis=1, center=False), lambda nn: nn.MaxPool3D()),
        [real(1, 2, 4, 5, 6)], tolerance=5e-4,
    ),
    "rows": Case(
        chain(lambda nn: nn.Conv1D(4, 3, dilation=2, groups=2, activation="softrelu"), lambda nn: nn.AvgPool1D(2), lambda nn: nn.Flatten(),
              lambda nn: nn.HybridLambda("softmax")),
        [real(2, 2, 12)],
    ),
    "attributes": Case(block(hung), [real(2, 3, 4)]),
}  # fmt: skip
