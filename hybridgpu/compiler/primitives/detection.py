# SPDX-License-Identifier: Apache-2.0
"""Choices among boxes: suppression of what overlaps, matches, proposals.

Each decision depends on those before it, so these run on the host, a sample at a time.
Boxes are rows (x1, y1, x2, y2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...base import MXNetError
from ...core.dtypes import i64
from ..ir.graph import NO_DERIVATIVE, Params, Primitive
from ..ir.types import TensorType, tensor_type

__all__ = ["ROWS"]

IGNORED, NEGATIVE = -1, -2  #: anchors that match nothing, and those that are examples of the background


def _on_host(run: Callable[..., Any]) -> Callable[..., Any]:
    """A primitive's evaluation from ``run(arrays, params, out)`` on NumPy arrays."""

    def evaluate(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
        arrays = [np.asarray(x if xp is np else xp.asnumpy(x)) for x in inputs]
        return xp.asarray(run(arrays, params, out).astype(out.dtype.np, copy=False))

    return evaluate


def _wide(x: Any) -> Any:
    return x.astype(np.float32) if x.dtype.itemsize < 4 else x


def _suppress(
    boxes: Any,
    beats: Callable[[Any], Any],
    kinds: Any = None,
    most: int | None = None,
    extra: int = 0,
    guard: bool = False,
) -> list[int]:
    """Numbers of the boxes that stay, best first: each removes those after it that it overlaps too much.

    Args:
        beats: whether an intersection over union removes.
        kinds: boxes compete with those of the same kind; None: with all.
        extra: counts pixels (1) instead of distances.
        guard: boxes of negative extents have no area.
    """
    extents = boxes[:, 2:] - boxes[:, :2] + extra
    area = np.prod(extents, axis=1)
    if guard:
        area = np.where((extents < 0).any(axis=1), 0, area)
    # those that nothing has removed yet; by columns, since a pass over them is all the time that this takes
    number, corners = np.arange(len(boxes)), np.ascontiguousarray(boxes.T)
    survivors: list[int] = []
    while len(number) and (most is None or len(survivors) < most):
        survivors.append(int(number[0]))
        left, top, right, bottom = corners[:, :1]
        width = np.minimum(right, corners[2, 1:]) - np.maximum(left, corners[0, 1:]) + extra
        height = np.minimum(bottom, corners[3, 1:]) - np.maximum(top, corners[1, 1:]) + extra
        common = np.maximum(width, 0) * np.maximum(height, 0)
        union = area[:1] + area[1:] - common
        stay = ~beats(np.divide(common, union, out=np.zeros_like(common), where=union > 0))
        if kinds is not None:
            stay |= kinds[1:] != kinds[0]
        if stay.all():  # the usual case, without copies
            number, corners, area = number[1:], corners[:, 1:], area[1:]
            kinds = kinds if kinds is None else kinds[1:]
        else:
            number, corners, area = number[1:][stay], corners[:, 1:][:, stay], area[1:][stay]
            kinds = kinds if kinds is None else kinds[1:][stay]
    return survivors


# -- non-maximum suppression: positions of the rows that stay, -1 behind them


def _infer_per_row(types: Sequence[TensorType], params: Params) -> TensorType:
    if types[0].ndim != 3:
        raise TypeError(f"three axes are needed, not {types[0]!r}")
    return tensor_type(types[0].shape[:2], i64)


def _order(arrays: Sequence[Any], params: Params, out: TensorType) -> Any:
    y = np.full(out.shape, -1)
    for b, rows in enumerate(_wide(arrays[0])):
        scores, at = rows[:, params["score"]], params["coordinates"]
        classes = rows[:, params["class_"]] if params["class_"] >= 0 else None
        valid = scores > params["valid"]
        if classes is not None:
            valid &= classes != params["background"]
        candidates = np.flatnonzero(valid)
        candidates = candidates[np.argsort(-scores[candidates], kind="stable")][: params["most"]]
        boxes = rows[candidates, at : at + 4]
        if params["centred"]:
            half = boxes[:, 2:] / 2
            boxes = np.concatenate([boxes[:, :2] - half, boxes[:, :2] + half], axis=1)
        kinds = None if classes is None or params["force"] else classes[candidates].astype(int)

        survivors = candidates[_suppress(boxes, lambda overlap: overlap > params["threshold"], kinds, guard=True)]
        y[b, : len(survivors)] = survivors
    return y


# -- matches


def _bipartite(arrays: Sequence[Any], params: Params, out: TensorType) -> Any:
    """The column of each row, best scores first; -1 for none."""
    scores, threshold, most = _wide(arrays[0]), params["threshold"], params["most"]
    y = np.full(out.shape, -1)
    for b, matrix in enumerate(scores):
        flat = matrix.reshape(-1)
        taken, count = np.zeros(matrix.shape[1], bool), 0
        for at in np.argsort(flat if params["ascending"] else -flat, kind="stable"):
            r, c = divmod(int(at), matrix.shape[1])
            if y[b, r] >= 0 or taken[c]:
                continue
            if not (flat[at] < threshold if params["ascending"] else flat[at] > threshold):
                break
            y[b, r], taken[c], count = c, True, count + 1
            if 0 < most < count:
                break
    return y


def _anchors(arrays: Sequence[Any], params: Params, out: TensorType) -> Any:
    """The label of each anchor, or IGNORED or NEGATIVE."""
    overlaps, classes, background = map(_wide, arrays)
    y = np.full(out.shape, IGNORED)
    for b, matrix in enumerate(overlaps):
        ends = np.flatnonzero(classes[b] == -1)
        matrix = matrix[:, : ends[0]] if len(ends) else matrix
        if matrix.shape[1]:
            y[b] = _anchors_of_one(matrix, background[b], params)
    return y


def _anchors_of_one(matrix: Any, background: Any, params: Params) -> Any:
    y = np.full(len(matrix), IGNORED)
    free = matrix.astype(np.float64)
    for _ in range(min(matrix.shape)):  # every label takes its best anchor
        anchor, label = np.unravel_index(int(free.argmax()), free.shape)
        if free[anchor, label] <= 1e-6:
            break
        y[anchor] = label
        free[anchor, :] = free[:, label] = -1
    best = matrix.max(axis=1)
    if params["threshold"] > 0:
        over = (y == IGNORED) & (best > params["threshold"])
        y[over] = matrix.argmax(axis=1)[over]
    if params["ratio"] <= 0:
        y[y == IGNORED] = NEGATIVE
        return y
    positive = int((y >= 0).sum())
    negatives = min(int(positive * params["ratio"]), len(y) - positive)
    easy = np.flatnonzero((y == IGNORED) & (best < params["mining"]))
    if negatives > len(easy):
        raise MXNetError(
            f"Check failed: temp.size() >= num_negative ({len(easy)} vs. {negatives}) : too few anchors overlap less than "
            "negative_mining_thresh"
        )
    y[easy[np.argsort(background[easy], kind="stable")][:negatives]] = NEGATIVE
    return y


# -- detections: rows (class, score, x1, y1, x2, y2), class -1 for what does not count


def _detections(arrays: Sequence[Any], params: Params, out: TensorType) -> Any:
    rows, threshold, most = _wide(arrays[0]), params["threshold"], params["most"]
    y = np.full(out.shape, -1, rows.dtype)
    for b, sample in enumerate(rows):
        detected = sample[sample[:, 0] >= 0]
        y[b, : len(detected)] = detected
        if not len(detected) or not 0 < threshold <= 1:
            continue
        part = detected[np.argsort(-detected[:, 1], kind="stable")]
        if 0 < most < len(part):
            y[b, most : len(part), 0] = -1
            part = part[:most]

        survivors = _suppress(
            part[:, 2:], lambda overlap: overlap >= threshold, None if params["force"] else part[:, 0]
        )
        y[b, : len(part)] = part
        y[b, np.setdiff1d(np.arange(len(part)), survivors), 0] = -1
    return y


# -- region proposals: rows (sample, x1, y1, x2, y2, score)


def _infer_proposals(types: Sequence[TensorType], params: Params) -> TensorType:
    return tensor_type((types[0].shape[0] * params["after"], 6), types[0].dtype)


def _windows(stride: int, ratios: Sequence[float], scales: Sequence[float]) -> Any:
    """Boxes of every ratio and scale around the first cell of a grid, in whole pixels."""
    boxes = []
    centre = (stride - 1) / 2
    for ratio in ratios:
        base = np.floor(np.sqrt(np.floor(stride * stride / ratio)) + 0.5)
        for scale in scales:
            size = np.array([base, np.floor(base * ratio + 0.5)]) * scale
            boxes.append([*(centre - (size - 1) / 2), *(centre + (size - 1) / 2)])
    return np.array(boxes, np.float32)


def _proposals(arrays: Sequence[Any], params: Params, out: TensorType) -> Any:
    scores, deltas, sizes = map(_wide, arrays)
    batch, twice, height, width = scores.shape
    count, stride, after = twice // 2, params["stride"], params["after"]
    windows = _windows(stride, params["ratios"], params["scales"])
    places = np.stack(np.meshgrid(np.arange(width), np.arange(height)), axis=-1) * stride
    anchors = (windows + np.tile(places, 2)[:, :, None, :]).reshape(-1, 4).astype(np.float32)
    y = np.zeros(out.shape, np.float32)
    for b in range(batch):
        cells = np.trunc(sizes[b, :2] / stride)
        if not np.isfinite(cells).all() or (cells > (height, width)).any():
            raise MXNetError(
                f"Check failed: the image of sample {b} has {cells[0]:.0f} x {cells[1]:.0f} cells of feature_stride, "
                f"the scores only {height} x {width}"
            )
        rows, columns = map(int, cells)
        moved = deltas[b].reshape(count, 4, height, width).transpose(2, 3, 0, 1).reshape(-1, 4)
        boxes = anchors + moved if params["corners"] else _moved(anchors, moved)
        limit = np.tile(sizes[b, 1::-1] - 1, 2)
        boxes = np.maximum(np.minimum(boxes, limit), 0)
        score = scores[b, count:].transpose(1, 2, 0).copy()
        score[rows:], score[:, columns:] = -1, -1
        score = score.reshape(-1)
        least = params["least"] * sizes[b, 2]
        small = ((boxes[:, 2:] - boxes[:, :2] + 1) < least).any(axis=1)
        boxes[small] += np.array([-1, -1, 1, 1], np.float32) * (least / 2)
        score[small] = -1
        order = np.argsort(-score, kind="stable")
        before = params["before"] if params["before"] > 0 else len(order)
        order = order[:before]
        best, best_scores = boxes[order], score[order]

        survivors = _suppress(best, lambda overlap: overlap > params["threshold"], most=min(after, len(order)), extra=1)
        chosen = np.resize(survivors, after)  # too few are repeated
        y[b * after : (b + 1) * after, 0] = b
        y[b * after : (b + 1) * after, 1:5] = best[chosen]
        y[b * after : (b + 1) * after, 5] = best_scores[chosen]
    return y


def _moved(anchors: Any, deltas: Any) -> Any:
    """Anchors with centres shifted and extents scaled by predictions."""
    extents = anchors[:, 2:] - anchors[:, :2] + 1
    centres = anchors[:, :2] + (extents - 1) / 2 + deltas[:, :2] * extents
    half = (np.exp(deltas[:, 2:]) * extents - 1) / 2
    return np.concatenate([centres - half, centres + half], axis=1)


def _same(types: Sequence[TensorType], params: Params) -> TensorType:
    return types[0]


ROWS = [
    Primitive("nms_order", "library", _infer_per_row, _on_host(_order), NO_DERIVATIVE, doc="the boxes that stay"),
    Primitive("bipartite_match", "library", _infer_per_row, _on_host(_bipartite), NO_DERIVATIVE, doc="greedy matches"),
    Primitive("anchor_match", "library", _infer_per_row, _on_host(_anchors), NO_DERIVATIVE, doc="labels of anchors"),
    Primitive("detections", "library", _same, _on_host(_detections), NO_DERIVATIVE, doc="the boxes that count"),
    Primitive("proposals", "library", _infer_proposals, _on_host(_proposals), NO_DERIVATIVE, doc="region proposals"),
]
