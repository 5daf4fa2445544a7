# SPDX-License-Identifier: Apache-2.0
"""A training loop made of a net, a loss, a trainer, metrics and handlers."""

from __future__ import annotations

import copy
import logging
import sys
import warnings
from typing import Any

from ....context import Context, cpu, gpu, num_gpus
from ....core.source_location import user_frame
from ....hints.arguments import unexpected
from ....hints.gluon import OF_ESTIMATORS
from ....metric import EvalMetric
from ....metric import Loss as LossMetric
from ...data import DataLoader
from ...loss import Loss
from ...trainer import Trainer
from .batch_processor import BatchProcessor
from .checks import check_metrics_known, metric_list, suggested_metrics
from .event_handler import GradientUpdateHandler, LoggingHandler, MetricHandler, StoppingHandler, ValidationHandler
from .events import BatchBegin, BatchEnd, EpochBegin, EpochEnd, EventHandler, TrainBegin, TrainEnd, handler_list

__all__ = ["Estimator"]


class Estimator:
    """Trains and evaluates a net; handlers are told of every batch and epoch and may end the training.

    Args:
        net: the Block that is trained.
        loss: a gluon Loss.
        train_metrics: one or several; by default the loss, and the accuracy beside a SoftmaxCrossEntropyLoss. Their
            names get "training " in front.
        val_metrics: by default copies of ``train_metrics``; their names say "validation".
        initializer: of parameters that are not initialised yet.
        trainer: a Trainer of the net's parameters; by default SGD with learning rate 0.001, with a warning.
        context: a Context or several; by default the first GPU if there is one.
        val_net: the Block that is evaluated, if it is another one (which shares parameters with the first).
        val_loss: the loss of evaluations, if it is another one.
        batch_processor: what is done with a batch, see :class:`BatchProcessor`.

    Attributes:
        logger: a ``logging.Logger`` of this estimator, which writes to ``sys.stdout``.
        max_epoch, max_batch: what :meth:`fit` was asked for.

    Raises:
        ValueError: an argument of another kind.
        AssertionError: a GPU that is not there.
    """

    logger: logging.Logger = None  # type: ignore[assignment] # until __init__

    def __init__(
        self,
        net: Any,
        loss: Loss,
        train_metrics: Any = None,
        val_metrics: Any = None,
        initializer: Any = None,
        trainer: Trainer | None = None,
        context: Context | list[Context] | None = None,
        val_net: Any = None,
        val_loss: Loss | None = None,
        batch_processor: Any = None,
        **others: Any,
    ) -> None:
        if others:
            raise unexpected(type(self), next(iter(others)), OF_ESTIMATORS)
        self.net = net
        self.loss = _checked_loss(loss)
        self._train_metrics = metric_list(train_metrics)
        self._val_metrics = metric_list(val_metrics)
        self._hg_name_metrics()
        self.val_loss = self.loss if val_loss is None else _checked_loss(val_loss)
        self.val_net = self.net if val_net is None else val_net
        self.logger = logging.Logger(name="Estimator", level=logging.INFO)
        self.logger.addHandler(logging.StreamHandler(sys.stdout))
        self.context = _contexts(context)
        self._initialize(initializer)
        self.trainer = self._hg_checked_trainer(trainer)
        self.batch_processor = _checked_processor(batch_processor)
        self.max_epoch: int | None = None
        self.max_batch: int | None = None
        self.batch_axis = 0

    # -- what it consists of

    def _hg_name_metrics(self) -> None:
        """Fill in metrics that were not given; handlers tell training from validation by their names."""
        if not self._train_metrics:
            self._train_metrics = [*suggested_metrics(self.loss), LossMetric(self.loss.name.rstrip("1234567890"))]
        for metric in self._train_metrics:
            metric.name = f"training {metric.name}"
        if not self._val_metrics:
            self._val_metrics = [copy.deepcopy(metric) for metric in self._train_metrics]
        for metric in self._val_metrics:
            named = "training" in metric.name
            metric.name = metric.name.replace("training", "validation") if named else f"validation {metric.name}"

    def _is_initialized(self) -> bool:
        try:
            for parameter in self.net.collect_params().values():
                parameter.list_ctx()
        except RuntimeError:
            return False
        return True

    def _initialize(self, initializer: Any) -> None:
        if not self._is_initialized():
            if initializer:
                self.net.initialize(init=initializer, ctx=self.context)
            else:
                self.net.initialize(ctx=self.context)
        elif initializer:
            warnings.warn(
                "Network already fully initialized, skipping initialization. You don't need to pass initializer if you "
                "already initialized your net. You can use net.initialize(init=your_initializer, force_reinit=True) "
                "to force re-initialize.",
                stacklevel=user_frame(),
            )

    def _hg_checked_trainer(self, trainer: Any) -> Trainer:
        if not trainer:
            warnings.warn(
                "No trainer specified, default SGD optimizer with learning rate 0.001 is used.", stacklevel=user_frame()
            )
            return Trainer(self.net.collect_params(), "sgd", {"learning_rate": 0.001})
        if not isinstance(trainer, Trainer):
            raise ValueError(f"Trainer must be a Gluon Trainer instance, refer to gluon.Trainer:{trainer}")
        return trainer

    @property
    def train_metrics(self) -> list[EvalMetric]:
        """Metrics of training; give these to handlers."""
        return self._train_metrics

    @property
    def val_metrics(self) -> list[EvalMetric]:
        """Metrics of validation; give these to handlers."""
        return self._val_metrics

    # -- loops

    def evaluate(self, val_data: DataLoader, batch_axis: int = 0, event_handlers: Any = None) -> None:
        """Go through the data once without training; the results are in ``val_metrics``.

        Args:
            val_data: batches (data, labels).
            batch_axis: the axis that is divided among devices.
            event_handlers: one or several; MetricHandler and LoggingHandler are added where there is none.

        Raises:
            ValueError: ``val_data`` is no DataLoader, or handlers with unknown metrics.
        """
        _check_loader(val_data)
        for metric in self.val_metrics:
            metric.reset()
        handlers = self._prepare_default_validation_handlers(event_handlers)
        _, epoch_begin, batch_begin, batch_end, epoch_end, _ = self._categorize_handlers(handlers)
        for handler in epoch_begin:
            handler.epoch_begin(self)
        for batch in val_data:
            for handler in batch_begin:
                handler.batch_begin(self, batch=batch)
            _, label, pred, loss = self.batch_processor.evaluate_batch(self, batch, batch_axis)
            for handler in batch_end:
                handler.batch_end(self, batch=batch, pred=pred, label=label, loss=loss)
        for handler in epoch_end:
            handler.epoch_end(self)

    def fit(
        self,
        train_data: DataLoader,
        val_data: DataLoader | None = None,
        epochs: int | None = None,
        event_handlers: Any = None,
        batches: int | None = None,
        batch_axis: int = 0,
    ) -> None:
        """Train for so many epochs, or for so many batches.

        Args:
            train_data: batches (data, labels).
            val_data: evaluated after each epoch, unless there is a ValidationHandler.
            epochs, batches: one of them.
            event_handlers: one or several. StoppingHandler is added, and GradientUpdateHandler, MetricHandler,
                ValidationHandler and LoggingHandler where there is none of the kind.
            batch_axis: the axis that is divided among devices.

        Raises:
            ValueError: ``train_data`` is no DataLoader, both or none of ``epochs`` and ``batches``, or handlers with
                unknown metrics.
        """
        _check_loader(train_data)
        if bool(epochs) == bool(batches):
            raise ValueError(
                "Fit only support exactly one type of iteration, train by number of epochs or number of batches. "
                "Please specify one and only one of: epochs or batches."
            )
        self.max_epoch, self.max_batch, self.batch_axis = epochs, batches, batch_axis
        handlers = self._prepare_default_handlers(val_data, event_handlers)
        train_begin, epoch_begin, batch_begin, batch_end, epoch_end, train_end = self._categorize_handlers(handlers)
        for handler in train_begin:
            handler.train_begin(self)
        finished = False
        while not finished:
            for handler in epoch_begin:
                handler.epoch_begin(self)
            for batch in train_data:
                for handler in batch_begin:
                    handler.batch_begin(self, batch=batch)
                _, label, pred, loss = self.batch_processor.fit_batch(self, batch, batch_axis)
                # every handler is called before any of them may end the epoch
                if any([h.batch_end(self, batch=batch, pred=pred, label=label, loss=loss) for h in batch_end]):  # noqa: C419 - so a list
                    break
            finished = any([handler.epoch_end(self) for handler in epoch_end])  # noqa: C419 - likewise
        for handler in train_end:
            handler.train_end(self)

    # -- handlers

    def _prepare_default_handlers(self, val_data: Any, event_handlers: Any) -> list[EventHandler]:
        handlers = handler_list(event_handlers)
        added: list[EventHandler] = [StoppingHandler(self.max_epoch, self.max_batch)]
        if not _has(handlers, GradientUpdateHandler):
            added.append(GradientUpdateHandler())
        if not _has(handlers, MetricHandler):
            added.append(MetricHandler(metrics=self.train_metrics))
        if val_data and not _has(handlers, ValidationHandler):
            added.append(ValidationHandler(val_data=val_data, eval_fn=self.evaluate))
        if not _has(handlers, LoggingHandler):
            added.append(LoggingHandler(metrics=self.train_metrics))
        return _in_order(handlers, added, [*self.train_metrics, *self.val_metrics])

    def _prepare_default_validation_handlers(self, event_handlers: Any) -> list[EventHandler]:
        handlers, added = handler_list(event_handlers), list[EventHandler]()
        if not _has(handlers, MetricHandler):
            added.append(MetricHandler(metrics=self.val_metrics))
        if not _has(handlers, LoggingHandler):
            added.append(LoggingHandler(metrics=self.val_metrics))
        return _in_order(handlers, added, self.val_metrics)

    def _categorize_handlers(self, event_handlers: list[EventHandler]) -> tuple[list[Any], ...]:
        """Handlers by moment: train begin, epoch begin, batch begin, batch end, epoch end, train end."""
        moments = (TrainBegin, EpochBegin, BatchBegin, BatchEnd, EpochEnd, TrainEnd)
        return tuple([h for h in event_handlers if isinstance(h, moment)] for moment in moments)


def _checked_loss(loss: Any) -> Loss:
    if not isinstance(loss, Loss):
        raise ValueError(f"loss must be a Loss, refer to gluon.loss.Loss:{loss}")
    return loss


def _checked_processor(processor: Any) -> Any:
    if processor is None:
        return BatchProcessor()
    if not all(callable(getattr(processor, name, None)) for name in ("fit_batch", "evaluate_batch")):
        raise ValueError("Customized Batch Processor must contain fit_batch() and evaluate_batch() methods")
    return processor


def _check_loader(data: Any) -> None:
    if not isinstance(data, DataLoader):
        raise ValueError(
            "Estimator only support input as Gluon DataLoader. Alternatively, you can transform your DataIter or any "
            "NDArray into Gluon DataLoader. Refer to gluon.data.DataLoader"
        )


def _contexts(context: Any) -> list[Context]:
    """The contexts that were given, or the default."""
    gpus = [gpu(i) for i in range(num_gpus())]
    if not context:
        if len(gpus) > 1:
            warnings.warn(
                "You have multiple GPUs, gpu(0) will be used by default. To utilize all your GPUs, specify context as a "
                "list of gpus, e.g. context=[mx.gpu(0), mx.gpu(1)]",
                stacklevel=user_frame(),
            )
        return gpus[:1] or [cpu()]
    contexts = [context] if isinstance(context, Context) else context
    if not isinstance(contexts, list) or not all(isinstance(c, Context) for c in contexts):
        raise ValueError(
            "context must be a Context or a list of Context, for example mx.cpu() or [mx.gpu(0), mx.gpu(1)], "
            f"refer to mxnet.Context:{context}"
        )
    for ctx in contexts:
        assert ctx in gpus or ctx.device_type.startswith("cpu"), (
            f"{ctx} is not available, please make sure your context is in one of: "
            f"{', '.join(['mx.cpu()', *map(str, gpus)])}"
        )
    return contexts


def _has(handlers: list[EventHandler], kind: type) -> bool:
    return any(isinstance(handler, kind) for handler in handlers)


def _in_order(given: list[EventHandler], added: list[EventHandler], metrics: list[EvalMetric]) -> list[EventHandler]:
    """All handlers by priority; a mixture of given and added ones must speak of the same metrics."""
    handlers = [*given, *added]
    if given and added:
        for handler in handlers:
            check_metrics_known(handler, metrics)
    return sorted(handlers, key=lambda handler: getattr(handler, "priority", 0))
