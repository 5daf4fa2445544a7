# SPDX-License-Identifier: Apache-2.0
"""Functions that the methods of np's arrays call, and modules that need their class define; the package registers them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...core.late_bindings import LateBindings

if TYPE_CHECKING:
    from .array import ndarray

__all__ = ["late"]


class NumpyArrayBindings(LateBindings):
    """Functions that the array class of np looks upwards for."""

    array: Callable[..., ndarray]
    array_function: Callable[..., Any]
    array_ufunc: Callable[..., Any]
    assign_whole: Callable[[ndarray, ndarray], None]
    get_item: Callable[[ndarray, Any], ndarray]
    on_host: Callable[..., Any]
    set_item: Callable[[ndarray, Any, Any], None]


late = NumpyArrayBindings()
