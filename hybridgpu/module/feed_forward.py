# SPDX-License-Identifier: Apache-2.0
"""FeedForward: ``fit`` and ``predict`` with arrays or iterators, from before ``mx.mod.Module`` (``mx.model``)."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

import numpy as np

from .. import metric
from ..callback import LogValidationMetricsCallback
from ..context import Context, cpu
from ..initializer import Uniform
from ..io.iterators import DataDesc, DataIter, NDArrayIter
from ..model import BatchEndParam, load_checkpoint, save_checkpoint
from ..ndarray import NDArray
from ..symbol import Symbol
from .base_module import BaseModule, call_all
from .bucketing_module import BucketingModule
from .module import Module

__all__ = ["FeedForward"]


class FeedForward:
    """A net with one loss, trained and used batch by batch.

    Args:
        symbol: the net, or a function from a bucket key to it.
        ctx: where it is trained, a context or a list; predictions use the first.
        num_epoch, begin_epoch: training ends before the one and begins with the other.
        epoch_size: batches of an epoch; by default as many as the iterator has.
        optimizer: its name or an Optimizer.
        initializer: called with name and array for each parameter that has no value.
        numpy_batch_size: of batches made of arrays.
        arg_params, aux_params: values by name.
        allow_extra_params: drop values of other names.
        kwargs: for the optimizer.

    Raises:
        ValueError: two arguments of the net have one name.
    """

    def __init__(
        self,
        symbol: Symbol | Callable[[Any], Symbol],
        ctx: Any = None,
        num_epoch: int | None = None,
        epoch_size: int | None = None,
        optimizer: Any = "sgd",
        initializer: Any = Uniform(0.01),
        numpy_batch_size: int = 128,
        arg_params: Mapping[str, NDArray] | None = None,
        aux_params: Mapping[str, NDArray] | None = None,
        allow_extra_params: bool = False,
        begin_epoch: int = 0,
        **kwargs: Any,
    ) -> None:
        warnings.warn("FeedForward is deprecated: write mx.mod.Module", DeprecationWarning, stacklevel=2)
        assert isinstance(symbol, Symbol) or callable(symbol), "symbol must be a Symbol or a function that makes one"
        self.symbol = symbol if isinstance(symbol, Symbol) else None
        self.sym_gen = None if isinstance(symbol, Symbol) else symbol
        self.arg_params = None if arg_params is None else dict(arg_params)
        self.aux_params = None if aux_params is None else dict(aux_params)
        self.allow_extra_params = allow_extra_params
        self.ctx = [cpu()] if ctx is None else [ctx] if isinstance(ctx, Context) else list(ctx)
        self.num_epoch, self.epoch_size, self.begin_epoch = num_epoch, epoch_size, begin_epoch
        self.optimizer, self.initializer, self.kwargs = optimizer, initializer, kwargs
        self.numpy_batch_size = numpy_batch_size
        self._pred_exec: Any = None
        if self.symbol is not None:
            self._hg_check(self.symbol)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pred_exec": None}

    def _hg_check(self, symbol: Symbol) -> None:
        arguments, states = symbol.list_arguments(), symbol.list_auxiliary_states()
        for names, what in ((arguments, "arguments"), (states, "auxiliary states")):
            twice = sorted({n for n in names if names.count(n) > 1})
            if twice:
                raise ValueError(f"Find duplicated name {twice[0]!r} among the {what} {names}: give each its own name")
        if self.allow_extra_params:
            self.arg_params = {k: v for k, v in (self.arg_params or {}).items() if k in arguments}
            self.aux_params = {k: v for k, v in (self.aux_params or {}).items() if k in states}

    # -- what is given

    def _hg_iterator(self, data: Any, label: Any, is_train: bool) -> Any:
        """Batches of arrays (N, ...) and (N,) or (N, 1); an iterator as it is.

        Raises:
            ValueError: no label for training, one of another length or with more dimensions.
            TypeError: neither arrays nor an iterator.
        """
        if isinstance(data, DataIter):
            return data
        if not isinstance(data, (np.ndarray, NDArray)):
            raise TypeError("X must be DataIter, NDArray or numpy.ndarray")
        if label is None:
            if is_train:
                raise ValueError("y must be specified when X is numpy.ndarray")
            label = np.zeros(data.shape[0])
        if not isinstance(label, (np.ndarray, NDArray)):
            raise TypeError("y must be ndarray when X is numpy.ndarray")
        if data.shape[0] != label.shape[0]:
            raise ValueError("The numbers of data points and labels not equal")
        if label.ndim == 2 and label.shape[1] == 1:
            label = label.reshape(-1)
        if label.ndim != 1:
            raise ValueError("Label must be 1D or 2D (with 2nd dimension being 1)")
        last = "roll_over" if is_train else "pad"
        size = min(data.shape[0], self.numpy_batch_size)
        return NDArrayIter(data, label, size, shuffle=is_train, last_batch_handle=last)

    def _hg_evaluation(self, data: Any) -> Any:
        if data is None or isinstance(data, DataIter):
            return data
        if not isinstance(data, (tuple, list)) or len(data) != 2:
            raise TypeError(
                "Eval data must be DataIter, or NDArray/numpy.ndarray/list pair (i.e. tuple/list of length 2)"
            )
        if data[0] is None:
            raise ValueError("Eval data is NONE")
        x, y = (np.array(part) if isinstance(part, list) else part for part in data)
        return self._hg_iterator(x, y, is_train=True)

    # -- prediction

    def _hg_bound(self, data: Any) -> Any:
        """An executor for the batches of an iterator, on the first context."""
        assert self.symbol is not None and self.arg_params is not None, "train the net first, or give it arg_params"
        inputs = [d if isinstance(d, DataDesc) else DataDesc(*d) for d in data.provide_data]
        shapes = {**{k: v.shape for k, v in self.arg_params.items()}, **{d.name: d.shape for d in inputs}}
        kinds = {**{k: v.dtype for k, v in self.arg_params.items()}, **{d.name: d.dtype for d in inputs}}
        arg_shapes, _, _ = self.symbol.infer_shape(**shapes)
        if self._pred_exec is None or [tuple(x.shape) for x in self._pred_exec.arg_arrays] != arg_shapes:
            self._pred_exec = self.symbol.simple_bind(self.ctx[0], grad_req="null", type_dict=kinds, **shapes)
        self._pred_exec.copy_params_from(self.arg_params, self.aux_params)  # which may be new ones
        return self._pred_exec

    def _hg_outputs(self, data: Any, num_batch: int | None, reset: bool) -> Any:
        """(batch, the net's outputs for it) for each."""
        if reset:
            data.reset()
        run = self._hg_bound(data)
        for batch in islice(data, num_batch):
            for desc, values in zip(data.provide_data, batch.data, strict=True):
                run.arg_dict[desc[0]][:] = values
            run.forward(is_train=False)
            yield batch, run.outputs

    def predict(self, X: Any, num_batch: int | None = None, return_data: bool = False, reset: bool = True) -> Any:
        """The outputs of all batches, or of ``num_batch``, as one NumPy array; of several outputs a list of arrays.

        Args:
            X: an array or an iterator.
            return_data: give (outputs, data, labels).
            reset: begin with the first batch.
        """
        batches = self._hg_iterator(X, None, is_train=False)
        rows: list[list[list[Any]]] = []
        for batch, outputs in self._hg_outputs(batches, num_batch, reset):
            size = batches.batch_size - batch.pad
            groups = (outputs, batch.data, batch.label) if return_data else (outputs,)
            rows.append([[x[:size].asnumpy() for x in group] for group in groups])
        joined = [[np.concatenate(x) for x in zip(*group, strict=True)] for group in zip(*rows, strict=True)]
        results = tuple(group[0] if len(group) == 1 else group for group in joined)
        return results if return_data else results[0]

    def score(
        self,
        X: Any,
        eval_metric: Any = "acc",
        num_batch: int | None = None,
        batch_end_callback: Any = None,
        reset: bool = True,
    ) -> Any:
        """The metric's value over all batches of an iterator, or over ``num_batch``."""
        measured = metric.create(eval_metric)
        batches = self._hg_iterator(X, None, is_train=False)
        for i, (batch, outputs) in enumerate(self._hg_outputs(batches, num_batch, reset)):
            measured.update(batch.label, outputs)
            call_all(batch_end_callback, BatchEndParam(0, i, measured, locals()))
        return measured.get()[1]

    # -- training

    def fit(
        self,
        X: Any,
        y: Any = None,
        eval_data: Any = None,
        eval_metric: Any = "acc",
        epoch_end_callback: Any = None,
        batch_end_callback: Any = None,
        kvstore: Any = "local",
        logger: Any = None,
        work_load_list: Any = None,
        monitor: Any = None,
        eval_end_callback: Any = LogValidationMetricsCallback(),
        eval_batch_end_callback: Any = None,
    ) -> None:
        """Train from ``begin_epoch`` up to ``num_epoch``; parameters that have values go on from these.

        Args:
            X, y: data and labels, or an iterator of both.
            eval_data: an iterator or a pair (data, labels); measured after each epoch.
            eval_metric: a metric or its name.
            epoch_end_callback: called with (epoch, symbol, arguments, auxiliary states).
            batch_end_callback, eval_batch_end_callback, eval_end_callback: called with a ``BatchEndParam``.
            kvstore, work_load_list, monitor: as for ``Module``.

        Raises:
            AssertionError: no ``num_epoch``.
            TypeError, ValueError: data of another kind, or labels that do not fit them.
        """
        assert self.num_epoch is not None, "please specify number of epochs"
        logger = logging if logger is None else logger
        data, evaluated = self._hg_iterator(X, y, is_train=True), self._hg_evaluation(eval_data)
        measured = metric.create(eval_metric)
        logger.info("Start training with %s", self.ctx)
        module = self._hg_module(data, logger, work_load_list)
        if monitor is not None:
            module.install_monitor(monitor)
        module.init_optimizer(kvstore, self.optimizer, self.kwargs)
        data.reset()
        for epoch in range(self.begin_epoch, self.num_epoch):
            tic = time.time()
            measured.reset()
            self._hg_epoch(module, data, epoch, measured, batch_end_callback, monitor, logger)
            logger.info("Epoch[%d] Time cost=%.3f", epoch, time.time() - tic)
            self.arg_params, self.aux_params = module.get_params()
            call_all(epoch_end_callback, epoch, self.symbol, self.arg_params, self.aux_params)
            if evaluated is not None:
                measured.reset()
                evaluated.reset()
                count = 0
                for i, batch in enumerate(evaluated):
                    module.forward(batch, is_train=False)
                    module.update_metric(measured, batch.label)
                    call_all(eval_batch_end_callback, BatchEndParam(epoch, i, measured, locals()))
                    count = i + 1
                call_all(eval_end_callback, BatchEndParam(epoch, count, measured, locals()))
                evaluated.reset()

    def _hg_module(self, data: Any, logger: Any, work_load_list: Any) -> BaseModule:
        """A module for the batches of an iterator, with first values; the parameters are this object's, too."""
        names = [[d[0] for d in shapes] for shapes in (data.provide_data, data.provide_label)]
        options: dict[str, Any] = {"logger": logger, "context": self.ctx, "work_load_list": work_load_list}
        module: BaseModule
        if self.sym_gen is None:
            assert self.symbol is not None
            module = Module(self.symbol, names[0], names[1], **options)
        else:
            make = self.sym_gen
            self.symbol = make(data.default_bucket_key)
            self._hg_check(self.symbol)
            module = BucketingModule(lambda key: (make(key), names[0], names[1]), data.default_bucket_key, **options)
        module.bind(data.provide_data, data.provide_label)
        module.init_params(self.initializer, self.arg_params, self.aux_params, allow_missing=True)
        self.arg_params, self.aux_params = module.get_params()
        return module

    def _hg_epoch(
        self, module: Any, data: Any, epoch: int, measured: Any, callback: Any, monitor: Any, logger: Any
    ) -> None:
        """Train with the iterator's batches up to its end, or with ``epoch_size``, which may begin it again."""
        count = 0
        while True:
            for batch in data:
                if monitor is not None:
                    monitor.tic()
                module.forward_backward(batch)
                module.update()
                if monitor is not None:
                    monitor.toc_print()
                module.update_metric(measured, batch.label)
                count += 1
                call_all(callback, BatchEndParam(epoch, count, measured, locals()))
                if count == self.epoch_size:  # the next epoch goes on behind it
                    return
            logger.info("Epoch[%d] Resetting Data Iterator", epoch)
            data.reset()
            if self.epoch_size is None:
                return

    # -- files

    def save(self, prefix: str, epoch: int | None = None, remove_amp_cast: bool = True) -> None:
        """Write ``<prefix>-symbol.json`` and ``<prefix>-<epoch, four digits>.params``; by default of ``num_epoch``."""
        epoch = self.num_epoch if epoch is None else epoch
        assert epoch is not None, "please specify the epoch"
        save_checkpoint(prefix, epoch, self.symbol, self.arg_params or {}, self.aux_params or {}, remove_amp_cast)

    @staticmethod
    def load(prefix: str, epoch: int, ctx: Any = None, **kwargs: Any) -> FeedForward:
        """What ``save`` wrote; ``kwargs`` go to the constructor."""
        symbol, arguments, states = load_checkpoint(prefix, epoch)
        return FeedForward(symbol, ctx, arg_params=arguments, aux_params=states, begin_epoch=epoch, **kwargs)

    @staticmethod
    def create(
        symbol: Any,
        X: Any,
        y: Any = None,
        ctx: Any = None,
        num_epoch: int | None = None,
        epoch_size: int | None = None,
        optimizer: Any = "sgd",
        initializer: Any = Uniform(0.01),
        eval_data: Any = None,
        eval_metric: Any = "acc",
        epoch_end_callback: Any = None,
        batch_end_callback: Any = None,
        kvstore: Any = "local",
        logger: Any = None,
        work_load_list: Any = None,
        eval_end_callback: Any = LogValidationMetricsCallback(),
        eval_batch_end_callback: Any = None,
        **kwargs: Any,
    ) -> FeedForward:
        """A net that is trained; the arguments are those of the constructor and of ``fit``."""
        model = FeedForward(symbol, ctx, num_epoch, epoch_size, optimizer, initializer, **kwargs)
        model.fit(
            X, y, eval_data, eval_metric, epoch_end_callback, batch_end_callback, kvstore, logger, work_load_list,
            eval_end_callback=eval_end_callback, eval_batch_end_callback=eval_batch_end_callback,
        )  # fmt: skip
        return model
