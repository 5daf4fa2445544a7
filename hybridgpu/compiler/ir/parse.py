# SPDX-License-Identifier: Apache-2.0
"""The parser of a graph's printed form, whose grammar :mod:`.text` has."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from typing import Any

from ...core.dtypes import ALL_DTYPES, DType, from_short
from .graph import Builder, Graph, Node, Primitive, Provenance
from .types import TensorType, tensor_type

__all__ = ["ParseError", "parse_graph"]


class ParseError(ValueError):
    """The text is no graph; the message names the line."""


def parse_graph(text: str, primitives: Mapping[str, Primitive]) -> Graph:
    """The graph of a printed form.

    Raises:
        ParseError: the text does not follow the grammar, or a type is not what the primitive infers.
    """
    written = text.strip().splitlines() or [""]
    starts = [k for k, line in enumerate(written) if k == 0 or line.startswith("graph ")]
    graphs: dict[int, Graph] = {}

    def block(k: int) -> Graph:
        if k not in graphs:
            if not 0 <= k < len(starts):
                raise ParseError(f"there is no graph @{k}")
            first, last = starts[k], [*starts, len(written)][k + 1]
            graphs[k] = _parse_one(written[first:last], first, primitives, block)
        return graphs[k]

    return block(0)


def _parse_one(
    written: list[str], before: int, primitives: Mapping[str, Primitive], block: Callable[[int], Graph]
) -> Graph:
    """The graph of some lines; ``before`` is the number of lines above, ``block(k)`` another graph of the text."""
    lines = [line.split("#")[0].strip() for line in written]
    head = re.fullmatch(r"graph (\S+) \((.*?)\) -> \((.*?)\)", lines[0])
    if not head:
        raise ParseError(f"line {before + 1}: expected 'graph NAME (inputs) -> (outputs)', found {lines[0]!r}")
    b = Builder(primitives)
    env: dict[str, Node] = {}
    for part in re.split(r",\s*(?![^\[]*\])", head[2]) if head[2] else []:
        match = re.fullmatch(r"(\w+): (\w+\[[\d,]*\])", part)
        if not match or match[1] in env:
            raise ParseError(f"line {before + 1}: expected 'NAME: type' with a new name, found {part!r}")
        env[match[1]] = b.input(_parse_type(match[2]), match[1])
    for number, line in enumerate(lines[1:], before + 2):
        if not line:
            continue
        match = re.fullmatch(r"(%\d+) = (\w+)\((.*?)\)\s*(.*?)\s*(\w+\[[\d,]*\])", line)
        if not match:
            raise ParseError(f"line {number}: expected '%N = primitive(operands) params type', found {line!r}")
        target, prim_name, operands, params_text, type_text = match.groups()
        if target in env:
            raise ParseError(f"line {number}: {target} is defined twice")
        if prim_name not in primitives:
            raise ParseError(f"line {number}: there is no primitive {prim_name!r}")
        prim = primitives[prim_name]
        b.prov = _provenance(written[number - 1 - before])
        try:
            out = _parse_type(type_text)
            inputs = _operands(b, env, [o.strip() for o in operands.split(",") if o.strip()], prim, out)
            params = _parse_params(params_text, block)
            if prim.family == "leaf":
                params["type"] = out
            if prim_name in ("cast", "round_to"):
                params["dtype"] = out.dtype
            node = b.apply(prim, inputs, params)
        except (TypeError, KeyError, ValueError, SyntaxError, IndexError) as e:
            what = f"{e.args[0]} is missing" if isinstance(e, KeyError) else e
            raise ParseError(f"line {number}: {what} in {line!r}") from None
        if node.type is not out:
            raise ParseError(f"line {number}: {prim_name} gives {node.type!r}, the text says {out!r}")
        env[target] = node
    result_names = [r.strip() for r in head[3].split(",") if r.strip()]
    missing = [r for r in result_names if r not in env]
    if missing:
        raise ParseError(f"line {before + 1}: the result {missing[0]} is not defined")
    results = [env[r] for r in result_names]
    return b.finish(results, head[1])


def _provenance(line: str) -> Provenance | None:
    words = line.partition("#")[2].split()
    return Provenance(words[0], words[1], " ".join(words[2:])) if len(words) > 1 else None


def _operands(b: Builder, env: dict[str, Node], texts: list[str], prim: Primitive, out: TensorType) -> list[Node]:
    nodes = [env[t] if not _is_number(t) else None for t in texts]
    like: DType = out.dtype
    if prim.name != "select":
        like = next((n.dtype for n in nodes if n is not None), out.dtype)
    return [n if n is not None else b.full(out.shape, _value(t), like) for n, t in zip(nodes, texts, strict=True)]


def _is_number(text: str) -> bool:
    return not text.startswith("%") and (text in ("True", "False", "inf", "nan") or not re.match(r"[A-Za-z_]", text))


def _value(text: str) -> Any:
    return float(text) if text.lstrip("-") in ("inf", "nan") else ast.literal_eval(text)


def _parse_params(text: str, block: Callable[[int], Graph]) -> dict[str, Any]:
    parts = re.split(r"\s*(\w+)=", text)[1:]
    pairs = zip(parts[::2], (v.strip() for v in parts[1::2]), strict=True)
    return {k: block(int(v[1:])) if v.startswith("@") else _value(v) for k, v in pairs}


def _parse_type(text: str) -> TensorType:
    match = re.fullmatch(r"(\w+)\[([\d,]*)\]", text)
    if not match or match[1] not in {d.short for d in ALL_DTYPES}:
        raise ParseError(f"{text!r} is no type")
    return tensor_type(tuple(int(d) for d in match[2].split(",") if d), from_short(match[1]))
