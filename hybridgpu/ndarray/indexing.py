# SPDX-License-Identifier: Apache-2.0
"""Reading and writing parts of arrays.

Integers, slices, None and ``...`` give views of what is one piece of memory, ``x[i]`` or ``x[0, 1:3]``: writing
into them writes into the array. Everything else is a copy. An integer drops its axis, but what would be a scalar
keeps shape (1,) without NumPy shape semantics. Arrays as keys are NumPy's advanced indexing with integers; truth values are no masks but the
numbers 0 and 1 (use ``contrib.boolean_mask``).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..backends.devices import device_of
from ..backends.write_tracking import notify_write
from ..base import MXNetError, is_integer, numeric_types
from ..compiler.primitives.gather import add_at
from ..core import autograd_state
from ..core.dtypes import holds_numbers
from ..core.float_errors import IGNORED, ignore_errors, restore_errors
from ..util import is_np_shape
from .device_scope import on_its_device
from .ndarray import NDArray, in_place_recorded, wrap
from .tape import record_call, tracked
from .versions import before_write

__all__ = ["fits", "get_item", "is_contiguous", "normalize", "set_item", "unsupported_key"]


def get_item(x: NDArray, key: Any) -> NDArray:
    """``x[key]``, recorded under ``autograd.record``; see :func:`part`."""
    if autograd_state.state.trace is not None:
        return autograd_state.state.trace.get_item(x, key)  # type: ignore[no-any-return]
    if not tracked((x,)):
        return part(x, key)
    return record_call(lambda a: [part(a, key)], lambda g: [_spread(g, key, x)], [x])[0]


def _spread(g: NDArray, key: Any, like: NDArray) -> NDArray:
    """The transpose of ``like[key]``: zeros with the cotangent added where the elements came from."""

    @on_its_device
    def forward(a: NDArray) -> list[NDArray]:
        xp = device_of(a.context).xp
        y = xp.zeros(like.shape, a._data.dtype)
        index = normalize(like, int(key) if isinstance(key, (bool, np.bool_)) else key)
        values = a._data.reshape(y[index].shape)
        if _is_basic(_as_tuple(index)):
            y[index] = values
        else:
            add_at(xp, y, index, values)  # arrays may name an element twice
        return [wrap(y, a.context)]

    return record_call(forward, lambda h: [get_item(h, key)], [g])[0]


def _as_tuple(index: Any) -> tuple[Any, ...]:
    return index if isinstance(index, tuple) else (index,)


def check_range(key: slice, extent: int) -> tuple[int, int]:
    """The begin and end of a slice without a step.

    Raises:
        MXNetError: it ends before it begins.
    """
    begin, end, _ = key.indices(extent)
    if end < begin:
        raise MXNetError(f"Check failed: begin <= end ({begin} vs. {end}) : Invalid slicing range [{begin}, {end})")
    return begin, end


def _is_basic(index: tuple[Any, ...]) -> bool:
    """False if a part of the (normalized) index is an array."""
    return all(k is None or k is Ellipsis or isinstance(k, (slice, int)) for k in index)


@on_its_device
def part(x: NDArray, key: Any) -> NDArray:
    """``x[key]``, not recorded.

    Raises:
        IndexError: out of range, or more keys than axes.
        ValueError: a key of a type that cannot index.
        MXNetError: a slice that ends before it begins.
    """
    shape = x._type.shape
    if isinstance(key, slice) and (key.step is None or key.step == 1) and shape:
        begin, end = check_range(key, shape[0])
        return x._sharing(lambda data: data[begin:end])
    if isinstance(key, (bool, np.bool_)):
        key = int(key)
    if is_integer(key):
        if not shape:
            raise IndexError("scalar tensor can only accept `()` as index")
        extent = shape[0]
        if not -extent <= key < extent:
            raise IndexError(f"index {key} is out of bounds for axis 0 with size {extent}")
        at = int(key) % extent
        if len(shape) > 1:
            return x._sharing(lambda data: data[at])
        return x._sharing(lambda data: data[at, ...] if is_np_shape() else data[at : at + 1])
    index = _as_tuple(normalize(x, key))
    if not any(k is Ellipsis for k in index):
        index = (*index, Ellipsis)  # what would be a scalar stays in the array's memory
    values = x._data[index]
    scalar = values.ndim == 0 and bool(x.ndim) and not is_np_shape()
    if _is_basic(index) and values.flags.c_contiguous:
        return x._sharing(lambda data: data[index].reshape(1) if scalar else data[index])
    values = device_of(x.context).xp.array(values, order="C")
    return wrap(values.reshape(1) if scalar else values, x.context)


@on_its_device
def set_item(x: NDArray, key: Any, value: Any) -> None:
    """``x[key] = value``: broadcast and converted to the type of x.

    Raises:
        ValueError: shapes that do not fit.
        TypeError: a value that is no array or number.
    """
    if autograd_state.state.trace is not None:
        autograd_state.state.trace.set_item(x, key, value)
        return
    if isinstance(key, (bool, np.bool_)):
        key = int(key)
    if is_integer(key) and x.ndim and not -x.shape[0] <= key < x.shape[0]:
        raise IndexError(f"index {key} is out of bounds for axis 0 with size {x.shape[0]}")
    index = normalize(x, key)
    device = device_of(x.context)
    if value is None:
        value = np.nan
    if isinstance(value, NDArray):
        if autograd_state.state.recording and autograd_state.history(value) is not None:
            raise in_place_recorded()
        if value.context.device_typeid == x.context.device_typeid and (
            value.context.device_typeid != 2 or value.context == x.context
        ):
            values = value._data
        else:
            values = device.adopt(value._data, device_of(value.context))
    elif isinstance(value, numeric_types):
        values = value
    else:
        try:
            host = np.asarray(value)
            if not holds_numbers(host.dtype):
                raise TypeError
        except (TypeError, ValueError):
            raise TypeError(
                f"{type(x)} does not support assignment with non-array-like object {value} of type {type(value)}"
            ) from None
        values = device.from_host(host)
    before_write(x)
    target = x._data[index]
    shape = tuple(getattr(values, "shape", ()))
    while len(shape) > len(target.shape) and shape[0] == 1:  # leading axes of extent 1 may be dropped
        values, shape = values.reshape(shape[1:]), shape[1:]
    if shape and not fits(shape, target.shape):
        raise ValueError(
            "operands could not be broadcast together with remapped shapes[original->remapped]: "
            f"{shape} and requested shape {target.shape}"
        )
    token = ignore_errors(IGNORED)
    try:
        if isinstance(values, numeric_types) and x._data.dtype.kind in "iub":
            values = np.asarray(values).astype(x._data.dtype, casting="unsafe")
        x._data[index] = values
    finally:
        restore_errors(token)
    notify_write(x._data)


def fits(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Whether an array of ``shape`` broadcasts to ``target``."""
    try:
        return np.broadcast_shapes(shape, target) == target
    except ValueError:
        return False


def normalize(x: NDArray, key: Any) -> Any:
    """The key in NumPy's terms: arrays on the right device, integers instead of truth values.

    Raises:
        IndexError: more keys than axes, or a position out of range in what the host knows: a number, a list, an array
            of NumPy or in a host's context. CuPy would wrap it. Positions that lie on a device are wrapped, since a
            look at them would wait for it.
    """
    parts = key if isinstance(key, tuple) else (key,)
    xp = device_of(x.context).xp
    out: list[Any] = []
    on_host: list[tuple[int, int | np.ndarray]] = []  #: places in the key, and positions there that the host knows
    axes = 0
    for k in parts:
        if k is None or k is Ellipsis or isinstance(k, slice):
            out.append(k)
            axes += isinstance(k, slice)
            continue
        axes += 1
        if isinstance(k, (bool, np.bool_)) or is_integer(k):
            on_host.append((len(out), int(k)))
            out.append(int(k))
        elif isinstance(k, NDArray):
            if isinstance(k._data, np.ndarray) and xp is not np:
                on_host.append((len(out), _integers(k._data, np)))
            out.append(_integers(k.as_in_context(x.context)._data, xp))
        elif isinstance(k, (list, tuple, np.ndarray, range)):
            host = np.asarray(k)
            if not holds_numbers(host.dtype):
                raise unsupported_key(key)
            host = _integers(host, np)
            on_host.append((len(out), host))
            out.append(xp.asarray(host))
        else:
            raise unsupported_key(key)
    if axes > x.ndim:
        raise IndexError(f"too many indices ({axes}) for array with {x.ndim} dimensions")
    if xp is not np and not _is_basic(tuple(out)):  # NumPy checks all keys itself, CuPy those without arrays
        for place, positions in on_host:
            _check_range(x, parts, place, positions)
    return tuple(out) if isinstance(key, tuple) else out[0]


def _check_range(x: NDArray, parts: tuple[Any, ...], place: int, positions: int | np.ndarray) -> None:
    """Raise IndexError if the positions at a place of a key are not all on their axis."""
    behind = [k is Ellipsis for k in parts[:place]]
    around = parts[place:] if any(behind) else parts[:place]
    count = sum(k is not None for k in around)
    axis = x.ndim - count if any(behind) else count
    extent = x.shape[axis]
    if not isinstance(positions, np.ndarray):
        ends: tuple[Any, ...] = (positions,)
    else:
        ends = (positions.min(), positions.max()) if positions.size else ()
    for position in ends:
        if not -extent <= position < extent:
            raise IndexError(f"index {position} is out of bounds for axis {axis} with size {extent}")


def _integers(a: Any, xp: Any) -> Any:
    return a.astype(xp.int64) if a.dtype.kind != "i" else a


def unsupported_key(key: Any) -> ValueError:
    return ValueError(f"NDArray does not support slicing with key {key} of type {type(key)}.")


def is_contiguous(slc_key: tuple[slice, ...], shape: tuple[int, ...]) -> bool:
    """Whether slices, one an axis, take what lies in one piece of memory."""
    assert len(slc_key) == len(shape)
    taken = [range(*part.indices(extent)) for part, extent in zip(slc_key, shape, strict=True)]
    if math.prod(map(len, taken)) < 2:
        return True
    several = [k for k, part in enumerate(taken) if len(part) > 1]
    first = several[0]
    return all(part.step == 1 for part in taken[first:] if len(part) > 1) and all(
        len(taken[k]) == shape[k] for k in range(first + 1, len(shape))
    )
