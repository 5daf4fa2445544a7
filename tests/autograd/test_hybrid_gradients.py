# SPDX-License-Identifier: Apache-2.0
"""Hybridized blocks under ``record``: their backward is a program too, and equals the eager tape."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import autograd, gluon, nd
from hybridgpu.compiler.ir.parse import parse_graph
from hybridgpu.compiler.primitives import TABLE
from hybridgpu.gluon import nn


def mlp(dropout=0.0):
    net = nn.HybridSequential()
    net.add(nn.Dense(16, activation="tanh"), nn.Dropout(dropout), nn.Dense(3, activation="relu"))
    return net


class TwoHeads(gluon.HybridBlock):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.body, self.a, self.b = nn.Dense(6, activation="sigmoid"), nn.Dense(2), nn.Dense(3)

    def hybrid_forward(self, F, x):
        h = self.body(x)
        return F.softmax(self.a(h)), F.tanh(self.b(h)) * 2


class Residual(gluon.HybridBlock):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.w = self.params.get("w", shape=(4,))

    def hybrid_forward(self, F, x, w):
        y = F.broadcast_mul(x, w)
        mean = F.mean(y, axis=-1, keepdims=True)
        y = F.broadcast_sub(y, mean)
        y = F.broadcast_div(y, F.sqrt(F.mean(F.square(y), axis=-1, keepdims=True) + 1e-5))
        return F.LeakyReLU(y, act_type="gelu") + x


BLOCKS = {
    "mlp": (mlp, (5, 4)),
    "two heads": (TwoHeads, (3, 4)),
    "residual norm": (Residual, (3, 5, 4)),
}


def gradients(net, x, train=True, order=1):
    outs = []
    with autograd.record(train_mode=train):
        out = net(x)
        out = list(out) if isinstance(out, (list, tuple)) else [out]
        loss = sum(((o * o).sum() for o in out[1:]), (out[0] * out[0]).sum())
        if order == 2:
            (g,) = autograd.grad(loss, x, create_graph=True)
            loss = (g * g).sum()
    loss.backward()
    outs += [o.asnumpy() for o in out]
    outs.append(x.grad.asnumpy())
    outs += [p.grad().asnumpy() for p in net.collect_params().values() if p.grad_req != "null"]
    return outs


@pytest.mark.long_table
@pytest.mark.parametrize("context", ["cpu", "gpu"])
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", list(BLOCKS))
def test_hybridized_equals_eager(name, order, context, request):
    if context == "gpu":
        request.getfixturevalue("cuda_driver")
    ctx = mx.gpu(0) if context == "gpu" else mx.cpu()
    make, shape = BLOCKS[name]
    net = make()
    mx.random.seed(3)
    net.initialize(mx.init.Normal(0.5), ctx=ctx)
    x = nd.array(np.random.default_rng(1).normal(size=shape), ctx=ctx)
    x.attach_grad()
    eager = gradients(net, x, order=order)
    net.hybridize()
    for _ in range(2):
        for a, b in zip(eager, gradients(net, x, order=order), strict=True):
            np.testing.assert_allclose(b, a, rtol=2e-4, atol=2e-5)


def test_dropout_draws_the_same_mask_forward_and_backward():
    net = nn.HybridSequential()
    net.add(nn.Dropout(0.5), nn.HybridLambda(lambda F, x: x * 3))
    net.hybridize()
    x = nd.ones((100, 10))
    x.attach_grad()
    seen = []
    for _ in range(2):
        with autograd.record():
            y = net(x)
        y.backward()
        np.testing.assert_array_equal(x.grad.asnumpy(), y.asnumpy())
        assert set(np.unique(y.asnumpy())) == {0.0, 6.0}
        seen.append(y.asnumpy())
    assert (seen[0] != seen[1]).any()


def test_grad_req_add_and_null_of_parameters():
    net = nn.Dense(2, in_units=3)
    net.initialize()
    net.weight.grad_req = "add"
    net.bias.grad_req = "null"
    net.hybridize()
    x = nd.ones((1, 3))
    for k in range(1, 4):
        with autograd.record():
            y = net(x)
        y.backward()
        np.testing.assert_array_equal(net.weight.grad().asnumpy(), np.full((2, 3), k))


def test_outputs_without_a_cotangent_count_as_zero():
    net = TwoHeads()
    net.initialize()
    net.hybridize()
    x = nd.ones((2, 4))
    x.attach_grad()
    with autograd.record():
        a, _ = net(x)
    a.backward()
    for p in net.b.collect_params().values():
        np.testing.assert_array_equal(p.grad().asnumpy(), 0)


def test_nothing_recorded_for_constant_inputs():
    class Double(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return x * 2

    net = Double()
    net.hybridize()
    with autograd.record():
        y = net(nd.ones(3))
    with pytest.raises(mx.MXNetError, match="not in a computational graph"):
        y.backward()


def test_prediction_after_training_uses_new_weights():
    net = nn.Dense(1, in_units=1, use_bias=False)
    net.initialize(mx.init.One())
    net.hybridize(static_alloc=True, static_shape=True)
    x = nd.ones((1, 1))
    assert net(x).asscalar() == 1
    for _ in range(3):
        with autograd.record():
            y = net(x) * 2
        y.backward()
        net.weight.set_data(net.weight.data() - 0.25 * net.weight.grad())
    assert net(x).asscalar() == pytest.approx(-0.5)
    assert net(x).asscalar() == pytest.approx(-0.5)


CASTS = [
    *itertools.product(("float16", "bfloat16", "float64", "int32", "int8", "bool"), ("float32", "float64")),
    ("float16",),
    ("bfloat16",),
    ("float16", "float32", "bfloat16", "float32"),
    ("float64", "float16", "float64", "float32"),
]
MIXED = {"float32", "float16", "bfloat16"}


@pytest.mark.parametrize(
    ("function", "chain"),
    [(f, c) for f in ("Cast", "amp_cast", "amp_multicast") for c in CASTS if f == "Cast" or MIXED.issuperset(c)],
    ids=lambda v: v if isinstance(v, str) else "-".join(v),
)
def test_casts_round_their_gradients(function, chain):
    """A cast that the program asks for gives eager's bits, forward and back."""

    def chained(F, x, w):
        y = x * w
        for dtype in (*chain, "float32"):
            y = F.cast(y, dtype) if function == "Cast" else F.amp_cast(y, dtype=dtype)
            if function == "amp_multicast":
                y, _ = F.amp_multicast(y, F.zeros_like(x), num_outputs=2)
        return y * w

    values = np.random.default_rng(5).uniform(-9, 9, (3, 3, 37)).astype(np.float32)
    x, w, head = map(nd.array, values)
    results = []
    for hybridized in (False, True):
        net = nn.HybridLambda(chained)
        net.hybridize(hybridized)
        x.attach_grad(), w.attach_grad()
        with autograd.record():
            y = net(x, w)
        y.backward(head)
        results.append([a.asnumpy() for a in (y, x.grad, w.grad)])
    for eager, compiled in zip(*results, strict=True):
        np.testing.assert_array_equal(compiled, eager)


# heads and gradients that are no float32, and those that do not fit


WHOLE = {
    "cast": (lambda F, x: F.cast(x, "int32") * 2, "float32", [2, 2, 2]),
    "bool": (lambda F, x: F.cast(x, "bool"), "float32", [1, 1, 1]),
    "beside a float": (lambda F, x: [F.cast(x, "int32") * 2, x * 3], "float32", [5, 5, 5]),
    "an integer argument": (lambda F, x: x * 3, "int64", [3, 3, 3]),
    "an index": (lambda F, x: F.argsort(x, dtype="int32"), "float32", [0, 0, 0]),
}


@pytest.mark.parametrize("hybridized", [False, True])
@pytest.mark.parametrize("name", WHOLE)
def test_heads_of_integers_have_gradients(name, hybridized):
    function, dtype, expected = WHOLE[name]
    net = nn.HybridLambda(function)
    net.hybridize(hybridized)
    x = nd.array([1, 2, 3], dtype=dtype)
    x.attach_grad()
    with autograd.record():
        y = net(x)
    autograd.backward(y)
    np.testing.assert_array_equal(x.grad.asnumpy(), expected)


HEADS = [
    (nd.ones(3, dtype="float64"), "Expected: float32 v.s. given float64"),
    (nd.ones(3, dtype="float16"), "Expected: float32 v.s. given float16"),  # shorter than what compiled code reads
    (nd.ones(3, dtype="int32"), "Expected: float32 v.s. given int32"),
    (nd.ones(2), r"a head gradient has shape \(2,\), its head \(3,\)"),
    (nd.ones((3, 3)), r"a head gradient has shape \(3, 3\), its head \(3,\)"),
]


@pytest.mark.parametrize("hybridized", [False, True])
@pytest.mark.parametrize(("head", "text"), HEADS, ids=[t for _, t in HEADS])
def test_head_gradients_that_do_not_fit_are_refused(head, text, hybridized):
    net = nn.HybridLambda(lambda F, x: x * x)
    net.hybridize(hybridized)
    x = nd.array([1.0, 2.0, 3.0])
    x.attach_grad()
    with autograd.record():
        y = net(x)
    with pytest.raises(mx.MXNetError, match=text):
        y.backward(head)
    np.testing.assert_array_equal(x.grad.asnumpy(), 0)
    y.backward(nd.array([[1.0], [1.0], [2.0]]))  # the tape is whole, and other shapes of the same size do
    np.testing.assert_array_equal(x.grad.asnumpy(), [2, 4, 12])


class Returns(autograd.Function):
    """Twice its argument, with a gradient that is given."""

    def __init__(self, gradient):
        super().__init__()
        self.gradient = gradient

    def forward(self, x):
        return x * 2

    def backward(self, dy):
        return self.gradient


@pytest.mark.parametrize("hybridized", [False, True])
@pytest.mark.parametrize(
    ("gradient", "expected"),
    [
        (nd.array([3.0, 4.0, 5.0], dtype="float64"), [6, 16, 30]),
        (nd.array([3, 4, 5], dtype="int8"), [6, 16, 30]),
        (nd.array([7.0]), [14, 28, 42]),
        (nd.ones(2), None),
    ],
    ids=["double", "int8", "one element", "another shape"],
)
def test_gradients_of_functions_take_the_type_of_the_argument(gradient, expected, hybridized):
    net = nn.HybridLambda(lambda F, x: x * x)
    net.hybridize(hybridized)
    x = nd.array([1.0, 2.0, 3.0])
    x.attach_grad()
    with autograd.record():
        y = Returns(gradient)(net(x))
    if expected is None:
        with pytest.raises(ValueError, match="could not be broadcast"):
            y.backward()
    else:
        y.backward()
        np.testing.assert_array_equal(x.grad.asnumpy(), expected)


def _root_mean_square(F, x):
    return F.broadcast_div(x, F.sqrt(F.mean(F.square(x), axis=-1, keepdims=True)))


@pytest.mark.parametrize("dtype, bound", [("float16", 3e-3), ("bfloat16", 3e-2)])
@pytest.mark.parametrize("scale", [1, 10, 40])  # at 40 the sums are beyond what float16 holds
@pytest.mark.parametrize(
    "function",
    [
        _root_mean_square,
        lambda F, x: F.broadcast_div(x, F.norm(x, axis=1, keepdims=True)),
        lambda F, x: F.square(F.mean(x * x, axis=0)),
        lambda F, x: F.L2Normalization(x),
        lambda F, x: F.log(F.mean(F.square(x), axis=1)),
    ],
    ids=["root_mean_square", "norm", "mean_of_columns", "L2Normalization", "log"],
)
def test_sums_beyond_halves_are_not_kept_as_halves(function, scale, dtype, bound):
    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return function(F, x)

    random = np.random.default_rng(1)
    values = scale * random.uniform(0.5, 1.5, (33, 257))

    def gradient(dtype):
        net = Net()
        net.hybridize()
        x = mx.nd.array(values, dtype="float64").astype(dtype)
        x.attach_grad()
        with mx.autograd.record():
            y = net(x)
        heads = np.random.default_rng(2).uniform(-1, 1, y.shape)
        y.backward(mx.nd.array(heads, dtype="float64").astype(dtype))
        return x.grad.astype("float64").asnumpy()

    want = gradient("float64")
    np.testing.assert_allclose(gradient(dtype), want, atol=bound * abs(want).max())


LOGITS = {  # function of x (129, 40), w (1, 40) and, for products, the unit matrix
    "of arguments": lambda F, x, w: F.broadcast_add(x, w),
    "looked up": lambda F, x, w: F.broadcast_add(F.take(x, F.arange(129)), w),
    "of a product": lambda F, x, w, unit: F.broadcast_add(F.dot(x, unit), w),
    "turned": lambda F, x, w, unit: F.transpose(F.broadcast_add(F.dot(x, unit), w)),
    "of sums along rows": lambda F, x, w: F.broadcast_add(F.cumsum(x * 0.02, axis=1), w),
}


@pytest.mark.parametrize("dtype, bound", [("float16", 2e-3), ("bfloat16", 1e-2)])
@pytest.mark.parametrize("name", LOGITS)
def test_a_softmax_beside_its_logits(name, dtype, bound):
    """At 60 neighbours are a 32nd apart as float16, and logits are rounded behind the softmax: of the sum of
    exponentials, exponentials of others are no parts. Logits of arguments are computed again; of those that are kept
    as they were rounded, sums are taken again, which is as good as logits that are rounded first."""
    axis = 0 if name == "turned" else 1
    bound *= 1 if name == "of arguments" else 10

    def both(F, *arrays):
        z = LOGITS[name](F, *arrays)
        return [z, F.softmax(z, axis=axis) * 40]

    net = nn.HybridLambda(both)
    values, shifts = (
        np.random.default_rng(1).uniform(20, 60, (129, 40)),
        np.random.default_rng(2).uniform(0, 1, (1, 40)),
    )
    heads = np.random.default_rng(3).uniform(0.5, 1, (129, 40))
    heads = heads.T if name == "turned" else heads

    def gradient(computed, hybridized):
        net.hybridize(hybridized)
        given = (heads, values, shifts, *([np.eye(40)] if name in ("of a product", "turned") else []))
        head, x, w, *unit = (nd.array(a, dtype="float64").astype(dtype).astype(computed) for a in given)
        w.attach_grad()
        with autograd.record():
            y = net(x, w, *unit)
        autograd.backward(y, [nd.zeros_like(y[0]), head])
        return w.grad.astype("float64").asnumpy()

    want = gradient("float64", False)
    np.testing.assert_allclose(gradient(dtype, True), want, atol=bound * abs(want).max())


OPERANDS = {  # function of a (5, 7) and b (7, 3) that computes their product, and shapes of the matrices that it takes
    "plain": (lambda F, a, b: F.dot(a, b), (5, 7), (7, 3)),
    "the left transposed": (lambda F, a, b: F.dot(a, b, transpose_a=True), (7, 5), (7, 3)),
    "the right transposed": (lambda F, a, b: F.dot(a, b, transpose_b=True), (5, 7), (3, 7)),
    "both transposed": (lambda F, a, b: F.dot(a, b, transpose_a=True, transpose_b=True), (7, 5), (3, 7)),
    "batches": (lambda F, a, b: F.batch_dot(a, b, transpose_a=True, transpose_b=True), (2, 7, 5), (2, 3, 7)),
    "a layer": (lambda F, a, b: F.FullyConnected(a, b, num_hidden=3, no_bias=True), (5, 7), (3, 7)),
}


@pytest.mark.parametrize("name", OPERANDS)
def test_products_write_gradients_in_the_order_of_their_matrices(name):
    """Across it, each value went to a cache line of its own: 40 times as long for the weight of a layer."""
    function, *shapes = OPERANDS[name]
    net = gluon.nn.HybridLambda(lambda F, a, b: function(F, a, b))
    a, b = (nd.array(np.random.default_rng(k).normal(size=s)) for k, s in enumerate(shapes))
    want = []
    for hybrid in (False, True):
        net.hybridize(hybrid)
        a.attach_grad()
        b.attach_grad()
        with autograd.record():
            y = net(a, b)
        y.backward()
        want.append((a.grad.asnumpy(), b.grad.asnumpy()))
    (trained,) = [e.program for e in net._cached_op.entries.values()]
    graph = parse_graph(trained.backward.described.graph, TABLE)
    assert [o.prim.name for o in graph.outputs] == ["dot", "dot"]
    for eager, hybridized in zip(*want, strict=True):
        np.testing.assert_allclose(hybridized, eager, 1e-5, 1e-5)
