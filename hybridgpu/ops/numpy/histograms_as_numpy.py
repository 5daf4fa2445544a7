# SPDX-License-Identifier: Apache-2.0
"""Histograms of np that MXNet leaves to NumPy: histogram2d, histogramdd, histogram_bin_edges.

The operators are Hybridgpu's own, with NumPy's types and errors.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ...base import ParameterError, numeric_types
from ...compiler.ir import Builder, Node
from ...core.dtypes import DType, f64, i64
from ..params import Bool, Dtype, Floats, Int, Values
from ..record import operator, sample
from .application import np_function_or_host
from .elementwise_as_numpy import common_float, need_arrays
from .positions_as_numpy import search

__all__: list[str] = []

# -- edges


def _check_finite(xp: Any, p: Values, a: Any) -> None:
    if a.size and p.range is None and not (xp.isfinite(a.min()) and xp.isfinite(a.max())):
        raise ValueError(f"autodetected range of [{a.min()}, {a.max()}] is not finite")


def _edge_type(p: Values, dtypes: Any) -> DType | None:
    return p.dtype or (dtypes[0] and common_float(dtypes[0]))


@operator(
    "_npi_histogram_bin_edges",
    "a",
    params={
        "bins": Int(10, "how many bins", low=1),
        "range": Floats(
            None, "the first and the last edge, or None for those of the data", optional=True, single=False
        ),
        "dtype": Dtype(None, "element type of the edges; None for that of the data", optional=True),
    },
    result_dtype=_edge_type,
    check_arrays=_check_finite,
    samples=(
        sample([(3, 5)], {"bins": 4}),
        sample([(5,)], {"bins": 3, "range": (-1, 2.5)}),
        sample([(1,)], {"bins": 2}),
    ),
)
def histogram_bin_edges(b: Builder, p: Values, a: Node) -> Node:
    """The edges of bins of one width. Hybridgpu's own."""
    if p.range is not None:
        if len(p.range) != 2 or p.range[0] > p.range[1]:
            raise ParameterError("max must be larger than min in range parameter.")
        low, high = (b.full((1,), v, f64) for v in p.range)
    elif a.size:
        low, high = (b.reshape(b.cast(b.reduce(how, a), f64), (1,)) for how in ("amin", "amax"))
    else:
        low, high = b.full((1,), 0, f64), b.full((1,), 1, f64)
    same = b.eq(low, high)
    low, high = b.select(same, low - 0.5, low), b.select(same, high + 0.5, high)
    shape = (p.bins + 1,)
    part = b.iota(shape, 0, f64)
    edges = part * b.broadcast((high - low) / p.bins, shape) + b.broadcast(low, shape)
    return b.cast(b.select(b.eq(part, p.bins), b.broadcast(high, shape), edges), _edge_type(p, (a.dtype,)) or f64)


def _edges(F: Any, a: Any, bins: Any, range: Any, dtype: Any) -> Any:
    """The edges of bins along one axis.

    Raises:
        NotImplementedError: no number and no array.
    """
    if F.is_array(bins):
        return bins
    if isinstance(bins, bool) or not isinstance(bins, (int, np.integer)) or bins < 1:
        raise NotImplementedError("bins of operators are a number or an array of edges")
    if range is not None and not all(isinstance(v, numeric_types) for v in range):
        raise NotImplementedError("ranges of operators are numbers")
    limits = None if range is None else tuple(map(float, range))
    attributes = {"bins": int(bins), "range": limits, **({} if dtype is None else {"dtype": dtype})}
    return F.invoke("_npi_histogram_bin_edges", (a,), attributes)


@np_function_or_host("histogram_bin_edges")
def np_histogram_bin_edges(F: Any, a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:
    """The edges of bins of one width; where the bins are chosen by a rule, such as 'auto', values say how many."""
    need_arrays(F, a)
    return _edges(F, a, bins, range, None)


# -- counts


def _check_ascending(xp: Any, p: Values, *inputs: Any) -> None:
    for k, edges in enumerate(inputs[p.dims : 2 * p.dims]):
        if edges.ndim == 1 and (edges[:-1] > edges[1:]).any():
            raise ValueError(f"`bins[{k}]` must be monotonically increasing, when an array")


@operator(
    "_npi_histogramdd",
    "*data",
    params={
        "num_args": Int(doc="number of inputs", low=1),
        "dims": Int(doc="how many coordinates points have", low=1),
        "density": Bool(False, "integrate to 1 instead of counting"),
    },
    dtypes="*",
    count_param="num_args",
    result_dtype=lambda p, d: f64,
    check_arrays=_check_ascending,
    samples=(
        sample([(5,), (3,)], {"num_args": 2, "dims": 1}, {1: (1, 1)}),
        sample([(5,), (5,), (3,), (2,), (5,)], {"num_args": 5, "dims": 2}, {2: (1, 1), 3: (1, 1)}),
    ),
)
def histogramdd(b: Builder, p: Values, *data: Node) -> Node:
    """How many points lie in each box, or the sums of their weights: coordinates, edges along each axis, and weights if there
    are any. Hybridgpu's own."""
    columns, lines = data[: p.dims], data[p.dims : 2 * p.dims]
    if len(data) not in (2 * p.dims, 2 * p.dims + 1) or any(x.shape != data[0].shape or x.ndim != 1 for x in columns):
        raise ParameterError("coordinates must have the same length")
    if any(e.ndim != 1 or e.size < 2 for e in lines):
        raise ParameterError("edges are lines of two or more")
    (n,) = data[0].shape
    weights = b.full((n,), 1, f64) if len(data) == 2 * p.dims else b.cast(data[-1], f64)
    shape = tuple(e.size - 1 for e in lines)
    place, inside = b.full((n,), 0, i64), None
    for x, edges in zip(columns, lines, strict=True):
        count = edges.size - 1
        k = search(b, edges, x, True) - 1
        last = b.broadcast(b.slice(edges, (count,), (count + 1,)), (n,))
        k = b.select(b.eq(b.cast(x, f64), b.cast(last, f64)), b.full((n,), count - 1, i64), k)
        within = b.logical_and(b.ge(k, 0), b.lt(k, count))
        inside = within if inside is None else b.logical_and(inside, within)
        place = place * count + b.max(b.min(k, count - 1), 0)
    counted = b.select(inside, weights, b.full((n,), 0, f64))
    counts = b.reshape(b.scatter_add(counted, place, axis=0, extent=prod(shape)), shape)
    if not p.density:
        return counts
    total = b.sum(counts)
    for axis, edges in enumerate(lines):
        width = b.cast(b.slice(edges, (1,), edges.shape) - b.slice(edges, (0,), (edges.size - 1,)), f64)
        counts = counts / b.broadcast(
            b.reshape(width, tuple(d if j == axis else 1 for j, d in enumerate(shape))), shape
        )
    return counts / b.broadcast(b.reshape(total, (1,) * len(shape)), shape)


def _histogram(F: Any, columns: Any, bins: Any, range: Any, density: Any, weights: Any) -> tuple[Any, list[Any]]:
    need_arrays(F, *columns, *([] if weights is None else [weights]))
    dims = len(columns)
    bins = list(bins) if isinstance(bins, (list, tuple)) else [bins] * dims
    if len(bins) != dims or (range is not None and len(range) != dims):
        raise NotImplementedError("NumPy has the error for it")
    edges = [
        _edges(F, x, k, None if range is None else range[j], "float64")
        for j, (x, k) in enumerate(zip(columns, bins, strict=True))
    ]
    inputs = [*columns, *edges, *([] if weights is None else [weights])]
    attributes = {"num_args": len(inputs), "dims": dims, "density": bool(density)}
    return F.invoke("_npi_histogramdd", inputs, attributes), edges


# of NumPy 1, with the arguments that NumPy 2 left out, and with edges in double precision


def _wide(value: Any) -> Any:
    return value.astype("f8") if isinstance(value, np.ndarray) and value.dtype.kind == "f" else value


def _histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, normed: Any = None, weights: Any = None, density: Any = None
) -> Any:
    return np.histogram2d(_wide(x), _wide(y), bins, range, normed if density is None else density, weights)


def _histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, normed: Any = None, weights: Any = None, density: Any = None
) -> Any:
    points = [_wide(x) for x in sample] if isinstance(sample, (list, tuple)) else _wide(sample)
    return np.histogramdd(points, bins, range, normed if density is None else density, weights)


@np_function_or_host("histogram2d", _histogram2d)
def np_histogram2d(
    F: Any,
    x: Any,
    y: Any,
    bins: Any = 10,
    range: Any = None,
    normed: Any = None,
    weights: Any = None,
    density: Any = None,
) -> Any:
    """How many points lie in each rectangle, and the edges along both axes."""
    need_arrays(F, x, y)
    if isinstance(bins, (list, tuple)) and len(bins) != 2:
        raise NotImplementedError("bins of operators are a number or an array, or two of them")
    counts, edges = _histogram(F, [x, y], bins, range, normed if density is None else density, weights)
    return (counts, *edges)


@np_function_or_host("histogramdd", _histogramdd)
def np_histogramdd(
    F: Any,
    sample: Any,
    bins: Any = 10,
    range: Any = None,
    normed: Any = None,
    weights: Any = None,
    density: Any = None,
) -> Any:
    """How many points lie in each box, and the list of the edges along each axis; a point is a row, or there is a list of
    coordinates."""
    if F.is_array(sample):
        if F.symbolic or sample.ndim not in (1, 2) or not sample.size:
            raise NotImplementedError("points of a graph are a list of coordinates")
        sample = [sample] if sample.ndim == 1 else [sample[:, k] for k in np.arange(sample.shape[1]).tolist()]
    counts, edges = _histogram(F, list(sample), bins, range, normed if density is None else density, weights)
    return counts, edges
