# SPDX-License-Identifier: Apache-2.0
"""Functions of np and npx applied to arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...base import OperandError
from ...context import Context
from ...core import autograd_state
from ...hints.tracing import about_operand, in_array_code
from ...ops.functions import registered
from ...ops.numpy import Application
from ...ops.numpy.application import short_name
from ...ops.record import Operator
from ..apply import apply, as_context, check_count, check_kind
from ..ndarray import NDArray
from ..plans import with_plans
from .late_bindings import late

__all__ = ["ArrayApplication"]


class ArrayApplication(Application):
    """Runs operators at once; see ``ops.numpy.Application``."""

    symbolic = False

    def __init__(self, array: type[NDArray]) -> None:
        self.array = array

        def repeated(operator: str, /, *inputs: Any, **attributes: Any) -> Any:
            return self._invoke(operator, inputs, attributes)

        self._repeated = with_plans(repeated)

    def is_array(self, value: Any) -> bool:
        return isinstance(value, NDArray)

    def invoke(
        self,
        operator: str,
        inputs: Sequence[Any],
        attributes: Mapping[str, Any] | None = None,
        out: Any = None,
        name: str | None = None,
    ) -> Any:
        if out is None:  # ``name`` is of nodes
            return self._repeated(operator, *inputs, **(attributes or {}))
        return self._invoke(operator, inputs, attributes, out)

    def _invoke(
        self, operator: str, inputs: Sequence[Any], attributes: Mapping[str, Any] | None, out: Any = None
    ) -> Any:
        op = registered(operator)
        if op is None:
            raise AttributeError(f"there is no operator {operator}")
        ctx: Context | None = None
        kind = self.array
        for x in inputs:
            if x.__class__ is not kind:
                inputs = self._checked(op, operator, inputs)
                break
        if out is not None:
            check_kind(op, operator, (), out, kind)
        if attributes:
            if "ctx" in attributes:
                attributes = dict(attributes)
                ctx = as_context(attributes.pop("ctx"))
            values = op.parse(attributes)  # type: ignore[arg-type]
        else:
            values = op.parse({})
        check_count(op, values, inputs)
        return apply(op, inputs, values, out, ctx, kind)

    def number(self, value: Any, kind: type | None = None) -> Any:
        if autograd_state.state.trace is not None or autograd_state.state.recording or value.shape:
            return value
        scalar = value.asnumpy()[()]
        return scalar if kind is None else kind(scalar)

    def constant(self, values: np.ndarray, like: Any) -> Any:
        return late.array(values, dtype=values.dtype, ctx=like.ctx)

    def on_host(self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return late.on_host(function, args, kwargs)

    def control_flow(self, name: str) -> Callable[..., Any]:
        from .. import control_flow

        function: Callable[..., Any] = getattr(control_flow, name)
        return function

    def _checked(self, op: Operator, operator: str, inputs: Sequence[Any]) -> list[NDArray]:
        """The operands that are there.

        Raises:
            OperandError: one is no array.
            TypeError: one is a legacy array.
        """
        for k, x in enumerate(inputs):
            if x is not None and not isinstance(x, NDArray):
                what = "Positional arguments" if op.variadic else f"Argument {op.inputs[k]}"
                module = "npx" if operator.startswith("_npx_") else "np"
                name = short_name(operator)
                taken = ("*data",) if op.variadic else op.inputs
                instead = in_array_code(x, name, module) or about_operand(x, taken, op.params, name)
                raise OperandError(f"{what} must have NDArray type, but got {x}{instead}")
        arrays = [x for x in inputs if x is not None]
        check_kind(op, operator, arrays, None, self.array)
        return arrays
