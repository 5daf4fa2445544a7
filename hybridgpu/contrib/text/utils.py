# SPDX-License-Identifier: Apache-2.0
"""Counting words."""

from __future__ import annotations

import re
from collections import Counter

__all__ = ["count_tokens_from_str"]


def count_tokens_from_str(
    source_str: str,
    token_delim: str = " ",
    seq_delim: str = "\n",
    to_lower: bool = False,
    counter_to_update: Counter[str] | None = None,
) -> Counter[str]:
    """How often each token occurs.

    Args:
        token_delim, seq_delim: regular expressions of what stands between tokens, and between sequences.
        to_lower: count tokens in lower case.
        counter_to_update: a counter to add to; by default a new one.
    """
    tokens = filter(None, re.split(f"{token_delim}|{seq_delim}", source_str))
    counter = Counter() if counter_to_update is None else counter_to_update
    counter.update(t.lower() if to_lower else t for t in tokens)
    return counter
