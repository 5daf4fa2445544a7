# SPDX-License-Identifier: Apache-2.0
"""Metrics of classes and their probabilities."""

from __future__ import annotations

import math
from typing import Any

import numpy

from .. import ndarray
from ..ndarray import NDArray
from ..ndarray.mode import legacy
from .base import EvalMetric, PerArray, alias, check_label_shapes, register

__all__ = ["F1", "MCC", "PCC", "Accuracy", "CrossEntropy", "NegativeLogLikelihood", "Perplexity", "TopKAccuracy"]


@register
@alias("acc")
class Accuracy(PerArray):
    """Part of the predictions that are right; of scores, the largest along ``axis`` counts."""

    def __init__(
        self, axis: int = 1, name: str = "accuracy", output_names: Any = None, label_names: Any = None
    ) -> None:
        super().__init__(name, output_names, label_names, axis=axis)
        self.axis = axis

    def _hg_count(self, label: NDArray, pred: NDArray) -> tuple[Any, Any]:
        if pred.shape != label.shape:
            pred = ndarray.argmax(pred, axis=self.axis)
        actual, predicted = (x.asnumpy().astype("int32").ravel() for x in (label, pred))
        check_label_shapes(actual, predicted)
        return (actual == predicted).sum(), len(predicted)


@register
@alias("top_k_accuracy", "top_k_acc")
class TopKAccuracy(PerArray):
    """Part of the samples whose label is among the ``top_k`` largest scores."""

    def __init__(
        self, top_k: int = 1, name: str = "top_k_accuracy", output_names: Any = None, label_names: Any = None
    ) -> None:
        super().__init__(name, output_names, label_names, top_k=top_k)
        self.top_k = top_k
        assert top_k > 1, "Please use Accuracy if top_k is no more than 1"
        self.name += f"_{top_k}"

    def _hg_count(self, label: NDArray, pred: NDArray) -> tuple[Any, Any]:
        assert len(pred.shape) <= 2, "Predictions should be no more than 2 dims"
        order = numpy.argpartition(pred.asnumpy().astype("float32"), -self.top_k)
        labels = label.asnumpy().astype("int32").ravel()
        check_label_shapes(labels, order)
        best = order[:, -min(order.shape[1], self.top_k) :] if order.ndim == 2 else order[:, None]
        return (best == labels[:, None]).sum(), order.shape[0]


class _BinaryClassificationMetrics:
    """Counts of a two-class problem: rows labels, columns predictions."""

    def __init__(self) -> None:
        self.counts = numpy.zeros((2, 2))

    @property
    def total(self) -> Any:
        return self.counts.sum()

    def fscore(self) -> float:
        hits, wrong, missed = self.counts[1, 1], self.counts[0, 1], self.counts[1, 0]
        precision = hits / (hits + wrong) if hits + wrong > 0 else 0.0
        recall = hits / (hits + missed) if hits + missed > 0 else 0.0
        return float(2 * precision * recall / (precision + recall)) if precision + recall > 0 else 0.0

    def matthews(self) -> float:
        if not self.total:
            return 0.0
        (tn, fp), (fn, tp) = self.counts
        sums = [s for s in (tp + fp, tp + fn, tn + fp, tn + fn) if s]
        return float((tp * tn - fp * fn) / math.sqrt(math.prod(sums)))


class _Binary(EvalMetric):
    """Metrics of a two-class problem: averaged over batches (macro) or over all samples (micro)."""

    def _hg_score(self, counts: _BinaryClassificationMetrics) -> float:
        raise NotImplementedError

    def _hg_is_macro(self) -> bool:
        raise NotImplementedError

    def __init__(self, name: str, output_names: Any, label_names: Any) -> None:
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def reset(self) -> None:
        self._hg_all = _BinaryClassificationMetrics()
        super().reset()
        self.reset_local()

    def reset_local(self) -> None:
        self._hg_local = _BinaryClassificationMetrics()
        super().reset_local()

    def update(self, labels: Any, preds: Any) -> None:
        labels, preds = check_label_shapes(labels, preds, True)
        # macro: one score for each call, of the arrays of that call only
        macro = self._hg_is_macro()
        if macro:
            self._hg_local = _BinaryClassificationMetrics()
        for label, pred in zip(labels, preds, strict=True):
            scores, classes = pred.asnumpy(), label.asnumpy().astype("int32")
            check_label_shapes(classes, scores)
            if len(numpy.unique(classes)) > 2:
                raise ValueError(f"{type(self._hg_local).__name__} currently only supports binary classification.")
            chosen = numpy.argmax(scores, axis=1) == 1
            for counts in (self._hg_local.counts, self._hg_all.counts):
                numpy.add.at(counts, ((classes.ravel() == 1).astype(int), chosen.astype(int)), 1)
        score = self._hg_score
        if macro:
            self._hg_add(score(self._hg_local), 1)
        else:
            self.sum_metric, self.num_inst = score(self._hg_local) * self._hg_local.total, self._hg_local.total
            self.global_sum_metric, self.global_num_inst = score(self._hg_all) * self._hg_all.total, self._hg_all.total


@register
class F1(_Binary):
    """Harmonic mean of precision and recall of class 1; the predictions are scores of two classes."""

    def _hg_score(self, counts: _BinaryClassificationMetrics) -> float:
        return counts.fscore()

    def __init__(
        self, name: str = "f1", output_names: Any = None, label_names: Any = None, average: str = "macro"
    ) -> None:
        self.average = average  #: 'macro' or 'micro'
        super().__init__(name, output_names, label_names)

    def _hg_is_macro(self) -> bool:
        return self.average == "macro"


@register
class MCC(_Binary):
    """Matthews' correlation coefficient of a two-class problem."""

    def _hg_score(self, counts: _BinaryClassificationMetrics) -> float:
        return counts.matthews()

    def __init__(
        self, name: str = "mcc", output_names: Any = None, label_names: Any = None, average: str = "macro"
    ) -> None:
        self._average = average
        super().__init__(name, output_names, label_names)

    def _hg_is_macro(self) -> bool:
        return self._average == "macro"


@register
class PCC(EvalMetric):
    """The correlation coefficient of a confusion matrix, for any number of classes."""

    def __init__(
        self, name: str = "pcc", output_names: Any = None, label_names: Any = None, has_global_stats: bool = True
    ) -> None:
        self.k = 2
        self.lcm: Any = None  # confusion matrices, since reset_local and since reset
        self.gcm: Any = None
        super().__init__(name, output_names, label_names, has_global_stats=has_global_stats)

    @staticmethod
    def _hg_coefficient(counts: Any) -> float:
        n, rows, columns = counts.sum(), counts.sum(axis=1), counts.sum(axis=0)
        xx, yy = numpy.sum(rows * (n - rows)), numpy.sum(columns * (n - columns))
        if xx == 0 or yy == 0:
            return float("nan")
        return float(numpy.sum(counts.diagonal() * n - rows * columns) / (xx * yy) ** 0.5)

    def update(self, labels: Any, preds: Any) -> None:
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds, strict=True):
            actual, predicted = label.asnumpy().astype("int32"), pred.asnumpy()
            predicted = predicted.argmax(axis=1) if predicted.shape != actual.shape else predicted.astype("int32")
            more = max(int(predicted.max()), int(actual.max())) + 1 - self.k
            if more > 0:
                self.lcm, self.gcm = (numpy.pad(m, ((0, more), (0, more))) for m in (self.lcm, self.gcm))
                self.k += more
            for counts in (self.lcm, self.gcm):
                numpy.add.at(counts, (predicted.ravel(), actual.ravel()), 1)
        self.num_inst += 1
        self.global_num_inst += 1

    def reset(self) -> None:
        self.global_num_inst = 0.0
        self.gcm = numpy.zeros((self.k, self.k))
        self.reset_local()

    def reset_local(self) -> None:
        self.num_inst = 0.0
        self.lcm = numpy.zeros((self.k, self.k))

    @property
    def sum_metric(self) -> float:
        return self._hg_coefficient(self.lcm) * float(self.num_inst)

    @property
    def global_sum_metric(self) -> float:
        return self._hg_coefficient(self.gcm) * float(self.global_num_inst)


@register
class Perplexity(EvalMetric):
    """e to the mean cross entropy of probabilities along ``axis``; labels ``ignore_label`` (None: no) do not count."""

    def __init__(
        self,
        ignore_label: int | None,
        axis: int = -1,
        name: str = "perplexity",
        output_names: Any = None,
        label_names: Any = None,
    ) -> None:
        super().__init__(name, output_names, label_names, ignore_label=ignore_label, has_global_stats=True)
        self.ignore_label, self.axis = ignore_label, axis

    def update(self, labels: Any, preds: Any) -> None:
        assert len(labels) == len(preds)
        loss, count = 0.0, 0
        for label, pred in zip(map(legacy, labels), map(legacy, preds), strict=True):
            assert label.size == pred.size / pred.shape[-1], f"shape mismatch: {label.shape} vs. {pred.shape}"
            flat_label = label.as_in_context(pred.context).reshape((label.size,))
            p = ndarray.pick(pred, flat_label.astype("int32"), axis=self.axis).asnumpy()
            if self.ignore_label is not None:
                p = p[flat_label.asnumpy().reshape(p.shape) != self.ignore_label]
            loss -= float(numpy.log(numpy.maximum(1e-10, p)).sum())
            count += p.size
        self._hg_add(loss, count)

    def _hg_value(self, total: Any, count: Any) -> Any:
        return math.exp(total / count)


class _LogLikelihood(PerArray):
    """-log of the probability of the right class."""

    def __init__(self, eps: float, name: str, output_names: Any, label_names: Any) -> None:
        super().__init__(name, output_names, label_names, eps=eps)
        self.eps = eps

    def _hg_count(self, label: NDArray, pred: NDArray) -> tuple[Any, Any]:
        labels, p = label.asnumpy().ravel(), pred.asnumpy()
        assert labels.shape[0] == p.shape[0], (labels.shape[0], p.shape[0])
        chosen = p[numpy.arange(len(labels)), labels.astype(numpy.int64)]
        return (-numpy.log(chosen + self.eps)).sum(), len(labels)


@register
@alias("ce")
class CrossEntropy(_LogLikelihood):
    """Mean of -log(probability of the label + eps)."""

    def __init__(
        self, eps: float = 1e-12, name: str = "cross-entropy", output_names: Any = None, label_names: Any = None
    ) -> None:
        super().__init__(eps, name, output_names, label_names)


@register
@alias("nll_loss")
class NegativeLogLikelihood(_LogLikelihood):
    """Mean of -log(probability of the label + eps)."""

    def __init__(
        self, eps: float = 1e-12, name: str = "nll-loss", output_names: Any = None, label_names: Any = None
    ) -> None:
        super().__init__(eps, name, output_names, label_names)
