# SPDX-License-Identifier: Apache-2.0
"""Interpreted operators: graphs that the array library runs primitive by primitive, from the third call on as Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backends.code_cache import define
from ..compiler.reference import Interpreter
from ..core.float_errors import IGNORED, ignore_errors, restore_errors
from .late_bindings import late

if TYPE_CHECKING:
    from ..compiler.ir.graph import Graph

__all__ = ["InterpretedGraph", "evaluation_lines", "without_float_errors"]

_CALLS = 2  #: before Python is written, which takes as long as some calls


class InterpretedGraph(Interpreter):
    """An interpreter for a graph that is run again and again."""

    def __init__(self, graph: Graph, xp: Any, special: Callable[..., Any] | None) -> None:
        super().__init__(graph, xp, special=special, storage=late.large_results if xp is np else None)
        self._calls = 0
        self._call: Callable[..., list[Any]] = super().__call__

    def __call__(self, *arrays: Any) -> list[Any]:
        if self._calls <= _CALLS:
            self._calls += 1
            if self._calls > _CALLS:
                self._call = self._as_python() or self._call
        return self._call(*arrays)

    def _as_python(self) -> Callable[..., list[Any]] | None:
        arguments = [f"a{k}" for k in range(len(self.graph.inputs))]
        names: dict[str, Any] = {}
        lines = evaluation_lines(self, arguments, names)
        if lines is None:
            return None
        results = ", ".join(f"d{k}" for k in range(len(self.graph.outputs)))
        body = without_float_errors([*lines, f"return [{results}]"])
        return define(f"call({', '.join(arguments)})", body, names, f"{__file__}, interpreted graph")


def evaluation_lines(graph: Interpreter, arguments: Sequence[str], names: dict[str, Any]) -> list[str] | None:
    """Lines that give results d0, d1 … of arrays, for :func:`without_float_errors`; None where a graph is not written. What
    both name is added to ``names``."""
    written = graph.written(arguments)
    if written is None:
        return None
    names |= written.names
    names |= {"ignore_errors": ignore_errors, "restore_errors": restore_errors, "ignored": IGNORED}
    return [*written.lines, *(f"d{k} = {result}" for k, result in enumerate(written.results))]


def without_float_errors(lines: Sequence[str], handlers: Sequence[str] = ()) -> list[str]:
    """Lines that run others while floating-point errors are ignored.

    Args:
        handlers: lines of ``except`` clauses.
    """
    body = [f"    {line}" for line in lines]
    return ["token = ignore_errors(ignored)", "try:", *body, *handlers, "finally:", "    restore_errors(token)"]
