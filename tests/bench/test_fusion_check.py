# SPDX-License-Identifier: Apache-2.0
"""bench/fusion_check.py: what it cuts, what it takes out of a network, and what it says."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from hybridgpu import sym
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.target import CPU

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def fusion_check():
    spec = importlib.util.spec_from_file_location("fusion_check", ROOT / "bench" / "fusion_check.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["fusion_check"] = module  # dataclasses look their module up
    path = list(sys.path)
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path[:] = path
    return module


def test_cut_apart(fusion_check):
    """Two elementwise operators and a pooling are one kernel, or two, whichever of the operators is kept."""
    x = sym.var("data")
    out = sym.Pooling(sym.relu(x * 2.0), kernel=(2, 2), stride=(2, 2), pool_type="max")
    ((_, graph),) = fusion_check.graphs("g", out, {"data": (2, 3, 16, 16)}, "f32", False)
    fused, *parts = (sum(len(compile_graph(g, CPU).steps) for g in v) for v in fusion_check.versions(graph))
    assert fused == 1 and max(parts) == 2


def test_kernels_of_a_graph(fusion_check):
    x = sym.var("data")
    y = sym.Pooling(sym.relu(x), kernel=(2, 2), stride=(2, 2), pool_type="max")
    out = sym.softmax(sym.Flatten(sym.sigmoid(y)))
    ((_, graph),) = fusion_check.graphs("g", out, {"data": (2, 3, 16, 16)}, "f32", False)
    found = list(fusion_check.kernels(graph))
    assert len(found) == 2 and "Pooling" in found[0][0] + found[1][0]
    assert [len(compile_graph(part, CPU).steps) for _, part in found] == [1, 1]


def test_both_passes_of_a_step(fusion_check):
    out = sym.Pooling(sym.relu(sym.var("data")), kernel=(2, 2), stride=(2, 2), pool_type="max")
    found = dict(fusion_check.graphs("g", out, {"data": (2, 3, 16, 16)}, "f32", True))
    shapes = {name: [n.shape for n in graph.outputs] for name, graph in found.items()}
    assert list(shapes) == ["g forward", "g backward"]
    assert shapes["g forward"][0] == (2, 3, 8, 8) and shapes["g backward"] == [(2, 3, 16, 16)]


def test_report(fusion_check, compiler, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(fusion_check, "ROUNDS", 1)
    file = tmp_path / "rows.json"
    options = ["--sizes", "7", "--limit", "1e9", "--json", str(file)]
    assert fusion_check.main(["poolings", "bn+relu max 3x3/2+1", *options]) == 0
    (row,) = json.loads(file.read_text())
    assert row["name"] == "bn+relu max 3x3/2+1 1x7" and row["fused"] > 0 < row["parts"]
    assert "1 timed, 0 slower than their parts" in capsys.readouterr().out
    assert fusion_check.main(["poolings", "bn+relu max 3x3/2+1", "--sizes", "7", "--limit", "-1"]) == 1

    monkeypatch.setattr(fusion_check, "_compared", None)  # nothing is timed again
    assert fusion_check.main(["poolings", "bn+relu max 3x3/2+1", *options]) == 0


def test_results_apart(fusion_check):
    """Two results of a kernel are timed each by itself, too."""
    x = sym.var("data")
    out = sym.Group([sym.relu(x), sym.exp(x)])
    ((_, graph),) = fusion_check.graphs("g", out, {"data": (2, 3)}, "f32", False)
    fused, apart = fusion_check.versions(graph)
    assert [len(compile_graph(g, CPU).outputs) for g in (*fused, *apart)] == [2, 1, 1]


def test_blocks(fusion_check):
    names = [name for name, _ in fusion_check.blocks(("whole", "stem"), False)]
    assert names and {n.split(":")[0] for n in names} == {"whole image", "ceiling stem"}
