# SPDX-License-Identifier: Apache-2.0
"""``mx.sym.random``: nodes that draw anew at each run of their graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..base import OperandError
from ..frontend.namespaces import Namespace, sampler_lookup
from ..hints.tracing import in_graph
from ..ops import OPERATORS
from ..ops.sample_like import make_samplers
from .node_factory import apply_symbol, make_node
from .symbol import Symbol

_operators = Namespace("random", apply_symbol, "symbol")


def _call(name: str, inputs: list[Any], attributes: dict[str, Any], rest: dict[str, Any]) -> Any:
    rest.pop("out", None)
    node, attr = rest.pop("name", None), rest.pop("attr", None)
    op = OPERATORS[name]
    if "ctx" not in op.params:
        rest.pop("ctx", None)  # nodes run where their graph does
    if not op.inputs:  # Symbols by any name are passed over, as by MXNet's own composition of such nodes
        rest = {k: v for k, v in rest.items() if not isinstance(v, Symbol)}
    for n, x in zip(op.inputs, inputs, strict=True):
        if not isinstance(x, Symbol):
            raise OperandError(f"Argument {n} must be Symbol instances, but got {x}{in_graph(x)}")
    return make_node(op, name, inputs, {**attributes, **rest}, node, attr)


_samplers = make_samplers(Symbol, "Symbol", _call)


if TYPE_CHECKING:  # a stub, made from the records
    from .samplers import *  # noqa: F403
else:
    __getattr__ = sampler_lookup(_samplers, _operators, globals())


def __dir__() -> list[str]:
    return sorted({*_samplers, *dir(_operators)})
