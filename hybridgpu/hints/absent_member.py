# SPDX-License-Identifier: Apache-2.0
"""Errors for members that MXNet's classes have and these lack: what to write instead."""

from __future__ import annotations

from inspect import getattr_static
from typing import Any, NoReturn

__all__ = ["AbsentMember", "absent_member"]


class AbsentMember:
    """A class attribute that raises, of the class and of its objects, what ``foreign_names`` decided about the name.

    Subclasses and objects may have an attribute of this name.

    Args:
        owner: path of the class in MXNet, such as 'image.detection.ImageDetIter'.
    """

    def __init__(self, owner: str) -> None:
        self._owner, self._name = owner, ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type) -> NoReturn:
        raise self.error(instance, owner)

    def error(self, instance: Any, owner: type) -> AttributeError:
        """The error for an object, or for the class where that is None."""
        from .foreign_names import hint

        subject = f"type object '{owner.__name__}'" if instance is None else f"'{owner.__name__}' object"
        text = f"{subject} has no attribute '{self._name}'\n{hint(f'{self._owner}.{self._name}')}"
        # with the object alone: Python would add a guess at another name behind the advice
        return AttributeError(text, obj=owner if instance is None else instance)


def absent_member(instance: Any, name: str) -> AttributeError | None:
    """The error for an absent member, for a class whose ``__getattr__`` Python asks after the member has raised."""
    member = getattr_static(type(instance), name, None)
    return member.error(instance, type(instance)) if isinstance(member, AbsentMember) else None
