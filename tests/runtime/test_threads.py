# SPDX-License-Identifier: Apache-2.0
"""Programs on several threads: the same bits for any number of threads, from several callers, in forked children."""

import os
import re
import signal
import sys
import threading

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import autograd, gluon, nd
from hybridgpu.backends.cpu import thread_pool
from hybridgpu.backends.cpu.thread_pool import worker_count
from hybridgpu.core import num_threads
from hybridgpu.gluon import nn
from hybridgpu.gluon.model_zoo.vision import BasicBlockV1

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the pool sleeps by futex")


class Function(gluon.HybridBlock):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def hybrid_forward(self, F, *arrays):
        return self.function(F, *arrays)


def random(*shape):
    return nd.array(np.random.RandomState(len(shape)).randn(*shape).astype("float32"))


def initialized(net):
    net.initialize(mx.init.Xavier(), force_reinit=True)
    return net


def chain(*blocks):
    net = nn.HybridSequential()
    net.add(*blocks)
    return net


#: name -> a net and the shape of what it is called with
KINDS = {
    "map": (lambda: Function(lambda F, x: F.tanh(1.25 * x - 0.3) * F.sigmoid(x) + F.exp(-x * x)), (70_001,)),
    "map_of_rows": (
        lambda: Function(lambda F, x: F.broadcast_add(F.exp(x), F.slice(x, (0, 0), (1, None)))),
        (701, 333),
    ),
    "past_the_caches": (lambda: Function(lambda F, x: x * 2 + 1), (2_000_003,)),
    "transpose": (lambda: Function(lambda F, x: F.transpose(x) * 2), (701, 523)),
    "softmax": (lambda: Function(lambda F, x: F.softmax(x)), (1001, 256)),
    "softmax_of_odd_rows": (lambda: Function(lambda F, x: F.softmax(x)), (1001, 219)),
    "short_rows": (lambda: Function(lambda F, x: F.softmax(x)), (30_011, 10)),
    "layer_norm": (lambda: initialized(nn.LayerNorm(in_channels=384)), (777, 384)),
    "columns": (lambda: Function(lambda F, x: F.sum(F.exp(x), axis=1)), (101, 40, 77)),
    "max_pool": (lambda: initialized(nn.MaxPool2D(3, 2, 1)), (4, 64, 57, 57)),
    "average_pool": (lambda: initialized(nn.AvgPool2D(2, 2)), (8, 65, 56, 56)),
    "convolution": (lambda: initialized(nn.Conv2D(33, 3, padding=1, in_channels=16)), (1, 16, 57, 55)),
    "convolution_of_a_batch": (lambda: initialized(nn.Conv2D(20, 5, strides=2, in_channels=7)), (9, 7, 33, 33)),
    "pointwise": (lambda: initialized(nn.Conv2D(300, 1, in_channels=130)), (1, 130, 7, 7)),
    "depthwise": (lambda: initialized(nn.Conv2D(192, 3, padding=1, groups=192, in_channels=192)), (1, 192, 56, 56)),
    "volumes": (lambda: initialized(nn.Conv3D(9, 3, in_channels=6)), (2, 6, 9, 10, 11)),
    "convolution_with_prologue": (
        lambda: initialized(chain(Function(lambda F, x: F.exp(x)), nn.Conv2D(64, 3, padding=1, in_channels=24))),
        (1, 24, 56, 56),
    ),
    "dense": (lambda: initialized(nn.Dense(70, in_units=300)), (331, 300)),
    "dense_of_one": (lambda: initialized(nn.Dense(1003, in_units=512)), (1, 512)),
    "dense_with_prologue": (
        lambda: initialized(chain(Function(lambda F, x: F.exp(x)), nn.Dense(64, in_units=96))),
        (517, 96),
    ),
    "attention": (
        lambda: Function(lambda F, x: F.batch_dot(F.softmax(F.batch_dot(x, x, False, True)), x)),
        (24, 65, 32),
    ),
    "heads": (lambda: Function(lambda F, x: F.linalg.gemm2(x, x, transpose_b=True)), (1, 24, 65, 32)),
    "blocked_products_of_a_batch": (lambda: Function(lambda F, x: F.linalg.gemm2(x, x)), (2, 3, 300, 300)),
    "columns_of_another_order": (lambda: Function(lambda F, x: F.dot(x, x, transpose_a=True)), (40, 301)),
    "residual_block": (lambda: initialized(BasicBlockV1(32, 1, False, 32)), (1, 32, 56, 56)),
    "sum_of_rows": (lambda: Function(lambda F, x: F.sum(F.log(F.sum(F.exp(x), axis=1)))), (3001, 100)),
    "column_sums": (lambda: Function(lambda F, x: F.sum(F.softmax(x), axis=0)), (2003, 96)),
    "row_and_column_sums": (
        lambda: Function(lambda F, x: F.concat(F.softmax(x), F.sum(F.softmax(x), axis=0, keepdims=True), dim=0)),
        (2003, 96),
    ),
    "global_pool": (lambda: initialized(nn.GlobalAvgPool2D()), (32, 256, 14, 14)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_bits_do_not_depend_on_the_number_of_threads(kind):
    make, shape = KINDS[kind]
    net, x = make(), random(*shape)
    net.hybridize()
    with mx.set_num_threads(1):
        expected = net(x).asnumpy()
    assert any(s.chunk for s in net.explain(x).program.steps), "one chunk: the case is too small to tell anything"
    for threads in (2, 3, 7):
        with mx.set_num_threads(threads):
            for _ in range(3):
                np.testing.assert_array_equal(net(x).asnumpy(), expected)


#: name -> a net to train, the shape of what it is called with
TRAINED = {
    "convolutions": (
        lambda: chain(
            nn.Conv2D(40, 3, padding=1, in_channels=24),
            nn.Activation("relu"),
            nn.Conv2D(33, 3, strides=2, in_channels=40),
        ),
        (6, 24, 30, 28),
    ),
    "depthwise": (lambda: chain(nn.Conv2D(64, 3, padding=1, groups=64, in_channels=64)), (5, 64, 28, 28)),
    "normalized": (lambda: chain(nn.Conv2D(32, 3, in_channels=16), nn.BatchNorm(in_channels=32)), (6, 16, 32, 32)),
    "normalized_rows": (lambda: chain(nn.LayerNorm(in_channels=192), nn.Activation("relu")), (1500, 192)),
    "dense": (lambda: chain(nn.Dense(128, "tanh", in_units=200), nn.LayerNorm(in_channels=128)), (700, 200)),
    "embedding": (lambda: chain(nn.Embedding(500, 64), nn.Dense(32, in_units=64, flatten=False)), (40, 50)),
}


@pytest.mark.parametrize("kind", TRAINED)
def test_gradients_and_state_do_not_depend_on_the_number_of_threads(kind):
    make, shape = TRAINED[kind]
    net = initialized(make())
    x = nd.array(np.random.RandomState(0).randint(0, 500, shape)) if kind == "embedding" else random(*shape)
    start = {k: p.data().copy() for k, p in net.collect_params().items()}
    net.hybridize()

    def step():
        for k, p in net.collect_params().items():
            p.set_data(start[k])
        if kind != "embedding":
            x.attach_grad()
        with autograd.record():
            loss = (net(x) ** 2).mean()
        loss.backward()
        found = [loss.asnumpy(), *([] if kind == "embedding" else [x.grad.asnumpy()])]
        for p in net.collect_params().values():
            found += [p.data().asnumpy(), *([p.grad().asnumpy()] if p.grad_req != "null" else [])]
        return found

    with mx.set_num_threads(1):
        expected = step()
    for threads in (2, 3, 7):
        with mx.set_num_threads(threads):
            for _ in range(2):
                for got, wanted in zip(step(), expected, strict=True):
                    np.testing.assert_array_equal(got, wanted)


@linux
def test_threads_work():
    net, x = Function(lambda F, x: F.exp(F.sin(x))), random(3_000_000)
    net.hybridize()
    with mx.set_num_threads(3):
        net(x).wait_to_read()
        assert worker_count() >= 2


@pytest.mark.parametrize("rows", [0, 1, 63, 64, 65, 640, 3001])
def test_chunks_of_sums_are_merged(rows):
    """Against the same in float64; a sum of no rows is 0."""
    net = Function(lambda F, x: F.sum(F.log(F.sum(F.exp(x), axis=1))))
    net.hybridize()
    with mx.np_shape():
        x = random(rows, 100)
        expected = np.log(np.exp(x.asnumpy().astype("float64")).sum(1)).sum()
        for threads in (1, 3):
            with mx.set_num_threads(threads):
                np.testing.assert_allclose(net(x).asnumpy(), expected, rtol=1e-5)


def test_short_calls_are_one_chunk():
    net, x = Function(lambda F, x: x * 2), random(16)
    net.hybridize()
    assert [s.chunk for s in net.explain(x).program.steps] == [0]


def test_several_python_threads():
    net, x = Function(lambda F, x: F.softmax(x)), random(1001, 256)
    net.hybridize()
    expected = net(x).asnumpy()
    right = []

    def call():
        right.extend(np.array_equal(net(x).asnumpy(), expected) for _ in range(20))

    with mx.set_num_threads(3):
        callers = [threading.Thread(target=call) for _ in range(3)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
    assert right == [True] * 60


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_child():
    net, x = Function(lambda F, x: F.softmax(x)), random(1001, 256)
    net.hybridize()
    with mx.set_num_threads(3):
        expected = net(x).asnumpy()
        child = os.fork()
        if child == 0:
            signal.alarm(60)  # a child that hangs ends
            os._exit(0 if all(np.array_equal(net(x).asnumpy(), expected) for _ in range(5)) else 1)
        assert os.waitpid(child, 0)[1] == 0
        np.testing.assert_array_equal(net(x).asnumpy(), expected)


class Transformed(gluon.data.Dataset):
    """Examples that a hybridized block computes, and how many threads it may use."""

    def __init__(self, net, x):
        self.net, self.x = net, x

    def __len__(self):
        return 4

    def __getitem__(self, k):
        return self.net(self.x + k).asnumpy(), np.float32(mx.get_num_threads())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="workers are forked")
def test_workers_of_a_data_loader_use_one_thread():
    net, x = Function(lambda F, x: F.softmax(x)), random(1001, 64)
    net.hybridize()
    with mx.set_num_threads(3):
        expected = [net(x + k).asnumpy() for k in range(4)]
        loader = gluon.data.DataLoader(Transformed(net, x), batch_size=1, num_workers=2)
        for (y, threads), wanted in zip(loader, expected, strict=True):
            np.testing.assert_array_equal(y[0].asnumpy(), wanted)
            assert threads.asscalar() == 1
        assert mx.get_num_threads() == 3


@pytest.mark.parametrize(
    ("function", "shape", "expected"),
    [
        (lambda F, x: F.exp(F.sin(x)), (100_000,), r"in \d+ chunks of \d+ elements"),
        (lambda F, x: F.softmax(x), (4096, 1024), r"in \d+ chunks of \d+ rows"),
        (lambda F, x: x * 2, (16,), r"in one: less than 1 us"),
    ],
)
def test_explain_says_how_threads_share_a_kernel(function, shape, expected):
    net = Function(function)
    net.hybridize()
    report = net.explain(random(*shape))
    (kernel,) = report.kernels
    assert re.fullmatch(expected, kernel.threads), kernel.threads
    assert (kernel.threads in str(report)) == (" chunks of " in kernel.threads)


class _Code:
    """Code of a program, with the variable that holds what runs its chunks."""

    def __init__(self, handle):
        self._handle = handle


def pool_without_library(monkeypatch, resize):
    """A pool as in a process that has none yet, and whose library notes the numbers that it is given."""
    library = type("Library", (), {"hg_pool_resize": staticmethod(resize)})()
    monkeypatch.setattr(thread_pool, "_library", None)
    monkeypatch.setattr(thread_pool.ThreadPool, "_built", lambda self: library)
    return thread_pool.ThreadPool(None, None, None)


def test_a_number_that_is_set_while_the_pool_opens_is_its_last(monkeypatch):
    given, setters = [], []

    def resize(count):
        if not given and not setters:
            setters.append(threading.Thread(target=num_threads.set_num_threads, args=(5,)))
            setters[0].start()
            setters[0].join(0.2)
        given.append(count)

    pool = pool_without_library(monkeypatch, resize)
    with mx.set_num_threads(2):
        pool._opened()
        setters[0].join()
        assert given[-1] == 5


def test_code_waits_for_the_pool_once(monkeypatch):
    pool = pool_without_library(monkeypatch, lambda count: None)
    handed = []
    monkeypatch.setattr(thread_pool, "_hand_over", lambda library, code: handed.append(code._handle))
    with mx.set_num_threads(1):
        for handle in (1, 2, 1, 1):  # as each net of one text loads it
            pool.serve(_Code(handle))
        assert not handed and len(pool._waiting) == 2
        with mx.set_num_threads(2):
            assert sorted(handed) == [1, 2] and not pool._waiting
