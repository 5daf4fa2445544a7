# SPDX-License-Identifier: Apache-2.0
"""Log likelihood of marked self-exciting point processes with exponential decay (Hawkes, 1971), over batches.

The intensity of mark k is mu_k + alpha_k * beta_k * s_k, where s_k jumps by 1 at each point of that mark and
decays at the rate beta_k.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...base import MXNetError
from ..ir.graph import NO_DERIVATIVE, Params, Primitive
from ..ir.types import TensorType, tensor_type

__all__ = ["ROWS"]


def _check(types: Sequence[TensorType]) -> tuple[int, int]:
    mu, alpha, beta, state, lags, marks, valid, end = types
    n, k = mu.shape
    vectors = alpha.shape == beta.shape == (k,) and valid.shape == end.shape == (n,)
    if not vectors or state.shape != (n, k) or lags.ndim != 2 or lags.shape[0] != n or marks.shape != lags.shape:
        raise TypeError(f"a Hawkes process of {[*types]!r}")
    return n, k


def _infer(types: Sequence[TensorType], params: Params) -> TensorType:
    n, k = _check(types)
    return tensor_type((n, 1 + k), types[0].dtype)


def _infer_gradient(types: Sequence[TensorType], params: Params) -> TensorType:
    n, k = _check(types)
    return tensor_type((n, 3 * k), types[0].dtype)


class _Process:
    """States of all marks, point after point.

    Attributes:
        state: s after the last point of each mark.
        last: the time of that point.

    Raises:
        MXNetError: a point has a mark that does not exist.
    """

    def __init__(self, xp: Any, inputs: Sequence[Any]) -> None:
        self.xp = xp
        self.mu, alpha, beta, state, self.lags, self.marks, self.valid, self.end = inputs
        self.alpha, self.beta = (xp.broadcast_to(x, self.mu.shape) for x in (alpha, beta))
        self.state = state.copy()
        self.last = xp.zeros_like(self.mu)
        used = xp.arange(self.lags.shape[1]) < self.valid[:, None]
        unknown = self.marks[used & ((self.marks < 0) | (self.marks >= self.mu.shape[1]))]
        if unknown.size:
            raise MXNetError(f"Check failed: a point has the mark {int(unknown[0])}, and there are {self.mu.shape[1]}")

    def points(self) -> Iterator[tuple[Any, Any, Any]]:
        """(rows and marks, time since the mark's last point, decay since then) of the points of each step."""
        xp = self.xp
        now = xp.zeros_like(self.mu[:, 0])
        for step in range(self.lags.shape[1]):
            rows = xp.nonzero(step < self.valid)[0]
            now[rows] += self.lags[rows, step]
            at = (rows, self.marks[rows, step])
            since = now[rows] - self.last[at]
            decay = xp.exp(-self.beta[at] * since)
            yield at, since, decay
            self.state[at] = 1 + self.state[at] * decay
            self.last[at] = now[rows]

    def rest(self) -> tuple[Any, Any]:
        """Time from the last points to the end, and the decay in it."""
        since = self.end[:, None] - self.last
        return since, self.xp.exp(-self.beta * since)


def _evaluate(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    """The log likelihoods, then the states at the end."""
    p = _Process(xp, inputs)
    y = xp.zeros(out.shape, out.dtype.np)
    for at, since, decay in p.points():
        excitation = p.alpha[at] * p.state[at]
        rate = p.mu[at] + excitation * p.beta[at] * decay
        y[at[0], 0] += xp.log(rate) - p.mu[at] * since - excitation * (1 - decay)
    since, decay = p.rest()
    y[:, 0] -= (p.mu * since + p.alpha * p.state * (1 - decay)).sum(axis=1)
    y[:, 1:] = decay * p.state
    return y


def _evaluate_gradient(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    """Derivatives of the log likelihoods by mu, alpha and beta, side by side."""
    p = _Process(xp, inputs)
    mu, alpha, beta = (xp.zeros_like(p.mu) for _ in range(3))
    slope = xp.zeros_like(p.mu)  # of the states by beta
    for at, since, decay in p.points():
        a, b, s, ds = p.alpha[at], p.beta[at], p.state[at], slope[at]
        rate = p.mu[at] + a * b * s * decay
        mu[at] += 1 / rate - since
        alpha[at] += b * s * decay / rate - s * (1 - decay)
        beta[at] += a * decay * (s * (1 - b * since) + b * ds) / rate - a * (ds * (1 - decay) + s * since * decay)
        slope[at] = decay * (ds - since * s)
    since, decay = p.rest()
    mu -= since
    alpha -= p.state * (1 - decay)
    beta -= p.alpha * (slope * (1 - decay) + p.state * since * decay)
    return xp.concatenate([mu, alpha, beta], axis=1).astype(out.dtype.np, copy=False)


ROWS = [
    Primitive(
        "hawkes", "library", _infer, _evaluate, NO_DERIVATIVE, doc="log likelihoods and states of point processes"
    ),
    Primitive(
        "hawkes_gradient", "library", _infer_gradient, _evaluate_gradient, NO_DERIVATIVE, doc="derivatives of hawkes"
    ),
]
