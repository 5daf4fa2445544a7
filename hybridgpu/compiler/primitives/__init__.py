# SPDX-License-Identifier: Apache-2.0
"""The primitive table: every graph is made of these rows, and nothing else.

``TABLE`` maps a name to its row. The families are declared in sibling modules; each row states its
type rule, its meaning on arrays, its derivative and, where elementwise, its scalar expression.
"""

from __future__ import annotations

from ..ir.graph import Builder, Primitive
from . import (
    conv,
    correlate,
    ctc,
    custom_gradient,
    detection,
    distributions,
    dot,
    elementwise,
    fourier,
    gather,
    hawkes,
    linalg,
    loop,
    random,
    reduce,
    roi,
    scan,
    scatter,
    sort,
    unfold,
    views,
)

__all__ = ["TABLE", "builder"]

TABLE: dict[str, Primitive] = {}
for _family in (
    elementwise,
    views,
    unfold,
    reduce,
    gather,
    dot,
    conv,
    ctc,
    roi,
    detection,
    correlate,
    fourier,
    hawkes,
    random,
    custom_gradient,
    sort,
    scan,
    scatter,
    linalg,
    distributions,
    loop,
):
    for _row in _family.ROWS:
        assert _row.name not in TABLE, f"primitive {_row.name} is declared twice"
        TABLE[_row.name] = _row


def builder(training: bool = False, streams: int = 0) -> Builder:
    """A new builder over the primitive table."""
    return Builder(TABLE, training, streams)
