# SPDX-License-Identifier: Apache-2.0
"""Normalisations: values and both derivatives, running averages, types, names, and what they compile to."""

from __future__ import annotations

import numpy as np
import pytest
from ops.support import array, as_list, check_derivatives, gradients, hybridized, runs

import hybridgpu as mx
from hybridgpu import autograd, gluon, nd
from hybridgpu.base import MXNetError

RNG = np.random.default_rng(5)


def draw(*shape, dtype="float64"):
    return RNG.uniform(0.3, 2, shape).astype(dtype)


def standardized(x, axes, eps):
    mean, var = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(var + eps), mean, np.sqrt(var + eps)


def column(v, ndim, axis):
    return v.reshape([-1 if k == axis % ndim else 1 for k in range(ndim)])


def layer(x, gamma, beta, axis=-1, eps=1e-5):
    y, mean, deviation = standardized(x, (axis,), eps)
    return y * column(gamma, x.ndim, axis) + column(beta, x.ndim, axis), mean, deviation


def group(x, gamma, beta, num_groups=1, eps=1e-5):
    folded = x.reshape(x.shape[0], num_groups, -1)
    y, mean, deviation = standardized(folded, (2,), eps)
    y = y * gamma[:, None] + beta[:, None]
    return y.reshape(x.shape), mean[..., 0], deviation[..., 0]


def instance(x, gamma, beta, eps=1e-3):
    y, _, _ = standardized(x, tuple(range(2, x.ndim)), eps)
    return (y * column(gamma, x.ndim, 1) + column(beta, x.ndim, 1),)


def length(x, eps=1e-10, mode="instance"):
    axes = {"instance": tuple(range(1, x.ndim)), "channel": (1,), "spatial": tuple(range(2, x.ndim))}[mode]
    return (x / np.sqrt((x * x).sum(axes, keepdims=True) + eps),)


SIMPLE = [
    ("LayerNorm", layer, [(3, 7), (7,), (7,)], {}),
    ("LayerNorm", layer, [(2, 3, 4), (3,), (3,)], {"axis": 1, "eps": 0.1}),
    ("LayerNorm", layer, [(4, 3), (4,), (4,)], {"axis": -2}),
    ("GroupNorm", group, [(2, 4, 3), (1,), (1,)], {}),
    ("GroupNorm", group, [(2, 6, 2, 3), (3,), (3,)], {"num_groups": 3, "eps": 0.1}),
    ("InstanceNorm", instance, [(2, 3, 5), (3,), (3,)], {}),
    ("InstanceNorm", instance, [(2, 3, 4, 2), (3,), (3,)], {"eps": 0.1}),
    ("L2Normalization", length, [(3, 4)], {}),
    ("L2Normalization", length, [(2, 3, 4)], {"mode": "channel", "eps": 0.1}),
    ("L2Normalization", length, [(2, 3, 4, 2)], {"mode": "spatial"}),
]
simple = pytest.mark.parametrize(("operator", "formula", "shapes", "attributes"), SIMPLE)


@simple
@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 4e-3), ("float32", 1e-5), ("float64", 1e-12)])
def test_values(operator, formula, shapes, attributes, dtype, tolerance):
    inputs = [draw(*s).astype(dtype) for s in shapes]
    want = formula(*(x.astype("float64") for x in inputs), **attributes)
    for run in runs(operator, attributes):
        got = as_list(run(*map(array, inputs)))
        assert [g.dtype for g in got] == [np.dtype(dtype).type]
        np.testing.assert_allclose(got[0].asnumpy(), want[0], tolerance, tolerance)
    if len(want) == 3:  # and the moments, on request
        for run in runs(operator, {**attributes, "output_mean_var": True}):
            for g, w in zip(run(*map(array, inputs)), want, strict=True):
                assert g.shape == w.shape
                np.testing.assert_allclose(g.asnumpy(), w, tolerance, tolerance)


@simple
def test_derivatives(operator, formula, shapes, attributes):
    for run in runs(operator, attributes):
        check_derivatives(run, [draw(*s) for s in shapes], range(len(shapes)))


@pytest.mark.parametrize(
    ("operator", "shapes", "attributes"),
    [
        ("LayerNorm", [(3, 7), (7,), (7,)], {}),
        ("GroupNorm", [(2, 4, 3), (2,), (2,)], {"num_groups": 2}),
        ("BatchNorm", [(4, 3), *[(3,)] * 4], {"fix_gamma": False}),
    ],
)
def test_no_gradient_flows_through_the_moments(operator, shapes, attributes):
    inputs = [draw(*s) for s in shapes]
    run = runs(operator, {**attributes, "output_mean_var": True})[0]
    out = [o.asnumpy() for o in run(*map(array, inputs))]
    heads = [np.zeros_like(out[0]), np.ones_like(out[1]), np.ones_like(out[2])]
    for f in runs(operator, {**attributes, "output_mean_var": True}):
        for g in gradients(f, inputs, (0, 1, 2), heads)[1]:
            assert not g.any()


# -- over the batch


def batch(x, gamma, beta, mean, var, axis=1, eps=1e-3, fix_gamma=True, training=True, use_global_stats=False, **_):
    axes = tuple(k for k in range(x.ndim) if k != axis % x.ndim)
    if training and not use_global_stats:
        mean, var = x.mean(axes), x.var(axes)
    scale = 1 / np.sqrt(var + eps)
    y = (x - column(mean, x.ndim, axis)) * column(scale * (1 if fix_gamma else gamma), x.ndim, axis)
    return y + column(beta, x.ndim, axis), mean, scale


BATCH = [
    ((4, 3), {}),
    ((4, 3), {"fix_gamma": False, "eps": 1e-5}),
    ((2, 3, 4, 2), {"fix_gamma": False, "momentum": 0.5}),
    ((2, 4, 3), {"fix_gamma": False, "axis": -1}),
    ((3, 4, 2), {"axis": 0, "use_global_stats": True, "fix_gamma": False}),
    ((2, 3, 4), {"use_global_stats": True}),
]
batches = pytest.mark.parametrize(("shape", "attributes"), BATCH)


def batch_inputs(shape, attributes, dtype="float64"):
    c = shape[attributes.get("axis", 1)]
    return [draw(*shape, dtype=dtype), *(draw(c, dtype="float32" if dtype == "float16" else dtype) for _ in range(4))]


@batches
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 6e-3), ("float32", 2e-5), ("float64", 1e-12)])
def test_batch_norm(shape, attributes, training, dtype, tolerance):
    inputs = batch_inputs(shape, attributes, dtype)
    want = batch(*(x.astype("float64") for x in inputs), training=training, **attributes)
    wide = "float32" if dtype == "float16" else dtype
    for run in runs("BatchNorm", {**attributes, "output_mean_var": True}):
        with autograd.train_mode() if training else autograd.predict_mode():
            got = run(*map(array, inputs))
        assert [g.dtype for g in got] == [np.dtype(d).type for d in (dtype, wide, wide)]
        for g, w in zip(got, want, strict=True):
            np.testing.assert_allclose(g.asnumpy(), w, tolerance, tolerance)


@batches
def test_batch_norm_derivatives(shape, attributes):
    wanted = (0, 2) if attributes.get("fix_gamma", True) else (0, 1, 2)
    inputs = batch_inputs(shape, attributes)
    statistics = [array(x) for x in inputs[3:]]
    for run in runs("BatchNorm", attributes):
        check_derivatives(lambda *xs, f=run: f(*xs, *statistics), inputs[:3], wanted)


@pytest.mark.parametrize("mode", [0, 1], ids=["eager", "hybridized"])
@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("global_", [False, True])
def test_running_averages_change_in_the_backward_pass(mode, fixed, global_):
    attributes = {"momentum": 0.75, "fix_gamma": fixed, "use_global_stats": global_}
    inputs = batch_inputs((4, 3, 2), {})
    x, gamma, _, mean, var = inputs
    run = runs("BatchNorm", attributes)[mode]
    arrays = [array(a) for a in inputs]
    arrays[0].attach_grad()
    with autograd.train_mode():
        run(*arrays)  # not recorded: nothing changes but, eagerly, a fixed gamma
    np.testing.assert_array_equal(arrays[1].asnumpy(), np.ones(3) if fixed and not mode else gamma)
    with autograd.record():
        y = run(*arrays)
    now = [x, np.ones(3) if fixed else gamma, *inputs[2:]]
    for a, before in zip(arrays, now, strict=True):
        np.testing.assert_array_equal(a.asnumpy(), before)
    y.backward()
    after = [a.asnumpy() for a in arrays]
    np.testing.assert_array_equal(after[1], np.ones(3) if fixed else gamma)
    if global_:
        np.testing.assert_array_equal(after[3], mean)
        np.testing.assert_array_equal(after[4], var)
    else:
        keep = float(np.float32(0.75))
        np.testing.assert_allclose(after[3], keep * mean + (1 - keep) * x.mean((0, 2)), rtol=1e-12)
        np.testing.assert_allclose(after[4], keep * var + (1 - keep) * x.var((0, 2)), rtol=1e-12)


class Twice(gluon.HybridBlock):
    def hybrid_forward(self, F, x, *rest):
        first = F.BatchNorm(x, *rest, fix_gamma=False, momentum=0.5)
        return first + F.BatchNorm(x * 2, *rest, fix_gamma=False, momentum=0.5)


@pytest.mark.parametrize("hybrid", [False, True])
def test_every_use_counts_in_the_order_of_the_backward_pass(hybrid):
    net = Twice()
    if hybrid:
        net.hybridize()
    inputs = batch_inputs((4, 3), {})
    _, _, arrays = gradients(net, inputs, (0,))
    x, mean = inputs[0], inputs[3]
    np.testing.assert_allclose(arrays[3].asnumpy(), (mean * 0.5 + x.mean(0)) * 0.5 + 0.5 * x.mean(0), rtol=1e-12)


def test_prediction_makes_a_fixed_gamma_1():
    arrays = [array(x) for x in batch_inputs((4, 3), {})]
    nd.BatchNorm(*arrays)
    assert (arrays[1].asnumpy() == 1).all()


def test_variance_zero_and_eps_zero():
    arrays = [array(np.full((3, 2), 4.0)), *(array(np.ones(2)) for _ in range(4))]
    with autograd.train_mode():
        y = nd.BatchNorm(*arrays, eps=0.0)
    np.testing.assert_array_equal(y.asnumpy(), np.ones((3, 2)))


@pytest.mark.parametrize(
    ("operator", "attributes"),
    [("contrib.BatchNormWithReLU", {}), ("BatchNorm_v1", {}), ("contrib.SyncBatchNorm", {"key": "a"})],
)
@pytest.mark.parametrize("training", [True, False])
def test_relatives(operator, attributes, training):
    inputs = batch_inputs((4, 3, 2), {})
    want = batch(*inputs, training=training, fix_gamma=False)[0]
    want = np.maximum(want, 0) if "ReLU" in operator else want
    for run in runs(operator, {**attributes, "fix_gamma": False}):
        with autograd.train_mode() if training else autograd.predict_mode():
            np.testing.assert_allclose(run(*map(array, inputs)).asnumpy(), want, rtol=1e-12)
    if "ReLU" not in operator:  # these return the variance itself
        with autograd.train_mode() if training else autograd.predict_mode():
            _, _, var = runs(operator, {**attributes, "output_mean_var": True})[0](*map(array, inputs))
        np.testing.assert_allclose(var.asnumpy(), inputs[0].var((0, 2)) if training else inputs[4], rtol=1e-12)


def test_symbol_names_shapes_and_types():
    bn = mx.sym.BatchNorm(mx.sym.var("x"), name="bn", output_mean_var=True)
    assert bn.list_arguments() == ["x", "bn_gamma", "bn_beta"]
    assert bn.list_auxiliary_states() == ["bn_moving_mean", "bn_moving_var"]
    assert bn.list_outputs() == ["bn_output", "bn_mean", "bn_var"]
    assert bn.infer_shape(x=(2, 3, 4)) == ([(2, 3, 4), (3,), (3,)], [(2, 3, 4), (3,), (3,)], [(3,), (3,)])
    for dtype, wide in (("float16", "float32"), ("float32", "float32"), ("float64", "float64")):
        d, w = np.dtype(dtype).type, np.dtype(wide).type
        assert bn.infer_type(x=dtype) == ([d, w, w], [d, w, w], [w, w])
    ln = mx.sym.LayerNorm(mx.sym.var("x"), name="n", axis=1)
    assert (ln.list_outputs(), ln.infer_shape(x=(2, 3, 4))[0]) == (["n_output"], [(2, 3, 4), (3,), (3,)])
    gn = mx.sym.GroupNorm(mx.sym.var("x"), name="n", num_groups=2, output_mean_var=True)
    assert gn.list_outputs() == ["n_output", "n_mean", "n_std"]
    assert gn.infer_shape(x=(2, 4, 3))[:2] == ([(2, 4, 3), (2,), (2,)], [(2, 4, 3), (2, 2), (2, 2)])


@pytest.mark.parametrize(
    ("operator", "shapes", "attributes", "message"),
    [
        ("BatchNorm", [(2, 3), *[(3,)] * 4], {"axis": 2}, "Channel axis out of range: 2"),
        ("BatchNorm", [(2, 3), (4,), *[(3,)] * 3], {}, r"Provided = \[4\], inferred shape=\[3\]"),
        ("LayerNorm", [(2, 3), (2,), (3,)], {}, r"Provided = \[2\], inferred shape=\[3\]"),
        ("LayerNorm", [(2, 3), (3,), (3,)], {"axis": 5}, "Channel axis out of range: axis=5"),
        ("GroupNorm", [(2, 3, 4), (2,), (2,)], {"num_groups": 2}, "must be divisible by # of groups"),
        ("GroupNorm", [(2, 4), (2,), (2,)], {"num_groups": 2}, r"dshape.ndim\(\) >= 3U \(2 vs. 3\)"),
        ("InstanceNorm", [(2, 3), (3,), (3,)], {}, "only supports input tensors of rank >= 3"),
        ("L2Normalization", [(2, 3)], {"mode": "channel"}, r"dshape.ndim\(\) >= 3 \(2 vs. 3\)"),
        ("contrib.SyncBatchNorm", [(2, 3), *[(3,)] * 4], {"key": "a", "ndev": 2}, "runs on one device"),
    ],
)
def test_errors(operator, shapes, attributes, message):
    with pytest.raises(MXNetError, match=message):
        runs(operator, attributes)[0](*(array(draw(*s, dtype="float32")) for s in shapes))


def test_types_of_the_parameters_are_checked():
    x, *rest = batch_inputs((2, 3), {}, "float32")
    with pytest.raises(MXNetError, match="Expected 'float32' v.s. given 'float16' at 'gamma'"):
        nd.BatchNorm(array(x.astype("float16")), array(rest[0].astype("float16")), *map(array, rest[1:]))
    with pytest.raises(MXNetError, match="only support floating point types, not int32"):
        nd.LayerNorm(*(nd.ones(s, dtype="int32") for s in ((2, 3), (3,), (3,))))


@pytest.mark.parametrize(
    ("operator", "shapes", "attributes", "kinds"),
    [
        ("LayerNorm", [(8, 96), (96,), (96,)], {}, ["rows"]),
        ("GroupNorm", [(2, 8, 6, 6), (4,), (4,)], {"num_groups": 4}, ["rows"]),
        ("InstanceNorm", [(2, 8, 6, 6), (8,), (8,)], {}, ["rows"]),
        ("L2Normalization", [(4, 64)], {}, ["rows"]),
    ],
)
def test_one_kernel(operator, shapes, attributes, kinds):
    net = hybridized(operator, attributes)
    explanation = net.explain(*(array(draw(*s, dtype="float32")) for s in shapes))
    if explanation.target == "reference":
        pytest.skip("no compiler here")
    assert [k.kind for k in explanation.kernels] == kinds
    assert not explanation.library_calls
