# SPDX-License-Identifier: Apache-2.0
"""``Block.save`` and ``Block.load``: a whole model in two files.

``<prefix>-model.json`` holds the tree of blocks by name, with the graphs of those that were traced;
``<prefix>-model.params`` the parameters. A model of the same classes can be loaded into without
being traced again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from ..base import MXNetError
from ..core.pytree import count_values
from ..io.formats.atomic import replace_file
from ..symbol import Symbol, load_json

if TYPE_CHECKING:
    from .block import Block

__all__ = ["load_model", "save_model"]


def save_model(block: Block, prefix: str) -> None:
    """Write a block, its children, their graphs and parameters."""
    model: dict[str, Any] = {}
    _describe(block, count(), model)
    block.save_parameters(f"{prefix}-model.params")  # first what a full disk refuses first
    replace_file(f"{prefix}-model.json", json.dumps(model).encode())


def _key(block: Block, numbers: Iterator[int]) -> str:
    return f"{type(block).__name__.lower()}{next(numbers)}"


def _describe(block: Block, numbers: Iterator[int], into: dict[str, Any]) -> None:
    mine: dict[str, Any] = {"orig_name": block.name}
    into[_key(block, numbers)] = mine
    if hasattr(block, "_hg_stored_graph"):
        # deferred shapes are inferred by a trace, too: only what is run as a graph is stored as one
        traced = block._hg_stored_graph()
        mine["hybridized"] = traced is not None
        if traced is not None:
            (inputs, out), formats = traced
            mine.update(in_format=formats[0], out_format=formats[1])
            mine.update(inputs=[i.tojson() for i in inputs], symbol=out.tojson())
    mine["children"] = {child.name: key for key, child in block._children.items()}
    for child in block._children.values():
        _describe(child, numbers, mine)


def load_model(block: Block, prefix: str) -> None:
    """Give a block of the same structure the names, graphs and parameters that ``save_model`` wrote.

    Raises:
        KeyError: the blocks are others than those that were saved.
        MXNetError: the file is damaged; the block stays as it was.
    """
    file = f"{prefix}-model.json"
    with open(file, "rb") as f:
        data = f.read()
    try:
        matched = _matched(block, count(), json.loads(data))
    except _Unknown as e:
        raise KeyError(*e.args) from None
    except (MXNetError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as e:
        raise MXNetError(f"{file} is not what Block.save wrote: {type(e).__name__}: {str(e)[:200]}") from None
    for one, saved in matched:
        _restore(one, saved)
    for one, saved in matched:  # whose children have their names
        children = list(one._children.values())
        one._children.clear()
        one._children.update({saved.children[child.name]: child for child in children})
    block.load_parameters(f"{prefix}-model.params")


class _Saved(NamedTuple):
    """What the file says of a block."""

    name: str
    children: dict[str, str]
    graph: tuple[list[Symbol], Symbol] | None
    formats: tuple[Any, Any] = (None, None)

    @classmethod
    def of(cls, entry: dict[str, Any]) -> _Saved:
        """Raises: whatever comes of a text that is something else."""
        name, children = entry["orig_name"], entry["children"]
        if not all(isinstance(text, str) for text in (name, *children.values())):
            raise ValueError("names must be texts")
        if not entry.get("hybridized"):
            return cls(name, children, None)
        inputs, out = [load_json(i) for i in entry["inputs"]], load_json(entry["symbol"])
        formats = entry["in_format"], entry["out_format"]
        for form, arrays in zip(formats, (len(inputs), len(out.list_outputs())), strict=True):
            if count_values(form) != arrays:
                raise ValueError(f"{arrays} arrays in the format {str(form)[:50]}")
        return cls(name, children, (inputs, out), formats)


class _Unknown(Exception):
    """A block that the file does not have."""


def _matched(block: Any, numbers: Iterator[int], model: dict[str, Any]) -> list[tuple[Any, _Saved]]:
    """Each block with what the file says of it, before its children.

    Raises:
        _Unknown, or whatever comes of a text that is something else; nothing was changed.
    """
    key = _key(block, numbers)
    if key not in model:
        raise _Unknown(key)
    saved = _Saved.of(model[key])
    pairs = [(block, saved)]
    for child in block._children.values():
        inner = _matched(child, numbers, model[key])
        if inner[0][1].name not in saved.children:
            raise _Unknown(inner[0][1].name)
        pairs += inner
    return pairs


def _restore(block: Any, saved: _Saved) -> None:
    block._name = saved.name
    block._hg_changed()
    if saved.graph is not None:
        block._hg_take_graph(saved.graph, saved.formats)
    params = block.params
    params._params = {f"{block.name}_{k[len(params.prefix) :]}": p for k, p in params._params.items()}
