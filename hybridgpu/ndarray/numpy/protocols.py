# SPDX-License-Identifier: Apache-2.0
"""NumPy's functions of np arrays: those that np has too compute here, the others on the values, on the host.

NumPy asks an array by ``__array_function__`` and ``__array_ufunc__``. What it computes itself comes back as arrays of np.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ...backends.devices import device_of
from ...base import numeric_types
from ...context import Context
from ...core import autograd_state
from ...core.dtypes import dtype_of
from ...core.source_location import located_hint
from ...ops.numpy.application import NP, falls_back, is_on_host
from ..ndarray import wrap
from .array import ndarray

__all__ = ["array_function", "array_ufunc", "on_host"]


def array_function(
    x: ndarray, function: Any, types: Iterable[type], args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    """A function of NumPy that was called with np arrays; NotImplemented where other libraries' arrays are among them.

    NumPy's own arrays go to the definition, which refuses them as it does where it is called itself.
    """
    name = _name(function)
    definition = NP.get(name)
    if definition is None or is_on_host(definition):
        return on_host(function, args, kwargs)
    if not all(t is np.ndarray or issubclass(t, ndarray) for t in types):
        return on_host(function, args, kwargs) if falls_back(definition) else NotImplemented
    try:
        return definition(x._F, *args, **kwargs)
    except NotImplementedError:  # NumPy's function takes more
        return on_host(function, args, kwargs)


def array_ufunc(x: ndarray, function: Any, method: str, inputs: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A ufunc of NumPy that was called with np arrays; NotImplemented for its methods, such as ``np.add.reduce``.

    Raises:
        ValueError: several arrays in ``out``.
    """
    out = kwargs.get("out")
    if out is not None:
        if len(out) != 1:
            raise ValueError("The `out` parameter must have exactly one ndarray")
        kwargs["out"] = out[0]
    if method != "__call__":
        return NotImplemented
    definition = NP.get(_RENAMED.get(function.__name__, function.__name__))
    if definition is None or is_on_host(definition):
        return on_host(function, inputs, kwargs)
    # NumPy makes zero-dimensional arrays of its numbers before it asks
    operands = [i[()] if isinstance(i, np.ndarray) and not i.ndim else i for i in inputs]
    return definition(x._F, *operands, **kwargs)


#: names of ufuncs under which np does not have them
_RENAMED = {"divide": "true_divide", "invert": "bitwise_not"}


def _name(function: Any) -> str:
    """The name that a function of NumPy has in np: 'sum', 'linalg.norm'."""
    module: str = getattr(function, "__module__", "") or ""
    part = module.removeprefix("numpy").removeprefix(".")
    return f"{part}.{function.__name__}" if part in ("linalg", "random") else str(function.__name__)


def on_host(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The result of a function of NumPy for the values of np arrays, as arrays of np where they were.

    Raises:
        ValueError: gradients are being recorded, which would not go through NumPy; or arrays of several devices.
        TypeError: a result that cannot become an array.
        TracingError: arrays of a function that is traced have no values.
    """
    name = getattr(function, "__name__", str(function)).lstrip("_")
    if autograd_state.state.recording:
        raise ValueError(
            f"Falling back to NumPy operator {name} with autograd active is not supported. Please consider moving the operator "
            "to the outside of the autograd scope."
        )
    places: list[Context] = []
    values = _values(list(args), places, name)
    named = {k: _values(v, places, name) for k, v in kwargs.items()}
    if any(p != places[0] for p in places):
        raise ValueError(
            "Ambiguous to set the context for the output ndarray since input ndarrays are allocated on different devices: "
            f"{places[0]} and {next(p for p in places if p != places[0])}\n{located_hint(f'Move one with as_in_ctx({places[0]}).')}"
        )
    return _arrays(function(*values, **named), places[0] if places else None)


def _values(value: Any, places: list[Context], name: str) -> Any:
    """An argument of a function with values of NumPy in the place of arrays, also in lists and tuples."""
    if isinstance(value, ndarray):
        refuse = getattr(value, "_hg_refuse_host", None)  # of arrays of a traced function
        if refuse is not None:
            refuse(name)
        places.append(value.ctx)
        return value.asnumpy()
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(_values(v, places, name) for v in value)
    return value


def _arrays(value: Any, ctx: Context | None) -> Any:
    """A result with np arrays in the place of NumPy's. Numbers stay numbers."""
    if isinstance(value, np.ndarray):
        from ...context import current_context

        where = ctx or current_context()
        dtype_of(value.dtype)
        return wrap(device_of(where).from_host(np.ascontiguousarray(value).reshape(value.shape)), where, ndarray)
    if isinstance(value, np.bool_):
        from .creation import array

        return array(value, dtype=np.bool_, ctx=ctx)
    if isinstance(value, (bool, *numeric_types)):
        return value
    if isinstance(value, (list, tuple)):
        arrays = [_arrays(v, ctx) for v in value]
        return type(value)(*arrays) if hasattr(value, "_fields") else type(value)(arrays)
    raise TypeError(f"Does not support converting {type(value)} to mx.np.ndarray.")
