# SPDX-License-Identifier: Apache-2.0
"""Attributes that change from call to call ask for no new lowering, and change no bit of a result."""

from __future__ import annotations

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu.compiler.passes.differentiate import differentiate
from hybridgpu.compiler.reference import Interpreter
from hybridgpu.core.rng import next_state
from hybridgpu.ndarray import apply, tape
from hybridgpu.ndarray.dynamic_attributes import dynamic_call
from hybridgpu.ops import OPERATORS
from hybridgpu.ops.numpy import binary  # noqa: F401  # declares the operators of np

nd = mx.nd

RANDOM = np.random.default_rng(3)
SCALARS = sorted({op.name for op in OPERATORS.values() if "scalar" in op.varies}, key=lambda name: (len(name), name))
NUMBERS = [0.0, -0.0, 1.0, -1.7, 3.3, 1e-9, 65504.0, 1e30, float("inf"), float("nan"), 2.0**31, 2.0**40, -(2.0**63)]


def lowerings():
    return len(apply._functions) + len(apply._dynamic_calls)


#: operator -> its attributes for one number
CALLS = {name: lambda number: {"scalar": number} for name in SCALARS} | {
    "clip a_min": lambda number: {"a_min": number, "a_max": 1.5},
    "clip a_max": lambda number: {"a_min": -1.1, "a_max": number},
    "clip both": lambda number: {"a_min": -number, "a_max": number},
    "_full": lambda number: {"shape": (2, 3), "value": number},
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16", "int8", "uint8", "int32", "int64"])
def test_a_number_that_changes_gives_the_bits_of_a_constant_one(name, dtype):
    op, attributes = OPERATORS[name.split()[0]], CALLS[name]
    arrays = [nd.cast(nd.array(RANDOM.uniform(-9, 9, (3, 5)), dtype="float64"), dtype=dtype)]
    if name == "_full":
        arrays = []

    def parsed(number):
        return op.parse(attributes(number) | ({"dtype": dtype} if name == "_full" else {}))

    run = lambda number: apply.apply(op, arrays, parsed(number))  # noqa: E731
    for k in range(10):
        run(k + 0.5), run(-0.0), run(0.0)
    before = lowerings()
    late = [run(number) for number in NUMBERS]
    assert lowerings() == before
    for number, got in zip(NUMBERS, late, strict=True):
        graph, _ = apply.operator_graph(op, parsed(number), [x._type.tensor for x in arrays], False)
        (want,) = Interpreter(graph)(*[x._data for x in arrays])
        assert got._data.dtype == want.dtype and got._data.tobytes() == want.tobytes(), number


@pytest.mark.parametrize(
    ("call", "want"),
    [
        (lambda: nd.clip(nd.array([5.0], dtype="float64"), -1, 0.1), float(np.float32(0.1))),
        (lambda: nd.full((1,), 0.1, dtype="float64"), 0.1),
        (lambda: nd.full((1,), 1e20, dtype="int32"), -(2**31)),
        (lambda: nd.full((1,), 2.7, dtype="int32"), 2),
        (lambda: nd.clip(nd.array([-5], dtype="int32"), -1.7, 1.7), -1),
    ],
)
def test_numbers_are_kept_as_by_mxnet(call, want):
    """Recorded from MXNet 1.9.1: bounds in single precision, a value in double precision."""
    assert call().asnumpy()[0] == want


def test_a_recorded_number_has_its_gradient():
    x = nd.array([1.0, 2.0])
    x.attach_grad()
    for rate in np.linspace(0.25, 3.0, 12):  # the first ones become constants
        with mx.autograd.record():
            y = rate / x + x * rate
        y.backward()
        np.testing.assert_allclose(x.grad.asnumpy(), rate - rate / x.asnumpy() ** 2, rtol=1e-6)


@pytest.mark.long_table
@pytest.mark.parametrize("name", [n for n in CALLS if OPERATORS[n.split()[0]].differentiable and n != "_full"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
def test_a_recorded_number_that_changes_has_the_derivatives_of_a_constant_one(name, dtype, monkeypatch):
    """To the bit, first and second ones, and each is derived once for all numbers."""
    op, attributes = OPERATORS[name.split()[0]], CALLS[name]
    x, head = (nd.cast(nd.array(v, dtype="float64"), dtype=dtype) for v in RANDOM.uniform(-9, 9, (2, 3, 5)))
    x.attach_grad()
    derived = []

    def counted(*args):
        derived.append(args)
        return differentiate(*args)

    def derivatives(number):
        with mx.autograd.record():
            y = apply.apply(op, [x], op.parse(attributes(number)))
            (first,) = mx.autograd.grad(y * y, [x], head, create_graph=True, retain_graph=True)
        first.backward(head)
        return [a._data.tobytes() for a in (y, first, x.grad)]

    monkeypatch.setattr(tape, "differentiate", counted)
    apply.forget_graphs()
    for k in range(10):
        derivatives(k + 0.5), derivatives(-0.0), derivatives(0.0)
    before = len(derived)
    late = [derivatives(number) for number in NUMBERS]
    assert before and len(derived) == before
    for number, got in zip(NUMBERS, late, strict=True):
        apply.forget_graphs()
        assert got == derivatives(number), number


SCHEDULED = ["sgd", "adam", "adagrad", "rmsprop", "lars", "lamb", "ftml", "nadam", "signum", "dcasgd", "adadelta", "adamax", "ftrl", "nag", "lbsgd", "sgld"]  # fmt: skip


@pytest.mark.filterwarnings("ignore:learning rate from")
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", SCHEDULED)
def test_a_schedule_lowers_nothing_anew(name, dtype):
    optimizer = mx.optimizer.create(
        name, multi_precision=dtype == "float16", lr_scheduler=mx.lr_scheduler.PolyScheduler(1000, base_lr=0.1)
    )
    step = mx.optimizer.get_updater(optimizer)
    weight, grad = (nd.array(RANDOM.uniform(-1, 1, (4, 3)), dtype=dtype) for _ in range(2))
    for _ in range(12):
        step(0, grad, weight)
    before = lowerings()
    for _ in range(20):
        step(0, grad, weight)
    assert lowerings() == before
    assert np.isfinite(weight.asnumpy()).all()


def late_samples():
    return [
        (op, k) for op in {id(o): o for o in OPERATORS.values()}.values() if op.varies for k in range(len(op.samples))
    ]


@pytest.mark.parametrize(("op", "k"), late_samples(), ids=lambda v: v.name if hasattr(v, "name") else str(v))
def test_late_attributes_give_the_bits_of_constants(op, k):
    """Every sample of every record with attributes that vary."""
    sample = op.samples[k]
    values = op.parse(sample.attributes)
    low, high = op.domain
    shapes = sample.shapes or [(2, 3)] * len(op.input_names(values, 1))
    arrays = [nd.array(RANDOM.uniform(low, high, s)) for s in shapes]
    types = [a._type.tensor for a in arrays]
    late = dynamic_call(op, values, types, False)
    graph, _ = apply.operator_graph(op, values, types, False)
    state = [next_state(mx.cpu())] if late.function.draws else []
    want = Interpreter(graph)(*[a._data for a in arrays], *state)
    got = Interpreter(late.function.graph)(*[a._data for a in arrays], *late.numbers(values), *state)
    for g, w in zip(got, want, strict=True):
        assert g.dtype == w.dtype and g.tobytes() == w.tobytes()
