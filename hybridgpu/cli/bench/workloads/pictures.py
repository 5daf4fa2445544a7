# SPDX-License-Identifier: Apache-2.0
"""Convolutional networks: LeNet of MXNet's tutorial, and a residual block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .... import ndarray as nd
from ....context import Context
from ....gluon import HybridBlock, nn
from .case import Case, Suite, filled

__all__ = ["LENET", "RESNET"]

EPSILON = 1e-5


def lenet(like: Any = None) -> HybridBlock:
    """Two convolutions with pooling and three dense layers; ``like`` is another LeNet whose parameters it shares."""
    net = nn.HybridSequential(prefix=None if like is None else like.prefix, params=like and like.collect_params())
    with net.name_scope():
        net.add(
            nn.Conv2D(6, 5, activation="relu"),
            nn.MaxPool2D(2, 2),
            nn.Conv2D(16, 3, activation="relu"),
            nn.MaxPool2D(2, 2),
            nn.Flatten(),
            nn.Dense(120, activation="relu"),
            nn.Dense(84, activation="relu"),
            nn.Dense(10),
        )
    return net


def lenet_reference(xp: Any, x: Any, *parameters: Any) -> Any:
    """The same in NumPy's or CuPy's words."""
    h = x
    for weight, bias in (parameters[:2], parameters[2:4]):
        h = xp.maximum(convolution(xp, h, weight, 1, 0) + bias[:, None, None], 0)
        n, c, rows, columns = h.shape
        h = h[:, :, : rows // 2 * 2, : columns // 2 * 2].reshape(n, c, rows // 2, 2, columns // 2, 2).max(axis=(3, 5))
    h = h.reshape(len(h), -1)
    for k in range(4, len(parameters), 2):
        h = h @ parameters[k].T + parameters[k + 1]
        if k < len(parameters) - 2:
            h = xp.maximum(h, 0)
    return h


class Residual(HybridBlock):
    """Two convolutions with BatchNorm, and what came in added; a 1 x 1 convolution fits it where the shape changes."""

    def __init__(self, channels: int, stride: int, fit: bool, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.first = nn.Conv2D(channels, 3, stride, 1, use_bias=False)
            self.first_norm = nn.BatchNorm(epsilon=EPSILON)
            self.second = nn.Conv2D(channels, 3, 1, 1, use_bias=False)
            self.second_norm = nn.BatchNorm(epsilon=EPSILON)
            self.fit = nn.HybridSequential()
            if fit:
                self.fit.add(nn.Conv2D(channels, 1, stride, use_bias=False), nn.BatchNorm(epsilon=EPSILON))

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        y = self.second_norm(self.second(F.relu(self.first_norm(self.first(x)))))
        return F.relu(y + self.fit(x))


def residual(like: Any = None) -> HybridBlock:
    """A stem of 32 channels, two residual blocks, and one that halves the picture and doubles the channels."""
    net = nn.HybridSequential(prefix=None if like is None else like.prefix, params=like and like.collect_params())
    with net.name_scope():
        net.add(
            nn.Conv2D(32, 3, 1, 1, use_bias=False),
            nn.BatchNorm(epsilon=EPSILON),
            nn.Activation("relu"),
            Residual(32, 1, False),
            Residual(32, 1, False),
            Residual(64, 2, True),
        )
    return net


def residual_reference(xp: Any, x: Any, *parameters: Any) -> Any:
    """The same in NumPy's or CuPy's words."""
    rest = iter(parameters)
    h = xp.maximum(_normed(xp, x, 1, 1, rest), 0)
    for stride, fit in ((1, False), (1, False), (2, True)):
        y = xp.maximum(_normed(xp, h, stride, 1, rest), 0)
        y = _normed(xp, y, 1, 1, rest)
        h = xp.maximum(y + (_normed(xp, h, stride, 0, rest) if fit else h), 0)
    return h


def _normed(xp: Any, x: Any, stride: int, pad: int, parameters: Iterator[Any]) -> Any:
    """A convolution and its BatchNorm."""
    y = convolution(xp, x, next(parameters), stride, pad)
    gamma, beta, mean, variance = (next(parameters)[:, None, None] for _ in range(4))
    return (y - mean) / xp.sqrt(variance + EPSILON) * gamma + beta


def convolution(xp: Any, x: Any, weight: Any, stride: int, pad: int) -> Any:
    """Windows as a strided view, then a matrix product."""
    if pad:
        x = xp.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    n, c, rows, columns = x.shape
    _, _, height, width = weight.shape
    shape = (n, c, height, width, (rows - height) // stride + 1, (columns - width) // stride + 1)
    s = x.strides
    windows = xp.lib.stride_tricks.as_strided(x, shape, (*s, s[2] * stride, s[3] * stride))
    return xp.moveaxis(xp.tensordot(weight, windows, ((1, 2, 3), (1, 2, 3))), 0, 1)


def _case(
    build: Callable[..., HybridBlock], reference: Callable[..., Any], batch: int, picture: tuple[int, ...]
) -> Case:
    def make(ctx: Context) -> tuple[HybridBlock, nd.NDArray]:
        return filled(build(), ctx, (batch, *picture))

    return Case(f"batch {batch}", {"batch": batch}, None, make, build, reference)


LENET = Suite(
    "lenet",
    "LeNet of the tutorial, pictures of 28 x 28, float32",
    tuple(_case(lenet, lenet_reference, n, (1, 28, 28)) for n in (16, 1)),
    quick=1,
    first=0,
)
RESNET = Suite(
    "resnet",
    "Stem and three residual blocks of 32 and 64 channels, pictures of 64 x 64, float32",
    tuple(_case(residual, residual_reference, n, (3, 64, 64)) for n in (1, 8)),
    quick=1,
    first=0,
)
