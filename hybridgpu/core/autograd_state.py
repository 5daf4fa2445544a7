# SPDX-License-Identifier: Apache-2.0
"""Autograd state of the current thread: recording, training, its trace; and an array's gradient record."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

__all__ = [
    "GradientInfo",
    "ResultInfo",
    "history",
    "is_recording",
    "is_training",
    "mark_variables",
    "pause",
    "predict_mode",
    "record",
    "set_recording",
    "set_training",
    "state",
    "traces",
    "train_mode",
    "untraced",
    "wants_gradient",
]


class _State(threading.local):
    recording = False
    training = False
    trace: Any = None  #: what operators go to while a function or a ``forward`` is traced, see ``hybridgpu.tracing``


state = _State()
traces: list[Any] = []  #: of all threads: whether there is one is asked faster than for that of this thread


def is_recording() -> bool:
    """True inside ``record()``."""
    return state.recording


def is_training() -> bool:
    """True where operators behave as in training."""
    return state.training


def set_recording(is_recording: bool) -> bool:
    """Set the recording flag; the old one."""
    old, state.recording = state.recording, bool(is_recording)
    return old


def set_training(train_mode: bool) -> bool:
    """Set the training flag; the old one."""
    old, state.training = state.training, bool(train_mode)
    return old


class _Scope:
    """Sets the flags that are not None while it is entered."""

    def __init__(self, recording: bool | None, training: bool | None) -> None:
        self._new = (recording, training)
        self._old: list[tuple[bool, bool]] = []

    def __enter__(self) -> None:
        self._old.append((state.recording, state.training))
        recording, training = self._new
        if recording is not None:
            state.recording = recording
        if training is not None:
            state.training = training

    def __exit__(self, *exc: object) -> None:
        state.recording, state.training = self._old.pop()


def record(train_mode: bool = True) -> _Scope:
    """Record operators for ``backward``, in training mode by default."""
    return _Scope(True, train_mode)


def pause(train_mode: bool = False) -> _Scope:
    """Stop recording."""
    return _Scope(False, train_mode)


def train_mode() -> _Scope:
    """Training behaviour without changing the recording."""
    return _Scope(None, True)


def predict_mode() -> _Scope:
    """Inference behaviour without changing the recording."""
    return _Scope(None, False)


class untraced:
    """While entered, operators compute, also inside of a function that is being traced."""

    def __enter__(self) -> None:
        self._old, state.trace = state.trace, None

    def __exit__(self, *exc: object) -> None:
        state.trace = self._old


class GradientInfo:
    """An array's gradient: its buffer, how it is written, its place in the recorded graph.

    Attributes:
        grad: the buffer of ``attach_grad``, None for results; a backward pass takes it where grad_req is null.
        grad_req: write, add or null.
        node: the recorded call whose result the array is, None for a variable.
        index: which result.
        fresh: True once a backward pass has written the gradient.
    """

    __slots__ = ("fresh", "grad", "grad_req", "index", "node")

    def __init__(self, grad: Any, grad_req: str, node: Any = None, index: int = 0) -> None:
        self.grad, self.grad_req, self.node, self.index = grad, grad_req, node, index
        self.fresh = False

    @property
    def key(self) -> Any:
        """Equal for two arrays that are the same value of the recorded graph."""
        return id(self) if self.node is None else (id(self.node), self.index)


class ResultInfo(GradientInfo):
    """The same of a result: it has a node, and no buffer; made by calls that count each store."""

    __slots__ = ()
    grad = None
    grad_req = "null"


def history(x: Any) -> GradientInfo | None:
    """What an array knows of gradients; None for a result, or a variable with grad_req null, whose graph a backward pass
    has released.

    Such an array is a constant from then on: the state of a recurrent network that is carried from one
    recorded piece to the next needs no ``detach``.
    """
    info: GradientInfo | None = x._autograd
    if info is None or (info.grad is None if info.node is None else info.node.released):
        return None
    return info


def wants_gradient(info: GradientInfo | None) -> bool:
    """Whether an array with this :func:`history` gets a gradient, or leads to what may get one."""
    return info is not None and (info.node is not None or info.grad_req != "null")


def mark_variables(variables: Any, gradients: Any, grad_reqs: str | Sequence[str] = "write") -> None:
    """Make arrays the variables of later gradients, with buffers of the caller's own.

    Raises:
        KeyError: a grad_req other than write, add and null.
    """
    if not isinstance(variables, (list, tuple)):
        variables, gradients = [variables], [gradients]
    reqs = [grad_reqs] * len(variables) if isinstance(grad_reqs, str) else list(grad_reqs)
    for v, g, req in zip(variables, gradients, reqs, strict=True):
        {"write": 0, "add": 0, "null": 0}[req]
        v._autograd = GradientInfo(g, req)
