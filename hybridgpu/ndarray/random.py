# SPDX-License-Identifier: Apache-2.0
"""``mx.nd.random``: samplers. Without ``shape`` they draw one number, of shape (1,).

All take ``ctx=`` and ``out=``; with ``out`` its shape and element type are the defaults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..base import OperandError
from ..frontend.namespaces import Namespace, sampler_lookup
from ..hints.tracing import in_array_code
from ..ops import OPERATORS
from ..ops.sample_like import make_samplers
from .apply import apply, apply_function, first_target
from .ndarray import NDArray
from .plans import with_plans

_operators = Namespace("random", apply_function, "ndarray")


def _call(name: str, inputs: list[Any], attributes: dict[str, Any], rest: dict[str, Any]) -> Any:
    ctx, out = rest.pop("ctx", None), rest.pop("out", None)
    rest.pop("name", None)
    op = OPERATORS[name]
    for n, x in zip(op.inputs, inputs, strict=True):
        if not isinstance(x, NDArray):
            raise OperandError(f"Argument {n} must have NDArray type, but got {x}{in_array_code(x)}")
    target = first_target(out)
    if not inputs and target is not None:
        attributes.setdefault("dtype", target.dtype)
    elif not inputs:
        attributes.setdefault("shape", (1,))
    return apply(op, inputs, op.parse({**attributes, **rest}), out, ctx)


_samplers = {name: with_plans(f) for name, f in make_samplers(NDArray, "NDArray", _call).items()}


if TYPE_CHECKING:  # a stub, made from the records
    from .samplers import *  # noqa: F403
else:
    __getattr__ = sampler_lookup(_samplers, _operators, globals())


def __dir__() -> list[str]:
    return sorted({*_samplers, *dir(_operators)})
