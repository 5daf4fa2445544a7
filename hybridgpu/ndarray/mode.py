# SPDX-License-Identifier: Apache-2.0
"""Decorator for functions of nd arrays: they take and give np arrays where NumPy semantics are on."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from ..util import is_np_array
from .ndarray import NDArray

__all__ = ["follows_mode", "legacy", "of_mode"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def legacy(x: Any) -> Any:
    """The array of nd of the same memory; lists and tuples one by one, other values as they are."""
    if isinstance(x, NDArray):
        return x.as_nd_ndarray()
    return type(x)(map(legacy, x)) if type(x) in (list, tuple) else x


def of_mode(x: Any) -> Any:
    """The same with arrays of np where ``is_np_array()``."""
    if not is_np_array():
        return x
    if isinstance(x, NDArray):
        return x.as_np_ndarray()
    return type(x)(map(of_mode, x)) if type(x) in (list, tuple) else x


def follows_mode(function: _Function) -> _Function:
    """Decorator: arguments become arrays of nd, results arrays of the mode."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        if not is_np_array():
            return function(*args, **kwargs)
        return of_mode(function(*map(legacy, args), **{k: legacy(v) for k, v in kwargs.items()}))

    return run  # type: ignore[return-value]
