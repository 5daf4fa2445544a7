# SPDX-License-Identifier: Apache-2.0
"""Pytrees: nested arguments and results, flattened into a list and a format, and regrouped.

A format is 0 for one value, the number of them for a value that stands for several, -1 for None, or a
list of formats. Where all containers keep their kind, there are also a tuple of formats, :class:`Named` for a named
tuple, a dictionary of formats, and :class:`Static` for a value that is the same at every call.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["Named", "Static", "count_values", "flatten", "flatten_tree", "formats_agree", "key_of", "regroup"]


class Static:
    """The format of a value that is part of the signature. Equal ones are equal, and of one class."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Static) and _is_same(self.value, other.value)

    def __hash__(self) -> int:
        return hash((self.value.__class__, self.value))

    def __repr__(self) -> str:
        return repr(self.value)


def _is_same(a: Any, b: Any) -> bool:
    return a is b or (a.__class__ is b.__class__ and bool(a == b) and repr(a) == repr(b))  # 0.0 and -0.0 are two


class Named(NamedTuple):
    """The format of a named tuple, of a dictionary of another class (its part is that of the dictionary), or of a dataclass
    among results.

    Attributes:
        kind: makes it of its parts.
    """

    kind: Callable[..., Any]
    parts: list[Any]

    @property
    def is_dict(self) -> bool:
        """Whether its part is a dictionary's: a named tuple may hold one, too."""
        return isinstance(self.kind, _Default) or (isinstance(self.kind, type) and issubclass(self.kind, dict))


class _Default(NamedTuple):
    """Makes dictionaries that make their missing values."""

    factory: Any

    def __call__(self, items: dict[Any, Any]) -> Any:
        return defaultdict(self.factory, items)


def flatten(args: Any, format_of: Callable[[Any], int | None]) -> tuple[list[Any], Any]:
    """(values in order, format).

    Args:
        format_of: the format of a value, None for a list or tuple that holds some; raises for anything else.
    """
    form = format_of(args)
    if form is not None:
        return [args], form
    flat: list[Any] = []
    formats = []
    for a in args:
        part, inner = flatten(a, format_of)
        flat += part
        formats.append(inner)
    return flat, formats


def flatten_tree(
    value: Any, leaf: Callable[[Any], bool], static: Callable[[Any], Any], results: bool = False
) -> tuple[list[Any], Any]:
    """(values in order, format) of nested lists, tuples and dictionaries, which keep their kind.

    Args:
        leaf: whether a value is one of those that are flattened.
        static: the format of any other value, or raises.
        results: None is a static value, too, for which there is no place among the values.
    """
    flat: list[Any] = []

    def format_of(x: Any) -> Any:
        if leaf(x):
            flat.append(x)
            return 0
        if x is None and not results:
            flat.append(None)
            return -1
        if x.__class__ is list:
            return [format_of(v) for v in x]
        if x.__class__ is tuple:
            return tuple([format_of(v) for v in x])
        if isinstance(x, dict):
            inner = {k: format_of(v) for k, v in x.items()}
            if x.__class__ is dict:
                return inner
            kind: Any = _Default(x.default_factory) if isinstance(x, defaultdict) else x.__class__
            return Named(kind, [inner])
        if isinstance(x, tuple) and hasattr(x, "_fields"):
            return Named(type(x), [format_of(v) for v in x])
        names = results and getattr(x, "__dataclass_fields__", None)
        if names and tuple(names) == type(x).__match_args__:
            return Named(type(x), [format_of(getattr(x, n)) for n in names])
        return static(x)

    return flat, format_of(value)


def key_of(form: Any) -> Any:
    """A format as something that can be a key; lists and tuples differ."""
    if isinstance(form, list):
        return ("list", *map(key_of, form))
    if isinstance(form, Named):
        return (form.kind, *map(key_of, form.parts))
    if isinstance(form, tuple):
        return ("tuple", *map(key_of, form))
    if isinstance(form, dict):
        return ("dict", *((Static(k), key_of(f)) for k, f in form.items()))  # 1 and True are two
    return form


def regroup(flat: list[Any], form: Any) -> Any:
    """The nested structure of ``form`` made of ``flat`` (which is used up)."""
    if isinstance(form, Static):
        return form.value
    if isinstance(form, Named):
        return form.kind(*[regroup(flat, f) for f in form.parts])
    if isinstance(form, tuple):
        return tuple([regroup(flat, f) for f in form])
    if isinstance(form, dict):
        return {k: regroup(flat, f) for k, f in form.items()}
    if isinstance(form, int):
        if form == 0:
            return flat.pop(0)
        if form == -1:
            flat.pop(0)
            return None
        return [flat.pop(0) for _ in range(form)]
    return [regroup(flat, f) for f in form]


def count_values(form: Any) -> int:
    """The number of values that a format stands for.

    Raises:
        ValueError: it is none.
    """
    if isinstance(form, list):
        return sum(map(count_values, form))
    if not isinstance(form, int) or form < -1:
        raise ValueError(f"{str(form)[:50]} is no format of arguments")
    return {0: 1, -1: 0}.get(form, form)


def formats_agree(stored: Any, new: Any) -> bool:
    """True if a call of format ``new`` fits a graph traced with ``stored``: trailing Nones do not count."""
    if isinstance(stored, list) and isinstance(new, list):
        a, b = list(stored), list(new)
        while a and a[-1] == -1:
            a.pop()
        while b and b[-1] == -1:
            b.pop()
        return len(a) == len(b) and all(formats_agree(x, y) for x, y in zip(a, b, strict=True))
    return bool(stored == new)
