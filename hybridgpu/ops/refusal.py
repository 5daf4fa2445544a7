# SPDX-License-Identifier: Apache-2.0
"""What follows MXNet's words when an operator refuses its inputs: the operator, what it was given, what to write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..base import MXNetError
from ..compiler.ir.types import TensorType
from ..dtypes import DType

if TYPE_CHECKING:
    from .params import Values
    from .record import Operator

__all__ = ["Given", "about_types", "add_details", "differing_types", "hand_on", "refusal", "shape_of"]

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
    (name, wanted), (other_name, got) = first, other
    cast_first, cast_other = f"{name} with astype('{got.name}')", f"{other_name} with astype('{wanted.name}')"
    if wanted.is_float and got.is_float:  # both may be the user's arrays: states, masks
        casts = f"cast {cast_first}, or {cast_other}; a block's parameters with net.cast('{wanted.name}')"
    else:
        casts = f"cast {cast_other if wanted.is_float else cast_first}"
    return refusal(text, f"{name} is {wanted.name}, but {other_name} is {got.name}: {casts}.", types=True)


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
    found = f"\nin operator {op.name}({', '.join(shown)})"
    instead = getattr(error, _INSTEAD, "") or _fitting(op, values, [shape_of(g) for g in given])
    return f"{found}\n{instead}" if instead else found


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
        wanted = op.infer_inputs(values, [shapes[0], *[None] * (len(shapes) - 1)])
    except (MXNetError, TypeError, ValueError, IndexError, ArithmeticError):
        return ""
    names = op.input_names(values, len(shapes))
    for name, needed, shape in zip(names[1:], wanted[1:], shapes[1:], strict=False):
        if needed is None or shape is None or None in needed or tuple(needed) == shape:
            continue
        # labels come with the data, everything else belongs to a layer
        layer = ", or make the layer for it (sizes that are left out are inferred)"
        return (
            f"{names[0]} of shape {shapes[0]} needs {name} of shape {tuple(needed)}, but it is {shape}: reshape or "
            f"transpose the data{'' if name in ('label', 'index') else layer}."
        )
    return ""
