# SPDX-License-Identifier: Apache-2.0
"""How the lists are written, and the operators that none of them names."""

from __future__ import annotations

from collections.abc import Iterable

from ....ops.functions import names_in

__all__ = ["names", "others"]


def names(text: str) -> list[str]:
    """The words of a text."""
    return text.split()


def others(*listed: Iterable[str]) -> list[str]:
    """Names of operators that are in none of the lists; NumPy's are in no list of MXNet's."""
    named = {name for names in listed for name in names}
    return sorted(n for n in names_in("_internal") if n not in named and not n.startswith(("_np_", "_npi_", "_npx_")))
