# SPDX-License-Identifier: Apache-2.0
"""``mx.hybridize``: functions of arrays, whatever library's, give what they give without it."""

import copy
import gc
import pickle
import threading
import weakref
from collections import namedtuple

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import autograd, gluon, nd
from hybridgpu.gluon import nn

Pair = namedtuple("Pair", "first second")


def arrays(*shapes, ctx=None, seed=0):
    random = np.random.default_rng(seed)
    return [nd.array(random.uniform(-1, 1, s), ctx=ctx or mx.cpu()) for s in shapes]


def values(result):
    if isinstance(result, nd.NDArray):
        return result.asnumpy()
    if isinstance(result, dict):
        return {k: values(v) for k, v in result.items()}
    if hasattr(result, "_fields"):
        return type(result)(*map(values, result))
    if isinstance(result, (list, tuple)):
        return type(result)(map(values, result))
    return result


def same(got, expected):
    assert type(got) is type(expected)
    if isinstance(got, dict):
        assert list(got) == list(expected)
        for k in got:
            same(got[k], expected[k])
    elif isinstance(got, (list, tuple)):
        assert len(got) == len(expected)
        for a, b in zip(got, expected, strict=True):
            same(a, b)
    elif isinstance(got, np.ndarray):
        assert got.shape == expected.shape
        np.testing.assert_allclose(got, expected, rtol=2e-6, atol=1e-6)
    else:
        assert got == expected
        assert repr(got) == repr(expected)


def nested(x, more, *rest, scale=2, keys=None):
    out = {"sum": x + more["a"], "list": [more["b"][0] * scale, None]}
    for r in rest:
        out["sum"] = out["sum"] * r
    if keys is not None:
        out[keys[0]] = (keys[1] * 3,)
    return Pair(out, scale)


a, b, c, d = arrays((2, 3), (3,), (2, 1), (2, 3))

#: function, positional arguments, keywords
CALLS = {
    "one": (lambda x: nd.tanh(x) * 2, (a,), {}),
    "two": (lambda x, y: x * y + y, (a, b), {}),
    "default": (lambda x, k=3: x * k, (a,), {}),
    "number": (lambda x, k=3: x * k, (a, 4), {}),
    "keyword": (lambda x, k=3: x * k, (a,), {"k": 5}),
    "array by keyword": (lambda x, y: x - y, (), {"y": b, "x": a}),
    "text": (lambda x, act: nd.Activation(x, act_type=act), (a, "tanh"), {}),
    "nested": (nested, (a, {"a": b, "b": [c, None]}), {}),
    "more": (nested, (a, {"a": b, "b": (c,)}, c, d), {"scale": 7, "keys": ("k", b)}),
    "named tuple": (lambda p: Pair(p.second, p.first), (Pair(a, b),), {}),
    "none": (lambda x, y=None: x if y is None else x + y, (a, None), {}),
    "only keywords": (lambda *, x, k: x * k, (), {"x": a, "k": 2}),
    "no arrays": (lambda n: nd.ones((n, 2)) * n, (3,), {}),
    "nothing": (lambda: nd.arange(4), (), {}),
    "other types": (lambda x: x.astype("float64") * 2, (a.astype("int32"),), {}),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_hybridized_function_gives_what_the_function_gives(name):
    function, args, kwargs = CALLS[name]
    expected = values(function(*args, **kwargs))
    hybrid = mx.hybridize(function)
    for _ in range(3):
        same(values(hybrid(*args, **kwargs)), expected)


@mx.hybridize
def of_libraries(x, more):
    return nd.tanh(x) * more["k"], [x.sum(axis=0)]


def test_arrays_of_numpy_come_back_as_numpys():
    host = np.linspace(0, 1, 6, dtype=np.float32).reshape(2, 3)
    for x in (host, host.astype(np.float64), host.T.copy().T, host[:, ::-1]):
        for _ in range(2):
            y, (total,) = of_libraries(x, {"k": x})
            assert type(y) is type(total) is np.ndarray
            assert y.dtype == x.dtype
            np.testing.assert_allclose(y, np.tanh(x) * x, rtol=1e-6)
            np.testing.assert_allclose(total, x.sum(0), rtol=1e-6)


def test_arrays_of_cupy_are_taken_on_their_device(cuda_driver):
    class CuPyLike(np.ndarray):  # the emulated device has NumPy's arrays for CuPy's
        __cuda_array_interface__ = None
        device = namedtuple("Device", "id")(0)

    CuPyLike.__module__ = "cupy"
    x = np.linspace(0, 1, 6, dtype=np.float32).reshape(2, 3)
    y, _ = of_libraries(x.view(CuPyLike), {"k": x.view(CuPyLike)})
    np.testing.assert_allclose(y, np.tanh(x) * x, rtol=1e-6)
    assert mx.gpu(0) in [key[-1] for key in of_libraries._calls.traced._by_signature]
    with pytest.raises(TypeError, match="of_libraries is given arrays of NumPy and of CuPy"):
        of_libraries(x.view(CuPyLike), {"k": x})


def test_results_for_numpy_stay_what_they_are():
    double = mx.hybridize(lambda x: x * 2)
    kept = [double(np.full(4, k, np.float32)) for k in range(8)]
    assert [y.tolist() for y in kept] == [[2.0 * k] * 4 for k in range(8)]


def test_numpy_beside_arrays_is_taken_for_arrays():
    add = mx.hybridize(lambda x, y: x + y)
    got = add(a, np.ones((2, 3), np.float32))
    assert isinstance(got, nd.NDArray)
    np.testing.assert_allclose(got.asnumpy(), a.asnumpy() + 1)


def test_gradients_go_through(cuda_driver):
    def loss(x, net, scale):
        y = net(x)
        return (y * y).sum() * scale

    for ctx in (mx.cpu(), mx.gpu(0)):
        found = []
        for function in (loss, mx.hybridize(loss)):
            mx.random.seed(2)
            net = nn.Dense(3, in_units=3)
            net.initialize(mx.init.One(), ctx=ctx)
            for _ in range(2):
                (x,) = arrays((2, 3), ctx=ctx)
                x.attach_grad()
                with autograd.record():
                    out = function(x, net, 2)
                out.backward()
            found.append([x.grad.asnumpy(), net.weight.grad(ctx).asnumpy(), out.asnumpy()])
        same(found[1], found[0])


def test_closures_read_arrays_and_parameters_as_they_are():
    w, bias = arrays((3, 2), (2,))
    w.attach_grad()
    layer = nn.Dense(2, in_units=2)
    layer.initialize()

    @mx.hybridize
    def function(x):
        return layer(nd.dot(x, w) + bias)

    def plain(x):
        return layer(nd.dot(x, w) + bias)

    (x,) = arrays((4, 3))
    for k in range(3):
        with autograd.record():
            y = function(x)
        y.backward()
        got = y.asnumpy(), w.grad.asnumpy(), layer.weight.grad().asnumpy()
        with autograd.record():
            y = plain(x)
        y.backward()
        same(got, (y.asnumpy(), w.grad.asnumpy(), layer.weight.grad().asnumpy()))
        bias[:] = k
        w[0] = k
        layer.weight.set_data(nd.ones((2, 2)) * k)
    report = str(function.explain(x))
    assert "reads arrays from outside: constant0 float32[3,2], met at test_functions.py" in report


def test_signatures_and_static_values():
    traced = []

    @mx.hybridize(static_argnames="sizes")
    def function(x, sizes, flag=True, factor=1.0):
        traced.append((x.shape, sizes, flag, factor, autograd.is_training()))
        return x.reshape(sizes) * factor if flag else x

    x = nd.arange(6)
    for _ in range(2):
        assert function(x, (2, 3)).shape == (2, 3)
        assert function(x, (3, 2)).shape == (3, 2)
        assert function(x, (3, 2), flag=False).shape == (6,)
        assert function(x, (3, 2), True, 2.0)[2, 1].asscalar() == 10
        assert function(x, (3, 2), True, 2)[2, 1].asscalar() == 10
        with autograd.train_mode():
            function(x, (2, 3))
    assert len(traced) == 6
    assert [type(t[3]) for t in traced[3:5]] == [float, int]
    with pytest.raises(ValueError, match="no argument 'size' that could be static; it has x, k"):
        mx.hybridize(lambda x, k: x, static_argnames="size")
    with pytest.raises(TypeError, match="neither an array nor a value that tells signatures apart"):
        function(x, [2, 3])


def test_signatures_tell_numpy_semantics_apart():
    class Net(gluon.HybridBlock):
        def forward(self, x):
            return x[0]

    net = Net()
    net.hybridize()
    function = mx.hybridize(lambda x: x[0])
    x = nd.arange(3)
    for call in (function, net):
        for _ in range(3):  # the second call is a prepared one
            assert [call(x).shape for _ in range(3)] == [(1,)] * 3
            with mx.np_shape():
                assert [call(x).shape for _ in range(3)] == [()] * 3


def test_signatures_tell_keys_and_their_order_apart():
    joined = mx.hybridize(lambda d: nd.concat(*d.values(), dim=0))
    found = mx.hybridize(lambda d: d["a"] + (1 if "b" in d else 2))
    a, b = nd.zeros((1,)), nd.ones((1,))
    for _ in range(2):
        for _ in range(3):  # prepared for it
            joined({"a": a, "b": b})
            found({"a": a, "b": None})
        assert joined({"b": b, "a": a}).asnumpy().tolist() == [1, 0]
        assert found({"a": a, "c": None}).asnumpy().tolist() == [2]


#: functions that see how a call is spelled, and calls that differ in nothing else
SPELLINGS = {
    "lists and tuples": (
        lambda x, more: (x * (2 if isinstance(more, tuple) else 3) - more[0], more),
        lambda x: [((x, [x]), {}), ((x, (x,)), {})],
    ),
    "empty lists and tuples": (
        lambda x, more: (x * (2 if isinstance(more, tuple) else 3), more),
        lambda x: [((x, []), {}), ((x, ()), {})],
    ),
    "lists in lists": (
        lambda x, more: x * (2 if isinstance(more[0], tuple) else 3) - more[0][0],
        lambda x: [((x, [[x], None]), {}), ((x, [(x,), None]), {})],
    ),
    "an array behind a pair": (
        lambda pair, x: {"y": pair.first * 2 + pair.second, "list": [pair.first * 2 + pair.second - x]},
        lambda x: [((Pair(x, x * 10), -x), {}), ((Pair(x * 10, x), -x), {})],
    ),
    "keys that are equal": (
        lambda x, more: [x * list(more.values())[0] * 2, list(more)],
        lambda x: [((x, {1: x}), {}), ((x, {True: x}), {}), ((x, {1.0: x}), {})],
    ),
    "keywords of any name": (
        lambda x, **more: sum((k + 2) * v for k, v in enumerate(more.values())),
        lambda x: [((x,), {"a": x, "b": x * 10}), ((x,), {"b": x * 10, "a": x})],
    ),
    "keywords": (
        lambda x, *, a, **more: [a, *more, *more.values()],
        lambda x: [((x,), {"a": x, "c": x, "b": -x}), ((x,), {"b": -x, "a": x, "c": x})],
    ),
    "an argument named as a part of another": (
        lambda more, more0, more11: more[0] - more0 * more[1][1] + more11,
        lambda x: [(([x, [-x, x * 2]], x * 3, -x), {})],
    ),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_calls_are_told_apart_by_all_that_the_function_sees(name):
    function, spelled = SPELLINGS[name]
    hybridized = mx.hybridize(function)
    calls = spelled(nd.ones((2,)))
    for _ in range(3):  # the later ones are prepared
        for args, keywords in calls:
            same(values(hybridized(*args, **keywords)), values(function(*args, **keywords)))


def test_signatures_that_are_forgotten_leave_no_graph(monkeypatch):
    from hybridgpu.runtime import traced_calls

    monkeypatch.setattr(traced_calls, "_LIMIT", 4)
    function = mx.hybridize(lambda x, k: x * k)
    for k in range(10):
        function.lower(nd.ones((2,)), k)
    assert len(function._calls.traced._graphs) == 4


def test_numbers_that_another_thread_draws_are_none_of_the_function():
    done = threading.Event()

    def draw():
        while not done.is_set():
            np.random.rand(10)

    def function(x):
        for k in range(200):
            x = x[np.array([1, 0])] + k
        return x

    thread = threading.Thread(target=draw)
    thread.start()
    try:
        compiled = mx.hybridize(function)
        assert compiled.lower(nd.ones((2,))).symbol is not None
        with pytest.raises(mx.MXNetError, match="draws random numbers of Python or NumPy"):
            mx.hybridize(lambda x: x * np.random.rand()).lower(nd.ones((2,)))
    finally:
        done.set()
        thread.join()


class HostNumbers(mx.init.Initializer):
    def _init_weight(self, name, arr):
        arr[:] = np.random.uniform(size=arr.shape)


@pytest.mark.parametrize("noisy", ["", "before", "after"])
def test_numbers_of_an_initializer_are_none_of_the_function(noisy):
    class Net(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.layer = mx.gluon.nn.Dense(2, weight_initializer=HostNumbers())

        def forward(self, x):
            x = x * np.random.rand() if noisy == "before" else x
            y = self.layer(x)
            return y * np.random.rand() if noisy == "after" else y

    net = Net()
    net.initialize()
    net.hybridize()
    if noisy:
        with pytest.raises(mx.TracingError, match="draws random numbers of Python or NumPy"):
            net(nd.ones((1, 3)))
    else:
        assert net(nd.ones((1, 3))).shape == (1, 2)


def test_zero_and_its_negative_are_two_values():
    divided = mx.hybridize(lambda x, zero: x * zero)
    x = nd.ones((2,))
    for _ in range(2):
        assert not np.signbit(divided(x, 0.0).asnumpy()).any()
        assert np.signbit(divided(x, -0.0).asnumpy()).all()


def test_values_that_keep_changing_are_told():
    scaled = mx.hybridize(lambda x, k: x * k, numeric="strict")
    x = nd.ones((2,))
    with pytest.warns(
        UserWarning, match="traced for 17 values of its arguments that are no arrays.*Give numbers that change"
    ):
        for k in range(17):
            scaled(x, k)


class Model:
    def __init__(self, units):
        self.w = nd.ones((3, units))

    @mx.hybridize
    def __call__(self, x, k=1):
        """What it says."""
        return self.inner(nd.dot(x, self.w)) * k

    @mx.hybridize(static_argnames=("axis",))
    def inner(self, y, axis=1):
        return y / y.sum(axis=axis, keepdims=True)


@pytest.mark.usefixtures("compiler")
def test_methods_belong_to_their_object():
    one, two = Model(2), Model(4)
    x = nd.ones((2, 3))
    for _ in range(2):
        assert one(x).asnumpy().tolist() == [[0.5, 0.5]] * 2
        assert two(x, k=2).asnumpy().tolist() == [[0.5] * 4] * 2
    assert one.inner(x, axis=0).asnumpy().tolist() == [[0.5] * 3] * 2
    assert Model.__call__.__doc__ == "What it says."
    assert "one.inner" not in repr(one.inner)
    assert "div" in one.inner.explain(x).source()
    gone = weakref.ref(two)
    del two
    gc.collect()
    assert gone() is None


class Layered(gluon.HybridBlock):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.scale = self.params.get("scale", shape=(3,), init="ones")

    @mx.hybridize
    def scaled(self, x):
        return x * self.scale.data()

    def forward(self, x):
        return self.scaled(x) + 1


@pytest.mark.usefixtures("compiler")
def test_functions_and_blocks_contain_each_other():
    inner = mx.hybridize(lambda x: nd.relu(x) * 2)
    net = Layered()
    net.initialize()
    symbolic = nn.HybridLambda("tanh")
    symbolic.hybridize()

    @mx.hybridize
    def outer(x):
        return net(symbolic(inner(x)))

    (x,) = arrays((2, 3))
    inner(x)
    symbolic(x)
    expected = np.tanh(np.maximum(x.asnumpy(), 0) * 2) + 1
    for hybrid in (False, True):
        net.hybridize(hybrid)
        net(x)
        np.testing.assert_allclose(outer(x).asnumpy(), expected, rtol=1e-6)
    assert len(outer.explain(x).kernels) == 1
    net.scale.set_data(nd.zeros((3,)))
    np.testing.assert_allclose(outer(x).asnumpy(), np.ones((2, 3)))
    np.testing.assert_allclose(net.scaled(x).asnumpy(), np.zeros((2, 3)))


def test_a_block_is_hybridized_itself():
    net = nn.Dense(2)
    assert mx.hybridize(net, static_alloc=True) is net
    assert net._active
    assert net._flags["static_alloc"]


@pytest.mark.usefixtures("compiler")
def test_reports_and_texts():
    @mx.hybridize
    def function(x, w):
        return nd.softmax(nd.dot(x, w))

    with pytest.raises(RuntimeError, match=r"function was not called yet: call it with arguments before source\(\)"):
        function.source()
    x, w = arrays((2, 3), (3, 4))
    lowered = function.lower(x, w)
    assert lowered.text.startswith("graph function (x: f32[2,3], w: f32[3,4])")
    assert "test_functions.py" in lowered.text
    assert "HG_KERNEL" in lowered.text
    assert str(lowered) == lowered.text
    assert function.source() in lowered.text
    assert "softmax0" in str(function.explain(x, w))
    assert lowered.symbol.list_inputs() == ["x", "w"]
    w.attach_grad()
    with autograd.record():
        report = function.explain(x, w)
    assert report.backward is not None
    assert function.__name__ == "function"
    assert repr(function) == "<hybridized function function>"


def test_files(tmp_path):
    table = nd.array([[1, 2], [3, 4], [5, 6]])
    layer = nn.Dense(2, in_units=2, prefix="layer_")
    layer.initialize()

    @mx.hybridize
    def function(x, more):
        return layer(nd.dot(x, table)) + more[0]

    x, y = arrays((4, 3), (2,))
    expected = function(x, [y]).asnumpy()
    function.export(str(tmp_path / "f"))
    block = gluon.SymbolBlock.imports(str(tmp_path / "f-symbol.json"), ["x", "more0"], str(tmp_path / "f-0000.params"))
    np.testing.assert_allclose(block(x, y).asnumpy(), expected, rtol=1e-6)


def test_copies_and_pickles():
    again = pickle.loads(pickle.dumps(module_function))
    assert again(a).asnumpy().tolist() == (a + 1).asnumpy().tolist()
    assert copy.copy(module_function)(a).asnumpy().tolist() == (a + 1).asnumpy().tolist()


def plus_one(x):
    return x + 1


module_function = mx.hybridize(plus_one)


def test_flags_are_those_of_blocks(cuda_driver):
    function = mx.hybridize(lambda x: nd.tanh(nd.dot(x, x)), static_alloc=True, static_shape=True, numeric="fast")
    (x,) = arrays((4, 4), ctx=mx.gpu(0))
    for _ in range(3):
        np.testing.assert_allclose(function(x).asnumpy(), np.tanh(x.asnumpy() @ x.asnumpy()), rtol=1e-5, atol=1e-6)
    assert function.explain(x).numeric == "fast"
    with pytest.raises(mx.MXNetError, match=r"hybridize\(\) has no flag static"):
        mx.hybridize(lambda x: x, static=True)
    with pytest.raises(TypeError, match="a function or a block, not 3"):
        mx.hybridize(3)


def test_control_flow_of_values_is_refused():
    @mx.hybridize
    def function(x):
        if x.sum() > 0:
            return x
        return -x

    with pytest.raises(
        mx.TracingError, match=r"\(block function, test_functions.py:\d+\)\n    if x.sum\(\) > 0:\nWrite nd.where"
    ):
        function(a)


def test_arguments_on_several_devices_are_refused(cuda_driver):
    add = mx.hybridize(lambda x, y: x + y)
    with pytest.raises(ValueError, match=r"several devices, cpu\(0\), gpu\(0\)"):
        add(nd.ones((2,)), nd.ones((2,), ctx=mx.gpu(0)))


@pytest.mark.usefixtures("compiler")
def test_a_repeated_call_runs_no_python_of_the_function():
    calls = []
    function = mx.hybridize(lambda x, k: calls.append(1) or x * k)
    for _ in range(3):
        function(a, 2)
    with autograd.train_mode():
        function(a, 2)
    assert len(calls) == 2
    assert function._calls.fast is not None


#: what a function does with an argument x that it writes into, and the factor of x's old value
WRITES = {
    "all": (lambda x: x.__setitem__(slice(None), x * 2), 2),
    "operator": (lambda x: x.__imul__(3), 3),
    "twice": (lambda x: [x.__imul__(2), x.__imul__(2)], 4),
}


@pytest.mark.parametrize("second", [False, True], ids=["first", "second"])
@pytest.mark.parametrize("name", WRITES)
def test_gradients_of_a_call_that_writes_its_argument_are_of_the_value_before(name, second):
    write, factor = WRITES[name]

    @mx.hybridize
    def function(x, w):
        write(x)
        return x * w * w

    for _ in range(3):
        x, w = nd.array([1, 2]), nd.array([3, 4])
        w.attach_grad()
        with autograd.record():
            y = function(x, w)
            if second:
                y = autograd.grad(y, w, create_graph=True, retain_graph=True)[0]
        y.backward()
        expected = factor * np.array([1, 2]) * (2 if second else 2 * np.array([3, 4]))
        same(w.grad.asnumpy(), expected.astype(np.float32))
        same(x.asnumpy(), np.float32([factor, 2 * factor]))


@pytest.mark.parametrize("reads", [False, True])
def test_a_recorded_result_cannot_be_written_by_a_call(reads):
    """Its gradient would go on to what it was computed from as if nothing had been written."""

    @mx.hybridize
    def function(x, w):
        x[:] = x * 2 if reads else 2
        return x * w

    w = nd.array([3, 4])
    w.attach_grad()
    for k in range(4):
        x = nd.array([1, 2])
        with autograd.record():
            if k % 2 == 0:
                function(x, w)
                continue
            x.attach_grad()
            inner = x * 1
            with pytest.raises(mx.MXNetError, match="Assigning to NDArrays that are already in a computational graph"):
                function(inner, w)
        same(inner.asnumpy(), x.asnumpy())
