# SPDX-License-Identifier: Apache-2.0
"""Errors of operators: MXNet's words, then the operator, its inputs, and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..base import MXNetError
from ..compiler.ir.types import TensorType
from ..core.dtypes import DType

if TYPE_CHECKING:
    from ..ops.params import Values
    from ..ops.record import Operator

__all__ = ["Given", "about_types", "add_details", "differing_types", "hand_on", "refusal", "shape_of"]

#: name in np -> its definition, which that package fills
NP_FUNCTIONS: dict[str, Callable[..., Any]] = {}

_INSTEAD, _TYPES = "instead", "about_types"  #: attributes of an error

Given = TensorType | tuple[int, ...] | None  #: what is known of an input: everything, its shape, nothing


def refusal(text: str, instead: str, types: bool = False) -> MXNetError:
    """An error in MXNet's words that knows what to write; whoever names the operator adds the line.

    Args:
        types: it is element types that do not fit; shapes alone may.
    """
    error = MXNetError(text)
    setattr(error, _INSTEAD, instead)
    setattr(error, _TYPES, types)
    return error


def differing_types(text: str, first: tuple[str, DType], other: tuple[str, DType]) -> MXNetError:
    """The error for inputs that should be of one element type.

    Args:
        text: MXNet's words.
        first, other: name and element type of the input that decides, and of the one that differs.
    """
    (name, expected), (other_name, got) = first, other
    cast_first, cast_other = f"{name} with astype('{got.name}')", f"{other_name} with astype('{expected.name}')"
    if expected.is_float and got.is_float:  # both may be the user's arrays: states, masks
        casts = f"cast {cast_first}, or {cast_other}; a block's parameters with net.cast('{expected.name}')"
    else:
        casts = f"cast {cast_other if expected.is_float else cast_first}"
    return refusal(text, f"{name} is {expected.name}, but {other_name} is {got.name}: {casts}.", types=True)


def about_types(error: Exception) -> bool:
    """True for an error that other element types would have avoided."""
    return bool(getattr(error, _TYPES, False))


def hand_on(error: Exception, to: MXNetError) -> MXNetError:
    """``to``, which tells more of ``error``, marked as it is."""
    setattr(to, _TYPES, about_types(error))
    return to


def add_details(error: Exception, op: Operator, values: Values, names: Sequence[str], given: Sequence[Given]) -> str:
    """What follows the words of ``error``: lines with the operator and its inputs, and what to write instead.

    Args:
        names: what the inputs are called, one for each of ``given``.
    """
    shown = (f"{n}: {_shown(g)}" for n, g in zip(names, given, strict=False))
    details = f"\nin operator {op.name}({', '.join(shown)}){_function(op)}"
    shapes = [shape_of(g) for g in given]
    instead = (
        getattr(error, _INSTEAD, "") or _fitting(op, values, shapes) or _by_words(op, values, str(error), names, shapes)
    )
    return f"{details}\n{instead}" if instead else details


def shape_of(given: Given) -> tuple[int, ...] | None:
    """The shape of an input, None where it is unknown."""
    return given if given is None or isinstance(given, tuple) else given.shape


def _shown(given: Given) -> str:
    shape = shape_of(given)
    if shape is None:
        return "?"
    text = f"[{','.join(map(str, shape))}]"
    return text if isinstance(given, tuple) or given is None else given.dtype.name + text


def _fitting(op: Operator, values: Values, shapes: Sequence[tuple[int, ...] | None]) -> str:
    """For parameters that were made for other data: what the record says that this data needs."""
    if op.infer_inputs is None or len(shapes) < 2 or shapes[0] is None:
        return ""
    try:
        needed_shapes = op.infer_inputs(values, [shapes[0], *[None] * (len(shapes) - 1)])
    except (MXNetError, TypeError, ValueError, IndexError, ArithmeticError):
        return ""
    names = op.input_names(values, len(shapes))
    for name, needed, shape in zip(names[1:], needed_shapes[1:], shapes[1:], strict=False):
        if needed is None or shape is None or None in needed or tuple(needed) == shape:
            continue
        # labels come with the data, everything else belongs to a layer
        layer = ", or make the layer for it (sizes that are left out are inferred)"
        return (
            f"{names[0]} of shape {shapes[0]} needs {name} of shape {tuple(needed)}, but it is {shape}: reshape or "
            f"transpose the data{'' if name in ('label', 'index') else layer}."
        )
    return ""


def _function(op: Operator) -> str:
    """How users call an operator of np, whose name they do not write."""
    if not op.name.startswith(("_np_", "_npi_")):
        return ""
    word = op.name.removeprefix("_np_").removeprefix("_npi_").removesuffix("_scalar")
    for name in (word, f"random.{word}", f"linalg.{word}", word[1:] if word[0] == "r" else ""):
        if name in NP_FUNCTIONS:
            return f", np.{name}"
    return ""


_NO_AXIS = re.compile(r"\b[Aa]x[ie]s\b.*?-?\d+.*\b([Ee]xceeds|out of (bounds|range))\b|\baxis out of range\b")
_NUMBER_OF_AXES = re.compile(r"\barray of (?:dimension )?(\d+)")


def _by_words(
    op: Operator, values: Values, text: str, names: Sequence[str], shapes: Sequence[tuple[int, ...] | None]
) -> str:
    """What to write, for faults that many operators share: MXNet's words tell which it is."""
    if shapes and shapes[0] and _NO_AXIS.search(text):
        match = _NUMBER_OF_AXES.search(text)
        count = int(match[1]) if match else len(shapes[0])
        whose = f"{names[0]} of shape {shapes[0]}" if count == len(shapes[0]) else "The result"
        written = f"{whose} has {_axes(count)}: write one of {-count} to {count - 1}."
        size = values.axis if op.infer_inputs is not None and "axis" in op.params else None  # a layer's
        if isinstance(size, int) and size in shapes[0]:
            written += f" If {size} is meant as a size: a layer finds it itself, or is told by in_channels={size}."
        return written
    if not shapes or None in shapes:
        return ""
    known_shapes = [shape for shape in shapes if shape is not None]
    if "could not be broadcast together" in text and len(known_shapes) > 1:  # else with a shape that is an attribute
        return _broadcast(names, known_shapes)
    if "Incompatible input shape" in text and len(known_shapes) > 1:
        return "Arrays that are joined have the same sizes along every axis but the joined one: reshape or slice them."
    if op.name in ("stack", "_npi_stack") and "Incompatible attr" in text:
        other = next((k for k, shape in enumerate(known_shapes) if shape != known_shapes[0]), 0)
        return (
            f"Arrays that are stacked have one shape, but {names[0]} has {known_shapes[0]} and {names[other]} {known_shapes[other]}: "
            "reshape or slice them, or join them by concat or concatenate."
        )
    if "Cannot reshape array of size" in text:
        return "A shape with as many elements fits; -1 in it stands for the size that follows from the others."
    return ""


def _axes(count: int) -> str:
    """'1 axis', '2 axes'."""
    return "1 axis" if count == 1 else f"{count} axes"


def _broadcast(names: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> str:
    (name, long), (other, short) = sorted(zip(names, shapes, strict=False), key=lambda x: -len(x[1]))[:2]
    text = "Sizes of axes, counted from the last one, are equal, or one of them is 1"
    for start in range(len(long) - len(short)):
        if long[start : start + len(short)] == short:
            ones = (1,) * (len(long) - len(short) - start)
            return f"{text}: write {other}.reshape({(*short, *ones)}) for the axes of {name} that it stands for."
    return f"{text}: reshape, slice or transpose {name} of shape {long} or {other} of shape {short}."
