# SPDX-License-Identifier: Apache-2.0
"""``hybridgpu calibrate`` on a device: every step comes to figures, and again to nearly the same."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from hybridgpu.cli import main

pytestmark = pytest.mark.gpu


def measured(folder, name):
    file = folder / name
    found = CliRunner().invoke(main, ["calibrate", "--dry-run", "--seconds", "6", "--json", str(file)])
    assert found.exit_code == 0, found.output
    document = json.loads(file.read_text())
    failed = {s["name"]: s["failed"] for s in document["steps"] if s["failed"]}
    failed.pop("barriers of clusters", None)  # before sm_90
    failed.pop("products of a library", None)  # without cuBLASLt
    assert not failed
    return {r["name"]: r["measured"] for r in document["constants"] if r["measured"] is not None}


def test_every_step_comes_to_a_figure_and_again_to_it(gpu, tmp_path):
    one, other = measured(tmp_path, "one.json"), measured(tmp_path, "other.json")
    assert set(one) == set(other)
    differing = {k: (one[k], other[k]) for k in ("clock", "byte_seconds", "memory_seconds", "lanes") if k in one}
    assert all(max(pair) < 1.3 * min(pair) for pair in differing.values()), differing
