# SPDX-License-Identifier: Apache-2.0
"""The forward and the backward program of a recorded call are compiled side by side."""

from __future__ import annotations

import random
import threading

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import autograd, nd
from hybridgpu.backends.base import NotBuiltError
from hybridgpu.backends.cpu import prestarted_compiler
from hybridgpu.backends.cpu.backend import CpuBackend
from hybridgpu.backends.cpu.compile import CompileError
from hybridgpu.gluon import nn
from hybridgpu.runtime import compilation as module
from hybridgpu.runtime import recorded_program

pytestmark = pytest.mark.usefixtures("compiler")


@pytest.fixture
def net():
    """x -> (results, gradient of x), recorded; no cache has its kernels. ``want`` is what they are."""
    factor = random.Random().random() + 1
    block = nn.HybridLambda(lambda F, x: F.tanh(x * factor))
    block.hybridize()

    def run():
        x = nd.array([[0.1, -0.2, 0.3]])
        x.attach_grad()
        with autograd.record():
            y = block(x)
        y.backward()
        return y.asnumpy(), x.grad.asnumpy()

    y = np.tanh(np.array([[0.1, -0.2, 0.3]]) * factor)
    run.want = y, (1 - y * y) * factor
    return run


def check(run):
    for found, want in zip(run(), run.want, strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-5)


def failing(monkeypatch, error, number):
    """Let one of the two programs not be built; a list that gets the programs' names."""
    names, load = [], CpuBackend.load

    def fail(backend, program, prewarmed=None):
        names.append(program.name)
        if program.name.endswith("_backward") is (number == 1):
            raise error
        return load(backend, program, prewarmed)

    monkeypatch.setattr(CpuBackend, "load", fail)
    return names


def test_without_a_further_thread(net, monkeypatch):
    """Under a limit of processes the caller's thread compiles both, one after the other."""
    refused = []

    def refuse(thread):
        refused.append(thread)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    check(net)
    assert refused


def test_both_are_compiled_at_a_time(net, monkeypatch):
    meet, load = threading.Barrier(2, timeout=60), CpuBackend.load

    def together(backend, program, prewarmed=None):
        meet.wait()  # one after the other they would wait for ever
        return load(backend, program, prewarmed)

    monkeypatch.setattr(CpuBackend, "load", together)
    before = mx.compile_report()
    check(net)
    events = mx.compile_report().events[len(before.events) :]
    assert [(e.name.endswith("_backward"), e.compiled_modules, e.cache) for e in events] == [
        (False, 1, "none"),
        (True, 1, "none"),
    ]


def test_programs_on_disk_take_no_thread(net, monkeypatch):
    check(net)
    monkeypatch.setattr(recorded_program, "_memory", {})
    monkeypatch.setattr(module, "ThreadCall", lambda call: pytest.fail("a thread"))
    check(net)


def test_kernels_that_another_block_has_loaded_take_no_thread(monkeypatch):
    """… though the programs are planned: the axis is written in another way."""
    factor = random.Random().random() + 1

    def run(axis):
        block = nn.HybridLambda(lambda F, x: F.sum(x * factor, axis=axis))
        block.hybridize()
        x = nd.array([[0.1, -0.2, 0.3]])
        x.attach_grad()
        with autograd.record():
            y = block(x)
        y.backward()
        return y.asnumpy(), x.grad.asnumpy()

    want = run(1)
    monkeypatch.setattr(module, "ThreadCall", lambda call: pytest.fail("a thread"))
    before = len(mx.compile_report().events)
    for found, expected in zip(run(-1), want, strict=True):
        np.testing.assert_array_equal(found, expected)
    assert [(e.compiled_modules, e.cache) for e in mx.compile_report().events[before:]] == [(0, "none")] * 2


@pytest.mark.parametrize("number", [0, 1], ids=["forward", "backward"])
def test_what_the_compiler_refuses_is_told_at_the_call(net, monkeypatch, number):
    threads = threading.active_count()
    with monkeypatch.context() as m:
        failing(m, CompileError("c++", "", "no such thing"), number)
        with pytest.raises(CompileError, match="no such thing"):
            net()
        assert threading.active_count() == threads
    check(net)  # the next call tries again


@pytest.mark.parametrize("number", [0, 1], ids=["forward", "backward"])
def test_one_that_cannot_be_built_is_run_by_numpy(net, monkeypatch, number):
    monkeypatch.setattr(module, "_warned", False)
    names = failing(monkeypatch, NotBuiltError("the disk is full"), number)
    with pytest.warns(RuntimeWarning, match="the disk is full"):
        check(net)
    assert len(names) == 2


def test_an_error_in_planning_leaves_no_compilation_behind(net, monkeypatch):
    ended, load = [], CpuBackend.load

    def note(backend, program, prewarmed=None):
        loaded = load(backend, program, prewarmed)
        ended.append(program.name)
        return loaded

    def refuse(training, found):
        raise mx.MXNetError("no derivative")

    threads = threading.active_count()
    with monkeypatch.context() as m:
        m.setattr(CpuBackend, "load", note)
        m.setattr(recorded_program.RecordedProgram, "_backward_types", refuse)
        with pytest.raises(mx.MXNetError, match="no derivative"):
            net()
        assert len(ended) == 1 and threading.active_count() == threads
    check(net)


def test_ctrl_c_in_planning_waits_for_no_compilation(net, monkeypatch):
    gate, ended, load = threading.Event(), [], CpuBackend.load

    def wait(backend, program, prewarmed=None):
        assert gate.wait(60)
        loaded = load(backend, program, prewarmed)
        ended.append(threading.current_thread())
        return loaded

    def interrupt(training, found):
        raise KeyboardInterrupt

    before = set(threading.enumerate())
    with monkeypatch.context() as m:
        m.setattr(CpuBackend, "load", wait)
        m.setattr(recorded_program.RecordedProgram, "_backward_types", interrupt)
        with pytest.raises(KeyboardInterrupt):
            net()
        assert not ended
        (left,) = set(threading.enumerate()) - before
        assert left.daemon
        gate.set()
        left.join(60)
        assert ended == [left] and not prestarted_compiler._all  # nor does its compiler wait on
    check(net)
