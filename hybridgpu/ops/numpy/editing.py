# SPDX-License-Identifier: Apache-2.0
"""Elements put into an array, taken out of it, or told apart: np.insert, delete, unique."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base import MXNetError, integer_types, numeric_types
from ...compiler.ir import Builder, Node
from ...core.dtypes import i64
from ..params import Bool, Double, Int, Param, Values
from ..record import operator, sample
from .application import ArrayOrList, np_function
from .derive import no_gradient

__all__: list[str] = []

_WHERE: dict[str, Param] = {
    "start": Int(None, "of a slice", optional=True),
    "stop": Int(None, "of a slice", optional=True),
    "step": Int(None, "of a slice", optional=True),
    "int_ind": Int(None, "a position", optional=True),
    "axis": Int(None, "the axis; None for the flattened array", optional=True),
}
_INSERT: dict[str, Param] = {"val": Double(None, "a number, or None for an array of values", optional=True), **_WHERE}


def _axis(axis: int | None, ndim: int) -> int:
    if axis is None:
        return 0
    if not -ndim <= axis < ndim:
        raise MXNetError(
            "Check failed: axis >= -1 * arrshape.ndim() && axis < arrshape.ndim(): Axis should be in the range of [-r, r-1] "
            "where r is the rank of input tensor"
        )
    return axis % ndim


# -- insert


def _out_of_range() -> MXNetError:
    return MXNetError(
        "Check failed: index >= -1 * N && index <= N: Index should be in the range of [-r, r-1] where r is the dim size in "
        "'axis'"
    )


def _values(b: Builder, p: Values, values: Node | None, like: Node, axis: int, one_place: bool) -> Node:
    """What is put in, with as many axes as the array; along ``axis`` the values of one place."""
    if values is None:
        number = p.val if like.dtype.is_float else int(p.val)
        return b.full((1,) * like.ndim, number, like.dtype)
    y = b.cast(values, like.dtype)
    if y.ndim > like.ndim:
        raise MXNetError(f"Check failed: values of {y.ndim} axes do not fit into an array of {like.ndim}")
    y = b.reshape(y, (*(1,) * (like.ndim - y.ndim), *y.shape))
    if not one_place:
        return y
    perm = [*range(1, like.ndim)]
    perm.insert(axis, 0)
    return b.transpose(y, perm)


def _spread(b: Builder, values: Node, like: Node, axis: int, count: int) -> Node:
    """Values broadcast to the array with another extent of one axis."""
    shape = tuple(count if k == axis else d for k, d in enumerate(like.shape))
    try:
        return b.broadcast(values, shape)
    except (TypeError, ValueError):
        raise MXNetError(f"Check failed: values of shape {list(values.shape)} do not fit into {list(shape)}") from None


def _insert_at(b: Builder, x: Node, axis: int, position: int, values: Node) -> Node:
    n = x.shape[axis]
    if not -n <= position <= n:
        raise _out_of_range()
    position += n if position < 0 else 0
    values = _spread(b, values, x, axis, values.shape[axis])
    return b.concat([b.slice_axis(x, axis, 0, position), values, b.slice_axis(x, axis, position, n)], axis)


def _insert_many(b: Builder, x: Node, axis: int, positions: Node, values: Node) -> Node:
    """With a value at each of several positions; those at one position keep their order."""
    n, count = x.shape[axis], positions.size
    if not count:
        return b.copy(x)
    square, total = (count, count), n + count
    own = b.broadcast(b.reshape(positions, (count, 1)), square)
    other = b.broadcast(b.reshape(positions, (1, count)), square)
    earlier = b.lt(b.iota(square, 1, i64), b.iota(square, 0, i64))
    before = b.logical_or(b.lt(other, own), b.logical_and(b.eq(other, own), earlier))
    place = positions + b.sum(b.cast(before, i64), (1,))  # of each value in the result
    grid = (total, count)
    here = b.iota(grid, 0, i64)
    places = b.broadcast(b.reshape(place, (1, count)), grid)
    is_new = b.cast(b.eq(here, places), i64)
    source = b.iota((total,), 0, i64) - b.sum(b.cast(b.lt(places, here), i64), (1,))
    number = b.sum(is_new * b.iota(grid, 1, i64), (1,))
    inserted = b.ne(b.sum(is_new, (1,)), 0)
    new = b.take(_spread(b, values, x, axis, count), number, axis=axis)
    if not n:
        return new
    old = b.take(x, b.min(b.max(source, 0), n - 1), axis=axis)
    along = tuple(total if k == axis else 1 for k in range(x.ndim))
    return b.select(b.broadcast(b.reshape(inserted, along), new.shape), new, old)


def _target(b: Builder, p: Values, arr: Node) -> tuple[Node, int]:
    x = b.reshape(arr, (arr.size,)) if p.axis is None else arr
    return x, _axis(p.axis, x.ndim)


def _value_inputs(*names: str) -> Any:
    return lambda p: [n for n in names if n != "values" or p.val is None]


@operator(
    "_npi_insert_scalar",
    "arr values",
    params=dict(_INSERT),
    optional=_value_inputs("arr", "values"),
    dtypes="**",
    result_dtype=lambda p, d: d[0],
    samples=(
        sample([(3,)], {"val": 5, "int_ind": 1}),
        sample([(3, 2), (3,)], {"int_ind": 1, "axis": 1}),
        sample([(3, 2), (2, 2)], {"int_ind": -1, "axis": 0}),
    ),
)
def insert_scalar(b: Builder, p: Values, arr: Node, values: Node | None = None) -> Node:
    """The array with values before a position."""
    x, axis = _target(b, p, arr)
    return _insert_at(b, x, axis, p.int_ind, _values(b, p, values, x, axis, True))


@operator(
    "_npi_insert_slice",
    "arr values",
    params=dict(_INSERT),
    optional=_value_inputs("arr", "values"),
    dtypes="**",
    result_dtype=lambda p, d: d[0],
    samples=(
        sample([(4,)], {"val": 5, "start": 1, "stop": 3, "step": 1}),
        sample([(3, 4), (3, 2)], {"step": 2, "axis": 1}),
        sample([(4,), (4,)], {"start": 3, "step": -1}),
    ),
)
def insert_slice(b: Builder, p: Values, arr: Node, values: Node | None = None) -> Node:
    """The array with values before the positions of a slice."""
    x, axis = _target(b, p, arr)
    places = range(*slice(p.start, p.stop, p.step).indices(x.shape[axis]))
    if len(places) == 1:
        return _insert_at(b, x, axis, places[0], _values(b, p, values, x, axis, False))
    positions = b.iota((len(places),), 0, i64) * places.step + places.start
    return _insert_many(b, x, axis, positions, _values(b, p, values, x, axis, False))


def _check_positions(xp: Any, p: Values, *arrays: Any) -> None:
    arr, positions = arrays[0], arrays[-1]
    n = arr.size if p.axis is None else arr.shape[_axis(p.axis, arr.ndim)]
    if ((positions < -n) | (positions > n)).any():
        raise _out_of_range()


@operator(
    "_npi_insert_tensor",
    "arr values obj",
    params=dict(_INSERT),
    optional=_value_inputs("arr", "values", "obj"),
    dtypes="***",
    result_dtype=lambda p, d: d[0],
    check_arrays=_check_positions,
    no_gradient=("obj",),
    samples=(
        sample([(4,), (3,)], {"val": 5}, {1: (0, 4)}),
        sample([(3, 2), (4, 2), (4,)], {"axis": 0}, {2: (-3, 3)}),
        sample([(3,), (2,), (1,)], {}, {2: (0, 3)}),
    ),
)
def insert_tensor(b: Builder, p: Values, arr: Node, *others: Node) -> Node:
    """The array with values before the positions of an array, of any number type (in MXNet int64)."""
    obj = others[-1]
    if obj.ndim > 1:
        raise MXNetError(f"Check failed: obj.ndim() <= 1 ({obj.ndim} vs. 1) : positions are a number or a vector")
    x, axis = _target(b, p, arr)
    values = _values(b, p, others[0] if p.val is None else None, x, axis, obj.ndim == 0)
    n = x.shape[axis]
    positions = b.cast(b.reshape(obj, (obj.size,)), i64)
    positions = b.select(b.lt(positions, 0), positions + n, positions)
    if obj.size == 1:  # all values go there
        count = values.shape[axis]
        positions = b.broadcast(positions, (count,))
    return _insert_many(b, x, axis, positions, values)


def _slice_attributes(obj: slice) -> dict[str, Any]:
    return {"start": obj.start, "stop": obj.stop, "step": 1 if obj.step is None else obj.step}


@np_function("insert")
def np_insert(F: Any, arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    """The array with values before the positions ``obj``: a number, a slice or an array."""
    inputs, attributes = [arr], {"axis": axis}
    if isinstance(values, numeric_types):
        attributes["val"] = values
    else:
        for name, x in (("arr", arr), ("values", values)):
            if not F.is_array(x):
                raise TypeError(f"'{name}' can not support type {type(x)}")
        inputs.append(values)
    if isinstance(obj, slice):
        return F.invoke("_npi_insert_slice", inputs, {**attributes, **_slice_attributes(obj)})
    if isinstance(obj, integer_types):
        return F.invoke("_npi_insert_scalar", inputs, {**attributes, "int_ind": obj})
    if F.is_array(obj):
        return F.invoke("_npi_insert_tensor", [*inputs, obj], attributes)
    raise TypeError(f"'obj' can not support type {type(obj)}")


# -- delete


def _kept(p: Values, n: int, obj: Any) -> np.ndarray[Any, Any]:
    """Positions along the axis that stay."""
    keep = np.ones(n, bool)
    if obj is not None:
        at = obj.reshape(-1).astype(np.int64)
        keep[at[(at >= 0) & (at < n)]] = False  # others do not count, as in MXNet
    elif p.int_ind is not None:
        if not -n <= p.int_ind < n:
            raise MXNetError(
                f"Check failed: (index >= -1 * N) && (index < N): index {p.int_ind} is out of bounds for axis 0 with size {n}"
            )
        keep[p.int_ind] = False
    else:
        keep[slice(p.start, p.stop, p.step)] = False
    return np.flatnonzero(keep)


def _delete_line(xp: Any, p: Values, arr: Any, obj: Any) -> tuple[Any, int, Any]:
    """The array as it is cut, the axis, and the positions that stay."""
    if arr.dtype == bool or (obj is not None and obj.dtype == bool):
        raise MXNetError("Unknown type enum 7")
    if p.axis is not None and not -arr.ndim <= p.axis < arr.ndim:
        raise MXNetError(
            f"Check failed: axis < ndim && axis >= -ndim: axis {p.axis} exceeds the input dimension of {arr.ndim}"
        )
    x = arr.reshape(-1) if p.axis is None else arr
    axis = 0 if p.axis is None else p.axis % arr.ndim
    host = obj if obj is None or xp is np else xp.asnumpy(obj)
    return x, axis, xp.asarray(_kept(p, x.shape[axis], host))


def _deleted(xp: Any, p: Values, arr: Any, obj: Any = None) -> list[Any]:
    x, axis, remaining = _delete_line(xp, p, arr, obj)
    return [xp.take(x, remaining, axis=axis)]


def _delete_gradient(xp: Any, p: Values, cotangents: Any, inputs: Sequence[Any], outputs: Any) -> list[Any]:
    x, axis, remaining = _delete_line(xp, p, inputs[0], inputs[1] if len(inputs) > 1 else None)
    y = xp.zeros_like(x)
    y[(slice(None),) * axis + (remaining,)] = cotangents[0]
    return [y.reshape(inputs[0].shape), *[None] * (len(inputs) - 1)]


@operator(
    "_npi_delete",
    "arr obj",
    params=dict(_WHERE),
    optional=lambda p: ["arr"] if p.int_ind is not None or p.step is not None else ["arr", "obj"],
    dtypes="**",
    result_dtype=lambda p, d: d[0],
    eager=_deleted,
    eager_gradient=_delete_gradient,
    samples=(
        sample([(3, 4)], {"int_ind": 1, "axis": 1}),
        sample([(3, 4)], {"step": 2}),
        sample([(5,), (2,)], {}, {1: (0, 4)}),
    ),
)
def delete(b: Builder, p: Values, arr: Node, obj: Node | None = None) -> Node:
    """The array without some positions. How many they are can depend on values, so a program ends here."""
    raise MXNetError(
        "delete: the shape of the result depends on values, which a graph of fixed shapes does not have\n"
        "Call it on arrays, or join slices with np.concatenate."
    )


@np_function("delete")
def np_delete(F: Any, arr: Any, obj: Any, axis: Any = None) -> Any:
    """The array without the positions ``obj``: a number, a slice or an array."""
    if not F.is_array(arr):
        raise TypeError(f"'arr' can not support type {type(arr)}")
    if isinstance(obj, slice):
        return F.invoke("_npi_delete", (arr,), {**_slice_attributes(obj), "axis": axis})
    if isinstance(obj, integer_types):
        return F.invoke("_npi_delete", (arr,), {"int_ind": obj, "axis": axis})
    if F.is_array(obj):
        return F.invoke("_npi_delete", (arr, obj), {"axis": axis})
    raise TypeError(f"'obj' can not support type {type(obj)}")


# -- unique


def _distinct(xp: Any, p: Values, data: Any) -> list[Any]:
    """On the host where CuPy's function has no axis."""
    if data.dtype == bool:
        raise MXNetError("Unknown type enum 7")
    if p.axis is not None and not -data.ndim <= p.axis < data.ndim:
        raise MXNetError(
            "Check failed: param.axis.value() >= -1 * inputs[0].shape().ndim() && param.axis.value() < "
            "inputs[0].shape().ndim(): Axis should be in the range of [-r, r-1] where r is the rank of input tensor"
        )
    where = np if p.axis is not None else xp
    x = data if where is xp else xp.asnumpy(data)
    flags = {"return_index": p.return_index, "return_inverse": p.return_inverse, "return_counts": p.return_counts}
    axis = {} if p.axis is None else {"axis": p.axis}
    results = where.unique(x.reshape(-1) if p.axis is None else x, **flags, **axis)
    results = list(results) if isinstance(results, tuple) else [results]
    return [xp.asarray(results[0]), *(xp.asarray(y.reshape(-1)).astype(xp.int64) for y in results[1:])]


@operator(
    "_npi_unique",
    params={
        "return_index": Bool(False, "where each first occurs"),
        "return_inverse": Bool(False, "which one each element is"),
        "return_counts": Bool(False, "how often each occurs"),
        "axis": Int(None, "compare what lies along an axis; None for the elements", optional=True),
    },
    outputs=lambda p: 1 + p.return_index + p.return_inverse + p.return_counts,
    result_dtype=lambda p, d: (d[0], *(i64,) * (p.return_index + p.return_inverse + p.return_counts)),
    eager=_distinct,
    eager_gradient=no_gradient,
    differentiable=False,
    samples=(
        sample([(3, 4)]),
        sample([(3, 2)], {"axis": 0, "return_counts": True}),
        sample([(6,)], {"return_index": True, "return_inverse": True}),
    ),
)
def unique(b: Builder, p: Values, data: Node) -> Node:
    """The different elements in order. How many there are depends on values, so a program ends here."""
    raise MXNetError(
        "unique: the shape of the result depends on values, which a graph of fixed shapes does not have\nCall it on arrays."
    )


@np_function("unique")
def np_unique(
    F: Any,
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Any = None,
) -> ArrayOrList:
    """The different elements in order; where each first occurs, which one each element is, how often each occurs."""
    attributes = {
        "return_index": return_index,
        "return_inverse": return_inverse,
        "return_counts": return_counts,
        "axis": axis,
    }
    results = F.invoke("_npi_unique", (ar,), attributes)
    return tuple(results) if isinstance(results, list) else results
