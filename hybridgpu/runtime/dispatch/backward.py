# SPDX-License-Identifier: Apache-2.0
"""Prepared backward passes: ``loss.backward()`` repeated with almost no Python, on the host.

A prepared recorded call (dispatch/prepare.py) leaves a node that knows its :class:`BackwardTemplate`: what all calls of that kind
have in common, with the addresses that do not change. Where a sweep consists of such nodes alone, each result is used
once and a single loss is swept, a :class:`_Plan` says what goes where, and it is made once: gradients of parameters
are written by the compiled programs straight into their buffers. Every other sweep is that of ndarray/backward_pass.py, which
runs the same nodes one by one.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ...backends.write_tracking import notify_writes, storage
from ...context import Context
from ...core.autograd_state import GradientInfo
from ...ndarray.binding_version import binding_version
from ...ndarray.ndarray import NDArray
from ...ndarray.tape import running_average
from ...ndarray.types import array_type
from .pools import REUSED_BYTES, OutputPool, result_allocator

if TYPE_CHECKING:
    from ..recorded_program import RecordedCall, RecordedProgram

__all__ = ["BackwardTemplate", "sweep"]

_PLANS = 8  #: sweeps that start at one kind of call, beyond which all are forgotten

_INPUTS, _KEPT, _COTANGENTS, _SEED = range(4)


class BackwardTemplate:
    """The common part of the recorded calls of one prepared call.

    Args:
        program: both programs; there is a backward one, and it runs on the host.
        params: parameters by position.
        moving: positions of the arguments.
        version: the binding version in which the addresses of the parameters are right.

    Attributes:
        params: the parameters.
        moving: see above. A node's ``addresses`` are the addresses of these inputs, ``residual_addresses`` those of its kept values.
    """

    __slots__ = (
        "__weakref__",
        "_bound",
        "_call",
        "_spec",
        "ctx",
        "moving",
        "outputs",
        "params",
        "plans",
        "program",
        "version"
    )  # fmt: skip

    def __init__(
        self,
        program: RecordedProgram,
        ctx: Context,
        params: Mapping[int, NDArray],
        moving: Sequence[int],
        version: int,
    ) -> None:
        self.program, self.ctx, self.moving, self.version = program, ctx, list(moving), version
        backward = program.backward
        assert backward is not None and backward.program is not None
        takes, fixed = program.input_map, backward.program.pinned_inputs
        self.params = list(params.values())
        self._bound = backward.loaded.bind([params[takes[i]].address for i in fixed])
        self._call = self._bound.call
        inputs, residuals = len(program.types), len(program.residuals)
        place = {k: n for n, k in enumerate(self.moving)}
        #: of each input of the backward program that may move: among which addresses it stands, and where
        self._spec: list[tuple[int, int]] = []
        for i, k in enumerate(takes):
            if i in fixed:
                continue
            if k < inputs:
                self._spec.append((_INPUTS, place[k]))
            elif k < inputs + residuals:
                self._spec.append((_KEPT, k - inputs))
            else:
                self._spec.append((_COTANGENTS, k - inputs - residuals))
        if backward.draws:
            self._spec.append((_SEED, 0))
        self.outputs = backward.outputs
        #: by where the arguments of the calls come from
        self.plans: dict[Any, _Plan | None] = {}

    def run(self, node: RecordedCall, cotangent: NDArray, results: list[int], arrays: list[Any]) -> None:
        """Run the backward program of a node whose only result has this cotangent.

        Args:
            results, arrays: where the results go.
        """
        if self._call is not None:
            words = 0 if node.seed is None else node.seed.__array_interface__["data"][0]
            tables = (node.addresses, node.residual_addresses, (cotangent._address,), (words,))
            self._call([tables[a][k] for a, k in self._spec] + results)
            return
        program, backward = self.program, self.program.backward  # library calls between the kernels
        assert backward is not None
        arguments = [*node.arrays, *node.residuals, cotangent._data]
        inputs = [arguments[k] for k in program.input_map]
        if backward.draws:
            inputs.append(node.seed)
        self._bound(inputs, arrays)


class _Step(NamedTuple):
    """One node of a sweep.

    Attributes:
        results, arrays: where the results go; None where an array of ``pools`` is taken.
        pools: (number of the result, what gives an array for it).
        passed: (number of the result, node whose cotangent it is).
        added: (number of the result, gradient that it is added to).
        zeroed: gradients that nothing reaches.
    """

    results: list[Any]
    arrays: list[Any]
    pools: list[tuple[int, Callable[[], NDArray]]]
    passed: list[tuple[int, int]]
    added: list[tuple[int, Any]]
    zeroed: list[Any]


class _Plan(NamedTuple):
    """A sweep over several nodes.

    Attributes:
        ones: the cotangent that it starts with.
        steps: one a node, in the order in which :func:`_nodes` finds them.
        leaves: what is marked as fresh.
        targets: memory that is written.
        owners: of the gradients: no argument may lie there.
    """

    ones: NDArray
    steps: list[_Step]
    leaves: list[GradientInfo]
    targets: list[Any]
    owners: frozenset[int]


def sweep(head: RecordedCall, retain: bool) -> bool:
    """Write the gradients of the only result of ``head`` into the buffers of all variables, if a plan can do it.

    Returns:
        False if nothing was done.
    """
    nodes_and_key = _nodes(head)
    if nodes_and_key is None:
        return False
    nodes, key = nodes_and_key
    template = head.template
    assert template is not None
    plan = template.plans.get(key)
    if plan is None:
        if key in template.plans:
            return False
        if len(template.plans) >= _PLANS:
            template.plans.clear()
        plan = template.plans[key] = _planned(nodes)
        if plan is None:
            return False
    owners = plan.owners
    for node in nodes:
        node_template: BackwardTemplate = node.template
        arrays = node.arrays
        for k in node_template.moving:
            if id(storage(arrays[k])) in owners:
                return False
    try:
        _run(plan, nodes)
    finally:
        notify_writes(plan.targets)
    if not retain:
        for node in nodes:
            node.release()
    return True


def _nodes(head: RecordedCall) -> tuple[list[Any], Any] | None:
    """The nodes below ``head``, which comes first, and what tells sweeps apart; None if some have no template."""
    kind, now = head.__class__, binding_version[0]
    nodes: list[Any] = [head]
    key: list[Any] = []
    for node in nodes:  # which grows meanwhile
        template = node.template
        if template is None or template.version != now or node.released or node.mark.overwritten:
            return None
        inputs = node.inputs
        for k in template.moving:
            info = inputs[k]
            if info is None:
                key.append(None)
                continue
            child = info.node
            # a variable among the arguments, or a value that two calls read
            if child.__class__ is not kind or child in nodes or child.template is None:
                return None
            nodes.append(child)
            key.append(weakref.ref(child.template))
    return nodes, tuple(key)


def _run(plan: _Plan, nodes: Sequence[Any]) -> None:
    cotangents: list[Any] = [plan.ones] * len(nodes)
    for n, (node, step) in enumerate(zip(nodes, plan.steps, strict=True)):
        results, arrays, pools, passed, added, zeroed = step
        if pools:
            results, arrays = results.copy(), arrays.copy()
            buffers = {}
            for r, take in pools:
                y = buffers[r] = take()
                results[r], arrays[r] = y._address, y._data
            for r, child in passed:
                cotangents[child] = buffers[r]
        node.template.run(node, cotangents[n], results, arrays)
        for r, target in added:
            target += arrays[r]
        for target in zeroed:
            target[...] = 0
        for write in node.writes:  # last: the derivative may read what they change
            running_average(*write)
    for info in plan.leaves:
        info.fresh = True


def _planned(nodes: Sequence[Any]) -> _Plan | None:
    """What a sweep over such nodes does, None if it has to be made node by node."""
    steps = []
    leaves: list[GradientInfo] = []
    targets: list[Any] = []
    place = {id(n): k for k, n in enumerate(nodes)}
    for node in nodes:
        template: BackwardTemplate = node.template
        program = template.program
        if program.heads != 1:
            return None
        results: list[Any] = [None] * len(template.outputs)
        arrays: list[Any] = [None] * len(template.outputs)
        passed, added, zeroed = [], [], []
        used: set[int] = set()
        gives = iter(program.output_map)
        for info, needs_grad in zip(node.inputs, program.wanted, strict=True):
            r = next(gives) if needs_grad else None
            if info is None:
                if needs_grad:
                    return None
                continue
            if info.node is None and info.grad_req == "null":  # it loses its buffer
                return None
            if r in used or not needs_grad:
                return None
            if r is not None:
                used.add(r)
            if info.node is not None:
                if r is None:
                    return None
                passed.append((r, place[id(info.node)]))
                continue
            leaves.append(info)
            target = info.grad
            targets.append(target._data)
            if r is None:
                if info.grad_req == "write":
                    zeroed.append(target._data)
                continue
            t = template.outputs[r]
            if target._type is not array_type(t.shape, t.dtype.np, template.ctx):
                return None
            if info.grad_req == "add":
                added.append((r, target._data))
            else:
                results[r], arrays[r] = target.address, target._data
        others = [(r, t) for r, t in enumerate(template.outputs) if results[r] is None]
        reuse = sum(t.nbytes for _, t in others) <= REUSED_BYTES
        assert program.backward is not None
        pools = [(r, result_allocator(t, template.ctx, program.backward.device, True, reuse)) for r, t in others]
        steps.append(_Step(results, arrays, pools, passed, added, zeroed))
    if not leaves:
        return None
    owners = [id(storage(t)) for t in targets]
    params = {id(storage(p._data)) for n in nodes for p in n.template.params}
    if len(set(owners)) < len(owners) or params.intersection(owners) or len({id(i) for i in leaves}) < len(leaves):
        return None
    head = nodes[0]
    for node in nodes[1:]:  # what is known of it goes with it
        weakref.finalize(node.template, head.template.plans.clear).atexit = False
    ones = OutputPool(head.template.program.forward.outputs[0], head.template.ctx).take()
    ones._data[...] = 1
    return _Plan(ones, steps, leaves, targets, frozenset(owners))
