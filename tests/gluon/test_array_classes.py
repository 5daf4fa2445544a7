# SPDX-License-Identifier: Apache-2.0
"""The classes of arrays: the public ones exactly, wherever an array comes from, as programs compare ``type(x)``."""

import copy

import pytest

import hybridgpu as mx
from hybridgpu import autograd, gluon


def _dense(**kwargs):
    net = gluon.nn.Dense(2, in_units=3, **kwargs)
    net.initialize()
    return net


def _pretend_trained(p):
    p.set_data(p.data() * 2)
    return p


SOURCES = {
    "a parameter's array": lambda p: p.data(),
    "all of them": lambda p: p.list_data()[0],
    "after set_data": lambda p: _pretend_trained(p).data(),
    "after cast": lambda p: p.cast("float64") or p.data(),
    "a gradient": lambda p: p.grad(),
    "the array's gradient": lambda p: p.data().grad,
    "without history": lambda p: p.data().detach(),
    "a row": lambda p: p.data()[0],
    "rows": lambda p: p.data()[:1],
    "another shape": lambda p: p.data().reshape((-1,)),
    "a result": lambda p: p.data() * 2,
    "a copy": lambda p: p.data().copy(),
    "a deep copy's": lambda p: copy.deepcopy(p).data(),
}


@pytest.mark.parametrize("source", SOURCES)
def test_classes_of_a_parameters_arrays(source):
    x = SOURCES[source](_dense().weight)
    assert type(x) is mx.nd.NDArray
    assert type(x.as_np_ndarray()) is mx.np.ndarray


@pytest.mark.parametrize("source", SOURCES)
def test_classes_of_a_parameters_arrays_of_np(source):
    with mx.util.np_array(True), mx.util.np_shape(True):
        x = SOURCES[source](_dense().weight)
        assert type(x) is mx.np.ndarray
        assert type(x.as_nd_ndarray()) is mx.nd.NDArray


def test_classes_in_executors():
    y = mx.sym.FullyConnected(mx.sym.var("x"), num_hidden=2, name="fc")
    executor = y.simple_bind(mx.cpu(), x=(1, 3))
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones((1, 2)))
    for arrays in (executor.arg_arrays, executor.grad_arrays, executor.outputs):
        assert {type(x) for x in arrays} == {mx.nd.NDArray}


def test_hybridized_calls_take_the_values_that_a_parameter_has():
    # a prepared call, which holds addresses, is there when it is given an array that gets other memory
    p = gluon.Parameter("w", shape=(3,))
    p.initialize(mx.init.Constant(1))
    net = gluon.nn.HybridLambda(lambda F, x: x * 10)
    net.hybridize()
    for _ in range(3):
        net(mx.nd.ones((3,)))
    for value in (2, 3, 4):
        p.set_data(mx.nd.full((3,), value))
        assert net(p.data()).asnumpy().tolist() == [10 * value] * 3
        with autograd.record():
            y = net(p.data())
        y.backward()
        assert p.grad().asnumpy().tolist() == [10] * 3


def test_attributes_of_arrays():
    """As in MXNet: those of np take more, those of nd do not."""
    x = mx.np.ones((2,))
    x.unit = "m"
    assert x.unit == "m"
    assert vars(x) == {"unit": "m"}
    assert vars(x.copy()) == {}
    with pytest.raises(AttributeError, match="'NDArray' object has no attribute 'unit'"):
        mx.nd.ones((2,)).unit = "m"
    with pytest.raises(AttributeError):
        x.shape = (1, 2)
