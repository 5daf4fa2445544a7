# SPDX-License-Identifier: Apache-2.0
"""Operators without inputs: constants and ranges; and uniform numbers for operators that draw."""

from __future__ import annotations

import math

from ..base import MXNetError
from ..compiler.ir import Builder, Node
from ..core.dtypes import DType, f32, f64, i64
from ..util import is_np_shape
from .dynamic_attributes import DynamicAttribute, as_stored
from .params import REQUIRED, Bool, Double, Dtype, Int, Long, Param, Shape, Text, Values
from .record import operator, sample, shape_text

__all__ = ["CTX", "NUMBERS", "arange_length"]

CTX = {"ctx": Text("", "where the result lies, for functions of arrays")}
_SHAPE: dict[str, Param] = {"shape": Shape((), "extents"), **CTX, "dtype": Dtype("float32", "element type")}


#: element types of ranges, as messages list them
NUMBERS = ("bfloat16", "float16", "float32", "float64", "int32", "int64", "int8", "uint8")


def checked_shape(shape: tuple[int, ...] | None, name: str) -> tuple[int, ...]:
    """A shape without unknown extents: without NumPy shape semantics () and 0 mean unknown, and are refused."""
    if shape is None or any(d < 0 for d in shape) or (not is_np_shape() and (not shape or 0 in shape)):
        raise MXNetError(
            f"Operator {name} inferring shapes failed. input shapes: output shapes: {shape_text(shape or ())}"
        )
    return tuple(shape)


def _constant(name: str, value: float, doc: str) -> None:
    def lower(b: Builder, p: Values) -> Node:
        return b.full(checked_shape(p.shape, name), value, p.dtype)

    samples = (sample([], {"shape": (3, 5)}), sample([], {"shape": (1,), "dtype": "int64"}))
    operator(name, "", params=dict(_SHAPE), differentiable=False, samples=samples, doc=doc)(lower)


_constant("_zeros", 0, "Zeros.")
_constant("_ones", 1, "Ones.")


@operator(
    "_full _npi_full",
    "",
    params={**_SHAPE, "value": Double(doc="the value", varies=True)},
    differentiable=False,
    samples=(sample([], {"shape": (2, 3), "value": 2.5}), sample([], {"shape": (4,), "value": 2.5, "dtype": "int32"})),
)
def full(b: Builder, p: Values) -> Node:
    """One value everywhere."""
    shape = checked_shape(p.shape, "_full")
    if isinstance(p.value, DynamicAttribute):
        return b.broadcast(b.reshape(p.value.number(p.dtype), (1,) * len(shape)), shape)
    return b.full(shape, as_stored(p.value, p.dtype), p.dtype)


def arange_length(start: float, stop: float, step: float) -> int:
    """Number of elements of start, start + step, … before stop.

    Raises:
        MXNetError: step 0, or a range that leads away from stop.
    """
    if step == 0:
        raise MXNetError("Check failed: step cannot be 0")
    if (stop - start) / step < 0:
        raise MXNetError(
            f"Check failed: param.start < param.stop.value(): Invalid range (start, stop, step) = ({start:g},{stop:g},{step:g})"
        )
    return math.ceil((stop - start) / step)


@operator(
    "_arange",
    "",
    params={
        "start": Double(doc="first value"),
        "stop": Double(None, "the value not reached; None: start is it, from 0"),
        "step": Double(1.0, "distance"),
        "repeat": Int(1, "how often each value comes", low=1),
        "infer_range": Bool(False, "length from the context of use"),
        **CTX,
        "dtype": Dtype("float32", "element type"),
    },
    differentiable=False,
    samples=(
        sample([], {"start": 5}),
        sample([], {"start": 2, "stop": 9, "step": 2, "repeat": 3, "dtype": "int32"}),
        sample([], {"start": 1, "stop": -1, "step": -0.25, "dtype": "float64"}),
    ),
)
def arange(b: Builder, p: Values) -> Node:
    """Values at equal distances."""
    shape = getattr(p, "shape", None)  # with infer_range: what the context asks for
    if p.infer_range and p.stop is None:
        if shape is None or len(shape) != 1:
            raise MXNetError("Operator _arange inferring shapes failed. input shapes: output shapes: []")
        start, total = p.start, shape[0]
        n = -(-total // p.repeat)
    else:
        start, stop = (0.0, p.start) if p.stop is None else (p.start, p.stop)
        n = arange_length(start, stop, p.step)
        total = n * p.repeat
    step = p.step
    if p.dtype.is_integer:  # as in NumPy and MXNet, integers count in integral steps
        start, step = int(start), int(step)
    line = b.iota((n,), 0, i64 if p.dtype.is_integer else f64)
    values = b.cast(line * step + start, p.dtype)
    if p.repeat == 1:
        return values
    repeated = b.reshape(b.broadcast(b.reshape(values, (n, 1)), (n, p.repeat)), (n * p.repeat,))
    return b.slice(repeated, (0,), (total,))


@operator(
    "_linspace _npi_linspace",
    "",
    params={
        "start": Double(doc="first value"),
        "stop": Double(None, "last value"),
        "step": Double(1.0, "number of values"),
        "repeat": Int(1),
        "infer_range": Bool(False),
        **CTX,
        "dtype": Dtype("float32", "element type", only=NUMBERS),
        "num": Int(REQUIRED, "number of values", low=0),
        "endpoint": Bool(True, "stop is the last value"),
    },
    differentiable=False,
    samples=(
        sample([], {"start": 0, "stop": 2, "num": 5}),
        sample([], {"start": 1, "stop": 0, "num": 4, "endpoint": False, "dtype": "float64"}),
    ),
)
def linspace(b: Builder, p: Values) -> Node:
    """``num`` values at equal distances from start to stop."""
    count = p.num - 1 if p.endpoint else p.num
    step = (p.stop - p.start) / count if count else 0.0
    return b.cast(b.iota((p.num,), 0, f64) * step + p.start, p.dtype)


@operator(
    "_eye",
    "",
    params={
        "N": Long(doc="rows"),
        "M": Long(0, "columns, 0 for N"),
        "k": Long(0, "diagonal"),
        **CTX,
        "dtype": Dtype("float32", "element type"),
    },
    differentiable=False,
    samples=(sample([], {"N": 3}), sample([], {"N": 3, "M": 5, "k": -1, "dtype": "int32"})),
)
def eye(b: Builder, p: Values) -> Node:
    """Ones on a diagonal."""
    shape = (p.N, p.M or p.N)
    return b.cast(b.eq(b.iota(shape, 1, i64), b.iota(shape, 0, i64) + p.k), p.dtype)


# -- what random operators begin with


def _uniform01(b: Builder, shape: tuple[int, ...], dtype: DType = f32) -> Node:
    """Half-open [0, 1) in steps of 2**-24, float64 in steps of 2**-53."""
    if dtype is f64:
        high, low = b.cast(b.random_bits(shape) / 32, f64), b.cast(b.random_bits(shape) / 64, f64)
        return (high * 2.0**26 + low) * 2.0**-53
    return b.cast(b.random_bits(shape) / 256, f32) * 2.0**-24
