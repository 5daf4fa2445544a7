# SPDX-License-Identifier: Apache-2.0
"""gluon.rnn and gluon.contrib.rnn: cells, layers, unrolling, names, files."""

from __future__ import annotations

import json

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import autograd
from hybridgpu.gluon import contrib, nn, rnn

N, T, C, H = 2, 4, 3, 5


def array(shape, seed=0):
    return mx.nd.array(np.random.default_rng(seed).normal(size=shape))


def initialized(block):
    """The block with weights that tell directions, gates and layers apart."""
    block.initialize(mx.init.Normal(0.3))
    return block


LAYERS = {
    "RNN(relu)": lambda **k: rnn.RNN(H, **k),
    "RNN(tanh)": lambda **k: rnn.RNN(H, activation="tanh", **k),
    "LSTM": lambda **k: rnn.LSTM(H, **k),
    "GRU": lambda **k: rnn.GRU(H, **k),
}
layers = pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)


@layers
@pytest.mark.parametrize("layout", ["TNC", "NTC"])
@pytest.mark.parametrize("options", [{}, {"num_layers": 2}, {"num_layers": 2, "bidirectional": True}], ids=str)
def test_layer_is_its_cells(make, layout, options):
    """The fused operator and the stack of cells that shares its parameters agree."""
    layer = initialized(make(layout=layout, input_size=C, **options))
    x = array((T, N, C) if layout == "TNC" else (N, T, C))
    begin = [array(s.shape, k) for k, s in enumerate(layer.begin_state(N))]
    out, last = layer(x, begin)
    stack = layer._unfuse()
    given = [s[k] for k in range(begin[0].shape[0]) for s in begin]
    want, states = stack.unroll(T, x, given, layout=layout, merge_outputs=True)
    np.testing.assert_allclose(out.asnumpy(), want.asnumpy(), 1e-5, 1e-6)
    kinds = len(begin)
    for k, s in enumerate(last):
        found = np.stack([states[i].asnumpy() for i in range(k, len(states), kinds)])
        np.testing.assert_allclose(s.asnumpy(), found, 1e-5, 1e-6)


@layers
def test_layer_calls(make, compiler):
    """With and without states, eager and hybridized, in any order; parameters take their shape from the input."""
    layer = initialized(make(num_layers=2, bidirectional=True))
    x = array((T, N, C))
    plain = layer(x)
    out, states = layer(x, layer.begin_state(N))
    assert isinstance(states, list) and [s.shape for s in states] == [(4, N, H)] * len(states)
    np.testing.assert_array_equal(plain.asnumpy(), out.asnumpy())
    layer.hybridize()
    for _ in range(2):
        np.testing.assert_allclose(layer(x).asnumpy(), plain.asnumpy(), 1e-5, 1e-6)
        again, found = layer(x, layer.begin_state(N))
        np.testing.assert_allclose(again.asnumpy(), plain.asnumpy(), 1e-5, 1e-6)
        np.testing.assert_allclose(found[0].asnumpy(), states[0].asnumpy(), 1e-5, 1e-6)
    one, _ = layer(x, states[0] if len(states) == 1 else states)
    assert one.shape == (T, N, 2 * H)


class Starting(rnn.LSTM):
    """Begins with other states at each call."""

    calls = 0

    def begin_state(self, *args, **kwargs):
        self.calls += 1
        return [s + self.calls for s in super().begin_state(*args, **kwargs)]


class Writing(rnn.LSTM):
    """Writes into the states that it is given."""

    def hybrid_forward(self, F, x, states, **kwargs):
        if F is mx.nd:
            states[0][:] += 1
        return super().hybrid_forward(F, x, states, **kwargs)


def hooked(*args):
    """A layer with a hook that writes into the states, which goes after the second call."""
    layer, calls = rnn.LSTM(*args), []

    def hook(block, inputs):
        calls.append(1)
        inputs[1][0][:] = len(calls)
        if len(calls) == 2:
            handle.detach()

    handle = layer.register_forward_pre_hook(hook)
    return layer


@pytest.mark.parametrize(
    ("make", "starts"),
    [(rnn.LSTM, (0, 0, 0, 0)), (Starting, (1, 2, 3, 4)), (Writing, (1, 1, 1, 1)), (hooked, (1, 2, 0, 0))],
    ids=["zeros", "another begin_state", "another hybrid_forward", "a hook"],
)
def test_states_that_are_left_out_are_those_of_their_call(make, starts):
    layer = initialized(make(H))
    x, found = array((T, N, C)), []
    for _ in starts:
        found.append(layer(x).asnumpy())
    plain = rnn.LSTM(H, params=layer.collect_params(), prefix=layer.prefix)
    for value, got in zip(starts, found, strict=True):
        begin = plain.begin_state(N)
        begin[0][:] = value
        if make is Starting:
            begin[1][:] = value
        np.testing.assert_array_equal(got, plain(x, begin)[0].asnumpy())


@pytest.mark.parametrize("bidirectional", [False, True])
def test_deferred_inside_a_block(bidirectional, compiler):
    """Shapes flow backwards through the packed parameters, and the states take their batch from the input."""
    net = nn.HybridSequential()
    with net.name_scope():
        net.add(rnn.LSTM(H, num_layers=2, bidirectional=bidirectional), nn.Dense(2, flatten=False))
    initialized(net)
    net.hybridize()
    for batch in (N, 3):
        assert net(array((T, batch, C))).shape == (T, batch, 2)
    assert net[0].l0_i2h_weight.shape == (4 * H, C)
    if bidirectional:
        assert net[0].r0_i2h_weight.shape == (4 * H, C) and net[0].r1_i2h_weight.shape == (4 * H, 2 * H)
    symbol = net(mx.sym.var("data"))
    assert symbol.infer_shape(data=(7, 3, C))[1] == [(7, 3, 2)]


def test_gradients_agree(compiler):
    """Eager layer, hybridized layer, unrolled cells."""
    layer = initialized(rnn.GRU(H, num_layers=2, bidirectional=True, input_size=C))
    x = array((T, N, C))
    x.attach_grad()
    found = []
    for run in (layer, lambda v: layer._unfuse().unroll(T, v, layout="TNC", merge_outputs=True)[0], layer):
        with autograd.record():
            y = run(x)
            (y * y).sum().backward()
        found.append([x.grad.asnumpy(), *(p.grad().asnumpy() for p in layer.collect_params().values())])
        layer.hybridize()
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_allclose(a, b, 1e-4, 1e-5)


def test_sequence_length(compiler):
    layer = initialized(rnn.LSTM(H, bidirectional=True, use_sequence_length=True, input_size=C))
    x = array((T, N, C))
    lengths = mx.nd.array([2, 4])
    out, states = layer(x, layer.begin_state(N), lengths)
    assert (out.asnumpy()[2:, 0] == 0).all() and (out.asnumpy()[2:, 1] != 0).all()
    short, kept = layer(x[:2], layer.begin_state(N), mx.nd.array([2, 2]))
    np.testing.assert_allclose(out.asnumpy()[:2, 0], short.asnumpy()[:, 0], 1e-5, 1e-6)
    np.testing.assert_allclose(states[1].asnumpy()[:, 0], kept[1].asnumpy()[:, 0], 1e-5, 1e-6)
    layer.hybridize()
    np.testing.assert_allclose(layer(x, layer.begin_state(N), lengths)[0].asnumpy(), out.asnumpy(), 1e-5, 1e-6)


def test_projection():
    layer = initialized(rnn.LSTM(H, num_layers=2, projection_size=2, bidirectional=True))
    out, states = layer(array((T, N, C)), layer.begin_state(N))
    assert out.shape == (T, N, 4) and [s.shape for s in states] == [(4, N, 2), (4, N, H)]
    assert layer.l1_h2r_weight.shape == (2, H)


@pytest.mark.parametrize(
    "layer,text",
    [
        (rnn.LSTM(3, num_layers=2, input_size=5, bidirectional=True), "LSTM(5 -> 3, TNC, num_layers=2, bidirectional)"),
        (rnn.RNN(3, layout="NTC", dropout=0.5), "RNN(None -> 3, NTC, dropout=0.5)"),
        (rnn.GRU(3), "GRU(None -> 3, TNC)"),
        (rnn.LSTMCell(3), "LSTMCell(None -> 12)"),
        (rnn.GRUCell(3, input_size=2), "GRUCell(2 -> 9)"),
        (rnn.RNNCell(3), "RNNCell(None -> 3, tanh)"),
        (rnn.DropoutCell(0.5), "DropoutCell(rate=0.5, axes=())"),
        (rnn.ZoneoutCell(rnn.RNNCell(3), 0.1, 0.2), "ZoneoutCell(p_out=0.1, p_state=0.2, RNNCell(None -> 3, tanh))"),
        (rnn.ResidualCell(rnn.GRUCell(3)), "ResidualCell(GRUCell(None -> 9))"),
        (
            rnn.BidirectionalCell(rnn.GRUCell(3), rnn.GRUCell(3)),
            "BidirectionalCell(forward=GRUCell(None -> 9), backward=GRUCell(None -> 9))",
        ),
        (contrib.rnn.LSTMPCell(4, 2), "LSTMPCell(None -> 16 -> 2)"),
        (contrib.rnn.Conv2DLSTMCell((3, 8, 8), 2, 3, 3), "Conv2DLSTMCell(3 -> 8, tanh, NCHW)"),
        (
            contrib.rnn.VariationalDropoutCell(rnn.RNNCell(3), drop_states=0.3),
            "VariationalDropoutCell(p_out = 0.0, p_state = 0.3)",
        ),
    ],
)
def test_repr(layer, text):
    assert repr(layer) == text


def test_repr_of_a_stack():
    stack = rnn.SequentialRNNCell()
    stack.add(rnn.LSTMCell(3))
    stack.add(rnn.DropoutCell(0.5))
    assert repr(stack) == "SequentialRNNCell(\n(0): LSTMCell(None -> 12)\n(1): DropoutCell(rate=0.5, axes=())\n)"
    assert len(stack) == 2 and isinstance(stack[1], rnn.DropoutCell)


def test_names():
    """Those of MXNet, in parameters, states, graphs and files."""
    layer = rnn.LSTM(H, num_layers=1, bidirectional=True, prefix="a_")
    kinds = ("i2h_weight", "h2h_weight", "i2h_bias", "h2h_bias")
    assert list(layer.collect_params().keys()) == [f"a_{d}0_{k}" for d in "lr" for k in kinds]
    assert sorted(layer._collect_params_with_prefix()) == sorted(
        f"_unfused.0.{d}_cell.{k}" for d in "lr" for k in kinds
    )
    assert sorted(rnn.GRU(H)._collect_params_with_prefix()) == sorted(f"_unfused.0.{k}" for k in kinds)
    out, _ = layer(mx.sym.var("x"), layer.begin_state(0, func=mx.sym.zeros))
    assert out.list_outputs() == ["a_rnn0_output"]
    nodes = {n["name"]: n for n in json.loads(out.tojson())["nodes"]}
    assert nodes["a_h0_1"]["attrs"] == {"__layout__": "LNC", "dtype": "float32", "shape": f"(2, 0, {H})"}
    assert nodes["a__rnn_param_concat0"]["attrs"] == {"dim": "0", "num_args": "8"}
    cell = rnn.LSTMCell(H, prefix="c_")
    outputs, _ = cell.unroll(2, [mx.sym.var("x0"), mx.sym.var("x1")])
    assert mx.sym.Group(outputs).list_outputs() == ["c_t0_out_output", "c_t1_out_output"]
    assert mx.sym.Group(outputs).list_arguments() == ["x0", *(f"c_{k}" for k in ("i2h_weight", "i2h_bias"))] + [
        "c_h2h_weight",
        "c_h2h_bias",
        "x1",
    ]


def test_names_of_two_directions():
    """Sequences are reversed before either cell is unrolled, so nodes are numbered as MXNet 1.9.1 numbers them."""
    with mx.name.NameManager():
        cell = rnn.BidirectionalCell(rnn.RNNCell(H, prefix="l_"), rnn.RNNCell(H, prefix="r_"))
        out, states = cell.unroll(2, mx.sym.var("x"), merge_outputs=True, valid_length=mx.sym.var("n"))
    nodes = json.loads(mx.sym.Group([out, *states]).tojson())["nodes"]
    names = {node["name"]: [nodes[i[0]]["name"] for i in node["inputs"]] for node in nodes}
    assert names["sequencereverse0"] == ["stack0", "n"] and names["stack0"] == ["split0", "split0"]
    assert names["sequencelast0"] == ["stack1", "n"] and names["sequencemask0"] == ["stack2", "n"]
    assert names["sequencereverse1"] == ["stack5", "n"] and names["bi_out"] == ["sequencemask0", "stack6"]


def stacked():
    stack = rnn.HybridSequentialRNNCell()
    for cell in (rnn.LSTMCell(H), rnn.DropoutCell(0.3), rnn.ResidualCell(rnn.GRUCell(H))):
        stack.add(cell)
    return stack


CELLS = {
    "rnn": lambda: rnn.RNNCell(H),
    "rnn_relu": lambda: rnn.RNNCell(H, activation="relu"),
    "rnn_leaky": lambda: rnn.RNNCell(H, activation=nn.LeakyReLU(0.1)),
    "lstm": lambda: rnn.LSTMCell(H),
    "lstm_other": lambda: rnn.LSTMCell(H, activation="relu", recurrent_activation="softsign"),
    "gru": lambda: rnn.GRUCell(H),
    "lstmp": lambda: contrib.rnn.LSTMPCell(H, 2),
    "stack": stacked,
    "zoneout": lambda: rnn.ZoneoutCell(rnn.RNNCell(H), 0.5, 0.5),
    "vardrop": lambda: contrib.rnn.VariationalDropoutCell(rnn.LSTMCell(H), 0.2, 0.2, 0.2),
    "vardrop_sequence": lambda: contrib.rnn.VariationalDropoutCell(rnn.LSTMCell(H), 0.2, 0, 0.2),
    "bidirectional": lambda: rnn.BidirectionalCell(rnn.LSTMCell(H), rnn.GRUCell(H)),
}
cells = pytest.mark.parametrize("make", CELLS.values(), ids=CELLS)


@cells
@pytest.mark.parametrize("layout", ["NTC", "TNC"])
def test_unroll(make, layout):
    """Lists and tensors, with the same values; dropout and zoneout are off in prediction."""
    cell = initialized(make())
    x = array((N, T, C) if layout == "NTC" else (T, N, C))
    steps = [s.squeeze(axis=layout.find("T")) for s in x.split(T, axis=layout.find("T"))]
    whole, states = cell.unroll(T, x, layout=layout, merge_outputs=True)
    parts, same = cell.unroll(T, steps, layout=layout, merge_outputs=False)
    assert whole.shape[layout.find("T")] == T and whole.shape[layout.find("N")] == N
    assert len(parts) == T and [s.shape for s in states] == [i["shape"] for i in cell.state_info(N)]
    joined = np.stack([p.asnumpy() for p in parts], layout.find("T"))
    np.testing.assert_allclose(whole.asnumpy(), joined, 1e-5, 1e-6)
    for a, b in zip(states, same, strict=True):
        np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), 1e-5, 1e-6)


@cells
def test_valid_length(make):
    """Outputs past the end are zero, states those of the last valid step."""
    cell = initialized(make())
    x = array((N, T, C))
    out, states = cell.unroll(T, x, merge_outputs=True, valid_length=mx.nd.array([2, T]))
    assert (out.asnumpy()[0, 2:] == 0).all() and np.abs(out.asnumpy()[1, 2:]).sum() > 0
    short, kept = cell.unroll(2, x[:, :2], merge_outputs=True)
    np.testing.assert_allclose(out.asnumpy()[0, :2], short.asnumpy()[0], 1e-5, 1e-6)
    for a, b in zip(states, kept, strict=True):
        np.testing.assert_allclose(a.asnumpy()[0], b.asnumpy()[0], 1e-5, 1e-6)


@pytest.mark.long_table
@pytest.mark.parametrize("name", ["rnn", "lstm", "gru", "lstmp", "stack", "bidirectional"])
@pytest.mark.parametrize("lengths", [None, [2, T]])
def test_unrolled_graph(name, lengths, compiler, tmp_path):
    """The graph of an unrolled cell has its states' batch inferred, in its file, too."""
    cell = CELLS[name]()

    class Net(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.cell = cell

        def hybrid_forward(self, F, x, *valid):
            return self.cell.unroll(T, x, merge_outputs=True, valid_length=valid[0] if valid else None)[0]

    net = initialized(Net())
    x = [array((N, T, C)), *([mx.nd.array(lengths)] if lengths else [])]
    want = net(*x).asnumpy()
    net.hybridize()
    np.testing.assert_allclose(net(*x).asnumpy(), want, 1e-5, 1e-6)
    net.export(str(tmp_path / "net"))
    inputs = ["data0", "data1"] if lengths else ["data"]
    again = mx.gluon.SymbolBlock.imports(f"{tmp_path}/net-symbol.json", inputs, f"{tmp_path}/net-0000.params")
    twice = [mx.nd.concat(a, a, dim=0) for a in x]
    np.testing.assert_allclose(again(*twice).asnumpy(), np.tile(want, (2, 1, 1)), 1e-5, 1e-6)


@pytest.mark.parametrize("layout", ["TNC", "NTC"])
@pytest.mark.parametrize("lengths", [None, [2, T]])
@pytest.mark.parametrize("hybridized", [False, True])
def test_dynamic_unroll(layout, lengths, hybridized, compiler):
    """Unrolling by foreach is unrolling."""
    cell = initialized(rnn.LSTMCell(H, input_size=C))
    valid = None if lengths is None else mx.nd.array(lengths)
    x = array((T, N, C) if layout == "TNC" else (N, T, C))

    class Net(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.cell = cell

        def hybrid_forward(self, F, x, states, *valid):
            kwargs = {"layout": layout, "valid_length": valid[0] if valid else None}
            return contrib.rnn.dynamic_unroll(self.cell, x, states, **kwargs)

    net = Net()
    if hybridized:
        net.hybridize()
    begin = cell.begin_state(N)
    out, states = net(x, begin, *([valid] if lengths else []))
    want, kept = cell.unroll(T, x, begin, layout=layout, merge_outputs=True, valid_length=valid)
    np.testing.assert_allclose(out.asnumpy(), want.asnumpy(), 1e-5, 1e-6)
    for a, b in zip(states, kept, strict=True):
        np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), 1e-5, 1e-6)


def test_zoneout_keeps_old_values():
    cell = initialized(rnn.ZoneoutCell(rnn.RNNCell(40, input_size=C), 0.0, 0.5))
    h = mx.nd.ones((N, 40)) * 7
    with autograd.train_mode():
        _, (state,) = cell(array((N, C)), [h])
    kept = (state.asnumpy() == 7).mean()
    assert 0.2 < kept < 0.8


def test_variational_dropout_keeps_its_mask():
    cell = initialized(contrib.rnn.VariationalDropoutCell(rnn.RNNCell(40, activation="relu"), drop_outputs=0.5))
    x = mx.nd.ones((N, T, C))
    with autograd.train_mode():
        first, _ = cell.unroll(T, x, merge_outputs=True)
    zero = first.asnumpy() == 0
    assert (zero.all(1) == zero.any(1)).mean() > 0.6 and zero.any()


def test_variational_dropout_of_a_cell_without_states():
    """It has no first state, which nothing is dropped from either."""
    cell = contrib.rnn.VariationalDropoutCell(rnn.DropoutCell(0.5), drop_inputs=0.3, drop_outputs=0.2)
    x = array((N, C))
    out, states = cell(x, [])
    np.testing.assert_array_equal(out.asnumpy(), x.asnumpy())
    assert states == []


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("last", [False, True])
def test_convolutional_cells(kind, dims, last, compiler):
    """A kernel of 1 makes a dense cell at every position."""
    make = getattr(contrib.rnn, f"Conv{dims}D{kind}Cell")
    size = (4, 3, 2)[:dims]
    layout = {1: "NWC", 2: "NHWC", 3: "NDHWC"}[dims] if last else None
    shape = (*size, C) if last else (C, *size)
    cell = initialized(make(shape, H, 1, 1, conv_layout=layout))
    x, begin = array((N, *shape)), [array(i["shape"], k) for k, i in enumerate(cell.state_info(N))]
    out, states = cell(x, begin)
    assert out.shape == begin[0].shape
    dense = getattr(rnn, f"{kind}Cell")(H, input_size=C)
    dense.initialize()
    for name in ("i2h_weight", "h2h_weight", "i2h_bias", "h2h_bias"):
        source = getattr(cell, name).data()
        target = getattr(dense, name)
        target.set_data(source.reshape(target.shape))

    def rows(a):
        a = a.asnumpy()
        return (a if last else np.moveaxis(a, 1, -1)).reshape(-1, a.shape[-1 if last else 1])

    want, _ = dense(mx.nd.array(rows(x)), [mx.nd.array(rows(s)) for s in begin])
    np.testing.assert_allclose(rows(out), want.asnumpy(), 1e-5, 1e-6)
    cell.hybridize()
    np.testing.assert_allclose(cell(x, begin)[0].asnumpy(), out.asnumpy(), 1e-5, 1e-6)
    assert len(states) == len(begin)


def test_parameters_are_shared():
    cell = rnn.RNNCell(H, prefix="shared_")
    other = rnn.RNNCell(H, prefix="other_", params=cell.params)
    assert other.i2h_weight is cell.i2h_weight
    zone = rnn.ZoneoutCell(cell, 0.1)
    assert zone.params is cell.params


@pytest.mark.parametrize("bidirectional", [False, True])
def test_files(bidirectional, tmp_path):
    """save_parameters and load_parameters, and an exported layer."""
    layer = initialized(rnn.LSTM(H, num_layers=2, bidirectional=bidirectional))
    x = array((T, N, C))
    want = layer(x).asnumpy()
    layer.save_parameters(str(tmp_path / "a.params"))
    other = rnn.LSTM(H, num_layers=2, bidirectional=bidirectional)
    other.load_parameters(str(tmp_path / "a.params"))
    np.testing.assert_array_equal(other(x).asnumpy(), want)
    net = nn.HybridSequential()
    net.add(layer)
    net.hybridize()
    net(x)
    net.export(str(tmp_path / "net"))
    block = mx.gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0000.params"))
    np.testing.assert_allclose(block(x).asnumpy(), want, 1e-5, 1e-6)


def test_cast():
    layer = initialized(rnn.GRU(H, input_size=C))
    layer.cast("float64")
    out, states = layer(array((T, N, C)).astype("float64"), layer.begin_state(N))
    assert out.dtype == np.float64 and states[0].dtype == np.float64


@pytest.mark.parametrize(
    "call,error,message",
    [
        (lambda: rnn.LSTM(3, layout="CNT"), AssertionError, "Invalid layout CNT"),
        (lambda: rnn.ZoneoutCell(CELLS["bidirectional"]()), AssertionError, "doesn't support zoneout"),
        (lambda: CELLS["bidirectional"]()(0, []), NotImplementedError, "cannot be stepped"),
        (lambda: rnn.LSTM(3, projection_size=2)._unfuse(), AssertionError, "_unfuse does not support projection"),
        (lambda: rnn.DropoutCell("a"), AssertionError, "rate must be a number"),
        (
            lambda: initialized(rnn.LSTM(H, input_size=C))(array((T, N, C)), [mx.nd.zeros((1, N, 4))] * 2),
            ValueError,
            r"Invalid recurrent state shape. Expecting \(1, 2, 5\), got \(1, 2, 4\)",
        ),
        (lambda: contrib.rnn.Conv2DRNNCell((3, 4, 4), 2, (3, 3, 3), 3), AssertionError, "For 2D convolution"),
        (lambda: contrib.rnn.Conv1DRNNCell((3, 4), 2, 3, 2), AssertionError, "Only support odd number"),
    ],
)
def test_misuse(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_modified_cell_is_not_called():
    base = rnn.RNNCell(H)
    rnn.ResidualCell(base)
    with pytest.raises(AssertionError, match="base cell cannot be called directly"):
        base.begin_state(1)
    with pytest.raises(AssertionError, match="cannot be modified twice"):
        rnn.ResidualCell(base)


@pytest.mark.parametrize("dtype", ["float64", "float16"])
@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
def test_a_layer_inside_others_of_another_type_and_unknown_sizes(dtype, hybridized):
    net = nn.HybridSequential()
    net.add(rnn.LSTM(6, bidirectional=True))
    net.initialize()
    net.cast(dtype)
    net.hybridize(hybridized)
    y = net(mx.nd.ones((5, 3, 4), dtype=dtype))
    assert y.shape == (5, 3, 12) and y.dtype == np.dtype(dtype)
    assert all(p.dtype == dtype for p in net.collect_params().values())
