# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E402 - what stands for CUDA comes before what imports CuPy
"""How calls reach a GPU, over the null device, which refuses what a device refuses: python calls.py LIBRARY PATH…"""

from __future__ import annotations

import sys

sys.path[:0] = sys.argv[2:]

from cupy_on_null.null_cupy import NullCuda

null = NullCuda(sys.argv[1], devices=1)
if not null.replaced:
    print("SKIP this CuPy does not contain CUDA's run-time with its names")
    sys.exit()

import os
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

os.environ["HYBRIDGPU_GRAPH_KERNELS"] = "never"  # kernels stay apart, so that there are several

import cupy

import hybridgpu as mx
from hybridgpu import autograd, gluon, nd
from hybridgpu.backends.cuda import nvrtc
from hybridgpu.backends.cuda.backend import CudaBackend
from hybridgpu.backends.cuda.cupy_driver import CupyDriver
from hybridgpu.backends.devices import device_of
from hybridgpu.base import MXNetError
from hybridgpu.cache.disk_cache import default_store
from hybridgpu.core.dtypes import from_short
from hybridgpu.gluon import nn

GPU = mx.gpu(0)
RELAXED = cupy.cuda.runtime.streamCaptureModeRelaxed  # CuPy's pool may want more memory
driver = device_of(GPU).backend().driver


def in_a_thread(work: Callable[[], Any]) -> Any:
    """What ``work`` gives in a new thread, which has no context yet."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(work())
        except BaseException as e:
            found.append(e)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if isinstance(found[0], BaseException):
        raise found[0]
    return found[0]


def net_of(*layers: Any, **flags: bool) -> Any:
    net = nn.HybridSequential()
    net.add(*layers)
    net.initialize(mx.init.One(), ctx=GPU)
    net.hybridize(**flags)
    return net


def layers() -> list[Any]:
    return [nn.Dense(6, activation="relu", in_units=4), nn.LayerNorm(in_channels=6), nn.HybridLambda("softmax")]


def ours() -> list[list[str]]:
    return [line for line in null.launches() if not line[0].startswith("cupy_")]


def graphs_start_the_kernels_of_calls() -> None:
    plain, graph = net_of(*layers()), net_of(*layers(), static_alloc=True, static_shape=True)
    x = nd.ones((5, 4), ctx=GPU)
    graph(x), plain(x), ours()
    kept = [graph(nd.ones((5, 4), ctx=GPU)) for _ in range(5)]
    started = ours()
    assert "in 1 CUDA graph" in graph.explain(x).execution_mode, graph.explain(x).execution_mode
    ours(), plain(x)
    one = [name for name, *_ in ours()]
    assert len(one) > 1 and [name for name, *_ in started] == one * 5
    last = [line for line in started if line[0] == one[-1]]
    assert [str(y.address) in line for y, line in zip(kept, last, strict=True)] == [True] * 5


def a_cooperative_kernel_in_a_graph() -> None:
    backend = device_of(GPU).backend()
    held, backend.target = backend.target, replace(backend.target, resident="always", persistent_cluster=0)
    try:
        dense = [nn.Dense(n, activation="relu", in_units=m) for m, n in ((200, 300), (300, 10), (10, 7))]
        long = nn.HybridLambda(lambda F, x: F.softmax(F.tile(x, (1, 40_000))))  # rows in clusters are no steps
        net = net_of(*dense, long, static_alloc=True, static_shape=True)
        x = nd.ones((16, 200), ctx=GPU)
        for _ in range(3):
            net(x)
        kernels = net.explain(x).program.kernels
        assert any(k.launch["cooperative"] for k in kernels) and any("__cluster_dims__(16, " in k.text for k in kernels)
        assert "CUDA graph" in net.explain(x).execution_mode
    finally:
        backend.target = held


def one_kernel(rows: int, width: int, cluster: int) -> Any:
    """The program of a call whose kernels are one, which a library could compute none of; it was started once."""
    backend = device_of(GPU).backend()
    held, backend.target = backend.target, replace(backend.target, resident="always", persistent_cluster=cluster)

    def shares(F: Any, x: Any) -> Any:
        share = F.softmax(x)
        return F.sum(F.broadcast_mul(share, F.sum(share, axis=0, keepdims=True)), axis=1)

    try:
        net, x = net_of(nn.HybridLambda(shares)), nd.ones((rows, width), ctx=GPU)
        net(x)
        program = net.explain(x).program
        assert [k.kind for k in program.kernels] == ["graph"]
        return program
    finally:
        backend.target = held


def a_grid_is_as_large_as_the_device_holds() -> None:
    """Of a kernel's real registers, which the plan does not know; the null device refuses one block more."""
    program = one_kernel(9000, 256, 0)
    (kernel,), (step,) = program.kernels, program.steps
    (call,) = device_of(GPU).backend().load(program).layout.calls
    held = driver.resident(call.kernel, call.threads, call.shared)
    assert kernel.launch["cooperative"] and call.cooperative and call.grid == (held * 132, 1)
    assert 0 < held < kernel.launch["limit"] and held * 132 < step.extents[kernel.launch["extent"]], "not all fit"
    right = CupyDriver.resident
    CupyDriver.resident = lambda *a: right(*a) + 1  # type: ignore[method-assign]
    try:
        one_kernel(9001, 256, 0)
    except MXNetError:
        (said,) = null.refused()
        assert said.endswith(": blocks that live at once"), said
    else:
        raise AssertionError("a grid that does not fit was started")
    finally:
        CupyDriver.resident = right  # type: ignore[method-assign]


def a_grid_that_is_one_cluster() -> None:
    program = one_kernel(40, 60, 8)
    (call,) = device_of(GPU).backend().load(program).layout.calls
    assert call.grid == (8, 1) and not call.cooperative and "__cluster_dims__(8, 1, 1)" in program.kernels[0].text


def a_program_that_another_thread_loaded() -> None:
    net, x = net_of(nn.Dense(300, in_units=200)), nd.ones((16, 200), ctx=GPU)
    net(x)
    program = net.explain(x).program
    backend = device_of(GPU).backend()
    loaded = backend.load(program)
    kernel = next(iter(loaded.layout.calls)).kernel
    assert in_a_thread(lambda: driver.resident(kernel, 128, 0)) > 0
    in_a_thread(lambda: backend.load(program))
    in_a_thread(lambda: net(x))


def a_device_is_what_its_architecture_says() -> None:
    backend = device_of(GPU).backend()
    of_h200 = backend.target.changed(
        resident_threads=2048, shared_bytes=227 << 10, shared_total=228 << 10, cluster_blocks=8, row_cluster_blocks=16
    )
    assert backend.target == of_h200 and backend.target.gpu.multiprocessors == 132


def a_device_that_is_newer_than_nvrtc() -> None:
    """Its kernels are PTX, which the driver compiles."""
    net, x = net_of(*layers()), nd.ones((5, 4), ctx=GPU)
    net(x)
    program, device = net.explain(x).program, device_of(GPU)
    known, nvrtc.supported = nvrtc.supported, lambda: (75, 80)
    try:
        newer = CudaBackend(CupyDriver(0, default_store()), cupy, device.address)
        assert newer.driver.arch == "compute_80" and newer.key() != device.backend().key()
        inputs = [cupy.ones(shape, from_short(short).np) for shape, short in program.inputs]
        outputs = [cupy.empty(shape, from_short(short).np) for shape, short in program.outputs]
        null.launches()
        newer.load(program)(inputs, outputs)
        assert [len(line) > 3 for line in ours()] == [True] * 2
    finally:
        nvrtc.supported = known


def one_text_with_more_shared_memory() -> None:
    net, x = net_of(nn.HybridLambda("softmax")), nd.ones((300, 70), ctx=GPU)
    net(x)
    kernel = net.explain(x).program.kernels[0]
    for nbytes in (60_000, 100_000, 70_000):
        assert kernel.launch is not None
        more = replace(kernel, launch={**kernel.launch, "shared": nbytes})
        (function,) = in_a_thread(lambda more=more: driver.load([more])).values()
        assert driver.resident(function, 128, nbytes) > 0, nbytes


def captured(work: Callable[[], Any], mode: int = cupy.cuda.runtime.streamCaptureModeGlobal, alike: bool = True) -> int:
    """How many kernels ``work`` starts when it is repeated. It is repeated in the capture of a stream, where CUDA refuses
    whatever waits for the device and, unless the mode is relaxed, takes memory from the driver. The null device does, too.

    Args:
        alike: the graph has the kernels that a call starts.
    """
    with cupy.cuda.Stream(non_blocking=True) as stream:
        for _ in range(4):
            work()
        null.launches(), work()
        once = null.started()
        stream.begin_capture(mode)
        work()
        graph = stream.end_capture()
        assert not null.started()
        graph.launch(stream)
        started = null.started()
        assert started == once or not alike
        return len(started)


def calls_wait_for_nothing() -> None:
    for flags in ({}, {"static_alloc": True}, {"static_alloc": True, "static_shape": True}):
        net, x = net_of(*layers(), **flags), nd.ones((5, 4), ctx=GPU)
        assert captured(lambda net=net, x=x: net(x)) == 2


def training_steps_wait_for_nothing() -> None:
    for optimizer in ("sgd", "adam"):
        net, x = net_of(*layers(), static_alloc=True, static_shape=True), nd.ones((5, 4), ctx=GPU)
        trainer = gluon.Trainer(net.collect_params(), optimizer)

        def step(net: Any = net, x: Any = x, trainer: Any = trainer) -> None:
            with autograd.record():
                y = net(x)
            y.backward()
            trainer.step(5)

        assert captured(step, RELAXED, alike=False) > 2
        assert trainer.explain().reasons == ["the step was captured into a CUDA graph"]
        step()
        assert trainer.explain().fused


def eager_operators_wait_for_nothing() -> None:
    x = nd.ones((5, 4), ctx=GPU)
    assert captured(lambda: nd.softmax(x * 2 + x[::-1]).sum(), RELAXED) > 1


def kernels_of_users() -> None:
    """Arrays, numbers of each type, three axes; names that are there and one that is not; another thread's first call."""
    text = """extern "C" __global__ void user_kernel(const float *x, double *y, float a, unsigned char b, long long c) {
        y[threadIdx.x + threadIdx.y + threadIdx.z] = x[blockIdx.z] * a + b + c; }
        template <typename T> __global__ void user_template(T *x) { *x = 1; }"""
    module = mx.rtc.CudaModule(text, exports=["user_template<short>"])
    kernel = module.get_kernel("user_kernel", "const float *x, double *y, float a, uint8_t b, int64_t c")
    x, y = nd.ones((5,), ctx=GPU), nd.ones((9,), ctx=GPU, dtype="float64")
    ours()
    for start in (lambda work: work(), in_a_thread):
        start(lambda: kernel.launch([x, y, 0.5, 7, 1 << 40], GPU, (1, 2, 3), (4, 5, 6), 1024))
        ((name, *arguments),) = ours()
        assert name == "user_kernel" and {str(x.address), str(y.address)} <= set(arguments), arguments
        assert str(1 << 40) in arguments, arguments
    module.get_kernel("user_template<short>", "int8_t *x").launch(
        [nd.ones((2,), ctx=GPU, dtype="int8")], GPU, *[(1, 1, 1)] * 2
    )
    (started,) = ours()
    assert "user_template" in started[0], started
    try:
        module.get_kernel("user_template", "float *x").launch([x], GPU, (1, 1, 1), (1, 1, 1))
    except MXNetError as e:
        assert "Cannot find cuda kernel with name 'user_template'" in str(e), e
    else:
        raise AssertionError("it has no such name")
    try:
        kernel.launch([x, y, 0.5, 7, 1], GPU, (1, 1, 1), (2048, 1, 1))
    except MXNetError as e:
        assert "CUDA" in str(e), e
        assert null.refused(), "the null device takes any number of threads"
    else:
        raise AssertionError("no device takes so many threads")


CASES = [
    kernels_of_users,
    graphs_start_the_kernels_of_calls,
    a_cooperative_kernel_in_a_graph,
    a_grid_is_as_large_as_the_device_holds,
    a_grid_that_is_one_cluster,
    a_program_that_another_thread_loaded,
    a_device_is_what_its_architecture_says,
    a_device_that_is_newer_than_nvrtc,
    one_text_with_more_shared_memory,
    calls_wait_for_nothing,
    training_steps_wait_for_nothing,
    eager_operators_wait_for_nothing,
]
for case in CASES:
    case()
    refused = null.refused()
    assert not refused, (case.__name__, refused)
print("DONE")
