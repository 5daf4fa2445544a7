# SPDX-License-Identifier: Apache-2.0
"""The autograd tape: recorded eager calls; ``backward_pass`` goes over them.

Every call under ``record()`` with an input that gradients are wanted for leaves a node that its
results point to; nothing else holds it. A node knows the graph of primitives that it ran, so its
derivative is derived once per graph and kept. The derivative is run like any other call, and is
recorded itself under ``create_graph``, which is all that higher orders need.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import mul
from typing import Any, NamedTuple

import numpy as np

from ..backends.device_errors import call_with_retry, raise_translated, retry_after_oom
from ..backends.devices import Device, device_of
from ..backends.write_tracking import assign, notify_write
from ..base import MXNetError
from ..compiler.ir.graph import Graph
from ..compiler.ir.types import TensorType
from ..compiler.passes.differentiate import differentiate
from ..context import Context
from ..core.autograd_state import GradientInfo, history, state
from .backward_plan_source import backward_plan_of
from .device_scope import zeros_on
from .kernels import runners
from .ndarray import NDArray, wrap
from .plans import observation
from .versions import latest

__all__ = [
    "DifferentiableGraph",
    "FunctionCall",
    "Node",
    "Pullback",
    "SizedGraph",
    "StatefulCall",
    "prepare_all",
    "record_call",
    "running_average",
    "tracked",
]

NOT_RECORDED = (
    "Cannot differentiate node because it is not in a computational graph. You need to set is_recording to true or use "
    "autograd.record() to save computational graphs for backward. If you want to differentiate the same graph twice, you "
    "need to pass retain_graph=True to backward."
)

_CALLS_BEFORE_PLAN = 2  #: backward passes of a kind, before Python is written that repeats them

#: an array that takes a value, and how much of the old one stays; see :func:`running_average`
Pending = tuple[Any, Any, float]


def tracked(inputs: Sequence[NDArray]) -> bool:
    """True if a call on these arrays is to be recorded."""
    if not state.recording:
        return False
    for x in inputs:
        if x._autograd is not None and history(x) is not None:
            return True
    return False


class Node:
    """A recorded call.

    Attributes:
        inputs: what each input knew of gradients when the call was made, None for constants.
        types: types of the results, for cotangents that are zero.
        released: True after a backward pass that did not retain the graph.
    """

    __slots__ = ("__weakref__", "inputs", "released", "types")

    def __init__(self, inputs: Sequence[NDArray], results: Sequence[NDArray]) -> None:
        self.inputs: list[GradientInfo | None] = [history(x) for x in inputs]
        self.types = [r._type for r in results]
        self.released = False
        for k, r in enumerate(results):
            r._autograd = GradientInfo(None, "null", self, k)

    def backward(self, cotangents: Sequence[NDArray | None], wanted: Sequence[bool]) -> Sequence[NDArray | None]:
        """Cotangents of the wanted inputs (None where zero), for those of the results (None where zero)."""
        raise NotImplementedError

    def sweep(self, retain: bool) -> bool:
        """Write the gradients of this call's first result into the buffers of all variables, in a way of its own.

        Returns:
            False if there is none: then nothing was done.
        """
        return False

    def reached(self, flags: list[bool]) -> list[bool]:
        """For inputs that lead to a wanted variable, those of them whose gradients the backward pass computes."""
        return flags

    def due(self, wanted: Sequence[bool]) -> Sequence[Pending]:
        """The writes of a backward pass for the ``wanted`` inputs besides gradients, whether any gradient arrives or not."""
        return ()

    def release(self) -> None:
        """Forget what the backward pass needs."""
        self.released = True

    def zeros(self, k: int) -> NDArray:
        """A zero cotangent of result ``k``."""
        t = self.types[k]
        return zeros_on(t.ctx, t.shape, t.dtype.np)


def running_average(target: Any, value: Any, keep: float) -> None:
    """Write ``keep`` of ``target`` and the rest of ``value`` into the array ``target``."""
    target = latest(target)
    if keep:
        try:
            part = value * (1 - keep)
        except Exception as e:  # with nothing changed yet
            part = retry_after_oom(e, mul, value, 1 - keep)
        try:
            target *= keep
            target += part
        except Exception as e:
            raise_translated(e)
        finally:
            notify_write(target)
    else:
        assign(target, value)


class SizedGraph(NamedTuple):
    """A graph for any sizes of an operator's inputs: with dimensions for their extents, all of a size bucket have the same
    kernels.

    Attributes:
        types: of the operator's inputs; those of a derivative follow from them.
        lower: makes the graph for other types in their place.
        key: what the graph depends on besides.
    """

    types: Sequence[TensorType]
    lower: Callable[[Sequence[TensorType]], Graph]
    key: Any


class DifferentiableGraph:
    """A graph that arrays are run through, with its derivatives, each made once.

    Args:
        sized: how it is made with dimensions for extents; None where nobody can.

    Attributes:
        backward_calls: numbers of backward passes of calls, by which cotangents are given and which inputs are wanted.
        backward_plans: what repeats such passes.
    """

    __slots__ = ("_derivatives", "_runs", "backward_calls", "backward_plans", "draws", "graph", "sized")

    def __init__(self, graph: Graph, sized: SizedGraph | None = None) -> None:
        self.graph, self.draws, self.sized = graph, graph.draws, sized
        self._runs: dict[Device, Callable[..., list[Any]]] = {}
        self._derivatives: dict[Any, tuple[DifferentiableGraph, tuple[int, ...], tuple[int | None, ...]]] = {}
        self.backward_calls: dict[Any, int] = {}
        self.backward_plans: dict[Any, Callable[..., Sequence[NDArray | None]]] = {}

    def run(self, device: Device, arrays: Sequence[Any]) -> list[Any]:
        """Results for arrays of the device, the random state last."""
        if device.needs_switch():
            with device.current():
                return call_with_retry(self._run, device, arrays)
        try:
            return self._run(device, arrays)
        except Exception as e:
            return retry_after_oom(e, self._run, device, arrays)

    def _run(self, device: Device, arrays: Sequence[Any]) -> list[Any]:
        return self.prepared(device)(*arrays)

    def prepared(self, device: Device) -> Callable[..., list[Any]]:
        """The runner on arrays of the device: an interpreter, or a kernel (kernels.py)."""
        run = self._runs.get(device)
        if run is None:
            run = self._runs[device] = runners([self], device)[0]
        return run

    @property
    def differentiated(self) -> bool:
        """Whether a derivative was asked for before."""
        return bool(self._derivatives)

    def derivative(
        self, given: tuple[bool, ...], wanted: tuple[bool, ...]
    ) -> tuple[DifferentiableGraph, tuple[int, ...], tuple[int | None, ...]]:
        """The backward function, what it takes of (inputs, results, given cotangents), what it gives."""
        key = (given, wanted)
        entry = self._derivatives.get(key)
        if entry is None:
            gradient = differentiate(self.graph, self.graph.outputs, given, wanted)

            sized = None
            if (of := self.sized) is not None:

                def lower(types: Sequence[TensorType]) -> Graph:
                    graph = of.lower(types)
                    return differentiate(graph, graph.outputs, given, wanted).graph

                sized = SizedGraph(of.types, lower, (of.key, *key))
            entry = self._derivatives[key] = (
                DifferentiableGraph(gradient.graph, sized),
                gradient.input_positions,
                gradient.output_positions,
            )
        return entry


def prepare_all(functions: Sequence[DifferentiableGraph], device: Device) -> None:
    """Make what runs functions on arrays of the device, side by side where it has to be compiled."""
    new = [f for f in functions if device not in f._runs]
    with device.current():
        for f, run in zip(new, runners(new, device), strict=True):
            f._runs[device] = run


class StatefulCall(Node):
    """A recorded call whose backward pass, each time that it runs in training, also makes ``writes``."""

    __slots__ = ("arrays", "ctx", "seed", "writes")

    def __init__(
        self,
        inputs: Sequence[NDArray],
        results: Sequence[NDArray],
        ctx: Context,
        seed: Any,
        writes: Sequence[Pending],
    ) -> None:
        super().__init__(inputs, results)
        self.arrays = [x._data for x in inputs]
        self.ctx, self.seed = ctx, seed
        self.writes: Sequence[Pending] = writes

    def release(self) -> None:
        self.released = True
        self.arrays = []
        self.writes = ()
        self.seed = None

    def backward(self, cotangents: Sequence[NDArray | None], wanted: Sequence[bool]) -> Sequence[NDArray | None]:
        for c, t in zip(cotangents, self.types, strict=True):
            if c is not None and c._type.tensor is not t.tensor:
                # compiled code trusts what it is given
                raise MXNetError(f"a gradient of type {c._type.tensor!r} arrived where {t.tensor!r} is needed")
        return self._gradients(cotangents, wanted)

    def due(self, wanted: Sequence[bool]) -> Sequence[Pending]:
        if not self.writes or not state.training:
            return ()
        bits = sum(1 << k for k, w in enumerate(wanted) if w)
        return [w for w, n in zip(self.writes, self._needs(), strict=True) if n & bits]

    def _needs(self) -> Sequence[int]:
        """For each write, bits of the inputs of which one has to be wanted for it to happen."""
        raise NotImplementedError

    def _gradients(self, cotangents: Sequence[NDArray | None], wanted: Sequence[bool]) -> Sequence[NDArray | None]:
        """As ``backward``, for cotangents that fit."""
        raise NotImplementedError


class FunctionCall(StatefulCall):
    """A recorded call of a :class:`DifferentiableGraph`."""

    __slots__ = ("function", "needs", "operator", "results")

    def __init__(
        self,
        function: DifferentiableGraph,
        inputs: Sequence[NDArray],
        results: Sequence[NDArray],
        ctx: Context,
        seed: Any = None,
        hidden: Sequence[Any] = (),
        writes: Sequence[Pending] = (),
        operator: Any = None,
        needs: Sequence[int] = (),
        numbers: Sequence[Any] = (),
    ) -> None:
        """
        Args:
            hidden: results that callers do not see.
            writes: what the backward pass writes.
            operator: (record, attributes) that made the call.
            needs: for each write, bits of the inputs of which one has to be wanted for it to happen; without it any.
            numbers: arrays that the function takes behind the inputs: the operator's attributes that vary.
        """
        super().__init__(inputs, results, ctx, seed, writes)
        self.arrays += numbers
        self.function, self.operator = function, operator
        self.needs = needs
        self.results = [*(r._data for r in results), *hidden]

    def release(self) -> None:
        super().release()
        self.results = []

    def reached(self, flags: list[bool]) -> list[bool]:
        if self.operator is None:
            return flags
        op, values = self.operator
        if op.all_with_gradient:
            return flags
        having = op.inputs_with_gradient(values, len(flags))
        return flags if len(having) == len(flags) else [f and k in having for k, f in enumerate(flags)]

    def due(self, wanted: Sequence[bool]) -> Sequence[Pending]:
        return super().due(wanted) if self.needs else self.writes if state.training else ()

    def _needs(self) -> Sequence[int]:
        return self.needs

    def backward(self, cotangents: Sequence[NDArray | None], wanted: Sequence[bool]) -> Sequence[NDArray | None]:
        if state.recording or observation.active:
            return super().backward(cotangents, wanted)
        function, key = self.function, (*[c is None for c in cotangents], *wanted)
        plan = function.backward_plans.get(key)
        if plan is not None:
            return plan(self, cotangents, wanted)
        gradients = super().backward(cotangents, wanted)
        calls = function.backward_calls[key] = function.backward_calls.get(key, 0) + 1
        if calls > _CALLS_BEFORE_PLAN and (plan := self._backward_plan(cotangents, wanted)) is not None:
            function.backward_plans[key] = plan
        return gradients

    def _backward_plan(
        self, cotangents: Sequence[NDArray | None], wanted: Sequence[bool]
    ) -> Callable[..., Sequence[NDArray | None]] | None:
        """What repeats the backward pass of such calls; None where it is not to be repeated as it was."""
        function, takes, gives = self._derivative([c is not None for c in cotangents], wanted)
        device = device_of(self.ctx)
        if function.draws or not function.graph.outputs or device.xp is not np:
            return None
        types = [None if c is None else t for c, t in zip(cotangents, self.types, strict=True)]
        counts = len(self.arrays), len(self.results)
        return backward_plan_of(
            function.prepared(device), function.graph, (takes, gives), counts, types, StatefulCall.backward
        )

    def _derivative(self, given: Sequence[bool], wanted: Sequence[bool]) -> Any:
        """As :meth:`DifferentiableGraph.derivative`, for the results that callers see and the inputs."""
        hidden = (False,) * (len(self.results) - len(self.types))
        constant = (False,) * (len(self.arrays) - len(self.inputs))
        return self.function.derivative((*given, *hidden), (*wanted, *constant))

    def likely_derivative(self, wanted: Sequence[bool]) -> DifferentiableGraph | None:
        """The derivative that the backward pass runs if each result has a cotangent; None if the call cannot be differentiated."""
        try:
            derivative: DifferentiableGraph = self._derivative([True] * len(self.types), wanted)[0]
        except MXNetError:  # there is none: the pass raises it itself if it comes here. Any other error is a fault
            return None
        return derivative if derivative.graph.outputs else None

    def _gradients(self, cotangents: Sequence[NDArray | None], wanted: Sequence[bool]) -> Sequence[NDArray | None]:
        function, takes, gives = self._derivative([c is not None for c in cotangents], wanted)
        if not function.graph.outputs:
            return [None] * sum(wanted)
        heads = [c for c in cotangents if c is not None]
        if state.recording:
            results = run_function(function, [self._argument(k, heads) for k in takes], self.ctx, self.seed)
            return [None if k is None else results[k] for k in gives]
        arrays, ctx = self.arrays, self.ctx
        first, last = len(arrays), len(arrays) + len(self.results)
        raw = [
            latest(arrays[k]) if k < first else self.results[k - first] if k < last else heads[k - last]._data
            for k in takes
        ]
        if function.draws:
            raw.append(self.seed)
        gradients = function.run(device_of(ctx), raw)
        return [None if k is None else wrap(gradients[k], ctx) for k in gives]

    def _argument(self, k: int, heads: Sequence[NDArray]) -> NDArray:
        if k < len(self.arrays):
            x = wrap(latest(self.arrays[k]), self.ctx)
            if k < len(self.inputs):
                x._autograd = self.inputs[k]
            return x
        k -= len(self.arrays)
        if k < len(self.results):
            x = wrap(self.results[k], self.ctx)
            if k < len(self.types):
                x._autograd = GradientInfo(None, "null", self, k)
            return x
        return heads[k - len(self.results)]


def run_function(function: DifferentiableGraph, arrays: Sequence[NDArray], ctx: Context, seed: Any) -> list[NDArray]:
    """Run a derivative while recording is on."""
    raw = [a._data for a in arrays]
    if function.draws:
        raw.append(seed)
    results = [wrap(r, ctx) for r in function.run(device_of(ctx), raw)]
    if tracked(arrays):
        FunctionCall(function, arrays, results, ctx, seed)
    return results


def record_call(
    forward: Callable[..., Sequence[NDArray]],
    pullback: Callable[..., Sequence[NDArray | None]],
    inputs: Sequence[NDArray],
) -> list[NDArray]:
    """Call ``forward(*inputs)`` and record ``pullback(*cotangents)``, both made of operations on arrays."""
    track = tracked(inputs)
    recording, state.recording = state.recording, False
    try:
        results = list(forward(*inputs))
    finally:
        state.recording = recording
    if track:
        Pullback(pullback, inputs, results)
    return results


class Pullback(Node):
    """A recorded call whose derivative is a Python function of the cotangents."""

    __slots__ = ("function",)

    def __init__(self, function: Any, inputs: Sequence[NDArray], results: Sequence[NDArray]) -> None:
        super().__init__(inputs, results)
        self.function = function

    def release(self) -> None:
        self.released = True
        self.function = None

    def backward(self, cotangents: Sequence[NDArray | None], wanted: Sequence[bool]) -> Sequence[NDArray | None]:
        filled = [self.zeros(k) if c is None else c for k, c in enumerate(cotangents)]
        gradients = self.function(*filled)
        return [g for g, w in zip(gradients, wanted, strict=True) if w]
