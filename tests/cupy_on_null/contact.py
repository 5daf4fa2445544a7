# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E402 - what stands for CUDA comes before what imports CuPy
"""What a program asks of CuPy on gpu(0) and gpu(1), over the null device: python contact.py LIBRARY PATH…"""

from __future__ import annotations

import sys

sys.path[:0] = sys.argv[2:]

from cupy_on_null.null_cupy import NullCuda

null = NullCuda(sys.argv[1], devices=2)
if not null.replaced:
    print("SKIP this CuPy does not contain CUDA's run-time with its names")
    sys.exit()

import numpy as np

import hybridgpu as mx
from hybridgpu import autograd, nd
from hybridgpu.backends.devices import device_of
from hybridgpu.core.dtypes import ALL_DTYPES
from hybridgpu.gluon import nn

import cupy  # isort: skip

assert mx.num_gpus() == 2 and mx.gpu_memory_info(0) == (1 << 32, 1 << 33)
HOST = np.arange(24).reshape(2, 3, 4)
for ctx in (mx.gpu(0), mx.gpu(1)):
    device = device_of(ctx)
    for dtype in ALL_DTYPES:
        host = HOST.astype(dtype.np)
        x = nd.array(host, ctx=ctx, dtype=dtype.name)
        assert type(x._data) is cupy.ndarray and x._data.device.id == ctx.device_id and x._data.dtype == dtype.np
        assert x.asnumpy().tobytes() == host.tobytes()
        other = mx.gpu(1 - ctx.device_id)
        assert x.as_in_context(other).as_in_context(mx.cpu()).asnumpy().tobytes() == host.tobytes()
        assert x[1].asnumpy().tobytes() == host[1].tobytes() and x[1, 1:3].shape == (2, 4)
        for change in (
            lambda x=x: x.__setitem__(0, 1),
            lambda x=x: x.__setitem__([1, 0], 2.5),
            lambda x=x: x.__setitem__((slice(None), 1), x[:, 0]),
            lambda x=x, host=host: x.__setitem__(slice(None), host),
            lambda x=x: (x[[0, 0]], nd.concat(x, x, dim=0), nd.transpose(x), x.astype("float32")),
            lambda x=x: dtype.name == "bool" or (x + 1, x * x, x.sum(), x.argmax(axis=1)),  # noqa: B023 - used at once
        ):
            change()
        if dtype.is_float:
            x.attach_grad()
            with autograd.record():
                y = nd.exp(x[[0, 0, 1]] * 2).sum()
            y.backward()
            assert x.grad.shape == x.shape and x.grad.dtype == x.dtype
    on_host = nd.array([2], dtype="int32")
    for wrong in (
        lambda x=x: x[[2]],
        lambda x=x: x[5],
        lambda x=x: x[5, [0, 1]],
        lambda x=x: x[[0, 1], -4],
        lambda x=x: x[on_host],
        lambda x=x: x.__setitem__((nd.array([0], dtype="int32"), 3), 1),
    ):
        try:
            wrong()
        except IndexError:
            continue
        raise AssertionError("CuPy wrapped a position")
    null.started()
    for flags in ({}, {"static_alloc": True}):
        net = nn.HybridSequential()
        net.add(nn.Dense(6, activation="relu", in_units=4), nn.LayerNorm(in_channels=6), nn.HybridLambda("softmax"))
        net.initialize(mx.init.One(), ctx=ctx)
        net.hybridize(**flags)
        x = nd.ones((5, 4), ctx=ctx)
        with cupy.cuda.Device(ctx.device_id), cupy.cuda.Stream(non_blocking=True):
            assert net(x).shape == (5, 6)
        with autograd.record():
            y = net(x)
        y.backward()
        mx.gluon.Trainer(net.collect_params(), "adam").step(5)
        nd.waitall()
    assert any(not name.startswith("cupy_") for name in null.started()), "no kernel of ours was started"
    device.empty_cache()
print("DONE")
