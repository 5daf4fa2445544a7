# SPDX-License-Identifier: Apache-2.0
"""The backward pass over the autograd tape: from heads to the gradients of variables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from ..backends.device_errors import raise_translated
from ..backends.devices import Device, device_of
from ..backends.memory import empty
from ..backends.write_tracking import assign, notify_write
from ..base import MXNetError
from ..core.autograd_state import GradientInfo, history, state
from ..core.source_location import located_hint
from ..ops.mutation import backward_order
from .ndarray import NDArray, wrap
from .tape import NOT_RECORDED, FunctionCall, Node, Pending, prepare_all, running_average

__all__ = ["accumulate", "backward", "recorded"]

NO_VARIABLES = (
    "Check failed: xs.size() > 0 (0 vs. 0) : There are no inputs in computation graph that require gradients.\n"
    "Call attach_grad() on an array before it is used under autograd.record(), or give a parameter grad_req='write'."
)


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


_RELEASED = (
    "A backward pass has run already, and released what it needed: write y.backward(retain_graph=True) for the first one, or "
    "record the computation again."
)
_NOTHING = (
    "Compute it under autograd.record(), by operators alone: asnumpy() leaves the graph. Gradients go to parameters, and to "
    "arrays that x.attach_grad() was called for before they were used."
)


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
        whole = [x._autograd for x, i in zip(heads, infos, strict=True) if i is None]
        text = _RELEASED if any(i is not None and i.node is not None for i in whole) else _NOTHING
        raise MXNetError(f"Check failed: !AGInfo::IsNone(*i): {NOT_RECORDED}\n{located_hint(text)}")
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
        raise MXNetError(f"Check failed: {NOT_RECORDED}\n{located_hint(_RELEASED)}")
    cotangents_by_key: dict[Any, NDArray] = {}
    old = state.recording, state.training
    state.recording, state.training = create_graph, train_mode
    try:
        for head, info, head_grad in zip(heads, infos, head_grads, strict=True):
            accumulate(cotangents_by_key, info.key, _head_gradient(head, head_grad))
        met = {id(i): i for i in (*infos, *(i for n in order for i in n.inputs)) if i is not None and i.node is None}
        targets = variables or [i for i in met.values() if i.grad_req != "null"]
        leaves = {i.key: i for i in targets}
        if met and not targets:  # without any, a derivative does not depend on what it was taken at
            raise MXNetError(NO_VARIABLES)
        if hold is not None:
            hold([leaf.grad._data for leaf in leaves.values() if leaf.grad is not None])
        _run(order, cotangents_by_key, infos, leaves, variables, retain_graph)
        if not retain_graph:
            for info in met.values():
                if info.grad_req == "null":
                    info.grad = None
        if variables is not None:
            gradients = [cotangents_by_key.get(v.key) for v in variables]
            if create_graph:  # a gradient that is constant is still part of the graph, with derivative zero
                constant = [g for g in gradients if g is not None and g._autograd is None]
                if constant:
                    Node((), constant)
            return gradients
        for key, leaf in leaves.items():
            _deliver(leaf, cotangents_by_key.get(key))
        return []
    finally:
        state.recording, state.training = old


def _head_gradient(head: NDArray, head_grad: NDArray | None) -> NDArray:
    """What the gradient of ``head`` starts with.

    Raises:
        MXNetError: ``head_grad`` has another size, element type or device than the head.
    """
    if head_grad is None:
        device = device_of(head.context)
        with device.current():
            ones = empty(device.xp, head.shape, head._data.dtype)
            assign(ones, 1)
            return wrap(ones, head.context)
    head_grad = head_grad.as_nd_ndarray()
    if head_grad.size != head.size:
        raise MXNetError(f"a head gradient has shape {head_grad.shape}, its head {head.shape}")
    if head_grad._type.dtype is not head._type.dtype:
        expected, got = head._type.dtype.np, head_grad._type.dtype.np
        raise MXNetError(
            "Check failed: mshadow: :DataType<DType>::kFlag == type_flag_: TBlob.get_with_shape: data type do not match "
            f"specified type.Expected: {expected} v.s. given {got}\nWrite head_grad.astype('{expected}')."
        )
    if head_grad.context != head.context and "gpu" in (head_grad.context.device_type, head.context.device_type):
        raise MXNetError(
            f"a head gradient is on {head_grad.context}, its head on {head.context}\nMove it with as_in_context({head.context})."
        )
    return head_grad.reshape(head.shape) if head_grad.shape != head.shape else head_grad


def accumulate(cotangents_by_key: dict[Any, NDArray], key: Any, g: NDArray) -> None:
    """Add a cotangent to what was found."""
    old = cotangents_by_key.get(key)
    if old is None:
        cotangents_by_key[key] = g
    elif g.dtype == np.bool_:  # as in compiled programs: any of them
        cotangents_by_key[key] = wrap(old._data | g._data, g.context)
    else:
        cotangents_by_key[key] = old + g


def _run(
    order: list[Node],
    cotangents_by_key: dict[Any, NDArray],
    heads: Sequence[GradientInfo],
    leaves: dict[Any, GradientInfo],
    variables: Sequence[GradientInfo] | None,
    retain: bool,
) -> None:
    """Run the backward passes; each makes its writes before its node is released, which may own what is written."""
    of_results = any(leaf.node is not None for leaf in leaves.values())  # of which gradients are wanted, too
    masks: dict[int, list[bool]] = {}  # of the nodes whose backward passes run: which inputs lead to a wanted variable
    writes: dict[int, Sequence[Pending]] = {}
    written_ids: list[int] = []
    for node in order:
        flags = [
            i is not None
            and (
                id(i) in leaves
                if i.node is None
                else id(i.node) in masks or (of_results and (id(i.node), i.index) in leaves)
            )
            for i in node.inputs
        ]
        if True in flags:
            flags = node.reached(flags)
            if True in flags:
                masks[id(node)] = flags
                due = node.due(flags)
                if due:
                    writes[id(node)] = due
                    written_ids += [id(target) for target, _, _ in due]
    sweep = order[::-1]
    if len(set(written_ids)) < len(written_ids):  # several writes of one array, such as of two calls of one layer
        sweep = _in_mxnet_order(order, heads, leaves, variables)
        if not retain:
            swept = set(map(id, sweep))
            sweep += [n for n in order if id(n) not in swept]  # to be released
    _prepare(sweep, masks)
    for node in sweep:
        # a wanted intermediate value keeps its cotangent
        cotangents = [
            cotangents_by_key.get(k) if of_results and k in leaves else cotangents_by_key.pop(k, None)
            for k in _keys(node)
        ]
        mask = masks.get(id(node))
        if mask is not None:
            for cotangent in cotangents:
                if cotangent is not None:
                    _pull(node, cotangents, mask, cotangents_by_key)
                    break
            if id(node) in writes:
                _write(node, writes.pop(id(node)))
        if not retain:
            node.release()


def _pull(
    node: Node, cotangents: Sequence[NDArray | None], wanted: Sequence[bool], cotangents_by_key: dict[Any, NDArray]
) -> None:
    """Run a node's backward pass, and add up what it gives."""
    parts = node.backward(cotangents, wanted)
    k = 0
    for info, want in zip(node.inputs, wanted, strict=True):
        if want:
            part = parts[k]
            k += 1
            if part is not None:
                assert info is not None
                key = info.key
                if key in cotangents_by_key:
                    accumulate(cotangents_by_key, key, part)
                else:
                    cotangents_by_key[key] = part


def _keys(node: Node) -> list[Any]:
    """Those of a node's results."""
    number = id(node)
    return [(number, 0)] if len(node.types) == 1 else [(number, k) for k in range(len(node.types))]


def _prepare(sweep: Sequence[Node], masks: dict[int, list[bool]]) -> None:
    """Make all at once what a first backward pass runs: compiled one by one, a user would wait for twice as long."""
    new = {id(n.function): n for n in sweep if n.__class__ is FunctionCall and not n.function.differentiated}
    if len(new) < 2:
        return
    functions: dict[Device, list[Any]] = {}
    for node in new.values():
        flags = masks.get(id(node))
        if flags is not None and len(node.types) == 1:  # of several results it is not known which have cotangents
            functions.setdefault(device_of(node.ctx), []).append(node.likely_derivative(flags))
    for device, derivatives in functions.items():
        prepare_all([f for f in derivatives if f is not None], device)


def _write(node: Any, due: Sequence[Pending]) -> None:
    with device_of(node.ctx).current():
        for target, value, keep in due:
            running_average(target, value, keep)


def _in_mxnet_order(
    order: Sequence[Node],
    heads: Sequence[GradientInfo],
    leaves: Collection[Any],
    variables: Sequence[GradientInfo] | None,
) -> list[Node]:
    """The nodes whose backward passes run, in MXNet's order."""
    return backward_order(
        order,
        _reads,
        _keys,
        [v.key for v in variables or _variables(heads) if v.key in leaves],
    )


def _reads(node: Node) -> list[Any]:
    """The values whose gradients the node's backward pass computes."""
    having = node.reached([True] * len(node.inputs))
    return [i.key for i, h in zip(node.inputs, having, strict=True) if i is not None and h]


def _variables(heads: Sequence[GradientInfo]) -> list[GradientInfo]:
    """The variables that the heads depend on, in the order of MXNet's ``list_inputs``."""
    variables: dict[Any, GradientInfo] = {}
    met: set[int] = set()
    stack: list[GradientInfo | None] = [*reversed(heads)]
    while stack:
        info = stack.pop()
        if info is None:
            continue
        if info.node is None:
            variables.setdefault(info.key, info)
        elif id(info.node) not in met:
            met.add(id(info.node))
            stack += reversed(info.node.inputs)
    return list(variables.values())


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
