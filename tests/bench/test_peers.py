# SPDX-License-Identifier: Apache-2.0
"""bench/peers.py: every workload is the same mathematics in every library, and the worker's protocol."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hybridgpu as mx

BENCH = Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))
import peer_workloads as workloads  # noqa: E402

SMALL = {"normalise": 3, "gelu": 3, "softmax": 128, "norm": 128, "lenet": 2, "resnet": 1}


@pytest.mark.parametrize("workload", workloads.FUNCTIONS)
def test_a_workload_is_the_same_in_gluon(workload, monkeypatch):
    monkeypatch.setattr(workloads, "ELEMENTS", 1 << 12)
    x, parameters = workloads.data(workload, SMALL[workload])
    operators = workloads.GluonOperators([mx.nd.array(p) for p in parameters], [p.shape for p in parameters], mx.nd)
    got = workloads.FUNCTIONS[workload](operators, mx.nd.array(x)).asnumpy()
    np.testing.assert_allclose(got, workloads.exact(workload, SMALL[workload]), 1e-4, 1e-4)


def test_every_workload_has_sizes_and_a_title():
    assert set(workloads.SIZES) == set(workloads.TITLES) == set(workloads.FUNCTIONS)


def test_worker(compiler):
    """All ways of hybridgpu compute LeNet rightly, and are timed; what cannot run says why."""
    command = [sys.executable, str(BENCH / "peer_worker.py"), "hybridgpu", "cpu"]
    environment = {**os.environ, "PYTHONPATH": str(BENCH.parent)}
    messages = [
        {"do": "hello"},
        {"do": "prepare", "workload": "lenet", "size": 1},
        {"do": "time", "mode": "static", "calls": 2, "wait": True},
        {"do": "prepare", "workload": "none", "size": 1},
    ]
    text = "".join(json.dumps(m) + "\n" for m in messages)
    run = subprocess.run(command, input=text, capture_output=True, text=True, env=environment, timeout=300, check=True)
    hello, prepared, timed, unknown = map(json.loads, run.stdout.splitlines())
    assert hello["modes"] == ["eager", "hybridized", "static"] and "hybridgpu" in hello["versions"]
    assert prepared["modes"] == dict.fromkeys(hello["modes"])
    assert timed["us"] > 0 and timed["cpu"] > 0
    assert unknown == {"error": "ValueError: there is no workload none"}
