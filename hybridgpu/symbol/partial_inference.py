# SPDX-License-Identifier: Apache-2.0
"""Partial shape inference: extents that are not known yet, found by probing.

An operator's lowering needs whole shapes. Where extents are missing it is tried with two different
guesses in their place: an output extent that is the same both times does not depend on them, the
others stay unknown. The other way round, extents of inputs follow from known outputs: an output
extent that grows linearly with one unknown input extent tells its value. Where no guess is accepted,
extents of the other inputs are tried: the only one that is accepted is the one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

from ..base import MXNetError

__all__ = ["UNKNOWN", "merge", "probe_inputs", "probe_outputs"]

UNKNOWN = -1
Shape = tuple[int, ...]
Results = Callable[[Sequence[Shape]], Sequence[Shape]]

#: primes meet few conditions by chance; the others suit splits, reshapes and fixed extents
_GUESSES = ((61, 67), (64, 96), (2520, 5040), (1, 2))
_HOLES, _VALUES = 2, 6  #: for how many unknown extents every combination of known ones is tried, and of how many


def merge(a: Shape | None, b: Shape | None) -> Shape | None:
    """The merge of two partial shapes.

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
        outputs = [
            tuple(d if d == e else UNKNOWN for d, e in zip(x, y, strict=True)) for x, y in zip(a, b, strict=True)
        ]
        small = _try(results, _fill(shapes, 1)) or ()  # slices are cut at the end of short axes
        for k, (x, y) in enumerate(zip(outputs, small, strict=False)):
            if len(x) == len(y):
                outputs[k] = tuple(d if d == e else UNKNOWN for d, e in zip(x, y, strict=True))
        return outputs
    return None


def probe_inputs(results: Results, shapes: Sequence[Shape], outputs: Sequence[Shape | None]) -> list[Shape]:
    """The input shapes with extents filled in that follow from (partial) output shapes."""
    filled = [list(s) for s in shapes]
    fits = False
    for first, second in _GUESSES:
        base = _try(results, _fill(shapes, first))
        if base is None:
            continue
        fits = True
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
                        filled[k][axis] = value
        if any(UNKNOWN in s for s in filled):  # extents that must agree move together
            other = _try(results, _fill(shapes, second))
            value = None if other is None else _solve(base, other, outputs, first, second)
            if value is not None:
                filled = [[value if d == UNKNOWN else d for d in s] for s in filled]
                if not _agree(_try(results, [tuple(s) for s in filled]), outputs):
                    filled = [list(s) for s in shapes]
        if all(UNKNOWN not in s for s in filled):
            break
    return [tuple(s) for s in filled] if fits else _matched(results, shapes)


def _matched(results: Results, shapes: Sequence[Shape]) -> list[Shape]:
    """The input shapes with extents filled in that must be an extent of another input, as in products and joins."""
    holes = [(k, axis) for k, shape in enumerate(shapes) for axis, d in enumerate(shape) if d == UNKNOWN]
    extents = {d for shape in shapes for d in shape if d != UNKNOWN}
    filled = [list(s) for s in shapes]
    if not 0 < len(holes) <= _HOLES or len(extents) > _VALUES:
        return list(shapes)
    accepted: list[set[int]] = [set() for _ in holes]
    for values in product(extents | set(_GUESSES[0]), repeat=len(holes)):
        for (k, axis), value in zip(holes, values, strict=True):
            filled[k][axis] = value
        if _try(results, [tuple(s) for s in filled]) is not None:
            for fitting, value in zip(accepted, values, strict=True):
                fitting.add(value)
    for (k, axis), fitting in zip(holes, accepted, strict=True):
        filled[k][axis] = next(iter(fitting)) if len(fitting) == 1 else UNKNOWN
    return [tuple(s) for s in filled]


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
