# SPDX-License-Identifier: Apache-2.0
"""Compiled graphs at work: results that stay the caller's, threads, numbers, memory."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from runtime.small_nets import chain, deep

import hybridgpu as mx

nd, nn = mx.nd, mx.gluon.nn
pytestmark = [pytest.mark.usefixtures("compiler"), pytest.mark.optimised]


def expected(x):
    host = x.asnumpy().astype("float64")
    return np.sin(host) * 2 + host


KEPT = {
    "the array": lambda y: (y, lambda k: k.asnumpy()),
    "in a list": lambda y: ([y], lambda k: k[0].asnumpy()),
    "a view of rows": lambda y: (y[10:20], lambda k: k.asnumpy()),
    "a reshaped view": lambda y: (y.reshape((10, -1)), lambda k: k.asnumpy().ravel()),
    "detached": lambda y: (y.detach(), lambda k: k.asnumpy()),
    "a NumPy view": lambda y: (np.array(y, copy=False), lambda k: k.copy()),
    "a part of a NumPy view": lambda y: (np.array(y, copy=False)[5:7], lambda k: k.copy()),
    "by DLPack": lambda y: (np.from_dlpack(y), lambda k: k.copy()),
    "a capsule": lambda y: (y.to_dlpack_for_read(), lambda k: nd.from_dlpack(k).asnumpy()),
    "memoryview": lambda y: (memoryview(np.array(y, copy=False)), lambda k: np.array(k)),
    "by another array": lambda y: (nd.from_dlpack(y), lambda k: k.asnumpy()),
    "a parameter's data": lambda y: (nd.from_numpy(np.array(y, copy=False)), lambda k: k.asnumpy()),
}


@pytest.mark.parametrize("how", KEPT)
def test_what_the_user_keeps_is_never_overwritten(how):
    net, x = chain()
    kept, read = KEPT[how](net(x))
    want = {"a view of rows": expected(x)[10:20], "a part of a NumPy view": expected(x)[5:7]}.get(how, expected(x))
    for _ in range(20):
        net(x * 0 - 7)  # would write other values into memory given out again
        gc.collect(0)
    np.testing.assert_allclose(read(kept), want, rtol=1e-5)


def test_every_result_kept_is_its_own():
    net, x = chain(64)
    kept = [net(x + k) for k in range(50)]
    assert len({y.address for y in kept}) == 50
    for k, y in enumerate(kept):
        np.testing.assert_allclose(y.asnumpy(), expected(x + k), rtol=1e-5, atol=1e-6)


def test_memory_that_nobody_holds_is_given_out_again():
    net, x = chain()
    assert len({net(x).address for _ in range(50)}) <= 4


def test_a_result_is_an_input_of_the_next_call():
    net, x = chain(8)
    y = x
    for _ in range(6):
        y = net(y)
    want = x.asnumpy().astype("float64")
    for _ in range(6):
        want = np.sin(want) * 2 + want
    np.testing.assert_allclose(y.asnumpy(), want, rtol=1e-4)


def test_a_result_with_a_gradient_is_not_given_out_with_it():
    net, x = chain(8)
    y = net(x)
    y.attach_grad()
    del y
    for _ in range(5):
        assert net(x).grad is None


@pytest.mark.parametrize("output", ["the input", "twice the same", "a view"])
def test_outputs_share_no_memory_with_inputs_or_each_other(output):
    functions = {
        "the input": lambda F, x: [x, x + 1],
        "twice the same": lambda F, x: [x * 2] * 2,
        "a view": lambda F, x: [x.reshape((2, 2)), F.transpose(x.reshape((2, 2)))],
    }
    net = nn.HybridLambda(functions[output])
    net.hybridize()
    x = nd.array([1, 2, 3, 4])
    for _ in range(2):
        a, b = net(x)
        before, other = x.asnumpy(), b.asnumpy()
        a[:] = -1
        np.testing.assert_array_equal(x.asnumpy(), before)
        np.testing.assert_array_equal(b.asnumpy(), other)


# -- threads


def together(count, function):
    """Run ``function(number)`` in threads that start at once; their errors end the test."""
    barrier, errors = threading.Barrier(count), []

    def body(number):
        try:
            barrier.wait()
            function(number)
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=body, args=(k,)) for k in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert not errors, errors


@pytest.mark.parametrize("flags", [{}, {"static_alloc": True, "static_shape": True}], ids=["plain", "static"])
@pytest.mark.parametrize("warm", [False, True])
def test_threads_call_one_net_at_once(flags, warm):
    net = deep()
    xs = [nd.random.normal(shape=(3 + k % 2, 8)) for k in range(6)]
    wants = [net(x).asnumpy() for x in xs]
    net.hybridize(**flags)
    if warm:
        net(xs[0])

    def work(number):
        for k in range(60):
            j = (number + k) % len(xs)
            y = net(xs[j])
            np.testing.assert_allclose(y.asnumpy(), wants[j], rtol=1e-5, atol=1e-6)

    old = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        together(4, work)
    finally:
        sys.setswitchinterval(old)


def test_threads_with_large_arrays_run_side_by_side():
    net, _ = chain(200_000)  # beyond the size below which the interpreter lock is kept
    xs = [nd.array(np.random.default_rng(k).normal(size=200_000)) for k in range(3)]
    wants = [expected(x) for x in xs]

    def work(number):
        for _ in range(10):
            np.testing.assert_allclose(net(xs[number]).asnumpy(), wants[number], rtol=1e-4, atol=1e-5)

    together(3, work)


def test_threads_trace_at_once():
    xs = nd.ones((2, 8))
    texts = [None] * 6

    def work(number):
        with mx.name.NameManager():
            net = nn.HybridLambda(lambda F, x: F.relu(F.exp(x) + number), prefix=f"n{number}_")
            net.hybridize()
            for _ in range(3):
                y = net(xs)
            np.testing.assert_allclose(y.asnumpy(), np.e + number, rtol=1e-6)
            texts[number] = net(mx.sym.var("data")).get_internals().list_outputs()

    together(6, work)
    assert texts == [[f"{o}".replace("n0_", f"n{k}_") for o in texts[0]] for k in range(6)]


def test_threads_initialise_at_once():
    """Shapes that the first input tells: one thread fills the parameters, and one traces."""
    traced = []

    def body(F, x):
        traced.append(F)
        time.sleep(0.01)  # long enough for the others to come along
        return F.tanh(x)

    class Slow(mx.init.Normal):
        def _init_weight(self, name, arr):
            super()._init_weight(name, arr)
            time.sleep(0.01)

    for hybridized in (False, True):
        net = nn.HybridSequential()
        net.add(nn.Dense(16), nn.HybridLambda(body), nn.Dense(4))
        net.initialize(Slow(0.5))
        if hybridized:
            net.hybridize()
        traced.clear()
        results = [None] * 6

        def work(number, net=net, results=results):
            results[number] = net(nd.ones((2, 8))).asnumpy()

        old = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)
        try:
            together(6, work)
        finally:
            sys.setswitchinterval(old)
        assert all(np.array_equal(r, results[0]) for r in results)
        assert not hybridized or traced == [mx.sym]


def test_the_last_signature_is_prepared_whatever_came_before():
    net, _ = chain()
    short, long = nd.ones((4,)), nd.ones((5,))
    for x in (short, long, short):
        net(x)
    net._hg_call = None  # the general way
    net._cached_op = None
    np.testing.assert_allclose(net(short).asnumpy(), expected(short), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "float32", "bool"])
def test_programs_of_several_units(dtype):
    """Many kernels are dealt out to translation units; the entry functions are one of their own."""

    def body(F, x):
        results = []
        for k in range(40):
            x = F.cast(F.softmax(F.cast(x, "float32") * (k + 1), axis=k % 2), dtype)
            results.append(x)
        return results

    net = nn.HybridLambda(body)
    x = nd.array(np.random.default_rng(0).normal(size=(5, 7)), dtype=dtype)
    wants = [y.asnumpy() for y in net(x)]
    net.hybridize()
    for y, want in zip(net(x), wants, strict=True):
        np.testing.assert_allclose(y.asnumpy().astype("float64"), want.astype("float64"), rtol=2e-3, atol=1e-4)
    assert len({k.name for k in net.explain(x).kernels}) > 12


def test_hundreds_of_arguments():
    """Beyond some number the compiled entry takes them in one array; foreign calls have a limit of their own."""
    names = [f"x{k}" for k in range(1100)]
    variables = [mx.sym.var(n) for n in names]
    net = mx.gluon.SymbolBlock(mx.sym.add_n(*variables[:600]) * mx.sym.add_n(*variables[600:]), variables)
    net.hybridize()
    arrays = [nd.full((3,), k % 7) for k in range(1100)]
    want = sum(k % 7 for k in range(600)) * sum(k % 7 for k in range(600, 1100))
    for _ in range(2):  # compiled, then prepared
        np.testing.assert_array_equal(net(*arrays).asnumpy(), [want] * 3)


@pytest.mark.parametrize("arguments", [1, 2])
def test_a_block_that_reads_no_argument(arguments):
    class Constant(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.w = self.params.get("w", shape=(3,), init="ones")

        def hybrid_forward(self, F, *args, w):
            return w * 2

    net = Constant()
    net.initialize()
    net.hybridize()
    with pytest.warns(UserWarning, match="not used by any computation"):
        net(*[nd.zeros((2,))] * arguments)
    for _ in range(3):
        np.testing.assert_array_equal(net(*[nd.zeros((2,))] * arguments).asnumpy(), [2, 2, 2])


def test_threads_have_contexts_and_modes_of_their_own():
    def work(number):
        with mx.cpu(number), mx.autograd.train_mode() if number % 2 else mx.autograd.predict_mode():
            for _ in range(100):
                assert mx.current_context() == mx.cpu(number) and mx.autograd.is_training() == bool(number % 2)
                assert nd.ones(1).context == mx.cpu(number)

    together(4, work)


@pytest.mark.parametrize("rows", [2, 4, 8, 16])
@pytest.mark.parametrize("columns", [3, 8, 12])
def test_one_array_read_plainly_and_with_a_stride(rows, columns):
    """GCC 12 gave wrong sums here until its induction variable optimisation was switched off."""

    class Mirrored(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return F.elemwise_add(F.transpose(x), F.reshape(x, shape=(columns, rows)))

    net = Mirrored()
    x = mx.nd.array(np.random.default_rng(1).normal(size=(rows, columns)))
    eager = net(x)
    net.hybridize()
    np.testing.assert_array_equal(net(x).asnumpy(), eager.asnumpy())


OUTSIDE = [1e10, -1e10, np.nan, np.inf, -np.inf, 2.0**31, -(2.0**31), 2147483520.0, 3.7, -3.7, 300.0, 0.0]


@pytest.mark.parametrize("source", ["float32", "float64", "float16"])
@pytest.mark.parametrize("target", ["int32", "int64", "uint8", "int8"])
def test_numbers_that_integers_do_not_hold(source, target):
    """C++ leaves the conversion undefined, and g++ cuts (float)(int)x down to a truncation."""

    def function(F, x):
        whole = F.cast(F.cast(x, source), target)
        return whole, F.cast(whole, "float32"), F.cast(F.log(F.cast(x, "int32")), target)

    net = nn.HybridLambda(function)
    x = nd.array(OUTSIDE * 5)
    with np.errstate(all="ignore"):
        eager = [y.asnumpy() for y in net(x)]
    net.hybridize()
    for got, want in zip(net(x), eager):
        np.testing.assert_array_equal(got.asnumpy(), want)


FORKS = """
import os, signal, sys, threading
import hybridgpu as mx
from hybridgpu.cache import disk_cache
from hybridgpu.core import rng
from hybridgpu.gluon import forward
from hybridgpu.runtime import compilation, recorded_program
from hybridgpu.runtime.reports import events

programs = (compilation._building, recorded_program._building)
locks = [forward.preparing, *programs, disk_cache._opening, rng._lock, events._lock]
held, done = threading.Event(), threading.Event()

def hold(rest):
    if rest:
        with rest[0]:
            hold(rest[1:])
    else:
        held.set()
        done.wait()

threading.Thread(target=hold, args=(locks,)).start()
held.wait()
child = os.fork()
if child == 0:
    signal.alarm(60)
    net = mx.gluon.nn.Dense(2)
    net.initialize()
    net.hybridize()
    x = mx.nd.ones((2, 3))
    with mx.autograd.record():
        loss = net(x).sum()
    loss.backward()
    assert net(x).shape == (2, 2)
    os._exit(0)
status = os.waitpid(child, 0)[1]
done.set()
sys.exit(status != 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_while_another_thread_compiles():
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    run = subprocess.run([sys.executable, "-c", FORKS], env=env, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr


@pytest.mark.unsanitized("arenas are not counted there: each lies between bytes that nobody may touch")
@pytest.mark.filterwarnings("ignore:.*keeps changing")
def test_memory_of_programs_is_bounded(monkeypatch):
    from hybridgpu.backends.cpu import backend

    net = nn.HybridLambda(lambda F, x: F.dot(F.dot(x, x), x))
    net.hybridize()
    sizes = range(64, 80)
    monkeypatch.setattr(backend, "_KEPT_ARENAS", 4 * 80 * 80 * 4)
    monkeypatch.setattr(backend, "_held", type(backend._held)())
    for _ in range(2):
        for n in sizes:
            np.testing.assert_array_equal(net(nd.ones((n, n))).asnumpy(), np.full((n, n), n * n))
            assert sum(backend._held.values()) <= 4 * 80 * 80 * 4
    assert 2 <= len(backend._held) < len(sizes)


@pytest.mark.filterwarnings("ignore:.*keeps changing")
def test_a_block_forgets_signatures_of_long_ago(monkeypatch):
    from hybridgpu.runtime import cached_op

    monkeypatch.setattr(cached_op, "_LIMIT", 5)
    net = nn.HybridLambda(lambda F, x: x * 2 + 1)
    net.hybridize()
    for n in (*range(1, 9), *range(1, 9)):
        x = nd.ones(n)
        x.attach_grad()
        with mx.autograd.record():
            y = net(x)
        y.backward()
        assert net(x).asnumpy().tolist() == [3.0] * n and x.grad.asnumpy().tolist() == [2.0] * n
    assert len(net._cached_op.entries) == 5
