# SPDX-License-Identifier: Apache-2.0
"""Attribute descriptors: how an operator's attribute is read, checked, written and documented.

An attribute arrives as a Python value or, from a Symbol or a model file, as text. ``parse`` gives
one canonical value for both: like MXNet's Python, it writes a value as text and reads that by the C
type of the attribute (attribute_text.py); common values take a shorter way to the same result.
Errors have MXNet's wording.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from ..base import MXNetError
from ..core.dataclass import dataclass, field
from ..core.dtypes import DType, dtype_of
from .attribute_text import (
    FLOAT,
    read_entry_int,
    read_float,
    read_int,
    read_optional_int,
    read_stream_float,
    read_tuple,
    unread_rest,
)

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
    "Ints",
    "Long",
    "Longs",
    "Param",
    "Position",
    "Shape",
    "Text",
    "Unsigned",
    "UnsignedLong",
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
        dtype = np.dtype(value)
        return str(dtype.names[0] if dtype.names else dtype.name)  # a field: the bfloat16 of MXNet's Python
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
        text = value if isinstance(value, str) else text_of(value)
        if (self.optional or self.default is None) and text.rstrip(_BLANKS) == "None":
            return None
        try:
            return self.read(text)
        except (ValueError, OverflowError):
            raise self.invalid(name, text) from None

    def read(self, text: str) -> Any:
        """The value of a text.

        Raises:
            ValueError: it is none.
            OverflowError: the C type does not hold it.
        """
        raise NotImplementedError

    def invalid(self, name: str, value: str) -> MXNetError:
        """The error for a text that is no value."""
        return MXNetError(f"Invalid Parameter format for {name} expect {self.type_name} but value='{value}'")

    def outside(self, name: str, value: Any, bound: str) -> MXNetError:
        """The error for a value outside its bounds."""
        shown = f"{value:g}" if isinstance(value, float) else value
        return MXNetError(f"value {shown} for Parameter {name} {bound}\n{name}: {self.doc}")

    @property
    def type_name(self) -> str:
        """How documentation and messages name the type."""
        return self.expects + (" or None" if self.optional or self.default is None else "")

    @property
    def kind(self) -> str:
        """How the message about a missing attribute names the type."""
        return self.expects

    python = "Any"  #: type of its values in Python, but for None

    @property
    def annotation(self) -> str:
        """The type of its values in Python, as signatures write it."""
        return self.python + (" | None" if (self.optional or self.default is None) and self.python != "Any" else "")


_BLANKS = " \t\n\v\f\r"


@dataclass(frozen=True)
class Int(Param):
    """An integer of 32 bits; ``low`` bounds it below, ``within`` on both sides."""

    low: int | None = None
    within: tuple[int, int] | None = None
    expects: str = field(default="int", init=False)

    span = (-(1 << 31), (1 << 31) - 1)  # what the C type holds
    python = "int"

    def parse(self, name: str, value: Any) -> Any:
        number = value
        if type(value) is not int or not self.span[0] <= value <= self.span[1]:
            number = super().parse(name, value)
        if self.low is not None and number is not None and number < self.low:
            raise self.outside(name, number, f"should be greater equal to {self.low}")
        if self.within is not None and number is not None and not self.within[0] <= number <= self.within[1]:
            raise self.outside(name, number, f"exceed bound [{self.within[0]},{self.within[1]}]")
        return number

    def read(self, text: str) -> int:
        optional = self.optional or self.default is None
        return (read_optional_int if optional else read_int)(text, *self.span)


@dataclass(frozen=True)
class Unsigned(Int):
    """An integer of 32 bits without a sign. MXNet takes negative ones, too, as huge numbers; here they are refused."""

    expects: str = field(default="int (non-negative)", init=False)

    span = (0, (1 << 32) - 1)


@dataclass(frozen=True)
class Long(Int):
    """An integer of 64 bits."""

    expects: str = field(default="long", init=False)

    span = (-(1 << 63), (1 << 63) - 1)


@dataclass(frozen=True)
class UnsignedLong(Int):
    """An integer of 64 bits without a sign."""

    expects: str = field(default="long (non-negative)", init=False)

    span = (0, (1 << 64) - 1)


@dataclass(frozen=True)
class Position(Int):
    """A position in an array: MXNet's ``int``, of 64 bits as in its builds for arrays of more than 2^31 elements."""

    span = (-(1 << 63), (1 << 63) - 1)


@dataclass(frozen=True)
class _Number(Param):
    """A number; integers and text too; ``within`` bounds it on both sides, ``low`` below."""

    within: tuple[float, float] | None = None
    low: float | None = field(default=None, kw_only=True)

    python = "float"

    def parse(self, name: str, value: Any) -> Any:
        least, greatest = FLOAT[self.expects]
        if type(value) is float and (least <= abs(value) <= greatest or value == 0):
            number: Any = value
        else:
            number = self._parse(name, value)
        if number is None:
            return None
        if self.within is not None and not self.within[0] <= number <= self.within[1]:
            raise self.outside(name, number, f"exceed bound [{self.within[0]:g},{self.within[1]:g}]")
        if self.low is not None and not number >= self.low:
            raise self.outside(name, number, f"should be greater equal to {self.low:g}")
        return number

    def _parse(self, name: str, value: Any) -> Any:
        if self.optional or self.default is None:
            return super().parse(name, value)
        text = value if isinstance(value, str) else text_of(value)
        try:
            return read_float(text, *FLOAT[self.expects])
        except OverflowError:
            raise MXNetError(f"Out of range value for {name}, value='{text}'") from None
        except ValueError:
            rest = unread_rest(text)
            if not rest:
                raise self.invalid(name, text) from None
            raise MXNetError(f"Some trailing characters could not be parsed: '{rest}'") from None

    def read(self, text: str) -> float:
        return read_stream_float(text, FLOAT[self.expects][1])


@dataclass(frozen=True)
class Double(_Number):
    """A number that MXNet keeps in double precision."""

    expects: str = field(default="double", init=False)


@dataclass(frozen=True)
class Float(_Number):
    """A number that MXNet keeps in single precision: finite ones too large for that, or too small, are refused."""

    expects: str = field(default="float", init=False)


@dataclass(frozen=True)
class Bool(Param):
    """A truth value: True, 1, 'True', 'true', '1' and their opposites."""

    expects: str = field(default="boolean", init=False)

    python = "bool"

    def parse(self, name: str, value: Any) -> Any:
        if value is True or value is False:
            return value
        if self.optional and isinstance(value, str) and value.strip(_BLANKS).lower() == "none":
            return None
        return super().parse(name, value)

    def read(self, text: str) -> bool:
        truth = _TRUTH.get(text.lower())
        if truth is None:
            raise ValueError
        return truth


_TRUTH = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True)
class Enum(Param):
    """One of a few words."""

    choices: tuple[str, ...] = ()
    expects: str = field(default="int", init=False)

    @property
    def annotation(self) -> str:
        words = [*sorted(self.choices), *(["None"] if self.optional or self.default is None else [])]
        return f"Literal[{', '.join(w if w == 'None' else repr(w) for w in words)}] | str"  # editors propose the words

    def parse(self, name: str, value: Any) -> str | None:
        text = value if isinstance(value, str) else text_of(value)
        if text in self.choices:
            return text
        if text == "None" and (self.optional or self.default is None):
            return None
        raise self.invalid(name, text)

    def invalid(self, name: str, value: str) -> MXNetError:
        return MXNetError(f"Invalid Input: '{value}', valid values are: {self.type_name}")

    @property
    def type_name(self) -> str:
        none = ["None"] if self.optional or self.default is None else []
        return "{" + ", ".join([*none, *(repr(c) for c in sorted(self.choices))]) + "}"


@dataclass(frozen=True)
class Text(Param):
    """Any text."""

    expects: str = field(default="string", init=False)

    python = "str"

    def parse(self, name: str, value: Any) -> Any:
        return None if value is None else str(value)


@dataclass(frozen=True)
class _Tuple(Param):
    """Numbers in parentheses."""

    def known(self, value: tuple[Any, ...] | None) -> Any:
        """What was read. MXNet takes None for every tuple, as one of unknown length, over which most operators stumble."""
        if value is None and not self.optional and self.default is not None:
            raise ValueError
        return value

    @property
    def kind(self) -> str:
        return self.type_name


@dataclass(frozen=True)
class Shape(_Tuple):
    """A tuple of integers of 64 bits; one integer means a tuple of one. ``holes`` allows None entries."""

    holes: bool = False
    span = (-(1 << 63), (1 << 63) - 1)

    @property
    def annotation(self) -> str:
        none = " | None" if self.optional or self.default is None else ""
        return f"int | Sequence[int{' | None' if self.holes else ''}]{none}"

    def parse(self, name: str, value: Any) -> Any:
        if type(value) in (tuple, list) and all(type(v) is int and self.span[0] <= v <= self.span[1] for v in value):
            return tuple(value)
        return super().parse(name, value)

    def read(self, text: str) -> Any:
        single, entry = (read_optional_int, read_optional_int) if self.holes else (read_int, read_entry_int)
        low, high = self.span
        value = read_tuple(text, partial(single, low=low, high=high), partial(entry, low=low, high=high), self.holes)
        return self.known(value)

    @property
    def type_name(self) -> str:
        return "Shape or None" if self.optional else "Shape(tuple)"


@dataclass(frozen=True)
class Ints(Shape):
    """A tuple of integers of 32 bits."""

    span = (-(1 << 31), (1 << 31) - 1)


@dataclass(frozen=True)
class Longs(Shape):
    """A list of integers of 64 bits."""

    @property
    def type_name(self) -> str:
        return "tuple of <long>"


@dataclass(frozen=True)
class Floats(_Tuple):
    """A tuple of finite floats, none too large for single precision if that keeps them; one number means a tuple of one."""

    single: bool = True

    python = "float | Sequence[float]"

    def parse(self, name: str, value: Any) -> Any:
        high = FLOAT["float" if self.single else "double"][1]
        if type(value) in (tuple, list) and all(type(v) in (float, int) and abs(v) <= high for v in value):
            return tuple(map(float, value))
        return super().parse(name, value)

    def read(self, text: str) -> Any:
        number = partial(read_stream_float, high=FLOAT["float" if self.single else "double"][1])
        return self.known(read_tuple(text, number, number))

    @property
    def type_name(self) -> str:
        return f"tuple of <{'float' if self.single else 'double'}>"


@dataclass(frozen=True)
class Axis(Shape):
    """Axes of a reduction: None, an integer, or a tuple (empty means all)."""

    default: Any = None
    optional: bool = True


@dataclass(frozen=True)
class Dtype(Param):
    """An element type, by name or class; None in Python is float64, as for ``numpy.dtype``; ``only`` names those taken."""

    only: tuple[str, ...] = field(default=(), kw_only=True)
    expects: str = field(default="string", init=False)

    python = "DType"

    def parse(self, name: str, value: Any) -> Any:
        if isinstance(value, str) and value == "None" and (self.optional or self.default is None):
            return None
        try:
            dtype = dtype_of("float64" if value is None else value)
        except (TypeError, ValueError):
            dtype = None
        if dtype is None or (self.only and dtype.name not in self.only):
            raise self.invalid(name, value if isinstance(value, str) else text_of(value))
        return dtype

    def invalid(self, name: str, value: Any) -> MXNetError:
        valid = self.only or (
            "bfloat16",
            "bool",
            "float16",
            "float32",
            "float64",
            "int32",
            "int64",
            "int8",
            "uint8",
        )
        return MXNetError(f"Invalid Input: '{value}', valid values are: {{{', '.join(map(repr, valid))}}}")


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
