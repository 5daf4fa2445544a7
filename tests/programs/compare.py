# SPDX-License-Identifier: Apache-2.0
"""Comparison of what two ways of running a program observed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

__all__ = ["Difference", "Observations", "difference", "moment", "raised"]

Observations = Sequence[tuple[str, np.ndarray]]

_FLOAT32 = 2e-3  #: difference of float32 arrays, relative to the largest element observed with them
_FLOAT16 = 2e-2  #: of float16 arrays
_LEAST = 0.02  #: size of what is compared, at least: gradients may be nothing but rounding errors of what was near 1
_TOLERANCES = {np.dtype("float32"): _FLOAT32, np.dtype("float16"): _FLOAT16}
_DIVERGED = 1e8  #: elements beyond are of a training that has diverged, where differences grow without bound


class Difference(NamedTuple):
    """The first thing in which two ways differ: number of the observation, and what it is in words."""

    place: int
    text: str


def raised(observed: Observations) -> str | None:
    """What the program raised, or None."""
    return str(observed[-1][1]) if observed and observed[-1][0] == "raised" else None


def difference(
    expected: Observations,
    found: Observations,
    ignore: str = "",
    ends: str = "",
    until: str = "",
    float64: float = 1e-6,
) -> Difference | None:
    """The first thing that differs; None where all agree.

    Both ways end on the same line with an error of the same class, or neither raises.

    Args:
        ignore: a regular expression of labels that are not compared.
        ends: a regular expression of errors that the second way alone may end with; what was observed before is compared.
        until: a regular expression of labels from which on nothing is compared.
        float64: how much float64 arrays may differ, relative to the largest element observed with them.
    """
    tolerance, scales = float64, _scales(expected)
    diverged = _diverged(expected) & _diverged(found)
    for place, ((label, a), (other, b)) in enumerate(zip(expected, found)):
        if label != other and "raised" in (label, other) or label == "raised":
            break
        if until and re.search(until, label) or moment(label) in diverged:
            return None
        if label != other:
            return Difference(place, f"{label!r} was expected, {other!r} was observed")
        if a.shape != b.shape or a.dtype != b.dtype:
            types = f"{a.dtype}{list(a.shape)} was expected, {b.dtype}{list(b.shape)} was observed"
            return Difference(place, f"{label}: {types}")
        if a.dtype in _TOLERANCES:
            tolerance = max(tolerance, _TOLERANCES[a.dtype])  # from here on: what was rounded once stays so
        if ignore and re.search(ignore, label):
            continue
        scale = max(_LEAST, scales[_kind(label)])
        if not np.allclose(a, b, rtol=0, atol=tolerance * scale, equal_nan=True):
            off = np.abs(a.astype(float) - b.astype(float)).max()
            return Difference(
                place,
                f"{label}: off by {off:.3g} where {scale:.3g} is the largest\n"
                f"expected {a.ravel()[:8]}\nfound    {b.ravel()[:8]}",
            )
    if ends and re.search(ends, raised(found) or ""):
        return None
    place = min(len(expected), len(found))
    if _end(expected) != _end(found):
        return Difference(place, f"expected to end with {raised(expected)}, ended with {raised(found)}")
    if len(expected) != len(found):
        return Difference(place, f"{len(expected)} observations were expected, {len(found)} were made")
    return None


def _end(observed: Observations) -> str | None:
    """Class and line of the error that a program ended with."""
    said = raised(observed)
    return None if said is None else said.split("': ")[0]


def moment(label: str) -> str:
    """When an observation was made: states are observed together."""
    return label.partition(": ")[0]


def _diverged(observed: Observations) -> set[str]:
    """The moments at which elements are so large, or no numbers any more."""
    floats = [(label, a) for label, a in observed if label != "raised" and a.dtype.kind == "f" and a.size]
    return {moment(label) for label, a in floats if not np.abs(a.astype(float)).max() <= _DIVERGED}


def _kind(label: str) -> str:
    """What an observation is compared with in size.

    What cancels has the rounding errors of what is large: gradients of all parameters are one kind, and so are their states.
    """
    what = label.partition(": ")[2]
    if what.startswith("gradient"):
        return f"{moment(label)}: gradient"
    return re.sub(r"(states of trainer \d+|autograd\.grad)\[\d+\]", r"\1", label)


def _scales(observed: Observations) -> dict[str, float]:
    """The largest finite element by kind of observation."""
    scales: dict[str, float] = {}
    for label, a in observed:
        if label != "raised" and a.dtype.kind in "fiu" and a.size:
            largest = float(np.abs(np.nan_to_num(a, posinf=0, neginf=0)).max())
            scales[_kind(label)] = max(largest, scales.get(_kind(label), 0))
        else:
            scales.setdefault(_kind(label), 1.0)
    return scales
