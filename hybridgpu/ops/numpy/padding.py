# SPDX-License-Identifier: Apache-2.0
"""np.pad: constants, edges, reflections and extremes around an array."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import numpy as np

from ...base import MXNetError
from ...compiler.ir import Builder, Node
from ...core.dataclass import dataclass, field
from ...core.dtypes import i64
from ..params import Double, Enum, Param, Text, Values
from ..record import operator, sample, shape_text
from .application import np_function

__all__: list[str] = []


@dataclass(frozen=True)
class Pairs(Param):
    """A tuple of tuples of integers; a single one stands for all."""

    expects: str = field(default="tuple of <Shape(tuple)>", init=False)

    def read(self, text: str) -> tuple[tuple[int, ...], ...]:
        try:
            pairs = ast.literal_eval(text)
            if all(isinstance(v, int) for v in pairs):
                pairs = (pairs,)
            return tuple(tuple(int(v) for v in pair) for pair in pairs)
        except (SyntaxError, TypeError):
            raise ValueError from None


def _positions(kind: str, b: Builder, n: int, low: int, high: int) -> Node:
    """Which element of an axis of ``n`` stands at each place of the padded axis."""
    place = b.iota((low + n + high,), 0, i64) - low
    if kind == "edge":
        return b.min(b.max(place, 0), n - 1)
    period = 2 * n if kind == "symmetric" else max(2 * (n - 1), 1)
    turn = b.mod(place + period * -(-low // period), period)
    return b.min(turn, period - 1 - turn if kind == "symmetric" else period - turn) if period > 1 else turn


def _along(b: Builder, x: Node, axis: int, low: int, high: int, mode: str) -> Node:
    """The array with one axis padded by values of its own."""
    if not (low or high):
        return x
    n = x.shape[axis]
    if not n:
        raise MXNetError(f"Check failed: an axis without elements of {shape_text(x.shape)} has nothing for mode {mode}")
    if mode in ("edge", "reflect", "symmetric"):
        return b.take(x, _positions(mode, b, n, low, high), axis=axis)
    extreme = b.reduce("amax" if mode == "maximum" else "amin", x, (axis,), keepdims=True)
    parts = [(low, extreme), (n, x), (high, extreme)]
    return b.concat(
        [
            y if y is x else b.broadcast(y, tuple(count if k == axis else d for k, d in enumerate(x.shape)))
            for count, y in parts
            if count
        ],
        axis,
    )


@operator(
    "_npi_pad",
    params={
        "pad_width": Pairs(doc="(before, after) of each axis"),
        "mode": Enum(
            "constant",
            "what is put there",
            choices=("constant", "edge", "maximum", "minimum", "reflect", "symmetric"),
        ),
        "constant_value": Double(0.0, "with mode constant"),
        "reflect_type": Text("even", "only even"),
    },
    samples=(
        sample([(2, 3)], {"pad_width": ((1, 2), (0, 3)), "constant_value": 1.5}),
        sample([(3,)], {"pad_width": ((2, 4),), "mode": "edge"}),
        sample([(3,)], {"pad_width": ((4, 5),), "mode": "reflect"}),
        sample([(2, 3)], {"pad_width": ((1, 1), (4, 7)), "mode": "symmetric"}),
        sample([(2, 3)], {"pad_width": ((1, 1), (0, 2)), "mode": "maximum"}),
        sample([(2, 3)], {"pad_width": ((0, 1), (1, 0)), "mode": "minimum"}),
        sample([(0, 2)], {"pad_width": ((1, 2), (0, 0))}),
    ),
)
def pad(b: Builder, p: Values, data: Node) -> Node:
    """The array with more elements at both ends of its axes; negative widths take some away."""
    pairs = p.pad_width * data.ndim if len(p.pad_width) == 1 else p.pad_width
    if len(pairs) != data.ndim or any(len(pair) != 2 for pair in pairs):
        raise MXNetError(
            f"Check failed: i >= 0 && i < ndim(): pad_width has {len(pairs)} pairs for the {data.ndim} axes of an array of "
            f"shape {shape_text(data.shape)}"
        )
    x = b.slice(
        data,
        tuple(max(-low, 0) for low, _ in pairs),
        tuple(max(d - max(-high, 0), -low, 0) for d, (low, high) in zip(data.shape, pairs, strict=True)),
    )
    low, high = (tuple(max(pair[k], 0) for pair in pairs) for k in range(2))
    if p.mode == "constant":
        return b.pad(x, low=low, high=high, value=p.constant_value) if any((*low, *high)) else b.copy(x)
    for axis in range(data.ndim):
        x = _along(b, x, axis, low[axis], high[axis], p.mode)
    return b.copy(x) if x is data else x


_KEYWORDS = {
    "constant": ["constant_values"],
    "edge": [],
    "linear_ramp": ["end_values"],
    "maximum": ["stat_length"],
    "mean": ["stat_length"],
    "median": ["stat_length"],
    "minimum": ["stat_length"],
    "reflect": ["reflect_type"],
    "symmetric": ["reflect_type"],
    "wrap": [],
}


@np_function("pad")
def np_pad(F: Any, x: Any, pad_width: Any = None, mode: str | Callable[..., Any] = "constant", **kwargs: Any) -> Any:
    """The array with more elements at both ends of its axes.

    Args:
        F: the application.
        x: the array.
        pad_width: a tuple of pairs (before, after), one an axis.
        mode: constant, edge, reflect, symmetric, maximum or minimum.
        kwargs: ``constant_values``, a number.
    """
    if np.asarray(pad_width).dtype.kind != "i":
        raise TypeError("`pad_width` must be of integral type.")
    if not isinstance(pad_width, tuple):
        raise TypeError("`pad_width` must be tuple.")
    if callable(mode):
        raise ValueError("mode {'<function>'} is not supported.")
    if mode in ("linear_ramp", "wrap", "median", "mean", "empty"):
        raise ValueError(f"mode {{'{mode}'}} is not supported.")
    for key in kwargs:
        if key not in _KEYWORDS[mode]:
            raise ValueError(f"{key} keyword not in allowed keywords {_KEYWORDS[mode]}")
    if mode not in _KEYWORDS:
        raise KeyError(mode)
    attributes = {"pad_width": pad_width, "mode": mode}
    if mode == "constant":
        attributes["constant_value"] = kwargs.get("constant_values", 0)
        if isinstance(attributes["constant_value"], tuple):
            raise TypeError("unsupported constant_values type: {'tuple'}.")
    elif mode in ("reflect", "symmetric"):
        if kwargs.get("reflect_type", "even") not in ("even", None):
            raise ValueError(f"unsupported reflect_type '{kwargs['reflect_type']}'")
        attributes["reflect_type"] = "even"
    elif kwargs.get("stat_length") is not None:
        raise ValueError(f"unsupported stat_length '{kwargs['stat_length']}'")
    return F.invoke("_npi_pad", (x,), attributes)
