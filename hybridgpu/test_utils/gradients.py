# SPDX-License-Identifier: Apache-2.0
"""Checks of Symbols: results, gradients against finite differences, one device against another, speed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .. import autograd, symbol
from .. import ndarray as nd
from ..context import Context
from ..core.dtypes import dtype_of
from ..ndarray.ndarray import NDArray
from ..symbol import Symbol
from .compare import assert_almost_equal, default_numeric_eps, get_tolerance
from .environment import default_context

__all__ = [
    "check_consistency",
    "check_gluon_hybridize_consistency",
    "check_numeric_gradient",
    "check_speed",
    "check_symbolic_backward",
    "check_symbolic_forward",
    "numeric_grad",
    "simple_forward",
]

_FLOATS = (np.float16, np.float32, np.float64)


def simple_forward(sym: Symbol, ctx: Context | None = None, is_train: bool = False, **inputs: Any) -> Any:
    """The results of a Symbol for NumPy arrays by name, as NumPy arrays; one alone is not in a list."""
    where = ctx or default_context()
    arrays = {k: nd.array(v) for k, v in inputs.items()}
    executor = sym.bind(where, args=arrays)
    executor.forward(is_train=is_train)
    outputs = [x.asnumpy() for x in executor.outputs]
    return outputs[0] if len(outputs) == 1 else outputs


def _located(sym: Symbol, location: Any, ctx: Context, dtype: Any) -> dict[str, NDArray]:
    names = sym.list_arguments()
    if isinstance(location, dict):
        if set(location) != set(names):
            raise ValueError(
                "Symbol arguments and keys of the given location do not match."
                f"symbol args:{set(names)}, location.keys():{set(location)}"
            )
        arrays = location
    else:
        arrays = dict(zip(names, location, strict=False))
    return {k: _array(v, ctx, dtype) for k, v in sorted(arrays.items())}


def _array(value: Any, ctx: Context, dtype: Any) -> NDArray:
    if isinstance(value, NDArray):
        return value
    value = np.asarray(value)
    return nd.array(value, ctx=ctx, dtype=value.dtype if dtype == "asnumpy" else dtype)


def _states(sym: Symbol, aux_states: Any, ctx: Context, dtype: Any) -> dict[str, NDArray] | None:
    if aux_states is None:
        return None
    names = sym.list_auxiliary_states()
    if isinstance(aux_states, dict):
        if set(aux_states) != set(names):
            raise ValueError(
                "Symbol aux_states names and given aux_states do not match."
                f"symbol aux_names:{set(names)}, aux_states.keys:{set(aux_states)}"
            )
        arrays = aux_states
    else:
        arrays = dict(zip(names, aux_states, strict=True))
    return {
        k: nd.array(
            v.asnumpy() if isinstance(v, NDArray) else v,
            ctx=ctx,
            dtype=np.asarray(v).dtype if dtype == "asnumpy" else dtype,
        )
        for k, v in arrays.items()
    }


def numeric_grad(
    executor: Any,
    location: dict[str, Any],
    aux_states: Mapping[str, Any] | None = None,
    eps: float = 1e-4,
    use_forward_train: bool = True,
    dtype: Any = np.float32,
) -> dict[str, Any]:
    """Central differences of the sum of the first output, element by element.

    Args:
        location: NumPy arrays by argument name; the place where gradients are taken.
        eps: the whole step.
    """

    def value() -> Any:
        for name, state in (aux_states or {}).items():
            executor.aux_dict[name][:] = state
        executor.forward(is_train=use_forward_train)
        return executor.outputs[0].asnumpy()

    for name, v in location.items():
        executor.arg_dict[name][:] = v
    gradients = {}
    for name, v in location.items():
        gradients[name] = np.zeros(v.shape, dtype)
        base = np.array(v, order="C")
        if not dtype_of(base.dtype).is_float:
            continue
        moved = base.copy()
        flat, slopes = moved.reshape(-1), gradients[name].reshape(-1)
        for i in range(base.size):
            centre = base.reshape(-1)[i]
            flat[i] = centre + eps / 2
            executor.arg_dict[name][:] = moved
            up = value()
            flat[i] = centre - eps / 2
            executor.arg_dict[name][:] = moved
            down = value()
            flat[i] = centre
            slopes[i] = (up - down).sum() / eps
        executor.arg_dict[name][:] = base
    return gradients


def check_numeric_gradient(
    sym: Symbol,
    location: Any,
    aux_states: Any = None,
    numeric_eps: Any = None,
    rtol: Any = None,
    atol: Any = None,
    grad_nodes: Any = None,
    use_forward_train: bool = True,
    ctx: Context | None = None,
    grad_stype_dict: Any = None,
    dtype: Any = np.float32,
) -> None:
    """Compare the gradients of a Symbol with finite differences of a random projection of its output.

    Args:
        location: values of all arguments: a list in their order, or a dict.
        grad_nodes: which arguments (default all); a dict says write, add or null for each.
        use_forward_train: take the differences in training mode.

    Raises:
        AssertionError: they differ by more than the tolerances.
    """
    assert dtype in _FLOATS
    where = ctx or default_context()
    place = _located(sym, location, where, dtype)
    values = {k: v.asnumpy() for k, v in place.items()}
    states = _states(sym, aux_states, where, dtype)
    state_values = None if states is None else {k: v.asnumpy() for k, v in states.items()}
    if grad_nodes is None:
        grad_nodes = sym.list_arguments()
    requests = dict(grad_nodes) if isinstance(grad_nodes, dict) else dict.fromkeys(grad_nodes, "write")

    _, shapes, _ = sym.infer_shape(**{k: v.shape for k, v in place.items()})
    out = symbol.make_loss(sym * symbol.Variable("__random_proj"))
    # weights away from zero, where the differences would lose their digits
    place["__random_proj"] = nd.array(np.random.rand(*shapes[0]) + 0.1, ctx=where, dtype=dtype)
    start = {k: np.random.normal(0, 0.01, place[k].shape) for k in (*requests, "__random_proj")}
    gradients = {k: nd.array(v, ctx=where, dtype=dtype) for k, v in start.items()}
    executor = out.bind(where, grad_req=requests, args=place, args_grad=gradients, aux_states=states)
    assert len(executor.outputs) == 1
    executor.forward(is_train=True)
    eps = get_tolerance(executor.outputs[0], numeric_eps, default_numeric_eps())
    executor.backward()
    analytic = {k: v.asnumpy() for k, v in executor.grad_dict.items() if v is not None}
    differences = numeric_grad(executor, values, state_values, eps, use_forward_train, dtype)
    for name, request in requests.items():
        got, first = analytic[name], start[name].astype(dtype)
        names = (f"NUMERICAL_{name}", f"BACKWARD_{name}")
        if request == "write":
            assert_almost_equal(differences[name], got, rtol, atol, names)
        elif request == "add":
            assert_almost_equal(differences[name], got - first, rtol, atol, names)
        elif request == "null":
            assert_almost_equal(first, got, rtol, atol, names)
        else:
            raise ValueError(f"Invalid grad_req {request} for argument {name}")


def _of_outputs(sym: Symbol, expected: Any) -> list[Any]:
    return [expected[k] for k in sym.list_outputs()] if isinstance(expected, dict) else list(expected)


def check_symbolic_forward(
    sym: Symbol,
    location: Any,
    expected: Any,
    rtol: Any = None,
    atol: Any = None,
    aux_states: Any = None,
    ctx: Context | None = None,
    equal_nan: bool = False,
    dtype: Any = np.float32,
) -> list[NDArray]:
    """Compare the results of a Symbol with expected ones; the results.

    Args:
        dtype: of all arrays, or ``"asnumpy"``: as in ``location``.

    Raises:
        AssertionError: they differ by more than the tolerances.
    """
    assert dtype == "asnumpy" or dtype in _FLOATS
    where = ctx or default_context()
    place = _located(sym, location, where, dtype)
    gradients = {k: nd.array(np.zeros(v.shape), ctx=where, dtype=v.dtype) for k, v in place.items()}
    executor = sym.bind(ctx=where, args=place, args_grad=gradients, aux_states=_states(sym, aux_states, where, dtype))
    executor.forward(is_train=False)
    for name, want, got in zip(sym.list_outputs(), _of_outputs(sym, expected), executor.outputs, strict=False):
        assert_almost_equal(want, got, rtol, atol, (f"EXPECTED_{name}", f"FORWARD_{name}"), equal_nan=equal_nan)
    return executor.outputs  # type: ignore[no-any-return]


def check_symbolic_backward(
    sym: Symbol,
    location: Any,
    out_grads: Any,
    expected: Any,
    rtol: Any = None,
    atol: Any = None,
    aux_states: Any = None,
    grad_req: Any = "write",
    ctx: Context | None = None,
    grad_stypes: Any = None,
    equal_nan: bool = False,
    dtype: Any = np.float32,
) -> list[Any]:
    """Compare the gradients of a Symbol with expected ones; the gradients.

    Args:
        out_grads: gradients of the outputs, None where a loss needs none.
        expected: by argument, in order or by name; those not named are not compared.
        grad_req: for all arguments, a list, or by name.

    Raises:
        AssertionError: they differ by more than the tolerances.
    """
    assert dtype == "asnumpy" or dtype in _FLOATS
    where = ctx or default_context()
    place = _located(sym, location, where, dtype)
    names = sym.list_arguments()
    expected_by_name = expected if isinstance(expected, dict) else dict(zip(names, expected, strict=False))
    start = {k: np.random.normal(size=np.shape(v)) for k, v in expected_by_name.items()}
    gradients = {k: nd.array(v, ctx=where, dtype=place[k].dtype) for k, v in start.items()}
    if isinstance(grad_req, str):
        requests = dict.fromkeys(names, grad_req)
    elif isinstance(grad_req, (list, tuple)):
        requests = dict(zip(names, grad_req, strict=True))
    else:
        requests = dict(grad_req)
    states = _states(sym, aux_states, where, dtype)
    executor = sym.bind(ctx=where, args=place, args_grad=gradients, aux_states=states, grad_req=requests)
    outputs = executor.forward(is_train=True)
    if isinstance(out_grads, dict):
        out_grads = [out_grads[k] for k in sym.list_outputs()]
    if out_grads is not None:
        out_grads = [
            g if isinstance(g, NDArray) or g is None else nd.array(g, ctx=where, dtype=o.dtype)
            for g, o in zip(out_grads, outputs, strict=False)
        ]
    executor.backward(out_grads)
    got_by_name = {k: v.asnumpy() for k, v in executor.grad_dict.items() if v is not None}
    for name, want in expected_by_name.items():
        got, first = got_by_name[name], start[name].astype(got_by_name[name].dtype)
        want = want.asnumpy() if isinstance(want, NDArray) else np.asarray(want)
        shown = (f"EXPECTED_{name}", f"BACKWARD_{name}")
        if requests.get(name) == "write":
            assert_almost_equal(want, got, rtol, atol, shown, equal_nan=equal_nan)
        elif requests.get(name) == "add":
            assert_almost_equal(want, got - first, rtol, atol, shown, equal_nan=equal_nan)
        elif requests.get(name) == "null":
            assert_almost_equal(first, got, rtol, atol, shown, equal_nan=equal_nan)
        else:
            raise ValueError(f"Invalid grad_req {requests.get(name)} for argument {name}")
    return [executor.grad_dict[k] for k in names]


def check_speed(
    sym: Symbol,
    location: Mapping[str, Any] | None = None,
    ctx: Context | None = None,
    N: int = 20,
    grad_req: Any = None,
    typ: str = "whole",
    **kwargs: Any,
) -> float:
    """Seconds a call of a Symbol, forward and backward (``whole``) or ``forward`` only.

    Raises:
        ValueError: another ``typ``.
    """
    where = ctx or default_context()
    if typ not in ("whole", "forward"):
        raise ValueError('typ can only be "whole" or "forward".')
    executor = sym.simple_bind(grad_req=grad_req or "write", ctx=where, **kwargs)
    for name, array in executor.arg_dict.items():
        array[:] = np.random.normal(size=array.shape) if location is None else location[name]

    def call() -> None:
        executor.forward(is_train=typ == "whole")
        if typ == "whole":
            executor.backward(executor.outputs)
        for out in executor.outputs:
            out.wait_to_read()

    for _ in range(10):  # the compilation included
        call()
    begin = time.perf_counter()
    for _ in range(N):
        call()
    nd.waitall()
    return (time.perf_counter() - begin) / N


def check_consistency(
    sym: Symbol | Sequence[Symbol],
    ctx_list: Sequence[Mapping[str, Any]],
    scale: float = 1.0,
    grad_req: Any = "write",
    arg_params: Mapping[str, Any] | None = None,
    aux_params: Mapping[str, Any] | None = None,
    rtol: Any = None,
    atol: Any = None,
    raise_on_err: bool = True,
    ground_truth: Mapping[str, Any] | None = None,
    equal_nan: bool = False,
    use_uniform: bool = False,
    rand_type: Any = np.float64,
) -> dict[str, Any]:
    """Compare results and gradients of one Symbol on several devices or element types.

    Args:
        ctx_list: of dicts with ``ctx``, shapes by argument name, and optionally ``type_dict``.
        scale: of the random arguments.
        ground_truth: what to compare with; by default the entry with the widest element type.

    Returns:
        The ground truth by name.

    Raises:
        AssertionError: they differ and ``raise_on_err``.
    """
    symbols = [sym] * len(ctx_list) if isinstance(sym, Symbol) else list(sym)
    assert len(ctx_list) > 1 or ground_truth is not None
    outputs = symbols[0].list_outputs()
    names = symbols[0].list_arguments()
    executors = [s.simple_bind(grad_req=grad_req, **dict(c)) for s, c in zip(symbols, ctx_list, strict=True)]
    values = dict(arg_params or {})
    states = dict(aux_params or {})
    for name, array in executors[0].arg_dict.items():
        if name not in values:
            values[name] = (
                np.random.uniform(-0.5 * scale, 0.5 * scale, array.shape)
                if use_uniform
                else np.random.normal(size=array.shape, scale=scale)
            ).astype(rand_type)
    for name in executors[0].aux_dict:
        states.setdefault(name, 0)
    for e in executors:
        for name, array in e.arg_dict.items():
            array[:] = values[name]
        for name, array in e.aux_dict.items():
            array[:] = states[name]
        for array in e.grad_dict.values():
            if array is not None:
                array[:] = 0
    heads = None
    tables: list[dict[str, Any]] = []
    for e in executors:
        result = e.forward(is_train=grad_req != "null")
        if grad_req != "null":
            if heads is None:
                heads = [np.random.normal(size=o.shape) for o in result]
            e.backward([nd.array(h, ctx=e._ctx, dtype=o.dtype) for h, o in zip(heads, result, strict=True)])
        table = {n: o.asnumpy() for n, o in zip(outputs, result, strict=True)}
        table.update({n: g.asnumpy() for n, g in zip(names, e._gradients, strict=True) if g is not None})
        tables.append(table)
    widest = max(range(len(tables)), key=lambda k: np.dtype(tables[k][outputs[0]].dtype).itemsize)
    truth = dict(ground_truth) if ground_truth is not None else tables[widest]
    for k, table in enumerate(tables):
        if ground_truth is None and k == widest:
            continue
        for name, got in table.items():
            want = truth[name] if not isinstance(truth[name], NDArray) else truth[name].asnumpy()
            try:
                assert_almost_equal(got, want.astype(got.dtype), rtol, atol, equal_nan=equal_nan)
            except AssertionError as e:
                message = f"{name} of entry {k} ({ctx_list[k]}): {e}"
                if raise_on_err:
                    raise AssertionError(message) from None
                print(message)
    return truth


def check_gluon_hybridize_consistency(
    net_builder: Callable[[], Any],
    data_l: Sequence[NDArray],
    numpy_func: Callable[..., Any] | None = None,
    test_grad: bool = True,
    rtol: float = 1e-4,
    atol: float = 1e-4,
) -> None:
    """Compare a block hybridized with itself eager: result and gradients of inputs and parameters.

    Args:
        net_builder: makes the block.
        numpy_func: what the result should be, for NumPy arrays.

    Raises:
        AssertionError: they differ.
    """
    first: dict[str, Any] | None = None
    result = None
    gradients: list[Any] = []
    for hybridize in (False, True):
        net = net_builder()
        net.initialize()
        inputs = [x.copy() for x in data_l]
        if hybridize:
            net.hybridize()
        net(*inputs)
        values = {k.split("_", 1)[-1]: p for k, p in net.collect_params().items()}
        if first is None:
            first = {k: p.data().asnumpy() for k, p in values.items()}
        else:
            for k, p in values.items():
                p.set_data(nd.array(first[k], dtype=first[k].dtype))
        for x in inputs:
            x.attach_grad()
        if test_grad:
            with autograd.record():
                out = net(*inputs)
            out.backward()
            slopes = [x.grad.asnumpy() for x in inputs if x.grad is not None]
            slopes += [p.grad().asnumpy() for p in values.values() if p.grad_req != "null"]
        else:
            out, slopes = net(*inputs), []
        if not hybridize:
            result, gradients = out.asnumpy(), slopes
            if numpy_func is not None:
                assert_almost_equal(result, numpy_func(*[x.asnumpy() for x in data_l]), rtol=rtol, atol=atol)
        else:
            assert_almost_equal(out, result, rtol=rtol, atol=atol)
            for a, b in zip(slopes, gradients, strict=True):
                assert_almost_equal(a, b, rtol=rtol, atol=atol)
