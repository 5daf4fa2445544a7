# SPDX-License-Identifier: Apache-2.0
"""How a batch is divided among devices, and checks of names, from before ``mx.mod``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .module.executor_group import split
from .ndarray import NDArray

__all__: list[str] = []

_split_input_slice = split


def _check_arguments(symbol: Any) -> None:
    """Refuse names that two inputs have.

    Raises:
        ValueError: there are some.
    """
    arguments, states = symbol.list_arguments(), symbol.list_auxiliary_states()
    advice = "please make the weight name non-duplicated(using name arguments), arguments are"
    for kind, names, rest in (
        ("argument name", arguments, ""),
        ("auxiliary param name", states, f", auxiliary params are {states}"),
    ):
        for k, name in enumerate(names):
            if name in names[:k]:
                raise ValueError(f'Find duplicated {kind} "{name}", {advice} {arguments}{rest}')


def _load_general(data: Sequence[NDArray], targets: Sequence[Any]) -> None:
    """Copy arrays into arrays, or parts of them into one each: targets are arrays or lists of (slice, array)."""
    for source, target in zip(data, targets, strict=False):
        if isinstance(target, NDArray):
            source.copyto(target)
            continue
        end = target[-1][0].stop
        assert end == source.shape[0], f"Batch size miss match. Expected {end}, got {source.shape[0]}"
        for part, array in target:
            source[part].copyto(array)


def _load_data(batch: Any, targets: Sequence[Any]) -> None:
    """Copy a batch's data."""
    _load_general(batch.data, targets)


def _load_label(batch: Any, targets: Sequence[Any]) -> None:
    """Copy a batch's labels."""
    _load_general(batch.label, targets)
