# SPDX-License-Identifier: Apache-2.0
"""Regions of interest: windows whose place is data.

A region is a row (batch index, x1, y1, x2, y2) of an array (R, 5); one whose batch index names no
sample is empty. These run on whole arrays, a region at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...base import MXNetError
from ...core.dtypes import i64
from ..ir.graph import NO_DERIVATIVE, Builder, Node, Params, Primitive, not_differentiable
from ..ir.types import TensorType, tensor_type

__all__ = ["ROWS"]


def _infer(types: Sequence[TensorType], params: Params, numbers: int = 5) -> TensorType:
    data, rois = types
    if data.ndim != 4 or rois.ndim != 2 or rois.shape[1] != numbers:
        raise TypeError(f"regions {rois!r} of {data!r}")
    return tensor_type((rois.shape[0], data.shape[1], *params["pooled"]), data.dtype)


def _infer_argmax(types: Sequence[TensorType], params: Params) -> TensorType:
    return tensor_type(_infer(types, params).shape, i64)


def _infer_back(types: Sequence[TensorType], params: Params) -> TensorType:
    g, rois = types
    if g.ndim != 4 or rois.shape != (g.shape[0], 5):
        raise TypeError(f"cotangents {g!r} of regions {rois!r}")
    n, h, w = params["extent"]
    return tensor_type((n, g.shape[1], h, w), g.dtype)


def _on_host(xp: Any, rois: Any) -> Any:
    return np.asarray(rois if xp is np else xp.asnumpy(rois))


def _float(a: Any) -> Any:
    """Regions in the precision of their coordinates, at least single."""
    return a if a.dtype in (np.float32, np.float64) else a.astype(np.float32)


# -- the maximum of bins


def _bins(start: Any, end: Any, count: int, extent: int) -> tuple[Any, Any]:
    """First and last-plus-one positions (R, count) of the bins of regions along one axis."""
    size = np.maximum(end - start + 1, 1)[:, None] / start.dtype.type(count)
    k = np.arange(count, dtype=start.dtype)
    first = np.floor(k * size) + start[:, None]
    last = np.ceil((k + 1) * size) + start[:, None]
    return np.clip(first, 0, extent).astype(int), np.clip(last, 0, extent).astype(int)


def _argmax(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    """Flat position in the data of each bin's first maximum; -1 for empty bins."""
    data, rois = inputs
    n, c, h, w = data.shape
    rois = _float(_on_host(xp, rois))
    x = rois[:, 1:] * rois.dtype.type(params["scale"])
    x = np.copysign(np.floor(np.abs(x) + x.dtype.type(0.5)), x)  # halves away from zero
    rows = _bins(x[:, 1], x[:, 3], params["pooled"][0], h)
    columns = _bins(x[:, 0], x[:, 2], params["pooled"][1], w)
    y = xp.full(out.shape, -1, out.dtype.np)
    channel = xp.arange(c)
    for r, sample in enumerate(rois[:, 0]):
        if not -1 < sample < n:  # nor is NaN
            continue
        at = int(sample)
        for i, (top, bottom) in enumerate(zip(rows[0][r], rows[1][r], strict=True)):
            for j, (left, right) in enumerate(zip(columns[0][r], columns[1][r], strict=True)):
                if bottom > top and right > left:
                    part = data[at, :, top:bottom, left:right].reshape(c, -1).argmax(axis=1)
                    row, column = part // (right - left) + top, part % (right - left) + left
                    y[r, :, i, j] = ((at * c + channel) * h + row) * w + column
    return y


# -- averages of interpolated samples: linear, and a product of two matrices a region


def _weights(start: Any, end: Any, count: int, extent: int, params: Params) -> Any:
    """(R, count, extent): how much each element along an axis contributes to each bin; NaN in regions without end."""
    finite = np.isfinite(start) & np.isfinite(end)
    start, end = (np.where(finite, x, 0) for x in (start, end))
    length = end - start
    if not params["aligned"]:
        length = np.maximum(length, 1)
    size = (length / count)[:, None, None]
    samples = np.full_like(size, params["ratio"]) if params["ratio"] > 0 else np.maximum(np.ceil(size), 1)
    start, bins = start[:, None, None], np.arange(count)[:, None]
    # where there are many they lie half an element apart or more, and only those within the borders are looked at: a
    # region as large as a diverging net proposes has more than there is memory for
    most = int(samples.max(initial=1)) if params["ratio"] > 0 else int(min(samples.max(initial=1), 2 * extent + 8))
    first = np.where(samples > most, np.floor(((-1 - start) / size - bins) * samples) - 2, 0)
    k = np.maximum(first, 0) + np.arange(most)
    at = start + size * (bins + (k + 0.5) / samples)
    live = (k < samples) & (at >= -1) & (at <= extent)
    at = np.clip(at, 0, extent - 1)
    low = np.floor(at).astype(int)
    part = at - low
    weights = np.zeros((len(start), count, extent))
    region, bin_ = np.indices(low.shape)[:2]
    scale = live / samples
    np.add.at(weights, (region, bin_, low), (1 - part) * scale)
    np.add.at(weights, (region, bin_, np.minimum(low + 1, extent - 1)), part * scale)
    weights[~finite] = np.nan
    return weights


def _matrices(xp: Any, rois: Any, params: Params, h: int, w: int, dtype: Any) -> tuple[Any, Any, Any]:
    """(sample numbers on the host, row weights (R, PH, H), column weights (R, PW, W))."""
    host = _on_host(xp, rois).astype(np.float64)
    x = host[:, 1:] * params["scale"] - (0.5 if params["aligned"] else 0)
    rows = _weights(x[:, 1], x[:, 3], params["pooled"][0], h, params)
    columns = _weights(x[:, 0], x[:, 2], params["pooled"][1], w, params)
    return host[:, 0], xp.asarray(rows.astype(dtype)), xp.asarray(columns.astype(dtype))


def _mean_weights(start: Any, end: Any, count: int, extent: int) -> Any:
    """(R, count, extent): the same share for each element in a bin of regions between two edges."""
    size = np.maximum(end - start, start.dtype.type(0.1))[:, None] / start.dtype.type(count)
    k = np.arange(count, dtype=start.dtype)
    first = np.clip(np.floor(k * size + start[:, None]), 0, extent)[..., None]
    last = np.clip(np.ceil((k + 1) * size + start[:, None]), 0, extent)[..., None]
    at = np.arange(extent)
    return ((at >= first) & (at < last)) / np.maximum(last - first, 1)


def _mean_matrices(xp: Any, rois: Any, params: Params, h: int, w: int, dtype: Any) -> tuple[Any, Any, Any]:
    """Matrices as of ``_matrices``, for the means of whole elements."""
    host = _float(_on_host(xp, rois))
    corners = np.copysign(np.floor(np.abs(host[:, 1:]) + host.dtype.type(0.5)), host[:, 1:])  # halves away from zero
    corners[:, 2:] += 1
    x = corners * host.dtype.type(params["scale"])
    rows = _mean_weights(x[:, 1], x[:, 3], params["pooled"][0], h)
    columns = _mean_weights(x[:, 0], x[:, 2], params["pooled"][1], w)
    return host[:, 0], xp.asarray(rows.astype(dtype)), xp.asarray(columns.astype(dtype))


def _chosen(params: Params) -> Callable[..., tuple[Any, Any, Any]]:
    return _mean_matrices if params.get("whole") else _matrices


def _align(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    data, rois = inputs
    n, _, h, w = data.shape
    wide = np.float32 if data.dtype == np.float16 else data.dtype
    samples, rows, columns = _chosen(params)(xp, rois, params, h, w, wide)
    y = xp.zeros(out.shape, out.dtype.np)
    for r, sample in enumerate(samples):
        if 0 <= sample < n:
            y[r] = rows[r] @ data[int(sample)].astype(wide, copy=False) @ columns[r].T
    return y


def _align_back(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    g, rois = inputs
    n, _, h, w = out.shape
    wide = np.float32 if g.dtype == np.float16 else g.dtype
    samples, rows, columns = _chosen(params)(xp, rois, {**params, "pooled": g.shape[2:]}, h, w, wide)
    y = xp.zeros(out.shape, wide)
    for r, sample in enumerate(samples):
        if 0 <= sample < n:
            y[int(sample)] += rows[r].T @ g[r].astype(wide, copy=False) @ columns[r]
    return y.astype(out.dtype.np, copy=False)


def _vjp(b: Builder, g: Node, y: Node, inputs: Sequence[Node], params: Params) -> Sequence[Node | None]:
    n, _, h, w = inputs[0].shape
    rest = {k: v for k, v in params.items() if k != "pooled"}
    return [b.roi_align_back(g, inputs[1], **rest, extent=(n, h, w)), None]


def _vjp_back(b: Builder, g: Node, y: Node, inputs: Sequence[Node], params: Params) -> Sequence[Node | None]:
    rest = {k: v for k, v in params.items() if k != "extent"}
    return [b.roi_align(g, inputs[1], **rest, pooled=inputs[0].shape[2:]), None]


# -- regions that are turned: rows (batch index, x, y, width, height, degrees)

_MOST_SAMPLES = 1 << 12  #: of a bin along an axis: the square of it, for each channel, is held in memory


def _places(roi: Any, params: Params) -> tuple[Any, Any]:
    """x and y of the samples of a region, both (PH, PW, samples)."""
    centre, (width, height) = roi[1:3] * params["scale"], np.maximum(roi[3:5] * params["scale"], 1)
    lines = []
    for length, count in zip((height, width), params["pooled"], strict=True):
        samples = params["ratio"] if params["ratio"] > 0 else int(np.ceil(length / count))
        if samples > _MOST_SAMPLES:
            raise MXNetError(f"Check failed: a region of {length:g} elements is too large for {count} bins")
        inner = np.arange(count)[:, None] + (np.arange(samples) + 0.5) / samples
        lines.append(inner * (length / count) - length / 2)
    (rows, down), (columns, across) = lines[0].shape, lines[1].shape
    shape = (rows, columns, down, across)
    y = np.broadcast_to(lines[0][:, None, :, None], shape).reshape(rows, columns, -1)
    x = np.broadcast_to(lines[1][None, :, None, :], shape).reshape(rows, columns, -1)
    angle = np.deg2rad(roi[5])
    cosine, sine = np.cos(angle), np.sin(angle)
    return x * cosine + y * sine + centre[0], y * cosine - x * sine + centre[1]


def _turned(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    data, rois = inputs
    n, c, h, w = data.shape
    wide = data.astype(np.float32) if data.dtype == np.float16 else data
    y = xp.zeros(out.shape, out.dtype.np)
    for r, roi in enumerate(_on_host(xp, rois).astype(np.float64)):
        if not 0 <= roi[0] < n:
            continue
        if not np.isfinite(roi).all():
            y[r] = np.nan
            continue
        corners: list[list[tuple[Any, Any]]] = []
        live: Any = True
        for at, extent in zip(_places(roi, params), (w, h), strict=True):
            live = live & (at >= -1) & (at <= extent)
            at = np.clip(at, 0, extent - 1)
            low = np.floor(at).astype(int)
            corners.append([(low, low + 1 - at), (np.minimum(low + 1, extent - 1), at - low)])
        image = wide[int(roi[0])].reshape(c, h * w)
        total = 0.0
        for column, across in corners[0]:
            for row, down in corners[1]:
                share = xp.asarray((across * down * live).astype(wide.dtype))
                total = total + image[:, xp.asarray(row * w + column)] * share
        y[r] = xp.asarray(total).mean(axis=-1)
    return y


ROWS = [
    Primitive(
        "roi_align_turned",
        "library",
        partial(_infer, numbers=6),
        _turned,
        not_differentiable("_contrib_RROIAlign", "Cut the gradient before it with BlockGrad."),
        doc="roi_align of turned regions",
    ),
    Primitive("roi_argmax", "library", _infer_argmax, _argmax, NO_DERIVATIVE, doc="where each bin's maximum lies"),
    Primitive("roi_align", "library", _infer, _align, _vjp, doc="averages of interpolated samples in each bin"),
    Primitive("roi_align_back", "library", _infer_back, _align_back, _vjp_back, doc="the transpose of roi_align"),
]
