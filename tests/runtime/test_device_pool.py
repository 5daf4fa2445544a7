# SPDX-License-Identifier: Apache-2.0
"""Results on a GPU that are given out again: only when nobody can reach their memory.

CuPy's own objects are counted, over memory of the host: no kernel runs, so no GPU is needed.
"""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu.compiler.ir.types import tensor_type
from hybridgpu.core.dtypes import from_short
from hybridgpu.runtime.dispatch.pools import DevicePool

TYPE = tensor_type((4, 3), from_short("f32"))


class NumpyDevice:
    """As the emulated one."""

    def __init__(self):
        from emulated import EmulatedDevice

        self.xp, self.memory = np, lambda a: EmulatedDevice.memory(None, a)
        self.address = lambda a: EmulatedDevice.address(None, a)


class CupyOnTheHost:
    """CuPy's arrays, in memory that ctypes gives."""

    def __init__(self):
        cupy = pytest.importorskip("cupy", reason="its reference counts are the test")
        from hybridgpu.backends.cuda.device import CupyDevice

        self.xp, self._cupy = self, cupy
        self.memory, self.address = (lambda a, f=f: f(None, a) for f in (CupyDevice.memory, CupyDevice.address))

    def empty(self, shape, dtype):
        owner = ctypes.create_string_buffer(1024)
        memory = self._cupy.cuda.UnownedMemory(ctypes.addressof(owner), 1024, owner, 0)
        return self._cupy.ndarray(shape, dtype, memptr=self._cupy.cuda.MemoryPointer(memory, 0))


@pytest.fixture(params=[NumpyDevice, CupyOnTheHost])
def pool(request):
    return DevicePool(TYPE, mx.gpu(0), request.param())


HELD = {
    "the array": lambda y: y,
    "its data": lambda y: y._data,
    "a view": lambda y: y._data[1:, ::2],
    "a view of a view": lambda y: y._data[1:].T[0],
    "another shape": lambda y: y._data.reshape(12),
    "a detached array": lambda y: y.detach(),
    "where it is": lambda y: y._data.data,
    "the bytes": lambda y: getattr(y._data.data, "mem", y._data.data),
    "an address inside": lambda y: y._data.data + 4 if hasattr(y._data.data, "mem") else y._data.data[1:],
    "another array of the memory": lambda y: (
        type(y._data)((2,), np.float32, memptr=y._data.data)
        if hasattr(y._data.data, "mem")
        else np.frombuffer(y._data, np.float32)
    ),
}


@pytest.mark.parametrize("what", HELD)
def test_what_is_held_is_not_given_out(what, pool):
    y = pool.take()
    first = y.address
    kept = HELD[what](y)
    del y
    seen = {pool.take().address for _ in range(8)}
    assert first not in seen
    del kept
    assert first in {pool.take().address for _ in range(8)}


def test_memory_is_given_out_again(pool):
    first = pool.take().address
    for _ in range(5):
        assert pool.take().address == first


def test_results_are_distinct(pool):
    held = [pool.take() for _ in range(9)]
    assert len({y.address for y in held}) == 9
    assert all(y.shape == (4, 3) and y.dtype == np.float32 and y.context == mx.gpu(0) for y in held)


def test_a_gradient_does_not_stay(pool):
    y = pool.take()
    first = y.address
    y._autograd = object()
    del y
    y = pool.take()
    assert y.address == first and y._autograd is None
