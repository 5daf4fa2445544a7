# SPDX-License-Identifier: Apache-2.0
"""Every record whose operator writes inputs: eagerly, hybridized and without a compiler these hold the same after each
phase of a training step, and change when the record says so.

Rows come from the records, as in test_table.py. That records say what MXNet does is for gluon/test_states.py (averages)
and test_golden.py (updates).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ops.test_table import RECORDS, Case, cases

import hybridgpu as mx
from hybridgpu import autograd, nd
from hybridgpu.ndarray.apply import operator_graph
from hybridgpu.ops.mutation import When
from hybridgpu.ops.record import Operator

#: without results an operator is in no graph
WRITING = [op for op in RECORDS if op.mutates and op.outputs != 0]
PHASES = ("predict", "train", "recorded in predict mode", "recorded", "backward", "backward again")


class Call(mx.gluon.HybridBlock):
    """The results of an operator, times a number that is trained."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.case = case

    def hybrid_forward(self, F: Any, number: Any, *inputs: Any) -> Any:
        out = self.case.run(F, list(inputs))[0]
        return F.broadcast_mul(F.reshape(F.cast(out, "float32"), shape=(1, -1)), number)


def follow(case: Case, wanted: tuple[int, ...], hybridized: bool) -> list[list[np.ndarray]]:
    """What the inputs hold after each phase, in which gradients of some are wanted."""
    net = Call(case)
    if hybridized:
        net.hybridize()
    inputs = [x.copy() for x in case.arrays]
    number = nd.ones((1, 1))
    number.attach_grad()
    for k in wanted:
        inputs[k].attach_grad()
    found = []
    for phase in PHASES:
        if phase == "predict":
            net(number, *inputs)
        elif phase == "train":
            with autograd.train_mode():
                net(number, *inputs)
        elif phase.startswith("recorded"):
            with autograd.record(train_mode=phase == "recorded"):
                y = net(number, *inputs)
        else:
            y.backward(retain_graph=True)
        found.append([x.asnumpy() for x in inputs])
    return found


def with_copies(case: Case) -> Case:
    """The call with weights of half precision, if the record keeps float copies of these: it leaves copies of others."""
    graph, _ = operator_graph(case.op, case.values, [a._type.tensor for a in case.arrays], True)
    stay, every = False, case.op.writes(case.values, True)
    for w in every:
        node = graph.outputs[w.result]
        while node.prim.name in ("copy", "stop_gradient"):
            (node,) = node.inputs
        stay |= node is graph.inputs[w.target]
    if stay:
        states = {w.target for w in every}
        case.host = [x if k in states else x.astype("float16") for k, x in enumerate(case.host)]
        case.arrays = [nd.array(x, dtype=x.dtype) for x in case.host]
    return case


def rows() -> list[Any]:
    """One for each call and choice of wanted gradients: none, and each one alone."""
    found = []
    for op in WRITING:
        for number, case in enumerate(cases(op, ["float32"], mx.cpu())):
            if not all(x.size for x in case.host):
                continue
            case = with_copies(case)
            choices = op.inputs_with_gradient(case.values, len(case.arrays))
            for wanted in [(), *((k,) for k in choices)]:
                found.append(pytest.param(case, wanted, id=f"{op.name}-{number}-{wanted}"))
    return found


def test_there_are_rows():
    """For every record: only empty arrays would leave it out."""
    assert {p.values[0].op for p in rows()} == set(WRITING)


@pytest.mark.long_table
@pytest.mark.parametrize(("case", "wanted"), rows())
@pytest.mark.parametrize("way", ["compiled", "interpreted"])
def test_states(case, wanted, way, request, monkeypatch):
    if way == "compiled":
        request.getfixturevalue("compiler")
    else:
        monkeypatch.setattr("hybridgpu.backends.devices.HostDevice.backend", lambda self: None)
        monkeypatch.setattr("hybridgpu.runtime.compilation._warned", True)
    eager, ours = follow(case, wanted, False), follow(case, wanted, True)
    when = written(case.op, case.values)
    before = case.host, case.host
    for phase, *after in zip(PHASES, eager, ours, strict=True):
        for hybridized, now, old in zip((False, True), after, before, strict=True):
            for k, (a, b) in enumerate(zip(now, old, strict=True)):
                may = writes(when.get(k), phase, hybridized, bool(wanted))
                assert may or np.array_equal(a, b, equal_nan=True), f"input {k} changes ({phase}, {hybridized=})"
        for k, (a, b) in enumerate(zip(*after, strict=True)):
            if when.get(k) is not When.RECORDED or phase.startswith(("recorded", "backward")):
                np.testing.assert_allclose(a, b, 1e-5, 1e-6, err_msg=f"input {k} after {phase}")
        before = after
    changed = [not np.array_equal(a, b) for a, b in zip(ours[-1], case.host, strict=True)]
    for k, moment in when.items():
        assert changed[k] or (moment is When.BACKWARD and not wanted), (
            f"input {k} never changes: the test proves nothing"
        )


def written(op: Operator, values: Any) -> dict[int, When]:
    return {w.target: w.when for w in op.writes(values, True)}


def writes(when: When | None, phase: str, hybridized: bool, wanted: bool) -> bool:
    """Whether an input may change in a phase."""
    if phase.startswith("backward"):
        return when is When.BACKWARD and wanted
    return when is When.CALL or (when is When.RECORDED and (not hybridized or phase.startswith("recorded")))
