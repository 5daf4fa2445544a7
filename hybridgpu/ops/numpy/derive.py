# SPDX-License-Identifier: Apache-2.0
"""Records of np that are those of legacy operators under another name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from ..params import Values
from ..record import OPERATORS, Operator

__all__ = ["derived_operator", "no_gradient"]

#: fields that a derived record does not take over: methods and names belong to the legacy operator
_OWN = ("name", "aliases", "method", "_parsed")


def derived_operator(name: str, legacy: str, **changes: Any) -> Operator:
    """Declare an operator that differs from a legacy one in its name, and in the fields given.

    Args:
        name: canonical name, then aliases, separated by blanks.
        legacy: the operator whose record is taken over, its lowering and gradient included.
        changes: fields of :class:`Operator` with values of their own; ``inputs`` may be names separated by blanks.
    """
    canonical, *aliases = name.split()
    origin = OPERATORS[legacy]
    if isinstance(changes.get("inputs"), str):
        changes["inputs"] = tuple(changes["inputs"].split())
    attributes = {f.name: getattr(origin, f.name) for f in fields(Operator) if f.init and f.name not in _OWN}
    record = Operator(**{**attributes, **changes, "name": canonical, "aliases": tuple(aliases)})
    for n in (canonical, *aliases):
        if n in OPERATORS:
            raise AssertionError(f"operator {n} is declared twice")
        OPERATORS[n] = record
    return record


def no_gradient(xp: Any, p: Values, cotangents: Any, inputs: Sequence[Any], outputs: Any) -> list[None]:
    """The derivative of a function on arrays through which no gradient flows."""
    return [None] * len(inputs)
