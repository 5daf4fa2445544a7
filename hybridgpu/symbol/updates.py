# SPDX-License-Identifier: Apache-2.0
"""``sym.contrib``'s updates of weights whose gradient's factor may be a number.

The nodes are those of ``nd.contrib``'s functions of the same names; states must be variables, which a run changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ops import OPERATORS
from .compose import make_node
from .symbol import Symbol

__all__ = ["adamw_update", "mp_adamw_update"]


def _node(operator: str, inputs: Sequence[Symbol], factor: Any, name: str | None, attributes: dict[str, Any]) -> Symbol:
    if not isinstance(factor, Symbol):
        value = {"shape": (1,), "dtype": "float32", "value": float(factor)}
        factor = make_node(OPERATORS["_full"], "_full", [], value, None, None)
    attr = attributes.pop("attr", None)
    return make_node(OPERATORS[operator], operator, [*inputs, factor], attributes, name, attr)


def adamw_update(
    weight: Symbol,
    grad: Symbol,
    mean: Symbol,
    var: Symbol,
    rescale_grad: Any,
    lr: float,
    eta: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    wd: float = 0.0,
    clip_gradient: float = -1.0,
    out: Any = None,
    name: str | None = None,
    **kwargs: Any,
) -> Symbol:
    """The weight after one step of AdamW.

    Args:
        mean, var: states, variables that a run of the graph changes.
        rescale_grad: factor of the gradient, a number or a Symbol; nothing changes if it is 0 or not finite.
        lr, eta: learning rate, factor of the schedule.
        beta1, beta2, epsilon, wd, clip_gradient: as of ``nd.contrib.adamw_update``.
        out: ignored: a Symbol's results go where its graph is bound.
        kwargs: ``attr``, attributes of the node.
    """
    inputs = [weight, grad, mean, var]
    values = {"lr": lr, "eta": eta, "beta1": beta1, "beta2": beta2, "epsilon": epsilon, "wd": wd}
    return _node("_adamw_update", inputs, rescale_grad, name, {**values, "clip_gradient": clip_gradient, **kwargs})


def mp_adamw_update(
    weight: Symbol,
    grad: Symbol,
    mean: Symbol,
    var: Symbol,
    weight32: Symbol,
    rescale_grad: Any,
    lr: float,
    eta: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    wd: float = 0.0,
    clip_gradient: float = -1.0,
    out: Any = None,
    name: str | None = None,
    **kwargs: Any,
) -> Symbol:
    """``adamw_update`` of ``weight32``, a float copy of the weight and a state too."""
    inputs = [weight, grad, mean, var, weight32]
    values = {"lr": lr, "eta": eta, "beta1": beta1, "beta2": beta2, "epsilon": epsilon, "wd": wd}
    return _node("_mp_adamw_update", inputs, rescale_grad, name, {**values, "clip_gradient": clip_gradient, **kwargs})
