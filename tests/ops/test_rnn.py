# SPDX-License-Identifier: Apache-2.0
"""The fused recurrent operator against NumPy in float64, its gradients against finite differences."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import autograd
from hybridgpu.base import MXNetError
from hybridgpu.ndarray.apply import operator_graph
from hybridgpu.ops import OPERATORS
from hybridgpu.ops.rnn import GATES

T, N, C, H = 4, 3, 2, 5


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def step(mode, x, states, w, clip=None):
    """New states, from the definition."""
    h = states[0]
    zx, zh = x @ w["i2h"].T + w["bi"], h @ w["h2h"].T + w["bh"]
    if mode == "lstm":
        i, f, g, o = np.split(zx + zh, 4, axis=1)
        c = sigmoid(f) * states[1] + sigmoid(i) * np.tanh(g)
        if clip:
            c = np.clip(c, *clip)
        h = sigmoid(o) * np.tanh(c)
        return [h if w["h2r"] is None else h @ w["h2r"].T, c]
    if mode == "gru":
        (xr, xz, xn), (hr, hz, hn) = np.split(zx, 3, axis=1), np.split(zh, 3, axis=1)
        z, n = sigmoid(xz + hz), np.tanh(xn + sigmoid(xr + hr) * hn)
        return [(1 - z) * n + z * h]
    return [np.tanh(zx + zh) if mode == "rnn_tanh" else np.maximum(zx + zh, 0)]


class Call:
    """One way of calling the operator, with inputs that fit."""

    def __init__(self, mode, layers=1, bidirectional=False, lengths=None, projection=None, clip=None, seed=0):
        self.mode, self.layers, self.sides = mode, layers, 2 if bidirectional else 1
        self.projection, self.clip = projection, clip
        rng = np.random.default_rng(seed)
        out = projection or H
        self.shapes = []
        width = C
        for _ in range(layers):
            for _ in range(self.sides):
                rows = GATES[mode] * H
                self.shapes.append(((rows, width), (rows, out), (out, H) if projection else None, (rows,), (rows,)))
            width = out * self.sides
        count = sum(prod(s) for shapes in self.shapes for s in shapes if s)
        kept = layers * self.sides
        self.arrays = [rng.normal(size=(T, N, C)), rng.normal(size=count) * 0.5, rng.normal(size=(kept, N, out))]
        if mode == "lstm":
            self.arrays.append(rng.normal(size=(kept, N, H)))
        self.lengths = lengths
        self.attributes = {"mode": mode, "state_size": H, "num_layers": layers, "state_outputs": True}
        if bidirectional:
            self.attributes["bidirectional"] = True
        if projection:
            self.attributes["projection_size"] = projection
        if clip:
            self.attributes |= {"lstm_state_clip_min": clip[0], "lstm_state_clip_max": clip[1]}
        if lengths:
            self.attributes["use_sequence_length"] = True

    def weights(self, vector):
        at = 0

        def take(shape):
            nonlocal at
            if shape is None:
                return None
            at += prod(shape)
            return vector[at - prod(shape) : at].reshape(shape)

        made = [{"i2h": take(s[0]), "h2h": take(s[1]), "h2r": take(s[2])} for s in self.shapes]
        for w, s in zip(made, self.shapes, strict=True):
            w["bi"], w["bh"] = take(s[3]), take(s[4])
        assert at == vector.size
        return made

    def expected(self, arrays):
        x, vector, *states = arrays
        weights = self.weights(vector)
        lengths = self.lengths or [T] * N
        last = [[] for _ in states]
        for layer in range(self.layers):
            sides = []
            for d in range(self.sides):
                k = layer * self.sides + d
                now = [s[k] for s in states]
                y = np.zeros((T, N, now[0].shape[1]))
                for t in range(T) if d == 0 else reversed(range(T)):
                    new = step(self.mode, x[t], now, weights[k], self.clip)
                    valid = np.array([t < n for n in lengths])[:, None]
                    now = [np.where(valid, a, b) for a, b in zip(new, now, strict=True)]
                    y[t] = np.where(valid, new[0], 0)
                sides.append(y)
                for kept, s in zip(last, now, strict=True):
                    kept.append(s)
            x = np.concatenate(sides, 2)
        return [x, *map(np.stack, last)]

    def inputs(self, dtype="float64", ctx=None):
        found = [mx.nd.array(a, dtype=dtype, ctx=ctx) for a in self.arrays]
        return found, ([mx.nd.array(self.lengths, dtype="int32", ctx=ctx)] if self.lengths else [])


CALLS = {
    **{
        f"{mode}_{n}_{'bi' if bi else 'one'}": Call(mode, n, bi)
        for mode in GATES
        for n in (1, 2)
        for bi in (False, True)
    },
    "lstm_lengths": Call("lstm", 2, True, lengths=[4, 1, 0]),
    "gru_lengths": Call("gru", 1, True, lengths=[2, 4, 3]),
    "lstm_projected": Call("lstm", 2, True, projection=3),
    "lstm_clipped": Call("lstm", 1, clip=(-0.2, 0.3)),
}
calls = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


@calls
@pytest.mark.parametrize("dtype,tolerance", [("float64", 1e-10), ("float32", 1e-5), ("float16", 2e-2)])
def test_value(call, dtype, tolerance):
    floats, rest = call.inputs(dtype)
    got = mx.nd.RNN(*floats, *rest, **call.attributes)
    want = call.expected([a.asnumpy().astype("float64") for a in floats])
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert g.dtype == np.dtype(dtype)
        np.testing.assert_allclose(g.asnumpy(), w, tolerance, tolerance)


@pytest.mark.long_table
@calls
def test_hybridized(call, compiler):
    """One compiled program, forward and backward, agrees with eager execution."""
    floats, rest = call.inputs("float32")
    variables = [mx.sym.var(f"x{k}") for k in range(len(floats) + len(rest))]
    lengths = {"sequence_length": variables[-1]} if rest else {}
    out = mx.sym.RNN(*variables[: len(floats)], **lengths, **call.attributes)
    block = mx.gluon.SymbolBlock(mx.sym.Group([out[k] for k in range(len(out))]), variables)
    heads = [mx.nd.random.normal(shape=y.shape) for y in mx.nd.RNN(*floats, *rest, **call.attributes)]
    found = []
    for run in (lambda *a: mx.nd.RNN(*a, **call.attributes), block):
        for x in floats:
            x.attach_grad()
        with autograd.record():
            results = run(*floats, *rest)
        autograd.backward(list(results), heads)
        found.append([y.asnumpy() for y in (*results, *(x.grad for x in floats))])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, 2e-4, 2e-5)


@calls
def test_gradient(call):
    """Along a random direction, and a second time."""
    floats, rest = call.inputs()
    rng = np.random.default_rng(5)
    heads = [rng.normal(size=y.shape) for y in call.expected(call.arrays)]
    directions = [rng.normal(size=a.shape) for a in call.arrays]
    for x in floats:
        x.attach_grad()
    with autograd.record():
        results = mx.nd.RNN(*floats, *rest, **call.attributes)
        value = mx.nd.add_n(*[(y * mx.nd.array(g, dtype="float64")).sum() for y, g in zip(results, heads, strict=True)])
        first = autograd.grad(value, floats, create_graph=True, retain_graph=True)
        slope = mx.nd.add_n(
            *[(g * mx.nd.array(d, dtype="float64")).sum() for g, d in zip(first, directions, strict=True)]
        )
    slope.backward()

    def value_at(step):
        moved = [a + step * d for a, d in zip(call.arrays, directions, strict=True)]
        return sum((y * g).sum() for y, g in zip(call.expected(moved), heads, strict=True))

    e = 1e-4
    np.testing.assert_allclose(slope.asscalar(), (value_at(e) - value_at(-e)) / (2 * e), 2e-5, 1e-6)
    if call.mode == "rnn_relu":  # its slope jumps
        return
    second = sum((x.grad.asnumpy() * d).sum() for x, d in zip(floats, directions, strict=True))
    want = (value_at(e) - 2 * value_at(0) + value_at(-e)) / e**2
    np.testing.assert_allclose(second, want, 2e-3, 2e-4)


def test_emulated_gpu(cuda_driver):
    call = CALLS["lstm_2_bi"]
    floats, _ = call.inputs("float32", mx.gpu(0))
    variables = [mx.sym.var(f"x{k}") for k in range(len(floats))]
    block = mx.gluon.SymbolBlock(mx.sym.RNN(*variables, **call.attributes)[0], variables)
    np.testing.assert_allclose(block(*floats).asnumpy(), call.expected(call.arrays)[0], 1e-4, 1e-4)


def test_size_does_not_grow_with_time():
    """A hundred steps are lowered to as many nodes as two."""
    op = OPERATORS["RNN"]
    values = op.parse({"mode": "lstm", "state_size": H, "num_layers": 2})
    sizes = set()
    for steps in (2, 100):
        shapes = op.fill_shapes(values, [(steps, N, C), None, None, None])
        types = [mx.nd.zeros(s)._type.tensor for s in shapes]
        sizes.add(len(operator_graph(op, values, types, False)[0].nodes))
    assert len(sizes) == 1


def test_dropout_between_layers():
    """In training only, and not after the last layer."""
    call = CALLS["rnn_relu_2_one"]
    floats, _ = call.inputs()
    attributes = {**call.attributes, "p": 0.5, "state_outputs": False}
    plain = mx.nd.RNN(*floats, **attributes).asnumpy()
    np.testing.assert_allclose(plain, call.expected(call.arrays)[0], 1e-10)
    mx.random.seed(3)
    with autograd.train_mode():
        first, other = (mx.nd.RNN(*floats, **attributes).asnumpy() for _ in range(2))
    assert np.abs(first - plain).max() > 1e-3 and np.abs(first - other).max() > 1e-3
    single = CALLS["rnn_relu_1_one"]
    floats, _ = single.inputs()
    with autograd.train_mode():
        same = mx.nd.RNN(*floats, **{**single.attributes, "p": 0.5})[0].asnumpy()
    np.testing.assert_allclose(same, single.expected(single.arrays)[0], 1e-10)


def test_clipping_of_nan():
    call = CALLS["lstm_clipped"]
    floats, _ = call.inputs()
    floats[3][:] = np.nan
    assert np.isnan(mx.nd.RNN(*floats, **call.attributes)[2].asnumpy()).all()
    assert np.isfinite(mx.nd.RNN(*floats, **call.attributes, lstm_state_clip_nan=True)[2].asnumpy()).all()


@pytest.mark.parametrize(
    "attributes,arguments",
    [
        ({"mode": "gru"}, ["data", "parameters", "state"]),
        ({"mode": "lstm"}, ["data", "parameters", "state", "state_cell"]),
        ({"mode": "rnn_tanh", "use_sequence_length": True}, ["data", "parameters", "state", "sequence_length"]),
    ],
)
def test_symbol(attributes, arguments):
    net = mx.sym.RNN(mx.sym.var("data"), state_size=H, num_layers=2, state_outputs=True, name="r", **attributes)
    assert net.list_arguments() == ["data", *(f"r_{a}" for a in arguments[1:])]
    outputs = ["r_output", "r_state_output", "r_statecell_output"]
    assert net.list_outputs() == outputs[: 3 if attributes["mode"] == "lstm" else 2]
    shapes, results, _ = net.infer_shape(data=(T, N, C))
    count = {"gru": 300, "lstm": 400, "rnn_tanh": 100}[attributes["mode"]]
    assert shapes[1][0] == sum((w + H + 2) * GATES[attributes["mode"]] * H for w in (C, H)) and shapes[1][0] > count / 2
    assert results[0] == (T, N, H) and results[1] == (2, N, H)


@pytest.mark.parametrize(
    "inputs,more,message",
    [
        ([(4, 3), (85,), (1, 3, 5)], {}, "rank-3 tensor"),
        ([(4, 3, 2), (9,), (1, 3, 5)], {}, r"Shape inconsistent, Provided = \[9\], inferred shape=\(45"),
        ([(4, 3, 2), (45,), (1, 3, 4)], {}, r"Provided = \[1,3,4\], inferred shape=\(1,3,5\)"),
        ([(4, 3, 2), (45,), (1, 3, 5)], {"p": 1.0}, "0 <= dropout < 1"),
        ([(4, 3, 2), (45,), (1, 3, 5)], {"mode": "zz"}, "Invalid Input: 'zz'"),
        ([(4, 3, 2), (45,), (1, 3, 5)], {"lstm_state_clip_min": 0.0}, "only supported for LSTM"),
    ],
)
def test_misuse(inputs, more, message):
    attributes = {"mode": "rnn_tanh", "state_size": 5, "num_layers": 1, **more}
    with pytest.raises(MXNetError, match=message):
        mx.nd.RNN(*map(mx.nd.zeros, inputs), **attributes)


def test_unknown_inputs_share_what_is_left():
    """The input weights of both directions follow from the length of the whole vector."""
    data = mx.sym.var("data")
    parts = [mx.sym.var(n, shape=s).reshape(-1) for n, s in (("l", (5, 0)), ("r", (5, 0)), ("rest", (70,)))]
    joined = mx.sym._internal._rnn_param_concat(*parts, dim=0)
    net = mx.sym.RNN(data, joined, mode="rnn_tanh", state_size=5, num_layers=1, bidirectional=True)
    found = dict(zip(net.list_arguments(), net.infer_shape(data=(T, N, C))[0], strict=True))
    assert found["l"] == found["r"] == (5, C)
