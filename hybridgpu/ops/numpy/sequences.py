# SPDX-License-Identifier: Apache-2.0
"""Sequences of numbers: np.polyval, ediff1d and resize."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base import MXNetError, ParameterError
from ...compiler.ir import Builder, Node
from ...core.dtypes import bool_
from ..elementwise import scalar_node
from ..params import Bool, Double, Shape, Values
from ..record import operator, sample
from .application import np_function

__all__: list[str] = []


@operator(
    "_npi_polyval",
    "p x",
    samples=(sample([(3,), (2, 4)]), sample([(4,), ()]), sample([(0,), (2,)]), sample([(2,), (0, 2)])),
)
def polyval(b: Builder, values: Values, p: Node, x: Node) -> Node:
    """The polynomial with the coefficients ``p``, the highest first, at ``x``."""
    if p.ndim != 1:
        raise ParameterError(f"Check failed: p_shape.ndim() == 1U ({p.ndim} vs. 1) : p has to be an 1-D array.")
    y = b.full_like(x, 0)
    for k in range(p.shape[0]):  # Horner's scheme
        coefficient = b.broadcast(b.reshape(b.slice(p, (k,), (k + 1,)), (1,) * x.ndim), x.shape)
        y = y * x + coefficient if k else coefficient
    return y


@np_function("polyval")
def np_polyval(F: Any, p: Any, x: Any) -> Any:
    """The polynomial with the coefficients ``p``, the highest first, at ``x``."""
    if isinstance(p, F.array) and isinstance(x, F.array):
        return F.invoke("_npi_polyval", (p, x))
    if isinstance(p, F.array) or isinstance(x, F.array):
        raise TypeError("type not supported")
    return np.polyval(p, x)


def _difference_inputs(p: Values) -> list[str]:
    return ["input1", "input2", "input3"][: 1 + p.to_begin_arr_given + p.to_end_arr_given]


@operator(
    "_npi_ediff1d",
    "input1 input2 input3",
    params={
        "to_begin_arr_given": Bool(False, "an input stands before the differences"),
        "to_end_arr_given": Bool(False, "an input stands behind the differences"),
        "to_begin_scalar": Double(None, "a number before the differences", optional=True),
        "to_end_scalar": Double(None, "a number behind the differences", optional=True),
    },
    optional=_difference_inputs,
    samples=(
        sample([(5,)]),
        sample([(2, 3), (2,), (1,)], {"to_begin_arr_given": True, "to_end_arr_given": True}),
        sample([(4,), (2,)], {"to_end_arr_given": True, "to_begin_scalar": 1.5}),
        sample([()], {"to_end_scalar": 2}),
    ),
)
def ediff1d(b: Builder, p: Values, input1: Node, *others: Node) -> Node:
    """Differences of neighbours of the flattened array."""
    if input1.dtype is bool_:
        raise MXNetError("Unknown type enum 7")
    n = input1.size
    x = b.reshape(input1, (n,))
    if n > 1:
        middle = b.slice(x, (1,), (n,)) - b.slice(x, (0,), (n - 1,))
    else:
        middle = b.full((0,), 0, x.dtype)
    left = iter(others)

    def end(present: bool, number: float | None) -> list[Node]:
        if present:
            y = next(left)
            return [b.reshape(y, (y.size,))]
        return [] if number is None else [scalar_node(b, b.full((1,), 0, x.dtype), number)]

    first = end(p.to_begin_arr_given, p.to_begin_scalar)
    parts = [*first, middle, *end(p.to_end_arr_given, p.to_end_scalar)]
    return b.concat(parts, 0) if len(parts) > 1 else middle


@np_function("ediff1d")
def np_ediff1d(F: Any, ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """Differences of neighbours of the flattened array, between ``to_begin`` and ``to_end``."""
    begin, end = (isinstance(v, F.array) for v in (to_begin, to_end))
    attributes = {
        "to_begin_arr_given": begin,
        "to_end_arr_given": end,
        "to_begin_scalar": None if begin else to_begin,
        "to_end_scalar": None if end else to_end,
    }
    return F.invoke("_npi_ediff1d", (ary, *([to_begin] if begin else []), *([to_end] if end else [])), attributes)


@operator(
    "_npi_resize _npi_resize_fallback",
    "a",
    custom_type="resize_fallback",
    params={"new_shape": Shape(doc="extents of the result")},
    samples=(sample([(2, 3)], {"new_shape": (2, 5)}), sample([(4,)], {"new_shape": (3,)})),
)
def resize(b: Builder, p: Values, a: Node) -> Node:
    """The elements again and again until the shape is filled. Hybridgpu's own: MXNet does it in Python."""
    size = int(np.prod(p.new_shape))
    if not size or not a.size:
        return b.full(p.new_shape, 0, a.dtype)
    line = b.reshape(a, (1, a.size))
    repeated = b.broadcast(line, (-(-size // a.size), a.size))
    return b.reshape(b.slice(b.reshape(repeated, (repeated.size,)), (0,), (size,)), p.new_shape)


@np_function("resize")
def np_resize(F: Any, a: Any, new_shape: Any) -> Any:
    """The elements again and again until the shape is filled."""
    return F.invoke("_npi_resize", (a,), {"new_shape": new_shape})
