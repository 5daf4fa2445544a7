# SPDX-License-Identifier: Apache-2.0
"""Names and shapes of a module's inputs, checked."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from ..iterators import DataDesc
from ..provenance import user_frame
from ..symbol import Symbol

__all__ = ["check_names", "descriptions"]

_PARAMETERS = ("_weight", "_bias", "_gamma", "_beta")


def check_names(symbol: Symbol, names: Sequence[str], kind: str, strict: bool) -> None:
    """Check that a Symbol has arguments of these names.

    Raises:
        ValueError: it has not; only a warning unless ``strict``.
    """
    arguments = symbol.list_arguments()
    for name in names:
        if name in arguments:
            continue
        candidates = "\n\t".join(a for a in arguments if not a.endswith(_PARAMETERS))
        text = (
            f"\033[91mYou created Module with Module(..., {kind}_names={list(names)}) but input with name '{name}' is not "
            f"found in symbol.list_arguments(). Did you mean one of:\n\t{candidates}\033[0m"
        )
        if strict:
            raise ValueError(text)
        warnings.warn(text, stacklevel=user_frame())


def _described(given: Any) -> list[DataDesc]:
    found = [x if isinstance(x, DataDesc) else DataDesc(*x) for x in given]
    for x in found:
        if not isinstance(x.shape, (tuple, list)) or any(
            isinstance(d, bool) or not hasattr(d, "__index__") for d in x.shape
        ):
            raise TypeError(f"The shape of {x.name!r} must be a tuple of integers, got {x.shape!r}")
    return found


def _check(names: Sequence[str], given: Sequence[DataDesc], kind: str, strict: bool) -> None:
    if sorted(names) == sorted(x.name for x in given):
        return
    text = (
        f"Data provided by {kind}_shapes don't match names specified by {kind}_names ({list(given)} vs. {list(names)})"
    )
    if strict:
        raise ValueError(text)
    warnings.warn(text, stacklevel=user_frame())


def descriptions(
    data_names: Sequence[str], label_names: Sequence[str], data_shapes: Any, label_shapes: Any
) -> tuple[list[DataDesc], list[DataDesc] | None]:
    """Descriptions of data and labels from pairs (name, shape) or ``DataDesc``.

    Raises:
        ValueError: data of other names; labels of other names are only warned of.
        TypeError: a shape that is none.
    """
    data = _described(data_shapes)
    _check(data_names, data, "data", True)
    if label_shapes is None:
        _check(label_names, [], "label", False)
        return data, None
    labels = _described(label_shapes)
    _check(label_names, labels, "label", False)
    return data, labels
