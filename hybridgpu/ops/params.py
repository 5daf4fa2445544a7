# SPDX-License-Identifier: Apache-2.0
"""Attribute descriptors: how an operator's attribute is read, checked, written and documented.

An attribute arrives as a Python value or, from a Symbol or a model file, as text. ``parse`` gives
one canonical value for both; ``text`` writes it as MXNet does. Errors have MXNet's wording.
"""

from __future__ import annotations

import ast
import math
import re
import sys
from typing import Any

import numpy as np

from ..base import MXNetError
from ..dataclass import dataclass, field
from ..dtypes import DType, dtype_of

__all__ = [
    "REQUIRED",
    "Any_",
    "Axis",
    "Bool",
    "Double",
    "Dtype",
    "Enum",
    "Float",
    "Floats",
    "Int",
    "Param",
    "Shape",
    "Text",
    "Values",
    "text_of",
]


class _Required:
    def __repr__(self) -> str:
        return "required"


REQUIRED: Any = _Required()


def text_of(value: Any) -> str:
    """The text under which a Symbol keeps an attribute: Python's, with NumPy types by name."""
    if isinstance(value, DType):
        return value.name
    if isinstance(value, (np.dtype, type)):
        found = np.dtype(value)
        return str(found.names[0] if found.names else found.name)  # a field: the bfloat16 of MXNet's Python
    if isinstance(value, list):
        return f"[{', '.join(map(_entry_text, value))}]"
    if isinstance(value, (tuple, np.ndarray)):
        return f"({', '.join(map(_entry_text, value))}{',' if len(value) == 1 else ''})"
    return str(value)


def _entry_text(value: Any) -> str:
    """NumPy numbers as Python's, which is how MXNet saw them."""
    return str(value) if isinstance(value, np.generic) else repr(value)


@dataclass(frozen=True)
class Param:
    """An attribute; subclasses say what values it takes.

    Attributes:
        default: its value when not given; REQUIRED if it must be.
        doc: one line.
        optional: None is a value.
        varies: numbers that change from call to call, such as a learning rate: programs may take them when they run.
    """

    default: Any = REQUIRED
    doc: str = ""
    optional: bool = False
    varies: bool = field(default=False, kw_only=True)
    expects: str = field(default="value", init=False)

    def parse(self, name: str, value: Any) -> Any:
        """The canonical value.

        Raises:
            MXNetError: the value does not fit.
        """
        if isinstance(value, str) and value.strip() == "None":
            value = None
        if value is None:
            if self.optional or self.default is None:
                return None
            raise self.invalid(name, value)
        try:
            return self.convert(value)
        except (ValueError, TypeError, SyntaxError, OverflowError):
            raise self.invalid(name, value) from None

    def convert(self, value: Any) -> Any:
        raise NotImplementedError

    def invalid(self, name: str, value: Any) -> MXNetError:
        return MXNetError(f"Invalid Parameter format for {name} expect {self.expects} but value='{value}'")

    @property
    def type_name(self) -> str:
        """How documentation names the type."""
        return self.expects + (" or None" if self.optional or self.default is None else "")

    @property
    def kind(self) -> str:
        """How messages name the type."""
        return self.expects


_LEAST, _GREATEST = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)
_LONG = re.compile(r"(?<=\d)L\b")  # how Python 2 wrote integers, in files of its time


def _literal(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if value.isdecimal() and value.isascii() and value[0] != "0":
        return int(value)  # nearly all of them; Python's parser takes fifty times as long
    return ast.literal_eval(_LONG.sub("", value.strip()))


@dataclass(frozen=True)
class Int(Param):
    """An integer; text such as '3' too."""

    low: int | None = None
    expects: str = field(default="int", init=False)

    def parse(self, name: str, value: Any) -> Any:
        number = super().parse(name, value)
        if self.low is not None and number is not None and number < self.low:
            raise MXNetError(
                f"value {number} for Parameter {name} should be greater equal to {self.low}\n{name}: {self.doc}"
            )
        return number

    def convert(self, value: Any) -> int:
        value = _literal(value)
        if isinstance(value, (bool, np.bool_)) or int(value) != value:
            raise ValueError
        if not -(1 << 63) <= value < 1 << 63:
            raise ValueError
        return int(value)


@dataclass(frozen=True)
class _Number(Param):
    """A number; integers and text too; ``within`` bounds it on both sides."""

    within: tuple[float, float] | None = None

    def parse(self, name: str, value: Any) -> Any:
        number = super().parse(name, value)
        if self.within is not None and number is not None and not self.within[0] <= number <= self.within[1]:
            low, high = self.within
            raise MXNetError(f"value {value} for Parameter {name} exceed bound [{low:g},{high:g}]\n{name}: {self.doc}")
        return number

    def convert(self, value: Any) -> float:
        if isinstance(value, (bool, np.bool_)) or value in ("True", "False"):
            raise ValueError
        return float(value)


@dataclass(frozen=True)
class Double(_Number):
    """A number that MXNet keeps in double precision."""

    expects: str = field(default="double", init=False)


@dataclass(frozen=True)
class Float(_Number):
    """A number that MXNet keeps in single precision: finite ones too large for that, or too small, are refused."""

    expects: str = field(default="float", init=False)

    def parse(self, name: str, value: Any) -> Any:
        number = super().parse(name, value)
        if number and not _LEAST <= abs(number) <= _GREATEST and math.isfinite(number):
            if not self.optional and self.default is not None:
                raise MXNetError(f"Out of range value for {name}, value='{value}'")
            if abs(number) > _GREATEST:
                raise self.invalid(name, value)
        return number


@dataclass(frozen=True)
class Bool(Param):
    """A truth value: True, 1, 'True', 'true', '1' and their opposites."""

    expects: str = field(default="boolean", init=False)

    def convert(self, value: Any) -> bool:
        if isinstance(value, str):
            return {"true": True, "1": True, "false": False, "0": False}[value.strip().lower()]
        if isinstance(value, (bool, np.bool_, int, np.integer)):
            return bool(value)
        raise ValueError

    def parse(self, name: str, value: Any) -> Any:
        try:
            return super().parse(name, value)
        except KeyError:
            raise self.invalid(name, value) from None


@dataclass(frozen=True)
class Enum(Param):
    """One of a few words."""

    choices: tuple[str, ...] = ()
    expects: str = field(default="int", init=False)

    def convert(self, value: Any) -> str:
        if value not in self.choices:
            valid = ", ".join(f"'{c}'" for c in sorted(self.choices))
            raise MXNetError(f"Invalid Input: '{value}', valid values are: {{{valid}}}")
        return str(value)

    @property
    def type_name(self) -> str:
        return "{" + ", ".join(repr(c) for c in sorted(self.choices)) + "}"


@dataclass(frozen=True)
class Text(Param):
    """Any text."""

    expects: str = field(default="string", init=False)

    def convert(self, value: Any) -> str:
        return str(value)

    def parse(self, name: str, value: Any) -> Any:
        return None if value is None else str(value)


@dataclass(frozen=True)
class Shape(Param):
    """A tuple of integers; one integer means a tuple of one. ``holes`` allows None entries."""

    holes: bool = False
    expects: str = field(default="Shape(tuple)", init=False)

    def convert(self, value: Any) -> tuple[int | None, ...]:
        value = _literal(value)
        if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
            value = (value,)
        return tuple(self._entry(v) for v in value)

    def _entry(self, v: Any) -> int | None:
        if v is None and self.holes:
            return None
        if isinstance(v, (bool, np.bool_)) or int(v) != v or not -(1 << 63) <= v < 1 << 63:
            raise ValueError
        return int(v)


@dataclass(frozen=True)
class Floats(Param):
    """A tuple of finite floats, none too large for single precision if that keeps them; one number means a tuple of one."""

    single: bool = True
    expects: str = field(default="tuple of <float>", init=False)

    def convert(self, value: Any) -> tuple[float, ...]:
        value = _literal(value)
        numbers = (float(value),) if isinstance(value, (int, float, np.generic)) else tuple(float(v) for v in value)
        most = _GREATEST if self.single else sys.float_info.max
        if not all(abs(v) <= most for v in numbers):  # NaN among them
            raise ValueError
        return numbers


@dataclass(frozen=True)
class Axis(Param):
    """Axes of a reduction: None, an integer, or a tuple (empty means all)."""

    default: Any = None
    expects: str = field(default="Shape(tuple)", init=False)

    def convert(self, value: Any) -> tuple[int, ...]:
        return Shape().convert(value)  # type: ignore[return-value]


@dataclass(frozen=True)
class Dtype(Param):
    """An element type, by name or class; None in Python is float64, as for ``numpy.dtype``."""

    expects: str = field(default="string", init=False)

    def parse(self, name: str, value: Any) -> Any:
        return super().parse(name, "float64" if value is None else value)

    def convert(self, value: Any) -> DType:
        return dtype_of(value)

    def invalid(self, name: str, value: Any) -> MXNetError:
        valid = "'bfloat16', 'bool', 'float16', 'float32', 'float64', 'int32', 'int64', 'int8', 'uint8'"
        return MXNetError(f"Invalid Input: '{value}', valid values are: {{{valid}}}")


@dataclass(frozen=True)
class Any_(Param):
    """A value that only Python code can give (subgraphs, callables)."""

    def convert(self, value: Any) -> Any:
        return value


def negative_zeros(items: dict[str, Any]) -> tuple[str, ...]:
    """Names of the attributes that are -0.0, which equals 0.0 as a dictionary key, but not as a divisor."""
    return tuple(k for k, v in items.items() if isinstance(v, float) and v == 0 and math.copysign(1.0, v) < 0)


class Values:
    """Parsed attributes: readable as fields, hashable by ``key``."""

    def __init__(self, items: dict[str, Any]) -> None:
        self.__dict__.update(items)
        self.__dict__["key"] = (tuple(items.items()), negative_zeros(items))

    def __getattr__(self, name: str) -> Any:  # only for what is missing; tells type checkers the rest
        raise AttributeError(name)

    def __repr__(self) -> str:
        return f"Values({self.as_dict()})"

    def as_dict(self) -> dict[str, Any]:
        """The attributes by name."""
        return dict(self.__dict__["key"][0])
