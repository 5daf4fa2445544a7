# SPDX-License-Identifier: Apache-2.0
"""Functions that programs with recurrent cells of their own import from ``gluon.rnn.rnn_cell``."""

from __future__ import annotations

from collections.abc import Sequence as Cells
from contextlib import nullcontext
from typing import Any

from ... import ndarray
from .sequence import Sequence, is_tensor, masked, reversed_steps

__all__: list[str] = []


def _cells_state_info(cells: Cells[Any], batch_size: int) -> list[Any]:
    """The states of several cells, described."""
    return [info for cell in cells for info in cell.state_info(batch_size)]


def _cells_begin_state(cells: Cells[Any], **kwargs: Any) -> list[Any]:
    """The initial states of several cells."""
    return [state for cell in cells for state in cell.begin_state(**kwargs)]


def _get_begin_state(cell: Any, F: Any, begin_state: Any, inputs: Any, batch_size: int) -> Any:
    """Initial states where none are given, on the device of the inputs."""
    if begin_state is not None:
        return begin_state
    first = inputs if is_tensor(inputs) else inputs[0]
    with first.context if isinstance(first, ndarray.NDArray) else nullcontext():
        return cell.begin_state(func=F.zeros, batch_size=batch_size)


def _format_sequence(
    length: int | None, inputs: Any, layout: str, merge: bool | None, in_layout: str | None = None
) -> tuple[Any, int, Any, int]:
    """(the sequence as a tensor, as a list or as it is; its time axis; ``nd`` or ``sym``; batch size, 0 of Symbols).

    Args:
        length: number of steps.
        inputs: a tensor or a list of steps.
        layout: where the time axis is to be.
        merge: True for a tensor, False for a list.
        in_layout: where it is, if that is another place.
    """
    whole = is_tensor(inputs)
    sequence = Sequence(inputs, in_layout if in_layout is not None and whole else layout, length)
    data, axis = sequence.merged(merge), layout.find("T")
    if whole and is_tensor(data) and axis != sequence.axis:
        data = sequence.F.swapaxes(data, dim1=axis, dim2=sequence.axis)
    batch_size = inputs.shape[layout.find("N")] if whole and sequence.eager else sequence.batch_size
    return data, axis, sequence.F, batch_size


def _mask_sequence_variable_length(
    F: Any, data: Any, length: int, valid_length: Any, time_axis: int, merge: bool | None
) -> Any:
    """Zeros behind the end of each sequence."""
    assert valid_length is not None
    return masked(F, data, length, valid_length, time_axis, merge)


def _reverse_sequences(sequences: list[Any], unroll_step: int, valid_length: Any = None) -> list[Any]:
    """Steps from last to first."""
    return reversed_steps(sequences, unroll_step, valid_length)
