# SPDX-License-Identifier: Apache-2.0
"""Operators and functions of np that read and write at positions, and those that sort."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base import MXNetError, numeric_types
from ...compiler.ir import Builder, Node
from ...core.dtypes import bool_, i64
from ..dynamic_attributes import as_stored
from ..elementwise import truth
from ..params import Double, Int, Values
from ..record import operator, sample, shape_text
from .application import np_function
from .derive import derived_operator

__all__: list[str] = []


# -- assignment where a mask holds


def _check_mask(data: tuple[int, ...], mask: tuple[int, ...], start_axis: int) -> None:
    """Raise MXNet's error unless the mask covers axes of the data from ``start_axis`` on."""
    if not 0 <= start_axis <= len(data) - len(mask) or mask != data[start_axis : start_axis + len(mask)]:
        raise MXNetError(
            "Check failed: boolean index did not match indexed array along its axes: the mask has shape "
            f"{shape_text(mask)}, the array from axis {start_axis} on another one: {shape_text(data)}"
        )


def _mask_places(b: Builder, data: Node, mask: Node, start_axis: int) -> Node:
    """The mask in the shape of the data, whose axes from ``start_axis`` on it covers."""
    _check_mask(data.shape, mask.shape, start_axis)
    shape = (*(1,) * start_axis, *mask.shape, *(1,) * (data.ndim - mask.ndim - start_axis))
    return b.broadcast(b.reshape(truth(b, mask), shape), data.shape)


@operator(
    "_npi_boolean_mask_assign_scalar",
    "data mask",
    params={"value": Double(0.0, "the number"), "start_axis": Int(0, "the first axis that the mask covers")},
    dtypes="**",
    no_gradient=("mask",),
    samples=(
        sample([(3, 4), (3, 4)], {"value": 1.5}, {1: (0, 1)}),
        sample([(2, 3, 4), (3,)], {"value": 2, "start_axis": 1}, {1: (0, 1)}),
        sample([(0, 3), (0,)], {"value": 2}, {1: (0, 1)}),
    ),
)
def boolean_mask_assign_scalar(b: Builder, p: Values, data: Node, mask: Node) -> Node:
    """The data with a number where the mask holds."""
    value = bool(p.value) if data.dtype is bool_ else as_stored(p.value, data.dtype)
    return b.select(_mask_places(b, data, mask, p.start_axis), b.full(data.shape, value, data.dtype), data)


def _entries(data: tuple[int, ...], mask: tuple[int, ...], value: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the values with the axes of ``data[..., mask]``: new ones in front.

    Raises:
        MXNetError: there are too many.
    """
    ndim = len(data) - len(mask) + 1
    if len(value) > ndim:
        raise MXNetError(
            f"Check failed: vshape.ndim() <= dshape.ndim() - mshape.ndim() + 1 ({len(value)} vs. {ndim}) : cannot assign "
            f"{shape_text(value)} where a mask of {shape_text(mask)} holds in {shape_text(data)}"
        )
    return (1,) * (ndim - len(value)) + value


def _check_number(xp: Any, p: Values, data: Any, mask: Any, value: Any) -> None:
    """Raise MXNet's error unless there is one entry for all places, or as many as places."""
    _check_mask(data.shape, mask.shape, p.start_axis)
    count = _entries(data.shape, mask.shape, value.shape)[p.start_axis]
    places = int((mask != 0).sum()) if count != 1 else 1
    if count != places:
        raise MXNetError(
            f"Check failed: static_cast<size_t>(valid_num) == vshape[start_axis] ({places} vs. {count}) : boolean array "
            f"indexing assignment cannot assign {count} input values to the {places} output values where the mask is true"
        )


@operator(
    "_npi_boolean_mask_assign_tensor",
    "data mask value",
    params={"start_axis": Int(0, "the first axis that the mask covers")},
    dtypes="T*T",
    no_gradient=("mask",),
    check_arrays=_check_number,
    samples=(
        sample([(3, 4), (3, 4), (12,)], positions={1: (1, 1)}),
        sample([(2, 3, 4), (3,), (2, 3, 4)], {"start_axis": 1}, {1: (1, 1)}),
        sample([(3, 4), (3,), (1, 4)], positions={1: (0, 1)}),
        sample([(3, 4), (3,), ()], positions={1: (0, 1)}),
    ),
)
def boolean_mask_assign_tensor(b: Builder, p: Values, data: Node, mask: Node, value: Node) -> Node:
    """The data with the entries of an array, one after the other, where the mask holds."""
    start = p.start_axis
    here = _mask_places(b, data, mask, start)
    entries = b.reshape(value, _entries(data.shape, mask.shape, value.shape))
    covered: tuple[int, ...] = (1,) * mask.ndim
    if entries.shape[start] != 1:  # the k-th place takes the k-th entry
        order = b.cumsum(b.cast(b.reshape(truth(b, mask), (mask.size,)), i64), axis=0) - 1
        entries = b.take(entries, b.max(b.min(order, entries.shape[start] - 1), 0), axis=start)
        covered = mask.shape
    entries = b.reshape(entries, (*entries.shape[:start], *covered, *entries.shape[start + 1 :]))
    return b.select(here, b.broadcast(entries, data.shape), data)


@operator(
    "_npi_share_memory",
    "a b",
    dtypes="**",
    differentiable=False,
    eager=lambda xp, p, a, b: [xp.asarray(bool(xp.may_share_memory(a, b)))],
    result_dtype=lambda p, d: bool_,
    samples=(sample([(3,), (2, 2)]),),
)
def share_memory(b: Builder, p: Values, x: Node, y: Node) -> Node:
    """Whether two arrays lie in the same memory, which no graph knows."""
    raise MXNetError("share_memory: a graph does not know where arrays lie\nCall it on arrays.")


# -- functions


@np_function("take")
def take(F: Any, a: Any, indices: Any, axis: int | None = None, mode: str = "raise", out: Any = None) -> Any:
    """Entries along an axis, or of the flattened array; the shape of the indices takes the place of the axis."""
    if mode not in ("wrap", "clip", "raise"):
        raise NotImplementedError(f"function take does not support mode '{mode}'")
    if axis is None:
        a, axis = F.invoke("_npi_reshape", (a,), {"newshape": -1}), 0
    return F.invoke("_npi_take", (a, indices), {"axis": axis, "mode": mode}, out)


def _need_no_order(order: Any) -> None:
    if order is not None:
        raise NotImplementedError("order not supported here")


@np_function("sort")
def sort(F: Any, a: Any, axis: int | None = -1, kind: Any = None, order: Any = None) -> Any:
    """The elements in ascending order along an axis; axis None flattens."""
    _need_no_order(order)
    return F.invoke("_npi_sort", (a,), {"axis": axis, "is_ascend": True})


@np_function("argsort")
def argsort(F: Any, a: Any, axis: int | None = -1, kind: Any = None, order: Any = None) -> Any:
    """The positions (int64) of the elements in ascending order along an axis; axis None flattens."""
    _need_no_order(order)
    return F.invoke("_npi_argsort", (a,), {"axis": axis, "is_ascend": True, "dtype": "int64"})


@np_function("shares_memory", "may_share_memory")
def shares_memory(F: Any, a: Any, b: Any, max_work: Any = None) -> bool:
    """Whether two arrays lie in the same memory."""
    return F.invoke("_npi_share_memory", (a, b)).item()


derived_operator(
    "_npi_unravel_index _npi_unravel_index_fallback",
    "_unravel_index",
    inputs="indices",
    custom_type="unravel_index_fallback",
    doc="Coordinates of flat positions: a new first axis, one entry an axis of ``shape``. MXNet finds them in Python.",
)


@np_function("unravel_index")
def unravel_index(F: Any, indices: Any, shape: Any, order: str = "C") -> tuple[Any, ...]:
    """The coordinates of positions in the flattened array, an array an axis."""
    if order != "C":
        raise NotImplementedError("Do not support column-major (Fortran-style) order at this moment")
    if isinstance(indices, numeric_types):
        return np.unravel_index(int(indices), shape)
    coordinates = F.invoke("_npi_unravel_index", (indices,), {"shape": shape})
    return coordinates if F.symbolic else tuple(coordinates)  # a graph has them as the rows of one array
