# SPDX-License-Identifier: Apache-2.0
"""Automatic differentiation: ``record`` what eager code does, then ``backward``.

Example::

    x.attach_grad()
    with autograd.record():
        y = (x * x).sum()
    y.backward()
    x.grad  # 2 x
"""

from __future__ import annotations

import copy
import math
import threading
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from .backends.devices import device_of
from .base import MXNetError, NotImplementedForSymbol
from .core import autograd_state
from .core.autograd_state import (
    is_recording,
    is_training,
    mark_variables,
    pause,
    predict_mode,
    record,
    set_recording,
    set_training,
    train_mode,
)
from .core.source_location import located_hint
from .hints.absent_member import AbsentMember
from .hints.tracing import is_symbol
from .hints.undefined import undefined
from .ndarray import backward_pass, tape
from .ndarray.apply import zeros_like
from .ndarray.ndarray import NDArray
from .ndarray.types import ArrayType

__all__ = [
    "Function",
    "backward",
    "get_symbol",
    "grad",
    "is_recording",
    "is_training",
    "mark_variables",
    "pause",
    "predict_mode",
    "record",
    "set_recording",
    "set_training",
    "train_mode",
]


def _heads(heads: Any, head_grads: Any) -> tuple[list[NDArray], list[NDArray | None]]:
    if autograd_state.state.trace is not None:
        raise autograd_state.state.trace.no_gradients()
    if isinstance(heads, NDArray):
        assert head_grads is None or isinstance(head_grads, NDArray)
        return [heads], [head_grads]
    heads = list(heads)
    for h in heads:
        if not isinstance(h, NDArray):
            raise AssertionError("heads and head_grads must be NDArrays")
    grads: list[NDArray | None] = [None] * len(heads) if head_grads is None else list(head_grads)
    assert len(heads) == len(grads), "heads and head_grads must be lists of the same length"
    return heads, grads


def backward(heads: Any, head_grads: Any = None, retain_graph: bool = False, train_mode: bool = True) -> None:
    """Write the gradients of ``heads`` into the buffers of the variables they depend on.

    Args:
        heads: an array or a list; the gradients of several add up.
        head_grads: what the gradient of each head is multiplied with; None means ones.
        retain_graph: keep the recorded graph for another backward pass.
        train_mode: the training flag during the pass; what was recorded keeps its own, so BatchNorm its formula.

    Raises:
        MXNetError: a head that was not recorded, or whose graph was used before.
    """
    head_arrays, grads = _heads(heads, head_grads)
    backward_pass.backward(head_arrays, grads, None, retain_graph, False, train_mode)


def grad(
    heads: Any,
    variables: Any,
    head_grads: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    train_mode: bool = True,
) -> list[NDArray]:
    """The gradients of ``heads`` with respect to ``variables``; their buffers stay as they are.

    Args:
        create_graph: record the computation of the gradients, for gradients of higher order.
        retain_graph: keep the recorded graph; by default if ``create_graph``.

    Returns:
        A list, also for one variable, as MXNet 1.9.1 returns it.

    Raises:
        MXNetError: a head that was not recorded, or a variable without ``attach_grad`` that is no result.
    """
    head_arrays, grads = _heads(heads, head_grads)
    targets = [variables] if isinstance(variables, NDArray) else list(variables)
    for v in targets:
        assert isinstance(v, NDArray), "variables must be an NDArray or a list of them"
    assert targets, "variables cannot be an empty list."
    infos: list[autograd_state.GradientInfo] = []
    for n, info in enumerate(map(autograd_state.history, targets)):
        if info is None or (info.node is None and info.grad_req == "null"):
            raise MXNetError(
                "Check failed: !AGInfo::IsNone(*variables[i]) && AGInfo::IsVariable(variables[i]->entry_.node): Cannot "
                f"differentiate with respect to the {n + 1}-th variable because it does not require gradient.\n"
                "Call attach_grad() on the variable before it is used under autograd.record()."
            )
        infos.append(info)
    retain = create_graph if retain_graph is None else retain_graph
    others = [_Memory.of(g) for g in grads if g is not None]
    outer, _given.memory = _given.memory, others
    try:
        results = backward_pass.backward(head_arrays, grads, infos, retain, create_graph, train_mode)
    finally:
        _given.memory = outer
    gradients = [zeros_like(v.as_nd_ndarray()) if g is None else g for v, g in zip(targets, results, strict=True)]
    if len(gradients) > 1 or others:
        for k in _sharing(gradients, others):
            gradients[k] = _copied(gradients[k], create_graph)
    return gradients


class _Memory(NamedTuple):
    """Where an array lies, without keeping it.

    Attributes:
        owner: gives what has the memory, None once nobody can reach that.
        begin, end: addresses.
    """

    owner: Callable[[], Any]
    begin: int
    end: int

    @staticmethod
    def of(x: NDArray) -> _Memory:
        owner = _owner(x._data)
        try:
            reference: Callable[[], Any] = weakref.ref(owner)
        except TypeError:  # another library's, as a capsule: kept until the pass ends
            reference = partial(_itself, owner)
        begin = device_of(x.context).address(x._data)
        return _Memory(reference, begin, begin + x._data.nbytes)


def _owner(array: Any) -> Any:
    return array if array.base is None else array.base


def _itself(x: Any) -> Any:
    return x


class _Given(threading.local):
    """Memory that the ``backward`` of Functions returned during :func:`grad`, which the program may keep; None outside of it."""

    memory: list[_Memory] | None = None


_given = _Given()


def _sharing(gradients: Sequence[NDArray], others: Sequence[_Memory]) -> list[int]:
    """Which gradients to copy, so that none shares memory with another or with ``others``: the last of those that do."""
    if not others:
        arrays = [x._data for x in gradients]
        owners = {id(_owner(a)) for a in arrays}
        foreign = any(
            a.base is not None and type(a.base) is not type(a) for a in arrays
        )  # capsules of one memory differ
        if len(owners) == len(arrays) and not foreign:  # as nearly always: no two can touch
            return []
    spans: list[tuple[float, float, int]] = [(m.begin, m.end, -1) for m in others if m.owner() is not None]
    spans += [(m.begin, m.end, k) for k, m in enumerate(map(_Memory.of, gradients))]
    copied: list[int] = []
    together: list[int] = []  # numbers of arrays whose memory touches
    end = 0.0
    for start, stop, k in [*sorted(spans), (math.inf, 0, 0)]:
        if start >= end:
            copied += [i for i in sorted(together)[1:] if i >= 0]
            together = []
        if stop > start:
            together.append(k)
            end = max(end, stop)
    return copied


def _copied(gradient: NDArray, keep_history: bool) -> NDArray:
    with pause():
        copied = gradient.copy()
    copied._autograd = gradient._autograd if keep_history else None
    return copied


def get_symbol(x: NDArray) -> Any:
    """The recorded computation of an array as a Symbol; variables are named var0, var1, ….

    A hybridized block contributes the nodes of its graph.

    Raises:
        MXNetError: it was not recorded, or contains calls that are no operators (indexing, ``Function``).
    """
    from .name import NameManager
    from .runtime.recorded_program import RecordedCall
    from .symbol.node import Entry, SymbolNode
    from .symbol.symbol import Symbol

    info = x._autograd
    if info is None or info.node is None:
        raise MXNetError(f"Check failed: {tape.NOT_RECORDED}")
    leaves: dict[Any, Entry] = {}
    entries: dict[int, list[Entry]] = {}  # of each recorded call, its results
    names = NameManager()
    for node in backward_pass.recorded([info]):
        inputs = []
        for k, i in enumerate(node.inputs):
            if i is None or i.node is None:
                key = (id(node), k) if i is None else i.key
                inputs.append(leaves.setdefault(key, (SymbolNode(None, f"var{len(leaves)}", {}), 0)))
            else:
                inputs.append(entries[id(i.node)][i.index])
        if isinstance(node, RecordedCall):
            graph = copy.deepcopy(node.program.symbol)
            graph._replace(dict(zip(graph.list_inputs(), inputs, strict=True)))
            entries[id(node)] = graph._heads
            continue
        operator = getattr(node, "operator", None)
        if operator is None:
            raise MXNetError(f"the computation contains a call that is no operator ({type(node).__name__})")
        op, values = operator
        attributes = op.attribute_texts(dict(values.given))
        call = SymbolNode(op, names.get(None, op.name.lower()), attributes, inputs)
        entries[id(node)] = [(call, k) for k in range(call.num_outputs)]
    return Symbol([entries[id(info.node)][info.index]])


class _PythonCall(tape.Node):
    """A recorded call of a user's :class:`Function`."""

    __slots__ = ("arguments", "function", "kinds")

    def __init__(self, function: Function, inputs: Sequence[NDArray], results: Sequence[NDArray]) -> None:
        super().__init__(inputs, results)
        self.function: Any = function
        self.arguments = [x._type for x in inputs]
        self.kinds = [r._kind for r in results]

    def release(self) -> None:
        self.released = True
        self.function = None

    def backward(self, cotangents: Sequence[NDArray | None], wanted: Sequence[bool]) -> Sequence[NDArray | None]:
        filled = [self.zeros(k) if c is None else c for k, c in enumerate(cotangents)]
        # a function that gave arrays of np is given them
        gradients = self.function.backward(
            *(c if k is None else c._as_kind(k) for c, k in zip(filled, self.kinds, strict=True))
        )
        if isinstance(gradients, NDArray):
            gradients = (gradients,)
        assert len(gradients) == len(self.inputs), (
            f"{type(self.function).__name__}.backward must return exactly the same number of NDArrays as the number of "
            f"NDArrays arguments to forward. Expecting {len(self.inputs)} got {len(gradients)}"
        )
        for g in gradients:
            assert isinstance(g, NDArray), f"autograd.Function.backward must return NDArrays, not {type(g)}"
        fitted = [_fitted(g, t) for g, t, w in zip(gradients, self.arguments, wanted, strict=True) if w]
        if _given.memory is not None:
            _given.memory += map(_Memory.of, fitted)
        return fitted


def _fitted(gradient: NDArray, target: ArrayType) -> NDArray:
    """A user's gradient in the type of the array that it belongs to, as if it was assigned to it."""
    gradient = gradient.as_nd_ndarray()
    if gradient._type.tensor is target.tensor:
        return gradient
    if gradient.shape != target.shape:
        gradient = gradient.broadcast_to(target.shape)
    return gradient.astype(target.dtype.np, copy=False)


_NO_GRAPH = (
    "A graph does not call the backward of an autograd.Function: make it a mx.operator.CustomOp, and write "
    "F.Custom(x, op_type=...) in hybrid_forward, or call it where the block is not hybridized."
)


class Function:
    """A differentiable function with a derivative of your own.

    Subclass it, define ``forward(self, *inputs)`` and ``backward(self, *output_grads)`` (one array per
    input), and call an instance once. Values for ``backward`` go on ``self`` or through
    ``save_for_backward`` and ``saved_tensors``.

    Arrays only: with Symbols, in a block that is being traced, a call raises NotImplementedForSymbol, since the
    graph would take what ``forward`` does, with its own derivative, and never call ``backward``.
    """

    apply = AbsentMember("autograd.Function")

    def __init__(self) -> None:
        self._used = False
        self.saved_tensors: tuple[Any, ...] = ()

    def save_for_backward(self, *args: Any) -> None:
        """Keep arrays for ``backward``, where they are ``self.saved_tensors``."""
        self.saved_tensors = args

    def __call__(self, *inputs: NDArray) -> Any:
        if any(map(is_symbol, inputs)) or autograd_state.state.trace is not None:
            raise NotImplementedForSymbol(type(self).__name__, advice=located_hint(_NO_GRAPH))
        if not hasattr(self, "_used"):
            text = f"'{type(self).__name__}' object has no attribute '_used'"
            raise AttributeError(f"{text}\n{located_hint('Call super().__init__() first in __init__.')}", obj=self)
        assert not self._used, "Each Function instance can only be called once. Please create another instance."
        self._used = True
        flags = autograd_state.state.recording
        autograd_state.state.recording = False
        try:
            outputs = self.forward(*inputs)
        finally:
            autograd_state.state.recording = flags
        if not flags:
            return outputs
        results = [outputs] if isinstance(outputs, NDArray) else list(outputs)
        if tape.tracked(inputs):
            # an input that is returned as it is must not become a result of itself
            results = [r.detach() if any(r is x for x in inputs) else r for r in results]
            _PythonCall(self, inputs, results)
        return results[0] if isinstance(outputs, NDArray) else results

    def forward(self, *inputs: NDArray) -> Any:
        """The results for the inputs."""
        raise undefined(self, "forward(self, *inputs)")

    def backward(self, *output_grads: NDArray) -> Any:
        """The gradients of the inputs for those of the results."""
        raise undefined(self, "backward(self, *output_grads)")
