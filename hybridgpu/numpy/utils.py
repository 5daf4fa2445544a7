# SPDX-License-Identifier: Apache-2.0
"""Element types and constants, which are NumPy's."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

__all__ = [
    "NAN",
    "NINF",
    "NZERO",
    "PINF",
    "PZERO",
    "_STR_2_DTYPE_",
    "NaN",
    "bool",
    "bool_",
    "e",
    "finfo",
    "float16",
    "float32",
    "float64",
    "inf",
    "int8",
    "int32",
    "int64",
    "nan",
    "newaxis",
    "pi",
    "uint8",
]

float16, float32, float64 = np.float16, np.float32, np.float64
uint8, int8, int32, int64 = np.uint8, np.int8, np.int32, np.int64
bool_ = np.bool_
bool = builtins.bool
finfo = np.finfo

pi, e = np.pi, np.e
inf = PINF = np.inf
NINF = -np.inf
nan = NAN = NaN = np.nan
PZERO, NZERO = 0.0, -0.0
newaxis = None

_STR_2_DTYPE_: dict[str, Any] = {
    "float16": float16,
    "float32": float32,
    "float64": float64,
    "float": float64,
    "uint8": uint8,
    "int8": int8,
    "int32": int32,
    "int64": int64,
    "int": int64,
    "bool": bool,
    "bool_": bool_,
    "None": None,
}
