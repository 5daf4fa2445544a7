# SPDX-License-Identifier: Apache-2.0
"""Blocks that define ``forward(x, ...)``: hybridized they give what they give eagerly, gradients and states included."""

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import autograd, gluon, nd

CONTEXTS = ["cpu", "gpu"]


@pytest.fixture(params=CONTEXTS)
def ctx(request):
    if request.param == "cpu":
        return mx.cpu()
    request.getfixturevalue("cuda_driver")
    return mx.gpu(0)


def block_of(body):
    """A block whose ``forward`` is ``body``."""

    class Net(gluon.HybridBlock):
        def forward(self, *args):
            return body(*args)

    return Net(prefix="net_")


def values(result):
    """The arrays of a nested result as NumPy's, other values as they are; containers keep their kind."""
    if isinstance(result, nd.NDArray):
        return result.asnumpy()
    if isinstance(result, dict):
        return {k: values(v) for k, v in result.items()}
    if isinstance(result, (list, tuple)):
        return type(result)(map(values, result))
    return result


def same(got, expected, **tolerance):
    """Equal in structure, and in values up to roundings."""
    assert type(got) is type(expected)
    if isinstance(got, dict):
        assert list(got) == list(expected)
        for k in got:
            same(got[k], expected[k], **tolerance)
    elif isinstance(got, (list, tuple)):
        assert len(got) == len(expected)
        for a, b in zip(got, expected, strict=True):
            same(a, b, **tolerance)
    elif isinstance(got, np.ndarray):
        assert got.dtype == expected.dtype
        assert got.shape == expected.shape
        np.testing.assert_allclose(got, expected, **{"rtol": 2e-6, "atol": 1e-7, **tolerance})
    else:
        assert got == expected


def loop(x, y):
    total = x * 0
    for k in range(3):
        total = total + x[k] * (k + 1)
    return total


def rows(x, y):
    return [row.sum() for row in x]


def by_shape(x, y):
    n, k = x.shape
    assert (x.ndim, x.size, len(x), x.dtype) == (2, n * k, n, np.float32)
    assert x.context == x.ctx == y.context
    return x.reshape((k, n)) * n + x.size, nd.zeros((2, n), ctx=x.context, dtype=x.dtype) + k


def structures(x, y):
    return {"a": (x, [y * 2, None]), "n": 3, "t": (x + y,)}, None


def with_statics(x, y):
    if x.shape[0] > 2:
        return -x
    return y


def in_closure(x, y):
    return nd.concat(*[x * k for k in (1, 2)], dim=1)


#: bodies of (x of (4, 6), y of (4, 6)), of which gradients are taken, too
PURE = {
    "arithmetic": lambda x, y: (2 - x) * y / (1 + y * y) - x**2 + 2**y + abs(-x),
    "comparisons": lambda x, y: (x > y) * x + (x <= 0.5) * y + (x == y) + (1 > x),
    "functions": lambda x, y: nd.relu(x) + nd.softmax(y, axis=1) + nd.LeakyReLU(x, act_type="elu"),
    "methods": lambda x, y: x.tanh().expand_dims(0).sum(axis=(0, 1), keepdims=True) + y.mean(axis=1).sum(),
    "transposed": lambda x, y: nd.dot(x, y.T) + x.shape[0],
    "loop": loop,
    "rows": rows,
    "shapes": by_shape,
    "structures": structures,
    "branches of shapes": with_statics,
    "lists": in_closure,
    "integer": lambda x, y: x[1] + y[-1],
    "slices": lambda x, y: x[1:3] * y[:2] + x[-2:],
    "columns": lambda x, y: x[:, 1] + y[:, -1] + x[:, ::2].sum(axis=1) + y[:, ::-1][:, 0],
    "new axes": lambda x, y: x[:, None, :] * y[None, ..., 0:1],
    "ellipsis": lambda x, y: x[..., 2] + y[1, ...][3],
    "one element": lambda x, y: x[1, 2] * y[0][1],
    "positions": lambda x, y: x[[2, 0, 2]] + y[np.array([0, -1, 1])],
    "pairs of positions": lambda x, y: x[[0, 1], [2, -1]] + y[1, [0, 3]],
    "positions and slices": lambda x, y: x[1:, [0, 2]] + y[:3][:, [1, 1]],
    "computed positions": lambda x, y: x[(y > 0.5).sum(axis=1).astype("int32") % 4],
    "reshaped": lambda x, y: x.reshape((0, -1, 2)) + y.reshape(4, 3, 2),
    "split": lambda x, y: nd.split(x, 2, axis=1)[1] + nd.split_v2(y, (3,), axis=1)[0],
    "several results": lambda x, y: nd.topk(x, k=2, ret_typ="both", axis=1),
    "detached": lambda x, y: x.detach() * x + y,
    "paused": lambda x, y: x * paused(lambda: y * 2) + y,
    "types": lambda x, y: x.astype("float64") * 2 + y.astype("int32").astype("float64"),
    "copies": lambda x, y: x.copy() + y.copyto(y.context) + x.as_in_context(y.context),
    "made inside": lambda x, y: (
        x + nd.arange(6, ctx=x.context) * nd.ones((4, 1), ctx=x.context) + nd.full((6,), 3, ctx=x.context)
    ),
    "array of an array": lambda x, y: nd.array(x, ctx=x.context) + y,
    "a list of NumPy": lambda x, y: x + nd.array([1, 2, 3, 4, 5, 6], ctx=x.context),
    "moved": lambda x, y: nd.moveaxis(x.expand_dims(0), 0, 2).squeeze(axis=2) + nd.concatenate([x, y])[:4],
    "foreach": lambda x, y: nd.contrib.foreach(lambda a, s: (a * s[0], [s[0] + a]), x, [y[0]]),
    "foreach of one axis": lambda x, y: nd.contrib.foreach(lambda a, s: (a + s, s * a), x[0], y[0, :1]),
    "foreach without its slice": lambda x, y: nd.contrib.foreach(lambda a, s: (s, s * 2), x, y[0]),
    "while_loop": lambda x, y: nd.contrib.while_loop(
        lambda i, s: i < 3, lambda i, s: (s * i, (i + 1, s + y)), (nd.zeros((1,), ctx=x.context), x), max_iterations=5
    ),
    "cond": lambda x, y: nd.contrib.cond(x.sum() > y.sum() - 100, lambda: x * 2, lambda: y - x),
}


def paused(function):
    with autograd.pause(train_mode=autograd.is_training()):
        return function()


def update(x, y):
    z = x * 1
    z += y
    z -= 1
    z *= 2
    z /= 3
    return z


def elements(x, y):
    z = nd.zeros_like(x)
    z[0] = y[1]
    z[1:3] = x[:2] * 2
    z[3, 2:] = 7
    z[:, 0] = y[:, 1]
    z[-1, 1] = x[0, 0]
    z[:, 4::-2] = x[:, :3]
    return z


def views(x, y):
    z = x + 0
    row = z[1]
    row[:] = y[2]
    flat = z.reshape((-1,))
    flat[3:5] = -1
    row += 10
    part = z[2:4]
    part[0] = row
    return z, row, flat


def filled(x, y):
    z = nd.empty(x.shape, ctx=x.context)
    for k in range(4):
        z[k] = x[k] * k
    z[[0, 2]] = y[:2]
    z[[1, 3], 2] = 5
    z[2:, [0, 1]] = nd.array([[1, 2], [3, 4]], ctx=x.context)
    return z


def through_out(x, y):
    z = nd.zeros(x.shape, ctx=x.context)
    nd.elemwise_add(x, y, out=z)
    return z, nd.relu(z, out=z) is z


def grown(x, y):
    found = []
    state = x[0]
    for k in range(len(y)):
        state = state * 0.5 + y[k]
        found.append(state)
    return nd.stack(*found), [found[0]]


#: bodies that write into arrays
WRITING = {
    "updates": update,
    "elements": elements,
    "views": views,
    "filled": filled,
    "out": through_out,
    "collected": grown,
}


def arguments(ctx):
    random = np.random.default_rng(3)
    made = random.uniform(0, 1, (2, 4, 6)).astype(np.float32)
    return [nd.array(a, ctx=ctx) for a in made]


@pytest.mark.long_table
@pytest.mark.parametrize("name", [*PURE, *WRITING])
def test_a_traced_forward_gives_what_it_gives_eagerly(name, ctx):
    body = {**PURE, **WRITING}[name]
    expected = values(body(*arguments(ctx)))
    net = block_of(body)
    net.hybridize()
    for _ in range(3):  # traced, then prepared
        args = arguments(ctx)
        before = [a.asnumpy() for a in args]
        same(values(net(*args)), expected)
        for a, b in zip(args, before, strict=True):
            np.testing.assert_array_equal(a.asnumpy(), b)


def gradients(call, ctx):
    args = arguments(ctx)
    for a in args:
        a.attach_grad()
    with autograd.record():
        result = call(*args)
        flat = []

        def visit(r):
            if isinstance(r, nd.NDArray):
                if r.dtype in (np.float32, np.float64):
                    flat.append((r * r + r).sum().astype("float64"))
            elif isinstance(r, (list, tuple, dict)):
                for v in r.values() if isinstance(r, dict) else r:
                    visit(v)

        visit(result)
        total = flat[0]
        for f in flat[1:]:
            total = total + f
    total.backward()
    return [a.grad.asnumpy() for a in args]


@pytest.mark.long_table
@pytest.mark.parametrize("name", [n for n in PURE if n not in ("several results",)])
def test_gradients_of_a_traced_forward_are_those_of_eager_calls(name):
    expected = gradients(PURE[name], mx.cpu())
    net = block_of(PURE[name])
    net.hybridize()
    for _ in range(2):
        same(gradients(net, mx.cpu()), expected, rtol=1e-5, atol=1e-5)
