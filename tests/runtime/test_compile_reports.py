# SPDX-License-Identifier: Apache-2.0
"""What is said of compilation: explain, compile_report, HYBRIDGPU_DEBUG and HYBRIDGPU_DUMP."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from runtime.small_nets import chain, deep

import hybridgpu as mx
from hybridgpu.cache.disk_cache import reset_default_store

nd, nn = mx.nd, mx.gluon.nn
pytestmark = [pytest.mark.usefixtures("compiler"), pytest.mark.optimised]


def test_explain():
    net = deep()
    net.hybridize()
    with pytest.raises(TypeError):
        net.explain(3, y=2)
    report = net.explain(nd.ones((5, 8)))
    assert report.target == "cpu" and report.compile_seconds > 0 and isinstance(report.cache_hit, bool)
    assert report.kernels
    for k in report.kernels:
        assert k.name and k.kind in ("map", "reduce", "rows", "columns", "matmul")
        assert k.operators and k.source.startswith("// computes\n")
        assert 0 < k.bytes_min <= k.bytes_moved
    names = {o for k in report.kernels for o in k.operators} | {c.operator for c in report.library_calls}
    # a row of the report for every node of the graph
    assert {"dense0_fwd", "dense0_tanh_fwd", "dense1_fwd"} <= names
    for c in report.refusals:
        assert c.producer and c.consumer and c.rule and c.reason and c.reason in str(c)
    text = str(report)
    assert all(k.name in text for k in report.kernels) and text == repr(report)
    assert report.bytes_min <= report.bytes_moved and "are needed" in text
    assert report.source().count("// computes") == len(report.kernels)


def test_explain_needs_hybridize():
    with pytest.raises(RuntimeError, match=r"is not hybridized: call hybridize\(\) before explain\(\)"):
        deep().explain(nd.ones((5, 8)))


def test_explain_says_that_a_forward_of_ones_own_has_no_graph():
    class Eager(mx.gluon.nn.HybridSequential):
        def forward(self, x):
            return mx.nd.relu(super().forward(x))  # what it calls is compiled

    class Python(mx.gluon.HybridBlock):
        def forward(self, x):
            return mx.nd.relu(x)

    class Beside(Python):
        def hybrid_forward(self, F, x):
            return F.relu(x)

    inside, outside = Eager(prefix="inside_"), Python(prefix="outside_")
    inside.add(mx.gluon.nn.HybridLambda("tanh"))
    inside.hybridize()
    outside.hybridize()
    assert len(inside.explain(mx.nd.ones((2, 3))).kernels) == 1
    assert len(outside.explain(mx.nd.ones((2, 3))).kernels) == 1  # alone, it is traced
    beside = Beside(prefix="beside_")
    beside.hybridize()
    with pytest.raises(
        RuntimeError, match=r"beside has no graph to explain: Beside overrides forward beside hybrid_forward"
    ):
        beside.explain(mx.nd.ones((2, 3)))


def test_explain_needs_inputs():
    net, x = chain(1000)
    net(x)
    with pytest.raises(TypeError, match=r"needs the inputs of a call.*write net.explain\(x\)"):
        net.explain()


def test_explain_of_one_fused_kernel():
    net, x = chain(1000)
    report = net.explain(x)
    assert len(report.kernels) == 1 and not report.refusals and not report.library_calls
    assert report.bytes_moved == report.bytes_min == 2 * 4 * 1000
    assert "small_nets.py" in report.kernels[0].source, "the user's lines are shown"


def test_compile_report_says_what_changed():
    net = nn.HybridLambda(lambda F, x: F.cosh(x) - 0.125, prefix="reported_")
    net.hybridize()
    for x in (nd.ones((2, 3)), nd.ones((2, 3)), nd.ones((4, 3)), nd.ones((4, 3), dtype="float64")):
        net(x)
    with mx.autograd.train_mode():
        net(nd.ones((2, 3)))
    events = [e for e in mx.compile_report().events if e.name.startswith("reported")]
    reasons = [e.reason for e in events]
    assert reasons[0] == "first call"
    assert "axis 0: (2, 3) -> (4, 3)" in reasons[1]
    assert "data: f32[4,3]@cpu(0) -> f64[4,3]@cpu(0)" in reasons[2]
    assert "training: False -> True" in reasons[3]
    assert all(e.target == "cpu" and e.kernels == 1 for e in events)
    text = str(mx.compile_report())
    assert "signatures" in text and "reported" in text


def test_compile_report_says_since_when_a_call_is_the_first():
    net = nn.HybridSequential(prefix="again_")
    net.add(nn.HybridLambda("tanh"))
    net.hybridize()
    for change, dtype in (
        (lambda: None, "float32"),
        (lambda: net.hybridize(numeric="fast"), "float32"),
        (lambda: net.add(nn.HybridLambda("sin")), "float32"),
        (lambda: net.cast("float64"), "float64"),
        (lambda: setattr(net, "hybrid_forward", lambda F, x: F.exp(x)), "float64"),
        (lambda: net.hybridize(static_alloc=True, numeric="strict", clear=False), "float32"),
    ):
        change()
        net(nd.ones((2, 3), dtype=dtype))
    assert [e.reason for e in mx.compile_report().events if e.name.startswith("again")] == [
        "first call",
        "first call since hybridize()",
        "first call since a child was added",
        "first call since cast()",
        "first call since hybrid_forward was assigned",
        "first call since hybridize()",
    ]


@pytest.mark.parametrize("mode", [mx.autograd.pause, mx.autograd.record])
def test_a_dimension_that_keeps_changing_is_named_once_where_the_net_is_called(mode, tmp_path, monkeypatch, compiler):
    """… and what to do, if each size calls for a compiler: here how wide the planes of a convolution are."""
    monkeypatch.setenv("HYBRIDGPU_CACHE_DIR", str(tmp_path))
    reset_default_store()
    net = nn.Conv1D(1, 3, in_channels=1, prefix="grown_")
    net.initialize()
    net.hybridize()
    with mode(), pytest.warns(UserWarning, match=r"axis 2 of data keeps changing.* Pad it to a few sizes") as caught:
        for n in range(6, 26):
            net(nd.ones((1, 1, n)))
    reset_default_store()
    assert [w.filename for w in caught] == [__file__]


@pytest.mark.filterwarnings("error")
def test_no_word_of_a_dimension_that_costs_no_compiler():
    """A batch of any size, and rows of any length, have the kernels of the first."""
    net = nn.HybridLambda(lambda F, x: F.softmax(x * 3), prefix="served_")
    net.hybridize()
    for n in range(1, 40):
        net(nd.ones((n, 8)))
    for n in range(65, 110):
        net(nd.ones((8, n if n % 16 else 65)))


PROGRAM = """
import hybridgpu as mx
from hybridgpu.cache.disk_cache import reset_default_store
net = mx.gluon.nn.HybridSequential(prefix="dumped_")
with net.name_scope():
    net.add(mx.gluon.nn.Dense(4, activation="relu", in_units=3), mx.gluon.nn.HybridLambda("softmax"))
net.initialize(); net.hybridize()
net(mx.nd.ones((2, 3)))
"""


def program(tmp_path, **env):
    settings = {**os.environ, "HYBRIDGPU_CACHE_DIR": str(tmp_path / "cache"), **env}
    settings["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    out = subprocess.run([sys.executable, "-c", PROGRAM], env=settings, capture_output=True, text=True, check=False)
    assert out.returncode == 0, out.stderr
    return out


LEVELS = {
    "0": ([], ["hybridgpu:"]),
    "1": (["dumped", "kernel", "module compiled", "first call"], ["moves", "graph dumped", "#include"]),
    "2": (["moves", " B", "are needed"], ["0.000", "graph dumped", "#include"]),
    "3": (["graph dumped"], ["#include"]),
    "4": (["graph dumped", "#include"], []),
    "yes": (["module compiled"], ["moves"]),
    "Off": ([], ["hybridgpu:"]),
}


@pytest.mark.long_table
@pytest.mark.parametrize("level", LEVELS)
def test_debug_levels(level, tmp_path):
    said = program(tmp_path, HYBRIDGPU_DEBUG=level).stderr
    there, absent = LEVELS[level]
    assert [t for t in there if t not in said] == [] and [t for t in absent if t in said] == []


def test_dump(tmp_path):
    program(tmp_path, HYBRIDGPU_DUMP=str(tmp_path / "dump"))
    (folder,) = (tmp_path / "dump").iterdir()
    names = {p.name for p in folder.iterdir()}
    assert {"00_symbol.json", "01_lowered.txt", "passes.txt", "plan.json", "program.cpp"} <= names
    stages = {n.split("_", 1)[1] for n in names if n[:2].isdigit()}  # their numbers follow the table of passes
    assert {"symbol.json", "lowered.txt", "fuse.txt", "schedule.txt"} <= stages
    kernels = [n for n in names if n.startswith("kernel_") and n.endswith(".cpp")]
    assert kernels and all("// computes" in (folder / n).read_text() for n in kernels)
    assert json.loads((folder / "plan.json").read_text())["steps"]
    graph = json.loads((folder / "00_symbol.json").read_text())
    assert [n["name"] for n in graph["nodes"] if n["op"] != "null"][0] == "dumped_dense0_fwd"
    assert "dot" in (folder / "01_lowered.txt").read_text()


def test_a_folder_that_cannot_be_made(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("HYBRIDGPU_DUMP", str(tmp_path / "file"))
    net = mx.gluon.nn.Dense(2)
    net.initialize()
    net.hybridize()
    with pytest.raises(mx.MXNetError, match=r"^HYBRIDGPU_DUMP=.*file: Not a directory. Name a folder"):
        net(mx.nd.ones((1, 3)))
