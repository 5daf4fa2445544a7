# SPDX-License-Identifier: Apache-2.0
"""``Symbol.eval``: run a graph on arrays."""

from __future__ import annotations

from typing import Any

from ..base import MXNetError
from ..context import current_context
from ..ndarray.ndarray import NDArray
from ..runtime.cached_op import CachedOp
from ..runtime.compilation import compiled
from ..runtime.graph_breaks import is_graph_break
from ..symbol.node import topological
from ..symbol.symbol import Symbol

__all__ = ["evaluate"]


def evaluate(symbol: Symbol, ctx: Any, arrays: dict[str, Any]) -> list[NDArray]:
    """The results of a Symbol for arrays by variable name.

    Raises:
        ValueError: a variable has no array.
        TypeError: something that is no array.
    """
    names = symbol.list_inputs()
    where = ctx or current_context()
    inputs = []
    for name in names:
        if name not in arrays:
            raise ValueError(f"key `{name}` is missing in `args`")
        if not isinstance(arrays[name], NDArray):
            raise TypeError(f"Only accept list of NDArrays or dict of str to NDArray\n{name} is a {type(arrays[name])}")
        inputs.append(arrays[name])
    if len(set(names)) != len(names):
        twice = next(n for n in names if names.count(n) > 1)
        raise MXNetError(f"variable name {twice!r} occurs twice in the graph; give the two variables different names")
    if any(map(is_graph_break, topological(symbol._heads))):
        return CachedOp(symbol, names, {}, symbol.name or "group")(inputs, where)
    if not inputs:
        return compiled(symbol, [], training=False, ctx=where).run([], where)
    return compiled(symbol, [x._type.tensor for x in inputs], training=False, ctx=where).run(inputs, where)
