# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E402 - what stands for CUDA comes before what imports CuPy
"""What users see of a GPU that fails, over the null device: python failing.py LIBRARY PATH…

Each case is done with the first allocation failing, then the second, and so on until none is left to fail; the same
for launches and other calls. Whatever happens is MXNet's error with the library's own as its cause, and afterwards
the case works as if nothing had been.
"""

from __future__ import annotations

import sys

sys.path[:0] = sys.argv[2:]

from cupy_on_null.null_cupy import NullCuda

null = NullCuda(sys.argv[1], devices=1)
if not null.replaced:
    print("SKIP this CuPy does not contain CUDA's run-time with its names")
    sys.exit()

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

os.environ["HYBRIDGPU_GRAPH_KERNELS"] = "never"  # kernels stay apart, so that there are several

import cupy
import numpy as np

import hybridgpu as mx
from hybridgpu import autograd, gluon, nd
from hybridgpu.backends.devices import device_of
from hybridgpu.gluon import nn
from hybridgpu.ndarray import apply as eager

GPU = mx.gpu(0)
NO_MEMORY, ILLEGAL, INVALID, MANY = 2, 700, 1, 1 << 40
pool = cupy.get_default_memory_pool()
Action = Callable[[], Any]


class Allocator:
    """CuPy's pool, of which some allocations fail: those behind the first ``after``, ``count`` of them."""

    def __init__(self) -> None:
        self.after, self.count, self.seen = 0, 0, 0

    def __call__(self, nbytes: int) -> Any:
        self.seen += 1
        if self.after < self.seen <= self.after + self.count:
            raise cupy.cuda.memory.OutOfMemoryError(nbytes, pool.total_bytes(), 0)
        return pool.malloc(nbytes)

    def fail(self, after: int = 0, count: int = 0) -> None:
        self.after, self.count, self.seen = after, count, 0


allocator = Allocator()
cupy.cuda.set_allocator(allocator)


@contextmanager
def told(*words: str) -> Iterator[None]:
    """What is inside raises MXNet's error with these words and CuPy's error as its cause."""
    try:
        yield
    except mx.MXNetError as e:
        missing = [w for w in words if w not in str(e)]
        assert not missing, (missing, str(e))
        assert type(e.__cause__).__module__.startswith("cupy"), (e, repr(e.__cause__))
        return
    raise AssertionError("nothing failed")


def net_of(*layers: Any, **flags: bool) -> Any:
    net = nn.HybridSequential(prefix="users_")
    net.add(*layers)
    net.initialize(mx.init.One(), ctx=GPU)
    net.hybridize(**flags)
    return net


def layers() -> list[Any]:
    return [
        nn.Dense(6, activation="relu", in_units=4),
        nn.BatchNorm(in_channels=6),
        nn.Dense(300, in_units=6),
        nn.HybridLambda("softmax"),
    ]


def long_layers() -> list[Any]:
    """Of many rows, without products of matrices, which would be cuBLAS's."""
    return [
        nn.HybridLambda(lambda F, x: F.softmax(x, axis=0)),
        nn.LayerNorm(in_channels=4),
        nn.BatchNorm(in_channels=4),
    ]


def ones(*shape: int) -> Any:
    return nd.ones(shape or (5, 4), ctx=GPU)


# -- what is done: each function prepares a case and gives what may fail


def eager_operators() -> Action:
    x = ones()
    return lambda: (nd.softmax(x * 2 + x[::-1]), nd.exp(x), nd.concat(x, x, dim=0), nd.argmax(x, axis=1), x.sum())


def new_operators() -> Action:
    x = ones()

    def act() -> None:
        eager._functions.clear()  # of which some keep constants on the device
        nd.softmax(x * 3 + 1)

    return act


def operators_with_out() -> Action:
    x, y = ones(), ones()
    return lambda: nd.broadcast_add(x, x, out=y)


def making_arrays() -> Action:
    return lambda: (nd.zeros((5, 4), ctx=GPU), nd.array(np.ones((5, 4)), ctx=GPU), nd.empty((5, 4), ctx=GPU))


def random_numbers() -> Action:
    return lambda: nd.random.uniform(shape=(5, 4), ctx=GPU)


def parts() -> Action:
    x = ones()
    return lambda: (x[1], x[:, 1:3], x[[0, 2]], x[nd.array([1], ctx=GPU)])


def assignments() -> Action:
    x, part = ones(), ones(4)
    return lambda: (
        x.__setitem__(0, 1),
        x.__setitem__([1, 0], 2.5),
        x.__setitem__((slice(None), 1), x[:, 0]),
        x.__setitem__(slice(None), np.ones((5, 4))),
        x.__setitem__(2, part),
    )


def copies() -> Action:
    x, y, z = ones(), ones(), nd.ones((5, 4), ctx=GPU, dtype="float16")
    return lambda: (
        x.copyto(y),
        x.copyto(z),
        x.copyto(mx.cpu()),
        nd.ones((5, 4)).copyto(x),
        x.as_in_context(mx.cpu()),
        x.copy(),
    )


def reading() -> Action:
    x = ones()
    return lambda: (x.asnumpy(), x[0, 0].asscalar(), str(x), x.wait_to_read(), nd.waitall())


def calls(**flags: bool) -> Callable[[], Action]:
    def prepare() -> Action:
        net, x = net_of(*layers(), **flags), ones()
        return lambda: net(x)

    return prepare


def warm_calls(**flags: bool) -> Callable[[], Action]:
    def prepare() -> Action:
        net, x, y = net_of(*layers(), **flags), ones(), ones()
        for _ in range(3):
            net(x)
        kept = [net(x) for _ in range(5)]  # so that addresses change, and graphs with them

        def call() -> None:
            kept[:] = [*kept[1:], net(y)]
            net(ones(7, 4))

        return call

    return prepare


def training(**flags: bool) -> Callable[[], Action]:
    def prepare() -> Action:
        net, x = net_of(*layers(), **flags), ones()
        trainer = gluon.Trainer(net.collect_params(), "adam")

        def step() -> None:
            with autograd.record():
                loss = net(x).sum()
            loss.backward()
            trainer.step(5)

        return step

    return prepare


def gradients_that_are_added() -> Action:
    x = ones()
    x.attach_grad("add")

    def step() -> Any:
        with autograd.record():
            y = (x * x)[1:3] + nd.exp(x)[0]
        y.backward(ones(2, 4))
        return x.grad

    return step


def attaching() -> Action:
    x = ones()
    return lambda: x.attach_grad()


def setting_data() -> Action:
    net = net_of(*layers(), static_alloc=True)
    net(ones())
    weight = net[0].weight

    def change() -> None:
        weight.set_data(nd.ones((6, 4)))
        net(ones())

    return change


def initializing() -> Action:
    def make() -> None:
        net = nn.HybridSequential()
        net.add(nn.Dense(6), nn.Dense(3))
        net.initialize(ctx=GPU)
        net.hybridize()
        net(ones())

    return make


def waiting_for_a_shape() -> Action:
    """The same block is called again: what is half initialized is initialized then."""
    net = nn.HybridSequential()
    net.add(nn.Dense(6), nn.Dense(3))
    net.initialize(ctx=GPU)
    net.hybridize()
    return lambda: net(ones())


def loading() -> Action:
    folder = tempfile.mkdtemp()
    net = net_of(*layers(), static_alloc=True)
    net.save_parameters(f"{folder}/net.params")

    def load() -> None:
        net.load_parameters(f"{folder}/net.params", ctx=GPU)
        net(ones())

    return load


def moving() -> Action:
    net = net_of(*layers(), static_alloc=True)

    def move() -> None:
        net.collect_params().reset_ctx(mx.cpu())
        net.collect_params().reset_ctx(GPU)
        net(ones())

    return move


def casting() -> Action:
    net = net_of(nn.Dense(6, in_units=4), static_alloc=True)

    def cast() -> None:
        net.cast("float16")
        net(ones().astype("float16"))
        net.cast("float32")
        net(ones())

    return cast


def splitting() -> Action:
    x = np.ones((6, 4), np.float32)
    return lambda: gluon.utils.split_and_load(x, [GPU])


CASES: dict[str, Callable[[], Action]] = {
    f.__name__: f
    for f in (
        eager_operators, new_operators, operators_with_out, making_arrays, random_numbers, parts, assignments, copies,
        reading, gradients_that_are_added, attaching, setting_data, initializing, waiting_for_a_shape, loading, moving, casting,
        splitting,
    )
} | {
    f"{f.__name__} {' '.join(flags)}": f(**flags)
    for f in (calls, warm_calls, training)
    for flags in ({}, {"static_alloc": True}, {"static_alloc": True, "static_shape": True})
}  # fmt: skip


def ours() -> list[str]:
    return [name for name in null.started() if not name.startswith("cupy_")]


def case_by_case(cases: str, start: Callable[[int], None], stop: Callable[[], bool], *words: str) -> None:
    """Each case with something that fails from the first time on, from the second, … until nothing fails any more.

    Args:
        cases: what the names of those contain that are wanted.
        start: make it fail behind so many times.
        stop: have it work again; whether anything failed.
    """
    failures = 0
    for name, prepare in CASES.items():
        if cases not in name:
            continue
        act = prepare()
        for _ in range(6):  # by then optimizers' steps are compiled
            act()
        null.started(), act()
        healthy = ours()
        for k in range(400):
            if name.startswith(("calls", "casting")):
                act = prepare()
            start(k)
            try:
                act()
                error = None
            except mx.MXNetError as e:
                error = e
            except Exception as e:
                raise AssertionError((name, k)) from e
            if not stop():
                assert error is None, (name, k, error)
                break
            if error is not None:
                failures += 1
                assert all(w in str(error) for w in words), (name, k, str(error))
                assert type(error.__cause__).__module__.startswith("cupy") or "(CUDA_" in str(error), (name, k, error)
            act(), null.started(), act()
            again = ours()
            assert again == healthy, (name, k, again, healthy)
        else:
            raise AssertionError(f"{name} has no end")
    assert failures > 1, "nothing failed"


def every_allocation() -> None:
    def stop() -> bool:
        failed = allocator.seen > allocator.after
        allocator.fail()
        return failed

    case_by_case(
        "", lambda k: allocator.fail(k, 1 << 40), stop, "cudaMalloc retry failed: out of memory", "empty_cache()"
    )


def one_allocation_that_works_when_tried_again() -> None:
    for name, prepare in CASES.items():
        act, k = prepare(), 0
        act()
        while True:
            allocator.fail(k, 1)
            try:
                act()
            except mx.MXNetError as e:
                raise AssertionError((name, k)) from e
            null.started()
            if allocator.seen <= k:
                break
            k += 1
        allocator.fail()


def every(function: str, status: int, *words: str, cases: str = "") -> Callable[[], None]:
    def run() -> None:
        def stop() -> bool:
            return null.fail() < MANY

        case_by_case(cases, lambda k: null.fail(function, k, MANY, status), stop, *words)

    run.__name__ = f"every {function} with {status}"
    return run


def modules_that_are_not_loaded() -> None:
    for status, words in ((NO_MEMORY, "cudaMalloc retry failed"), (ILLEGAL, "illegal memory access")):
        net, x = net_of(nn.HybridLambda(lambda F, x, n=status: F.tanh(x * 1.5 + n)), static_alloc=True), ones()
        null.fail("cuModuleLoadData", 0, MANY, status)
        for _ in range(2):
            with told(words):
                net(x)
        null.fail()
        assert net(x).shape == x.shape


def graphs_without_memory() -> None:
    """They are made later: only what CUDA cannot make as a graph at all is started without one."""
    net, x = net_of(*layers(), static_alloc=True, static_shape=True), ones()
    null.fail("cuGraphInstantiate", 0, MANY, NO_MEMORY)
    try:
        net(x)
    except mx.MXNetError as e:
        assert "cudaMalloc retry failed" in str(e), e
    else:
        raise AssertionError("nothing failed")
    null.fail("cuGraphInstantiate", 0, 1, NO_MEMORY)
    net(x)
    assert "in 1 CUDA graph" in net.explain(x).execution_mode, net.explain(x).execution_mode


def waiting() -> None:
    """What a kernel did wrong shows where the device is waited for, and at everything that comes later."""
    x = ones()
    for wait in (x.asnumpy, x.wait_to_read, nd.waitall, x[0, 0].asscalar, lambda: x + 1, lambda: mx.gpu_memory_info(0)):
        null.fail("cudaMemcpyAsync", 0, 1, ILLEGAL)
        with told("Check failed: e == cudaSuccess: CUDA: an illegal memory access", "CUDA_LAUNCH_BLOCKING=1"):
            x.asnumpy()
        with told("Check failed: e == ", "CUDA: an illegal memory access was encountered", "CUDA_LAUNCH_BLOCKING=1"):
            wait()
        null.fail()
        wait()


def what_is_said() -> None:
    net, x = net_of(*layers(), static_alloc=True), ones()
    line = "(in block users, failing.py:"
    for _ in range(3):  # the general call, then prepared ones
        allocator.fail(0, MANY)
        with told("cudaMalloc retry failed: out of memory\ngpu(0): ", "were asked for, ", " of 8 GiB are free", line):
            kept.append(net(x))
        allocator.fail()
        kept.append(net(x))
    allocator.fail(0, MANY)
    with told("gpu(0): 80 bytes were asked for, "):
        nd.exp(x)
    allocator.fail()
    with mx.gpu(0):
        try:
            nd.ones((2, 2), ctx=mx.gpu(3))
        except mx.MXNetError as e:
            assert str(e).startswith("Check failed: e == cudaSuccess: CUDA: invalid device ordinal\ngpu(3) cannot"), e


def memory_that_is_kept() -> None:
    """Arenas and results that wait for reuse are given back before memory is said to be out."""
    long = nn.HybridLambda(lambda F, x: F.sum(F.softmax(F.softmax(x, axis=0) * 2, axis=0) * 3, axis=1))
    net, x = net_of(long, static_alloc=True), ones(1 << 18, 4)
    results = net(x).size * 4  # which the block keeps for its next calls
    arena = net.explain(x).program.arena_bytes
    assert arena > 4 << 20
    for nbytes in (arena, arena + results):
        device_of(GPU).empty_cache()
        net(x), net(x)
        pool.free_all_blocks()
        null.capacity(pool.total_bytes() + 2 * results)
        try:
            big = nd.empty((nbytes + 2 * results - (1 << 12),), ctx=GPU, dtype="int8")
            with told("cudaMalloc retry failed: out of memory"):
                net(x)
            big._data = None
            net(x)
        finally:
            null.capacity(1 << 33)


def a_smaller_batch() -> None:
    for flags in ({}, {"static_alloc": True}, {"static_alloc": True, "static_shape": True}):
        device_of(GPU).empty_cache()
        net = net_of(*long_layers(), **flags)
        trainer = gluon.Trainer(net.collect_params(), "adam")

        def step(rows: int, net: Any = net, trainer: Any = trainer) -> None:
            with autograd.record():
                loss = net(ones(rows, 4)).sum()
            loss.backward()
            trainer.step(rows)

        step(64)
        null.capacity(pool.total_bytes() + (8 << 20))
        try:
            with told("cudaMalloc retry failed: out of memory"):
                step(1 << 20)
            for _ in range(4):
                step(1 << 12)
        finally:
            null.capacity(1 << 33)


kept: list[Any] = []
ACCESS = ("CUDA: an illegal memory access was encountered", "CUDA_LAUNCH_BLOCKING=1")
TESTS = [
    every_allocation,
    one_allocation_that_works_when_tried_again,
    every("a launch", ILLEGAL, *ACCESS),
    every("a launch", NO_MEMORY, "out of memory", cases="calls"),
    every("a graph's launch", ILLEGAL, *ACCESS, cases="static_shape"),
    every("cuGraphExecKernelNodeSetParams", ILLEGAL, *ACCESS, cases="static_shape"),
    every("cudaMemcpyAsync", ILLEGAL, *ACCESS),
    every("cudaMemcpyAsync", INVALID, "CUDA: said by the null device", "hybridgpu info", cases="copies"),
    modules_that_are_not_loaded,
    graphs_without_memory,
    waiting,
    what_is_said,
    memory_that_is_kept,
    a_smaller_batch,
]
if __name__ == "__main__":
    for test in TESTS:
        try:
            test()
        except BaseException:
            print(f"in {test.__name__}", file=sys.stderr)
            raise
        null.refused()
    print("DONE")
