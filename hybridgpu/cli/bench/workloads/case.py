# SPDX-License-Identifier: Apache-2.0
"""What a workload consists of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .... import ndarray as nd
from ....context import Context
from ....core.dataclass import dataclass
from ....gluon import HybridBlock

__all__ = ["Case", "Suite", "filled"]


@dataclass(frozen=True)
class Case:
    """A workload at one size.

    Attributes:
        name, parameters: for people, for JSON.
        calls: calls timed together, None to fill a given time.
        make: context -> (a new block with the case's parameters, its argument); of training a step in place of the block.
        again: block -> another block that has the same arrays as parameters: where an array lies in memory
            changes times, so all ways of computing use the same ones. Steps of training, which write them, have copies.
        reference: (array module, argument, parameters) -> the result, where parameters are arrays in
            the order of ``collect_params``; None where eager code is what the others are compared with.
        tolerance: of results, relative to their size and to the largest.
        eager: (block, context) -> the function that an eager program calls in place of the block; None: the block.
    """

    name: str
    parameters: dict[str, int]
    calls: int | None
    make: Callable[[Context], tuple[Any, nd.NDArray]]
    again: Callable[[Any], Any]
    reference: Callable[..., Any] | None = None
    tolerance: float = 1e-4
    eager: Callable[[Any, Context], Callable[[nd.NDArray], nd.NDArray]] | None = None

    def reference_mode(self, library: str) -> str:
        """The way that others are compared with: the library where there is code for it."""
        return "eager" if self.reference is None else library


@dataclass(frozen=True)
class Suite:
    """A workload.

    Attributes:
        cases: full sizes; ``quick`` says how many of them are measured in a hurry.
        first: the case whose first call is timed in new processes.
        large: sizes whose arrays lie beyond any cache, a GPU's included.
    """

    name: str
    title: str
    cases: tuple[Case, ...]
    quick: int
    first: int
    large: tuple[Case, ...] = ()


def filled(
    net: HybridBlock, ctx: Context, shape: tuple[int, ...], words: int | None = None
) -> tuple[HybridBlock, nd.NDArray]:
    """``net`` with parameters drawn so that values keep their size from layer to layer, and an input for it, of words of a
    vocabulary of so many or of normal numbers."""
    rng = np.random.RandomState(0)
    net.initialize(ctx=ctx)
    drawn = rng.standard_normal(shape) if words is None else rng.randint(0, words, shape)
    x = nd.array(drawn.astype(np.float32), ctx=ctx)
    net.infer_shape(x)  # computes nothing: an eager call would leave kernels that a first call is to compile
    for name, parameter in net.collect_params().items():
        drawn = rng.standard_normal(parameter.shape).astype(np.float32)
        if name.endswith("var"):
            drawn = 1 + np.abs(drawn)
        elif name.endswith("gamma"):
            drawn = 1 + np.float32(0.1) * np.abs(drawn)
        elif name.endswith("weight"):
            drawn *= np.float32(np.prod(parameter.shape[1:]) ** -0.5)
        else:
            drawn *= np.float32(0.1)
        parameter.set_data(nd.array(drawn))
    return net, x
