# SPDX-License-Identifier: Apache-2.0
"""SqueezeNet (Iandola et al., 2016)."""

from __future__ import annotations

from typing import Any

from ... import nn
from ...contrib.nn import HybridConcurrent
from ..model_store import load_pretrained
from .base import Classifier

__all__ = ["SqueezeNet", "get_squeezenet", "squeezenet1_0", "squeezenet1_1"]

#: version -> (channels and window of the first convolution, channels of the squeezing layers; 0 is a pool)
_SPEC = {
    "1.0": ((96, 7), (0, 16, 16, 32, 0, 32, 48, 48, 64, 0, 64)),
    "1.1": ((64, 3), (0, 16, 16, 0, 32, 32, 0, 48, 48, 64, 64)),
}


def _conv(channels: int, kernel_size: int, padding: int = 0) -> Any:
    out = nn.HybridSequential(prefix="")
    out.add(nn.Conv2D(channels, kernel_size, padding=padding))
    out.add(nn.Activation("relu"))
    return out


def _fire(squeezed: int) -> Any:
    """Few channels, then four times as many by each of two windows side by side."""
    out = nn.HybridSequential(prefix="")
    out.add(_conv(squeezed, 1))
    paths = HybridConcurrent(axis=1, prefix="")
    paths.add(_conv(4 * squeezed, 1))
    paths.add(_conv(4 * squeezed, 3, 1))
    out.add(paths)
    return out


class SqueezeNet(Classifier):
    """SqueezeNet for images of 224 x 224.

    Args:
        version: '1.0' or '1.1'.
    """

    def __init__(self, version: str, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        assert version in _SPEC, f"Unsupported SqueezeNet version {version}:1.0 or 1.1 expected"
        (channels, kernel), squeezed = _SPEC[version]
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self.features.add(nn.Conv2D(channels, kernel_size=kernel, strides=2))
            self.features.add(nn.Activation("relu"))
            for n in squeezed:
                self.features.add(_fire(n) if n else nn.MaxPool2D(pool_size=3, strides=2, ceil_mode=True))
            self.features.add(nn.Dropout(0.5))
            self.output = nn.HybridSequential(prefix="")
            self.output.add(nn.Conv2D(classes, kernel_size=1), nn.Activation("relu"), nn.AvgPool2D(13), nn.Flatten())


def get_squeezenet(
    version: str, pretrained: bool = False, ctx: Any = None, root: str | None = None, **kwargs: Any
) -> SqueezeNet:
    """SqueezeNet 1.0 or 1.1; with ``pretrained`` parameters of MXNet's model zoo from ``root``."""
    net = SqueezeNet(version, **kwargs)
    return load_pretrained(net, f"squeezenet{version}", ctx, root) if pretrained else net


def squeezenet1_0(**kwargs: Any) -> SqueezeNet:
    """SqueezeNet 1.0; arguments as for :func:`get_squeezenet`."""
    return get_squeezenet("1.0", **kwargs)


def squeezenet1_1(**kwargs: Any) -> SqueezeNet:
    """SqueezeNet 1.1; arguments as for :func:`get_squeezenet`."""
    return get_squeezenet("1.1", **kwargs)
