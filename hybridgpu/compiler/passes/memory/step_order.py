# SPDX-License-Identifier: Apache-2.0
"""Step order: the schedule of a program's steps with the least peak memory.

Fusion leaves groups in the order of their levels, which are counted from the results: whatever computes a result
comes last. In the backward pass of a network that is every gradient of a weight, and what these are computed from
would live to the end. So other orders are tried: that of the nodes, and one that takes next, of all steps whose
operands are there, the one that leaves least behind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from itertools import pairwise
from types import MappingProxyType

from ....core.dataclass import dataclass
from ...devices.cpu import CpuConstants
from ...ir.graph import Node

__all__ = ["MIN_PEAK_BYTES", "StepBuffers", "bytes_of", "lifetimes", "order_steps"]

#: bytes at the fullest step; less stays in a core's cache, and is not worth another order or text
MIN_PEAK_BYTES = CpuConstants.l2_bytes
_MAX_PEAK_RATIO = 0.95  #: share of the peak that another order must not exceed
_NONE: Mapping[Node, Node] = MappingProxyType({})
_EQUAL_PEAK_RATIO = (
    1.02  #: peaks that differ less are equal: then fewer changes between kernels and library calls count
)


@dataclass(frozen=True)
class StepBuffers:
    """The buffers of a step: what it reads and writes, what it may compute in place, and if a library computes it."""

    inputs: Sequence[Node]
    outputs: Sequence[Node]
    in_place: Sequence[tuple[Node, Node]] = ()
    library: bool = False


def bytes_of(node: Node) -> int:
    return node.type.nbytes


def lifetimes(
    steps: Sequence[StepBuffers],
    external: frozenset[Node],
    roots: Mapping[Node, Node] = _NONE,
    nbytes: Callable[[Node], int] = bytes_of,
) -> dict[Node, tuple[int, int, int]]:
    """(first step, last step, bytes) of everything that is written, except ``external``.

    Args:
        roots: part of a join -> the join, whose memory it lies in.
        nbytes: the bytes of a node.
    """
    first: dict[Node, int] = {}
    last: dict[Node, int] = {}
    for at, step in enumerate(steps):
        for node in step.outputs:
            root = roots.get(node, node)
            if root not in external:
                first.setdefault(root, at)
                last[root] = at
        for node in step.inputs:
            last[roots.get(node, node)] = at
    return {n: (at, last[n], nbytes(n)) for n, at in first.items()}


def order_steps(
    steps: Sequence[StepBuffers],
    external: frozenset[Node],
    min_peak: int | None = None,
    roots: Mapping[Node, Node] = _NONE,
    nbytes: Callable[[Node], int] = bytes_of,
) -> list[int]:
    """The numbers of ``steps`` in the order in which they should run.

    Args:
        steps: in an order in which they can run.
        external: arguments and results of the program, which take no memory of its own.
        min_peak: peak below which the order stays; by default MIN_PEAK_BYTES.
        roots, nbytes: as for :func:`lifetimes`.
    """
    usual = list(range(len(steps)))
    peak = _peak_bytes(steps, external, roots, nbytes)
    if peak < (MIN_PEAK_BYTES if min_peak is None else min_peak):
        return usual
    candidates = [(peak, usual)]
    for other in (_graph_order(steps), _greedy_min_peak(steps, external, nbytes)):
        candidates.append((_peak_bytes([steps[k] for k in other], external, roots, nbytes), other))
    least = min(p for p, _ in candidates)
    if least > _MAX_PEAK_RATIO * peak:
        return usual
    good = [o for p, o in candidates if p <= _EQUAL_PEAK_RATIO * least]
    return min(good, key=lambda o: _library_transitions([steps[k] for k in o]))


def _peak_bytes(
    steps: Sequence[StepBuffers],
    external: frozenset[Node],
    roots: Mapping[Node, Node],
    nbytes: Callable[[Node], int],
) -> int:
    """Bytes that live at the fullest step."""
    change = [0] * (len(steps) + 1)
    for first, last, size in lifetimes(steps, external, roots, nbytes).values():
        change[first] += size
        change[last + 1] -= size
    most = now = 0
    for c in change:
        now += c
        most = max(most, now)
    return most


def _library_transitions(steps: Sequence[StepBuffers]) -> int:
    """The number of times kernels follow a library call: where machine code is entered, or a CUDA graph begins."""
    return sum(a.library and not b.library for a, b in pairwise(steps))


def _dependencies(steps: Sequence[StepBuffers]) -> tuple[list[int], dict[Node, list[int]]]:
    """For each step how many of its operands other steps compute, and which steps read a node."""
    written = {n for s in steps for n in s.outputs}
    missing, readers = [], {n: [] for n in written}  # type: tuple[list[int], dict[Node, list[int]]]
    for k, step in enumerate(steps):
        needed = {n for n in step.inputs if n in written}
        missing.append(len(needed))
        for n in needed:
            readers[n].append(k)
    return missing, readers


def _graph_order(steps: Sequence[StepBuffers]) -> list[int]:
    """The order of the nodes in the graph."""
    missing, readers = _dependencies(steps)
    place = [max((n.index for n in s.outputs), default=-1) for s in steps]
    ready = [(place[k], k) for k, count in enumerate(missing) if not count]
    ready.sort()
    order = []
    while ready:
        _, k = heappop(ready)
        order.append(k)
        for n in steps[k].outputs:
            for r in readers[n]:
                missing[r] -= 1
                if not missing[r]:
                    heappush(ready, (place[r], r))
    return order


def _greedy_min_peak(
    steps: Sequence[StepBuffers], external: frozenset[Node], nbytes: Callable[[Node], int]
) -> list[int]:
    """Next comes what leaves least behind: bytes written minus bytes of operands that nothing else reads."""
    missing, readers = _dependencies(steps)
    left = {n: len(rs) for n, rs in readers.items()}
    place = [max((n.index for n in s.outputs), default=-1) for s in steps]
    operands = [{n for n in s.inputs if n in readers and n not in external} for s in steps]

    def cost(k: int) -> int:
        bytes_written = sum(nbytes(n) for n in steps[k].outputs if n not in external and readers[n])
        return bytes_written - sum(nbytes(n) for n in operands[k] if left[n] == 1)

    ready: list[tuple[int, int, int]] = []
    current: dict[int, int] = {}

    def offer(k: int) -> None:
        current[k] = cost(k)
        heappush(ready, (current[k], place[k], k))

    for k, count in enumerate(missing):
        if not count:
            offer(k)
    order: list[int] = []
    while ready:
        price, _, k = heappop(ready)
        if current.get(k) != price:
            continue
        del current[k]
        order.append(k)
        for n in operands[k]:
            left[n] -= 1
            if left[n] == 1:  # its last reader is cheaper now
                for r in readers[n]:
                    if r in current:
                        offer(r)
        for n in steps[k].outputs:
            for r in readers[n]:
                missing[r] -= 1
                if not missing[r]:
                    offer(r)
    return order
