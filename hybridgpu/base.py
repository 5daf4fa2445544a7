# SPDX-License-Identifier: Apache-2.0
"""Errors and small types shared by every layer.

The classes are MXNet 1.9.1's (``mxnet.base``), with one addition: ``NotImplementedForSymbol`` is
also a ``NotImplementedError``, so that code written for either library can catch it.
"""

from __future__ import annotations

import numbers
import os
import time
from typing import Any, TypeVar

import numpy as np

__all__ = [
    "MXNetError",
    "NotImplementedForSymbol",
    "OperandError",
    "ParameterError",
    "fail",
    "integer_types",
    "numeric_types",
    "string_types",
]

Kind = TypeVar("Kind", bound=type)

BEGUN = time.time_ns()  #: when the package was imported: files that changed since may be others than those that run

mx_real_t = np.float32
numeric_types = (float, int, np.generic)
integer_types = (int, np.integer)
string_types = (str,)


def py_str(x: bytes) -> str:
    """Text of bytes in UTF-8."""
    return x.decode("utf-8")


def data_dir_default() -> str:
    """The folder for files that are fetched or looked up, unless $MXNET_HOME says another: ~/.mxnet."""
    return os.path.join(os.path.expanduser("~"), ".mxnet")


def data_dir() -> str:
    """The folder for files that are fetched or looked up: $MXNET_HOME, else ~/.mxnet."""
    return os.environ.get("MXNET_HOME") or data_dir_default()


class _ClassProperty:
    """A property of a class."""

    def __init__(self, getter: Any) -> None:
        self._getter = getter if isinstance(getter, (classmethod, staticmethod)) else classmethod(getter)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self._getter.__get__(instance, owner or type(instance))()


def classproperty(func: Any) -> Any:
    """Decorator: a property of a class, read without an instance."""
    return _ClassProperty(func)


def with_metaclass(meta: Any, *bases: type) -> type:
    """A base for classes of another metaclass, as Python 2 needed it: ``class A(with_metaclass(Meta, Base))``."""

    class _Once(type):  # takes the place of itself by the wanted class
        def __new__(cls, name: str, this_bases: tuple[type, ...], namespace: dict[str, Any]) -> Any:
            return meta(name, bases, namespace)

        @classmethod
        def __prepare__(cls, name: str, this_bases: tuple[type, ...]) -> Any:  # type: ignore[override]
            return meta.__prepare__(name, bases)

    return type.__new__(_Once, "temporary_class", (), {})


error_types: dict[str, type[Exception]] = {}  #: name -> class of errors, see :func:`register_error`


def register_error(func_name: Any = None, cls: Any = None) -> Any:
    """Make a class of errors known by its name, or by another: a decorator, ``register_error(Error)``, or called with both."""
    if callable(func_name):
        cls, func_name = func_name, func_name.__name__

    def known(kind: type[Exception]) -> type[Exception]:
        error_types[func_name or kind.__name__] = kind
        return kind

    return known if cls is None else known(cls)


def _as_list(obj: Any) -> Any:
    """A list or tuple as it is, anything else as a list of one."""
    return obj if isinstance(obj, (list, tuple)) else [obj]


_shown: list[type] = []
_shown_package = __name__.partition(".")[0]


def shown(kind: Kind) -> Kind:
    """Class decorator: ``repr`` names the package as the program does, ``mxnet`` under MXNet's name.

    It is for the classes whose names users see, in tracebacks and as ``type(x)``. Their pickles must not need it.
    """
    _shown.append(kind)
    kind.__module__ = f"{_shown_package}.{kind.__module__.partition('.')[2]}"
    return kind


def show_as(package: str) -> None:
    """Give the package another name in ``repr`` of the classes that are :func:`shown`."""
    global _shown_package
    _shown_package = package
    for kind in _shown:
        kind.__module__ = f"{package}.{kind.__module__.partition('.')[2]}"


@shown
class MXNetError(RuntimeError):
    """Any error that MXNet's core would have raised: shapes, types, attributes, files."""

    def __reduce__(self) -> Any:
        reduced = super().__reduce__()
        return (_error, *reduced[1:]) if type(self) is MXNetError else reduced


def _error(*args: Any) -> MXNetError:
    return MXNetError(*args)


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


class OperandError(AssertionError, TypeError):
    """An operand that is neither an array nor a Symbol: MXNet's functions raise AssertionError, its operators TypeError."""


class NotSupportedForSparseNDArray(MXNetError):
    """A function was used on a sparse array. All arrays are dense here: nothing raises it."""

    def __init__(self, function: Any, alias: str | None, *args: Any) -> None:
        self.function, self.alias = function.__name__, alias
        self.args_types = [str(type(a)) for a in args]
        super().__init__(str(self))

    def __str__(self) -> str:
        text = f"Function {self.function}"
        if self.alias:
            text += f' (namely operator "{self.alias}")'
        if self.args_types:
            text += " with arguments (" + ", ".join(self.args_types) + ")"
        return f"{text} is not supported for SparseNDArray and only available in NDArray."


def fail(message: str) -> MXNetError:
    """An MXNetError in the wording of MXNet's checks; raise what it returns."""
    return MXNetError(message)


def is_integer(value: Any) -> bool:
    """True for Python and NumPy integers, False for bool."""
    return type(value) is int or (isinstance(value, numbers.Integral) and not isinstance(value, (bool, np.bool_)))
