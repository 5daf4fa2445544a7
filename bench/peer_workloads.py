# SPDX-License-Identifier: Apache-2.0
"""What bench/peer_worker.py measures beside the perceptron and the chain: one definition for all libraries.

A workload is a function of ``o`` and ``x``, where ``o`` has the operators of a library under common names (the
classes below) and takes parameters by number. Python 3.8 and NumPy are enough; libraries are handed in.
"""

from __future__ import annotations

import math
import os

import numpy as np

EPSILON = 1e-5
ELEMENTS = int(os.environ.get("PEER_ELEMENTS", "4194304"))  # of rows, together; bench/peers.py --elements
DRAWN = 1 << 22  # numbers that are drawn; larger inputs repeat them
CHECKED = 1 << 22  # elements that are compared with NumPy's: of larger results four parts
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


def parts(count, each):
    """Slices of ``count`` rows of ``each`` elements, which are enough to compare: all of them, or four parts."""
    if count * each <= CHECKED:
        return [slice(0, count)]
    rows = max(1, CHECKED // 4 // each)
    return [slice(k * (count - rows) // 3, k * (count - rows) // 3 + rows) for k in range(4)]


class Parameters:
    """The parameters by number, and what follows from their shapes."""

    def __init__(self, parameters, shapes=None):
        self.parameters = parameters
        self.shapes = shapes or [p.shape for p in parameters]

    def parameter(self, k):
        return self.parameters[k]

    def add(self, x, k):
        return x + self.parameter(k)

    def subtract(self, x, k):
        return x - self.parameter(k)

    def multiply(self, x, k):
        return x * self.parameter(k)


class ArrayOperators(Parameters):
    """NumPy, or CuPy; an error function is handed in."""

    def __init__(self, parameters, xp, erf):
        Parameters.__init__(self, parameters)
        self.xp, self.erf = xp, erf

    def sigmoid(self, x):
        return 1 / (1 + self.xp.exp(-x))

    def exp(self, x):
        return self.xp.exp(x)

    def transpose(self, x):
        return self.xp.ascontiguousarray(x.T)

    def relu(self, x):
        return self.xp.maximum(x, 0)

    def gelu(self, x):
        return 0.5 * x * (1 + self.erf(x * 0.5**0.5))

    def softmax(self, x):
        y = self.xp.exp(x - x.max(axis=-1, keepdims=True))
        return y / y.sum(axis=-1, keepdims=True)

    def layer_norm(self, x, gamma, beta):
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = (centred * centred).mean(axis=-1, keepdims=True)
        return centred / self.xp.sqrt(variance + EPSILON) * self.parameter(gamma) + self.parameter(beta)

    def convolution(self, x, weight, bias, stride=1, pad=0):
        w = self.parameter(weight)
        if pad:
            x = self.xp.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
        n, c, rows, columns = x.shape
        shape = (n, c, w.shape[2], w.shape[3], (rows - w.shape[2]) // stride + 1, (columns - w.shape[3]) // stride + 1)
        s = x.strides
        windows = self.xp.lib.stride_tricks.as_strided(x, shape, (*s, s[2] * stride, s[3] * stride))
        y = self.xp.moveaxis(self.xp.tensordot(w, windows, ((1, 2, 3), (1, 2, 3))), 0, 1)
        return y if bias is None else y + self.parameter(bias)[:, None, None]

    def batch_norm(self, x, first):
        gamma, beta, mean, variance = (self.parameter(first + k)[:, None, None] for k in range(4))
        return (x - mean) / self.xp.sqrt(variance + EPSILON) * gamma + beta

    def pool(self, x):
        n, c, rows, columns = x.shape
        x = x[:, :, : rows // 2 * 2, : columns // 2 * 2].reshape(n, c, rows // 2, 2, columns // 2, 2)
        return x.max(axis=(3, 5))

    def flatten(self, x):
        return x.reshape(len(x), -1)

    def linear(self, x, weight, bias):
        return x @ self.parameter(weight).T + self.parameter(bias)


class GluonOperators(Parameters):
    """MXNet's operators: F is ``mx.nd`` or ``mx.sym``."""

    def __init__(self, parameters, shapes, F):
        Parameters.__init__(self, parameters, shapes)
        self.F = F

    def add(self, x, k):
        return self.F.broadcast_add(x, self.parameter(k))

    def subtract(self, x, k):
        return self.F.broadcast_sub(x, self.parameter(k))

    def multiply(self, x, k):
        return self.F.broadcast_mul(x, self.parameter(k))

    def sigmoid(self, x):
        return self.F.sigmoid(x)

    def exp(self, x):
        return self.F.exp(x)

    def transpose(self, x):
        return self.F.transpose(x)

    def relu(self, x):
        return self.F.relu(x)

    def gelu(self, x):
        return self.F.LeakyReLU(x, act_type="gelu")

    def softmax(self, x):
        return self.F.softmax(x)

    def layer_norm(self, x, gamma, beta):
        return self.F.LayerNorm(x, self.parameter(gamma), self.parameter(beta), eps=EPSILON)

    def convolution(self, x, weight, bias, stride=1, pad=0):
        shape = self.shapes[weight]
        arguments = [x, self.parameter(weight)] + ([] if bias is None else [self.parameter(bias)])
        return self.F.Convolution(
            *arguments,
            num_filter=shape[0],
            kernel=shape[2:],
            stride=(stride, stride),
            pad=(pad, pad),
            no_bias=bias is None,
        )

    def batch_norm(self, x, first):
        parameters = [self.parameter(first + k) for k in range(4)]
        return self.F.BatchNorm(x, *parameters, eps=EPSILON, fix_gamma=False, use_global_stats=True)

    def pool(self, x):
        return self.F.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max")

    def flatten(self, x):
        return self.F.Flatten(x)

    def linear(self, x, weight, bias):
        units = self.shapes[weight][0]
        return self.F.FullyConnected(x, self.parameter(weight), self.parameter(bias), num_hidden=units)


class TorchOperators(Parameters):
    """torch.nn.functional."""

    def __init__(self, parameters, torch):
        Parameters.__init__(self, parameters)
        self.torch, self.functional = torch, torch.nn.functional

    def sigmoid(self, x):
        return self.torch.sigmoid(x)

    def exp(self, x):
        return self.torch.exp(x)

    def transpose(self, x):
        return x.t().contiguous()

    def relu(self, x):
        return self.torch.relu(x)

    def gelu(self, x):
        return self.functional.gelu(x)

    def softmax(self, x):
        return self.torch.softmax(x, -1)

    def layer_norm(self, x, gamma, beta):
        gamma, beta = self.parameter(gamma), self.parameter(beta)
        return self.functional.layer_norm(x, tuple(gamma.shape), gamma, beta, EPSILON)

    def convolution(self, x, weight, bias, stride=1, pad=0):
        b = None if bias is None else self.parameter(bias)
        return self.functional.conv2d(x, self.parameter(weight), b, stride, pad)

    def batch_norm(self, x, first):
        gamma, beta, mean, variance = (self.parameter(first + k) for k in range(4))
        return self.functional.batch_norm(x, mean, variance, gamma, beta, False, 0.0, EPSILON)

    def pool(self, x):
        return self.functional.max_pool2d(x, 2)

    def flatten(self, x):
        return x.flatten(1)

    def linear(self, x, weight, bias):
        return self.functional.linear(x, self.parameter(weight), self.parameter(bias))


class JaxOperators(ArrayOperators):
    """jax.numpy, with XLA's own convolution and pooling."""

    def __init__(self, parameters, jax):
        ArrayOperators.__init__(self, parameters, jax.numpy, jax.scipy.special.erf)
        self.jax = jax

    def transpose(self, x):
        return x.T

    def softmax(self, x):
        return self.jax.nn.softmax(x)

    def gelu(self, x):
        return self.jax.nn.gelu(x, approximate=False)

    def convolution(self, x, weight, bias, stride=1, pad=0):
        y = self.jax.lax.conv_general_dilated(
            x, self.parameter(weight), (stride, stride), ((pad, pad), (pad, pad)), precision="highest"
        )
        return y if bias is None else y + self.parameter(bias)[:, None, None]

    def pool(self, x):
        low = -float("inf")
        return self.jax.lax.reduce_window(x, low, self.jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")


class TensorflowOperators(Parameters):
    """TensorFlow's, on pictures whose channels come last, which is what its convolutions take on a CPU."""

    def __init__(self, workload, parameters, tf):
        self.tf = tf
        made = list(parameters)
        for k, p in enumerate(parameters):
            if p.ndim == 4:
                made[k] = p.transpose(2, 3, 1, 0)
            elif workload == "lenet" and p.ndim == 2:
                w = p.reshape(len(p), 16, 5, 5).transpose(0, 2, 3, 1).reshape(len(p), -1) if k == 4 else p
                made[k] = w.T
        Parameters.__init__(self, [tf.Variable(np.ascontiguousarray(p), trainable=False) for p in made])

    def sigmoid(self, x):
        return self.tf.sigmoid(x)

    def exp(self, x):
        return self.tf.exp(x)

    def transpose(self, x):
        return self.tf.transpose(x)

    def relu(self, x):
        return self.tf.nn.relu(x)

    def gelu(self, x):
        return self.tf.nn.gelu(x, approximate=False)

    def softmax(self, x):
        return self.tf.nn.softmax(x)

    def layer_norm(self, x, gamma, beta):
        mean, variance = self.tf.nn.moments(x, [-1], keepdims=True)
        gamma, beta = self.parameter(gamma), self.parameter(beta)
        return self.tf.nn.batch_normalization(x, mean, variance, beta, gamma, EPSILON)

    def convolution(self, x, weight, bias, stride=1, pad=0):
        padding = [[0, 0], [pad, pad], [pad, pad], [0, 0]] if pad else "VALID"
        y = self.tf.nn.conv2d(x, self.parameter(weight), stride, padding)
        return y if bias is None else self.tf.nn.bias_add(y, self.parameter(bias))

    def batch_norm(self, x, first):
        gamma, beta, mean, variance = (self.parameter(first + k) for k in range(4))
        fused = self.tf.compat.v1.nn.fused_batch_norm
        return fused(x, gamma, beta, mean, variance, epsilon=EPSILON, is_training=False)[0]

    def pool(self, x):
        return self.tf.nn.max_pool2d(x, 2, 2, "VALID")

    def flatten(self, x):
        return self.tf.reshape(x, (x.shape[0], -1))

    def linear(self, x, weight, bias):
        return self.tf.linalg.matmul(x, self.parameter(weight)) + self.parameter(bias)


def exact(workload, size):
    """(slice of the first axis, what the result is there in float64, by NumPy) for the parts that are compared."""
    x, parameters = data(workload, size)
    erf = np.vectorize(math.erf, otypes=[np.float64])
    operators = ArrayOperators([p.astype(np.float64) for p in parameters], np, erf)
    chosen = parts(len(x), x[0].size) if workload in _BY_ROW else [slice(0, len(x))]
    return [(rows, FUNCTIONS[workload](operators, x[rows].astype(np.float64))) for rows in chosen]
