# SPDX-License-Identifier: Apache-2.0
"""Math headers that a CPU program includes: a compiler takes 10 ms to read all of them.

The parts are headers of functions of float. A program that calls functions of these alone, and knows no double (for
which a function of float would do, wrongly), includes the parts that define them. Any other one includes math.h.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from ...cache.package_files import kernels_folder

__all__ = ["required_headers"]

_ALL = "math.h"
#: each includes what it is made of; the first one has the functions that core.h has for other types as well
_PARTS = ("math_cpu_basic.h", "math_cpu_exp.h", "math_cpu_log.h", "math_cpu_trig.h", "math_cpu_special.h")
_OTHER_HEADERS = ("math_cpu.h", "math_cpu_f64.h", "math_special.h")
# Headers are written by hand, and kernels call what primitives' expressions and hand-written tiles spell: only the texts
# have both.
_DEFINED = re.compile(r"^HG_DEVICE [\w ]+? \*?(\w+)\(", re.MULTILINE)
_CALLED = re.compile(r"\bhg::(\w+)")


def required_headers(headers: Sequence[str], texts: Sequence[str], numeric: str) -> list[str]:
    """``headers`` of a unit with the kernels ``texts``, with parts of math.h in its place where they are enough."""
    if _ALL not in headers:
        return list(headers)
    parts, rest = _functions()
    called = {name for text in texts for name in _CALLED.findall(text)}
    needed = [part for part in _PARTS if called & parts[part]] or [_PARTS[0]]
    others = numeric != "strict" and needed != [_PARTS[0]]  # functions of the same names
    if others or called & rest or any("double" in text for text in texts):
        return list(headers)
    at = list(headers).index(_ALL)
    return [*headers[:at], *needed, *headers[at + 1 :]]


@lru_cache
def _functions() -> tuple[dict[str, frozenset[str]], frozenset[str]]:
    """The functions that each part defines, and those that none of them does."""

    def defined(name: str) -> frozenset[str]:
        return frozenset(_DEFINED.findall((kernels_folder() / name).read_text(encoding="utf-8")))

    parts = {name: defined(name) for name in _PARTS}
    return parts, frozenset[str]().union(*map(defined, _OTHER_HEADERS)).difference(*parts.values())
