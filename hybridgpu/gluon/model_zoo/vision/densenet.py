# SPDX-License-Identifier: Apache-2.0
"""DenseNet (Huang et al., 2017)."""

from __future__ import annotations

from typing import Any

from ... import nn
from ...contrib.nn import HybridConcurrent, Identity
from ..model_store import load_pretrained
from .base import Classifier

__all__ = ["DenseNet", "densenet121", "densenet161", "densenet169", "densenet201"]

#: depth -> (channels of the first convolution, growth, layers of each stage)
densenet_spec = {
    121: (64, 32, [6, 12, 24, 16]),
    161: (96, 48, [6, 12, 36, 24]),
    169: (64, 32, [6, 12, 32, 32]),
    201: (64, 32, [6, 12, 48, 32]),
}


def _add_normalised_conv(out: Any, channels: int, **options: Any) -> None:
    """Normalise, rectify, convolve."""
    out.add(nn.BatchNorm(), nn.Activation("relu"), nn.Conv2D(channels, use_bias=False, **options))


def _dense_layer(growth_rate: int, bn_size: int, dropout: float) -> Any:
    """The input, with ``growth_rate`` new channels behind it."""
    new = nn.HybridSequential(prefix="")
    _add_normalised_conv(new, bn_size * growth_rate, kernel_size=1)
    _add_normalised_conv(new, growth_rate, kernel_size=3, padding=1)
    if dropout:
        new.add(nn.Dropout(dropout))
    out = HybridConcurrent(axis=1, prefix="")
    out.add(Identity(), new)
    return out


def _dense_block(num_layers: int, bn_size: int, growth_rate: int, dropout: float, stage_index: int) -> Any:
    out = nn.HybridSequential(prefix=f"stage{stage_index}_")
    with out.name_scope():
        for _ in range(num_layers):
            out.add(_dense_layer(growth_rate, bn_size, dropout))
    return out


def _transition(channels: int) -> Any:
    out = nn.HybridSequential(prefix="")
    _add_normalised_conv(out, channels, kernel_size=1)
    out.add(nn.AvgPool2D(pool_size=2, strides=2))
    return out


class DenseNet(Classifier):
    """Stages in which every layer sees the results of all layers before it; images of 224 x 224.

    Args:
        num_init_features: channels of the first convolution.
        growth_rate: new channels of each layer.
        block_config: layers of each stage.
        bn_size: channels between a layer's two convolutions, in units of ``growth_rate``.
        dropout: after each layer.
    """

    def __init__(
        self,
        num_init_features: int,
        growth_rate: int,
        block_config: list[int],
        bn_size: int = 4,
        dropout: float = 0,
        classes: int = 1000,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self.features.add(nn.Conv2D(num_init_features, kernel_size=7, strides=2, padding=3, use_bias=False))
            self.features.add(nn.BatchNorm(), nn.Activation("relu"))
            self.features.add(nn.MaxPool2D(pool_size=3, strides=2, padding=1))
            channels = num_init_features
            for i, num_layers in enumerate(block_config):
                self.features.add(_dense_block(num_layers, bn_size, growth_rate, dropout, i + 1))
                channels += num_layers * growth_rate
                if i != len(block_config) - 1:
                    channels //= 2
                    self.features.add(_transition(channels))
            self.features.add(nn.BatchNorm(), nn.Activation("relu"), nn.AvgPool2D(pool_size=7), nn.Flatten())
            self.output = nn.Dense(classes)


def get_densenet(
    num_layers: int, pretrained: bool = False, ctx: Any = None, root: str | None = None, **kwargs: Any
) -> DenseNet:
    """DenseNet of 121, 161, 169 or 201 layers; with ``pretrained`` parameters of MXNet's model zoo from ``root``."""
    net = DenseNet(*densenet_spec[num_layers], **kwargs)
    return load_pretrained(net, f"densenet{num_layers}", ctx, root) if pretrained else net


def densenet121(**kwargs: Any) -> DenseNet:
    """DenseNet of 121 layers; arguments as for :func:`get_densenet`."""
    return get_densenet(121, **kwargs)


def densenet161(**kwargs: Any) -> DenseNet:
    """DenseNet of 161 layers; arguments as for :func:`get_densenet`."""
    return get_densenet(161, **kwargs)


def densenet169(**kwargs: Any) -> DenseNet:
    """DenseNet of 169 layers; arguments as for :func:`get_densenet`."""
    return get_densenet(169, **kwargs)


def densenet201(**kwargs: Any) -> DenseNet:
    """DenseNet of 201 layers; arguments as for :func:`get_densenet`."""
    return get_densenet(201, **kwargs)
