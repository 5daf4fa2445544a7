# SPDX-License-Identifier: Apache-2.0
"""Single operators and a chain of ten, called as programs without blocks do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from typing import Any

from .... import ndarray as nd
from ....context import Context
from ....gluon import HybridBlock
from .case import Case, Suite, filled
from .elementwise import erf
from .rows import EPSILON, softmax_reference

__all__ = ["EAGER"]

WINDOW, STRIDE, PAD = 3, 2, 1  #: of the pooling
UNITS = 256  #: of the dense layer


class Operator(HybridBlock):
    """A function ``(F, x, **parameters)`` as a block.

    Args:
        shapes: of the parameters, by name.
        like: another block of the same function, whose parameters it shares.
    """

    def __init__(
        self, function: Callable[..., Any], shapes: Mapping[str, tuple[int, ...]], like: Operator | None = None
    ) -> None:
        super().__init__(params=None if like is None else like.params)
        self.function = function
        with self.name_scope():
            for name, shape in shapes.items():
                setattr(self, name, self.params.get(name, shape=shape))

    def hybrid_forward(self, F: Any, x: Any, **parameters: Any) -> Any:
        return self.function(F, x, **parameters)

    def eager_function(self, ctx: Context) -> Callable[[nd.NDArray], nd.NDArray]:
        """The function of arrays alone."""
        return partial(self.function, nd, **{name: p.data(ctx) for name, p in self._reg_params.items()})


def _layer_norm(xp: Any, x: Any, gamma: Any, beta: Any) -> Any:
    centred = x - x.mean(axis=1, keepdims=True)
    return centred / xp.sqrt((centred * centred).mean(axis=1, keepdims=True) + EPSILON) * gamma + beta


def _batch_norm(xp: Any, x: Any, gamma: Any, beta: Any, mean: Any, var: Any) -> Any:
    gamma, beta, mean, var = (p[:, None, None] for p in (gamma, beta, mean, var))
    return (x - mean) / xp.sqrt(var + EPSILON) * gamma + beta


def _pool(xp: Any, x: Any) -> Any:
    rows, columns = ((extent + 2 * PAD - WINDOW) // STRIDE + 1 for extent in x.shape[2:])
    x = xp.pad(x, ((0, 0), (0, 0), (PAD, PAD), (PAD, PAD)), constant_values=-xp.inf)
    y = None
    for i in range(WINDOW):
        for j in range(WINDOW):
            part = x[:, :, i : i + STRIDE * rows : STRIDE, j : j + STRIDE * columns : STRIDE]
            y = part if y is None else xp.maximum(y, part)
    return y


def _ten(xp: Any, x: Any) -> Any:
    y = xp.maximum((x + x) * 2 - x, 0)
    y = -(y / (x * x + 1)) + 1
    return xp.maximum(y * x, 0)


def _ten_operators(F: Any, x: Any) -> Any:
    y = F.relu((x + x) * 2 - x)
    y = -(y / (x * x + 1)) + 1
    return F.relu(y * x)


def _case(
    title: str,
    shape: tuple[int, ...],
    function: Callable[..., Any],
    reference: Callable[..., Any],
    **shapes: tuple[int, ...],
) -> Case:
    def make(ctx: Context) -> tuple[HybridBlock, nd.NDArray]:
        return filled(Operator(function, shapes), ctx, shape)

    return Case(
        f"{title} {' x '.join(map(str, shape))}",
        {"elements": prod(shape)},
        None,
        make,
        partial(Operator, function, shapes),
        reference,
        eager=Operator.eager_function,
    )


def _softmax(shape: tuple[int, ...]) -> Case:
    return _case("softmax", shape, lambda F, x: F.softmax(x), softmax_reference)


def _norm(shape: tuple[int, ...]) -> Case:
    width = (shape[-1],)
    return _case(
        "LayerNorm", shape, lambda F, x, gamma, beta: F.LayerNorm(x, gamma, beta, eps=EPSILON), _layer_norm,
        gamma=width, beta=width,
    )  # fmt: skip


def _add(size: int) -> Case:
    return _case("add", (size,), lambda F, x: x + x, lambda xp, x: x + x)


_MILLION, _SQUARE, _PICTURES = (1 << 20,), (1024, 1024), (8, 64, 56, 56)

EAGER = Suite(
    "eager",
    "Operators called without blocks, float32",
    (
        _add(100),
        _case("ten operators", (100,), _ten_operators, _ten),
        _softmax((64, 10)),
        _norm((16, 64)),
        _case(
            "dense", (16, 512),
            lambda F, x, weight, bias: F.FullyConnected(x, weight, bias, num_hidden=UNITS),
            lambda xp, x, weight, bias: x @ weight.T + bias,
            weight=(UNITS, 512), bias=(UNITS,),
        ),
        _add(1 << 20),
        _softmax(_SQUARE),
        _norm(_SQUARE),
        _case(
            "GELU", _MILLION,
            lambda F, x: F.LeakyReLU(x, act_type="gelu"),
            lambda xp, x: 0.5 * x * (1 + erf(xp, x * 0.5**0.5)),
        ),
        _case("sigmoid", _MILLION, lambda F, x: F.sigmoid(x), lambda xp, x: 1 / (1 + xp.exp(-x))),
        _case("exp", _MILLION, lambda F, x: F.exp(x), lambda xp, x: xp.exp(x)),
        _case("transpose", _SQUARE, lambda F, x: F.transpose(x), lambda xp, x: xp.ascontiguousarray(x.T)),
        _case(
            "BatchNorm", _PICTURES,
            lambda F, x, gamma, beta, mean, var: F.BatchNorm(x, gamma, beta, mean, var, eps=EPSILON, fix_gamma=False),
            _batch_norm,
            gamma=(64,), beta=(64,), mean=(64,), var=(64,),
        ),
        _case(
            "max-pool", _PICTURES,
            lambda F, x: F.Pooling(x, kernel=(WINDOW,) * 2, stride=(STRIDE,) * 2, pad=(PAD,) * 2, pool_type="max"),
            _pool,
        ),
    ),
    quick=5,
    first=0,
)  # fmt: skip
