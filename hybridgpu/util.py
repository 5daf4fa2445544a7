# SPDX-License-Identifier: Apache-2.0
"""``mx.util``: NumPy shape semantics, environment variables, devices.

Under *NumPy shape semantics* the shape ``()`` is a scalar's and an extent of 0 is empty; without it
both mean "unknown", as in MXNet 1.x.
"""

from __future__ import annotations

import functools
import inspect
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any

__all__ = [
    "get_cuda_compute_capability",
    "get_gpu_count",
    "get_gpu_memory",
    "getenv",
    "is_np_array",
    "is_np_shape",
    "np_array",
    "np_shape",
    "reset_np",
    "set_module",
    "set_np",
    "set_np_shape",
    "setenv",
    "use_np",
    "use_np_array",
    "use_np_shape",
]


class _Flags(threading.local):
    shape = False
    array = False


_flags = _Flags()
_everywhere = [False]  #: NumPy shape semantics in every thread


def set_np_shape(active: Any) -> bool:
    """Turn NumPy shape semantics on or off in this thread, or on in every thread with 2; the old setting.

    Turning them off ends what 2 began, too.
    """
    old = is_np_shape()
    if active == 2 and active is not True:
        _everywhere[0] = True
    else:
        _flags.shape = bool(active)
        if not active:
            _everywhere[0] = False
    return old


def is_np_shape() -> bool:
    """True under NumPy shape semantics."""
    return _flags.shape or _everywhere[0]


def is_np_array() -> bool:
    """True where Gluon works on NumPy-like arrays."""
    return _flags.array


class _Scope:
    """Sets one flag while it is entered."""

    def __init__(self, name: str, active: bool) -> None:
        self._name, self._active = name, bool(active)
        self._old: list[bool] = []

    def __enter__(self) -> _Scope:
        self._old.append(getattr(_flags, self._name))
        setattr(_flags, self._name, self._active)
        return self

    def __exit__(self, *exc: object) -> None:
        setattr(_flags, self._name, self._old.pop())


class _NumpyShapeScope(_Scope):
    """What :func:`np_shape` gives; programs know the name."""

    def __init__(self, is_np_shape: bool) -> None:
        super().__init__("shape", is_np_shape)


class _NumpyArrayScope(_Scope):
    """What :func:`np_array` gives; programs know the name."""

    def __init__(self, is_np_array: bool) -> None:
        super().__init__("array", is_np_array)
        self._is_np_array = self._active  # programs read it


def np_shape(active: bool = True) -> _Scope:
    """A scope with (or without) NumPy shape semantics."""
    return _NumpyShapeScope(active)


def np_array(active: bool = True) -> _Scope:
    """A scope with (or without) NumPy array semantics."""
    return _NumpyArrayScope(active)


#: what NumPy's functions of elements take and MXNet's do not, with the only value that both take
_UFUNC_DEFAULTS: dict[str, Any] = {"where": True, "casting": "same_kind", "order": "K", "dtype": None, "subok": True}
_UFUNC_TYPES = ("int8", "uint8", "int32", "int64", "float16", "float32", "float64")


def np_ufunc_legal_option(key: str, value: Any) -> bool:
    """Whether NumPy's functions of elements take an argument with this value."""
    if key == "casting":
        return value in ("no", "equiv", "safe", "same_kind", "unsafe")
    if key == "dtype":
        return value in _UFUNC_TYPES or getattr(value, "__name__", "") in _UFUNC_TYPES
    return key == "where" or (key, type(value)) in (("order", str), ("subok", bool))


def check_ufunc_keywords(given: Mapping[str, Any], name: str, unary: bool) -> None:
    """Refuse what only NumPy's functions of elements take.

    Raises:
        TypeError: a keyword that ufuncs do not have, or a value that NumPy does not take, either.
        NotImplementedError: another value than the default.
    """
    of = f" for operator {name}" if unary else ""
    for key, value in given.items():
        if key not in _UFUNC_DEFAULTS:
            raise TypeError(f"{key} is an invalid keyword to function '{name}'")
        if value == _UFUNC_DEFAULTS[key]:
            continue
        if np_ufunc_legal_option(key, value):
            raise NotImplementedError(f"{key}={value} is not implemented yet{of}")
        raise TypeError(f"{key}={value} not understood{of}" if unary else f"{key} {value} not understood")


def wrap_np_unary_func(func: Callable[..., Any]) -> Callable[..., Any]:
    """A function of one array that takes NumPy's arguments where they say what is so anyway."""

    @functools.wraps(func)
    def checked(x: Any, out: Any = None, **kwargs: Any) -> Any:
        check_ufunc_keywords(kwargs, func.__name__, True)
        return func(x, out=out)

    return checked


def wrap_np_binary_func(func: Callable[..., Any]) -> Callable[..., Any]:
    """A function of two arrays that takes NumPy's arguments where they say what is so anyway."""

    @functools.wraps(func)
    def checked(x1: Any, x2: Any, out: Any = None, **kwargs: Any) -> Any:
        check_ufunc_keywords(kwargs, func.__name__, False)
        return func(x1, x2, out=out)

    return checked


def set_np(shape: bool = True, array: bool = True) -> None:
    """Turn NumPy semantics on for this thread.

    Raises:
        ValueError: array semantics without shape semantics.
    """
    if array and not shape:
        raise ValueError("NumPy Shape semantics is required in using NumPy array semantics.")
    _flags.shape, _flags.array = bool(shape), bool(array)


def reset_np() -> None:
    """Turn NumPy semantics off."""
    set_np(shape=False, array=False)


def _decorator(*names: str) -> Callable[[Any], Any]:
    """A decorator for functions and for the methods of classes that sets flags around every call."""

    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            old = [getattr(_flags, n) for n in names]
            if all(old):  # the usual case, in programs that have called set_np(), too
                return function(*args, **kwargs)
            for n in names:
                setattr(_flags, n, True)
            try:
                return function(*args, **kwargs)
            finally:
                for n, value in zip(names, old, strict=True):
                    setattr(_flags, n, value)

        return run

    def decorate(func: Any) -> Any:
        if inspect.isclass(func):
            for n, member in _methods(func).items():
                if isinstance(member, property):
                    setattr(func, n, _wrapped(member, wrap))
                elif isinstance(member, (staticmethod, classmethod)):
                    setattr(func, n, type(member)(wrap(member.__func__)))
                else:
                    setattr(func, n, wrap(member))
            return func
        if callable(func):
            return wrap(func)
        raise TypeError(f"a class or a function is needed, not {type(func)}")

    return decorate


def _methods(kind: type) -> dict[str, Any]:
    """A class's functions and properties, and what programs call of those that it inherits.

    What a Block of hybridgpu's does is found in both cases: its arrays are made by ``initialize`` and ``__call__``.
    """
    members: dict[str, Any] = {}
    seen: set[str] = set()
    for parent in kind.__mro__[:-1]:
        ours = parent.__module__.partition(".")[0] == __name__.partition(".")[0]
        for n, member in vars(parent).items():
            if n in seen:
                continue
            seen.add(n)
            if not (inspect.isfunction(member) or isinstance(member, (property, staticmethod, classmethod))):
                continue
            hidden = n.startswith("_") and n not in ("__init__", "__call__", "__repr__")
            if parent is kind or not (hidden or (ours and n in ("forward", "hybrid_forward"))):
                members[n] = member
    return members


def _wrapped(member: property, wrap: Callable[[Any], Any]) -> property:
    def each(function: Any) -> Any:
        return None if function is None else wrap(function)

    return property(each(member.fget), each(member.fset), each(member.fdel), member.__doc__)


use_np_shape = _decorator("shape")
use_np_array = _decorator("array")
use_np = _decorator("shape", "array")
use_np_shape.__doc__ = "Decorator: NumPy shape semantics in a function or in the methods of a class."
use_np_array.__doc__ = "Decorator: NumPy array semantics in a function or in the methods of a class."
use_np.__doc__ = "Decorator: both NumPy semantics in a function or in the methods of a class."


def set_module(module: str) -> Callable[[Any], Any]:
    """Decorator: set ``__module__``."""

    def decorate(func: Any) -> Any:
        if module is not None:
            func.__module__ = module
        return func

    return decorate


def get_gpu_count() -> int:
    """Number of CUDA devices."""
    from .context import num_gpus

    return num_gpus()


def get_gpu_memory(gpu_dev_id: int) -> tuple[int, int]:
    """(free, total) bytes of a CUDA device."""
    from .context import gpu_memory_info

    return gpu_memory_info(gpu_dev_id)


def get_cuda_compute_capability(ctx: Any) -> int | None:
    """10 * major + minor of a CUDA device, None for the host."""
    if ctx.device_type != "gpu":
        return None
    from .backends.cuda.device import open_device

    return open_device(ctx.device_id).compute_capability


def getenv(name: str) -> str | None:
    """An environment variable, None if it is not set."""
    return os.environ.get(name)


def setenv(name: str, value: str | None) -> None:
    """Set an environment variable; None removes it."""
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value
