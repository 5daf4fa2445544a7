# SPDX-License-Identifier: Apache-2.0
"""What bench/peer_worker.py measures, but for whole networks: one definition for all libraries.

A workload is a function of ``o`` and ``x``, where ``o`` has the operators of a library under common names (the
classes below) and takes parameters by number. Python 3.8 and NumPy are enough; libraries are handed in.
"""

from __future__ import annotations

import math
import os

import numpy as np
from peer_operators import ArrayOperators

ELEMENTS = int(os.environ.get("PEER_ELEMENTS", "4194304"))  # of rows, together; bench/peers.py --elements
DRAWN = 1 << 22  # numbers that are drawn; larger inputs repeat them
CHECKED = 1 << 22  # elements that are compared with NumPy's: of larger results four parts
LAYERS = (512, 256, 128, 2)
A, B, C = 1.25, -0.3, 0.2
SIZES = {
    "normalise": (4096, 1, 10, 98, 977, 9766, 97_656),  # elements: 4 Mi, then 10^3 … 10^8
    "gelu": (4096,),
    "softmax": (1024, 128, 8192, 65_536, 262_144),
    "norm": (1024, 128, 8192, 65_536, 262_144),
    "lenet": (16, 1),
    "resnet": (1, 8),
    # one operator each, as eager programs call them: elements
    "eager_softmax": (1 << 20, 640),
    "eager_layer_norm": (1 << 20, 1024),
    "eager_gelu": (1 << 20, 1000),
    "eager_sigmoid": (1 << 20,),
    "eager_exp": (1 << 20,),
    "eager_transpose": (1 << 20,),
    "eager_batch_norm": (8 * 64 * 56 * 56,),
    "eager_pool": (8 * 64 * 56 * 56,),
    "eager_dense": (16 * 512,),
    "eager_add": (100, 1 << 20),
    "eager_chain": (100,),
}
#: what `--workload eager` stands for; on a CPU the column "eager" is what counts
SUITES = {"eager": tuple(name for name in SIZES if name.startswith("eager_"))}
_SHAPES = {
    "eager_softmax": {1 << 20: (1024, 1024), 640: (64, 10)},
    "eager_layer_norm": {1 << 20: (1024, 1024), 1024: (16, 64)},
    "eager_transpose": {1 << 20: (1024, 1024)},
    "eager_batch_norm": {8 * 64 * 56 * 56: (8, 64, 56, 56)},
    "eager_pool": {8 * 64 * 56 * 56: (8, 64, 56, 56)},
    "eager_dense": {16 * 512: (16, 512)},
}
TITLES = {
    "normalise": "relu((x-mean)*scale*gamma+beta), 1,024 columns, float32; rows",
    "gelu": "gelu(x+bias)+residual, 1,024 columns, float32; rows",
    "softmax": "Softmax of {elements} Mi elements, float32; length of a row",
    "norm": "LayerNorm, then GELU, of {elements} Mi elements, float32; length of a row",
    "lenet": "LeNet of the tutorial, 28 x 28, float32; batch of",
    "resnet": "Stem and three residual blocks of 32 and 64 channels, 64 x 64, float32; batch of",
    **{name: f"One operator, {name[6:]}, float32; elements" for name in SUITES["eager"]},
    "eager_chain": "Ten small operators in a row, float32; elements",
    "eager_dense": "Dense layer of 512 to 256, float32; elements of a batch of 16",
}
_CONVOLUTIONS = [(32, 3, 3), (32, 32, 3), (32, 32, 3), (32, 32, 3), (32, 32, 3), (64, 32, 3), (64, 64, 3), (64, 32, 1)]


def data(workload, size):
    """(input, parameters) in float32, the same in every library."""
    rng = np.random.RandomState(0)

    def draw(*shape):
        count = int(np.prod(shape))
        return np.resize(rng.standard_normal(min(count, DRAWN)).astype(np.float32), shape)

    def weight(*shape):
        return draw(*shape) * np.float32(np.prod(shape[1:]) ** -0.5)

    if workload in SUITES["eager"]:
        x = draw(*_SHAPES.get(workload, {}).get(size, (size,)))
        if workload == "eager_layer_norm":
            return x, [draw(x.shape[1]), draw(x.shape[1])]
        if workload == "eager_batch_norm":
            return x, [1 + abs(draw(64)), draw(64), draw(64), 1 + abs(draw(64))]
        return x, [weight(256, 512), draw(256)] if workload == "eager_dense" else []
    if workload == "normalise":
        return draw(size, 1024), [draw(1, 1024) for _ in range(4)]
    if workload == "gelu":
        return draw(size, 1024), [draw(1, 1024), draw(size, 1024)]
    if workload in ("softmax", "norm"):
        return draw(ELEMENTS // size, size), [draw(size), draw(size)] if workload == "norm" else []
    if workload == "lenet":
        shapes = [(6, 1, 5, 5), (16, 6, 3, 3), (120, 400), (84, 120), (10, 84)]
        return draw(size, 1, 28, 28), [a for s in shapes for a in (weight(*s), draw(s[0]) * np.float32(0.1))]
    parameters = []
    for channels, fan_in, k in _CONVOLUTIONS:
        parameters.append(weight(channels, fan_in, k, k))
        parameters += [1 + abs(draw(channels)), draw(channels), draw(channels), 1 + abs(draw(channels))]
    return draw(size, 3, 64, 64), parameters


def normalise(o, x):
    return o.relu(o.add(o.multiply(o.multiply(o.subtract(x, 0), 1), 2), 3))


def gelu(o, x):
    return o.gelu(o.add(x, 0)) + o.parameter(1)


def softmax(o, x):
    return o.softmax(x)


def norm(o, x):
    return o.gelu(o.layer_norm(x, 0, 1))


def lenet(o, x):
    h = o.pool(o.relu(o.convolution(x, 0, 1)))
    h = o.pool(o.relu(o.convolution(h, 2, 3)))
    h = o.relu(o.linear(o.flatten(h), 4, 5))
    return o.linear(o.relu(o.linear(h, 6, 7)), 8, 9)


def resnet(o, x):
    def normed(h, k, stride, pad):
        return o.batch_norm(o.convolution(h, 5 * k, None, stride, pad), 5 * k + 1)

    h = o.relu(normed(x, 0, 1, 1))
    for first, stride in ((1, 1), (3, 1), (5, 2)):
        y = normed(o.relu(normed(h, first, stride, 1)), first + 1, 1, 1)
        h = o.relu(y + (h if stride == 1 else normed(h, 7, stride, 0)))
    return h


def ten(o, x):
    y = o.relu((x + x) * 2 - x)
    y = -(y / (x * x + 1)) + 1
    return o.relu(y * x)


FUNCTIONS = {f.__name__: f for f in (normalise, gelu, softmax, norm, lenet, resnet)}
FUNCTIONS.update({
    "eager_softmax": lambda o, x: o.softmax(x),
    "eager_layer_norm": lambda o, x: o.layer_norm(x, 0, 1),
    "eager_gelu": lambda o, x: o.gelu(x),
    "eager_sigmoid": lambda o, x: o.sigmoid(x),
    "eager_exp": lambda o, x: o.exp(x),
    "eager_transpose": lambda o, x: o.transpose(x),
    "eager_batch_norm": lambda o, x: o.batch_norm(x, 0),
    "eager_pool": lambda o, x: o.pool(x),
    "eager_dense": lambda o, x: o.linear(x, 0, 1),
    "eager_add": lambda o, x: x + x,
    "eager_chain": ten,
})  # fmt: skip
_BY_ROW = ("normalise", "softmax", "norm")  # whose rows stand for themselves
_SMALLER = {"lenet": (10,), "resnet": (64, 32, 32)}  # results of one sample that are not of the input's shape


def bytes_moved(workload, size):
    """Bytes of input, parameters and result: what any program has to read and write."""
    x, parameters = data(workload, size)
    result = 4 * size * int(np.prod(_SMALLER[workload])) if workload in _SMALLER else x.nbytes
    result = {"eager_pool": x.nbytes // 4, "eager_dense": 4 * 16 * 256}.get(workload, result)
    return x.nbytes + sum(p.nbytes for p in parameters) + result


def mlp_data(batch):
    """(input, [(weight, bias) of each layer]) in float32, the same in every library."""
    rng = np.random.RandomState(0)
    layers = []
    for fan_in, units in zip(LAYERS, LAYERS[1:]):  # noqa: RUF007 (Python 3.8)
        weight = (rng.standard_normal((units, fan_in)) * fan_in**-0.5).astype(np.float32)
        layers.append((weight, (rng.standard_normal(units) * 0.1).astype(np.float32)))
    return rng.standard_normal((batch, LAYERS[0])).astype(np.float32), layers


def chain_data(size):
    """The input of the chain."""
    drawn = np.random.RandomState(0).standard_normal(min(size, DRAWN)).astype(np.float32)
    return np.resize(drawn, size)


def mlp_of(xp, x, layers):
    """The perceptron in NumPy's words."""
    for k, (weight, bias) in enumerate(layers):
        x = x @ weight.T + bias
        if k < len(layers) - 1:
            x = xp.maximum(x, 0)
    return x


def chain_of(xp, x):
    """The chain in NumPy's words."""
    return xp.tanh(A * x + B) * (1 / (1 + xp.exp(-x))) + 0.5 * xp.maximum(x - C, 0) - xp.exp(-x * x)


def parts(count, each):
    """Slices of ``count`` rows of ``each`` elements, which are enough to compare: all of them, or four parts."""
    if count * each <= CHECKED:
        return [slice(0, count)]
    rows = max(1, CHECKED // 4 // each)
    return [slice(k * (count - rows) // 3, k * (count - rows) // 3 + rows) for k in range(4)]


def exact(workload, size):
    """(slice of the first axis, what the result is there in float64, by NumPy) for the parts that are compared."""
    x, parameters = data(workload, size)
    erf = np.vectorize(math.erf, otypes=[np.float64])
    operators = ArrayOperators([p.astype(np.float64) for p in parameters], np, erf)
    chosen = parts(len(x), x[0].size) if workload in _BY_ROW else [slice(0, len(x))]
    return [(rows, FUNCTIONS[workload](operators, x[rows].astype(np.float64))) for rows in chosen]
