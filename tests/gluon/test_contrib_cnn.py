# SPDX-License-Identifier: Apache-2.0
"""gluon.contrib.cnn. Numbers were recorded from MXNet 1.9.1, which has the modulated layer on GPUs only."""

from __future__ import annotations

import numpy as np
import pytest

from hybridgpu import autograd, nd
from hybridgpu.gluon import nn
from hybridgpu.gluon.contrib.cnn import DeformableConvolution, ModulatedDeformableConvolution

#: options, text, sum of the results, sums of absolute gradients: of the input, of the parameters by name
RECORDED = [
    (
        {"kernel_size": 3, "in_channels": 2},
        "DeformableConvolution(2 -> 4, kernel_size=(3, 3), stride=(1, 1))",
        -37.92211, [168.02046, 160.0, 1218.247, 23.469, 245.928],
    ),
    (
        {"kernel_size": (3, 2), "padding": 1, "strides": 2, "num_deformable_group": 2, "groups": 2, "activation": "relu",
         "use_bias": False, "in_channels": 4},
        "DeformableConvolution(2 -> 4, kernel_size=(3, 2), stride=(2, 2), padding=(1, 1), groups=2, bias=False, Activation(relu))",
        22.984653, [72.00345, 267.89, 11.826, 71.955],
    ),
    (
        {"kernel_size": 3, "offset_use_bias": False, "dilation": 2, "padding": (2, 1)},
        "DeformableConvolution(3 -> 4, kernel_size=(3, 3), stride=(1, 1), padding=(2, 1), dilation=(2, 2))",
        37.218567, [303.12677, 240.0, 2104.404, 381.574],
    ),
]  # fmt: skip


@pytest.mark.parametrize("hybridize", [False, True])
def test_mxnets_numbers(hybridize):
    rng = np.random.RandomState(0)
    for options, text, total, gradients in RECORDED:
        net = DeformableConvolution(4, **options)
        net.initialize()
        x = nd.array(rng.rand(2, options.get("in_channels", 3), 6, 7))
        net(x)
        assert repr(net) == text and net.prefix.startswith("deformable_conv")
        parameters = [p for _, p in sorted(net.collect_params().items())]
        for p in parameters:
            p.set_data(nd.array(rng.normal(size=p.shape) * 0.3))
        net.hybridize(hybridize)
        x.attach_grad()
        with autograd.record():
            y = net(x)
        y.backward()
        found = [np.abs(g.asnumpy()).sum() for g in (x.grad, *(p.grad() for p in parameters))]
        np.testing.assert_allclose(y.sum().asscalar(), total, rtol=1e-4)
        np.testing.assert_allclose(found, gradients, rtol=1e-4)


@pytest.mark.parametrize("layer", [DeformableConvolution, ModulatedDeformableConvolution])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"kernel_size": (3, 2), "strides": 2, "padding": (1, 0), "groups": 2},
        {"kernel_size": 2, "activation": "tanh"},
    ],
)
def test_windows_begin_as_those_of_a_convolution(layer, options):
    options = {"kernel_size": (1, 1), **options}
    plain, moved = nn.Conv2D(4, **options), layer(4, num_deformable_group=2, **options)
    x = nd.array(np.random.default_rng(0).normal(size=(2, 4, 6, 5)))
    for net in (plain, moved):
        net.initialize()
        net(x)
    plain.weight.set_data(moved.deformable_conv_weight.data())
    np.testing.assert_allclose(moved(x).asnumpy(), plain(x).asnumpy(), rtol=1e-5, atol=1e-6)
    count = options["kernel_size"] if isinstance(options["kernel_size"], tuple) else (2, 2)
    assert moved.offset_weight.shape[0] == 2 * layer._hg_per_element * count[0] * count[1]


def test_modulation():
    """A weight that is computed for every element of a window: with one element, the convolution is multiplied by it."""
    net = ModulatedDeformableConvolution(3, use_bias=False, in_channels=2)
    net.initialize()
    net.offset_bias.set_data(nd.array([0, 0, 1.5]))
    x = nd.array(np.random.default_rng(0).normal(size=(1, 2, 4, 4)))
    expected = nd.Convolution(x, net.deformable_conv_weight.data(), kernel=(1, 1), num_filter=3, no_bias=True)
    for _ in range(2):
        np.testing.assert_allclose(net(x).asnumpy(), expected.asnumpy() * 2 / (1 + np.exp(-1.5)), rtol=1e-5)
        net.hybridize()


def test_layouts():
    with pytest.raises(AssertionError, match="Only supports 'NCHW' and 'NHWC' layout for now"):
        DeformableConvolution(4, layout="NCW")
