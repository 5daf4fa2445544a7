# SPDX-License-Identifier: Apache-2.0
"""Blocks that are hybridized anew, or get hooks, while other threads are in the middle of a call or of ``explain``."""

from __future__ import annotations

import sys
import threading

import pytest

import hybridgpu as mx
from hybridgpu import nd
from hybridgpu.gluon import nn
from hybridgpu.runtime.cached_op import CachedOp
from hybridgpu.runtime.flags import manner_of


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


#: name -> (change, what the next call runs ``hybrid_forward`` with, or what it does not run it for)
CHANGES = {
    "hybridize(False)": (lambda net: net.hybridize(False), ["nd"]),
    "hybridize()": (lambda net: net.hybridize(), ["sym"]),
    "other flags": (lambda net: net.hybridize(static_alloc=True, clear=False), []),
    "a hook": (lambda net: net.register_forward_hook(lambda *_: net.told.append("hook")), ["hook"]),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("moment", ["__init__", "__call__", "prepared"])
def test_a_change_during_a_call_is_not_undone_by_it(change, moment, monkeypatch):
    """Another thread's, at the moments where the call has looked at the block already."""
    net, x = ready()
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
        assert net._cached_op.mode is manner_of(net._flags)[0]
