# SPDX-License-Identifier: Apache-2.0
"""AlexNet (Krizhevsky, 2014)."""

from __future__ import annotations

from typing import Any

from ... import nn
from ..model_store import load_pretrained
from .base import Classifier

__all__ = ["AlexNet", "alexnet"]


class AlexNet(Classifier):
    """AlexNet for images of 224 x 224."""

    def __init__(self, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            with self.features.name_scope():
                for channels, kernel, stride, padding, pooled in (
                    (64, 11, 4, 2, True),
                    (192, 5, 1, 2, True),
                    (384, 3, 1, 1, False),
                    (256, 3, 1, 1, False),
                    (256, 3, 1, 1, True),
                ):
                    self.features.add(nn.Conv2D(channels, kernel, stride, padding, activation="relu"))
                    if pooled:
                        self.features.add(nn.MaxPool2D(pool_size=3, strides=2))
                self.features.add(nn.Flatten())
                for _ in range(2):
                    self.features.add(nn.Dense(4096, activation="relu"), nn.Dropout(0.5))
            self.output = nn.Dense(classes)


def alexnet(pretrained: bool = False, ctx: Any = None, root: str | None = None, **kwargs: Any) -> AlexNet:
    """AlexNet; with ``pretrained`` parameters of MXNet's model zoo from ``root``."""
    net = AlexNet(**kwargs)
    return load_pretrained(net, "alexnet", ctx, root) if pretrained else net
