# SPDX-License-Identifier: Apache-2.0
"""Descriptions of a module's inputs: names and shapes, checked."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from ..core.source_location import user_frame
from ..io.iterators import DataDesc
from ..symbol import Symbol

__all__ = ["check_match", "check_names", "descriptions"]

_PARAMETERS = ("_weight", "_bias", "_gamma", "_beta")


def check_names(symbol: Symbol, names: Sequence[str], typename: str, throw: bool) -> None:
    """Check that a Symbol has arguments of these names.

    Raises:
        ValueError: it has not; only a warning unless ``throw``.
    """
    arguments = symbol.list_arguments()
    for name in names:
        if name in arguments:
            continue
        candidates = "\n\t".join(a for a in arguments if not a.endswith(_PARAMETERS))
        text = (
            f"\033[91mYou created Module with Module(..., {typename}_names={names}) but input with name '{name}' is not "
            f"found in symbol.list_arguments(). Did you mean one of:\n\t{candidates}\033[0m"
        )
        if throw:
            raise ValueError(text)
        warnings.warn(text, stacklevel=user_frame())


def _described(entries: Any) -> list[DataDesc]:
    descriptions = [x if isinstance(x, DataDesc) else DataDesc(*x) for x in entries]
    for x in descriptions:
        if not isinstance(x.shape, (tuple, list)) or any(
            isinstance(d, bool) or not hasattr(d, "__index__") for d in x.shape
        ):
            raise TypeError(f"The shape of {x.name!r} must be a tuple of integers, got {x.shape!r}")
    return descriptions


def check_match(data_names: Sequence[str], data_shapes: Sequence[Any], name: str, throw: bool) -> None:
    """Check that inputs are described that have these names.

    Raises:
        ValueError: others are; only a warning unless ``throw``.
    """
    if sorted(data_names) == sorted(x[0] for x in data_shapes):
        return
    text = (
        f"Data provided by {name}_shapes don't match names specified by {name}_names ({data_shapes} vs. {data_names})"
    )
    if throw:
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
    check_match(data_names, data, "data", True)
    if label_shapes is None:
        check_match(label_names, [], "label", False)
        return data, None
    labels = _described(label_shapes)
    check_match(label_names, labels, "label", False)
    return data, labels
