# SPDX-License-Identifier: Apache-2.0
"""Names in programs: nets of one structure share them, and each is shown with its own names."""

from __future__ import annotations

import contextlib
import io
import itertools
import re

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import autograd, gluon, nd
from hybridgpu.cache.disk_cache import default_store, reset_default_store
from hybridgpu.core.name_table import _MARK, GRAPH, NameTable, input_placeholder, name_placeholder, place_placeholder
from hybridgpu.gluon import nn, rnn
from hybridgpu.runtime import compilation, recorded_program

pytestmark = pytest.mark.usefixtures("compiler")


@pytest.fixture
def forget(monkeypatch, tmp_path):
    """An empty cache on disk; gives what makes the process forget its programs."""
    monkeypatch.setenv("HYBRIDGPU_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("HYBRIDGPU_CACHE", "1")
    reset_default_store()

    def forget():
        monkeypatch.setattr(compilation, "_memory", {})
        monkeypatch.setattr(recorded_program, "_memory", {})

    forget()
    yield forget
    monkeypatch.undo()
    reset_default_store()


# -- nets, made again under each prefix


def sequential(*layers):
    def make(prefix):
        net = nn.HybridSequential(prefix=prefix)
        with net.name_scope():
            net.add(*[layer() for layer in layers])
        return net

    return make


class Block(gluon.HybridBlock):
    """A function with a layer and a parameter whose name is no identifier."""

    def __init__(self, function, prefix):
        super().__init__(prefix=prefix)
        self._function = function
        with self.name_scope():
            self.layer = nn.Dense(6, flatten=False, in_units=6)
            self.scale = self.params.get("scale of.it", shape=(6,), init="ones")

    def hybrid_forward(self, F, x, scale):
        return self._function(F, self.layer(x), scale)


def block(function):
    return lambda prefix: Block(function, prefix)


NETS = {
    "layers": (sequential(lambda: nn.Dense(8, activation="relu"), nn.BatchNorm, lambda: nn.Dropout(0.5)), (4, 6)),
    "convolutions": (sequential(lambda: nn.Conv2D(4, 3), nn.BatchNorm, nn.MaxPool2D, nn.Flatten), (2, 3, 8, 8)),
    "recurrent": (lambda prefix: rnn.GRU(5, prefix=prefix, input_size=6), (3, 2, 6)),
    "a library step": (block(lambda F, x, s: F.topk(F.broadcast_mul(x, s), k=2)), (4, 6)),
    "a loop": (
        block(lambda F, x, s: F.contrib.foreach(lambda a, h: (F.tanh(a + h), F.exp(-h) * a), x, F.relu(s))[0]),
        (4, 6),
    ),
    "stages": (block(lambda F, x, s: F.contrib.boolean_mask(F.broadcast_mul(x, s), F.ones((4,))) * 2), (4, 6)),
}


def told(net, x):
    """All that tells of a net: reports, sources, printed graphs, with and without recording."""
    found = []
    for recorded in (False, True):
        with autograd.record() if recorded else contextlib.nullcontext():
            report = net.explain(x)
        for part in getattr(report, "parts", [report]):
            plan = getattr(part, "program", None)
            if plan is not None:
                assert not any(_MARK in k.text for k in plan.kernels) and _MARK not in plan.source
                found.append(repr([plan.name, plan.graph, plan.refusals, plan.folded_values, plan.steps, plan.prelude]))
                found.append(repr([(k.name, k.operators, k.choice) for k in plan.kernels]))
        found += [str(report), report.source()]
    return re.sub(
        r"(compiled|prepared|planned with known kernels|found in the cache and loaded) in [\d.]+ ms",
        "",
        "\n".join(found),
    )


def made(name, prefix, **flags):
    make, shape = NETS[name]
    net = make(prefix)
    net.initialize(mx.init.One())
    x = nd.ones(shape)
    net(x)  # settles shapes
    net.hybridize(**flags)
    net(x)
    return net, x


@pytest.mark.long_table
@pytest.mark.parametrize("where", ["memory", "disk", "numpy"])
@pytest.mark.parametrize("name", NETS)
def test_a_net_is_shown_with_its_own_names(name, where, forget, monkeypatch):
    """Whichever net its programs were made for, and whether it is met in memory or on disk."""
    if where == "numpy":
        monkeypatch.setenv("HYBRIDGPU_CXX", "none")
    alone = told(*made(name, "second_"))
    forget()
    default_store().clear()
    first = told(*made(name, "the_first_net_"))
    assert "the_first_net_" in first or where == "numpy"
    if where == "disk":
        forget()
    second = told(*made(name, "second_"))
    assert "the_first" not in second and _MARK not in second
    assert second == alone


def test_lines_of_the_user_that_move(forget):
    """Programs are found again when a script is edited, and tell of the lines as they are now."""

    def at(line):
        scope = {"sym": mx.sym, "x": mx.sym.var("x")}
        exec(compile("\n" * line + "y = sym.exp(x)\ny = sym.softmax(y) * 2", "moved.py", "exec"), scope)
        types = [nd.ones((4, 5))._type.tensor]
        return compilation.compiled(scope["y"], types, False, mx.cpu())

    assert at(9).cache == "none"
    for again in range(2):
        found = at(99)
        assert found.cache == ("disk" if again else "none")
        text = repr(found.described)
        assert "moved.py:100" in text and "moved.py:101" in text and "moved.py:1'" not in text
        forget()


def train(net, x):
    net.initialize(mx.init.One())
    net.hybridize()
    net(x)
    with autograd.record():
        y = net(x).sum()
    y.backward()
    return y


def test_equal_nets_with_automatic_names_leave_the_entries_of_one(forget):
    """A hyperparameter search pushes nothing out of the caches."""
    layers = sequential(lambda: nn.Dense(8, activation="relu"), nn.BatchNorm, lambda: nn.Dense(3))
    x, counts = nd.ones((4, 5)), []
    for _ in range(3):  # from the third time on eager calls are plans
        train(layers(None), x)
    for k in range(8):
        train(layers(None), x)
        counts.append((default_store().usage().entries, len(compilation._memory), len(recorded_program._memory)))
        if k == 4:
            forget()  # as another process
    assert counts[0] == counts[4] and counts[5] == counts[7]
    assert {entries for entries, *_ in counts} == {counts[0][0]}
    assert [made.symbol._heads for made in recorded_program._memory.values()] == [[]]  # nobody's graph is held


def variables(n="xyw"):
    return [mx.sym.var(name) for name in n]


def twice_the_first(a, b, c):
    return mx.sym.FullyConnected(mx.sym.FullyConnected(a, b, no_bias=True, num_hidden=4), b, no_bias=True, num_hidden=4)


def one_each(a, b, c):
    return mx.sym.FullyConnected(mx.sym.FullyConnected(a, b, no_bias=True, num_hidden=4), c, no_bias=True, num_hidden=4)


DIFFERENT = {  # graphs that have a program of their own, of three inputs
    "sum": lambda a, b, c: (a - b) * c,
    "order of operands": lambda a, b, c: (a - b) * a,
    "the other order": lambda a, b, c: (a - b) * b,
    "order of arguments": lambda a, b, c: c * (a - b),
    "operator": lambda a, b, c: (a + b) * c,
    "attribute": lambda a, b, c: mx.sym.clip(a - b, 0, 1) * c,
    "another attribute": lambda a, b, c: mx.sym.clip(a - b, 0, 2) * c,
    "shared": twice_the_first,
    "not shared": one_each,
    "heads": lambda a, b, c: mx.sym.Group([(a - b) * c, a - b]),
    "heads the other way": lambda a, b, c: mx.sym.Group([a - b, (a - b) * c]),
    "a result twice": lambda a, b, c: mx.sym.Group([(a - b) * c] * 2),
}


def test_what_two_graphs_share():
    """Two that differ in names alone have one program; any others have their own."""
    types = [nd.ones((4, 4))._type.tensor] * 3
    found = {}
    for names in ("xyw", "pqr"):
        for number, (kind, make) in enumerate(DIFFERENT.items()):
            with mx.name.Prefix(f"{names}{number}_"), mx.AttrScope(lr_mult=str(len(found))):
                symbol = make(*variables(names))
            n = len(symbol.list_inputs())
            found.setdefault(kind, []).append(compilation.compiled(symbol, types[:n], False, mx.cpu()))
    for one, other in found.values():
        assert one.loaded is other.loaded
        for shared, names in ((one, "xyw"), (other, "pqr")):
            assert set(re.findall(r"(\w+): f32", shared.described.graph)) <= set(names)
    for (a, _), (b, _) in itertools.combinations(found.values(), 2):
        assert a.loaded is not b.loaded


def dense(**options):
    return nn.Dense(4, in_units=4, **options)


def frozen(which):
    def change(net):
        getattr(net, which).grad_req = "null"

    return change


CHANGES = {
    "trained": lambda net: None,
    "frozen weight": frozen("weight"),
    "frozen bias": frozen("bias"),
    "other type": lambda net: net.cast("float64"),
}


@pytest.mark.parametrize(("one", "other"), [*itertools.combinations(CHANGES, 2)])
def test_gradients_of_nets_that_differ_in_what_is_trained(one, other):
    """… and in nothing else: one would find the other's backward program if keys did not tell."""
    for kind in (one, other, one):
        net = dense()
        net.initialize(mx.init.One())
        CHANGES[kind](net)
        x = nd.array(np.arange(8).reshape(2, 4), dtype=net.weight.dtype)
        net.hybridize()
        with autograd.record():
            y = (net(x) ** 2).sum()
        y.backward()
        expected = 2 * (x.asnumpy().sum(1) + 0)
        for p, want in ((net.weight, np.tile(expected @ x.asnumpy(), (4, 1))), (net.bias, np.full(4, expected.sum()))):
            if p.grad_req != "null":
                np.testing.assert_allclose(p.grad().asnumpy(), want, rtol=1e-6)


def test_states_of_nets_that_share_a_program():
    """Running averages are each net's own, and a layer that uses them shares nothing with one that makes them."""
    nets = [nn.BatchNorm(in_channels=3, momentum=0.5, use_global_stats=g) for g in (False, True, False)]
    for k, net in enumerate(nets):
        net.initialize()
        net.hybridize()
        with autograd.record():
            net(nd.ones((4, 3)) * (k + 1)).backward()
    assert [float(net.running_mean.data().asnumpy()[0]) for net in nets] == [0.5, 0, 1.5]


def test_dumps_and_messages_of_the_second_net(forget, monkeypatch, tmp_path):
    def run(prefix):
        said = io.StringIO()
        with monkeypatch.context() as m, contextlib.redirect_stderr(said):
            m.setenv("HYBRIDGPU_DUMP", str(tmp_path / prefix))
            m.setenv("HYBRIDGPU_DEBUG", "4")
            made("layers", prefix)
        forget()
        return said.getvalue(), "".join(f.read_text() for f in sorted((tmp_path / prefix).rglob("*.*")))

    first, second = run("the_first_net_"), run("second_")
    for text in first:
        assert text.count("the_first_net_dense0_fwd") > 1
    for text in second:
        assert text.count("second_dense0_fwd") > 1 and "the_first" not in text and _MARK not in text


def test_the_profiler_names_the_executor_that_runs(tmp_path):
    def spans(name):
        executor = (mx.sym.tanh(mx.sym.var("x"), name=name)).bind(mx.cpu(), {"x": nd.ones(3)})
        mx.profiler.set_config(profile_all=True, filename=str(tmp_path / "profile.json"))
        for _ in range(9):  # compiled by then
            executor.forward()
        mx.profiler.set_state("run")
        executor.forward()
        mx.profiler.set_state("stop")
        return mx.profiler.dumps(reset=True)

    assert "first_one" in spans("first_one")
    text = spans("second_one")
    assert "second_one" in text and "first_one" not in text and _MARK not in text


def test_placeholders():
    table = NameTable("net", ("a", "1 b.c", f"{_MARK}n0{_MARK}", "d"), ("p:1", "p:2", "p:3", "p:4"))
    assert table("plain") == "plain"
    assert table(f"{GRAPH}_backward {name_placeholder(0)}|{place_placeholder(1)}") == "net_backward a|p:2"
    assert table(name_placeholder(2)) == f"{_MARK}n0{_MARK}"  # a name that looks like one stays
    head = f"graph g ({input_placeholder(0)}: f32[], {input_placeholder(1)}: f32[], in1: f32[])"
    assert table(head) == "graph g (a: f32[], in1_: f32[], in1: f32[])"
    error = mx.MXNetError(f"Error in operator {name_placeholder(3)}")
    with pytest.raises(mx.MXNetError, match=r"^Error in operator d$"):
        table.in_errors(lambda: (_ for _ in ()).throw(error).__next__())()
