# SPDX-License-Identifier: Apache-2.0
"""Single-operator optimizers: a step is one operator of each weight, or of many weights at once.

Such an optimizer says which operator that is (:meth:`ByOperator._hg_call`) and which numbers it takes at a step
(:meth:`ByOperator._hg_numbers`). ``update`` calls the operator; a Trainer may compile the calls of all weights into one
program instead (runtime/optimizer_programs.py), from the same two answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..ndarray.apply import apply
from ..ops import OPERATORS
from .base import Optimizer

__all__ = ["AggregatedUpdate", "ByOperator", "Call", "ManyByOperator", "as_lists", "interleave"]


def as_lists(*values: Any) -> list[list[Any]]:
    """Each argument as a list; single ones become lists of one."""
    if not isinstance(values[0], (list, tuple)):
        return [[v] for v in values]
    return [list(v) for v in values]


def interleave(*columns: Any) -> list[Any]:
    """w0, g0, s0, w1, g1, s1, …"""
    return [x for row in zip(*columns, strict=True) for x in row]


class Call(NamedTuple):
    """How one weight is updated.

    Attributes:
        operator: its name in ``nd``.
        states: the arrays behind weight and gradient.
        constants: attributes that rarely change.
    """

    operator: str
    states: tuple[Any, ...]
    constants: dict[str, Any]


def _run(operator: str, inputs: Sequence[Any], out: Any, attributes: dict[str, Any]) -> None:
    op = OPERATORS[operator]
    apply(op, inputs, op.parse(attributes), out)


class AggregatedUpdate(Optimizer):
    """Both kinds of updates are one method, :meth:`_hg_step`."""

    _hg_takes_copies = False  #: its operators take float32 copies of weights themselves

    def _hg_step(self, index: Any, weight: Any, grad: Any, state: Any, copied: bool) -> None:
        """Update one weight, or a list of them; with ``copied`` the state holds a float32 copy."""
        raise NotImplementedError

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        self._hg_step(index, weight, grad, state, copied=False)

    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        first = weight[0] if isinstance(weight, (list, tuple)) else weight
        if self._hg_takes_copies:
            self._hg_step(index, weight, grad, state, copied=self._hg_keeps_copy(first))
        else:
            super().update_multi_precision(index, weight, grad, state)


class ByOperator(AggregatedUpdate):
    """One operator a weight."""

    _hg_exact = True  #: it computes element by element: compiled steps have the bits of eager ones

    def _hg_call(self, state: Any, copied: bool) -> Call:
        """The operator for a weight with this state; with ``copied`` the state holds a float32 copy."""
        raise NotImplementedError

    def _hg_numbers(self, index: Any) -> dict[str, Any]:
        """Count an update of a weight; the attributes that vary from step to step."""
        lr, wd, _ = self._hg_begin(index)
        return {"lr": lr, "wd": wd, "rescale_grad": self.rescale_grad}

    def _hg_constant(self, **constants: Any) -> dict[str, Any]:
        """``constants`` and the bound of gradients, where there is one."""
        return {**constants, "clip_gradient": self.clip_gradient} if self.clip_gradient else constants

    def _hg_step(self, index: Any, weight: Any, grad: Any, state: Any, copied: bool) -> None:
        numbers = self._hg_numbers(index)
        call = self._hg_call(state, copied)
        _run(call.operator, [weight, grad, *call.states], weight, {**call.constants, **numbers})


class ManyByOperator(ByOperator):
    """One operator for up to ``aggregate_num`` weights, whose varying attributes are lists."""

    _hg_takes_copies = True
    _hg_count = "num_weights"  #: the attribute that says how many
    _hg_least = 1  #: ``aggregate_num`` below which it takes weights one by one

    def _hg_numbers(self, index: Any) -> dict[str, Any]:
        """The same for a list of weights."""
        indices: Sequence[Any] = index
        self._update_count(indices)
        return {
            "lrs": self._get_lrs(indices),
            "wds": self._get_wds(indices),
            "rescale_grad": self.rescale_grad,
        }

    def _hg_step(self, index: Any, weight: Any, grad: Any, state: Any, copied: bool) -> None:
        indices, weights, grads, states = as_lists(index, weight, grad, state)
        numbers = self._hg_numbers(indices)
        calls = [self._hg_call(s, copied) for s in states]
        rows = zip(weights, grads, calls, strict=True)
        inputs = [x for w, g, call in rows for x in (w, g, *call.states)]
        options = {**calls[0].constants, **numbers, self._hg_count: len(weights)}
        _run(calls[0].operator, inputs, weights, options)
