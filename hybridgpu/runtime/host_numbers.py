# SPDX-License-Identifier: Apache-2.0
"""Random numbers of Python and NumPy that traced code draws, which a graph keeps: whether, and on which line."""

from __future__ import annotations

import inspect
import os
import random
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, NamedTuple

from ..core.source_location import current_block, user_frame, user_place

__all__ = ["Draws", "Line", "drawing_line", "untracked_draws", "warn_of_kept"]

_PYTHON = inspect.getsourcefile(random) or ""  #: of Python's own functions, such as random.choice
_PACKAGE = __name__.partition(".")[0] + "."


class Line(NamedTuple):
    """A line of the user's."""

    file: str
    number: int
    block: str = ""


class _Watches(threading.local):
    def __init__(self) -> None:
        self.inside: list[Draws] = []


_watches = _Watches()


class Draws:
    """Whether numbers were drawn from Python's or NumPy's generator of the process in a ``with`` block."""

    def __enter__(self) -> Draws:
        self._before, self._seen = _generators(), False
        _watches.inside.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _watches.inside.remove(self)
        self.look()

    def look(self, count: bool = True) -> None:
        """Compare the generators with what they were before; from now on with what they are."""
        now = _generators()
        self._seen = self._seen or (count and now != self._before)
        self._before = now

    def __bool__(self) -> bool:
        return self._seen


@contextmanager
def untracked_draws() -> Iterator[None]:
    """A scope whose draws are no part of a graph: an initializer's numbers, which a parameter holds."""
    watches = list(_watches.inside)
    for watch in watches:
        watch.look()
    try:
        yield
    finally:
        for watch in watches:
            watch.look(count=False)


def _generators() -> Any:
    """What changes when Python's or NumPy's generator of the process is drawn from."""
    numpy = sys.modules.get("numpy.random")
    mine = hash(random.getstate())
    if numpy is None:
        return mine
    kind, words, at, *_ = numpy.get_state(legacy=True)
    return mine, kind, at, int(words[0]), int(words[-1])


def drawing_line(run: Callable[[], Any]) -> Line | None:
    """The first line of the user's that draws numbers while ``run`` runs once more; the generators are as before."""
    if sys.gettrace() is not None:  # a debugger's
        return None
    numpy = sys.modules.get("numpy.random")
    kept = random.getstate(), numpy and numpy.get_state()
    found: list[Line] = []
    last: Line | None = None
    before = _generators()

    def of_line(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal last, before
        if not found:
            now = _generators()
            if now != before and last is not None:
                found.append(last)
            before, place = now, frame if event != "return" else user_place(frame.f_back)
            last = place and Line(place.f_code.co_filename, place.f_lineno, current_block())
        return of_line

    def of_call(frame: FrameType, event: str, argument: Any) -> Any:
        return of_line if user_place(frame, _PYTHON) is frame else None

    sys.settrace(of_call)
    try:
        run()
    except Exception:  # the line that was found before counts
        pass
    finally:
        sys.settrace(None)
        random.setstate(kept[0])
        if numpy:
            numpy.set_state(kept[1])
    return found[0] if found else None


def warn_of_kept(name: str, functions: Sequence[Callable[..., Any]]) -> None:
    """Warn that the trace of a block has drawn numbers, which its graph keeps, as in MXNet.

    Args:
        name: of the block.
        functions: the ``hybrid_forward`` of its class and of those below it, its own first; the first of the user's is named.
    """
    code = next((f.__code__ for f in functions if not f.__module__.startswith(_PACKAGE)), None)
    if code is None:
        return
    warnings.warn(
        f"{name} draws random numbers of Python or NumPy while it is traced, which are then the same at every call "
        f"({code.co_name}, {os.path.basename(code.co_filename)}:{code.co_firstlineno}, or what it calls)\n"
        "Draw them with F.random, whose numbers are part of the graph.",
        stacklevel=user_frame(),
    )
