# SPDX-License-Identifier: Apache-2.0
"""mx.rnn: the symbolic cells, against those of Gluon and against each other."""

from __future__ import annotations

import numpy as np
import pytest

import hybridgpu as mx

N, T, C, H = 2, 3, 4, 5


def array(shape, seed=0):
    return mx.nd.array(np.random.default_rng(seed).normal(size=shape))


def arguments(symbol, **known):
    """Random arrays for everything that the shapes of ``known`` imply."""
    shapes, _, _ = symbol.infer_shape(**{k: v.shape for k, v in known.items()})
    made = {n: array(s, k) * 0.5 for k, (n, s) in enumerate(zip(symbol.list_arguments(), shapes, strict=True))}
    return {**made, **known}


CELLS = {
    "rnn": (lambda: mx.rnn.RNNCell(H, prefix="c_"), lambda: mx.gluon.rnn.RNNCell(H, prefix="c_", input_size=C)),
    "lstm": (lambda: mx.rnn.LSTMCell(H, prefix="c_"), lambda: mx.gluon.rnn.LSTMCell(H, prefix="c_", input_size=C)),
    "gru": (lambda: mx.rnn.GRUCell(H, prefix="c_"), lambda: mx.gluon.rnn.GRUCell(H, prefix="c_", input_size=C)),
}


@pytest.mark.parametrize("layout", ["NTC", "TNC"])
@pytest.mark.parametrize("make,twin", CELLS.values(), ids=CELLS)
def test_cell_is_gluons(make, twin, layout):
    out, states = make().unroll(T, mx.sym.var("x"), layout=layout, merge_outputs=True)
    every = mx.sym.Group([out, *states])
    given = arguments(every, x=array((N, T, C) if layout == "NTC" else (T, N, C)))
    cell = twin()
    cell.initialize()
    for name, p in cell.collect_params().items():
        p.set_data(given[name])
    want, last = cell.unroll(T, given["x"], layout=layout, merge_outputs=True)
    for a, b in zip(every.eval(**given), [want, *last], strict=True):
        np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), 1e-5, 1e-6)


@pytest.mark.long_table
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("mode", ["rnn_relu", "rnn_tanh", "lstm", "gru"])
def test_fused_is_unfused(mode, bidirectional):
    """The same numbers, from one vector taken apart and from the cells' own weights."""
    fused = mx.rnn.FusedRNNCell(H, num_layers=2, mode=mode, bidirectional=bidirectional, prefix="f_")
    stack = fused.unfuse()
    x = mx.sym.var("x")
    whole, _ = fused.unroll(T, x, layout="TNC", merge_outputs=True)
    parts, _ = stack.unroll(T, x, layout="TNC", merge_outputs=True)
    given = arguments(whole, x=array((T, N, C)))
    apart = fused.unpack_weights(given)
    packed = fused.pack_weights(apart)
    np.testing.assert_array_equal(packed["f_parameters"].asnumpy(), given["f_parameters"].asnumpy())
    weights = stack.pack_weights(apart)
    assert set(weights) == set(parts.list_arguments())
    np.testing.assert_allclose(whole.eval(**given)[0].asnumpy(), parts.eval(**weights)[0].asnumpy(), 1e-4, 1e-5)
    again = stack.unpack_weights(weights)
    assert {k: v.shape for k, v in again.items()} == {k: v.shape for k, v in apart.items()}


def test_initial_values():
    """The forget gate starts with its bias."""
    out, _ = mx.rnn.LSTMCell(H, prefix="c_", forget_bias=2.0).unroll(1, [mx.sym.var("x")])
    text = mx.sym.Group(out).attr_dict()["c_i2h_bias"]["__init__"]
    assert "lstmbias" in text and "2.0" in text
    cell = mx.rnn.FusedRNNCell(H, mode="lstm", prefix="f_")
    assert "fusedrnn" in cell.unroll(T, mx.sym.var("x"))[0][0].attr_dict()["f_parameters"]["__init__"]


STRUCTURES = {
    "stack": lambda: stacked(mx.rnn.LSTMCell(H, prefix="a_"), mx.rnn.ResidualCell(mx.rnn.GRUCell(H, prefix="b_"))),
    "dropout": lambda: stacked(mx.rnn.RNNCell(H, prefix="a_"), mx.rnn.DropoutCell(0.5)),
    "bidirectional": lambda: mx.rnn.BidirectionalCell(mx.rnn.RNNCell(H, prefix="a_"), mx.rnn.GRUCell(H, prefix="b_")),
    "zoneout": lambda: mx.rnn.ZoneoutCell(mx.rnn.RNNCell(H, prefix="a_"), 0.5, 0.5),
}


def stacked(*cells):
    stack = mx.rnn.SequentialRNNCell()
    for cell in cells:
        stack.add(cell)
    return stack


@pytest.mark.long_table
@pytest.mark.parametrize("make", STRUCTURES.values(), ids=STRUCTURES)
def test_structures(make):
    """Lists and one Symbol have the same values; variables are those of the cells inside."""
    x = mx.sym.var("x")
    whole, _ = make().unroll(T, x, merge_outputs=True)
    cell = make()
    steps, states = cell.unroll(T, x, merge_outputs=False)
    given = arguments(whole, x=array((N, T, C)))
    assert set(cell.params._params) == set(given) - {"x"}
    want = np.stack([s.eval(**given)[0].asnumpy() for s in steps], 1)
    np.testing.assert_allclose(whole.eval(**given)[0].asnumpy(), want, 1e-5, 1e-6)
    assert len(states) in (1, 2, 3)


@pytest.mark.parametrize("name,gates", [("ConvRNNCell", 1), ("ConvLSTMCell", 4), ("ConvGRUCell", 3)])
def test_convolutional(name, gates):
    cell = getattr(mx.rnn, name)((1, 3, 6, 5), H, prefix="c_")
    outputs, _ = cell.unroll(2, [mx.sym.var("x0"), mx.sym.var("x1")])
    net = mx.sym.Group(outputs)
    assert net.list_outputs() == ["c_t0_out_output", "c_t1_out_output"]
    given = arguments(net, x0=array((N, 3, 6, 5)), x1=array((N, 3, 6, 5), 1))
    assert given["c_h2h_weight"].shape == (gates * H, H, 3, 3)
    assert [y.shape for y in net.eval(**given)] == [(N, H, 6, 5)] * 2


@pytest.mark.parametrize(
    "call,error,message",
    [
        (lambda: mx.rnn.FusedRNNCell(H)(0, []), NotImplementedError, "cannot be stepped"),
        (lambda: STRUCTURES["bidirectional"]()(0, []), NotImplementedError, "cannot be stepped"),
        (lambda: mx.rnn.ZoneoutCell(mx.rnn.FusedRNNCell(H)), AssertionError, "unfuse first"),
        (lambda: mx.rnn.DropoutCell("a"), AssertionError, "must be a number"),
        (lambda: mx.rnn.ConvRNNCell((1, 3, 6, 5), H, h2h_kernel=(2, 3)), AssertionError, "Only support odd"),
        (lambda: mx.rnn.RNNCell(H).unroll(T, None), AssertionError, "has been deprecated"),
    ],
)
def test_misuse(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_sentences():
    known = {"a": 1, "b": 2}
    assert mx.rnn.encode_sentences([["a", "c"], ["b"]], vocab=known, unknown_token="?", start_label=5) == (
        [[1, 5], [2]],
        {"a": 1, "b": 2, "?": 5},
    )
    numbers, vocab = mx.rnn.encode_sentences([["x", "y"], ["y"]])
    assert numbers == [[0, 1], [1]] and vocab == {"\n": -1, "x": 0, "y": 1}
    with pytest.raises(AssertionError, match="Unknown token c"):
        mx.rnn.encode_sentences([["c"]], vocab=known)
