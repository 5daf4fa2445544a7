# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: a Symbol with its parameters in files (``mx.model``)."""

from __future__ import annotations

import logging
from collections import namedtuple
from collections.abc import Mapping
from typing import Any

from .context import cpu
from .ndarray import NDArray
from .ndarray import load as load_arrays
from .ndarray import save as save_arrays
from .symbol import Symbol
from .symbol import load as load_symbol

__all__ = ["BatchEndParam", "load_checkpoint", "load_params", "save_checkpoint"]

#: what callbacks at the end of a batch get
BatchEndParam = namedtuple("BatchEndParam", ["epoch", "nbatch", "eval_metric", "locals"])


def save_checkpoint(
    prefix: str,
    epoch: int,
    symbol: Symbol | None,
    arg_params: Mapping[str, NDArray],
    aux_params: Mapping[str, NDArray],
    remove_amp_cast: bool = True,
) -> None:
    """Write ``<prefix>-symbol.json`` (unless ``symbol`` is None) and ``<prefix>-<epoch, four digits>.params``."""
    if symbol is not None:
        symbol.save(f"{prefix}-symbol.json", remove_amp_cast=remove_amp_cast)
    values = {f"arg:{k}": v.as_in_context(cpu()) for k, v in arg_params.items()}
    values.update({f"aux:{k}": v.as_in_context(cpu()) for k, v in aux_params.items()})
    name = f"{prefix}-{epoch:04d}.params"
    save_arrays(name, values)
    logging.info('Saved checkpoint to "%s"', name)


def load_params(prefix: str, epoch: int) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
    """(arguments, auxiliary states) of ``<prefix>-<epoch, four digits>.params``."""
    name = f"{prefix}-{epoch:04d}.params"
    loaded: Any = load_arrays(name)
    params: dict[str, dict[str, NDArray]] = {"arg": {}, "aux": {}}
    if not loaded:
        logging.warning("Params file '%s' is empty", name)
        return params["arg"], params["aux"]
    for key, value in loaded.items():
        kind, _, own = key.partition(":")
        if kind in params:
            params[kind][own] = value
    return params["arg"], params["aux"]


def load_checkpoint(prefix: str, epoch: int) -> tuple[Symbol, dict[str, NDArray], dict[str, NDArray]]:
    """(Symbol, arguments, auxiliary states) of what ``save_checkpoint`` or ``HybridBlock.export`` wrote."""
    symbol = load_symbol(f"{prefix}-symbol.json")
    return (symbol, *load_params(prefix, epoch))


def __getattr__(name: str) -> Any:
    if name == "FeedForward":  # which stands above, on Module
        from .module.feed_forward import FeedForward

        return FeedForward
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*__all__, "FeedForward"})
