# SPDX-License-Identifier: Apache-2.0
"""Zero-dimensional and empty arrays through eager functions, hybridized programs and their backward passes."""

import numpy as onp
import pytest

import hybridgpu as mx
from hybridgpu import gluon, np, npx


@pytest.fixture(autouse=True)
def numpy_semantics():
    npx.set_np()
    yield
    npx.reset_np()


SHAPES = [(), (1,), (0,), (0, 3), (3, 0), (2, 0, 3), (2, 3)]
ELEMENTWISE = [
    lambda F, x: x + 1,
    lambda F, x: x * x - 2 * x,
    lambda F, x: 1 / (x + 2),
    lambda F, x: x**2,
    lambda F, x: F.np.exp(x),
    lambda F, x: F.np.sqrt(x + 1),
    lambda F, x: F.np.maximum(x, 1),
    lambda F, x: F.np.where(x > 1, x, 2 * x),
    lambda F, x: F.npx.relu(x - 1),
    lambda F, x: F.npx.sigmoid(x),
    lambda F, x: F.np.clip(x, 0.5, 1.5),
    lambda F, x: F.np.abs(x - 1),
]
SHAPED = [
    lambda F, x: F.np.sum(x),
    lambda F, x: F.np.sum(x, keepdims=True),
    lambda F, x: F.np.prod(x),
    lambda F, x: F.np.expand_dims(x, 0),
    lambda F, x: F.np.transpose(x),
    lambda F, x: F.np.stack([x, 2 * x]),
    lambda F, x: F.np.concatenate([F.np.expand_dims(x, 0), F.np.expand_dims(x, 0)], axis=0),
    lambda F, x: F.np.squeeze(F.np.expand_dims(x, 0), 0),
    lambda F, x: F.np.zeros_like(x) + F.np.ones_like(x),
    lambda F, x: F.np.sum(x) + F.np.ones((2, 1)),
]


class Net(gluon.HybridBlock):
    def __init__(self, functions):
        super().__init__()
        self.functions = functions

    def hybrid_forward(self, F, x):
        return tuple(f(F, x) for f in self.functions)


def run(net, shape, dtype):
    x = np.array(onp.linspace(0.25, 1.75, int(onp.prod(shape, dtype=int))).reshape(shape), dtype=dtype)
    x.attach_grad()
    with mx.autograd.record():
        results = net(x)
        total = results[0].sum()
        for k, r in enumerate(results[1:]):
            total = total + (r * (k + 2)).sum()
    total.backward()
    return [*results, x.grad]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_eager_and_hybridized_agree(shape):
    functions = [*ELEMENTWISE, *SHAPED]
    net = Net(functions)
    eager = run(net, shape, "float32")
    exact = run(net, shape, "float64")
    net.hybridize()
    for found in (run(net, shape, "float32"), run(net, shape, "float32")):
        for a, b, c in zip(eager, found, exact, strict=True):
            assert type(a) is type(b) is np.ndarray and a.shape == b.shape == c.shape and a.dtype == b.dtype
            assert onp.allclose(a.asnumpy(), b.asnumpy(), 1e-5, 1e-6)
            assert onp.allclose(a.asnumpy(), c.asnumpy(), 1e-4, 1e-5)
    assert eager[len(ELEMENTWISE)].shape == () and eager[-1].shape == shape


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_as_numpy(shape):
    x = onp.linspace(0.25, 1.75, int(onp.prod(shape, dtype=int))).reshape(shape).astype("float32")
    y = np.array(x)
    for name in (
        "exp",
        "sqrt",
        "sum",
        "prod",
        "transpose",
        "squeeze",
        "ravel",
        "cumsum",
        "std",
        "var",
        "sort",
        "argsort",
    ):
        if name in ("std", "var") and not x.size:
            continue  # NaN, with a warning of NumPy
        expected, found = getattr(onp, name)(x, **({"axis": None} if name in ("sort", "argsort") else {})), None
        found = getattr(np, name)(y, **({"axis": None} if name in ("sort", "argsort") else {}))
        assert found.shape == onp.shape(expected), name
        assert onp.allclose(found.asnumpy(), expected, 1e-5), name
    for name in ("add", "multiply", "maximum", "hypot", "greater"):
        for other in (2.0, x, onp.float32(3), onp.ones((2, *((1,) * x.ndim)), "float32")):
            expected = getattr(onp, name)(x, other)
            found = getattr(np, name)(y, np.array(other) if isinstance(other, onp.ndarray) else other)
            assert found.shape == expected.shape and onp.allclose(found.asnumpy(), expected), name


@pytest.mark.parametrize("axis", [None, 0])
def test_the_average_of_nothing_is_not_a_number(axis):
    found = np.average(np.zeros((0, 3)), axis=axis)
    assert onp.isnan(found.asnumpy()).all() and found.shape == (() if axis is None else (3,))
