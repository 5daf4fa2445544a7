# SPDX-License-Identifier: Apache-2.0
"""Groups of nodes on several devices: ``AttrScope(ctx_group=…)`` with ``group2ctx`` in ``bind`` and ``simple_bind``."""

from __future__ import annotations

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import nd, sym
from hybridgpu.base import MXNetError

GROUPS = {"one": mx.cpu(1), "two": mx.cpu(2)}


def places(arrays):
    return {k: x.context for k, x in arrays.items() if x is not None}


def network():
    z = sym.var("z")
    with mx.AttrScope(ctx_group="one"):
        dense = sym.FullyConnected(sym.var("x"), num_hidden=3, name="fc")
        normal = sym.BatchNorm(dense, fix_gamma=False, name="bn")
    twice = normal * 2  # of no group: where its input is
    with mx.AttrScope(ctx_group="two"):
        total = sym.broadcast_add(twice, z, name="total")
    return sym.Group([twice, total, z + 1])


def run(e, steps):
    """Values of everything after some steps."""
    rng = np.random.default_rng(3)
    for name, x in sorted(e.arg_dict.items()):
        x[:] = rng.normal(size=x.shape)
    for _ in range(steps):
        e.forward(is_train=True)
        e.backward([nd.array(np.arange(y.size).reshape(y.shape), ctx=y.context) for y in e.outputs])
    found = {**e.arg_dict, **{f"d{k}": g for k, g in e.grad_dict.items()}, **e.aux_dict, **e.output_dict}
    return {k: x.asnumpy() for k, x in found.items() if x is not None}


def test_arrays_lie_with_their_groups():
    e = network().simple_bind(mx.cpu(0), x=(4, 2), z=(4, 3), group2ctx=GROUPS)
    inside = dict.fromkeys(["x", "fc_weight", "fc_bias", "bn_gamma", "bn_beta"], mx.cpu(1))
    assert places(e.arg_dict) == places(e.grad_dict) == {**inside, "z": mx.cpu(0)}
    assert places(e.aux_dict) == dict.fromkeys(["bn_moving_mean", "bn_moving_var"], mx.cpu(1))
    assert [y.context for y in e.outputs] == [mx.cpu(1), mx.cpu(2), mx.cpu(0)]
    other = e.reshape(x=(2, 2), z=(2, 3))
    assert [y.context for y in other.outputs] == [mx.cpu(1), mx.cpu(2), mx.cpu(0)]
    assert places(other.arg_dict) == places(e.arg_dict)


@pytest.mark.parametrize("grad_req", ["write", "add"])
@pytest.mark.parametrize("limit", [0, 99], ids=["compiled", "interpreted"])
def test_results_are_those_of_one_device(grad_req, limit, monkeypatch):
    monkeypatch.setattr("hybridgpu.executor.executor._COMPILE_AFTER", limit)
    s = network()
    found = [
        run(s.simple_bind(mx.cpu(0), grad_req, x=(4, 2), z=(4, 3), group2ctx=groups), 2) for groups in (None, GROUPS)
    ]
    assert found[0].keys() == found[1].keys()
    for name, value in found[0].items():
        np.testing.assert_array_equal(found[1][name], value, err_msg=name)


def test_on_an_emulated_gpu(cuda_driver):
    s, groups = network(), {"one": mx.cpu(0), "two": mx.gpu(0)}
    plain = run(s.simple_bind(mx.cpu(0), x=(4, 2), z=(4, 3)), 1)
    e = s.simple_bind(mx.gpu(0), "add", x=(4, 2), z=(4, 3), group2ctx=groups)
    assert e.arg_dict["fc_weight"].context == e.grad_dict["fc_weight"].context == mx.cpu(0)
    mixed = run(e, 1)
    for name, value in plain.items():
        np.testing.assert_allclose(mixed[name], value, rtol=1e-4, atol=1e-4, err_msg=name)
    assert [y.context for y in e.outputs] == [mx.cpu(0), mx.gpu(0), mx.gpu(0)]


def test_gradients_that_are_added_to_are_the_callers():
    e = network().simple_bind(mx.cpu(0), "add", x=(4, 2), z=(4, 3), group2ctx={**GROUPS, "unused": mx.cpu(7)})
    run(e, 1)
    once = e.grad_dict["bn_beta"].asnumpy()
    e.forward(is_train=True)
    e.grad_dict["bn_beta"][:] = 5  # between the passes
    e.backward([nd.array(np.arange(y.size).reshape(y.shape), ctx=y.context) for y in e.outputs])
    np.testing.assert_array_equal(e.grad_dict["bn_beta"].asnumpy(), once + 5)


def test_outputs_keep_their_memory():
    with mx.AttrScope(ctx_group="one"):
        y = sym.var("a") * 2
    e = y.bind(mx.cpu(0), [nd.ones(2)], group2ctx=GROUPS)
    held = e.outputs[0]
    assert held.context == mx.cpu(1)
    (got,) = e.forward(a=nd.array([3.0, 4.0]))
    np.testing.assert_array_equal(held.asnumpy(), [6, 8])
    np.testing.assert_array_equal(got.asnumpy(), [6, 8])


def test_bound_arrays_stay_where_they_are():
    with mx.AttrScope(ctx_group="two"):
        y = sym.var("u") * sym.var("v")
    arrays = [nd.array([2.0], ctx=mx.cpu(0)), nd.array([5.0], ctx=mx.cpu(2))]
    gradients = [nd.zeros(1, ctx=x.context) for x in arrays]
    e = y.bind(mx.cpu(0), arrays, gradients, group2ctx=GROUPS)
    e.forward(is_train=True)
    e.backward([nd.ones(1, ctx=mx.cpu(2))])
    assert [(g.context, g.asscalar()) for g in gradients] == [(mx.cpu(0), 5), (mx.cpu(2), 2)]
    assert e.arg_arrays[1] is arrays[1]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda s: s.simple_bind(mx.cpu(), x=(4, 2), z=(4, 3), group2ctx={"one": mx.cpu(1)}),
            RuntimeError,
            "The device assignment not found for group two",
        ),
        (
            lambda s: sym.var("a").bind(mx.cpu(0), [nd.ones(2, ctx=mx.cpu(1))]),
            MXNetError,
            r"Input array is in cpu\(1\) while binding with ctx=cpu\(0\)",
        ),
        (
            lambda s: sym.var("a").bind(mx.cpu(0), [nd.ones(2)], [nd.ones(2, ctx=mx.cpu(1))]),
            MXNetError,
            r"Gradient array is in cpu\(1\)",
        ),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call(network())
