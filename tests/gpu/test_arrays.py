# SPDX-License-Identifier: Apache-2.0
"""Arrays on the device: copies, indexing, printing, contexts, DLPack, and errors."""

from __future__ import annotations

import re

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import nd
from hybridgpu.core.dtypes import dtype_of

X = np.arange(12, dtype=np.float32).reshape(3, 4) - 5


@pytest.mark.parametrize(
    "dtype", ["float16", "bfloat16", "float32", "float64", "uint8", "int8", "int32", "int64", "bool"]
)
def test_there_and_back(gpu, dtype):
    dtype = dtype_of(dtype).np
    values = X.astype(dtype)
    x = nd.array(values, dtype=dtype, ctx=gpu.ctx)
    assert (x.context, x.dtype, x.shape) == (gpu.ctx, np.dtype(dtype), (3, 4))
    np.testing.assert_array_equal(x.asnumpy(), values)
    again = x.as_in_context(mx.cpu())
    assert again.context == mx.cpu()
    np.testing.assert_array_equal(again.asnumpy(), values)
    assert x.as_in_context(gpu.ctx) is x


CREATED = {
    "zeros": (lambda ctx: nd.zeros((2, 3), ctx=ctx), np.zeros((2, 3))),
    "ones": (lambda ctx: nd.ones((2, 3), ctx=ctx), np.ones((2, 3))),
    "full": (lambda ctx: nd.full((2,), 2.5, ctx=ctx), np.full(2, 2.5)),
    "arange": (lambda ctx: nd.arange(5, ctx=ctx), np.arange(5)),
    "zeros_like": (lambda ctx: nd.zeros_like(nd.ones((2,), ctx=ctx)), np.zeros(2)),
    "ones_like": (lambda ctx: nd.ones((2,), ctx=ctx).ones_like(), np.ones(2)),
}


@pytest.mark.parametrize("name", CREATED)
def test_creation(gpu, name):
    make, want = CREATED[name]
    for x in (make(gpu.ctx), within(gpu.ctx, make)):
        assert x.context == gpu.ctx
        np.testing.assert_array_equal(x.asnumpy(), want.astype(np.float32))


def within(ctx, make):
    with ctx:
        return make(None)


EXPRESSIONS = {
    "arithmetic": (lambda x: (x + 1) * x - 2 / (x * x + 1), lambda x: (x + 1) * x - 2 / (x * x + 1)),
    "compare": (lambda x: x > 0, lambda x: (x > 0).astype(np.float32)),
    "row": (lambda x: x[1], lambda x: x[1]),
    "slice": (lambda x: x[1:, ::2], lambda x: x[1:, ::2]),
    "reverse": (lambda x: x[::-1], lambda x: x[::-1]),
    "transpose": (lambda x: x.T * 2, lambda x: x.T * 2),
    "reshape": (lambda x: x.reshape((2, -1)), lambda x: x.reshape(2, -1)),
    "sum": (lambda x: x.sum(axis=0), lambda x: x.sum(0)),
    "mean": (lambda x: x.mean(), lambda x: x.mean().reshape(1)),
    "argmax": (lambda x: x.argmax(axis=1), lambda x: x.argmax(1).astype(np.float32)),
    "dot": (lambda x: nd.dot(x, x, transpose_b=True), lambda x: x @ x.T),
    "softmax": (lambda x: x.softmax(), lambda x: np.exp(x) / np.exp(x).sum(1, keepdims=True)),
    "concat": (lambda x: nd.concat(x, x, dim=1), lambda x: np.concatenate([x, x], 1)),
    "take": (lambda x: x.take(nd.array([2, 0], ctx=x.context)), lambda x: x[[2, 0]]),
    "where": (lambda x: nd.where(x > 0, x, -x), np.abs),
    "half": (lambda x: x.astype("float16").astype("float32"), lambda x: x),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_expression(gpu, name):
    ours, numpy = EXPRESSIONS[name]
    y = ours(nd.array(X, ctx=gpu.ctx))
    assert y.context == gpu.ctx
    np.testing.assert_allclose(y.asnumpy(), numpy(X), rtol=1e-5, atol=1e-6)


def test_writing(gpu):
    x, want = nd.array(X, ctx=gpu.ctx), X.copy()
    x[1] = 7
    want[1] = 7
    x[:, 2] = nd.array([1, 2, 3], ctx=gpu.ctx)
    want[:, 2] = [1, 2, 3]
    x += 1
    want += 1
    x *= x
    want *= want
    np.testing.assert_array_equal(x.asnumpy(), want)
    x.copyto(other := nd.zeros((3, 4)))
    np.testing.assert_array_equal(other.asnumpy(), want)
    nd.array(X).copyto(x)
    np.testing.assert_array_equal(x.asnumpy(), X)


def test_printing(gpu):
    assert str(nd.array([[1, 2], [3, 4]], ctx=gpu.ctx)) == "\n[[1. 2.]\n [3. 4.]]\n<NDArray 2x2 @gpu(0)>"


def test_scalars_and_waiting(gpu):
    x = nd.array([3], ctx=gpu.ctx)
    assert x.asscalar() == 3 and bool(x)
    x.wait_to_read()
    nd.waitall()
    assert gpu.ctx.device_type == "gpu" and mx.num_gpus() >= 1
    free, total = mx.gpu_memory_info(0)
    assert 0 < free <= total
    gpu.ctx.empty_cache()


def test_seeds_repeat(gpu):
    def draw():
        mx.random.seed(11)
        return nd.random.uniform(shape=(100,), ctx=gpu.ctx).asnumpy(), nd.random.normal(
            shape=(9,), ctx=gpu.ctx
        ).asnumpy()

    (a, b), (c, d) = draw(), draw()
    np.testing.assert_array_equal(a, c)
    np.testing.assert_array_equal(b, d)
    assert 0 <= a.min() < a.max() < 1


def test_gradient(gpu):
    x = nd.array(X, ctx=gpu.ctx)
    x.attach_grad()
    with mx.autograd.record():
        y = (x.tanh() * x).sum()
    y.backward()
    assert x.grad.context == gpu.ctx
    t = np.tanh(X.astype(np.float64))
    np.testing.assert_allclose(x.grad.asnumpy(), t + X * (1 - t * t), rtol=1e-5, atol=1e-5)


def test_dlpack_shares_memory(gpu):
    x = nd.array(X, ctx=gpu.ctx)
    shared = gpu.xp.from_dlpack(x)
    np.testing.assert_array_equal(gpu.get(shared), X)
    shared[0, 0] = 99
    assert x[0, 0].asscalar() == 99
    theirs = gpu.xp.arange(6, dtype=np.float32).reshape(2, 3)
    ours = nd.from_dlpack(theirs)
    assert ours.context == (gpu.ctx if gpu.real else mx.cpu())
    ours += 1
    np.testing.assert_array_equal(gpu.get(theirs), np.arange(1, 7, dtype=np.float32).reshape(2, 3))


def test_bfloat16(gpu):
    """What arrays do besides kernels, which tests/gpu/test_kernels.py has: CuPy's part."""
    x = nd.array(X, dtype="bfloat16", ctx=gpu.ctx)
    x.attach_grad()
    with mx.autograd.record():
        y = (nd.softmax(x) * x[:, ::-1]).sum() + x.max() * x[1:3].mean()
    y.backward()
    wide = nd.array(X, dtype="float64")
    wide.attach_grad()
    with mx.autograd.record():
        want = (nd.softmax(wide) * wide[:, ::-1]).sum() + wide.max() * wide[1:3].mean()
    want.backward()
    assert y.dtype is x.dtype is x.grad.dtype is dtype_of("bfloat16").type
    np.testing.assert_allclose(y.astype("float32").asnumpy(), want.asnumpy(), rtol=0.02)
    np.testing.assert_allclose(x.grad.astype("float32").asnumpy(), wide.grad.asnumpy(), rtol=0.05, atol=0.03)
    x[0], x[1, 2] = 2.5, 7
    x += nd.dot(x, x.T).sum().astype("bfloat16") * 0
    assert x[:2].asnumpy().astype(np.float32).tolist() == [[2.5] * 4, [-1, 0, 7, 2]]
    again = nd.from_dlpack(x)
    assert again.dtype is x.dtype and again.address == x.address
    assert nd.concat(x, x.T.reshape((3, 4)), dim=0).take(nd.array([0], ctx=gpu.ctx)).shape == (1, 4)


ERRORS = {
    "two contexts": (
        lambda x: x + nd.ones((3, 4)),
        (mx.MXNetError, ValueError),
        r"gpu\(0\).*cpu\(0\)|cpu\(0\).*gpu\(0\)",
    ),
    "shapes": (lambda x: x + nd.ones((2, 5), ctx=x.context), mx.MXNetError, r"\(?3, ?4|\[3,4\]"),
    "index": (lambda x: x[7], IndexError, "7"),
    "no copy": (lambda x: np.array(x, copy=False), ValueError, "without a copy"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_error(gpu, name):
    call, kind, text = ERRORS[name]
    x = nd.array(X, ctx=gpu.ctx)
    with pytest.raises(kind, match=re.compile(text, re.S)):
        call(x)
    np.testing.assert_array_equal(x.asnumpy(), X)


def test_a_number_that_is_not_there(gpu):
    if not gpu.real:
        pytest.skip("the emulated device answers to every number")
    with pytest.raises(mx.MXNetError, match=r"gpu\(99\) cannot be used: CUDA sees \d+ device"):
        nd.zeros((1,), ctx=mx.gpu(99))
