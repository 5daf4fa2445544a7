# SPDX-License-Identifier: Apache-2.0
"""Reductions whose results are needed in memory beside what is computed from them and from the rows again."""

from __future__ import annotations

from typing import Any

from compiler.cases.table import case

from hybridgpu.compiler.ir import Builder, Node
from hybridgpu.core.dtypes import from_short


def _normalised(b: Builder, x: Node, gamma: Node, beta: Node, axes: tuple[int, ...]) -> Any:
    """BatchNorm in training: the result, then what running averages and the derivative take."""
    shape = tuple(1 if k in axes else d for k, d in enumerate(x.shape))
    total = b.sum(x, axes)
    mean = total * (total.size / x.size)
    d = x - b.reshape(mean, shape)
    squares = b.sum(d * d, axes)
    variance = squares * (total.size / x.size)
    scale = b.rsqrt(variance + 1e-5) * gamma
    y = x * b.reshape(scale, shape) + b.reshape(beta - mean * scale, shape)
    return y, variance, mean, total, squares


@case("f32[70,40]", "f32[40]", "f32[40]")
def statistics_of_columns(b: Builder, x: Node, gamma: Node, beta: Node) -> Any:
    return _normalised(b, x, gamma, beta, (0,))


@case("f32[5,6,3,7]", "f32[6]", "f32[6]")
def statistics_of_slabs(b: Builder, x: Node, gamma: Node, beta: Node) -> Any:
    """A row is a plane of each picture; what follows is computed with it."""
    y, *rest = _normalised(b, x, gamma, beta, (0, 2, 3))
    return b.max(y, 0.0), *rest


@case("f16[8,6,4,16]", "f32[6]", "f32[6]")
def statistics_of_halves(b: Builder, x: Node, gamma: Node, beta: Node) -> Any:
    y, variance, mean, *_ = _normalised(b, b.cast(x, from_short("f32")), gamma, beta, (0, 2, 3))
    return b.cast(y, x.dtype), variance, mean


@case("f32[4,2,3000]", "f32[2]", "f32[2]")
def statistics_in_a_cluster(b: Builder, x: Node, gamma: Node, beta: Node) -> Any:
    return _normalised(b, x, gamma, beta, (0, 2))


@case("f32[9,40]", "f32[9,40]", "f32[40]", "f32[40]", "f32[40]")
def statistics_and_slopes(b: Builder, x: Node, dy: Node, gamma: Node, mean: Node, variance: Node) -> Any:
    """The derivative of BatchNorm: that of the input, of the scale and of the shift."""
    inverse = b.rsqrt(variance + 1e-5)
    n = (x - b.reshape(mean, (1, 40))) * b.reshape(inverse, (1, 40))
    shift, scale = b.sum(dy, (0,)), b.sum(dy * n, (0,))
    rest = b.reshape(shift, (1, 40)) + n * b.reshape(scale, (1, 40))
    return (dy - rest * (1 / 9)) * b.reshape(inverse * gamma, (1, 40)), scale, shift


@case("f32[7,300]", "f32[7,7]")
def statistics_made_before(b: Builder, x: Node, m: Node) -> Any:
    """The mean is computed by a kernel that runs before, since a product takes it."""
    mean = b.mean(x, (1,), keepdims=True)
    twice = mean * 2.0
    return x + twice + b.dot(m, mean), twice
