# SPDX-License-Identifier: Apache-2.0
"""``nd.contrib``'s updates of weights: lists of arrays instead of one long row of inputs.

States change in place; the new weights are the result and go to ``out``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ops import OPERATORS
from ..ops.record import Operator
from ..ops.update_functions import make_adamw
from .apply import apply
from .creation import full
from .ndarray import NDArray

__all__ = [
    "adamw_update",
    "mp_adamw_update",
    "multi_adamw_update",
    "multi_lamb_update",
    "multi_mp_adamw_update",
    "multi_mp_lamb_update",
]


def _factor(rescale_grad: Any, weight: NDArray) -> NDArray:
    """The gradients' factor as an array where the weight is."""
    if isinstance(rescale_grad, NDArray):
        return rescale_grad.as_in_context(weight.context)
    return full((1,), rescale_grad, ctx=weight.context)


def _run(operator: str, inputs: Sequence[NDArray], attributes: dict[str, Any], out: Any) -> Any:
    op = OPERATORS[operator]
    attributes.pop("name", None)  # of nodes, which arrays have none of
    return apply(op, inputs, op.parse(attributes), out)


def _interleaved(*lists: Sequence[NDArray]) -> list[NDArray]:
    return [x for group in zip(*lists, strict=True) for x in group]


def _adamw(op: Operator, inputs: Sequence[NDArray], factor: Any, attributes: dict[str, Any]) -> Any:
    out = attributes.pop("out", None)
    return _run(op.name, [*inputs, _factor(factor, inputs[0])], attributes, out)


_made = make_adamw(_adamw)
adamw_update, mp_adamw_update = _made["adamw_update"], _made["mp_adamw_update"]


def multi_adamw_update(
    weights: Sequence[NDArray],
    grads: Sequence[NDArray],
    mean: Sequence[NDArray],
    var: Sequence[NDArray],
    rescale_grad: Any,
    lrs: Sequence[float],
    wds: Sequence[float],
    etas: Sequence[float],
    out: Any = None,
    size: int = 0,
    **attributes: Any,
) -> Any:
    """``adamw_update`` of many weights, with rates, decays and factors of their own."""
    inputs = [*_interleaved(weights, grads, mean, var), _factor(rescale_grad, weights[0])]
    attributes = {"lrs": lrs, "wds": wds, "etas": etas, "num_weights": size or len(weights), **attributes}
    return _run("_multi_adamw_update", inputs, attributes, out)


def multi_mp_adamw_update(
    weights: Sequence[NDArray],
    grads: Sequence[NDArray],
    mean: Sequence[NDArray],
    var: Sequence[NDArray],
    weights32: Sequence[NDArray],
    rescale_grad: Any,
    lrs: Sequence[float],
    wds: Sequence[float],
    etas: Sequence[float],
    out: Any = None,
    size: int = 0,
    **attributes: Any,
) -> Any:
    """``mp_adamw_update`` of many weights."""
    inputs = [*_interleaved(weights, grads, mean, var, weights32), _factor(rescale_grad, weights[0])]
    attributes = {"lrs": lrs, "wds": wds, "etas": etas, "num_weights": size or len(weights), **attributes}
    return _run("_multi_mp_adamw_update", inputs, attributes, out)


def multi_lamb_update(
    weights: Sequence[NDArray],
    grads: Sequence[NDArray],
    mean: Sequence[NDArray],
    var: Sequence[NDArray],
    step_count: Sequence[int],
    lrs: Sequence[float],
    wds: Sequence[float],
    out: Any = None,
    num_tensors: int = 0,
    **attributes: Any,
) -> Any:
    """One step of LAMB of many weights.

    Args:
        mean, var: states.
        step_count, lrs, wds: number of the step, learning rate and weight decay of each weight.
        out: arrays that receive the new weights.
        attributes: beta1, beta2, epsilon, rescale_grad, lower_bound, upper_bound, clip_gradient, bias_correction.
    """
    attributes = {
        "learning_rates": lrs,
        "wds": wds,
        "step_count": step_count,
        "num_tensors": num_tensors or len(weights),
        **attributes,
    }
    return _run("_multi_lamb_update", _interleaved(weights, grads, mean, var), attributes, out)


def multi_mp_lamb_update(
    weights: Sequence[NDArray],
    grads: Sequence[NDArray],
    mean: Sequence[NDArray],
    var: Sequence[NDArray],
    weights32: Sequence[NDArray],
    step_count: Sequence[int],
    lrs: Sequence[float],
    wds: Sequence[float],
    out: Any = None,
    num_tensors: int = 0,
    **attributes: Any,
) -> Any:
    """``multi_lamb_update`` of ``weights32``, float copies of the weights."""
    attributes = {
        "learning_rates": lrs,
        "wds": wds,
        "step_count": step_count,
        "num_tensors": num_tensors or len(weights),
        **attributes,
    }
    inputs = _interleaved(weights, grads, mean, var, weights32)
    return _run("_multi_mp_lamb_update", inputs, attributes, out)
