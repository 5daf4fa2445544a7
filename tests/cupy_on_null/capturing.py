# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E402 - what stands for CUDA comes before what imports CuPy
"""Calls of cuBLASLt and cuDNN in CUDA graphs, over the null device, which knows what a capture allows, and with stand-ins for
the libraries, which start functions of the host: python capturing.py LIBRARY PATH…
"""

from __future__ import annotations

import sys

sys.path[:0] = sys.argv[2:]

from cupy_on_null.null_cupy import NullCuda

null = NullCuda(sys.argv[1], devices=1)
if not null.replaced:
    print("SKIP this CuPy does not contain CUDA's run-time with its names")
    sys.exit()

import os
import tempfile
from pathlib import Path
from typing import Any

os.environ["HYBRIDGPU_GRAPH_KERNELS"] = "never"  # kernels stay apart, so that there are several
os.environ["HYBRIDGPU_CACHE"] = "0"

import cupy
import numpy as np
from cublaslt_on_cpu.support import FakeProducts
from cudnn_on_cpu.support import Fake

import hybridgpu as mx
from hybridgpu import nd
from hybridgpu.backends.cuda.cublaslt_dot import ProductLibrary
from hybridgpu.backends.cuda.cudnn_conv import ConvolutionLibrary
from hybridgpu.backends.devices import device_of
from hybridgpu.backends.library import Libraries
from hybridgpu.compiler.schedule import conv, matmul_cuda
from hybridgpu.gluon import nn

GPU, MANY = mx.gpu(0), 1 << 40
folder = Path(tempfile.mkdtemp())
products, convolutions = FakeProducts(folder), Fake(folder)
for fake in (products, convolutions):
    fake.library.fake_on_stream(None)  # what they start goes to the driver
device = device_of(GPU)
device.products, device.convolutions = (
    ProductLibrary(device, products.find),
    ConvolutionLibrary(device, convolutions.find),
)
device.library = Libraries(device.convolutions, device.products)
matmul_cuda.library_seconds = lambda target, dot: 0.0  # libraries compute everything that they can
conv._DIRECT = 0
GRAPH = {"static_alloc": True, "static_shape": True}


def dense(units: int = 24, inputs: int = 33) -> Any:
    net = nn.Dense(units, in_units=inputs)
    net.initialize(mx.init.Normal(1), ctx=GPU)
    return net


def block() -> Any:
    """As of a residual network."""
    net = nn.HybridSequential()
    for _ in range(2):
        net.add(nn.Conv2D(4, 3, padding=1, in_channels=4), nn.BatchNorm(in_channels=4), nn.Activation("relu"))
    net.add(nn.Dense(5, in_units=144), nn.HybridLambda("softmax"))
    net.initialize(mx.init.Normal(1), ctx=GPU)
    return net


def drawn(seed: int, *shape: int) -> tuple[Any, np.ndarray]:
    host = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    return nd.array(host, ctx=GPU), host


def graphs_of_a_single_call() -> None:
    """The stand-in computes on memory that this process can read: arguments that are stale would show."""
    net = dense()
    weight, bias = (p.data().asnumpy() for p in (net.weight, net.bias))
    net.hybridize(**GRAPH)
    kept = []
    for seed in range(8):
        x, host = drawn(seed, 20, 33)
        kept.append((net(x), host @ weight.T + bias))
    for y, want in kept:
        np.testing.assert_allclose(y.asnumpy(), want, rtol=1e-4, atol=1e-4)
    assert net.explain(x).manner.startswith("1 library call a call in 1 CUDA graph"), net.explain(x).manner
    for _ in range(4):
        y = net(x)
    before = products.products
    for _ in range(9):
        y = net(x)
    assert products.products == before, "a library was called where its graph was to be replayed"
    np.testing.assert_allclose(y.asnumpy(), kept[-1][1], rtol=1e-4, atol=1e-4)


def a_block_is_one_launch() -> None:
    plain, net = block(), block()
    plain.hybridize(static_alloc=True)
    net.hybridize(**GRAPH)
    x, _ = drawn(1, 1, 4, 6, 6)
    plain(x), net(x)
    null.started(), plain(x)
    once = null.started()
    for _ in range(5):
        net(x)
    null.started(), null.fail("a launch", 0, MANY, 1), net(x)  # no kernel is started alone
    assert null.fail() == MANY
    assert [n for n in null.started() if not n.startswith("cupy_")] == [n for n in once if not n.startswith("cupy_")]
    words = net.explain(x).manner
    assert "3 library calls a call in 1 CUDA graph" in words and "outside" not in words, words


def what_cannot_be_captured_stays_outside() -> None:
    ways = (
        ("cublasLtMatmul of cuBLASLt", lambda: products.plant("allocates", 1), lambda: products.plant("allocates", 0)),
        ("cuStreamEndCapture failed", lambda: null.fail("cuStreamEndCapture", 0, MANY, 901), null.fail),
        ("cuGraphAddChildGraphNode failed", lambda: null.fail("cuGraphAddChildGraphNode", 0, MANY, 801), null.fail),
    )
    for k, (reason, spoil, heal) in enumerate(ways):
        net = dense(32 + k, 33)  # another program
        weight, bias = (p.data().asnumpy() for p in (net.weight, net.bias))
        net.hybridize(**GRAPH)
        net(drawn(1, 20, 33)[0])
        spoil()
        for seed in range(4):
            x, host = drawn(seed, 20, 33)
            np.testing.assert_allclose(net(x).asnumpy(), host @ weight.T + bias, rtol=1e-4, atol=1e-4)
        heal()
        words = net.explain(x).manner
        assert "in 1 CUDA graph" not in words and reason in words, words
        for seed in range(4):
            x, host = drawn(seed, 20, 33)
            np.testing.assert_allclose(net(x).asnumpy(), host @ weight.T + bias, rtol=1e-4, atol=1e-4)
        refused = null.refused()
        assert bool(refused) is (reason.startswith("cublas")), refused


def a_call_that_changes_its_graph_is_captured_no_more() -> None:
    net = dense(40)
    net.hybridize(**GRAPH)
    kept = [net(drawn(1, 20, 33)[0]) for _ in range(2)]
    null.fail("cuGraphExecChildGraphNodeSetParams", 0, MANY, 910)
    for seed in range(6):
        kept.append(net(drawn(seed, 20, 33)[0]))
    assert null.fail() < MANY
    assert "cuGraphExecChildGraphNodeSetParams failed" in net.explain(drawn(1, 20, 33)[0]).manner


def without_memory() -> None:
    """Libraries are called again when what is kept was given back; they stay in the graph."""
    net, (x, _) = dense(48), drawn(1, 20, 33)
    net.hybridize(**GRAPH)
    net(x)
    null.fail("cuGraphInstantiate", 0, 1, 2)
    net(x)
    assert null.fail() < 1 and "1 CUDA graph" in net.explain(x).manner


def on_streams_of_the_user() -> None:
    net, (x, host) = dense(), drawn(1, 20, 33)
    weight, bias = (p.data().asnumpy() for p in (net.weight, net.bias))
    net.hybridize(**GRAPH)
    for _ in range(3):
        with cupy.cuda.Stream(non_blocking=True):
            for _ in range(3):
                y = net(x)
        np.testing.assert_allclose(y.asnumpy(), host @ weight.T + bias, rtol=1e-4, atol=1e-4)


CASES = [
    graphs_of_a_single_call,
    a_block_is_one_launch,
    what_cannot_be_captured_stays_outside,
    a_call_that_changes_its_graph_is_captured_no_more,
    without_memory,
    on_streams_of_the_user,
]
for case in CASES:
    try:
        case()
    except BaseException:
        print(f"in {case.__name__}", file=sys.stderr)
        raise
    assert not (refused := null.refused()), (case.__name__, refused)
print("DONE")
