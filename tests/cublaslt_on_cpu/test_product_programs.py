# SPDX-License-Identifier: Apache-2.0
"""Arrays and compiled programs on the emulated GPU reach cuBLASLt by one way, epilogues join; ``explain`` says so."""

from __future__ import annotations

import numpy as np
import pytest
from compiler.cases import parse
from cublaslt_on_cpu.support import FakeProducts
from emulated import aligned, install, uninstall

import hybridgpu as mx
from hybridgpu import autograd, nd
from hybridgpu.backends.devices import device_of
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.program import LibraryStep
from hybridgpu.compiler.reference import evaluate
from hybridgpu.compiler.schedule.matmul import config_cuda
from hybridgpu.core.dtypes import from_short
from hybridgpu.gluon import nn


def behind_gpu(find):
    """An emulated device that finds cuBLASLt by ``find``, behind mx.gpu(0)."""
    install(find_products=find)
    return device_of(mx.gpu(0))


@pytest.fixture(autouse=True)
def large(monkeypatch):
    """Every product of floats is large enough for a library; such programs are not stored. Rounding is test_tf32.py's."""
    monkeypatch.setenv("HYBRIDGPU_CACHE", "0")
    monkeypatch.setenv("HYBRIDGPU_TF32", "0")
    monkeypatch.setattr(config_cuda, "library_seconds", lambda target, dot: 0.0)


@pytest.fixture
def fake(tmp_path):
    made = FakeProducts(tmp_path)
    behind_gpu(made.find)
    yield made
    uninstall()


@pytest.fixture
def without():
    yield behind_gpu(lambda cuda: "cuBLASLt was not found: pip install nvidia-cublas-cu12")
    uninstall()


rng = np.random.default_rng(5)


def gradients(ctx, function, arrays, dtype):
    arrays = [nd.array(a, ctx=ctx, dtype=dtype) for a in arrays]
    for a in arrays:
        a.attach_grad()
    with autograd.record():
        y = function(*arrays)
        loss = (y * y).sum()
    loss.backward()
    return [a.asnumpy() for a in (y, *(a.grad for a in arrays))]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_eager_calls_and_their_gradients(fake, dtype):
    arrays = [rng.normal(size=s) for s in ((6, 9), (5, 9), (5,))]

    def function(x, w, b):
        return nd.FullyConnected(x, w, b, num_hidden=5)

    for got, want in zip(
        gradients(mx.gpu(0), function, arrays, dtype), gradients(mx.cpu(), function, arrays, dtype), strict=True
    ):
        limit = 2e-2 if dtype == "float16" else 1e-5
        np.testing.assert_allclose(got, want, rtol=limit, atol=limit * np.abs(want).max())
    assert fake.products == 3


def test_an_eager_failure_names_the_operator(fake):
    fake.plant("cublasLtMatmul", 13)
    with pytest.raises(mx.MXNetError, match=r"^Error in operator .*dot.*: cublasLtMatmul of cuBLASLt"):
        nd.dot(nd.ones((3, 4), ctx=mx.gpu(0)), nd.ones((4, 5), ctx=mx.gpu(0))).asnumpy()


def test_a_second_try_of_an_eager_call_without_memory(fake, monkeypatch):
    monkeypatch.setattr(
        "hybridgpu.backends.cuda.errors.give_back", lambda release: fake.plant("cublasLtMatmul", 0) or "1 MiB"
    )
    fake.plant("cublasLtMatmul", 3)
    y = nd.dot(nd.ones((3, 4), ctx=mx.gpu(0)), nd.ones((4, 5), ctx=mx.gpu(0)))
    assert (y.asnumpy() == 4).all() and fake.products == 2


class Net(mx.gluon.HybridBlock):
    """A dense layer whose activation is a kernel, and one that ends the net."""

    def __init__(self, units, prefix="net_"):
        super().__init__(prefix=prefix)
        with self.name_scope():
            self.first = nn.Dense(units, in_units=12, activation="relu", prefix="first_")
            self.last = nn.Dense(8, in_units=units, prefix="last_")

    def hybrid_forward(self, F, x):
        return self.last(self.first(x))


def explained(numeric="strict", units=16):
    net = Net(units)
    net.initialize(mx.init.Xavier(), ctx=[mx.gpu(0), mx.cpu()])
    net.first.bias.set_data(nd.arange(units) / 8 - 1)
    net.last.bias.set_data(nd.arange(8))
    x = np.random.default_rng(3).normal(size=(5, 12)).astype(np.float32)
    want = net(nd.array(x)).asnumpy()
    net.hybridize(numeric=numeric)
    np.testing.assert_allclose(net(nd.array(x, ctx=mx.gpu(0))).asnumpy(), want, rtol=1e-5, atol=1e-6)
    return net.explain(nd.array(x, ctx=mx.gpu(0)))


@pytest.mark.parametrize("recorded", [False, True])
def test_failures_name_the_operator_of_the_net_that_calls(fake, recorded):
    """Whichever net the program was made for; at the first call, and at one that is prepared."""
    x = nd.ones((5, 12), ctx=mx.gpu(0))

    def call(net):
        with mx.autograd.record() if recorded else mx.autograd.pause():
            return net(x).asnumpy()

    for prefix in ("first_net_", "second_net_"):
        net = Net(16, prefix)
        net.initialize(ctx=mx.gpu(0))
        net.hybridize()
        for calls in (1, 2):
            for _ in range(calls):
                call(net)
            fake.plant("cublasLtMatmul", 13)
            with pytest.raises(mx.MXNetError, match=rf"^Error in operator {prefix}(first|last)_fwd: cublasLtMatmul"):
                call(net)
            fake.plant("cublasLtMatmul", 0)


def test_explain_with_cublaslt(fake):
    report = explained()
    assert [(c.name, c.operator, c.note) for c in report.library_calls] == [
        ("dot", "net_first_fwd", "cuBLASLt 12.3.1"),
        ("gemm_bias", "net_last_fwd", "cuBLASLt 12.3.1, bias in its epilogue"),
    ]
    (activation,) = report.kernels  # adds the first bias
    assert activation.kind == "map"
    first, last = (c.reason for c in report.library_calls)
    assert all("us in a library" in reason for reason in (first, last))
    assert f"net_first_fwd [cuBLASLt 12.3.1; {first}]" in str(report)
    assert f"net_last_fwd [cuBLASLt 12.3.1, bias in its epilogue; {last}]" in str(report)


def test_explain_in_fast_mode(fake):
    """Whether relu keeps NaN is not documented, so in strict mode it is a kernel's."""
    report = explained("fast")
    assert [c.note for c in report.library_calls] == [
        "cuBLASLt 12.3.1, bias and relu in its epilogue",
        "cuBLASLt 12.3.1, bias in its epilogue",
    ]
    assert not report.kernels


def test_explain_without_cublaslt(without):
    report = explained()
    note = "CuPy's matmul (cuBLASLt was not found: pip install nvidia-cublas-cu12)"
    assert [(c.name, c.note) for c in report.library_calls] == [("dot", note)] * 2
    assert len(report.kernels) == 2


def test_explain_of_a_kernel(fake, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setenv("HYBRIDGPU_CACHE", "0")
    report = explained(units=20)
    assert not report.library_calls
    assert all(k.kind == "matmul" and "in a library" in k.note for k in report.kernels)
    assert report.kernels[0].note in str(report)


def test_a_step_that_no_algorithm_computes(fake):
    fake.plant("none", 1)
    report = explained()
    assert {c.note for c in report.library_calls} == {"CuPy's matmul (cuBLASLt 12.3.1 has no algorithm for it)"}


def dense(b, x, w, c):
    """A dense layer, as FullyConnected is lowered."""
    y = b.dot(x, b.transpose(w, (1, 0)))
    return y + b.broadcast(b.reshape(c, (1, c.size)), y.shape)


def relu_of(b, y):
    return b.max(y, 0.0)


TYPES = ("f32[6,9]", "f32[5,9]", "f32[5]")
#: name -> (graph, input types, primitives of the library steps, of those in fast mode)
GRAPHS = {
    "result": (dense, TYPES, ["gemm_bias"], ["gemm_bias"]),
    "other order": (
        lambda b, x, w, c: b.broadcast(b.reshape(c, (1, 5)), (6, 5)) + b.dot(x, b.transpose(w, (1, 0))),
        TYPES,
        ["gemm_bias"],
        ["gemm_bias"],
    ),
    "of a sequence": (
        lambda b, x, w, c: b.reshape(b.dot(x, b.transpose(w, (1, 0))), (2, 3, 5)) + b.broadcast(b.reshape(c, (1, 1, 5)), (2, 3, 5)),
        TYPES,
        ["gemm_bias"],
        ["gemm_bias"],
    ),
    "relu": (lambda b, *a: relu_of(b, dense(b, *a)), TYPES, ["dot"], ["gemm_bias"]),
    "two layers": (
        lambda b, x, w, c, v: b.dot(dense(b, x, w, c), v),
        (*TYPES, "f32[5,4]"),
        ["gemm_bias", "dot"],
        ["gemm_bias", "dot"],
    ),
    "half": (dense, ("f16[6,9]", "f16[5,9]", "f16[5]"), ["gemm_bias"], ["gemm_bias"]),
    "bfloat16": (dense, ("bf16[6,9]", "bf16[5,9]", "bf16[5]"), ["gemm_bias"], ["gemm_bias"]),
    "batched": (
        lambda b, x, w, c: b.dot(x, w) + b.broadcast(b.reshape(c, (1, 1, 4)), (2, 3, 4)),
        ("f32[2,3,5]", "f32[2,5,4]", "f32[4]"),
        ["gemm_bias"],
        ["gemm_bias"],
    ),
    "a bias that is computed": (lambda b, x, w, c: dense(b, x, w, b.exp(c)), TYPES, ["gemm_bias"], ["gemm_bias"]),
    "read by a kernel": (lambda b, *a: b.tanh(dense(b, *a)), TYPES, ["dot"], ["dot"]),
    "read by rows": (lambda b, *a: b.sum(dense(b, *a), (1,)), TYPES, ["dot"], ["dot"]),
    "product read twice": (
        lambda b, x, w, c: [y := b.dot(x, b.transpose(w, (1, 0))), y + b.broadcast(b.reshape(c, (1, 5)), (6, 5))],
        TYPES,
        ["dot"],
        ["dot"],
    ),
    "a matrix is added": (lambda b, x, w, r: b.dot(x, b.transpose(w, (1, 0))) + r, (*TYPES[:2], "f32[6,5]"), ["dot"], ["dot"]),
    "a column is added": (
        lambda b, x, w, c: b.dot(x, b.transpose(w, (1, 0))) + b.broadcast(b.reshape(c, (6, 1)), (6, 5)),
        (*TYPES[:2], "f32[6]"),
        ["dot"],
        ["dot"],
    ),
    "part of an array is added": (
        lambda b, x, w, c: b.dot(x, b.transpose(w, (1, 0))) + b.broadcast(b.reshape(b.slice(c, (2,), (7,)), (1, 5)), (6, 5)),
        (*TYPES[:2], "f32[9]"),
        ["dot"],
        ["dot"],
    ),
    "added to itself": (lambda b, x, w: (y := b.dot(x, b.transpose(w, (1, 0)))) + y, TYPES[:2], ["dot"], ["dot"]),
    "rows become columns": (
        lambda b, x, w, c: b.reshape(b.dot(x, b.transpose(w, (1, 0))), (5, 6)) + b.broadcast(b.reshape(c, (1, 6)), (5, 6)),
        (*TYPES[:2], "f32[6]"),
        ["dot"],
        ["dot"],
    ),
    "multiplied": (
        lambda b, x, w, c: b.dot(x, b.transpose(w, (1, 0))) * b.broadcast(b.reshape(c, (1, 5)), (6, 5)),
        TYPES,
        ["dot"],
        ["dot"],
    ),
    "another limit": (lambda b, *a: b.max(dense(b, *a), 0.5), TYPES, ["dot"], ["dot"]),
    "another limit of some columns": (
        lambda b, x, w, c: b.max(dense(b, x, w, c), b.pad(b.full((6, 3), 0.0, x.dtype), low=(0, 0), high=(0, 2), value=0.5)),
        TYPES,
        ["dot"],
        ["dot"],
    ),
    "a limit that is an argument in part": (
        lambda b, x, w, c, r: b.max(dense(b, x, w, c), b.concat([b.full((6, 3), 0.0, x.dtype), r], 1)),
        (*TYPES, "f32[6,2]"),
        ["dot"],
        ["dot"],
    ),
}  # fmt: skip


@pytest.mark.long_table
@pytest.mark.parametrize("name", GRAPHS)
def test_what_joins(fake, name):
    function, types, *wanted = GRAPHS[name]
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
    for numeric, steps in zip(("strict", "fast"), wanted, strict=True):
        program = compile_graph(graph, backend.target.with_numeric(numeric))
        assert [s.primitive for s in program.steps if isinstance(s, LibraryStep)] == steps
        loaded = backend.load(program)
        limit = {"f": 1e-5, "b": 2e-2}["f" if types[0].startswith("f32") else "b"]
        before = fake.products
        outputs = [aligned(shape, from_short(short).np) for shape, short in program.outputs]
        loaded(arrays, outputs)
        assert fake.products == before + len(steps)
        for got, want in zip(outputs, evaluate(graph, arrays, wide=True), strict=True):
            np.testing.assert_allclose(got.astype(np.float64), want, rtol=limit, atol=limit)
        fake.plant("none", 1)  # without an algorithm: the same
        outputs = [aligned(shape, from_short(short).np) for shape, short in program.outputs]
        backend.load(program)(arrays, outputs)
        for got, want in zip(outputs, evaluate(graph, arrays, wide=True), strict=True):
            np.testing.assert_allclose(got.astype(np.float64), want, rtol=limit, atol=limit)
        fake.plant("none", 0)


def test_programs_with_and_without_epilogues_are_kept_apart(fake):
    key = device_of(mx.gpu(0)).backend().key()
    uninstall()
    other = behind_gpu(lambda cuda: "not here").backend().key()
    assert key != other
