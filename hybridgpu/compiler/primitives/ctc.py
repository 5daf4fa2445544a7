# SPDX-License-Identifier: Apache-2.0
"""Connectionist temporal classification (Graves et al., 2006), step by step over whole batches.

The states of a sample are its labels with a blank before, between and after them. ``alpha[t, b, s]`` is
the logarithm of the probability of all ways to be in state s after step t, ``beta`` that of all ways from
there to the end. Impossible is a large negative number rather than -inf, whose differences are no numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir.graph import Builder, Node, Params, Primitive, not_differentiable
from ..ir.types import TensorType, tensor_type

__all__ = ["ROWS"]

_NEVER = -1e30  #: the logarithm of no probability: finite, so that differences of two are no NaN


def _check(types: Sequence[TensorType]) -> None:
    x, labels, times, counts = types
    vectors = all(t.shape == x.shape[1:2] and t.dtype.is_integer for t in (times, counts))
    if x.ndim != 3 or labels.ndim != 2 or labels.shape[0] != x.shape[1] or not vectors or not labels.dtype.is_integer:
        raise TypeError(f"ctc of {x!r} with labels {labels!r}, lengths {times!r} and {counts!r}")


def _infer(types: Sequence[TensorType], params: Params) -> TensorType:
    _check(types)
    return tensor_type(types[0].shape[1:2], types[0].dtype)


def _infer_gradient(types: Sequence[TensorType], params: Params) -> TensorType:
    _check(types)
    return types[0]


class _Alignment:
    """States, transitions and emissions of a batch."""

    def __init__(self, xp: Any, inputs: Sequence[Any], first: bool) -> None:
        x, labels, self.times, self.counts = inputs
        self.xp, (self.steps, self.batch, classes) = xp, x.shape
        shifted = x - x.max(axis=2, keepdims=True)
        self.log = shifted - xp.log(xp.exp(shifted).sum(axis=2, keepdims=True))
        blank = 0 if first else classes - 1
        width = labels.shape[1]
        self.states = xp.full((self.batch, 2 * width + 1), blank, labels.dtype)
        self.states[:, 1::2] = xp.clip(labels, 0, classes - 1)
        at = xp.broadcast_to(self.states[None], (self.steps, *self.states.shape))
        self.emit = xp.maximum(xp.take_along_axis(self.log, at, axis=2), _NEVER)
        # two states on, unless that skips the blank between equal labels
        self.skips = xp.zeros(self.states.shape, bool)
        self.skips[:, 2:] = (self.states[:, 2:] != blank) & (self.states[:, 2:] != self.states[:, :-2])
        repeated = (labels[:, 1:] == labels[:, :-1]) & (xp.arange(1, max(width, 1))[None] < self.counts[:, None])
        self.possible = (self.counts + repeated.sum(axis=1) <= self.times) & (self.times > 0)
        last = xp.arange(self.states.shape[1])[None] - 2 * self.counts[:, None]
        self.final = (last == 0) | (last == -1)

    def onward(self, a: Any) -> Any:
        """Probabilities after a transition to the same state or one or two on."""
        xp = self.xp
        one, two = xp.full_like(a, _NEVER), xp.full_like(a, _NEVER)
        one[:, 1:] = a[:, :-1]
        two[:, 2:] = a[:, :-2]
        return xp.logaddexp(xp.logaddexp(a, one), xp.where(self.skips, two, _NEVER).astype(a.dtype))

    def back(self, a: Any) -> Any:
        """The same against time."""
        xp = self.xp
        one, two = xp.full_like(a, _NEVER), xp.full_like(a, _NEVER)
        one[:, :-1] = a[:, 1:]
        two[:, :-2] = xp.where(self.skips, a, _NEVER)[:, 2:]
        return xp.logaddexp(xp.logaddexp(a, one), two)

    def forward(self) -> tuple[Any, Any]:
        """alpha, and the logarithm of the probability of the labels."""
        xp = self.xp
        alpha = xp.full_like(self.emit, _NEVER)
        total = xp.zeros((self.batch,), self.emit.dtype)
        for t in range(self.steps):
            if t:
                alpha[t] = self.onward(alpha[t - 1]) + self.emit[t]
            else:
                alpha[0, :, :2] = self.emit[0, :, :2]
            ends = xp.where(self.final, alpha[t], _NEVER).astype(alpha.dtype)
            top = ends.max(axis=1)
            here = top + xp.log(xp.exp(ends - top[:, None]).sum(axis=1))
            total = xp.where(self.times == t + 1, here, total)
        return alpha, total


def _evaluate(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    a = _Alignment(xp, inputs, params["blank_first"])
    _, total = a.forward()
    # labels that do not fit into the steps cost nothing in MXNet
    return xp.where(a.possible, -total, 0).astype(out.dtype.np)


def _evaluate_gradient(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    a = _Alignment(xp, inputs, params["blank_first"])
    alpha, total = a.forward()
    grad = xp.exp(a.log)
    beta = xp.full_like(a.emit[0], _NEVER) if a.steps else None
    samples = xp.broadcast_to(xp.arange(a.batch)[:, None], a.states.shape)
    for t in reversed(range(a.steps)):
        ends = xp.where(a.final, 0, _NEVER).astype(alpha.dtype)
        onward = xp.where((a.times == t + 1)[:, None], ends, a.back(beta))
        share = xp.exp(xp.minimum(alpha[t] + onward - total[:, None], 0))
        xp.add.at(grad[t], (samples, a.states), -share)
        beta = onward + a.emit[t]
    inside = (xp.arange(a.steps)[:, None] < a.times[None]) & a.possible[None]
    return xp.where(inside[:, :, None], grad, 0).astype(out.dtype.np)


def _vjp(b: Builder, g: Node, y: Node, inputs: Sequence[Node], params: Params) -> Sequence[Node | None]:
    gradient = b.ctc_gradient(*inputs, **params)
    return [gradient * b.broadcast(b.reshape(g, (1, g.size, 1)), gradient.shape), None, None, None]


ROWS = [
    Primitive("ctc", "library", _infer, _evaluate, _vjp, doc="cost of (class numbers, step counts, label counts)"),
    Primitive(
        "ctc_gradient",
        "library",
        _infer_gradient,
        _evaluate_gradient,
        not_differentiable("_backward_ctc_loss", "The gradient of CTCLoss has no derivative: leave create_graph out."),
        doc="derivative of ctc by the scores",
    ),
]
