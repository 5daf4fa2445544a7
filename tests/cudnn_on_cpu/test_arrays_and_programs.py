# SPDX-License-Identifier: Apache-2.0
"""Arrays and compiled programs on the emulated GPU reach cuDNN by one way; ``explain`` says what computes what."""

from __future__ import annotations

import numpy as np
import pytest
from compiler.cases import parse
from cudnn_on_cpu.support import Fake
from emulated import aligned, install, uninstall

import hybridgpu as mx
from hybridgpu import autograd, nd
from hybridgpu.backends.devices import device_of
from hybridgpu.compiler import select
from hybridgpu.compiler.ir import tensor_type
from hybridgpu.compiler.passes.differentiate import differentiate
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.program import LibraryStep
from hybridgpu.compiler.reference import evaluate
from hybridgpu.compiler.target import CUDA
from hybridgpu.core.dtypes import f32, from_short
from hybridgpu.gluon import nn
from hybridgpu.ndarray.apply import forget_graphs


def behind_gpu(find):
    """An emulated device that finds cuDNN by ``find``, behind mx.gpu(0)."""
    install(find=find)
    return device_of(mx.gpu(0))


@pytest.fixture
def fake(tmp_path, monkeypatch):
    monkeypatch.setenv("HYBRIDGPU_TF32", "0")  # rounding is tests/cublaslt_on_cpu/test_tf32.py's subject
    made = Fake(tmp_path)
    behind_gpu(made.find)
    yield made
    uninstall()


@pytest.fixture
def without():
    yield behind_gpu(lambda cuda: f"cuDNN is not installed: pip install nvidia-cudnn-cu{cuda}")
    uninstall()


rng = np.random.default_rng(5)
X = rng.normal(size=(2, 4, 9, 9)).astype(np.float32)
LAYERS = {
    "Convolution": (
        lambda F, x, w, b: F.Convolution(x, w, b, kernel=(3, 3), num_filter=6, pad=(1, 1)),
        [(6, 4, 3, 3), (6,)],
        # the gradient of the operand is a convolution without strides
        {"Forward": 2, "BackwardFilter": 1},
    ),
    "strides": (
        lambda F, x, w, b: F.Convolution(x, w, b, kernel=(3, 3), num_filter=6, stride=(2, 2), num_group=2),
        [(6, 2, 3, 3), (6,)],
        {"Forward": 1, "BackwardData": 1, "BackwardFilter": 1},
    ),
    "Deconvolution": (
        lambda F, x, w, b: F.Deconvolution(x, w, b, kernel=(4, 4), num_filter=6, stride=(2, 2), pad=(1, 1), no_bias=False),
        [(4, 6, 4, 4), (6,)],
        {"BackwardData": 1, "Forward": 1, "BackwardFilter": 1},
    ),
    "bfloat16": (
        lambda F, x, w, b: F.cast(
            F.Convolution(*(F.cast(a, "bfloat16") for a in (x, w, b)), kernel=(3, 3), num_filter=6), "float32"
        ),
        [(6, 4, 3, 3), (6,)],
        {"Forward": 2, "BackwardFilter": 1},
    ),
}  # fmt: skip


def gradients(ctx, function, arrays):
    arrays = [nd.array(a, ctx=ctx) for a in arrays]
    for a in arrays:
        a.attach_grad()
    with autograd.record():
        y = function(nd, *arrays)
        loss = (y * y).sum()
    loss.backward()
    return [a.asnumpy() for a in (y, *(a.grad for a in arrays))]


@pytest.mark.parametrize("name", LAYERS)
def test_eager_calls_and_their_gradients(fake, name):
    function, shapes, runs = LAYERS[name]
    arrays = [X, *(rng.normal(size=s).astype(np.float32) for s in shapes)]
    for got, want in zip(gradients(mx.gpu(0), function, arrays), gradients(mx.cpu(), function, arrays), strict=True):
        scale = np.abs(want).max()
        np.testing.assert_allclose(got, want, rtol=0, atol=scale * (1e-2 if name == "bfloat16" else 2e-6))
    assert fake.runs == runs
    queries = {k: fake.count(f"cudnnGetConvolution{k}Algorithm_v7") for k in runs}
    gradients(mx.gpu(0), function, arrays)
    assert fake.runs == {k: 2 * n for k, n in runs.items()}
    assert queries == {k: fake.count(f"cudnnGetConvolution{k}Algorithm_v7") for k in runs}  # known since the first call


def test_eager_calls_without_cudnn(without, monkeypatch):
    monkeypatch.setenv("HYBRIDGPU_EAGER_KERNELS", "never")  # NumPy on both
    forget_graphs()
    function, shapes, _ = LAYERS["Convolution"]
    arrays = [X, *(rng.normal(size=s).astype(np.float32) for s in shapes)]
    for got, want in zip(gradients(mx.gpu(0), function, arrays), gradients(mx.cpu(), function, arrays), strict=True):
        np.testing.assert_array_equal(got, want)


def test_an_eager_failure_names_the_operator(fake):
    fake.plant("cudnnConvolutionForward", 5000)
    x, w = nd.array(X, ctx=mx.gpu(0)), nd.ones((6, 4, 3, 3), ctx=mx.gpu(0))
    with pytest.raises(mx.MXNetError, match="^Error in operator [Cc]onvolution.*: cudnnConvolutionForward of cuDNN"):
        nd.Convolution(x, w, kernel=(3, 3), num_filter=6, no_bias=True)


class Net(mx.gluon.HybridBlock):
    """A small convolution, and one too large for a direct kernel."""

    def __init__(self):
        super().__init__(prefix="net_")
        with self.name_scope():
            self.small = nn.Conv2D(512, 1, in_channels=3, use_bias=False, prefix="small_")
            self.large = nn.Conv2D(256, 3, padding=1, in_channels=512, activation="relu", prefix="large_")

    def hybrid_forward(self, F, x):
        return self.large(self.small(x))


def explained(ctx, numeric="strict"):
    net = Net()
    net.initialize(mx.init.Xavier(), ctx=[ctx, mx.cpu()])
    x = np.random.default_rng(3).normal(size=(1, 3, 4, 4)).astype(np.float32)
    want = net(nd.array(x)).asnumpy()
    net.hybridize(numeric=numeric)
    np.testing.assert_allclose(net(nd.array(x, ctx=ctx)).asnumpy(), want, rtol=0, atol=1e-6 * np.abs(want).max())
    return net.explain(nd.array(x, ctx=ctx))


def test_explain_with_cudnn(fake):
    report = explained(mx.gpu(0))
    assert fake.runs == {"Forward": 2}  # explain calls the net, too
    (call,) = report.library_calls
    assert (call.name, call.operator) == ("conv", "net_large_fwd")
    assert call.note == "cuDNN 9.12.3: forward, implicit GEMM with precomputed indices"
    (direct,) = (k for k in report.kernels if k.kind == "conv")
    assert direct.note == "direct kernel: 24,576 multiplications, at most 16,777,216"
    text = str(report)
    assert "multiplications, more than 16,777,216" in call.reason
    assert f"net_large_fwd [{call.note}; {call.reason}]" in text and f"net_small_fwd [{direct.note}]" in text


def test_explain_says_why_relu_is_a_kernel(fake):
    report = explained(mx.gpu(0))
    assert [str(c) for c in report.refusals if c.rule == "library" and c.producer == "net_large_fwd"] == [
        "net_large_fwd | net_large_relu_fwd: conv is a library call, which leaves its result in memory: "
        "cuDNN's relu makes 0 of NaN, and computes it in the numeric mode 'fast' alone"
    ]


def test_explain_in_fast_mode(fake):
    report = explained(mx.gpu(0), "fast")
    assert fake.runs == {"BiasActivationForward": 2}
    (call,) = report.library_calls
    note = "cuDNN 9.12.3: forward, implicit GEMM with precomputed indices, bias and relu in its call"
    assert (call.name, call.note) == ("conv_bias_act", note) and note in str(report)
    assert [k.kind for k in report.kernels] == ["conv"]  # the small one
    assert call.bytes_moved == 4 * (512 * 16 + 256 * 512 * 9 + 256 + 256 * 16)


def test_a_refusal_is_explained(fake):
    fake.plant("cudnnConvolutionBiasActivationForward", 3000)
    report = explained(mx.gpu(0), "fast")
    (call,) = report.library_calls
    assert call.note == (
        "cuDNN 9.12.3: forward, implicit GEMM with precomputed indices; "
        "bias and relu by the array module (cuDNN has no fused call for it)"
    )


class Residual(mx.gluon.HybridBlock):
    """Convolution, folded normalisation, an array, and perhaps relu."""

    def __init__(self, activation):
        super().__init__(prefix="net_")
        self.activation = activation
        with self.name_scope():
            self.conv = nn.Conv2D(4, 3, padding=1, in_channels=4)
            self.norm = nn.BatchNorm(in_channels=4)

    def hybrid_forward(self, F, x, r):
        y = self.norm(self.conv(x)) + r
        return F.Activation(y, act_type=self.activation) if self.activation else y


@pytest.mark.parametrize(
    ("activation", "numeric", "dtype", "calls", "kernels", "reason"),
    [
        (None, "strict", "float32", ["conv"], 1, "in the numeric mode 'fast' alone"),
        (None, "fast", "float32", ["conv_bias_act"], 0, ""),
        ("relu", "fast", "float32", ["conv_bias_act"], 0, ""),
        ("relu", "fast", "float64", ["conv_bias_act"], 0, ""),
        ("relu", "strict", "float32", ["conv"], 1, "in the numeric mode 'fast' alone"),
        ("sigmoid", "fast", "float32", ["conv"], 1, "the kernel of what else follows"),
        ("relu", "fast", "float16", ["conv"], 1, "halves be rounded twice"),
    ],
)
def test_a_residual_block_is_one_step(fake, monkeypatch, activation, numeric, dtype, calls, kernels, reason):
    monkeypatch.setattr(select, "_select_conv_of_gpu", lambda *of: select.Selection("library"))
    monkeypatch.setenv("HYBRIDGPU_CACHE", "0")
    net = Residual(activation)
    net.initialize(mx.init.Uniform(0.5), ctx=[mx.gpu(0), mx.cpu()])
    for name, p in net.collect_params().items():
        if "running" in name or "gamma" in name or "beta" in name:
            p.set_data(nd.array(rng.uniform(0.5, 2, p.shape)))
    r = rng.normal(size=X.shape).astype(np.float32)
    want = net(nd.array(X), nd.array(r)).asnumpy()
    net.cast(dtype)
    net.hybridize(numeric=numeric)
    arrays = [nd.array(a, ctx=mx.gpu(0), dtype=dtype) for a in (X, r)]
    limit = {"float32": 1e-5, "float64": 1e-5, "float16": 1e-2}[dtype] * np.abs(want).max()
    np.testing.assert_allclose(net(*arrays).asnumpy().astype(np.float32), want, rtol=0, atol=limit)
    report = net.explain(*arrays)
    assert ([c.name for c in report.library_calls], len(report.kernels)) == (calls, kernels)
    assert [reason in str(c) for c in report.refusals] == [True] * bool(reason)
    # the operand is added, too; and what is kept of the weight follows the normalisation's slope
    net.norm.gamma.set_data(2 * net.norm.gamma.data(mx.gpu(0)))
    got = net(arrays[0], arrays[0]).asnumpy().astype(np.float32)
    net.hybridize(active=False)
    want = net(arrays[0], arrays[0]).asnumpy()
    np.testing.assert_allclose(got, want.astype(np.float32), rtol=0, atol=limit * 3)


def convolved(b, x, w, groups=1, **given):
    rank = len(x.shape) - 2
    params = {"stride": 1, "low": 0, "high": 0, "dilate": 1, "base_dilate": 1, **given}
    return b.conv(x, w, groups=groups, **{k: (v,) * rank for k, v in params.items()})


def biased(b, y, c):
    return y + b.broadcast(b.reshape(c, (1, c.size, *(1,) * (len(y.shape) - 2))), y.shape)


TYPES = ("f32[2,3,5,6]", "f32[4,3,3,3]", "f32[4]", "f32[2,4,3,4]")
#: name -> (graph, input types, primitives of the library steps, of those in fast mode, words of why not in strict mode)
GRAPHS = {
    "bias": (lambda b, x, w, c: biased(b, convolved(b, x, w), c), TYPES[:3], ["conv_bias_act"], ["conv_bias_act"], ""),
    "bias, array": (
        lambda b, x, w, c, r: biased(b, convolved(b, x, w), c) + r, TYPES, ["conv_bias_act"], ["conv_bias_act"], "",
    ),
    "array, bias": (
        lambda b, x, w, c, r: biased(b, r + convolved(b, x, w), c), TYPES, ["conv_bias_act"], ["conv_bias_act"], "",
    ),
    "half": (
        lambda b, x, w, c, r: biased(b, convolved(b, x, w), c) + r,
        tuple(t.replace("f32", "f16") for t in TYPES), ["conv_bias_act"], ["conv_bias_act"], "",
    ),
    "bfloat16": (
        lambda b, x, w, c, r: b.max(biased(b, convolved(b, x, w), c) + r, 0.0),
        tuple(t.replace("f32", "bf16") for t in TYPES), ["conv"], ["conv_bias_act"], "0 of NaN",
    ),
    "one axis": (
        lambda b, x, w, c: biased(b, convolved(b, x, w), c), ("f32[2,3,9]", "f32[4,3,3]", "f32[4]"),
        ["conv_bias_act"], ["conv_bias_act"], "",
    ),
    "three axes": (
        lambda b, x, w, c: biased(b, convolved(b, x, w, low=1, high=1), c), ("f32[1,2,3,4,4]", "f32[2,2,2,3,3]", "f32[2]"),
        ["conv_bias_act"], ["conv_bias_act"], "",
    ),
    "groups": (
        lambda b, x, w, c: biased(b, convolved(b, x, w, 2), c), ("f32[2,4,5,6]", "f32[6,2,3,3]", "f32[6]"),
        ["conv_bias_act"], ["conv_bias_act"], "",
    ),
    "relu": (
        lambda b, x, w, c: b.max(biased(b, convolved(b, x, w), c), 0.0), TYPES[:3], ["conv"], ["conv_bias_act"], "0 of NaN",
    ),
    "other activation": (
        lambda b, x, w, c: b.tanh(biased(b, convolved(b, x, w), c)), TYPES[:3], ["conv"], ["conv"], "of what else follows",
    ),
    "another limit of some columns": (
        lambda b, x, w, c: b.max(
            biased(b, convolved(b, x, w), c), b.pad(b.full((2, 4, 3, 2), 0.0, x.dtype), low=(0,) * 4, high=(0, 0, 0, 2), value=0.5)
        ), TYPES[:3], ["conv"], ["conv"], "of what else follows",
    ),
    "no bias": (lambda b, x, w, r: convolved(b, x, w) + r, (*TYPES[:2], TYPES[3]), ["conv"], ["conv"], "wants a bias"),
    "array made by a kernel": (
        lambda b, x, w, c, r: biased(b, convolved(b, x, w), c) + b.exp(r), TYPES, ["conv"], ["conv"], "of what else follows",
    ),
    "array made by a library": (
        lambda b, x, w, c, v: biased(b, convolved(b, x, w), c) + convolved(b, x, v), (*TYPES[:3], TYPES[1]),
        ["conv", "conv_bias_act"], ["conv", "conv_bias_act"], None,
    ),
    "the operand": (
        lambda b, x, w, c: biased(b, convolved(b, x, w, low=1, high=1), c) + x,
        ("f32[2,3,5,6]", "f32[3,3,3,3]", "f32[3]"), ["conv"], ["conv"], "that is the operand, too",
    ),
    "transposed": (
        lambda b, x, w, c: biased(b, convolved(b, x, w, base_dilate=2, low=2, high=2), c), TYPES[:3],
        ["conv_backward_data"], ["conv_backward_data"], "",
    ),
    "read twice": (
        lambda b, x, w, c: [y := convolved(b, x, w), biased(b, y, c)], TYPES[:3], ["conv"], ["conv"], "wants a bias",
    ),
    "bias of columns": (
        lambda b, x, w, c: (y := convolved(b, x, w)) + b.broadcast(b.reshape(c, (1, 1, 1, 4)), y.shape), TYPES[:3],
        ["conv"], ["conv"], "wants a bias",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GRAPHS)
def test_what_joins(fake, monkeypatch, name):
    monkeypatch.setattr(select, "_select_conv_of_gpu", lambda *of: select.Selection("library"))
    function, types, *wanted, words = GRAPHS[name]
    b = builder()
    inputs = [b.input(parse(t), f"x{k}") for k, t in enumerate(types)]
    made = function(b, *inputs)
    graph = b.finish(list(made) if isinstance(made, list) else [made])
    arrays = []
    for node in graph.inputs:
        a = aligned(node.shape, node.dtype.np)
        a[...] = rng.normal(size=node.shape).astype(node.dtype.np)
        arrays.append(a)
    backend = device_of(mx.gpu(0)).backend()
    limit = 1e-5 if types[0].startswith("f32") else 3e-2
    exact = evaluate(graph, arrays, wide=True)
    for numeric, steps in zip(("strict", "fast"), wanted, strict=True):
        program = compile_graph(graph, backend.target.with_numeric(numeric))
        assert [s.primitive for s in program.steps if isinstance(s, LibraryStep)] == steps
        if words and numeric == "strict":
            assert [words in c[3] for c in program.refusals if c[2] == "library"] == [True]
        for refused in (0, 3000):
            fake.plant("cudnnConvolutionBiasActivationForward", refused)
            outputs = [aligned(shape, from_short(short).np) for shape, short in program.outputs]
            loaded = backend.load(program)
            loaded(arrays, outputs)
            for got, want in zip(outputs, exact, strict=True):
                np.testing.assert_allclose(got.astype(np.float64), want, rtol=limit, atol=limit)
            notes = [
                loaded.describe(s)
                for s in program.steps
                if isinstance(s, LibraryStep)
                if s.primitive == "conv_bias_act"
            ]
            assert all(("in its call" in n) is not bool(refused) for n in notes)


def test_programs_with_and_without_fused_calls_are_kept_apart(fake):
    key = device_of(mx.gpu(0)).backend().key()
    uninstall()
    assert key != behind_gpu(lambda cuda: "not here").backend().key()


def test_explain_without_cudnn(without):
    report = explained(mx.gpu(0))
    (call,) = report.library_calls
    assert call.note == "unfolding + cuBLAS (cuDNN is not installed: pip install nvidia-cudnn-cu12)"
    assert call.note in str(report)


def test_explain_on_the_cpu_has_nothing_to_choose(compiler):
    data = mx.sym.var("data")
    net = mx.gluon.SymbolBlock(mx.sym.sort(data), data)
    net.hybridize()
    report = net.explain(nd.ones((2, 3)))
    (call,) = report.library_calls
    assert call.note == "" and "[" not in str(report)


@pytest.mark.parametrize(
    ("params", "runs"),
    [
        ({}, {"Forward": 2, "BackwardFilter": 1}),
        ({"stride": (2, 2)}, {"Forward": 1, "BackwardData": 1, "BackwardFilter": 1}),
        ({"base_dilate": (2, 2), "low": (2, 2), "high": (2, 2)}, {"BackwardData": 1, "Forward": 1, "BackwardFilter": 1}),
    ],
    ids=["plain", "strides", "transposed"],
)  # fmt: skip
def test_compiled_gradients(fake, monkeypatch, params, runs):
    monkeypatch.setattr(
        select, "_select_conv_of_gpu", lambda *of: select.Selection("library")
    )  # small ones are not kernels, either
    ones, none = (1, 1), (0, 0)
    params = {"stride": ones, "low": none, "high": none, "dilate": ones, "base_dilate": ones, "groups": 1, **params}
    b = builder()
    x, w = (b.input(tensor_type(s, f32), n) for s, n in (((2, 2, 9, 9), "x"), ((3, 2, 3, 3), "w")))
    y = b.conv(x, w, **params)
    forward = b.finish([y])
    made = differentiate(forward, (), (True,), (True, True))
    inputs = [rng.normal(size=n.shape).astype(np.float32) for n in made.graph.inputs]
    backend = device_of(mx.gpu(0)).backend()
    for graph in (forward, made.graph):
        program = compile_graph(graph, CUDA)
        loaded = backend.load(program)
        arrays = inputs[: len(graph.inputs)] if graph is forward else inputs
        outputs = [np.full(shape, np.nan, np.float32) for shape, _ in program.outputs]
        loaded(arrays, outputs)
        for got, want in zip(outputs, evaluate(graph, arrays, wide=True), strict=True):
            np.testing.assert_allclose(got, want, rtol=0, atol=2e-6 * np.abs(want).max())
        notes = [loaded.describe(s) for s in program.steps if isinstance(s, LibraryStep)]
        assert notes and all(n.startswith("cuDNN 9.12.3: ") for n in notes)
    assert fake.runs == runs


def test_convolutions_in_a_loop(fake, monkeypatch):
    """The body of a loop is a program, too."""
    monkeypatch.setattr(select, "_select_conv_of_gpu", lambda *of: select.Selection("library"))
    monkeypatch.setenv("HYBRIDGPU_CACHE", "0")

    class Loop(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x, w):
            def step(item, states):
                y = F.Convolution(item, w, kernel=(3, 3), num_filter=2, pad=(1, 1), no_bias=True)
                return y + states[0], [y]

            out, _ = F.contrib.foreach(step, x, [F.zeros((1, 2, 5, 5))])
            return out

    net = Loop(prefix="loop_")
    x, w = rng.normal(size=(3, 1, 2, 5, 5)).astype(np.float32), rng.normal(size=(2, 2, 3, 3)).astype(np.float32)
    with mx.cpu():
        want = net(nd.array(x), nd.array(w)).asnumpy()
    net.hybridize()
    with mx.gpu(0):
        got = net(nd.array(x), nd.array(w)).asnumpy()
        assert fake.runs == {"Forward": 3}
        report = net.explain(nd.array(x), nd.array(w))
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5)
    assert [c.note[:7] for c in report.library_calls if c.name == "conv"] == ["cuDNN 9"]
