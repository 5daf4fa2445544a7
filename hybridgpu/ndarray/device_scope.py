# SPDX-License-Identifier: Apache-2.0
"""Device scope: a function of an array runs with the array's device as the current one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from ..backends.device_errors import retry_after_oom
from ..backends.devices import device_of
from ..backends.memory import zeros
from ..context import Context
from .ndarray import NDArray, wrap

__all__ = ["on_its_device", "zeros_on"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def on_its_device(function: _Function) -> _Function:
    """Wrap a function of an array, its first argument, so that it runs on the array's device.

    Where that has no memory it is called twice: it writes into arrays that were there before as its last step only.
    """

    @functools.wraps(function)
    def placed(x: Any, *args: Any, **kwargs: Any) -> Any:
        device = device_of(x._type.ctx)
        if device.needs_switch():
            with device.current():
                return placed(x, *args, **kwargs)
        try:
            return function(x, *args, **kwargs)
        except Exception as e:
            return retry_after_oom(e, lambda: function(x, *args, **kwargs))

    return cast("_Function", placed)


def zeros_on(ctx: Context, shape: tuple[int, ...], dtype: Any, kind: Any = None) -> NDArray:
    """An array of zeros, an NDArray or a ``kind`` of it; ``dtype`` is NumPy's."""
    device = device_of(ctx)
    with device.current():
        return wrap(zeros(device.xp, shape, dtype), ctx, kind)  # type: ignore[no-any-return]
