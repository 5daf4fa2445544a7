# SPDX-License-Identifier: Apache-2.0
"""How reports are printed: equal reasons once, and words for where a program came from."""

from __future__ import annotations

import pytest

from hybridgpu import autograd, gluon, nd
from hybridgpu.cache.disk_cache import reset_default_store
from hybridgpu.gluon import nn, rnn
from hybridgpu.runtime import compilation, compile_report
from hybridgpu.runtime.reports.events import CompileEvent, CompileReport
from hybridgpu.runtime.reports.explain import Explanation, Refusal, _refusal_lines


@pytest.mark.parametrize(
    ("lines", "folded"),
    [
        ([], []),
        (["a | b: x"], ["a | b: x"]),
        (["a | b: x"] * 3, ["a | b  × 3: x"]),
        (["a | b: x", "c | d: y", "a | b: x"], ["a | b  × 2: x", "c | d: y"]),
        (["a | b: x", "c | d: y", "e | f: x"], ["a | b; e | f: x", "c | d: y"]),
        ([f"{k} | b: x" for k in "acdefg"], ["a | b; c | b; d | b; e | b and 2 more: x"]),
        (["t0_out | t1: x", "a | b: x", "t1_out | t2: x"], ["t0_out | t1  × 2, with other numbers; a | b: x"]),
        (["a | b: 5 times", "a | b: 6 times"], ["a | b: 5 times", "a | b: 6 times"]),
        (["a | b: sum of conv1", "c | d: sum of pool2"], ["a | b: sum of conv1", "c | d: sum of pool2"]),
        (
            [f"a | b: sum of x{k}" for k in "11234"],
            [f"{'a | b  × 2' if k == 1 else 'a | b'}: sum of x{k}" for k in (1, 2, 3, 4)],
        ),
        ([f"{k} | b: sum of x{k}" for k in range(5)], ["0 | b: sum of x0  × 5, with other names"]),
    ],
    ids=["none", "one", "equal", "between", "reason", "many", "names", "numbers", "two", "few", "others"],
)
def test_equal_reasons_are_one_line(lines, folded):
    cuts = [Refusal(*pair.split(" | "), "rule", reason) for pair, reason in (line.split(": ") for line in lines)]
    assert _refusal_lines(cuts) == folded


@pytest.mark.parametrize("make", [rnn.LSTM, rnn.GRU, rnn.RNN])
def test_a_recurrent_layer(make, compiler):
    net = make(4, num_layers=2, input_size=3)
    net.initialize()
    net.hybridize()
    x = nd.ones((5, 2, 3))
    net(x)
    report = net.explain(x)  # states left out, as in the call
    lines = str(report).splitlines()
    cuts = lines[lines.index("  not fused:") + 1 :]
    assert len(set(cuts)) == len(cuts) < len(report.refusals)
    assert any("  × " in line for line in cuts)
    assert "0 library calls, 2 loops, " in lines[0] and "  loop  " in "".join(lines)
    assert any("a loop leaves its result in memory" in line for line in cuts)
    states = net.begin_state(2)
    assert len(net(x, states)) == 2 and net.explain(x, states).kernels


def test_layers_that_share_a_kernel_have_their_own_names(compiler):
    net = nn.HybridSequential(prefix="twins_")
    net.add(*(nn.Dense(6, in_units=6, activation="tanh", prefix=f"layer{k}_") for k in range(3)))
    net.initialize()
    net.hybridize()
    report = net.explain(nd.ones((3, 6)))
    assert len({k.name for k in report.kernels}) == 1, "the test needs kernels that are alike"
    assert [k.operators for k in report.kernels] == [(f"layer{k}_fwd", f"layer{k}_tanh_fwd") for k in range(3)]
    assert all(f"layer{k}_fwd" in report.kernels[k].source for k in range(3))
    plan = report.program
    again = type(plan).from_bytes(plan.to_bytes())
    assert [s.operators for s in again.steps] == [s.operators for s in plan.steps]


def test_parts_of_one_operator_are_told_apart(compiler):
    net = nn.LayerNorm(axis=1, in_channels=8000, prefix="norm_")
    net.initialize()
    net.hybridize()
    report = net.explain(nd.ones((4, 8000, 300)))
    shown = {(c.producer, c.consumer) for c in report.refusals}
    assert shown and all(a != b for a, b in shown)
    assert any(name.endswith(" of norm_layernorm0") for pair in shown for name in pair)


@pytest.fixture
def own_cache(monkeypatch, tmp_path):
    """An empty cache on disk; gives what makes the process forget its programs."""
    monkeypatch.setenv("HYBRIDGPU_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("HYBRIDGPU_CACHE", "1")
    reset_default_store()

    def forget():
        monkeypatch.setattr(compilation, "_memory", {})

    forget()
    yield forget
    monkeypatch.undo()
    reset_default_store()


def test_where_a_program_came_from(compiler, own_cache):
    def first_line(batch):
        net = nn.Dense(7, in_units=5, prefix="where_")
        net.initialize()
        net.hybridize()
        return str(net.explain(nd.ones((batch, 5)))).splitlines()[0]

    assert "compiled in " in first_line(12)
    assert "planned with known kernels in " in first_line(13)
    own_cache()
    assert "found in the cache and loaded in " in first_line(12)


def test_without_a_compiler():
    class Interpreted:
        seconds, described, reason = 0.25, None, "its program is being compiled"

    said = str(Explanation("net", Interpreted()))
    assert "prepared in 250.0 ms\nNumPy runs the graph operator by operator: its program is being compiled" in said


@pytest.mark.parametrize(
    ("modules", "cache", "shown", "meaning"),
    [
        (1, "none", "  compiled  ", None),
        (0, "disk", "  from disk  ", "from disk: the program was in the cache on disk; the time went into reading and loading it"),
        (0, "none", "  planned      ", "planned: its kernels were known, in this process or on disk, so no compiler ran; the time went into planning it"),
        (0, "background", "  not yet  ", None),
    ],
)  # fmt: skip
def test_the_report_says_what_the_time_was_for(modules, cache, shown, meaning):
    event = CompileEvent("net", "f32[2]", "cpu", "first call", 1, modules, cache, 0.001)
    lines = str(CompileReport([event, event])).splitlines()
    assert all(shown in line for line in lines[1:3])
    assert lines[3:] == ([meaning] if meaning else [])


def test_the_report_without_a_compiler():
    event = CompileEvent("net", "f32[2]", "reference", "first call", 0, 0, "none", 0.001)
    _, line, meaning = str(CompileReport([event])).splitlines()
    assert "  for NumPy  " in line
    assert meaning == "for NumPy: no compiler ran; NumPy runs the graph operator by operator"


@pytest.mark.as_shipped  # what is not optimised is one unit
def test_the_report_names_what_was_compiled(compiler, own_cache):
    """Kernels that another program, or the cache, has are not among it."""

    class Chain(gluon.HybridBlock):
        def __init__(self, steps):
            super().__init__()
            self.steps = steps

        def hybrid_forward(self, F, x):
            return [F.sum(F.slice_axis(x, axis=1, begin=0, end=n) ** n, axis=1) for n in range(2, self.steps)]

    def named(steps):
        net = Chain(steps)
        net.hybridize()
        net(nd.ones((3, 40)))
        event = compile_report().events[-1]
        kernels = [k.name for k in net.explain(nd.ones((3, 40))).kernels]
        return kernels, event.compiled_kernels, str(CompileReport([event])).splitlines()

    own_cache()
    first, compiled, lines = named(16)
    assert len(first) == 14 and sorted(compiled) == sorted(first)
    assert lines[2] == f"    {', '.join(compiled[:8])} and 6 more"
    more, added, lines = named(17)
    assert set(more) - set(first) <= set(added) < set(more), "units of the kernels that are new"
    own_cache()
    assert not named(5)[1], "small programs find them, too"


def test_parts_of_a_join_are_said_to_be_of_the_join(compiler):
    """Not of the convolution behind it, which asks for the copy."""

    class Branches(gluon.HybridBlock):
        def __init__(self):
            super().__init__(prefix="net_")
            with self.name_scope():
                self.left, self.right, self.after = (nn.Conv2D(8, k, padding=k // 2) for k in (1, 3, 3))

        def hybrid_forward(self, F, x):
            return self.after(F.concat(F.relu(self.left(x)), F.relu(self.right(x)), dim=1))

    net = Branches()
    net.initialize()
    net.hybridize()
    report = net.explain(nd.ones((2, 8, 8, 8)))
    parts = [k for k in report.kernels if "writes" in k.choice]
    assert [k.choice["writes"] for k in parts] == ["writes its part of net_concat0"] * 2
    assert all("net_conv2_fwd" not in k.operators for k in parts)


def test_a_product_says_what_it_computes_as_it_loads(compiler):
    """The Embedding in front, and of the product's own operator the primitive, not its name alone."""
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Embedding(30, 16), rnn.LSTM(8, layout="NTC", input_size=16))
    net.initialize()
    net.hybridize()
    notes = [k.note for k in net.explain(nd.ones((4, 9))).kernels if "as it loads" in k.note]
    assert notes[0] == (
        "18,432 multiplications take less than copying the operands; "
        "computes Embedding net_embedding0_fwd and copy of RNN net_lstm0_rnn0 as it loads it"
    )


@pytest.mark.parametrize("draws", [False, True])
def test_operators_in_a_loop_are_named(draws):
    def function(F, x):
        def step(row, states):
            y = F.tanh(row, name="inner")
            return F.Dropout(y, p=0.5, mode="always") if draws else y, states

        return F.contrib.foreach(step, x, [])[0]

    net = nn.HybridLambda(function)
    net.hybridize()
    x = nd.ones((3, 4))
    net(x)
    report = net.explain(x)
    assert "hybridlambda0_inner" in {name for kernel in report.kernels for name in kernel.operators}
    assert [k.note for k in report.kernels if "hybridlambda0_inner" in k.operators] == [
        "at every step of hybridlambda0__foreach0"
    ]


def test_reads_in_different_orders_name_what_is_read(compiler):
    def products(F, x):
        def heads(y):
            y = F.transpose(F.reshape(y, (0, 0, 2, -1)), (0, 2, 1, 3))
            return F.reshape(y, (-3, 0, 0))

        return F.batch_dot(*map(heads, F.split(x, 2, axis=-1)), transpose_b=True)

    net = nn.HybridSequential(prefix="net_")
    net.add(nn.Dense(12, flatten=False, in_units=4, prefix="net_dense0_"), nn.HybridLambda(products))
    net.initialize()
    net.hybridize()
    cuts = map(str, net.explain(nd.ones((3, 5, 4))).refusals)
    assert any(line.endswith(" read FullyConnected net_dense0_fwd in different orders") for line in cuts)


def test_a_recorded_call_is_explained_with_its_backward_pass():
    net = nn.Dense(2, in_units=3, activation="relu", prefix="recorded_")
    net.initialize()
    net.hybridize()
    x = nd.ones((4, 3))
    alone = net.explain(x)
    with autograd.record():
        report = net.explain(x)
        before = len(compile_report().events)
        net(x).backward()
    assert len(compile_report().events) == before, "what was explained is what runs"
    assert report.forward.name == "recorded" and report.backward.name == "recorded_backward"
    assert report.kernels == report.forward.kernels + report.backward.kernels
    assert report.bytes_moved == report.forward.bytes_moved + report.backward.bytes_moved > alone.bytes_moved
    lines = str(report).splitlines()
    assert lines[0] == "recorded: 2 programs, for the recorded call and for backward()"
    assert lines[1].startswith("recorded on cpu: ")
    assert any(line.startswith("recorded_backward on cpu: ") for line in lines)


def test_a_recorded_call_that_wants_no_gradient():
    """What an argument knows of gradients has it recorded; a sign has none to pass on."""
    net = nn.HybridLambda(lambda F, x: F.sign(F.BlockGrad(x)), prefix="blocked_")
    net.hybridize()
    x = nd.ones((4, 3))
    x.attach_grad()
    with autograd.record():
        report = net.explain(x)
    assert str(report).splitlines()[0] == "blocked: 1 program, for the recorded call; nothing wants a gradient"
    assert report.backward is None and report.kernels == report.forward.kernels


def test_stages_of_a_recorded_call_have_two_programs_each():
    net = nn.HybridLambda(lambda F, x, kept: F.tanh(F.contrib.boolean_mask(F.exp(x), kept)), prefix="stages_")
    net.hybridize()
    x, kept = nd.ones((4, 3)), nd.array([1, 0, 1, 0])
    x.attach_grad()
    with autograd.record():
        report = net.explain(x, kept)
        before = len(compile_report().events)
        y = net(x, kept)
    y.backward()
    assert len(compile_report().events) == before
    stage = ["stages stage", "stages stage_backward"]
    assert [part.name for part in report.parts] == [*stage, "_contrib_boolean_mask", *stage]
    assert str(report).startswith("stages: 4 programs, since some operators cannot be part of one\n")


def test_a_report_of_a_recorded_call_waits_for_the_programs():
    net = nn.Dense(2, in_units=3, prefix="later_")
    net.initialize()
    net.hybridize(background=True)
    with autograd.record():
        report = net.explain(nd.ones((5, 3)))
    assert report.forward.program is not None and report.backward.program is not None
