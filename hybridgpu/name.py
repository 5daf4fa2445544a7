# SPDX-License-Identifier: Apache-2.0
"""Automatic names: an operator's hint and a counter, per manager."""

from __future__ import annotations

import threading
import warnings

__all__ = ["NameManager", "Prefix", "current"]


class _Current(type):
    """What ``NameManager.current`` reads and writes."""

    @property
    def current(cls) -> NameManager:
        warnings.warn(
            "NameManager.current has been deprecated. It is advised to use the `with` statement with NameManager.",
            DeprecationWarning,
            stacklevel=2,
        )
        return current()

    @current.setter
    def current(cls, manager: NameManager) -> None:
        _stack()[-1] = manager


class NameManager(metaclass=_Current):
    """Gives names to nodes made without one. Entering it starts its own counters."""

    _local = threading.local()

    def __init__(self) -> None:
        self._counter: dict[str, int] = {}

    def get(self, name: str | None, hint: str) -> str:
        """``name`` if there is one, else ``hint`` and a number."""
        if name:
            return name
        number = self._counter.get(hint, 0)
        self._counter[hint] = number + 1
        return f"{hint}{number}"

    def __enter__(self) -> NameManager:
        _stack().append(self)
        return self

    def __exit__(self, ptype: object, value: object, trace: object) -> None:
        _stack().pop()


class Prefix(NameManager):
    """Puts a prefix before automatic and explicit operator names."""

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self._prefix = prefix

    def get(self, name: str | None, hint: str) -> str:
        return self._prefix + super().get(name, hint)


def _stack() -> list[NameManager]:
    stack = getattr(NameManager._local, "stack", None)
    if stack is None:
        stack = NameManager._local.stack = [NameManager()]
    return stack


def current() -> NameManager:
    """The innermost manager of this thread."""
    return _stack()[-1]
