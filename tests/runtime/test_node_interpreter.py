# SPDX-License-Identifier: Apache-2.0
"""What monitors see: results and gradients of every operator, and nothing that a run without them would not do."""

from __future__ import annotations

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import nd, sym


def layers():
    x = sym.Activation(sym.FullyConnected(sym.var("data"), num_hidden=2, name="fc0"), act_type="sigmoid", name="act")
    return sym.LinearRegressionOutput(sym.FullyConnected(x, num_hidden=2, name="fc1"), name="out", grad_scale=2)


def branches():
    x = sym.BatchNorm(sym.var("data"), name="bn", fix_gamma=False)
    parts = sym.split(sym.concat(x * 2, sym.exp(x), dim=1, name="c"), num_outputs=2, name="s")
    return sym.make_loss(sym.Dropout(parts[0] * parts[1] + x, p=0.5, name="do"), name="loss")


def loop():
    found, state = sym.contrib.foreach(
        lambda x, s: (x * s, s + x * sym.var("w")), sym.var("data"), sym.var("s"), name="each"
    )
    return sym.make_loss(sym.sum(found, axis=0) + state, name="loss")


def states():
    cell = mx.rnn.RNNCell(2, prefix="r_")
    outputs, _ = cell.unroll(2, inputs=sym.var("data"), merge_outputs=True, layout="TNC")
    return sym.make_loss(outputs, name="loss")


@mx.operator.register("steps_double")
class Double(mx.operator.CustomOpProp):
    def __init__(self):
        super().__init__(need_top_grad=True)

    def create_operator(self, ctx, shapes, dtypes):
        class Run(mx.operator.CustomOp):
            def forward(self, is_train, req, in_data, out_data, aux):
                self.assign(out_data[0], req[0], in_data[0] * 2)

            def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
                self.assign(in_grad[0], req[0], out_grad[0] * 2)

        return Run()


def custom():
    return sym.make_loss(sym.Custom(sym.exp(sym.var("data")), op_type="steps_double", name="cu"), name="loss")


GRAPHS = {layers: (3, 2), branches: (4, 2), loop: (3, 2), states: (2, 3, 2), custom: (2, 2)}


def executor(make):
    symbol = make()
    mx.random.seed(3)
    found = symbol.simple_bind(mx.cpu(), data=GRAPHS[make], **({"s": (2,), "w": (2,)} if make is loop else {}))
    rng = np.random.default_rng(0)
    for x in found.arg_arrays:
        x[:] = rng.normal(size=x.shape)
    return symbol, found


def results(e):
    return [x.asnumpy() for x in (*e.outputs, *e.grad_arrays, *e.aux_arrays, mx.nd.random.uniform(shape=(2,)))]


@pytest.mark.parametrize("make", GRAPHS)
def test_a_monitor_changes_nothing_and_shows_the_gradients(make):
    _, plain = executor(make)
    plain.forward(is_train=True)
    plain.backward()
    expected = results(plain)
    symbol, watched = executor(make)
    seen = []
    watched.set_monitor_callback(lambda name, array: seen.append((mx.base.py_str(name), array.asnumpy())))
    watched.forward(is_train=True)
    inside = [n for n, _ in seen]
    assert inside[-1] == symbol.list_outputs()[0] and not any("backward" in n for n in inside)
    watched.backward()
    for a, b in zip(results(watched), expected, strict=True):
        np.testing.assert_array_equal(a, b)
    if make is branches:  # draws random numbers of its own
        return
    np.testing.assert_allclose(dict(seen)[inside[-1]], watched.outputs[0].asnumpy(), rtol=1e-5)
    shown = [value for n, value in seen if "backward" in n]
    for name, g in watched.grad_dict.items():
        if name in ("data", "r_i2h_weight", "r_h2h_weight", "r_i2h_bias", "r_h2h_bias"):
            continue  # reached by several operators in some graphs
        assert any(v.shape == g.shape and np.allclose(v, g.asnumpy(), rtol=1e-4, atol=1e-6) for v in shown), name


NAMES = {
    layers: ["out_backward_output0", "out_backward_output1", *(f"fc1_backward_output{k}" for k in range(3))]
    + ["act_backward_output", *(f"fc0_backward_output{k}" for k in range(3))],
    branches: ["loss_backward_output", "do_backward_output", "_plus0_backward_output0", "_plus0_backward_output1"]
    + ["_mul0_backward_output0", "_mul0_backward_output1", "s_backward_output", "c_backward_output0"]
    + ["c_backward_output1", "exp0_backward_output", "_mulscalar0_backward_output"]
    + [f"bn_backward_output{k}" for k in range(3)],
}


@pytest.mark.parametrize("make", NAMES)
def test_names_of_gradients(make):
    """As MXNet 1.9.1 shows them; sums of gradients have no name here."""
    with mx.name.NameManager():
        _, e = executor(make)
    seen = []
    e.set_monitor_callback(lambda name, array: seen.append(mx.base.py_str(name)))
    e.forward(is_train=True)
    e.backward()
    assert [n for n in seen if "backward" in n] == NAMES[make]
    seen.clear()
    e.forward(is_train=False)
    e.backward()
    assert not any("backward" in n for n in seen)


def test_only_what_leads_to_a_wanted_gradient():
    x = sym.exp(sym.var("a"), name="e") * sym.log(sym.var("b"), name="l")
    e = x.simple_bind(mx.cpu(), grad_req={"b": "write"}, a=(2,), b=(2,))
    e.arg_dict["b"][:] = 2
    seen = {}
    e.set_monitor_callback(lambda name, array: seen.update({mx.base.py_str(name): array.asnumpy().tolist()}))
    e.forward(is_train=True)
    e.backward(nd.array([4, 6]))
    assert seen["l_backward_output"] == [2, 3] and "e_backward_output" not in seen


def test_nothing_is_run_for_a_monitor_that_is_not_active():
    calls = []
    monitor = mx.mon.Monitor(2, stat_func=lambda x: calls.append(1) or x.sum())
    _, e = executor(layers)
    monitor.install(e)
    counts = []
    for _ in range(4):
        monitor.tic()
        e.forward(is_train=True)
        assert (e._steps is not None) == monitor.activated
        e.backward()
        counts.append(len(monitor.toc()))
    assert counts == [19, 0, 19, 0] and len(calls) == 38
