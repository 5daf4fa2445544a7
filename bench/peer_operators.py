# SPDX-License-Identifier: Apache-2.0
"""The operators of each library under common names, for bench/peer_workloads.py and bench/peer_networks.py.

Parameters are taken by number. Python 3.8 and NumPy are enough; libraries are handed in.
"""

from __future__ import annotations

import numpy as np

EPSILON = 1e-5


class Parameters:
    """The parameters by number, and what follows from their shapes."""

    training = False  #: whether BatchNorm takes the batch's statistics, and keeps them

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

    def convolution(self, x, weight, bias, stride=1, pad=0, groups=1):
        w = self.parameter(weight)
        if pad:
            x = self.xp.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
        n, c, rows, columns = x.shape
        shape = (n, c, w.shape[2], w.shape[3], (rows - w.shape[2]) // stride + 1, (columns - w.shape[3]) // stride + 1)
        s = x.strides
        windows = self.xp.lib.stride_tricks.as_strided(x, shape, (*s, s[2] * stride, s[3] * stride))
        if groups == 1:
            y = self.xp.moveaxis(self.xp.tensordot(w, windows, ((1, 2, 3), (1, 2, 3))), 0, 1)
        else:
            windows = windows.reshape(n, groups, c // groups, *shape[2:])
            w = w.reshape(groups, len(w) // groups, *w.shape[1:])
            y = self.xp.einsum("ngcijrs,gocij->ngors", windows, w).reshape(n, -1, *shape[4:])
        return y if bias is None else y + self.parameter(bias)[:, None, None]

    def batch_norm(self, x, first):
        gamma, beta, mean, variance = (self.parameter(first + k)[:, None, None] for k in range(4))
        if self.training:
            mean, variance = x.mean((0, 2, 3))[:, None, None], x.var((0, 2, 3))[:, None, None]
            self.keep(first, mean.ravel(), variance.ravel())
        return (x - mean) / self.xp.sqrt(variance + EPSILON) * gamma + beta

    def keep(self, first, mean, variance):
        """Called with the statistics of a batch; nothing reads those of NumPy's."""

    def _windows(self, x, kernel, stride, pad, outside):
        x = self.xp.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)), constant_values=outside)
        found = self.xp.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), (2, 3))
        return found[:, :, ::stride, ::stride]

    def max_pool(self, x, kernel, stride, pad=0):
        return self._windows(x, kernel, stride, pad, -float("inf")).max((4, 5))

    def average_pool(self, x, kernel, stride):
        return self._windows(x, kernel, stride, 0, 0).mean((4, 5))

    def relu6(self, x):
        return self.xp.clip(x, 0, 6)

    def spatial_mean(self, x):
        return x.mean((2, 3))

    def dense(self, x, weight, bias):
        return self.linear(x, weight, bias)

    def concat(self, parts):
        return self.xp.concatenate(parts, 1)

    def embedding(self, x, weight):
        return self.parameter(weight)[x.astype("int32")]

    def reshape(self, x, shape):
        return x.reshape(shape)

    def permute(self, x, axes):
        return x.transpose(axes)

    def matmul(self, a, b, transposed=False):
        return a @ (self.xp.swapaxes(b, 1, 2) if transposed else b)

    def first_of(self, x, axis):
        return self.xp.take(x, 0, axis)

    def lstm(self, x, first, layers):
        for k in range(first, first + 4 * layers, 4):
            of_input, of_state, *biases = (self.parameter(k + j) for j in range(4))
            given = x @ of_input.T + biases[0] + biases[1]
            state = cell = self.xp.zeros((x.shape[1], of_state.shape[1]), x.dtype)
            x = self.scanned(given, state, cell, of_state)
        return x

    def scanned(self, given, state, cell, weight):
        """The states of an LSTM, of what its input gives to the gates."""
        states = []
        for row in given:
            state, cell = self.gates(row + state @ weight.T, cell)
            states.append(state)
        return self.xp.stack(states)

    def gates(self, z, cell):
        """The next state and cell."""
        i, f, g, o = (z[:, k * cell.shape[1] : (k + 1) * cell.shape[1]] for k in range(4))
        cell = self.sigmoid(f) * cell + self.sigmoid(i) * self.xp.tanh(g)
        return self.sigmoid(o) * self.xp.tanh(cell), cell

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

    def convolution(self, x, weight, bias, stride=1, pad=0, groups=1):
        shape = self.shapes[weight]
        arguments = [x, self.parameter(weight)] + ([] if bias is None else [self.parameter(bias)])
        return self.F.Convolution(
            *arguments,
            num_filter=shape[0],
            kernel=shape[2:],
            stride=(stride, stride),
            pad=(pad, pad),
            num_group=groups,
            no_bias=bias is None,
        )

    def batch_norm(self, x, first):
        parameters = [self.parameter(first + k) for k in range(4)]
        return self.F.BatchNorm(x, *parameters, eps=EPSILON, fix_gamma=False, use_global_stats=not self.training)

    def _pooled(self, x, kernel, stride, pad, kind):
        return self.F.Pooling(x, kernel=(kernel, kernel), stride=(stride, stride), pad=(pad, pad), pool_type=kind)

    def max_pool(self, x, kernel, stride, pad=0):
        return self._pooled(x, kernel, stride, pad, "max")

    def average_pool(self, x, kernel, stride):
        return self._pooled(x, kernel, stride, 0, "avg")

    def relu6(self, x):
        return self.F.clip(x, 0, 6)

    def spatial_mean(self, x):
        return self.F.Flatten(self.F.Pooling(x, kernel=(1, 1), global_pool=True, pool_type="avg"))

    def dense(self, x, weight, bias):
        units = self.shapes[weight][0]
        arguments = (x, self.parameter(weight), self.parameter(bias))
        return self.F.FullyConnected(*arguments, num_hidden=units, flatten=False)

    def concat(self, parts):
        return self.F.concat(*parts, dim=1)

    def embedding(self, x, weight):
        words, units = self.shapes[weight]
        return self.F.Embedding(x, self.parameter(weight), input_dim=words, output_dim=units)

    def reshape(self, x, shape):
        return self.F.reshape(x, shape=shape)

    def permute(self, x, axes):
        return self.F.transpose(x, axes=axes)

    def matmul(self, a, b, transposed=False):
        return self.F.batch_dot(a, b, transpose_b=transposed)

    def first_of(self, x, axis):
        return self.F.squeeze(self.F.slice_axis(x, axis=axis, begin=0, end=1), axis=axis)

    def lstm(self, x, first, layers):
        numbers = [first + 4 * k + j for js in ((0, 1), (2, 3)) for k in range(layers) for j in js]
        packed = self.F.concat(*[self.F.reshape(self.parameter(k), shape=(-1,)) for k in numbers], dim=0)
        state = self.F.zeros_like(self.F.slice_axis(x, axis=0, begin=0, end=layers))  # states are as wide as inputs
        units = self.shapes[first + 1][1]
        return self.F.RNN(x, packed, state, state, state_size=units, num_layers=layers, mode="lstm")

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

    def convolution(self, x, weight, bias, stride=1, pad=0, groups=1):
        b = None if bias is None else self.parameter(bias)
        return self.functional.conv2d(x, self.parameter(weight), b, stride, pad, 1, groups)

    def batch_norm(self, x, first):
        gamma, beta, mean, variance = (self.parameter(first + k) for k in range(4))
        return self.functional.batch_norm(x, mean, variance, gamma, beta, self.training, 0.1, EPSILON)

    def pool(self, x):
        return self.functional.max_pool2d(x, 2)

    def max_pool(self, x, kernel, stride, pad=0):
        return self.functional.max_pool2d(x, kernel, stride, pad)

    def average_pool(self, x, kernel, stride):
        return self.functional.avg_pool2d(x, kernel, stride)

    def relu6(self, x):
        return self.functional.relu6(x)

    def spatial_mean(self, x):
        return self.functional.adaptive_avg_pool2d(x, 1).flatten(1)

    def dense(self, x, weight, bias):
        return self.linear(x, weight, bias)

    def concat(self, parts):
        return self.torch.cat(parts, 1)

    def embedding(self, x, weight):
        return self.functional.embedding(x, self.parameter(weight))

    def reshape(self, x, shape):
        return x.reshape(shape)

    def permute(self, x, axes):
        return x.permute(axes)

    def matmul(self, a, b, transposed=False):
        return a @ (b.transpose(1, 2) if transposed else b)

    def first_of(self, x, axis):
        return x.select(axis, 0)

    def lstm(self, x, first, layers):
        weights = [self.parameter(first + k) for k in range(4 * layers)]
        state = x.new_zeros((layers, x.shape[1], weights[1].shape[1]))
        return self.torch.lstm(x, (state, state), weights, True, layers, 0.0, self.training, False, False)[0]

    def flatten(self, x):
        return x.flatten(1)

    def linear(self, x, weight, bias):
        return self.functional.linear(x, self.parameter(weight), self.parameter(bias))


class JaxOperators(ArrayOperators):
    """jax.numpy, with XLA's own convolution and pooling."""

    def __init__(self, parameters, jax):
        ArrayOperators.__init__(self, parameters, jax.numpy, jax.scipy.special.erf)
        self.jax = jax
        self.kept = {}  #: number of a parameter -> its next value

    def transpose(self, x):
        return x.T

    def softmax(self, x):
        return self.jax.nn.softmax(x)

    def gelu(self, x):
        return self.jax.nn.gelu(x, approximate=False)

    def convolution(self, x, weight, bias, stride=1, pad=0, groups=1):
        y = self.jax.lax.conv_general_dilated(
            x,
            self.parameter(weight),
            (stride, stride),
            ((pad, pad), (pad, pad)),
            feature_group_count=groups,
            precision="highest",
        )
        return y if bias is None else y + self.parameter(bias)[:, None, None]

    def pool(self, x):
        low = -float("inf")
        return self.jax.lax.reduce_window(x, low, self.jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")

    def _reduced(self, x, of_nothing, function, kernel, stride, pad):
        around = ((0, 0), (0, 0), (pad, pad), (pad, pad))
        return self.jax.lax.reduce_window(
            x, of_nothing, function, (1, 1, kernel, kernel), (1, 1, stride, stride), around
        )

    def max_pool(self, x, kernel, stride, pad=0):
        return self._reduced(x, -float("inf"), self.jax.lax.max, kernel, stride, pad)

    def average_pool(self, x, kernel, stride):
        return self._reduced(x, 0.0, self.jax.lax.add, kernel, stride, 0) / (kernel * kernel)

    def keep(self, first, mean, variance):
        for k, new in ((first + 2, mean), (first + 3, variance)):
            self.kept[k] = 0.9 * self.parameter(k) + 0.1 * new

    def scanned(self, given, state, cell, weight):
        def one(carried, row):
            after = self.gates(row + carried[0] @ weight.T, carried[1])
            return after, after[0]

        return self.jax.lax.scan(one, (state, cell), given)[1]


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
