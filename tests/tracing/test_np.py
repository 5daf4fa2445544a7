# SPDX-License-Identifier: Apache-2.0
"""The same with arrays of np: blocks with ``forward``, functions, control flow; zero-dimensional arrays included."""

import numpy as onp
import pytest

import hybridgpu as mx
from hybridgpu import autograd, gluon
from hybridgpu.gluon import nn


@pytest.fixture(autouse=True)
def np_mode():
    mx.npx.set_np()
    yield
    mx.npx.reset_np()


@pytest.fixture(params=["cpu", "gpu"])
def ctx(request):
    if request.param == "cpu":
        return mx.cpu()
    request.getfixturevalue("cuda_driver")
    return mx.gpu(0)


np, npx = mx.np, mx.npx


def looped(x, y):
    total = np.zeros((), ctx=x.ctx)
    for row in x:
        for element in row[:2]:
            total = total + element * y[0]
    return total


def shapes(x, y):
    n, k = x.shape
    assert (x.ndim, x.size, len(x), str(x.dtype)) == (2, n * k, n, "float32")
    return x.reshape(-1, 2) * n + x.size / k, x.T.reshape(k, n), np.expand_dims(x, 0).squeeze(0)


#: bodies of (x of (4, 6), y of (6,)), of which gradients are taken, too
PURE = {
    "arithmetic": lambda x, y: (2 - x) * y / (1 + y * y) - x**2 + abs(-x) + x % 2,
    "matmul": lambda x, y: x @ y + x[:, 0] @ x[:, 1],
    "comparisons": lambda x, y: np.where((x > y) | (x < 0.2), x, y * 2),
    "functions": lambda x, y: npx.relu(x - 0.5) + npx.softmax(x) * np.exp(y) + np.maximum(x, y),
    "reductions": lambda x, y: (x.sum(), x.mean(axis=0), y.max(), x.std(), np.linalg.norm(x)),
    "loop": looped,
    "shapes": shapes,
    "integers": lambda x, y: x[1, 2] + y[-1],
    "slices": lambda x, y: x[1:3, ::-2] + y[:3],
    "new axes": lambda x, y: x[:, None] * y[None, None, :] + x[..., 0, None, None],
    "positions": lambda x, y: x[[2, 0], 1:3] + y[onp.array([0, 5])],
    "computed positions": lambda x, y: x[np.argmax(x, axis=0)[:3]] + y,
    "a constant mask": lambda x, y: x[onp.array([True, False, True, False])] + y,
    "joined": lambda x, y: np.concatenate([x, y[None]]) + np.stack([y] * 5),
    "made": lambda x, y: x + np.arange(6, ctx=x.ctx) + np.ones_like(y) + np.array([1, 2, 3, 4, 5, 6], ctx=x.ctx),
    "types": lambda x, y: (x.astype("float64") + 1, (y > 0.5).astype("int32")),
    "copies": lambda x, y: x.copy() + y.copyto(y.ctx) + x.as_in_ctx(y.ctx).as_nd_ndarray().as_np_ndarray(),
    "detached": lambda x, y: x.detach() * x + y,
    "foreach": lambda x, y: npx.foreach(lambda a, s: (a * s + y, s + a), x, x[0]),
    "foreach of numbers": lambda x, y: npx.foreach(lambda a, s: (a * s[0], [s[0] + a]), y, [x[0, 0]]),
    "while_loop": lambda x, y: npx.while_loop(
        lambda i, s: i < 3, lambda i, s: (s * i, (i + 1, s + y)), (np.zeros((), ctx=x.ctx), x), max_iterations=5
    ),
    "cond": lambda x, y: npx.cond(x.sum() > 100, lambda: x * 2, lambda: x - y),
    "cond of several": lambda x, y: npx.cond(x.sum() > 0, lambda: [x * 2, y.sum()], lambda: [x, y.max()]),
}


def written(x, y):
    z = np.zeros((4, 6), ctx=x.ctx)
    z[0] = y
    z[1:3, 1] = 5
    z[3][2:] = x[0, 2:]
    z[z > 4] = -1
    z[[0, 2], [1, 3]] = np.array([7.0, 8.0], ctx=x.ctx)
    z += x
    z[:, -1] *= 2
    scalar = z.sum()
    scalar[()] = scalar + 1
    return z, scalar, z.T


WRITING = {
    "written": written,
    "where": lambda x, y: np.where(x > 0.5, x, 0),
    "indices": lambda x, y: (np.argmax(x, axis=1), x.argsort(axis=1), (x > y).sum()),
}


def arguments(ctx):
    random = onp.random.default_rng(5)
    return np.array(random.uniform(0, 1, (4, 6)), dtype="float32", ctx=ctx), np.array(
        random.uniform(0, 1, 6), dtype="float32", ctx=ctx
    )


def flat(result):
    return [result] if not isinstance(result, (list, tuple)) else [v for r in result for v in flat(r)]


def block_of(body):
    class Net(gluon.HybridBlock):
        def forward(self, *args):
            return body(*args)

    net = Net()
    net.hybridize()
    return net


def compare(got, expected, **tolerance):
    for a, b in zip(flat(got), flat(expected), strict=True):
        assert type(a) is type(b) is np.ndarray
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        onp.testing.assert_allclose(a.asnumpy(), b.asnumpy(), **{"rtol": 3e-6, "atol": 1e-6, **tolerance})


@pytest.mark.long_table
@pytest.mark.parametrize("wrap", [block_of, mx.hybridize], ids=["block", "function"])
@pytest.mark.parametrize("name", [*PURE, *WRITING])
def test_traced_and_eager_agree(name, wrap, ctx):
    body = {**PURE, **WRITING}[name]
    expected = body(*arguments(ctx))
    hybrid = wrap(body)
    for _ in range(3):
        compare(hybrid(*arguments(ctx)), expected)


@pytest.mark.long_table
@pytest.mark.parametrize("name", PURE)
def test_gradients_agree(name):
    def gradients(call):
        args = arguments(mx.cpu())
        for a in args:
            a.attach_grad()
        with autograd.record():
            results = [r for r in flat(call(*args)) if "float" in str(r.dtype)]
            total = sum((r * r + r).sum().astype("float64") for r in results)
        total.backward()
        return [a.grad for a in args]

    expected, hybrid = gradients(PURE[name]), block_of(PURE[name])
    for _ in range(2):
        compare(gradients(hybrid), expected, rtol=1e-5, atol=1e-5)


class Net(gluon.HybridBlock):
    """As MXNet 2 writes blocks."""

    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(8, activation="relu")
        self.norm = nn.BatchNorm()
        self.drop = nn.Dropout(0.0)
        self.weight = self.params.get("weight", shape=(3, 0), allow_deferred_init=True)

    def infer_shape(self, x, *args):
        self.weight.shape = (3, 8)

    def forward(self, x, mask=None):
        h = self.drop(self.norm(self.dense(x)))
        if mask is not None:
            h = h * mask[:, None]
        return npx.fully_connected(h, self.weight.data(x.ctx), None, num_hidden=3, no_bias=True)


def test_training_a_block_of_mxnet_2(ctx):
    found = []
    for hybrid in (False, True):
        mx.random.seed(0)
        onp.random.seed(0)
        net = Net()
        net.initialize(mx.init.Normal(0.5), ctx=ctx)
        if hybrid:
            net.hybridize()
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01, "momentum": 0.9})
        for k in range(3):
            random = onp.random.default_rng(k)
            x = np.array(random.normal(size=(4, 5)), dtype="float32", ctx=ctx)
            mask = np.array([1.0, 0.0, 1.0, 1.0], ctx=ctx) if k % 2 else None
            with autograd.record():
                loss = (net(x, mask) ** 2).mean()
            loss.backward()
            trainer.step(1)
        found.append(
            {n.partition("_")[2]: p.data().asnumpy() for n, p in net.collect_params().items()} | {"": net(x).asnumpy()}
        )
    assert list(found[0]) == list(found[1])
    for name, value in found[0].items():
        onp.testing.assert_allclose(found[1][name], value, rtol=1e-4, atol=1e-5, err_msg=name)


def test_random_numbers_are_drawn_at_each_call():
    def body(x):
        return x * 0 + np.random.normal(size=(3,)), np.random.uniform(size=x.shape)

    hybrid = mx.hybridize(body)
    x = np.ones((3,))
    first, second = hybrid(x), hybrid(x)
    for a, b in zip(first, second, strict=True):
        assert (a.asnumpy() != b.asnumpy()).all()
    mx.random.seed(7)
    again = hybrid(x)
    mx.random.seed(7)
    compare(hybrid(x), again)


def test_a_file_of_an_np_function(tmp_path):
    table = np.array([[1.0, 2.0], [3.0, 4.0]])
    function = mx.hybridize(lambda x: np.tanh(x @ table)[0, 1:] + x.sum())
    x = np.array([[0.1, 0.2]])
    expected = function(x)
    function.export(str(tmp_path / "f"))
    block = gluon.SymbolBlock.imports(str(tmp_path / "f-symbol.json"), ["x"], str(tmp_path / "f-0000.params"))
    compare(block(x), expected)


def test_numpy_arrays_are_arrays_of_np_here():
    hybrid = mx.hybridize(lambda x: np.tanh(x).sum())
    got = hybrid(onp.ones((2, 2), onp.float32))
    assert isinstance(got, onp.ndarray)
    assert got.shape == ()


@pytest.mark.parametrize(
    ("body", "instead"),
    [
        (lambda x: x if x.sum() > 0 else -x, "np.where(condition, x, y), or npx.cond(pred, then_func, else_func)"),
        (lambda x: x * x.item(0), "npx.cond"),
        (lambda x: x[x > 0], "np.where(mask, x, other)"),
        (lambda x: x * float(x[0]), "np.where, npx.cond or npx.while_loop"),
        (lambda x: np.array(x.tolist()), "npx.cond"),
        (lambda x: (x, x.as_nd_ndarray()), "as_np_ndarray"),
    ],
)
def test_what_is_refused_names_np(body, instead):
    with pytest.raises(mx.TracingError) as error:
        mx.hybridize(body)(np.array([1.0, 2.0]))
    assert instead in str(error.value)
    assert "test_np.py" in str(error.value)


def test_np_code_makes_the_kernels_of_nd_code():
    def written_np(x, w):
        h = np.tanh(np.dot(x, w)) * 2 + 1
        return npx.softmax(h)

    def written_nd(x, w):
        h = mx.nd.tanh(mx.nd.dot(x, w)) * 2 + 1
        return mx.nd.softmax(h)

    x, w = np.ones((4, 3)), np.ones((3, 5))
    of_np = mx.hybridize(written_np).lower(x, w).explanation
    npx.reset_np()
    of_nd = mx.hybridize(written_nd).lower(x.as_nd_ndarray(), w.as_nd_ndarray()).explanation
    npx.set_np()
    assert [k.kind for k in of_np.kernels] == [k.kind for k in of_nd.kernels]


class Sequence(gluon.HybridBlock):
    """Control flow in a hybrid_forward."""

    def __init__(self, which):
        super().__init__()
        self.which = which

    def hybrid_forward(self, F, x):
        if self.which == "foreach":
            return F.npx.foreach(lambda a, s: (a * 2 + s, s + a), x, F.np.sum(x, axis=0))
        if self.which == "while_loop":
            start = (F.np.sum(x) * 0, F.np.sum(x, axis=0))
            return F.npx.while_loop(lambda i, s: i < 3, lambda i, s: (s * i, (i + 1, s + s)), start, max_iterations=5)
        return F.npx.cond(F.np.sum(x) > 100, lambda: x * 2, lambda: x - 1)


@pytest.mark.parametrize("which", ["foreach", "while_loop", "cond"])
def test_control_flow_of_hybrid_forward(which, ctx):
    net, (x, _) = Sequence(which), arguments(ctx)
    expected = net(x)
    net.hybridize()
    for _ in range(2):
        compare(net(x), expected)


@mx.util.use_np
class Decorated(gluon.HybridBlock):
    def forward(self, x):
        assert mx.util.is_np_array()
        return np.tanh(x) + x.shape[0]


@mx.util.use_np
class Around(nn.Dense):
    def forward(self, x):
        return super().forward(x) * 2


def test_classes_under_use_np():
    net, around = Decorated(), Around(2, in_units=3)
    around.initialize(mx.init.One())
    x = np.ones((2, 3))
    npx.reset_np()
    expected = net(x), around(x)
    net.hybridize()
    around.hybridize()
    for _ in range(2):
        compare(net(x), expected[0])
        compare(around(x), expected[1])
    assert net._hg_traced is not None
    assert around._hg_traced is None
