# SPDX-License-Identifier: Apache-2.0
"""Blocks that are hybridized anew, or get hooks, while other threads are in the middle of a call or of ``explain``."""

from __future__ import annotations

import sys
import threading
import time

import pytest

import hybridgpu as mx
from hybridgpu import nd
from hybridgpu.gluon import nn
from hybridgpu.runtime.cached_op import CachedOp
from hybridgpu.runtime.hybridize_flags import call_options


class Scaled(nn.HybridBlock):
    """A block that has a parameter."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.told = []
        with self.name_scope():
            self.w = self.params.get("w", shape=(4, 4), init="ones")

    def hybrid_forward(self, F, x, w):
        self.told.append("nd" if F is mx.nd else "sym")
        return F.broadcast_mul(w, x)


def ready():
    net = Scaled()
    net.initialize()
    net.hybridize()
    x = nd.ones((1, 4))
    net(x)
    return net, x


@pytest.mark.usefixtures("compiler")
def test_explain_while_another_thread_hybridizes():
    """It says what is so: that the net is not hybridized, or what is computed; never that it has no graph."""
    net, x = ready()
    stop, errors = threading.Event(), []

    def hybridize():
        while not stop.is_set():
            net.hybridize()
            net.hybridize(static_alloc=True, clear=False)

    def explain():
        try:
            for _ in range(150):
                assert net.explain(x).kernels
        except BaseException as e:
            errors.append(e)

    changing, asking = threading.Thread(target=hybridize), [threading.Thread(target=explain) for _ in range(2)]
    old = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    try:
        for t in (changing, *asking):
            t.start()
        for t in asking:
            t.join(60)
    finally:
        stop.set()
        changing.join(60)
        sys.setswitchinterval(old)
    assert not errors, errors[0]


def test_explain_in_the_middle_of_hybridize(monkeypatch):
    """Another thread has said that the net is not hybridized, and is about to drop its graph."""
    net, x = ready()
    net.hybridize()
    reached, call, clear = threading.Event(), Scaled._hg_call, Scaled._clear_cached_op
    other = threading.Thread(target=net.hybridize, args=(False,))

    def slow(self, why):
        reached.set()
        time.sleep(0.2)
        clear(self, why)

    def meanwhile(self, args):
        if not reached.is_set():
            other.start()
            reached.wait(10)
        return call(self, args)

    monkeypatch.setattr(Scaled, "_clear_cached_op", slow)
    monkeypatch.setattr(Scaled, "_hg_call", meanwhile)
    with pytest.raises(RuntimeError, match="is not hybridized"):
        net.explain(x)
    other.join(10)


#: name -> (change, what the next call runs ``hybrid_forward`` with, or what it does not run it for)
CHANGES = {
    "hybridize(False)": (lambda net: net.hybridize(False), ["nd"]),
    "hybridize()": (lambda net: net.hybridize(), ["sym"]),
    "other flags": (lambda net: net.hybridize(static_alloc=True, clear=False), []),
    "load()": (lambda net: net.load(net.file), []),
    "a hook": (lambda net: net.register_forward_hook(lambda *_: net.told.append("hook")), ["hook"]),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("moment", ["__init__", "__call__", "prepared"])
def test_a_change_during_a_call_is_not_undone_by_it(change, moment, monkeypatch, tmp_path):
    """Another thread's, at the moments where the call has looked at the block already."""
    net, x = ready()
    net.file = str(tmp_path / "net")
    net.save(net.file)
    net.hybridize()
    original, (make, runs) = getattr(CachedOp, moment), CHANGES[change]
    pending = [make]

    def meanwhile(op, *args, **kwargs):
        if pending:
            other = threading.Thread(target=pending.pop(), args=(net,))
            other.start()
            other.join()
        return original(op, *args, **kwargs)

    monkeypatch.setattr(CachedOp, moment, meanwhile)
    net.told = []
    net(x)
    assert not pending
    for _ in range(2):
        net.told = []
        net(x)
        assert net.told[:1] == runs
        runs = runs if runs != ["sym"] else []  # traced once
    if net._cached_op is not None:
        assert net._cached_op.mode is call_options(net._flags)[0]
        assert net._cached_op.symbol is net._cached_graph[1]


class Traced(nn.HybridBlock):
    """A block that computes something else at every trace, and lets another thread work during one."""

    factor, other = 2, None

    def hybrid_forward(self, F, x):
        if self.other is not None:
            self.other.start()
            self.other.join(0.2)  # if it can end, it does
        return x * self.factor


@pytest.mark.parametrize("change", ["load()", "hybridize()"])
def test_a_change_during_a_trace_is_not_undone_by_it(change, tmp_path):
    net, x = Traced(), nd.ones(3)
    net.hybridize()
    assert net(x).asnumpy().tolist() == [2] * 3
    net.save(str(tmp_path / "net"))
    net.hybridize()
    net.factor = 3
    other = net.other = threading.Thread(
        target=lambda: net.load(str(tmp_path / "net")) if change == "load()" else net.hybridize()
    )
    net(x)
    other.join(60)
    net.other, net.factor = None, 4
    for _ in range(3):  # by the graph of the file, or of a trace after hybridize()
        assert net(x).asnumpy().tolist() == [2 if change == "load()" else 4] * 3


def test_threads_that_wait_for_one_program_have_one_reason(monkeypatch):
    """Whoever compiles it says why, not which thread came first."""
    net, _ = ready()
    x, reasons, barrier = nd.ones((4, 4)), [], threading.Barrier(2)
    original = CachedOp._reason

    def reason(op, types, training):
        found = original(op, types, training)
        reasons.append(found)
        return found

    monkeypatch.setattr(CachedOp, "_reason", reason)
    made = CachedOp.get_or_compile

    def together(op, *args, **kwargs):
        barrier.wait(10)  # both have seen that there is none
        return made(op, *args, **kwargs)

    monkeypatch.setattr(CachedOp, "get_or_compile", together)
    threads = [threading.Thread(target=net, args=(x,)) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert reasons == ["data axis 0: (1, 4) -> (4, 4)"]
