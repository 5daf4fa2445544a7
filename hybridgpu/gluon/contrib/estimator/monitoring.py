# SPDX-License-Identifier: Apache-2.0
"""Whether a monitored metric has improved; stopping when it does not."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from ....core.source_location import user_frame
from ....metric import CompositeEvalMetric, EvalMetric
from .events import EpochEnd, TrainBegin, TrainEnd

__all__ = ["EarlyStoppingHandler", "comparison", "warn_not_updated", "worst"]


def comparison(mode: str, monitor: EvalMetric, handler: str) -> np.ufunc:
    """``new is better than old`` for a mode, 'min', 'max' or 'auto'; others are 'auto', with a warning.

    'auto' is 'max' for every metric, as in MXNet 1.9.1, and warns: give the mode, above all for a loss.
    """
    if mode not in ("auto", "min", "max"):
        warnings.warn(
            f"{handler} mode {mode} is unknown, fallback to auto mode. Write mode='min' or mode='max'.",
            RuntimeWarning,
            stacklevel=user_frame(),
        )
        mode = "auto"
    if mode == "auto":
        warnings.warn(
            f"`greater` operator will be used to determine if {monitor.get()[0]} has improved. "
            "Please specify `mode='min'` to use the `less` operator. Specify `mode='max' to disable this warning.`",
            stacklevel=user_frame(),
        )
    return np.less if mode == "min" else np.greater


def worst(better: np.ufunc) -> float:
    """What every value is better than."""
    return math.inf if better is np.less else -math.inf


def warn_not_updated(name: str) -> None:
    """Say that a monitored metric has no value."""
    warnings.warn(
        f"{name} is not updated, make sure you pass one of the metric objects from "
        "estimator.train_metrics and estimator.val_metrics as monitor.",
        RuntimeWarning,
        stacklevel=user_frame(),
    )


class EarlyStoppingHandler(TrainBegin, EpochEnd, TrainEnd):
    """End the training when a metric no longer improves.

    Args:
        monitor: one of the estimator's metrics.
        min_delta: less than this is no improvement.
        patience: epochs without improvement that are borne.
        mode: 'min', 'max', or 'auto', which is 'max' with a warning.
        baseline: a value to improve on; by default the first one.

    Raises:
        ValueError: ``monitor`` is no metric, or a composite one.
    """

    def __init__(
        self,
        monitor: EvalMetric,
        min_delta: float = 0,
        patience: int = 0,
        mode: str = "auto",
        baseline: float | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(monitor, EvalMetric):
            raise ValueError(
                "Please provide one of the metric objects from estimator.train_metrics and estimator.val_metrics as monitor."
            )
        if isinstance(monitor, CompositeEvalMetric):
            raise ValueError(
                "CompositeEvalMetric is not supported for EarlyStoppingHandler, please specify a simple metric instead."
            )
        self.monitor = monitor
        self.baseline, self.patience = baseline, patience
        self.monitor_op = comparison(mode, monitor, "EarlyStopping")
        self.min_delta = -min_delta if self.monitor_op is np.less else min_delta
        self._hg_restart()

    def _hg_restart(self) -> None:
        self.wait = self.stopped_epoch = self.current_epoch = 0
        self.stop_training = False
        self.best = worst(self.monitor_op) if self.baseline is None else self.baseline

    def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        self._hg_restart()

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> bool:
        name, value = self.monitor.get()
        if math.isnan(value):
            warn_not_updated(name)
        elif self.monitor_op(value - self.min_delta, self.best):
            self.best, self.wait = value, 0
        else:
            self.wait += 1
            if self.wait >= self.patience:
                self.stopped_epoch, self.stop_training = self.current_epoch, True
        self.current_epoch += 1
        return self.stop_training

    def train_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        if self.stopped_epoch > 0:
            estimator.logger.info(
                "[Epoch %d] EarlyStoppingHandler: early stopping due to %s not improving",
                self.stopped_epoch,
                self.monitor.get()[0],
            )
