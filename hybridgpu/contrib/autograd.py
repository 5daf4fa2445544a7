# SPDX-License-Identifier: Apache-2.0
"""``mx.contrib.autograd``: the first interface of automatic differentiation, which :mod:`hybridgpu.autograd` replaced.

Here recording and training are one state.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .. import autograd
from ..autograd import mark_variables, set_recording, set_training
from ..ndarray import NDArray
from ..ndarray.apply import zeros_like

__all__ = [
    "TrainingStateScope",
    "backward",
    "compute_gradient",
    "grad",
    "grad_and_loss",
    "mark_variables",
    "set_is_training",
    "test_section",
    "train_section",
]


def set_is_training(is_train: bool) -> bool:
    """Record and train, or neither; whether it was recording before."""
    set_training(is_train)
    return set_recording(is_train)


class TrainingStateScope:
    """``with TrainingStateScope(True):`` sets the state inside."""

    def __init__(self, enter_state: bool) -> None:
        self._enter_state = enter_state
        self._before: list[bool] = []

    def __enter__(self) -> None:
        self._before.append(set_is_training(self._enter_state))

    def __exit__(self, ptype: object, value: object, trace: object) -> None:
        set_is_training(self._before.pop())


def train_section() -> TrainingStateScope:
    """Record what happens inside, in training mode."""
    return TrainingStateScope(True)


def test_section() -> TrainingStateScope:
    """Neither record nor train inside, such as in a part of :func:`train_section`."""
    return TrainingStateScope(False)


def backward(
    outputs: Sequence[NDArray], out_grads: Sequence[NDArray | None] | None = None, retain_graph: bool = False
) -> None:
    """Write the gradients of ``outputs`` into the buffers of all variables.

    Args:
        out_grads: gradients of the outputs; None means ones.

    Raises:
        AssertionError: ``outputs`` is no list, or ``out_grads`` has another length.
        MXNetError: an output that was not recorded.
    """
    assert isinstance(outputs, (list, tuple)), "outputs must be a list or tuple of NDArrays"
    if out_grads is not None:
        assert len(out_grads) == len(outputs), "outputs and out_grads must have the same length"
    autograd.backward(list(outputs), None if out_grads is None else list(out_grads), retain_graph)


def compute_gradient(outputs: Sequence[NDArray]) -> None:
    """As :func:`backward`, by its older name."""
    backward(outputs)


def grad_and_loss(
    func: Callable[..., Any], argnum: int | list[int] | None = None
) -> Callable[..., tuple[list[NDArray], Any]]:
    """A function that gives (gradients of the arguments, result) of ``func``.

    Args:
        argnum: numbers of the arguments that gradients are wanted of; None means all.

    Raises:
        AssertionError: when called, for such an argument that is no array.
    """

    @functools.wraps(func)
    def wrapped(*args: Any) -> tuple[list[NDArray], Any]:
        chosen = range(len(args)) if argnum is None else argnum if isinstance(argnum, list) else [argnum]
        variables = [args[k] for k in chosen]
        for x in variables:
            assert isinstance(x, NDArray), "type of autograd input should NDArray."
        gradients = [zeros_like(x) for x in variables]
        mark_variables(variables, gradients)
        with train_section():
            outputs = func(*args)
        compute_gradient([outputs] if isinstance(outputs, NDArray) else outputs)
        return gradients, outputs

    return wrapped


def grad(func: Callable[..., Any], argnum: int | list[int] | None = None) -> Callable[..., list[NDArray]]:
    """A function that gives the gradients of the arguments of ``func``; see :func:`grad_and_loss`."""
    both = grad_and_loss(func, argnum)

    @functools.wraps(func)
    def wrapped(*args: Any) -> list[NDArray]:
        return both(*args)[0]

    return wrapped
