# SPDX-License-Identifier: Apache-2.0
"""``hybridize(background=True)``: operators answer one by one until the program is there, which is said."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import autograd, nd
from hybridgpu.backends.base import this_thread
from hybridgpu.backends.cpu import compile as cpu_compile
from hybridgpu.backends.cpu.compile import CompileError
from hybridgpu.backends.cpu.toolchain import Toolchain
from hybridgpu.cache.disk_cache import reset_default_store
from hybridgpu.gluon import nn
from hybridgpu.runtime import cached_op, compilation
from hybridgpu.runtime.background import BackgroundJob
from hybridgpu.runtime.cached_op import CachedOp
from hybridgpu.runtime.dispatch import entries
from hybridgpu.runtime.reports.events import compile_report

pytestmark = pytest.mark.usefixtures("compiler")


@pytest.fixture
def gate(monkeypatch, tmp_path):
    """The compiler waits until the event is set; nothing is in the cache."""
    opened, real = threading.Event(), Toolchain.compile

    def compile(self, *args):
        assert opened.wait(60)
        return real(self, *args)

    monkeypatch.setattr(Toolchain, "compile", compile)
    monkeypatch.setenv("HYBRIDGPU_CACHE_DIR", str(tmp_path))
    reset_default_store()
    yield opened
    opened.set()
    reset_default_store()


def network(width):
    """A net that no other test compiles."""
    net = nn.HybridSequential(prefix=f"background{width}_")
    net.add(
        nn.Dense(width, activation="tanh", in_units=6), nn.BatchNorm(in_channels=width), nn.Dense(3, in_units=width)
    )
    net.initialize(mx.init.Normal(0.3))
    return net


def pending(net):
    """The jobs that make its programs."""
    waiting = [entry.pending for entry in list(net._cached_op.entries.values())]
    return [found[0] for found in waiting if found is not None]


def settle(net):
    """Wait for what is being made."""
    for job in pending(net):
        job._finished.wait()


def events(net):
    return [e for e in compile_report().events if e.name.startswith(net.name)]


def test_operators_answer_until_the_program_is_there(gate):
    net, x = network(37), nd.random.normal(shape=(4, 6))
    want = net(x).asnumpy()
    net.hybridize(background=True)
    for _ in range(3):
        np.testing.assert_array_equal(net(x).asnumpy(), want)
    assert [(e.target, e.cache) for e in events(net)] == [("reference", "background")]
    assert "operators run one by one while it is compiled" in str(compile_report())
    before = compile_report().signatures
    gate.set()
    settle(net)
    np.testing.assert_allclose(net(x).asnumpy(), want, 1e-5, 1e-6)
    assert [e.target for e in events(net)] == ["reference", "cpu"] and compile_report().signatures == before + 1
    assert net._cached_op.last_call[2].program is not None


def test_gradients_meanwhile(gate):
    net, x = network(38), nd.random.normal(shape=(5, 6))

    def gradient():
        with autograd.record():
            y = nd.square(net(x)).sum()
        y.backward()
        return net[0].weight.grad().asnumpy().copy()

    want = gradient()
    net.hybridize(background=True)
    np.testing.assert_allclose(gradient(), want, 1e-4, 1e-4)
    assert all(e.cache == "background" for e in events(net)) and len(events(net)) == 2
    gate.set()
    settle(net)
    np.testing.assert_allclose(gradient(), want, 1e-3, 1e-4)
    assert pending(net) == [] and {e.target for e in events(net)} == {"reference", "cpu"}


def test_signatures_wait_for_their_turn(gate):
    net = network(39)
    net.hybridize(background=True)
    shapes = [(k, 6) for k in (1, 2, 3)]
    waiting = [net(nd.ones(s)).asnumpy() for s in shapes]
    assert len(pending(net)) == 3
    gate.set()
    settle(net)
    for shape, y in zip(shapes, waiting, strict=True):
        np.testing.assert_allclose(net(nd.ones(shape)).asnumpy(), y, 1e-5, 1e-6)
    assert pending(net) == []


@pytest.fixture
def jobs(monkeypatch):
    """What the thread of the background is asked for."""
    made = []

    def later(*args):
        made.append(BackgroundJob(*args))
        return made[-1]

    monkeypatch.setattr(entries, "BackgroundJob", later)
    return made


def test_threads_that_call_at_once_ask_for_one_program(gate, jobs, monkeypatch):
    net, x = network(42), nd.random.normal(shape=(4, 6))
    want = net(x).asnumpy()
    net.hybridize(background=True)
    meet, real, found = threading.Barrier(8, timeout=60), cached_op.compiled, []

    def interpreted_together(*args, **options):
        made = real(*args, **options)
        if made.interpreted:
            meet.wait()  # none of them has asked yet
        return made

    monkeypatch.setattr(cached_op, "compiled", interpreted_together)
    threads = [threading.Thread(target=lambda: found.append(net(x).asnumpy())) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert len(found) == 8 and all((y == want).all() for y in found)
    assert len(jobs) == 1
    gate.set()
    settle(net)
    np.testing.assert_allclose(net(x).asnumpy(), want, 1e-5, 1e-6)
    assert pending(net) == [] and len(net._cached_op.entries) == 1


def test_a_thread_that_looks_before_another_one_asks(gate, jobs):
    """It finds the program that is being made, and gives no second reason."""
    net, x = network(43), nd.random.normal(shape=(4, 6))
    net.hybridize(background=True)
    net(nd.ones((1, 6)))
    asked = len(jobs)

    class Slow(dict):
        looked = False

        def get(self, key):
            found = super().get(key)
            if not self.looked:
                self.looked = True
                other = threading.Thread(target=net, args=(x,))
                other.start()
                other.join(60)
            return found

    net._cached_op.entries = Slow(net._cached_op.entries)
    net(x)
    assert len(jobs) == asked + 1
    assert net._cached_op._count == 2, "two signatures, one reason each"
    gate.set()
    settle(net)


def test_a_cached_op_takes_the_flag_as_text(gate):
    call = nd.CachedOp(mx.sym.exp(mx.sym.var("x") * 0.415, name="background_text"), [("background", "True")])
    np.testing.assert_allclose(call(nd.ones(3)).asnumpy(), np.exp([0.415] * 3), 1e-6)
    assert [e.cache for e in compile_report().events if e.name == "background_text"] == ["background"]


def test_explain_waits():
    net, x = network(40), nd.ones((2, 6))
    net.hybridize(background=True)
    net(x)
    assert net.explain(x).target == "cpu"


def test_a_failure_is_raised(monkeypatch):
    def refuse(self, source, *args):
        raise CompileError("c++", source, "no")

    monkeypatch.setattr(Toolchain, "compile", refuse)
    net, x = network(41), nd.ones((2, 6))
    net.hybridize(background=True)
    with pytest.raises(CompileError, match="refused a generated source"):
        for _ in range(1000):
            net(x)  # the first call already, if the thread is fast
            settle(net)


def test_a_child_process_makes_what_the_thread_had_not():
    """After a fork the thread is gone."""
    held = threading.Event()
    first = BackgroundJob(held.wait)
    later = BackgroundJob(lambda: threading.current_thread().name)
    dead = threading.Thread(target=int)
    dead.start()
    dead.join()
    later._worker = dead  # as a child process finds it
    assert later.result() == threading.current_thread().name
    held.set()
    assert first.result(wait=True) is True


def test_mode_of_zeros_in_shapes_is_the_caller_s():
    from hybridgpu.util import is_np_shape, np_shape

    with np_shape(True):
        later = BackgroundJob(is_np_shape)
    assert later.result(wait=True) is True


def test_nothing_is_imported_between_compilations():
    """A fork in the middle of an import would leave the child a module that is half imported, and locked."""
    code = (
        "import pkgutil, sys, hybridgpu.compiler as c\n"
        "from hybridgpu.runtime.background import BackgroundJob\n"
        "BackgroundJob(int).result(wait=True)\n"
        "print([m.name for m in pkgutil.walk_packages(c.__path__, 'hybridgpu.compiler.') if m.name not in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_nothing_is_imported_by_a_compilation(compiler, tmp_path, monkeypatch):
    """Nor of what runs the compiler, once the backend is there: found by the first process, known to the second."""
    monkeypatch.setenv("HYBRIDGPU_CACHE_DIR", str(tmp_path))
    code = (
        "import sys, hybridgpu as mx, hybridgpu.symbol.lowering\n"
        "from hybridgpu.backends.cpu.backend import cpu_backend\n"
        "from hybridgpu.compiler.ir import tensor_type\n"
        "from hybridgpu.core.dtypes import f32\n"
        "from hybridgpu.runtime.background import BackgroundJob\n"
        "from hybridgpu.runtime.compilation import compiled\n"
        "symbol, types = getattr(mx.sym, sys.argv[1])(mx.sym.var('x')), [tensor_type((3, 4), f32)]\n"
        "cpu_backend()\n"
        "BackgroundJob(int).result(wait=True)\n"
        "known = set(sys.modules)\n"
        "made = BackgroundJob(lambda: compiled(symbol, types, False, mx.cpu())).result(wait=True)\n"
        "print(made.cache, sorted(set(sys.modules) - known - set(sys.builtin_module_names)))"
    )
    for name in ("softmax", "exp"):
        run = subprocess.run([sys.executable, "-c", code, name], capture_output=True, text=True, check=True)
        assert run.stdout == "none []\n"


def test_another_thread_calls_before_a_call_is_prepared(monkeypatch):
    """The prepared call is made for what ran last, whoever called; each gets its own results, then and later."""
    net = nn.HybridLambda(lambda F, x: F.tanh(x) * 2)
    net.hybridize()
    shapes = [(3,), (2, 5), (4, 1)]
    data = [nd.array(np.random.default_rng(k).normal(size=shape)) for k, shape in enumerate(shapes)]
    prepared, between = CachedOp.prepared, [1, 0, 2, 1, 1, 0]

    def late(self, *args):
        if between:
            for recorded in (False, True):
                with autograd.record() if recorded else autograd.pause():
                    self([data[between[0]]])
            between.pop(0)
        return prepared(self, *args)

    monkeypatch.setattr(CachedOp, "prepared", late)
    for x in data:
        x.attach_grad()
    for k in [0, 1, 2] * 4:
        want = np.tanh(data[k].asnumpy()) * 2
        np.testing.assert_allclose(net(data[k]).asnumpy(), want, rtol=1e-5)
        with autograd.record():
            y = net(data[k])
        y.backward()
        np.testing.assert_allclose(y.asnumpy(), want, rtol=1e-5)
        np.testing.assert_allclose(data[k].grad.asnumpy(), 2 - want * want / 2, rtol=1e-4, atol=1e-6)
    assert not between


# -- compilers leave the caller a processor


def test_only_the_thread_that_makes_programs_is_in_the_background():
    assert BackgroundJob(lambda: this_thread.background).result(wait=True) is True
    assert this_thread.background is False


@pytest.mark.parametrize(
    ("processors", "background", "most"), [(2, False, 2), (2, True, 1), (3, True, 2), (1, True, 1)]
)
def test_compilers_at_a_time(monkeypatch, processors, background, most):
    monkeypatch.setattr(cpu_compile, "cpu_count", lambda: processors)
    monkeypatch.setattr(this_thread, "background", background)
    threads = set()
    meet = threading.Barrier(most, timeout=60)  # so that each has its thread

    def job():
        threads.add(threading.get_ident())
        meet.wait()

    cpu_compile._side_by_side([job] * most * 2)
    assert len(threads) == most


def test_recorded_calls_compile_one_program_after_the_other(gate, monkeypatch):
    monkeypatch.setattr(compilation, "ThreadCall", lambda call: pytest.fail("another thread"))
    net, x = network(13), nd.random.normal(shape=(4, 6))
    x.attach_grad()
    net.hybridize(background=True)
    gate.set()
    for _ in range(2):
        with autograd.record():
            y = net(x)
        y.backward()
        settle(net)  # what went wrong is raised by the next call
    assert [(e.name.endswith("_backward"), e.cache) for e in events(net)][-2:] == [(False, "none"), (True, "none")]
