# SPDX-License-Identifier: Apache-2.0
"""Numbers as people read them."""

from __future__ import annotations

__all__ = ["byte_text", "count_text", "time_text"]


def byte_text(n: int) -> str:
    """A size in bytes with a binary unit, such as '1.5 MiB'."""
    value = float(n)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{n} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError


def count_text(n: int) -> str:
    """A number of elements: '1000' or '1e6'."""
    digits = str(n)
    zeros = len(digits) - len(digits.rstrip("0"))
    return f"{digits[:-zeros]}e{zeros}" if zeros >= 4 else digits


def time_text(microseconds: float) -> str:
    """Microseconds with three digits that matter."""
    if microseconds >= 1000:
        return f"{microseconds:,.0f}"
    return f"{microseconds:.1f}" if microseconds >= 100 else f"{microseconds:.2f}"
