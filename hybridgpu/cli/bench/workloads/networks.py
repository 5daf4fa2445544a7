# SPDX-License-Identifier: Apache-2.0
"""Whole networks, inference and training: pictures, sentences, a language model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .... import autograd
from .... import ndarray as nd
from ....context import Context
from ....gluon import HybridBlock, Trainer, loss, nn, rnn
from .case import Case, Suite, filled

__all__ = ["NETWORKS"]

VOCABULARY = 5000
UNITS, HEADS = 768, 12  #: of the transformer, as of BERT's base model
HIDDEN = 200  #: of the language model, as of the tutorial's
OPTIMIZER = {"learning_rate": 0.0003, "momentum": 0.9}
STEP_TOLERANCE = 2e-3  #: of the second loss: a relu on the other side of 0 moves gradients behind few normalised values

Build = Callable[..., HybridBlock]  #: (prefix=None, params=None) -> a network


class EncoderLayer(HybridBlock):
    """Attention and a perceptron, each with what came in added and normalised, over ``batch`` sentences of ``length`` words."""

    def __init__(self, batch: int, length: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.split, self.merged = (batch, length, HEADS, UNITS // HEADS), (batch, length, UNITS)
        self.of_heads = (batch * HEADS, length, UNITS // HEADS)
        with self.name_scope():
            self.query, self.key, self.value, self.out = (nn.Dense(UNITS, flatten=False) for _ in range(4))
            self.wide, self.narrow = nn.Dense(4 * UNITS, flatten=False), nn.Dense(UNITS, flatten=False)
            self.first_norm, self.second_norm, self.gelu = nn.LayerNorm(), nn.LayerNorm(), nn.GELU()

    def split_heads(self, x: Any) -> Any:
        return x.reshape(self.split).transpose((0, 2, 1, 3)).reshape(self.of_heads)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        query, key, value = (self.split_heads(layer(x)) for layer in (self.query, self.key, self.value))
        weights = F.softmax(F.batch_dot(query, key, transpose_b=True) * (UNITS // HEADS) ** -0.5)
        batch, length, heads, width = self.split
        y = F.batch_dot(weights, value).reshape((batch, heads, length, width)).transpose((0, 2, 1, 3))
        x = self.first_norm(x + self.out(y.reshape(self.merged)))
        return self.second_norm(x + self.narrow(self.gelu(self.wide(x))))


class Bert(HybridBlock):
    """Two layers of a transformer's encoder over an embedding; classes from the first position."""

    def __init__(self, batch: int, length: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.embedding = nn.Embedding(VOCABULARY, UNITS)
            self.layers = nn.HybridSequential()
            self.layers.add(*(EncoderLayer(batch, length) for _ in range(2)))
            self.classes = nn.Dense(2)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        y = self.layers(self.embedding(x))
        return self.classes(F.slice_axis(y, axis=1, begin=0, end=1))


class LanguageModel(HybridBlock):
    """An embedding, two layers of LSTM and a decoder, over sentences whose first axis is time."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.embedding = nn.Embedding(VOCABULARY, HIDDEN)
            self.lstm = rnn.LSTM(HIDDEN, 2, input_size=HIDDEN)
            self.words = nn.Dense(VOCABULARY, flatten=False)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return self.words(self.lstm(self.embedding(x)))


class LeNet(nn.HybridSequential):
    """LeNet of the tutorial on training."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.add(
                nn.Conv2D(20, 5, activation="relu"),
                nn.MaxPool2D(2, 2),
                nn.Conv2D(50, 5, activation="relu"),
                nn.MaxPool2D(2, 2),
                nn.Dense(500, activation="relu"),
                nn.Dense(10),
            )


class TrainingStep:
    """Forward, loss, backward and update of a network: called with a batch, it returns the losses."""

    def __init__(self, net: HybridBlock, labels: nd.NDArray) -> None:
        self.net, self.labels = net, labels
        self.loss = loss.SoftmaxCrossEntropyLoss()
        self.trainer = Trainer(net.collect_params(), "sgd", dict(OPTIMIZER))

    def hybridize(self, **flags: Any) -> None:
        self.net.hybridize(**flags)
        self.loss.hybridize(**flags)

    def collect_params(self) -> Any:
        return self.net.collect_params()

    def cast(self, dtype: str) -> None:
        self.net.cast(dtype)
        self.trainer = Trainer(self.net.collect_params(), "sgd", dict(OPTIMIZER))

    def __call__(self, x: nd.NDArray) -> nd.NDArray:
        with autograd.record():
            losses = self.loss(self.net(x), self.labels)
        losses.backward()
        self.trainer.step(len(x))
        return losses  # type: ignore[no-any-return]


def _zoo(name: str) -> Build:
    def build(**kwargs: Any) -> HybridBlock:
        from ....gluon.model_zoo import vision

        return vision.get_model(name, **kwargs)  # type: ignore[no-any-return]

    return build


def _inference(title: str, name: str, batch: int) -> Case:
    build, shape = _zoo(name), (batch, 3, 224, 224)

    def make(ctx: Context) -> tuple[HybridBlock, nd.NDArray]:
        return filled(build(), ctx, shape)

    def again(net: HybridBlock) -> HybridBlock:
        return build(prefix=net.prefix, params=net.collect_params())

    return Case(f"{title}, batch {batch}", {"batch": batch}, None, make, again)


def _training(
    title: str, build: Build, shape: tuple[int, ...], labels: tuple[int, ...], classes: int, words: bool = False
) -> Case:
    def make(ctx: Context) -> tuple[TrainingStep, nd.NDArray]:
        net, x = filled(build(), ctx, shape, VOCABULARY if words else None)
        drawn = np.random.RandomState(1).randint(0, classes, labels).astype(np.float32)
        return TrainingStep(net, nd.array(drawn, ctx=ctx)), x

    def again(step: TrainingStep) -> TrainingStep:
        """Another network of the same parameters, which are copied: training changes them."""
        net, ctx = build(), step.labels.context
        net.initialize(ctx=ctx)
        net(nd.zeros(shape, ctx=ctx))  # parameters learn their shapes
        for mine, theirs in zip(net.collect_params().values(), step.collect_params().values(), strict=True):
            mine.set_data(theirs.data(ctx))
        return TrainingStep(net, step.labels)

    return Case(
        f"{title}, training, batch {labels[-1]}", {"batch": labels[-1]}, None, make, again, tolerance=STEP_TOLERANCE
    )


def _pictures(title: str, build: Build, batch: int, side: int, channels: int, classes: int) -> Case:
    return _training(title, build, (batch, channels, side, side), (batch,), classes)


NETWORKS = Suite(
    "networks",
    "Whole networks, float32: inference on pictures of 224 x 224, and steps of training",
    (
        _pictures("LeNet", LeNet, 64, 28, 1, 10),
        _inference("ResNet-18", "resnet18_v1", 1),
        _pictures("ResNet-18", _zoo("resnet18_v1"), 8, 64, 3, 1000),
        _pictures("MobileNetV2", _zoo("mobilenetv2_1.0"), 8, 64, 3, 1000),
        _training("BERT of two layers", lambda **kwargs: Bert(8, 64, **kwargs), (8, 64), (8,), 2, words=True),
        _training("LSTM language model", LanguageModel, (35, 20), (35, 20), VOCABULARY, words=True),
        _inference("ResNet-18", "resnet18_v1", 8),
        *(
            _inference(title, name, batch)
            for title, name in (
                ("ResNet-50", "resnet50_v1"),
                ("DenseNet-121", "densenet121"),
                ("MobileNet", "mobilenet1.0"),
            )
            for batch in (1, 8)
        ),
    ),
    quick=2,
    first=1,
)
