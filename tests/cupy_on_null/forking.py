# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E402 - what stands for CUDA comes before what imports CuPy
"""What children of a fork see of a GPU, over the null device, which refuses them what CUDA does: python forking.py LIBRARY
PATH…
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
import traceback
import warnings
from collections.abc import Callable
from typing import Any

from cupy_on_null.refusals import must_refuse

import hybridgpu as mx
from hybridgpu import gluon, nd
from hybridgpu.gluon import nn

GPU = mx.gpu(0)
WORDS = ("forked from one that had used CUDA", 'multiprocessing.get_context("spawn")', "DataLoader", "mx.cpu()")


def in_a_child(work: Callable[[], Any]) -> None:
    """Do ``work`` in a child of a fork, which has to come to its end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python's, of forks where there are threads
        pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0, "the child failed"


def net_of(**flags: bool) -> Any:
    net = nn.HybridSequential()
    net.add(nn.Dense(6, activation="relu", in_units=4), nn.LayerNorm(in_channels=6), nn.HybridLambda("softmax"))
    net.initialize(mx.init.One(), ctx=GPU)
    net.hybridize(**flags)
    for _ in range(3):
        net(nd.ones((5, 4), ctx=GPU))
    return net


class Batches:
    """A dataset that makes its samples on the GPU."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, k: int) -> Any:
        return nd.ones((3,), ctx=GPU)


def before_the_first_use() -> None:
    in_a_child(lambda: nd.softmax(nd.ones((5, 4), ctx=GPU)).asnumpy())


def after_it() -> None:
    nets = [net_of(**flags) for flags in ({}, {"static_alloc": True}, {"static_alloc": True, "static_shape": True})]
    x = nd.ones((5, 4), ctx=GPU)
    acts: list[Callable[[], Any]] = [
        *(lambda net=net: net(x) for net in nets),
        lambda: x + 1,
        lambda: nd.softmax(x * 2),
        lambda: nd.ones((2, 2), ctx=GPU),
        lambda: nd.array([1, 2], ctx=GPU),
        x.asnumpy,
        x.wait_to_read,
        nd.waitall,
        lambda: mx.gpu_memory_info(0),
        mx.num_gpus,
        net_of,
    ]
    for act in acts:

        def child(act: Callable[[], Any] = act) -> None:
            for _ in range(2):
                must_refuse(act, *WORDS, "initialization error")
            assert nd.softmax(nd.ones((2, 2))).asnumpy().shape == (2, 2)  # on the CPU all is well

        in_a_child(child)
    assert nets[0](x).shape == (5, 6)  # and in the parent


def workers_of_a_loader() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        loader = gluon.data.DataLoader(Batches(), batch_size=2, num_workers=1)
        must_refuse(lambda: list(loader), *WORDS)


if __name__ == "__main__":
    for case in (before_the_first_use, after_it, workers_of_a_loader):
        try:
            case()
        except BaseException:
            print(f"in {case.__name__}", file=sys.stderr)
            raise
        null.refused()
    print("DONE")
