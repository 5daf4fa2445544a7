# SPDX-License-Identifier: Apache-2.0
"""Steps of optimizers against their formulas in NumPy: plain, with float copies, many at once; checks of gradients."""

from __future__ import annotations

import numpy as np
import pytest
from ops.support import array, as_list, hybridized, reach

import hybridgpu as mx
from hybridgpu import nd
from hybridgpu.base import MXNetError

RNG = np.random.default_rng(2)
SHAPE = (3, 4)


def single(x):
    """Attributes are floats."""
    return float(np.float32(x))


class P:
    """Attributes with the defaults that all steps share."""

    def __init__(self, given):
        defaults = {"wd": 0, "rescale_grad": 1, "clip_gradient": -1, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}
        for key, value in {**defaults, "momentum": 0, "gamma1": 0.95, "gamma2": 0.9, **given}.items():
            setattr(self, key, single(value) if isinstance(value, (int, float)) else value)

    def clip(self, g, bound="clip_gradient"):
        limit = getattr(self, bound, -1)
        return np.clip(g, -limit, limit) if limit >= 0 else g

    def scaled(self, g):
        return self.clip(g * self.rescale_grad)

    def decayed(self, g, w):
        return self.clip(g * self.rescale_grad + self.wd * w)


def sgd(p, w, g):
    return (w - p.lr * (p.wd * w + p.scaled(g)),)


def sgd_mom(p, w, g, mom):
    mom = p.momentum * mom - p.lr * (p.wd * w + p.scaled(g))
    return w + mom, mom


def nag(p, w, g, mom):
    new = p.momentum * mom - p.lr * (p.scaled(g) + p.wd * w)
    return w - p.momentum * mom + (1 + p.momentum) * new, new


def nag_in_place(p, w, g, mom):
    new, _ = nag(p, w, g, mom)
    return new, p.momentum * mom - p.lr * (p.scaled(g) + p.wd * new)


def adam(p, w, g, m, v):
    g = p.decayed(g, w)
    m, v = p.beta1 * m + (1 - p.beta1) * g, p.beta2 * v + (1 - p.beta2) * g * g
    return w - p.lr * m / (np.sqrt(v) + p.epsilon), m, v


def rmsprop(p, w, g, n):
    g = p.decayed(g, w)
    n = p.gamma1 * n + (1 - p.gamma1) * g * g
    return p.clip(w - p.lr * g / np.sqrt(n + p.epsilon), "clip_weights"), n


def rmsprop_alex(p, w, g, n, a, delta):
    g = p.decayed(g, w)
    n, a = p.gamma1 * n + (1 - p.gamma1) * g * g, p.gamma1 * a + (1 - p.gamma1) * g
    delta = p.gamma2 * delta - p.lr * g / np.sqrt(n - a * a + p.epsilon)
    return p.clip(w + delta, "clip_weights"), n, a, delta


def ftrl(p, w, g, z, n):
    g = p.scaled(g)
    z = z + g - (np.sqrt(n + g * g) - np.sqrt(n)) * w / p.lr
    n = n + g * g
    lamda1, beta = single(0.01), 1
    return np.where(np.abs(z) > lamda1, (np.sign(z) * lamda1 - z) / ((beta + np.sqrt(n)) / p.lr + p.wd), 0), z, n


def ftml(p, w, g, d, v, z):
    beta1, beta2, t = single(0.6), p.beta2, p.t
    g = p.clip(g * p.rescale_grad + p.wd * w, "clip_grad")
    v = beta2 * v + (1 - beta2) * g * g
    new = (1 - beta1**t) / p.lr * (np.sqrt(v / (1 - beta2**t)) + p.epsilon)
    z = beta1 * z + (1 - beta1) * g - (new - beta1 * d) * w
    return -z / new, new, v, z


def signsgd(p, w, g):
    return ((1 - p.lr * p.wd) * w - p.lr * np.sign(g),)


def signum(p, w, g, mom):
    mom = p.momentum * mom - (1 - p.momentum) * (p.wd * w + p.scaled(g))
    return (1 - p.lr * p.wd_lh) * w + p.lr * np.sign(mom), mom


def adagrad(p, w, g, h):
    g = p.scaled(g)
    h = h + g * g
    return w - p.lr * g / np.sqrt(h + p.epsilon), h


def lamb1(p, w, g, m, v):
    g = p.scaled(g)
    m, v = p.beta1 * m + (1 - p.beta1) * g, p.beta2 * v + (1 - p.beta2) * g * g
    mh, vh = (m / (1 - p.beta1**p.t), v / (1 - p.beta2**p.t)) if getattr(p, "bias_correction", True) else (m, v)
    return mh / (np.sqrt(vh) + p.epsilon) + p.wd * w, m, v


RATE = {"lr": 0.1, "wd": 0.05}
CLIP = {"clip_gradient": 0.3, "rescale_grad": 0.7}
STEPS = [  # operator, formula, number of states, attributes
    ("sgd_update", sgd, 0, RATE),
    ("sgd_update", sgd, 0, {**RATE, **CLIP}),
    ("sgd_mom_update", sgd_mom, 1, {**RATE, **CLIP, "momentum": 0.9}),
    ("nag_mom_update", nag, 1, {**RATE, "momentum": 0.9}),
    ("nag_mom_update", nag, 1, {**RATE, **CLIP, "momentum": 0.9}),
    ("adam_update", adam, 2, RATE),
    ("adam_update", adam, 2, {**RATE, **CLIP, "beta1": 0.5, "epsilon": 0.01}),
    ("rmsprop_update", rmsprop, 1, {**RATE, "clip_weights": 0.5}),
    ("rmsprop_update", rmsprop, 1, {**RATE, **CLIP}),
    ("rmspropalex_update", rmsprop_alex, 3, {**RATE, "clip_weights": 0.5}),
    ("ftrl_update", ftrl, 2, {**RATE, **CLIP}),
    ("ftml_update", ftml, 3, {**RATE, "t": 3, "clip_grad": 0.3}),
    ("signsgd_update", signsgd, 0, {**RATE, **CLIP}),
    ("signum_update", signum, 1, {**RATE, **CLIP, "momentum": 0.9, "wd_lh": 0.02}),
    ("_internal._sparse_adagrad_update", adagrad, 1, {"lr": 0.1, "epsilon": 1e-7, **CLIP}),
    ("lamb_update_phase1", lamb1, 2, {"wd": 0.05, "t": 3, "epsilon": 1e-6}),
    ("lamb_update_phase1", lamb1, 2, {"wd": 0.05, "t": 3, "epsilon": 1e-6, "bias_correction": False, **CLIP}),
]
ROUNDING = {"float16": 4e-3, "float32": 3e-5, "float64": 1e-9}


def draw(*shape, dtype="float64"):
    return RNG.uniform(0.2, 1.5, shape).astype(dtype)


def states_of(operator, count, dtype, shape=SHAPE):
    found = [draw(*shape, dtype=dtype) for _ in range(count)]
    if operator.startswith("rmspropalex"):  # the mean square is no less than the squared mean
        found[0] = found[0] + np.asarray(2, dtype)
    return found


def check(got, want, tolerance):
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g.asnumpy().astype("float64"), w, tolerance, tolerance)


@pytest.mark.parametrize(("operator", "formula", "count", "attributes"), STEPS)
@pytest.mark.parametrize("dtype", list(ROUNDING))
def test_steps(operator, formula, count, attributes, dtype):
    inputs = [draw(*SHAPE, dtype=dtype), draw(*SHAPE, dtype=dtype), *states_of(operator, count, dtype)]
    want = formula(P(attributes), *(x.astype("float64") for x in inputs))
    in_place = nag_in_place(P(attributes), *(x.astype("float64") for x in inputs)) if formula is nag else want
    weight, *rest = map(array, inputs)
    out = reach(nd, operator)(weight, *rest, out=weight, **attributes)
    assert out is weight
    assert weight.dtype == inputs[0].dtype.type
    check([weight, *rest[1:]], in_place, ROUNDING[dtype])
    np.testing.assert_array_equal(rest[0].asnumpy(), inputs[1])  # the gradient stays
    arrays = [array(x) for x in inputs]
    (result,) = reach(nd, operator)(*arrays, out=[arrays[0]], **attributes)
    assert result is arrays[0]
    check([result, *arrays[2:]], in_place, ROUNDING[dtype])
    arrays = [array(x) for x in inputs]
    result = hybridized(operator, attributes)(*arrays)
    check([result, *arrays[2:]], want, ROUNDING[dtype])
    np.testing.assert_array_equal(arrays[0].asnumpy(), inputs[0])  # without out= the weight stays


MIXED = [
    ("mp_sgd_update", sgd, 0, {**RATE, **CLIP}),
    ("mp_sgd_mom_update", sgd_mom, 1, {**RATE, "momentum": 0.9}),
    ("mp_nag_mom_update", nag_in_place, 1, {**RATE, **CLIP, "momentum": 0.9}),
]


@pytest.mark.parametrize(("operator", "formula", "count", "attributes"), MIXED)
def test_steps_on_float_copies(operator, formula, count, attributes):
    master = draw(*SHAPE, dtype="float32")
    grad, states = draw(*SHAPE, dtype="float16"), states_of(operator, count, "float32")
    want = formula(P(attributes), *(x.astype("float64") for x in (master, grad, *states)))
    for run in (reach(nd, operator), None):
        arrays = [array(x) for x in (master.astype("float16"), grad, *states, master)]
        got = run(*arrays, **attributes) if run else hybridized(operator, attributes)(*arrays)
        assert got.dtype == np.float16
        check([got], want[:1], 2e-3)
        check([arrays[-1], *arrays[2:-1]], want, 3e-5)


def test_lamb_in_two_phases():
    w, g = draw(*SHAPE), draw(*SHAPE)
    for bounds in ({}, {"lower_bound": 0.5, "upper_bound": 0.75}):
        r1, r2 = np.linalg.norm(w), np.linalg.norm(g)
        bounded = np.clip(r1, bounds.get("lower_bound", 0), bounds.get("upper_bound", np.inf))
        want = w - single(0.1) * bounded / r2 * g
        got = nd.lamb_update_phase2(*map(array, (w, g, np.array([r1]), np.array([r2]))), lr=0.1, **bounds)
        check([got], [want], 1e-9)
    for zero in (0, 1):  # no quotient where a norm is 0
        norms = [np.array([0.0 if k == zero else 2.0]) for k in range(2)]
        check([nd.lamb_update_phase2(*map(array, (w, g, *norms)), lr=0.1)], [w - single(0.1) * g], 1e-9)


def test_lamb_on_float_copies():
    master, mean, var = (draw(*SHAPE, dtype="float32") for _ in range(3))
    grad = draw(*SHAPE, dtype="float16")
    attributes = {"wd": 0.05, "t": 2, "epsilon": 1e-6}
    want = lamb1(P(attributes), *(x.astype("float64") for x in (master, grad, mean, var)))
    arrays = [array(x) for x in (master.astype("float16"), grad, mean, var, master)]
    g = nd.mp_lamb_update_phase1(*arrays, wd=0.05, t=2)
    assert g.dtype == np.float32
    check([g, *arrays[2:4]], want, 3e-5)
    norms = [nd.array([2.0]), nd.array([4.0])]
    weight = nd.mp_lamb_update_phase2(arrays[0], g, *norms, arrays[4], lr=0.1)
    new = master - 0.1 * 0.5 * want[0]
    assert weight.dtype == np.float16
    check([weight], [new], 2e-3)
    check([arrays[4]], [new], 3e-5)


def adamw(p, w, g, m, v, scale):
    g = p.clip(g * scale)
    m, v = p.beta1 * m + (1 - p.beta1) * g, p.beta2 * v + (1 - p.beta2) * g * g
    return w - p.eta * (p.lr * m / (np.sqrt(v) + p.epsilon) + p.wd * w), m, v


@pytest.mark.parametrize("scale", [0.5, nd.array([2.0])])
@pytest.mark.parametrize("mixed", [False, True])
def test_adamw(scale, mixed):
    attributes = {"lr": 0.1, "eta": 0.5, "wd": 0.05, "clip_gradient": 0.6}
    inputs = [draw(*SHAPE, dtype="float32") for _ in range(4)]
    factor = scale if isinstance(scale, float) else scale.asscalar()
    want = adamw(P(attributes), *(x.astype("float64") for x in inputs), factor)
    w, g, m, v = map(array, inputs)
    if mixed:
        half = w.astype("float16")
        nd.contrib.mp_adamw_update(half, g.astype("float16"), m, v, w, scale, out=half, **attributes)
        check([half], want[:1], 2e-3)
        check([w, m, v], want, 1e-3)
    else:
        nd.contrib.adamw_update(w, g, m, v, scale, out=w, **attributes)
        check([w, m, v], want, 3e-5)


@pytest.mark.parametrize("scale", [0.5, "factor"])
@pytest.mark.parametrize("mixed", [False, True])
def test_adamw_of_symbols(scale, mixed):
    attributes = {"lr": 0.1, "eta": 0.5, "wd": 0.05}
    names = ["w", "g", "m", "v"] + ["w32"] * mixed
    inputs = [draw(*SHAPE, dtype="float32") for _ in range(4)]
    function = mx.sym.contrib.mp_adamw_update if mixed else mx.sym.contrib.adamw_update
    factor = mx.sym.var(scale) if isinstance(scale, str) else scale
    y = function(*map(mx.sym.var, names), factor, name="step", **attributes)
    assert y.list_auxiliary_states() == ["m", "v"] + ["w32"] * mixed
    assert y.list_outputs() == ["step_output"]
    want = adamw(P(attributes), *(x.astype("float64") for x in inputs), 0.5)
    arrays = dict(zip(names, map(array, [*inputs, inputs[0]]), strict=False)) | {"factor": nd.array([0.5])}
    if mixed:
        arrays |= {k: arrays[k].astype("float16") for k in "wg"}
    e = y.bind(
        mx.cpu(), {k: arrays[k] for k in y.list_arguments()}, aux_states={k: arrays[k] for k in names if k in "m v w32"}
    )
    check(e.forward(), want[:1], 2e-3 if mixed else 3e-5)
    check([arrays["m"], arrays["v"]], want[1:], 1e-3 if mixed else 3e-5)
    np.testing.assert_array_equal(arrays["w"].asnumpy(), inputs[0].astype("float16") if mixed else inputs[0])


def test_adamw_of_symbols_takes_its_factors_in_order():
    y = mx.sym.contrib.adamw_update(*map(mx.sym.var, "wgmv"), 0.5, 0.1, 1.0, 0.8, 0.99, name="step")
    assert (y.name, y.attr("beta1"), y.attr("beta2")) == ("step", "0.8", "0.99")


@pytest.mark.parametrize("scale", [0.0, np.inf, np.nan])
def test_adamw_leaves_out_steps_without_a_usable_factor(scale):
    inputs = [draw(*SHAPE, dtype="float32") for _ in range(4)]
    w, g, m, v = map(array, inputs)
    nd.contrib.adamw_update(w, g, m, v, float(scale), lr=0.1, eta=1.0, wd=0.1, out=w)
    for x, before in zip((w, g, m, v), inputs, strict=True):
        np.testing.assert_array_equal(x.asnumpy(), before)


# -- many weights

SHAPES = [(3, 4), (5,)]
RATES, DECAYS = (0.1, 0.2), (0.05, 0.0)


def many(count, mixed):
    """For each weight: weight, grad, states and, if mixed, the float copy."""
    found = []
    for shape in SHAPES:
        kind = "float16" if mixed else "float32"
        master = draw(*shape, dtype="float32")
        group = [master.astype(kind), draw(*shape, dtype=kind), *(draw(*shape, dtype="float32") for _ in range(count))]
        found.append([*group, *([master] if mixed else [])])
    return found


def compare(groups, arrays, results, want, mixed):
    for k, group in enumerate(groups):
        first = sum(map(len, groups[:k]))
        held = arrays[first + 2 : first + len(group)]
        states, masters = (held[:-1], held[-1:]) if mixed else (held, [])
        check([results[k]], want[k][:1], 2e-3 if mixed else 3e-5)
        check(states, want[k][1:], 3e-5)
        check(masters, want[k][: len(masters)], 3e-5)


@pytest.mark.parametrize("momentum", [False, True])
@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("preloaded", [False, True])
@pytest.mark.parametrize("hybrid", [False, True])
def test_many_sgd_steps(momentum, mixed, preloaded, hybrid):
    operator = f"{'preloaded_' * preloaded}multi_{'mp_' * mixed}sgd_{'mom_' * momentum}update"
    attributes = {"num_weights": 2, **CLIP, **({"momentum": 0.9} if momentum else {})}
    groups = many(int(momentum), mixed)
    want = []
    for k, group in enumerate(groups):
        start = group[-1] if mixed else group[0]
        given = [start, group[1], *(group[2 : 2 + momentum])]
        p = P({**attributes, "lr": RATES[k], "wd": DECAYS[k]})
        want.append((sgd_mom if momentum else sgd)(p, *(x.astype("float64") for x in given)))
    arrays = [array(x) for group in groups for x in group]
    extra = []
    if preloaded:
        extra = [nd.array(RATES), nd.array(DECAYS)]
    else:
        attributes |= {"lrs": RATES, "wds": DECAYS}
    if hybrid:
        results = hybridized(operator, attributes)(*arrays, *extra)
    else:
        out = [nd.zeros(s, dtype=groups[0][0].dtype) for s in SHAPES]
        results = reach(nd, operator)(*arrays, *extra, out=out, **attributes)
        assert results is out or results == out
    compare(groups, arrays, results, want, mixed)


@pytest.mark.parametrize("mixed", [False, True])
def test_many_adamw_steps(mixed):
    groups = many(2, mixed)
    arrays = [[array(x) for x in group] for group in groups]
    out = [nd.zeros(s, dtype=groups[0][0].dtype) for s in SHAPES]
    run = nd.contrib.multi_mp_adamw_update if mixed else nd.contrib.multi_adamw_update
    run(*zip(*arrays, strict=True), 0.5, RATES, DECAYS, (1.0, 0.5), out=out, clip_gradient=0.6)
    want = []
    for k, group in enumerate(groups):
        p = P({"lr": RATES[k], "wd": DECAYS[k], "eta": (1.0, 0.5)[k], "clip_gradient": 0.6})
        w, g, m, v = (x.astype("float64") for x in (group[-1] if mixed else group[0], *group[1:4]))
        want.append(adamw(p, w, g, m, v, 0.5))
    compare(groups, [x for a in arrays for x in a], out, want, mixed)


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("more", [{}, {"lower_bound": 0.5, "upper_bound": 1.0, "bias_correction": False, **CLIP}])
def test_many_lamb_steps(mixed, more):
    groups = many(2, mixed)
    arrays = [[array(x) for x in group] for group in groups]
    out = [nd.zeros(s, dtype=groups[0][0].dtype) for s in SHAPES]
    run = nd.contrib.multi_mp_lamb_update if mixed else nd.contrib.multi_lamb_update
    run(*zip(*arrays, strict=True), (1, 3), RATES, DECAYS, out=out, **more)
    want = []
    for k, group in enumerate(groups):
        p = P({"wd": DECAYS[k], "t": (1, 3)[k], "epsilon": 1e-6, **more})
        master = (group[-1] if mixed else group[0]).astype("float64")
        g, m, v = lamb1(p, master, *(x.astype("float64") for x in group[1:4]))
        r1 = np.linalg.norm(group[0].astype("float64"))
        r1 = np.clip(r1, more.get("lower_bound", 0), more.get("upper_bound", np.inf))
        want.append((master - RATES[k] * r1 / np.linalg.norm(g) * g, m, v))
    compare(groups, [x for a in arrays for x in a], out, want, mixed)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a: nd.multi_sgd_update(a, a, lrs=(1,), wds=(0, 0), num_weights=1), "Number of weight decays"),
        (lambda a: nd.multi_sgd_update(a, a, lrs=(1, 1), wds=(0,), num_weights=1), "Number of learning rates"),
        (lambda a: nd.multi_sgd_update(a, a, a, lrs=(1,), wds=(0,), num_weights=1), "expects 2 inputs, but got 3"),
        (lambda a: nd.multi_sum_sq(a, a, num_arrays=3), "expects 3 inputs, but got 2"),
        (lambda a: nd.mp_sgd_update(a, a, a.astype("float16"), lr=1), "expected float32, got float16"),
        (lambda a: nd.sgd_update(a, nd.ones((2,)), lr=1), r"expected \[3\], got \[2\]"),
        (lambda a: nd.sgd_update(a, a), "Required parameter lr of float is not presented"),
        (lambda a: nd.lamb_update_phase2(a, a, a, a, lr=1), "r1 shape incorrect"),
        (lambda a: nd.all_finite(a.astype("int32")), "only support floating point types"),
    ],
)
def test_errors(call, message):
    with pytest.raises(MXNetError, match=message):
        call(nd.ones((3,)))


# -- norms and checks


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_sums_of_squares(dtype):
    arrays = [draw(3, 4, dtype=dtype), draw(5, dtype=dtype)]
    want = [(x.astype("float64") ** 2).sum() for x in arrays]
    for F in (nd.multi_sum_sq, hybridized("multi_sum_sq", {"num_arrays": 2})):
        got = F(*map(array, arrays), **({"num_arrays": 2} if F is nd.multi_sum_sq else {}))
        assert got.dtype == np.float32
        np.testing.assert_allclose(got.asnumpy(), want, rtol=1e-5)


def test_layerwise_rates():
    lrs, weights, grads, wds = (draw(4, dtype="float32") for _ in range(4))
    weights[1], grads[2] = 0, 0
    norm = np.sqrt(weights)
    want = np.where(norm * grads > 0, lrs * 0.01 * norm / (np.sqrt(grads) * 0.5 + wds * norm + 1e-5), lrs)
    got = nd.multi_lars(*map(array, (lrs, weights, grads, wds)), eta=0.01, eps=1e-5, rescale_grad=0.5)
    np.testing.assert_allclose(got.asnumpy(), want, rtol=1e-5)


@pytest.mark.parametrize(("bad", "want"), [(None, 1), (np.inf, 0), (-np.inf, 0), (np.nan, 0)])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_all_finite(bad, want, dtype):
    x, y = draw(3, 4, dtype=dtype), draw(5, dtype=dtype)
    if bad is not None:
        y[3] = bad
    for arrays, expected in (([y], want), ([x, y], want), ([x], 1)):
        got = nd.multi_all_finite(*map(array, arrays), num_arrays=len(arrays))
        assert (got.shape, got.dtype) == ((1,), np.float32)
        assert got.asscalar() == expected
        assert hybridized("multi_all_finite", {"num_arrays": len(arrays)})(*map(array, arrays)).asscalar() == expected
    assert nd.all_finite(array(y)).asscalar() == want
    for start in (0, 1):  # what was found before stays
        found = nd.array([start])
        nd.all_finite(array(y), init_output=False, out=found)
        assert found.asscalar() == start * want


def test_reset_arrays():
    arrays = [nd.ones((3, 4)), nd.ones((5,), dtype="float16")]
    assert as_list(nd.reset_arrays(*arrays, num_arrays=2)) == []
    assert not any(x.asnumpy().any() for x in arrays)


def test_states_are_auxiliary_in_symbols():
    s = mx.sym.adam_update(mx.sym.var("w"), mx.sym.var("g"), name="a", lr=0.1)
    assert s.list_arguments() == ["w", "g"]
    assert s.list_auxiliary_states() == ["a_mean", "a_var"]
    s = mx.sym.mp_sgd_mom_update(mx.sym.var("w"), mx.sym.var("g"), name="a", lr=0.1)
    assert s.infer_type(w="float16") == ([np.float16] * 2, [np.float16], [np.float32] * 2)
