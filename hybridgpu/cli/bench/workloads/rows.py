# SPDX-License-Identifier: Apache-2.0
"""Reductions along rows with work around them, at rows of every length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .... import ndarray as nd
from ....context import Context
from ....gluon import HybridBlock, nn
from .case import Case, Suite, filled
from .elementwise import erf

__all__ = ["ROWS"]

ELEMENTS = 1 << 22
LARGE = 1 << 25  #: elements beyond any cache
EPSILON = 1e-5


class Softmax(HybridBlock):
    """Softmax of every row."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.softmax(x)


def softmax_reference(xp: Any, x: Any) -> Any:
    """The same in NumPy's or CuPy's words."""
    y = xp.exp(x - x.max(axis=1, keepdims=True))
    return y / y.sum(axis=1, keepdims=True)


class NormGelu(HybridBlock):
    """LayerNorm, then GELU."""

    def __init__(self, width: int, like: Any = None) -> None:
        super().__init__()
        params = None if like is None else like.norm.params
        with self.name_scope():
            self.norm = nn.LayerNorm(epsilon=EPSILON, in_channels=width, params=params)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.LeakyReLU(self.norm(x), act_type="gelu")


def norm_reference(xp: Any, x: Any, gamma: Any, beta: Any) -> Any:
    """The same in NumPy's or CuPy's words."""
    centred = x - x.mean(axis=1, keepdims=True)
    variance = (centred * centred).mean(axis=1, keepdims=True)
    y = centred / xp.sqrt(variance + EPSILON) * gamma + beta
    return 0.5 * y * (1 + erf(xp, y * 0.5**0.5))


def _case(
    title: str, width: int, build: Callable[..., HybridBlock], reference: Callable[..., Any], elements: int
) -> Case:
    rows = elements // width

    def make(ctx: Context) -> tuple[HybridBlock, nd.NDArray]:
        return filled(build(), ctx, (rows, width))

    parameters = {"rows": rows, "columns": width}
    return Case(f"{title} {rows} x {width}", parameters, None, make, build, reference)


def _both(width: int, elements: int = ELEMENTS) -> tuple[Case, Case]:
    return (
        _case("softmax", width, lambda like=None: Softmax(), softmax_reference, elements),
        _case("norm + gelu", width, lambda like=None: NormGelu(width, like), norm_reference, elements),
    )


ROWS = Suite(
    "rows",
    "Softmax, and LayerNorm with GELU, in rows; float32",
    tuple(case for width in (1024, 128, 8192, 65_536, 262_144) for case in _both(width)),
    quick=1,
    first=0,
    large=tuple(case for width in (1024, 262_144) for case in _both(width, LARGE)),
)
