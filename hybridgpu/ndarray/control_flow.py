# SPDX-License-Identifier: Apache-2.0
"""``nd.contrib.foreach``, ``while_loop`` and ``cond``: Python's own control flow, step by step."""

from __future__ import annotations

from typing import Any

from ..core.autograd_state import state
from ..core.pytree import flatten, regroup
from ..ops import OPERATORS
from .apply import apply, zeros_like
from .ndarray import NDArray

__all__ = ["cond", "foreach", "isfinite", "isinf", "isnan", "while_loop"]


def flatten_arrays(args: Any, what: str) -> tuple[list[NDArray], Any]:
    """(arrays, format), see ``hybridgpu.core.pytree``."""

    def format_of(value: Any) -> int | None:
        if isinstance(value, NDArray):
            return 0
        assert isinstance(value, (list, tuple)), (
            f"{what} must be (nested) list of NDArray, but got {value} of type {type(value)}"
        )
        return None

    return flatten(args, format_of)


def _joined(operator: str, arrays: list[NDArray], **attributes: Any) -> Any:
    op = OPERATORS[operator]
    return apply(op, arrays, op.parse({"num_args": len(arrays), **attributes}), kind=arrays[0]._kind)


def _scalar(value: Any, kind: Any, name: str) -> Any:
    try:
        if isinstance(value, NDArray):
            value = value.as_nd_ndarray().asscalar()
        return kind(value)
    except (TypeError, ValueError):
        raise ValueError(f"Cannot convert {name} to python {kind.__name__}") from None


def foreach(body: Any, data: Any, init_states: Any, name: str = "foreach") -> tuple[Any, Any]:
    """Run ``body`` for every index of axis 0.

    Args:
        body: ``(slices, states) -> (outputs, new states)``; nested lists everywhere.
        data: arrays that are sliced along axis 0.
        init_states: the states of the first step.

    Returns:
        (outputs stacked along a new axis 0, last states).
    """
    if state.trace is not None:
        return state.trace.foreach(body, data, init_states, name)  # type: ignore[no-any-return]
    return step_by_step(body, data, init_states)


def step_by_step(body: Any, data: Any, init_states: Any) -> tuple[Any, Any]:
    """``foreach`` with a call of ``body`` for every index."""
    flat, form = flatten_arrays(data, "foreach input")
    flatten_arrays(init_states, "foreach states")
    states, collected = init_states, []
    out_form: Any = []
    for k in range(flat[0].shape[0]):
        outputs, states = body(regroup([d[k] for d in flat], form), states)
        results, out_form = flatten_arrays(outputs, "foreach output")
        collected.append(results)
    stacked = [_joined("stack", list(values)) for values in zip(*collected, strict=True)]
    return regroup(stacked, out_form), states


def while_loop(
    cond: Any, func: Any, loop_vars: Any, max_iterations: int | None = None, name: str = "while_loop"
) -> tuple[Any, Any]:
    """Run ``func`` while ``cond`` holds.

    Args:
        cond: ``(*loop_vars) -> `` array of one element.
        func: ``(*loop_vars) -> (outputs, new loop_vars)``.
        loop_vars: an array or a list of arrays.
        max_iterations: bound of the number of steps.

    Returns:
        (outputs stacked along a new axis 0 of ``max_iterations`` rows, zeros from the last step on, or []
        where there was no step; last loop_vars).

    Raises:
        ValueError: no bound, no loop variables, or a number of them or of outputs that changes.
    """
    if state.trace is not None:
        return state.trace.while_loop(cond, func, loop_vars, max_iterations, name)  # type: ignore[no-any-return]
    if max_iterations is None:
        raise ValueError("max_iterations should be specified")
    bound = _scalar(max_iterations, int, "max_iteration")
    if len(loop_vars) == 0:
        raise ValueError("loop_vars should contain at least one element")
    single = isinstance(loop_vars, NDArray)
    variables = [loop_vars] if single else list(loop_vars)
    collected: list[list[NDArray]] = []
    out_form: Any = []
    while len(collected) < bound and _scalar(cond(*variables), bool, "Return value of cond"):
        outputs, new = func(*variables)
        new = [] if new is None else [new] if isinstance(new, NDArray) else list(new)
        if len(new) != len(variables):
            raise ValueError("The length of loop_vars should be consistent during the loop")
        variables = new
        results, out_form = flatten_arrays([] if outputs is None else outputs, "while output")
        collected.append(results)
        if len(results) != len(collected[0]):
            raise ValueError("Number of elements in step_output should be the same in each step")
    stacked = []
    for k, values in enumerate(zip(*collected, strict=True), 1):
        rows = list(values)
        if any(r.shape != rows[0].shape for r in rows):
            lines = [f"  Step {i}, shape is {r.shape}" for i, r in enumerate(rows)]
            raise ValueError(
                "\n".join([f"Shapes of {k}-th elements in step_outputs are inconsistent, which are:", *lines])
            )
        rest = bound - len(rows)
        if rest:
            rows += [zeros_like(rows[0])] * rest
        stacked.append(_joined("stack", rows))
    return regroup(stacked, out_form), variables[0] if single else variables


def cond(pred: Any, then_func: Any, else_func: Any, name: str = "cond") -> Any:
    """``then_func()`` if ``pred``, an array of one element, holds, else ``else_func()``."""
    if state.trace is not None:
        return state.trace.cond(pred, then_func, else_func, name)
    return taken(pred, then_func, else_func)


def taken(pred: Any, then_func: Any, else_func: Any) -> Any:
    """The results of the branch that a condition, whose value is known, takes."""
    return then_func() if _scalar(pred, bool, "pred") else else_func()


def isnan(data: Any) -> Any:
    """1 where an element is NaN, else 0."""
    return data != data  # noqa: PLR0124 - of NaN alone


def isinf(data: Any) -> Any:
    """1 where an element is infinite, else 0."""
    return data.abs() == float("inf")


def isfinite(data: Any) -> Any:
    """1 where an element is neither infinite nor NaN, else 0."""
    return (1 - isnan(data)) * (1 - isinf(data))
