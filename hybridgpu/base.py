# SPDX-License-Identifier: Apache-2.0
"""Errors and small types shared by every layer.

The classes are MXNet 1.9.1's (``mxnet.base``), with one addition: ``NotImplementedForSymbol`` is
also a ``NotImplementedError``, so that code written for either library can catch it.
"""

from __future__ import annotations

import numbers
import time
from typing import Any

import numpy as np

__all__ = [
    "MXNetError",
    "NotImplementedForSymbol",
    "ParameterError",
    "fail",
    "integer_types",
    "numeric_types",
    "string_types",
]

BEGUN = time.time_ns()  #: when the package was imported: files that changed since may be others than those that run

mx_real_t = np.float32
numeric_types = (float, int, np.generic)
integer_types = (int, np.integer)
string_types = (str,)


def py_str(x: bytes) -> str:
    """Text of bytes in UTF-8."""
    return x.decode("utf-8")


def data_dir() -> str:
    """The folder for files that are fetched or looked up: $MXNET_HOME, else ~/.mxnet."""
    import os

    return os.environ.get("MXNET_HOME") or os.path.join(os.path.expanduser("~"), ".mxnet")


def _as_list(value: Any) -> list[Any]:
    """A list of what is none yet."""
    return list(value) if isinstance(value, (list, tuple)) else [value]


class MXNetError(RuntimeError):
    """Any error that MXNet's core would have raised: shapes, types, attributes, files."""


class NotImplementedForSymbol(MXNetError, NotImplementedError):
    """An array-only function or operator was used on a Symbol.

    Args:
        function: the function object or its name.
        alias: the operator's spelling, such as ``+=``.
        args: the operands, whose types are named in the message.
        advice: a line that says what to write instead.
    """

    def __init__(self, function: Any, alias: str | None = None, *args: Any, advice: str = "") -> None:
        self.function = function if isinstance(function, str) else function.__name__
        self.alias = alias
        self.args_types = [str(type(a)) for a in args]
        self.advice = advice
        super().__init__(str(self))

    def __str__(self) -> str:
        text = f"Function {self.function}"
        if self.alias:
            text += f' (namely operator "{self.alias}")'
        if self.args_types:
            text += " with arguments (" + ", ".join(self.args_types) + ")"
        text += " is not implemented for Symbol and only available in NDArray."
        return f"{text}\n{self.advice}" if self.advice else text


class ParameterError(MXNetError, ValueError):
    """A parameter, such as a standard deviation below 0, for which MXNet raises ValueError and not an error of its own."""


def fail(message: str) -> MXNetError:
    """An MXNetError in the wording of MXNet's checks; raise what it returns."""
    return MXNetError(message)


def is_integer(value: Any) -> bool:
    """True for Python and NumPy integers, False for bool."""
    return isinstance(value, numbers.Integral) and not isinstance(value, (bool, np.bool_))
