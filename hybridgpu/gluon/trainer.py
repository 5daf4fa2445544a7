# SPDX-License-Identifier: Apache-2.0
"""Trainer: an optimizer applied to a set of parameters, on one device or several."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import kvstore as kvs
from .. import optimizer as opt
from ..context import Context
from ..hints.arguments import unexpected
from ..hints.gluon import OF_OPTIMIZERS, TRAINER, attribute_error
from ..hints.misplaced import about_learned, no_mapping
from ..io.formats.atomic import replace_file
from ..ndarray.versions import before_writes
from ..optimizer.updater import load_states
from .block import Block
from .compiled_step import StepExplanation, TrainerSteps
from .parameter import Parameter, ParameterDict

__all__ = ["Trainer"]


class Trainer:
    """Applies an optimizer to parameters after ``backward``.

    Args:
        params: a ParameterDict, a dict of parameters or a list.
        optimizer: a name or an Optimizer.
        optimizer_params: arguments for an optimizer given by name (learning_rate, wd, momentum …).
        kvstore: the store that sums the gradients of several devices; with one device none is used.
        compression_params: of gradients; needs a store that can do it.
        update_on_kvstore: let the store update the weights. By default it does where there are several devices
            (unless the environment variable ``MXNET_UPDATE_ON_KVSTORE`` is 0).

    Raises:
        ValueError: other parameters, or an unknown optimizer.
        AssertionError: parameters on different contexts, or ``optimizer_params`` beside an Optimizer.
        RuntimeError: a parameter that is not initialised.
    """

    #: set by ``contrib.amp.init_trainer``: the scale of losses, and ``_scale`` without it
    _amp_loss_scaler: Any = None
    _amp_original_scale: float

    def __init__(
        self,
        params: Any,
        optimizer: str | opt.Optimizer,
        optimizer_params: dict[str, Any] | None = None,
        kvstore: Any = "device",
        compression_params: dict[str, Any] | None = None,
        update_on_kvstore: bool | None = None,
        **others: Any,
    ) -> None:
        if others:
            raise unexpected(type(self), next(iter(others)), OF_OPTIMIZERS)
        if isinstance(params, (dict, ParameterDict)):
            params = [params[key] for key in sorted(params.keys())]
        if not isinstance(params, (list, tuple)):
            instead = about_learned(params, isinstance(params, Block), isinstance(params, Parameter))
            raise ValueError(f"First argument must be a list or dict of Parameters, got {type(params)}.{instead}")
        for p in params:
            if not isinstance(p, Parameter):
                raise ValueError(
                    f"First argument must be a list or dict of Parameters, got list of {type(p)}."
                    + about_learned(params, isinstance(p, Block), False)
                )
        self._params: list[Parameter] = list(params)
        for p in self._params:
            p._set_trainer(self)
        self._kv_initialized = False
        self._contexts = self._check_contexts()
        self._compression_params = compression_params
        self._init_optimizer(optimizer, optimizer_params or {})
        self._scale = self._optimizer.rescale_grad
        self._kvstore_params = {"kvstore": kvstore, "update_on_kvstore": update_on_kvstore}
        self._reset_kvstore()

    if not TYPE_CHECKING:  # which would no longer find names that are not there

        def __getattr__(self, name: str) -> Any:
            if hasattr(type(self), name):  # a property, whose own error it is
                return object.__getattribute__(self, name)
            raise attribute_error(self, name, TRAINER)

    @property
    def _param2idx(self) -> dict[str, int]:
        """The parameters' places by name: one that became an attribute of a block has another name since."""
        return {p.name: k for k, p in enumerate(self._params)}

    def _check_contexts(self) -> list[Context]:
        contexts: list[Context] | None = None
        for p in self._params:
            ctx = p.list_ctx()
            assert contexts is None or contexts == ctx, (
                "All Parameters must be initialized on the same set of contexts, "
                f"but Parameter {p.name} is initialized on {ctx} while previous Parameters "
                f"are initialized on {contexts}."
            )
            contexts = ctx
        return contexts or []

    def _init_optimizer(self, optimizer: str | opt.Optimizer, arguments: dict[str, Any]) -> None:
        by_index = dict(enumerate(self._params))
        self._optimizer: opt.Optimizer
        if isinstance(optimizer, opt.Optimizer):
            assert not arguments, (
                "optimizer_params must be None if optimizer is an instance of Optimizer instead of str"
            )
            self._optimizer = optimizer
            # the parameters themselves: their lr_mult and wd_mult may change later
            optimizer.param_dict = by_index
        else:
            if (refused := no_mapping(arguments)) is not None:
                raise refused
            self._optimizer = opt.create(optimizer, param_dict=by_index, **arguments)
        self._updaters = [opt.get_updater(self._optimizer) for _ in self._contexts]
        self._hg_steps = self._hg_new_steps()

    def _hg_new_steps(self) -> list[TrainerSteps]:
        return [TrainerSteps(self._params, k) for k in range(len(self._contexts))]

    def __getstate__(self) -> dict[str, Any]:
        """The attributes for copies and pickles: without compiled steps, which are found again at the first one."""
        return {k: v for k, v in self.__dict__.items() if k != "_hg_steps"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._hg_steps = self._hg_new_steps()

    # -- the store

    def _reset_kvstore(self) -> None:
        """Make the store anew at the next step."""
        self._kv_initialized = False
        self._kvstore: Any = None
        self._update_on_kvstore: bool | None = None
        self._params_to_init = list(self._params)

    def _hg_values_were_set(self, p: Parameter) -> None:
        """A parameter has new values from elsewhere: a store that holds the old ones is dropped."""
        if self._kv_initialized and self._hg_store_updates and not any(p is q for q in self._params_to_init):
            self._reset_kvstore()

    def _hg_make_kvstore(self) -> tuple[Any, bool]:
        """The store, None if there is nothing to sum, and whether it updates.

        Raises:
            TypeError: ``kvstore`` is neither a store, a name nor None.
            ValueError: ``update_on_kvstore=True`` for a store that cannot.
        """
        kvstore = self._kvstore_params["kvstore"]
        updates = bool(int(os.environ.get("MXNET_UPDATE_ON_KVSTORE", "1")))
        if kvstore is None:
            store = None
        elif isinstance(kvstore, kvs.KVStoreBase):
            store = kvstore
        elif isinstance(kvstore, str):
            store = None
            if len(self._contexts) > 1 or "dist" in kvstore:
                store = kvs.create(kvstore)
                largest = max(int(np.prod(p.data(self._contexts[0]).shape)) for p in self._params)
                updates = updates and not (kvstore == "local" and largest > 1024 * 1024 * 16)
        else:
            raise TypeError("kvstore must be KVStore, str or None")
        if store is None:
            return None, False
        update_on_kvstore = self._kvstore_params["update_on_kvstore"]
        capable = store.is_capable(kvs.KVStoreBase.OPTIMIZER)
        if update_on_kvstore and not capable:
            raise ValueError(f"Please set update_on_kvstore=False when training with {type(store)}")
        return store, capable and (updates if update_on_kvstore is None else bool(update_on_kvstore))

    def _init_kvstore(self) -> None:
        for p in self._params:
            p.data(self._contexts[0])  # a deferred parameter must not be stepped over
        store, updates = self._hg_make_kvstore()
        if store is not None:
            if self._compression_params:
                store.set_gradient_compression(self._compression_params)
            if updates:
                store.set_optimizer(self._optimizer)
            self._kvstore, self._update_on_kvstore = store, updates
        self._kv_initialized = True

    def _init_params(self) -> None:
        """Give initialised parameters to the store; the others wait."""
        uninitialized = []
        places = {id(p): k for k, p in enumerate(self._params)}  # two parameters may have one name
        for p in self._params_to_init if self._kvstore is not None else ():
            if p._deferred_init:
                uninitialized.append(p)
            else:
                copies = p.list_data()
                self._kvstore.broadcast(places[id(p)], copies[0], copies)
        self._params_to_init = uninitialized

    def _hg_prepare(self) -> None:
        if not self._kv_initialized:
            self._init_kvstore()
        if self._params_to_init:
            self._init_params()

    @property
    def _hg_store_updates(self) -> bool:
        return self._kvstore is not None and bool(self._update_on_kvstore)

    # -- the optimizer

    @property
    def learning_rate(self) -> float:
        """The optimizer's learning rate now."""
        return self._optimizer.learning_rate

    @property
    def optimizer(self) -> opt.Optimizer:
        """The optimizer."""
        return self._optimizer

    def set_learning_rate(self, lr: float) -> None:
        """Set the learning rate.

        Raises:
            UserWarning: the optimizer has a scheduler, which decides it.
        """
        self._optimizer.set_learning_rate(lr)

    # -- steps

    def step(self, batch_size: float, ignore_stale_grad: bool = False) -> None:
        """Sum the gradients of all devices, divide them by ``batch_size``, and make one step.

        Args:
            ignore_stale_grad: leave parameters out whose gradient was not renewed since the last step.

        Raises:
            UserWarning: there is such a parameter (raised, as in MXNet, not warned of).
        """
        self._optimizer.rescale_grad = self._scale / batch_size
        self._hg_prepare()
        self._allreduce_grads()
        self._update(ignore_stale_grad)

    def allreduce_grads(self) -> None:
        """Only sum the gradients of all devices; ``update`` makes the step.

        Raises:
            AssertionError: the store makes the steps.
        """
        self._hg_prepare()
        assert not self._hg_store_updates, (
            "allreduce_grads() when parameters are updated on kvstore is not supported. "
            "Try setting `update_on_kvstore` to False when creating trainer."
        )
        self._allreduce_grads()

    def update(self, batch_size: float, ignore_stale_grad: bool = False) -> None:
        """Make one step with gradients that were summed by ``allreduce_grads``; arguments as for ``step``.

        Raises:
            AssertionError: the store makes the steps.
        """
        self._hg_prepare()
        assert not self._hg_store_updates, (
            "update() when parameters are updated on kvstore is not supported. "
            "Try setting `update_on_kvstore` to False when creating trainer."
        )
        self._optimizer.rescale_grad = self._scale / batch_size
        self._update(ignore_stale_grad)

    def _allreduce_grads(self) -> None:
        if self._kvstore is None:
            return
        for i, p in enumerate(self._params):
            if p.grad_req != "null":
                out = p.list_data() if self._hg_store_updates else None
                self._kvstore.pushpull(i, p.list_grad(), out=out, priority=-i)

    def explain(self) -> StepExplanation:
        """How steps are made: the kernels of their programs, or why they run operator by operator."""
        if self._hg_store_updates:
            return StepExplanation([], ["the key-value store makes them"])
        parts = [steps.explain() for steps in self._hg_steps]
        reasons = dict.fromkeys(reason for part in parts for reason in part.reasons)
        return StepExplanation([p for part in parts for p in part.programs], list(reasons))

    def _update(self, ignore_stale_grad: bool = False) -> None:
        scaler = self._amp_loss_scaler
        if scaler is not None and scaler.has_overflow(self._params):
            return  # the step is left out
        steps_of = list(zip(self._hg_steps, self._updaters, strict=True))
        before_writes(d for p in self._params if p.grad_req != "null" for d in p._data or ())
        if not self._hg_store_updates and all(s.fits(u) for s, u in steps_of):
            for s, _ in steps_of:
                s.repeat()
            return
        learned = [(i, p) for i, p in enumerate(self._params) if p.grad_req != "null"]
        if not ignore_stale_grad:  # before anything is changed, so that the step can be made again
            for _, p in learned:
                _refuse_stale(p)
        if self._hg_store_updates:
            return
        steps: list[list[Any]] = [[] for _ in self._updaters]
        for i, p in learned:
            for step, d, g in zip(steps, p.list_data(), p.list_grad(), strict=True):
                if d._fresh_grad:
                    step.append((i, g, d))
                    d._fresh_grad = False
        for (make, updater), step in zip(steps_of, steps, strict=True):
            if step:
                make(updater, step)

    # -- files

    def save_states(self, fname: str) -> None:
        """Write the optimizer and its states (momenta, counts of updates) to a file."""
        self._hg_prepare()
        if self._hg_store_updates:
            assert not self._params_to_init, (
                "Cannot save trainer states when some parameters are not yet initialized in kvstore."
            )
            self._kvstore.save_optimizer_states(fname, dump_optimizer=True)
            return
        data = self._updaters[0].get_states(dump_optimizer=True)
        replace_file(fname, data)

    def load_states(self, fname: str) -> None:
        """Read what ``save_states`` wrote (MXNet's files, too)."""
        self._hg_prepare()
        if self._hg_store_updates:
            self._kvstore.load_optimizer_states(fname)
            self._optimizer = self._kvstore._updater.optimizer
        else:
            load_states(self._updaters, fname)
            for updater in self._updaters:
                updater.optimizer = self._updaters[0].optimizer
            self._optimizer = self._updaters[0].optimizer
        self._optimizer.param_dict = dict(enumerate(self._params))


def _refuse_stale(p: Parameter) -> None:
    """Raise MXNet's error if a gradient was not renewed since the last step."""
    for d in p.list_data():
        if not d._fresh_grad:
            raise UserWarning(
                f"Gradient of Parameter `{p.name}` on context {d.context} has not been updated by backward since "
                "last `step`. This could mean a bug in your model that made it only use a subset of the Parameters "
                "(Blocks) for this iteration. If you are intentionally only using a subset, call step with "
                "ignore_stale_grad=True to suppress this warning and skip updating of Parameters with stale gradient"
            )
