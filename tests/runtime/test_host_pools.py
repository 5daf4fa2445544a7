# SPDX-License-Identifier: Apache-2.0
"""Memory of the host that is given out again: only when nobody can reach it, by references as this Python counts them."""

from __future__ import annotations

import pytest

import hybridgpu as mx
from hybridgpu.compiler.ir.types import tensor_type
from hybridgpu.core.dtypes import from_short
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
