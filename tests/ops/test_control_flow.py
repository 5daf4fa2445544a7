# SPDX-License-Identifier: Apache-2.0
"""foreach, while_loop and cond: arrays, graphs, gradients, files."""

from __future__ import annotations

import json

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import autograd
from hybridgpu.base import MXNetError


class Net(mx.gluon.HybridBlock):
    """A function of F and inputs as a block."""

    def __init__(self, function):
        super().__init__()
        self._function = function

    def hybrid_forward(self, F, x, *args):
        return self._function(F, x, *args)


def flat(value):
    if isinstance(value, (list, tuple)):
        return [y for v in value for y in flat(v)]
    return [value]


def foreach_sum(F, x, s):
    return F.contrib.foreach(lambda d, h: (d * h, h + d), x, s)


def foreach_nested(F, x, s, w):
    """Nested structures, a captured value, states that depend on each other."""

    def step(data, states):
        a, (b,) = data
        h, [k] = states
        new = F.tanh(F.dot(a, w) + h * b)
        return [new, [k * b]], [new + k, [h]]

    return F.contrib.foreach(step, [x, [x * 2]], [s, [s * s]])


def foreach_twice(F, x, s):
    """The result of one loop is captured by another."""
    first, last = F.contrib.foreach(lambda d, h: (F.sigmoid(d), h + d), x, s)
    total = F.sum(first, axis=0)
    return F.contrib.foreach(lambda d, h: (d + total, h * total), first, last)


def foreach_inside(F, x, s, w):
    """A loop over the rows of each slice."""

    def outer(rows, h):
        inner, last = F.contrib.foreach(lambda r, k: (r * k + F.sum(w, axis=0), k + r), rows, F.sum(h, axis=0))
        return inner, h + F.broadcast_like(F.expand_dims(last, 0), h) * 0.1

    return F.contrib.foreach(outer, x, s)


def foreach_no_states(F, x, s):
    return F.contrib.foreach(lambda d, h: (F.exp(d) * s, []), x, [])


def foreach_no_outputs(F, x, s):
    return F.contrib.foreach(lambda d, h: ([], [h[0] * F.sigmoid(d)]), x, [s])[1]


def while_power(F, x, s):
    """Ends before its bound; the number of steps depends on the values."""

    def condition(h, k):
        return F.sum(k) < 3.5

    def step(h, k):
        first = F.squeeze(F.slice_axis(x, axis=0, begin=0, end=1), axis=0)
        return [F.broadcast_mul(h, k), F.tanh(h)], [h * first, k + 1]

    return F.contrib.while_loop(condition, step, [s, F.mean(F.ones_like(s))], max_iterations=6)


def cond_of(limit):
    def function(F, x, s):
        pred = F.sum(x) * 0 + 1 < limit
        return F.contrib.cond(pred, lambda: [F.log(s * s + 1), s], lambda: [s * F.sum(x, axis=0), s * 2])

    return function


def rng_array(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape) * 0.7


X, S, W = rng_array((4, 2, 3)), rng_array((2, 3), 1), rng_array((3, 3), 2)
FUNCTIONS = {
    "foreach_sum": (foreach_sum, (X, S)),
    "foreach_nested": (foreach_nested, (X, S, W)),
    "foreach_twice": (foreach_twice, (X, S)),
    "foreach_inside": (foreach_inside, (X, S, W)),
    "foreach_no_states": (foreach_no_states, (X, S)),
    "foreach_no_outputs": (foreach_no_outputs, (X, S)),
    "while_power": (while_power, (X, S)),
    "cond_then": (cond_of(2), (X, S)),
    "cond_else": (cond_of(0), (X, S)),
}
functions = pytest.mark.parametrize("function,arrays", FUNCTIONS.values(), ids=FUNCTIONS)


def results(function, arrays, hybridized, dtype="float32", ctx=None):
    """Values and gradients of a weighted sum of them."""
    net = Net(function)
    if hybridized:
        net.hybridize()
    inputs = [mx.nd.array(a, dtype=dtype, ctx=ctx) for a in arrays]
    for x in inputs:
        x.attach_grad()
    with autograd.record():
        out = flat(net(*inputs))
        total = mx.nd.add_n(*[(y * (k + 1)).sum() for k, y in enumerate(out)])
    total.backward()
    return [y.asnumpy() for y in out], [x.grad.asnumpy() for x in inputs], total.asscalar()


@functions
def test_hybridized(function, arrays, compiler):
    """The graph computes what the Python loop computes, with its gradients, and again when called again."""
    eager = results(function, arrays, False)
    found = results(function, arrays, True)
    for part, want in zip(found[:2], eager[:2], strict=True):
        assert len(part) == len(want)
        for a, b in zip(part, want, strict=True):
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b, 1e-4, 1e-5)


@functions
def test_gradient(function, arrays):
    """Eager gradients against finite differences."""

    def value(moved):
        out = flat(function(mx.nd, *[mx.nd.array(a, dtype="float64") for a in moved]))
        return sum((k + 1) * y.asnumpy().sum() for k, y in enumerate(out))

    _, gradients, _ = results(function, arrays, False, "float64")
    for k, g in enumerate(gradients):
        d = rng_array(g.shape, 9)
        ends = []
        for sign in (1, -1):
            moved = list(arrays)
            moved[k] = arrays[k] + sign * 1e-5 * d
            ends.append(value(moved))
        np.testing.assert_allclose((g * d).sum(), (ends[0] - ends[1]) / 2e-5, 1e-6, 1e-8)


@pytest.mark.long_table
@pytest.mark.parametrize("name", ["foreach_nested", "while_power", "cond_else"])
def test_emulated_gpu(name, cuda_driver):
    function, arrays = FUNCTIONS[name]
    want, _, _ = results(function, arrays, False)
    got, _, _ = results(function, arrays, True, ctx=mx.gpu(0))
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, 1e-4, 1e-5)


@functions
def test_json(function, arrays):
    """A graph that was written and read again computes the same, and is written the same."""
    names = ["x", "s", "w"][: len(arrays)]
    out = mx.sym.Group(flat(function(mx.sym, *map(mx.sym.var, names))))
    text = out.tojson()
    again = mx.sym.load_json(text)
    assert again.tojson() == text
    given = {n: mx.nd.array(a) for n, a in zip(names, arrays, strict=True) if n in out.list_inputs()}
    for a, b in zip(out.eval(**given), again.eval(**given), strict=True):
        np.testing.assert_array_equal(a.asnumpy(), b.asnumpy())
    shapes = again.infer_shape(**{n: v.shape for n, v in given.items()})[1]
    assert shapes == [y.shape for y in out.eval(**given)]


def node_of(symbol, operator):
    (found,) = (n for n in json.loads(symbol.tojson())["nodes"] if n["op"] == operator)
    return found


def test_json_of_foreach():
    """As MXNet 1.9.1 writes it."""
    x, s, w = map(mx.sym.var, "xsw")
    out, last = mx.sym.contrib.foreach(lambda d, h: (d * w, h + w), x, s)
    node = node_of(mx.sym.Group([out, last]), "_foreach")
    assert node["name"] == "_foreach0"
    assert node["attrs"] == {
        "in_data_locs": "[0]",
        "in_state_locs": "[2]",
        "num_args": "4",
        "num_out_data": "1",
        "num_outputs": "2",
        "remain_locs": "[1]",
    }
    (graph,) = node["subgraphs"]
    assert [n["name"] for n in graph["nodes"]] == ["x-0", "w", "_mul0", "s-0", "_plus0"]
    assert sorted(graph) == ["arg_nodes", "heads", "node_row_ptr", "nodes"]
    assert "attrs" not in graph["nodes"][1] and "__subgraph_name__" in graph["nodes"][0]["attrs"]


def test_json_of_while_loop():
    i, a = map(mx.sym.var, "ia")
    out, last = mx.sym.contrib.while_loop(lambda k: k < a, lambda k: (k * a, [k + 1]), [i], max_iterations=5)
    node = node_of(mx.sym.Group([out, *last]), "_while_loop")
    assert node["attrs"] == {
        "cond_input_locs": "[0, 1]",
        "func_input_locs": "[0, 2]",
        "func_var_locs": "[0]",
        "max_iterations": "5",
        "num_args": "5",
        "num_out_data": "1",
        "num_outputs": "2",
    }
    assert len(node["subgraphs"]) == 2


def test_json_of_cond():
    a, b = map(mx.sym.var, "ab")
    out = mx.sym.contrib.cond(a < b, lambda: a * b, lambda: a + b)
    node = node_of(out, "_cond")
    assert node["attrs"] == {
        "cond_input_locs": "[0]",
        "else_input_locs": "[1, 2]",
        "num_args": "6",
        "num_outputs": "1",
        "then_input_locs": "[1, 2]",
    }
    assert len(node["subgraphs"]) == 3


def test_branch_not_taken_does_not_count():
    """Its gradient would not be a number."""
    x = mx.nd.array([0.0])
    x.attach_grad()
    net = Net(lambda F, x: F.contrib.cond(F.sum(x) > 0, lambda: F.log(x), lambda: x * 3))
    net.hybridize()
    with autograd.record():
        y = net(x)
    y.backward()
    assert y.asscalar() == 0 and x.grad.asscalar() == 3


@pytest.mark.parametrize("limit,steps", [(0, 0), (2, 2), (9, 4)])
def test_rows_of_while_loop(limit, steps):
    """Rows that no step reached are zero; a loop without a step leaves its variables alone."""

    def function(F, k):
        return F.contrib.while_loop(lambda k: k < limit, lambda k: (k + 10, [k + 1]), [k], max_iterations=4)

    net = Net(function)
    net.hybridize()
    out, (last,) = net(mx.nd.zeros((1,)))
    assert out.asnumpy().ravel().tolist() == [10.0 + k if k < steps else 0.0 for k in range(4)]
    assert last.asscalar() == steps
    rows, (last,) = mx.nd.contrib.while_loop(lambda k: k < limit, lambda k: (k + 10, [k + 1]), [mx.nd.zeros((1,))], 4)
    assert (rows == [] if steps == 0 else rows.shape == (4, 1)) and last.asscalar() == steps


def test_random_numbers_differ_from_step_to_step():
    net = Net(lambda F, x, s: F.contrib.foreach(lambda d, h: (F.random.uniform(shape=(50,)) + d, h + 1), x, s)[0])
    net.hybridize()
    a = net(mx.nd.zeros((3, 50)), mx.nd.zeros((1,))).asnumpy()
    b = net(mx.nd.zeros((3, 50)), mx.nd.zeros((1,))).asnumpy()
    assert 0 <= a.min() and a.max() < 1
    rows = np.concatenate([a, b])
    assert np.unique(rows, axis=0).shape[0] == 6 and abs(np.corrcoef(rows) - np.eye(6)).max() < 0.6


def test_dropout_inside(compiler):
    """The backward pass sees the masks of the forward pass, step by step."""
    net = Net(lambda F, x, s: F.contrib.foreach(lambda d, h: (F.Dropout(d * h, p=0.5), h * 1), x, s)[0])
    net.hybridize()
    x, s = mx.nd.ones((3, 40)), mx.nd.ones((40,))
    x.attach_grad()
    with autograd.record():
        y = net(x, s)
    y.backward()
    np.testing.assert_array_equal(y.asnumpy(), x.grad.asnumpy())
    assert 0.2 < (y.asnumpy() == 0).mean() < 0.8 and len({r.tobytes() for r in y.asnumpy()}) == 3


def test_shapes_of_captured_parameters(compiler):
    """A layer inside a body has its shapes inferred through it."""

    class Cell(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.dense = mx.gluon.nn.Dense(3, flatten=False)

        def hybrid_forward(self, F, x, s):
            return F.contrib.foreach(lambda d, h: (self.dense(d) + h, h * 2), x, s)

    net = Cell()
    net.initialize()
    net.hybridize()
    out, _ = net(mx.nd.ones((4, 2, 5)), mx.nd.ones((2, 3)))
    assert net.dense.weight.shape == (3, 5)
    w = net.dense.weight.data().asnumpy().sum(1)
    np.testing.assert_allclose(out.asnumpy()[2], np.broadcast_to(w + 4, (2, 3)), 1e-5)


def test_integer_states():
    """Loop variables of several element types."""
    net = Net(
        lambda F, x, k: F.contrib.foreach(
            lambda d, s: (d * F.cast(s[0], "float32"), [s[0] + 1, s[1] + d]), x, [k, F.sum(x, axis=0)]
        )
    )
    net.hybridize()
    x = mx.nd.array(X)
    x.attach_grad()
    k = mx.nd.ones((2, 3), dtype="int32")
    with autograd.record():
        out, (count, total) = net(x, k)
        y = (out + mx.nd.expand_dims(total, 0)).sum()
    y.backward()
    assert count.dtype == np.int32 and (count.asnumpy() == 5).all()
    steps = np.arange(1, 5, dtype="float32")[:, None, None]
    np.testing.assert_allclose(out.asnumpy(), X * steps, 1e-5, 1e-5)
    np.testing.assert_allclose(x.grad.asnumpy(), np.broadcast_to(steps + 8, X.shape), 1e-5)


@pytest.mark.parametrize("F", [mx.nd, mx.sym], ids=["nd", "sym"])
@pytest.mark.parametrize(
    "call,error,message",
    [
        (lambda c, v: c.while_loop(lambda k: k, lambda k: (k, [k]), [v]), ValueError, "max_iterations should be"),
        (lambda c, v: c.while_loop(lambda k: k, lambda k: (k, [k]), [], 3), ValueError, "at least one element"),
        (lambda c, v: c.while_loop(lambda k: k < 2, lambda k: (k, []), [v], 3), ValueError, "consistent during"),
        (lambda c, v: c.foreach(lambda d, s: (d, s), 3, v), AssertionError, "foreach input must be"),
        (lambda c, v: c.foreach(lambda d, s: (d, s), v, 3), AssertionError, "foreach states must be"),
    ],
)
def test_misuse(F, call, error, message):
    with pytest.raises(error, match=message):
        call(F.contrib, mx.nd.zeros((1,)) if F is mx.nd else mx.sym.var("v"))


@pytest.mark.parametrize(
    "call,error,message",
    [
        (lambda c, v, w: c.foreach(lambda d, s: (s, s), v, w), AssertionError, "data arrays have to be used"),
        (lambda c, v, w: c.foreach(lambda d, s: (d, [d]), v, [w]), AssertionError, "state arrays have to be used"),
        (lambda c, v, w: c.foreach(lambda d, s: (d, [s]), v, w), AssertionError, "different format"),
        (
            lambda c, v, w: c.while_loop(lambda a, b: a, lambda a, b: (a, [a, a]), [v, w], 3),
            ValueError,
            "2-th loop_var",
        ),
        (lambda c, v, w: c.cond(v, lambda: [v], lambda: [v, w]), ValueError, "Number of outputs differs"),
    ],
)
def test_misuse_of_symbols(call, error, message):
    with pytest.raises(error, match=message):
        call(mx.sym.contrib, mx.sym.var("v"), mx.sym.var("w"))


@pytest.mark.parametrize(
    "function,message",
    [
        (lambda c, v, w: c.foreach(lambda d, s: (d, mx.sym.concat(s, s, dim=0)), v, w)[1], "must stay the same"),
        (lambda c, v, w: c.cond(v, lambda: w, lambda: w), "must have one element"),
        (lambda c, v, w: c.cond(mx.sym.sum(v), lambda: w, lambda: v), "result 0 of the branches"),
    ],
)
def test_shapes_that_do_not_fit(function, message):
    out = function(mx.sym.contrib, mx.sym.var("v"), mx.sym.var("w"))
    with pytest.raises(MXNetError, match=message):
        out.eval(v=mx.nd.zeros((3, 2)), w=mx.nd.zeros((2,)))


def first_row(F, x):
    return F.squeeze(F.slice(x, begin=(0, None), end=(1, None)), axis=(0,))


def zeros(F, x):
    """Of a row, of which nothing but the size is read."""
    return F.zeros_like(first_row(F, x))


#: what takes zeros on one side and the data on the other
ZEROS = {
    "foreach": lambda F, x: F.contrib.foreach(lambda row, total: [0.5 * row + total] * 2, x, zeros(F, x))[0],
    "while_loop": lambda F, x: F.contrib.while_loop(
        lambda k, y: k < 3,
        lambda k, y: ([], [k + 1, y + first_row(F, x)]),
        [F.zeros((1,)), zeros(F, x)],
        max_iterations=4,
    )[1][1],
    "cond": lambda F, x: F.contrib.cond(F.sum(x) < 0, lambda: zeros(F, x), lambda: F.sum(x, axis=0)),
}


@pytest.mark.parametrize("name", ZEROS)
def test_zeros_at_sizes_that_vary(name, compiler):
    net = Net(ZEROS[name])
    net.hybridize()
    for shape in ((5, 3), (8, 2), (6, 4), (6, 9)):
        x = mx.nd.arange(np.prod(shape)).reshape(shape)
        np.testing.assert_allclose(net(x).asnumpy(), ZEROS[name](mx.nd, x).asnumpy(), rtol=1e-6)


def test_state_of_a_layer_inside(compiler):
    """Running averages cannot change inside a loop; this is said, not ignored."""

    def function(F, x, s, *p):
        return F.contrib.foreach(lambda d, h: (F.BatchNorm(d, *p), h + 1), x, s)[0]

    net = Net(function)
    net.hybridize()
    arrays = [mx.nd.ones((2, 4, 3)), mx.nd.ones((1,)), *(mx.nd.ones((3,)) for _ in range(4))]
    net(*arrays)
    with autograd.record(), pytest.raises(MXNetError, match="changes its inputs"):
        net(*arrays)


@pytest.mark.parametrize("name,want", [("isnan", [0, 0, 0, 1]), ("isinf", [0, 1, 1, 0]), ("isfinite", [1, 0, 0, 0])])
def test_classes_of_numbers(name, want):
    x = mx.nd.array([1.0, np.inf, -np.inf, np.nan])
    y = getattr(mx.nd.contrib, name)(x)
    assert y.dtype == np.float32 and y.asnumpy().tolist() == want


def broken(change):
    """The text of a foreach and a while_loop with one thing changed, as a file may come."""
    x, s = mx.sym.var("x"), mx.sym.var("s")
    out, last = mx.sym.contrib.foreach(lambda d, h: (d * h, h + 1), x, s)
    rows, (end,) = mx.sym.contrib.while_loop(lambda k: k < 3, lambda k: (k, [k + 1]), [last], max_iterations=4)
    data = json.loads(mx.sym.Group([out, rows, end]).tojson())
    for node in data["nodes"]:
        change(node)
    return json.dumps(data)


def set_attr(operator, key, value):
    def change(node):
        if node["op"] == operator:
            node["attrs"][key] = value

    return change


def drop_graph(node):
    if "subgraphs" in node:
        del node["subgraphs"][0]


@pytest.mark.parametrize(
    "change",
    [
        drop_graph,
        set_attr("_foreach", "in_state_locs", "[7]"),
        set_attr("_foreach", "in_data_locs", "[0, 1]"),
        set_attr("_foreach", "remain_locs", "[1]"),
        set_attr("_foreach", "num_out_data", "2"),
        set_attr("_while_loop", "func_input_locs", "[3]"),
        set_attr("_while_loop", "func_var_locs", "[2]"),
        set_attr("_while_loop", "cond_input_locs", "[]"),
        set_attr("_while_loop", "max_iterations", "-1"),
    ],
)
def test_broken_files(change):
    """Graphs that do not fit their node are refused with MXNet's error, when they are read or when they run."""
    text = broken(lambda node: None)
    arrays = {"x": mx.nd.ones((3, 1)), "s": mx.nd.zeros((1,))}
    assert len(mx.sym.load_json(text).eval(**arrays)) == 3
    with pytest.raises(MXNetError):
        mx.sym.load_json(broken(change)).eval(**arrays)
    with pytest.raises(MXNetError):
        mx.sym.load_json(broken(change)).infer_shape(x=(3, 1))
