# SPDX-License-Identifier: Apache-2.0
"""Memory of the host that is given out again: only when nobody can reach it, by references as this Python counts them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import hybridgpu as mx
from hybridgpu.compiler.ir.types import tensor_type
from hybridgpu.core.dtypes import from_short
from hybridgpu.runtime.dispatch import pools
from hybridgpu.runtime.dispatch.pools import OutputPool, ScratchPool, StoragePool, _shared

TYPE = tensor_type((4, 3), from_short("f32"))

#: pool -> (it, where what it gives lies, what may be held of that)
POOLS = {
    "output": (
        lambda: OutputPool(TYPE, mx.cpu()),
        lambda y: y._address,
        [lambda y: y, lambda y: y._data, lambda y: y._data[1:]],
    ),
    "data": (
        lambda: StoragePool(TYPE, True),
        lambda found: found[2],
        [lambda found: found[0], lambda found: found[0][1:]],
    ),
    "room": (lambda: ScratchPool([TYPE], True, True), lambda room: room[1], [lambda room: room]),
}
ROWS = [(name, k) for name, (_, _, holds) in POOLS.items() for k in range(len(holds))]


@pytest.mark.parametrize(("name", "k"), ROWS)
def test_what_is_held_is_not_given_out_again(name, k):
    make, place, holds = POOLS[name]
    pool = make()
    first = place(pool.take())
    for _ in range(3):
        assert place(pool.take()) == first  # nobody held it
    held = holds[k](pool.take())
    others = [place(pool.take()) for _ in range(3)]
    assert first not in others and len(set(others)) == 1
    del held
    assert place(pool.take()) == first


@pytest.mark.parametrize("make", [lambda: StoragePool(TYPE, False), lambda: ScratchPool([TYPE], False, False)])
def test_pools_that_keep_nothing(make):
    pool = make()
    pool.take()
    assert not pool._ring


@pytest.mark.parametrize("take", [StoragePool(TYPE, True).take, lambda: _shared.take(1 << 18)], ids=["own", "shared"])
def test_an_entry_that_nobody_has_unpacked_yet_is_held(take):
    """Another thread may come between the return of one and its caller's names for what is in it."""
    for _ in range(2):  # new ones, then those that were given back
        first, second = take(), take()
        assert first[2] != second[2]
        del first, second


def test_large_data_is_held_before_it_is_a_view(monkeypatch):
    """… as above."""
    taken = []

    class Bytes:
        def __init__(self, data):
            self.data = data

        def view(self, dtype):
            taken.append(_shared.take(large.nbytes)[2])
            return self.data.view(dtype)

    class Other:
        def take(self, nbytes):
            data, raw, address = _shared.take(nbytes)
            return Bytes(data), raw, address

    large = tensor_type((1 << 17,), from_short("f32"))
    for _ in range(2):
        taken.clear()  # what was held meanwhile is free again
        with monkeypatch.context() as patch:
            patch.setattr(pools, "_shared", Other())
            data = pools.large_results(large)()
        assert data.__array_interface__["data"][0] not in taken
        del data


@pytest.mark.parametrize(("nbytes", "kept"), [(32 << 20, 0), (16 << 20, 6), (8 << 20, 12), (1 << 20, 32)])
def test_shared_memory_has_a_bound(monkeypatch, nbytes, kept):
    """… that one size alone keeps to, too."""
    monkeypatch.setattr(pools, "_most_shared", lambda: 100 << 20)
    shared = pools._SharedMemory()
    held = [shared.take(nbytes) for _ in range(40)]
    assert len(shared._rings[nbytes]) == kept and shared._nbytes == kept * nbytes
    del held
    shared.take(20 << 20)
    assert shared._nbytes == sum(e[0].nbytes for ring in shared._rings.values() for e in ring) <= 100 << 20


@pytest.mark.parametrize(
    ("limit", "most"), [(None, 4 << 30), (16 << 30, 1 << 30), (1 << 62, 4 << 30), (1 << 20, 128 << 20)]
)
def test_shared_memory_is_a_part_of_what_the_process_may_use(monkeypatch, limit, most):
    monkeypatch.setattr(pools, "device_of", lambda _: SimpleNamespace(memory_info=lambda: (0, 64 << 30)))
    monkeypatch.setattr(pools, "memory_limit", lambda: limit)
    assert pools._most_shared.__wrapped__() == most
