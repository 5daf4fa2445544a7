# SPDX-License-Identifier: Apache-2.0
"""Calls of CUDA programs, emulated: prepared calls, argument blocks, kept memory, graphs, streams, threads."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest
from emulated import EmulatedStream

import hybridgpu as mx
from hybridgpu import nd
from hybridgpu.backends.cuda import backend
from hybridgpu.backends.cuda.argument_tables import Arenas
from hybridgpu.gluon import nn

FLAGS = {
    "fresh": {},
    "from the pool": {"inline_limit": 2},  # the default, so no flag: what large arenas do
    "kept": {"static_alloc": True},
    "graph": {"static_alloc": True, "static_shape": True},
}
CTX = mx.gpu(0)


@pytest.fixture(params=FLAGS)
def flags(request, cuda_driver, monkeypatch):
    if request.param == "from the pool":
        monkeypatch.setattr(backend, "_SMALL", 0)
    return FLAGS[request.param]


def filled(net, seed=0):
    """Initialise with random values on the device."""
    net.initialize(ctx=CTX)
    rng = np.random.RandomState(seed)
    for p in net.collect_params().values():
        p.set_data(nd.array(rng.standard_normal(p.shape)))
    return net


def perceptron():
    """Several kernels, all but the last of which leave their result in the arena."""
    net = nn.HybridSequential()
    net.add(nn.Dense(6, activation="relu", in_units=8), nn.Dense(5, in_units=6), nn.HybridLambda("softmax"))
    return filled(net)


def around_a_library_call():
    """Kernels, a sort, kernels."""
    net = nn.HybridSequential()
    net.add(nn.Dense(6, activation="relu", in_units=8), nn.Dense(5, in_units=6))
    net.add(nn.HybridLambda(lambda F, x: F.sort(x)), nn.Dense(4, in_units=5), nn.HybridLambda("softmax"))
    return filled(net)


class Two(nn.HybridBlock):
    """Two arguments and a parameter."""

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.w = self.params.get("w", shape=(8, 8))

    def hybrid_forward(self, F, a, b, w):
        return F.softmax(F.dot(a, w) + b)


NETS = {
    "perceptron": (perceptron, 1),
    "one kernel": (lambda: filled(nn.HybridLambda(lambda F, x: x * 2 + 1)), 1),
    "library call": (around_a_library_call, 1),
    "two arguments": (lambda: filled(Two()), 2),
}


def inputs(count=1, seed=1, batch=4):
    rng = np.random.RandomState(seed)
    return [nd.array(rng.standard_normal((batch, 8)), ctx=CTX) for _ in range(count)]


def kernels(net, *xs):
    """How many kernels a call starts."""
    return len(net.explain(*xs).kernels)


def same(y, want):
    np.testing.assert_allclose(y.asnumpy(), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", NETS)
def test_prepared_call_is_the_plain_call(name, flags):
    make, count = NETS[name]
    net = make()
    sets = [inputs(count, seed) for seed in range(3)]
    want = [net(*xs).asnumpy() for xs in sets]
    net.hybridize(**flags)
    for _ in range(3):
        for xs, w in zip(sets, want, strict=True):
            same(net(*xs), w)
    assert net._hg_fast.__name__ == "call_prepared"


def test_results_are_the_callers(flags):
    net = perceptron()
    sets = [inputs(1, seed) for seed in range(6)]
    want = [net(*xs).asnumpy() for xs in sets]
    net.hybridize(**flags)
    net(*sets[0])
    kept = [net(*xs) for xs in sets]
    views = [net(*xs)[1:3] for xs in sets]  # only the memory is held
    assert len({y.address for y in kept}) == len(kept)
    for _ in range(4):
        net(*sets[0])
    for y, v, w in zip(kept, views, want, strict=True):
        same(y, w)
        same(v, w[1:3])


def test_memory_that_nobody_holds_is_given_out_again(flags):
    net = perceptron()
    net.hybridize(**flags)
    (x,) = inputs()
    net(x)
    seen = set()
    for _ in range(9):
        y = net(x)
        seen.add(y.address)
    assert len(seen) <= 3 and y.asnumpy() is not None


def test_a_result_is_an_input_of_the_next_call(flags):
    net = filled(nn.Dense(8, in_units=8, activation="tanh"))
    (x,) = inputs()
    want = x.asnumpy()
    weight, bias = (p.data(CTX).asnumpy() for p in net.collect_params().values())
    net.hybridize(**flags)
    y = x
    for _ in range(5):
        y = net(y)
        want = np.tanh(want @ weight.T + bias)
    np.testing.assert_allclose(y.asnumpy(), want, rtol=1e-4, atol=1e-5)


def new_values(net):
    net.weight.set_data(net.weight.data(CTX) * 2)


def new_memory(net):
    net.weight.reset_ctx(mx.cpu())
    net.weight.set_data(net.weight.data(mx.cpu()) * 2)
    net.weight.reset_ctx(CTX)


def initialised_again(net):
    net.initialize(mx.init.Constant(2), ctx=CTX, force_reinit=True)


@pytest.mark.parametrize("change", [new_values, new_memory, initialised_again])
def test_parameters_that_change(change, flags):
    net = filled(nn.Dense(5, in_units=8))
    (x,) = inputs()
    net.hybridize(**flags)
    old = [net(x) for _ in range(3)][-1].asnumpy()
    change(net)
    weight, bias = (p.data(CTX).asnumpy() for p in net.collect_params().values())
    for _ in range(3):
        y = net(x)
        np.testing.assert_allclose(y.asnumpy(), x.asnumpy() @ weight.T + bias, rtol=1e-4, atol=1e-5)
    assert not np.allclose(y.asnumpy(), old)


def test_another_batch_size_and_back(flags, cuda_driver):
    net = perceptron()
    small, large = inputs(1, 1, 2), inputs(1, 2, 7)
    want = [net(*xs).asnumpy() for xs in (small, large)]
    net.hybridize(**flags)
    net(*small)
    for _ in range(3):
        for xs, w in zip((small, large), want, strict=True):
            for _ in range(2):
                same(net(*xs), w)
    made, compiled = cuda_driver.made, cuda_driver.compiled
    for xs in (small, large, small):
        net(*xs)
    assert (cuda_driver.made, cuda_driver.compiled) == (made, compiled)  # neither forgot its kernels and graphs


@pytest.mark.parametrize("offset", [1, 4])
def test_unaligned_arguments(offset, flags):
    net = perceptron()
    room = np.zeros(8 * 4 + 8, np.float32)
    data = room[offset : offset + 32].reshape(4, 8)
    data[...] = inputs()[0].asnumpy()
    (x,) = inputs()
    want = net(x).asnumpy()
    net.hybridize(**flags)
    net(x)
    shifted = nd.array(np.zeros((4, 8)), ctx=CTX)
    shifted._data, shifted._address = data, None
    for _ in range(2):
        same(net(shifted), want)


# -- graphs


def test_a_graph_is_made_once_and_changed_in_place(cuda_driver):
    net = perceptron()
    net.hybridize(**FLAGS["graph"])
    (x,) = inputs()
    for _ in range(6):
        y = net(x)
    count = kernels(net, x)
    assert count >= 3 and cuda_driver.made <= 3 and all(s.graph for s in cuda_driver.launches[-count:])
    cuda_driver.forget()
    kept = [y]
    for k in range(8):  # every call has another input and another result
        kept.append(net(*inputs(1, k)))
    assert cuda_driver.made <= 2 and cuda_driver.replayed == 8
    assert 8 <= cuda_driver.updated <= 16  # the first and the last kernel, not those between them
    cuda_driver.forget()
    y = None
    for _ in range(9):
        y = net(x)
    before = cuda_driver.updated
    for _ in range(9):
        y = net(x)  # a loop with one variable: two results take turns, and nothing changes
    assert y.shape == (4, 5) and cuda_driver.updated == before and cuda_driver.made == 0


def test_graphs_are_split_at_library_calls(cuda_driver):
    net = around_a_library_call()
    (x,) = inputs()
    want = net(x).asnumpy()
    net.hybridize(**FLAGS["graph"])
    for _ in range(3):
        same(net(x), want)
    report = net.explain(x)
    assert len(report.library_calls) == 1
    words = f"{len(report.kernels)} kernels a call in 2 CUDA graphs; 1 library call runs outside; {KEPT}"
    assert report.execution_mode == words
    assert report.execution_mode in str(report)


KEPT = "memory of intermediate results is kept"
MANNERS = {
    "fresh": ("perceptron", {}, "{} launches a call; " + KEPT),
    "no arena": ("one kernel", {}, "1 launch a call"),
    "kept": ("perceptron", FLAGS["kept"], "{} launches a call; " + KEPT),
    "graph": ("perceptron", FLAGS["graph"], "{} kernels a call in 1 CUDA graph; " + KEPT),
    "one kernel": (
        "one kernel",
        FLAGS["graph"],
        "1 launch a call without a CUDA graph: it would be of one step",
    ),
    "on the host": (None, FLAGS["graph"], ""),
}


def test_large_arenas_come_from_the_pool(cuda_driver, monkeypatch):
    monkeypatch.setattr(backend, "_SMALL", 1)
    net = perceptron()
    net.hybridize()
    net(*inputs())
    report = net.explain(*inputs())
    assert report.execution_mode == f"{len(report.kernels)} launches a call" and kept_bytes() == []


@pytest.mark.parametrize("name", MANNERS)
def test_explain_says_how_calls_run(name, cuda_driver):
    net, wanted_flags, words = MANNERS[name]
    if net is None:
        net, x = nn.HybridLambda(lambda F, x: x * 2), nd.ones((4, 8))
    else:
        net, (x,) = NETS[net][0](), inputs()
    net.hybridize(**wanted_flags)
    net(x)
    report = net.explain(x)
    words = words.format(len(report.kernels))
    assert report.execution_mode == words and (not words or words in str(report))


def test_without_graphs_the_reason_is_explained(cuda_driver, monkeypatch):
    monkeypatch.setattr(cuda_driver, "no_graphs", "the CUDA driver is a planted one")
    net = nn.HybridSequential()
    net.add(nn.Dense(7, activation="relu", in_units=8), nn.Dense(9, in_units=7), nn.HybridLambda("softmax"))
    filled(net)
    (x,) = inputs()
    want = net(x).asnumpy()
    net.hybridize(**FLAGS["graph"])
    for _ in range(3):
        same(net(x), want)
    assert cuda_driver.made == 0 and not any(s.graph for s in cuda_driver.launches)
    words = f"{kernels(net, x)} launches a call without a CUDA graph: the CUDA driver is a planted one; {KEPT}"
    assert net.explain(x).execution_mode == words


def test_training_has_the_same_gradients(flags, cuda_driver):
    found = []
    for chosen in ({}, flags):
        net = perceptron()
        net.hybridize(**chosen)
        for _ in range(3):
            (x,) = inputs()
            x.attach_grad()
            with mx.autograd.record():
                y = net(x)
                loss = (y * y).sum()
            loss.backward()
        found.append([x.grad.asnumpy(), *(p.grad(CTX).asnumpy() for p in net.collect_params().values())])
    for plain, got in zip(*found, strict=True):
        np.testing.assert_array_equal(got, plain)
    assert flags is not FLAGS["graph"] or cuda_driver.replayed >= 3


# -- streams and threads


def in_turns(driver, net, sets):
    """Results of calls on two streams whose kernels run in turns, one of each."""
    streams = [EmulatedStream(1001), EmulatedStream(1002)]
    for stream in streams:  # each prepares its call
        with driver.using(stream):
            net(*inputs())
            net(*inputs())
    driver.deferring = True
    try:
        results = []
        for stream, xs in zip(streams, sets, strict=True):
            with driver.using(stream):
                results.append(net(*xs))
        driver.run_streams([1002, 1001])
    finally:
        driver.deferring = False
    return results


@pytest.mark.parametrize("name", ["fresh", "kept", "graph"])
@pytest.mark.parametrize("defect", [None, "one arena for all streams"])
def test_streams_do_not_share_memory(name, defect, cuda_driver, monkeypatch):
    net = perceptron()
    sets = [inputs(1, 5), inputs(1, 6)]
    want = [net(*xs).asnumpy() for xs in sets]
    if defect:
        of = Arenas.of
        monkeypatch.setattr(Arenas, "of", lambda self, stream: of(self, EmulatedStream(0)))
    net.hybridize(**FLAGS[name])
    count = kernels(net, *sets[0])
    got = [y.asnumpy() for y in in_turns(cuda_driver, net, sets)]
    assert {s.stream for s in cuda_driver.launches[-2 * count :]} == {1001, 1002}
    agree = [np.allclose(g, w, rtol=1e-5, atol=1e-6) for g, w in zip(got, want, strict=True)]
    assert agree == [True, True] if defect is None else not all(agree)


def test_kernels_start_on_the_current_stream(flags, cuda_driver):
    net = perceptron()
    net.hybridize(**flags)
    (x,) = inputs()
    count = kernels(net, x)
    for ptr in (0, 77, 0, 78, 77):
        with cuda_driver.using(EmulatedStream(ptr)) if ptr else cuda_driver.using(cuda_driver.stream()):
            cuda_driver.forget()
            net(x)
            assert [s.stream for s in cuda_driver.launches] == [ptr] * count


def test_threads_call_at_once(flags):
    net = perceptron()
    sets = [inputs(1, seed) for seed in range(4)]
    want = [net(*xs).asnumpy() for xs in sets]
    net.hybridize(**flags)
    net(*sets[0])
    errors = []
    barrier = threading.Barrier(len(sets))

    def work(k):
        try:
            barrier.wait()
            for _ in range(6):
                same(net(*sets[k]), want[k])
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(len(sets))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors


@pytest.mark.parametrize("moment", [1, 2, 3])
def test_a_call_inside_a_call(moment, flags, cuda_driver, monkeypatch):
    """Another thread, a finaliser or a signal's handler calls the net that is at work: before a kernel, and behind
    one whose result lies in the arena."""
    net = perceptron()
    outer, inner = inputs(1, 1), inputs(1, 2)
    want = [net(*xs).asnumpy() for xs in (outer, inner)]
    net.hybridize(**flags)
    net(*outer)
    start, calls, inside = cuda_driver.start, [], []

    def interrupted(*args, **kwargs):
        calls.append(None)
        if len(calls) == moment:
            inside.append(net(*inner))
        start(*args, **kwargs)

    monkeypatch.setattr(cuda_driver, "start", interrupted)
    same(net(*outer), want[0])
    same(inside[0], want[1])


# -- memory


def arenas():
    from hybridgpu.backends.devices import device_of

    return device_of(CTX).backend().arenas


def kept_bytes():
    return [sum(a.nbytes for a in s.free) for s in list(arenas()._streams.values())]


def test_kept_memory_is_that_of_the_largest_program(cuda_driver):
    gc.collect()
    net = perceptron()
    net.hybridize(static_alloc=True)
    for batch in (2, 40, 3, 8):
        net(*inputs(1, 1, batch))
    assert kept_bytes() == [net.explain(*inputs(1, 1, 40)).arena_bytes]
    (x,) = inputs()
    want = net(x).asnumpy()
    CTX.empty_cache()
    assert kept_bytes() == [0]
    for _ in range(2):
        same(net(x), want)


def test_an_error_loses_nothing(flags, cuda_driver, monkeypatch):
    net = perceptron()
    net.hybridize(**flags)
    (x,) = inputs()
    want = net(x).asnumpy()
    net(x)

    def broken(*args, **kwargs):
        raise mx.MXNetError("planted")

    with monkeypatch.context() as m:
        m.setattr(cuda_driver, "start", broken)
        with pytest.raises(mx.MXNetError, match="planted"):
            net(x)
    for _ in range(3):
        same(net(x), want)


def test_static_shape_needs_static_alloc():
    with pytest.raises(mx.MXNetError, match="static_alloc must be True when static_shape is True"):
        nd.CachedOp(mx.sym.var("x") * 2, [("static_shape", "True")])
