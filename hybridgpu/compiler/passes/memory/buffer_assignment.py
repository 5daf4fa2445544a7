# SPDX-License-Identifier: Apache-2.0
"""Buffer assignment: the place of each intermediate result in the arena, in a result, or over an operand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ....core.dataclass import dataclass
from ...ir.dims import scope_of
from ...ir.graph import Node
from .arena_offsets import GOOD_ENOUGH, allocate, peak_live
from .buffer_reuse import reuse_buffers
from .step_order import StepBuffers, lifetimes

__all__ = ["BufferAssignment", "assign_buffers"]


@dataclass(frozen=True)
class BufferAssignment:
    """The plan.

    Attributes:
        locations: intermediate result -> ('arena', offset) or ('output', number of the result of the program).
        in_place: for each step the (operand, result) pairs that share memory.
        arena_bytes: size of the arena.
        peak_live: bytes that live in it at the fullest step.
    """

    locations: dict[Node, tuple[str, int]]
    in_place: list[list[tuple[Node, Node]]]
    arena_bytes: int
    peak_live: int


def assign_buffers(
    arguments: Sequence[Node],
    results: Sequence[Node],
    steps: Sequence[StepBuffers],
    large: int | None,
    roots: Mapping[Node, Node],
    nbytes: Callable[[Node], int],
) -> BufferAssignment:
    """Plan the memory of a program's steps between its arguments and its results.

    Args:
        large: bytes of operands that are written over wherever that may be, None if only where it lowers the peak.
        roots: part of a join -> the join, which has a place alone.
        nbytes: the bytes of a node by which it is decided what shares memory: kernels differ by that, so that it should be
            the same for nearby sizes.
    """
    external = frozenset((*arguments, *results))
    lives = lifetimes(steps, external, roots)
    decisive = lifetimes(steps, external, roots, nbytes)
    written: dict[Node, int] = {}  # its first part
    for at, step in enumerate(steps):
        for n in step.outputs:
            written.setdefault(roots.get(n, n), at)
    nodes = list(lives)
    number = {n: k for k, n in enumerate(nodes)}
    # a result that no step writes has no elements
    result = {n: k for k, n in enumerate(n for n in results if n in written)}
    pairs, into = [], []
    for at, step in enumerate(steps):
        for x, y in step.in_place:
            if x in number and lives[x][1] == at:
                if y in number:
                    pairs.append((number[x], number[y]))
                elif y in result:
                    into.append((number[x], result[y]))
    room = [(written[n], n.type.nbytes) for n in result]
    result_buffers = [(written[n], nbytes(n)) for n in result]
    actual, judged = list(lives.values()), list(decisive.values())
    reuse = reuse_buffers(judged, pairs, result_buffers, into, large=large, actual=(actual, room))
    storages = reuse.lifetimes(judged)
    offsets, arena = allocate(list(storages.values()))
    if reuse.in_place and arena > GOOD_ENOUGH * peak_live(list(storages.values())):
        more = reuse_buffers(judged, pairs, result_buffers, into, all_pairs=True, actual=(actual, room))
        others = more.lifetimes(judged)
        moved, size = allocate(list(others.values()))
        if size < arena:
            reuse, storages, offsets, arena = more, others, moved, size
    if scope_of(tuple(actual)) is not None or judged != actual:
        storages = reuse.lifetimes(actual)
        offsets, arena = allocate(list(storages.values()))
    offset = dict(zip(storages, offsets, strict=True))
    ours = list(result)
    position = {n: k for k, n in enumerate(results)}
    places: dict[Node, tuple[str, int]] = {}
    over: list[list[tuple[Node, Node]]] = [[] for _ in steps]
    for k, node in enumerate(nodes):
        host = reuse.aliased.get(k)
        if host is None:
            places[node] = ("arena", offset[reuse.storage[k]])
        else:
            places[node] = ("output", position[ours[host]])
            if k in reuse.in_place_aliased:
                over[lives[node][1]].append((node, ours[host]))
    for a, b in reuse.in_place:
        over[lives[nodes[a]][1]].append((nodes[a], nodes[b]))
    return BufferAssignment(places, over, arena, peak_live(list(storages.values())))
