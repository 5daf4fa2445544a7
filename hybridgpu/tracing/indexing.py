# SPDX-License-Identifier: Apache-2.0
"""Reading and writing parts of arrays without values: keys become slices, gathers and scatters of the graph.

What is a view and what a copy is as for arrays with values (``ndarray.indexing``): of a view the memory is one piece.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..base import is_integer, numeric_types
from ..core import autograd_state
from ..core.dtypes import bool_, holds_numbers, i64
from ..core.source_location import note_location
from ..ndarray.indexing import check_range
from ..ndarray.ndarray import NDArray
from ..symbol import Symbol
from ..util import is_np_shape
from .arrays import Map, Traced, node, reshaped, view
from .error import not_traced

__all__ = ["basic", "get_item", "set_item"]


class Selection(NamedTuple):
    """The part of an array that a key names.

    Attributes:
        shape: of the part.
        take: (array) -> part.
        put: (array, new part) -> new array.
        piece: whether its memory is one piece: then it is a view.
        fill: (array, number) -> new array, where there is an operator for that.
    """

    shape: tuple[int, ...]
    take: Map
    put: Callable[[Symbol, Symbol], Symbol]
    piece: bool
    fill: Callable[[Symbol, float], Symbol] | None = None


def basic(shape: Sequence[int], key: Any, keeps_axis: bool = False) -> Selection:
    """The part that integers, slices, None and ``...`` name.

    Args:
        keeps_axis: what would have no axes has one, as without NumPy shape semantics.

    Raises:
        IndexError: a position out of range, or more keys than axes.
    """
    shape = tuple(shape)
    keys = _expanded(key, len(shape))
    dummy = _dummy(shape)[tuple(keys)]
    along = [k for k in keys if k is not None]  # an entry for each axis
    bounds = [_bounds(k, d) for k, d in zip(along, shape, strict=True)]
    cut = tuple(len(range(*slice(*t).indices(d))) for t, d in zip(bounds, shape, strict=True))
    whole = all(begin in (None, 0) and end is None and step == 1 for begin, end, step in bounds)
    where = {name: tuple(b[k] for b in bounds) for k, name in enumerate(("begin", "end", "step"))}
    part = tuple(dummy.shape) or ((1,) if keeps_axis and shape else ())
    dropped = [axis for axis, k in enumerate(along) if not isinstance(k, slice)]
    added = [axis for axis, k in enumerate(k for k in keys if k is None or isinstance(k, slice)) if k is None]
    single = len(dropped) == len(shape)  # one element, whatever the extents are

    def take(x: Symbol) -> Symbol:
        y = _empty(x, cut) if 0 in cut else x if whole else node("slice", [x], **where)
        if part == cut or single or 0 in cut:
            return y if part == cut else reshaped(y, part)
        return _other_axes(y, dropped, added)

    def put(x: Symbol, new: Symbol) -> Symbol:
        if 0 in cut:
            return x
        if part == cut or single:
            y = new if part == cut else reshaped(new, cut)
        else:
            y = _other_axes(new, added, dropped)
        return y if whole else node("_slice_assign", [x, y], **where)

    def fill(x: Symbol, number: float) -> Symbol:
        return node("_slice_assign_scalar", [x], scalar=number, **where)

    return Selection(part, take, put, bool(dummy.flags.c_contiguous), fill)


def _bounds(k: Any, extent: int) -> tuple[int | None, int | None, int]:
    """Where the part of an axis begins and ends, and its step, as the key says it: so the graph is right for other extents.

    Only what is out of range, and empty, is told in numbers of this extent.
    """
    if not isinstance(k, slice):
        at = int(k)
        return at, at + 1 or None, 1
    begin, end, step = k.indices(extent)
    if not range(begin, end, step):
        return 0, 0, 1
    first, last = k.start, k.stop
    if first is not None:
        first = int(first) if -extent <= first < extent else None  # from the axis's first or last element
    if last is not None:
        last = int(last) if last >= -extent else None
    return first, last, step


def _other_axes(x: Symbol, dropped: Sequence[int], added: Sequence[int]) -> Symbol:
    """``x`` without some of its axes, which have one element, and with others of that extent in the result."""
    if dropped:
        x = node("squeeze", [x], axis=tuple(dropped))
    for axis in added:
        x = node("expand_dims", [x], axis=axis)
    return x


def _empty(x: Symbol, shape: tuple[int, ...]) -> Symbol:
    """No elements of ``x``, as an array of this shape: operators that cut refuse that."""
    axis = shape.index(0)
    positions = autograd_state.state.trace.constant(np.empty(0, np.int64))
    y = node("take", [x, positions], axis=axis)
    return reshaped(y, shape)


def _dummy(shape: tuple[int, ...]) -> np.ndarray:
    """An array of this shape that is one piece of memory, of which there is none: for views of it."""
    strides, size = [], 1
    for d in reversed(shape):
        strides.append(size)
        size *= max(d, 1)
    return np.lib.stride_tricks.as_strided(np.empty(1, np.int8), shape, strides[::-1])


def _expanded(key: Any, axes: int) -> list[Any]:
    """The key as a list with an entry for each axis, and None for new ones."""
    keys = list(key) if isinstance(key, tuple) else [key]
    count = sum(k is not None and k is not Ellipsis for k in keys)
    if sum(k is Ellipsis for k in keys) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if count > axes:
        raise IndexError(f"too many indices ({count}) for array with {axes} dimensions")
    rest: list[Any] = [slice(None)] * (axes - count)
    for k, item in enumerate(keys):
        if item is Ellipsis:
            return [*keys[:k], *rest, *keys[k + 1 :]]
    return [*keys, *rest]


def _is_position(k: Any) -> bool:
    return k is None or k is Ellipsis or isinstance(k, slice) or is_integer(k)


def _prepared(x: Any, key: Any) -> Any:
    """The key with integers for truth values (of legacy arrays), and arrays of NumPy for lists."""
    legacy = x._kind is None

    def one(k: Any) -> Any:
        if isinstance(k, (bool, np.bool_)):
            if legacy:
                return int(k)
            if isinstance(k, bool):
                return k
            raise ValueError(f"NDArray does not support slicing with key {k} of type {type(k)}.")
        if _is_position(k) or isinstance(k, NDArray):
            return k
        if isinstance(k, slice):
            return k
        if isinstance(k, (list, range, np.ndarray)) or (isinstance(k, tuple) and isinstance(key, tuple)):
            if isinstance(k, (list, tuple)) and any(isinstance(v, Traced) for v in k):
                raise not_traced(
                    "a list of traced numbers is no key",
                    "Join them to an array first: nd.concat(*numbers, dim=0), or np.stack(numbers).",
                )
            host = np.asarray(k)
            if not holds_numbers(host.dtype):
                raise ValueError(f"NDArray does not support slicing with key {key} of type {type(key)}.")
            if host.dtype.kind == "b" and not legacy:
                return host if host.ndim else bool(host)
            return host.astype(np.int64) if host.dtype.kind != "i" else host
        raise ValueError(f"NDArray does not support slicing with key {key} of type {type(key)}.")

    return tuple(map(one, key)) if isinstance(key, tuple) else one(key)


def _split(x: Any, key: Any, writes: bool = False) -> tuple[Any, bool]:
    """A key of positions and arrays, and whether it names anything: False among keys of np gives an axis of extent 0.

    Masks with values become positions, and True of np a new first axis.
    """
    key = _prepared(x, key)
    if x._kind is None:
        return key, True
    parts, front = _np_indexing().split_key(x, key, _places, writes)
    if front:
        return (None, *parts), True
    return parts[0] if len(parts) == 1 and not isinstance(key, tuple) else tuple(parts), front is None


def _places(mask: Any) -> Sequence[Any]:
    """Where a mask holds, an array for each of its axes; itself if its values are not known."""
    return [mask] if isinstance(mask, NDArray) else mask.nonzero()


def get_item(x: Any, key: Any) -> Any:
    """``x[key]``.

    Raises:
        IndexError: out of range, or more keys than axes.
        MXNetError: a slice that ends before it begins.
        TracingError: the extents of the result depend on values.
    """
    if x._kind is not None and _np_indexing().is_chain(x, key):
        for k in key:
            x = get_item(x, k)
        return x
    key, names_some = _split(x, key)
    if not names_some:
        part = get_item(x, key) if key else x
        none = part.reshape((-1,))[:0] if part.size else part
        return _wrapped(x, reshaped(none._data.symbol(), (0, *part.shape)), (0, *part.shape))
    parts = key if isinstance(key, tuple) else (key,)
    if all(map(_is_position, parts)):
        if is_integer(key):
            if not x.ndim:
                raise IndexError("scalar tensor can only accept `()` as index")
            if not -x.shape[0] <= key < x.shape[0]:
                raise IndexError(f"index {key} is out of bounds for axis 0 with size {x.shape[0]}")
        if isinstance(key, slice) and key.step in (None, 1) and x.ndim:
            check_range(key, x.shape[0])
        selection = basic(x.shape, key, not is_np_shape())
        if selection.piece:
            return view(x, selection.shape, selection.take, selection.put)
        return _wrapped(x, selection.take(x._data.symbol()), selection.shape)
    if any(_is_mask(x, k) for k in parts):
        raise not_traced(
            "how many elements truth values select is not known while a function is traced",
            "Write np.where(mask, x, other), which keeps the shape, or npx.boolean_mask outside of the function.",
        )
    chosen = _advanced(x, key)
    return _wrapped(x, chosen.take(x._data.symbol()), chosen.shape)


def _np_indexing() -> Any:
    """The rules of keys of np arrays, which programs of nd do not import."""
    from ..ndarray.numpy import indexing

    return indexing


def _wrapped(x: Any, symbol: Symbol, shape: tuple[int, ...], dtype: Any = None) -> Any:
    trace = x._data.trace
    return trace.wrap(trace.value(symbol), shape, dtype or x._type.tensor.dtype, x._kind)


def _is_mask(x: Any, k: Any) -> bool:
    """Whether a part of a key is truth values of np that select elements, whose values are not known."""
    return x._kind is not None and isinstance(k, NDArray) and k._type.tensor.dtype is bool_


def _advanced(x: Any, key: Any) -> Selection:
    """The part that arrays of positions name, with NumPy's rules; a copy."""
    trace, shape = x._data.trace, x.shape
    keys = _expanded(key, len(shape))
    # first what is no array: slices and new axes
    plain: list[Any] = []
    arrays: list[tuple[int, Any]] = []  #: axis of the cut array, key
    for axis, k in enumerate(keys):
        if isinstance(k, (NDArray, np.ndarray)) or is_integer(k):
            plain.append(slice(None))
            arrays.append((axis, k))
        else:
            plain.append(k)
    cut = basic(shape, tuple(plain))
    where = [a for a, _ in arrays]
    extents = [cut.shape[a] for a in where]
    own = [sum(v is not None for v in keys[:a]) for a in where]
    for (_, k), axis in sorted(zip(arrays, own, strict=True), key=lambda pair: not is_integer(pair[0][1])):
        _check_positions(k, axis, shape[axis])
    shapes = [() if is_integer(k) else tuple(k.shape) for _, k in arrays]
    together = np.broadcast_shapes(*shapes)
    # arrays side by side keep their place, others come first: NumPy's rule
    adjacent = where == list(range(where[0], where[0] + len(where)))
    rest = [a for a in range(len(cut.shape)) if a not in where]
    order = [*where, *rest]
    front = tuple(cut.shape[a] for a in order)
    flat = (*extents, *(cut.shape[a] for a in rest))
    positions = _stacked(trace, [k for _, k in arrays], together)
    gathered = (*together, *flat[len(where) :])
    moved = _moved(len(together), len(rest), where[0]) if adjacent else None
    shown = gathered if moved is None else tuple(gathered[a] for a in moved)
    if not shown and x._kind is None and not is_np_shape():
        gathered, shown, moved = (1,), (1,), None
    count = prod(together)

    def take(s: Symbol) -> Symbol:
        y = cut.take(s)
        y = y if order == sorted(order) else node("transpose", [y], axes=tuple(order))
        y = node("gather_nd", [y, positions()])
        y = y if gathered == (count, *flat[len(where) :]) else reshaped(y, gathered)
        return y if moved is None or moved == sorted(moved) else node("transpose", [y], axes=tuple(moved))

    def put(s: Symbol, new: Symbol) -> Symbol:
        if not count:
            return s
        if moved is not None and moved != sorted(moved):
            new = node("transpose", [new], axes=tuple(int(a) for a in np.argsort(moved)))
        rows = (count, *flat[len(where) :])
        new = new if gathered == rows else reshaped(new, rows)
        y = cut.take(s)
        y = y if order == sorted(order) else node("transpose", [y], axes=tuple(order))
        y = node("_scatter_set_nd", [y, new, positions()], shape=front)
        if order != sorted(order):
            y = node("transpose", [y], axes=tuple(int(a) for a in np.argsort(order)))
        return cut.put(s, y)

    return Selection(shown, take, put, False)


def _moved(count: int, rest: int, first: int) -> list[int]:
    """The axes of a gathered array, the gathered ones brought back behind ``first`` of the others."""
    gathered, others = list(range(count)), list(range(count, count + rest))
    return [*others[:first], *gathered, *others[first:]]


def _check_positions(k: Any, axis: int, extent: int) -> None:
    """Raise IndexError for positions on an axis that are out of range, where they are known."""
    values = np.asarray(k) if not isinstance(k, NDArray) else None
    if values is not None and values.size and not (-extent <= values.min() and values.max() < extent):
        wrong = values[(values < -extent) | (values >= extent)].reshape(-1)[0]
        raise IndexError(f"index {wrong} is out of bounds for axis {axis} with size {extent}")


def _stacked(trace: Any, keys: Sequence[Any], shape: tuple[int, ...]) -> Callable[[], Symbol]:
    """What gives the positions of all keys as an array of a row a key."""
    if all(not isinstance(k, NDArray) for k in keys):
        rows = np.stack([np.broadcast_to(np.asarray(k, np.int64), shape).reshape(-1) for k in keys])
        return lambda: trace.constant(rows)

    def row(k: Any) -> Symbol:
        if not isinstance(k, NDArray):
            return trace.constant(np.broadcast_to(np.asarray(k, np.int64), shape).reshape(1, -1))  # type: ignore[no-any-return]
        lifted = trace.lift(k)
        own, symbol = lifted.shape, lifted._data.symbol()
        if lifted._type.tensor.dtype is not i64:
            symbol = node("Cast", [symbol], dtype="int64")
        if own != shape:
            grown = (1,) * (len(shape) - len(own)) + own
            symbol = symbol if grown == own else reshaped(symbol, grown)
            symbol = symbol if grown == shape else node("broadcast_to", [symbol], shape=shape)
        return reshaped(symbol, (1, prod(shape)))

    def positions() -> Symbol:
        rows = list(map(row, keys))
        return rows[0] if len(rows) == 1 else node("Concat", rows, num_args=len(rows), dim=0)

    return positions


def set_item(x: Any, key: Any, value: Any) -> None:
    """``x[key] = value``: broadcast and converted to the type of x.

    Raises:
        ValueError: shapes that do not fit.
        TypeError: a value that is no array or number.
    """
    whole_key, masked = key, None
    if x._kind is not None:
        rules = _np_indexing()
        if rules.is_mask(key) and not isinstance(value, (NDArray, *numeric_types)):
            raise NotImplementedError(f"type {type(value)} is not supported.")
        rules.check_axes(x, key)
        masked = x.ndim if rules.is_mask(key) or isinstance(key, bool) else None
    key, names_some = _split(x, key, writes=True)
    if not names_some:
        rules.check_left_out(x, whole_key, value)
        return
    trace = x._data.trace
    parts = key if isinstance(key, tuple) else (key,)
    if is_integer(key) and x.ndim and not -x.shape[0] <= key < x.shape[0]:
        raise IndexError(f"index {key} is out of bounds for axis 0 with size {x.shape[0]}")
    mask = next((k for k in parts if _is_mask(x, k)), None)
    if mask is not None:
        _set_masked(x, parts, mask, value)
        return
    selection = basic(x.shape, key, not is_np_shape()) if all(map(_is_position, parts)) else _advanced(x, key)
    dtype = x._type.tensor.dtype
    base = x._data.symbol()
    if value is None:
        value = np.nan
    if x._kind is not None:
        rules.check_single(x, value)
    from_host = isinstance(value, np.ndarray) and selection.shape == x.shape and selection.fill is not None
    if isinstance(value, numeric_types):
        if selection.fill is not None and all(selection.shape):
            x._data.assign(selection.fill(base, float(value)))
            return
        number = node("_full", [], shape=(1,), value=float(value), dtype=dtype.name)
        new, shape = number, (1,)
    else:
        if not isinstance(value, NDArray):
            value = trace.host(value, type(x))
        lifted = trace.lift(value)
        new, shape = lifted._data.symbol(), lifted.shape
        if lifted._type.tensor.dtype is not dtype:
            new = node("Cast", [new], dtype=dtype.name)
    new = _spread(x, new, shape, selection.shape, lambda: selection.take(base), masked, from_host)
    x._data.assign(selection.put(base, new))


def _spread(
    x: Any,
    new: Symbol,
    shape: tuple[int, ...],
    target: tuple[int, ...],
    part: Callable[[], Symbol],
    masked: int | None = None,
    from_host: bool = False,
) -> Symbol:
    """A value of ``shape`` broadcast to that of the ``part`` of ``x`` that it is written into; the last arguments are for
    the error of np (``misfit``)."""
    own = shape
    while len(own) > len(target) and own[0] == 1:  # leading axes of extent 1 may be dropped
        own = own[1:]
    fits = len(own) <= len(target) and all(d in (1, t) for d, t in zip(own[::-1], target[::-1], strict=False))
    if not fits and x._kind is not None:
        error: Exception = _np_indexing().misfit(own, target, masked, from_host)
        note_location(error)
        raise error
    if not fits:
        raise ValueError(
            "operands could not be broadcast together with remapped shapes[original->remapped]: "
            f"{shape} and requested shape {target}"
        )
    new = _of_rank(new, len(shape), len(target))
    return new if (1,) * (len(target) - len(own)) + own == target else node("broadcast_like", [new, part()])


def _of_rank(x: Symbol, axes: int, wanted: int) -> Symbol:
    """An array with leading axes of extent 1 more, or without some of them."""
    return _other_axes(x, range(axes - wanted), (0,) * (wanted - axes))


def _set_masked(x: Any, parts: tuple[Any, ...], mask: Any, value: Any) -> None:
    """``x[mask] = value`` for a value that all selected elements take."""
    if len(parts) != 1 or not (isinstance(value, numeric_types) or (isinstance(value, NDArray) and value.size == 1)):
        raise not_traced(
            "how many elements truth values select is not known while a function is traced",
            "Write x = np.where(mask, value, x).",
        )
    trace, dtype = x._data.trace, x._type.tensor.dtype
    chosen, own = trace.lift(mask)._data.symbol(), tuple(mask.shape)
    if own != x.shape:
        chosen = reshaped(chosen, (*own, *(1,) * (x.ndim - len(own))))
        chosen = node("broadcast_to", [chosen], shape=x.shape)
    if isinstance(value, numeric_types):
        new = node("_full", [], shape=(1,), value=float(value), dtype=dtype.name)
    else:
        lifted = trace.lift(value)
        new = lifted._data.symbol()
        if lifted._type.tensor.dtype is not dtype:
            new = node("Cast", [new], dtype=dtype.name)
        new = reshaped(new, (1,)) if lifted.shape != (1,) else new
    new = _spread(x, new, (1,), x.shape, x._data.symbol)
    x._data.assign(node("where", [chosen, new, x._data.symbol()]))
