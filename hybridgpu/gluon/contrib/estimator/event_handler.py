# SPDX-License-Identifier: Apache-2.0
"""Handlers: stopping, updating parameters and metrics, validating, reporting; those of files and of patience."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from ....metric import Loss
from .checkpoint import CheckpointHandler
from .checks import metric_list
from .events import BatchBegin, BatchEnd, EpochBegin, EpochEnd, EventHandler, TrainBegin, TrainEnd
from .monitoring import EarlyStoppingHandler

__all__ = [
    "BatchBegin", "BatchEnd", "CheckpointHandler", "EarlyStoppingHandler", "EpochBegin", "EpochEnd", "EventHandler",
    "GradientUpdateHandler", "LoggingHandler", "MetricHandler", "StoppingHandler", "TrainBegin", "TrainEnd",
    "ValidationHandler",
]  # fmt: skip


class StoppingHandler(TrainBegin, BatchEnd, EpochEnd):
    """End the training after so many epochs or batches, those that ``Estimator.fit`` was asked for.

    Args:
        max_epoch, max_batch: until the training begins, which sets them anew; None is no limit.
    """

    def __init__(self, max_epoch: int | None = None, max_batch: int | None = None) -> None:
        self.max_epoch, self.max_batch = max_epoch, max_batch
        self.current_batch = self.current_epoch = 0
        self.stop_training = False

    def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        self.max_epoch, self.max_batch = estimator.max_epoch, estimator.max_batch
        self.current_batch = self.current_epoch = 0
        self.stop_training = False

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> bool:
        self.current_batch += 1
        self.stop_training |= self.current_batch == self.max_batch
        return self.stop_training

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> bool:
        self.current_epoch += 1
        self.stop_training |= self.current_epoch == self.max_epoch
        return self.stop_training


class MetricHandler(EpochBegin, BatchEnd):
    """Update metrics after each batch, and reset them before each epoch.

    Args:
        metrics: one or several; a ``metric.Loss`` gets the losses, the others labels and predictions.
        priority: by default before all handlers that read metrics.

    Raises:
        ValueError: other metrics.
    """

    def __init__(self, metrics: Any, priority: float = -1000) -> None:
        self.metrics = metric_list(metrics)
        self.priority = priority

    def epoch_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        for metric in self.metrics:
            metric.reset()

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        for metric in self.metrics:
            if isinstance(metric, Loss):
                metric.update(0, kwargs["loss"])
            else:
                metric.update(kwargs["label"], kwargs["pred"])


class ValidationHandler(TrainBegin, BatchEnd, EpochEnd):
    """Evaluate every so many epochs or batches.

    Args:
        val_data: what is given to ``eval_fn``.
        eval_fn: called with ``val_data``, ``batch_axis`` and ``event_handlers`` by name, as ``Estimator.evaluate`` is.
        epoch_period, batch_period: how often; None is never.
        priority: by default before all handlers that read metrics.
        event_handlers: those of the evaluation.
    """

    def __init__(
        self,
        val_data: Any,
        eval_fn: Callable[..., Any],
        epoch_period: int | None = 1,
        batch_period: int | None = None,
        priority: float = -1000,
        event_handlers: Any = None,
    ) -> None:
        self.val_data, self.eval_fn = val_data, eval_fn
        self.epoch_period, self.batch_period = epoch_period, batch_period
        self.current_batch = self.current_epoch = 0
        self.priority, self.event_handlers = priority, event_handlers

    def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        self.current_batch = self.current_epoch = 0

    def _hg_evaluate(self, estimator: Any, number: int, period: int | None) -> None:
        if period and number % period == 0:
            self.eval_fn(
                val_data=self.val_data, batch_axis=estimator.batch_axis, event_handlers=self.event_handlers
            )  # fmt: skip

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        self.current_batch += 1
        self._hg_evaluate(estimator, self.current_batch, self.batch_period)

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        self.current_epoch += 1
        self._hg_evaluate(estimator, self.current_epoch, self.epoch_period)


class LoggingHandler(TrainBegin, TrainEnd, EpochBegin, EpochEnd, BatchBegin, BatchEnd):
    """Report progress, times and metrics to ``estimator.logger``.

    Args:
        log_interval: 'epoch', or a number: report every so many batches, too.
        metrics: those to report, one or several.
        priority: by default after all others, so that what they changed is reported.

    Raises:
        ValueError: another interval, or other metrics.
    """

    def __init__(self, log_interval: int | str = "epoch", metrics: Any = None, priority: float = math.inf) -> None:
        super().__init__()
        if not isinstance(log_interval, int) and log_interval != "epoch":
            raise ValueError("log_interval must be either an integer or string 'epoch'")
        self.metrics = metric_list(metrics)
        self.priority, self.log_interval = priority, log_interval
        self._hg_restart()

    def _hg_restart(self) -> None:
        self.batch_index = self.current_epoch = self.processed_samples = 0
        self.log_interval_time = 0.0

    def _hg_report(self, estimator: Any, message: str) -> None:
        """A line that ends with the metrics, if there are any."""
        values = [pair for metric in self.metrics for pair in metric.get_name_value()]
        message += ", ".join(f"{name}: {value:.4f}" for name, value in values)
        estimator.logger.info(message.rstrip(", "))

    def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        self.train_start = time.time()
        trainer = estimator.trainer
        estimator.logger.info(
            "Training begin: using optimizer %s with current learning rate %.4f ",
            type(trainer.optimizer).__name__,
            trainer.learning_rate,
        )
        if estimator.max_epoch:
            estimator.logger.info("Train for %d epochs.", estimator.max_epoch)
        else:
            estimator.logger.info("Train for %d batches.", estimator.max_batch)
        self._hg_restart()

    def train_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        spent = int(time.time() - self.train_start)
        self._hg_report(estimator, f"Train finished using total {spent}s with {self.current_epoch} epochs. ")

    def epoch_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        self.epoch_start = time.time()
        if any("training" in metric.name for metric in self.metrics):
            estimator.logger.info(
                "[Epoch %d] Begin, current learning rate: %.4f", self.current_epoch, estimator.trainer.learning_rate
            )
        else:  # an evaluation: the estimator names its training metrics so
            estimator.logger.info("Validation Begin")

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        spent = time.time() - self.epoch_start
        self._hg_report(estimator, f"[Epoch {self.current_epoch}] Finished in {spent:.3f}s, ")
        self.current_epoch += 1
        self.batch_index = 0

    def batch_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        self.batch_start = time.time()

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        if isinstance(self.log_interval, int):
            self.processed_samples += kwargs["batch"][0].shape[0]
            self.log_interval_time += time.time() - self.batch_start
            if self.batch_index % self.log_interval == 0:
                place = f"[Epoch {self.current_epoch}][Batch {self.batch_index}][Samples {self.processed_samples}]"
                self._hg_report(estimator, f"{place} time/interval: {self.log_interval_time:.3f}s ")
                self.log_interval_time = 0.0
        self.batch_index += 1


class GradientUpdateHandler(BatchEnd):
    """Let the trainer make a step after each batch; to accumulate gradients, inherit this class.

    Args:
        priority: by default before all others.
    """

    def __init__(self, priority: float = -2000) -> None:
        self.priority = priority

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        loss = kwargs["loss"]
        losses = loss if isinstance(loss, list) else [loss]
        estimator.trainer.step(sum(value.shape[0] for value in losses))
