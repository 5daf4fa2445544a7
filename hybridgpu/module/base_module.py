# SPDX-License-Identifier: Apache-2.0
"""BaseModule: training and prediction loops over ``forward``, ``backward`` and ``update``."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from .. import metric
from ..context import cpu
from ..core.source_location import located_hint
from ..hints.arguments import TellsArguments
from ..initializer import Uniform
from ..io.iterators import DataBatch, DataIter
from ..model import BatchEndParam
from ..ndarray import NDArray, concat
from ..ndarray import array as make_array
from ..ndarray import load as load_arrays
from ..ndarray import save as save_arrays
from ..symbol import Symbol

__all__ = ["BaseModule"]

SGD_RATE = (("learning_rate", 0.01),)


def call_all(callbacks: Any, *args: Any) -> None:
    """Call one function or each of several; None is none."""
    if callbacks is None:
        return
    for f in callbacks if isinstance(callbacks, (list, tuple)) else [callbacks]:
        f(*args)


class BaseModule(TellsArguments):
    """Base of modules. A subclass defines ``bind``, ``init_params``, ``init_optimizer``, ``forward``, ``backward``,
    ``update``, ``get_outputs``, ``get_params``, ``update_metric`` and properties of names and shapes.

    Attributes:
        binded, for_training, inputs_need_grad, params_initialized, optimizer_initialized: how far it is.
    """

    def __init__(self, logger: Any = logging) -> None:
        self.logger = logger
        self.binded = False
        self.for_training = False
        self.inputs_need_grad = False
        self.params_initialized = False
        self.optimizer_initialized = False
        self._symbol: Symbol | None = None
        self._total_exec_bytes = 0

    # -- loops

    def forward_backward(self, data_batch: Any) -> None:
        """``forward`` for training, then ``backward``."""
        self.forward(data_batch, is_train=True)
        self.backward()

    def _hg_ready(self) -> None:
        assert self.binded and self.params_initialized, "call bind and init_params first"

    def _hg_score_batch(self, eval_metric: Any, batch: Any) -> None:
        if isinstance(batch, list):
            self.update_metric(eval_metric, [b.label for b in batch], pre_sliced=True)
        else:
            self.update_metric(eval_metric, batch.label)

    def score(
        self,
        eval_data: Iterable[Any],
        eval_metric: Any,
        num_batch: int | None = None,
        batch_end_callback: Any = None,
        score_end_callback: Any = None,
        reset: bool = True,
        epoch: int = 0,
        sparse_row_id_fn: Any = None,
    ) -> list[tuple[str, float]]:
        """Predict for all batches (or ``num_batch``) and measure.

        Args:
            eval_metric: a metric, its name or a list of them.
            batch_end_callback, score_end_callback: called with a ``BatchEndParam``.
            reset: begin ``eval_data`` again before.

        Returns:
            Names and values of the metric.
        """
        self._hg_ready()
        if reset:
            eval_data.reset()  # type: ignore[attr-defined]
        measure = eval_metric if isinstance(eval_metric, metric.EvalMetric) else metric.create(eval_metric)
        measure.reset()
        seen = 0
        for nbatch, eval_batch in enumerate(eval_data):
            if num_batch is not None and nbatch == num_batch:
                break
            self.prepare(eval_batch, sparse_row_id_fn=sparse_row_id_fn)
            self.forward(eval_batch, is_train=False)
            self._hg_score_batch(measure, eval_batch)
            call_all(batch_end_callback, BatchEndParam(epoch, nbatch, measure, locals()))
            seen += 1
        call_all(score_end_callback, BatchEndParam(epoch, seen, measure, locals()))
        return measure.get_name_value()

    def iter_predict(
        self, eval_data: Iterable[Any], num_batch: int | None = None, reset: bool = True, sparse_row_id_fn: Any = None
    ) -> Iterator[tuple[list[NDArray], int, Any]]:
        """Outputs of one batch after the other, without padding: (outputs, number of the batch, batch)."""
        self._hg_ready()
        if reset:
            eval_data.reset()  # type: ignore[attr-defined]
        for nbatch, batch in enumerate(eval_data):
            if num_batch is not None and nbatch == num_batch:
                break
            self.prepare(batch, sparse_row_id_fn=sparse_row_id_fn)
            self.forward(batch, is_train=False)
            pad = batch.pad or 0
            yield [x[: x.shape[0] - pad] for x in self.get_outputs()], nbatch, batch

    def predict(
        self,
        eval_data: Any,
        num_batch: int | None = None,
        merge_batches: bool = True,
        reset: bool = True,
        always_output_list: bool = False,
        sparse_row_id_fn: Any = None,
    ) -> Any:
        """Outputs for all batches, without padding.

        Args:
            eval_data: an iterator, or one array.
            merge_batches: join the batches; otherwise a list of batches, each a list of outputs.
            always_output_list: a list even of one output.

        Raises:
            ValueError: data of another type.
        """
        self._hg_ready()
        if isinstance(eval_data, (NDArray, np.ndarray)):
            x = eval_data if isinstance(eval_data, NDArray) else make_array(eval_data)
            self.forward(DataBatch([x]))
            return self.get_outputs()[0]
        if not isinstance(eval_data, DataIter):
            raise ValueError("eval_data must be of type NDArray or DataIter")
        results = [
            [x.copy() for x in outputs]
            for outputs, _, _ in self.iter_predict(eval_data, num_batch, reset, sparse_row_id_fn)
        ]
        if not results or not merge_batches:
            return results
        assert all(len(r) == len(results[0]) for r in results), (
            "Cannot merge batches, as num of outputs is not the same in mini-batches. Maybe bucketing is used?"
        )
        merged = [concat(*column, dim=0) if len(column) > 1 else column[0] for column in zip(*results, strict=True)]
        return merged[0] if len(merged) == 1 and not always_output_list else merged

    def fit(
        self,
        train_data: Any,
        eval_data: Any = None,
        eval_metric: Any = "acc",
        epoch_end_callback: Any = None,
        batch_end_callback: Any = None,
        kvstore: Any = "local",
        optimizer: Any = "sgd",
        optimizer_params: Any = SGD_RATE,
        eval_end_callback: Any = None,
        eval_batch_end_callback: Any = None,
        initializer: Any = Uniform(0.01),
        arg_params: Mapping[str, NDArray] | None = None,
        aux_params: Mapping[str, NDArray] | None = None,
        allow_missing: bool = False,
        force_rebind: bool = False,
        force_init: bool = False,
        begin_epoch: int = 0,
        num_epoch: int | None = None,
        validation_metric: Any = None,
        monitor: Any = None,
        sparse_row_id_fn: Any = None,
    ) -> None:
        """Train for the epochs from ``begin_epoch`` up to ``num_epoch``: bind, initialise, then batch after batch.

        Args:
            train_data, eval_data: iterators; those of ``eval_data`` are measured after each epoch.
            eval_metric, validation_metric: metrics or their names.
            epoch_end_callback: called with (epoch, symbol, arguments, auxiliary states).
            batch_end_callback, eval_end_callback, eval_batch_end_callback: called with a ``BatchEndParam``.
            arg_params, aux_params, allow_missing, force_init, initializer: see ``init_params``.

        Raises:
            AssertionError: no ``num_epoch``.
            AttributeError: ``train_data`` is no iterator of ``mx.io``.
        """
        assert num_epoch is not None, "please specify number of epochs"
        if not hasattr(train_data, "provide_data"):
            kind = type(train_data).__name__
            iterator = (
                "mx.contrib.io.DataLoaderIter(loader)" if kind == "DataLoader" else "mx.io.NDArrayIter(data, label)"
            )
            raise AttributeError(
                f"'{kind}' object has no attribute 'provide_data'\n{located_hint(f'Give it {iterator}.')}"
            )
        self.bind(
            data_shapes=train_data.provide_data,
            label_shapes=train_data.provide_label,
            for_training=True,
            force_rebind=force_rebind,
        )
        if monitor is not None:
            self.install_monitor(monitor)
        self.init_params(
            initializer=initializer,
            arg_params=arg_params,
            aux_params=aux_params,
            allow_missing=allow_missing,
            force_init=force_init,
        )
        self.init_optimizer(kvstore=kvstore, optimizer=optimizer, optimizer_params=optimizer_params)
        if validation_metric is None:
            validation_metric = eval_metric
        if not isinstance(eval_metric, metric.EvalMetric):
            eval_metric = metric.create(eval_metric)

        for epoch in range(begin_epoch, num_epoch):
            tic = time.time()
            values = self._hg_fit_epoch(train_data, epoch, eval_metric, batch_end_callback, monitor, sparse_row_id_fn)
            for name, value in values:
                self.logger.info("Epoch[%d] Train-%s=%f", epoch, name, value)
            self.logger.info("Epoch[%d] Time cost=%.3f", epoch, time.time() - tic)
            arg_params, aux_params = self.get_params()
            self.set_params(arg_params, aux_params)  # several devices may have drifted apart
            call_all(epoch_end_callback, epoch, self.symbol, arg_params, aux_params)
            if eval_data is not None:
                scores = self.score(
                    eval_data,
                    validation_metric,
                    score_end_callback=eval_end_callback,
                    batch_end_callback=eval_batch_end_callback,
                    epoch=epoch,
                )
                for name, value in scores:
                    self.logger.info("Epoch[%d] Validation-%s=%f", epoch, name, value)
            train_data.reset()

    def _hg_fit_epoch(
        self,
        train_data: Any,
        epoch: int,
        eval_metric: Any,
        batch_end_callback: Any,
        monitor: Any,
        sparse_row_id_fn: Any,
    ) -> list[tuple[str, float]]:
        """One pass over the data; the metric's values over all of it."""
        eval_metric.reset()
        values: list[tuple[str, float]] = []
        batches = iter(train_data)
        batch = next(batches, None)
        nbatch = 0
        while batch is not None:
            if monitor is not None:
                monitor.tic()
            self.forward_backward(batch)
            self.update()
            # before the next one is asked for: iterators may reuse a batch's memory
            self._hg_score_batch(eval_metric, batch)
            data_batch, batch = batch, next(batches, None)
            if batch is not None:
                self.prepare(batch, sparse_row_id_fn=sparse_row_id_fn)
            if monitor is not None:
                monitor.toc_print()
            if batch is None:  # callbacks may reset the metric
                values = eval_metric.get_global_name_value()
            call_all(batch_end_callback, BatchEndParam(epoch, nbatch, eval_metric, locals()))
            del data_batch
            nbatch += 1
        return values

    # -- names and shapes

    @property
    def symbol(self) -> Any:
        """The Symbol."""
        return self._symbol

    @property
    def data_names(self) -> Any:
        """Names of the data."""
        raise NotImplementedError

    @property
    def output_names(self) -> Any:
        """Names of the outputs."""
        raise NotImplementedError

    @property
    def data_shapes(self) -> Any:
        """Descriptions of the data."""
        raise NotImplementedError

    @property
    def label_shapes(self) -> Any:
        """Descriptions of the labels, None without labels."""
        raise NotImplementedError

    @property
    def output_shapes(self) -> Any:
        """Pairs (name, shape) of the outputs."""
        raise NotImplementedError

    # -- parameters

    def get_params(self) -> Any:
        """(arguments, auxiliary states) by name, on the CPU."""
        raise NotImplementedError

    def init_params(
        self,
        initializer: Any = Uniform(0.01),
        arg_params: Mapping[str, NDArray] | None = None,
        aux_params: Mapping[str, NDArray] | None = None,
        allow_missing: bool = False,
        force_init: bool = False,
        allow_extra: bool = False,
    ) -> None:
        """Give the parameters their first values."""
        raise NotImplementedError

    def set_params(
        self,
        arg_params: Mapping[str, NDArray] | None,
        aux_params: Mapping[str, NDArray] | None,
        allow_missing: bool = False,
        force_init: bool = True,
        allow_extra: bool = False,
    ) -> None:
        """Give the parameters these values."""
        self.init_params(None, arg_params, aux_params, allow_missing, force_init, allow_extra)

    def save_params(self, fname: str) -> None:
        """Write the parameters to a file."""
        arguments, states = self.get_params()
        values = {f"arg:{k}": v.as_in_context(cpu()) for k, v in arguments.items()}
        values.update({f"aux:{k}": v.as_in_context(cpu()) for k, v in states.items()})
        save_arrays(fname, values)

    def load_params(self, fname: str) -> None:
        """Take the parameters from a file of ``save_params`` or ``save_checkpoint``.

        Raises:
            ValueError: the file holds something else.
        """
        params: dict[str, dict[str, Any]] = {"arg": {}, "aux": {}}
        loaded = load_arrays(fname)
        for key, value in loaded.items() if isinstance(loaded, dict) else [("", None)]:
            kind, colon, name = key.partition(":")
            if kind not in params or not colon:
                raise ValueError(f"Invalid param file {fname}")
            params[kind][name] = value
        self.set_params(params["arg"], params["aux"])

    def get_states(self, merge_multi_context: bool = True) -> list[Any]:
        """States between batches; none here."""
        self._hg_ready()
        assert not merge_multi_context
        return []

    def set_states(self, states: Any = None, value: Any = None) -> None:
        """Set the states; there are none here."""
        self._hg_ready()
        assert not states and not value, "this module has no states"

    def install_monitor(self, mon: Any) -> None:
        """Watch what is computed."""
        raise NotImplementedError

    # -- batches

    def prepare(self, data_batch: Any, sparse_row_id_fn: Callable[[Any], Any] | None = None) -> None:
        """Get ready for a batch that comes next; nothing to do here."""

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Run a batch."""
        raise NotImplementedError

    def backward(self, out_grads: Any = None) -> None:
        """Gradients of the last batch."""
        raise NotImplementedError

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        """Outputs of the last batch."""
        raise NotImplementedError

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """Gradients of the data."""
        raise NotImplementedError

    def update(self) -> None:
        """One step of the optimizer with the last gradients."""
        raise NotImplementedError

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Give the last outputs to a metric."""
        raise NotImplementedError

    def bind(
        self,
        data_shapes: Any,
        label_shapes: Any = None,
        for_training: bool = True,
        inputs_need_grad: bool = False,
        force_rebind: bool = False,
        shared_module: Any = None,
        grad_req: Any = "write",
    ) -> None:
        """Make arrays for batches of these shapes."""
        raise NotImplementedError

    def init_optimizer(
        self,
        kvstore: Any = "local",
        optimizer: Any = "sgd",
        optimizer_params: Any = SGD_RATE,
        force_init: bool = False,
    ) -> None:
        """Make the optimizer."""
        raise NotImplementedError
