# SPDX-License-Identifier: Apache-2.0
"""Nets in np mode, and nets written with ``F.np`` and ``F.npx``; see nets.py. Their names begin with 'np'."""

from __future__ import annotations

from against_mxnet.exchange.nets import Case, block, chain, index, real


def scalars(F, self, x, shift):
    return F.np.tanh(x * shift.mean()).sum() + 1, x[0, 1] * 2, shift.sum()


def with_shift(self, mx):
    self.shift = self.params.get("shift", shape=(1, 3))


def arithmetic(F, self, x, y):
    z = (x + 2 * y - 1) / (F.np.abs(y) + 1.5) ** 2
    return F.np.maximum(z, 0.1) * F.np.exp(-z) + F.np.where(x > y, x, -y)


def comparisons(F, self, x, y):
    return (x > y).astype("float32") + (x <= 0.5).astype("float32") * 2, x * (y != 0)


def reductions(F, self, x):
    return x.mean(), x.sum(axis=(0, 2)), F.np.max(x, axis=1, keepdims=True), x.prod(axis=0)


def spread(F, self, x):
    return x.std(axis=-1), x.var(ddof=1)


def shapes(F, self, x):
    y = F.np.concatenate([x, F.np.expand_dims(x[:, 0], 1)], axis=1)
    a, b = F.np.split(y, 2, axis=1)
    return F.np.stack([a, b]).transpose(1, 0, 3, 2), y.reshape(-1, 5)[::2, 1:], F.npx.reshape(y, (-2, -1)), y[1, -1, 2]


def products(F, self, x, y, weight):
    z = F.np.dot(x, weight)
    return (
        F.np.matmul(z, y),
        F.np.einsum("ij,kj->ik", x, x),
        F.np.tensordot(x, weight, 1),
        F.npx.batch_dot(F.np.expand_dims(x, 0), F.np.expand_dims(weight, 0)),
    )


def with_weight(self, mx):
    self.weight = self.params.get("weight", shape=(4, 3))


def extension(F, self, x, n):
    return (
        F.npx.softmax(x, axis=-1),
        F.npx.pick(F.npx.log_softmax(x), n),
        F.npx.one_hot(n, 6) * x,
        F.npx.topk(x, k=2, ret_typ="value"),
        F.npx.leaky_relu(x, act_type="gelu"),
    )


def constants(F, self, x, table):
    return x + F.np.arange(4) * table + F.np.ones((3, 1)) - F.np.full_like(x, 0.5)


def with_table(self, mx):
    self.table = self.params.get_constant("table", [1.0, 2.0, 3.0, 4.0])


def linear_algebra(F, self, x):
    a = F.np.matmul(x, F.np.swapaxes(x, 0, 1)) + F.np.eye(3)
    return F.np.linalg.norm(x), F.np.linalg.norm(x, axis=1), F.np.linalg.inv(a), F.np.linalg.det(a)


def dense(*args, **kwargs):
    return lambda nn: nn.Dense(*args, **kwargs)


def layer(kind, *args, **kwargs):
    return lambda mx, name: getattr(mx.gluon.rnn, kind)(*args, prefix=name + "_", **kwargs)


NETS = {
    "np perceptron": Case(chain(dense(5, activation="relu"), lambda nn: nn.Dropout(0), dense(3)), [real(4, 6)]),
    "np lenet": Case(
        chain(
            lambda nn: nn.Conv2D(4, 3, activation="tanh"),
            lambda nn: nn.MaxPool2D(2, 2),
            lambda nn: nn.BatchNorm(),
            lambda nn: nn.Conv2D(6, 3),
            lambda nn: nn.AvgPool2D(2, 2),
            lambda nn: nn.Flatten(),
            dense(10, activation="sigmoid"),
            dense(3),
        ),
        [real(2, 1, 14, 14)],
    ),
    "np norms": Case(
        chain(lambda nn: nn.LayerNorm(), lambda nn: nn.Swish(), lambda nn: nn.GELU(), lambda nn: nn.BatchNorm(axis=-1)),
        [real(4, 3, 5)],
    ),
    "np embedding": Case(chain(lambda nn: nn.Embedding(6, 4), dense(3, flatten=False)), [index(6, 2, 3)]),
    "np rnn": Case(layer("RNN", 4), [real(5, 2, 3), real(1, 2, 4)]),
    "np gru": Case(layer("GRU", 4, 2, layout="NTC", bidirectional=True), [real(2, 5, 3), real(4, 2, 4)]),
    "np scalars": Case(block(scalars, with_shift), [real(4, 3)]),
    "np arithmetic": Case(block(arithmetic), [real(3, 4), real(3, 4)]),
    "np comparisons": Case(block(comparisons), [real(3, 4), real(3, 4)]),
    "np reductions": Case(block(reductions), [real(2, 3, 4)]),
    "np spread": Case(block(spread), [real(2, 3, 4)], wrong="gradient"),  # which is 0 there
    "np shapes": Case(block(shapes), [real(2, 3, 5)]),
    "np products": Case(block(products, with_weight), [real(5, 4), real(3, 2)]),
    "np extension": Case(block(extension), [real(3, 6), index(6, 3)]),
    "np constants": Case(block(constants, with_table), [real(3, 4)]),
    "np linear algebra": Case(block(linear_algebra), [real(3, 4)]),
}
