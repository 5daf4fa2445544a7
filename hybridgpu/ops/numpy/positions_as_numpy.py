# SPDX-License-Identifier: Apache-2.0
"""Functions of np about positions that MXNet leaves to NumPy: searchsorted, digitize, interp, take_along_axis, isin,
choose, compress, extract, ix_, tril_indices_from.

The operators are Hybridgpu's own, with NumPy's types and errors. A search takes as many steps as NumPy's, all numbers at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base import ParameterError, numeric_types
from ...compiler.ir import Builder, Node
from ...core.dtypes import DType, dtype_of, f64, i64
from ..params import Bool, Double, Enum, Int, Values
from ..record import operator, sample
from .application import ArrayOrNumber, np_function_or_host
from .elementwise_as_numpy import need_arrays
from .reduce_as_numpy import axis_of, need_default

__all__ = ["common_type", "search"]


def common_type(*dtypes: DType) -> DType:
    """The type in which NumPy compares."""
    first = dtypes[0]
    return first if all(d is first for d in dtypes) else dtype_of(np.result_type(*(d.np for d in dtypes)))


def search(b: Builder, line: Node, x: Node, right: bool) -> Node:
    """How many elements of an ordered line stand before each ``x``; those that are equal count if ``right``. NaN is last."""
    dtype, n = common_type(line.dtype, x.dtype), line.size
    line, x = b.stop_gradient(b.cast(line, dtype)), b.stop_gradient(b.cast(x, dtype))
    count = b.full(x.shape, 0, i64)
    if not n:
        return count
    step = 1 << (n.bit_length() - 1)
    while step:
        place = count + step
        element = b.take(line, b.min(place, n) - 1, axis=0)
        before = b.le(element, x) if right else b.lt(element, x)
        if dtype.is_float:
            last = b.isnan(x) if right else b.logical_and(b.isnan(x), b.logical_not(b.isnan(element)))
            before = b.logical_or(before, last)
        count = b.select(b.logical_and(b.le(place, n), before), place, count)
        step >>= 1
    return count


def _need_line(line: Node, text: str) -> None:
    if line.ndim != 1:
        raise ParameterError(text)


@operator(
    "_npi_searchsorted",
    "a v",
    params={
        "side": Enum("left", "before or behind elements that are equal", choices=("left", "right")),
        "number": Double(None, "a number in the place of v", optional=True),
    },
    optional=lambda p: ["a", "v"] if p.number is None else ["a"],
    dtypes="**",
    differentiable=False,
    result_dtype=lambda p, d: i64,
    samples=(
        sample([(5,), (2, 3)], {}, {0: (1, 1)}),
        sample([(7,), ()], {"side": "right"}, {0: (1, 1)}),
        sample([(1,), (4,)], {}, {0: (1, 1)}),
        sample([(4,)], {"number": 1}, {0: (1, 1)}),
    ),
)
def searchsorted(b: Builder, p: Values, a: Node, v: Node | None = None) -> Node:
    """The positions at which numbers would keep an ordered array in order. Hybridgpu's own."""
    _need_line(a, "object too deep for desired array")
    if v is None:
        v = b.full((), p.number, a.dtype if a.dtype.is_float else f64)
    return search(b, a, v, p.side == "right")


@np_function_or_host("searchsorted")
def np_searchsorted(F: Any, a: Any, v: Any, side: str = "left", sorter: Any = None) -> ArrayOrNumber:
    """The positions at which numbers would keep an ordered array in order."""
    need_default(sorter=sorter)
    if side not in ("left", "right"):
        raise ValueError(f"search side must be 'left' or 'right' (got '{side}')")
    if isinstance(v, numeric_types):
        need_arrays(F, a)
        return F.number(F.invoke("_npi_searchsorted", (a,), {"side": side, "number": float(v)}))
    need_arrays(F, a, v)
    return F.number(F.invoke("_npi_searchsorted", (a, v), {"side": side}))


def _check_order(xp: Any, p: Values, x: Any, bins: Any) -> None:
    if bins.ndim == 1 and bins.size > 1 and not ((bins[1:] >= bins[:-1]).all() or (bins[1:] <= bins[:-1]).all()):
        raise ValueError("bins must be monotonically increasing or decreasing")


@operator(
    "_npi_digitize",
    "x bins",
    params={"right": Bool(False, "a bin holds its right edge, not its left one")},
    dtypes="**",
    differentiable=False,
    result_dtype=lambda p, d: i64,
    check_arrays=_check_order,
    samples=(
        sample([(2, 3), (5,)], {}, {1: (1, 1)}),
        sample([(4,), (3,)], {"right": True}, {1: (1, 1)}),
        sample([(), (1,)], {}, {1: (1, 1)}),
    ),
)
def digitize(b: Builder, p: Values, x: Node, bins: Node) -> Node:
    """The number of the bin of each element; edges may ascend or descend. Hybridgpu's own."""
    _need_line(
        bins, "object of too small depth for desired array" if not bins.ndim else "object too deep for desired array"
    )
    n = bins.shape[0]
    up = search(b, bins, x, not p.right)
    if n < 2:
        return up
    down = b.full(x.shape, n, i64) - search(b, b.reverse(bins, axes=(0,)), x, not p.right)
    falls = b.lt(b.slice(bins, (n - 1,), (n,)), b.slice(bins, (0,), (1,)))
    return b.select(b.broadcast(b.reshape(falls, (1,) * x.ndim), x.shape), down, up)


@np_function_or_host("digitize")
def np_digitize(F: Any, x: Any, bins: Any, right: bool = False) -> ArrayOrNumber:
    """The number of the bin of each element."""
    need_arrays(F, x, bins)
    return F.number(F.invoke("_npi_digitize", (x, bins), {"right": right}))


@operator(
    "_npi_interp",
    "x xp fp",
    params={
        "left": Double(None, "below the first position; None for the first value", optional=True),
        "right": Double(None, "above the last position; None for the last value", optional=True),
    },
    dtypes="***",
    result_dtype=lambda p, d: f64,
    samples=(
        sample([(2, 3), (1,), (1,)]),
        sample([(4,), (1,), (1,)], {"left": 1, "right": -1.5}),
    ),
)
def interp(b: Builder, p: Values, x: Node, xp: Node, fp: Node) -> Node:
    """Straight lines between points with ascending positions, in double precision. Hybridgpu's own."""
    if xp.ndim != 1 or fp.ndim != 1:
        raise ParameterError("object too deep for desired array")
    if not xp.size:
        raise ParameterError("array of sample points is empty")
    if xp.size != fp.size:
        raise ParameterError("fp and xp are not of the same length.")
    x, xp, fp = (b.cast(n, f64) for n in (x, xp, fp))
    n = xp.size
    first, last = (b.broadcast(b.reshape(b.item(fp, k), (1,) * x.ndim), x.shape) for k in (0, n - 1))
    start, end = (b.broadcast(b.reshape(b.item(xp, k), (1,) * x.ndim), x.shape) for k in (0, n - 1))
    below = first if p.left is None else b.full_like(x, p.left)
    above = last if p.right is None else b.full_like(x, p.right)
    y = last
    if n > 1:
        at = b.max(b.min(search(b, xp, x, True), n - 1) - 1, 0)
        x0, y0, x1, y1 = (
            b.take(xp, at, axis=0),
            b.take(fp, at, axis=0),
            b.take(xp, at + 1, axis=0),
            b.take(fp, at + 1, axis=0),
        )
        slope = (y1 - y0) / (x1 - x0)
        y = slope * (x - x0) + y0
        y = b.select(b.isnan(y), slope * (x - x1) + y1, y)  # towards a value or from a position that is infinite
        y = b.select(b.logical_or(b.eq(x, x0), b.logical_and(b.isnan(y), b.eq(y0, y1))), y0, y)
        y = b.select(b.eq(x, end), last, y)
    y = b.select(b.lt(x, start), below, b.select(b.gt(x, end), above, y))
    return b.select(b.isnan(x), x, y)


@np_function_or_host("interp")
def np_interp(
    F: Any, x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None
) -> ArrayOrNumber:
    """The values at ``x`` of straight lines between the points (xp, fp), in double precision."""
    need_default(period=period)
    need_arrays(F, x, xp, fp)
    if not all(v is None or isinstance(v, numeric_types) for v in (left, right)):
        raise NotImplementedError("left and right of operators are numbers")
    return F.number(F.invoke("_npi_interp", (x, xp, fp), {"left": left, "right": right}))


# -- reads along an axis


def _check_positions(xp: Any, p: Values, arr: Any, indices: Any) -> None:
    axis, a = (0, arr.reshape(-1)) if p.axis is None else (p.axis, arr)
    if indices.dtype.kind not in "iu" or indices.ndim != a.ndim or not -a.ndim <= axis < a.ndim or not indices.size:
        return
    n = a.shape[axis]
    for k in (int(indices.min()), int(indices.max())):
        if not -n <= k < n:
            raise IndexError(f"index {k} is out of bounds for axis {axis % a.ndim} with size {n}")


@operator(
    "_npi_take_along_axis",
    "arr indices",
    params={"axis": Int(None, "the axis; None for the flattened array", optional=True)},
    dtypes="**",
    no_gradient=("indices",),
    check_arrays=_check_positions,
    samples=(
        sample([(3, 5), (3, 2)], {"axis": 1}, {1: (-5, 4)}),
        sample([(3, 5), (1, 5)], {"axis": 0}, {1: (0, 2)}),
        sample([(3, 5), (1, 2)], {"axis": -1}, {1: (0, 4)}),
        sample([(2, 3), (4,)], {}, {1: (0, 5)}),
    ),
)
def take_along_axis(b: Builder, p: Values, arr: Node, indices: Node) -> Node:
    """The elements at positions along an axis, one position an element of the result. Hybridgpu's own."""
    x = b.reshape(arr, (arr.size,)) if p.axis is None else arr
    if x.ndim != indices.ndim:
        raise ParameterError(
            "when axis=None, `indices` must have a single dimension."
            if p.axis is None
            else "`indices` and `arr` must have the same number of dimensions"
        )
    axis = 0 if p.axis is None else axis_of(p.axis, x.ndim)
    pairs = [(d, e) for d, e in zip(x.shape, indices.shape, strict=True)]
    if any(d != e and 1 not in (d, e) for k, (d, e) in enumerate(pairs) if k != axis):
        raise ParameterError("shape mismatch: indexing arrays could not be broadcast together with shapes")
    wide = [max(d, e) if 0 not in (d, e) else 0 for d, e in pairs]
    at = b.broadcast(indices, (*wide[:axis], indices.shape[axis], *wide[axis + 1 :]))
    x = b.broadcast(x, (*wide[:axis], x.shape[axis], *wide[axis + 1 :]))
    at, n = b.cast(at, i64), x.shape[axis]
    at = b.max(b.min(b.select(b.lt(at, 0), at + n, at), n - 1), 0)
    return b.take_along(x, at, axis=axis)


@np_function_or_host("take_along_axis")
def np_take_along_axis(F: Any, arr: Any, indices: Any, axis: Any) -> Any:
    """The elements at positions along an axis; ``indices`` has as many axes as the array."""
    need_arrays(F, arr, indices)
    if not F.symbolic and not dtype_of(indices.dtype).is_integer:
        raise ParameterError("`indices` must be an integer array")
    return F.invoke("_npi_take_along_axis", (arr, indices), {"axis": axis})


# -- members


def _isin(F: Any, element: Any, test_elements: Any, invert: bool) -> Any:
    need_arrays(F, element, test_elements)
    if not F.symbolic and (element.dtype != test_elements.dtype or not test_elements.size or element.dtype == bool):
        raise NotImplementedError("operators search arrays of one type")
    line = F.function("sort")(test_elements.reshape(-1))
    nearest = F.function("take")(line, F.invoke("_npi_searchsorted", (line, element)), axis=0, mode="clip")
    return F.function("not_equal" if invert else "equal")(nearest, element)


@np_function_or_host("isin")
def np_isin(F: Any, element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False) -> Any:
    """Which elements are among others."""
    return _isin(F, element, test_elements, invert)


def _in1d(ar1: Any, ar2: Any, assume_unique: bool = False, invert: bool = False) -> Any:
    return np.isin(np.ravel(ar1), ar2, assume_unique=assume_unique, invert=invert)


@np_function_or_host("in1d", _in1d)
def np_in1d(F: Any, ar1: Any, ar2: Any, assume_unique: bool = False, invert: bool = False) -> Any:
    """Which elements of the flattened array are among others."""
    need_arrays(F, ar1)
    return _isin(F, ar1.reshape(-1), ar2, invert)


# -- choices


def _check_choices(xp: Any, p: Values, a: Any, *choices: Any) -> None:
    if p.mode == "raise" and a.size and not (a.min() >= 0 and a.max() < len(choices)):
        raise ValueError("invalid entry in choice array")


@operator(
    "_npi_choose",
    "*args",
    params={
        "num_args": Int(doc="number of inputs", low=2),
        "mode": Enum("raise", "what numbers out of range do", choices=("clip", "raise", "wrap")),
    },
    dtypes="*",
    count_param="num_args",
    result_dtype=lambda p, d: common_type(*d[1:]) if all(d[1:]) else None,  # type: ignore[arg-type]
    check_arrays=_check_choices,
    samples=(
        sample([(3,), (3,), (3,)], {"num_args": 3, "mode": "wrap"}, {0: (0, 4)}),
        sample([(2, 1), (3,), (2, 3), ()], {"num_args": 4, "mode": "clip"}, {0: (-1, 3)}),
    ),
)
def choose(b: Builder, p: Values, a: Node, *choices: Node) -> Node:
    """Elements of the array that the number at their place says. Hybridgpu's own."""
    dtype = common_type(*(c.dtype for c in choices))
    try:
        shape = np.broadcast_shapes(a.shape, *(c.shape for c in choices))
    except ValueError as e:
        raise ParameterError(str(e)) from None
    place = b.cast(a, i64)
    place = b.mod(place, b.full_like(place, len(choices))) if p.mode == "wrap" else place
    b.reserve(4 * len(choices))

    def whole(x: Node) -> Node:
        return b.broadcast(b.reshape(x, (1,) * (len(shape) - x.ndim) + x.shape), shape)

    place = whole(place)
    y = whole(b.cast(choices[0], dtype))
    for k, choice in enumerate(choices[1:], 1):
        y = b.select(b.ge(place, k), whole(b.cast(choice, dtype)), y)
    return y


@np_function_or_host("choose")
def np_choose(F: Any, a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Any:
    """Of several arrays the element of the one that the number at its place says."""
    need_default(out=out)
    if F.is_array(choices):
        if F.symbolic:
            raise NotImplementedError("choices of a graph are a list of arrays")
        choices = [choices[k] for k in range(choices.shape[0])]
    need_arrays(F, a, *choices)
    if mode not in ("clip", "raise", "wrap") or not choices or (not F.symbolic and a.dtype.kind == "f"):
        raise NotImplementedError("NumPy has the error for it")
    return F.number(F.invoke("_npi_choose", (a, *choices), {"num_args": 1 + len(choices), "mode": mode}))


# -- positions that do not depend on the values of arrays


def _of_values(condition: Any) -> np.ndarray:
    """Where a condition holds that is no array of np.

    Raises:
        NotImplementedError: it is one, so that the shape of the result depends on values.
    """
    if hasattr(condition, "_F") or (isinstance(condition, (list, tuple)) and any(hasattr(c, "_F") for c in condition)):
        raise NotImplementedError("conditions of operators are lists, or arrays of NumPy")
    return np.asarray(condition)


@np_function_or_host("compress")
def np_compress(F: Any, condition: Any, a: Any, axis: Any = None, out: Any = None) -> Any:
    """The entries along an axis, or of the flattened array, where a condition holds, which is a list in a graph."""
    need_default(out=out)
    need_arrays(F, a)
    condition = _of_values(condition)
    if condition.ndim != 1:
        raise NotImplementedError("NumPy has the error for it")
    places = np.flatnonzero(condition)
    if not F.symbolic and places.size and places[-1] >= (a.size if axis is None else a.shape[axis_of(axis, a.ndim)]):
        raise NotImplementedError("NumPy has the error for it")
    return F.function("take")(a, F.constant(places, a), axis=axis, mode="clip")


@np_function_or_host("extract")
def np_extract(F: Any, condition: Any, arr: Any) -> Any:
    """The elements of the flattened array where a condition holds, which is a list in a graph."""
    need_arrays(F, arr)
    places = np.flatnonzero(_of_values(condition))
    if not F.symbolic and places.size and places[-1] >= arr.size:
        raise NotImplementedError("NumPy has the error for it")
    return F.function("take")(arr, F.constant(places, arr), mode="clip")


@np_function_or_host("ix_")
def np_ix(F: Any, *args: Any) -> Any:
    """Lines of positions with an axis for each, so that they broadcast to the positions of all combinations."""
    need_arrays(F, *args)
    n = len(args)
    if not F.symbolic and any(x.ndim != 1 or x.dtype == bool or not x.size for x in args):
        raise NotImplementedError("NumPy decides it")
    return tuple(F.function("reshape")(x, (1,) * k + (-1,) + (1,) * (n - k - 1)) for k, x in enumerate(args))


def _of_triangle(name: str, positions: Any) -> None:
    @np_function_or_host(f"{name}_indices_from")
    def definition(F: Any, arr: Any, k: int = 0) -> Any:
        need_arrays(F, arr)
        if F.symbolic:
            raise NotImplementedError(f"{name}_indices_from of Symbols, whose shapes are not known")
        if arr.ndim != 2:
            raise ParameterError("input array must be 2-d")
        return tuple(F.constant(x, arr) for x in positions(arr.shape[0], k, arr.shape[1]))

    side = "Lower" if name == "tril" else "Upper"
    definition.__doc__ = f"{side} triangle of a matrix: the rows and the columns (int64) of its elements."


_of_triangle("tril", np.tril_indices)
_of_triangle("triu", np.triu_indices)
