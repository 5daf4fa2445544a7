# SPDX-License-Identifier: Apache-2.0
"""What users write in ``forward``: results, written arguments and gradients are those without a trace, of nd and np arrays."""

import copy
import enum
import functools
import math
from collections import namedtuple

import numpy as onp
import pytest

import hybridgpu as mx
from hybridgpu import autograd, gluon, nd

np, npx = mx.np, mx.npx
Pair = namedtuple("Pair", "first second")
Mode = enum.Enum("Mode", "A B")


@pytest.fixture(params=["nd", "np"])
def kind(request):
    if request.param == "nd":
        yield "nd"
        return
    npx.set_np()
    yield "np"
    npx.reset_np()


def is_nd(x):
    return x._kind is None


def stack(arrays):
    return nd.stack(*arrays) if is_nd(arrays[0]) else np.stack(arrays)


def zeros_of(x):
    return nd.zeros(x.shape) if is_nd(x) else np.zeros(x.shape)


def early_return(x, y):
    if x.shape[0] > 2:
        return x * y
    return y


def nested_function(x, y):
    def power(k):
        return y if k == 0 else power(k - 1) * x + k

    return power(3)


def counting_down(x, y):
    k = x.shape[0]
    while k > 0:
        x = x + y / k
        k -= 1
    return x


def trying(x, y):
    try:
        z = x.reshape((7, 7))
    except mx.MXNetError:
        z = x.reshape((-1,))
    finally:
        y = y * 2
    return z * 2, y


def generator(x, y):
    def parts():
        for k in range(3):
            yield x * k + y

    return sum(parts())


def recurrent(x, y):
    state, states = y[0], []
    for row in x:
        state = (row + state) * 0.5
        states.append(state)
    return stack(states), state


def closure(x, y):
    count = 0

    def again():
        nonlocal count, x
        count += 1
        x = x * y + count

    again()
    again()
    return x


def inner_class(x, y):
    class Times:
        def __init__(self, by):
            self.by = by

        def __call__(self, z):
            return self.by * z

    return Times(x)(y)


def dictionary(x, y):
    parts = {"a": x, "b": {"c": y}}
    parts.update(sum=x + y)
    return {key: (part["c"] if key == "b" else part) * 2 for key, part in parts.items()}


def unpacked(x, y):
    (n, m), (first, *rest) = x.shape, x
    return (first + sum(rest)) * n / m - y[0]


def texts(x, y):
    assert f"{x.shape}{y!r}{'%s' % x}"  # noqa: UP031
    return x * 1


def copied(x, y):
    z, w = copy.copy(x) * 1, copy.deepcopy([x, y])
    return z + w[0] * w[1]


def by_identity(x, y):
    numbers = {id(x): 5, id(y): 7}
    return x * numbers[id(y)] * ([x, y].index(x) + 1) + (y if y is not x else 0)


#: bodies of (x, y), two arrays of (n, 3), of which gradients are taken, too
BODIES = {
    "early return": early_return,
    "recursion": nested_function,
    "while": counting_down,
    "try": trying,
    "generator": generator,
    "recurrence": recurrent,
    "closure": closure,
    "class": inner_class,
    "dictionary": dictionary,
    "unpacking": unpacked,
    "texts": texts,
    "copies": copied,
    "identity": by_identity,
    "named tuple": lambda x, y: Pair(y, x)._replace(second=x * y),
    "enumerate": lambda x, y: stack([row * k for k, row in enumerate(x)]) + y,
    "zip": lambda x, y: stack([a * b.sum() for a, b in zip(x, y, strict=True)]),
    "sum": lambda x, y: sum([x, y, x * y]) + sum(x),
    "sorted by shape": lambda x, y: [p * 1 for p in sorted([x, x[:1], y[:, :2]], key=lambda a: a.shape)],
    "numbers of Python": lambda x, y: x * max([x.shape[0], 5]) + min(y.shape) + round(3.7) + math.pi,
    "sizes": lambda x, y: x.reshape((int(x.shape[0]) * int(x.shape[1]),)) / float(x.size) * len(y) * x.ndim,
    "types": lambda x, y: (
        x.astype(x.dtype) * (2 if x.dtype == onp.float32 else 3) + y.astype("float64").astype("float32")
    ),
    "instances": lambda x, y: x * (2 if isinstance(x, nd.NDArray) and isinstance(x, type(y)) else 3),
    "numbers of NumPy": lambda x, y: x * onp.float32(2.5) + onp.sqrt(2) * onp.float64(3) + onp.int64(3) * y,
    "enum": lambda x, y: {Mode.A: x, Mode.B: y}[Mode.B] * 3,
    "reduce": lambda x, y: functools.reduce(lambda a, b: a * b, [x, y, x]),
    "mode": lambda x, y: x * (2 if autograd.is_training() else 3) * y,
    "comparisons": lambda x, y: (x > 0) * (x < 1) * x + (x >= y) * y + (x != y),
    "powers": lambda x, y: (abs(x) + 1) ** 0.5 + 2**y + x**3 - (-x) % 0.7,
    "negative steps": lambda x, y: (x[::-1] * y[:, ::-1], x[::-2, ::2], x[-1:0:-1] * 2),
    "no elements": lambda x, y: (x[0:0] * 2, x * y),
    "same twice": lambda x, y: (lambda z: (z, z, [z[0]]))(x + y),
    "arguments": lambda x, y: (x, y, x * 1),
    "other values": lambda x, y: (x * y, 3, "a", None, (1, 2), True, [], {}),
    "both interfaces": lambda x, y: (
        x * (y.as_np_ndarray().as_nd_ndarray() if is_nd(x) else y.as_nd_ndarray().as_np_ndarray())
    ),
    "device": lambda x, y: x.as_in_context(y.context) * y.copyto(x.ctx),
    "a hybridized function": lambda x, y: INNER(x, y) * 2,
}
INNER = mx.hybridize(lambda a, b: a * b + 1)


def part_by_part(x, y):
    z = x * 1
    z[0] += y[1]
    z[1:, 1:] *= 2
    z[:, 0] -= 1
    z[0, 0] /= 3
    return z


def views_of_views(x, y):
    z = x * 1
    rows = z[1:]
    row = rows[0]
    row += 10
    rows[-1] = y[0]
    flat = z.reshape((-1,))
    flat[::2] = 0
    return z, rows, row, flat


def filled(x, y):
    out = zeros_of(x)
    for k in range(len(x)):
        out[k] = x[k] + (out[k - 1] if k else y[0])
    return out


def swapped(x, y):
    held = x[0].copy()
    x[0] = x[1]
    x[1] = held
    return x * y


#: bodies that write, of which eager calls take no gradients
WRITING = {
    "part by part": part_by_part,
    "views of views": views_of_views,
    "filled": filled,
    "swapped": swapped,
    "backwards": lambda x, y: (x.__setitem__(slice(None, None, -1), y), x * 1)[1],
    "columns": lambda x, y: (y.__setitem__((slice(None), slice(None, None, -2)), 3), y * x)[1],
    "positions": lambda x, y: (x.__setitem__([0, 1], y[:2]), x.__setitem__((slice(None), [0, 2]), 0), x * 1)[2],
    "a name of the same array": lambda x, y: (lambda z: (z.__iadd__(1), x * 2))(x)[1],
    "nothing else": lambda x, y: (x.__imul__(y), None)[1],
}


class Net(gluon.HybridBlock):
    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, x, y):
        return self.body(x, y)


def leaves(result):
    if isinstance(result, nd.NDArray):
        return [result]
    if isinstance(result, dict):
        result = list(result.values())
    return [x for part in result for x in leaves(part)] if isinstance(result, (list, tuple)) else []


def shown(result):
    """A result with NumPy's arrays, and the classes of arrays."""
    if isinstance(result, nd.NDArray):
        return type(result), result.asnumpy()
    if isinstance(result, dict):
        return {k: shown(v) for k, v in result.items()}
    if isinstance(result, (list, tuple)):
        return [type(result), *map(shown, result)]
    return result


def same(got, expected):
    assert type(got) is type(expected)
    if isinstance(got, dict):
        assert list(got) == list(expected)
        got, expected = list(got.values()), list(expected.values())
    if isinstance(got, (list, tuple)):
        assert len(got) == len(expected)
        for a, b in zip(got, expected, strict=True):
            same(a, b)
    elif isinstance(got, onp.ndarray):
        assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
        onp.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)
    else:
        assert got == expected


def outcomes(call, kind, grad_req):
    """Results, arguments after the call and their gradients, of calls of two sizes."""
    found = []
    for k, n in enumerate((2, 2, 3, 2)):
        rng = onp.random.default_rng(k)
        x, y = ((nd if kind == "nd" else np).array(rng.uniform(-1, 1, (n, 3)).astype("float32")) for _ in "xy")
        if grad_req is None:
            found.append(shown(call(x, y)))
        else:
            x.attach_grad(grad_req)
            y.attach_grad(grad_req)
            for _ in range(2):
                with autograd.record():
                    result = call(x, y)
                    total = sum((a * a).sum() for a in leaves(result) if a.size)
                total.backward()
            found += [shown(result), shown(x.grad), shown(y.grad)]
        found += [shown(x), shown(y)]
    return found


def ways(body):
    net = Net(body)
    net.hybridize()
    return mx.hybridize(body), net


@pytest.mark.parametrize("grad_req", [None, "write", "add"])
@pytest.mark.parametrize("name", BODIES)
def test_bodies(name, grad_req, kind, no_compiler):
    body = BODIES[name]
    expected = outcomes(body, kind, grad_req)
    for call in ways(body):
        same(outcomes(call, kind, grad_req), expected)


@pytest.mark.parametrize("name", WRITING)
def test_bodies_that_write(name, kind, no_compiler):
    body = WRITING[name]
    for call in ways(body):
        same(outcomes(call, kind, None), outcomes(body, kind, None))
