# SPDX-License-Identifier: Apache-2.0
"""Functions of the CUDA driver's library that CuPy does not have, called by ctypes."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping, Sequence
from ctypes import POINTER, c_char_p, c_int
from typing import Any

from ..device_errors import DeviceError
from .errors import driver_error

__all__ = ["ERROR_TEXTS", "PATH", "bind", "failure"]

PATH = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
#: the functions that :func:`failure` asks, with the types of their arguments
ERROR_TEXTS: dict[str, Sequence[Any]] = {
    "cuGetErrorName": (c_int, POINTER(c_char_p)),
    "cuGetErrorString": (c_int, POINTER(c_char_p)),
}


def bind(functions: Mapping[str, Sequence[Any]], path: str = PATH) -> dict[str, Any]:
    """Functions that return a CUresult, by name.

    Args:
        functions: name -> types of the arguments.

    Raises:
        OSError: there is no such library.
        AttributeError: it has no such function, as its words say.
    """
    library, by_name = ctypes.CDLL(path), {}
    for name, types in functions.items():
        function = getattr(library, name, None)
        if function is None:
            raise AttributeError(f"the CUDA driver has no {name}")
        function.argtypes, function.restype = types, c_int
        by_name[name] = function
    return by_name


def failure(functions: Mapping[str, Any], name: str, status: int, advice: str) -> DeviceError:
    """The error of a function that returned ``status``; ``functions`` have those of ERROR_TEXTS."""

    def text_of(ask: str) -> str:
        text = c_char_p()
        succeeded = functions[ask](status, ctypes.byref(text)) == 0
        return (text.value or b"").decode("utf-8", "replace") if succeeded else ""

    return driver_error(status, name, text_of("cuGetErrorName"), text_of("cuGetErrorString"), advice)
