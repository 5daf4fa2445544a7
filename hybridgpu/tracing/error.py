# SPDX-License-Identifier: Apache-2.0
"""TracingError: what a traced function cannot do, the user's line, and what to write there."""

from __future__ import annotations

import linecache
import os
import re
import sys
import warnings

from ..base import MXNetError
from ..core.source_location import current_block, user_frame, user_place
from ..util import is_np_array

__all__ = ["NotStaticError", "SharedMemoryError", "TracingError", "needs_values", "not_traced", "tell_of_sharing"]


class TracingError(MXNetError):
    """A function, or the ``forward`` of a block, that is traced does what a graph cannot."""


class NotStaticError(TracingError, TypeError):
    """An argument is neither an array nor a value that tells signatures apart."""


class SharedMemoryError(TracingError):
    """Arguments of one call share memory that the function writes, which its graph cannot."""


def tell_of_sharing(error: SharedMemoryError, already_reported: bool) -> bool:
    """Warn that a call runs operator by operator, unless that was ``told`` before; True."""
    if not already_reported:
        text = f"{error}\nThis call, and others like it, run operator by operator, which gives what eager code gives."
        warnings.warn(text, stacklevel=user_frame())
    return True


def needs_values(what: str, instead: str = "", np: bool | None = None) -> TracingError:
    """The error for ``what``, which asks for the values of an array that has none yet.

    Args:
        what: the user's program does.
        instead: what to write, if the line does not tell.
        np: whether it is an array of np; by default NumPy's array semantics decide.
    """
    return not_traced(
        f"{what} needs the values of an array, which are not known while a function is traced",
        instead or _instead(is_np_array() if np is None else np),
    )


def not_traced(text: str, instead: str, line: tuple[str, int, str] | None = None) -> TracingError:
    """The error that says ``text``, shows the user's line, and says what to write instead of it.

    Args:
        line: file, number and block, where it is not the line that runs.
    """
    frame = user_place(sys._getframe(1))
    block = current_block()
    where, source = "", ""
    if frame is not None and line is None:
        line = frame.f_code.co_filename, frame.f_lineno, block
    if line is not None:
        file, number, block = line
        where = f"{os.path.basename(file)}:{number}"
        source = linecache.getline(file, number).strip()
    where = ", ".join(part for part in (f"block {block}" if block else "", where) if part)
    lines = [f"{text} ({where})" if where else text, *([f"    {source}"] if source else []), instead]
    return TracingError("\n".join(lines))


def _instead(np: bool) -> str:
    """What fits the user's line: a branch, a loop, or arithmetic."""
    frame = user_place(sys._getframe(1))
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno) if frame is not None else ""
    control, where = ("npx", "np.where") if np else ("nd.contrib", "nd.where")
    if re.match(r"\s*while\b", line):
        return f"Write {control}.while_loop(cond, func, loop_vars, max_iterations) for a loop that values end."
    if re.search(r"\brange\s*\(", line):
        return f"Write {control}.foreach(body, data, states), or {control}.while_loop where values say how often."
    if re.search(r"\b(if|elif|assert|and|or|not|any|all)\b", line):
        return (
            f"Write {where}(condition, x, y), or {control}.cond(pred, then_func, else_func) for whole branches; "
            f"{control}.while_loop for loops."
        )
    return (
        "Keep the value in the graph, where operators take arrays for numbers, or return it and read it outside. "
        f"What it decides is written with {where}, {control}.cond or {control}.while_loop."
    )
