# SPDX-License-Identifier: Apache-2.0
"""Functions that NDArray and eager calls look upwards for: modules that need NDArray define them, and one is of ``runtime``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..core.late_bindings import LateBindings

if TYPE_CHECKING:
    from .ndarray import NDArray

__all__ = ["late"]


class ArrayBindings(LateBindings):
    """Functions that NDArray looks upwards for."""

    apply: Callable[..., Any]
    array_of_record: Callable[[bytes], NDArray]
    attribute_error: Callable[[Any, str], AttributeError]
    backward: Callable[..., Any]
    before_write: Callable[[NDArray], None]
    eager_kernels: Callable[..., list[Any]]
    get_item: Callable[[NDArray, Any], NDArray]
    is_contiguous: Callable[[tuple[slice, ...], tuple[int, ...]], bool]
    large_results: Callable[[Any], Callable[[], Any] | None]
    make_method: Callable[[str], Callable[..., Any] | None]
    method_names: Callable[[], set[str]]
    ndarray: Any  #: the class of the arrays of np
    record_call: Callable[..., list[NDArray]]
    set_item: Callable[[NDArray, Any, Any], None]
    tracked: Callable[[Sequence[NDArray]], bool]


late = ArrayBindings()
