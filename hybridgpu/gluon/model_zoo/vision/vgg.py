# SPDX-License-Identifier: Apache-2.0
"""VGG (Simonyan and Zisserman, 2014)."""

from __future__ import annotations

from typing import Any

from ....initializer import Xavier
from ... import nn
from ..model_store import load_pretrained
from .base import Classifier

__all__ = ["VGG", "get_vgg", "vgg11", "vgg11_bn", "vgg13", "vgg13_bn", "vgg16", "vgg16_bn", "vgg19", "vgg19_bn"]

_FILTERS = [64, 128, 256, 512, 512]

#: depth -> (convolutions of each stage, their channels)
vgg_spec = {
    11: ([1, 1, 2, 2, 2], _FILTERS),
    13: ([2, 2, 2, 2, 2], _FILTERS),
    16: ([2, 2, 3, 3, 3], _FILTERS),
    19: ([2, 2, 4, 4, 4], _FILTERS),
}


class VGG(Classifier):
    """Stages of convolutions of 3 x 3, each followed by pooling.

    Args:
        layers: convolutions of each stage.
        filters: channels of each stage.
        batch_norm: normalise after each convolution.
    """

    def __init__(
        self, layers: list[int], filters: list[int], classes: int = 1000, batch_norm: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        assert len(layers) == len(filters)
        with self.name_scope():
            self.features = self._make_features(layers, filters, batch_norm)
            for _ in range(2):
                self.features.add(nn.Dense(4096, activation="relu", weight_initializer="normal"))
                self.features.add(nn.Dropout(rate=0.5))
            self.output = nn.Dense(classes, weight_initializer="normal")

    def _make_features(self, layers: list[int], filters: list[int], batch_norm: bool) -> Any:
        out = nn.HybridSequential(prefix="")
        for count, channels in zip(layers, filters, strict=True):
            for _ in range(count):
                weights = Xavier(rnd_type="gaussian", factor_type="out", magnitude=2)
                out.add(nn.Conv2D(channels, kernel_size=3, padding=1, weight_initializer=weights))
                if batch_norm:
                    out.add(nn.BatchNorm())
                out.add(nn.Activation("relu"))
            out.add(nn.MaxPool2D(strides=2))
        return out


def get_vgg(num_layers: int, pretrained: bool = False, ctx: Any = None, root: str | None = None, **kwargs: Any) -> VGG:
    """VGG of 11, 13, 16 or 19 layers; with ``pretrained`` parameters of MXNet's model zoo from ``root``."""
    net = VGG(*vgg_spec[num_layers], **kwargs)
    name = f"vgg{num_layers}{'_bn' if kwargs.get('batch_norm') else ''}"
    return load_pretrained(net, name, ctx, root) if pretrained else net


def vgg11(**kwargs: Any) -> VGG:
    """VGG of 11 layers; arguments as for :func:`get_vgg`."""
    return get_vgg(11, **kwargs)


def vgg13(**kwargs: Any) -> VGG:
    """VGG of 13 layers; arguments as for :func:`get_vgg`."""
    return get_vgg(13, **kwargs)


def vgg16(**kwargs: Any) -> VGG:
    """VGG of 16 layers; arguments as for :func:`get_vgg`."""
    return get_vgg(16, **kwargs)


def vgg19(**kwargs: Any) -> VGG:
    """VGG of 19 layers; arguments as for :func:`get_vgg`."""
    return get_vgg(19, **kwargs)


def vgg11_bn(**kwargs: Any) -> VGG:
    """VGG of 11 layers with batch normalisation; arguments as for :func:`get_vgg`."""
    return get_vgg(11, **{**kwargs, "batch_norm": True})


def vgg13_bn(**kwargs: Any) -> VGG:
    """VGG of 13 layers with batch normalisation; arguments as for :func:`get_vgg`."""
    return get_vgg(13, **{**kwargs, "batch_norm": True})


def vgg16_bn(**kwargs: Any) -> VGG:
    """VGG of 16 layers with batch normalisation; arguments as for :func:`get_vgg`."""
    return get_vgg(16, **{**kwargs, "batch_norm": True})


def vgg19_bn(**kwargs: Any) -> VGG:
    """VGG of 19 layers with batch normalisation; arguments as for :func:`get_vgg`."""
    return get_vgg(19, **{**kwargs, "batch_norm": True})
