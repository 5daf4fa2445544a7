# SPDX-License-Identifier: Apache-2.0
"""Recompute hints: parameters by which a pass tells fusion that a value must not be recomputed, or always is."""

from __future__ import annotations

__all__ = ["ALWAYS_RECOMPUTE", "NO_RECOMPUTE", "NO_RECOMPUTE_REASONS"]

NO_RECOMPUTE = "no_recompute"  #: parameter of a copy that no reader recomputes; its value is a rule of refusals
ALWAYS_RECOMPUTE = "always_recompute"  #: parameter of an elementwise node that all readers recompute
#: rule -> the sentence of the refusal
NO_RECOMPUTE_REASONS = {
    "concat": "a concat of so many arrays is computed in steps",
    "uneven-extent": "the remainder of its extent would make positions for which no loop can be split",
    "own-extremum": "it is compared with its own extremum, and might have other bits where it is recomputed",
}
