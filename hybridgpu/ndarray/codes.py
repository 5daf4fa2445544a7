# SPDX-License-Identifier: Apache-2.0
"""MXNet's codes for element types, storage types and gradient requests."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__: list[str] = []

py_slice = slice  #: which the operator hides in MXNet's module
_BFLOAT16 = np.dtype([("bfloat16", np.uint16)])
_DTYPE_MX_TO_NP: dict[int, Any] = {
    -1: None,
    **dict(enumerate((np.float32, np.float64, np.float16, np.uint8, np.int32, np.int8, np.int64, np.bool_))),
    12: _BFLOAT16,
}
_DTYPE_NP_TO_MX: dict[Any, int] = {kind: number for number, kind in _DTYPE_MX_TO_NP.items()}
_STORAGE_TYPE_ID_TO_STR = {-1: "undefined", 0: "default", 1: "row_sparse", 2: "csr"}
_STORAGE_TYPE_STR_TO_ID = {kind: number for number, kind in _STORAGE_TYPE_ID_TO_STR.items()}
_STORAGE_TYPE_UNDEFINED, _STORAGE_TYPE_DEFAULT, _STORAGE_TYPE_ROW_SPARSE, _STORAGE_TYPE_CSR = _STORAGE_TYPE_ID_TO_STR
_GRAD_REQ_MAP = {"null": 0, "write": 1, "add": 3}
