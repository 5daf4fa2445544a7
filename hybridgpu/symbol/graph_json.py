# SPDX-License-Identifier: Apache-2.0
"""MXNet's graph files (``-symbol.json``): writing them byte for byte, reading all versions.

The reader checks every index before it is used: inputs must point to earlier nodes, so a graph with
a cycle cannot be built. Errors name the node.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..base import MXNetError
from ..ops.functions import registered
from ..util import is_np_shape
from .legacy_json import OLDEST, VERSION, split_hidden, upgrade
from .node import Entry, SymbolNode, topological

__all__ = ["read_graph", "write_graph"]

# -- writing


def write_graph(heads: Sequence[Entry], remove_amp_cast: bool = True) -> str:
    """The JSON text of a graph."""
    return _Writer().graph(heads, "", remove_amp_cast, version=True)


class _Writer:
    """Follows dmlc's JSON writer: two blanks a level, ', ' before every line break, objects of one
    key and lists of up to ten numbers on one line."""

    def graph(self, heads: Sequence[Entry], pad: str, remove_amp_cast: bool, version: bool) -> str:
        order = topological(heads)
        if remove_amp_cast and (inputs := _without_casts(order)):
            order = topological(heads, lambda n: inputs[id(n)])
        else:
            inputs = {id(n): n.inputs for n in order}
        number = {id(n): k for k, n in enumerate(order)}
        changes: dict[int, int] = {}  # of variables: a state counts the operators that change it

        def entry(e: Entry, version: int | None = None) -> str:
            node, output = e
            if version is None:
                version = node.versions[0] if node.op is None and node.versions else changes.get(id(node), 0)
            return f"[{number[id(node)]}, {output}, {version}]"

        inner = pad + "  "
        nodes = [self.node(n, inner + "  ", self._entries(n, inputs[id(n)], entry, changes)) for n in order]
        pointers, at = [0], 0
        for n in order:
            at += n.num_outputs + (n.op.kept if n.op is not None else 0)
            pointers.append(at)
        fields = [
            ("nodes", "[\n" + ", \n".join(inner + "  " + n for n in nodes) + f"\n{inner}]" if nodes else "[]"),
            ("arg_nodes", self.list([str(k) for k, n in enumerate(order) if n.op is None], inner)),
            ("node_row_ptr", self.list([str(p) for p in pointers], inner)),
            ("heads", self.list([entry(h) for h in heads], inner)),
        ]
        if version:
            attrs = [("is_np_shape", '["int", 1]')] if is_np_shape() else []
            fields.append(("attrs", self.object([*attrs, ("mxnet_version", f'["int", {VERSION}]')], pad + "  ")))
        return self.object(fields, pad)

    @staticmethod
    def _entries(node: SymbolNode, inputs: Sequence[Entry], entry: Any, changes: dict[int, int]) -> list[str]:
        """The inputs of a node, with the versions of states; ``changes`` goes on counting them."""
        if node.versions and node.op is not None:
            return [entry(e, version) for e, version in zip(inputs, node.versions, strict=True)]
        within = Counter(
            n.inputs[k][0].name for s in node.subgraphs for n in topological(s._heads) for k in n.auxiliary_inputs()
        )
        states = node.auxiliary_inputs()
        for k, (variable, _) in enumerate(inputs):
            if variable.op is None and (k in states or variable.name in within):
                changes[id(variable)] = changes.get(id(variable), 0) + max(1, within[variable.name])
        return [entry(e) for e in inputs]

    def node(self, node: SymbolNode, pad: str, inputs: Sequence[str]) -> str:
        name, attrs = node.op.name if node.op else "null", node.attrs
        if node.op and node.op.custom_type:
            name, attrs = "Custom", {**attrs, "op_type": node.op.custom_type}
        fields = [("op", json.dumps(name)), ("name", _quote(node.name))]
        if attrs:
            fields.append(("attrs", self.object([(k, _quote(v)) for k, v in sorted(attrs.items())], pad + "  ")))
        fields.append(("inputs", self.list(inputs, pad + "  ")))
        if node.subgraphs:
            inner = pad + "  "
            graphs = [self.graph(s._heads, inner + "  ", False, version=False) for s in node.subgraphs]
            fields.append(("subgraphs", "[\n" + ", \n".join(inner + "  " + g for g in graphs) + f"\n{inner}]"))
        return self.object(fields, pad)

    @staticmethod
    def object(fields: Sequence[tuple[str, str]], pad: str) -> str:
        if len(fields) <= 1:
            return "{" + ", ".join(f"{_quote(k)}: {v}" for k, v in fields) + "}"
        return "{\n" + ", \n".join(f"{pad}  {_quote(k)}: {v}" for k, v in fields) + f"\n{pad}}}"

    @staticmethod
    def list(items: Sequence[str], pad: str) -> str:
        if len(items) <= 10:
            return "[" + ", ".join(items) + "]"
        return "[\n" + ", \n".join(f"{pad}  {i}" for i in items) + f"\n{pad}]"


def _without_casts(order: Sequence[SymbolNode]) -> dict[int, Sequence[Entry]]:
    """The inputs of all nodes, where those that come from casts of automatic mixed precision are what was cast; none
    without such casts."""
    cast = {id(n) for n in order if n.op is not None and n.op.name in ("amp_cast", "amp_multicast")}
    inputs: dict[int, Sequence[Entry]] = {}
    if cast:
        for n in order:
            inputs[id(n)] = [inputs[id(s)][k] if id(s) in cast else (s, k) for s, k in n.inputs]
    return inputs


_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def _quote(text: str) -> str:
    """As MXNet quotes, whose reader knows these escapes only."""
    return f'"{text.translate(_ESCAPES)}"'


# -- reading


def read_graph(text: str, where: str) -> list[Entry]:
    """The heads of a graph.

    Raises:
        MXNetError: the text is no JSON, or no graph; the node is named.
    """
    try:
        data = json.loads(text, strict=False)  # MXNet writes control characters as they are
    except RecursionError:
        raise MXNetError(f"{where} is no graph: it is nested too deeply") from None
    except ValueError as e:
        raise MXNetError(f"{where} is no JSON: {e}") from None
    attrs = data.get("attrs") if isinstance(data, dict) else None
    heads = _graph(data, where, 0, _version(attrs))
    if is_np_shape() and not (isinstance(attrs, dict) and "is_np_shape" in attrs):
        for node in topological(heads):  # written when 0 meant unknown
            if node.op is None and "__shape__" in node.attrs:
                node.attrs["__shape__"] = re.sub(r"(?<!\d)0(?!\d)", "-1", node.attrs["__shape__"])
    return heads


def _version(attrs: Any) -> int:
    """The version of MXNet that wrote a file, as 10901."""
    version = attrs.get("mxnet_version") if isinstance(attrs, dict) else None
    if isinstance(version, list) and len(version) == 2 and isinstance(version[1], int):
        return version[1]
    return OLDEST


def _fail(where: str, what: str) -> MXNetError:
    return MXNetError(f"Invalid graph in {where}: {_short(what, 1200)}")


def _short(text: str, limit: int) -> str:
    """The start and the end of a text that a file made long."""
    return text if len(text) <= limit else f"{text[: limit - 120]} … {text[-100:]}"


def _graph(data: Any, where: str, depth: int, version: int) -> list[Entry]:
    if not isinstance(data, dict) or not isinstance(data.get("nodes"), list):
        raise _fail(where, "there is no list 'nodes'")
    if depth > 16:
        raise _fail(where, "subgraphs are nested too deeply")
    nodes: list[SymbolNode] = []
    for k, raw in enumerate(data["nodes"]):
        nodes.append(_node(raw, k, nodes, where, depth, version))
    heads = data.get("heads")
    if not isinstance(heads, list) or not heads:
        raise _fail(where, "there are no heads")
    entries = [_entry(h, nodes, f"head {k}", where) for k, h in enumerate(heads)]
    for (node, _), head in zip(entries, heads, strict=True):
        if node.op is None and len(head) == 3:
            node.versions = head[2:]
    return entries


def _node(raw: Any, k: int, nodes: list[SymbolNode], where: str, depth: int, version: int) -> SymbolNode:
    if not isinstance(raw, dict) or not isinstance(raw.get("op"), str) or not isinstance(raw.get("name"), str):
        raise _fail(where, f"node {k} has no operator or no name")
    op_name, name = raw["op"], raw["name"]
    what = f"node {k} ({_short(name, 200)!r}, operator {_short(op_name, 200)})"
    attrs: dict[str, str] = {}
    for key in ("param", "attr", "attrs"):  # the older names first
        part = raw.get(key, {})
        if not isinstance(part, dict) or any(not isinstance(v, str) for v in part.values()):
            raise _fail(where, f"{what}: {key} is no table of texts")
        attrs.update(part)
    try:
        "".join([name, *attrs, *attrs.values()]).encode()
    except UnicodeEncodeError:
        raise _fail(where, f"{what}: a text is no Unicode") from None
    op = None
    if op_name != "null":
        op = registered(op_name)
        if op_name == "Custom":
            own = registered(f"_npi_{attrs.get('op_type')}")
            if own is not None and own.custom_type:
                op = own
                del attrs["op_type"]
        if op is None:
            raise _fail(where, f"{what}: Operator {op_name} is not registered")
    inputs = raw.get("inputs", [])
    if not isinstance(inputs, list) or (op is None and inputs):
        raise _fail(where, f"{what}: inputs are no list")
    entries = [_entry(e, nodes, f"input {j} of {what}", where) for j, e in enumerate(inputs)]
    graphs = raw.get("subgraphs", [])
    if not isinstance(graphs, list):
        raise _fail(where, f"{what}: subgraphs are no list")
    subgraphs = []
    if graphs:
        from .symbol import Symbol

        subgraphs = [Symbol(_graph(g, f"{where}, subgraph of {name}", depth + 1, version)) for g in graphs]
    attrs, moved = split_hidden(attrs, op, version)
    node = SymbolNode(op, name, attrs, entries, subgraphs)
    if op is not None:
        _check_attributes(node, what, where)
        try:
            upgrade(node, moved, version)
        except MXNetError as e:
            raise _fail(where, f"{what}: {e}") from None
        if node._values is None:
            _check_attributes(node, what, where)
        _check_arity(node, what, where)
        versions = [e[2] if len(e) == 3 else 0 for e in inputs]
        node.versions = versions + [0] * (len(node.inputs) - len(versions))
    return node


def _check_attributes(node: SymbolNode, what: str, where: str) -> None:
    op = node.op
    assert op is not None
    try:
        _ = node.values
    except MXNetError as e:
        raise _fail(where, f"{what}: {e}") from None
    if len(node.subgraphs) != op.subgraphs:
        raise _fail(where, f"{what}: it has {len(node.subgraphs)} subgraphs, not {op.subgraphs}")


def _check_arity(node: SymbolNode, what: str, where: str) -> None:
    op = node.op
    assert op is not None
    input_names = op.input_names(node.values, len(node.inputs))
    if len(input_names) != len(node.inputs):
        raise _fail(
            where, f"{what}: Operator {op.name} expects {len(input_names)} inputs, but got {len(node.inputs)} instead."
        )


def _entry(raw: Any, nodes: list[SymbolNode], what: str, where: str) -> Entry:
    if (
        not isinstance(raw, list)
        or len(raw) not in (2, 3)
        or any(not isinstance(v, int) or isinstance(v, bool) for v in raw)
    ):
        raise _fail(where, f"{what} is no [node, output, version]")
    k, output = raw[0], raw[1]
    if not 0 <= k < len(nodes):
        raise _fail(where, f"{what} points to node {k}, which does not come before it")
    node = nodes[k]
    if not 0 <= output < node.num_outputs:
        raise _fail(where, f"{what} points to output {output} of {node.name!r}, which has {node.num_outputs}")
    return node, output
