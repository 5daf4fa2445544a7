# SPDX-License-Identifier: Apache-2.0
"""Inception v3 (Szegedy et al., 2016)."""

from __future__ import annotations

from typing import Any

from ... import nn
from ...contrib.nn import HybridConcurrent
from ..model_store import load_pretrained
from .base import Classifier

__all__ = ["Inception3", "inception_v3"]


def make_aux(classes: int) -> nn.HybridSequential:
    """A classifier beside the network, which training of the first layers can use."""
    out = nn.HybridSequential(prefix="")
    out.add(nn.AvgPool2D(pool_size=5, strides=3), _conv(128, 1), _conv(768, 5), nn.Flatten(), nn.Dense(classes))
    return out


def _conv(channels: int, kernel_size: Any, strides: int = 1, padding: Any = 0) -> Any:
    """Convolve, normalise, rectify."""
    out = nn.HybridSequential(prefix="")
    out.add(nn.Conv2D(channels, kernel_size, strides=strides, padding=padding, use_bias=False))
    out.add(nn.BatchNorm(epsilon=0.001))
    out.add(nn.Activation("relu"))
    return out


def _branch(pool: str | None, *convs: Any) -> Any:
    out = nn.HybridSequential(prefix="")
    if pool == "avg":
        out.add(nn.AvgPool2D(pool_size=3, strides=1, padding=1))
    elif pool == "max":
        out.add(nn.MaxPool2D(pool_size=3, strides=2))
    for conv in convs:
        out.add(_conv(*conv))
    return out


def _side_by_side(prefix: str, *branches: tuple[Any, ...]) -> Any:
    """Branches (pool, convolution, convolution …) whose channels are put together."""
    out = HybridConcurrent(axis=1, prefix=prefix)
    with out.name_scope():
        for branch in branches:
            out.add(_branch(*branch))
    return out


def _a(prefix: str, pooled: int) -> Any:
    return _side_by_side(
        prefix,
        (None, (64, 1)),
        (None, (48, 1), (64, 5, 1, 2)),
        (None, (64, 1), (96, 3, 1, 1), (96, 3, 1, 1)),
        ("avg", (pooled, 1)),
    )


def _b(prefix: str) -> Any:
    return _side_by_side(prefix, (None, (384, 3, 2)), (None, (64, 1), (96, 3, 1, 1), (96, 3, 2)), ("max",))


def _c(prefix: str, n: int) -> Any:
    row, column = (1, 7), (7, 1)
    across, down = (0, 3), (3, 0)
    return _side_by_side(
        prefix,
        (None, (192, 1)),
        (None, (n, 1), (n, row, 1, across), (192, column, 1, down)),
        (None, (n, 1), (n, column, 1, down), (n, row, 1, across), (n, column, 1, down), (192, row, 1, across)),
        ("avg", (192, 1)),
    )


def _d(prefix: str) -> Any:
    return _side_by_side(
        prefix,
        (None, (192, 1), (320, 3, 2)),
        (None, (192, 1), (192, (1, 7), 1, (0, 3)), (192, (7, 1), 1, (3, 0)), (192, 3, 2)),
        ("max",),
    )


def _split_in_two() -> Any:
    """A row and a column of 3 side by side."""
    out = HybridConcurrent(axis=1, prefix="")
    out.add(_branch(None, (384, (1, 3), 1, (0, 1))), _branch(None, (384, (3, 1), 1, (1, 0))))
    return out


def _e(prefix: str) -> Any:
    out = HybridConcurrent(axis=1, prefix=prefix)
    with out.name_scope():
        out.add(_branch(None, (320, 1)))
        for before in ([(384, 1)], [(448, 1), (384, 3, 1, 1)]):
            branch = nn.HybridSequential(prefix="")
            out.add(branch)
            branch.add(_branch(None, *before))
            branch.add(_split_in_two())
        out.add(_branch("avg", (192, 1)))
    return out


class Inception3(Classifier):
    """Inception v3 for images of 299 x 299."""

    def __init__(self, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self.features.add(_conv(32, 3, 2), _conv(32, 3), _conv(64, 3, 1, 1), nn.MaxPool2D(pool_size=3, strides=2))
            self.features.add(_conv(80, 1), _conv(192, 3), nn.MaxPool2D(pool_size=3, strides=2))
            for k, pooled in enumerate((32, 64, 64)):
                self.features.add(_a(f"A{k + 1}_", pooled))
            self.features.add(_b("B_"))
            for k, n in enumerate((128, 160, 160, 192)):
                self.features.add(_c(f"C{k + 1}_", n))
            self.features.add(_d("D_"), _e("E1_"), _e("E2_"))
            self.features.add(nn.AvgPool2D(pool_size=8), nn.Dropout(0.5))
            self.output = nn.Dense(classes)


def inception_v3(pretrained: bool = False, ctx: Any = None, root: str | None = None, **kwargs: Any) -> Inception3:
    """Inception v3; with ``pretrained`` parameters of MXNet's model zoo from ``root``."""
    net = Inception3(**kwargs)
    return load_pretrained(net, "inceptionv3", ctx, root) if pretrained else net
