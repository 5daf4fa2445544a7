# SPDX-License-Identifier: Apache-2.0
"""Blocks: names, parameters, hooks, summary, text; wrong input changes nothing."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from gluon.nets import mlp, ready

import hybridgpu as mx
from hybridgpu.base import MXNetError
from hybridgpu.gluon.parameter import DeferredInitializationError

autograd, nd, nn, gluon = mx.autograd, mx.nd, mx.gluon.nn, mx.gluon

# -- names


class Camel(gluon.HybridBlock):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.a = nn.Dense(2)
            self.b = nn.Dense(2)
            self.w = self.params.get("w", shape=(1,))
        self.c = nn.Dense(2)


def test_names_follow_scopes_and_counters():
    first, second, named = Camel(), Camel(), Camel(prefix="my_")
    assert [b.prefix for b in (first, first.a, first.b, first.c)] == [
        "camel0_",
        "camel0_dense0_",
        "camel0_dense1_",
        "dense0_",
    ]
    assert [second.prefix, second.a.weight.name, second.c.name] == ["camel1_", "camel1_dense0_weight", "dense1"]
    assert list(named.collect_params().keys()) == [
        "my_w", "my_dense0_weight", "my_dense0_bias", "my_dense1_weight", "my_dense1_bias", "dense2_weight", "dense2_bias",
    ]  # fmt: skip
    assert list(named._collect_params_with_prefix()) == [
        "w",
        "a.weight",
        "a.bias",
        "b.weight",
        "b.bias",
        "c.weight",
        "c.bias",
    ]
    assert list(named.params.keys()) == ["my_w"]


def test_an_empty_prefix_opens_no_scope():
    net = mlp(prefix="")
    assert [b.prefix for b in net] == ["dense0_", "dense1_"]


def test_name_manager_restarts_counters():
    assert nn.Dense(1).prefix == "dense0_"
    with mx.name.NameManager():
        assert nn.Dense(1).prefix == "dense0_"
    assert nn.Dense(1).prefix == "dense1_"


@pytest.mark.parametrize(
    ("select", "found"),
    [(".*weight", 2), ("n_dense0", 2), ("dense", 0), ("n_dense0_bias|n_dense1_bias", 2), (None, 4), ("zz", 0)],
)
def test_collect_params_selects_by_match_at_the_start(select, found):
    assert len(list(mlp("n_").collect_params(select).keys())) == found


def test_shared_parameters():
    one = nn.Dense(2, in_units=3)
    two = nn.Dense(2, in_units=3, params=one.params)
    assert two.weight is one.weight and two.prefix == "dense1_"
    one.initialize()
    x = nd.ones((1, 3))
    two.hybridize()
    np.testing.assert_allclose(one(x).asnumpy(), two(x).asnumpy(), 1e-5, 1e-7)  # summed in another order
    one.weight.set_data(nd.zeros((2, 3)))
    np.testing.assert_array_equal(two(x).asnumpy(), [[0, 0]])


@pytest.mark.parametrize("hybridized", [False, True])
def test_a_parameter_of_a_block_is_not_replaced(hybridized):
    """A compiled graph would go on with the old one."""
    one, two = nn.Dense(2, in_units=3), nn.Dense(2, in_units=3)
    for net in (one, two):
        net.initialize()
    if hybridized:
        one.hybridize()
    want, own = one(nd.ones((1, 3))).asnumpy(), one.weight
    with pytest.raises(AssertionError, match="Overriding Parameter attribute weight is not allowed"):
        one.weight = two.weight
    assert one.weight is own
    np.testing.assert_allclose(one(nd.ones((1, 3))).asnumpy(), want, 1e-5, 1e-7)


REPR = [
    (lambda: nn.Dense(4, activation="relu"), "Dense(None -> 4, Activation(relu))"),
    (lambda: nn.Dense(3, in_units=7), "Dense(7 -> 3, linear)"),
    (lambda: nn.Dropout(0.5), "Dropout(p = 0.5, axes=())"),
    (lambda: nn.Flatten(), "Flatten"),
    (lambda: nn.Embedding(3, 4), "Embedding(3 -> 4, float32)"),
    (lambda: nn.Activation("tanh"), "Activation(tanh)"),
    (lambda: nn.LeakyReLU(0.1), "LeakyReLU(0.1)"),
    (lambda: nn.HybridLambda("relu"), "HybridLambda(relu)"),
    (lambda: nn.GELU(), "GELU(\n\n)"),
    (lambda: nn.Sequential(), "Sequential(\n\n)"),
    (lambda: mlp(), "HybridSequential(\n  (0): Dense(None -> 4, Activation(relu))\n  (1): Dense(None -> 2, linear)\n)"),
    (lambda: gluon.Parameter("p", shape=(2, 3)), "Parameter p (shape=(2, 3), dtype=<class 'numpy.float32'>)"),
    (lambda: gluon.Constant("c", [1, 2]), "Constant c (shape=(2,), dtype=<class 'numpy.float32'>)"),
]


@pytest.mark.parametrize(("make", "text"), REPR, ids=[r[1].splitlines()[0] for r in REPR])
def test_repr(make, text):
    assert repr(make()) == text


def test_repr_nests():
    net = nn.HybridSequential()
    net.add(mlp())
    assert repr(net) == (
        "HybridSequential(\n  (0): HybridSequential(\n    (0): Dense(None -> 4, Activation(relu))\n"
        "    (1): Dense(None -> 2, linear)\n  )\n)"
    )


# -- parameters


def test_deferred_initialisation():
    net = mlp("n_")
    net.initialize()
    assert net[0].weight.shape == (4, 0)
    with pytest.raises(DeferredInitializationError, match="Parameter 'n_dense0_weight' has not been initialized yet"):
        net[0].weight.data()
    assert net[0].weight.list_ctx() == [mx.cpu()]
    net.hybridize()
    assert net(nd.ones((5, 3))).shape == (5, 2)
    assert (net[0].weight.shape, net[1].weight.shape) == ((4, 3), (2, 4))


def test_not_initialised():
    with pytest.raises(
        RuntimeError, match="Parameter 'dense0_weight' has not been initialized. Note that you should initialize"
    ):
        nn.Dense(2)(nd.ones((1, 3)))


@pytest.mark.parametrize("hybridized", [False, True])
def test_a_shape_that_does_not_fit_changes_nothing(hybridized):
    net = ready("n_", active=hybridized)
    before = {k: p.data().asnumpy() for k, p in net.collect_params().items()}
    with pytest.raises(MXNetError) as caught:
        net(nd.ones((1, 5)))
    assert "Shape inconsistent, Provided = [4,3], inferred shape=(4,5)" in str(caught.value)
    for k, p in net.collect_params().items():
        np.testing.assert_array_equal(p.data().asnumpy(), before[k])
    assert net(nd.ones((1, 3))).shape == (1, 2)


PARAMETER_ERRORS = [
    (lambda p: p.set_data(nd.ones((2, 4))), AssertionError, "Expected shape (2, 4) is incompatible with given shape (2, 3)."),
    (lambda p: setattr(p, "shape", (2, 4)), AssertionError, "Expected shape (2, 4) is incompatible with given shape (2, 3)."),
    (lambda p: setattr(p, "grad_req", "foo"), AssertionError, "grad_req must be one of 'write', 'add', or 'null', but got 'foo'"),
    (lambda p: p.data(mx.cpu(3)), RuntimeError, "Parameter 'p' was not initialized on context cpu(3). It was only initialized on [cpu(0)]."),
    (lambda p: p.data(mx.gpu(0)), RuntimeError, "Parameter 'p' was not initialized on context gpu(0). It was only initialized on [cpu(0)]."),
    (lambda p: p.cast("nope"), TypeError, "nope"),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "error", "text"), PARAMETER_ERRORS, ids=[e[2][:40] for e in PARAMETER_ERRORS])
def test_parameters_refuse_and_stay(wrong, error, text):
    p = gluon.Parameter("p", shape=(2, 3), init="ones")
    p.initialize()
    with pytest.raises(error) as caught:
        wrong(p)
    assert text in str(caught.value)
    assert p.shape == (2, 3) and p.grad_req == "write" and p.dtype == np.float32
    np.testing.assert_array_equal(p.data().asnumpy(), np.ones((2, 3)))
    np.testing.assert_array_equal(p.grad().asnumpy(), np.zeros((2, 3)))


def test_initialising_twice_warns_and_keeps():
    net = nn.Dense(2, in_units=3, use_bias=False)
    net.initialize(mx.init.One())
    with pytest.warns(UserWarning, match="Parameter 'dense0_weight' is already initialized, ignoring"):
        net.initialize(mx.init.Zero())
    assert net.weight.data().sum().asscalar() == 6


def test_a_parameter_on_two_contexts():
    net = mlp()
    net.initialize(ctx=[mx.cpu(0), mx.cpu(1)])
    x = nd.ones((1, 3))
    got = [net(x.as_in_context(c)) for c in (mx.cpu(0), mx.cpu(1))]
    np.testing.assert_array_equal(got[0].asnumpy(), got[1].asnumpy())
    net.hybridize()
    for c in (mx.cpu(0), mx.cpu(1), mx.cpu(0)):
        y = net(x.as_in_context(c))
        assert y.context == c
        np.testing.assert_allclose(y.asnumpy(), got[0].asnumpy(), rtol=1e-6)


# -- hooks, summary, apply


def test_hooks():
    net, seen = ready("n_"), []
    pre = net.register_forward_pre_hook(lambda b, i: seen.append(("pre", b.name, len(i))))
    post = net[1].register_forward_hook(lambda b, i, o: seen.append(("post", b.name, o.shape)))
    net(nd.ones((2, 3)))
    assert seen == [("pre", "n", 1), ("post", "n_dense1", (2, 2))]
    pre.detach()
    post.detach()
    net(nd.ones((2, 3)))
    assert len(seen) == 2


def test_hooks_of_a_hybridized_block_run_at_every_call_and_of_its_children_while_tracing(recwarn):
    net, seen = ready("n_"), []
    net.register_forward_hook(lambda b, i, o: seen.append(type(o).__name__))
    net[0].register_forward_hook(lambda b, i, o: seen.append(type(o).__name__))
    net.hybridize()
    assert any("forward hook" in str(w.message) for w in recwarn)
    for _ in range(3):
        net(nd.ones((2, 3)))
    assert seen == ["Symbol", "NDArray", "NDArray", "NDArray"]


def test_op_hooks_see_every_operator():
    net, seen = ready("n_"), []
    net.hybridize()
    net.register_op_hook(lambda name, op, value: seen.append((name, op, value.shape)))
    net(nd.ones((2, 3)))
    assert seen == [
        (b"n_dense0_fwd_output", b"FullyConnected", (2, 4)),
        (b"n_dense0_relu_fwd_output", b"Activation", (2, 4)),
        (b"n_dense1_fwd_output", b"FullyConnected", (2, 2)),
    ]


def test_op_hooks_that_see_inputs_too():
    net, seen = nn.HybridSequential(prefix="n_"), []
    with net.name_scope():
        net.add(nn.Dense(4), nn.AvgPool1D(), nn.Activation("relu"), nn.HybridLambda("flip"))
    net[3].hybrid_forward = lambda F, x: F.flip(x, axis=0, name="f")
    net.initialize()
    net.hybridize()
    net.register_op_hook(lambda name, op, value: seen.append((name, op)), monitor_all=True)
    net[1](nd.ones((2, 3, 4)))
    net[0](nd.ones((2, 3)))
    net[2](nd.ones(2))  # MXNet registered no name for its input
    net[3](nd.ones(2))
    assert [n for n, _ in seen] == [
        b"n_pool0_fwd_data", b"n_pool0_fwd_output",
        b"n_dense0_fwd_data", b"n_dense0_fwd_weight", b"n_dense0_fwd_bias", b"n_dense0_fwd_output",
        b"n_relu0_fwd_input0", b"n_relu0_fwd_output",
        b"n_hybridlambda0_f_data", b"n_hybridlambda0_f_output",
    ]  # fmt: skip
    assert {op for _, op in seen} == {b"Pooling", b"FullyConnected", b"Activation", b"reverse"}


def test_deferred_shapes_under_numpy_shapes():
    net = nn.Dense(4)
    with mx.np_shape(True):
        assert net.weight.shape == (4, -1)
        net.initialize()
        assert net(nd.ones((2, 3))).shape == (2, 4)
    assert net.weight.shape == (4, 3)


def test_a_symbol_block_whose_input_is_a_result_inside_another_block():
    data = mx.sym.var("data")
    inner = gluon.SymbolBlock(mx.sym.relu(data).get_internals(), data)

    class Net(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.inner = inner

        def hybrid_forward(self, F, x):
            return F.add_n(*self.inner(x))

    net = Net()
    net.hybridize()
    assert net(nd.array([-1.0, 2.0])).asnumpy().tolist() == [-1.0, 4.0]


def test_summary(capsys):
    net = mlp("n_")
    net.initialize()
    net.summary(nd.ones((1, 3)))
    out = capsys.readouterr().out
    for line in (
        "Layer (type)",
        "Activation-1",
        "Dense-2",
        "Dense-3",
        "(1, 4)",
        "16",
        "(1, 2)",
        "Total params: 26",
        "Trainable params: 26",
    ):
        assert line in out
    net.hybridize()
    with pytest.raises(AssertionError) as caught:
        net.summary(nd.ones((1, 3)))
    first, instead = str(caught.value).splitlines()
    assert first == '"n_dense0_relu" must not be hybridized to print summary.'  # children first
    assert instead.startswith("Call net.hybridize(False) before; ")


def test_apply_visits_children_first_and_returns_the_block():
    net, seen = mlp("n_"), []
    assert net.apply(lambda b: seen.append(b.name)) is net
    assert seen == ["n_dense0_relu", "n_dense0", "n_dense1", "n"]


def test_a_list_of_blocks_is_not_registered_and_said_so():
    class Lost(gluon.Block):
        def __init__(self):
            super().__init__()
            self.children = [nn.Dense(1)]

    with pytest.warns(UserWarning, match='"Lost.children" is an unregistered container with Blocks'):
        assert not list(Lost().collect_params().keys())


def test_sequential():
    net = nn.Sequential()
    net.add(nn.Dense(2), nn.Dense(3))
    assert len(net) == 2 and net[-1] is net[1] and type(net[0:1]) is nn.Sequential
    with pytest.raises(IndexError, match="list index out of range"):
        net[5]
    with pytest.warns(UserWarning, match="All children of this Sequential layer 'sequential0_' are HybridBlocks"):
        net.hybridize()


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        (lambda: nn.Lambda("tanh"), np.tanh),
        (lambda: nn.Lambda(lambda x: x * 2), lambda x: x * 2),
        (lambda: nn.HybridLambda("relu"), lambda x: np.maximum(x, 0)),
        (lambda: nn.HybridLambda(lambda F, x: F.sin(x) + 1), lambda x: np.sin(x) + 1),
        (lambda: nn.Flatten(), lambda x: x.reshape(2, 12)),
        (lambda: nn.Dropout(0.9), lambda x: x),
        (lambda: nn.Activation("softrelu"), lambda x: np.log1p(np.exp(x))),
        (lambda: nn.LeakyReLU(0.1), lambda x: np.where(x > 0, x, 0.1 * x)),
        (lambda: nn.ELU(0.5), lambda x: np.where(x > 0, x, 0.5 * np.expm1(x))),
        (lambda: nn.Swish(2), lambda x: x / (1 + np.exp(-2 * x))),
        (lambda: nn.GELU(), lambda x: x * 0.5 * (1 + np.vectorize(__import__("math").erf)(x / np.sqrt(2)))),
        (lambda: nn.SELU(), lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x))),
    ],
    ids=lambda f: "",
)
@pytest.mark.parametrize("hybridized", [False, True])
def test_layers_without_parameters(layer, expected, hybridized):
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")
    net = layer()
    net.initialize()
    net.hybridize(hybridized)
    np.testing.assert_allclose(net(nd.array(x)).asnumpy(), expected(x.astype("float64")), rtol=2e-6, atol=1e-6)


def test_constants_in_a_block():
    class Scale(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.k = self.params.get_constant("k", [[1.0, 2.0]])

        def hybrid_forward(self, F, x, k):
            return F.broadcast_mul(x, k)

    net = Scale()
    net.initialize()
    for hybridized in (False, True):
        net.hybridize(hybridized)
        assert net(nd.ones((2, 2))).asnumpy().tolist() == [[1, 2], [1, 2]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net.k.grad_req = "write"
    assert net.k.grad_req == "null"


AGAIN = {
    "an initialiser that fails": ({"init": mx.init.Load({}), "force_reinit": True}, "Cannot Initialize dense0_weight"),
    "a context that is none": ({"ctx": "cpu", "force_reinit": True}, "<class 'str'>"),
    "a context that is not there": ({"ctx": [mx.cpu(), mx.gpu(77)], "force_reinit": True}, "gpu(77)"),
}


@pytest.mark.parametrize("how", AGAIN)
def test_initialising_again_changes_nothing_where_it_fails(how):
    arguments, text = AGAIN[how]
    net = nn.Dense(2, in_units=3)
    net.initialize(mx.init.One())
    net.hybridize()
    for _ in range(2):
        net(nd.ones((1, 3)))
    with pytest.raises((AssertionError, TypeError, mx.MXNetError)) as caught:
        net.initialize(**arguments)
    assert text in str(caught.value)
    assert net(nd.ones((1, 3))).asnumpy().tolist() == [[3, 3]]
    assert net.weight.grad().shape == (2, 3) and net.weight.list_ctx() == [mx.cpu()]


def test_an_initialiser_that_fails_can_be_replaced():
    """What waits for its shape still does after an error, and takes other values."""

    class Failing(mx.init.Initializer):
        def _init_weight(self, name, arr):
            raise ZeroDivisionError(name)

    net = nn.Dense(2, use_bias=False, weight_initializer=Failing())
    net.initialize()
    for hybridized in (False, True):
        net.hybridize(hybridized)
        with pytest.raises(ZeroDivisionError):
            net(nd.ones((1, 3)))
        with pytest.raises(DeferredInitializationError):
            net.weight.data()
    net.weight.set_data(nd.ones((2, 3)))
    assert net(nd.ones((1, 3))).asnumpy().tolist() == [[3, 3]]


class Partly(mx.gluon.HybridBlock):
    def __init__(self, own, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.used, self.idle = nn.Dense(3), nn.Dense(4)
            if own:
                self.weight = self.params.get("weight", shape=(0, 2), allow_deferred_init=True)

    def hybrid_forward(self, F, x, weight=None):
        return self.used(x)


@pytest.mark.parametrize("eager_first", [False, True])
def test_a_child_that_no_computation_uses_waits_and_is_named(eager_first):
    net = Partly(own=False, prefix="net_")
    net.initialize()
    x = nd.ones((2, 5))
    wanted = net(x).asnumpy() if eager_first else None
    net.hybridize()
    words = "Parameter net_dense1_weight, net_dense1_bias is not used by any computation. Is this intended?"
    with pytest.warns(UserWarning) as caught:
        found = net(x).asnumpy()
    assert [str(w.message) for w in caught] == [words] and caught[0].filename == __file__
    if wanted is not None:
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert net.idle.weight.shape == (4, 0) and net.used.weight.shape == (3, 5)
    net.idle(x)
    assert net.idle.weight.shape == (4, 5)


@pytest.mark.parametrize("hybridized", [False, True])
def test_a_parameter_that_no_computation_uses_has_no_shape(hybridized):
    net = Partly(own=True, prefix="net_")
    net.initialize()
    if hybridized:
        net.hybridize()
        with pytest.warns(UserWarning, match="Parameter net_weight, net_dense1_weight, net_dense1_bias is not used"):
            assert net(nd.ones((2, 5))).shape == (2, 3)
    else:
        words = (
            r"Deferred initialization failed because shape cannot be inferred\. 'net_weight'\nNo computation uses it"
        )
        with pytest.raises(ValueError, match=words):
            net(nd.ones((2, 5)))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
@pytest.mark.parametrize("request_", ["write", "add", "null"])
@pytest.mark.parametrize("hybrid", [False, True], ids=["eager", "hybrid"])
def test_a_cast_converts_gradients(hybrid, request_, dtype):
    """Accumulated gradients go on; a graph recorded before writes into the gradients of then."""
    net = nn.Dense(2, in_units=3)
    net.initialize(mx.init.One())
    net.collect_params().setattr("grad_req", request_)
    if hybrid:
        net.hybridize()
    x = nd.array([[1.5, 2, 3.75]])

    def record(x, times=1):
        with autograd.record():
            return (net(x) * times).sum()

    weight = net.weight
    if request_ != "null":
        for _ in range(2):
            record(x, 4).backward()
    before, late = weight._grad and weight._grad[0], record(x)
    net.cast(dtype)
    assert weight.data().asnumpy().tolist() == [[1, 1, 1]] * 2
    if request_ == "null":
        assert weight._grad is None and weight.data().grad is None
        return
    times = 8 if request_ == "add" else 4
    got = weight.grad()
    assert got.dtype == weight.data().dtype and got.astype("float32").asnumpy()[0].tolist() == [
        1.5 * times,
        2 * times,
        3.75 * times,
    ]
    late.backward()
    kept = times + 1 if request_ == "add" else 1
    assert before.asnumpy()[0].tolist() == [1.5 * kept, 2 * kept, 3.75 * kept]
    record(x.astype(dtype), 2).backward()
    final = times + 2 if request_ == "add" else 2
    assert weight.grad() is got and weight.data().grad is got
    assert got.astype("float32").asnumpy()[0].tolist() == [1.5 * final, 2 * final, 3.75 * final]


def test_a_shape_that_a_program_set_behind_the_property():
    """As programs that prune do, with what they read from a JSON file."""
    layer = nn.Dense(4, in_units=3)
    layer.weight._shape, layer._units = [2, 3], 2
    layer.bias._shape = [2]
    layer.initialize(mx.init.One())
    assert layer.weight.data().shape == (2, 3)
    assert layer(nd.ones((1, 3))).shape == (1, 2)


def test_an_attribute_that_users_give_a_name_to():
    class Repeat(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self._repeats = 2

        def hybrid_forward(self, F, x):
            return F.repeat(x, repeats=self._repeats)

    net = Repeat()
    net.hybridize()
    assert [net(nd.ones((2,))).shape for _ in range(3)] == [(4,)] * 3
