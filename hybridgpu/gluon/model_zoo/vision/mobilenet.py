# SPDX-License-Identifier: Apache-2.0
"""MobileNet v1 and v2 (Howard et al., 2017; Sandler et al., 2018)."""

from __future__ import annotations

from typing import Any

from ... import nn
from ...hybrid import HybridBlock
from ..model_store import load_pretrained
from .base import Classifier

__all__ = [
    "MobileNet",
    "MobileNetV2",
    "get_mobilenet",
    "get_mobilenet_v2",
    "mobilenet0_5",
    "mobilenet0_25",
    "mobilenet0_75",
    "mobilenet1_0",
    "mobilenet_v2_0_5",
    "mobilenet_v2_0_25",
    "mobilenet_v2_0_75",
    "mobilenet_v2_1_0",
]  # fmt: skip


class RELU6(HybridBlock):
    """x clipped to 0 … 6."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.clip(x, 0, 6, name="relu6")


def _add_conv(
    out: Any,
    channels: int = 1,
    kernel: int = 1,
    stride: int = 1,
    pad: int = 0,
    num_group: int = 1,
    active: bool = True,
    relu6: bool = False,
) -> None:
    """Convolve, normalise, rectify."""
    out.add(nn.Conv2D(channels, kernel, stride, pad, groups=num_group, use_bias=False))
    out.add(nn.BatchNorm(scale=True))
    if active:
        out.add(RELU6() if relu6 else nn.Activation("relu"))


class LinearBottleneck(HybridBlock):
    """Widen ``t`` times, convolve each channel on its own, and narrow again; the input is added where it fits."""

    def __init__(self, in_channels: int, channels: int, t: int, stride: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.use_shortcut = stride == 1 and in_channels == channels
        wide = in_channels * t
        with self.name_scope():
            self.out = nn.HybridSequential()
            _add_conv(self.out, wide, relu6=True)
            _add_conv(self.out, wide, kernel=3, stride=stride, pad=1, num_group=wide, relu6=True)
            _add_conv(self.out, channels, active=False, relu6=True)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        out = self.out(x)
        return F.elemwise_add(out, x) if self.use_shortcut else out


class MobileNet(Classifier):
    """MobileNet v1 for images of 224 x 224.

    Args:
        multiplier: of all numbers of channels.
    """

    def __init__(self, multiplier: float = 1.0, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        #: channels and stride of each pair of convolutions
        pairs = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)]
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            with self.features.name_scope():
                before = int(32 * multiplier)
                _add_conv(self.features, before, kernel=3, pad=1, stride=2)
                for channels, stride in pairs:
                    _add_conv(self.features, before, kernel=3, stride=stride, pad=1, num_group=before)
                    before = int(channels * multiplier)
                    _add_conv(self.features, before)
                self.features.add(nn.GlobalAvgPool2D(), nn.Flatten())
            self.output = nn.Dense(classes)


class MobileNetV2(Classifier):
    """MobileNet v2 for images of 224 x 224.

    Args:
        multiplier: of all numbers of channels.
    """

    def __init__(self, multiplier: float = 1.0, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        #: channels, number and first stride of the bottlenecks of each stage
        stages = [(16, 1, 1), (24, 2, 2), (32, 3, 2), (64, 4, 2), (96, 3, 1), (160, 3, 2), (320, 1, 1)]
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="features_")
            with self.features.name_scope():
                before = int(32 * multiplier)
                _add_conv(self.features, before, kernel=3, stride=2, pad=1, relu6=True)
                for k, (channels, count, first_stride) in enumerate(stages):
                    for i in range(count):
                        after, stride = int(channels * multiplier), first_stride if i == 0 else 1
                        widened = 6 if k else 1
                        self.features.add(LinearBottleneck(before, after, widened, stride))
                        before = after
                _add_conv(self.features, int(1280 * multiplier) if multiplier > 1.0 else 1280, relu6=True)
                self.features.add(nn.GlobalAvgPool2D())
            self.output = nn.HybridSequential(prefix="output_")
            with self.output.name_scope():
                self.output.add(nn.Conv2D(classes, 1, use_bias=False, prefix="pred_"), nn.Flatten())


def _version(multiplier: float) -> str:
    """The multiplier as files spell it: 1.0, 0.75, 0.5, 0.25."""
    text = f"{multiplier:.2f}"
    return text[:-1] if text in ("1.00", "0.50") else text


def get_mobilenet(
    multiplier: float, pretrained: bool = False, ctx: Any = None, root: str | None = None, **kwargs: Any
) -> MobileNet:
    """MobileNet v1; with ``pretrained`` parameters of MXNet's model zoo from ``root``."""
    net = MobileNet(multiplier, **kwargs)
    return load_pretrained(net, f"mobilenet{_version(multiplier)}", ctx, root) if pretrained else net


def get_mobilenet_v2(
    multiplier: float, pretrained: bool = False, ctx: Any = None, root: str | None = None, **kwargs: Any
) -> MobileNetV2:
    """MobileNet v2; with ``pretrained`` parameters of MXNet's model zoo from ``root``."""
    net = MobileNetV2(multiplier, **kwargs)
    return load_pretrained(net, f"mobilenetv2_{_version(multiplier)}", ctx, root) if pretrained else net


def mobilenet1_0(**kwargs: Any) -> MobileNet:
    """MobileNet v1 of full width; arguments as for :func:`get_mobilenet`."""
    return get_mobilenet(1.0, **kwargs)


def mobilenet0_75(**kwargs: Any) -> MobileNet:
    """MobileNet v1 of width 0.75; arguments as for :func:`get_mobilenet`."""
    return get_mobilenet(0.75, **kwargs)


def mobilenet0_5(**kwargs: Any) -> MobileNet:
    """MobileNet v1 of width 0.5; arguments as for :func:`get_mobilenet`."""
    return get_mobilenet(0.5, **kwargs)


def mobilenet0_25(**kwargs: Any) -> MobileNet:
    """MobileNet v1 of width 0.25; arguments as for :func:`get_mobilenet`."""
    return get_mobilenet(0.25, **kwargs)


def mobilenet_v2_1_0(**kwargs: Any) -> MobileNetV2:
    """MobileNet v2 of full width; arguments as for :func:`get_mobilenet_v2`."""
    return get_mobilenet_v2(1.0, **kwargs)


def mobilenet_v2_0_75(**kwargs: Any) -> MobileNetV2:
    """MobileNet v2 of width 0.75; arguments as for :func:`get_mobilenet_v2`."""
    return get_mobilenet_v2(0.75, **kwargs)


def mobilenet_v2_0_5(**kwargs: Any) -> MobileNetV2:
    """MobileNet v2 of width 0.5; arguments as for :func:`get_mobilenet_v2`."""
    return get_mobilenet_v2(0.5, **kwargs)


def mobilenet_v2_0_25(**kwargs: Any) -> MobileNetV2:
    """MobileNet v2 of width 0.25; arguments as for :func:`get_mobilenet_v2`."""
    return get_mobilenet_v2(0.25, **kwargs)
