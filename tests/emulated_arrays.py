# SPDX-License-Identifier: Apache-2.0
"""Arrays of one of several emulated GPUs: everything that starts work checks that their device is the current one.

As CuPy has it: making an array, arithmetic, copies and reductions happen on the current device, which has to be that
of all operands; views and reads by the host may happen anywhere. NumPy's arrays are no operands. Positions out of range
are wrapped, and types that CuPy adds atomically are all that ``add.at`` takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["DeviceArray", "DeviceModule", "on_host"]


def on_host(array: Any) -> np.ndarray:
    """The plain array behind one of a device; anything else as it is."""
    return array.view(np.ndarray) if isinstance(array, DeviceArray) else array


def _walk(value: Any, visit: Callable[[Any], Any]) -> Any:
    """``visit`` for everything inside tuples, lists and dicts."""
    if isinstance(value, (tuple, list)):
        return type(value)(_walk(v, visit) for v in value)
    if isinstance(value, dict):
        return {k: _walk(v, visit) for k, v in value.items()}
    return visit(value)


class DeviceArray(np.ndarray):
    """An array of the emulated GPU ``device``, a DeviceModule."""

    device: DeviceModule | None = None

    def __array_finalize__(self, base: Any) -> None:
        if base is not None and self.device is None:
            self.device = getattr(base, "device", None)

    def _run(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        device = self.device
        assert device is not None

        def plain(value: Any) -> Any:
            if isinstance(value, DeviceArray):
                assert value.device is device, f"operands of gpu({value.device.id}) and gpu({device.id})"
                return on_host(value)
            assert not (type(value) is np.ndarray and value.ndim), f"a NumPy array as operand on gpu({device.id})"
            return value

        device.is_current()
        return device.place(function(*_walk(args, plain), **_walk(kwargs, plain)))

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        out = kwargs.get("out")
        if method == "at" and self.dtype.name not in _ATOMIC:
            raise TypeError(
                f"cupy.{ufunc.__name__}.at only supports {', '.join(_ATOMIC)} as data type, not {self.dtype}"
            )
        result = self._run(getattr(ufunc, method), args, kwargs)
        return out[0] if out else result

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function in _ANYWHERE:
            assert self.device is not None
            return self.device.place(function(*_walk(args, on_host), **_walk(kwargs, on_host)))
        return self._run(function, args, kwargs)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._run(np.ndarray.__setitem__, (self, self._wrapped(key), value), {})

    def _wrapped(self, key: Any) -> Any:
        """A key whose arrays, and numbers beside arrays, are on their axes; keys with None or ... as they are."""
        parts = key if isinstance(key, tuple) else (key,)
        if any(k is None or k is Ellipsis for k in parts) or not any(isinstance(k, np.ndarray) for k in parts):
            return key
        wrapped = tuple(
            k % extent if extent and (isinstance(k, int) or (isinstance(k, np.ndarray) and k.dtype.kind in "iu")) else k
            for k, extent in zip(parts, self.shape, strict=False)
        )
        return wrapped if isinstance(key, tuple) else wrapped[0] if wrapped else key

    def __getitem__(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        if all(k is None or k is Ellipsis or isinstance(k, (slice, int)) for k in parts):
            return self.device.place(super().__getitem__(key), self)  # a view
        return self._run(np.ndarray.__getitem__, (self, self._wrapped(key)), {})


#: what CuPy's ``add.at`` takes
_ATOMIC = ("int32", "int64", "float16", "float32", "float64", "uint32", "uint64")


#: functions that only look at shapes
_ANYWHERE = {np.shape, np.ndim, np.size, np.broadcast_to, np.transpose, np.swapaxes, np.moveaxis, np.expand_dims, np.squeeze,
             np.array_repr, np.array_str, np.array2string, np.may_share_memory, np.shares_memory, np.result_type}  # fmt: skip


def _checked(name: str) -> Callable[..., Any]:
    method = getattr(np.ndarray, name)

    def call(self: DeviceArray, *args: Any, **kwargs: Any) -> Any:
        return self._run(method, (self, *args), kwargs)

    return call


_METHODS = (
    "copy astype sum mean prod max min argmax argmin argsort argpartition sort take fill cumsum cumprod all any "
    "round clip dot nonzero repeat flatten choose put partition var std searchsorted"
)
for _name in _METHODS.split():
    setattr(DeviceArray, _name, _checked(_name))


class DeviceModule:
    """What stands for CuPy on an emulated GPU: NumPy, with checks."""

    def __init__(self, device_id: int, is_current: Callable[[], None], make: Callable[..., np.ndarray]) -> None:
        self.id, self.is_current, self._make = device_id, is_current, make

    def place(self, value: Any, base: Any = None) -> Any:
        """Arrays as arrays of this device; 0-d results, too, which CuPy does not turn into numbers."""

        def one(v: Any) -> Any:
            if isinstance(v, DeviceArray):
                return v
            if isinstance(v, np.generic):
                v = np.asarray(v)
            if isinstance(v, np.ndarray):
                v = v.view(DeviceArray)
                v.device = self
            return v

        return _walk(value, one)

    def asnumpy(self, array: Any) -> np.ndarray:
        """A copy on the host."""
        return np.array(on_host(array), order="C")

    def empty(self, shape: Any, dtype: Any = float, order: str = "C") -> DeviceArray:
        self.is_current()
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        return self.place(self._make(shape, np.dtype(dtype)))  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        value = getattr(np, name)
        if isinstance(value, (type, np.ufunc)) or not callable(value):
            return value

        def call(*args: Any, **kwargs: Any) -> Any:
            if value not in _ANYWHERE:
                self.is_current()

            def plain(v: Any) -> Any:
                if isinstance(v, DeviceArray):
                    assert v.device is self, f"operands of gpu({v.device.id}) and gpu({self.id})"
                return on_host(v)

            return self.place(value(*_walk(args, plain), **_walk(kwargs, plain)))

        return call
