# SPDX-License-Identifier: Apache-2.0
"""Operators of detectors, bent convolutions, correlations, point processes: numbers that MXNet 1.9.1 gives."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from ops.support import array, check_derivatives, gradients, reach, runs

import hybridgpu as mx
from hybridgpu import nd
from hybridgpu.base import MXNetError


def draw(seed, *shape):
    return np.round(np.random.RandomState(seed).uniform(-1, 1, shape), 2).astype("f4")


def boxes(seed, *lead):
    found = np.round(np.random.RandomState(seed).uniform(0.05, 0.5, (*lead, 4)), 2)
    return np.concatenate([found[..., :2], found[..., :2] + found[..., 2:]], -1).astype("f4")


def rows(seed, n, kinds=2):
    r = np.random.RandomState(seed)
    return np.concatenate(
        [r.randint(-1, kinds, (n, 1)), np.round(r.uniform(0, 1, (n, 1)), 2), boxes(seed, n)], -1
    ).astype("f4")


ROIS = np.array([[0, 0, 1, 3, 4], [0, -2, 1.5, 9, 2.4], [0, 2, 2, 2, 2]], "f4")
TURNED = np.array([[0, 2, 2, 3, 2, 30], [0, 3, 1.5, 4, 4, -75]], "f4")
LABEL = np.full((2, 3, 5), -1, "f4")
LABEL[0, :2] = [[1, 0.1, 0.1, 0.4, 0.5], [0, 0.3, 0.2, 0.9, 0.8]]
LABEL[1, 0] = [2, 0.2, 0.3, 0.6, 0.6]
SMALL = {
    "scales": (1, 2),
    "ratios": (1,),
    "feature_stride": 4,
    "rpn_min_size": 1,
    "rpn_post_nms_top_n": 4,
    "output_score": True,
}
PROBABILITY = np.abs(draw(14, 2, 3, 4))
HAWKES = [
    np.abs(draw(31, 2, 2)) + 0.5,
    np.array([0.3, 0.6], "f4"),
    np.array([1, 2], "f4"),
    np.abs(draw(32, 2, 2)),
    np.abs(draw(33, 2, 3)),
    np.array([[0, 1, 1], [1, 0, 0]], "i4"),
    np.array([3, 2], "f4"),
    np.array([5, 4], "f4"),
]
ENCODED = [
    np.array([[1, -1, 1]], "f4"),
    np.array([[0, 1, 1]], "f4"),
    boxes(4, 1, 3),
    boxes(5, 1, 2),
    np.array([0.1, 0.2, 0.3, 0.4], "f4"),
    np.array([0.5, 0.6, 0.7, 0.8], "f4"),
]
TARGET = [boxes(9, 1, 4), LABEL, draw(10, 2, 3, 4)]
DETECTION = [PROBABILITY, draw(15, 2, 16), boxes(9, 1, 4)]
ONE = [np.abs(draw(16, 1, 4, 2, 2)), draw(17, 1, 8, 2, 2), np.array([[8, 7, 1]], "f4")]
TWO = [np.abs(draw(18, 2, 4, 1, 2)), draw(19, 2, 8, 1, 2), np.array([[4, 8, 1], [4, 8, 2]], "f4")]
GROUPED = {
    "kernel": (2, 2),
    "num_filter": 2,
    "num_group": 2,
    "num_deformable_group": 2,
    "stride": (2, 2),
    "pad": (1, 1),
    "dilate": (2, 2),
    "no_bias": True,
}
WIDE = {"pad_size": 2, "kernel_size": 3, "max_displacement": 2, "stride2": 2, "is_multiply": False}
BENT = {
    "spatial_scale": 0.9,
    "output_dim": 1,
    "group_size": 2,
    "pooled_size": 2,
    "sample_per_part": 2,
    "trans_std": 0.2,
}
PAIR = [draw(29, 1, 2, 3, 3), draw(30, 1, 2, 3, 3)]
#: inputs, attributes; the operators and what MXNet makes of them stand in tests/against_mxnet/recorded/detection.json
CALLS = [
    ([rows(1, 5)], {"overlap_thresh": 0.1, "id_index": 0}),
    ([rows(1, 5)], {"overlap_thresh": 0.1, "topk": 3, "valid_thresh": 0.1, "out_format": "center"}),
    (
        [rows(2, 5)],
        {"overlap_thresh": 0.2, "id_index": 0, "force_suppress": True, "in_format": "center", "background_id": 1},
    ),
    ([draw(3, 3, 4)], {"threshold": -0.5}),
    ([draw(3, 3, 4)], {"threshold": 0.5, "is_ascend": True, "topk": 1}),
    (ENCODED, {}),
    ([draw(6, 1, 2, 4), boxes(7, 1, 2)], {"std0": 0.1, "std2": 0.5, "clip": 0.2}),
    ([draw(6, 1, 2, 4), boxes(7, 1, 2)], {"format": "corner"}),
    ([draw(8, 1, 1, 1, 2)], {"sizes": (0.5, 0.25), "ratios": (1, 2)}),
    ([draw(8, 1, 1, 2, 1)], {"sizes": (0.7,), "steps": (0.4, 0.3), "offsets": (0.1, 0.9), "clip": True}),
    (TARGET, {"overlap_threshold": 0.2}),
    (
        TARGET,
        {
            "overlap_threshold": 0.5,
            "negative_mining_ratio": 1.0,
            "negative_mining_thresh": 0.6,
            "variances": (1, 1, 1, 1),
        },
    ),
    (DETECTION, {"nms_threshold": 0.2}),
    (DETECTION, {"clip": False, "threshold": 0.6, "nms_topk": 2, "force_suppress": True}),
    (ONE, SMALL),
    (TWO, {**SMALL, "iou_loss": True, "threshold": 0.3}),
    ([draw(20, 1, 4, 5, 5), ROIS], {"spatial_scale": 1.0, "output_dim": 1, "pooled_size": 2}),
    ([draw(20, 1, 4, 5, 5), ROIS], {"spatial_scale": 0.5, "output_dim": 1, "pooled_size": 3, "group_size": 2}),
    ([draw(21, 1, 2, 4, 5), TURNED], {"spatial_scale": 1.0, "pooled_size": (2, 1), "sampling_ratio": 2}),
    ([draw(21, 1, 2, 4, 5), TURNED], {"spatial_scale": 0.5, "pooled_size": (1, 2)}),
    (
        [draw(22, 1, 2, 3, 3), 3 * draw(23, 1, 8, 2, 2), draw(24, 2, 2, 2, 2), draw(25, 2)],
        {"kernel": (2, 2), "num_filter": 2},
    ),
    ([draw(26, 1, 2, 3, 3), draw(27, 1, 16, 2, 2), draw(28, 2, 1, 2, 2)], GROUPED),
    (PAIR, {"pad_size": 1, "stride1": 2}),
    (PAIR, WIDE),
    (HAWKES, {}),
    ([draw(34, 1, 4, 4, 5), ROIS, draw(35, 3, 2, 2, 2)], BENT),
    ([draw(34, 1, 4, 4, 5), ROIS], {**BENT, "pooled_size": 1, "no_trans": True}),
]
FOUND = json.loads((Path(__file__).parents[1] / "against_mxnet" / "recorded" / "detection.json").read_text())
CASES = [(f["operator"], *call, f) for f, call in zip(FOUND, CALLS, strict=True)]


def path_of(name):
    return name if name == "Correlation" else f"contrib.{name}"


@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize(("name", "inputs", "attributes", "found"), CASES)
def test_recorded(name, inputs, attributes, found, hybrid):
    call = runs(path_of(name), attributes)[hybrid]
    heads = [1 + np.arange(np.prod(s)).reshape(s).astype("f4") % 5 for s in found["shapes"]]
    wanted = [int(k) for k in found["gradients"]]
    if wanted:
        results, grads, _ = gradients(call, inputs, wanted, heads)
    else:
        results, grads = [call(*map(array, inputs)).asnumpy()], []
    assert [list(r.shape) for r in results] == found["shapes"]
    for got, want in zip([*results, *grads], [*found["results"], *found["gradients"].values()], strict=True):
        np.testing.assert_allclose(got.reshape(-1), want, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("hybrid", [False, True])
def test_modulated_deformable_convolution(hybrid):
    """MXNet has it for GPUs alone: with a mask of ones and offsets inside it is deformable convolution."""
    r = np.random.default_rng(3)
    data, weight, bias = r.normal(size=(2, 4, 5, 6)), r.normal(size=(3, 4, 2, 2)), r.normal(size=3)
    offset = np.clip(r.normal(size=(2, 16, 4, 5)), -0.4, 0.4)
    offset[:, :, [0, -1]] = 0
    offset[..., [0, -1]] = 0
    attributes = {"kernel": (2, 2), "num_filter": 3, "num_deformable_group": 2}
    mask = r.normal(size=(2, 8, 4, 5))
    run = runs("contrib.ModulatedDeformableConvolution", attributes)[hybrid]
    plain = runs("contrib.DeformableConvolution", attributes)[0]
    got = run(*map(array, (data, offset, np.ones_like(mask), weight, bias))).asnumpy()
    want = plain(*map(array, (data, offset, weight, bias))).asnumpy()
    np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-10)
    twice = run(*map(array, (data, offset, np.full_like(mask, 2), weight, 2 * bias))).asnumpy()
    np.testing.assert_allclose(twice, 2 * want, rtol=1e-10, atol=1e-10)
    check_derivatives(run, [data, offset * 0.7 + 0.01, mask, weight, bias], [0, 1, 2, 3, 4], second=False)


@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize("shape", [(5,), (2, 8), (2, 3, 7)])
def test_fourier(shape, hybrid):
    x = np.random.default_rng(1).normal(size=shape)
    (got,), (grad,), _ = gradients(runs("contrib.fft", {})[hybrid], [x], [0], [np.ones((*shape[:-1], 2 * shape[-1]))])
    want = np.fft.fft(x)
    np.testing.assert_allclose(got[..., ::2], want.real, atol=1e-12)
    np.testing.assert_allclose(got[..., 1::2], want.imag, atol=1e-12)
    count = shape[-1]
    angle = 2 * np.pi * np.outer(np.arange(count), np.arange(count)) / count
    np.testing.assert_allclose(grad, np.broadcast_to((np.cos(angle) - np.sin(angle)).sum(0), shape), atol=1e-10)
    back = runs("contrib.ifft", {})[hybrid](array(got)).asnumpy()
    np.testing.assert_allclose(back, x * count, atol=1e-10)


@pytest.mark.parametrize("hybrid", [False, True])
def test_count_sketch(hybrid):
    r = np.random.default_rng(2)
    x, h, s = r.normal(size=(3, 6)), r.integers(0, 4, (1, 6)).astype("f8"), r.choice([-1.0, 1.0], (1, 6))
    head = r.normal(size=(3, 4))
    (got,), (grad,), _ = gradients(runs("contrib.count_sketch", {"out_dim": 4})[hybrid], [x, h, s], [0], [head])
    want = np.zeros((3, 4))
    for k in range(6):
        want[:, int(h[0, k])] += s[0, k] * x[:, k]
    np.testing.assert_allclose(got, want, atol=1e-12)
    np.testing.assert_allclose(grad, head[:, h[0].astype(int)] * s, atol=1e-12)


def test_unique_zipfian():
    mx.random.seed(5)
    classes, tries = nd._internal._sample_unique_zipfian(1000, shape=(3, 400))
    assert classes.dtype == tries.dtype == np.int64 and classes.shape == (3, 400) and tries.shape == (3,)
    for row, count in zip(classes.asnumpy(), tries.asnumpy(), strict=True):
        assert len(set(row)) == 400 and 0 <= row.min() and row.max() < 1000 and 400 < count < 4000
        assert (row < 32).sum() > 28 and (row > 500).mean() < 0.5  # small ones first
    assert (classes[0] != classes[1]).sum().asscalar() > 300
    every, _ = nd._internal._sample_unique_zipfian(6, shape=(1, 6))
    assert sorted(every.asnumpy()[0]) == list(range(6))
    with pytest.raises(MXNetError, match="cannot exceed the number of possible classes"):
        nd._internal._sample_unique_zipfian(6, shape=(1, 7))


def test_rand_zipfian():
    mx.random.seed(6)
    true = nd.array([0, 4], dtype="int32")
    numbers = np.arange(20)
    expected = np.log((numbers + 2) / (numbers + 1)) / np.log(21) * 5000
    symbols = mx.sym.Group(list(mx.sym.contrib.rand_zipfian(mx.sym.var("t"), 5000, 20)))
    for classes, of_true, of_drawn in (
        nd.contrib.rand_zipfian(true, 5000, 20),
        symbols.bind(mx.cpu(), {"t": true}).forward(),
    ):
        drawn = classes.asnumpy()
        assert drawn.dtype == np.int64
        np.testing.assert_allclose(of_true.asnumpy(), expected[[0, 4]], rtol=1e-9)
        np.testing.assert_allclose(of_drawn.asnumpy(), expected[drawn], rtol=1e-9)
        np.testing.assert_allclose(np.bincount(drawn, minlength=20), expected, rtol=0.25)


def test_contrib_module():
    assert mx.contrib.nd.box_nms is nd.contrib.box_nms and mx.contrib.symbol is mx.sym.contrib
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = mx.contrib.nothing


R = draw(0, 4, 6)
REFUSED = [
    ("contrib.box_nms", [R[0]], {}, "input must have dim >= 2"),
    ("contrib.box_nms", [R[:, :5]], {"id_index": 0}, "at least 5 elements namely"),
    ("contrib.box_nms", [R], {"score_index": 3}, r"score_index: 3 conflict with coordinates: \(2, 5\)"),
    ("contrib.box_nms", [R], {"id_index": 1}, "id_index: 1 conflict with score_index: 1"),
    ("contrib.box_nms", [R], {"coord_start": 3}, "out of range"),
    ("contrib.MultiBoxPrior", [draw(0, 1, 1, 2, 2)], {"steps": (0.2, -1)}, "Must specify both step_y and step_x"),
    ("contrib.MultiBoxTarget", [boxes(9, 1, 3), LABEL, draw(10, 2, 3, 4)], {}, "Number of anchors mismatch"),
    ("contrib.MultiBoxTarget", TARGET, {"negative_mining_ratio": 9, "negative_mining_thresh": 1e-6}, "num_negative"),
    ("contrib.MultiBoxDetection", [PROBABILITY, draw(15, 2, 12), boxes(9, 1, 4)], {}, "# anchors mismatch with # loc"),
    ("contrib.Proposal", TWO, SMALL, "Sorry, multiple images each device is not implemented"),
    ("contrib.MultiProposal", TWO, {**SMALL, "ratios": (1, 2)}, r"\(2 vs. 4\)"),
    ("contrib.MultiProposal", [*TWO[:2], TWO[2] * 4], SMALL, "cells of feature_stride"),
    ("contrib.MultiProposal", [*TWO[:2], TWO[2] * np.inf], SMALL, "has inf x inf cells of feature_stride"),
    ("contrib.MultiProposal", [*TWO[:2], TWO[2] * -np.inf], SMALL, "has -inf x -inf cells of feature_stride"),
    ("contrib.MultiProposal", [*TWO[:2], TWO[2] * np.nan], SMALL, "has nan x nan cells of feature_stride"),
    (
        "contrib.PSROIPooling",
        [draw(0, 1, 3, 4, 4), ROIS],
        {"spatial_scale": 1.0, "output_dim": 1, "pooled_size": 2},
        "channels",
    ),
    ("contrib.RROIAlign", [draw(0, 1, 3, 4, 4), ROIS], {"spatial_scale": 1.0, "pooled_size": (2, 2)}, r"\(5 vs. 6\)"),
    ("Correlation", PAIR, {"kernel_size": 2}, "kernel size should be odd number"),
    ("Correlation", PAIR, {"max_displacement": 9}, "Neighborhood and kernel don't fit in blob"),
    ("contrib.hawkesll", [*HAWKES[:5], HAWKES[5] + 1, *HAWKES[6:]], {}, "a point has the mark 2, and there are 2"),
    ("contrib.hawkesll", [*HAWKES[:5], HAWKES[5] - 1, *HAWKES[6:]], {}, "a point has the mark -1, and there are 2"),
    ("contrib.DeformableConvolution", [R, R, R, R], {"kernel": (2, 2), "num_filter": 2}, "4"),
]


@pytest.mark.parametrize(("name", "inputs", "attributes", "message"), REFUSED)
def test_refused(name, inputs, attributes, message):
    with pytest.raises(MXNetError, match=message):
        reach(nd, name)(*map(array, inputs), **attributes)


def test_turned_regions_have_no_gradient():
    x = array(draw(21, 1, 2, 4, 5))
    x.attach_grad()
    with mx.autograd.record():
        y = nd.contrib.RROIAlign(x, array(TURNED), pooled_size=(2, 2), spatial_scale=1.0)
    with pytest.raises(MXNetError, match="_contrib_RROIAlign is non-differentiable"):
        y.backward()


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.6])
def test_suppression_among_many_boxes(threshold, force):
    """Against the definition, one pair of boxes at a time."""
    corner, extents = draw(41, 60, 2), np.abs(draw(42, 60, 2)) * 4
    found = np.column_stack([np.abs(draw(43, 60)) * 3 // 1, np.abs(draw(44, 60)) + 1, corner, corner + extents])
    kept = []
    for box in found[np.argsort(-found[:, 1], kind="stable")]:
        for other in kept:
            sides = np.minimum(box[4:], other[4:]) - np.maximum(box[2:4], other[2:4])
            common = np.prod(np.maximum(sides, 0))
            union = np.prod(box[4:] - box[2:4]) + np.prod(other[4:] - other[2:4]) - common
            if common / union > threshold and (force or box[0] == other[0]):
                break
        else:
            kept.append(box)
    ours = nd.contrib.box_nms(
        nd.array(found[None]), overlap_thresh=threshold, id_index=0, score_index=1, coord_start=2, force_suppress=force
    ).asnumpy()[0]
    assert 1 < len(kept) < 60
    np.testing.assert_array_equal(ours[: len(kept)], np.array(kept, "f4"))
    assert (ours[len(kept) :] == -1).all()
