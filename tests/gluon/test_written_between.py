# SPDX-License-Identifier: Apache-2.0
"""Parameters that are written between a recorded call and its backward pass.

The pass takes parameters as they are when it runs, and what operators have computed as it was, however the net is run.
Nets, writes and what MXNet gave stand in tests/recorded (between.py).
"""

from __future__ import annotations

import pytest
from recorded import between
from recorded.record import recorded, same

import hybridgpu as mx

RECORDED = recorded("between")
WAYS = {
    "eager": None,
    "hybridized": {},
    "static": {"static_alloc": True, "static_shape": True},
    "fast": {"numeric": "fast"},
    "without a compiler": {},
}


@pytest.fixture
def way(request, monkeypatch):
    """How a net is hybridized (None: it is not)."""
    if request.param == "without a compiler":
        monkeypatch.setattr("hybridgpu.backends.devices.HostDevice.backend", lambda self: None)
        monkeypatch.setattr("hybridgpu.runtime.program._warned", True)
    elif request.param != "eager":
        request.getfixturevalue("compiler")
    return WAYS[request.param]


def expect(name, flags, ctx=None):
    wrong = {}
    for write in between.WRITES:
        case = f"{name}: {write}"
        found = between.follow(mx, case, flags, ctx)
        if not same(found, RECORDED[case]):
            wrong[write] = [(a, b) for a, b in zip(found, RECORDED[case], strict=True) if not same(a, b)]
    assert not wrong, "write: (found, MXNet)"


@pytest.mark.parametrize("way", WAYS, indirect=True)
@pytest.mark.parametrize("name", between.NETS)
def test_gradients(name, way):
    expect(name, way)


@pytest.mark.parametrize("updates", ["never", "always"])
def test_steps_of_operators_and_compiled_ones(compiler, updates, monkeypatch):
    monkeypatch.setenv("HYBRIDGPU_FUSED_UPDATES", updates)
    expect("dense", {})


@pytest.mark.parametrize("name", ["dense", "shared"])
def test_gradients_on_a_gpu(name, cuda_driver):
    expect(name, {"static_alloc": True, "static_shape": True}, mx.gpu(0))
