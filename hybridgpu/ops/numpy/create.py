# SPDX-License-Identifier: Apache-2.0
"""Operators of np without inputs."""

from __future__ import annotations

from typing import Any

from ..params import Param, Text
from ..record import OPERATORS
from .application import np_function
from .derive import derived_operator

_CTX: dict[str, Param] = {"ctx": Text("", "where the result lies")}

derived_operator("_npi_zeros", "_zeros", params={**OPERATORS["_zeros"].params, **_CTX})


@np_function("zeros")
def zeros(F: Any, shape: Any, dtype: Any = None, order: str = "C", ctx: Any = None) -> Any:
    """Zeros, float32 by default."""
    if order != "C":
        raise NotImplementedError
    return F.invoke("_npi_zeros", (), {"shape": shape, "dtype": dtype or "float32", "ctx": ctx})
