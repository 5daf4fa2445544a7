# SPDX-License-Identifier: Apache-2.0
"""Callbacks of training loops: checkpoints, speed, progress (``mx.callback``).

Those of batches get an object with ``epoch``, ``nbatch``, ``eval_metric`` and ``locals``
(``mx.model.BatchEndParam``); those of epochs (number, symbol, arguments, auxiliary states).
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import Any

from .hints.arguments import TellsArguments
from .model import save_checkpoint

__all__ = [
    "LogValidationMetricsCallback", "ProgressBar", "Speedometer", "do_checkpoint", "log_train_metric", "module_checkpoint",
]  # fmt: skip


def module_checkpoint(
    mod: Any, prefix: str, period: int = 1, save_optimizer_states: bool = False
) -> Callable[..., None]:
    """At the end of every ``period`` epochs, ``mod.save_checkpoint(prefix, epoch, save_optimizer_states)``."""
    period = int(max(1, period))

    def callback(iter_no: int, sym: Any = None, arg: Any = None, aux: Any = None) -> None:
        if (iter_no + 1) % period == 0:
            mod.save_checkpoint(prefix, iter_no + 1, save_optimizer_states)

    return callback


def do_checkpoint(prefix: str, period: int = 1) -> Callable[..., None]:
    """At the end of every ``period`` epochs, ``mx.model.save_checkpoint``."""
    period = int(max(1, period))

    def callback(iter_no: int, sym: Any, arg: Any, aux: Any) -> None:
        if (iter_no + 1) % period == 0:
            save_checkpoint(prefix, iter_no + 1, sym, arg, aux)

    return callback


def log_train_metric(period: int, auto_reset: bool = False) -> Callable[[Any], None]:
    """Log the metric every ``period`` batches; with ``auto_reset`` it starts anew then."""

    def callback(param: Any) -> None:
        if param.nbatch % period == 0 and param.eval_metric is not None:
            for name, value in param.eval_metric.get_name_value():
                logging.info("Iter[%d] Batch[%d] Train-%s=%f", param.epoch, param.nbatch, name, value)
            if auto_reset:
                param.eval_metric.reset_local()

    return callback


class Speedometer(TellsArguments):
    """Logs samples a second, and the metric, every ``frequent`` batches.

    Args:
        batch_size: samples of a batch.
        auto_reset: start the metric anew then.
    """

    def __init__(self, batch_size: int, frequent: int = 50, auto_reset: bool = True) -> None:
        self.batch_size, self.frequent, self.auto_reset = batch_size, frequent, auto_reset
        self.init = False
        self.tic = 0.0
        self.last_count = 0

    def __call__(self, param: Any) -> None:
        """Count a batch."""
        count = param.nbatch
        if self.last_count > count:  # a new epoch
            self.init = False
        self.last_count = count
        if not self.init:
            self.init, self.tic = True, time.time()
            return
        if count % self.frequent:
            return
        elapsed = time.time() - self.tic
        speed = self.frequent * self.batch_size / elapsed if elapsed else float("inf")
        if param.eval_metric is None:
            logging.info("Iter[%d] Batch [%d]\tSpeed: %.2f samples/sec", param.epoch, count, speed)
        else:
            pairs = param.eval_metric.get_name_value()
            first = 0
            if self.auto_reset:
                param.eval_metric.reset_local()
                first = count - self.frequent
            logging.info(
                "Epoch[%d] Batch [%d-%d]\tSpeed: %.2f samples/sec" + "\t%s=%f" * len(pairs),
                param.epoch,
                first,
                count,
                speed,
                *(x for pair in pairs for x in pair),
            )
        self.tic = time.time()


class ProgressBar(TellsArguments):
    """Logs a bar of ``length`` characters that is full after ``total`` batches."""

    def __init__(self, total: int, length: int = 80) -> None:
        self.bar_len, self.total = length, total

    def __call__(self, param: Any) -> None:
        """Count a batch."""
        filled = round(self.bar_len * param.nbatch / float(self.total))
        percents = math.ceil(100.0 * param.nbatch / float(self.total))
        logging.info("[%s] %s%s\r", "=" * filled + "-" * (self.bar_len - filled), percents, "%")


class LogValidationMetricsCallback:
    """Logs the metric at the end of an evaluation."""

    def __call__(self, param: Any) -> None:
        """Log every value of the metric."""
        if not param.eval_metric:
            return
        for name, value in param.eval_metric.get_name_value():
            logging.info("Epoch[%d] Validation-%s=%f", param.epoch, name, value)
