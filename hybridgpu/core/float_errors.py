# SPDX-License-Identifier: Apache-2.0
"""NumPy's floating-point warnings switched off, for calls that are shorter than ``numpy.errstate``.

``errstate`` makes an object of its settings each time that it is entered. NumPy keeps the settings of a thread in a context
variable; one that says "ignore" is taken from there once, and set and reset again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, copy_context
from typing import Any

import numpy as np

__all__ = ["IGNORED", "ignore_errors", "restore_errors"]


def _find() -> tuple[ContextVar[Any], Any] | None:
    """The variable in which NumPy keeps its settings, and its value under ``errstate(all="ignore")``."""
    before = copy_context()
    with np.errstate(all="ignore"):
        inside = copy_context()
    for variable, value in inside.items():
        if variable not in before or before[variable] is not value:
            return variable, value
    return None


IGNORED: Any = None
_setting = _find()
if _setting is not None:
    _variable, IGNORED = _setting
    #: called with IGNORED; what it returns is for ``restore_errors``
    ignore_errors: Callable[[Any], Any] = _variable.set
    restore_errors: Callable[[Any], None] = _variable.reset
else:  # a NumPy that keeps them elsewhere

    def ignore_errors(ignored: Any) -> Any:
        scope = np.errstate(all="ignore")
        scope.__enter__()
        return scope

    def restore_errors(token: Any) -> None:
        token.__exit__(None, None, None)
