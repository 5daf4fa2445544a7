# SPDX-License-Identifier: Apache-2.0
"""``Symbol.bind`` and ``simple_bind``: check the caller's arrays, allocate missing ones, make the executor."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from ..base import MXNetError
from ..context import Context
from ..core.dtypes import dtype_of
from ..ndarray.device_scope import zeros_on
from ..ndarray.ndarray import NDArray
from ..symbol.ctx_groups import variable_contexts
from ..symbol.inference import Inference, type_propagation
from ..symbol.node import topological
from ..symbol.symbol import Symbol
from . import Executor

__all__ = ["bind", "simple_bind"]

_REQUESTS = {"null": 0, "write": 1, "add": 3}


def _requests(symbol: Symbol, grad_req: Any) -> dict[str, str]:
    names = symbol.list_arguments()
    if isinstance(grad_req, str):
        requests = dict.fromkeys(names, grad_req)
    elif isinstance(grad_req, (list, tuple)):
        requests = dict(zip(names, grad_req, strict=True))
    elif isinstance(grad_req, dict):
        requests = {n: grad_req.get(n, "null") for n in names}
    else:
        raise TypeError("grad_req must be a string, a list or a dict")
    for r in requests.values():
        if r not in _REQUESTS:
            raise ValueError(f"grad_req must be in {_REQUESTS}")
    return requests


def _arrays(arrays: Any, names: Sequence[str], key: str, allow_missing: bool) -> list[Any]:
    if isinstance(arrays, (list, tuple)):
        if len(arrays) != len(names):
            raise ValueError(f"Length of {key} does not match the number of arguments")
        ordered = list(arrays)
        if not allow_missing and any(not isinstance(a, NDArray) for a in ordered):
            raise TypeError("Only accept list of NDArrays or dict of str to NDArray")
        return ordered
    if isinstance(arrays, dict):
        ordered = []
        for n in names:
            if n in arrays:
                if not isinstance(arrays[n], NDArray):
                    raise TypeError("Only accept list of NDArrays or dict of str to NDArray")
                ordered.append(arrays[n])
            elif allow_missing:
                ordered.append(None)
            else:
                raise ValueError(f"key `{n}` is missing in `{key}`")
        return ordered
    raise TypeError("Only accept list of NDArrays or dict of str to NDArray")


def bind(
    symbol: Symbol,
    ctx: Context,
    args: Any,
    args_grad: Any = None,
    grad_req: Any = "write",
    aux_states: Any = None,
    groups: Mapping[str, Context] | None = None,
) -> Executor:
    """See Symbol.bind."""
    if not isinstance(ctx, Context):
        raise TypeError("Context type error")
    names = symbol.list_arguments()
    arguments = _arrays(args, names, "args", False)
    gradients = [None] * len(names) if args_grad is None else _arrays(args_grad, names, "args_grad", True)
    states = _arrays([] if aux_states is None else aux_states, symbol.list_auxiliary_states(), "aux_states", False)
    requests = _requests(symbol, grad_req)
    if args_grad is None:
        requests = dict.fromkeys(names, "null")
    requests = {n: r if g is not None else "null" for (n, r), g in zip(requests.items(), gradients, strict=True)}
    _check_types(symbol, arguments)
    if not groups:
        _check_places(ctx, "Input", arguments)
        _check_places(ctx, "Gradient", gradients)
        _check_places(ctx, "Auxiliary", states)
    return Executor(symbol, ctx, arguments, gradients, requests, states, args_grad is not None, groups)


def _check_places(ctx: Context, kind: str, arrays: Sequence[NDArray | None]) -> None:
    """Without groups all arrays lie where the graph runs."""
    for x in arrays:
        if x is not None and x.context != ctx:
            raise MXNetError(
                f"Check failed: x == default_ctx: {kind} array is in {x.context} while binding with ctx={ctx}. All arguments "
                f"must be in global context ({ctx}) unless group2ctx is specified for cross-device graph.\n"
                f"Copy it there first: x.as_in_context({ctx})."
            )


def _check_types(symbol: Symbol, arguments: Sequence[NDArray]) -> None:
    """Raise the error of the node whose inputs do not fit, before anything runs."""
    names = symbol.list_arguments()
    shapes = {n: a.shape for n, a in zip(names, arguments, strict=True)}
    dtypes = {n: dtype_of(a.dtype) for n, a in zip(names, arguments, strict=True)}
    Inference(symbol, shapes, dtypes).run()


def simple_bind(
    symbol: Symbol,
    ctx: Context,
    grad_req: Any = "write",
    type_dict: Mapping[str, Any] | None = None,
    shared_exec: Executor | None = None,
    shared_buffer: dict[str, NDArray] | None = None,
    shared_arg_names: Sequence[str] | None = None,
    groups: Mapping[str, Context] | None = None,
    **shapes: Any,
) -> Executor:
    """See Symbol.simple_bind."""
    input_shapes = {k: tuple(v) for k, v in shapes.items() if isinstance(v, (list, tuple))}  # MXNet ignores others
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the error below says the same
            arg_shapes, _, aux_shapes = symbol.infer_shape(**input_shapes)
        if arg_shapes is None:
            unknown = ", ".join(f"{n}: None" for n in symbol.list_arguments() if n not in input_shapes)
            raise MXNetError(
                "InferShape pass cannot decide shapes for the following arguments (-1 means unknown dimensions). "
                f"Please consider providing them as inputs:\n{unknown}, "
            )
        types, aux_types = _types_of(symbol, type_dict or {})
        places = variable_contexts(symbol, ctx, groups or {})
    except MXNetError as e:
        shown = "\n".join(f"{k}: {v}" for k, v in input_shapes.items())
        raise RuntimeError(f"simple_bind error. Arguments:\n{shown}\n{e}") from e
    names = symbol.list_arguments()
    requests = _requests(symbol, grad_req)
    old = shared_exec.arg_dict if shared_exec is not None else {}
    old_aux = shared_exec.aux_dict if shared_exec is not None else {}
    buffer = shared_buffer if shared_buffer is not None else {}

    def new(name: str, shape: tuple[int, ...], dtype: Any) -> NDArray:
        return zeros_on(places[name], shape, dtype_of(dtype).np)

    def make(name: str, shape: tuple[int, ...], dtype: Any, reuse: Mapping[str, NDArray]) -> NDArray:
        sources: tuple[Mapping[str, NDArray], ...] = (reuse, buffer)
        keep = shared_buffer is not None
        if shared_arg_names is not None and reuse is old and name not in shared_arg_names:
            sources = (buffer,)
        elif shared_arg_names is not None:
            sources, keep = (reuse,), False
            if name in reuse and reuse[name].shape != shape:
                raise MXNetError(
                    f"Check failed: shape of the shared argument {name} is {reuse[name].shape}, but this graph needs {shape}\n"
                    "Give it another name, or build the graph so that the shape is the same."
                )
        for source in sources:
            shared = source.get(name)
            if shared is None or shared.dtype != dtype or shared.size < prod(shape) or shared.context != places[name]:
                continue
            return (
                shared
                if shared.shape == shape
                else shared._sharing(lambda d: d.reshape(-1)[: prod(shape)].reshape(shape))
            )
        array = new(name, shape, dtype)
        if keep:
            buffer[name] = array
        return array

    arguments = [make(n, s, t, old) for n, s, t in zip(names, arg_shapes, types, strict=True)]
    old_gradients = shared_exec.grad_dict if shared_exec is not None and shared_arg_names is not None else {}

    def gradient(name: str, shape: tuple[int, ...], dtype: Any) -> NDArray | None:
        if requests[name] == "null":
            return None
        shared = old_gradients.get(name) if name in (shared_arg_names or ()) else None
        if shared is not None and (shared.shape, shared.dtype, shared.context) == (shape, dtype, places[name]):
            return shared
        return new(name, shape, dtype)

    gradients = [gradient(n, s, t) for n, s, t in zip(names, arg_shapes, types, strict=True)]
    states = [
        make(n, s, t, old_aux) for n, s, t in zip(symbol.list_auxiliary_states(), aux_shapes, aux_types, strict=True)
    ]
    return Executor(symbol, ctx, arguments, gradients, requests, states, True, groups, shared_exec)


def _types_of(symbol: Symbol, type_dict: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
    """Element types of arguments and auxiliary states; what nothing says is float32."""
    types = type_propagation(symbol, {n: dtype_of(t) for n, t in type_dict.items()})
    of = {n.name: types[id(n), 0].np.type for n in topological(symbol._heads) if n.op is None}
    return [of[n] for n in symbol.list_arguments()], [of[n] for n in symbol.list_auxiliary_states()]
