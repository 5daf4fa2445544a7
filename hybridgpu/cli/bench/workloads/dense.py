# SPDX-License-Identifier: Apache-2.0
"""What is measured: the tutorial's perceptron and a chain of elementwise operators.

Each workload is written as a user writes it: a HybridBlock, and the same mathematics as NumPy (CuPy)
code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ... import ndarray as nd
from ...context import Context
from ...gluon import HybridBlock, nn

__all__ = ["SUITES", "Case", "Suite"]

LAYERS = (512, 256, 128, 2)
A, B, C = 1.25, -0.3, 0.2


@dataclass(frozen=True)
class Case:
    """A workload at one size.

    Attributes:
        name, parameters: for people, for JSON.
        calls: calls timed together, None to fill a given time.
        make: context -> (a new block with the case's parameters, its argument).
        again: block -> another block that has the same arrays as parameters: where an array lies in memory
            changes times, so all ways of computing use the same ones.
        reference: (array module, argument, parameters) -> the result, where parameters are arrays in
            the order of ``collect_params``.
    """

    name: str
    parameters: dict[str, int]
    calls: int | None
    make: Callable[[Context], tuple[HybridBlock, nd.NDArray]]
    again: Callable[[Any], HybridBlock]
    reference: Callable[..., Any]


@dataclass(frozen=True)
class Suite:
    """A workload.

    Attributes:
        cases: full sizes; ``quick`` says how many of them are measured in a hurry.
        first: the case whose first call is timed in new processes.
    """

    name: str
    title: str
    cases: tuple[Case, ...]
    quick: int
    first: int


def layers(like: Any = None) -> HybridBlock:
    """The tutorial's multilayer perceptron with relu; ``like`` is another one whose parameters it shares."""
    net = nn.HybridSequential()
    for k, (fan_in, units) in enumerate(pairwise(LAYERS)):
        activation = "relu" if k < len(LAYERS) - 2 else None
        params = None if like is None else like[k].params
        net.add(nn.Dense(units, activation=activation, in_units=fan_in, params=params))
    return net


def perceptron(ctx: Context, batch: int) -> tuple[HybridBlock, nd.NDArray]:
    """The perceptron with normally distributed weights, and a batch for it."""
    rng = np.random.RandomState(0)
    net = layers()
    net.initialize(ctx=ctx)
    for parameter in net.collect_params().values():
        scale = 0.1 if len(parameter.shape) == 1 else parameter.shape[1] ** -0.5
        parameter.set_data(nd.array(rng.standard_normal(parameter.shape).astype(np.float32) * np.float32(scale)))
    return net, nd.array(rng.standard_normal((batch, LAYERS[0])).astype(np.float32), ctx=ctx)


def perceptron_reference(xp: Any, x: Any, *parameters: Any) -> Any:
    """The same in NumPy's or CuPy's words."""
    h = x
    for k in range(0, len(parameters), 2):
        h = h @ parameters[k].T + parameters[k + 1]
        if k < len(parameters) - 2:
            h = xp.maximum(h, 0)
    return h


class Chain(HybridBlock):
    """Ten elementwise operators."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.tanh(A * x + B) * F.sigmoid(x) + 0.5 * F.relu(x - C) - F.exp(-x * x)


def chain(ctx: Context, size: int) -> tuple[HybridBlock, nd.NDArray]:
    """The chain and ``size`` normally distributed numbers."""
    x = np.random.RandomState(0).standard_normal(size).astype(np.float32)
    return Chain(), nd.array(x, ctx=ctx)


def chain_reference(xp: Any, x: Any) -> Any:
    """The same in NumPy's or CuPy's words."""
    return xp.tanh(A * x + B) * (1 / (1 + xp.exp(-x))) + 0.5 * xp.maximum(x - C, 0) - xp.exp(-x * x)


def _perceptron_case(batch: int) -> Case:
    def make(ctx: Context) -> tuple[HybridBlock, nd.NDArray]:
        return perceptron(ctx, batch)

    return Case(f"batch {batch}", {"batch": batch}, 1000, make, layers, perceptron_reference)


def _chain_case(size: int) -> Case:
    from ..text import count_text

    def make(ctx: Context) -> tuple[HybridBlock, nd.NDArray]:
        return chain(ctx, size)

    return Case(f"{count_text(size)} elements", {"elements": size}, None, make, lambda like: Chain(), chain_reference)


SUITES = {
    s.name: s
    for s in (
        Suite(
            "mlp",
            f"Multilayer perceptron {'-'.join(map(str, LAYERS))}, relu, float32",
            tuple(_perceptron_case(n) for n in (1, 16)),
            quick=2,
            first=0,
        ),
        Suite(
            "chain",
            "tanh(a*x+b)*sigmoid(x) + 0.5*relu(x-c) - exp(-x*x), float32",
            tuple(_chain_case(n) for n in (1000, 100_000, 1_000_000, 10_000_000)),
            quick=3,
            first=1,
        ),
    )
}
