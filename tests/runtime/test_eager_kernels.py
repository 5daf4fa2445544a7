# SPDX-License-Identifier: Apache-2.0
"""Compiled eager operators: what NumPy computes, chosen by types alone, and the same bits whenever it is asked."""

import os
import subprocess
import sys

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import autograd, nd
from hybridgpu.compiler.interpreter_cost import KernelKind, kernel_kind
from hybridgpu.compiler.passes.canonicalize.simplify import simplify
from hybridgpu.ndarray import apply as eager
from hybridgpu.ndarray import backward_pass
from hybridgpu.ndarray.interpreted import InterpretedGraph
from hybridgpu.ndarray.late_bindings import late
from hybridgpu.ops import OPERATORS
from hybridgpu.runtime.eager_kernels import EagerKernel

pytestmark = pytest.mark.usefixtures("compiler")

RANDOM = np.random.RandomState(5)


def values(*shape):
    return RANDOM.standard_normal(shape).astype("f")


X, G, PLANES, C = values(512, 320), values(320), values(8, 8, 48, 48), values(8)
#: name -> (call, arrays)
CALLS = {
    "softmax": (lambda x: nd.softmax(x), [X]),
    "log_softmax": (lambda x: nd.log_softmax(x, axis=0), [X]),
    "LayerNorm": (lambda x, g, b: nd.LayerNorm(x, g, b), [X, G, G]),
    "gelu": (lambda x: nd.LeakyReLU(x, act_type="gelu"), [X]),
    "BatchNorm": (
        lambda x, g, b, m, v: nd.BatchNorm(x, g, b, m, v, fix_gamma=False),
        [PLANES, C, C, np.zeros_like(C), np.ones_like(C)],
    ),
    "max-pool": (lambda x: nd.Pooling(x, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="max"), [PLANES]),
    "Convolution": (
        lambda x, w, b: nd.Convolution(x, w, b, kernel=(3, 3), pad=(1, 1), num_filter=8),
        [PLANES, values(8, 8, 3, 3), C],
    ),
    "np.var": (lambda x: mx.np.var(x.as_np_ndarray(), axis=1).as_nd_ndarray(), [X]),
}
#: what only moves or selects, or rounds once: NumPy's bits
EXACT = ("max-pool",)


BEYOND = np.full(2000, 300, "f")
#: calls with positions out of range, of arrays that are large enough for kernels
OUT_OF_RANGE = {
    "take": lambda x, at: nd.take(x, at, mode="raise"),
    "np.take": lambda x, at: mx.np.take(x.as_np_ndarray(), at.as_np_ndarray().astype("int32"), axis=1, mode="raise"),
    "gather_nd": lambda x, at: nd.gather_nd(x, at.reshape((1, -1))),
    "scatter_nd": lambda x, at: nd.scatter_nd(nd.ones((2000, 40)), at.reshape((1, -1)), shape=(300, 40)),
}


@pytest.fixture(autouse=True)
def _anew():
    eager.forget_graphs()
    yield
    eager.forget_graphs()


def computed(call, arrays, kernels, monkeypatch):
    """(results, gradients, classes of what computed) of three calls."""
    eager.forget_graphs()
    monkeypatch.setenv("HYBRIDGPU_EAGER_KERNELS", kernels)
    results, gradients = [], []
    for _ in range(3):
        given = [nd.array(a) for a in arrays]
        for x in given:
            x.attach_grad()
        results.append(call(*given).asnumpy())
        with autograd.record():
            y = call(*given)
        y.backward(nd.array(np.cos(np.arange(y.size)).reshape(y.shape)))
        results.append(y.asnumpy()) if call is not CALLS["BatchNorm"][0] else None  # which is another in training
        gradients.append([x.grad.asnumpy() for x in given])
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])
    for row in gradients[1:]:
        for g, h in zip(row, gradients[0], strict=True):
            np.testing.assert_array_equal(g, h)
    return results[0], gradients[0], {type(r) for f in eager._functions.values() for r in f._runs.values()}


@pytest.mark.parametrize("name", CALLS)
def test_kernels_compute_what_numpy_does(name, monkeypatch):
    call, arrays = CALLS[name]
    result, gradients, ran = computed(call, arrays, "auto", monkeypatch)
    expected, wanted, interpreted = computed(call, arrays, "never", monkeypatch)
    assert EagerKernel in ran
    assert interpreted == {InterpretedGraph}
    np.testing.assert_allclose(result, expected, rtol=2e-5, atol=1e-5)
    if name in EXACT:
        np.testing.assert_array_equal(result, expected)
    for g, w in zip(gradients, wanted, strict=True):
        np.testing.assert_allclose(g, w, rtol=3e-4, atol=3e-5)


@pytest.mark.parametrize("kernels", ["never", "auto", "always"])
@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_errors_of_values(name, kernels, monkeypatch):
    monkeypatch.setenv("HYBRIDGPU_EAGER_KERNELS", kernels)
    call, x, at = OUT_OF_RANGE[name], nd.ones((300, 300)), nd.array(BEYOND)
    for _ in range(2):
        with pytest.raises((mx.MXNetError, IndexError), match="out of bound"):
            call(x, at)
        assert call(x, at - 1).shape


def test_memory_of_results_is_no_memory_of_parameters(monkeypatch):
    monkeypatch.setenv("HYBRIDGPU_EAGER_KERNELS", "always")
    parameter = mx.gluon.Parameter("w", shape=(200, 200))
    parameter.initialize(init="ones")
    parameter.cast("float64")
    parameter.set_data(5 * nd.ones((200, 200)))  # other memory takes the place of that of the cast
    x = nd.array(values(200, 200))
    x.attach_grad()
    for _ in range(4):
        with autograd.record():
            y = nd.cast(x, "float64")  # whose result may lie where the parameter did
            z = y * y
        z.backward()
        np.testing.assert_allclose(x.grad.asnumpy(), 2 * x.asnumpy(), rtol=1e-6)


NONE, ONE_SIZE, ANY_SIZE = KernelKind


def kind_of(operator, *shapes, **attributes):
    op = OPERATORS[operator]
    types = [nd.zeros(s)._type.tensor for s in shapes]
    return kernel_kind(simplify(eager.operator_graph(op, op.parse(attributes), types, False)[0]), "cpu")


@pytest.mark.parametrize(
    ("operator", "shapes", "attributes", "kind"),
    [
        ("softmax", [(50, 10)], {}, NONE),
        ("softmax", [(64, 10)], {}, ANY_SIZE),
        ("softmax", [(512, 1000)], {}, ONE_SIZE),
        ("LayerNorm", [(16, 64), (64,), (64,)], {}, ANY_SIZE),
        ("LayerNorm", [(512, 512), (512,), (512,)], {}, ONE_SIZE),
        ("broadcast_add", [(1000, 1000), (1000, 1000)], {}, NONE),
        ("relu", [(100, 100)], {}, NONE),
        ("exp", [(1000, 1000)], {}, ONE_SIZE),
        ("transpose", [(1000, 1000)], {}, ONE_SIZE),
        ("transpose", [(20, 30)], {}, NONE),
        ("relu", [(1000, 1000)], {}, ANY_SIZE),
        ("relu", [(4000, 1000)], {}, ANY_SIZE),
        ("round", [(1000, 1000)], {}, ANY_SIZE),
        ("negative", [(1000, 1000)], {}, NONE),
        ("Cast", [(1000, 1000)], {"dtype": "float16"}, ANY_SIZE),
        ("Cast", [(1000, 1000)], {"dtype": "float64"}, NONE),
        ("FullyConnected", [(16, 2048), (2048, 2048)], {"num_hidden": 2048, "no_bias": True}, ONE_SIZE),
        ("FullyConnected", [(16, 512), (256, 512)], {"num_hidden": 256, "no_bias": True}, NONE),
        ("FullyConnected", [(512, 512), (256, 512)], {"num_hidden": 256, "no_bias": True}, NONE),
    ],
)
def test_types_decide(operator, shapes, attributes, kind):
    assert kind_of(operator, *shapes, **attributes) is kind


@pytest.mark.parametrize(
    ("function", "dtype", "value"),
    [
        (lambda x: x.astype("float16"), "float64", 1 + 2**-11 + 2**-40),  # rounded once
        (lambda x: nd.relu(x), "float16", -0.0),
        (lambda x: nd.maximum(x, 0), "float16", -0.0),
        (lambda x: nd.minimum(x, 0), "float16", -0.0),
        (lambda x: nd.relu(x), "float32", -0.0),
        (lambda x: nd.maximum(x, 0), "float32", -0.0),
        (lambda x: nd.maximum(x, 0), "float32", np.nan),
    ],
)
def test_bits_do_not_depend_on_the_size(function, dtype, value):
    few, many = (function(nd.array(np.full(n, value), dtype=dtype)).asnumpy() for n in (100, 200_000))
    assert few[:1].tobytes() == many[-1:].tobytes()


SMALL = {
    "softmax": lambda x: nd.softmax(x),
    "L2Normalization": lambda x: nd.L2Normalization(x),
    "gelu": lambda x: nd.LeakyReLU(x, act_type="gelu"),
    "LayerNorm": lambda x: nd.LayerNorm(x, nd.ones(x.shape[1]), nd.ones(x.shape[1])),
    "np.var": lambda x: mx.np.var(x.as_np_ndarray(), axis=1).as_nd_ndarray(),
}


@pytest.mark.parametrize("name", SMALL)
def test_sizes_of_a_bucket_share_kernels(name, monkeypatch):
    """An operator on small arrays waits for a compiler once, whatever sizes come later; results are NumPy's."""

    def computed(given):
        x = nd.array(given)
        x.attach_grad()
        with autograd.record():
            y = SMALL[name](x)
        y.backward(nd.array(np.cos(np.arange(y.size)).reshape(y.shape)))
        return y.asnumpy(), x.grad.asnumpy()

    sizes = [(20, 30), (21, 31), (29, 23), (27, 40), (40, 27), (26, 26)]
    compiled = []
    for size in sizes:
        given = values(*size)
        before = mx.compile_report().compiled_modules
        result, gradient = computed(given)
        compiled.append(mx.compile_report().compiled_modules - before)
        eager.forget_graphs()
        monkeypatch.setenv("HYBRIDGPU_EAGER_KERNELS", "never")
        expected, wanted = computed(given)
        monkeypatch.setenv("HYBRIDGPU_EAGER_KERNELS", "auto")
        eager.forget_graphs()
        np.testing.assert_allclose(result, expected, rtol=2e-5, atol=2e-5)
        np.testing.assert_allclose(gradient, wanted, rtol=3e-4, atol=1e-4)
    assert sum(compiled[1:5]) == 0, compiled  # a square is another graph: its extents are one dimension


@pytest.mark.parametrize("rows", [64, 65, 512, 513])
@pytest.mark.parametrize("name", ["mean", "var", "std"])
def test_counts_that_are_powers_of_two(name, rows):
    """Their inverses are exact, so that a division by one becomes a product."""
    x, ddof = values(rows, 64), {"ddof": 1} if name != "mean" else {}
    got = getattr(mx.np, name)(mx.np.array(x), axis=0, **ddof).asnumpy()
    np.testing.assert_allclose(got, getattr(np, name)(x.astype("float64"), axis=0, **ddof), rtol=2e-5, atol=2e-5)


def test_tiny_arrays_wait_for_no_compiler():
    before = len(mx.compile_report().events)
    for rows in range(1, 12):
        for call in SMALL.values():
            call(nd.ones((rows, 40)))
    assert len(mx.compile_report().events) == before


def test_a_first_backward_pass_compiles_all_at_once(monkeypatch):
    def gradients(together):
        eager.forget_graphs()
        x, w = nd.array(PLANES), nd.array(values_of_w)
        asked = []
        with monkeypatch.context() as patch:
            make = late.eager_kernels
            patch.setattr(
                late, "eager_kernels", lambda graphs, device: asked.append(len(graphs)) or make(graphs, device)
            )
            if not together:
                patch.setattr(backward_pass, "_prepare", lambda sweep, wanted: None)
            for a in (x, w):
                a.attach_grad()
            with autograd.record():
                y = nd.Convolution(x, w, kernel=(3, 3), pad=(1, 1), num_filter=8, no_bias=True)
                y = nd.Pooling(nd.LeakyReLU(y, act_type="gelu"), kernel=(2, 2), stride=(2, 2), pool_type="max")
                y = nd.softmax(y)
            del asked[:]
            y.backward(nd.array(np.cos(np.arange(y.size)).reshape(y.shape)))
        return asked, [a.grad.asnumpy() for a in (x, w)]

    values_of_w = values(8, 8, 3, 3)
    one_by_one, expected = gradients(together=False)
    asked, found = gradients(together=True)
    assert len(one_by_one) > 2
    assert asked == [len(one_by_one)]
    for g, e in zip(found, expected, strict=True):
        np.testing.assert_array_equal(g, e)


def test_results_do_not_depend_on_the_cache(tmp_path):
    program = (
        "import numpy as np, hashlib, hybridgpu as mx\n"
        "x = mx.nd.array(np.random.RandomState(0).standard_normal((500, 333)))\n"
        "print(hashlib.sha256(b''.join(mx.nd.softmax(x).asnumpy().tobytes() for _ in range(5))).hexdigest())\n"
        "print(mx.compile_report().compiled_modules, [e.cache for e in mx.compile_report().events])\n"
    )
    env = {**os.environ, "HYBRIDGPU_CACHE_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    cold, warm = (
        subprocess.run(
            [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True
        ).stdout.split("\n")
        for _ in range(2)
    )
    assert cold[0] == warm[0]
    assert cold[1] == "1 ['none']"
    assert warm[1] == "0 ['disk']"


def test_results_belong_to_the_caller():
    x = nd.array(X)
    kept = [nd.softmax(x * k) for k in range(1, 8)]
    copies = [y.asnumpy() for y in kept]
    for k in range(20):
        nd.softmax(x + k)
    for y, values in zip(kept, copies, strict=True):
        np.testing.assert_array_equal(y.asnumpy(), values)


def test_large_results_share_memory():
    from hybridgpu.runtime.dispatch import pools

    x = nd.array(values(1 << 9, 1 << 10))
    first = nd.softmax(x)
    memory = first._data.base
    held = nd.softmax(x)
    assert held._data.base is not memory
    view = held[3:5]
    before, address = view.asnumpy(), memory.__array_interface__["data"][0]
    del first, memory, held
    made = [nd.sigmoid(x), nd.softmax(x)]
    assert address in [y._data.base.__array_interface__["data"][0] for y in made]
    np.testing.assert_array_equal(view.asnumpy(), before)
    assert pools._shared._nbytes <= pools._most_shared()


def test_views_and_parameters_are_operands():
    from hybridgpu.gluon import Parameter

    p = Parameter("w", shape=(512, 320))
    p.initialize(mx.init.Normal(1))
    y = nd.array(values(513, 320))[1:]  # at an address of its own
    for k in range(4):
        np.testing.assert_array_equal(nd.softmax(y).asnumpy(), nd.softmax(y.copy()).asnumpy())
        np.testing.assert_array_equal(nd.softmax(p.data()).asnumpy(), nd.softmax(p.data().copy()).asnumpy())
        p.set_data(nd.array(X * k))


def test_random_numbers_are_those_of_numpy(monkeypatch):
    found = []
    for kernels in ("auto", "never"):
        monkeypatch.setenv("HYBRIDGPU_EAGER_KERNELS", kernels)
        eager.forget_graphs()
        mx.random.seed(3)
        with autograd.train_mode():
            found.append([nd.Dropout(nd.array(X), p=0.5).asnumpy() for _ in range(2)])
    np.testing.assert_array_equal(*found)


def test_a_word_that_is_none(monkeypatch):
    monkeypatch.setenv("HYBRIDGPU_EAGER_KERNELS", "sometimes")
    with pytest.raises(mx.MXNetError, match="HYBRIDGPU_EAGER_KERNELS"):
        nd.softmax(nd.array(X))


def test_a_composite_on_a_gpu_is_one_kernel(cuda_driver):
    x = nd.array(X, ctx=mx.gpu(0))
    x.attach_grad()
    before = len(mx.compile_report().events)
    for _ in range(2):
        with autograd.record():
            y = nd.softmax(x)
        y.backward(nd.array(X, ctx=mx.gpu(0)))
    made = mx.compile_report().events[before:]
    assert [(e.target, e.kernels) for e in made] == [("cuda", 1)] * 2
    exact = np.exp(X - X.max(1, keepdims=True))
    exact /= exact.sum(1, keepdims=True)
    np.testing.assert_allclose(y.asnumpy(), exact, 1e-5, 1e-7)
    np.testing.assert_allclose(x.grad.asnumpy(), exact * (X - (X * exact).sum(1, keepdims=True)), 1e-4, 1e-6)
