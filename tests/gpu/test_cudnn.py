# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's cuDNN on a GPU: the forms that tests/cudnn_on_cpu proves on a stand-in, with the device's rounding."""

from __future__ import annotations

import numpy as np
import pytest
from cudnn_on_cpu.cases import FORMS, FUSED, VARIANTS, Case, Fused

import hybridgpu as mx
from hybridgpu import nd
from hybridgpu.core.dtypes import bf16, f16, f32, f64
from hybridgpu.gluon import nn

pytestmark = [pytest.mark.gpu, pytest.mark.parametrize("gpu", ["real"], indirect=True)]
#: sums are in float32 here, relative to the sum of the magnitudes
BOUND = {"f16": 1e-3, "bf16": 8e-3, "f32": 2e-6, "f64": 1e-14}


@pytest.fixture
def library(gpu):
    found = gpu.device.convolutions
    if isinstance(found.binding, str):
        pytest.skip(found.binding)
    return found


def computed(gpu, library, case, **options):
    """The result, None where cuDNN has no algorithm."""
    prepared = case.prepare(library, **options)
    out = gpu.filled(case.out.shape, case.out.dtype.np)
    if not prepared([gpu.put(a) for a in case.operands], out):
        assert "has no algorithm" in prepared.note
        return None
    assert prepared.note.startswith("cuDNN ")
    return gpu.get(out).astype(np.float64)


@pytest.mark.parametrize("dtype", [f16, bf16, f32, f64], ids=lambda d: d.short)
@pytest.mark.parametrize("name", FORMS)
def test_forms(gpu, library, name, dtype):
    (x, w, params), _, _ = FORMS[name]
    case = Case(x, w, dtype, **params)
    got = computed(gpu, library, case)
    if got is None:
        pytest.skip("cuDNN has no algorithm for it on this device")
    wrong = np.abs(got - case.want)
    assert (wrong <= BOUND[dtype.short] * case.scale + 3e-8).all(), wrong.max()


@pytest.mark.parametrize("dtype", [f16, bf16, f32, f64], ids=lambda d: d.short)
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", FUSED)
def test_what_follows(gpu, library, name, variant, dtype):
    """In cuDNN's fused call or, where it has none, beside it: the note says which."""
    case = Fused(FORMS[name][0], dtype, **VARIANTS[variant][0])
    got = computed(gpu, library, case)
    if got is None:
        pytest.skip("cuDNN has no algorithm for it on this device")
    wrong = np.abs(got - case.want)
    assert (wrong <= BOUND[dtype.short] * case.scale + 3e-8).all(), wrong.max()


@pytest.mark.parametrize("dtype", [f16, f32], ids=lambda d: d.short)
def test_what_every_device_has(gpu, library, dtype):
    for name in ("plain", "groups", "pad, stride, dilation", "transposed", "weight"):
        (x, w, params), _, _ = FORMS[name]
        assert computed(gpu, library, Case(x, w, dtype, **params)) is not None, name


def test_float32_is_no_tf32(gpu, library):
    """Sums of a thousand products: TF32 would be wrong by a thousand times the bound."""
    case = Case((4, 128, 32, 32), (128, 128, 3, 3), f32, low=1, high=1)
    wrong = np.abs(computed(gpu, library, case) - case.want)
    assert (wrong <= 2e-6 * case.scale).all(), (wrong / case.scale).max()


def test_tf32_where_it_is_allowed(gpu, library):
    """Both operands are off by 2^-11 of themselves at most, and a device from compute capability 8.0 on makes use of it."""
    case = Case((4, 128, 32, 32), (128, 128, 3, 3), f32, low=1, high=1)
    error = np.abs(computed(gpu, library, case, tf32=True) - case.want) / case.scale
    assert error.max() < 2**-10 + 2e-6
    assert error.max() > 2e-6 or gpu.device.compute_capability < 80


def test_an_infinity_stays_in_its_windows(gpu, library):
    case = Case((1, 8, 32, 32), (8, 8, 3, 3), f32, low=1, high=1)
    case.operands[0][0, 2, 16, 16] = np.inf
    got = computed(gpu, library, case)
    assert {tuple(i) for i in np.argwhere(~np.isfinite(got))[:, 2:]} == {
        (r, c) for r in (15, 16, 17) for c in (15, 16, 17)
    }
    assert (~np.isfinite(got)).sum() == 8 * 9


def test_the_same_bits_every_time(gpu, library):
    for name in ("plain", "transposed", "weight"):
        (x, w, params), _, _ = FORMS[name]
        case = Case(x, w, f32, **params)
        first = computed(gpu, library, case)
        for _ in range(5):
            np.testing.assert_array_equal(computed(gpu, library, case), first)


def test_on_the_current_stream(gpu, library):
    case = Case((8, 64, 32, 32), (64, 64, 3, 3), f32, low=1, high=1)
    prepared, operands = case.prepare(library), [gpu.put(a) for a in case.operands]
    stream = gpu.xp.cuda.Stream(non_blocking=True)
    gpu.device.synchronize()
    with stream:
        out = gpu.filled(case.out.shape, np.float32)
        for _ in range(20):  # each reads what the one before was given
            assert prepared(operands, out)
            operands[0] = operands[0] * 1.0
    stream.synchronize()
    wrong = np.abs(gpu.device.to_host(out) - case.want)
    assert (wrong <= 2e-6 * case.scale).all()


def test_a_net_says_what_computes_it(gpu, library):
    net = nn.Conv2D(256, 3, padding=1, in_channels=256, activation="relu")
    net.initialize(mx.init.Xavier(), ctx=[gpu.ctx, mx.cpu()])
    x = nd.random.uniform(shape=(2, 256, 16, 16))
    want = net(x).asnumpy()
    net.hybridize()
    there = x.as_in_context(gpu.ctx)
    np.testing.assert_allclose(net(there).asnumpy(), want, rtol=1e-4, atol=1e-5)
    (call,) = net.explain(there).library_calls
    assert call.note.startswith(f"cuDNN {library.binding.version}: forward")
