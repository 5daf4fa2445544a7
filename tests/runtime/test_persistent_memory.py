# SPDX-License-Identifier: Apache-2.0
"""Memory of what programs read at every call: pieces of large pages."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import nd
from hybridgpu.backends import memory
from hybridgpu.gluon import nn

#: these ask which pieces lie in one slab
SLABS = pytest.mark.unsanitized("every piece is an allocation of its own there")


def address(array):
    return array.__array_interface__["data"][0]


@pytest.mark.parametrize("nbytes", [0, 1, 63, 64, 65, 1000, 1 << 20, (4 << 20) - 1, 4 << 20, (4 << 20) + 1, 9 << 20])
def test_pieces_are_aligned_and_their_own(nbytes):
    pieces = [memory.persistent(np, (nbytes,), np.uint8) for _ in range(5)]
    for k, piece in enumerate(pieces):
        assert piece.shape == (nbytes,)
        piece[:] = k
        assert address(piece) % memory.ALIGNMENT == 0
    assert all((piece == k).all() for k, piece in enumerate(pieces))


@SLABS
@pytest.mark.parametrize("make", [memory.empty, memory.zeros])
@pytest.mark.parametrize(
    "nbytes, boundary", [(1 << 20, 64), ((4 << 20) - 4, 64), (4 << 20, 2 << 20), ((9 << 20) + 4, 2 << 20)]
)
def test_large_arrays_begin_with_a_large_page(make, nbytes, boundary):
    """Else the pages before the first large one are brought in one by one, while the first result is written."""
    arrays = [make(np, (nbytes // 4,), np.float32) for _ in range(3)]
    assert all(address(a) % boundary < 4096 and address(a) % 64 == 0 for a in arrays)
    assert all(a.shape == (nbytes // 4,) and a.dtype == np.float32 for a in arrays)


@SLABS
@pytest.mark.parametrize("nbytes", [256 << 10, 4 << 20])
def test_large_arrays_begin_at_different_places_of_a_page(nbytes):
    """Else lines of a few of them fill a set of the first-level cache, and loads wait for stores to other arrays."""
    arrays = [memory.empty(np, (nbytes,), np.uint8) for _ in range(8)]
    assert len({address(a) % 4096 for a in arrays}) == 8


def test_shapes_and_types():
    made = (
        memory.persistent(np, (3, 0, 2), np.float64),
        memory.persistent(np, (), np.int8),
        memory.persistent(np, (5, 7), np.float16),
    )
    assert [(a.shape, a.dtype, a.flags.c_contiguous) for a in made] == [
        ((3, 0, 2), np.float64, True),
        ((), np.int8, True),
        ((5, 7), np.float16, True),
    ]


@SLABS
def test_small_pieces_share_large_pages():
    a, b = (memory.persistent(np, (100_000,), np.uint8) for _ in range(2))
    while address(b) < address(a):  # a new slab lies anywhere
        a, b = b, memory.persistent(np, (100_000,), np.uint8)
    assert address(b) - address(a) == -(-100_000 // memory.ALIGNMENT) * memory.ALIGNMENT


@SLABS
def test_memory_goes_with_its_last_piece(monkeypatch):
    monkeypatch.setattr(memory, "_slab", None)
    first = memory.persistent(np, (3 << 20,), np.uint8)
    root = weakref.ref(first.base)
    second = memory.persistent(np, (3 << 20,), np.uint8)
    memory.persistent(np, (3 << 20,), np.uint8)  # does not fit any more: another slab
    assert second.base is first.base
    del first
    gc.collect()
    assert root() is not None
    del second
    gc.collect()
    assert root() is None


def test_threads_get_different_pieces():
    found = [[] for _ in range(4)]

    def work(mine):
        mine += [memory.persistent(np, (12_345,), np.uint8) for _ in range(200)]

    threads = [threading.Thread(target=work, args=(f,)) for f in found]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    starts = sorted(address(p) for mine in found for p in mine)
    assert all(b - a >= 12_345 for a, b in zip(starts, starts[1:]))


def test_weights_of_a_net_that_is_gone_do_not_touch_others():
    def net():
        made = nn.HybridSequential()
        made.add(nn.Dense(64, activation="relu", in_units=128), nn.Dense(64, in_units=64))
        made.initialize(mx.init.Normal(0.1))
        made.hybridize()
        return made

    x = nd.array(np.random.default_rng(0).standard_normal((1, 128)))
    stays, goes = net(), net()
    want = stays(x).asnumpy()
    for _ in range(3):
        goes(x)
        goes = net()
        np.testing.assert_array_equal(stays(x).asnumpy(), want)
