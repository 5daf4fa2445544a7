# SPDX-License-Identifier: Apache-2.0
"""bfloat16 in generated kernels and in the reference interpreter: what is rounded, where, and how.

The oracle is rounding to nearest even by integer arithmetic on bits, written here once more in NumPy.
"""

from __future__ import annotations

import numpy as np
import pytest
from emulated import aligned

import hybridgpu.backends.library
from hybridgpu.backends.cpu.backend import cpu_backend
from hybridgpu.backends.cuda.backend import CudaBackend
from hybridgpu.compiler.ir.types import tensor_type
from hybridgpu.compiler.passes.canonicalize.simplify import simplify
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.reference import evaluate
from hybridgpu.compiler.target import CPU, CUDA
from hybridgpu.core.dtypes import bf16, f16, f32, f64, i32


def widened(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def nearest(x: np.ndarray) -> np.ndarray:
    """float32 rounded to bfloat16, as float32: the candidate below or above in magnitude; a tie goes to the even one."""
    finite = np.isfinite(x)
    wide = np.where(finite, x, np.float32(0)).astype(np.float64)
    bits = (x.view(np.uint32) >> 16).astype(np.uint16)
    after = np.where(finite, bits + np.uint16(1), np.uint16(0))
    low, high = widened(np.where(finite, bits, np.uint16(0))).astype(np.float64), widened(after).astype(np.float64)
    high = np.where(np.isinf(high), np.copysign(2.0**128, high), high)  # a step beyond the largest number
    below, above = np.abs(wide - low), np.abs(high - wide)
    up = (above < below) | ((above == below) & (after % 2 == 0))
    return np.where(finite, widened(np.where(up, after, bits)), x)


def hard_floats() -> np.ndarray:
    """Random bits, and for many bfloat16 numbers what lies around the middle to the next one."""
    rng = np.random.default_rng(3)
    upper = np.concatenate([np.arange(0, 1 << 16, 37), [0, 0x8000, 0x7F7F, 0xFF7F, 0x7F80, 0xFF80, 0x007F, 0x3F80]])
    lower = [0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF]
    ties = (upper.astype(np.uint32)[:, None] << 16) | np.array(lower, np.uint32)
    return np.concatenate([rng.integers(0, 1 << 32, 4096, dtype=np.uint32), ties.ravel()]).view(np.float32)


def on_cpu(graph, inputs, cuda_driver):
    program = compile_graph(graph, CPU)
    outputs = [np.empty(o.shape, o.dtype.np) for o in graph.outputs]
    cpu_backend().load(program)(inputs, outputs)
    return outputs


def on_cuda(graph, inputs, cuda_driver):
    """The CUDA text, executed on the CPU."""
    program = compile_graph(graph, CUDA)
    outputs = [aligned(o.shape, o.dtype.np) for o in graph.outputs]
    held = []
    for a in inputs:
        held.append(aligned(a.shape, a.dtype))
        held[-1][...] = a
    CudaBackend(cuda_driver, np, lambda a: int(a.__array_interface__["data"][0])).load(program)(held, outputs)
    return outputs


def interpreted(graph, inputs, cuda_driver):
    return evaluate(graph, inputs)


def simplified(graph, inputs, cuda_driver):
    return evaluate(simplify(graph), inputs)


runners = pytest.mark.parametrize("run", [on_cpu, on_cuda, interpreted, simplified], ids=lambda f: f.__name__)


def graph_of(function, *inputs):
    b = builder()
    nodes = [b.input(tensor_type(a.shape, t), f"x{k}") for k, (a, t) in enumerate(inputs)]
    out = function(b, *nodes)
    return b.finish(list(out) if isinstance(out, (list, tuple)) else [out], "conversions")


def equal(got: np.ndarray, want: np.ndarray) -> None:
    """To the sign of zero; NaN is NaN."""
    assert got.shape == want.shape
    nan = np.isnan(want)
    np.testing.assert_array_equal(np.isnan(got), nan)
    np.testing.assert_array_equal(got[~nan].view(np.uint32), want[~nan].view(np.uint32))


@runners
def test_every_number_is_read_as_it_is(run, cuda_driver):
    bits = np.arange(1 << 16, dtype=np.uint16)
    x = bits.view(bf16.np)
    (got,) = run(graph_of(lambda b, x: b.cast(x, f32), (x, bf16)), [x], cuda_driver)
    equal(got, widened(bits))


@runners
def test_stores_round_to_nearest_even(run, cuda_driver):
    x = hard_floats()
    want = nearest(x)
    (got,) = run(graph_of(lambda b, x: b.cast(x, bf16), (x, f32)), [x], cuda_driver)
    assert got.dtype == bf16.np
    equal(widened(got.view(np.uint16)), want)
    # a NaN whose payload is in the lower half only stays one
    assert np.isnan(want).any() and (np.isinf(want) & np.isfinite(x)).any()


@runners
def test_casts_on_the_way_round(run, cuda_driver):
    x = hard_floats()
    graph = graph_of(lambda b, x: [b.cast(b.cast(x, bf16), f32), b.cast(b.cast(b.cast(x, f16), bf16), f32)], (x, f32))
    with np.errstate(over="ignore"):
        narrow = x.astype(np.float16).astype(np.float32)
    got = run(graph, [x], cuda_driver)
    equal(got[0], nearest(x))
    equal(got[1], nearest(narrow))


@runners
def test_neither_half_type_holds_the_other(run, cuda_driver):
    """float16 between two bfloat16 overflows and loses digits below; bfloat16 between two float16 loses digits."""
    x = np.array([1e30, 1.0, -3.0, 2.0**-30, 257.0], np.float32)
    wide = x.astype(bf16.np)
    graph = graph_of(lambda b, x: b.cast(b.cast(x, f16), f32), (wide, bf16))
    np.testing.assert_array_equal(run(graph, [wide], cuda_driver)[0], np.array([np.inf, 1, -3, 0, 256], np.float32))
    narrow = np.array([1 + 2.0**-10, 0.1], np.float16)
    graph = graph_of(lambda b, x: b.cast(b.cast(x, bf16), f32), (narrow, f16))
    np.testing.assert_array_equal(run(graph, [narrow], cuda_driver)[0], nearest(narrow.astype(np.float32)))


@runners
def test_doubles_and_integers_go_through_float(run, cuda_driver):
    x, n = np.array([1.00390625 + 2.0**-30, -0.1, 1e300, np.nan]), np.array([257, 259, -1, 1 << 24], np.int32)
    graph = graph_of(lambda b, x, n: [b.cast(x, bf16), b.cast(n, bf16)], (x, f64), (n, i32))
    of_double, of_integer = run(graph, [x, n], cuda_driver)
    with np.errstate(over="ignore"):
        equal(widened(of_double.view(np.uint16)), nearest(x.astype(np.float32)))
    equal(widened(of_integer.view(np.uint16)), nearest(n.astype(np.float32)))


@runners
def test_only_results_are_rounded(run, cuda_driver):
    """1 + 2**-12 is 1 in bfloat16, but not within one kernel."""
    x = np.full(40, 2.0**-12).astype(bf16.np)
    (got,) = run(graph_of(lambda b, x: (x + 1.0) - 1.0, (x, bf16)), [x], cuda_driver)
    np.testing.assert_array_equal(got.astype(np.float32), np.full(40, 2.0**-12, np.float32))


@runners
def test_sums_accumulate_in_float(run, cuda_driver):
    x = np.ones((1000, 3)).astype(bf16.np)
    graph = graph_of(lambda b, x: [b.sum(x, (0,)), b.dot(b.transpose(x, (1, 0)), x), b.cumsum(x, axis=0)], (x, bf16))
    total, product, running = run(graph, [x], cuda_driver)
    np.testing.assert_array_equal(total.astype(np.float32), np.full(3, 1000))
    np.testing.assert_array_equal(product.astype(np.float32), np.full((3, 3), 1000))
    np.testing.assert_array_equal(running.astype(np.float32)[:, 0], nearest(np.arange(1, 1001, dtype=np.float32)))


def test_library_steps_compute_in_float(compiler, monkeypatch):
    """A product too large for a generated kernel: operands widened, one rounding at the end."""
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal((120, 120)).astype(bf16.np) for _ in range(2))
    seen = []
    original = hybridgpu.backends.library.evaluate_stored
    monkeypatch.setattr(
        hybridgpu.backends.library, "evaluate_stored", lambda *a: seen.append(a[0].name) or original(*a)
    )
    graph = graph_of(lambda b, x, w: b.dot(x, w), (x, bf16), (w, bf16))
    (got,) = on_cpu(graph, [x, w], None)
    assert seen == ["dot"]
    want = x.astype(np.float64) @ w.astype(np.float64)
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=2.0**-8, atol=1e-5)
