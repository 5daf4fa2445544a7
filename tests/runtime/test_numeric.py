# SPDX-License-Identifier: Apache-2.0
"""Numeric modes: what strict promises, how fast is asked for, and that their programs are never mixed up."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hybridgpu as mx
from hybridgpu import autograd, gluon, nd
from hybridgpu.base import MXNetError
from hybridgpu.gluon import nn

pytestmark = [pytest.mark.usefixtures("compiler"), pytest.mark.as_shipped]

SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3e38, -3e38, 1e-20, 1 + 2**-23, 1e20]
LENGTHS = [1, 2, 7, 15, 16, 17, 31, 33, 63, 100, 257, 1001]
examples = settings(max_examples=15, deadline=None)


def block(function, **flags):
    """A hybridized block of a function of F and its arguments."""
    net = nn.HybridLambda(function)
    net.hybridize(**flags)
    return net


def same_bits(a, b):
    """Equal to the last bit, signs of zeros included; any NaN is like any other."""
    a, b = (x.asnumpy() if isinstance(x, nd.NDArray) else x for x in (a, b))
    assert a.shape == b.shape and a.dtype == b.dtype
    unsigned = f"u{a.dtype.itemsize}"
    differ = (a.view(unsigned) != b.view(unsigned)) & ~(np.isnan(a) & np.isnan(b))
    assert not differ.any(), f"{differ.sum()} of {a.size} differ, such as {a[differ][0]!r} and {b[differ][0]!r}"


def numbers(seed, shape, dtype="float32", special=False):
    """Random numbers of many sizes; with special values among them."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=shape) * 2.0 ** rng.integers(-4, 5, shape)
    if special:
        where = rng.random(shape) < 0.3
        values = np.where(where, rng.choice(SPECIAL, shape), values)
    return nd.array(values.astype(dtype), dtype=dtype)


# -- strict: arithmetic is that of arrays, operation by operation

SCALARS = st.sampled_from([0.3, 1.7, -2.5, 3.0])
EXPRESSIONS = st.recursive(
    st.sampled_from("xyz"),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from("+-*/"), inner, inner),
        st.tuples(st.sampled_from("+-*/"), inner, SCALARS),
        st.tuples(st.sampled_from("+-*/"), SCALARS, inner),
        st.tuples(st.sampled_from(["sqrt", "square", "negative", "abs"]), inner),
    ),
    max_leaves=8,
)


def evaluate(F, e, env):
    """A nested tuple as F computes it."""
    if not isinstance(e, tuple):
        return env.get(e, e)
    a, *b = (evaluate(F, part, env) for part in e[1:])
    if e[0] in "+-*/":
        (b,) = b
        return {"+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "/": lambda: a / b}[e[0]]()
    return getattr(F, e[0])(a)


@settings(max_examples=40, deadline=None)
@given(EXPRESSIONS, st.sampled_from(LENGTHS), st.integers(0, 1000), st.sampled_from(["float32", "float64"]))
def test_arithmetic_is_eager_arithmetic_to_the_last_bit(expression, length, seed, dtype):
    expression = ("+", ("*", "x", "y"), ("-", expression, ("*", "z", "z")))  # products that could be contracted

    def function(F, x, y, z):
        return evaluate(F, expression, {"x": x, "y": y, "z": z})

    given = [numbers(seed + k, length, dtype, special=True) for k in range(3)]
    with np.errstate(all="ignore"):
        same_bits(block(function)(*given), function(nd, *given))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "function",
    [
        lambda F, x, y: x * y + x,
        lambda F, x, y: x - x * y,
        lambda F, x, y: F.broadcast_mul(x, F.slice_axis(y, axis=0, begin=1, end=2)) * x + y,
        lambda F, x, y: F.sqrt(F.abs(x * x - y * y)) / (x * 3 + 0.1),
        lambda F, x, y: F.maximum(x * y - 1, y * 0.1) - F.clip(x * 2 + y, -1, 1) * y,
    ],
)
def test_products_are_rounded(function, dtype):
    x, y = (numbers(k, 1003, dtype, special=True) for k in (1, 2))
    with np.errstate(all="ignore"):
        same_bits(block(function)(x, y), function(nd, x, y))


def test_products_are_rounded_on_a_gpu(cuda_driver):
    x, y = (numbers(k, 77, special=True) for k in (1, 2))
    net = block(lambda F, x, y: x * y + x - y / (x * 3 + 0.1))
    with np.errstate(all="ignore"):
        same_bits(net(x.as_in_context(mx.gpu(0)), y.as_in_context(mx.gpu(0))), net(x, y))


# -- strict: a row's result does not depend on where it is, or on how many there are


def check_rows(net, x, seed):
    """Each row alone, in another place, and among fewer gives the same bits."""
    rng = np.random.default_rng(seed)
    whole, data, count = net(x).asnumpy(), x.asnumpy(), x.shape[0]
    for _ in range(3):
        chosen = rng.permutation(count)[: rng.integers(1, count + 1)]
        same_bits(net(nd.array(data[chosen], dtype=data.dtype)), whole[chosen])
    same_bits(net(x), whole)


@examples
@given(st.integers(1, 40), st.sampled_from(LENGTHS), st.integers(0, 1000), st.sampled_from(["softmax", "log_softmax"]))
def test_softmax_by_rows(rows, length, seed, name):
    check_rows(block(lambda F, x: getattr(F, name)(x, axis=-1)), numbers(seed, (rows, length)), seed)


@examples
@given(st.integers(1, 40), st.sampled_from(LENGTHS), st.integers(0, 1000))
def test_layer_norm_by_rows(rows, length, seed):
    net = nn.HybridSequential()
    net.add(nn.LayerNorm(in_channels=length), nn.GELU())
    net.initialize()
    net.hybridize()
    check_rows(net, numbers(seed, (rows, length)), seed)


@examples
@given(
    st.integers(1, 40), st.sampled_from([1, 3, 16, 33, 100, 300]), st.sampled_from([1, 7, 16, 50]), st.integers(0, 1000)
)
def test_dense_by_rows(rows, inputs, units, seed):
    net = nn.Dense(units, in_units=inputs, activation="tanh")
    net.initialize()
    net.hybridize()
    check_rows(net, numbers(seed, (rows, inputs)), seed)


@settings(max_examples=12, deadline=None)
@given(
    st.integers(1, 9),
    st.sampled_from([(1, 5), (3, 8), (8, 20)]),
    st.sampled_from([(1, 1), (3, 1), (3, 2)]),
    st.sampled_from([(7, 9), (16, 16), (5, 33)]),
    st.integers(0, 1000),
)
def test_convolution_by_samples(samples, channels, window, size, seed):
    net = nn.Conv2D(channels[1], window[0], strides=window[1], padding=window[0] // 2, in_channels=channels[0])
    net.initialize()
    net.hybridize()
    check_rows(net, numbers(seed, (samples, channels[0], *size)), seed)


def functions(F, x):
    """A chain with every kind of function in it."""
    y = F.tanh(1.1 * x + 0.2) * F.sigmoid(x) + F.erf(x) - F.exp(-F.square(x))
    return y * F.sqrt(F.abs(x)) + F.log(F.abs(x) + 0.3) / (F.expm1(x * 0.1) + 2) + F.sin(x) * F.cbrt(x)


@examples
@given(st.sampled_from(LENGTHS), st.integers(0, 1000), st.sampled_from(["float16", "float32", "float64"]))
def test_chains_by_elements(length, seed, dtype):
    """Vectors, their tails and single elements compute alike."""
    net, x = block(functions), numbers(seed, length, dtype)
    check_rows(net, x, seed)
    start = seed % length
    same_bits(net(x[start:]), net(x)[start:])


@pytest.mark.parametrize("name", ["softmax", "dense", "chain"])
def test_rows_on_a_gpu(name, cuda_driver):
    gpu = mx.gpu(0)
    net = {"softmax": lambda: block(lambda F, x: F.softmax(x)), "chain": lambda: block(functions)}.get(name)
    net = net() if net else nn.Dense(5, in_units=37)
    if name == "dense":
        net.initialize(ctx=gpu)
        net.hybridize()
    data = numbers(4, (11, 37)).asnumpy()
    whole = net(nd.array(data, ctx=gpu)).asnumpy()
    for chosen in ([3], [10, 0, 7]):
        same_bits(net(nd.array(data[chosen], ctx=gpu)).asnumpy(), whole[chosen])


@pytest.mark.parametrize("length", [5, 16, 65, 600])
@pytest.mark.parametrize("inner", [2, 3, 16])
def test_inner_axes_on_a_gpu(length, inner, cuda_driver):
    """However many rows there are, as many threads share one."""
    net = block(lambda F, x: F.broadcast_sub(x, F.log(F.sum(F.exp(x), axis=1, keepdims=True))))
    data = nd.array(numbers(5, (70, length, inner)).asnumpy(), ctx=mx.gpu(0))
    first = net(data)[0].asnumpy()
    for count in (1, 3, 17):
        same_bits(net(data[:count])[0].asnumpy(), first)


# -- fast


def chain(F, x):
    return F.tanh(1.1 * x + 0.2) * F.sigmoid(x) + 0.5 * F.relu(x - 0.3) - F.exp(-F.square(x)) + F.log(F.square(x) + 1)


def test_fast_is_near_and_other():
    x = numbers(5, 10001)
    strict, fast = (block(chain, numeric=mode)(x).asnumpy() for mode in ("strict", "fast"))
    assert not np.array_equal(strict, fast)
    np.testing.assert_allclose(fast, strict, rtol=2**-16, atol=2**-16)


def test_fast_on_a_gpu(cuda_driver):
    x = numbers(5, 101).as_in_context(mx.gpu(0))
    strict, fast = (block(chain, numeric=mode) for mode in ("strict", "fast"))
    first, second = strict(x).asnumpy(), fast(x).asnumpy()
    assert not np.array_equal(first, second)
    np.testing.assert_allclose(second, first, rtol=2**-16, atol=2**-16)
    names = [net.explain(x).kernels[0].name for net in (strict, fast)]
    assert names[0] != names[1] and set(names) <= set(cuda_driver.sources)
    same_bits(strict(x).asnumpy(), first)


def test_who_is_asked(monkeypatch):
    """The flag, or else the environment at hybridize's first call; strict without either."""
    x = numbers(6, 500)
    strict = block(chain)(x).asnumpy()
    fast = block(chain, numeric="fast")(x).asnumpy()
    monkeypatch.setenv("HYBRIDGPU_NUMERIC", "fast")
    late = block(chain)
    same_bits(late(x), fast)
    same_bits(block(chain, numeric="strict")(x), strict)
    monkeypatch.delenv("HYBRIDGPU_NUMERIC")
    same_bits(late(x), fast)
    late.hybridize()
    same_bits(late(x), strict)
    late.hybridize(numeric="fast", clear=False)  # what was traced stays
    same_bits(late(x), fast)


@pytest.mark.parametrize("word", ["quick", "", "Strict", 1, True])
def test_wrong_words(word, monkeypatch):
    with pytest.raises(MXNetError, match="valid values are: {'fast', 'strict'}, in numeric"):
        block(chain, numeric=word)
    with pytest.raises(MXNetError, match="valid values are: {'fast', 'strict'}, in numeric"):
        nd.CachedOp(mx.sym.exp(mx.sym.var("x")), {"numeric": word})
    if word and isinstance(word, str):
        monkeypatch.setenv("HYBRIDGPU_NUMERIC", word)
        with pytest.raises(MXNetError, match="in HYBRIDGPU_NUMERIC"):
            block(chain)(numbers(0, 3))


def test_children_take_the_flag():
    net = nn.HybridSequential()
    net.add(nn.HybridLambda(chain))
    outer = nn.Sequential()
    outer.add(net, nn.Flatten())
    with pytest.warns(UserWarning, match="All children of this Sequential"):
        outer.hybridize(numeric="fast")
    x = numbers(7, (5, 40))
    same_bits(outer(x), block(chain, numeric="fast")(x))


def test_training_takes_the_flag():
    def run(**flags):
        x = numbers(8, 700)
        x.attach_grad()
        net = block(chain, **flags)
        with autograd.record():
            y = net(x)
        y.backward()
        return y.asnumpy(), x.grad.asnumpy()

    before = len(mx.compile_report().events)
    (y, g), (fast_y, fast_g) = run(), run(numeric="fast")
    assert not np.array_equal(y, fast_y) and not np.array_equal(g, fast_g)
    np.testing.assert_allclose(fast_g, g, rtol=2**-15, atol=2**-15)
    events = mx.compile_report().events[before:]
    assert {e.numeric for e in events if e.name.endswith("_backward")} == {"strict", "fast"}


def test_reports():
    x = numbers(9, 12)
    net = block(lambda F, x: F.exp(x) * 7.25, numeric="fast")
    text = net.explain(x)
    assert text.numeric == "fast" and "on cpu, numeric mode fast: 1 kernel," in str(text)
    assert mx.compile_report().events[-1].numeric == "fast" and "  fast  first call" in str(mx.compile_report())
    net.hybridize()
    text = net.explain(x)
    assert text.numeric == "strict" and "numeric mode" not in str(text)


def test_graphs_in_stages():
    """What a graph does between its programs changes nothing."""
    net = block(lambda F, x: F.exp(F.contrib.boolean_mask(chain(F, x), F.ones_like(x))), numeric="fast")
    x = numbers(10, 50)
    report = net.explain(x)
    assert report.numeric == "fast" and report.parts[0].numeric == report.parts[-1].numeric == "fast"


def test_symbol_blocks_executors_and_cached_ops(monkeypatch):
    x = numbers(11, 300)
    strict, fast = (block(chain, numeric=mode)(x) for mode in ("strict", "fast"))
    symbol = chain(mx.sym, mx.sym.var("x"))
    imported = gluon.SymbolBlock(symbol, mx.sym.var("x"))
    same_bits(imported(x), strict)
    imported.hybridize(numeric="fast")
    same_bits(imported(x), fast)
    same_bits(nd.CachedOp(symbol)(x), strict)
    same_bits(nd.CachedOp(symbol, [("numeric", "fast")])(x), fast)
    monkeypatch.setattr("hybridgpu.executor.executor._COMPILE_AFTER", 0)
    bound = symbol.bind(mx.cpu(), {"x": x})
    monkeypatch.setenv("HYBRIDGPU_NUMERIC", "fast")
    bound_fast = symbol.bind(mx.cpu(), {"x": x})
    for _ in range(2):
        same_bits(bound.forward()[0], strict)
        same_bits(bound_fast.forward()[0], fast)


PROCESS = """
import numpy as np, hybridgpu as mx
from hybridgpu.gluon import nn
x = mx.nd.array(np.linspace(-3, 3, 100, dtype="float32"))
for mode in ("strict", "fast", "strict"):
    net = nn.HybridLambda(lambda F, x: F.exp(x) * x + F.tanh(x))
    net.hybridize(numeric=mode)
    print(net(x).asnumpy().tobytes().hex())
print([(e.numeric, e.cache, e.compiled_modules) for e in mx.compile_report().events[:2]])
"""


def test_the_store_keeps_them_apart(tmp_path):
    env = {**os.environ, "HYBRIDGPU_CACHE_DIR": str(tmp_path / "cache")}

    def run():
        done = subprocess.run([sys.executable, "-c", PROCESS], env=env, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    cold, warm = run(), run()
    assert cold[0] == cold[2] != cold[1] and warm[:3] == cold[:3]
    assert cold[3] == "[('strict', 'none', 1), ('fast', 'none', 1)]"
    assert warm[3] == "[('strict', 'disk', 0), ('fast', 'disk', 0)]"
