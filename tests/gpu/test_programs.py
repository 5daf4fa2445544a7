# SPDX-License-Identifier: Apache-2.0
"""Nets and operators on the device: results of the real MXNet, launches, caches, streams."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from ops.test_golden import CALLS, MODELS, Model, close, eager, hybridized

import hybridgpu as mx
from hybridgpu import gluon, nd
from hybridgpu.backends.base import Mode
from hybridgpu.backends.cuda.backend import CudaBackend
from hybridgpu.gluon import nn

PLAIN = [c for c in CALLS if not any(a.startswith("after") for a in c["arrays"])]


def net_and_input(ctx, batch=4):
    """A perceptron with a softmax, small enough to emulate."""
    net = nn.HybridSequential()
    net.add(nn.Dense(16, activation="relu", in_units=8), nn.Dense(5, in_units=16), nn.HybridLambda("softmax"))
    rng = np.random.RandomState(0)
    net.initialize(ctx=ctx)
    for p in net.collect_params().values():
        p.set_data(nd.array(rng.standard_normal(p.shape)))
    return net, nd.array(rng.standard_normal((batch, 8)), ctx=ctx)


@pytest.mark.gpu
@pytest.mark.parametrize("gpu", ["real"], indirect=True)
@pytest.mark.parametrize("record", CALLS, ids=lambda c: c["id"])
def test_recorded_call(record, gpu):
    eager(record, gpu.ctx)
    if record in PLAIN:
        hybridized(record, gpu.ctx)


@pytest.mark.parametrize("record", PLAIN[::40], ids=lambda c: c["id"])  # tests/ops runs more of them emulated
def test_some_recorded_calls(record, gpu):
    eager(record, gpu.ctx)
    hybridized(record, gpu.ctx)


@pytest.mark.parametrize("name", MODELS)
def test_recorded_model(name, gpu):
    if name == "mlp" and not gpu.real:
        pytest.skip("170,000 weights take minutes when emulated")
    model = Model(name, gpu.ctx)
    with gpu.ctx:
        net = model.built()
        model.check(net(*model.arguments()))
        net.hybridize(static_alloc=True, static_shape=True)
        for _ in range(2):
            model.check(net(*model.arguments()))
        model.check(model.imported()(*model.inputs()))


def test_hybridized_is_eager(gpu):
    net, x = net_and_input(gpu.ctx)
    want = net(x).asnumpy()
    for flags in ({}, {"static_alloc": True}, {"static_alloc": True, "static_shape": True}):
        net.hybridize(**flags)
        for _ in range(3):
            y = net(x)
            assert y.context == gpu.ctx
            np.testing.assert_allclose(y.asnumpy(), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", list(Mode), ids=lambda m: m.value)
def test_one_launch_a_kernel(gpu, counted, mode):
    net, x = net_and_input(gpu.ctx)
    net.hybridize()
    want = net(x)
    report = net.explain(x)
    kernels = len(report.kernels)
    assert report.target == "cuda" and kernels >= 2
    assert all("__global__" in k.source for k in report.kernels)
    loaded = CudaBackend(counted, gpu.xp, gpu.device.address).load(report.program).in_mode(mode)
    params = {p.name: p.data(gpu.ctx) for p in net.collect_params().values()}
    (data,), symbol = net._get_graph(x)
    inputs = [x._data if n == data.name else params[n]._data for n in symbol.list_inputs()]
    outputs = [nd.zeros(want.shape, ctx=gpu.ctx)._data for _ in range(2)]
    for k in (0, 1, 0):
        counted.started.clear()
        loaded(inputs, [outputs[k]])
        assert counted.started == ([f"graph of {kernels}"] if mode is Mode.GRAPH else ["kernel"] * kernels)
    for y in outputs:
        np.testing.assert_array_equal(gpu.get(y), want.asnumpy())


def test_another_batch_size_compiles_nothing(gpu):
    net, x = net_and_input(gpu.ctx)
    net.hybridize()
    net(x)
    before = gpu.driver.compiled
    _, more = net_and_input(gpu.ctx, batch=6)
    assert net(more).shape == (6, 5)
    assert gpu.driver.compiled == before


def test_gradients_are_those_of_the_host(gpu):
    found = []
    for ctx in (mx.cpu(), gpu.ctx):
        net, x = net_and_input(ctx)
        net.hybridize()
        x.attach_grad()
        with mx.autograd.record():
            loss = (net(x) * nd.arange(5, ctx=ctx).reshape((1, 5))).sum()
        loss.backward()
        found.append([x.grad.asnumpy(), *(p.grad(ctx).asnumpy() for p in net.collect_params().values())])
    for host, device in zip(*found, strict=True):
        np.testing.assert_allclose(device, host, rtol=1e-4, atol=1e-5)


def test_files_move_between_devices(gpu, tmp_path):
    net, x = net_and_input(gpu.ctx)
    net.hybridize()
    want = net(x).asnumpy()
    net.export(str(tmp_path / "net"))
    files = str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0000.params")
    for ctx in (mx.cpu(), gpu.ctx):
        y = gluon.SymbolBlock.imports(*files, ctx=ctx)(x.as_in_context(ctx))
        np.testing.assert_allclose(y.asnumpy(), want, rtol=1e-5, atol=1e-6)
    net.save_parameters(str(tmp_path / "p"))
    other, _ = net_and_input(mx.cpu())
    other.load_parameters(str(tmp_path / "p"), ctx=mx.cpu())
    np.testing.assert_allclose(other(x.as_in_context(mx.cpu())).asnumpy(), want, rtol=1e-5, atol=1e-6)


def test_parameters_on_another_device(gpu):
    net, _ = net_and_input(gpu.ctx)
    net.hybridize()
    with pytest.raises((RuntimeError, ValueError), match=r"cpu\(0\)"):
        net(nd.ones((2, 8)))


@pytest.mark.gpu
@pytest.mark.parametrize("gpu", ["real"], indirect=True)
def test_the_current_stream_is_used(gpu):
    net, x = net_and_input(gpu.ctx)
    net.hybridize()
    want = net(x).asnumpy()
    stream = gpu.xp.cuda.Stream(non_blocking=True)
    with stream:
        y = net(x)
    stream.synchronize()
    np.testing.assert_array_equal(y.asnumpy(), want)


WARM = """\
import json, sys
import hybridgpu as mx
from hybridgpu.gluon import nn
net = nn.HybridSequential()
net.add(nn.Dense(7, activation="tanh", in_units=3))
net.initialize(mx.init.One(), ctx=mx.gpu(0))
net.hybridize()
y = net(mx.nd.ones((2, 3), ctx=mx.gpu(0))).asnumpy()
print(json.dumps([mx.compile_report().compiled_modules, "jinja2" in sys.modules, float(y.sum())]))
"""


@pytest.mark.gpu
@pytest.mark.parametrize("gpu", ["real"], indirect=True)
def test_a_new_process_finds_the_kernels(gpu, tmp_path):
    environment = {**os.environ, "HYBRIDGPU_CACHE_DIR": str(tmp_path / "cache")}
    found = []
    for _ in range(2):
        run = subprocess.run([sys.executable, "-c", WARM], env=environment, capture_output=True, text=True, check=True)
        found.append(json.loads(run.stdout.splitlines()[-1]))
    (cold, _, first), (warm, rendered, second) = found
    assert cold >= 1 and warm == 0 and not rendered and first == second


def test_close_notices_a_difference(gpu):
    with pytest.raises(AssertionError):
        close(nd.ones((2,), ctx=gpu.ctx), np.array([1, 1.1], np.float32), "planted")
