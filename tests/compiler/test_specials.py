# SPDX-License-Identifier: Apache-2.0
"""NaN, infinities, zeros of both signs and subnormal numbers: every elementwise primitive in strict mode, as NumPy has it.

Kinds and signs of results are compared, not their last bits, for all pairs of special arguments.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from compiler.test_graphs import fresh, on_device

from hybridgpu.backends.cpu.backend import cpu_backend
from hybridgpu.backends.cuda.backend import CudaBackend
from hybridgpu.compiler.ir import tensor_type
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import TABLE, builder
from hybridgpu.compiler.reference import evaluate
from hybridgpu.compiler.target import CPU, CUDA
from hybridgpu.core.dtypes import from_short

#: no functions of numbers, or with parameters
_OTHER = {"cast", "copy", "stop_gradient", "custom_gradient"}


def numbers(dtype: np.dtype) -> np.ndarray:
    f = np.finfo(dtype)
    positive = [0.0, 1e-3, 0.5, 1, 1.5, 2, 2.5, 3, 100, f.max, np.inf, f.tiny, f.tiny / 2, f.smallest_subnormal]
    return np.array([*positive, *(-v for v in positive), np.nan], dtype)


def kinds(a: np.ndarray) -> np.ndarray:
    """NaN 9; infinite 5, normal 3, subnormal 2, zero 1, with the sign; other types as they are."""
    if a.dtype.kind != "f":
        return a
    tiny = np.finfo(a.dtype).tiny
    kind = np.select([np.isnan(a), np.isinf(a), a == 0, np.abs(a) < tiny], [9, 5, 1, 2], 3)
    return np.where(np.signbit(a) & ~np.isnan(a), -kind, kind)


def operands(name: str, dtype) -> int:
    expr = TABLE[name].expr
    text = expr([dtype] * 3, dtype) if callable(expr) else str(expr)
    return 1 + max(int(k) for k in re.findall(r"\{(\d)", text))


def every_function(dtype):
    """A graph with a result for each primitive, their names, and its arguments."""
    values = numbers(dtype.np)
    first, second = (a.ravel() for a in np.meshgrid(values, values, indexing="ij"))
    b = builder()
    x, p, q = (
        b.input(tensor_type((n,), dtype), t) for n, t in ((values.size, "x"), (first.size, "p"), (first.size, "q"))
    )
    names, results = [], []
    for name in sorted(TABLE):
        if TABLE[name].family != "elementwise" or name in _OTHER:
            continue
        arguments = {1: (x,), 2: (p, q), 3: (b.gt(p, 0.0), p, q)}[operands(name, dtype)]
        try:
            results.append(b.apply(TABLE[name], arguments, {}))
        except TypeError:  # of integers or truth values only
            continue
        names.append(name)
    return b.finish(results, "specials"), names, [values, first, second]


@pytest.mark.long_table
@pytest.mark.parametrize("target", [CPU, CUDA], ids=lambda t: t.name)
@pytest.mark.parametrize("short", ["f32", "f64", "f16"])
def test_kinds_and_signs(short, target, compiler, cuda_driver):
    graph, names, inputs = every_function(from_short(short))
    assert len(names) > 45
    with np.errstate(all="ignore"):
        wanted = evaluate(graph, inputs)
    program = compile_graph(graph, target)
    inputs, results = [on_device(a) for a in inputs], fresh(program)
    if target is CPU:
        cpu_backend().load(program)(inputs, results)
    else:
        CudaBackend(cuda_driver, np, lambda a: int(a.__array_interface__["data"][0])).load(program)(inputs, results)
    wrong = {}
    for name, got, want in zip(names, results, wanted, strict=True):
        arguments = inputs[:1] if got.size == inputs[0].size else inputs[1:]
        differs = kinds(got) != kinds(np.asarray(want))
        if name in ("max", "min"):  # of two zeros either is right, as NumPy's own loops have it
            differs &= ~((arguments[0] == 0) & (arguments[1] == 0))
        if differs.any():
            wrong[name] = [(*(a[k] for a in arguments), got[k], want[k]) for k in np.flatnonzero(differs)[:3]]
    assert not wrong, wrong


@pytest.mark.parametrize("target", [CPU, CUDA], ids=lambda t: t.name)
@pytest.mark.parametrize(("short", "limit"), [("f32", 1e-6), ("f64", 1e-11)])
def test_digamma_and_trigamma(short, limit, target, compiler, cuda_driver):
    """On both sides of zero, between poles, where what is added to a result is no larger than it by orders."""
    between = np.linspace(0.2, 0.8, 13)
    x = np.concatenate([between, np.arange(1, 25) + 0.3, -between, -2 - between, -17 - between]).astype(
        from_short(short).np
    )
    b = builder()
    arg = b.input(tensor_type(x.shape, from_short(short)), "x")
    graph = b.finish([b.digamma(arg), b.trigamma(arg)], "polygamma")
    program = compile_graph(graph, target)
    inputs, results = [on_device(x)], fresh(program)
    if target is CPU:
        cpu_backend().load(program)(inputs, results)
    else:
        CudaBackend(cuda_driver, np, lambda a: int(a.__array_interface__["data"][0])).load(program)(inputs, results)
    for got, want in zip(results, evaluate(graph, [x.astype(np.float64)], wide=True), strict=True):
        np.testing.assert_allclose(got, want, rtol=limit, atol=limit)
