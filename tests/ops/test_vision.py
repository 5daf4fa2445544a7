# SPDX-License-Identifier: Apache-2.0
"""Resizing, sampling, regions of interest, boxes: numbers recorded from MXNet 1.9.1, shapes, errors."""

from __future__ import annotations

import json

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import autograd
from hybridgpu.base import MXNetError


def close(got, want, tolerance=1e-4):
    np.testing.assert_allclose(got.asnumpy().reshape(np.shape(want)), want, tolerance, tolerance)


def images(*shape):
    return mx.nd.arange(int(np.prod(shape))).reshape(shape)


NINE = np.arange(1, 10).reshape(1, 1, 3, 3)
THETA = [[1, 0, 0.2, 0, 0.5, 0.1]]
AFFINE = {"target_shape": (2, 3), "transform_type": "affine"}
KERNEL = np.outer([1, 3, 3, 1], [1, 3, 3, 1]).reshape(1, 1, 4, 4) / 16
#: operator, inputs, attributes, the result as MXNet gives it
RECORDED = [
    (
        "contrib.BilinearResize2D",
        [np.arange(4).reshape(1, 1, 2, 2)],
        {"height": 3, "width": 4},
        [[0, 1 / 3, 2 / 3, 1], [1, 4 / 3, 5 / 3, 2], [2, 7 / 3, 8 / 3, 3]],
    ),
    (
        "contrib.BilinearResize2D",
        [np.arange(4).reshape(1, 1, 2, 2)],
        {"height": 3, "width": 4, "align_corners": False},
        [[0, 0.25, 0.75, 1], [1, 1.25, 1.75, 2], [2, 2.25, 2.75, 3]],
    ),
    ("contrib.BilinearResize2D", [np.arange(16).reshape(1, 1, 4, 4)], {}, [[0]]),
    (
        "UpSampling",
        [np.arange(4).reshape(1, 1, 2, 2), KERNEL],
        {"scale": 2, "sample_type": "bilinear", "num_filter": 1},
        [
            [0, 0.1875, 0.5625, 0.5625],
            [0.375, 0.75, 1.25, 1.125],
            [1.125, 1.75, 2.25, 1.875],
            [1.125, 1.6875, 2.0625, 1.6875],
        ],
    ),
    (
        "UpSampling",
        [np.array([[[[1, 2]]]]), np.ones((1, 1, 2, 2))],
        {"scale": 2, "sample_type": "nearest", "multi_input_mode": "sum"},
        [[2, 2, 3, 3], [2, 2, 3, 3]],
    ),
    (
        "LRN",
        [np.array([1, -2, 3, 0.5]).reshape(1, 4, 1, 1)],
        {"nsize": 3, "alpha": 1, "beta": 0.5, "knorm": 1},
        [0.61237, -0.84017, 1.28901, 0.24744],
    ),
    (
        "BilinearSampler",
        [NINE, np.array([[[[-1, 0, 1, 1.5, -2]], [[-1, 0.25, 1, 1, 0]]]])],
        {},
        [1, 5.75, 9, 4.5, 0],
    ),
    ("GridGenerator", [THETA], AFFINE, [[[-0.8, 0.2, 1.2]] * 2, [[-0.4] * 3, [0.6] * 3]]),
    (
        "GridGenerator",
        [np.arange(12).reshape(1, 2, 2, 3) / 8],
        {"transform_type": "warp"},
        [[[-1, 0.125, 1.25], [-0.625, 0.5, 1.625]], [[0.5, 0.75, 1], [3.25, 3.5, 3.75]]],
    ),
    (
        "SpatialTransformer",
        [NINE, THETA],
        {**AFFINE, "sampler_type": "bilinear"},
        [[3, 4, 3.84], [6, 7, 6.24]],
    ),
    (
        "contrib.box_iou",
        [[[0, 0, 2, 2], [1, 1, 3, 3]], [[0, 0, 2, 2], [5, 5, 6, 6], [1, 1, 1, 1]]],
        {},
        [[1, 0, 0], [1 / 7, 0, 0]],
    ),
    (
        "contrib.box_iou",
        [[[0, 0, 2, 2], [1, 1, 3, 3]], [[0, 0, 2, 2], [5, 5, 6, 6], [1, 1, 1, 1]]],
        {"format": "center"},
        [[1, 0, 0.05263158], [0.20930232, 0.00558659, 0.11111111]],
    ),
    ("Crop", [np.arange(16).reshape(1, 1, 4, 4)], {"h_w": (2, 2), "offset": (1, 1)}, [[5, 6], [9, 10]]),
    ("Crop", [np.arange(16).reshape(1, 1, 4, 4)], {"h_w": (2, 3), "center_crop": True}, [[4, 5, 6], [8, 9, 10]]),
    ("Crop", [np.arange(16).reshape(1, 1, 4, 4), np.ones((1, 1, 3, 3))], {}, [[0, 1, 2], [4, 5, 6], [8, 9, 10]]),
]


def function(F, name):
    for part in name.split("."):
        F = getattr(F, part)
    return F


class Block(mx.gluon.HybridBlock):
    def __init__(self, name, attributes):
        super().__init__()
        self._operator = name, attributes

    def hybrid_forward(self, F, *inputs):
        name, attributes = self._operator
        return function(F, name)(*inputs, **attributes)


@pytest.mark.parametrize("hybridized", [False, True])
@pytest.mark.parametrize("name,inputs,attributes,result", RECORDED)
def test_recorded(name, inputs, attributes, result, hybridized):
    net = Block(name, attributes)
    if hybridized:
        net.hybridize()
    close(net(*(mx.nd.array(x) for x in inputs)), result)


FIELD = (np.arange(25) * 7 % 25).reshape(1, 1, 5, 5).astype("f")
#: of these the last is in no sample, so its bins are empty
ROIS = [[0, 0, 0, 2, 3], [0, 3, 3, 6, 6], [0, 4, 4, 1, 1], [-1, 0, 0, 2, 2]]


@pytest.mark.parametrize("hybridized", [False, True])
@pytest.mark.parametrize(
    "name,attributes,result,gradient",
    [
        (
            "ROIPooling",
            {"spatial_scale": 1.0},
            [[[17, 24], [20, 19]], [[18, 0], [0, 0]], [[18, 18], [18, 18]], [[0, 0], [0, 0]]],
            [[0, 0, 0, 0, 0], [0, 1, 1, 0, 0], [1, 0, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 0, 5]],
        ),
        (
            "contrib.ROIAlign",
            {"spatial_scale": 0.5, "sample_ratio": 2},
            # MXNet writes the zero of the last region over element (0, 1, 1); its gradient has what belongs there
            [
                [[5.5, 9], [12.02344, 13.57031]],
                [[10.63476, 13.10156], [13.88672, 9.85938]],
                [[11.6875, 12.0625], [13.5625, 7.6875]],
                [[0, 0], [0, 0]],
            ],
            [
                [0.65625, 0.65625, 0, 0, 0],
                [1.1875, 1.21191, 0.18555, 0.10254, 0],
                [0.15625, 0.3418, 2.41016, 1.7793, 0],
                [0, 0.10254, 1.7793, 1.43066, 0],
                [0, 0, 0, 0, 0],
            ],
        ),
    ],
)
def test_regions(name, attributes, result, gradient, hybridized):
    net = Block(name, {"pooled_size": (2, 2), **attributes})
    if hybridized:
        net.hybridize()
    x, rois = mx.nd.array(FIELD), mx.nd.array(ROIS)
    x.attach_grad()
    rois.attach_grad()
    with autograd.record():
        y = net(x, rois)
    y.backward()
    close(y, result)
    close(x.grad, gradient)
    close(rois.grad, np.zeros((4, 5)))


def test_position_sensitive_regions():
    x = mx.nd.broadcast_mul(mx.nd.ones((1, 8, 5, 5)), mx.nd.arange(8).reshape((1, 8, 1, 1)))
    y = mx.nd.contrib.ROIAlign(
        x, mx.nd.array([[0, 0, 0, 3, 3]]), pooled_size=(2, 2), spatial_scale=1, position_sensitive=True
    )
    close(y, np.arange(8).reshape(1, 2, 2, 2))


MODES = [
    ("odd_scale", (4, 4), 2.0, 3.0, (8, 12)),
    ("odd_scale", (5, 5), 2.0, 3.0, (9, 13)),
    ("odd_scale", (6, 7), 0.5, 1.5, (3, 10)),
    ("to_even_down", (5, 6), None, None, (4, 6)),
    ("to_even_up", (5, 6), None, None, (6, 6)),
    ("to_odd_down", (5, 6), None, None, (5, 5)),
    ("to_odd_up", (5, 6), None, None, (5, 7)),
    ("size", (4, 4), 2.0, 1.5, (8, 6)),
]


@pytest.mark.parametrize("mode,size,scale_height,scale_width,result", MODES)
def test_sizes_of_bilinear_resize(mode, size, scale_height, scale_width, result):
    attributes = {"mode": mode}
    if scale_height:
        attributes |= {"scale_height": scale_height, "scale_width": scale_width}
    x = images(1, 2, *size)
    y = mx.nd.contrib.BilinearResize2D(x, **attributes)
    assert y.shape == (1, 2, *result)
    corners = [y.asnumpy()[..., r, c] for r in (0, -1) for c in (0, -1)]
    np.testing.assert_allclose(corners, [x.asnumpy()[..., r, c] for r in (0, -1) for c in (0, -1)], 1e-5)


def test_resizing_like_another_array():
    y = mx.nd.contrib.BilinearResize2D(images(1, 1, 4, 4), mx.nd.ones((1, 1, 3, 3)), mode="like")
    close(y, [[0, 1.5, 3], [6, 7.5, 9], [12, 13.5, 15]])


def test_nan_stays_where_it_is_interpolated():
    x = np.zeros((1, 1, 1, 5), "f")
    x[..., 0] = np.nan
    y = mx.nd.contrib.BilinearResize2D(mx.nd.array(x), height=1, width=9).asnumpy()
    assert np.isnan(y[0, 0, 0, :2]).all() and not y[0, 0, 0, 2:].any()


def test_a_missing_weight_becomes_a_variable():
    s = mx.sym.UpSampling(mx.sym.var("x"), scale=2, sample_type="bilinear", num_filter=3, num_args=2, name="up")
    assert s.list_arguments() == ["x", "up_weight"]
    assert s.infer_shape(x=(2, 3, 4, 4))[:2] == ([(2, 3, 4, 4), (3, 1, 4, 4)], [(2, 3, 8, 8)])
    assert json.loads(s.attr_dict()["up_weight"]["__init__"]) == ["bilinear", {}]
    both = mx.sym.UpSampling(mx.sym.var("a"), mx.sym.var("b"), scale=2, sample_type="nearest", num_args=2)
    assert both.list_arguments() == ["a", "b"]


def test_several_inputs_grow_to_one_size():
    y = mx.nd.UpSampling(images(1, 1, 4, 4), images(1, 2, 2, 2), scale=4, sample_type="nearest", num_args=2)
    assert y.shape == (1, 3, 16, 16)
    np.testing.assert_array_equal(y.asnumpy()[0, 1, :, 0], np.repeat([0, 2], 8))


@pytest.mark.parametrize(
    "name,inputs,rows",
    [
        ("LRN", {"nsize": 3}, [0, 1, 3]),
        ("BilinearSampler", {}, [0, 1, 2, 4]),
        ("SpatialTransformer", {"transform_type": "affine", "sampler_type": "bilinear"}, [0, 1, 2, 5]),
        ("ROIPooling", {"pooled_size": (2, 2), "spatial_scale": 1}, [0, 1, 2, 4]),
    ],
)
def test_hidden_results_are_counted_in_files(name, inputs, rows):
    variables = [mx.sym.var(f"x{k}") for k in range(len(rows) - 2)]
    s = getattr(mx.sym, name)(*variables, name="n", **inputs)
    assert s.list_outputs() == ["n_output"]
    assert json.loads(s.tojson())["node_row_ptr"] == rows


ERRORS = [
    (
        "UpSampling",
        [(1, 1, 4, 4), (1, 2, 3, 3)],
        {"scale": 2, "sample_type": "nearest"},
        "input height of 3does not divide output height of 8",
    ),
    (
        "UpSampling",
        [(1, 1, 4, 4), (1, 1, 6, 6)],
        {"scale": 3, "sample_type": "bilinear", "num_filter": 1},
        "inferred shape=(1,1,5,5)",
    ),
    ("contrib.AdaptiveAvgPooling2D", [(1, 2, 3)], {"output_size": 3}, "4D in (batch, channel, y, x)"),
    ("LRN", [(1, 4, 2, 2)], {"nsize": 4}, "LRN only supports odd values for local_size"),
    ("GridGenerator", [(1, 5)], AFFINE, "incorrect data shape[1], should be 6"),
    ("GridGenerator", [(1, 2, 3)], AFFINE, "if transform_type is affine, data is affine matrix"),
    ("GridGenerator", [(1, 6)], {"transform_type": "affine"}, "incorrect target_shape: 0"),
    ("GridGenerator", [(1, 3, 2, 3)], {"transform_type": "warp"}, "incorrect data shape[1], should be 2"),
    ("BilinearSampler", [(1, 1, 4, 4), (2, 2, 1, 1)], {}, "dshape[0] == lshape[0] (1 vs. 2)"),
    ("BilinearSampler", [(1, 1, 4, 4), (1, 3, 1, 1)], {}, "incorrect grid shape[1], should be 2"),
    ("SpatialTransformer", [(1, 1, 4, 4), (1, 5)], {**AFFINE, "sampler_type": "bilinear"}, "should be 6"),
    (
        "ROIPooling",
        [(1, 1, 4, 4), (2, 4)],
        {"pooled_size": (2, 2), "spatial_scale": 1.0},
        "bbox should be a 2D tensor of shape [batch, 5]",
    ),
    (
        "ROIPooling",
        [(1, 1, 4, 4), (2, 5)],
        {"pooled_size": (2, 2), "spatial_scale": 1.5},
        "value 1.5 for Parameter spatial_scale exceed bound [0,1]",
    ),
    ("contrib.box_iou", [(2, 4), (2, 3)], {}, "last dimension of rhs must be 4 3 provided"),
    ("contrib.box_iou", [(4,), (4,)], {}, "lhs must have dim >= 2 1 provided"),
    ("Crop", [(1, 1, 4, 4)], {"h_w": (5, 5)}, "the crop height(h_w[0]) should be less than the input data's height"),
    (
        "Crop",
        [(1, 1, 4, 4)],
        {"h_w": (2, 2), "offset": (3, 3)},
        "offset[0] should be less than the residual space of height",
    ),
    ("Crop", [(1, 1, 4, 4)], {}, "the crop height(h_w[0]) should be larger than 1"),
]


@pytest.mark.parametrize("name,shapes,attributes,text", ERRORS)
def test_errors(name, shapes, attributes, text):
    with pytest.raises(MXNetError) as e:
        function(mx.nd, name)(*(mx.nd.ones(s) for s in shapes), **attributes)
    assert text in str(e.value)
