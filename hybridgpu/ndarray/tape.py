# SPDX-License-Identifier: Apache-2.0
"""The autograd tape: recorded eager calls, and the backward pass over them.

Every call under ``record()`` with an input that gradients are wanted for leaves a node that its
results point to; nothing else holds it. A node knows the graph of primitives that it ran, so its
derivative is derived once per graph and kept. The derivative is run like any other call, and is
recorded itself under ``create_graph``, which is all that higher orders need.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from operator import mul
from typing import Any

import numpy as np

from ..backends.device_errors import call_with_retry, raise_translated, retry_after_oom
from ..backends.devices import Device, device_of
from ..backends.library import as_function
from ..backends.memory import empty
from ..backends.write_tracking import assign, notify_write
from ..base import MXNetError
from ..compiler.ir.graph import Graph
from ..compiler.passes.canonicalize.simplify import simplify
from ..compiler.passes.differentiate import differentiate
from ..compiler.reference import Interpreter
from ..context import Context
from ..core.autograd_state import GradientInfo, history, state
from ..core.source_location import located_hint
from ..ops.mutation import backward_order
from .device_scope import zeros_on
from .ndarray import NDArray, wrap
from .versions import latest

__all__ = [
    "DifferentiableGraph",
    "FunctionCall",
    "Node",
    "Pullback",
    "StatefulCall",
    "accumulate",
    "backward",
    "record_call",
    "recorded",
    "running_average",
    "tracked",
]

NOT_RECORDED = (
    "Cannot differentiate node because it is not in a computational graph. You need to set is_recording to true or use "
    "autograd.record() to save computational graphs for backward. If you want to differentiate the same graph twice, you "
    "need to pass retain_graph=True to backward."
)

NO_VARIABLES = (
    "Check failed: xs.size() > 0 (0 vs. 0) : There are no inputs in computation graph that require gradients.\n"
    "Call attach_grad() on an array before it is used under autograd.record(), or give a parameter grad_req='write'."
)

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
        """What a backward pass for the ``wanted`` inputs writes besides gradients, whether any gradient arrives or not."""
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


class DifferentiableGraph:
    """A graph that arrays are run through, with its derivatives, each made once."""

    __slots__ = ("_derivatives", "_runs", "draws", "graph")

    def __init__(self, graph: Graph, draws: bool) -> None:
        self.graph, self.draws = graph, draws
        self._runs: dict[Device, Interpreter] = {}
        self._derivatives: dict[Any, tuple[DifferentiableGraph, tuple[int, ...], tuple[int | None, ...]]] = {}

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
        run = self._runs.get(device)
        if run is None:
            hook = as_function(device.library, device.xp)
            run = self._runs[device] = Interpreter(simplify(self.graph), device.xp, special=hook)
        return run(*arrays)

    def derivative(
        self, given: tuple[bool, ...], wanted: tuple[bool, ...]
    ) -> tuple[DifferentiableGraph, tuple[int, ...], tuple[int | None, ...]]:
        """The backward function, what it takes of (inputs, results, given cotangents), what it gives."""
        key = (given, wanted)
        found = self._derivatives.get(key)
        if found is None:
            made = differentiate(self.graph, self.graph.outputs, given, wanted)
            found = self._derivatives[key] = (
                DifferentiableGraph(made.graph, made.uses_rng),
                made.input_positions,
                made.output_positions,
            )
        return found


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

    def _gradients(self, cotangents: Sequence[NDArray | None], wanted: Sequence[bool]) -> Sequence[NDArray | None]:
        visible = len(self.types)
        given = (*(c is not None for c in cotangents), *(False,) * (len(self.results) - visible))
        constant = (False,) * (len(self.arrays) - len(self.inputs))
        function, takes, gives = self.function.derivative(given, (*wanted, *constant))
        if not function.graph.outputs:
            return [None] * sum(wanted)
        heads = [c for c in cotangents if c is not None]
        results = run_function(function, [self._argument(k, heads) for k in takes], self.ctx, self.seed)
        return [None if k is None else results[k] for k in gives]

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
    """Run a derivative, recorded if recording is on."""
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
        found = self.function(*filled)
        return [g for g, w in zip(found, wanted, strict=True) if w]


# -- the sweep


def recorded(heads: Sequence[GradientInfo]) -> list[Node]:
    """Every node that the heads depend on, operands first; without recursion."""
    order: list[Node] = []
    done: set[int] = set()
    for head in heads:
        if head.node is None:
            continue
        stack: list[tuple[Node, int]] = [(head.node, 0)]
        while stack:
            node, k = stack.pop()
            if id(node) in done:
                continue
            if k < len(node.inputs):
                stack.append((node, k + 1))
                info = node.inputs[k]
                if info is not None and info.node is not None and id(info.node) not in done:
                    stack.append((info.node, 0))
                continue
            done.add(id(node))
            order.append(node)
    return order


def backward(
    heads: Sequence[NDArray],
    head_grads: Sequence[NDArray | None],
    variables: Sequence[GradientInfo] | None,
    retain_graph: bool,
    create_graph: bool,
    train_mode: bool,
) -> list[NDArray | None]:
    """Gradients of the sum of the heads, weighted by ``head_grads`` (None means ones).

    Args:
        variables: where gradients are wanted; None means in the buffers of all variables.

    Returns:
        The gradients of ``variables``, None where there is no way from a head.

    Raises:
        MXNetError: a head that was not recorded, or whose graph was released.
    """
    infos: list[Any] = list(map(history, heads))
    if any(i is None for i in infos):
        marked = located_hint(
            "Gradients go to parameters, and to arrays that x.attach_grad() was called for before they were used."
        )
        raise MXNetError(f"Check failed: !AGInfo::IsNone(*i): {NOT_RECORDED}\n{marked}")
    if len(infos) == 1 and variables is None and train_mode and not create_graph and head_grads[0] is None:
        node = infos[0].node
        if node is not None and node.sweep(retain_graph):
            return []
    if heads and (device := device_of(heads[0].context)).is_capturing():  # what is added up belongs to that graph, too
        with device.capture_scope() as hold:
            hold([x._data for x in head_grads if x is not None])
            return _general(heads, infos, head_grads, variables, retain_graph, create_graph, train_mode, hold)
    return _general(heads, infos, head_grads, variables, retain_graph, create_graph, train_mode)


def _general(
    heads: Sequence[NDArray],
    infos: Sequence[Any],
    head_grads: Sequence[NDArray | None],
    variables: Sequence[GradientInfo] | None,
    retain_graph: bool,
    create_graph: bool,
    train_mode: bool,
    hold: Callable[[Sequence[Any]], None] | None = None,
) -> list[NDArray | None]:
    """As :func:`backward`, of recorded heads; ``hold`` is told the buffers that are written."""
    order = recorded(infos)
    if any(n.released for n in order):
        raise MXNetError(f"Check failed: {NOT_RECORDED}")
    found: dict[Any, NDArray] = {}
    old = state.recording, state.training
    state.recording, state.training = create_graph, train_mode
    try:
        for head, info, given in zip(heads, infos, head_grads, strict=True):
            accumulate(found, info.key, _head_gradient(head, given))
        met = {id(i): i for i in (*infos, *(i for n in order for i in n.inputs)) if i is not None and i.node is None}
        wanted = variables or [i for i in met.values() if i.grad_req != "null"]
        leaves = {i.key: i for i in wanted}
        if met and not wanted:  # without any, a derivative does not depend on what it was taken at
            raise MXNetError(NO_VARIABLES)
        if hold is not None:
            hold([leaf.grad._data for leaf in leaves.values() if leaf.grad is not None])
        _run(order, found, infos, leaves, variables, retain_graph)
        if not retain_graph:
            for info in met.values():
                if info.grad_req == "null":
                    info.grad = None
        if variables is not None:
            gradients = [found.get(v.key) for v in variables]
            if create_graph:  # a gradient that is constant is still part of the graph, with derivative zero
                constant = [g for g in gradients if g is not None and g._autograd is None]
                if constant:
                    Node((), constant)
            return gradients
        for key, leaf in leaves.items():
            _deliver(leaf, found.get(key))
        return []
    finally:
        state.recording, state.training = old


def _head_gradient(head: NDArray, given: NDArray | None) -> NDArray:
    """What the gradient of ``head`` starts with.

    Raises:
        MXNetError: ``given`` has another size, element type or device than the head.
    """
    if given is None:
        device = device_of(head.context)
        with device.current():
            made = empty(device.xp, head.shape, head._data.dtype)
            assign(made, 1)
            return wrap(made, head.context)
    given = given.as_nd_ndarray()
    if given.size != head.size:
        raise MXNetError(f"a head gradient has shape {given.shape}, its head {head.shape}")
    if given._type.dtype is not head._type.dtype:
        expected, got = head._type.dtype.np, given._type.dtype.np
        raise MXNetError(
            "Check failed: mshadow: :DataType<DType>::kFlag == type_flag_: TBlob.get_with_shape: data type do not match "
            f"specified type.Expected: {expected} v.s. given {got}\nWrite head_grad.astype('{expected}')."
        )
    if given.context != head.context and "gpu" in (given.context.device_type, head.context.device_type):
        raise MXNetError(
            f"a head gradient is on {given.context}, its head on {head.context}\nMove it with as_in_context({head.context})."
        )
    return given.reshape(head.shape) if given.shape != head.shape else given


def accumulate(found: dict[Any, NDArray], key: Any, g: NDArray) -> None:
    """Add a cotangent to what was found."""
    old = found.get(key)
    if old is None:
        found[key] = g
    elif g.dtype == np.bool_:  # as in compiled programs: any of them
        found[key] = wrap(old._data | g._data, g.context)
    else:
        found[key] = old + g


def _run(
    order: Sequence[Node],
    found: dict[Any, NDArray],
    heads: Sequence[GradientInfo],
    leaves: dict[Any, GradientInfo],
    variables: Sequence[GradientInfo] | None,
    retain: bool,
) -> None:
    """Run the backward passes; each makes its writes before its node is released, which may own what is written."""
    reaches: set[Any] = set(leaves)  # values that a wanted variable reaches
    wanted: dict[int, list[bool]] = {}
    targets: list[int] = []
    for node in order:
        flags = [i is not None and i.key in reaches for i in node.inputs]
        if True in flags:
            flags = node.reached(flags)
            if True in flags:
                reaches.update([(id(node), k) for k in range(len(node.types))])
                targets += [id(target) for target, _, _ in node.due(flags)]
        wanted[id(node)] = flags
    sweep = list(reversed(order))
    if len(set(targets)) < len(targets):  # several writes of one array, such as of two calls of one layer
        sweep = _as_mxnet(order, heads, leaves, variables)
        if not retain:
            swept = set(map(id, sweep))
            sweep += [n for n in order if id(n) not in swept]  # to be released
    for node in sweep:
        keys = [(id(node), k) for k in range(len(node.types))]
        # a wanted intermediate value keeps its cotangent
        cotangents = [found.get(k) if k in leaves else found.pop(k, None) for k in keys]
        flags = wanted[id(node)]
        if True in flags:
            if any(c is not None for c in cotangents):
                parts = iter(node.backward(cotangents, flags))
                for info, want in zip(node.inputs, flags, strict=True):
                    if want:
                        part = next(parts)
                        if part is not None:
                            assert info is not None
                            accumulate(found, info.key, part)
            due = node.due(flags)
            if due:
                _write(node, due)
        if not retain:
            node.release()


def _write(node: Any, due: Sequence[Pending]) -> None:
    with device_of(node.ctx).current():
        for target, value, keep in due:
            running_average(target, value, keep)


def _as_mxnet(
    order: Sequence[Node],
    heads: Sequence[GradientInfo],
    leaves: Collection[Any],
    variables: Sequence[GradientInfo] | None,
) -> list[Node]:
    """The nodes whose backward passes run, in MXNet's order."""
    return backward_order(
        order,
        _reads,
        lambda node: [(id(node), k) for k in range(len(node.types))],
        [v.key for v in variables or _variables(heads) if v.key in leaves],
    )


def _reads(node: Node) -> list[Any]:
    """The values whose gradients the node's backward pass computes."""
    having = node.reached([True] * len(node.inputs))
    return [i.key for i, h in zip(node.inputs, having, strict=True) if i is not None and h]


def _variables(heads: Sequence[GradientInfo]) -> list[GradientInfo]:
    """The variables that the heads depend on, in the order of MXNet's ``list_inputs``."""
    found: dict[Any, GradientInfo] = {}
    met: set[int] = set()
    stack: list[GradientInfo | None] = [*reversed(heads)]
    while stack:
        info = stack.pop()
        if info is None:
            continue
        if info.node is None:
            found.setdefault(info.key, info)
        elif id(info.node) not in met:
            met.add(id(info.node))
            stack += reversed(info.node.inputs)
    return list(found.values())


def _deliver(leaf: GradientInfo, gradient: NDArray | None) -> None:
    """Write a gradient into the buffer of a variable."""
    target = leaf.grad._data
    leaf.fresh = True
    with device_of(leaf.grad.context).current():
        if leaf.grad_req == "add":
            if gradient is not None:
                try:
                    target += gradient._data
                except Exception as e:
                    raise_translated(e)
                finally:
                    notify_write(target)
        elif gradient is None:
            assign(target, 0)
        else:
            assign(target, gradient._data)
