# SPDX-License-Identifier: Apache-2.0
"""Metrics of real values: differences, correlation, losses."""

from __future__ import annotations

import math
from typing import Any

import numpy

from .. import ndarray
from ..hints.absent_member import AbsentMember
from ..ndarray import NDArray
from ..ndarray.mode import legacy
from .base import EvalMetric, PerArray, alias, check_label_shapes, plain, register

__all__ = ["MAE", "MSE", "RMSE", "Caffe", "Loss", "PearsonCorrelation", "Torch"]


class _Regression(PerArray):
    """Metrics of differences, one value for each array."""

    def _hg_count(self, label: NDArray, pred: NDArray) -> tuple[Any, Any]:
        ours, theirs = (x.asnumpy() for x in (label, pred))
        ours, theirs = (x.reshape(-1, 1) if x.ndim == 1 else x for x in (ours, theirs))
        return self._hg_of(ours - theirs), 1

    def _hg_of(self, difference: Any) -> Any:
        raise NotImplementedError


@register
class MAE(_Regression):
    """Mean absolute error."""

    def __init__(self, name: str = "mae", output_names: Any = None, label_names: Any = None) -> None:
        super().__init__(name, output_names, label_names)

    def _hg_of(self, difference: Any) -> Any:
        return numpy.abs(difference).mean()


@register
class MSE(_Regression):
    """Mean squared error."""

    def __init__(self, name: str = "mse", output_names: Any = None, label_names: Any = None) -> None:
        super().__init__(name, output_names, label_names)

    def _hg_of(self, difference: Any) -> Any:
        return (difference**2.0).mean()


@register
class RMSE(_Regression):
    """Root of the mean squared error of each batch."""

    def __init__(self, name: str = "rmse", output_names: Any = None, label_names: Any = None) -> None:
        super().__init__(name, output_names, label_names)

    def _hg_of(self, difference: Any) -> Any:
        return numpy.sqrt((difference**2.0).mean())


@register
@alias("pearsonr")
class PearsonCorrelation(EvalMetric):
    """Pearson's correlation: the mean over batches (macro), or of all samples (micro)."""

    reset_micro = AbsentMember("metric.PearsonCorrelation")
    update_cov = AbsentMember("metric.PearsonCorrelation")
    update_variance = AbsentMember("metric.PearsonCorrelation")

    def __init__(
        self, name: str = "pearsonr", output_names: Any = None, label_names: Any = None, average: str = "macro"
    ) -> None:
        self.average = average
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def reset(self) -> None:
        super().reset()
        # number of samples, means, sums of products of deviations (label, pred)
        self._hg_n, self._hg_mean, self._hg_products = 0, numpy.zeros(2), numpy.zeros((2, 2))

    def update(self, labels: Any, preds: Any) -> None:
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds, strict=True):
            check_label_shapes(label, pred, False, True)
            pair = numpy.stack([x.asnumpy().ravel().astype(numpy.float64) for x in (label, pred)])
            if self.average == "macro":
                self._hg_add(numpy.corrcoef(pair)[0, 1], 1)
                continue
            self._hg_add(0.0, 1)
            # moments of two parts put together (Chan et al.)
            n, mean = pair.shape[1], pair.mean(axis=1)
            inside = (pair - mean[:, None]) @ (pair - mean[:, None]).T
            gap, total = mean - self._hg_mean, self._hg_n + n
            self._hg_products += inside + numpy.outer(gap, gap) * self._hg_n * n / total
            self._hg_mean += gap * n / total
            self._hg_n = total

    def get(self) -> tuple[Any, Any]:
        if self.num_inst == 0 or self.average == "macro":
            return super().get()
        return self.name, plain(self._hg_products[0, 1] / math.sqrt(self._hg_products[0, 0] * self._hg_products[1, 1]))


@register
class Loss(EvalMetric):
    """The mean of the predictions, which are losses already; labels do not count."""

    def __init__(self, name: str = "loss", output_names: Any = None, label_names: Any = None) -> None:
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def update(self, _: Any, preds: Any) -> None:
        for pred in [preds] if isinstance(preds, NDArray) else preds:
            self._hg_add(ndarray.sum(legacy(pred)).asscalar(), pred.size)


@register
class Torch(Loss):
    """An old name of ``Loss``."""

    def __init__(self, name: str = "torch", output_names: Any = None, label_names: Any = None) -> None:
        super().__init__(name, output_names, label_names)


@register
class Caffe(Loss):
    """An old name of ``Loss``."""

    def __init__(self, name: str = "caffe", output_names: Any = None, label_names: Any = None) -> None:
        super().__init__(name, output_names, label_names)
