# SPDX-License-Identifier: Apache-2.0
"""Arguments that share memory of which a function writes a part: each call gives what the function gives without a graph."""

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import autograd, gluon, nd

DEVICES = ["cpu", "gpu"]


@pytest.fixture(params=DEVICES)
def ctx(request):
    if request.param == "cpu":
        return mx.cpu()
    request.getfixturevalue("cuda_driver")
    return mx.gpu(0)


def nested(x, more):
    more["a"][0][:] = x * 2
    return x + more["a"][0], {"y": more["a"][0] * 1}


def through_view(x, y):
    part = x[1:3]
    part *= 3
    return y + 1


def grown(x, y):
    for _ in range(3):
        x += y
    return (x * y).sum()


def swapped(x, y):
    z = x.copy()
    x[:] = y
    y[:] = z


#: what is called with arrays of four elements
FUNCTIONS = {
    "the first": lambda x, y: (x.__iadd__(1), y * 2 + x)[1],
    "the second": lambda x, y: (y.__setitem__(1, x[2]), x * 2)[1],
    "both": lambda x, y: (x.__iadd__(y), y.__iadd__(x), x - y)[-1],
    "a view": through_view,
    "again and again": grown,
    "swapped": swapped,
    "out": lambda x, y: nd.elemwise_add(x, y, out=x) * y,
}

#: (a base of six elements) -> two arguments in it
PLACES = {
    "one": lambda base: (base[:4],) * 2,
    "the same memory twice": lambda base: (base[:4], base[:4]),
    "overlapping": lambda base: (base[:4], base[2:]),
    "overlapping before": lambda base: (base[2:], base[:4]),
    "side by side": lambda base: (base[:3], base[3:]),
}


def interface(kind, host, ctx):
    if kind == "numpy":
        return host
    x = nd.array(host, ctx=ctx)
    return x.as_np_ndarray() if kind == "np" else x


def host_of(x):
    return x.asnumpy() if isinstance(x, nd.NDArray) else x


def outcomes(call, function, kind, places, ctx, record=False):
    """Results and written memory of calls with arrays apart, and with arrays that share memory, in turn."""
    found = []
    for shared in (False, False, False, True, True, False, True):
        base, other = (interface(kind, np.arange(k, k + 6, dtype=np.float32), ctx) for k in (1, 5))
        first, second = places(base)
        if not shared:
            second = other[: len(second)]
        if record:
            with autograd.record():
                out = call(first, second)
        else:
            out = call(first, second)
        found += [None if out is None else host_of(out).copy(), host_of(base).copy(), host_of(other).copy()]
    return found


def same(got, expected):
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6) if b is not None else None
        assert (a is None) == (b is None)


class Block(gluon.HybridBlock):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


class Below(gluon.HybridBlock):
    """A hybrid_forward that has a forward below it."""

    def __init__(self, function):
        super().__init__()
        self.block = Block(function)

    def hybrid_forward(self, F, x, y):
        return self.block(x, y)


def compiled_ways(function, flags):
    ways = [mx.hybridize(function, **flags), Block(function), Below(function)]
    for net in ways[1:]:
        net.hybridize(**flags)
    return ways


@pytest.mark.long_table
@pytest.mark.filterwarnings("ignore:.*whose memory")
@pytest.mark.parametrize("kind", ["nd", "np"])
@pytest.mark.parametrize("places", PLACES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_calls_with_shared_memory_give_what_eager_calls_give(name, places, kind, ctx):
    if (name == "out" and kind == "np") or (name == "a view" and places == "side by side"):
        return
    function = FUNCTIONS[name]
    for record in (False, True):
        expected = outcomes(function, function, kind, PLACES[places], ctx, record)
        for call in compiled_ways(function, {}):
            same(outcomes(call, function, kind, PLACES[places], ctx, record), expected)


@pytest.mark.filterwarnings("ignore:.*whose memory")
@pytest.mark.parametrize("places", PLACES)
@pytest.mark.parametrize("name", ["both", "again and again", "swapped"])
def test_arrays_of_numpy_are_written_where_they_lie(name, places):
    eager = outcomes(FUNCTIONS[name], FUNCTIONS[name], "nd", PLACES[places], mx.cpu())
    same(outcomes(mx.hybridize(FUNCTIONS[name]), FUNCTIONS[name], "numpy", PLACES[places], mx.cpu()), eager)


@pytest.mark.filterwarnings("ignore:.*whose memory")
@pytest.mark.parametrize("flags", [{"static_alloc": True}, {"static_alloc": True, "static_shape": True}])
def test_whatever_the_flags(flags, cuda_driver):
    function = FUNCTIONS["both"]
    for ctx in (mx.cpu(), mx.gpu(0)):
        expected = outcomes(function, function, "nd", PLACES["overlapping"], ctx)
        for call in compiled_ways(function, flags):
            same(outcomes(call, function, "nd", PLACES["overlapping"], ctx), expected)


def test_nested_arguments():
    def run(call):
        found = []
        for shared in (False, False, True, False):
            x, y = nd.arange(4), nd.ones((4,))
            out, more = call(x, {"a": [x if shared else y]})
            found += [out.asnumpy(), more["y"].asnumpy(), x.asnumpy(), y.asnumpy()]
        return found

    with pytest.warns(UserWarning, match="writes into more_a0, whose memory x shares"):
        got = run(mx.hybridize(nested))
    same(got, run(nested))


class Scaled(gluon.HybridBlock):
    """Has a parameter, a state that is written, and running statistics."""

    def __init__(self):
        super().__init__(prefix="scaled_")
        with self.name_scope():
            self.scale = self.params.get("scale", shape=(3,), init=mx.init.Constant(2))
            self.mean = self.params.get("mean", shape=(3,), init="zeros", grad_req="null")
            self.norm = gluon.nn.BatchNorm(in_channels=3)
        self.calls = nd.zeros((3,))

    def forward(self, x, write):
        self.calls += 1
        if write:
            x *= 3
        self.mean.data()[:] = self.mean.data() + x.sum()
        return self.norm((x * self.scale.data()).reshape((1, 3))) + self.mean.data() + x


#: what is given for x
GIVEN = {
    "an array of its own": lambda net: nd.ones((3,)),
    "a parameter that is read": lambda net: net.scale.data(),
    "a parameter that is written": lambda net: net.mean.data(),
    "a part of it": lambda net: net.mean.data().reshape((3, 1))[:3].reshape((3,)),
    "an array that is written": lambda net: net.calls,
    "running statistics": lambda net: net.norm.running_var.data(),
    "the gradient's variable": lambda net: net.norm.gamma.data(),
}


@pytest.mark.filterwarnings("ignore:.*whose memory")
@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("write", [False, True])
@pytest.mark.parametrize("name", GIVEN)
def test_what_the_function_has_met_may_be_its_argument(name, write, train):
    def run(hybrid):
        mx.random.seed(1)
        net, found = Scaled(), []
        net.initialize()
        if hybrid:
            net.hybridize()
        for k in range(6):
            x = GIVEN["an array of its own" if k % 3 == 0 else name](net)
            with autograd.train_mode() if train else autograd.predict_mode():
                found.append(net(x, write).asnumpy())
            found += [x.asnumpy(), net.calls.asnumpy(), *(p.data().asnumpy() for p in net.collect_params().values())]
        return found

    for got, expected in zip(run(True), run(False), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_gradients_of_calls_with_shared_memory():
    def step(state, x, w):
        state[:] = state * 0.5 + x.sum()
        return (w * state).sum()

    def run(call):
        found = []
        for shared in (False, False, False, True, False, True):
            state, w = nd.ones((3,)), nd.array([1, 2, 3])
            w.attach_grad()
            with autograd.record():
                loss = call(state, state if shared else nd.ones((3,)), w)
            loss.backward()
            found += [loss.asnumpy(), state.asnumpy(), w.grad.asnumpy()]
        return found

    with pytest.warns(UserWarning, match="writes into state, whose memory x shares"):
        got = run(mx.hybridize(step))
    same(got, run(step))


@pytest.mark.usefixtures("compiler")
def test_what_is_told_and_what_has_no_graph():
    add = mx.hybridize(lambda x, y: x.__iadd__(y))
    x, y = nd.ones((4,)), nd.ones((4,))
    with pytest.raises(mx.TracingError, match="writes into x, whose memory y shares\nA graph has no shared memory"):
        add.explain(x, x)
    for _ in range(3):
        add(x, y)
    with pytest.warns(UserWarning, match="run operator by operator") as told:
        for _ in range(3):
            add(x, x)
    assert len(told) == 1
    assert add._calls.fast is not None
    assert x.asnumpy().tolist() == [32] * 4

    met = nd.zeros((4,))
    part = met[1:3]
    with pytest.raises(mx.TracingError, match="writes into constant1, whose memory constant0 shares"):
        mx.hybridize(lambda x: (part * 2, met.__iadd__(x))[0])(x)


def test_a_function_that_writes_nothing_takes_one_array_twice():
    calls = []
    multiply = mx.hybridize(lambda x, y: calls.append(1) or x * y)
    x = nd.array([1, 2])
    for _ in range(3):
        assert multiply(x, nd.ones((2,))).asnumpy().tolist() == [1, 2]
        assert multiply(x, x).asnumpy().tolist() == [1, 4]
    assert len(calls) == 1


@pytest.mark.usefixtures("compiler")
def test_no_elements_share_nothing():
    """Views of no elements lie in the memory of an argument that is written: calls are prepared nevertheless."""
    with mx.util.np_shape(True):
        base = mx.np.arange(8)
        none = base[2:4][1:1]
        grow = mx.hybridize(lambda x, y: (x.__iadd__(1), none * 2, y * 2)[1:])
        for _ in range(3):
            grow(base[:4], base[1:1])
        grow._calls._graph = None  # prepared calls look for none
        grow(base[:4], base[1:1])
        assert base.asnumpy().tolist() == [4, 5, 6, 7, 4, 5, 6, 7]


@pytest.mark.parametrize("part", [np.s_[::2], np.s_[3::-1], np.s_[::-1]], ids=str)
@pytest.mark.parametrize("nested", [False, True])
def test_numpy_arrays_that_are_not_one_piece(part, nested):
    """They are read, as copies; a write would be lost."""
    taken = (lambda f: lambda x: f(x[0])) if nested else (lambda f: f)
    given = (lambda x: [x]) if nested else (lambda x: x)
    reads, writes = mx.hybridize(taken(lambda x: x * 2)), mx.hybridize(taken(lambda x: x.__iadd__(1)))
    for _ in range(3):
        base = np.arange(8, dtype=np.float32)
        assert (reads(given(base[part])) == base[part] * 2).all()
        assert (writes(given(base)) == np.arange(1, 9)).all() and base[0] == 1
        with pytest.raises(ValueError, match="writes into .*, of which it has a copy"):
            writes(given(base[part]))
        assert (base == np.arange(1, 9)).all()


def test_numpy_arrays_of_the_other_byte_order():
    x = np.arange(4, dtype=np.dtype("f4").newbyteorder("S"))
    reads = mx.hybridize(lambda x: x * 2)
    for _ in range(3):
        assert (reads(x) == [0, 2, 4, 6]).all()
