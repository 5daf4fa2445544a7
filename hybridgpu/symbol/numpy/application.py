# SPDX-License-Identifier: Apache-2.0
"""Functions of np and npx composed into graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from ...base import OperandError
from ...context import current_context
from ...hints.tracing import about_operand, in_graph
from ...ops.functions import registered, spelled_hint
from ...ops.numpy import Application
from ..node_factory import check_kind, make_node
from ..symbol import Symbol

__all__ = ["SymbolApplication"]


class SymbolApplication(Application):
    """Composes nodes; see ``ops.numpy.Application``."""

    array: type  #: ``_Symbol``, which sets it
    symbolic = True

    def is_array(self, value: Any) -> bool:
        return isinstance(value, self.array)

    def invoke(
        self,
        operator: str,
        inputs: Sequence[Any],
        attributes: Mapping[str, Any] | None = None,
        out: Any = None,
        name: str | None = None,
    ) -> Any:
        op = registered(operator)
        if op is None:
            raise AttributeError(f"there is no operator {operator}")
        for k, x in enumerate(inputs):
            if x is not None and not isinstance(x, Symbol):
                what = "Positional arguments" if op.variadic else f"Argument {op.inputs[k]}"
                taken = ("*data",) if op.variadic else op.inputs
                instead = in_graph(x) or about_operand(x, taken, op.params, spelled_hint(operator))
                raise OperandError(f"{what} must be Symbol instances, but got {x}{instead}")
        check_kind(op, operator, inputs, self.array)
        node_attributes = {k: v for k, v in (attributes or {}).items() if not (k == "dtype" and v is None)}
        if "ctx" in op.params:  # of the file only: nodes run where their graph does
            node_attributes["ctx"] = str(node_attributes.get("ctx") or current_context())
        else:
            node_attributes.pop("ctx", None)
        if not op.variadic and len(inputs) < len(op.inputs):
            used = op.input_names(op.parse(op.attribute_texts(node_attributes), node_attributes))
            by_name = dict(zip(used if len(used) == len(inputs) else op.inputs, inputs, strict=False))
            inputs = [by_name.get(key) for key in op.inputs]  # those that are not in use are none of the call
        hint = "custom" if op.custom_type else spelled_hint(operator)
        symbol = make_node(op, hint, inputs, node_attributes, name, None, kind=self.array)
        results = [self.array([head]) for head in symbol._heads]
        return results[0] if len(results) == 1 else results

    def number(self, value: Any, kind: type | None = None) -> Any:
        return value

    def constant(self, values: np.ndarray, like: Any) -> NoReturn:
        raise NotImplementedError("a graph of Symbols holds no values: give positions as an operand")

    def on_host(self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> NoReturn:
        raise NotImplementedError(f"{function.__name__} of Symbols: NumPy computes it, from values")

    def control_flow(self, name: str) -> Callable[..., Any]:
        from .. import control_flow

        function: Callable[..., Any] = getattr(control_flow, name)
        return function
