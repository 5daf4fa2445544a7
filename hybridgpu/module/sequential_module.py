# SPDX-License-Identifier: Apache-2.0
"""SequentialModule: modules one after the other."""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping
from typing import Any

from ..initializer import Uniform
from ..io.iterators import DataDesc
from ..ndarray import NDArray
from .base_module import SGD_RATE, BaseModule

__all__ = ["SequentialModule"]


class SequentialModule(BaseModule):
    """Modules in a row: the outputs of one are the data of the next."""

    META_TAKE_LABELS = "take_labels"
    META_AUTO_WIRING = "auto_wiring"

    def __init__(self, logger: Any = logging) -> None:
        super().__init__(logger=logger)
        self._modules: list[Any] = []
        self._metas: list[dict[str, Any]] = []
        self._label_shapes: Any = None
        self._data_shapes: Any = None

    def add(self, module: Any, **kwargs: Any) -> SequentialModule:
        """Append a module; it must be bound anew afterwards.

        Args:
            take_labels: it gets the labels of the batches.
            auto_wiring: the outputs of the module before it are its data by order, whatever their names.

        Raises:
            AssertionError: another keyword.
        """
        meta_keys = {self.META_TAKE_LABELS, self.META_AUTO_WIRING}
        for key in kwargs:
            assert key in meta_keys, f'Unknown meta "{key}", a typo?'
        self._modules.append(module)
        self._metas.append(kwargs)
        self.binded = self.params_initialized = self.optimizer_initialized = False
        return self

    # -- names and shapes

    @property
    def data_names(self) -> Any:
        """Names of the first module's data."""
        return self._modules[0].data_names if self._modules else []

    @property
    def output_names(self) -> Any:
        """Names of the last module's outputs."""
        return self._modules[-1].output_names if self._modules else []

    @property
    def data_shapes(self) -> Any:
        """Descriptions of the first module's data."""
        assert self.binded, "call bind first"
        return self._modules[0].data_shapes

    @property
    def label_shapes(self) -> Any:
        """Descriptions of the labels, None if no module takes any."""
        assert self.binded, "call bind first"
        return self._label_shapes

    @property
    def output_shapes(self) -> Any:
        """Pairs (name, shape) of the last module's outputs."""
        assert self.binded, "call bind first"
        return self._modules[-1].output_shapes

    # -- parameters

    def get_params(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        """(arguments, auxiliary states) of all modules by name."""
        self._hg_ready()
        arguments: dict[str, NDArray] = {}
        states: dict[str, NDArray] = {}
        for module in self._modules:
            own = module.get_params()
            arguments.update(own[0])
            states.update(own[1])
        return arguments, states

    def init_params(
        self,
        initializer: Any = Uniform(0.01),
        arg_params: Mapping[str, NDArray] | None = None,
        aux_params: Mapping[str, NDArray] | None = None,
        allow_missing: bool = False,
        force_init: bool = False,
        allow_extra: bool = False,
    ) -> None:
        """See ``Module.init_params``.

        Raises:
            AssertionError: two modules have a parameter of the same name.
        """
        if self.params_initialized and not force_init:
            return
        assert self.binded, "call bind before initializing the parameters"
        owners: dict[str, int] = {}
        for k, module in enumerate(self._modules):
            # what another module needs is none too many
            module.init_params(initializer, arg_params, aux_params, allow_missing, force_init, allow_extra)
            for names in module.get_params():
                for name in names:
                    assert name not in owners, (
                        f"Duplicated parameter names: name {name!r} in layer {k} ({type(module)}) is already used in layer "
                        f"{owners[name]} ({type(self._modules[owners[name]])})."
                    )
                    owners[name] = k
        self.params_initialized = True

    # -- binding and optimizers

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
        """Bind all modules, each with the outputs of the one before it. See ``Module.bind``."""
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            return
        if inputs_need_grad:
            assert for_training, "gradients of inputs are only there for training"
        assert shared_module is None, "Shared module is not supported"
        assert self._modules, "Attempting to bind an empty SequentialModule"
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        labelled = False
        shapes = data_shapes
        for k, (module, meta) in enumerate(zip(self._modules, self._metas, strict=True)):
            takes = bool(meta.get(self.META_TAKE_LABELS))
            labelled = labelled or takes
            if meta.get(self.META_AUTO_WIRING):
                names = module.data_names
                assert len(names) == len(shapes), f"module {k} wants {len(names)} inputs, but gets {len(shapes)}"
                descriptions = [x if isinstance(x, DataDesc) else DataDesc(*x) for x in shapes]
                shapes = [DataDesc(n, x.shape, x.dtype, x.layout) for n, x in zip(names, descriptions, strict=True)]
            module.bind(
                data_shapes=shapes,
                label_shapes=label_shapes if takes else None,
                for_training=for_training,
                inputs_need_grad=inputs_need_grad or (for_training and k > 0),
                force_rebind=force_rebind,
                shared_module=None,
                grad_req=grad_req,
            )
            shapes = module.output_shapes
        self._label_shapes = label_shapes if labelled else None
        self.binded = True

    def init_optimizer(
        self,
        kvstore: Any = "local",
        optimizer: Any = "sgd",
        optimizer_params: Any = SGD_RATE,
        force_init: bool = False,
    ) -> None:
        """An optimizer for each module; see ``Module.init_optimizer``."""
        self._hg_ready()
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring.")
            return
        for module in self._modules:
            module.init_optimizer(kvstore, optimizer, optimizer_params, force_init=force_init)
        self.optimizer_initialized = True

    # -- batches

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Run a batch through all modules."""
        self._hg_ready()
        batch = copy.copy(data_batch)
        for k, module in enumerate(self._modules):
            module.forward(batch, is_train=is_train)
            if k + 1 == len(self._modules):
                break
            batch.data = module.get_outputs()
            if getattr(batch, "provide_data", None):
                following = self._modules[k + 1].data_names
                names = [s[0] for s in module.output_shapes]
                names = following if self._metas[k + 1].get(self.META_AUTO_WIRING) else names
                batch.provide_data = [DataDesc(n, x.shape) for n, x in zip(names, batch.data, strict=True)]

    def backward(self, out_grads: Any = None) -> None:
        """Gradients of the last batch, from the last module to the first."""
        self._hg_ready()
        for k, module in reversed(list(enumerate(self._modules))):
            module.backward(out_grads=out_grads)
            if k:
                out_grads = module.get_input_grads()

    def update(self) -> None:
        """One step of every optimizer."""
        assert self.binded and self.params_initialized and self.optimizer_initialized, "call init_optimizer first"
        for module in self._modules:
            module.update()

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        """Outputs of the last module."""
        self._hg_ready()
        return self._modules[-1].get_outputs(merge_multi_context=merge_multi_context)  # type: ignore[no-any-return]

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """Gradients of the first module's data."""
        self._hg_ready()
        assert self.inputs_need_grad, "bind with inputs_need_grad=True to have gradients of the data"
        return self._modules[0].get_input_grads(merge_multi_context=merge_multi_context)  # type: ignore[no-any-return]

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Give labels and outputs of the modules that take labels to a metric."""
        self._hg_ready()
        for module, meta in zip(self._modules, self._metas, strict=True):
            if meta.get(self.META_TAKE_LABELS):
                module.update_metric(eval_metric, labels, pre_sliced)

    def install_monitor(self, mon: Any) -> None:
        """Watch all modules."""
        assert self.binded, "call bind first"
        for module in self._modules:
            module.install_monitor(mon)
