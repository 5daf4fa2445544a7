# SPDX-License-Identifier: Apache-2.0
"""``foreach``, ``while_loop`` and ``cond`` while a function is traced: nodes that hold the graphs of their bodies.

The bodies, which work on arrays, are run on arrays without values in the place of the Symbols that ``sym.contrib`` gives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..compiler.ir.types import TensorType, tensor_type
from ..core.pytree import flatten, regroup
from ..ndarray.control_flow import flatten_arrays, step_by_step, taken
from ..ndarray.ndarray import NDArray
from ..symbol import Symbol
from ..symbol import control_flow as graphs
from ..util import is_np_shape
from .arrays import Traced, Value, reshaped
from .error import not_traced

if TYPE_CHECKING:
    from .trace import Trace

__all__ = ["cond", "foreach", "while_loop"]


def _array(trace: Trace, symbol: Symbol, t: TensorType, kind: Any) -> Any:
    trace._note(symbol, [t])
    return trace.wrap(Value(trace, symbol), t.shape, t.dtype, kind)


def _results(trace: Trace, symbols: Sequence[Symbol], kinds: Sequence[Any]) -> list[Any]:
    """Arrays of the results of one control flow node."""
    arrays = []
    for symbol, kind in zip(symbols, kinds, strict=True):
        t = trace.type_of(symbol._heads[0])
        assert t is not None
        arrays.append(trace.wrap(Value(trace, symbol), t.shape, t.dtype, kind))
    return arrays


def _symbol(trace: Trace, x: Any) -> Symbol:
    symbol: Symbol = trace.lift(x)._data.symbol()
    return symbol


class _Run:
    """A body that works on arrays, as one that works on Symbols.

    Attributes:
        kinds: the classes of the results.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.kinds: list[Any] = []

    def symbols(self, results: Any, what: str) -> Any:
        """The Symbols of results, structured as they are."""
        flat, form = flatten_arrays([] if results is None else results, what)
        self.kinds += [x._kind for x in flat]
        return regroup([_symbol(self.trace, x) for x in flat], form)


def foreach(trace: Trace, body: Any, data: Any, init_states: Any, name: str) -> Any:
    """A ``foreach`` node; where the body does not use all slices and states, its steps one after the other."""
    flat, form = flatten_arrays(data, "foreach input")
    states, state_form = flatten_arrays(init_states, "foreach states")
    lifted, first = [trace.lift(x) for x in flat], [trace.lift(x) for x in states]
    if any(not x.shape for x in lifted):
        raise ValueError("foreach needs an axis to go along, and the data have none")
    run = _Run(trace)
    numbers = [x.ndim == 1 and not is_np_shape() for x in lifted]

    def step(slices: Any, current: Any) -> Any:
        rows = _flat_symbols(slices)
        row_arrays = []
        for symbol, x, is_number in zip(rows, lifted, numbers, strict=True):
            t = tensor_type(x.shape[1:], x._type.tensor.dtype)
            row = _array(trace, symbol, t, x._kind)
            row_arrays.append(_one_axis(trace, row) if is_number else row)
        now = [_array(trace, s, x._type.tensor, x._kind) for s, x in zip(_flat_symbols(current), first, strict=True)]
        out, new = body(regroup(row_arrays, form), regroup(now, state_form))
        return run.symbols(out, "foreach output"), run.symbols(new, "foreach states")

    def build() -> Any:
        with trace.body():
            return graphs.foreach(
                step,
                regroup([_symbol(trace, x) for x in lifted], form),
                regroup([_symbol(trace, x) for x in first], state_form),
                name,
            )

    try:
        outputs, new = build()
    except AssertionError:
        return step_by_step(body, data, init_states)
    flat_out, out_form = _flatten_symbols(outputs)
    flat_new, new_form = _flatten_symbols(new)
    arrays = _results(trace, [*flat_out, *flat_new], run.kinds)
    return regroup(arrays[: len(flat_out)], out_form), regroup(arrays[len(flat_out) :], new_form)


def _one_axis(trace: Trace, row: Any) -> Any:
    """A row of an array of one axis, which has the shape (1,) without NumPy shape semantics."""
    symbol = reshaped(row._data.symbol(), (1,))
    return _array(trace, symbol, tensor_type((1,), row._type.tensor.dtype), row._kind)


def _flat_symbols(nested: Any) -> list[Symbol]:
    return _flatten_symbols(nested)[0]


def _flatten_symbols(nested: Any) -> tuple[list[Symbol], Any]:
    return flatten(nested, lambda value: 0 if isinstance(value, Symbol) else None)


def while_loop(trace: Trace, cond: Any, func: Any, loop_vars: Any, max_iterations: Any, name: str) -> Any:
    """A ``while_loop`` node."""
    single = isinstance(loop_vars, NDArray)
    variables = [loop_vars] if single else list(loop_vars)
    lifted = [trace.lift(x) for x in variables]
    run = _Run(trace)

    def loop_arrays(symbols: Sequence[Symbol]) -> list[Any]:
        return [_array(trace, s, x._type.tensor, x._kind) for s, x in zip(symbols, lifted, strict=True)]

    def condition(*symbols: Symbol) -> Symbol:
        result = cond(*loop_arrays(symbols))
        if not isinstance(result, NDArray):
            raise not_traced(
                f"the condition of a while_loop gives {result!r}, which is the same at every step",
                "Compute it from the loop variables.",
            )
        return _symbol(trace, result)

    def body(*symbols: Symbol) -> Any:
        outputs, new = func(*loop_arrays(symbols))
        new = [] if new is None else [new] if isinstance(new, NDArray) else list(new)
        out = run.symbols(outputs, "while output")
        return out, run.symbols(new, "while loop_vars")

    with trace.body():
        outputs, new = graphs.while_loop(condition, body, [_symbol(trace, x) for x in lifted], max_iterations, name)
    flat_out, out_form = _flatten_symbols(outputs)
    flat_new, _ = _flatten_symbols(new)
    arrays = _results(trace, [*flat_out, *flat_new], run.kinds)
    last = arrays[len(flat_out) :]
    return regroup(arrays[: len(flat_out)], out_form), last[0] if single else last


def cond(trace: Trace, pred: Any, then_func: Any, else_func: Any, name: str) -> Any:
    """A ``cond`` node, or the branch that is taken where ``pred`` is known."""
    if not isinstance(pred, Traced):
        return taken(pred, then_func, else_func)
    runs = [_Run(trace), _Run(trace)]

    def branch(function: Any, run: _Run) -> Callable[[], Any]:
        return lambda: run.symbols(function(), "cond outputs")

    with trace.body():
        results = graphs.cond(_symbol(trace, pred), branch(then_func, runs[0]), branch(else_func, runs[1]), name)
    flat, form = _flatten_symbols(results)
    return regroup(_results(trace, flat, runs[0].kinds), form)
