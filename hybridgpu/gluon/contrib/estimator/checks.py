# SPDX-License-Identifier: Apache-2.0
"""Metrics as an Estimator and its handlers accept them."""

from __future__ import annotations

from typing import Any

from ....metric import Accuracy, CompositeEvalMetric, EvalMetric
from ...loss import Loss, SoftmaxCrossEntropyLoss

__all__ = ["check_metrics_known", "metric_list", "suggested_metrics"]


def metric_list(metrics: Any) -> list[EvalMetric]:
    """One metric, several, or None, as a list of its own; composite ones are taken apart.

    Raises:
        ValueError: something else.
    """
    if isinstance(metrics, CompositeEvalMetric):
        return [m for part in metrics.metrics for m in metric_list(part)]
    if isinstance(metrics, EvalMetric):
        return [metrics]
    metrics = metrics or []
    if isinstance(metrics, str) or not all(isinstance(m, EvalMetric) for m in metrics):
        raise ValueError(f"metrics must be a Metric or a list of Metric, refer to mxnet.metric.EvalMetric: {metrics}")
    return list(metrics)


def suggested_metrics(loss: Loss) -> list[EvalMetric]:
    """What fits a loss beside its own mean."""
    return [Accuracy()] if isinstance(loss, SoftmaxCrossEntropyLoss) else []


def check_metrics_known(handler: Any, known: list[EvalMetric]) -> None:
    """Refuse a handler whose attributes named "…metric…" hold metrics that nobody updates.

    Raises:
        ValueError: it has such a metric.
    """
    for name in dir(handler):
        if "metric" not in name:
            continue
        reference = getattr(handler, name)
        if not reference or callable(reference):
            continue
        for metric in reference if isinstance(reference, list) else [reference]:
            if not any(metric is k for k in known):
                raise ValueError(
                    f"Event handler {type(handler).__name__} refers to a metric instance {metric} outside of the known "
                    "training and validation metrics. Please use the metrics from estimator.train_metrics and "
                    "estimator.val_metrics instead."
                )
