# SPDX-License-Identifier: Apache-2.0
"""Name tables: compiled programs hold placeholders, and each net has a table of what they stand for.

Nets of one structure share their programs, in memory and on disk, whatever their nodes are called and whichever lines
made them. A program therefore holds placeholders, numbered by the nodes' order, and each net has a table of its own:
what reports, dumps, errors and the profiler show goes through it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from .dataclass import dataclass

__all__ = ["GRAPH", "NameTable", "input_placeholder", "name_placeholder", "place_placeholder"]

_MARK = "\ua78f"  # a letter that nobody writes (SINOLOGICAL DOT): in the printed form it may stand in identifiers
_PLACEHOLDER = re.compile(f"{_MARK}([gnpv])([0-9]*){_MARK}")
_LITERAL = re.compile(r"[(,] (\w+): ")  # other inputs in the head of a printed graph
GRAPH = f"{_MARK}g{_MARK}"  #: stands for the name of the graph


def name_placeholder(node: int) -> str:
    """The placeholder of the name of node number ``node``."""
    return f"{_MARK}n{node}{_MARK}"


def place_placeholder(node: int) -> str:
    """The placeholder of the block and the user's line that made it."""
    return f"{_MARK}p{node}{_MARK}"


def input_placeholder(node: int) -> str:
    """The placeholder of the name of an input of the graph, which the printed form makes an identifier."""
    return f"{_MARK}v{node}{_MARK}"


@dataclass(frozen=True)
class NameTable:
    """The names that placeholders stand for.

    Attributes:
        graph: the name of the graph.
        nodes: names of the nodes, by their numbers.
        places: block and line of each.
    """

    graph: str = "graph"
    nodes: tuple[str, ...] = ()
    places: tuple[str, ...] = ()

    def __call__(self, text: str) -> str:
        """``text`` with names in the place of placeholders."""
        if _MARK not in text:
            return text
        inputs: dict[str, str] = {}
        taken = set(_LITERAL.findall(text))

        def meant(match: re.Match[str]) -> str:
            kind, node = match[1], int(match[2] or 0)
            if kind == "g":
                return self.graph
            if kind == "v":
                if match[2] not in inputs:
                    inputs[match[2]] = _identifier(self.nodes[node], len(inputs), taken)
                return inputs[match[2]]
            return (self.nodes if kind == "n" else self.places)[node]

        return _PLACEHOLDER.sub(meant, text)

    def rename_error(self, error: BaseException) -> None:
        """Put names into the message of an error."""
        error.args = tuple(self(a) if isinstance(a, str) else a for a in error.args)

    def in_errors(self, work: Callable[..., Any]) -> Callable[..., Any]:
        """``work`` with names in the messages of errors."""

        def named(*args: Any) -> Any:
            try:
                return work(*args)
            except Exception as e:
                self.rename_error(e)
                raise

        return named


def _identifier(name: str, position: int, taken: set[str]) -> str:
    """An identifier like ``name`` that is none of ``taken``; see compiler/ir/text.py."""
    identifier = re.sub(r"\W", "_", name)
    if not re.match(r"[A-Za-z_]", identifier):
        identifier = f"in{position}"
    while identifier in taken:
        identifier += "_"
    taken.add(identifier)
    return identifier
