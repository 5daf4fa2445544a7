# SPDX-License-Identifier: Apache-2.0
"""Grammar of attribute texts: what MXNet reads from the text of a number or a tuple.

Required numbers of floating point have a reader of their own there, which takes 'inf', 'nan' and '1.5f'; what is optional
or stands in a tuple is read as C++ streams read it. The functions raise ValueError where a text is no such value, and
OverflowError where it is one that its C type does not hold.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import TypeVar

__all__ = [
    "FLOAT",
    "read_entry_int",
    "read_float",
    "read_int",
    "read_optional_int",
    "read_stream_float",
    "read_tuple",
    "unread_rest",
]

_T = TypeVar("_T")

_NONE = re.compile(r"\s*None\s*", re.ASCII)
_INT = re.compile(r"\s*([+-]?[0-9]+)\s*", re.ASCII)
_OPTIONAL_INT = re.compile(r"\s*([+-]?[0-9]+)L?\s*", re.ASCII)  # L: how Python 2 wrote integers
_ENTRY_INT = re.compile(r"\s*([+-]?[0-9]+)(?:\s*L|\s*)", re.ASCII)
_STREAM_FLOAT = re.compile(r"\s*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*", re.ASCII)
_FLOAT = re.compile(
    r"\s*([+-]?)(?:(inf(?:inity)?)|(nan(?:\(\w*\))?)|([0-9]*\.?[0-9]*)(?:[eE]([+-]?[0-9]*))?[fF]?)", re.ASCII | re.I
)
_SINGLE = re.compile(r"\s*[0-9-]", re.ASCII)
_TUPLE = re.compile(r"\s*[(\[]([^()\[\]]*)[)\]]\s*", re.ASCII)

#: smallest normal and greatest finite numbers, and the words for them: what required numbers are held against
FLOAT = {"float": (2.0**-126, (2 - 2.0**-23) * 2.0**127), "double": (2.0**-1022, (2 - 2.0**-52) * 2.0**1023)}

_HALF = 2.0**-25  #: what rounds to a float, as a part of it


def _integer(digits: str, low: int, high: int) -> int:
    if len(digits) > 24 and len(digits.lstrip("+-0")) > 20:
        raise OverflowError
    number = int(digits)
    if not low <= number <= high:
        raise OverflowError
    return number


def read_int(text: str, low: int, high: int) -> int:
    """A required integer: decimal digits, blanks around them."""
    match = _INT.fullmatch(text)
    if match is None:
        raise ValueError
    return _integer(match[1], low, high)


def read_optional_int(text: str, low: int, high: int) -> int:
    """An optional integer, which may end in L."""
    match = _OPTIONAL_INT.fullmatch(text)
    if match is None:
        raise ValueError
    return _integer(match[1], low, high)


def read_entry_int(text: str, low: int, high: int) -> int:
    """An integer of a tuple."""
    match = _ENTRY_INT.fullmatch(text)
    if match is None:
        raise ValueError
    return _integer(match[1], low, high)


def read_stream_float(text: str, high: float) -> float:
    """An optional number, or one of a tuple: finite; what is too small becomes zero."""
    match = _STREAM_FLOAT.fullmatch(text)
    if match is None:
        raise ValueError
    number = float(match[1])
    if not abs(number) <= high:
        raise OverflowError
    return number


def unread_rest(text: str) -> str | None:
    """What a required number leaves unread of a text, '' for nothing, None if it reads nothing."""
    match = _FLOAT.match(text)
    assert match is not None
    return text[match.end() :] if match.end() else None


def read_float(text: str, low: float, high: float) -> float:
    """A required number: it may be infinite or NaN, and end in f; finite ones are zero or lie between ``low`` and ``high``,
    or are these, written with as few digits as a float needs (the greatest is 3.4028235e+38)."""
    match = _FLOAT.fullmatch(text)
    if match is None:
        raise ValueError
    sign, infinite, nan, digits, power = match.groups()
    if nan:
        return math.nan
    if infinite:
        return -math.inf if sign == "-" else math.inf
    if digits in ("", "."):
        raise ValueError
    number = float(f"{sign}{digits}e{power if power and power not in '+-' else 0}")
    size = abs(number)
    if (number != 0 or digits.strip("0.")) and not low <= size <= high:
        if not low * (1 - _HALF) <= size <= high * (1 + _HALF) < math.inf:
            raise OverflowError
        return math.copysign(min(max(size, low), high), number)
    return number


def read_tuple(
    text: str, single: Callable[[str], _T], entry: Callable[[str], _T], holes: bool = False
) -> tuple[_T | None, ...] | None:
    """Numbers in parentheses or brackets, or a single one; None for 'None'.

    Args:
        single: reads a number that stands alone.
        entry: reads one in parentheses.
        holes: entries may be None, too.
    """
    if _SINGLE.match(text):
        return (single(text),)
    match = _TUPLE.fullmatch(text)
    if match is None:
        if _NONE.fullmatch(text):
            return None
        raise ValueError
    inside = match[1].rstrip(" \t\n\v\f\r")
    if not inside.strip():
        return ()
    parts = inside.removesuffix(",").split(",")
    return tuple(None if holes and _NONE.fullmatch(part) else entry(part) for part in parts)
