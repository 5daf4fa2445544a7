# SPDX-License-Identifier: Apache-2.0
"""Names that programs import from ``mxnet.ndarray.ndarray``; they live in the modules beside this one."""

from .array import NDArray
from .creation import arange, array, concatenate, empty, full, moveaxis, ones, zeros
from .serialization import load, save

__all__ = [
    "NDArray",
    "arange",
    "array",
    "concatenate",
    "empty",
    "full",
    "load",
    "moveaxis",
    "ones",
    "py_slice",
    "save",
    "zeros",
]

py_slice = slice
