# SPDX-License-Identifier: Apache-2.0
"""Library calls in CUDA graphs: the results of calls that are made one by one, whatever addresses change."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from cublaslt_on_cpu.test_started_by_address import APART, GRAPHS, check, fakes, filled, loaded  # noqa: F401 - a fixture
from emulated import THREAD, EmulatedStream

import hybridgpu as mx
from hybridgpu import nd
from hybridgpu.backends.base import Mode
from hybridgpu.backends.cuda.argument_tables import KernelCall, LibraryCall
from hybridgpu.backends.devices import device_of
from hybridgpu.gluon import nn
from hybridgpu.gluon.model_zoo.vision import BasicBlockV1

GPU = mx.gpu(0)
REPLAYED = {"static_alloc": True, "static_shape": True}


@pytest.fixture
def driver(fakes):  # noqa: F811
    found = device_of(GPU).backend().driver
    found.forget()
    yield found
    found.no_captures = ""


@pytest.mark.parametrize("name", [n for n in GRAPHS if n not in APART])
def test_one_graph_has_all_of_it(driver, monkeypatch, name):
    monkeypatch.setenv("HYBRIDGPU_CUDA_GRAPHS", "always")
    graph, program = loaded(*GRAPHS[name])
    program = program.in_mode(Mode.GRAPH)
    kept = [filled(graph, seed) for seed in (1, 2, 3)]
    for arrays in (*kept, *kept):  # all addresses change, and come again
        check(graph, program, arrays)
    calls = program.layout.calls
    kernels, libraries = (sum(isinstance(c, kind) for c in calls) for kind in (KernelCall, LibraryCall))
    assert driver.replayed == 5 and driver.captured >= libraries  # all but the first
    parts = [f"{n} {what}{'s' * (n != 1)}" for n, what in ((kernels, "kernel"), (libraries, "library call")) if n]
    assert program.execution_mode.split(" a call in ")[0] == " and ".join(parts)
    assert (
        program.execution_mode.split(" a call in ")[1].startswith("1 CUDA graph")
        and "outside" not in program.execution_mode
    )


def residual():
    """A block of a ResNet, and a dense layer."""
    net = nn.HybridSequential()
    net.add(BasicBlockV1(4, 1, in_channels=4), nn.Dense(5, in_units=144))
    net.initialize(mx.init.Normal(0.5), ctx=GPU)
    net(nd.ones((1, 4, 6, 6), ctx=GPU))
    return net


def images(seed):
    return nd.array(np.random.default_rng(seed).normal(size=(1, 4, 6, 6)), ctx=GPU)


def test_a_block_of_a_residual_network_is_one_launch(driver, fakes):  # noqa: F811
    net = residual()
    want = [net(images(seed)).asnumpy() for seed in range(6)]
    net.hybridize(**REPLAYED)
    got = [net(images(seed)) for seed in range(6)]
    for y, w in zip(got, want, strict=True):
        np.testing.assert_allclose(y.asnumpy(), w, rtol=1e-4, atol=1e-5)
    x = images(0)
    for _ in range(6):
        y = net(x)
    driver.forget()
    before = [fake.count(f) for fake, f in zip(fakes, ("cublasLtMatmul", "cudnnSetStream"), strict=True)]
    for _ in range(5):
        y = net(x)
    np.testing.assert_allclose(y.asnumpy(), want[0], rtol=1e-4, atol=1e-5)
    assert driver.replayed == 5 and driver.captured == driver.updated == 0
    assert [fake.count(f) for fake, f in zip(fakes, ("cublasLtMatmul", "cudnnSetStream"), strict=True)] == before
    assert all(s.graph for s in driver.launches)
    assert "3 library calls a call in 1 CUDA graph" in net.explain(x).execution_mode


def test_only_what_has_other_addresses_is_captured_again(driver):
    net = residual()
    net.hybridize(**REPLAYED)
    kept = [net(images(seed)) for seed in range(5)]
    driver.forget()
    kept.append(net(images(7)))
    # the first convolution reads the image; of its residual the second's sum; the dense layer writes the result
    assert 1 <= driver.captured <= 3 and driver.made <= 1


def test_the_first_call_is_not_captured(driver):
    """Libraries load code then, which a capture forbids; another block has the same program, and no first call."""
    for replayed in (0, 1):
        net = residual()
        net.hybridize(**REPLAYED)
        driver.forget()
        net(images(1))
        assert driver.replayed == replayed


def test_what_cannot_be_captured(driver):
    net = residual()
    want = [net(images(seed)).asnumpy() for seed in range(4)]
    net.hybridize(**REPLAYED)
    driver.no_captures = "cuDNN allocates"
    for _ in range(2):
        for seed, w in enumerate(want):
            np.testing.assert_allclose(net(images(seed)).asnumpy(), w, rtol=1e-4, atol=1e-5)
    assert "without a CUDA graph: cuDNN allocates" in str(net.explain(images(0)))


@pytest.mark.parametrize(
    ("name", "which", "function"), [("bias", 0, "cublasLtMatmul"), ("conv", 1, "cudnnConvolutionForward")]
)
def test_a_library_that_fails_in_a_capture(driver, fakes, monkeypatch, name, which, function):  # noqa: F811
    """It is called outside from then on: what it starts there may work, or raises its error."""
    monkeypatch.setenv("HYBRIDGPU_CUDA_GRAPHS", "always")
    graph, program = loaded(*GRAPHS[name])
    program = program.in_mode(Mode.GRAPH)
    check(graph, program, filled(graph, 1))
    fakes[which].plant(function, 13 if which == 0 else 5000)
    with pytest.raises(mx.MXNetError, match=f"Error in operator .*: {function} of"):
        check(graph, program, filled(graph, 2))
    fakes[which].plant(function, 0)
    for seed in (1, 2):
        check(graph, program, filled(graph, seed))
    assert f"without a CUDA graph: {function} of" in program.execution_mode and driver.replayed == 0


def test_a_library_that_refuses_is_left_out(driver, fakes):  # noqa: F811
    graph, program = loaded(*GRAPHS["two layers"])
    program = program.in_mode(Mode.GRAPH)
    check(graph, program, filled(graph, 1))
    fakes[0].plant("refuse", 2)  # the algorithm that was chosen
    for seed in (2, 3, 1):
        check(graph, program, filled(graph, seed))
    assert "the library refuses it" in program.execution_mode


def test_an_array_that_shares_memory_with_the_operand(driver):
    """What cuDNN forbids is not in the graph of that call."""
    from cublaslt_on_cpu.test_started_by_address import biased, convolved

    types = ("f32[2,3,5,6]", "f32[3,3,3,3]", "f32[3]", "f32[2,3,5,6]")
    graph, program = loaded(lambda b, x, w, c, r: biased(b, convolved(b, x, w, low=1, high=1), c, 1) + r, types)
    program = program.in_mode(Mode.GRAPH)
    arrays = filled(graph, 1)
    for _ in range(2):
        check(graph, program, arrays)
    arrays[3] = arrays[0]
    for _ in range(2):
        check(graph, program, arrays)


@pytest.mark.parametrize(
    ("word", "name", "execution_mode"),
    [
        ("never", "two layers", "without a CUDA graph: HYBRIDGPU_CUDA_GRAPHS is never"),
        ("auto", "two layers", "in 1 CUDA graph"),
        ("auto", "dot", "without a CUDA graph: it would be of one step"),
        ("always", "dot", "1 library call a call in 1 CUDA graph"),
    ],
)
def test_the_setting(driver, monkeypatch, word, name, execution_mode):
    monkeypatch.setenv("HYBRIDGPU_CUDA_GRAPHS", word)
    graph, program = loaded(*GRAPHS[name])
    program = program.in_mode(Mode.GRAPH)
    for seed in (1, 2, 1):
        check(graph, program, filled(graph, seed))
    assert execution_mode in program.execution_mode and (driver.replayed == 0) is ("without" in execution_mode)


def test_graphs_of_single_kernels(cuda_driver, monkeypatch):
    """A launch is as fast, so it is one where that is asked for."""
    for word, replayed in (("auto", 0), ("always", 5)):
        monkeypatch.setenv("HYBRIDGPU_CUDA_GRAPHS", word)
        net = nn.HybridLambda(lambda F, x, n=len(word): x * 2 + n)
        net.hybridize(**REPLAYED)
        cuda_driver.forget()
        for k in range(5):
            x = nd.array([k, 1, 2], ctx=GPU)
            np.testing.assert_array_equal(net(x).asnumpy(), x.asnumpy() * 2 + len(word))
        assert cuda_driver.replayed == replayed
        assert net.explain(x).execution_mode.startswith(
            "1 kernel a call in 1 CUDA graph" if replayed else "1 launch a call without"
        )


def test_streams_in_turns(driver):
    """Captured calls wait for their stream as kernels do, and each stream has its own arena and graph."""
    net = residual()
    want = [net(images(seed)).asnumpy() for seed in (1, 2)]
    net.hybridize(**REPLAYED)
    streams = [EmulatedStream(2001), EmulatedStream(2002)]
    for stream in streams:
        with driver.using(stream):
            net(images(3)), net(images(4))
    held = [images(1), images(2)]
    driver.deferring = True
    try:
        found = []
        for x, stream in zip(held, streams, strict=True):
            with driver.using(stream):
                found.append(net(x))
        driver.run_streams([2001, 2002])
    finally:
        driver.deferring = False
    for y, w in zip(found, want, strict=True):
        np.testing.assert_allclose(y.asnumpy(), w, rtol=1e-4, atol=1e-5)


def test_threads(driver):
    graph, program = loaded(*GRAPHS["two layers"])
    program = program.in_mode(Mode.GRAPH)
    failures = []

    def work(seed):
        try:
            THREAD.device = 0
            for k in range(8):
                check(graph, program, filled(graph, seed + 10 * k))
        except BaseException as e:
            failures.append(e)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures
