# SPDX-License-Identifier: Apache-2.0
"""The printed form of a graph; :mod:`.parse` reads it back.

Grammar (one node a line; a literal operand stands for a constant of the other operand's type)::

    text    := graph {graph}                 a parameter @K is graph number K, the body of a loop
    graph   := 'graph' NAME '(' [NAME ':' type {',' NAME ':' type}] ')' '->' '(' [ref {',' ref}] ')' {node}
    node    := '%' INT '=' PRIMITIVE '(' [operand {',' operand}] ')' {KEY '=' VALUE} type ['#' comment]
    operand := ref | NUMBER
    ref     := '%' INT | NAME
    type    := DTYPE '[' [INT {',' INT}] ']'

Example::

    graph mlp (x: f32[1,512], w: f32[256,512], b: f32[256]) -> (%5)
      %3 = transpose(w) perm=(1, 0)  f32[512,256]  # FullyConnected dense0_fwd
      %4 = dot(x, %3)  f32[1,256]  # FullyConnected dense0_fwd
      %5 = max(%4, 0.0)  f32[1,256]  # relu relu0 net.py:12
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from .dim_texts import report_text
from .dims import Dim

if TYPE_CHECKING:
    from .graph import Graph, Node

__all__ = ["align_comments", "print_graph"]

_COMMENT = re.compile(r"^(.*?) # ", re.M)
_IMPLIED = ("type", "dtype", "position", "name")  # parameters that the result type or the header holds


def print_graph(graph: Graph) -> str:
    """The text of ``graph`` and of the bodies of its loops; parse_graph reads it back."""
    graphs = [graph]
    texts = []
    for each in graphs:  # grows: a body is printed after the graphs that mention it
        texts.append(_print_one(each, graphs))
    return "".join(texts)


def _print_one(graph: Graph, graphs: list[Graph]) -> str:
    """The text of one graph; bodies that it mentions join ``graphs``."""
    label: dict[Node, str] = {}
    taken: set[str] = set()
    for k, node in enumerate(graph.inputs):
        name = re.sub(r"\W", "_", node.params["name"] or f"in{k}")
        if not re.match(r"[^\W\d]", name):
            name = f"in{k}"
        while name in taken:
            name += "_"
        taken.add(name)
        label[node] = name
    literal = {n for n in graph.nodes if n.prim.name == "full"} - set(graph.outputs)
    for n in graph.nodes:
        literal -= {i for i in n.inputs if not _inlines(n)}
    number = len(graph.inputs)
    for node in graph.nodes:
        if node not in label and node not in literal:
            label[node] = f"%{number}"
            number += 1
    lines = []
    for node in graph.nodes:
        if node in literal or node.prim.name == "input":
            continue
        operands = [_number(i) if i in literal else label[i] for i in node.inputs]
        params = [f"{k}={_param(v, graphs)}" for k, v in sorted(node.params.items()) if k not in _IMPLIED]
        text = " ".join([f"  {label[node]} = {node.prim.name}({', '.join(operands)})", *params, f" {node.type!r}"])
        if node.prov:
            text = f"{text} # {' '.join(part for part in node.prov if part)}"
        lines.append(text.rstrip())
    header = ", ".join(f"{label[n]}: {n.type!r}" for n in graph.inputs)
    results = ", ".join(label[o] for o in graph.outputs)
    return align_comments("\n".join([f"graph {graph.name} ({header}) -> ({results})", *lines]) + "\n")


def align_comments(text: str) -> str:
    """A printed form with its comments below each other, as far as they fit."""
    return _COMMENT.sub(lambda line: f"{line[1].rstrip():<55} # ", text)


def _param(value: Any, graphs: list[Graph]) -> str:
    """A parameter; a body is the number of its graph in the text."""
    if not isinstance(value, type(graphs[0])):
        return report_text(value)
    if value not in graphs:
        graphs.append(value)
    return f"@{graphs.index(value)}"


def _number(constant: Node) -> str:
    """The shortest text that reads back as the same element."""
    value = constant.params["value"]
    if not constant.dtype.is_float or issubclass(type(value), Dim):
        return report_text(value)
    text = min(str(constant.dtype.np.type(value)), repr(value), key=len)
    return text if set(text) & set(".en") else f"{text}.0"


def _inlines(consumer: Node) -> bool:
    """True if ``consumer``'s constants can be printed as numbers and read back."""
    if consumer.prim.family != "elementwise" or consumer.prim.name == "cast":
        return False
    return consumer.prim.name == "select" or any(i.prim.name != "full" for i in consumer.inputs)
