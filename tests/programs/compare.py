# SPDX-License-Identifier: Apache-2.0
"""Comparison of what two ways of running a program observed."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

__all__ = ["Observations", "difference", "raised"]

Observations = Sequence[tuple[str, np.ndarray]]

_FLOAT32 = 2e-3  #: difference of float32 arrays, relative to the largest element observed with them
_LEAST = 0.02  #: size of what is compared, at least: gradients may be nothing but rounding errors of what was near 1
_DIVERGED = 1e8  #: elements beyond are of a training that has diverged, where differences grow without bound


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
) -> str | None:
    """The first thing that differs, in words; None where all agree.

    Both ways end on the same line with an error of the same class, or neither raises.

    Args:
        ignore: a regular expression of labels that are not compared.
        ends: a regular expression of errors that the second way alone may end with; what was observed before is compared.
        until: a regular expression of labels from which on nothing is compared.
        float64: how much float64 arrays may differ, relative to the largest element observed with them.
    """
    tolerance, scales = float64, _scales(expected)
    for (label, a), (other, b) in zip(expected, found):
        if label != other and "raised" in (label, other) or label == "raised":
            break
        if until and re.search(until, label) or scales[_kind(label)] > _DIVERGED:
            return None
        if label != other:
            return f"{label!r} was expected, {other!r} was observed"
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{label}: {a.dtype}{list(a.shape)} was expected, {b.dtype}{list(b.shape)} was observed"
        if a.dtype == np.float32:
            tolerance = _FLOAT32  # from here on: what was rounded once stays so
        if ignore and re.search(ignore, label):
            continue
        scale = max(_LEAST, scales[_kind(label)])
        if not np.allclose(a, b, rtol=0, atol=tolerance * scale, equal_nan=True):
            off = np.nanmax(np.abs(a.astype(float) - b.astype(float)))
            return (
                f"{label}: off by {off:.3g} where {scale:.3g} is the largest\n"
                f"expected {a.ravel()[:8]}\nfound    {b.ravel()[:8]}"
            )
    if ends and re.search(ends, raised(found) or ""):
        return None
    if _end(expected) != _end(found):
        return f"expected to end with {raised(expected)}, ended with {raised(found)}"
    if len(expected) != len(found):
        return f"{len(expected)} observations were expected, {len(found)} were made"
    return None


def _end(observed: Observations) -> str | None:
    """Class and line of the error that a program ended with."""
    said = raised(observed)
    return None if said is None else said.split("': ")[0]


def _kind(label: str) -> str:
    """What an observation is compared with in size.

    What cancels has the rounding errors of what is large: gradients of all parameters are one kind, and so are their states.
    """
    moment, _, what = label.partition(": ")
    if what.startswith("gradient"):
        return f"{moment}: gradient"
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
