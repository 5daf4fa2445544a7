# SPDX-License-Identifier: Apache-2.0
"""Plans: what a function does again without looking anything up is what it did the first time."""

import threading
import warnings

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import autograd, nd
from hybridgpu.ndarray import apply as eager
from hybridgpu.ndarray import creation, plans, random
from hybridgpu.ndarray.late_bindings import late
from hybridgpu.ndarray.plans import arithmetic_with_plans, forget_plans, with_plans
from hybridgpu.ndarray.tape import FunctionCall

A, B = np.array([[1.5, -2.0, 3.0]], "f"), np.array([[4.0, 0.0, -0.5]], "f")


@pytest.fixture(autouse=True)
def _anew():
    forget_plans()


@pytest.fixture
def applied(monkeypatch):
    """Names of the operators that were applied without a plan."""
    names = []
    whole = eager.apply

    def apply(op, *args, **kwargs):
        names.append(op.name)
        return whole(op, *args, **kwargs)

    for module in (eager, late, creation, random):
        monkeypatch.setattr(module, "apply", apply)
    return names


CALLS = {
    "x + y": lambda m, x, y: x + y,
    "x * 2": lambda m, x, y: x * 2,
    "1 - x": lambda m, x, y: 1 - x,
    "x / y": lambda m, x, y: x / y,
    "-x": lambda m, x, y: -x,
    "method": lambda m, x, y: x.sum(axis=1),
    "function": lambda m, x, y: m.tanh(x),
    "broadcasting": lambda m, x, y: x + y.reshape((3, 1)),
    "attributes": lambda m, x, y: m.clip(x, -1.0, 1.0) if m is nd else m.clip(x, -1, 1),
    "several results": lambda m, x, y: m.split(x, num_outputs=3, axis=1)[1] if m is nd else m.split(x, 3, axis=1)[1],
}


@pytest.mark.parametrize("module", [nd, mx.np], ids=["nd", "np"])
@pytest.mark.parametrize("name", CALLS)
def test_second_call_equals_first(name, module):
    call, x, y = CALLS[name], module.array(A), module.array(B)
    first, second = call(module, x, y), call(module, x, y)
    assert type(second) is type(first)
    assert second._type is first._type
    np.testing.assert_array_equal(second.asnumpy(), first.asnumpy())
    other = call(module, module.array(B), module.array(A))
    forget_plans()
    np.testing.assert_array_equal(other.asnumpy(), call(module, module.array(B), module.array(A)).asnumpy())


@pytest.mark.parametrize("name", ["x + y", "x * 2", "function", "several results"])
def test_second_recorded_call_has_gradients_of_first(name):
    found = []
    for _ in range(2):
        x, y = nd.array(A), nd.array(B)
        x.attach_grad()
        with autograd.record():
            z = (CALLS[name](nd, x, y) * nd.array(B[:, :1])).sum()
        z.backward()
        found.append(x.grad.asnumpy())
    np.testing.assert_array_equal(*found)
    assert found[0].any()


@pytest.mark.parametrize("module", [nd, mx.np], ids=["nd", "np"])
@pytest.mark.parametrize("method", ["__sub__", "__rsub__", "__rtruediv__", "__pow__", "__rpow__"])
def test_order_of_operands_after_an_array_with_itself(method, module, applied):
    x, y = module.array([1.0, 2.0]), module.array([4.0, 5.0])
    getattr(x, method)(x)
    calls = len(applied)
    made = getattr(x, method)(y).asnumpy()
    np.testing.assert_array_equal(made, getattr(x.asnumpy(), method)(y.asnumpy()))
    getattr(y, method)(y)
    reflected = method.startswith("__r")
    assert reflected or len(applied) == calls  # a square is a product like others


def test_plans_are_used(applied):
    x, y = nd.array(A), nd.array(B)
    for _ in range(3):
        nd.sigmoid(x * 2 + y)
    assert len([n for n in applied if n in ("_mul_scalar", "broadcast_add", "sigmoid")]) == 3


#: which repeat themselves without being looked up
REPEATED = {
    "a copy": lambda x: x.copy(),
    "another type": lambda x: x.astype("float64"),
    "another type of NumPy": lambda x: x.astype(np.int32),
    "a new axis": lambda x: x.expand_dims(0),
    "flat": lambda x: x.flatten(),
    "without an axis": lambda x: x.squeeze(axis=0),
    "repeated": lambda x: x.broadcast_to((2, 3)),
    "zeros": lambda x: nd.zeros((2, 3)),
    "ones of a type, somewhere": lambda x: nd.ones((2, 3), mx.cpu(1), dtype="int32"),
    "one number": lambda x: nd.full((2, 3), 0.5),
    "Dropout": lambda x: nd.Dropout(x, p=0.5, mode="always"),
    "uniform": lambda x: nd.random.uniform(0.0, 2.0, shape=(3, 2)),
    "normal": lambda x: nd.random.normal(shape=(5,), ctx=mx.cpu(1)),
    "whole numbers": lambda x: nd.random.randint(0, 9, shape=(4,)),
}


@pytest.mark.parametrize("name", REPEATED)
def test_repeated_calls_are_not_looked_up(name, applied):
    call, x = REPEATED[name], nd.array(A)
    results = []
    for forget in (True, False):
        mx.random.seed(3)
        for _ in range(3):
            if forget:
                forget_plans()
            result = call(x)
            results.append((result._type, result.asnumpy().tolist()))
            result[:] = 7  # the caller's
        assert len(applied) == 3
    assert results[:3] == results[3:]


def test_the_current_context_is_part_of_the_key():
    contexts = [mx.cpu(k) for k in (0, 1, 0, 1)]
    for ctx in contexts:
        with ctx:
            assert nd.zeros((2,)).context == ctx == nd.random.uniform(shape=(2,)).context


@pytest.mark.parametrize("call", [lambda x: nd.Dropout(x, p=0.5), lambda x: nd.LeakyReLU(-x, act_type="rrelu")[0]])
def test_gradients_of_random_calls_are_of_the_same_numbers(call):
    x = nd.ones((1, 50))
    x.attach_grad()
    drawn = []
    for _ in range(3):
        with autograd.record():
            y = call(x)
        y.backward()
        np.testing.assert_array_equal(x.grad.asnumpy(), y.asnumpy())  # slopes of ones
        drawn.append(y.asnumpy())
    assert (drawn[1] != drawn[2]).any()


def _attributes(node):
    """What the slots of a recorded call hold; arrays by their shapes."""
    names = {n for kind in type(node).__mro__ for n in getattr(kind, "__slots__", ()) if n != "__weakref__"}

    def plain(value):
        if isinstance(value, (list, tuple)):
            return [plain(v) for v in value]
        return value.shape if isinstance(value, np.ndarray) else value

    return {name: plain(getattr(node, name)) for name in names}


@pytest.mark.parametrize("name", ["x + y", "x * 2", "function"])
def test_calls_that_plans_record_have_all_attributes(name, applied):
    """The same as those of the general way: a plan fills the slots of ``FunctionCall`` without its ``__init__``."""
    x, y = nd.array(A), nd.array(B)
    x.attach_grad()
    y.attach_grad()
    nodes, calls = [], []
    for _ in range(2):
        with autograd.record():
            nodes.append(CALLS[name](nd, x, y)._autograd.node)
        calls.append(len(applied))
    assert type(nodes[0]) is type(nodes[1]) is FunctionCall
    assert calls[0] == calls[1]  # the second was a plan's
    first, second = map(_attributes, nodes)
    inputs = [first.pop("inputs"), second.pop("inputs")]
    assert all(a is b for a, b in zip(*inputs, strict=True))
    assert first == second


def test_equal_attributes_of_other_classes_are_apart():
    x = nd.array([-1.0, 1.0])
    results = [(x * v).asnumpy() for v in (0.0, -0.0, 0.0, -0.0)]
    assert np.signbit(results[0]).tolist() == [True, False] == np.signbit(results[2]).tolist()
    assert np.signbit(results[1]).tolist() == [False, True] == np.signbit(results[3]).tolist()
    values = [nd.full((1,), v).asnumpy() for v in (0.0, -0.0, 0.0, -0.0)]
    assert np.signbit(values).ravel().tolist() == [False, True, False, True]
    y = nd.array(A)
    assert nd.sum(y, axis=1, keepdims=True).shape == (1, 1)
    assert nd.sum(y, axis=1, keepdims=False).shape == (1,)


def test_the_other_interface_is_refused_after_a_plan():
    x, y = nd.array(A), mx.np.array(A)
    nd.relu(x), nd.relu(x), x + x
    with pytest.raises(TypeError, match="legacy operator"):
        nd.relu(y)
    with pytest.raises(TypeError):
        x + y


def test_released_graphs_are_constants():
    x, y = nd.array(A), nd.array(B)
    x.attach_grad()
    for _ in range(2):
        with autograd.record():
            state = x * y
        state.backward()
        with autograd.record():
            z = state + state
        with pytest.raises(mx.MXNetError, match="not in a computational graph"):
            z.backward()


def test_training_is_part_of_the_key():
    x = nd.ones((1, 100))
    drop = [nd.Dropout(x, p=0.5).asnumpy() for _ in range(2)]
    with autograd.train_mode():
        dropped = [nd.Dropout(x, p=0.5).asnumpy() for _ in range(2)]
    assert all((d == 1).all() for d in drop)
    assert all((d == 0).any() for d in dropped)
    assert (dropped[0] != dropped[1]).any()


def test_policies_end_plans():
    from hybridgpu.ops.precision import Policy, active, use

    x, w = nd.ones((2, 3)), nd.ones((4, 3))
    call = lambda: nd.FullyConnected(x, w, num_hidden=4, no_bias=True).dtype  # noqa: E731
    assert [call(), call()] == [np.float32] * 2
    before = active()
    try:
        from hybridgpu.core.dtypes import f16

        use(Policy(f16, {"FullyConnected": f16}))
        eager.forget_graphs()
        assert [call(), call()] == [np.float16] * 2
    finally:
        use(before)
        eager.forget_graphs()


@pytest.mark.parametrize("decorate", [with_plans, arithmetic_with_plans])
def test_what_a_call_found_out_before_plans_ended_is_not_kept(decorate):
    """Another thread changes the policy of mixed precision, say, while an operator is met for the first time."""
    calls = []

    @decorate
    def add(x, y):
        calls.append(1)
        result = x + y
        if len(calls) == 1:
            forget_plans()
        return result

    x = nd.array(A)
    for _ in range(4):
        add(x, 2.0)
    assert len(calls) == 2


def test_graphs_that_were_made_before_they_ended_are_not_kept(monkeypatch):
    """Another thread changes the policy of mixed precision while an operator is lowered, of the old one."""
    lowered = eager._lowered

    def ended(*args):
        graph = lowered(*args)
        eager.forget_graphs()
        return graph

    monkeypatch.setattr(eager, "_lowered", ended)
    nd.sum(nd.ones((2, 3)) * 3, axis=1)
    assert not eager._graphs and not eager._functions


def test_plans_that_end_while_one_is_kept_take_it_along():
    """… whether another thread has emptied the table before the plan comes into it, or does so after."""

    class EmptiedBefore(dict):
        def __setitem__(self, key, value):
            forget_plans()
            super().__setitem__(key, value)

    for table, kept in ((EmptiedBefore(), []), ({}, ["key"])):
        plans.keep(table, "key", None, plans.observation.since, 8)
        assert list(table) == kept


def test_no_warnings_of_numpy():
    x = nd.array([0.0, -1.0, 3e38])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            x / nd.zeros(3), nd.sqrt(x), x * x
    with pytest.warns(RuntimeWarning, match="divide by zero"):  # which others still get
        np.ones(1) / np.zeros(1)


def test_threads_have_modes_of_their_own():
    x, found = nd.array(A), []
    x.attach_grad()
    nd.relu(x), nd.relu(x)
    with autograd.record():
        thread = threading.Thread(target=lambda: found.append(nd.relu(x)._autograd))
        thread.start()
        thread.join()
        assert nd.relu(x)._autograd is not None
    assert found == [None]


def test_a_parameter_keeps_no_memory_alive():
    import gc
    import weakref

    from hybridgpu.gluon import Parameter

    p = Parameter("w", shape=(7, 3))
    p.initialize()
    for _ in range(2):
        nd.relu(p.data())
    data = weakref.ref(p.data()._data)
    del p
    gc.collect()
    assert data() is None


@pytest.mark.parametrize(
    "share",
    [
        lambda x: x.expand_dims(0, inplace=True),
        lambda x: x.flatten(inplace=True),
        lambda x: x.squeeze(inplace=True),
    ],
    ids=["expand_dims", "flatten", "squeeze"],
)
def test_shapes_in_place_share_memory_beside_arrays_that_are_recorded(share):
    x, z = nd.ones((1, 3)), nd.ones((1, 3))
    x.attach_grad()
    with autograd.record():
        share(x)
        y = share(z)
    y[:] = 5
    assert (z.asnumpy() == 5).all()


def test_nan_is_a_number_like_others(applied):
    x = nd.array(A)
    for _ in range(4):
        assert np.isnan((x * float("nan")).asnumpy()).all()
    assert len(applied) == 1


@pytest.mark.parametrize("first", [lambda a, b: mx.np.add(a, b), lambda a, b: a + b], ids=["function", "operator"])
def test_a_plan_inside_of_a_first_call_is_that_of_the_outer_function(first, monkeypatch):
    a, b = mx.np.array(A), mx.np.array(B)
    for _ in range(2):
        first(a, b), mx.np.add(a, b), a + b
    invoked = []
    monkeypatch.setattr(
        "hybridgpu.ndarray.numpy.application.ArrayApplication.invoke", lambda *given: invoked.append(given)
    )
    np.testing.assert_array_equal((a + b).asnumpy(), A + B)
    assert not invoked
