# SPDX-License-Identifier: Apache-2.0
"""npx.foreach, while_loop and cond: those of ``contrib``, for operands of np.

MXNet 1.9.1 has them for arrays and Symbols of nd and sym alone; MXNet 2 has them here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .application import Application, npx_function

__all__: list[str] = []


@npx_function("foreach")
def foreach(
    F: Application, body: Callable[..., Any], data: Any, init_states: Any, name: str = "foreach"
) -> tuple[Any, Any]:
    """Run ``body(slices, states) -> (outputs, new states)`` for every index of axis 0 of ``data``.

    Returns:
        (outputs stacked along a new axis 0, last states), nested as the body gives them.
    """
    results: tuple[Any, Any] = F.control_flow("foreach")(body, data, init_states, name)
    return results


@npx_function("while_loop")
def while_loop(
    F: Application,
    cond: Callable[..., Any],
    func: Callable[..., Any],
    loop_vars: Any,
    max_iterations: int | None = None,
    name: str = "while_loop",
) -> tuple[Any, Any]:
    """Run ``func(*loop_vars) -> (outputs, new loop_vars)`` while ``cond(*loop_vars)`` is not zero.

    Args:
        cond: gives an array of one element.
        max_iterations: bound of the number of steps; needed.

    Returns:
        (outputs stacked along a new axis 0 of ``max_iterations`` rows, zeros from the last step on; last loop_vars).
    """
    results: tuple[Any, Any] = F.control_flow("while_loop")(cond, func, loop_vars, max_iterations, name)
    return results


@npx_function("cond")
def cond(
    F: Application,
    pred: Any,
    then_func: Callable[[], Any],
    else_func: Callable[[], Any],
    name: str = "cond",
) -> Any:
    """``then_func()`` if ``pred``, an array of one element, is not zero, else ``else_func()``; the other is not computed."""
    return F.control_flow("cond")(pred, then_func, else_func, name)
