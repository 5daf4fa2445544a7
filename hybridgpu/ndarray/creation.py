# SPDX-License-Identifier: Apache-2.0
"""Creation of arrays, and the helpers of ``mx.nd`` that are no operators."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from operator import index
from typing import Any

import numpy as np

from ..backends.devices import device_of
from ..backends.write_tracking import mark_exported
from ..base import numeric_types
from ..context import Context, current_context
from ..core.autograd_state import state
from ..core.dtypes import bf16, dtype_of, holds_numbers
from ..core.source_location import located_hint
from ..hints.arguments import telling
from ..hints.tracing import in_array_code
from ..ops import OPERATORS
from .apply import apply
from .dlpack import Capsule, Taken
from .ndarray import NDArray, allocate, of_np, wrap
from .plans import with_plans
from .storage_types import need_dense

__all__ = [
    "arange", "array", "concatenate", "empty", "eye", "from_dlpack", "from_numpy", "full", "histogram", "linspace",
    "moveaxis", "onehot_encode", "ones", "split_v2", "to_dlpack_for_read", "to_dlpack_for_write", "waitall", "zeros",
]  # fmt: skip


@telling
def array(source_array: Any, ctx: Context | None = None, dtype: Any = None) -> NDArray:
    """An array from a list, number, NumPy array, NDArray or DLPack object.

    The element type is float32 unless given or the source is an NDArray, as in MXNet.

    Raises:
        TypeError: the source is no array or the type is unknown.
    """
    if state.trace is not None and isinstance(source_array, NDArray):
        return state.trace.array(source_array, dtype)  # type: ignore[no-any-return]
    where = ctx or current_context()
    if isinstance(source_array, NDArray):
        dtype = source_array.dtype if dtype is None else dtype
        host = source_array.asnumpy()
    else:
        dtype = np.float32 if dtype is None else dtype
        try:
            if not hasattr(source_array, "__array__") and hasattr(source_array, "__dlpack__"):
                source_array = Taken(source_array).array(np)
            host = np.asarray(source_array)
            if not holds_numbers(host.dtype):
                if dtype_of(host.dtype) is not bf16:
                    raise TypeError(f"NumPy's array of it has the element type {host.dtype}, which is no number")
                host = host.view(bf16.np)  # the words of MXNet's bfloat16
        except (TypeError, ValueError) as e:
            raise TypeError(f"source_array must be array like object\n{located_hint(str(e))}") from None
    try:
        target = dtype_of(dtype)
    except TypeError as e:
        raise TypeError(f"source_array must be array like object\n{located_hint(str(e))}") from None
    with np.errstate(all="ignore"):
        return wrap(device_of(where).from_host(host.astype(target.np, copy=False)), where)


def _made(operator: str, ctx: Context | None, out: NDArray | None = None, **attributes: Any) -> NDArray:
    op = OPERATORS[operator]
    attributes = {k: v for k, v in attributes.items() if k != "name" and not k.startswith("__")}  # which are of nodes
    return apply(op, (), op.parse(attributes), out, ctx)  # type: ignore[no-any-return]


def _extents(shape: Any) -> tuple[int, ...]:
    """The extents as integers.

    Raises:
        TypeError: one is no integer.
    """
    try:
        return tuple(map(index, (shape,) if isinstance(shape, (int, np.integer)) else shape))
    except TypeError:
        raise TypeError(f"array item must be integer, but the shape is {shape}") from None


def _shape_of_zeros(shape: Any) -> Any:
    """A shape for an operator that reads it itself; NumPy's arrays stand for tuples."""
    return tuple(shape.tolist()) if isinstance(shape, np.ndarray) else shape


def empty(shape: Any, ctx: Context | None = None, dtype: Any = None, stype: str | None = None) -> NDArray:
    """An uninitialised array."""
    if stype is not None:
        need_dense("empty", stype)
    if state.trace is not None:
        return zeros(_extents(shape), ctx, dtype)
    return allocate(_extents(shape), ctx, np.float32 if dtype is None else dtype)


@with_plans
def zeros(
    shape: Any, ctx: Context | None = None, dtype: Any = None, stype: str | None = None, **kwargs: Any
) -> NDArray:
    """Zeros, float32 by default."""
    if stype is not None:
        need_dense("zeros", stype)
    return _made("_zeros", ctx, shape=_shape_of_zeros(shape), dtype="float32" if dtype is None else dtype, **kwargs)


@with_plans
def ones(shape: Any, ctx: Context | None = None, dtype: Any = None, **kwargs: Any) -> NDArray:
    """Ones, float32 by default."""
    return _made("_ones", ctx, shape=_shape_of_zeros(shape), dtype="float32" if dtype is None else dtype, **kwargs)


@telling
@with_plans
def full(
    shape: Any, val: Any, ctx: Context | None = None, dtype: Any = np.float32, out: NDArray | None = None
) -> NDArray:
    """One value everywhere; the type does not follow the value. ``out`` is filled as it is, whatever the shape."""
    if out is not None:
        out[:] = val
        return out
    if isinstance(val, NDArray):
        val = val.asscalar()
    if 0 in _extents(shape):  # which operators take for unknown
        return empty(shape, ctx, dtype or "float32")
    return _made("_full", ctx, shape=_extents(shape), value=float(val), dtype=dtype or "float32")


@telling
def arange(
    start: float,
    stop: float | None = None,
    step: float = 1.0,
    repeat: int = 1,
    infer_range: bool | None = None,
    ctx: Context | None = None,
    dtype: Any = np.float32,
) -> NDArray:
    """Values at equal distances, each ``repeat`` times."""
    return _made("_arange", ctx, start=start, stop=stop, step=step, repeat=repeat, dtype=dtype)


def linspace(
    start: float, stop: float, num: int, endpoint: bool = True, ctx: Context | None = None, dtype: Any = np.float32
) -> NDArray:
    """``num`` values at equal distances from start to stop."""
    return _made("_linspace", ctx, start=start, stop=stop, num=num, endpoint=endpoint, dtype=dtype)


def eye(N: int, M: int = 0, k: int = 0, ctx: Context | None = None, dtype: Any = None, **kwargs: Any) -> NDArray:
    """Ones on a diagonal; M=0 means N columns."""
    return _made("_eye", ctx, N=N, M=M or 0, k=k, dtype="float32" if dtype is None else dtype, **kwargs)


def concatenate(arrays: Sequence[NDArray], axis: int = 0, always_copy: bool = True) -> NDArray:
    """Join along an axis; a single array is returned as it is unless ``always_copy``."""
    assert isinstance(arrays, (list, tuple)) and arrays and isinstance(arrays[0], NDArray), located_hint(
        "Write nd.concatenate([a, b], axis=0), or nd.concat(a, b, dim=0)."
    )
    if len(arrays) == 1 and not always_copy:
        return arrays[0]
    op = OPERATORS["Concat"]
    return apply(op, list(arrays), op.parse({"dim": axis, "num_args": len(arrays)}))  # type: ignore[no-any-return]


def moveaxis(tensor: NDArray, source: Any, destination: Any) -> NDArray:
    """Move axes to new positions; the others keep their order.

    Raises:
        ValueError: an axis out of range, or lists of different lengths.
    """
    sources = [source] if isinstance(source, int) else list(source)
    targets = [destination] if isinstance(destination, int) else list(destination)
    for names, axes in (("source", sources), ("destination", targets)):
        if any(not -tensor.ndim <= a < tensor.ndim for a in axes):
            raise ValueError(f"Source should verify 0 <= source < tensor.ndim Got {names} {axes}")
    if len(sources) != len(targets):
        raise ValueError("`source` and `destination` arguments must have the same number of elements")
    sources = [a % tensor.ndim for a in sources]
    targets = [a % tensor.ndim for a in targets]
    if len(set(sources)) != len(sources) or len(set(targets)) != len(targets):
        raise ValueError("repeated axis in `source` or `destination` argument")
    order = [k for k in range(tensor.ndim) if k not in sources]
    for target, s in sorted(zip(targets, sources, strict=True)):
        order.insert(target, s)
    op = OPERATORS["transpose"]
    return apply(op, (tensor,), op.parse({"axes": tuple(order)}))  # type: ignore[no-any-return]


def onehot_encode(indices: NDArray, out: NDArray) -> NDArray:
    """Write the one-hot rows of ``indices`` (n,) into ``out`` (n, classes). New programs use ``one_hot``.

    Raises:
        MXNetError: shapes that do not fit.
    """
    op = OPERATORS["one_hot"]
    return apply(op, (indices,), op.parse({"depth": out.shape[-1], "dtype": dtype_of(out.dtype).name}), out=out)  # type: ignore[no-any-return]


def split_v2(ary: NDArray, indices_or_sections: Any, axis: int = 0, squeeze_axis: bool = False) -> Any:
    """Split into equal parts (an integer) or at positions (a tuple).

    Raises:
        ValueError: neither an integer nor a tuple.
    """
    op = OPERATORS["_split_v2"]
    if isinstance(indices_or_sections, int):
        attributes: dict[str, Any] = {"sections": indices_or_sections}
    elif isinstance(indices_or_sections, (tuple, list)):
        attributes = {"indices": (0, *indices_or_sections)}
    else:
        raise ValueError("indices_or_sections must either int or tuple / list of ints")
    return apply(op, (ary,), op.parse({**attributes, "axis": axis, "squeeze_axis": squeeze_axis}))


def histogram(a: NDArray, bins: Any = 10, range: tuple[float, float] | None = None) -> list[NDArray]:
    """Numbers of elements in bins, and the edges of the bins.

    Args:
        a: any shape; its elements count.
        bins: number of bins of equal width, or an array of edges.
        range: lowest and highest value counted, for a number of bins; those of the data if None.

    Raises:
        ValueError: bins is neither.
    """
    op = OPERATORS["_histogram"]
    if isinstance(bins, NDArray):
        return list(apply(op, (a, bins), op.parse({})))
    if not isinstance(bins, (int, np.integer)):
        raise ValueError("bins argument should be either an integer or an NDArray")
    if range is None:
        warnings.warn("range is not specified, using numpy's result to ensure consistency with numpy", stacklevel=2)
        counts, edges = np.histogram(a.asnumpy(), bins=int(bins))
        return [array(counts, a.context), array(edges, a.context)]
    return list(apply(op, (a,), op.parse({"bin_cnt": int(bins), "range": tuple(range)})))


def from_numpy(ndarray: Any, zero_copy: bool = True, array_cls: Any = NDArray) -> NDArray:
    """An array from a NumPy array; with ``zero_copy`` the memory is shared and becomes read-only in NumPy.

    Raises:
        ValueError: zero_copy of an array that is not C-contiguous.
    """
    if not zero_copy:
        return array(ndarray, dtype=ndarray.dtype)
    if not ndarray.flags["C_CONTIGUOUS"]:
        raise ValueError("Only c-contiguous arrays are supported for zero-copy")
    dtype_of(ndarray.dtype)
    if ndarray.flags.owndata:
        ndarray.flags.writeable = True  # it may have been shared before
        shared = ndarray.view()  # stays writable
        ndarray.flags.writeable = False
    else:
        shared = ndarray.view()
    mark_exported(shared)
    return wrap(shared, current_context() if current_context().device_typeid != 2 else Context("cpu", 0))


def from_dlpack(dlpack: Any) -> NDArray:
    """An array that shares the memory of a DLPack object or capsule.

    Writing needs an object that allows it; bare capsules have no say, and can be written.
    """
    bare = not hasattr(dlpack, "__dlpack__")
    if bare:
        dlpack = Capsule(dlpack)
    kind, number = dlpack.__dlpack_device__()
    if int(kind) == 2:
        ctx = Context("gpu", number)
        device = device_of(ctx)
        with device.current():
            return wrap(Taken(dlpack).array(device.xp), ctx)
    data = Taken(dlpack).array(np, writable=bare)
    return wrap(data if data.flags.c_contiguous else np.ascontiguousarray(data), Context("cpu", 0))


def to_dlpack_for_read(data: NDArray) -> Any:
    """A DLPack capsule that shares the array's memory."""
    return data.to_dlpack_for_read()


to_dlpack_for_write = to_dlpack_for_read


def waitall() -> None:
    """Wait for everything that was started on every device."""
    from ..backends import devices

    for device in list(devices._gpus.values()):
        device.synchronize()


def _arithmetic(name: str, operator: str, left_scalar: str, right_scalar: str, python: Any) -> Any:
    """``nd.<name>(lhs, rhs)`` for arrays and numbers; two numbers are computed in Python."""

    def function(lhs: Any, rhs: Any) -> Any:
        if isinstance(lhs, numeric_types) and isinstance(rhs, numeric_types):
            return python(lhs, rhs)
        if isinstance(lhs, NDArray) and isinstance(rhs, NDArray):
            op = OPERATORS[operator]
            if lhs._kind is not None or rhs._kind is not None:
                raise of_np(op)
            return apply(op, (lhs, rhs), op.parse({}))
        if isinstance(lhs, NDArray) and isinstance(rhs, numeric_types):
            op = OPERATORS[right_scalar]
            return apply(op, (lhs,), op.parse({"scalar": float(rhs)}))
        if isinstance(rhs, NDArray) and isinstance(lhs, numeric_types):
            op = OPERATORS[left_scalar]
            return apply(op, (rhs,), op.parse({"scalar": float(lhs)}))
        other = rhs if isinstance(lhs, NDArray) else lhs
        raise TypeError(f"type {type(other)} not supported{in_array_code(other, name)}")

    if name == "power":

        def named(base: Any, exp: Any) -> Any:
            return function(base, exp)

    else:
        named = function  # type: ignore[assignment]
    named.__name__ = named.__qualname__ = name
    named.__doc__ = f"{OPERATORS[operator].doc} Arrays or numbers."
    return named


#: name -> (operator, with the scalar on the left, on the right, of two numbers)
ARITHMETIC: dict[str, tuple[str, str, str, Any]] = {
    "add": ("broadcast_add", "_plus_scalar", "_plus_scalar", lambda a, b: a + b),
    "subtract": ("broadcast_sub", "_rminus_scalar", "_minus_scalar", lambda a, b: a - b),
    "multiply": ("broadcast_mul", "_mul_scalar", "_mul_scalar", lambda a, b: a * b),
    "divide": ("broadcast_div", "_rdiv_scalar", "_div_scalar", lambda a, b: a / b),
    "true_divide": ("broadcast_div", "_rdiv_scalar", "_div_scalar", lambda a, b: a / b),
    "modulo": ("broadcast_mod", "_rmod_scalar", "_mod_scalar", lambda a, b: a % b),
    "power": ("broadcast_power", "_rpower_scalar", "_power_scalar", lambda a, b: a**b),
    "maximum": ("broadcast_maximum", "_maximum_scalar", "_maximum_scalar", lambda a, b: a if a > b else b),
    "minimum": ("broadcast_minimum", "_minimum_scalar", "_minimum_scalar", lambda a, b: a if a < b else b),
    "hypot": ("broadcast_hypot", "_hypot_scalar", "_hypot_scalar", np.hypot),
    "equal": ("broadcast_equal", "_equal_scalar", "_equal_scalar", lambda a, b: float(a == b)),
    "not_equal": ("broadcast_not_equal", "_not_equal_scalar", "_not_equal_scalar", lambda a, b: float(a != b)),
    "greater": ("broadcast_greater", "_lesser_scalar", "_greater_scalar", lambda a, b: float(a > b)),
    "greater_equal": (
        "broadcast_greater_equal",
        "_lesser_equal_scalar",
        "_greater_equal_scalar",
        lambda a, b: float(a >= b),
    ),
    "lesser": ("broadcast_lesser", "_greater_scalar", "_lesser_scalar", lambda a, b: float(a < b)),
    "lesser_equal": (
        "broadcast_lesser_equal",
        "_greater_equal_scalar",
        "_lesser_equal_scalar",
        lambda a, b: float(a <= b),
    ),
    "logical_and": (
        "broadcast_logical_and",
        "_logical_and_scalar",
        "_logical_and_scalar",
        lambda a, b: float(bool(a) and bool(b)),
    ),
    "logical_or": (
        "broadcast_logical_or",
        "_logical_or_scalar",
        "_logical_or_scalar",
        lambda a, b: float(bool(a) or bool(b)),
    ),
    "logical_xor": (
        "broadcast_logical_xor",
        "_logical_xor_scalar",
        "_logical_xor_scalar",
        lambda a, b: float(bool(a) != bool(b)),
    ),
}
for _name, (_op, _left, _right, _python) in ARITHMETIC.items():
    globals()[_name] = _arithmetic(_name, _op, _left, _right, _python)
    __all__.append(_name)
