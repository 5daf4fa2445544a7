# SPDX-License-Identifier: Apache-2.0
"""The perceptron of MXNet's tutorial on hybrid programming."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from .... import ndarray as nd
from ....context import Context
from ....gluon import HybridBlock, nn
from .case import Case, Suite, filled

__all__ = ["MLP"]

LAYERS = (512, 256, 128, 2)


def layers(like: Any = None) -> HybridBlock:
    """Dense layers with relu; ``like`` is another perceptron whose parameters it shares."""
    net = nn.HybridSequential()
    for k, (fan_in, units) in enumerate(pairwise(LAYERS)):
        activation = "relu" if k < len(LAYERS) - 2 else None
        params = None if like is None else like[k].params
        net.add(nn.Dense(units, activation=activation, in_units=fan_in, params=params))
    return net


def reference(xp: Any, x: Any, *parameters: Any) -> Any:
    """The same in NumPy's or CuPy's words."""
    h = x
    for k in range(0, len(parameters), 2):
        h = h @ parameters[k].T + parameters[k + 1]
        if k < len(parameters) - 2:
            h = xp.maximum(h, 0)
    return h


def _case(batch: int) -> Case:
    def make(ctx: Context) -> tuple[HybridBlock, nd.NDArray]:
        return filled(layers(), ctx, (batch, LAYERS[0]))

    return Case(f"batch {batch}", {"batch": batch}, 1000, make, layers, reference)


MLP = Suite(
    "mlp",
    f"Multilayer perceptron {'-'.join(map(str, LAYERS))}, relu, float32",
    tuple(_case(n) for n in (1, 16)),
    quick=2,
    first=0,
)
