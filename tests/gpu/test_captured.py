# SPDX-License-Identifier: Apache-2.0
"""On a GPU: library calls in a program's CUDA graph, and hybridized calls in one of the user's.

What tests/cublaslt_on_cpu/test_captured.py and tests/cupy_on_null/capturing.py prove on stand-ins.
"""

from __future__ import annotations

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import autograd, nd
from hybridgpu.base import MXNetError
from hybridgpu.gluon import nn
from hybridgpu.gluon.model_zoo.vision import BasicBlockV1

pytestmark = [pytest.mark.gpu, pytest.mark.parametrize("gpu", ["real"], indirect=True)]
GPU = mx.gpu(0)
REPLAYED = {"static_alloc": True, "static_shape": True}


@pytest.fixture
def net(gpu):
    """A block of a ResNet, and a dense layer, all large enough for libraries."""
    for library in (gpu.device.products, gpu.device.convolutions):
        if isinstance(library.binding, str):
            pytest.skip(library.binding)
    made = nn.HybridSequential()
    made.add(BasicBlockV1(64, 1, in_channels=64), nn.Dense(1024, in_units=64 * 28 * 28))
    made.initialize(mx.init.Normal(0.05), ctx=GPU)
    made(images(0))
    return made


def images(seed, batch=4):
    return nd.array(np.random.default_rng(seed).normal(size=(batch, 64, 28, 28)), ctx=GPU)


def same(got, want):
    np.testing.assert_allclose(got.asnumpy(), want, rtol=1e-3, atol=1e-3)


def test_library_calls_are_in_the_graph(net):
    want = [net(images(seed)).asnumpy() for seed in range(6)]
    net.hybridize(**REPLAYED)
    for _ in range(2):
        kept = [net(images(seed)) for seed in range(6)]  # the addresses change
        for y, w in zip(kept, want, strict=True):
            same(y, w)
    report = net.explain(images(0))
    assert len(report.library_calls) >= 2
    assert "in 1 CUDA graph" in report.execution_mode and "outside" not in report.execution_mode, report.execution_mode


@pytest.mark.parametrize("flags", [{}, {"static_alloc": True}, REPLAYED], ids=str)
def test_calls_in_a_graph_of_the_user(net, flags):
    import cupy

    want = [net(images(seed)).asnumpy() for seed in range(4)]
    net.hybridize(**flags)
    stream, x = cupy.cuda.Stream(non_blocking=True), images(0)
    with stream:
        for _ in range(2):
            net(x)
        stream.begin_capture()
        y = net(x)
        graph = stream.end_capture()
        later = [net(images(seed)) for seed in (1, 2)]
        for seed in (3, 0):
            x[:] = images(seed)
            graph.launch()
            stream.synchronize()
            same(y, want[seed])
        for result, seed in zip(later, (1, 2), strict=True):
            same(result, want[seed])


def test_a_recorded_call_in_a_graph_of_the_user(net):
    import cupy

    net.hybridize(static_alloc=True)
    stream, x = cupy.cuda.Stream(non_blocking=True), images(0)

    def step():
        with autograd.record():
            y = net(x)
        y.backward()

    with stream:
        for _ in range(3):
            step()
        want = net[1].weight.grad().asnumpy()
        stream.begin_capture(cupy.cuda.runtime.streamCaptureModeRelaxed)  # CuPy's pool may want more memory
        step()
        graph = stream.end_capture()
        net[1].weight.grad()[:] = 0
        graph.launch()
        stream.synchronize()
        same(net[1].weight.grad(), want)


def test_a_first_call_is_refused(net):
    import cupy

    net.hybridize()
    stream, x = cupy.cuda.Stream(non_blocking=True), images(0, 3)
    with stream:
        stream.begin_capture()
        with pytest.raises(MXNetError, match="a first call cannot be captured"):
            net(x)
        assert stream.end_capture() is not None
        assert net(x).shape == (3, 1024)
