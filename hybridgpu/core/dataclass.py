# SPDX-License-Identifier: Apache-2.0
"""``dataclass``: the standard library's decorator, in a fifth of its time.

``dataclasses.dataclass`` compiles up to six functions for a class. hybridgpu has more than a hundred such classes, and
an import or a first call waited for some 20 ms for them. Here ``__init__`` alone is compiled; comparing, hashing,
printing and refusing to be changed are functions that need nothing of the class but the names of its fields.

What comes out is a dataclass: ``fields``, ``replace``, ``asdict`` and type checkers see no difference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, field, fields
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass", "field"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    from dataclasses import dataclass as _standard

    def dataclass(cls=None, /, *, frozen=False, eq=True, slots=False, kw_only=False):
        """A decorator like the standard library's, with the options that hybridgpu uses."""
        if cls is None:
            return lambda cls: dataclass(cls, frozen=frozen, eq=eq, slots=slots, kw_only=kw_only)
        if slots:  # that is another class, which the standard library makes
            return _standard(cls, frozen=frozen, eq=eq, slots=True, kw_only=kw_only)
        own = cls.__dict__
        if not cls.__doc__:
            cls.__doc__ = cls.__name__  # else the standard library works out a signature
        _standard(cls, init=False, repr=False, eq=False, kw_only=kw_only)
        if "__init__" not in own:
            cls.__init__ = _initializer(cls, frozen)
        if "__repr__" not in own:
            cls.__repr__ = _repr
        if eq:
            compared = [f for f in fields(cls) if f.compare]
            values = _values(compared)
            hashed = own.get("__hash__") is not None
            if "__eq__" not in own:
                cls.__eq__ = _equal(values)
            if not hashed:
                cls.__hash__ = _hash(values) if frozen else None
        if frozen:
            cls.__setattr__, cls.__delattr__ = _refuse_setting, _refuse_deleting
        return cls


class _Unset:
    def __repr__(self) -> str:
        return "<factory>"


_UNSET = _Unset()  #: stands for what a factory makes


def _initializer(cls: type, frozen: bool) -> Callable[..., None]:
    """``__init__``: positional fields, then those that only a keyword gives."""
    namespace: dict[str, Any] = {"_set": object.__setattr__, "_unset": _UNSET}
    parameters: list[str] = []
    named: list[str] = []
    body: list[str] = []
    for f in fields(cls):
        name, value = f.name, f.name
        if f.default_factory is not MISSING:
            namespace[f"_make_{name}"] = f.default_factory
            value = f"_make_{name}() if {name} is _unset else {name}" if f.init else f"_make_{name}()"
        elif not f.init:
            continue  # __post_init__ fills it in, or its default is an attribute of the class
        body.append(f" _set(self, {name!r}, {value})" if frozen else f" self.{name} = {value}")
        if f.init:
            (named if f.kw_only else parameters).append(name + _default(f, namespace))
    if hasattr(cls, "__post_init__"):
        body.append(" self.__post_init__()")
    if named:
        parameters += ["*", *named]
    exec(f"def __init__({', '.join(['self', *parameters])}):\n" + "\n".join(body or [" pass"]), namespace)
    init: Callable[..., None] = namespace["__init__"]
    init.__qualname__, init.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    init.__annotations__ = {f.name: f.type for f in fields(cls) if f.init} | {"return": None}
    return init


def _default(f: Field[Any], namespace: dict[str, Any]) -> str:
    if f.default_factory is not MISSING:
        return "=_unset"
    if f.default is MISSING:
        return ""
    namespace[f"_default_{f.name}"] = f.default
    return f"=_default_{f.name}"


def _values(compared: list[Field[Any]]) -> Callable[[Any], tuple[Any, ...]]:
    """What gives the values of fields."""
    names = [f.name for f in compared]
    if len(names) > 1:
        return attrgetter(*names)
    if not names:
        return lambda self: ()
    (name,) = names
    return lambda self: (getattr(self, name),)


def _equal(values: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any, object], bool]:
    def __eq__(self: Any, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values(self) == values(other)

    return __eq__


def _hash(values: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any], int]:
    def __hash__(self: Any) -> int:
        return hash(values(self))

    return __hash__


@recursive_repr()
def _repr(self: Any) -> str:
    shown = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.repr)
    return f"{type(self).__qualname__}({shown})"


def _refuse_setting(self: Any, name: str, value: Any) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deleting(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")
