# SPDX-License-Identifier: Apache-2.0
"""The tape: what is recorded, when gradients are written, orders, functions of one's own, errors."""

from __future__ import annotations

import gc
import json
import weakref

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import autograd, nd


def attached(values, req="write", dtype="float32"):
    x = nd.array(values, dtype=dtype)
    x.attach_grad(req)
    return x


def test_gradient_of_a_chain():
    x = attached([1.0, 2.0, 3.0])
    with autograd.record():
        y = nd.exp(x * 2) + x
    y.backward()
    np.testing.assert_allclose(x.grad.asnumpy(), 2 * np.exp(2 * np.array([1, 2, 3.0])) + 1, rtol=1e-6)


@pytest.mark.parametrize(
    ("req", "times", "expected"), [("write", 2, [2, 4]), ("add", 2, [4, 8]), ("add", 3, [6, 12]), ("null", 2, None)]
)
def test_grad_req(req, times, expected):
    x = attached([1.0, 2.0], req)
    for _ in range(times):
        with autograd.record():
            y = x * x
        if req == "null":
            other = attached([1.0, 2.0])
            with autograd.record():
                y = x * x + other
        y.backward()
    if expected is None:  # the backward pass takes it, as in MXNet
        assert x.grad is None
    else:
        np.testing.assert_array_equal(x.grad.asnumpy(), expected)


def test_head_gradient_scales_and_may_be_missing():
    x = attached([1.0, 2.0])
    with autograd.record():
        y, z = x * 2, x * 3
    autograd.backward([y, z], [nd.array([10.0, 20.0]), None])
    np.testing.assert_array_equal(x.grad.asnumpy(), [23, 43])


def test_value_used_many_times():
    x = attached([2.0])
    with autograd.record():
        y = x
        for _ in range(10):
            y = y + y
    y.backward()
    assert x.grad.asscalar() == 1024


def test_deep_graph_needs_no_recursion():
    x = attached([1.0])
    with autograd.record():
        y = x
        for _ in range(5000):
            y = y + 1
    y.backward()
    assert x.grad.asscalar() == 1
    del y
    gc.collect()


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: x[1], [0, 1, 0]),
        (lambda x: x[-1:], [0, 0, 1]),
        (lambda x: x[::2], [1, 0, 1]),
        (lambda x: x[nd.array([0, 0, 2])], [2, 0, 1]),
        (lambda x: x[[1, 1]], [0, 2, 0]),
        (lambda x: x[None, :], [1, 1, 1]),
        (lambda x: x.reshape((3, 1))[1, 0], [0, 1, 0]),
        (lambda x: x.expand_dims(0)[0, 1:], [0, 1, 1]),
        (lambda x: x.astype("float64"), [1, 1, 1]),
        (lambda x: x.copy(), [1, 1, 1]),
        (lambda x: x.as_in_context(mx.cpu(1)).copyto(mx.cpu(2)), [1, 1, 1]),
        (lambda x: nd.stack(*list(x)), [1, 1, 1]),
    ],
)
def test_views_and_copies_are_recorded(function, expected):
    x = attached([1.0, 2.0, 3.0])
    with autograd.record():
        y = function(x)
    y.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), expected)


def test_pause_detach_and_block_grad_stop():
    for stop in (lambda v: v.detach(), nd.BlockGrad, lambda v: nd.stop_gradient(v)):
        x = attached([3.0])
        with autograd.record():
            y = stop(x * x) * x
        y.backward()
        assert x.grad.asscalar() == 9
    x = attached([3.0])
    with autograd.record():
        with autograd.pause():
            c = x * x
        y = c * x
    y.backward()
    assert x.grad.asscalar() == 9


def test_attach_grad_on_an_intermediate_cuts():
    x = attached([3.0])
    with autograd.record():
        y = x * x
        y.attach_grad()
        z = y * 2
    z.backward()
    assert y.grad.asscalar() == 2
    assert x.grad.asscalar() == 0


@pytest.mark.parametrize("function", [nd.argmax, lambda x: x > 1, nd.floor, nd.sign, nd.zeros_like])
def test_undifferentiable_operators_give_zeros(function):
    x = attached([1.0, 2.0])
    x.grad[:] = 7
    with autograd.record():
        y = function(x)
    y.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), [0, 0])


def test_integer_gradients():
    x = attached([2, 3], dtype="int32")
    with autograd.record():
        y = x * x
    y.backward()
    assert x.grad.dtype == np.int32
    np.testing.assert_array_equal(x.grad.asnumpy(), [4, 6])


@pytest.mark.parametrize(("dtype", "expected"), [("float32", [1, 1]), ("bool", [True, True]), ("int8", [3, 3])])
@pytest.mark.parametrize("hybrid", [False, True])
def test_a_truth_value_used_twice(dtype, expected, hybrid):
    class Twice(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            y = F.cast(x, "bool") if dtype == "float32" else x
            return F.cast(y, "float32") + F.cast(y, "float32") * 2

    net, x = Twice(), attached([1, 0], dtype=dtype)
    if hybrid:
        net.hybridize()
    with autograd.record():
        y = net(x)
    y.backward()
    assert x.grad.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(x.grad.asnumpy(), expected)


# -- grad and higher orders


def test_grad_leaves_buffers_alone_and_returns_lists():
    x, w = attached([2.0]), attached([5.0])
    with autograd.record():
        y = x * x * w
        g = autograd.grad(y, [x, w], retain_graph=True)
        only = autograd.grad(y, x)  # a list as well, as in MXNet
    assert [float(v.asscalar()) for v in g] == [20, 4]
    assert isinstance(only, list)
    assert only[0].asscalar() == 20
    assert x.grad.asscalar() == 0


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("module", [nd, mx.np], ids=["nd", "np"])
def test_gradients_that_nothing_reaches_are_zeros(module, create_graph):
    x, z = module.ones((2, 3)), module.ones((3,))
    x.attach_grad()
    z.attach_grad()
    with mx.util.np_array(module is mx.np), autograd.record():
        y = x * x
        found = autograd.grad(y, [x, z], create_graph=create_graph, retain_graph=True)
    assert [type(g) for g in found] == [nd.NDArray] * 2  # in np mode as well, as in MXNet
    assert [g.asnumpy().tolist() for g in found] == [[[2, 2, 2]] * 2, [0, 0, 0]]
    if create_graph:
        found[1].backward()
        assert z.grad.asnumpy().tolist() == [0, 0, 0]


def test_grad_of_an_intermediate_value():
    x = attached([2.0])
    with autograd.record():
        y = x * x
        z = y * y
        (g,) = autograd.grad(z, y)
    assert g.asscalar() == 8


@pytest.mark.parametrize(
    ("function", "derivatives"),
    [
        (nd.sin, [np.cos, lambda x: -np.sin(x), lambda x: -np.cos(x)]),
        (nd.exp, [np.exp, np.exp, np.exp]),
        (lambda x: x**4, [lambda x: 4 * x**3, lambda x: 12 * x**2, lambda x: 24 * x]),
        (nd.log, [lambda x: 1 / x, lambda x: -1 / x**2, lambda x: 2 / x**3]),
        (lambda x: x[:], [np.ones_like, np.zeros_like, np.zeros_like]),
    ],
)
def test_higher_orders(function, derivatives):
    values = np.array([0.5, 1.5], np.float64)
    x = attached(values, dtype="float64")
    with autograd.record():
        y = function(x)
        for k, expected in enumerate(derivatives):
            (y,) = autograd.grad(y, x, create_graph=k < len(derivatives) - 1, retain_graph=True)
            np.testing.assert_allclose(y.asnumpy(), expected(values), rtol=1e-10, atol=1e-12)
            if y._autograd is None:
                break


# -- errors


def test_second_backward_needs_retain_graph():
    x = attached([1.0])
    with autograd.record():
        y = x * x
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(mx.MXNetError, match="Cannot differentiate node because it is not in a computational graph"):
        y.backward()


def run_twice(x):
    with autograd.record():
        y = x * x
    y.backward()
    return y


def run_a_part_twice(x):
    with autograd.record():
        half = x * x
        y, other = half * 3, half * 5
    y.backward()
    return other


def left_the_graph(x):
    with autograd.record():
        return nd.array((x * x).asnumpy())


@pytest.mark.parametrize(
    ("make", "advice"),
    [
        (
            run_twice,
            "A backward pass has run already, and released what it needed: write y.backward(retain_graph=True)",
        ),
        (run_a_part_twice, "A backward pass has run already, and released"),
        (lambda x: x * x, "Compute it under autograd.record(), by operators alone: asnumpy() leaves the graph."),
        (left_the_graph, "Compute it under autograd.record(), by operators alone: asnumpy() leaves the graph."),
    ],
    ids=["twice", "a part twice", "not recorded", "left"],
)
def test_why_there_is_no_graph_is_told(make, advice):
    y = make(attached([1.0]))
    with pytest.raises(mx.MXNetError, match="not in a computational graph") as caught:
        y.backward()
    last = str(caught.value).split("\n")[-1]
    assert last.startswith(advice) and "(test_autograd.py:" in last


class Doubled(autograd.Function):
    def forward(self, x):
        return x * 2

    def backward(self, g):
        return g * 2


@pytest.mark.parametrize("kind", ["eager", "hybridized", "Function"])
def test_what_a_backward_pass_released_is_a_constant(kind):
    w = attached([2.0])
    net = mx.gluon.nn.HybridLambda(lambda F, x, y: x * y)
    if kind == "hybridized":
        net.hybridize()
    state, seen = nd.ones(1), []
    for _ in range(3):  # as a recurrent network carries its state, without detach
        with autograd.record():
            state = net(state, w)
            if kind == "Function":
                state = Doubled()(state)
            loss = state * state
        loss.backward()
        seen.append(w.grad.asscalar())
    assert seen == {"Function": [16, 256, 4096]}.get(kind, [4, 16, 64])


def test_released_results_are_written_and_refused_as_constants():
    x, w = attached([2.0]), attached([3.0])
    with autograd.record():
        y = x * x
    y.backward()
    with autograd.record():
        z = y * w
        y[:] = 7  # no longer in a graph
    assert autograd.get_symbol(z).list_arguments() == ["var0", "var1"]
    with pytest.raises(mx.MXNetError, match="Cannot differentiate"):
        autograd.grad(z, [y, w], retain_graph=True)
    z.backward()
    assert (x.grad.asscalar(), y.asscalar()) == (4, 7)
    with autograd.record():
        u = y * 3
    with pytest.raises(mx.MXNetError, match="Cannot differentiate"):
        u.backward()


def test_backward_without_record():
    x = attached([1.0])
    y = x * x
    with pytest.raises(mx.MXNetError, match="use autograd.record"):
        y.backward()


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.__iadd__(1),
        lambda x: x.__setitem__(0, 1),
        lambda x: nd.relu(x, out=x),
        lambda x: nd.ones((2,)).copyto(x),
    ],
)
@pytest.mark.parametrize("result", [False, True])
def test_writes_into_recorded_arrays_are_refused(write, result):
    x = attached([1.0, 2.0])
    with autograd.record():
        y = x * 2 if result else x
        before = y.asnumpy()
        with pytest.raises(mx.MXNetError, match="Assigning to NDArrays that are already in a computational graph"):
            write(y)
    np.testing.assert_array_equal(y.asnumpy(), before)


def test_unknown_grad_req():
    with pytest.raises(KeyError):
        nd.ones(2).attach_grad("wrong")


def test_flags_nest_and_return_old_values():
    assert not autograd.is_recording()
    assert not autograd.is_training()
    with autograd.record():
        assert autograd.is_recording()
        assert autograd.is_training()
        with autograd.predict_mode():
            assert autograd.is_recording()
            assert not autograd.is_training()
        with autograd.pause(train_mode=True):
            assert not autograd.is_recording()
            assert autograd.is_training()
        assert autograd.set_recording(False) is True
        assert autograd.set_recording(True) is False
    with autograd.record(train_mode=False):
        assert not autograd.is_training()
    assert autograd.set_training(True) is False
    assert autograd.set_training(False) is True


# -- Function


class Sigmoid(autograd.Function):
    def forward(self, x):
        y = 1 / (1 + nd.exp(-x))
        self.save_for_backward(y)
        return y

    def backward(self, g):
        (y,) = self.saved_tensors
        return g * y * (1 - y)


def test_function():
    x = attached([0.0, 2.0])
    with autograd.record():
        y = Sigmoid()(x) * 3
    y.backward()
    s = 1 / (1 + np.exp(-np.array([0.0, 2.0])))
    np.testing.assert_allclose(x.grad.asnumpy(), 3 * s * (1 - s), rtol=1e-6)


def test_function_serves_one_call():
    f = Sigmoid()
    f(nd.ones(1))
    with pytest.raises(AssertionError, match="Each Function instance can only be called once"):
        f(nd.ones(1))


def test_function_with_several_inputs_and_outputs():
    class SumAndProduct(autograd.Function):
        def forward(self, a, b):
            self.save_for_backward(a, b)
            return a + b, a * b

        def backward(self, ds, dp):
            a, b = self.saved_tensors
            return ds + dp * b, ds + dp * a

    a, b = attached([2.0]), attached([5.0])
    with autograd.record():
        s, p = SumAndProduct()(a, b)
        z = s * 10 + p
    z.backward()
    assert a.grad.asscalar() == 15
    assert b.grad.asscalar() == 12


def test_function_must_return_a_gradient_an_input():
    class Wrong(autograd.Function):
        def forward(self, a, b):
            return a + b

        def backward(self, g):
            return g

    a, b = attached([2.0]), attached([5.0])
    with autograd.record():
        y = Wrong()(a, b)
    with pytest.raises(AssertionError, match="Expecting 2 got 1"):
        y.backward()


# -- memory


def test_the_graph_dies_with_its_results():
    x = attached([1.0])
    with autograd.record():
        y = x * x
    node = weakref.ref(y._autograd.node)
    del y
    assert node() is None


def test_backward_frees_what_it_kept():
    x = attached(np.ones(100))
    with autograd.record():
        y = x * 2
        z = y * y
    kept = z._autograd.node
    z.backward()
    assert kept.released
    assert kept.arrays == []


def test_threads_record_for_themselves():
    import threading

    seen = {}

    def work(k):
        x = attached([float(k)])
        with autograd.record():
            y = x * x
        y.backward()
        seen[k] = x.grad.asscalar()
        assert not autograd.is_recording()

    with autograd.record():
        threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert autograd.is_recording()
    assert seen == {k: 2 * k for k in range(8)}


def test_fresh_gradients_are_marked():
    x = attached([1.0])
    assert not x._fresh_grad
    with autograd.record():
        y = x * x
    y.backward()
    assert x._fresh_grad
    x._fresh_grad = False
    assert not x._fresh_grad


@pytest.mark.parametrize("axes", [(1, 0), [1, 0]], ids=["tuple", "list"])
def test_the_recorded_symbol_keeps_attributes(axes):
    x = attached([[1.0, 2.0, 3.0]])
    with autograd.record():
        y = nd.transpose(x, axes=axes)
    symbol = autograd.get_symbol(y)
    assert symbol.attr_dict()[symbol.name]["axes"] == "(1, 0)"
    assert symbol.infer_shape(var0=(4, 5))[1] == [(5, 4)]


def test_the_recorded_symbol_of_a_hybridized_block():
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(4, activation="relu"), mx.gluon.nn.Dense(2))
    net.initialize()
    net.hybridize()
    x = nd.array(np.random.default_rng(0).normal(size=(3, 5)))
    net(x)
    with autograd.record():
        y = net(x * 1) * 2
    symbol = autograd.get_symbol(y)
    ops = [n["op"] for n in json.loads(symbol.tojson())["nodes"] if n["op"] != "null"]
    assert ops == ["FullyConnected", "Activation", "FullyConnected", "_mul_scalar"]
    assert [n[:3] for n in symbol.list_arguments()] == ["var"] * 5
    assert len(set(symbol.list_arguments())) == 5


@pytest.mark.parametrize("hybridized", [False, True])
@pytest.mark.parametrize("function", [nd.gamma, nd.gammaln])
def test_third_derivatives_of_gamma_functions_are_refused(function, hybridized):
    compute = mx.hybridize(lambda x: function(x) * x) if hybridized else function
    x = nd.array([1.5])
    x.attach_grad()
    with autograd.record():
        first = autograd.grad(compute(x), x, create_graph=True)[0]
        second = autograd.grad(first, x, create_graph=True)[0]
    with pytest.raises(mx.base.MXNetError, match="non-differentiable"):
        second.backward()


class Passed(autograd.Function):
    """Its derivative is the array that it is given."""

    def forward(self, x):
        return x + 0

    def backward(self, dy):
        return dy


class Stored(autograd.Function):
    """Its derivative is an array that the program keeps."""

    def __init__(self, derivative):
        super().__init__()
        self.derivative = derivative

    def forward(self, x):
        return x + 0

    def backward(self, dy):
        return self.derivative


#: heads, variables, of x, w and y = x * w, h the head gradient
ALIASES = {
    "one variable twice": ("y", "[x, x]", "None"),
    "one variable thrice, and its result": ("y", "[x, y, x, x]", "None"),
    "a head": ("y", "[y]", "h"),
    "a head twice": ("y", "[y, y, x]", "h"),
    "a head of another shape": ("y.reshape((2, 1))", "[y]", "h.reshape((2, 1))"),
    "parts of a head": ("nd.concat(x, w, dim=0)", "[x, w]", "nd.concat(h, h, dim=0)"),
    "a function": ("Passed()(y)", "[y]", "h"),
    "its array": ("Stored(kept)(y)", "[y, x]", "None"),
    "its array, with h": ("Stored(h)(y)", "[y, y]", "h"),
}


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("what", ALIASES)
def test_gradients_share_no_memory(what, create_graph):
    """Neither with each other nor with head gradients or arrays of a Function: writing to one changes no other."""
    head, variables, head_grad = ALIASES[what]
    x, w, h, kept = nd.array([1, 2]), nd.array([3, 4]), nd.array([5, 6]), nd.array([7, 8])
    for a in (x, w):
        a.attach_grad()
    scope = {"x": x, "w": w, "h": h, "kept": kept, "nd": nd, "Passed": Passed, "Stored": Stored}
    with autograd.record():
        scope["y"] = x * w
        heads = eval(head, scope)
        arrays = eval(head_grad, scope)
        gradients = autograd.grad(heads, eval(variables, scope), arrays, create_graph=create_graph)
    every = [*gradients, *([arrays] if arrays is not None else []), x, w, h, kept, scope["y"]]
    before = [a.asnumpy() for a in every]
    for k, g in enumerate(gradients):
        g[:] = 100 + k
        for other, value in zip(every[k + 1 :], before[k + 1 :], strict=True):
            np.testing.assert_array_equal(other.asnumpy(), value)


@pytest.mark.parametrize("kept", [False, True], ids=["returned", "kept"])
def test_gradients_of_functions_go_when_they_are_consumed(kept):
    """… as those of operators do: a long chain holds one at a time. What the program keeps is found all the same."""
    alive: list[weakref.ref] = []
    arrays, most = [], 0

    class Watched(autograd.Function):
        def forward(self, x):
            return x + 0

        def backward(self, dy):
            nonlocal most
            most = max(most, sum(ref() is not None for ref in alive))
            result = dy * 2
            alive.append(weakref.ref(result._data if result._data.base is None else result._data.base))
            if kept:
                arrays.append(result)
            return result

    x = nd.ones((1000,))
    x.attach_grad()
    with autograd.record():
        y = x
        for _ in range(8):
            y = Watched()(y)
    (gradient,) = autograd.grad(y, [x])
    assert len(alive) == 8 and (most == 7 if kept else most <= 2)
    gradient[:] = 0
    assert [a.asnumpy().max() for a in arrays] == ([2.0**k for k in range(1, 9)] if kept else [])


def test_copied_gradients_are_differentiable():
    x = nd.array([1, 2])
    x.attach_grad()
    with autograd.record():
        y = x * x * x
        first, second = autograd.grad(y, [x, x], create_graph=True)
        z = first + 2 * second
    z.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), [18, 36])
