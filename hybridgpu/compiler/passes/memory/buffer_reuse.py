# SPDX-License-Identifier: Apache-2.0
"""Buffer reuse: results over operands, and intermediate values in the memory of results to come.

Two ways to need less at the fullest step, beyond putting buffers where dead ones were:

- *in place*: a kernel writes its result over an operand that nobody reads again;
- *hosted*: until the step that writes a result of the program, its memory holds an intermediate one.

Both are done only where they lower the peak: a kernel that works in place is another text to compile, and memory
that callers bring changes from call to call. But on a host large arrays are written over wherever that may be: to write
elsewhere, a core would first fetch what it is going to overwrite, a third of what such a kernel moves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ....core.dataclass import dataclass, field
from ...ir.computed import fits_into
from .arena_offsets import ALIGNMENT
from .step_order import MIN_PEAK_BYTES

__all__ = ["Reuse", "reuse_buffers"]

_MIN_PEAK_FRACTION = 256  #: a buffer that is a smaller part of the peak is left alone

Lifetime = tuple[int, int, int]


@dataclass(frozen=True)
class Reuse:
    """Buffers that share memory.

    Attributes:
        storage: for each buffer the first one of those that are written over each other (itself, where there is none).
        in_place: the pairs (buffer, the buffer that is written over it).
        aliased: buffer -> the result of the program in whose memory it lies.
        in_place_aliased: buffers in the memory of a result which is written over them.
    """

    storage: list[int]
    in_place: list[tuple[int, int]] = field(default_factory=list)
    aliased: dict[int, int] = field(default_factory=dict)
    in_place_aliased: frozenset[int] = frozenset()

    def lifetimes(self, lifetimes: Sequence[Lifetime]) -> dict[int, Lifetime]:
        """The lifetime of every storage that is not in a result's memory, by the number of its first buffer."""
        by_storage: dict[int, Lifetime] = {}
        for k, (first, last, nbytes) in enumerate(lifetimes):
            if k in self.aliased:
                continue
            home = self.storage[k]
            old = by_storage.get(home, (first, last, nbytes))
            by_storage[home] = min(old[0], first), max(old[1], last), max(old[2], nbytes)
        return by_storage


def reuse_buffers(
    lifetimes: Sequence[Lifetime],
    pairs: Iterable[tuple[int, int]] = (),
    results: Sequence[tuple[int, int]] = (),
    into: Iterable[tuple[int, int]] = (),
    min_peak: int | None = None,
    all_pairs: bool = False,
    large: int | None = None,
    actual: tuple[Sequence[Lifetime], Sequence[tuple[int, int]]] | None = None,
) -> Reuse:
    """Choose what shares memory.

    Args:
        lifetimes: (first step, last step, bytes) of each buffer.
        pairs: (a, b) if the step that writes buffer b can do so over buffer a, which it reads and nobody after it.
        results: (the step that writes it, bytes) of each result of the program.
        into: (a, r) if the step that writes result r can do so over buffer a, likewise.
        min_peak: peak below which nothing is shared; by default MIN_PEAK_BYTES.
        all_pairs: take all pairs, not only those that lower the peak: what is left may be easier to place.
        large: bytes from which pairs are taken in any case.
        actual: ``lifetimes`` and ``results`` with the bytes that have to fit, where those others only decide.
    """
    count = len(lifetimes)
    alone = Reuse(list(range(count)))
    if not count:
        return alone
    sizes = [-(-max(n, 1) // ALIGNMENT) * ALIGNMENT for _, _, n in lifetimes]
    live = np.zeros(max(last for _, last, _ in lifetimes) + 1, np.int64)
    for (first, last, _), size in zip(lifetimes, sizes, strict=True):
        live[first : last + 1] += size
    if live.max() < (MIN_PEAK_BYTES if min_peak is None else min_peak):
        return alone
    exact, room = (lifetimes, results) if actual is None else actual
    after = _match_pairs(exact, pairs)
    least = live.copy()  # with every pair in place
    for a in after:
        least[lifetimes[a][1]] -= sizes[a]
    fits = [n for _, _, n in exact], [n for _, n in room]
    hosted = _alias_to_results(lifetimes, sizes, results, fits, frozenset(into), after, live, least)
    # pairs at steps where memory would suffice without are left alone
    peak = least.max()
    over: list[tuple[int, int]] = []
    for a, b in after.items():
        at = lifetimes[a][1]
        if all_pairs or live[at] > peak or (large is not None and lifetimes[a][2] >= large):
            over.append((a, b))
            live[at] -= sizes[a]
    storage = list(range(count))
    for a, b in sorted(over, key=lambda p: lifetimes[p[0]][1]):
        storage[b] = storage[a]
    over_results = frozenset(k for k, r in hosted.items() if lifetimes[k][1] == results[r][0])
    return Reuse(storage, over, hosted, over_results)


def _match_pairs(lifetimes: Sequence[Lifetime], pairs: Iterable[tuple[int, int]]) -> dict[int, int]:
    """Pairs of which no two share a buffer on the same side: a -> b."""
    matched: dict[int, int] = {}
    taken: set[int] = set()
    for a, b in pairs:
        if a not in matched and b not in taken and lifetimes[a][2] == lifetimes[b][2]:
            matched[a] = b
            taken.add(b)
    return matched


def _alias_to_results(
    lifetimes: Sequence[Lifetime],
    sizes: Sequence[int],
    results: Sequence[tuple[int, int]],
    exact: tuple[Sequence[int], Sequence[int]],
    into: frozenset[tuple[int, int]],
    after: dict[int, int],
    live: np.ndarray,
    least: np.ndarray,
) -> dict[int, int]:
    """Buffers that lie in the memory of results; ``after``, ``live`` and ``least`` are brought up to date.

    ``exact``: the bytes of buffers, and of results, that have to fit.
    """
    if not results:
        return {}
    aliases: dict[int, int] = {}
    busy: dict[int, list[tuple[int, int]]] = {}
    first, last, nbytes = np.array(lifetimes, np.int64).T
    written, room = np.array(results, np.int64).T
    by_room = np.argsort(room, kind="stable")
    open_ = nbytes * _MIN_PEAK_FRACTION >= least.max()
    over = {b: a for a, b in after.items()}

    def host(k: int) -> int | None:
        fits = (written[by_room] >= last[k]) & (room[by_room] >= nbytes[k])
        for r in by_room[fits].tolist():
            if written[r] == last[k] and (k, r) not in into:
                continue
            free = all(last[k] < begin or end < first[k] for begin, end in busy.get(r, ()))
            if free and fits_into(exact[0][k], exact[1][r]):
                return int(r)
        return None

    while True:
        at = int(least.argmax())
        candidates = np.flatnonzero((first <= at) & (at <= last) & open_)
        if not len(candidates):
            return aliases
        k = int(candidates[nbytes[candidates].argmax()])
        open_[k] = False
        r = host(k)
        if r is None:
            continue
        aliases[k] = r
        busy.setdefault(r, []).append((int(first[k]), int(last[k])))
        live[first[k] : last[k] + 1] -= sizes[k]
        least[first[k] : last[k] + 1] -= sizes[k]
        for a, b in ((k, after.get(k)), (over.get(k), k)):  # its pairs are none any more
            if a is not None and b is not None and after.get(a) == b:
                del after[a]
                least[last[a]] += sizes[a]
