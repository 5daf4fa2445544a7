# SPDX-License-Identifier: Apache-2.0
"""bench/registers.py: predictions of a sample are as near to what ptxas gives as the committed table says of all."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from zlib import crc32

import pytest
from cuda_on_cpu.static_checks import has_nvrtc

BENCH = Path(__file__).resolve().parents[2] / "bench"
RESULTS = sorted((BENCH / "results").glob("registers-*.json"))
ERROR, WRONG = 4, 1 / 4  #: the largest median, and the largest part with a wrong number of blocks


@pytest.fixture(scope="module")
def bench():
    path = list(sys.path)
    sys.path.insert(0, str(BENCH))
    module = importlib.import_module("registers")
    sys.path[:] = path
    return module


@pytest.mark.skipif(not has_nvrtc(), reason="NVRTC is not installed")
def test_a_sample_is_predicted(bench):
    """One graph in eight by its name, in the form that the model prefers."""
    sample = [g for g in bench.graphs("sm_90") if crc32(g[0].encode()) % 8 == 0]
    rows = bench.collect(sample, 1, "sm_90")
    found = bench.summary(rows)
    assert found["kernels"] > 25 and {r.demand.columns for r in rows} == {True, False}
    assert found["median_error"] <= ERROR and found["wrong_blocks"] <= WRONG + 0.05, found  # a sample


@pytest.mark.skipif(not has_nvrtc(), reason="NVRTC is not installed")
def test_other_forms_than_the_preferred_are_collected(bench):
    sample = [g for g in bench.graphs("sm_90") if g[0] == "sum f32 4096"]
    one, two = (bench.collect(sample, forms, "sm_90") for forms in (1, 2))
    assert len(one) == 1 and len(two) == 2


def test_figures_that_are_off_would_be_seen(bench):
    """The summary of what is known: one error of five registers, which costs a block, among three."""
    demand = bench.RegisterDemand(False, 0, 0, 0, 0, False)
    rows = [
        bench.Row("k", 128, demand, g, p, a, b) for g, p, a, b in ((32, 32, 16, 16), (30, 29, 16, 16), (40, 35, 12, 13))
    ]
    found = bench.summary(rows)
    assert (found["median_error"], found["wrong_blocks"]) == (1, 0.333)


def test_a_fit_finds_what_rows_were_made_of(bench):
    from hybridgpu.compiler.target import CUDA

    rows = []
    for kept in (0, 8, 16, 32):
        for loading in (0, 4, 12):
            demand = bench.RegisterDemand(False, kept, 0, loading, 0, False)
            rows.append(bench.Row("k", 128, demand, round(20 + 0.75 * kept + 0.5 * loading), 0, 0, 0))
    found = bench.fit(rows, CUDA)
    assert (found["any"], found["cached"], found["loading"]) == pytest.approx((20, 0.75, 0.5), abs=0.02)


@pytest.mark.parametrize("path", RESULTS, ids=lambda p: p.name)
def test_committed_figures_are_those_of_the_compiler(path, bench):
    known = json.loads(path.read_text())
    assert (known["rows"], known["columns"]) == (bench.ROWS, bench.COLUMNS)
    for found in known["found"].values():
        assert found["median_error"] <= ERROR and found["wrong_blocks"] <= WRONG
