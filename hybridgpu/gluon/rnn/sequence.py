# SPDX-License-Identifier: Apache-2.0
"""Sequences as one array with a time axis or as a list with one array a step, for arrays and Symbols alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import ndarray, symbol
from ...core import autograd_state
from ...ndarray import NDArray
from ...symbol import Symbol
from ...util import is_np_array, is_np_shape
from ..operators import space_of

__all__ = ["Sequence", "as_list", "initial_state", "is_tensor", "masked", "module_of", "reversed_steps", "zeros_for"]


def is_tensor(x: Any) -> bool:
    """True for an array or a Symbol."""
    return isinstance(x, (NDArray, Symbol))


def module_of(x: Any) -> Any:
    """The operators of ``nd`` or ``sym``, whichever ``x`` (or the first element of a list) belongs to."""
    first = x if is_tensor(x) else x[0]
    return space_of(symbol if isinstance(first, Symbol) else ndarray)


def as_list(x: Any) -> list[Any]:
    """The results of an operator as a list, one result included."""
    return [x] if isinstance(x, NDArray) else list(x)


class Sequence:
    """A sequence in a layout.

    Attributes:
        F: the operators of ``nd`` or ``sym``.
        eager: whether it holds arrays.
        data: one tensor, or a list with one a step.
        axis: the time axis of a tensor.
        batch_size: 0 for Symbols.
    """

    def __init__(self, data: Any, layout: str, length: int | None = None) -> None:
        assert data is not None, (
            "unroll(inputs=None) has been deprecated. Please create input variables outside unroll."
        )
        self.data, self.layout, self.length = data, layout, length
        self.axis = layout.find("T")
        if not is_tensor(data):
            assert length is None or len(data) == length
        self.F = module_of(data)
        self.eager = isinstance(data if is_tensor(data) else data[0], NDArray)
        self.batch_size = 0
        if self.eager:
            self.batch_size = data.shape[layout.find("N")] if is_tensor(data) else data[0].shape[0]

    def steps(self) -> list[Any]:
        """One tensor a step."""
        if not is_tensor(self.data):
            return list(self.data)
        if self.eager:
            count = self.data.shape[self.axis]
            assert self.length is None or self.length == count
        else:
            assert len(self.data.list_outputs()) == 1, (
                "unroll doesn't allow grouped symbol as input. Please convert to list with list(inputs) first or let "
                "unroll handle splitting."
            )
            assert self.length is not None, "the number of steps of a Symbol is not known: give length"
            count = self.length
        return as_list(self.F.split(self.data, axis=self.axis, num_outputs=count, squeeze_axis=1))

    def tensor(self) -> Any:
        """One tensor with a time axis."""
        return self.data if is_tensor(self.data) else self.F.stack(*self.data, axis=self.axis)

    def merged(self, merge: bool | None) -> Any:
        """A tensor (True), a list (False), or whatever it is (None)."""
        return self.data if merge is None else self.tensor() if merge else self.steps()


def initial_state(func: Any, shape: tuple[int, ...], **attributes: Any) -> Any:
    """``func(shape=, …)``, whose extent 0 stands for a batch size that is not known yet if that is a Symbol.

    With NumPy shape semantics, where 0 would mean no rows at all, -1 is asked for.
    """
    state = func(shape=shape, **attributes)
    if isinstance(state, Symbol) and 0 in shape and is_np_shape():
        state = func(shape=tuple([n or -1 for n in shape]), **attributes)
    return state.as_np_ndarray() if is_np_array() else state


def zeros_for(data: NDArray, axis: int) -> Callable[..., Any]:
    """``nd.zeros`` for states of ``data``, whose axis ``axis`` is the batch's: in a trace as many as it has at a call."""
    if autograd_state.state.trace is None:
        return ndarray.zeros

    def zeros(shape: tuple[int, ...], **attributes: Any) -> Any:
        at = attributes.get("__layout__", "").find("N")
        if at < 0:
            return ndarray.zeros(shape, **attributes)
        one = ndarray.zeros((*shape[:at], 1, *shape[at + 1 :]), **attributes)
        return ndarray.broadcast_like(one, data.as_nd_ndarray(), lhs_axes=(at,), rhs_axes=(axis,))  # type: ignore[attr-defined]

    return zeros


def masked(F: Any, data: Any, length: int, valid_length: Any, axis: int, merge: bool | None) -> Any:
    """Zeros past the end of each sequence; a list unless ``merge``."""
    if not is_tensor(data):
        data = F.stack(*data, axis=axis)
    out = F.SequenceMask(data, sequence_length=valid_length, use_sequence_length=True, axis=axis)
    return out if merge else as_list(F.split(out, num_outputs=length, axis=axis, squeeze_axis=True))


def reversed_steps(steps: list[Any], length: int, valid_length: Any) -> list[Any]:
    """The steps from last to first; with ``valid_length`` only those before the end of each sequence change places."""
    if valid_length is None:
        return list(reversed(steps))
    F = module_of(steps)
    turned = F.SequenceReverse(F.stack(*steps, axis=0), sequence_length=valid_length, use_sequence_length=True)
    if length > 1 or not isinstance(steps[0], NDArray):
        return as_list(F.split(turned, axis=0, num_outputs=length, squeeze_axis=True))
    return [turned[0]]
