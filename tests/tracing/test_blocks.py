# SPDX-License-Identifier: Apache-2.0
"""Whole nets with ``forward(x, ...)``: parameters, children of all kinds, training, files and reports."""

import copy
import pickle
import warnings

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import autograd, gluon, nd
from hybridgpu.gluon import nn


@pytest.fixture(params=["cpu", "gpu"])
def ctx(request):
    if request.param == "cpu":
        return mx.cpu()
    request.getfixturevalue("cuda_driver")
    return mx.gpu(0)


class Scale(gluon.HybridBlock):
    """Has a parameter of a known shape."""

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.scale = self.params.get("scale", shape=(units,), init=mx.init.Constant(0.5))

    def forward(self, x):
        return x * self.scale.data(x.context)


class Waiting(gluon.HybridBlock):
    """Has parameters whose shapes follow from the input."""

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self._units = units
        with self.name_scope():
            self.weight = self.params.get("weight", shape=(units, 0), allow_deferred_init=True)
            self.bias = self.params.get("bias", shape=(units,), init="zeros")

    def forward(self, x):
        ctx = x.context
        return nd.FullyConnected(x, self.weight.data(ctx), self.bias.data(ctx), num_hidden=self._units)


class Inferring(Waiting):
    """Says itself what the shapes are, as in MXNet 2."""

    def infer_shape(self, x):
        self.weight.shape = (self._units, x.shape[1])

    def forward(self, x):
        return nd.dot(x, self.weight.data(x.context).T) + self.bias.data(x.context)


class Plain(gluon.Block):
    def forward(self, x):
        return nd.tanh(x) * x.shape[1]


class Symbolic(gluon.HybridBlock):
    def hybrid_forward(self, F, x):
        return F.broadcast_add(F.relu(x), F.mean(x, axis=1, keepdims=True))


class Net(gluon.HybridBlock):
    """All kinds of children, dropout and running statistics."""

    def __init__(self, first=Waiting, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.first = first(6)
            self.norm = nn.BatchNorm()
            self.body = nn.HybridSequential()
            self.body.add(nn.Dense(5, activation="tanh"), Scale(5), Symbolic(), nn.LayerNorm())
            self.drop = nn.Dropout(0.5)
            self.embed = nn.Embedding(4, 5)
        self._plain = [Plain()]

    def forward(self, x, label=None):
        h = self.norm(self.first(x))
        h = self._plain[0](self.body(h))
        if autograd.is_training():
            h = self.drop(h)
        if label is not None:
            h = h + self.embed(label)
        return h, {"mean": h.mean(axis=0)}


class Mixed(gluon.HybridBlock):
    """A hybrid_forward around blocks with forward alone."""

    def __init__(self, first=Waiting, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.net = Net(first)
            self.w = self.params.get("w", shape=(5, 3), init="ones")

    def hybrid_forward(self, F, x, label=None, w=None):
        h, _ = self.net(x, label)
        return F.dot(h, w), {"h": h}


def made(kind, first, ctx, hybrid):
    mx.random.seed(1)
    np.random.seed(1)
    net = kind(first, prefix="net_")
    net.initialize(mx.init.Normal(0.5), ctx=ctx)
    if hybrid:
        net.hybridize()
    return net


def inputs(ctx, n=4, seed=0):
    rng = np.random.default_rng(seed)
    return (
        nd.array(rng.uniform(-1, 1, (n, 3)), ctx=ctx),
        nd.array(rng.integers(0, 4, n), ctx=ctx),
        nd.array(rng.uniform(-1, 1, (n, 5)), ctx=ctx),
    )


def state(net):
    return {n: p.data().asnumpy() for n, p in net.collect_params().items()}


def trained(kind, first, ctx, hybrid, steps=4):
    """States after some steps of a Trainer, and outputs after them."""
    net = made(kind, first, ctx, hybrid)
    net_of = net.net if kind is Mixed else net
    net_of.drop._rate = 0.0  # eager calls draw other numbers
    trainer = None
    for k in range(steps):
        x, label, wanted = inputs(ctx, 4 + k % 2, k)
        x.attach_grad()
        with autograd.record():
            out, more = net(x, label)
            extra = next(iter(more.values()))
            loss = ((out[:, :3] - wanted[:, :3]) ** 2).sum() + extra.sum()
        loss.backward()
        if trainer is None:
            trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.005, "momentum": 0.9})
        trainer.step(4)
    x, label, _ = inputs(ctx, 4, 9)
    out, more = net(x, label)
    return state(net), [x.grad.asnumpy() if x.grad is not None else None, out.asnumpy()], net


@pytest.mark.long_table
@pytest.mark.parametrize("kind", [Net, Mixed])
@pytest.mark.parametrize("first", [Waiting, Inferring])
def test_training_traced_and_eager_agree_in_all_states(kind, first, ctx):
    expected, outputs, _ = trained(kind, first, ctx, False)
    got, outputs_traced, net = trained(kind, first, ctx, True)
    assert list(got) == list(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(got[name], value, rtol=3e-4, atol=3e-5, err_msg=name)
    np.testing.assert_allclose(outputs_traced[1], outputs[1], rtol=1e-3, atol=1e-4)
    assert net._hg_traced is not None


def test_training_and_predicting_are_traced_apart():
    net = made(Net, Waiting, mx.cpu(), True)
    x, label, _ = inputs(mx.cpu())
    predicted = net(x, label)[0].asnumpy()
    with autograd.train_mode():
        dropped = net(x, label)[0]
    zeros = (dropped - nd.array(net.embed.weight.data().asnumpy()[label.asnumpy().astype(int)])).asnumpy() == 0
    assert 0.2 < zeros.mean() < 0.8
    assert net(x)[0].shape == (4, 5)
    with autograd.record():
        out = net(x, label)[0]
    out.backward()
    again = net(x, label)[0].asnumpy()
    assert not np.allclose(predicted, again)  # the running statistics have moved


def test_every_signature_is_traced_once():
    calls = []

    class Counting(gluon.HybridBlock):
        def forward(self, x, n=1):
            calls.append((x.shape, n, autograd.is_training()))
            return x * n

    net = Counting()
    net.hybridize()
    for _ in range(3):
        for size in (2, 3):
            for n in (1, 2):
                np.testing.assert_array_equal(net(nd.ones((size,)), n).asnumpy(), np.full(size, n))
        with autograd.train_mode():
            net(nd.ones((2,)), 2)
    assert len(calls) == len(set(calls)) == 5
    assert len(net._hg_traced._graphs) == 2  # for sizes and modes it is the same graph


def test_children_take_part_whatever_is_hybridized():
    net = made(Mixed, Waiting, mx.cpu(), True)
    x, label, _ = inputs(mx.cpu())
    whole = net(x, label)[0].asnumpy()
    net.hybridize(False)
    np.testing.assert_allclose(net(x, label)[0].asnumpy(), whole, rtol=1e-5, atol=1e-6)
    net.net.hybridize()
    np.testing.assert_allclose(net(x, label)[0].asnumpy(), whole, rtol=1e-5, atol=1e-6)
    net.net.hybridize(False)
    net.net.body.hybridize()
    np.testing.assert_allclose(net(x, label)[0].asnumpy(), whole, rtol=1e-5, atol=1e-6)


def test_new_children_types_and_arrays_are_traced_again():
    class Adding(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.table = nd.ones((3,))
            self.inner = Scale(3)

        def forward(self, x):
            return self.inner(x) + self.table

    net = Adding()
    net.initialize()
    net.hybridize()
    x = nd.ones((3,))
    assert net(x).asnumpy().tolist() == [1.5] * 3
    net.table[:] = 2  # the array is read at each call
    assert net(x).asnumpy().tolist() == [2.5] * 3
    net.table = nd.zeros((3,))  # another one
    assert net(x).asnumpy().tolist() == [0.5] * 3
    net.inner.scale.set_data(nd.full((3,), 4))
    assert net(x).asnumpy().tolist() == [4] * 3
    net.inner = Scale(3)
    net.inner.initialize()
    assert net(x.reshape((1, 3))).asnumpy().tolist() == [[0.5] * 3]
    assert "reads arrays from outside: adding0_constant" in str(net.explain(x.reshape((1, 3))))
    net.cast("float64")
    net.table = net.table.astype("float64")
    assert net(x.reshape((1, 3)).astype("float64")).dtype == np.float64


def test_attributes_of_all_blocks_are_those_of_the_call(tmp_path):
    class Inner(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.table, self.factor = nd.ones((2,)), 1.0

        def forward(self, x):
            return x * self.table * self.factor

    class Outer(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x):
            return self.inner(x) + 0

    def added(net):
        net.inner.register_forward_pre_hook(lambda block, args: args[0].__iadd__(1))

    changes = [
        lambda net: None,
        lambda net: setattr(net.inner, "table", nd.full((2,), 5)),
        lambda net: setattr(net.inner, "factor", 2.0),
        lambda net: setattr(net.inner, "factor", 2),
        lambda net: setattr(net, "inner", Inner()),
        added,
    ]

    def run(compiled, net):
        results = []
        for change in changes:
            change(net)
            results.append([compiled(nd.ones((2,))).asnumpy().tolist() for _ in range(3)])
        return results

    net, eager, called = Outer(), Outer(), Outer()
    net.hybridize()
    assert run(net, net) == run(mx.hybridize(lambda x: called(x)), called) == run(eager, eager)
    ops = len(net._hg_traced._graphs)
    net.inner.other = 3
    net(nd.ones((2,)))
    assert len(net._hg_traced._graphs) == ops  # traced again, but not compiled
    net.inner.factor = 7
    with pytest.raises(RuntimeError, match="before calling export"):
        net.export(str(tmp_path / "net"))


@pytest.mark.usefixtures("compiler")
def test_a_file_of_a_traced_net_gives_what_the_net_gives(tmp_path, ctx):
    net = made(Mixed, Inferring, ctx, True)
    x, label, _ = inputs(ctx)
    with autograd.train_mode():
        net(x, label)
    expected = net(x, label)[0].asnumpy()
    with autograd.train_mode():  # files hold what predicts
        net(x, label)
    net.net.norm.running_mean.set_data(net.net.norm.running_mean.data() * 1)
    expected = net(x, label)[0].asnumpy()
    net.export(str(tmp_path / "net"))
    again = gluon.SymbolBlock.imports(
        str(tmp_path / "net-symbol.json"), ["data0", "data1"], str(tmp_path / "net-0000.params"), ctx=ctx
    )
    np.testing.assert_allclose(again(x, label)[0].asnumpy(), expected, rtol=1e-5, atol=1e-6)
    assert net.explain(x, label).kernels


def test_states_of_ones_own_are_written(ctx):
    class Running(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.mean = self.params.get("mean", shape=(3,), init="zeros", grad_req="null")
            self.count = nd.zeros((1,), ctx=ctx)

        def forward(self, x):
            mean = self.mean.data(x.context)
            mean[:] = 0.5 * mean + 0.5 * x.mean(axis=0)
            self.count += 1
            return x - mean, self.count * 2

    def run(hybrid):
        net = Running()
        net.initialize(ctx=ctx)
        if hybrid:
            net.hybridize()
        found = []
        for k in range(4):
            out, count = net(nd.arange(6, ctx=ctx).reshape((2, 3)) + k)
            found += [out.asnumpy(), count.asnumpy(), net.mean.data().asnumpy(), net.count.asnumpy()]
        return found

    for got, expected in zip(run(True), run(False), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_an_argument_that_is_written_into_is_the_callers(ctx):
    class Writing(gluon.HybridBlock):
        def forward(self, x, y):
            x += 1
            y[1] = x[0]
            return x * 2

    def run(hybrid):
        net = Writing()
        if hybrid:
            net.hybridize()
        x, y = nd.ones((3, 2), ctx=ctx), nd.zeros((3, 2), ctx=ctx)
        return [[a.asnumpy() for a in (net(x, y), x, y)] for _ in range(3)]

    np.testing.assert_array_equal(run(True), run(False))


def test_nothing_but_states_may_be_what_a_forward_does(ctx):
    class Silent(gluon.HybridBlock):
        def forward(self, x):
            x *= 3

    net = Silent()
    net.hybridize()
    x = nd.ones((2,), ctx=ctx)
    assert [net(x) for _ in range(3)] == [None] * 3
    assert x.asnumpy().tolist() == [27, 27]


def test_other_threads_run_operators_while_one_traces():
    import threading

    inside, done = threading.Event(), threading.Event()

    class Slow(gluon.HybridBlock):
        def forward(self, x):
            inside.set()
            assert done.wait(10)
            return x * 2

    net = Slow()
    net.hybridize()
    found = []
    thread = threading.Thread(target=lambda: found.append(net(nd.ones((2,)))))
    thread.start()
    assert inside.wait(10)
    other = nd.ones((3,)) + 1
    assert other.asnumpy().tolist() == [2] * 3
    done.set()
    thread.join()
    assert found[0].asnumpy().tolist() == [2, 2]


def test_a_forward_beside_hybrid_forward_stays_python_at_every_call():
    calls = []

    class Both(nn.Dense):
        def forward(self, x):
            calls.append(x.asnumpy().sum())
            return super().forward(x) * 2

    net = Both(2, in_units=2)
    net.initialize(mx.init.One())
    net.hybridize()
    for _ in range(3):
        assert net(nd.ones((1, 2))).asnumpy().tolist() == [[4, 4]]
    assert len(calls) == 3


def test_losses_and_cells_may_define_forward_alone():
    class Loss(gluon.loss.Loss):
        def forward(self, pred, label):
            return ((pred - label) ** 2).mean(axis=1) * self._weight

    class Cell(gluon.rnn.HybridRecurrentCell):
        def state_info(self, batch_size=0):
            return [{"shape": (batch_size, 3), "__layout__": "NC"}]

        def forward(self, inputs, states):
            new = nd.tanh(inputs + states[0])
            return new * inputs.shape[1], [new]

    x, y = nd.ones((2, 3)), nd.zeros((2, 3))
    loss, cell = Loss(0.5, 0), Cell()
    plain = loss(x, y).asnumpy(), [a.asnumpy() for a in (cell(x, [y])[0], *cell(x, [y])[1])]
    loss.hybridize()
    cell.hybridize()
    for _ in range(2):
        np.testing.assert_allclose(loss(x, y).asnumpy(), plain[0])
        out, states = cell(x, [y])
        np.testing.assert_allclose(out.asnumpy(), plain[1][0], rtol=1e-6)
        np.testing.assert_allclose(states[0].asnumpy(), plain[1][1], rtol=1e-6)
    assert loss._hg_traced is not None
    assert cell._hg_traced is not None


def test_copies_and_stored_models_are_traced_anew(tmp_path):
    import copy
    import pickle

    net = made(Mixed, Inferring, mx.cpu(), True)
    x, label, _ = inputs(mx.cpu())
    expected = net(x, label)[0].asnumpy()
    for again in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        np.testing.assert_allclose(again(x, label)[0].asnumpy(), expected, rtol=1e-6)
    net.save(str(tmp_path / "net"))
    other = made(Mixed, Inferring, mx.cpu(), True)
    other(x, label)
    other.load(str(tmp_path / "net"))
    np.testing.assert_allclose(other(x, label)[0].asnumpy(), expected, rtol=1e-6)


def test_shapes_are_inferred_without_a_call():
    net = made(Net, Waiting, mx.cpu(), False)
    net.infer_shape(nd.ones((2, 3)))
    assert net.first.weight.shape == (6, 3)


def test_plain_blocks_below_a_function_are_those_of_the_call():
    class Times(gluon.Block):
        factor = 2

        def forward(self, x):
            return x * self.factor

    net = nn.Sequential()
    net.add(Times())
    compiled, found = mx.hybridize(lambda x: net(x) + 0), []
    changes = [
        lambda: None,
        lambda: net.add(Times()),
        lambda: setattr(net[0], "factor", 5),
        lambda: net[1].register_forward_pre_hook(lambda block, inputs: inputs[0].__iadd__(1)),
    ]
    for change in changes:
        change()
        found.append([compiled(nd.ones((1,))).asscalar() for _ in range(3)])
    assert found == [[n] * 3 for n in (2, 4, 10, 12)]
    assert copy.deepcopy(net)(nd.ones((1,))).asscalar() == 12
    assert pickle.loads(pickle.dumps(nn.Sequential())) is not None


@pytest.mark.usefixtures("compiler")
def test_gradients_through_a_state_that_the_call_updates_are_of_its_value_before():
    class Running(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.mean = self.params.get("mean", shape=(3,), init="ones", grad_req="null")
                self.scale = self.params.get("scale", shape=(3,), init="ones")

        def forward(self, x):
            mean = self.mean.data()
            mean[:] = 0.5 * mean + x.mean(axis=0)
            return x * mean * mean * self.scale.data()

    net = Running()
    net.initialize()
    net.hybridize()
    mean = np.ones(3)
    for k in range(4):
        host = np.random.default_rng(k).normal(size=(2, 3)).astype(np.float32)
        x = nd.array(host)
        x.attach_grad()
        with autograd.record():
            y = net(x)
        y.backward()
        mean = 0.5 * mean + host.mean(axis=0)
        np.testing.assert_allclose(net.mean.data().asnumpy(), mean, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(net.scale.grad().asnumpy(), (host * mean**2).sum(axis=0), rtol=1e-4, atol=1e-5)
        expected = np.broadcast_to(mean**2 + mean * host.sum(axis=0), host.shape)
        np.testing.assert_allclose(x.grad.asnumpy(), expected, rtol=1e-4, atol=1e-5)
        assert k < 1 or net._hg_fast or net._hg_inner


def test_what_forward_assigns_is_named():
    """Such as a counter, which compiled calls do not count on."""

    class Counting(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.calls, self.size, self.kind, self.last = 0, 2, None, "none"

        def forward(self, x):
            self.kind, self.size = x.dtype, x.shape[0]  # as before, or nothing that a number may hide in
            self.calls += 1
            return x * self.calls

    net = Counting()
    net.hybridize()
    with pytest.warns(UserWarning, match=r"self\.calls of block counting0 is assigned while") as caught:
        net(nd.ones((2,)))
    assert len(caught) == 1 and caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert net(nd.ones((2,))).asnumpy().tolist() == [1, 1]
        net.calls = 6  # outside
    with pytest.warns(UserWarning, match=r"self\.calls"):
        assert net(nd.ones((2,))).asnumpy().tolist() == [7, 7]
