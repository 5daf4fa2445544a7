# SPDX-License-Identifier: Apache-2.0
"""bench/cuda_calls.py, and how much Python a prepared call on a GPU runs: counted, since times vary."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

import hybridgpu as mx
from hybridgpu import nd
from hybridgpu.backends.devices import use_gpu_devices
from hybridgpu.gluon import nn

SCRIPT = Path(__file__).resolve().parents[2] / "bench" / "cuda_calls.py"


@pytest.fixture(scope="module")
def cuda_calls():
    path = list(sys.path)
    spec = importlib.util.spec_from_file_location("cuda_calls", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.path[:] = path
    return module


def test_the_table(cuda_calls, capsys):
    assert cuda_calls.main(["--calls", "400"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert "ratio to 3 us" in head and len(rows) == len(cuda_calls.FLAGS)
    assert all(row.startswith(name) for row, name in zip(rows, cuda_calls.FLAGS, strict=True))


def functions_called(call, *args):
    """Functions of Python and of C that a call enters."""
    entered = []

    def note(frame, event, arg):
        if event in ("call", "c_call"):
            entered.append(frame.f_code.co_name if event == "call" else arg.__name__)

    sys.setprofile(note)
    try:
        call(*args)
    finally:
        sys.setprofile(None)
    return entered[:-1]  # the last is setprofile


#: with one input, and with another one than before; of up to three kernels
LIMITS = {"hybridize()": (34, 34), "static_alloc": (34, 34), "static_alloc, static_shape": (27, 36)}


@pytest.mark.parametrize("name", LIMITS)
def test_functions_of_a_call(name, cuda_calls):
    device = cuda_calls.NullDevice()

    def factory(number):
        return device

    factory.count = 1
    use_gpu_devices(factory)
    try:
        ctx = mx.gpu(0)
        net = nn.HybridSequential()
        net.add(nn.Dense(6, in_units=8, activation="relu"), nn.Dense(5, in_units=6), nn.HybridLambda("softmax"))
        net.initialize(ctx=ctx)
        net.hybridize(**cuda_calls.FLAGS[name])
        xs = [nd.ones((4, 8), ctx=ctx) for _ in range(9)]
        for x in [*xs, xs[0], xs[0], xs[0]]:
            y = net(x)  # results take turns, as in a loop
        assert y.shape == (4, 5)
        same = functions_called(net, xs[0])
        other = functions_called(net, xs[5])
    finally:
        use_gpu_devices(None)
    one, changed = LIMITS[name]
    assert len(same) <= one, same
    assert len(other) <= changed, other
