# SPDX-License-Identifier: Apache-2.0
"""A whole model in two files: ``Block.save`` and ``Block.load``.

``<prefix>-model.json`` holds the tree of blocks by name, with the graphs of those that were traced;
``<prefix>-model.params`` the parameters. A model of the same classes can be loaded into without
being traced again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Any

from ..io.atomic import replace_file
from ..symbol import load_json

if TYPE_CHECKING:
    from .block import Block

__all__ = ["load_model", "save_model"]


def save_model(block: Block, prefix: str) -> None:
    """Write a block, its children, their graphs and parameters."""
    model: dict[str, Any] = {}
    _describe(block, count(), model)
    replace_file(f"{prefix}-model.json", json.dumps(model).encode())
    block.save_parameters(f"{prefix}-model.params")


def _key(block: Block, numbers: Iterator[int]) -> str:
    return f"{type(block).__name__.lower()}{next(numbers)}"


def _describe(block: Block, numbers: Iterator[int], into: dict[str, Any]) -> None:
    mine: dict[str, Any] = {"orig_name": block.name}
    into[_key(block, numbers)] = mine
    if hasattr(block, "_cached_graph"):
        # deferred shapes are inferred by a trace, too: only what is run as a graph is stored as one
        traced = block._cached_graph if block._active else None  # type: ignore[attr-defined]
        mine["hybridized"] = traced is not None
        if traced is not None:
            inputs, out = traced
            mine.update(in_format=block._in_format, out_format=block._out_format)  # type: ignore[attr-defined]
            mine.update(inputs=[i.tojson() for i in inputs], symbol=out.tojson())
    mine["children"] = {child.name: key for key, child in block._children.items()}
    for child in block._children.values():
        _describe(child, numbers, mine)


def load_model(block: Block, prefix: str) -> None:
    """Give a block of the same structure the names, graphs and parameters that ``save_model`` wrote.

    Raises:
        KeyError: the blocks are others than those that were saved.
    """
    with open(f"{prefix}-model.json") as f:
        model = json.load(f)
    _restore(block, count(), model)
    block.load_parameters(f"{prefix}-model.params")


def _restore(block: Any, numbers: Iterator[int], model: dict[str, Any]) -> None:
    mine = model[_key(block, numbers)]
    block._name = mine["orig_name"]
    block._changed()
    if mine.get("hybridized"):
        block._in_format, block._out_format = mine["in_format"], mine["out_format"]
        block._cached_graph = ([load_json(i) for i in mine["inputs"]], load_json(mine["symbol"]))
        block._cached_op, block._active = None, True
    params = block.params
    params._params = {f"{block.name}_{k[len(params.prefix) :]}": p for k, p in params._params.items()}
    children = list(block._children.values())
    for child in children:
        _restore(child, numbers, mine)
    block._children.clear()
    for child in children:
        block._children[mine["children"][child.name]] = child
