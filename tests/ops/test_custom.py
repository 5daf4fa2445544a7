# SPDX-License-Identifier: Apache-2.0
"""Operators written in Python: eager, recorded, in Symbols, executors and hybridized blocks (in stages)."""

from __future__ import annotations

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import autograd, gluon, nd, sym


class Scaled(mx.operator.CustomOp):
    def __init__(self, factor):
        self.factor = factor

    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], in_data[0] * in_data[1] * self.factor)
        if aux:
            aux[0][:] += 1

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0] * in_data[1] * self.factor)
        self.assign(in_grad[1], req[1], out_grad[0] * in_data[0] * self.factor)


@mx.operator.register("scaled_product")
class ScaledProp(mx.operator.CustomOpProp):
    def __init__(self, factor="1", counted="False"):
        super().__init__()
        self.factor, self.counted = float(factor), counted == "True"

    def list_arguments(self):
        return ["lhs", "rhs"]

    def list_auxiliary_states(self):
        return ["count"] if self.counted else []

    def infer_shape(self, in_shape):
        return [in_shape[0], in_shape[0]], [in_shape[0]], [(1,)] if self.counted else []

    def create_operator(self, ctx, shapes, dtypes):
        return Scaled(self.factor)


class Broken(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        raise ZeroDivisionError("on purpose")


@mx.operator.register("broken")
class BrokenProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes):
        return Broken()


def inputs():
    a, b = nd.array([1.0, 2.0, 3.0]), nd.array([4.0, 5.0, 6.0])
    a.attach_grad()
    b.attach_grad()
    return a, b


def test_eager_with_gradient():
    a, b = inputs()
    with autograd.record():
        y = nd.Custom(a, b, op_type="scaled_product", factor=2) + a
    y.backward()
    np.testing.assert_array_equal(y.asnumpy(), [9, 22, 39])
    np.testing.assert_array_equal(a.grad.asnumpy(), [9, 11, 13])
    np.testing.assert_array_equal(b.grad.asnumpy(), [2, 4, 6])


class Net(gluon.HybridBlock):
    def hybrid_forward(self, F, a, b):
        y = F.Custom(F.exp(a), b, op_type="scaled_product", factor=0.5)
        return F.broadcast_add(F.Custom(F.tanh(y), a, op_type="scaled_product"), F.sum(y))


def test_hybridized_in_stages():
    results = []
    for hybridize in (False, True):
        net = Net()
        net.hybridize(hybridize)
        for _ in range(2):
            a, b = inputs()
            with autograd.record():
                y = net(a, b)
            y.backward()
            results.append((y.asnumpy(), a.grad.asnumpy(), b.grad.asnumpy()))
    for r in results[1:]:
        for got, want in zip(r, results[0], strict=True):
            np.testing.assert_allclose(got, want, rtol=2e-6)
    np.testing.assert_allclose(net(a, b).asnumpy(), results[0][0], rtol=2e-6)


def test_symbol_names_shapes_json_and_states():
    s = sym.Custom(lhs=sym.var("a"), rhs=sym.var("b"), op_type="scaled_product", counted=True, name="p")
    assert s.list_arguments() == ["a", "b"]
    assert s.list_auxiliary_states() == ["p_count"]
    assert s.list_outputs() == ["p_output"]
    assert s.infer_shape(a=(2, 3)) == ([(2, 3), (2, 3)], [(2, 3)], [(1,)])
    again = sym.load_json(s.tojson())
    e = again.simple_bind(mx.cpu(), a=(3,), b=(3,))
    a, b = inputs()
    for k in range(1, 3):
        e.forward(is_train=True, a=a, b=b)
        np.testing.assert_array_equal(e.outputs[0].asnumpy(), [4, 10, 18])
        assert e.aux_dict["p_count"].asscalar() == k
    e.backward(nd.ones(3))
    np.testing.assert_array_equal(e.grad_dict["a"].asnumpy(), b.asnumpy())


def test_numeric_gradient():
    s = sym.Custom(sym.var("a"), sym.var("b"), op_type="scaled_product", factor=3)
    mx.test_utils.check_numeric_gradient(sym.sin(s), [np.random.rand(2, 2), np.random.rand(2, 2)], rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nd.Custom(nd.ones(2), op_type="nowhere"), "Cannot find custom operator nowhere"),
        (lambda: nd.Custom(nd.ones(2)), "Required parameter op_type of string is not presented"),
        (lambda: nd.Custom(nd.ones(2), op_type="broken"), "ZeroDivisionError: on purpose"),
        (lambda: nd.Custom(wrong=nd.ones(2), op_type="broken"), "has no input 'wrong'; it has"),
    ],
)
def test_errors(call, message):
    with pytest.raises(mx.MXNetError, match=message):
        call()


def test_register_wants_a_property():
    with pytest.raises(TypeError, match="no subclass of CustomOpProp"):
        mx.operator.register("x")(Scaled)


def test_arguments_of_operators():
    found = mx.operator.get_operator_arguments("Activation")
    assert found.names == ["data", "act_type"]
    assert found.types[0] == "NDArray-or-Symbol"
    assert "Activation" in mx.operator.get_all_registered_operators()


class _Half(mx.operator.NumpyOp):
    def forward(self, in_data, out_data):
        assert isinstance(in_data[0], np.ndarray)
        out_data[0][:] = in_data[0] / 2 + in_data[1]

    def backward(self, out_grad, in_data, out_data, in_grad):
        in_grad[0][:] = out_grad[0] / 2
        in_grad[1][:] = out_grad[0]

    def list_arguments(self):
        return ["data", "other"]


class _Square(mx.operator.NDArrayOp):
    def forward(self, in_data, out_data):
        out_data[0][:] = in_data[0] * in_data[0]

    def backward(self, out_grad, in_data, out_data, in_grad):
        in_grad[0][:] = 2 * in_data[0] * out_grad[0]


def test_operators_of_the_older_kind():
    with pytest.warns(UserWarning, match="NumpyOp has been deprecated. Please use CustomOp|_Half has been deprecated"):
        half = _Half()
    with pytest.warns(UserWarning, match="deprecated"):
        square = _Square()
    with pytest.warns(UserWarning, match="deprecated"):
        plain = mx.operator.NumpyOp()
    x, other = mx.nd.array([1.0, 3.0]), mx.nd.array([5.0, 7.0])
    y = plain(square.get_symbol(half.get_symbol(mx.sym.var("x"), mx.sym.var("o"), name="h"), name="s"))
    assert y.get_internals().list_outputs()[:4] == ["x", "o", "h_output", "s_output"]
    grads = [mx.nd.zeros(2), mx.nd.zeros(2)]
    e = y.bind(mx.cpu(), [x, other], args_grad=grads)
    assert e.forward(is_train=True)[0].asnumpy().tolist() == [5.5**2, 8.5**2]
    e.backward(mx.nd.array([1.0, 10.0]))
    # the plain operator's gradient is 1 whatever arrives
    assert grads[0].asnumpy().tolist() == [5.5, 8.5] and grads[1].asnumpy().tolist() == [11, 17]
