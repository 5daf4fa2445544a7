# SPDX-License-Identifier: Apache-2.0
"""Functions that arrays without values call to read and write parts of themselves; the package registers them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.late_bindings import LateBindings

__all__ = ["late"]


class TracedBindings(LateBindings):
    """Functions that arrays without values look upwards for."""

    basic: Callable[[Sequence[int], Any], Any]
    get_item: Callable[[Any, Any], Any]
    set_item: Callable[[Any, Any, Any], None]


late = TracedBindings()
