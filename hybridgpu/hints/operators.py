# SPDX-License-Identifier: Apache-2.0
"""Errors for Python operators that arrays and Symbols lack, as in MXNet: Python's words, then what to write.

The classes have methods for them (:func:`install_stubs`), because Python itself would only say that there are none.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Container
from typing import Any

import numpy as np

from ..core.source_location import located_hint

__all__ = ["install_stubs"]

#: name of the method -> operator, what to write; {f} is nd or F, {x} and {y} are the operands, {a} and {b} their names
_BINARY = {
    "floordiv": ("//", "{f}.floor({x} / {y})"),
    "matmul": ("@", "{f}.dot({a}, {b}), for stacks of matrices {f}.batch_dot({a}, {b}) or {f}.linalg.gemm2({a}, {b})"),
    "divmod": ("divmod()", "{f}.floor({x} / {y}) and {x} % {y}"),
    "and": ("&", "{a} * {b} for what comparisons give, else {f}.broadcast_logical_and({a}, {b})"),
    "or": ("|", "{f}.broadcast_logical_or({a}, {b})"),
    "xor": ("^", "{f}.broadcast_logical_xor({a}, {b})"),
    "lshift": ("<<", "{x} * 2 ** {y}"),
    "rshift": (">>", "{f}.floor({x} / 2 ** {y})"),
}
_UNARY = {
    "pos": ("bad operand type for unary +: '{kind}'", "x"),
    "invert": ("bad operand type for unary ~: '{kind}'", "{f}.logical_not(x)"),
    "round": ("type {kind} doesn't define __round__ method", "{f}.round(x)"),
    "trunc": ("type {kind} doesn't define __trunc__ method", "{f}.trunc(x)"),
    "floor": ("must be real number, not {kind}", "{f}.floor(x)"),
    "ceil": ("must be real number, not {kind}", "{f}.ceil(x)"),
}
_NUMBER = {
    "int": "int() argument must be a string, a bytes-like object or a real number, not '{kind}'",
    "index": "'{kind}' object cannot be interpreted as an integer",
}


def install_stubs(kind: type, functions: str, real: str, number: str, supported: Container[str] = ()) -> None:
    """Give a class methods for what it does not support. Each raises TypeError.

    Args:
        kind: the class.
        functions: what users call the module of its operators, ``nd`` or ``F``.
        real: Python's words, of which ``float(x)`` and ``math.exp(x)`` have different ones.
        number: what to write where Python wants a number.
        supported: methods that it has.
    """

    def add(name: str, method: Callable[..., Any]) -> None:
        if name not in supported:
            method.__name__ = name
            method.__doc__ = "Not supported: raises TypeError."
            setattr(kind, name, method)

    for word, (symbol, instead) in _BINARY.items():
        add(f"__{word}__", _binary(kind, symbol, instead, functions, f"__r{word}__"))
        add(f"__r{word}__", _reflected(symbol, instead, functions))
        if word != "divmod":
            add(f"__i{word}__", _binary(kind, f"{symbol}=", instead, functions, f"__r{word}__"))
    for word, (text, instead) in _UNARY.items():
        add(f"__{word}__", _unary(text, f"Write {instead.format(f=functions)}."))
    for word, text in {**_NUMBER, "float": real}.items():
        add(f"__{word}__", _unary(text, number))
    add("__format__", _format(number))


def _binary(kind: type, symbol: str, instead: str, functions: str, reflected: str) -> Callable[..., Any]:
    def method(self: Any, other: Any) -> Any:
        ours = isinstance(other, (kind, numbers.Number, np.generic, np.ndarray))
        if not ours and hasattr(type(other), reflected) and not hasattr(other, "__array_priority__"):
            return NotImplemented  # another library's object, which may know what to do
        raise _unsupported(symbol, instead, functions, self, other)

    return method


def _reflected(symbol: str, instead: str, functions: str) -> Callable[..., Any]:
    def method(self: Any, other: Any) -> Any:
        raise _unsupported(symbol, instead, functions, other, self)

    return method


def _unsupported(symbol: str, instead: str, functions: str, left: Any, right: Any) -> TypeError:
    a, b = ("x", "x") if left is right else ("y", "x") if _is_number(left) else ("x", "y")
    x, y = (repr(v) if _is_number(v) else name for v, name in ((left, a), (right, b)))
    written = instead.format(f=functions, x=x, y=y, a=a, b=b)
    kinds = f"'{type(left).__name__}' and '{type(right).__name__}'"
    return TypeError(f"unsupported operand type(s) for {symbol}: {kinds}\n" + located_hint(f"Write {written}."))


def _is_number(operand: Any) -> bool:
    return type(operand) in (int, float, bool)


def _unary(text: str, instead: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any) -> Any:
        raise TypeError(f"{text.format(kind=type(self).__name__)}\n{located_hint(instead)}")

    return method


def _format(number: str) -> Callable[..., Any]:
    def method(self: Any, spec: str) -> str:
        if not spec:
            return str(self)
        raise TypeError(f"unsupported format string passed to {type(self).__name__}.__format__\n{located_hint(number)}")

    return method
