# SPDX-License-Identifier: Apache-2.0
"""Work on every element by itself: a chain of operators, and operators that broadcast a row."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

from .... import ndarray as nd
from ....compiler.primitives.special import function
from ....context import Context
from ....gluon import HybridBlock
from ...text import count_text
from .case import Case, Suite, filled

__all__ = ["BROADCAST", "CHAIN"]

A, B, C = 1.25, -0.3, 0.2


class Chain(HybridBlock):
    """Ten elementwise operators."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.tanh(A * x + B) * F.sigmoid(x) + 0.5 * F.relu(x - C) - F.exp(-x * x)


def chain_reference(xp: Any, x: Any) -> Any:
    """The same in NumPy's or CuPy's words."""
    return xp.tanh(A * x + B) * (1 / (1 + xp.exp(-x))) + 0.5 * xp.maximum(x - C, 0) - xp.exp(-x * x)


def _chain(size: int) -> Case:
    def make(ctx: Context) -> tuple[HybridBlock, nd.NDArray]:
        return filled(Chain(), ctx, (size,))

    return Case(f"{count_text(size)} elements", {"elements": size}, None, make, lambda like: Chain(), chain_reference)


class Normalise(HybridBlock):
    """``relu((x - mean) * scale * gamma + beta)``, with a number of each for every column."""

    NAMES = ("mean", "scale", "gamma", "beta")

    def __init__(self, shape: tuple[int, ...], like: Any = None) -> None:
        super().__init__(params=None if like is None else like.params)
        with self.name_scope():
            for name in self.NAMES:
                setattr(self, name, self.params.get(name, shape=(1, shape[1])))

    def hybrid_forward(self, F: Any, x: Any, mean: Any, scale: Any, gamma: Any, beta: Any) -> Any:
        y = F.broadcast_mul(F.broadcast_mul(F.broadcast_sub(x, mean), scale), gamma)
        return F.relu(F.broadcast_add(y, beta))


def normalise_reference(xp: Any, x: Any, mean: Any, scale: Any, gamma: Any, beta: Any) -> Any:
    """The same in NumPy's or CuPy's words."""
    return xp.maximum((x - mean) * scale * gamma + beta, 0)


class Gelu(HybridBlock):
    """``gelu(x + bias) + residual``, with a bias for every column."""

    def __init__(self, shape: tuple[int, ...], like: Any = None) -> None:
        super().__init__(params=None if like is None else like.params)
        with self.name_scope():
            self.bias = self.params.get("bias", shape=(1, shape[1]))
            self.residual = self.params.get("residual", shape=shape)

    def hybrid_forward(self, F: Any, x: Any, bias: Any, residual: Any) -> Any:
        return F.LeakyReLU(F.broadcast_add(x, bias), act_type="gelu") + residual


def erf(xp: Any, x: Any) -> Any:
    """The error function; NumPy has none, so it is ours."""
    return function(xp, "erf")(x)


def gelu_reference(xp: Any, x: Any, bias: Any, residual: Any) -> Any:
    """The same in NumPy's or CuPy's words."""
    y = x + bias
    return 0.5 * y * (1 + erf(xp, y * 0.5**0.5)) + residual


def _broadcast(title: str, block: type, reference: Any, shape: tuple[int, int]) -> Case:
    def make(ctx: Context) -> tuple[HybridBlock, nd.NDArray]:
        return filled(block(shape), ctx, shape)

    parameters = {"rows": shape[0], "columns": shape[1], "elements": prod(shape)}
    return Case(f"{title} {shape[0]} x {shape[1]}", parameters, None, make, partial(block, shape), reference)


CHAIN = Suite(
    "chain",
    "tanh(a*x+b)*sigmoid(x) + 0.5*relu(x-c) - exp(-x*x), float32",
    tuple(_chain(n) for n in (1000, 100_000, 1_000_000, 10_000_000)),
    quick=3,
    first=1,
    large=(_chain(1 << 25),),
)
BROADCAST = Suite(
    "broadcast",
    "relu((x-mean)*scale*gamma+beta), and gelu(x+bias)+residual; float32",
    (
        _broadcast("normalise", Normalise, normalise_reference, (64, 1024)),
        _broadcast("gelu", Gelu, gelu_reference, (64, 1024)),
        _broadcast("normalise", Normalise, normalise_reference, (4096, 1024)),
        _broadcast("gelu", Gelu, gelu_reference, (4096, 1024)),
    ),
    quick=2,
    first=0,
    large=(
        _broadcast("normalise", Normalise, normalise_reference, (32768, 1024)),
        _broadcast("gelu", Gelu, gelu_reference, (32768, 1024)),
    ),
)
