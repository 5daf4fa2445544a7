# SPDX-License-Identifier: Apache-2.0
"""Derivatives that are not those of the formula.

``custom_gradient(y, x0, x1, …, rule=NAME, static=VALUES)`` is ``y``, but its derivative with respect
to the ``x`` is what the rule says, and ``y`` itself passes none on. Losses such as SoftmaxOutput,
whose MXNet gradient is that of another function, are written with it; so are operators with a
better formula than the derived one. The simplifier removes the node: it costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..ir.graph import Builder, Node, Params, Primitive
from ..ir.types import TensorType

__all__ = ["GRADIENT_RULES", "INEXACT_RULES", "ROWS", "gradient_rule"]

#: name -> (b, g, y, inputs, static) -> one cotangent or None per x
GRADIENT_RULES: dict[str, Callable[..., Sequence[Node | None]]] = {}


INEXACT_RULES: set[str] = set()  #: those that are by definition not the derivative of the value


def gradient_rule(
    name: str, exact: bool = True
) -> Callable[[Callable[..., Sequence[Node | None]]], Callable[..., Sequence[Node | None]]]:
    """Register a rule under the name that graphs carry; ``exact`` if it is the derivative of the value."""

    def register(rule: Callable[..., Sequence[Node | None]]) -> Callable[..., Sequence[Node | None]]:
        assert name not in GRADIENT_RULES, f"gradient rule {name} is declared twice"
        GRADIENT_RULES[name] = rule
        if not exact:
            INEXACT_RULES.add(name)
        return rule

    return register


def _infer(types: Sequence[TensorType], params: Params) -> TensorType:
    if params["rule"] not in GRADIENT_RULES:
        raise TypeError(f"there is no gradient rule {params['rule']!r}")
    return types[0]


def _vjp(b: Builder, g: Node, y: Node, inputs: Sequence[Node], params: Params) -> Sequence[Node | None]:
    return [None, *GRADIENT_RULES[params["rule"]](b, g, y, inputs[1:], params.get("static", ()))]


def _evaluate(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    return inputs[0]


ROWS = [
    Primitive(
        "custom_gradient", "gradient", _infer, _evaluate, _vjp, doc="the first operand, with a derivative of its own"
    )
]
