# SPDX-License-Identifier: Apache-2.0
"""Source locations for messages: the block being traced, the line of the user's code."""

from __future__ import annotations

import importlib
import os
import sys
import threading
from types import FrameType

__all__ = [
    "block_scope",
    "current_block",
    "located_hint",
    "note_location",
    "place",
    "set_by_user",
    "user_frame",
    "user_line",
    "user_place",
]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_IMPORTS = os.path.dirname(importlib.__file__) + os.sep  # import_module is between a program and what it imports


class _Blocks(threading.local):
    def __init__(self) -> None:
        self.names: list[str] = []


_blocks = _Blocks()


class block_scope:
    """While entered, ``name`` is the block that runs (for messages)."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        _blocks.names.append(self._name)

    def __exit__(self, *exc: object) -> None:
        _blocks.names.pop()


def current_block() -> str:
    """Name of the innermost block that is being traced, or ''."""
    return _blocks.names[-1] if _blocks.names else ""


_ours: set[str] = set()  #: files of hybridgpu that were met


def user_place(frame: FrameType | None, *folders: str) -> FrameType | None:
    """The innermost frame, from ``frame`` outwards, whose file is neither hybridgpu's nor in one of ``folders``."""
    while frame is not None:
        file = frame.f_code.co_filename
        if file not in _ours:
            if file.startswith((_PACKAGE, _IMPORTS, "<frozen")):
                _ours.add(file)
            elif not file.startswith(folders):
                return frame
        frame = frame.f_back
    return None


def user_line(*folders: str) -> str:
    """'file.py:12' of the innermost frame outside hybridgpu and ``folders``, or ''."""
    frame = user_place(sys._getframe(1), *folders)
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}" if frame is not None else ""


def user_frame() -> int:
    """The ``stacklevel`` of a warning that points at the innermost frame outside hybridgpu, for the caller."""
    frame, level = sys._getframe(1), 1
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1  # type: ignore[assignment]
    return level


def set_by_user() -> bool:
    """Whether the user's code sets the attribute whose ``__setattr__`` asks, not a layer's own."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "__setattr__":
        frame = frame.f_back
    while frame is not None and frame.f_code.co_name == "__setattr__":
        frame = frame.f_back
    return frame is not None and not frame.f_code.co_filename.startswith(_PACKAGE)


def note_location(error: Exception) -> None:
    """Note in an error of an operator on which line of the user's it was called; :func:`place` tells it."""
    error.__dict__["_line"] = user_line()


def place(error: Exception, block: str) -> None:
    """End the text of a marked error with the innermost block that it comes from, and the line."""
    line = error.__dict__.pop("_line", None)
    if line is not None:
        where = ", ".join(part for part in (f"block {block}", line) if part)
        error.args = (f"{error}\n(in {where})",)


def located_hint(text: str, *folders: str) -> str:
    """A line for the end of an error: what to write instead, in which block and line (not one in ``folders``)."""
    block, line = current_block(), user_line(*folders)
    where = ", ".join(part for part in (f"block {block}" if block else "", line) if part)
    return f"{text} ({where})" if where else text
