# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E402 - what stands for CUDA comes before what imports CuPy
"""Calls of cuBLASLt and cuDNN in CUDA graphs of ours, and hybridized calls in those of the user, over the null device, which
knows what a capture allows, and with stand-ins for the libraries, which start functions of the host:
python capturing.py LIBRARY PATH…
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ["HYBRIDGPU_GRAPH_KERNELS"] = "never"  # kernels stay apart, so that there are several
os.environ["HYBRIDGPU_CACHE"] = "0"
os.environ["HYBRIDGPU_CUDA_GRAPHS"] = "always"  # of single calls, too, whose results can be checked here

import cupy
import numpy as np
from cublaslt_on_cpu.support import FakeProducts
from cudnn_on_cpu.support import Fake
from cupy_on_null.refusals import must_refuse

import hybridgpu as mx
from hybridgpu import autograd, nd
from hybridgpu.backends.cuda.cublaslt_dot import ProductLibrary
from hybridgpu.backends.cuda.cudnn_conv import ConvolutionLibrary
from hybridgpu.backends.devices import device_of
from hybridgpu.backends.library import Libraries
from hybridgpu.compiler import select
from hybridgpu.compiler.schedule.matmul import config_cuda
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
config_cuda.library_seconds = lambda target, dot: 0.0  # libraries compute everything that they can
select._select_conv_of_gpu = lambda node, shape, most: select.Selection("library")
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
    assert net.explain(x).execution_mode.startswith("1 library call a call in 1 CUDA graph"), net.explain(
        x
    ).execution_mode
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
    words = net.explain(x).execution_mode
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
        words = net.explain(x).execution_mode
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
    assert "cuGraphExecChildGraphNodeSetParams failed" in net.explain(drawn(1, 20, 33)[0]).execution_mode


def without_memory() -> None:
    """Libraries are called again when what is kept was given back; they stay in the graph."""
    net, (x, _) = dense(48), drawn(1, 20, 33)
    net.hybridize(**GRAPH)
    net(x)
    null.fail("cuGraphInstantiate", 0, 1, 2)
    net(x)
    assert null.fail() < 1 and "1 CUDA graph" in net.explain(x).execution_mode


def on_streams_of_the_user() -> None:
    net, (x, host) = dense(), drawn(1, 20, 33)
    weight, bias = (p.data().asnumpy() for p in (net.weight, net.bias))
    net.hybridize(**GRAPH)
    for _ in range(3):
        with cupy.cuda.Stream(non_blocking=True):
            for _ in range(3):
                y = net(x)
        np.testing.assert_allclose(y.asnumpy(), host @ weight.T + bias, rtol=1e-4, atol=1e-4)


# -- in CUDA graphs of the user's

FLAGS: list[dict[str, bool]] = [{}, {"static_alloc": True}, GRAPH]


@contextmanager
def a_capture(stream: Any, graphs: list[Any]) -> Iterator[None]:
    """What is done inside becomes a graph, in the mode that forbids most."""
    with stream:
        stream.begin_capture(cupy.cuda.runtime.streamCaptureModeGlobal)
        try:
            yield
        finally:
            graphs.append(stream.end_capture())


def made(units: int, flags: dict[str, bool]) -> tuple[Any, Callable[[np.ndarray], np.ndarray]]:
    """A layer, and what it computes."""
    net = dense(units)
    weight, bias = (p.data().asnumpy() for p in (net.weight, net.bias))
    net.hybridize(**flags)
    return net, lambda host: host @ weight.T + bias


def a_call_in_a_graph_of_the_user() -> None:
    """It computes anew what is in the argument by then, and shares memory with no call that comes later."""
    for k, flags in enumerate(FLAGS):
        (net, want), (x, host), graphs, later = made(56 + k, flags), drawn(1, 20, 33), [], []
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream:
            for _ in range(3):
                net(x)
        with a_capture(stream, graphs):
            y = net(x)
            z = net(x)
        for seed in range(6):
            with stream:
                other, values = drawn(seed, 20, 33)
                later.append((net(other), values))
        for seed in (7, 8):
            _, values = drawn(seed, 20, 33)
            x[:] = values
            graphs[0].launch(stream)
            stream.synchronize()
            for result in (y, z):
                np.testing.assert_allclose(result.asnumpy(), want(values), rtol=1e-4, atol=1e-4)
        for result, values in later:
            np.testing.assert_allclose(result.asnumpy(), want(values), rtol=1e-4, atol=1e-4)
        assert len({a.address for a in (y, z, *(r for r, _ in later))}) == 8 and host.shape == x.shape


def memory_of_a_graph_of_the_user() -> None:
    """Nobody else gets it while the graph is there, whatever the user holds, and it is given back afterwards."""
    (net, want), (x, _), graphs = made(64, GRAPH), drawn(1, 20, 33), []
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        net(x)
    with a_capture(stream, graphs):
        place = net(x).address  # the array is dropped
    (captured,) = device._user_graphs._captures.values()
    seen = set()
    with stream:
        kept = [net(x) for _ in range(40)]
        kept += [nd.array(np.ones((20, 64)), ctx=GPU) for _ in range(40)]
    seen = {a.address for a in kept}
    assert place not in seen
    graphs[0].launch(stream)
    for y in kept[:40]:
        np.testing.assert_allclose(y.asnumpy(), want(x.asnumpy()), rtol=1e-4, atol=1e-4)
    assert all((a.asnumpy() == 1).all() for a in kept[40:])
    held = sys.getrefcount(captured)
    device._user_graphs.release()
    assert device._user_graphs._captures and sys.getrefcount(captured) == held
    graphs.clear()
    device._user_graphs.release()
    assert not device._user_graphs._captures


def a_block_in_a_graph_of_the_user() -> None:
    """Kernels, cuDNN and cuBLASLt; the kernels are those of a call."""
    net = block()
    net.hybridize(**GRAPH)
    (x, _), graphs = drawn(1, 1, 4, 6, 6), []
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        for _ in range(3):
            net(x)
        null.started(), net(x)
        once = null.started()
    with a_capture(stream, graphs):
        y = net(x)
    assert not null.started()
    graphs[0].launch(stream)
    assert null.started() == once and y.shape == (1, 5)


def what_cannot_be_in_a_graph_of_the_user() -> None:
    """It is said before anything is done that would ruin the capture."""
    stream, graphs = cupy.cuda.Stream(non_blocking=True), []
    first, (x, _) = dense(72), drawn(1, 20, 33)
    first.hybridize()
    random = nn.HybridSequential()
    random.add(dense(73), nn.Dropout(0.5))
    random.hybridize()
    normal = nn.HybridSequential()
    normal.add(nn.Conv2D(4, 3, in_channels=4), nn.BatchNorm(in_channels=4))
    normal.initialize(ctx=GPU)
    normal.hybridize(numeric="fast")
    image, _ = drawn(1, 1, 4, 6, 6)
    other = nd.ones((4,), ctx=GPU)
    with stream:
        for _ in range(2):
            normal(image)
            with autograd.train_mode():
                random(x)
        normal[1].gamma.data()[:] = other * 3  # what was computed from it is computed again
    with a_capture(stream, graphs):
        must_refuse(
            lambda: first(x), "a first call cannot be captured", "Call the block once before the capture begins"
        )
        must_refuse(lambda: normal(image), "a first call cannot be captured", "where a parameter was changed since")
        with autograd.train_mode():
            must_refuse(lambda: random(x), "draws random numbers", "Dropout")
    assert not null.refused()
    with stream:
        first(x), normal(image)
    with a_capture(stream, graphs):
        first(x), normal(image)
    assert not null.refused()


def training_in_a_graph_of_the_user() -> None:
    """A recorded call and its backward pass; the gradients are computed anew."""
    net, want = made(80, {"static_alloc": True})
    (x, host), graphs = drawn(1, 20, 33), []
    stream = cupy.cuda.Stream(non_blocking=True)

    def step() -> Any:
        with autograd.record():
            y = net(x)
        y.backward()
        return y

    with stream:
        kept = [step() for _ in range(4)]
        del kept
    with a_capture(stream, graphs):
        y = step()
    gradient = net.bias.grad()
    gradient[:] = 0
    graphs[0].launch(stream)
    stream.synchronize()
    np.testing.assert_allclose(y.asnumpy(), want(host), rtol=1e-4, atol=1e-4)


def memory_of_a_backward_pass_in_a_graph_of_the_user() -> None:
    """What it adds up lies in memory of the graph, too: gradients of a net that was called twice."""
    net, _ = made(72, {"static_alloc": True})
    (x, _), graphs, taken = drawn(1, 20, 33), [], []
    stream, pool = cupy.cuda.Stream(non_blocking=True), cupy.get_default_memory_pool()

    def step() -> None:
        with autograd.record():
            heads = [net(x), net(x)]
        autograd.backward(heads)

    def malloc(nbytes: int) -> Any:
        taken.append(nbytes)
        return pool.malloc(nbytes)

    with stream:
        for _ in range(3):
            step()
    cupy.cuda.set_allocator(malloc)
    try:
        with a_capture(stream, graphs):
            step()
    finally:
        cupy.cuda.set_allocator(pool.malloc)
    assert not taken


CASES = [
    graphs_of_a_single_call,
    a_block_is_one_launch,
    what_cannot_be_captured_stays_outside,
    a_call_that_changes_its_graph_is_captured_no_more,
    without_memory,
    on_streams_of_the_user,
    a_call_in_a_graph_of_the_user,
    memory_of_a_graph_of_the_user,
    a_block_in_a_graph_of_the_user,
    what_cannot_be_in_a_graph_of_the_user,
    training_in_a_graph_of_the_user,
    memory_of_a_backward_pass_in_a_graph_of_the_user,
]
for case in CASES:
    try:
        case()
    except BaseException:
        print(f"in {case.__name__}", file=sys.stderr)
        raise
    assert not (refused := null.refused()), (case.__name__, refused)
print("DONE")
