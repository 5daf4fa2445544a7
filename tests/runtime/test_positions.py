# SPDX-License-Identifier: Apache-2.0
"""Strict numbers: an example has the same bits in every batch, wherever it stands in it and in memory, as docs/numbers.md
says, up to the products that it says a library computes."""

from __future__ import annotations

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import gluon, nd
from hybridgpu.gluon import nn, rnn

pytestmark = [pytest.mark.optimised, pytest.mark.usefixtures("compiler")]

SIZES = (1, 2, 3, 4, 5, 8, 15, 16, 17, 31, 33, 55)


class Recurrent(gluon.HybridBlock):
    """Examples first."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def hybrid_forward(self, F, x):
        return self.layer(x.transpose((1, 0, 2))).transpose((1, 0, 2))


def elementwise(F, x):
    return F.exp(x) * F.tanh(x) + F.erf(x) - F.sigmoid(x) * F.log(F.abs(x) + 1) + F.sin(x)


#: what makes the net, the shape of an example, element types
NETS = {
    "elements": (lambda: nn.HybridLambda(elementwise), (37,), ["float32", "bfloat16"]),
    "softmax": (lambda: nn.HybridLambda(lambda F, x: F.softmax(x)), (37,), ["float32", "float16"]),
    "LayerNorm": (nn.LayerNorm, (130,), ["float32", "bfloat16", "float64"]),
    "Dense": (lambda: nn.Dense(1000, activation="relu"), (300,), ["float32"]),
    "Dense of few units": (lambda: nn.Dense(3), (64,), ["float32", "float16", "bfloat16", "float64"]),
    "Conv2D": (lambda: nn.Conv2D(16, 3, padding=1, activation="relu"), (3, 11, 11), ["float32", "float16"]),
    "LSTM": (lambda: Recurrent(rnn.LSTM(9, input_size=5)), (4, 5), ["float32"]),
}


class Attention(gluon.HybridBlock):
    """Four heads."""

    def __init__(self, size):
        super().__init__()
        self.inputs = nn.Dense(3 * size, flatten=False, in_units=size)

    def hybrid_forward(self, F, x):
        def heads(t):
            return F.reshape(F.transpose(F.reshape(t, (0, 0, 4, -1)), (0, 2, 1, 3)), (-3, 0, 0))

        q, k, v = (heads(t) for t in F.split(self.inputs(x), num_outputs=3, axis=2))
        y = F.batch_dot(F.softmax(F.batch_dot(q, k, transpose_b=True)), v)
        return F.reshape(F.transpose(F.reshape(y, (-4, -1, 4, 0, 0)), (0, 2, 1, 3)), (0, 0, -3))


@pytest.mark.filterwarnings("ignore:.*keeps changing")
def test_a_sentence_has_the_same_bits_in_every_batch_of_several():
    net, rng = Attention(32), np.random.default_rng(2)
    net.initialize(mx.init.Normal(0.3))
    net.hybridize()
    row = rng.normal(size=(13, 32))
    found = set()
    for n in (2, 3, 5, 8, 17):
        for at in (0, n - 1):
            batch = rng.normal(size=(n, 13, 32))
            batch[at] = row
            found.add(net(nd.array(batch))[at].asnumpy().tobytes())
    assert len(found) == 1


@pytest.mark.filterwarnings("ignore:.*keeps changing")
@pytest.mark.parametrize(("name", "dtype"), [(n, d) for n, (_, _, dtypes) in NETS.items() for d in dtypes])
def test_an_example_has_the_same_bits_in_every_batch(name, dtype):
    make, shape, _ = NETS[name]
    net, rng = make(), np.random.default_rng(1)
    net.initialize(mx.init.Normal(0.3))
    net(nd.zeros((1, *shape)))
    net.cast(dtype)
    net.hybridize()
    row = rng.normal(size=shape)
    want = None
    for n in SIZES:
        for at in {0, n // 2, n - 1}:
            batch = rng.normal(size=(n + 1, *shape))
            batch[at] = batch[at + 1] = row
            for begin in (0, 1):  # of the memory: 1 is off alignment
                found = net(nd.array(batch, dtype=dtype)[begin : begin + n])[at].asnumpy().tobytes()
                want = found if want is None else want
                assert found == want, (n, at, begin)


ON_GPU = {**NETS, "Dense": (lambda: nn.Dense(200, activation="relu"), (300,), ["float32"])}  # larger ones are cuBLAS's
#: whose gradients have other bits for a batch of one on a GPU, where nothing is added over the batch beside the rows
ALONE = {("LayerNorm", "float32"), ("LayerNorm", "float64")}


@pytest.mark.filterwarnings("ignore:.*keeps changing")
@pytest.mark.parametrize(("name", "dtype"), [(n, d) for n, (_, _, dtypes) in ON_GPU.items() for d in dtypes])
def test_an_example_has_the_same_bits_in_every_batch_on_a_gpu(cuda_driver, name, dtype):
    make, shape, _ = ON_GPU[name]
    net, rng, gpu = make(), np.random.default_rng(1), mx.gpu(0)
    net.initialize(mx.init.Normal(0.3), ctx=gpu)
    net.hybridize()
    net(nd.zeros((1, *shape), ctx=gpu))
    net.cast(dtype)
    row = rng.normal(size=shape)
    results, gradients = {}, {}
    for n in (1, 2, 5, 17):
        for at in {0, n - 1}:
            batch = rng.normal(size=(n + 1, *shape))
            batch[at] = batch[at + 1] = row
            for begin in (0, 1):
                x = nd.array(batch, dtype=dtype, ctx=gpu)[begin : begin + n]
                results.setdefault(net(x)[at].asnumpy().tobytes(), []).append((n, at, begin))
            x.attach_grad()
            with mx.autograd.record():
                y = net(x)
            y.backward(y.detach())
            gradients.setdefault(x.grad[at].asnumpy().tobytes(), []).append((n, at))
    assert len(results) == 1, results
    assert sorted(gradients.values(), key=len)[:-1] == ([[(1, 0)]] if (name, dtype) in ALONE else []), gradients


@pytest.mark.filterwarnings("ignore:.*keeps changing")
def test_a_sentence_has_the_same_bits_in_every_batch_on_a_gpu(cuda_driver):
    net, rng, gpu = Attention(32), np.random.default_rng(2), mx.gpu(0)
    net.initialize(mx.init.Normal(0.3), ctx=gpu)
    net.hybridize()
    row = rng.normal(size=(13, 32))
    found = set()
    for n in (1, 2, 5, 17):
        for at in (0, n - 1):
            batch = rng.normal(size=(n, 13, 32))
            batch[at] = row
            found.add(net(nd.array(batch, ctx=gpu))[at].asnumpy().tobytes())
    assert len(found) == 1


@pytest.mark.parametrize(
    ("dtype", "inside", "outside", "words"), [("float32", 55, 56, "in blocks"), ("float16", 4, 5, "library ")]
)
def test_which_products_are_large(dtype, inside, outside, words):
    """More than 2^24 multiplications, of halves, which are a library's, more than 2^19, of more than four rows."""
    net = nn.Dense(1000, in_units=300)
    net.initialize()
    net.cast(dtype)
    net.hybridize()
    for rows, large in ((inside, False), (outside, True)):
        lines = str(net.explain(nd.zeros((rows, 300), dtype=dtype))).splitlines()[1:]
        assert any(words in line for line in lines) is large


@pytest.mark.parametrize(("units", "of_library"), [(1000, {5, 17}), (200, set())])
def test_which_products_are_a_library_s_on_a_gpu(cuda_driver, units, of_library):
    net = nn.Dense(units, in_units=300)
    net.initialize(ctx=mx.gpu(0))
    net.hybridize()
    for rows in (1, 2, 5, 17):
        kinds = [line.split()[0] for line in str(net.explain(nd.zeros((rows, 300), ctx=mx.gpu(0)))).splitlines()]
        assert ("library" in kinds) is (rows in of_library), rows
