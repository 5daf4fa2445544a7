# SPDX-License-Identifier: Apache-2.0
"""Module: one Symbol."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from .. import optimizer as opt
from ..context import Context, cpu
from ..initializer import InitDesc, Uniform
from ..io.formats.atomic import replace_file
from ..io.iterators import DataDesc
from ..model import load_checkpoint
from ..ndarray import NDArray, zeros
from ..optimizer.updater import load_states
from ..symbol import Symbol
from .base_module import SGD_RATE, BaseModule
from .data_descriptions import check_names, descriptions
from .executor_group import DataParallelExecutorGroup
from .kvstore_update import give_params, make_store, step

__all__ = ["Module"]


class Module(BaseModule):
    """A Symbol with its parameters, on one device or several that share the batches.

    Args:
        symbol: the Symbol; losses are among its outputs if it is to be trained.
        data_names, label_names: its arguments that come with each batch.
        context: a device or a list of them; each gets a slice of the batch.
        work_load_list: how much each device does, in proportion.
        fixed_param_names: parameters that are not trained.
        state_names: arguments that are kept between batches (``set_states``).
        group2ctxs: for each context the devices of the Symbol's groups, as ``simple_bind`` takes them: a list of dicts,
            or one dict whose values are devices, or lists of a device for each context.
        compression_params: not supported by the stores of one process.

    Raises:
        ValueError: a name that is no argument of the Symbol (only a warning for labels).
    """

    def __init__(
        self,
        symbol: Symbol,
        data_names: Sequence[str] | None = ("data",),
        label_names: Sequence[str] | None = ("softmax_label",),
        logger: Any = logging,
        context: Any = None,
        work_load_list: Sequence[float] | None = None,
        fixed_param_names: Sequence[str] | None = None,
        state_names: Sequence[str] | None = None,
        group2ctxs: Any = None,
        compression_params: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(logger=logger)
        context = cpu() if context is None else context
        self._context = [context] if isinstance(context, Context) else list(context)
        self._work_load_list = list(work_load_list) if work_load_list is not None else [1] * len(self._context)
        assert len(self._work_load_list) == len(self._context), "work_load_list needs a number for each context"
        self._group2ctxs = group2ctxs
        self._symbol: Symbol = symbol
        self._data_names, self._label_names = list(data_names or ()), list(label_names or ())
        self._state_names, self._fixed_param_names = list(state_names or ()), list(fixed_param_names or ())
        check_names(symbol, self._data_names, "data", True)
        check_names(symbol, self._label_names, "label", False)
        check_names(symbol, self._state_names, "state", True)
        check_names(symbol, self._fixed_param_names, "fixed_param", True)
        inputs = {*self._data_names, *self._label_names, *self._state_names}
        self._param_names = [n for n in symbol.list_arguments() if n not in inputs]
        self._aux_names = symbol.list_auxiliary_states()
        self._output_names = symbol.list_outputs()
        self._arg_params: dict[str, NDArray] | None = None
        self._aux_params: dict[str, NDArray] | None = None
        self._params_dirty = False
        self._compression_params = compression_params
        self._optimizer: Any = None
        self._kvstore: Any = None
        self._update_on_kvstore: bool | None = None
        self._updater: Any = None
        self._preload_opt_states: str | None = None
        self._grad_req: Any = None
        self._hg_unbind()

    def _hg_unbind(self) -> None:
        self.binded = False
        self._exec_group: Any = None
        self._data_shapes: list[DataDesc] | None = None
        self._label_shapes: list[DataDesc] | None = None

    # -- files

    @staticmethod
    def load(prefix: str, epoch: int, load_optimizer_states: bool = False, **kwargs: Any) -> Module:
        """A module from ``save_checkpoint``'s files; ``kwargs`` go to the constructor.

        Args:
            load_optimizer_states: take the optimizer's states, too, once it is made.
        """
        symbol, arguments, states = load_checkpoint(prefix, epoch)
        module = Module(symbol=symbol, **kwargs)
        module._arg_params, module._aux_params = arguments, states
        module.params_initialized = True
        if load_optimizer_states:
            module._preload_opt_states = f"{prefix}-{epoch:04d}.states"
        return module

    def save_checkpoint(
        self, prefix: str, epoch: int, save_optimizer_states: bool = False, remove_amp_cast: bool = True
    ) -> None:
        """Write ``<prefix>-symbol.json``, ``<prefix>-<epoch, four digits>.params`` and, if wanted, ``.states``."""
        self._symbol.save(f"{prefix}-symbol.json", remove_amp_cast=remove_amp_cast)
        fname = f"{prefix}-{epoch:04d}.params"
        self.save_params(fname)
        logging.info('Saved checkpoint to "%s"', fname)
        if save_optimizer_states:
            states = f"{prefix}-{epoch:04d}.states"
            self.save_optimizer_states(states)
            logging.info('Saved optimizer state to "%s"', states)

    def save_optimizer_states(self, fname: str) -> None:
        """Write the optimizer's states."""
        assert self.optimizer_initialized
        if self._update_on_kvstore:
            self._kvstore.save_optimizer_states(fname)
            return
        replace_file(fname, self._updater.get_states())

    def load_optimizer_states(self, fname: str) -> None:
        """Read the optimizer's states; they are pickled: only from where code would be taken from."""
        assert self.optimizer_initialized
        if self._update_on_kvstore:
            self._kvstore.load_optimizer_states(fname)
            return
        load_states([self._updater], fname)

    # -- names and shapes

    @property
    def data_names(self) -> list[str]:
        """Names of the data."""
        return self._data_names

    @property
    def label_names(self) -> list[str]:
        """Names of the labels."""
        return self._label_names

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs."""
        return self._output_names

    def _hg_bound(self) -> DataParallelExecutorGroup:
        assert self.binded, "call bind first"
        return self._exec_group  # type: ignore[no-any-return]

    @property
    def data_shapes(self) -> list[DataDesc]:
        """Descriptions of the data."""
        self._hg_bound()
        return self._data_shapes or []

    @property
    def label_shapes(self) -> list[DataDesc] | None:
        """Descriptions of the labels, None if bound without."""
        self._hg_bound()
        return self._label_shapes

    @property
    def output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """Pairs (name, shape) of the outputs."""
        return self._hg_bound().get_output_shapes()

    # -- parameters

    def get_params(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        """(arguments, auxiliary states) by name, on the CPU: the module's own arrays."""
        assert self.params_initialized, "call init_params first"
        if self._params_dirty:
            self._hg_sync()
        return self._arg_params or {}, self._aux_params or {}

    def _hg_sync(self) -> None:
        """Values from the devices."""
        self._exec_group.get_params(self._arg_params, self._aux_params)
        self._params_dirty = False

    def init_params(
        self,
        initializer: Any = Uniform(0.01),
        arg_params: Mapping[str, NDArray] | None = None,
        aux_params: Mapping[str, NDArray] | None = None,
        allow_missing: bool = False,
        force_init: bool = False,
        allow_extra: bool = False,
    ) -> None:
        """Give the parameters their first values.

        Args:
            initializer: for those that are not given.
            arg_params, aux_params: values by name.
            allow_missing: use the initializer for parameters that the given values lack.
            force_init: even if they have values.

        Raises:
            RuntimeError: a parameter is missing in the given values.
        """
        if self.params_initialized and not force_init:
            warnings.warn(
                "Parameters already initialized and force_init=False. init_params call ignored.", stacklevel=2
            )
            return
        assert self.binded, "call bind before initializing the parameters"
        attributes = self._symbol.attr_dict()
        for own, source in ((self._arg_params, arg_params), (self._aux_params, aux_params)):
            for name, array in sorted((own or {}).items()):
                if source is not None and name in source:
                    if source[name] is not array:
                        source[name].astype(array.dtype).copyto(array)
                    continue
                if source is not None and not allow_missing:
                    raise RuntimeError(f"{name} is not presented")
                if initializer is not None:
                    initializer(InitDesc(name, attributes.get(name)), array)
        self.params_initialized = True
        self._params_dirty = False
        self._exec_group.set_params(self._arg_params, self._aux_params, allow_extra=allow_extra)

    def set_params(
        self,
        arg_params: Mapping[str, NDArray] | None,
        aux_params: Mapping[str, NDArray] | None,
        allow_missing: bool = False,
        force_init: bool = True,
        allow_extra: bool = False,
    ) -> None:
        """Give the parameters these values.

        Raises:
            RuntimeError: one is missing, unless ``allow_missing``.
            ValueError: one is unknown, with ``allow_missing`` and without ``allow_extra``.
        """
        if not allow_missing:
            self.init_params(None, arg_params, aux_params, allow_missing, force_init, allow_extra)
            return
        if self.params_initialized and not force_init:
            warnings.warn("Parameters already initialized and force_init=False. set_params call ignored.", stacklevel=2)
            return
        self._hg_bound().set_params(arg_params or {}, aux_params or {}, allow_extra=allow_extra)
        self._params_dirty = True
        self.params_initialized = True

    # -- binding

    def bind(
        self,
        data_shapes: Any,
        label_shapes: Any = None,
        for_training: bool = True,
        inputs_need_grad: bool = False,
        force_rebind: bool = False,
        shared_module: Module | None = None,
        grad_req: Any = "write",
    ) -> None:
        """Make arrays for batches of these shapes.

        Args:
            data_shapes, label_shapes: pairs (name, shape) or ``DataDesc``.
            for_training: gradients will be wanted.
            inputs_need_grad: those of the data, too.
            force_rebind: even if it is bound; parameters keep their values.
            shared_module: use the parameters of another module, the same arrays.
            grad_req: 'write', 'add' or 'null', one for all, a list or a dict.

        Raises:
            ValueError: data of other names.
            AssertionError: inputs with different batch sizes.
        """
        if force_rebind:
            self._hg_unbind()
        if self.binded:
            self.logger.warning("Already bound, ignoring bind()")
            return
        assert for_training or not inputs_need_grad, "gradients of inputs are only there for training"
        data, labels = descriptions(self._data_names, self._label_names, data_shapes, label_shapes)
        shared_group = None
        if shared_module is not None:
            assert isinstance(shared_module, Module), "shared_module must be a Module"
            assert shared_module.binded and shared_module.params_initialized, "bind and initialise shared_module first"
            shared_group = shared_module._exec_group
            assert len(shared_group.execs) >= len(self._context), "shared_module has fewer contexts"
        group = DataParallelExecutorGroup(
            self._symbol,
            self._context,
            self._work_load_list,
            data,
            labels,
            self._param_names,
            for_training,
            inputs_need_grad,
            shared_group,
            logger=self.logger,
            fixed_param_names=self._fixed_param_names,
            grad_req=grad_req,
            state_names=self._state_names,
            group2ctxs=self._group2ctxs,
        )
        self._exec_group, self._data_shapes, self._label_shapes = group, data, labels
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        self._grad_req, self._total_exec_bytes = grad_req, group.nbytes
        self.binded = True
        if shared_module is not None:
            self._arg_params, self._aux_params = shared_module._arg_params, shared_module._aux_params
            self.params_initialized = True
        elif self.params_initialized:  # loaded, or bound before
            group.set_params(self._arg_params or {}, self._aux_params or {})
        else:
            self._arg_params = self._hg_copies(self._param_names, group.param_arrays)
            self._aux_params = self._hg_copies(self._aux_names, group.aux_arrays)
        if shared_module is not None and shared_module.optimizer_initialized:
            self.borrow_optimizer(shared_module)

    @staticmethod
    def _hg_copies(names: Sequence[str], blocks: Sequence[Sequence[NDArray]]) -> dict[str, NDArray]:
        return {n: zeros(b[0].shape, ctx=cpu(), dtype=b[0].dtype) for n, b in zip(names, blocks, strict=True)}

    def reshape(self, data_shapes: Any, label_shapes: Any = None) -> None:
        """Take batches of other shapes; parameters stay."""
        group = self._hg_bound()
        data, labels = descriptions(self._data_names, self._label_names, data_shapes, label_shapes)
        group.reshape(data, labels)
        self._data_shapes, self._label_shapes = data, labels

    # -- optimizer

    def init_optimizer(
        self,
        kvstore: Any = "local",
        optimizer: Any = "sgd",
        optimizer_params: Any = SGD_RATE,
        force_init: bool = False,
    ) -> None:
        """Make the optimizer.

        Args:
            kvstore: store that sums gradients over the devices, its name or None.
            optimizer: an optimizer or its name; one that is made here divides gradients by the batch size.
            optimizer_params: a dict, or pairs.
            force_init: even if there is one.
        """
        self._hg_ready()
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring...")
            return
        if self._params_dirty:
            self._hg_sync()
        group = self._hg_bound()
        devices = len(self._context)
        store, on_store = make_store(kvstore, devices, self._arg_params or {})
        if on_store:
            names = dict(enumerate(self._param_names))
        else:
            names = {i * devices + d: n for i, n in enumerate(self._param_names) for d in range(devices)}
        scale = 1.0 / (group.batch_size or 1)
        if isinstance(optimizer, str):
            chosen = {"rescale_grad": scale, **dict(optimizer_params)}
            optimizer = opt.create(optimizer, sym=self._symbol, param_idx2name=names, **chosen)
        else:
            assert isinstance(optimizer, opt.Optimizer), "optimizer must be an Optimizer or its name"
            if optimizer.rescale_grad != scale:
                warnings.warn(
                    "Optimizer created manually outside Module but rescale_grad is not normalized to "
                    f"1.0/batch_size/num_workers ({optimizer.rescale_grad} vs. {scale}). Is this intended?",
                    stacklevel=2,
                )
            if not optimizer.idx2name:
                optimizer.idx2name = names.copy()
        self._optimizer, self._kvstore, self._update_on_kvstore = optimizer, store, on_store
        self._updater = None if on_store else opt.get_updater(optimizer)
        if store is not None:
            if self._compression_params:
                store.set_gradient_compression(self._compression_params)
            if on_store:
                store.set_optimizer(optimizer)
            give_params(store, self._param_names, group.param_arrays, self._arg_params or {}, on_store)
        self.optimizer_initialized = True
        if self._preload_opt_states is not None:
            self.load_optimizer_states(self._preload_opt_states)
            self._preload_opt_states = None

    def borrow_optimizer(self, shared_module: Module) -> None:
        """Use the optimizer of another module, with its states."""
        assert shared_module.optimizer_initialized, "the other module has no optimizer"
        self._optimizer, self._updater = shared_module._optimizer, shared_module._updater
        self._kvstore, self._update_on_kvstore = shared_module._kvstore, shared_module._update_on_kvstore
        self.optimizer_initialized = True

    # -- batches

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Run a batch; one of other shapes has the module reshaped.

        Args:
            data_batch: has ``data`` and ``label``, or is a list of such, one for each context.
            is_train: by default what the module was bound for.
        """
        self._hg_ready()
        assert self._data_shapes is not None
        shapes = _shapes(data_batch, "data", self._data_shapes)
        if [tuple(x.shape) for x in self._data_shapes] != shapes:
            first = data_batch[0] if isinstance(data_batch, list) else data_batch
            provided = getattr(first, "provide_data", None) if first is data_batch else None
            data = provided or _reshaped(self._data_shapes, shapes)
            labels = getattr(first, "provide_label", None) if first is data_batch else None
            if not labels and getattr(first, "label", None):
                labels = _reshaped(self._label_shapes or (), _shapes(data_batch, "label", self._label_shapes or ()))
            self.reshape(data, labels or None)
        self._exec_group.forward(data_batch, is_train)

    def backward(self, out_grads: Any = None) -> None:
        """Gradients of the last batch; ``out_grads`` are those of the outputs, which only losses go without."""
        self._hg_ready()
        self._exec_group.backward(out_grads=out_grads)

    def update(self) -> None:
        """One step of the optimizer with the last gradients."""
        self._hg_ready()
        assert self.optimizer_initialized, "call init_optimizer first"
        self._params_dirty = True
        group = self._exec_group
        step(self._param_names, group.param_arrays, group.grad_arrays, self._kvstore, self._updater)

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        """Outputs of the last batch; without merging, a list over contexts each."""
        self._hg_ready()
        return self._exec_group.get_outputs(merge_multi_context=merge_multi_context)  # type: ignore[no-any-return]

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """Gradients of the data, in the order they were bound in; only with ``inputs_need_grad``."""
        self._hg_ready()
        assert self.inputs_need_grad, "bind with inputs_need_grad=True to have gradients of the data"
        return self._exec_group.get_input_grads(merge_multi_context=merge_multi_context)  # type: ignore[no-any-return]

    def get_states(self, merge_multi_context: bool = True) -> list[Any]:
        """States, a list over contexts each (``merge_multi_context=False``)."""
        self._hg_ready()
        return self._exec_group.get_states(merge_multi_context=merge_multi_context)  # type: ignore[no-any-return]

    def set_states(self, states: Any = None, value: Any = None) -> None:
        """Set the states to arrays (as ``get_outputs(False)`` gives them), or all to one number."""
        self._hg_ready()
        self._exec_group.set_states(states, value)

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Give labels and the last outputs to a metric."""
        self._exec_group.update_metric(eval_metric, labels, pre_sliced)

    def install_monitor(self, mon: Any) -> None:
        """Watch all executors."""
        self._hg_bound().install_monitor(mon)


def _shapes(batch: Any, attribute: str, described: Sequence[DataDesc]) -> list[tuple[int, ...]]:
    """Shapes of a batch's arrays; those of a list of batches put together."""
    if not isinstance(batch, list):
        return [tuple(x.shape) for x in getattr(batch, attribute)]
    shapes = []
    for column, x in zip(zip(*[getattr(b, attribute) for b in batch], strict=True), described, strict=True):
        shape = list(column[0].shape)
        axis = DataDesc.get_batch_axis(x.layout)
        if axis >= 0:
            shape[axis] = sum(c.shape[axis] for c in column)
        shapes.append(tuple(shape))
    return shapes


def _reshaped(described: Sequence[DataDesc], shapes: Sequence[tuple[int, ...]]) -> list[DataDesc]:
    return [DataDesc(x.name, s, x.dtype, x.layout) for x, s in zip(described, shapes, strict=True)]
