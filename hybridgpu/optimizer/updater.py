# SPDX-License-Identifier: Apache-2.0
"""Updater: an optimizer together with the states of all weights."""

from __future__ import annotations

import importlib
import io
import pickle
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..base import MXNetError
from ..context import Context
from ..ndarray import NDArray
from ..ndarray.serialization import array_of_record
from .base import Optimizer

__all__ = ["Updater", "get_updater", "load_states"]


class _MXNetArray:
    """An array as MXNet pickles it: its bytes in the format of ``nd.save``."""

    def __new__(cls, handle: Any = None) -> Any:
        return object.__new__(cls)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.array = array_of_record(state["handle"])


class _Unpickler(pickle.Unpickler):
    """Reads states of MXNet, too: its classes stand for ours."""

    def find_class(self, module: str, name: str) -> Any:
        ours = __name__.partition(".")[0]
        first, _, rest = module.partition(".")
        if first != "mxnet" or ours == "mxnet":
            return super().find_class(module, name)
        if name == "NDArray":
            return _MXNetArray
        return getattr(importlib.import_module(f"{ours}.{rest.split('.')[0]}"), name)


def _arrays(state: Any) -> Any:
    """A state with MXNet's arrays replaced by ours."""
    if isinstance(state, _MXNetArray):
        return state.array
    if isinstance(state, (tuple, list)):
        return type(state)(_arrays(s) for s in state)
    return state


class Updater:
    """``updater(index, gradient, weight)`` makes one step; states are made at the first one.

    Attributes:
        states: index -> state of ``optimizer.create_state_multi_precision``.
    """

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self.states: dict[Any, Any] = {}
        self.states_synced: dict[Any, bool] = {}
        self._hg_made_for: dict[Any, Any] = {}  #: index -> element type of the weight that the state was made for
        self.aggregate_updates = optimizer.aggregate_num > 0

    def __call__(self, index: Any, grad: Any, weight: Any) -> None:
        """One step for a weight, or for each of three lists.

        Raises:
            MXNetError: a state does not fit its weight, which was cast since.
        """
        if isinstance(index, (list, tuple)):
            indices, grads, weights = list(index), list(grad), list(weight)
        else:
            indices, grads, weights = [index], [grad], [weight]
        grads, weights = [g.as_nd_ndarray() for g in grads], [w.as_nd_ndarray() for w in weights]
        if not weights:
            return
        optimizer = self.optimizer
        optimizer._set_current_context(weights[0].context.device_id)
        indices = [i.decode() if isinstance(i, bytes) else i for i in indices]
        self.make_states(indices, weights)
        try:
            self._hg_step(indices, grads, weights)
        except (AttributeError, MXNetError, TypeError, ValueError) as e:
            for i, w in self.cast_since(indices, weights):
                raise _unfit(i, self._hg_made_for[i], _type_of(w)) from e
            raise

    def _hg_step(self, indices: list[Any], grads: list[Any], weights: list[Any]) -> None:
        optimizer = self.optimizer
        if not self.aggregate_updates:
            for i, w, g in zip(indices, weights, grads, strict=True):
                optimizer.update_multi_precision(i, w, g, self.states[i])
            return
        by_type: dict[Any, list[tuple[Any, Any, Any]]] = {}
        for row in zip(indices, weights, grads, strict=True):
            by_type.setdefault(row[1].dtype, []).append(row)
        size = optimizer.aggregate_num
        for rows in by_type.values():
            for start in range(0, len(rows), size):
                part, ws, gs = (list(column) for column in zip(*rows[start : start + size], strict=True))
                optimizer.update_multi_precision(part, ws, gs, [self.states[i] for i in part])

    def cast_since(self, indices: Sequence[Any], weights: Sequence[Any]) -> list[tuple[Any, Any]]:
        """Those of (index, weight) whose states were made for weights of another element type: few optimizers can use them."""
        pairs = zip(indices, weights, strict=True)
        return [(i, w) for i, w in pairs if self._hg_made_for.get(i, _type_of(w)) is not _type_of(w)]

    def make_states(self, indices: Sequence[Any], weights: Sequence[Any]) -> None:
        """Make the states that are not there yet, and move those that came from elsewhere to their weights."""
        for i, weight in zip(indices, weights, strict=True):
            if i not in self.states:
                self.states[i] = self.optimizer.create_state_multi_precision(i, weight.as_nd_ndarray())
                self._hg_made_for[i] = _type_of(weight)
            elif not self.states_synced[i]:
                self.states[i] = self.sync_state_context(self.states[i], weight.context)
            self.states_synced[i] = True

    def sync_state_context(self, state: Any, context: Context) -> Any:
        """A state (nested tuples and lists too) on ``context``."""
        if isinstance(state, NDArray):
            return state.as_in_context(context)
        if isinstance(state, (tuple, list)):
            return type(state)(self.sync_state_context(s, context) for s in state)
        return state

    def set_states(self, states: bytes) -> None:
        """Take states (and, if it is there, the optimizer) from what ``get_states`` gave, here or in MXNet.

        States are pickled: take them only from where code would be taken from.
        """
        loaded, optimizer = _Unpickler(io.BytesIO(states)).load(), self.optimizer
        if isinstance(loaded, tuple) and len(loaded) == 2:
            loaded, optimizer = loaded
        arrays = {i: _arrays(s) for i, s in loaded.items()}
        self.aggregate_updates = optimizer.aggregate_num > 0  # nothing is taken of what is not whole
        self.states, self.optimizer = arrays, optimizer
        self._hg_made_for = {}
        self.states_synced = dict.fromkeys(self.states, False)

    def get_states(self, dump_optimizer: bool = False) -> bytes:
        """States as bytes; with ``dump_optimizer`` together with the optimizer."""
        return pickle.dumps((self.states, self.optimizer) if dump_optimizer else self.states)


def _type_of(weight: NDArray) -> Any:
    return weight._type.tensor.dtype.np.type


def _unfit(index: Any, before: Any, now: Any) -> MXNetError:
    """The error of a weight that was cast while its optimizer has a state of the former type."""
    return MXNetError(
        f"Check failed: assign(&dattr, vec.at(i)): Incompatible attr in node  at 2-th input: expected {np.dtype(now).name}, "
        f"got {np.dtype(before).name}\nThe optimizer's state of parameter {index} was made for "
        f"{np.dtype(before).name}: cast the net before its first step, or make a new Trainer after net.cast()."
    )


def load_states(updaters: Iterable[Any], fname: str) -> None:
    """Give every updater the states of a file.

    Raises:
        EOFError, pickle.UnpicklingError: it is empty, cut short, damaged, or no file of states; the message names it.
        AttributeError, ImportError: it needs a class that is not there.
    """
    with open(fname, "rb") as f:
        data = f.read()
    try:
        for updater in updaters:
            updater.set_states(data)
    except Exception as e:  # pickles fail in any way
        kind = next((k for k in (EOFError, AttributeError, ImportError) if isinstance(e, k)), pickle.UnpicklingError)
        raise kind(
            f"{fname} does not hold an optimizer's states, or not all of them: {e}\n"
            "Save them once more where the optimizer still has them."
        ) from None


def get_updater(optimizer: Optimizer) -> Updater:
    """An Updater for ``optimizer``."""
    return Updater(optimizer)
