# SPDX-License-Identifier: Apache-2.0
"""Where in the user's program something was made: the block being traced, the line of code."""

from __future__ import annotations

import os
import sys
import threading

__all__ = ["advice", "block_scope", "current_block", "user_frame", "user_line"]

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


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


def user_line() -> str:
    """'file.py:12' of the innermost frame outside hybridgpu, or ''."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(_PACKAGE) and not name.startswith("<frozen"):
            return f"{os.path.basename(name)}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return ""


def user_frame() -> int:
    """The ``stacklevel`` of a warning that points at the innermost frame outside hybridgpu, for the caller."""
    frame, level = sys._getframe(1), 1
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1  # type: ignore[assignment]
    return level


def advice(text: str) -> str:
    """A line for the end of an error: what to write instead, in which block and line."""
    block, line = current_block(), user_line()
    where = ", ".join(part for part in (f"block {block}" if block else "", line) if part)
    return f"{text} ({where})" if where else text
