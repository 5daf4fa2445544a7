# SPDX-License-Identifier: Apache-2.0
"""Boxes of object detectors: anchors, targets, detections, suppression, proposals.

A box is (x1, y1, x2, y2), or where a format says so (x, y, width, height) around its centre.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..base import MXNetError
from ..compiler.ir import Builder, Node
from ..compiler.primitives.custom_gradient import gradient_rule
from ..compiler.primitives.detection import IGNORED
from ..core.dtypes import DType, i64
from .linear import need_float
from .params import Bool, Enum, Float, Floats, Int, Param, Values
from .record import operator, sample, shape_text
from .resize import need_4d

__all__: list[str] = []

_FORMATS = ("center", "corner")


def _parts(b: Builder, x: Node) -> list[Node]:
    """The columns of the last axis, each with an axis of one."""
    return [b.slice_axis(x, -1, k, k + 1) for k in range(x.shape[-1])]


def _vector(b: Builder, values: Sequence[float], dtype: DType) -> Node:
    return b.concat([b.full((1,), v, dtype) for v in values], 0)


def _join(b: Builder, parts: Sequence[Node]) -> Node:
    return b.concat(list(parts), parts[0].ndim - 1)


def _middle(parts: Sequence[Node]) -> list[Node]:
    """(x, y, width, height) of corners."""
    x1, y1, x2, y2 = parts
    return [(x1 + x2) * 0.5, (y1 + y2) * 0.5, x2 - x1, y2 - y1]


def _corners(parts: Sequence[Node]) -> list[Node]:
    """(x1, y1, x2, y2) of centres and extents."""
    x, y, width, height = parts
    return [x - width * 0.5, y - height * 0.5, x + width * 0.5, y + height * 0.5]


def _check(fits: bool, message: str) -> None:
    if not fits:
        raise MXNetError(f"Check failed: {message}")


# -- suppression and matches


@operator(
    "_contrib_box_nms _contrib_box_non_maximum_suppression",
    params={
        "overlap_thresh": Float(0.5, "boxes that overlap more than this with a better one go"),
        "valid_thresh": Float(0.0, "boxes with no better score than this go"),
        "topk": Int(-1, "best boxes to look at, -1 for all"),
        "coord_start": Int(2, "index of the first of four coordinates"),
        "score_index": Int(1, "index of the score"),
        "id_index": Int(-1, "index of the class, -1 for none"),
        "background_id": Int(-1, "class of boxes that go"),
        "force_suppress": Bool(False, "boxes of different classes compete, too"),
        "in_format": Enum("corner", "corner: x1, y1, x2, y2; center: x, y, width, height", choices=_FORMATS),
        "out_format": Enum("corner", "of the result", choices=_FORMATS),
    },
    kept=1,
    samples=(
        sample([(2, 5, 6)], {"id_index": 0, "overlap_thresh": 0.1}),
        sample([(4, 5)], {"coord_start": 0, "score_index": 4, "topk": 2, "out_format": "center"}),
        sample([(4, 6)], {"topk": 0}),
    ),
)
def box_nms(b: Builder, p: Values, data: Node) -> Node:
    """The boxes (rows of the last axis) that overlap with no better one, best first; rows of -1 fill up."""
    need_float(data)
    _check(
        data.ndim >= 2, f"indim >= 2 ({data.ndim} vs. 2) : input must have dim >= 2 the last two dimensions are boxes"
    )
    width, first, last = data.shape[-1], p.coord_start, p.coord_start + 3
    least = 6 if p.id_index >= 0 else 5
    _check(
        width >= least,
        f"width_elem >= expected ({width} vs. {least}) : the last dimension must have at least 5 elements namely "
        f"(score, coordinates x 4) {width} provided, {least} expected.",
    )
    for name, index in (("score_index", p.score_index), ("id_index", p.id_index)):
        if name == "id_index" and index < 0:
            continue
        _check(0 <= index < width, f"{name}: {index} out of range: (0, {width})")
        _check(not first <= index <= last, f"{name}: {index} conflict with coordinates: ({first}, {last}).")
    _check(first >= 0 and last < width, f"coordinates: ({first}, {last}) out of range:: (0, {width})")
    _check(p.id_index != p.score_index, f"id_index: {p.id_index} conflict with score_index: {p.score_index}")
    if p.topk == 0 or not data.size:
        return b.copy(data)
    count = data.shape[-2]
    rows = b.reshape(data, (data.size // (count * width), count, width))
    order = b.nms_order(
        rows,
        threshold=p.overlap_thresh,
        valid=p.valid_thresh,
        most=count if p.topk < 0 else p.topk,
        coordinates=first,
        score=p.score_index,
        class_=p.id_index,
        background=p.background_id,
        force=p.force_suppress,
        centred=p.in_format == "center",
    )
    at = b.broadcast(b.reshape(order, (*rows.shape[:2], 1)), rows.shape)
    boxes = b.take_along(rows, b.max(at, 0), axis=1)
    boxes = b.select(b.ge(at, 0), boxes, b.full_like(boxes, -1))
    if p.in_format != p.out_format:
        columns = _parts(b, boxes)
        box = columns[first : first + 4]
        turned = _middle(box) if p.out_format == "center" else _corners(box)
        # as in MXNet boxes that begin left of the image stay, among them those of -1
        columns[first : first + 4] = [b.select(b.lt(box[0], 0), x, y) for x, y in zip(box, turned, strict=True)]
        boxes = b.custom_gradient(_join(b, columns), boxes, rule="box_format")
    return b.reshape(boxes, data.shape)


@gradient_rule("box_format", exact=False)
def _box_format_gradient(
    b: Builder, g: Node, y: Node, inputs: Sequence[Node], static: tuple[Any, ...]
) -> Sequence[Node | None]:
    return [g]


@operator(
    "_contrib_bipartite_matching",
    params={
        "is_ascend": Bool(False, "small scores are good"),
        "threshold": Float(doc="scores up to this (from this, ascending) match nothing"),
        "topk": Int(-1, "number of matches, -1 for all"),
    },
    outputs=2,
    differentiable=False,
    samples=(
        sample([(3, 4)], {"threshold": 0.0}),
        sample([(2, 4, 3)], {"threshold": 1.0, "is_ascend": True}),
    ),
)
def bipartite_matching(b: Builder, p: Values, data: Node) -> Sequence[Node]:
    """Match rows and columns of score matrices, best pairs first: the column of each row, the row of each column."""
    need_float(data)
    _check(
        data.ndim >= 2, f"dshape.ndim() >= 2 ({data.ndim} vs. 2) : score matrix must have dim >= 2 {data.ndim} provided"
    )
    *lead, rows, columns = data.shape
    x = b.reshape(b.stop_gradient(data), (math.prod(lead), rows, columns))
    match = b.bipartite_match(x, threshold=p.threshold, ascending=p.is_ascend, most=p.topk)
    at = b.eq(b.broadcast(b.reshape(match, (*match.shape, 1)), x.shape), b.iota(x.shape, 2, i64))
    back = b.reduce("amax", b.select(at, b.iota(x.shape, 1, i64), b.full(x.shape, -1, i64)), (1,))
    return [
        b.cast(b.reshape(match, (*lead, rows)), data.dtype),
        b.cast(b.reshape(back, (*lead, columns)), data.dtype),
    ]


# -- encodings relative to anchors


@operator(
    "_contrib_box_encode",
    "samples matches anchors refs means stds",
    dtypes="**TTTT",
    outputs=2,
    result_dtype=lambda p, dtypes: dtypes[2],
    differentiable=False,
    infer_inputs=lambda p, shapes: [*shapes[:4], shapes[4] or (4,), shapes[5] or (4,)],
    samples=(sample([(2, 3), (2, 3), (2, 3, 4), (2, 5, 4), (4,), (4,)], None, {0: (-1, 1), 1: (0, 4)}),),
)
def box_encode(
    b: Builder, p: Values, samples: Node, matches: Node, anchors: Node, refs: Node, means: Node, stds: Node
) -> Sequence[Node]:
    """Where the matched boxes lie relative to anchors, scaled by their extents; and a mask of positive samples."""
    need_float(anchors)
    _check(samples.ndim == 2, f"sshape.ndim() == 2 : samples shape must have dim == 2, {samples.ndim} provided")
    for name, x in (("anchors", anchors), ("refs", refs)):
        _check(x.ndim == 3, f"{name} shape must have dim == 3, {x.ndim} provided")
        _check(x.shape[-1] == 4, f"ldim == 4 : last dimension of {name} must be 4, {x.shape[-1]} provided")
    samples, matches, anchors, refs, means, stds = map(b.stop_gradient, (samples, matches, anchors, refs, means, stds))
    shape = anchors.shape
    flat = (*shape[:2], 1)
    # what matches nothing, and counts for nothing, may say any number, such as -1
    at = b.max(b.min(b.cast(matches, i64), refs.shape[1] - 1), 0)
    at = b.broadcast(b.reshape(at, flat), shape)
    x, y, width, height = _middle(_parts(b, b.take_along(refs, at, axis=1)))
    ax, ay, awidth, aheight = _middle(_parts(b, anchors))
    encoded = _join(b, [(x - ax) / awidth, (y - ay) / aheight, b.log(width / awidth), b.log(height / aheight)])
    valid = b.broadcast(b.reshape(b.gt(samples, 0.5), flat), shape)
    encoded = (encoded - b.reshape(means, (1, 1, 4))) / b.reshape(stds, (1, 1, 4))
    zero = b.full_like(encoded, 0)
    return [b.select(valid, encoded, zero), b.select(valid, b.full_like(encoded, 1), zero)]


@operator(
    "_contrib_box_decode",
    "data anchors",
    params={
        "std0": Float(1.0, "factor of the first prediction"),
        "std1": Float(1.0, "of the second"),
        "std2": Float(1.0, "of the third"),
        "std3": Float(1.0, "of the fourth"),
        "clip": Float(-1.0, "greatest logarithm of an extent, if positive"),
        "format": Enum("center", "of the anchors", choices=_FORMATS),
    },
    differentiable=False,
    samples=(
        sample([(2, 3, 4), (1, 3, 4)], {"std0": 0.1, "std2": 0.2}),
        sample([(1, 3, 4), (1, 3, 4)], {"format": "corner", "clip": 0.5}),
    ),
)
def box_decode(b: Builder, p: Values, data: Node, anchors: Node) -> Node:
    """The boxes that predictions relative to anchors mean: the opposite of box_encode."""
    need_float(data)
    for name, x in (("data", data), ("anchors", anchors)):
        _check(x.ndim == 3, f"{name} shape must have dim == 3, {x.ndim} provided")
        _check(x.shape[-1] == 4, f"ldim == 4 : last dimension of {name} must be 4, {x.shape[-1]} provided")
    anchor = _parts(b, b.stop_gradient(anchors))
    if p.format == "corner":
        anchor = _middle(anchor)
    x, y, width, height = _parts(b, b.stop_gradient(data))
    extents = [width * p.std2, height * p.std3]
    if p.clip > 0:
        extents = [b.min(e, p.clip) for e in extents]
    width, height = (b.exp(e) * a for e, a in zip(extents, anchor[2:], strict=True))
    x, y = (c * std * e + a for c, std, a, e in zip((x, y), (p.std0, p.std1), anchor, anchor[2:], strict=False))
    return _join(b, _corners([x, y, width, height]))


# -- anchors, their targets, detections

_VARIANCES = Floats((0.1, 0.1, 0.2, 0.2), "factors of the four predictions")


@operator(
    "_contrib_MultiBoxPrior _npx_multibox_prior",
    params={
        "sizes": Floats((1.0,), "extents of boxes"),
        "ratios": Floats((1.0,), "widths by heights"),
        "clip": Bool(False, "cut boxes at the image's edges"),
        "steps": Floats((-1.0, -1.0), "distances of centres along y and x; not positive: of the data's elements"),
        "offsets": Floats((0.5, 0.5), "of the first centre along y and x, in steps"),
    },
    differentiable=False,
    samples=(
        sample([(1, 2, 3, 4)], {"sizes": (0.5, 0.25), "ratios": (1, 2, 0.5)}),
        sample([(2, 1, 2, 2)], {"sizes": (0.7,), "clip": True, "steps": (0.3, 0.2), "offsets": (0.0, 1.0)}),
    ),
    output_names=("output",),
)
def multibox_prior(b: Builder, p: Values, data: Node) -> Node:
    """Anchors around every element of (N, C, H, W), in fractions of the image: (1, boxes, 4)."""
    need_float(data)
    *_, height, width = need_4d(data)
    _check(bool(p.sizes) and bool(p.ratios), "sizes_.size() > 0 : at least one size and one ratio are needed")
    _check(
        len(p.steps) == 2, f"param_.steps.ndim() == 2 ({len(p.steps)} vs. 2) : Step ndim must be 2: (step_y, step_x)"
    )
    _check(len(p.offsets) == 2 and all(0 <= o <= 1 for o in p.offsets), f"offsets {p.offsets} must be two of 0 … 1")
    _check(p.steps[0] * p.steps[1] >= 0, "steps_[0] * steps_[1] >= 0 : Must specify both step_y and step_x")
    steps = p.steps if min(p.steps) > 0 else (1 / height, 1 / width)
    kinds = [(size, p.ratios[0]) for size in p.sizes] + [(p.sizes[0], ratio) for ratio in p.ratios[1:]]
    extents = []
    for size, ratio in kinds:
        half = (size * height / width * math.sqrt(ratio) / 2, size / math.sqrt(ratio) / 2)
        extents += [-half[0], -half[1], half[0], half[1]]
    shape = (height, width, len(kinds), 4)
    y, x = ((b.iota(shape, k, data.dtype) + p.offsets[k]) * steps[k] for k in (0, 1))
    vertical = b.eq(b.mod(b.iota(shape, 3, i64), 2), 1)
    around = b.reshape(_vector(b, extents, data.dtype), (1, 1, *shape[2:]))
    boxes = b.reshape(b.select(vertical, y, x) + around, (1, math.prod(shape[:3]), 4))
    return b.min(b.max(boxes, 0), 1) if p.clip else boxes


@operator(
    "_contrib_MultiBoxTarget _npx_multibox_target",
    "anchor label cls_pred",
    params={
        "overlap_threshold": Float(0.5, "anchors match labels that they overlap more with"),
        "ignore_label": Float(-1.0, "class target of anchors that do not count"),
        "negative_mining_ratio": Float(-1.0, "negative samples for each positive one; not positive: all the others"),
        "negative_mining_thresh": Float(0.5, "negative samples overlap less than this"),
        "minimum_negative_samples": Int(0, "accepted"),
        "variances": _VARIANCES,
    },
    dtypes="T*T",
    outputs=3,
    output_names=("loc_target", "loc_mask", "cls_target"),
    differentiable=False,
    samples=(
        sample([(1, 6, 4), (2, 2, 5), (2, 3, 6)], None, {1: (0, 2)}),
        sample([(1, 6, 4), (2, 2, 5), (2, 3, 6)], {"overlap_threshold": 0.1}, {1: (-1, -1)}),
    ),
)
def multibox_target(b: Builder, p: Values, anchor: Node, label: Node, cls_pred: Node) -> Sequence[Node]:
    """What a detector should predict for anchors (1, A, 4) given labels (N, L, 5) of class and box.

    Offsets to the matched box and their mask, both (N, 4 A), and classes (N, A), 0 for the background.
    """
    need_float(anchor)
    _check(anchor.ndim == 3, "ashape.ndim() == 3 : Anchor should be batch shared N*4 tensor")
    _check(anchor.shape[0] == 1, "ashape[0] == 1 : Anchors are shared across batches, first dimension should be 1")
    _check(anchor.shape[1] > 0, "ashape[1] > 0 : Number boxes should be greater than 0")
    _check(anchor.shape[2] == 4, "ashape[2] == 4 : Box dimension should be 4: [xmin, ymin, xmax, ymax]")
    _check(label.ndim == 3, "lshape.ndim() == 3 : Label should be [batch, num_labels, label_width] tensor")
    _check(label.shape[1] > 0, "lshape[1] > 0 : Padded label should be greater than 0")
    _check(label.shape[2] >= 5, "lshape[2] >= 5 : Label width should be greater than or equal to 5")
    _check(cls_pred.ndim == 3, "pshape.ndim() == 3 : Prediction: [batch, num_classes, num_anchors]")
    _check(cls_pred.shape[2] == anchor.shape[1], "pshape[2] == ashape[1] : Number of anchors mismatch")
    _check(len(p.variances) == 4, f"variances.ndim() == 4 ({len(p.variances)} vs. 4) : ")
    _check(
        p.negative_mining_ratio <= 0 or p.negative_mining_thresh > 0,
        f"negative_mining_thresh > 0 ({p.negative_mining_thresh:g} vs. 0) : ",
    )
    anchor, label, cls_pred = map(b.stop_gradient, (anchor, b.cast(label, anchor.dtype), cls_pred))
    (batch, labels, _), count = label.shape, anchor.shape[1]
    kind, *truth = _parts(b, label)[:5]
    mine = [b.reshape(x, (1, count, 1)) for x in _parts(b, anchor)]
    theirs = [b.reshape(x, (batch, 1, labels)) for x in truth]
    width, height = (b.max(b.min(mine[k + 2], theirs[k + 2]) - b.max(mine[k], theirs[k]), 0) for k in (0, 1))
    common = width * height
    areas = [(s[2] - s[0]) * (s[3] - s[1]) for s in (mine, theirs)]
    union = areas[0] + areas[1] - common
    overlap = b.select(b.eq(union, 0), b.full_like(common, 0), common / union)
    top = b.reduce("amax", cls_pred, (1,), keepdims=True)
    weights = b.exp(cls_pred - top)
    background = b.slice(weights, (0, 0, 0), (batch, 1, count)) / b.sum(weights, (1,), keepdims=True)
    match = b.anchor_match(
        overlap,
        b.reshape(kind, (batch, labels)),
        b.reshape(background, (batch, count)),
        threshold=p.overlap_threshold,
        ratio=p.negative_mining_ratio,
        mining=p.negative_mining_thresh,
    )
    flat = (batch, count, 1)
    at = b.reshape(b.max(match, 0), flat)
    positive = b.ge(b.reshape(match, flat), 0)
    x, y, width, height = _middle([b.take_along(x, at, axis=1) for x in truth])
    ax, ay, awidth, aheight = _middle(_parts(b, anchor))
    offsets = [(x - ax) / awidth, (y - ay) / aheight, b.log(width / awidth), b.log(height / aheight)]
    target = _join(b, [x / v for x, v in zip(offsets, p.variances, strict=True)])
    zero = b.full_like(target, 0)
    wide = b.broadcast(positive, target.shape)
    classes = b.take_along(kind, at, axis=1) + 1
    ignored = b.eq(b.reshape(match, flat), IGNORED)
    other = b.select(ignored, b.full_like(classes, p.ignore_label), b.full_like(classes, 0))
    return [
        b.reshape(b.select(wide, target, zero), (batch, 4 * count)),
        b.reshape(b.select(wide, b.full_like(target, 1), zero), (batch, 4 * count)),
        b.reshape(b.select(positive, classes, other), (batch, count)),
    ]


@operator(
    "_contrib_MultiBoxDetection _npx_multibox_detection",
    "cls_prob loc_pred anchor",
    params={
        "clip": Bool(True, "cut boxes at the image's edges"),
        "threshold": Float(0.01, "least probability of a detection"),
        "background_id": Int(0, "accepted: class 0 is the background"),
        "nms_threshold": Float(0.5, "boxes that overlap so much with a better one go"),
        "force_suppress": Bool(False, "boxes of different classes compete, too"),
        "variances": _VARIANCES,
        "nms_topk": Int(-1, "best boxes that compete, -1 for all"),
    },
    differentiable=False,
    samples=(
        sample([(2, 3, 5), (2, 20), (1, 5, 4)]),
        sample([(1, 2, 5), (1, 20), (1, 5, 4)], {"clip": False, "nms_topk": 3, "nms_threshold": 0.2}),
    ),
    domain=(0.0, 1.0),
    output_names=("output",),
)
def multibox_detection(b: Builder, p: Values, cls_prob: Node, loc_pred: Node, anchor: Node) -> Node:
    """Boxes (class, score, x1, y1, x2, y2) that predictions for anchors mean; class -1 where nothing is."""
    need_float(cls_prob)
    for x, ndim in ((cls_prob, 3), (loc_pred, 2), (anchor, 3)):
        _check(x.ndim == ndim, f"ndim() == {ndim} ({x.ndim} vs. {ndim}) : Provided: {shape_text(x.shape)}")
    batch, kinds, count = cls_prob.shape
    _check(
        count == anchor.shape[1], f"cshape[2] == ashape[1] ({count} vs. {anchor.shape[1]}) : Number of anchors mismatch"
    )
    _check(count * 4 == loc_pred.shape[1], "cshape[2] * 4 == lshape[1] : # anchors mismatch with # loc")
    _check(count > 0, "ashape[1] > 0U : Number of anchors must > 0")
    _check(anchor.shape[2] == 4, f"ashape[2] == 4U ({anchor.shape[2]} vs. 4) : ")
    _check(len(p.variances) == 4, f"variances.ndim() == 4 ({len(p.variances)} vs. 4) : Variance size must be 4")
    cls_prob, loc_pred, anchor = map(b.stop_gradient, (cls_prob, loc_pred, anchor))
    if kinds < 2:  # of the background alone
        return b.full((batch, count, 6), -1, cls_prob.dtype)
    foreground = b.slice(cls_prob, (0, 1, 0), cls_prob.shape)
    score = b.reshape(b.reduce("amax", foreground, (1,)), (batch, count, 1))
    kind = b.reshape(b.cast(b.argmax(foreground, axes=(1,)), score.dtype), score.shape)
    kind = b.select(b.lt(score, p.threshold), b.full_like(kind, -1), kind)
    ax, ay, awidth, aheight = _middle(_parts(b, anchor))
    x, y, width, height = _parts(b, b.reshape(loc_pred, (batch, count, 4)))
    vx, vy, vw, vh = p.variances
    box = _corners(
        [x * vx * awidth + ax, y * vy * aheight + ay, b.exp(width * vw) * awidth, b.exp(height * vh) * aheight]
    )
    if p.clip:
        box = [b.max(b.min(x, 1), 0) for x in box]
    rows = _join(b, [kind, score, *box])
    return b.detections(rows, threshold=p.nms_threshold, most=p.nms_topk, force=p.force_suppress)


# -- proposals

_PROPOSAL: dict[str, Param] = {
    "rpn_pre_nms_top_n": Int(6000, "best boxes that compete; not positive: all"),
    "rpn_post_nms_top_n": Int(300, "boxes of the result, a sample"),
    "threshold": Float(0.7, "boxes that overlap more than this with a better one go"),
    "rpn_min_size": Int(16, "least extent of a box, in pixels of the image before scaling"),
    "scales": Floats((4.0, 8.0, 16.0, 32.0), "of anchors"),
    "ratios": Floats((0.5, 1.0, 2.0), "heights by widths of anchors"),
    "feature_stride": Int(16, "pixels from one element to the next"),
    "output_score": Bool(False, "return the scores, too"),
    "iou_loss": Bool(False, "predictions are offsets of corners"),
}


def _proposal_shapes(p: Values, shapes: list[Any]) -> list[Any]:
    score = shapes[0]
    if score is None:
        return shapes
    return [score, shapes[1] or (score[0], score[1] * 2, *score[2:]), shapes[2] or (score[0], 3)]


def _proposal(name: str, several: bool) -> None:
    def lower(b: Builder, p: Values, cls_prob: Node, bbox_pred: Node, im_info: Node) -> Sequence[Node]:
        need_float(cls_prob)
        batch, twice, height, width = need_4d(cls_prob, "cls_prob")
        _check(
            several or batch == 1,
            f"in_data[proposal::kClsProb].shape_[0] == 1 ({batch} vs. 1) : Sorry, multiple images each device is not "
            "implemented.\nUse contrib.MultiProposal.",
        )
        count = len(p.ratios) * len(p.scales)
        _check(
            twice == 2 * count,
            f"num_anchors == param_.ratios.ndim() * param_.scales.ndim() ({twice // 2} vs. {count}) : ",
        )
        for x, shape in ((bbox_pred, (batch, twice * 2, height, width)), (im_info, (batch, 3))):
            if x.shape != shape:
                raise MXNetError(
                    f"Shape inconsistent, Provided = {shape_text(x.shape)}, inferred shape={shape_text(shape)}"
                )
        rows = b.proposals(
            *map(b.stop_gradient, (cls_prob, bbox_pred, b.cast(im_info, cls_prob.dtype))),
            before=p.rpn_pre_nms_top_n,
            after=p.rpn_post_nms_top_n,
            threshold=p.threshold,
            least=p.rpn_min_size,
            scales=p.scales,
            ratios=p.ratios,
            stride=p.feature_stride,
            corners=p.iou_loss,
        )
        return [b.slice_axis(rows, 1, 0, 5), b.slice_axis(rows, 1, 5, 6)]

    small = {"scales": (1, 2), "ratios": (1,), "feature_stride": 4, "rpn_min_size": 1, "rpn_post_nms_top_n": 6}
    operator(
        name,
        "cls_prob bbox_pred im_info",
        params=dict(_PROPOSAL),
        dtypes="TT*",
        outputs=2,
        visible=lambda p: 2 if p.output_score else 1,
        output_names=("output", "score"),
        infer_inputs=_proposal_shapes,
        differentiable=False,
        samples=(
            sample([(1, 4, 3, 2), (1, 8, 3, 2), (1, 3)], small, {2: (4, 8)}),
            sample(
                [(1, 4, 3, 2), (1, 8, 3, 2), (1, 3)], {**small, "output_score": True, "iou_loss": True}, {2: (4, 8)}
            ),
        ),
        doc="Boxes (sample, x1, y1, x2, y2) that may hold objects, from scores and offsets of anchors at every element"
        + (", for several samples." if several else ", for one sample."),
    )(lower)


_proposal("_contrib_Proposal", several=False)
_proposal("_contrib_MultiProposal", several=True)
