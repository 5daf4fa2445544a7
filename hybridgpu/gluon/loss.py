# SPDX-License-Identifier: Apache-2.0
"""Losses (``gluon.loss``).

Every loss is a HybridBlock called with predictions and labels. It gives one number for each sample:
the mean over all axes but the batch axis, unless its description says otherwise. ``sample_weight``
multiplies each element by broadcasting before the mean, ``weight`` multiplies everything.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..base import MXNetError, numeric_types
from ..core import autograd_state
from ..core.source_location import located_hint
from ..hints.gluon import LOSSES, missing
from ..hints.undefined import undefined
from ..ndarray import NDArray
from ..util import is_np_array
from .forward import to_be_defined
from .hybrid import HybridBlock

__all__ = [
    "CTCLoss", "CosineEmbeddingLoss", "HingeLoss", "HuberLoss", "KLDivLoss", "L1Loss", "L2Loss", "LogisticLoss", "Loss",
    "PoissonNLLLoss", "SDMLLoss", "SigmoidBCELoss", "SigmoidBinaryCrossEntropyLoss", "SoftmaxCELoss",
    "SoftmaxCrossEntropyLoss", "SquaredHingeLoss", "TripletLoss",
]  # fmt: skip

if not TYPE_CHECKING:  # which would no longer find names that are not there
    __getattr__ = missing(__name__, LOSSES)


def _apply_weighting(F: Any, loss: Any, weight: float | None = None, sample_weight: Any = None) -> Any:
    """``loss`` times the weight of each sample and the weight of all.

    Raises:
        AssertionError: ``weight`` is no number.
    """
    if sample_weight is not None:
        loss = _product(F, loss, sample_weight)
    if weight is not None:
        assert isinstance(weight, numeric_types), "weight must be a number"
        loss = loss * weight
    return loss


def _reshape_like(F: Any, x: Any, y: Any) -> Any:
    if not isinstance(x, NDArray):
        return F.reshape_like(x, y)
    try:
        if autograd_state.state.trace is not None and x.size == y.size:  # the graph holds for other extents
            return (F.npx if is_np_array() else F).reshape_like(x, y)
        return x.reshape(y.shape)
    except (ValueError, MXNetError) as e:
        text = f"The labels have shape {x.shape}, the predictions {y.shape}: they need as many elements."
        e.args = (f"{e}\n{located_hint(text)}", *e.args[1:])
        raise


def _product(F: Any, x: Any, y: Any) -> Any:
    """The broadcast product."""
    return x * y if is_np_array() else F.broadcast_mul(x, y)


class Loss(HybridBlock):
    """Base of all losses.

    Args:
        weight: factor of the whole loss, None for 1.
        batch_axis: axis of the samples.
    """

    def __init__(self, weight: float | None, batch_axis: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._weight, self._batch_axis = weight, batch_axis

    def __repr__(self) -> str:
        return f"{type(self).__name__}(batch_axis={self._batch_axis}, w={self._weight})"

    @to_be_defined
    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """What the loss computes; to be overridden."""
        raise undefined(self, "hybrid_forward(self, F, pred, label, sample_weight=None)")

    def _hg_per_sample(self, F: Any, loss: Any, sample_weight: Any, weight: float | None = None) -> Any:
        """The mean over all axes but the batch axis, weighted by ``weight`` or the loss's own."""
        weight = self._weight if weight is None else weight
        loss = _apply_weighting(F, loss, weight, sample_weight)
        if not is_np_array():
            return F.mean(loss, axis=self._batch_axis, exclude=True)
        if isinstance(loss, NDArray):  # as in MXNet samples are along the first axis here, whatever the batch axis
            return loss.mean(axis=tuple(range(1, loss.ndim)))
        return F.npx.batch_flatten(loss).mean(axis=1)


class L2Loss(Loss):
    """weight / 2 * (label - pred)**2."""

    _weight: float

    def __init__(self, weight: float = 1.0, batch_axis: int = 0, **kwargs: Any) -> None:
        super().__init__(weight, batch_axis, **kwargs)

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        label = _reshape_like(F, label, pred)
        return self._hg_per_sample(F, F.square(label - pred), sample_weight, self._weight / 2)


class L1Loss(Loss):
    """|label - pred|."""

    def __init__(self, weight: float | None = None, batch_axis: int = 0, **kwargs: Any) -> None:
        super().__init__(weight, batch_axis, **kwargs)

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        label = _reshape_like(F, label, pred)
        return self._hg_per_sample(F, F.abs(label - pred), sample_weight)


class SigmoidBinaryCrossEntropyLoss(Loss):
    """Binary cross entropy of sigmoid(pred), or of probabilities.

    Args:
        from_sigmoid: ``pred`` holds probabilities already.

    Called with ``pos_weight`` as fourth argument, the positive part is multiplied by it.
    """

    def __init__(
        self, from_sigmoid: bool = False, weight: float | None = None, batch_axis: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._from_sigmoid = from_sigmoid

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None, pos_weight: Any = None) -> Any:
        label = _reshape_like(F, label, pred)
        if not self._from_sigmoid:
            # log(1 + exp(-|x|)) overflows nowhere
            tail = F.Activation(-F.abs(pred), act_type="softrelu")
            if pos_weight is None:
                loss = F.relu(pred) - pred * label + tail
            else:
                factor = 1 + _product(F, pos_weight - 1, label)
                loss = pred - pred * label + factor * (tail + F.relu(-pred))
        else:
            positive = F.log(pred + 1e-12) * label
            if pos_weight is not None:
                positive = _product(F, positive, pos_weight)
            loss = -(positive + F.log(1.0 - pred + 1e-12) * (1.0 - label))
        return self._hg_per_sample(F, loss, sample_weight)


SigmoidBCELoss = SigmoidBinaryCrossEntropyLoss


class SoftmaxCrossEntropyLoss(Loss):
    """-log(softmax(pred)[label]) along ``axis``.

    Args:
        axis: of the classes.
        sparse_label: labels are class numbers (clipped to those that there are); else a distribution.
        from_logits: ``pred`` holds logarithms of probabilities already.
    """

    def __init__(
        self,
        axis: int = -1,
        sparse_label: bool = True,
        from_logits: bool = False,
        weight: float | None = None,
        batch_axis: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._axis, self._sparse_label, self._from_logits = axis, sparse_label, from_logits

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        if not self._from_logits:
            pred = F.log_softmax(pred, self._axis)
        if self._sparse_label:
            loss = -F.pick(pred, label, axis=self._axis, keepdims=True)
        else:
            label = _reshape_like(F, label, pred)
            loss = -(pred * label).sum(axis=self._axis, keepdims=True)
        return self._hg_per_sample(F, loss, sample_weight)


SoftmaxCELoss = SoftmaxCrossEntropyLoss


class KLDivLoss(Loss):
    """label * (log(label) - pred): the Kullback-Leibler divergence, **summed** over all axes but the batch axis.

    Args:
        from_logits: ``pred`` holds logarithms of probabilities already; if not, log_softmax is applied along ``axis``.
    """

    def __init__(
        self,
        from_logits: bool = True,
        axis: int = -1,
        weight: float | None = None,
        batch_axis: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._from_logits, self._axis = from_logits, axis

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        if not self._from_logits:
            pred = F.log_softmax(pred, self._axis)
        loss = _apply_weighting(F, label * (F.log(label + 1e-12) - pred), self._weight, sample_weight)
        return F.sum(loss, axis=self._batch_axis, exclude=True)


class CTCLoss(Loss):
    """Connectionist temporal classification (Graves et al., 2006); the blank is the last class, labels are padded by -1.

    Args:
        layout: of the predictions, NTC or TNC (T time steps, C classes with the blank).
        label_layout: of the labels, NT or TN.

    Called with (pred, label, pred_lengths=None, label_lengths=None, sample_weight=None); gives shape (N,).

    Raises:
        AssertionError: another layout.
    """

    def __init__(
        self, layout: str = "NTC", label_layout: str = "NT", weight: float | None = None, **kwargs: Any
    ) -> None:
        assert layout in ("NTC", "TNC"), f"Only 'NTC' and 'TNC' layouts for pred are supported. Got: {layout}"
        assert label_layout in ("NT", "TN"), f"Only 'NT' and 'TN' layouts for label are supported. Got: {label_layout}"
        self._layout, self._label_layout = layout, label_layout
        super().__init__(weight, label_layout.find("N"), **kwargs)

    def hybrid_forward(
        self,
        F: Any,
        pred: Any,
        label: Any,
        pred_lengths: Any = None,
        label_lengths: Any = None,
        sample_weight: Any = None,
    ) -> Any:
        if self._layout == "NTC":
            pred = F.swapaxes(pred, 0, 1)
        if self._batch_axis == 1:
            label = F.swapaxes(label, 0, 1)
        loss = F.CTCLoss(
            pred,
            label,
            pred_lengths,
            label_lengths,
            use_data_lengths=pred_lengths is not None,
            use_label_lengths=label_lengths is not None,
            blank_label="last",
        )
        return _apply_weighting(F, loss, self._weight, sample_weight)


class HuberLoss(Loss):
    """With e = |label - pred|: e - rho / 2 above rho, e**2 / (2 rho) up to it."""

    def __init__(self, rho: float = 1, weight: float | None = None, batch_axis: int = 0, **kwargs: Any) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._rho = rho

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        error = F.abs(_reshape_like(F, label, pred) - pred)
        loss = F.where(error > self._rho, error - 0.5 * self._rho, (0.5 / self._rho) * F.square(error))
        return self._hg_per_sample(F, loss, sample_weight)


class HingeLoss(Loss):
    """max(0, margin - pred * label), labels -1 and 1."""

    def __init__(self, margin: float = 1, weight: float | None = None, batch_axis: int = 0, **kwargs: Any) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        label = _reshape_like(F, label, pred)
        return self._hg_per_sample(F, F.relu(self._margin - pred * label), sample_weight)


class SquaredHingeLoss(Loss):
    """max(0, margin - pred * label)**2, labels -1 and 1."""

    def __init__(self, margin: float = 1, weight: float | None = None, batch_axis: int = 0, **kwargs: Any) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        label = _reshape_like(F, label, pred)
        return self._hg_per_sample(F, F.square(F.relu(self._margin - pred * label)), sample_weight)


class LogisticLoss(Loss):
    """log(1 + exp(-pred * label)).

    Args:
        label_format: 'signed' for labels -1 and 1, 'binary' for 0 and 1.

    Raises:
        ValueError: another format.
    """

    def __init__(
        self, weight: float | None = None, batch_axis: int = 0, label_format: str = "signed", **kwargs: Any
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._label_format = label_format
        if label_format not in ("signed", "binary"):
            raise ValueError(f"label_format can only be signed or binary, recieved {label_format}.")

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        label = _reshape_like(F, label, pred)
        if self._label_format == "signed":
            label = (label + 1.0) / 2.0
        loss = F.relu(pred) - pred * label + F.Activation(-F.abs(pred), act_type="softrelu")
        return self._hg_per_sample(F, loss, sample_weight)


class TripletLoss(Loss):
    """max(0, margin + sum((positive - pred)**2 - (negative - pred)**2)); the sum over all axes but the batch axis.

    Called with (pred, positive, negative).
    """

    def __init__(self, margin: float = 1, weight: float | None = None, batch_axis: int = 0, **kwargs: Any) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def hybrid_forward(self, F: Any, pred: Any, positive: Any, negative: Any) -> Any:
        positive, negative = _reshape_like(F, positive, pred), _reshape_like(F, negative, pred)
        distance = F.sum(F.square(positive - pred) - F.square(negative - pred), axis=self._batch_axis, exclude=True)
        return _apply_weighting(F, F.relu(distance + self._margin), self._weight, None)


class PoissonNLLLoss(Loss):
    """exp(pred) - target * pred: the likelihood of counts; **one** number, the mean over everything, of shape (1,).

    Args:
        from_logits: ``pred`` is the logarithm of the rate; else the rate, and the loss pred - target * log(pred + epsilon).
        compute_full: add Stirling's approximation of log(target!) where the target is above 1.

    Called with (pred, target, sample_weight=None, epsilon=1e-8).
    """

    def __init__(
        self,
        weight: float | None = None,
        from_logits: bool = True,
        batch_axis: int = 0,
        compute_full: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._from_logits, self._compute_full = from_logits, compute_full

    def hybrid_forward(self, F: Any, pred: Any, target: Any, sample_weight: Any = None, epsilon: float = 1e-08) -> Any:
        target = _reshape_like(F, target, pred)
        if self._from_logits:
            loss = F.exp(pred) - target * pred
        else:
            loss = pred - target * F.log(pred + epsilon)
        if self._compute_full:
            stirling = target * F.log(target) - target + 0.5 * F.log(2 * target * math.pi)
            # chosen, not multiplied by 0: the logarithm of a count of 0 is no number
            loss = loss + F.where(target > 1, stirling, F.zeros_like(target))
        return F.mean(_apply_weighting(F, loss, self._weight, sample_weight))


class CosineEmbeddingLoss(Loss):
    """1 - cos(a, b) for label 1, max(0, cos(a, b) - margin) for label -1; shape (N, 1).

    Called with (input1, input2, label, sample_weight=None), the inputs of shape (N, features).
    """

    def __init__(self, weight: float | None = None, batch_axis: int = 0, margin: float = 0, **kwargs: Any) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def hybrid_forward(self, F: Any, input1: Any, input2: Any, label: Any, sample_weight: Any = None) -> Any:
        input1 = _reshape_like(F, input1, input2)
        label = label.reshape((-1, 1))
        cosine = self._cosine_similarity(F, input1, input2)
        loss = (1 - cosine) * (label == 1) + F.relu((label == -1) * (cosine - self._margin))
        return _apply_weighting(F, loss, self._weight, sample_weight)

    def _cosine_similarity(self, F: Any, x: Any, y: Any, axis: int = -1) -> Any:
        norms = F.norm(x, axis=axis).reshape((-1, 1)) * F.norm(y, axis=axis).reshape((-1, 1))
        return F.sum(x * y, axis=axis).reshape((-1, 1)) / F.maximum(norms, 1e-12)


class SDMLLoss(Loss):
    """Smoothed deep metric learning (Bonadiman et al., 2019): rows of one batch belong to the same rows of another,
    all others are negative examples.

    Args:
        smoothing_parameter: probability that is given to the negative examples.

    Called with (x1, x2), both (N, features). It needs the batch's size as a number, so it cannot be hybridized.
    """

    def __init__(
        self, smoothing_parameter: float = 0.3, weight: float | None = 1.0, batch_axis: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self.kl_loss = KLDivLoss(from_logits=True)
        self.smoothing_parameter = smoothing_parameter

    def _compute_distances(self, F: Any, x1: Any, x2: Any) -> Any:
        """Squared distance of every row of ``x1`` to every row of ``x2``."""
        assert x1.shape == x2.shape
        n, features = x1.shape
        shape = (n, n, features)
        difference = F.broadcast_to(F.expand_dims(x1, 1), shape) - F.broadcast_to(F.expand_dims(x2, 0), shape)
        return (difference**2).sum(axis=2)

    def _compute_labels(self, F: Any, batch_size: int) -> Any:
        gold = F.eye(batch_size)
        return gold * (1 - self.smoothing_parameter) + (1 - gold) * self.smoothing_parameter / (batch_size - 1)

    def hybrid_forward(self, F: Any, x1: Any, x2: Any) -> Any:
        labels = self._compute_labels(F, x1.shape[0])
        distances = self._compute_distances(F, x1, x2)
        return self.kl_loss(F.log_softmax(-distances, axis=1), labels.as_in_context(distances.context))
