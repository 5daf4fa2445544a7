# SPDX-License-Identifier: Apache-2.0
"""Inference with extents that are not known yet, by probing.

An operator's lowering needs whole shapes. Where extents are missing it is tried with two different
guesses in their place: an output extent that is the same both times does not depend on them, the
others stay unknown. The other way round, extents of inputs follow from known outputs: an output
extent that grows linearly with one unknown input extent tells its value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..base import MXNetError

__all__ = ["UNKNOWN", "merge", "probe_inputs", "probe_outputs"]

UNKNOWN = -1
Shape = tuple[int, ...]
Results = Callable[[Sequence[Shape]], Sequence[Shape]]

#: primes meet few conditions by chance; the others suit splits, reshapes and fixed extents
_GUESSES = ((61, 67), (64, 96), (2520, 5040), (1, 2))


def merge(a: Shape | None, b: Shape | None) -> Shape | None:
    """What two partial shapes say together.

    Raises:
        ValueError: they contradict each other.
    """
    if a is None or b is None:
        return b if a is None else a
    if len(a) != len(b) or any(UNKNOWN not in (x, y) and x != y for x, y in zip(a, b, strict=True)):
        raise ValueError(f"{a} and {b} differ")
    return tuple(y if x == UNKNOWN else x for x, y in zip(a, b, strict=True))


def _fill(shapes: Sequence[Shape], value: int) -> list[Shape]:
    return [tuple(value if d == UNKNOWN else d for d in s) for s in shapes]


def _try(results: Results, shapes: Sequence[Shape]) -> list[Shape] | None:
    try:
        return list(results(shapes))
    except MXNetError:
        return None


def probe_outputs(results: Results, shapes: Sequence[Shape]) -> list[Shape] | None:
    """Partial shapes of the results for partial shapes of all inputs; None where no guess fits."""
    for first, second in _GUESSES:
        a, b = _try(results, _fill(shapes, first)), _try(results, _fill(shapes, second))
        if a is None or b is None or any(len(x) != len(y) for x, y in zip(a, b, strict=True)):
            continue
        found = [tuple(d if d == e else UNKNOWN for d, e in zip(x, y, strict=True)) for x, y in zip(a, b, strict=True)]
        small = _try(results, _fill(shapes, 1)) or ()  # slices are cut at the end of short axes
        for k, (x, y) in enumerate(zip(found, small, strict=False)):
            if len(x) == len(y):
                found[k] = tuple(d if d == e else UNKNOWN for d, e in zip(x, y, strict=True))
        return found
    return None


def probe_inputs(results: Results, shapes: Sequence[Shape], outputs: Sequence[Shape | None]) -> list[Shape]:
    """The input shapes with extents filled in that follow from (partial) output shapes."""
    found = [list(s) for s in shapes]
    for first, second in _GUESSES:
        base = _try(results, _fill(shapes, first))
        if base is None:
            continue
        for k, shape in enumerate(shapes):
            for axis, d in enumerate(shape):
                if d != UNKNOWN:
                    continue
                moved = _fill(shapes, first)
                moved[k] = (*moved[k][:axis], second, *moved[k][axis + 1 :])
                other = _try(results, moved)
                if other is not None:
                    value = _solve(base, other, outputs, first, second)
                    if value is not None:
                        found[k][axis] = value
        if any(UNKNOWN in s for s in found):  # extents that must agree move together
            other = _try(results, _fill(shapes, second))
            value = None if other is None else _solve(base, other, outputs, first, second)
            if value is not None:
                found = [[value if d == UNKNOWN else d for d in s] for s in found]
                if not _agree(_try(results, [tuple(s) for s in found]), outputs):
                    found = [list(s) for s in shapes]
        if all(UNKNOWN not in s for s in found):
            break
    return [tuple(s) for s in found]


def _agree(results: Sequence[Shape] | None, outputs: Sequence[Shape | None]) -> bool:
    """True if known output extents are as wanted."""
    if results is None:
        return False
    try:
        for got, want in zip(results, outputs, strict=False):
            merge(got, want)
    except ValueError:
        return False
    return True


def _solve(
    base: Sequence[Shape], other: Sequence[Shape], outputs: Sequence[Shape | None], first: int, second: int
) -> int | None:
    """The extent for which an output has its known extent, if one depends on it linearly."""
    for a, b, want in zip(base, other, outputs, strict=False):
        if want is None or len(a) != len(want) or len(b) != len(want):
            continue
        for x, y, w in zip(a, b, want, strict=True):
            if x == y or w == UNKNOWN:
                continue
            step = (w - x) * (second - first)
            if step % (y - x) == 0 and first + step // (y - x) > 0:
                return first + step // (y - x)
    return None
