# SPDX-License-Identifier: Apache-2.0
"""ResNet v1 and v2 (He et al., 2015 and 2016)."""

from __future__ import annotations

from typing import Any

from ... import nn
from ...hybrid import HybridBlock
from ..model_store import load_pretrained
from .base import Classifier

__all__ = [
    "BasicBlockV1",
    "BasicBlockV2",
    "BottleneckV1",
    "BottleneckV2",
    "ResNetV1",
    "ResNetV2",
    "get_resnet",
    "resnet18_v1",
    "resnet18_v2",
    "resnet34_v1",
    "resnet34_v2",
    "resnet50_v1",
    "resnet50_v2",
    "resnet101_v1",
    "resnet101_v2",
    "resnet152_v1",
    "resnet152_v2",
]  # fmt: skip


def _conv3x3(channels: int, stride: int, in_channels: int) -> Any:
    return nn.Conv2D(channels, kernel_size=3, strides=stride, padding=1, use_bias=False, in_channels=in_channels)


class _BlockV1(HybridBlock):
    """relu(body(x) + x), the input convolved where its extents change."""

    body: Any
    downsample: Any
    _hg_input_first = True  #: order of the sum's terms in the graph

    def _hg_set_downsample(self, channels: int, stride: int, downsample: bool, in_channels: int) -> None:
        if not downsample:
            self.downsample = None
            return
        self.downsample = nn.HybridSequential(prefix="")
        self.downsample.add(nn.Conv2D(channels, kernel_size=1, strides=stride, use_bias=False, in_channels=in_channels))
        self.downsample.add(nn.BatchNorm())

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        out = self.body(x)
        residual = x if self.downsample is None else self.downsample(x)
        return F.Activation(residual + out if self._hg_input_first else out + residual, act_type="relu")


class BasicBlockV1(_BlockV1):
    """Two convolutions of 3 x 3.

    Args:
        channels, stride: of the block.
        downsample: convolve the input, too.
        in_channels: 0 takes them from the first call.
    """

    def __init__(
        self, channels: int, stride: int, downsample: bool = False, in_channels: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.body = nn.HybridSequential(prefix="")
        self.body.add(_conv3x3(channels, stride, in_channels), nn.BatchNorm(), nn.Activation("relu"))
        self.body.add(_conv3x3(channels, 1, channels), nn.BatchNorm())
        self._hg_set_downsample(channels, stride, downsample, in_channels)


class BottleneckV1(_BlockV1):
    """Convolutions of 1 x 1, 3 x 3 and 1 x 1 with a quarter of the channels inside; arguments as for BasicBlockV1."""

    _hg_input_first = False

    def __init__(
        self, channels: int, stride: int, downsample: bool = False, in_channels: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        inner = channels // 4
        self.body = nn.HybridSequential(prefix="")
        self.body.add(nn.Conv2D(inner, kernel_size=1, strides=stride), nn.BatchNorm(), nn.Activation("relu"))
        self.body.add(_conv3x3(inner, 1, inner), nn.BatchNorm(), nn.Activation("relu"))
        self.body.add(nn.Conv2D(channels, kernel_size=1, strides=1), nn.BatchNorm())
        self._hg_set_downsample(channels, stride, downsample, in_channels)


class _BlockV2(HybridBlock):
    """Normalise and rectify before each convolution; the input is added at the end."""

    downsample: Any

    def _hg_set_downsample(self, channels: int, stride: int, downsample: bool, in_channels: int) -> None:
        self.downsample = (
            nn.Conv2D(channels, 1, stride, use_bias=False, in_channels=in_channels) if downsample else None
        )

    def _hg_pairs(self) -> list[tuple[Any, Any]]:
        """(normalisation, convolution) in order."""
        raise NotImplementedError

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        residual = x
        for k, (norm, conv) in enumerate(self._hg_pairs()):
            x = F.Activation(norm(x), act_type="relu")
            if k == 0 and self.downsample is not None:
                residual = self.downsample(x)
            x = conv(x)
        return x + residual


class BasicBlockV2(_BlockV2):
    """Two convolutions of 3 x 3; arguments as for BasicBlockV1."""

    def __init__(
        self, channels: int, stride: int, downsample: bool = False, in_channels: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.bn1 = nn.BatchNorm()
        self.conv1 = _conv3x3(channels, stride, in_channels)
        self.bn2 = nn.BatchNorm()
        self.conv2 = _conv3x3(channels, 1, channels)
        self._hg_set_downsample(channels, stride, downsample, in_channels)

    def _hg_pairs(self) -> list[tuple[Any, Any]]:
        return [(self.bn1, self.conv1), (self.bn2, self.conv2)]


class BottleneckV2(_BlockV2):
    """Convolutions of 1 x 1, 3 x 3 and 1 x 1 with a quarter of the channels inside; arguments as for BasicBlockV1."""

    def __init__(
        self, channels: int, stride: int, downsample: bool = False, in_channels: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        inner = channels // 4
        self.bn1 = nn.BatchNorm()
        self.conv1 = nn.Conv2D(inner, kernel_size=1, strides=1, use_bias=False)
        self.bn2 = nn.BatchNorm()
        self.conv2 = _conv3x3(inner, stride, inner)
        self.bn3 = nn.BatchNorm()
        self.conv3 = nn.Conv2D(channels, kernel_size=1, strides=1, use_bias=False)
        self._hg_set_downsample(channels, stride, downsample, in_channels)

    def _hg_pairs(self) -> list[tuple[Any, Any]]:
        return [(self.bn1, self.conv1), (self.bn2, self.conv2), (self.bn3, self.conv3)]


class _ResNet(Classifier):
    """What both versions share: the beginning and the stages."""

    def _hg_add_beginning(self, channels: int, thumbnail: bool) -> None:
        if thumbnail:
            self.features.add(_conv3x3(channels, 1, 0))
            return
        self.features.add(nn.Conv2D(channels, 7, 2, 3, use_bias=False))
        self.features.add(nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(3, 2, 1))

    def _hg_add_stages(self, block: Any, layers: list[int], channels: list[int]) -> None:
        for i, count in enumerate(layers):
            stage = self._make_layer(block, count, channels[i + 1], 1 if i == 0 else 2, i + 1, in_channels=channels[i])
            self.features.add(stage)

    def _make_layer(
        self, block: Any, layers: int, channels: int, stride: int, stage_index: int, in_channels: int = 0
    ) -> Any:
        layer = nn.HybridSequential(prefix=f"stage{stage_index}_")
        with layer.name_scope():
            layer.add(block(channels, stride, channels != in_channels, in_channels=in_channels, prefix=""))
            for _ in range(layers - 1):
                layer.add(block(channels, 1, False, in_channels=channels, prefix=""))
        return layer


class ResNetV1(_ResNet):
    """ResNet as first published; images of 224 x 224.

    Args:
        block: class of the blocks.
        layers: blocks of each stage.
        channels: of the beginning and of each stage.
        thumbnail: for small images: no pooling at the beginning.
    """

    def __init__(
        self,
        block: Any,
        layers: list[int],
        channels: list[int],
        classes: int = 1000,
        thumbnail: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        assert len(layers) == len(channels) - 1
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self._hg_add_beginning(channels[0], thumbnail)
            self._hg_add_stages(block, layers, channels)
            self.features.add(nn.GlobalAvgPool2D())
            self.output = nn.Dense(classes, in_units=channels[-1])


class ResNetV2(_ResNet):
    """ResNet with normalisation before convolution; arguments as for ResNetV1."""

    def __init__(
        self,
        block: Any,
        layers: list[int],
        channels: list[int],
        classes: int = 1000,
        thumbnail: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        assert len(layers) == len(channels) - 1
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self.features.add(nn.BatchNorm(scale=False, center=False))
            self._hg_add_beginning(channels[0], thumbnail)
            self._hg_add_stages(block, layers, channels)
            self.features.add(nn.BatchNorm(), nn.Activation("relu"), nn.GlobalAvgPool2D(), nn.Flatten())
            self.output = nn.Dense(classes, in_units=channels[-1])


_THIN, _WIDE = [64, 64, 128, 256, 512], [64, 256, 512, 1024, 2048]

#: depth -> (kind of block, blocks of each stage, channels)
resnet_spec: dict[int, tuple[str, list[int], list[int]]] = {
    18: ("basic_block", [2, 2, 2, 2], _THIN),
    34: ("basic_block", [3, 4, 6, 3], _THIN),
    50: ("bottle_neck", [3, 4, 6, 3], _WIDE),
    101: ("bottle_neck", [3, 4, 23, 3], _WIDE),
    152: ("bottle_neck", [3, 8, 36, 3], _WIDE),
}
resnet_net_versions: list[Any] = [ResNetV1, ResNetV2]
resnet_block_versions: list[dict[str, Any]] = [
    {"basic_block": BasicBlockV1, "bottle_neck": BottleneckV1},
    {"basic_block": BasicBlockV2, "bottle_neck": BottleneckV2},
]


def get_resnet(
    version: int,
    num_layers: int,
    pretrained: bool = False,
    ctx: Any = None,
    root: str | None = None,
    **kwargs: Any,
) -> Any:
    """ResNet of version 1 or 2 and 18, 34, 50, 101 or 152 layers; with ``pretrained`` parameters of MXNet's model zoo
    from ``root``.

    Raises:
        AssertionError: another version or depth.
    """
    assert num_layers in resnet_spec, f"Invalid number of layers: {num_layers}. Options are {resnet_spec.keys()}"
    assert version in (1, 2), f"Invalid resnet version: {version}. Options are 1 and 2."
    kind, layers, channels = resnet_spec[num_layers]
    net = resnet_net_versions[version - 1](resnet_block_versions[version - 1][kind], layers, channels, **kwargs)
    return load_pretrained(net, f"resnet{num_layers}_v{version}", ctx, root) if pretrained else net


def resnet18_v1(**kwargs: Any) -> ResNetV1:
    """ResNet v1 of 18 layers; arguments as for :func:`get_resnet`."""
    return get_resnet(1, 18, **kwargs)  # type: ignore[no-any-return]


def resnet34_v1(**kwargs: Any) -> ResNetV1:
    """ResNet v1 of 34 layers; arguments as for :func:`get_resnet`."""
    return get_resnet(1, 34, **kwargs)  # type: ignore[no-any-return]


def resnet50_v1(**kwargs: Any) -> ResNetV1:
    """ResNet v1 of 50 layers; arguments as for :func:`get_resnet`."""
    return get_resnet(1, 50, **kwargs)  # type: ignore[no-any-return]


def resnet101_v1(**kwargs: Any) -> ResNetV1:
    """ResNet v1 of 101 layers; arguments as for :func:`get_resnet`."""
    return get_resnet(1, 101, **kwargs)  # type: ignore[no-any-return]


def resnet152_v1(**kwargs: Any) -> ResNetV1:
    """ResNet v1 of 152 layers; arguments as for :func:`get_resnet`."""
    return get_resnet(1, 152, **kwargs)  # type: ignore[no-any-return]


def resnet18_v2(**kwargs: Any) -> ResNetV2:
    """ResNet v2 of 18 layers; arguments as for :func:`get_resnet`."""
    return get_resnet(2, 18, **kwargs)  # type: ignore[no-any-return]


def resnet34_v2(**kwargs: Any) -> ResNetV2:
    """ResNet v2 of 34 layers; arguments as for :func:`get_resnet`."""
    return get_resnet(2, 34, **kwargs)  # type: ignore[no-any-return]


def resnet50_v2(**kwargs: Any) -> ResNetV2:
    """ResNet v2 of 50 layers; arguments as for :func:`get_resnet`."""
    return get_resnet(2, 50, **kwargs)  # type: ignore[no-any-return]


def resnet101_v2(**kwargs: Any) -> ResNetV2:
    """ResNet v2 of 101 layers; arguments as for :func:`get_resnet`."""
    return get_resnet(2, 101, **kwargs)  # type: ignore[no-any-return]


def resnet152_v2(**kwargs: Any) -> ResNetV2:
    """ResNet v2 of 152 layers; arguments as for :func:`get_resnet`."""
    return get_resnet(2, 152, **kwargs)  # type: ignore[no-any-return]
