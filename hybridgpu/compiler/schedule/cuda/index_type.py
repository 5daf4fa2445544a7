# SPDX-License-Identifier: Apache-2.0
"""The type of indices in a CUDA kernel: 32 bits wherever every position fits, which take half the registers."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from ...ir.indexing import Expr, IndirectIndex, Var
from ..scalar import ScalarProgram

__all__ = ["index_type"]

_LIMIT = 1 << 31  #: what is no number of 32 bits any more
#: a last step of a grid loop, or of a team along a row: more than any GPU's threads times what each takes
_MAX_STEP = 1 << 26


def index_type(programs: Iterable[ScalarProgram], sizes: Iterable[int] = ()) -> str:
    """The C type of ``Index`` in a kernel of such programs that also walks arrays of so many elements.

    It holds every position, every step of the arithmetic that leads to one, and a step beyond the last.
    """
    reached = [*sizes]
    for p in programs:
        reached += [prod(v.extent for v in p.vars), *map(_max_magnitude, p.expressions())]
    return "int" if max(reached) + _MAX_STEP < _LIMIT else "long long"


def _max_magnitude(e: Expr) -> int:
    """The largest magnitude on the way to the value of ``e``, terms added in any order."""
    total = abs(e.const)
    for atom, c in e.terms:
        if not isinstance(atom, (Var, IndirectIndex)):
            total = max(total, _max_magnitude(atom.expr))
        total += abs(c) * max(abs(atom.low), abs(atom.high))
    return total
