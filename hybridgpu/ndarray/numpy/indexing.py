# SPDX-License-Identifier: Apache-2.0
"""Reading and writing parts of np arrays.

Integers, slices, None and ``...`` give views of what is one piece of memory, ``x[i]`` or ``x[0, 1:3]``: writing into
them writes into the array. Everything else is a copy. Arrays of integers are NumPy's advanced indexing, floating point
ones are cut to integers; arrays of bool are masks, alone or among other keys. ``True`` and ``False`` in a key give a new
first axis of extent 1 or 0. A zero-dimensional array takes ``()`` and masks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, cast

import numpy as np

from ...backends.devices import device_of
from ...backends.write_tracking import notify_write
from ...base import MXNetError, integer_types, is_integer, numeric_types
from ...compiler.primitives.gather import add_at
from ...core import autograd_state
from ...core.dtypes import holds_numbers
from ...core.source_location import located_hint
from ...ops.record import OPERATORS, shape_text
from ...util import is_np_shape
from ..apply import apply
from ..device_scope import on_its_device
from ..indexing import check_range, fits, normalize, unsupported_key
from ..ndarray import NDArray, in_place_recorded, refuse_in_place, wrap
from ..tape import record_call, tracked
from ..versions import before_write
from .array import ndarray

__all__ = [
    "assign_whole",
    "check_axes",
    "check_left_out",
    "check_single",
    "get_item",
    "is_chain",
    "is_mask",
    "misfit",
    "set_item",
    "split_key",
]

_Index = tuple[Any, ...]
_PLAIN = {int, slice, type(None), type(Ellipsis)}  #: what arrays of the device read as we do


def get_item(x: ndarray, key: Any) -> Any:
    """``x[key]``.

    Raises:
        IndexError: out of range, more keys than axes, a mask of another shape.
        ValueError: a key of a type that cannot index, or a slice of step 0.
        MXNetError: a slice that ends before it begins.
    """
    if autograd_state.state.trace is not None:
        return autograd_state.state.trace.get_item(x, key)
    if _is_whole(x, key):
        return x
    if is_chain(x, key):
        for k in key:
            x = get_item(x, k)
        return x
    follow = tracked((x,))
    if key.__class__ is tuple and not follow and x.ndim and _PLAIN.issuperset(map(type, key)):
        try:
            return _read(x, key if Ellipsis in key else (*key, Ellipsis))
        except (IndexError, TypeError):
            pass  # it is said below what is wrong, or bounds are arrays
    index, front = _normalized(x, key)
    if front is False:
        part = (0, *_read(x, index).shape)
        if not follow:
            return ndarray(part, x.dtype, x.ctx)
        return record_call(lambda a: [ndarray(part, a.dtype, a.ctx)], lambda g: [_zeros_like(x)], [x])[0]
    if not follow:
        return _read(x, index)
    shape = x.shape
    return record_call(lambda a: [_read(a, index)], lambda g: [_spread(g, index, shape)], [x])[0]


def is_chain(x: ndarray, key: Any) -> bool:
    """True for as many integers as axes with True or False among them: MXNet reads one part after the other then."""
    return (
        key.__class__ is tuple
        and len(key) == x.ndim
        and any(k is True or k is False for k in key)
        and all(isinstance(k, integer_types) for k in key)
    )


def _is_whole(x: NDArray, key: Any) -> bool:
    """True for keys that give the array itself: ``()``, and ``:`` of what has axes."""
    if isinstance(key, slice):
        return bool(x.ndim) and key.start is None and key.stop is None and key.step in (None, 1)
    return isinstance(key, tuple) and not key


@on_its_device
def _read(x: NDArray, index: _Index) -> NDArray:
    """The part at a normalized index: a view where it is one piece of memory."""
    values = x._data[index]
    if _is_basic(index) and values.flags.c_contiguous:
        if not values.ndim and x.ndim and not is_np_shape():  # where () says that a shape is unknown
            return x._sharing(lambda data: data[index].reshape(1))
        return x._sharing(lambda data: data[index])
    return wrap(device_of(x.context).xp.array(values, order="C"), x.context, x._kind)


@on_its_device
def _zeros_like(x: ndarray) -> NDArray:
    return wrap(device_of(x.ctx).xp.zeros(x.shape, x._data.dtype), x.ctx)


def _spread(g: NDArray, index: _Index, shape: tuple[int, ...]) -> NDArray:
    """The transpose of :func:`_read`: zeros with the cotangent added where the elements came from."""

    @on_its_device
    def forward(a: NDArray) -> list[NDArray]:
        xp = device_of(a.context).xp
        y = xp.zeros(shape, a._data.dtype)
        if _is_basic(index):
            y[index] = a._data
        else:
            add_at(xp, y, index, a._data)  # arrays may name an element twice
        return [wrap(y, a.context)]

    return record_call(forward, lambda h: [_spread_back(h, index)], [g])[0]


def _spread_back(h: NDArray, index: _Index) -> NDArray:
    shape = h.shape
    return record_call(lambda a: [_read(a, index)], lambda g: [_spread(g, index, shape)], [h])[0]


def _is_basic(index: _Index) -> bool:
    """False if a part of the index is an array."""
    return all(k is None or k is Ellipsis or isinstance(k, (slice, int)) for k in index)


# -- keys


def _normalized(x: ndarray, key: Any, writes: bool = False) -> tuple[_Index, bool | None]:
    """A key as arrays of the device take it, with ``...``, so that the result is an array; and what True and False say.

    Raises:
        IndexError, ValueError, MXNetError: as :func:`get_item`.
    """
    if is_integer(key):
        if not x.ndim:
            raise IndexError(_SCALAR)
        extent = x.shape[0]
        if not -extent <= key < extent:
            raise IndexError(f"index {key} is out of bounds for axis 0 with size {extent}")
        return (int(key), Ellipsis), None
    return _with_arrays(x, key, writes)


def split_key(
    x: NDArray, key: Any, positions: Callable[[Any], Sequence[Any]], writes: bool = False
) -> tuple[list[Any], bool | None]:
    """The parts of a key without True and False, and with positions in the place of masks; and whether all of True and False
    are True, None where there are none. Keys of arrays without values are split here, too.

    Args:
        positions: mask -> where it holds, an array for each of its axes.
        writes: errors are those of an assignment.

    Raises:
        IndexError: any key but ``()`` for an array without axes, a lone mask of another shape, or a second ``...``.
        ValueError: a truth value of NumPy.
        MXNetError: a slice that ends before it begins; where the key is written, a lone mask of another shape.
    """
    front: bool | None = None
    parts: list[Any] = []
    for k in map(_readable, key if isinstance(key, tuple) else (key,)):
        if isinstance(k, bool):
            front = k if front is None else front and k
        elif is_mask(k):
            if not isinstance(key, tuple):  # among other keys, NumPy has the error
                _check_mask(x, k, MXNetError if writes else IndexError)
            parts += positions(k)
        else:
            parts.append(k)
    if parts and not x.ndim:
        raise IndexError(_SCALAR)
    if isinstance(key, slice) and key.step in (None, 1):
        check_range(parts[0], x.shape[0])
    if sum(k is Ellipsis for k in parts) > 1:
        raise IndexError("Cannot use more than one ellipsis (`...`) for indexing")
    return parts, front


@on_its_device
def _with_arrays(x: ndarray, key: Any, writes: bool) -> tuple[_Index, bool | None]:
    entries, front = split_key(x, key, lambda mask: _positions(x, mask), writes)
    if writes and front is False:
        return (), front  # nothing is written, wherever that is
    try:
        index: _Index = normalize(x, tuple(entries))
    except ValueError:
        raise unsupported_key(key) from None
    if not any(k is Ellipsis for k in entries):
        index = (*index, Ellipsis)
    return (None, *index) if front else index, front


_SCALAR = "scalar tensor can only accept `()` as index"


def _readable(k: Any) -> Any:
    """A part of a key: lists of bool and NumPy's masks as arrays of NumPy, bounds of slices as integers."""
    if isinstance(k, slice):
        bounds = (k.start, k.stop, k.step)
        return slice(*[int(cast("Any", b).item()) if isinstance(b, NDArray) else b for b in bounds])
    if isinstance(k, list):
        try:
            array = np.asarray(k)
        except ValueError as e:
            raise TypeError(str(e)) from None
        return array if array.dtype == np.bool_ else k
    if isinstance(k, ndarray) and not k.ndim and k.dtype == np.bool_ and autograd_state.state.trace is None:
        return bool(k)
    if isinstance(k, np.ndarray) and not k.ndim and k.dtype == np.bool_:
        return bool(k)
    if isinstance(k, np.bool_):
        raise ValueError(f"NDArray does not support slicing with key {k} of type {type(k)}.")
    return k


def is_mask(k: Any) -> bool:
    """Whether a part of a key is an array of bool."""
    return isinstance(k, (NDArray, np.ndarray)) and k.dtype == np.bool_


def _check_mask(x: NDArray, mask: Any, wrong: type[Exception]) -> None:
    """Raise IndexError for a mask of too many axes, ``wrong`` for one of other extents."""
    if x.ndim < mask.ndim:
        raise IndexError(f"too many indices, whose ndim = {mask.ndim}, for array with ndim = {x.ndim}")
    for axis, (expected, got) in enumerate(zip(x.shape, mask.shape, strict=False)):
        if expected != got:
            raise wrong(
                f"boolean index did not match indexed array along dimension {axis}; dimension is {expected} but corresponding "
                f"boolean dimension is {got}"
            )


def _positions(x: ndarray, mask: Any) -> list[Any]:
    """Where a mask is True, an array of the device for each of its axes."""
    device = device_of(x.ctx)
    if isinstance(mask, NDArray):
        data = mask._data if mask.context == x.ctx else mask.as_in_context(x.ctx)._data
    else:
        data = device.from_host(mask)
    return [wrap(p, x.ctx) for p in device.xp.nonzero(data)]


# -- writing


def set_item(x: ndarray, key: Any, value: Any) -> None:
    """``x[key] = value``: broadcast and converted to the type of x.

    Raises:
        IndexError, ValueError: a key that does not fit, see :func:`get_item`.
        TypeError: a value that is no array or number, or a legacy array.
        MXNetError: shapes that do not fit; or gradients are recorded for the array, or for a value that is not
            written into the whole of it.
    """
    if autograd_state.state.trace is not None:
        autograd_state.state.trace.set_item(x, key, value)
        return
    if isinstance(value, NDArray) and not isinstance(value, ndarray):
        raise TypeError(
            "Cannot assign mx.nd.NDArray to mxnet.numpy.ndarray\n" + located_hint("Write value.as_np_ndarray().")
        )
    mask = is_mask(key)
    if mask and not isinstance(value, (ndarray, *numeric_types)):
        raise NotImplementedError(f"type {type(value)} is not supported.")
    check_axes(x, key)
    whole = _is_whole(x, key) or (key is Ellipsis and bool(x.ndim))
    refuse_in_place(x)
    if isinstance(value, ndarray):
        if whole and tracked((value,)):
            assign_whole(x, value)
            return
        if autograd_state.state.recording and autograd_state.history(value) is not None:
            raise in_place_recorded()
    index, front = _normalized(x, key, writes=True)
    if front is not False:
        _write(x, index, value, mask or isinstance(key, bool))
    else:
        check_left_out(x, key, value)


def check_axes(x: NDArray, key: Any) -> None:
    """Raise IndexError for a key at which an array without axes is not written."""
    if not x.ndim and not _is_whole(x, key) and not isinstance(key, bool) and not is_mask(key):
        raise IndexError(_SCALAR)


def check_left_out(x: NDArray, key: Any, value: Any) -> None:
    """Raise MXNetError for values that would not fit, though False in the key says that nothing is written."""
    if isinstance(value, NDArray) and (is_mask(key) or isinstance(key, bool)):
        wrong = _trailing_misfit(value.shape, x.shape, x.ndim)
        if wrong is not None:
            raise wrong


def check_single(x: NDArray, value: Any) -> None:
    """Raise ValueError for a list or several elements as the value of an array without axes."""
    size = value.size if isinstance(value, NDArray) else np.size(value)
    if not x.ndim and (isinstance(value, (list, tuple)) or size != 1):
        raise ValueError("setting an array element with a sequence.")


@on_its_device
def _write(x: ndarray, index: _Index, value: Any, mask: bool = False) -> None:
    device = device_of(x.ctx)
    if value is None:
        value = np.nan
    if isinstance(value, ndarray):
        values = value._data if _is_near(value, x) else device.adopt(value._data, device_of(value.ctx))
    elif isinstance(value, numeric_types):
        values = value
    else:
        values = device.from_host(_host_values(value))
    check_single(x, value)
    before_write(x)
    target = x._data[index]
    shape = tuple(getattr(values, "shape", ()))
    while len(shape) > len(target.shape) and shape[0] == 1:  # leading axes of extent 1 may be dropped
        values, shape = values.reshape(shape[1:]), shape[1:]
    if shape and not fits(shape, target.shape):
        whole = isinstance(value, np.ndarray) and target.shape == x.shape and _is_basic(index)
        raise misfit(shape, target.shape, x.ndim if mask else None, whole)
    with np.errstate(all="ignore"):
        if isinstance(values, numeric_types) and x._data.dtype.kind in "iub":
            values = np.asarray(values).astype(x._data.dtype, casting="unsafe")
        x._data[index] = values
    notify_write(x._data)


def misfit(
    shape: tuple[int, ...], target: tuple[int, ...], masked: int | None = None, from_host: bool = False
) -> Exception:
    """MXNet's error for values of a shape that does not fit into a part.

    Args:
        shape: of the values.
        target: of the part.
        masked: how many axes the array has, if the key is a mask, whose places are the first axis of the part.
        from_host: the values are NumPy's and the part is the whole array: then the error is NumPy's.
    """
    if masked is None and from_host:
        try:
            np.broadcast_to(np.empty(shape, bool), target)
        except ValueError as error:
            return error
    if masked is None:
        return _not_broadcastable(shape, target or (1,))
    count = target[0] if target else 1
    return _trailing_misfit(shape, target, masked) or MXNetError(
        f"Check failed: static_cast<size_t>(valid_num) == vshape[start_axis] ({count} vs. {shape[0]}) : boolean array indexing "
        f"assignment cannot assign {shape_text(shape)} input values to the {count} output values where the mask is true"
    )


def _trailing_misfit(value: tuple[int, ...], shape: tuple[int, ...], axes: int) -> MXNetError | None:
    """MXNet's error if an axis behind those of a mask, counted from the end, has neither the extent nor 1.

    Args:
        value: extents of what is written where a mask holds.
        shape: those of the places; the first is their number.
        axes: of the array.
    """
    for k in range(1, min(len(value), len(shape) - 1) + 1):
        if value[-k] not in (1, shape[-k]):
            return MXNetError(
                f"Check failed: dshape[dshape.ndim() - i] == vshape[vshape.ndim() - i] ({shape[-k]} vs. {value[-k]}) : shape "
                f"mismatch of value with input at dimension {axes - k}; dimension is {shape[-k]} but corresponding value "
                f"dimension is {value[-k]}"
            )
    return None


def _not_broadcastable(shape: tuple[int, ...], target: tuple[int, ...]) -> MXNetError:
    """MXNet's error for values of a shape that the part does not have."""
    if 0 in shape:
        size = prod(target)
        return MXNetError(
            f"Check failed: src.Size() == dst->Size() (0 vs. {size}) : Cannot reshape array of size 0 into shape {shape_text(target)}"
        )
    more = len(shape) > len(target)
    check = f"ishape.ndim() <= param.shape.ndim() ({len(shape)} vs. {len(target)}) " if more else _EXTENTS
    return MXNetError(f"Check failed: {check}: shape {shape_text(shape)} is not broadcastable to {shape_text(target)}")


_EXTENTS = "ishape[j] == pshape[i] || ishape[j] == 1"


def _host_values(value: Any) -> Any:
    try:
        host = np.asarray(value)
        if not holds_numbers(host.dtype):
            raise TypeError
    except (TypeError, ValueError):
        raise TypeError(
            f"mxnet.np.ndarray does not support assignment with non-array-like object {value} of type {type(value)}"
        ) from None
    return host


def _is_near(value: NDArray, x: NDArray) -> bool:
    """Whether the memory of ``value`` can be read where ``x`` is."""
    kind = value.context.device_typeid
    return kind == x.context.device_typeid and (kind != 2 or value.context == x.context)


def assign_whole(target: ndarray, value: ndarray) -> None:
    """Write an array over all of another one, broadcast and converted; recorded, if gradients are recorded for it.

    Raises:
        MXNetError: shapes that do not fit.
    """
    if not tracked((value,)):
        refuse_in_place(target)
        _write(target, (Ellipsis,), value)
        return
    value = value.as_in_ctx(target.ctx).astype(target.dtype, copy=False)
    if value.shape != target.shape:
        if not fits(value.shape, target.shape):
            raise misfit(value.shape, target.shape)
        value = value.broadcast_to(target.shape)
    op = OPERATORS["_copy"]
    apply(op, (value,), op.parse({}), out=target, kind=ndarray)
