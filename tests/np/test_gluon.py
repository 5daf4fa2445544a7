# SPDX-License-Identifier: Apache-2.0
"""Gluon in np mode: kinds of arrays, Symbols and parameters, eager, hybridized and recorded, and files."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import gluon, nd, sym
from hybridgpu.gluon import nn, rnn
from hybridgpu.ndarray import NDArray
from hybridgpu.symbol import Symbol

VALUES = np.array([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]], "float32")


@pytest.fixture(autouse=True)
def np_mode():
    mx.npx.set_np()
    yield
    mx.npx.reset_np()


def array(values=VALUES):
    return mx.np.array(values)


def is_np(x):
    return isinstance(x, mx.np.ndarray)


def dense(**flags):
    net = nn.Dense(2, in_units=3)
    net.initialize(mx.init.One())
    if flags.pop("hybrid", False):
        net.hybridize(**flags)
    return net


WAYS = {
    "eager": {},
    "hybridized": {"hybrid": True},
    "static": {"hybrid": True, "static_alloc": True, "static_shape": True},
    "background": {"hybrid": True, "background": True},
}


@pytest.mark.parametrize("way", WAYS)
def test_results_are_arrays_of_np_at_each_call(way):
    net, x = dense(**WAYS[way]), array()
    for _ in range(3):  # the first is traced, the second prepared, the third the prepared one
        y = net(x)
        assert type(y) is mx.np.ndarray
        np.testing.assert_array_equal(y.asnumpy(), [[2, 2], [3, 3]])
    mx.nd.waitall()


@pytest.mark.parametrize("way", WAYS)
def test_recorded_calls(way):
    net, x = dense(**WAYS[way]), array()
    x.attach_grad()
    for _ in range(3):
        with mx.autograd.record():
            y = net(x)
        assert type(y) is mx.np.ndarray
        y.backward()
        assert is_np(x.grad) and is_np(net.weight.grad())
        np.testing.assert_array_equal(x.grad.asnumpy(), np.full((2, 3), 2))
        np.testing.assert_array_equal(net.weight.grad().asnumpy(), [VALUES.sum(0)] * 2)


def test_a_net_answers_as_it_was_traced():
    """As in MXNet the trace decides: arrays of nd go into a net of np, and come out as arrays of np."""
    net = dense(hybrid=True)
    net(array())
    assert is_np(net(nd.array(VALUES))) and is_np(net(nd.array(VALUES)))
    mx.npx.reset_np()
    assert is_np(net(nd.array(VALUES))) and is_np(net(array()))
    other = nn.Dense(2, in_units=3)
    other.initialize()
    other.hybridize()
    assert [type(other(x)) for x in (nd.array(VALUES), array(), nd.array(VALUES))] == [NDArray] * 3


def test_calls_of_both_kinds_in_turn():
    """Prepared calls tell the classes of their arguments apart."""
    net = dense(hybrid=True)
    for x in (array(), nd.array(VALUES), array(2 * VALUES), nd.array(2 * VALUES), array(), array()):
        y = net(x)
        assert type(y) is mx.np.ndarray
        np.testing.assert_array_equal(y.asnumpy(), (x.asnumpy() @ np.ones((3, 2))))


class Several(gluon.HybridBlock):
    def hybrid_forward(self, F, x, others):
        return F.np.tanh(x), [others[0] + x, F.npx.relu(others[1])]


def test_nested_arguments_and_results():
    net, x = Several(), array()
    for active in (False, True):
        net.hybridize(active)
        for _ in range(3):
            first, (second, third) = net(x, [x, x])
            assert all(map(is_np, (first, second, third)))
            np.testing.assert_array_equal(second.asnumpy(), 2 * VALUES)
            np.testing.assert_array_equal(third.asnumpy(), np.maximum(VALUES, 0))


class Total(gluon.HybridBlock):
    def hybrid_forward(self, F, x):
        return x.sum() + 1


@pytest.mark.parametrize("shape", [(2, 3), (), (0, 3), (1,)])
def test_scalars_and_empty_arrays(shape):
    net, x = Total(), array(np.ones(shape, "float32"))
    for active in (False, True, True):
        net.hybridize(active, clear=not active)
        y = net(x)
        assert is_np(y) and y.shape == () and y.asnumpy() == np.prod(shape) + 1


class Doubled(nn.Dense):
    def hybrid_forward(self, F, x, weight, bias=None):
        assert F in (nd, sym)
        return 2 * super().hybrid_forward(F, x, weight, bias)


@pytest.mark.parametrize("hybrid", [False, True])
def test_subclasses_of_layers(hybrid):
    net = Doubled(2, in_units=3)
    net.initialize(mx.init.One())
    net.hybridize(hybrid)
    for _ in range(3):
        y = net(array())
        assert is_np(y)
        np.testing.assert_array_equal(y.asnumpy(), [[4, 4], [6, 6]])


class Both(gluon.HybridBlock):
    def hybrid_forward(self, F, x):
        return F.np.exp(x), x.as_nd_ndarray()


class Legacy(gluon.HybridBlock):
    def hybrid_forward(self, F, x):
        return F.sqrt(x.as_nd_ndarray())


class Through(gluon.HybridBlock):
    def hybrid_forward(self, F, x):
        return F.square(x.as_nd_ndarray()).as_np_ndarray()


class Wrong(gluon.HybridBlock):
    def hybrid_forward(self, F, x):
        return F.sqrt(x)


class Recurrent(gluon.HybridBlock):
    """A layer, or an unrolled cell, that is given no states."""

    def __init__(self, inner):
        super().__init__(prefix="recurrent_")
        with self.name_scope():
            self.inner = inner()

    def hybrid_forward(self, F, x):
        if isinstance(self.inner, rnn.RecurrentCell):
            return self.inner.unroll(2, x, merge_outputs=True)[0]
        return self.inner(x)


@pytest.mark.parametrize(
    "inner",
    [
        lambda: rnn.LSTM(2, layout="NTC", num_layers=2, bidirectional=True),
        lambda: rnn.LSTMCell(2, input_size=3),
        lambda: rnn.BidirectionalCell(rnn.RNNCell(2), rnn.RNNCell(2)),
    ],
    ids=["LSTM", "LSTMCell", "BidirectionalCell"],
)
def test_initial_states_of_traced_layers_have_the_batch_of_the_call(inner, tmp_path):
    """MXNet 1.9.1 refuses them: zeros of batch size 0, which with NumPy's shapes means no rows."""
    net, batches = Recurrent(inner), [mx.np.sin(mx.np.arange(6.0 * n)).reshape(n, 2, 3) for n in (2, 3)]
    net.initialize(mx.init.Constant(0.3))
    want = [net(x).asnumpy() for x in batches]
    net.hybridize()
    for x, y in zip(batches, want, strict=True):
        np.testing.assert_allclose(net(x).asnumpy(), y, 1e-5, 1e-6)
    net.export(str(tmp_path / "net"))
    again = gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0000.params"))
    np.testing.assert_allclose(again(batches[0]).asnumpy(), want[0], 1e-5, 1e-6)


@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize(
    ("block", "words"),
    [
        (Both, ("Block's output ndarrays/symbols must be of type", "Found both classic symbol")),
        (Legacy, ("Block's output ndarrays/symbols must be of type",) * 2),
        (Wrong, ("Operator `sqrt` registered in backend is known as `sqrt` in Python. This is a legacy operator",) * 2),
    ],
)
def test_legacy_results_and_operands_are_refused(block, words, hybrid):
    net = block()
    net.hybridize(hybrid)
    with pytest.raises(TypeError, match=words[hybrid]):
        net(array())


def test_conversions_inside_a_block():
    net = Through()
    for active in (False, True):
        net.hybridize(active)
        y = net(array())
        assert is_np(y)
        np.testing.assert_array_equal(y.asnumpy(), VALUES**2)


def test_parameters():
    p = gluon.Parameter("p", shape=(2, 0), allow_deferred_init=True)
    assert p.shape == (2, -1)
    p = gluon.Parameter("p", shape=(2, 3), init="ones")
    p.initialize(ctx=[mx.cpu(0), mx.cpu(1)])
    assert all(map(is_np, [*p.list_data(), *p.list_grad(), p._reduce()]))
    assert type(p.var()).__name__ == "_Symbol"
    p.set_data(array())
    p.cast("float16")
    p.reset_ctx(mx.cpu(0))
    p.zero_grad()
    assert is_np(p.data()) and is_np(p.grad()) and p.data().dtype == np.float16
    np.testing.assert_array_equal(p.data().asnumpy(), VALUES)
    p.data()[0] = 7
    assert (p.data().asnumpy()[0] == 7).all()
    c = gluon.Constant("c", [[1, 2], [3, 4]])
    c.initialize()
    assert is_np(c.value) and is_np(c.data()) and c.data().dtype == np.float32


def test_scalar_parameters():
    """MXNet cannot initialize them."""
    for init in ("ones", "zeros", mx.init.Constant(1.0)):
        p = gluon.Parameter("p", shape=(), init=init)
        p.initialize()
        assert p.data().shape == p.grad().shape == ()
        assert p.data().item() == (init != "zeros")


@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "lamb"])
def test_a_trainer_steps_as_on_arrays_of_nd(optimizer, hybrid):
    def trained(np_mode):
        with mx.util.np_array(np_mode), mx.util.np_shape(np_mode):
            net = nn.HybridSequential()
            net.add(nn.Dense(3, activation="tanh", in_units=3), nn.Dense(2, in_units=3))
            net.initialize(mx.init.One())
            net.hybridize(hybrid)
            trainer = gluon.Trainer(net.collect_params(), optimizer, {"learning_rate": 0.1})
            for t in range(6):
                x = (mx.np.array if np_mode else mx.nd.array)(VALUES * (t + 1) / 10)
                with mx.autograd.record():
                    y = net(x)
                y.backward()
                trainer.step(2)
            values = [p.data() for p in net.collect_params().values()]
            assert all(is_np(v) is np_mode for v in values)
            return [v.asnumpy() for v in values]

    for a, b in zip(trained(True), trained(False), strict=True):
        np.testing.assert_array_equal(a, b)


def test_files_of_parameters(tmp_path):
    net, file = dense(), str(tmp_path / "net.params")
    net.weight.set_data(array())
    net.save_parameters(file)
    assert (tmp_path / "net.params").read_bytes()[24:28] == bytes.fromhex("cafa93f9")
    other = nn.Dense(2, in_units=3)
    other.load_parameters(file)
    assert is_np(other.weight.data())
    np.testing.assert_array_equal(other.weight.data().asnumpy(), VALUES)
    assert all(map(is_np, mx.npx.load(file).values())) and not any(map(is_np, mx.nd.load(file).values()))
    mx.npx.reset_np()
    with pytest.raises(mx.MXNetError, match="ndarray was saved in np shape semantics"):
        other.load_parameters(file)
    legacy = nn.Dense(2, in_units=3)
    legacy.initialize(mx.init.One())
    legacy.save_parameters(file)
    mx.npx.set_np()
    other.load_parameters(file)  # what a net of nd wrote serves a net of np
    assert is_np(other.weight.data()) and (other.weight.data().asnumpy() == 1).all()


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        (lambda: {"a": nd.ones(3)}, TypeError, "Only accepts dict str->ndarray or list of ndarrays"),
        (lambda: {1: array()}, TypeError, "Only accepts dict str->ndarray or list of ndarrays"),
        (lambda: (array(),), ValueError, "data needs to either be a ndarray, dict of"),
        (lambda: 3, ValueError, "data needs to either be a ndarray, dict of"),
    ],
)
def test_what_npx_save_refuses(data, error, words, tmp_path):
    with pytest.raises(error, match=words):
        mx.npx.save(str(tmp_path / "a"), data())


def test_saving_needs_np_mode(tmp_path):
    file = str(tmp_path / "a")
    mx.npx.save(file, [array(1.0), array(np.zeros((0, 2)))])
    assert [(a.shape, is_np(a)) for a in mx.npx.load(file)] == [((), True), ((0, 2), True)]
    with pytest.raises(TypeError, match="cannot save mxnet.numpy.ndarray using mxnet.ndarray.save"):
        mx.nd.save(file, [array()])
    with pytest.raises(TypeError, match="file required to be a string"):
        mx.npx.load(3)
    x = array()
    mx.npx.reset_np()
    for call in (lambda: mx.npx.save(file, x), lambda: mx.npx.load(file)):
        with pytest.raises(ValueError, match="in legacy mode. Please activate numpy semantics"):
            call()


def test_exported_nets(tmp_path):
    net = dense(hybrid=True)
    expected = net(array())
    net.export(str(tmp_path / "net"))
    assert '"is_np_shape": ["int", 1]' in (tmp_path / "net-symbol.json").read_text()
    loaded = gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0000.params"))
    assert repr(loaded).splitlines()[1].startswith("<_Symbol ")
    for _ in range(3):
        y = loaded(array())
        assert is_np(y)
        np.testing.assert_array_equal(y.asnumpy(), expected.asnumpy())
    assert all(is_np(p.data()) for p in loaded.collect_params().values())


def test_copies_and_pickles_of_nets():
    net = dense(hybrid=True)
    net(array())
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert is_np(other.weight.data()) and is_np(other(array())) and is_np(other(array()))


@pytest.mark.parametrize("workers", [{}, {"num_workers": 1}, {"num_workers": 1, "thread_pool": True}])
def test_loaders_give_arrays_of_np(workers):
    data = gluon.data.ArrayDataset(array(np.arange(10.0).reshape(5, 2)), np.arange(5, dtype="int32"))
    batches = list(gluon.data.DataLoader(data, 2, **workers))
    assert [(is_np(x), x.shape, is_np(y), y.dtype) for x, y in batches] == [
        (True, (n, 2), True, np.dtype("int32")) for n in (2, 2, 1)
    ]


def test_splitting_and_clipping():
    parts = gluon.utils.split_and_load(array(), [mx.cpu(0)])
    assert all(map(is_np, parts))
    assert gluon.utils.split_and_load(np.ones((4, 2)), [mx.cpu(0)])[0].dtype == np.float64
    x = array()
    norm = gluon.utils.clip_global_norm([x], 1.0)
    np.testing.assert_allclose(norm, np.linalg.norm(VALUES), rtol=1e-6)
    np.testing.assert_allclose(x.asnumpy(), VALUES / np.linalg.norm(VALUES), rtol=1e-5)
    known = gluon.utils.shape_is_known
    assert (known((2, -1)), known(()), known((0, 2))) == (False, True, True)
    mx.npx.reset_np()
    assert (known((2, 0)), known(()), known((3, 2)), known(None)) == (False, False, True, False)


def test_symbols_convert():
    x = sym.var("x")
    y = x.as_np_ndarray()
    assert isinstance(y, Symbol) and y.as_np_ndarray() is y and type(y.as_nd_ndarray()) is Symbol
    assert type(copy.deepcopy(y)) is type(copy.copy(y)) is type(y)
    assert type(sym.Group([y, y], type(y))) is type(y) and type(sym.Group([y])) is Symbol
    with pytest.raises(TypeError, match="not a list and does not support len"):
        len(y)
