# SPDX-License-Identifier: Apache-2.0
"""The profiler: what it counts, what it writes, and that nothing of it stays on the path of a call."""

from __future__ import annotations

import json

import pytest
from emulated import THREAD, install, uninstall
from emulated_arrays import DeviceModule

import hybridgpu as mx
from hybridgpu import autograd, nd, profiler
from hybridgpu.base import MXNetError
from hybridgpu.gluon import nn
from hybridgpu.ndarray.tape import DifferentiableGraph
from hybridgpu.runtime.cached_op import CachedOp
from hybridgpu.runtime.compilation import Compiled


@pytest.fixture(autouse=True)
def stopped(tmp_path):
    profiler.set_config(filename=str(tmp_path / "profile.json"))
    yield
    profiler.start()
    profiler.dump()
    profiler.dumps(reset=True)


@pytest.fixture
def x():
    return nd.ones((4, 3))


def table(**options):
    return json.loads(profiler.dumps(format="json", **options))["Time"]


def counts(category="operator"):
    return {name: row["Count"] for name, row in table(reset=True).get(category, {}).items()}


def test_operators_are_counted(x):
    profiler.start()
    y = nd.sqrt(x) + 1 + 1
    nd.contrib.boolean_mask(y, nd.array([1, 0, 1, 0]))
    profiler.stop()
    nd.sqrt(x)
    found = counts()
    assert found["sqrt"] == 1 and found["_plus_scalar"] == 2 and found["_contrib_boolean_mask"] == 1


class FakeCuda:
    """What the profiler asks of CuPy: the current stream of the current device."""

    def __init__(self):
        self.waited, self.runtime = [], self

    def get_current_stream(self):
        return self

    def synchronize(self):
        self.waited.append(THREAD.device)

    def getDevice(self):  # noqa: N802 - CUDA's name
        return THREAD.device


def test_each_call_waits_for_its_own_device(monkeypatch):
    install(2)
    try:
        ctx, cuda = mx.gpu(1), FakeCuda()
        monkeypatch.setattr(DeviceModule, "cuda", cuda, raising=False)
        net, _ = blocks()
        net.collect_params().reset_ctx(ctx)
        x = nd.ones((4, 3), ctx=ctx)
        profiler.start()
        net(x)
        nd.sqrt(x)
        profiler.stop()
    finally:
        uninstall()
    assert len(cuda.waited) >= 2 and set(cuda.waited) == {1}


def test_derivatives_are_counted(x):
    x.attach_grad()
    profiler.start()
    with autograd.record():
        y = nd.sqrt(x) * 2
    y.backward()
    assert {"sqrt", "_mul_scalar", "_backward_sqrt", "_backward_mul_scalar"} <= set(counts())


def blocks():
    made = [nn.Dense(2, in_units=3, prefix=p) for p in ("left_", "right_")]
    for net in made:
        net.initialize()
        net.hybridize()
    return made


def test_derivatives_that_were_repeated_are_counted(x):
    x.attach_grad()
    for k in range(6):
        if k == 5:
            profiler.start()
        with autograd.record():
            y = nd.sqrt(x)
        y.backward()
    profiler.stop()
    assert counts()["_backward_sqrt"] == 1


def test_graphs_are_counted_under_the_names_of_their_blocks(x):
    left, right = blocks()  # of one structure: they share their programs
    for net in (left, right):
        net(x)
        net(x)  # prepared
    profiler.start()
    for net, calls in ((left, 2), (right, 3)):
        for _ in range(calls):
            net(x)
    with autograd.record():
        y = right(x)
    y.backward()
    profiler.stop()
    assert counts("graph") == {"left": 2, "right": 4, "_backward_right": 1}
    left(x)
    assert counts("graph") == {}


def test_compiled_steps_are_counted(x, monkeypatch, compiler):
    monkeypatch.setenv("HYBRIDGPU_FUSED_UPDATES", "always")
    net, _ = blocks()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd")
    profiler.start()
    for _ in range(2):
        with autograd.record():
            y = net(x)
        y.backward()
        trainer.step(4)
    profiler.stop()
    assert counts("graph") == {"left": 2, "_backward_left": 2, "multi_sgd_update of 2 weights": 2}


@pytest.mark.usefixtures("compiler")
def test_nothing_stays_on_the_path(x):
    net, _ = blocks()
    before = net(x).asnumpy()
    net(x)
    assert net._hg_fast is not None
    own = [
        DifferentiableGraph.run,
        Compiled.results,
        CachedOp.__call__,
        CachedOp.prepared,
        mx.ndarray.apply.run_eagerly,
    ]
    profiler.start()
    assert DifferentiableGraph.run is not own[0]
    assert (net(x).asnumpy() == before).all()
    profiler.stop()
    assert own == [
        DifferentiableGraph.run, Compiled.results, CachedOp.__call__, CachedOp.prepared, mx.ndarray.apply.run_eagerly,
    ]  # fmt: skip
    net(x)
    profiler.dumps(reset=True)
    assert (net(x).asnumpy() == before).all() and net._hg_fast is not None
    assert table() == {}


@pytest.mark.parametrize(
    ("flags", "operators", "graphs"),
    [
        ({}, True, True),
        ({"profile_imperative": False}, False, True),
        ({"profile_symbolic": False}, True, False),
        ({"profile_all": True, "profile_symbolic": False}, True, True),
    ],
)
def test_what_is_chosen(flags, operators, graphs, x, tmp_path):
    net, _ = blocks()
    net(x)
    profiler.set_config(filename=str(tmp_path / "p.json"), **flags)
    profiler.start()
    nd.sqrt(x)
    net(x)
    found = table()
    assert ("sqrt" in found.get("operator", {})) is operators
    assert ("graph" in found) is graphs


def test_pausing(x):
    profiler.start()
    profiler.pause()
    nd.sqrt(x)
    assert counts() == {}
    profiler.resume()
    nd.sqrt(x)
    assert counts() == {"sqrt": 1}
    profiler.pause()
    profiler.set_state("run")  # ends a pause
    nd.sqrt(x)
    assert counts() == {"sqrt": 1}


def test_objects_of_programs(tmp_path):
    profiler.start()
    domain = profiler.Domain("domain")
    task, frame, event = domain.new_task("task"), domain.new_frame("frame"), profiler.Event("event")
    for span in (task, frame, event):
        span.start()
        span.stop()
    with event:
        pass
    counter = domain.new_counter("counter", 3)
    counter += 4
    counter -= 2
    domain.new_marker("marker").mark("global")
    assert (str(domain), str(task), str(counter)) == ("domain", "task", "counter")
    found = table()
    assert {c: list(names) for c, names in found.items()} == {
        "domain": ["task"], "domain,frame": ["frame"], "event": ["event"],
    }  # fmt: skip
    assert found["event"]["event"]["Count"] == 2
    profiler.dump()
    events = json.loads((tmp_path / "profile.json").read_text())["traceEvents"]
    assert [e["args"]["counter"] for e in events if e["ph"] == "C"] == [3, 7, 5]
    assert [(e["name"], e["s"]) for e in events if e["ph"] == "i"] == [("marker", "g")]
    assert [e["name"] for e in events if e["ph"] == "X"] == ["task", "frame", "event", "event"]
    assert all(e["dur"] >= 0 and e["ts"] > 1e15 for e in events if e["ph"] == "X")


def test_a_trace_grows_until_it_is_finished(x, tmp_path):
    def names():
        events = json.loads((tmp_path / "profile.json").read_text())["traceEvents"]
        return [e["name"] for e in events if e["ph"] == "X"]

    profiler.start()
    nd.sqrt(x)
    profiler.dump(False)
    assert names() == ["sqrt"]
    nd.exp(x)
    profiler.dump()
    assert names() == ["sqrt", "exp"]
    with pytest.raises(MXNetError, match="Profiler hasn't been run"):
        profiler.dump()
    profiler.start()
    nd.cos(x)
    profiler.dump()
    assert names() == ["cos"]
    assert [p.name for p in tmp_path.iterdir()] == ["profile.json"]


@pytest.mark.parametrize("ascending", [False, True])
@pytest.mark.parametrize(("sort_by", "column"), [("total", "Total"), ("avg", "Avg"), ("min", "Min"), ("max", "Max"), ("count", "Count")])  # fmt: skip
def test_sorting(sort_by, column, ascending, x):
    profiler.start()
    for k, function in enumerate((nd.sqrt, nd.exp, nd.cos, nd.sin)):
        for _ in range(k + 1):
            function(x)
    values = [row[column] for row in table(sort_by=sort_by, ascending=ascending)["operator"].values()]
    assert len(values) == 4 and values == sorted(values, reverse=not ascending)


def test_the_table(x):
    profiler.start()
    with profiler.scope("encoder:"):
        nd.sqrt(x)
    text = profiler.dumps(reset=True)
    assert "operator\n" in text and "Total Count" in text
    (line,) = [line for line in text.splitlines() if line.startswith("encoder:sqrt")]
    assert len(line.split()) == 6 and line.split()[1] == "1"
    assert "encoder" not in profiler.dumps()


class Twice(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], in_data[0] * 2)

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0] * 2)


@mx.operator.register("profiled_twice")
class TwiceProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, in_shapes, in_dtypes):
        return Twice()


def test_custom_operators(x):
    x.attach_grad()
    profiler.start()
    with autograd.record():
        y = nd.Custom(x, op_type="profiled_twice")
    y.backward()
    found = counts("Custom Operator")
    for name in ("profiled_twice", "_backward_profiled_twice"):
        assert found[f"{name}::pure_python"] == found[f"{name}::_mul_scalar"] == 1


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: profiler.set_config(foo=1), MXNetError),
        (lambda: profiler.set_state("bla"), KeyError),
        (lambda: profiler.pause(profile_process="x"), KeyError),
        (lambda: profiler.dumps(format="xml"), AssertionError),
        (lambda: profiler.dumps(sort_by="name"), AssertionError),
        (lambda: profiler.Marker(profiler.Domain("d"), "m").mark("zz"), MXNetError),
    ],
)
def test_wrong_calls(call, error):
    with pytest.raises(error):
        call()


def test_deprecated_names(tmp_path):
    with pytest.warns(UserWarning, match="deprecated"):
        profiler.profiler_set_config("all", str(tmp_path / "old.json"))
    with pytest.warns(UserWarning, match="deprecated"):
        profiler.profiler_set_state("run")
    with pytest.warns(UserWarning, match="deprecated"):
        profiler.dump_profile()
    assert (tmp_path / "old.json").exists()
