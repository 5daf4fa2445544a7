# SPDX-License-Identifier: Apache-2.0
"""Reductions of np."""

from __future__ import annotations

from typing import Any

from ...compiler.ir import Builder, Node
from ...dtypes import bool_, i64
from ..params import Axis, Bool, Double, Dtype, Values
from ..record import operator, sample
from ..reduce import reduction_axes
from .application import np_function


@operator(
    "_np_sum",
    "a",
    params={
        "axis": Axis(doc="axes to sum over; None means all"),
        "dtype": Dtype(None, "element type of the sum"),
        "keepdims": Bool(False, "keep summed axes with extent 1"),
        "initial": Double(None, "what the sum starts with"),
    },
    samples=(sample([(3, 5)]), sample([(3, 4, 5)], {"axis": (0, 2), "keepdims": True}), sample([()]), sample([(0, 3)])),
)
def np_sum(b: Builder, p: Values, a: Node) -> Node:
    """Sum over axes."""
    x = b.cast(a, p.dtype) if p.dtype is not None else b.cast(a, i64) if a.dtype is bool_ else a
    axes = () if p.axis == () else reduction_axes(p.axis, a.shape)
    y = b.sum(x, axes) if axes else b.copy(x)
    return b.reshape(y, tuple(1 if k in axes else d for k, d in enumerate(a.shape))) if p.keepdims else y


@np_function("sum")
def sum(
    F: Any,
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool | None = None,
    initial: Any = None,
    where: Any = None,
) -> Any:
    """The sum over axes, all of them by default."""
    attributes = {"axis": axis, "dtype": dtype, "keepdims": bool(keepdims), "initial": initial}
    return F.invoke("_np_sum", (a,), attributes, out)
