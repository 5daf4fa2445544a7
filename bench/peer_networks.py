# SPDX-License-Identifier: Apache-2.0
"""Whole networks for bench/peers.py, inference and training: one definition for all libraries.

A network is a function of ``n`` (Layers) and ``x``. Its parameters are numbered as they are met, so that the shapes of all
come from a run on shapes alone. Python 3.8 and NumPy are enough; the operators of a library are in peer_operators.py.
"""

from __future__ import annotations

import numpy as np
from peer_operators import ArrayOperators, Parameters

VOCABULARY = 5000
UNITS = 768  #: of the transformer, as of BERT's base model
HEADS = 12
HIDDEN = 200  #: of the language model, as of the tutorial's
RATE, MOMENTUM = 0.003, 0.9  #: of plain SGD, which all libraries have
STATISTICS = ("mean", "variance")  #: kinds of parameters that no gradient is computed for


class Shape(tuple):
    """The shape of an array, which elementwise operators keep."""

    def __add__(self, other):
        return self

    def __mul__(self, other):
        return self


class ShapeOperators(Parameters):
    """Operators that compute shapes alone; ``declared`` gets (kind, shape) of every parameter."""

    def __init__(self):
        Parameters.__init__(self, [])
        self.declared = []

    def _window(self, x, channels, kernel, stride, pad):
        return Shape((x[0], channels, *((s + 2 * pad - kernel) // stride + 1 for s in x[2:])))

    def convolution(self, x, weight, bias, stride=1, pad=0, groups=1):
        channels, _, kernel, _ = self.declared[weight][1]
        return self._window(x, channels, kernel, stride, pad)

    def max_pool(self, x, kernel, stride, pad=0):
        return self._window(x, x[1], kernel, stride, pad)

    average_pool = max_pool

    def _same(self, x, *more, **named):
        return x

    batch_norm = relu = relu6 = gelu = softmax = layer_norm = _same

    def spatial_mean(self, x):
        return Shape(x[:2])

    def flatten(self, x):
        return Shape((x[0], int(np.prod(x[1:]))))

    def dense(self, x, weight, bias):
        return Shape((*x[:-1], self.declared[weight][1][0]))

    def concat(self, parts):
        return Shape((parts[0][0], sum(p[1] for p in parts), *parts[0][2:]))

    def embedding(self, x, weight):
        return Shape((*x, self.declared[weight][1][1]))

    def reshape(self, x, shape):
        return Shape(shape)

    def permute(self, x, axes):
        return Shape(x[a] for a in axes)

    def matmul(self, a, b, transposed=False):
        return Shape((*a[:-1], b[-2] if transposed else b[-1]))

    def first_of(self, x, axis):
        return Shape(x[:axis] + x[axis + 1 :])

    def lstm(self, x, first, layers):
        return x


class Layers:
    """Layers over the operators ``o``, which number their parameters."""

    def __init__(self, o):
        self.o, self.count = o, 0

    def take(self, kind, *shape):
        if isinstance(self.o, ShapeOperators):
            self.o.declared.append((kind, shape))
        self.count += 1
        return self.count - 1

    @staticmethod
    def size(x, axis):
        return x[axis] if isinstance(x, Shape) else 0  # needed where parameters are declared

    def convolution(self, x, channels, kernel, stride=1, pad=0, groups=1, bias=False):
        w = self.take("weight", channels, self.size(x, 1) // groups, kernel, kernel)
        return self.o.convolution(x, w, self.take("bias", channels) if bias else None, stride, pad, groups)

    def norm(self, x):
        first, *_ = [self.take(kind, self.size(x, 1)) for kind in ("gamma", "bias", *STATISTICS)]
        return self.o.batch_norm(x, first)

    def convolved(self, x, *what, **more):
        """Convolution, BatchNorm, relu."""
        return self.o.relu(self.norm(self.convolution(x, *what, **more)))

    def dense(self, x, units):
        return self.o.dense(x, self.take("weight", units, self.size(x, -1)), self.take("bias", units))

    def layer_norm(self, x):
        return self.o.layer_norm(x, self.take("gamma", self.size(x, -1)), self.take("bias", self.size(x, -1)))

    def classes(self, x, count=1000):
        return self.dense(self.o.spatial_mean(x), count)


def _residual(n, x, channels, stride, bottleneck):
    if bottleneck:
        y = n.convolved(x, channels // 4, 1, stride)
        y = n.convolved(y, channels // 4, 3, 1, 1)
        y = n.norm(n.convolution(y, channels, 1))
    else:
        y = n.convolved(x, channels, 3, stride, 1)
        y = n.norm(n.convolution(y, channels, 3, 1, 1))
    return y


def _resnet(n, x, blocks, widths, bottleneck):
    x = n.o.max_pool(n.convolved(x, 64, 7, 2, 3), 3, 2, 1)
    for stage, (count, channels) in enumerate(zip(blocks, widths)):
        for k in range(count):
            stride = 2 if stage and not k else 1
            y = _residual(n, x, channels, stride, bottleneck)
            changes = not k and (stage or bottleneck)
            x = n.o.relu(y + (n.norm(n.convolution(x, channels, 1, stride)) if changes else x))
    return n.classes(x)


def resnet18(n, x):
    return _resnet(n, x, (2, 2, 2, 2), (64, 128, 256, 512), False)


def resnet50(n, x):
    return _resnet(n, x, (3, 4, 6, 3), (256, 512, 1024, 2048), True)


def densenet121(n, x):
    x = n.o.max_pool(n.convolved(x, 64, 7, 2, 3), 3, 2, 1)
    channels = 64
    for stage, count in enumerate((6, 12, 24, 16)):
        for _ in range(count):
            y = n.convolution(n.o.relu(n.norm(x)), 128, 1)
            x = n.o.concat([x, n.convolution(n.o.relu(n.norm(y)), 32, 3, 1, 1)])
            channels += 32
        x = n.o.relu(n.norm(x))
        if stage < 3:
            channels //= 2
            x = n.o.average_pool(n.convolution(x, channels, 1), 2, 2)
    return n.classes(x)


def mobilenet(n, x):
    x = n.convolved(x, 32, 3, 2, 1)
    before = 32
    for channels, stride in [
        (64, 1),
        (128, 2),
        (128, 1),
        (256, 2),
        (256, 1),
        (512, 2),
        *[(512, 1)] * 5,
        (1024, 2),
        (1024, 1),
    ]:
        x = n.convolved(x, before, 3, stride, 1, groups=before)
        x = n.convolved(x, channels, 1)
        before = channels
    return n.classes(x)


def mobilenet_v2(n, x):
    x = n.o.relu6(n.norm(n.convolution(x, 32, 3, 2, 1)))
    before = 32
    stages = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    for wider, channels, count, first in stages:
        for k in range(count):
            stride, wide = first if not k else 1, before * wider
            y = x if wider == 1 else n.o.relu6(n.norm(n.convolution(x, wide, 1)))
            y = n.o.relu6(n.norm(n.convolution(y, wide, 3, stride, 1, wide)))
            y = n.norm(n.convolution(y, channels, 1))
            x = x + y if stride == 1 and before == channels else y
            before = channels
    return n.classes(n.o.relu6(n.norm(n.convolution(x, 1280, 1))))


def lenet(n, x):
    x = n.o.max_pool(n.o.relu(n.convolution(x, 20, 5, bias=True)), 2, 2)
    x = n.o.max_pool(n.o.relu(n.convolution(x, 50, 5, bias=True)), 2, 2)
    return n.dense(n.o.relu(n.dense(n.o.flatten(x), 500)), 10)


def bert(n, x, batch, length):
    """Two layers of a transformer's encoder over an embedding; classes from the first position."""
    x = n.o.embedding(x, n.take("weight", VOCABULARY, UNITS))
    for _ in range(2):
        q, k, v = (
            n.o.reshape(
                n.o.permute(n.o.reshape(n.dense(x, UNITS), (batch, length, HEADS, UNITS // HEADS)), (0, 2, 1, 3)),
                (batch * HEADS, length, UNITS // HEADS),
            )
            for _ in range(3)
        )
        scores = n.o.softmax(n.o.matmul(q, k, True) * float((UNITS // HEADS) ** -0.5))
        y = n.o.reshape(n.o.matmul(scores, v), (batch, HEADS, length, UNITS // HEADS))
        y = n.o.reshape(n.o.permute(y, (0, 2, 1, 3)), (batch, length, UNITS))
        x = n.layer_norm(x + n.dense(y, UNITS))
        x = n.layer_norm(x + n.dense(n.o.gelu(n.dense(x, 4 * UNITS)), UNITS))
    return n.dense(n.o.first_of(x, 1), 2)


def language_model(n, x):
    """An embedding, two layers of LSTM and a decoder, over sentences whose first axis is time."""
    x = n.o.embedding(x, n.take("weight", VOCABULARY, HIDDEN))
    first = n.count
    for _ in range(2):
        n.take("weight", 4 * HIDDEN, HIDDEN), n.take("weight", 4 * HIDDEN, HIDDEN)
        n.take("bias", 4 * HIDDEN), n.take("bias", 4 * HIDDEN)
    return n.dense(n.o.lstm(x, first, 2), VOCABULARY)


class Network:
    """A network, the shapes of its input and its labels, and the sizes of batches."""

    def __init__(
        self, function, title, sizes, shape, classes, trained=False, words=False, labels=None, dimensions=False
    ):
        self.function, self.title, self.sizes, self.trained = function, title, sizes, trained
        self.shape, self.classes, self.words = shape, classes, words
        self.labels = labels or (lambda batch: (batch,))
        self.dimensions = dimensions  #: whether the function takes those of its input

    def __call__(self, o, x, shape):
        """The result, of an input of that shape."""
        return self.function(Layers(o), x, *(shape if self.dimensions else ()))

    def data(self, batch):
        """(input, parameters, their kinds, labels), the same in every library."""
        rng = np.random.RandomState(0)
        shape = self.shape(batch)
        o = ShapeOperators()
        self(o, Shape(shape), shape)
        parameters = []
        for kind, extents in o.declared:
            drawn = rng.standard_normal(extents).astype(np.float32)
            scale = np.float32((2 / max(1, np.prod(extents[1:]))) ** 0.5)
            parameters.append({
                "weight": drawn * scale,
                "bias": drawn * np.float32(0.1),
                "gamma": 1 + np.float32(0.1) * abs(drawn),
                "mean": drawn * np.float32(0.1),
                "variance": 1 + abs(drawn),
            }[kind])  # fmt: skip
        x = rng.randint(0, VOCABULARY, shape) if self.words else rng.standard_normal(shape)
        labels = rng.randint(0, self.classes, self.labels(batch))
        return x.astype(np.float32), parameters, [kind for kind, _ in o.declared], labels.astype(np.float32)

    def expected(self, batch):
        """(rows, NumPy's result there in float64): of the first picture; of training the first loss."""
        x, parameters, _, labels = self.data(batch)
        x = x if self.trained else x[:1]
        o = ArrayOperators([p.astype(np.float64) for p in parameters], np, _erf)
        o.training = self.trained
        out = self(o, x if self.words else x.astype(np.float64), x.shape)
        return [(slice(0, 1), cross_entropy(np, out, labels)[None] if self.trained else out)]


def _erf(x):
    import math

    return np.vectorize(math.erf, otypes=[np.float64])(x)


def cross_entropy(xp, logits, labels):
    """The mean of the negative logarithms of the labels' probabilities."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    chosen = xp.take_along_axis(shifted, labels.astype("int32")[..., None], -1)[..., 0]
    return (xp.log(xp.exp(shifted).sum(axis=-1)) - chosen).mean()


def _pictures(size, channels=3):
    return lambda batch: (batch, channels, size, size)


NETWORKS = {
    **{
        f"infer_{f.__name__}": Network(f, f"{title}, inference, 224 x 224", (1, 8), _pictures(224), 1000)
        for f, title in (
            (resnet18, "ResNet-18"),
            (resnet50, "ResNet-50"),
            (densenet121, "DenseNet-121"),
            (mobilenet, "MobileNet"),
        )
    },
    "train_lenet": Network(lenet, "LeNet, training, 28 x 28", (64,), _pictures(28, 1), 10, True),
    "train_resnet18": Network(resnet18, "ResNet-18, training, 64 x 64", (8,), _pictures(64), 1000, True),
    "train_mobilenet_v2": Network(mobilenet_v2, "MobileNetV2, training, 64 x 64", (8,), _pictures(64), 1000, True),
    "train_bert": Network(
        bert, "BERT of two layers, training, 64 words", (8,), lambda b: (b, 64), 2, True, True, dimensions=True
    ),
    "train_language_model": Network(
        language_model, "Language model of two LSTMs, training, 35 words", (20,), lambda b: (35, b), VOCABULARY, True, True,
        lambda b: (35, b),
    ),
}  # fmt: skip
SIZES = {name: network.sizes for name, network in NETWORKS.items()}
TITLES = {name: f"{network.title}, float32; batch of" for name, network in NETWORKS.items()}
