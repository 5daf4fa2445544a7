# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's cuBLASLt on a GPU: what tests/cublaslt_on_cpu proves on a stand-in, with the device's rounding."""

from __future__ import annotations

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import nd
from hybridgpu.backends.library import LibraryRequest
from hybridgpu.compiler.ir.types import tensor_type
from hybridgpu.compiler.primitives import TABLE
from hybridgpu.core.dtypes import bf16, f16, f32, f64
from hybridgpu.gluon import nn

pytestmark = [pytest.mark.gpu, pytest.mark.parametrize("gpu", ["real"], indirect=True)]
#: sums are in float32 here, relative to the sum of the magnitudes
BOUND = {"f16": 1e-3, "bf16": 8e-3, "f32": 2e-6, "f64": 1e-14}


@pytest.fixture
def library(gpu):
    found = gpu.device.products
    if isinstance(found.binding, str):
        pytest.skip(found.binding)
    return found


def operands(shapes, dtype, swapped=(False, False), seed=5):
    rng = np.random.default_rng(seed)
    made = []
    for shape, turned in zip(shapes, (*swapped, False), strict=False):
        a = rng.normal(size=(*shape[:-2], shape[-1], shape[-2]) if turned else shape).astype(dtype.np)
        made.append(a)
    return made


def compute(gpu, library, arrays, dtype, swapped=(False, False), relu=False, tf32=False):
    """(result, its exact value, sum of the magnitudes)."""
    held = [gpu.put(a) for a in arrays]
    views = [h.swapaxes(-1, -2) if t else h for h, t in zip(held, (*swapped, False), strict=False)]
    primitive = "gemm_bias" if len(arrays) == 3 else "dot"
    params = {"relu": relu} if len(arrays) == 3 else {}
    types = [tensor_type(v.shape, dtype) for v in views]
    out = TABLE[primitive].infer(types, params)
    prepared = library.prepare(LibraryRequest(primitive, types, params, out, "fc0", tf32=tf32))
    y = gpu.filled(out.shape, dtype.np)
    assert prepared(views, y), prepared.note
    exact = [a.astype(np.float64) for a in arrays]
    x, w = (a.swapaxes(-1, -2) if t else a for a, t in zip(exact, swapped, strict=False))
    bias = exact[2] if len(exact) == 3 else 0
    want = x @ w + bias
    return gpu.get(y).astype(np.float64), np.maximum(want, 0) if relu else want, np.abs(x) @ np.abs(w) + np.abs(bias)


@pytest.mark.parametrize("dtype", [f16, bf16, f32, f64], ids=lambda d: d.short)
@pytest.mark.parametrize("swapped", [(False, False), (False, True), (True, False), (True, True)], ids=str)
@pytest.mark.parametrize("batch", [(), (3,)], ids=str)
def test_layouts_and_types(gpu, library, dtype, swapped, batch):
    arrays = operands([(*batch, 65, 130), (*batch, 130, 70)], dtype, swapped)
    got, want, scale = compute(gpu, library, arrays, dtype, swapped)
    assert (np.abs(got - want) <= BOUND[dtype.short] * scale).all()


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("dtype", [f16, bf16, f32, f64], ids=lambda d: d.short)
def test_epilogues(gpu, library, dtype, relu):
    arrays = operands([(64, 128), (128, 96), (96,)], dtype)
    got, want, scale = compute(gpu, library, arrays, dtype, relu=relu)
    assert (np.abs(got - want) <= BOUND[dtype.short] * scale).all()


def test_float32_is_no_tf32(gpu, library):
    """Sums of a thousand products: TF32 would be wrong by a thousand times the bound."""
    got, want, scale = compute(gpu, library, operands([(512, 1024), (1024, 512)], f32), f32)
    assert (np.abs(got - want) <= 2e-6 * scale).all(), (np.abs(got - want) / scale).max()


def test_tf32_where_it_is_allowed(gpu, library):
    """Both operands are off by 2^-11 of themselves at most, and a device from compute capability 8.0 on makes use of it."""
    got, want, scale = compute(gpu, library, operands([(512, 1024), (1024, 512)], f32), f32, tf32=True)
    error = np.abs(got - want) / scale
    assert error.max() < 2**-10 + 2e-6
    assert error.max() > 2e-6 or gpu.device.compute_capability < 80


def test_halves_are_summed_in_float32(gpu, library):
    """In parts, too: where few elements have long sums, these are shared out."""
    x, w = np.full((8, 1 << 16), 0.25, np.float16), np.full((1 << 16, 8), 0.25, np.float16)
    got, want, _ = compute(gpu, library, [x, w], f16)
    np.testing.assert_array_equal(got, want)


def test_the_same_bits_every_time(gpu, library):
    arrays = operands([(64, 8192), (8192, 64)], f32)
    first, _, _ = compute(gpu, library, arrays, f32)
    for _ in range(5):
        np.testing.assert_array_equal(compute(gpu, library, arrays, f32)[0], first)


def test_an_infinity_stays_in_its_row(gpu, library):
    arrays = operands([(64, 256), (256, 64), (64,)], f32)
    arrays[0][5, 7] = np.inf
    got, _, _ = compute(gpu, library, arrays, f32)
    assert {int(i) for i in np.argwhere(~np.isfinite(got))[:, 0]} == {5}


@pytest.mark.parametrize("numeric", ["strict", "fast"])
def test_a_dense_layer(gpu, library, numeric):
    net = nn.Dense(1024, in_units=2048, activation="relu", prefix="fc_")
    net.initialize(mx.init.Xavier(), ctx=[mx.gpu(0), mx.cpu()])
    x = np.random.default_rng(3).normal(size=(512, 2048)).astype(np.float32)
    want = net(nd.array(x)).asnumpy()
    net.hybridize(numeric=numeric)
    with mx.allow_tf32(False):
        got = net(nd.array(x, ctx=mx.gpu(0)))
        np.testing.assert_allclose(got.asnumpy(), want, rtol=1e-4, atol=1e-4)
        (call,) = net.explain(nd.array(x, ctx=mx.gpu(0))).library_calls
    words = ", bias and relu in its epilogue" if numeric == "fast" else ""
    assert call.note == f"cuBLASLt {library.binding.version}{words}"
