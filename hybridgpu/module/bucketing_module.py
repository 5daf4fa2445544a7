# SPDX-License-Identifier: Apache-2.0
"""BucketingModule: a Symbol for each kind of batch, one set of parameters."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from ..initializer import Uniform
from ..model import load_params
from ..name import NameManager
from ..ndarray import NDArray
from ..ndarray import array as make_array
from ..ndarray import load as load_arrays
from ..ndarray import save as save_arrays
from ..symbol import Symbol
from .base_module import SGD_RATE, BaseModule
from .data_descriptions import check_names
from .module import Module

__all__ = ["BucketingModule"]


class BucketingModule(BaseModule):
    """Modules by the ``bucket_key`` of batches (the length of sentences, say) that share parameters.

    Args:
        sym_gen: bucket key -> (Symbol, names of data, names of labels).
        default_bucket_key: the bucket with all parameters; the one with the largest inputs saves memory.
        context, work_load_list, fixed_param_names, state_names, group2ctxs, compression_params: see ``Module``.

    Raises:
        AssertionError: no ``default_bucket_key``.
        ValueError: ``sym_gen`` gives a name that is no argument of its Symbol.
    """

    def __init__(
        self,
        sym_gen: Callable[[Any], tuple[Symbol, Sequence[str] | None, Sequence[str] | None]],
        default_bucket_key: Any = None,
        logger: Any = logging,
        context: Any = None,
        work_load_list: Sequence[float] | None = None,
        fixed_param_names: Sequence[str] | None = None,
        state_names: Sequence[str] | None = None,
        group2ctxs: Any = None,
        compression_params: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(logger=logger)
        assert default_bucket_key is not None, "BucketingModule needs a default_bucket_key"
        self._default_bucket_key = default_bucket_key
        self._sym_gen = sym_gen
        self._hg_symbols: Mapping[Any, Symbol] = {}  #: in place of those that ``sym_gen`` makes
        self._hg_keys: list[Any] = []  #: of the buckets of the files that it was loaded from
        symbol, data_names, label_names = self._hg_generated(default_bucket_key)
        for names, kind, strict in (
            (data_names, "data", True),
            (label_names, "label", False),
            (state_names, "state", True),
            (fixed_param_names, "fixed_param", True),
        ):
            check_names(symbol, list(names or ()), kind, strict)
        self._hg_options = {
            "logger": logger,
            "context": context,
            "work_load_list": work_load_list,
            "fixed_param_names": fixed_param_names,
            "state_names": state_names,
            "group2ctxs": group2ctxs,
            "compression_params": compression_params,
        }
        self._hg_loaded: tuple[Mapping[str, NDArray], Mapping[str, NDArray]] | None = None
        self._params_dirty = False
        self._monitor: Any = None
        self._grad_req: Any = None
        self._hg_unbind()

    def _hg_unbind(self) -> None:
        self.binded = False
        self._buckets: dict[Hashable, Module] = {}
        self._curr_module: Any = None
        self._curr_bucket_key: Any = None

    def _hg_generated(self, key: Any) -> tuple[Symbol, Sequence[str] | None, Sequence[str] | None]:
        with NameManager():  # automatic names must be the same in all buckets
            symbol, data_names, label_names = self._sym_gen(key)
        return self._hg_symbols.get(key, symbol), data_names, label_names

    def _hg_module(self, key: Any) -> Module:
        symbol, data_names, label_names = self._hg_generated(key)
        return Module(symbol, data_names, label_names, **self._hg_options)

    def _hg_bound(self) -> Module:
        assert self.binded, "call bind first"
        return self._curr_module  # type: ignore[no-any-return]

    # -- names and shapes: those of the bucket at hand

    @property
    def data_names(self) -> Any:
        """Names of the data."""
        return self._curr_module.data_names if self.binded else self._hg_generated(self._default_bucket_key)[1]

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs."""
        if self.binded:
            return self._hg_bound().output_names
        return self._hg_generated(self._default_bucket_key)[0].list_outputs()

    @property
    def data_shapes(self) -> Any:
        """Descriptions of the data."""
        return self._hg_bound().data_shapes

    @property
    def label_shapes(self) -> Any:
        """Descriptions of the labels, None without labels."""
        return self._hg_bound().label_shapes

    @property
    def output_shapes(self) -> Any:
        """Pairs (name, shape) of the outputs."""
        return self._hg_bound().output_shapes

    @property
    def symbol(self) -> Symbol:
        """The Symbol of the bucket at hand."""
        return self._hg_bound().symbol  # type: ignore[no-any-return]

    # -- parameters

    def get_params(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        """(arguments, auxiliary states) by name, on the CPU."""
        self._hg_ready()
        self._curr_module._params_dirty = self._params_dirty
        parameters = self._curr_module.get_params()
        self._params_dirty = False
        return parameters  # type: ignore[no-any-return]

    def init_params(
        self,
        initializer: Any = Uniform(0.01),
        arg_params: Mapping[str, NDArray] | None = None,
        aux_params: Mapping[str, NDArray] | None = None,
        allow_missing: bool = False,
        force_init: bool = False,
        allow_extra: bool = False,
    ) -> None:
        """See ``Module.init_params``."""
        if self.params_initialized and not force_init:
            return
        assert self.binded, "call bind before initializing the parameters"
        self._curr_module.init_params(initializer, arg_params, aux_params, allow_missing, force_init, allow_extra)
        self._params_dirty = False
        self.params_initialized = True

    def set_params(
        self,
        arg_params: Mapping[str, NDArray] | None,
        aux_params: Mapping[str, NDArray] | None,
        allow_missing: bool = False,
        force_init: bool = True,
        allow_extra: bool = False,
    ) -> None:
        """See ``Module.set_params``."""
        if not allow_missing:
            self.init_params(None, arg_params, aux_params, allow_missing, force_init, allow_extra)
            return
        if self.params_initialized and not force_init:
            warnings.warn("Parameters already initialized and force_init=False. set_params call ignored.", stacklevel=2)
            return
        self._hg_bound().set_params(arg_params, aux_params, allow_missing, force_init, allow_extra)
        # its copies are made anew when they are asked for
        self._params_dirty = True
        self.params_initialized = True

    def get_states(self, merge_multi_context: bool = True) -> list[Any]:
        """States of the bucket at hand."""
        self._hg_ready()
        return self._hg_bound().get_states(merge_multi_context)

    def set_states(self, states: Any = None, value: Any = None) -> None:
        """Set the states of the bucket at hand."""
        self._hg_ready()
        self._hg_bound().set_states(states, value)

    # -- files

    def save_checkpoint(self, prefix: str, epoch: int, remove_amp_cast: bool = False) -> None:
        """Write the parameters, ``<prefix>-<bucket key>-symbol.json`` for each bucket, and their keys (``.buckets``).

        Buckets of the files that the module was loaded from are written, too, if no batch of theirs came since.
        """
        assert self._buckets, "Empty BucketingModule cannot be saved"
        self.save_params(f"{prefix}-{epoch:04d}.params")
        keys = list(dict.fromkeys([*self._hg_keys, *self._buckets]))
        for key in keys:
            symbol = self._buckets[key].symbol if key in self._buckets else self._hg_generated(key)[0]
            symbol.save(f"{prefix}-{key}-symbol.json", remove_amp_cast=remove_amp_cast)
        if all(isinstance(k, int) for k in keys):
            save_arrays(f"{prefix}.buckets", [make_array(keys, dtype="int32")])

    @staticmethod
    def load(
        prefix: str, epoch: int, sym_gen: Any = None, default_bucket_key: Any = None, **kwargs: Any
    ) -> BucketingModule:
        """A module with the parameters of ``save_checkpoint``; its Symbols come from ``sym_gen``.

        Raises:
            AssertionError: no ``sym_gen``.
        """
        assert sym_gen is not None, "sym_gen is required for loading BucketingModule"
        arguments, states = load_params(prefix, epoch)
        module = BucketingModule._hg_with(sym_gen, default_bucket_key, arguments, states, kwargs)
        if os.path.exists(f"{prefix}.buckets"):  # there is none where keys are no whole numbers
            module._hg_keys = load_arrays(f"{prefix}.buckets")[0].asnumpy().tolist()
        return module

    @staticmethod
    def load_dict(
        sym_dict: Mapping[Any, Symbol] | None = None,
        sym_gen: Any = None,
        default_bucket_key: Any = None,
        arg_params: Mapping[str, NDArray] | None = None,
        aux_params: Mapping[str, NDArray] | None = None,
        **kwargs: Any,
    ) -> BucketingModule:
        """As ``load``, with parameters in dicts, and with the Symbols of ``sym_dict`` for its keys.

        Raises:
            AssertionError: no ``sym_gen``.
        """
        assert sym_gen is not None, "sym_gen is required for loading BucketingModule"
        module = BucketingModule._hg_with(sym_gen, default_bucket_key, arg_params or {}, aux_params or {}, kwargs)
        module._hg_symbols = dict(sym_dict or {})
        return module

    @staticmethod
    def _hg_with(sym_gen: Any, key: Any, arguments: Any, states: Any, options: dict[str, Any]) -> BucketingModule:
        module = BucketingModule(sym_gen=sym_gen, default_bucket_key=key, **options)
        module._hg_loaded = arguments, states
        module.params_initialized = True
        return module

    # -- binding

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
        """Bind the default bucket; the others are bound when a batch of theirs comes. See ``Module.bind``."""
        assert shared_module is None, "shared_module for BucketingModule is not supported"
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            return
        if self.params_initialized and self.binded:
            self._hg_loaded = self.get_params()
        self._hg_unbind()
        module = self._hg_module(self._default_bucket_key)
        module.bind(data_shapes, label_shapes, for_training, inputs_need_grad, grad_req=grad_req)
        self.for_training, self.inputs_need_grad, self._grad_req = for_training, inputs_need_grad, grad_req
        self._curr_module, self._curr_bucket_key = module, self._default_bucket_key
        self._buckets[self._default_bucket_key] = module
        self.binded = True
        if self.params_initialized and self._hg_loaded is not None:
            module.init_params(None, *self._hg_loaded)
            self._params_dirty = False

    def switch_bucket(self, bucket_key: Any, data_shapes: Any, label_shapes: Any = None) -> None:
        """Make another bucket the one at hand; a new one is bound with the default bucket's arrays.

        Raises:
            MXNetError: a parameter has another shape than in the default bucket.
        """
        assert self.binded, "call bind before switching bucket"
        if bucket_key not in self._buckets:
            default = self._buckets[self._default_bucket_key]
            module = self._hg_module(bucket_key)
            module.bind(
                data_shapes,
                label_shapes,
                self._curr_module.for_training,
                self._curr_module.inputs_need_grad,
                shared_module=default,
                grad_req=self._grad_req,
            )
            default._total_exec_bytes = max(default._total_exec_bytes, module._total_exec_bytes)
            if self._monitor is not None:
                module.install_monitor(self._monitor)
            self._buckets[bucket_key] = module
        self._curr_module, self._curr_bucket_key = self._buckets[bucket_key], bucket_key

    def prepare(self, data_batch: Any, sparse_row_id_fn: Any = None) -> None:
        """Bind the bucket of a batch that comes next."""
        assert self.binded and self.params_initialized, "call bind and init_params first"
        at_hand = self._curr_bucket_key
        self.switch_bucket(data_batch.bucket_key, data_batch.provide_data, data_batch.provide_label)
        self.switch_bucket(at_hand, None, None)

    # -- optimizer

    def init_optimizer(
        self,
        kvstore: Any = "local",
        optimizer: Any = "sgd",
        optimizer_params: Any = SGD_RATE,
        force_init: bool = False,
    ) -> None:
        """One optimizer for all buckets; see ``Module.init_optimizer``."""
        self._hg_ready()
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring.")
            return
        current = self._hg_bound()
        current._params_dirty = self._params_dirty
        current.init_optimizer(kvstore, optimizer, optimizer_params, force_init=force_init)
        for module in self._buckets.values():
            if module is not current:
                module.borrow_optimizer(current)
        self.optimizer_initialized = True

    # -- batches

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Run a batch in the bucket of its ``bucket_key``."""
        self._hg_ready()
        self.switch_bucket(data_batch.bucket_key, data_batch.provide_data, data_batch.provide_label)
        self._curr_module.forward(data_batch, is_train=is_train)

    def backward(self, out_grads: Any = None) -> None:
        """Gradients of the last batch."""
        self._hg_ready()
        self._hg_bound().backward(out_grads=out_grads)

    def update(self) -> None:
        """One step of the optimizer with the last gradients."""
        self._hg_ready()
        assert self.optimizer_initialized, "call init_optimizer first"
        self._params_dirty = True
        self._hg_bound().update()

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        """Outputs of the last batch."""
        self._hg_ready()
        return self._hg_bound().get_outputs(merge_multi_context=merge_multi_context)

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """Gradients of the last batch's data."""
        self._hg_ready()
        return self._hg_bound().get_input_grads(merge_multi_context=merge_multi_context)

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Give labels and the last outputs to a metric."""
        self._hg_ready()
        self._hg_bound().update_metric(eval_metric, labels, pre_sliced)

    def install_monitor(self, mon: Any) -> None:
        """Watch all buckets, those to come included."""
        assert self.binded, "call bind first"
        self._monitor = mon
        for module in self._buckets.values():
            module.install_monitor(mon)
