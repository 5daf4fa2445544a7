# SPDX-License-Identifier: Apache-2.0
"""Arrays of np from values."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...backends.devices import device_of
from ...context import Context, current_context
from ...core.dtypes import bf16, dtype_of, holds_numbers
from ...hints.arguments import telling
from ..dlpack import Taken
from ..ndarray import NDArray, wrap
from .array import ndarray

__all__ = ["array"]


@telling
def array(object: Any, dtype: Any = None, ctx: Context | None = None) -> ndarray:
    """A new array of the values of a list, a number, or an array of NumPy or np.

    The element type is float32 unless it is given, or the source has one.

    Raises:
        ValueError: a legacy array.
        TypeError: values that make no array of numbers.
    """
    where = ctx or current_context()
    if isinstance(object, ndarray):
        result = object.copyto(where)
        return result if dtype is None else result.astype(dtype, copy=False)
    if isinstance(object, NDArray):
        raise ValueError(
            "If you're trying to create a mxnet.numpy.ndarray from mx.nd.NDArray, please use the zero-copy as_np_ndarray "
            "function."
        )
    if not isinstance(object, np.ndarray):
        if dtype is None:
            dtype = getattr(object, "dtype", np.float32)
        if not hasattr(object, "__array__") and hasattr(object, "__dlpack__"):
            object = Taken(object).array(np)
    target = dtype_of(object.dtype if dtype is None else dtype)
    try:
        host = np.asarray(object)
        if not holds_numbers(host.dtype):
            if not isinstance(object, np.ndarray):
                host = np.asarray(object, target.np)  # which says what cannot be converted
            elif dtype_of(host.dtype) is not bf16:
                raise TypeError(f"NumPy's array of it has the element type {host.dtype}, which is no number")
            else:
                host = host.view(bf16.np)  # the words of MXNet's bfloat16
    except (TypeError, ValueError) as e:
        raise TypeError(str(e)) from None
    with np.errstate(all="ignore"):
        return wrap(device_of(where).from_host(host.astype(target.np, copy=False)), where, ndarray)  # type: ignore[return-value]
