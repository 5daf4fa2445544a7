# SPDX-License-Identifier: Apache-2.0
"""Repeated calls of a hybridized net on the device: graphs, kept memory, streams, threads, the allocator."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from emulated import EmulatedStream

import hybridgpu as mx
from hybridgpu import autograd, gluon, nd
from hybridgpu.backends.base import Mode
from hybridgpu.backends.cuda.backend import CudaBackend
from hybridgpu.gluon import nn

FLAGS = {
    "fresh": {},
    "kept": {"static_alloc": True},
    "graph": {"static_alloc": True, "static_shape": True},
}


@pytest.fixture(params=FLAGS)
def flags(request):
    return FLAGS[request.param]


def net_on(ctx, *more):
    net = nn.HybridSequential()
    net.add(nn.Dense(16, activation="relu", in_units=8), nn.Dense(5, in_units=16), *more, nn.HybridLambda("softmax"))
    rng = np.random.RandomState(0)
    net.initialize(ctx=ctx)
    for p in net.collect_params().values():
        p.set_data(nd.array(rng.standard_normal(p.shape)))
    return net


def inputs(gpu, count, batch=4):
    rng = np.random.RandomState(1)
    return [nd.array(rng.standard_normal((batch, 8)), ctx=gpu.ctx) for _ in range(count)]


def same(y, want):
    np.testing.assert_allclose(y.asnumpy(), want, rtol=1e-5, atol=1e-6)


def streams(gpu, count):
    """New streams, each as a function that gives what makes it the current one in ``with``."""
    if gpu.real:
        made = [gpu.xp.cuda.Stream(non_blocking=True) for _ in range(count)]
        return [lambda s=s: s for s in made]
    made = [EmulatedStream(5000 + k) for k in range(count)]
    return [lambda s=s: gpu.driver.using(s) for s in made]


def test_results_and_those_that_are_kept(gpu, flags):
    net = net_on(gpu.ctx)
    xs = inputs(gpu, 6)
    want = [net(x).asnumpy() for x in xs]
    net.hybridize(**flags)
    kept = [net(x) for x in xs for _ in range(2)]
    views = [net(x)[1:] for x in xs]
    for x, w in zip(xs, want, strict=True):
        same(net(x), w)
    for k, w in enumerate(want):
        same(kept[2 * k], w)
        same(kept[2 * k + 1], w)
        same(views[k], w[1:])


def test_parameters_change_in_place_and_move(gpu, flags):
    net = nn.Dense(5, in_units=8)
    net.initialize(ctx=gpu.ctx)
    net.hybridize(**flags)
    (x,) = inputs(gpu, 1)
    for change in (
        lambda: net.weight.set_data(nd.array(np.random.RandomState(7).standard_normal((5, 8)))),
        lambda: net.initialize(mx.init.Constant(2), ctx=gpu.ctx, force_reinit=True),
    ):
        for _ in range(2):
            net(x)
        change()
        weight, bias = (p.data(gpu.ctx).asnumpy() for p in (net.weight, net.bias))
        for _ in range(3):
            np.testing.assert_allclose(net(x).asnumpy(), x.asnumpy() @ weight.T + bias, rtol=1e-4, atol=1e-5)


def test_a_graph_is_replayed(gpu, counted):
    net = net_on(gpu.ctx)
    xs = inputs(gpu, 3)
    net.hybridize()
    want = [net(x).asnumpy() for x in xs]
    program = net.explain(xs[0]).program
    loaded = CudaBackend(counted, gpu.xp, gpu.device.address).load(program).in_mode(Mode.GRAPH)
    (data,), symbol = net._get_graph(xs[0])
    params = {p.name: p.data(gpu.ctx)._data for p in net.collect_params().values()}
    kept = []
    for _ in range(3):
        for x, w in zip(xs, want, strict=True):
            out = gpu.filled(w.shape, np.float32)
            loaded([x._data if n == data.name else params[n] for n in symbol.list_inputs()], [out])
            kept.append((out, w))
    for out, w in kept:
        np.testing.assert_allclose(gpu.get(out), w, rtol=1e-5, atol=1e-6)
    graphs = [s for s in counted.started if s.startswith("graph")]
    kernels = loaded.layout.kernels
    assert graphs == [f"graph of {kernels}"] * 9 and "kernel" not in counted.started
    assert loaded.execution_mode.startswith(f"{kernels} kernels a call in 1 CUDA graph")


def test_a_library_call_between_graphs(gpu, flags):
    net = net_on(gpu.ctx, nn.HybridLambda(lambda F, x: F.sort(x)), nn.Dense(4, in_units=5))
    xs = inputs(gpu, 3)
    want = [net(x).asnumpy() for x in xs]
    net.hybridize(**flags)
    for _ in range(3):
        for x, w in zip(xs, want, strict=True):
            same(net(x), w)
    assert net.explain(xs[0]).library_calls
    assert ("2 CUDA graphs" in net.explain(xs[0]).execution_mode) == ("static_shape" in flags)


def test_streams(gpu, flags):
    """Calls on two streams at once, whose kernels may run in any order between them."""
    net = net_on(gpu.ctx)
    xs = inputs(gpu, 2, batch=4096 if gpu.real else 4)
    want = [net(x).asnumpy() for x in xs]
    net.hybridize(**flags)
    net(xs[0])
    gpu.device.synchronize()
    found = [[], []]
    both = streams(gpu, 2)
    for _ in range(50 if gpu.real else 3):
        for k, stream in enumerate(both):
            with stream():
                found[k].append(net(xs[k]))
    nd.waitall()
    for results, w in zip(found, want, strict=True):
        for y in results:
            same(y, w)


def test_threads(gpu, flags):
    net = net_on(gpu.ctx)
    xs = inputs(gpu, 4)
    want = [net(x).asnumpy() for x in xs]
    net.hybridize(**flags)
    errors = []
    barrier = threading.Barrier(len(xs))

    def work(k):
        try:
            barrier.wait()
            for _ in range(100 if gpu.real else 3):
                same(net(xs[k]), want[k])
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(len(xs))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors


def test_training(gpu, flags):
    found = []
    for chosen in ({}, flags):
        net = net_on(gpu.ctx)
        net.hybridize(**chosen)
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
        for x in inputs(gpu, 4):
            with autograd.record():
                loss = (net(x)[:, 1:] ** 2).sum()
            loss.backward()
            trainer.step(4)
        found.append([p.data(gpu.ctx).asnumpy() for p in net.collect_params().values()])
    for plain, got in zip(*found, strict=True):
        np.testing.assert_array_equal(got, plain)


@pytest.mark.gpu
@pytest.mark.parametrize("gpu", ["real"], indirect=True)
def test_memory_does_not_grow(gpu, flags):
    net = net_on(gpu.ctx)
    net.hybridize(**flags)
    pool = gpu.xp.get_default_memory_pool()
    used = []
    for batch in (64, 8, 32, 64, 8, 32, 64):
        for x in inputs(gpu, 3, batch):
            net(x)
        used.append(pool.total_bytes())
    assert used[-1] == used[3]
    gpu.ctx.empty_cache()
    same(net(x), net(x).asnumpy())
