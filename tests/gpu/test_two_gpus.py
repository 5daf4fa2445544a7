# SPDX-License-Identifier: Apache-2.0
"""Two GPUs: everything on gpu(1) happens with device 1 as the current one, whatever it was before.

Emulated arrays and drivers check it wherever memory is taken, an array is written, or a kernel started. With ``-m gpu``
the same runs on two real GPUs, where there are two.
"""

from __future__ import annotations

import emulated
import numpy as np
import pytest
from emulated import THREAD
from gpu.test_arrays import CREATED, EXPRESSIONS, X

import hybridgpu as mx
from hybridgpu import autograd, gluon, nd
from hybridgpu.backends import devices
from hybridgpu.backends.devices import device_of
from hybridgpu.gluon import nn

ONE, TWO = mx.gpu(0), mx.gpu(1)
FLAGS = {
    "fresh": {},
    "kept": {"static_alloc": True},
    "graph": {"static_alloc": True, "static_shape": True},
}


@pytest.fixture(autouse=True, params=["emulated", pytest.param("real", marks=pytest.mark.gpu)])
def real(request):
    """Whether the GPUs are real."""
    held = devices._gpu_factory
    if request.param == "real":
        devices.use_gpu_devices(None)
        if mx.num_gpus() < 2:
            pytest.skip(f"this needs two GPUs; there are {mx.num_gpus()}")
    else:
        emulated.install(2)
        for driver in emulated.drivers():
            driver.forget()
    yield request.param == "real"
    assert request.param == "real" or THREAD.device == 0, "the current device was not restored"
    devices.use_gpu_devices(held)


def net_on(ctx):
    net = nn.HybridSequential()
    net.add(nn.Dense(6, activation="relu", in_units=4), nn.Dense(5, in_units=6), nn.HybridLambda("softmax"))
    net.initialize(mx.init.One(), ctx=ctx)
    return net


@pytest.mark.parametrize("real", ["emulated"], indirect=True)
def test_the_emulation_notices_a_wrong_device():
    x = nd.array(X, ctx=TWO)
    with pytest.raises(AssertionError, match=r"device 0 is current where gpu\(1\) is used"):
        x._data + 1
    with pytest.raises(AssertionError, match="device 0 is current"):
        device_of(TWO).xp.empty((3,), np.float32)
    with pytest.raises(AssertionError, match="device 0 is current"):
        x._data[0] = 1
    with device_of(TWO).current(), pytest.raises(AssertionError, match=r"operands of gpu\(0\) and gpu\(1\)"):
        x._data + nd.array(X, ctx=ONE)._data


@pytest.mark.parametrize("name", CREATED)
def test_creation(name):
    make, want = CREATED[name]
    y = make(TWO)
    assert y.context == TWO
    np.testing.assert_array_equal(y.asnumpy(), want.astype(np.float32))


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_expression(name):
    ours, numpy = EXPRESSIONS[name]
    y = ours(nd.array(X, ctx=TWO))
    assert y.context == TWO
    np.testing.assert_allclose(y.asnumpy(), numpy(X), rtol=1e-5, atol=1e-6)


def test_writing():
    x, want = nd.array(X, ctx=TWO), X.copy()
    x[1], want[1] = 7, 7
    x[:, 2] = nd.array([1, 2, 3], ctx=TWO)
    want[:, 2] = [1, 2, 3]
    x[0] = nd.array([4, 3, 2, 1], ctx=ONE)
    want[0] = [4, 3, 2, 1]
    x[[0, 2]] = np.ones((2, 4))
    want[[0, 2]] = 1
    x += 1
    want += 1
    nd.broadcast_add(x, x, out=x)
    want += want
    np.testing.assert_array_equal(x.asnumpy(), want)
    np.testing.assert_array_equal(x[1:, nd.array([0, 2], ctx=TWO)].asnumpy(), want[1:, [0, 2]])


PLACES = [mx.cpu(), ONE, TWO]


@pytest.mark.parametrize("target", PLACES, ids=str)
@pytest.mark.parametrize("source", PLACES, ids=str)
def test_copies(source, target):
    x = nd.array(X, ctx=source)
    for y in (x.copyto(target), x.as_in_context(target), nd.array(x, ctx=target)):
        assert y.context == target
        np.testing.assert_array_equal(y.asnumpy(), X)
    into = nd.zeros(X.shape, ctx=target)
    x.copyto(into)
    np.testing.assert_array_equal(into.asnumpy(), X)
    x.attach_grad()
    with autograd.record():
        y = (x.copyto(target) * 3).sum()
    y.backward()
    assert x.grad.context == source
    np.testing.assert_array_equal(x.grad.asnumpy(), np.full(X.shape, 3))


@pytest.mark.parametrize("flags", FLAGS)
def test_hybridized(flags, real):
    x = nd.array(X, ctx=TWO)
    net = net_on([ONE, TWO])
    want = net(x).asnumpy()
    net.hybridize(**FLAGS[flags])
    for ctx in (TWO, ONE, TWO):
        for _ in range(3):
            y = net(x.as_in_context(ctx))
            assert y.context == ctx
            np.testing.assert_allclose(y.asnumpy(), want, rtol=1e-5, atol=1e-6)
    if not real:
        one, two = emulated.drivers()[:2]
        found = len(one.launches), len(two.launches)
        count = len(net.explain(x).kernels)
        assert found == (3 * count, 6 * count)


@pytest.mark.parametrize("flags", FLAGS)
def test_training_on_both(flags):
    net = net_on([ONE, TWO])
    net.hybridize(**FLAGS[flags])
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
    for _ in range(2):
        parts = gluon.utils.split_and_load(nd.array(np.concatenate([X, X])), [ONE, TWO])
        with autograd.record():
            losses = [(net(x)[:, 1:] ** 2).sum() for x in parts]
        for loss in losses:
            loss.backward()
        trainer.step(6)
    for p in net.collect_params().values():
        np.testing.assert_array_equal(p.data(ONE).asnumpy(), p.data(TWO).asnumpy())
        assert p.grad(TWO).context == TWO


class Norm(gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.norm, self.drop = nn.BatchNorm(in_channels=4), nn.Dropout(0.5)

    def hybrid_forward(self, F, x):
        return self.drop(self.norm(x))


@pytest.mark.parametrize("hybrid", [False, True])
def test_states_and_random_numbers(hybrid):
    net = Norm()
    net.initialize(ctx=TWO)
    if hybrid:
        net.hybridize()
    x = nd.array(X, ctx=TWO)
    x.attach_grad()
    with autograd.record():
        y = net(x)
    y.backward()
    assert y.context == x.grad.context == TWO
    assert net.norm.running_mean.data(TWO).asnumpy().any()
    assert nd.random.normal(shape=(3,), ctx=TWO).context == TWO


MIXED = {
    "eager": lambda a, b, net: a + b,
    "out": lambda a, b, net: nd.broadcast_add(a, a, out=b),
    "hybridized": lambda a, b, net: net(a, b),
    "concat": lambda a, b, net: nd.concat(a, b, dim=0),
}


@pytest.mark.parametrize("name", MIXED)
def test_arrays_of_two_gpus_in_one_call(name):
    net = nn.HybridLambda(lambda F, a, b: F.broadcast_add(a, b))
    net.hybridize(static_alloc=True, static_shape=True)
    a, b = nd.array(X, ctx=ONE), nd.array(X, ctx=TWO)
    for _ in range(3):
        net(a, a)
    with pytest.raises((mx.MXNetError, ValueError), match=r"gpu\(0\).*gpu\(1\)|gpu\(1\).*gpu\(0\)"):
        MIXED[name](a, b, net)


@pytest.mark.parametrize("real", ["emulated"], indirect=True)
def test_waiting():
    x, y = nd.ones((2,), ctx=ONE), nd.ones((2,), ctx=TWO)
    places = [device_of(ONE), device_of(TWO)]
    nd.waitall()
    assert [d.synchronized for d in places] == [1, 1]
    y.wait_to_read()
    assert [d.synchronized for d in places] == [1, 2]
    assert x.context == ONE and mx.num_gpus() == 2


def test_a_symbol_bound_to_the_second():
    x = mx.sym.var("x")
    executor = mx.sym.FullyConnected(x, num_hidden=3, name="fc").simple_bind(TWO, x=(3, 4))
    executor.arg_dict["x"][:] = X
    executor.arg_dict["fc_weight"][:] = 1
    (y,) = executor.forward(is_train=True)
    executor.backward(nd.ones((3, 3), ctx=TWO))
    assert y.context == TWO
    np.testing.assert_allclose(y.asnumpy(), np.repeat(X.sum(1, keepdims=True), 3, 1))
    np.testing.assert_allclose(executor.grad_dict["x"].asnumpy(), np.full(X.shape, 3))


def test_positions_out_of_range_are_refused_where_the_array_module_wraps_them():
    x = nd.array(X, ctx=TWO)
    before = x.asnumpy()
    for wrong in (
        lambda: x[[0, len(X)]],
        lambda: x.__setitem__([-len(X) - 1], 1),
        lambda: x[:, [99]],
        lambda: x[len(X), [0, 1]],
        lambda: x.__setitem__((nd.array([0], ctx=TWO, dtype="int32"), 99), 1),
        lambda: x[nd.array([len(X)], dtype="int32")],
    ):
        with pytest.raises(IndexError, match="is out of bounds for axis"):
            wrong()
    np.testing.assert_array_equal(x.asnumpy(), before)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_gradients_of_rows_that_are_named_twice(dtype):
    x = nd.array(X, ctx=TWO, dtype="float32").astype(dtype)
    x.attach_grad()
    with autograd.record():
        y = x[[0, 1, 0]]
    y.backward()
    want = np.zeros(X.shape, np.float32)
    want[0], want[1] = 2, 1
    np.testing.assert_array_equal(x.grad.astype("float32").asnumpy(), want)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "float16", "float32", "bfloat16"])
def test_sums_at_positions_by_the_array_module(dtype):
    from hybridgpu.compiler.primitives.gather import add_at
    from hybridgpu.core.dtypes import dtype_of

    device, held = device_of(TWO), dtype_of(dtype).np
    with device.current():
        y = device.from_host(np.array([100, 2, 3], np.int64).astype(held))
        add_at(
            device.xp, y, device.from_host(np.array([0, 2, 0])), device.from_host(np.array([100, 1, 1]).astype(held))
        )
    want = np.array([201, 2, 4])
    assert device.to_host(y).astype(np.float32).tolist() == want.astype(held).astype(np.float32).tolist()
