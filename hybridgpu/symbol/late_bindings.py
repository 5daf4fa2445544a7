# SPDX-License-Identifier: Apache-2.0
"""Functions that Symbols call, and modules that need Symbol define: here, and those of executors, which are a layer above."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..core.late_bindings import LateBindings

if TYPE_CHECKING:
    from .symbol import Symbol

__all__ = ["late"]


class SymbolBindings(LateBindings):
    """Functions that Symbol, its nodes and their lowering look upwards for."""

    _Symbol: Any  #: the class of the Symbols of np
    Inference: Any  #: the class that infers shapes of a graph, which a graph in a node needs for itself
    bind: Callable[..., Any]
    compose: Callable[..., Symbol]
    evaluate: Callable[[Symbol, Any, dict[str, Any]], list[Any]]
    infer_shape: Callable[..., Any]
    infer_type: Callable[..., Any]
    load_json: Callable[[str], Symbol]
    make_method: Callable[[str], Callable[..., Any] | None]
    method_names: Callable[[], set[str]]
    simple_bind: Callable[..., Any]
    write_graph: Callable[..., str]


late = SymbolBindings()
