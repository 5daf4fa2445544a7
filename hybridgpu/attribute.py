# SPDX-License-Identifier: Apache-2.0
"""Attributes that every node made inside a scope gets."""

from __future__ import annotations

import threading
import warnings
from collections import defaultdict
from typing import ClassVar

from .core.source_location import user_frame

__all__ = ["AttrScope", "current"]


class _Current(type):
    """What ``AttrScope.current`` reads and writes."""

    @property
    def current(cls) -> AttrScope:
        _deprecated()
        return current()

    @current.setter
    def current(cls, scope: AttrScope) -> None:
        _deprecated()
        _stack()[-1] = scope


def _deprecated() -> None:
    warnings.warn(
        "AttrScope.current has been deprecated. It is advised to use the `with` statement with AttrScope.",
        DeprecationWarning,
        stacklevel=user_frame(),
    )


class AttrScope(metaclass=_Current):
    """``with mx.AttrScope(lr_mult='3'):`` adds attributes to the Symbols made inside.

    Raises:
        ValueError: a value that is no string.
    """

    _local = threading.local()
    _subgraph_names: ClassVar[defaultdict[str, int]] = defaultdict(int)  #: how many bodies of control flow had a name

    def __init__(self, **kwargs: str) -> None:
        for value in kwargs.values():
            if not isinstance(value, str):
                raise ValueError("Attributes need to be string")
        self._attr = dict(kwargs)
        self._merged: dict[str, str] = self._attr

    def get(self, attr: dict[str, str] | None) -> dict[str, str]:
        """The scope's attributes with ``attr`` over them."""
        return {**self._merged, **(attr or {})}

    def __enter__(self) -> AttrScope:
        self._merged = {**current()._merged, **self._attr}
        _stack().append(self)
        return self

    def __exit__(self, ptype: object, value: object, trace: object) -> None:
        _stack().pop()
        self._merged = self._attr


def _stack() -> list[AttrScope]:
    stack = getattr(AttrScope._local, "stack", None)
    if stack is None:
        stack = AttrScope._local.stack = [AttrScope()]
    return stack


def current() -> AttrScope:
    """The innermost scope of this thread."""
    return _stack()[-1]
