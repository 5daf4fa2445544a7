# SPDX-License-Identifier: Apache-2.0
"""Batches of sequences of different lengths: masking, the last step, reversal.

Time is one of the first two axes, the batch the other. Lengths may be of any number type.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base import MXNetError
from ..compiler.ir import Builder, Node
from ..compiler.ir.dynamic_constants import last_index
from ..compiler.primitives.custom_gradient import gradient_rule
from ..core.dtypes import DType, i64
from .elementwise import scalar_node
from .params import Bool, Float, Int, Param, Values
from .record import operator, sample, shape_text

__all__: list[str] = []

_LENGTH = Bool(False, "the second input says how long each sequence is")


def _inputs(p: Values) -> list[str]:
    return ["data", "sequence_length"] if p.use_sequence_length else ["data"]


def _shapes(p: Values, shapes: list[Any]) -> list[Any]:
    data = shapes[0]
    if data is None or len(data) < 2 or len(shapes) < 2:
        return shapes
    return [data, shapes[1] or (data[1 - p.axis],)]


def _dtypes(p: Values, dtypes: list[DType | None]) -> list[DType | None]:
    return [d or dtypes[0] for d in dtypes]


_FIELDS: dict[str, Any] = {
    "inputs": "data sequence_length",
    "optional": _inputs,
    "dtypes": "**",
    "result_dtype": lambda p, d: d[0],
    "infer_inputs": _shapes,
    "infer_dtypes": _dtypes,
}


def _params(**more: Param) -> dict[str, Param]:
    return {"use_sequence_length": _LENGTH, **more, "axis": Int(0, "of time")}


def _lengths(b: Builder, p: Values, data: Node, lengths: Node | None, axes: tuple[int, ...] = (0, 1)) -> Node | None:
    """The lengths as whole numbers in the shape of ``data``; None if every sequence is as long as the array.

    Raises:
        MXNetError: the axis, the rank or the number of lengths does not fit.
    """
    if p.axis not in axes:
        expected = " or ".join(map(str, axes))
        raise MXNetError(f"Check failed: Current implementation expects axis to be {expected}.")
    if data.ndim < 2:
        raise MXNetError(
            f"Check failed: dshape.ndim() > 1U ({data.ndim} vs. 1) : The data array must be of rank 2 or greater."
        )
    if lengths is None:
        return None
    batch = 1 - p.axis
    if lengths.shape != (data.shape[batch],):
        raise MXNetError(
            f"Shape inconsistent, Provided = {shape_text(lengths.shape)}, "
            f"inferred shape={shape_text((data.shape[batch],))}"
        )
    shape = [d if k == batch else 1 for k, d in enumerate(data.shape)]
    return b.broadcast(b.reshape(b.cast(lengths, i64), shape), data.shape)


_SHAPES = ([(4, 3, 2), (3,)], [(5, 1), (1,)], [(3, 2, 2, 5), (2,)])


@operator(
    "SequenceMask _npx_sequence_mask",
    params={
        "use_sequence_length": _LENGTH,
        "value": Float(0.0, "in the place of what lies beyond the end"),
        "axis": Int(0, "of time"),
    },
    samples=(
        sample([(4, 3)]),
        *(sample(s, {"use_sequence_length": True, "value": -1.5}, {1: (1, 3)}) for s in _SHAPES),
        sample([(3, 4, 2), (3,)], {"use_sequence_length": True, "axis": 1}, {1: (0, 4)}),
    ),
    **_FIELDS,
    output_names=("output",),
)
def sequence_mask(b: Builder, p: Values, data: Node, sequence_length: Node | None = None) -> Node:
    """Put ``value`` at all steps beyond the end of each sequence."""
    lengths = _lengths(b, p, data, sequence_length)
    if lengths is None:
        return b.copy(data)
    inside = b.lt(b.iota(data.shape, p.axis, i64), lengths)
    return b.select(inside, data, scalar_node(b, data, p.value))


@operator(
    "SequenceLast",
    params=_params(),
    samples=(
        sample([(4, 3)]),
        sample([(2, 3, 5)], {"axis": 1}),
        *(sample(s, {"use_sequence_length": True}, {1: (1, 3)}) for s in _SHAPES),
        sample([(3, 4, 2), (3,)], {"use_sequence_length": True, "axis": 1}, {1: (1, 4)}),
    ),
    **_FIELDS,
    output_names=("output",),
)
def sequence_last(b: Builder, p: Values, data: Node, sequence_length: Node | None = None) -> Node:
    """The last step of each sequence; the axis of time goes."""
    lengths = _lengths(b, p, data, sequence_length)
    axis, steps = p.axis, data.shape[p.axis]
    rest = tuple(d for k, d in enumerate(data.shape) if k != axis)
    if lengths is None:
        return b.copy(b.reshape(b.slice_axis(data, axis, steps - 1, steps), rest))
    last = b.min(b.max(lengths - 1, 0), last_index(steps - 1) if steps > 1 else 0)
    y = b.reshape(b.take_along(data, b.slice_axis(last, axis, 0, 1), axis=axis), rest)
    return b.custom_gradient(y, data, last, rule="sequence_last", static=(axis,))


@gradient_rule("sequence_last")
def _sequence_last_gradient(
    b: Builder, g: Node, y: Node, inputs: Sequence[Node], static: tuple[int]
) -> Sequence[Node | None]:
    """Each step's share, found without scattering: the last step has all."""
    data, last = inputs
    (axis,) = static
    steps = b.iota(data.shape, axis, i64)
    step_shape = [1 if k == axis else d for k, d in enumerate(data.shape)]
    return [b.select(b.eq(steps, last), b.broadcast(b.reshape(g, step_shape), data.shape), b.full_like(data, 0)), None]


@operator(
    "SequenceReverse",
    params=_params(),
    samples=(
        sample([(4, 3)]),
        *(sample(s, {"use_sequence_length": True}, {1: (0, 3)}) for s in _SHAPES),
    ),
    **_FIELDS,
    output_names=("output",),
)
def sequence_reverse(b: Builder, p: Values, data: Node, sequence_length: Node | None = None) -> Node:
    """Reverse the steps of each sequence; what lies beyond its end stays."""
    lengths = _lengths(b, p, data, sequence_length, (0,))
    if lengths is None:
        return b.copy(b.reverse(data, axes=(0,)))
    steps = b.iota(data.shape, 0, i64)
    lengths = b.min(lengths, data.shape[0])
    source = b.select(b.lt(steps, lengths), lengths - steps - 1, steps)
    return b.custom_gradient(b.take_along(data, source, axis=0), data, source, rule="sequence_reverse")


@gradient_rule("sequence_reverse")
def _sequence_reverse_gradient(
    b: Builder, g: Node, y: Node, inputs: Sequence[Node], static: Any
) -> Sequence[Node | None]:
    """A reversal is its own inverse."""
    return [b.take_along(g, inputs[1], axis=0), None]
