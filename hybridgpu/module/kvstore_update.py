# SPDX-License-Identifier: Apache-2.0
"""Optimizer steps of a module's arrays, through a key-value store or without one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from ..kvstore import KVStoreBase, create
from ..ndarray import NDArray

__all__ = ["give_params", "make_store", "step"]

_LARGE = 16 * 1024 * 1024  #: elements from which a 'local' store only sums


def make_store(kvstore: Any, devices: int, arg_params: Mapping[str, NDArray]) -> tuple[Any, bool]:
    """(store or None, whether it updates the weights).

    Raises:
        TypeError: neither a store, a name nor None.
    """
    updates = bool(int(os.environ.get("MXNET_UPDATE_ON_KVSTORE", "1")))
    if kvstore is None:
        return None, False
    if isinstance(kvstore, KVStoreBase):
        store: Any = kvstore
    elif isinstance(kvstore, str):
        if devices == 1 and "dist" not in kvstore:
            return None, False
        store = create(kvstore)
        if kvstore == "local" and max((x.size for x in arg_params.values()), default=0) > _LARGE:
            updates = False
    else:
        raise TypeError("kvstore must be KVStore, str or None")
    return store, updates and store.is_capable(KVStoreBase.OPTIMIZER)


def give_params(
    store: Any, names: Sequence[str], blocks: Sequence[Sequence[NDArray]], arg_params: Mapping[str, NDArray], pull: bool
) -> None:
    """Put the parameters into a store, and with ``pull`` its values into the arrays of all devices."""
    for name, block in zip(names, blocks, strict=True):
        if pull:
            store.broadcast(name, arg_params[name], list(block))
        elif hasattr(store, "init"):
            store.init(name, arg_params[name])
        else:
            store.broadcast(name, arg_params[name], arg_params[name])


def step(
    names: Sequence[str],
    params: Sequence[Sequence[NDArray]],
    grads: Sequence[Sequence[NDArray | None]],
    store: Any,
    updater: Any,
) -> None:
    """One step.

    Args:
        params, grads: lists over parameters of lists over devices.
        store: sums gradients over devices; updates the weights itself unless there is an ``updater``.
        updater: for weights on each device, which it knows as parameter * devices + device.
    """
    rows = [(k, n, p, g) for k, (n, p, g) in enumerate(zip(names, params, grads, strict=True)) if g[0] is not None]
    if store is not None:
        for k, name, param, grad in rows:
            store.pushpull(name, list(grad), out=list(param if updater is None else grad), priority=-k)
    if updater is None:
        return
    devices = len(params[0]) if params else 0
    for d in range(devices):
        if rows:
            updater([k * devices + d for k, *_ in rows], [g[d] for *_, g in rows], [p[d] for _, _, p, _ in rows])


# -- the names that training loops of programs know, in ``mx.model``


def _create_kvstore(kvstore: Any, num_device: int, arg_params: Mapping[str, NDArray]) -> tuple[Any, bool]:
    """See :func:`make_store`."""
    return make_store(kvstore, num_device, arg_params)


def _initialize_kvstore(
    kvstore: Any,
    param_arrays: Sequence[Sequence[NDArray]],
    arg_params: Mapping[str, NDArray],
    param_names: Sequence[str],
    update_on_kvstore: bool,
) -> None:
    """See :func:`give_params`."""
    give_params(kvstore, param_names, param_arrays, arg_params, update_on_kvstore)


def _update_params_on_kvstore(
    param_arrays: Sequence[Sequence[NDArray]],
    grad_arrays: Sequence[Sequence[NDArray | None]],
    kvstore: Any,
    param_names: Sequence[str],
) -> None:
    """A step of the optimizer that a store has."""
    step(param_names, param_arrays, grad_arrays, kvstore, None)


def _update_params(
    param_arrays: Sequence[Sequence[NDArray]],
    grad_arrays: Sequence[Sequence[NDArray | None]],
    updater: Any,
    num_device: int,
    kvstore: Any = None,
    param_names: Sequence[str] | None = None,
) -> None:
    """A step of an updater, with gradients summed over devices by a store if there is one."""
    names = param_names or [str(k) for k in range(len(param_arrays))]
    step(names, param_arrays, grad_arrays, kvstore or None, updater)
