# SPDX-License-Identifier: Apache-2.0
"""Classes by name: what ``create('xavier')`` and ``create('accuracy')`` look into.

Each base class has one table of lower-cased names; the functions made here read and write it.
"""

from __future__ import annotations

import difflib
import json
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from .core.source_location import located_hint

__all__ = ["get_alias_func", "get_create_func", "get_register_func", "get_registry"]

_TABLES: dict[type, dict[str, type]] = {}
_Class = TypeVar("_Class", bound=type)


def _table(base_class: type) -> dict[str, type]:
    return _TABLES.setdefault(base_class, {})


def get_registry(base_class: type) -> dict[str, type]:
    """A copy of the names registered for ``base_class``."""
    return _table(base_class).copy()


def get_register_func(base_class: type, nickname: str) -> Callable[..., Any]:
    """``register(klass, name=None)`` for subclasses of ``base_class``.

    A name that is taken is overwritten with a warning.
    """
    table = _table(base_class)

    def register(klass: _Class, name: str | None = None) -> _Class:
        assert issubclass(klass, base_class), f"Can only register subclass of {base_class.__name__}"
        key = (klass.__name__ if name is None else name).lower()
        old = table.get(key)
        if old is not None and old is not klass:
            warnings.warn(
                f"New {nickname} {klass.__module__}.{klass.__name__} registered with name {key} is"
                f"overriding existing {nickname} {old.__module__}.{old.__name__}",
                UserWarning,
                stacklevel=2,
            )
        table[key] = klass
        return klass

    register.__doc__ = f"Register {nickname} to the {nickname} factory"
    return register


def get_alias_func(base_class: type, nickname: str) -> Callable[..., Any]:
    """``alias('a', 'b')``: a decorator that registers a class under further names."""
    register = get_register_func(base_class, nickname)

    def alias(*aliases: str) -> Callable[[_Class], _Class]:
        def decorate(klass: _Class) -> _Class:
            for name in aliases:
                register(klass, name)
            return klass

        return decorate

    return alias


def get_create_func(base_class: type, nickname: str) -> Callable[..., Any]:
    """``create(what, ...)``: an instance from a name, an instance, a configuration dict or its JSON text.

    The function made raises an AssertionError for an unknown name and for anything else.
    """
    table = _table(base_class)

    def create(*args: Any, **kwargs: Any) -> Any:
        if args:
            what, args = args[0], args[1:]
        else:
            what = kwargs.pop(nickname)
        if isinstance(what, base_class):
            assert not args and not kwargs, f"{nickname} is already an instance. Additional arguments are invalid"
            return what
        if isinstance(what, dict):
            return create(**what)
        if not isinstance(what, str):
            call = f"{what.__name__}()" if isinstance(what, type) and issubclass(what, base_class) else ""
            instead = f"\n{located_hint(f'Write {call}, which makes one.')}" if call else ""
            raise AssertionError(f"{nickname} must be of string type{instead}")
        if what.startswith("["):
            assert not args and not kwargs
            name, kwargs = json.loads(what)
            return create(name, **kwargs)
        if what.startswith("{"):
            assert not args and not kwargs
            return create(**json.loads(what))
        key = what.lower()
        if key not in table:
            near = difflib.get_close_matches(key, list(table), 1, 0.7)
            instead = f"\n{located_hint(f'Write {near[0]!r}.')}" if near else ""
            raise AssertionError(f"{key} is not registered. Please register with {nickname}.register first{instead}")
        return table[key](*args, **kwargs)

    create.__doc__ = f"A {nickname} from its name, an instance, or a configuration (dict or JSON text)."
    return create
