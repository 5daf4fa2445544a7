# SPDX-License-Identifier: Apache-2.0
"""Elementwise operators of np: unary, binary, with a scalar; comparison and logic."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base import numeric_types
from .application import np_function, npx_function
from .derive import derived_operator

derived_operator("_npi_add", "broadcast_add")
derived_operator("_npi_add_scalar", "_plus_scalar")


@np_function("add")
def add(F: Any, x1: Any, x2: Any, out: Any = None, **kwargs: Any) -> Any:
    """x1 + x2, elementwise; they broadcast."""
    if isinstance(x2, numeric_types):
        if isinstance(x1, numeric_types):
            return np.add(x1, x2, out=out)
        return F.invoke("_npi_add_scalar", (x1,), {"scalar": float(x2)}, out)
    if isinstance(x1, numeric_types):
        return F.invoke("_npi_add_scalar", (x2,), {"scalar": float(x1)}, out)
    if not isinstance(x2, F.array):
        raise TypeError(f"type {type(x2)} not supported")
    return F.invoke("_npi_add", (x1, x2), None, out)


@npx_function("relu")
def relu(F: Any, data: Any, out: Any = None, name: str | None = None) -> Any:
    """max(data, 0)."""
    return F.invoke("_npx_relu", (data,), None, out, name)
