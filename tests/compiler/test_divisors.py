# SPDX-License-Identifier: Apache-2.0
"""Rows divided by a value of theirs: one reciprocal a row, on a GPU with the bits of the division in the strict mode."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from emulated import run_program

from hybridgpu.compiler.ir import tensor_type
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.target import CPU, CUDA
from hybridgpu.core.dtypes import from_short

TARGETS = {"cpu": CPU, "cuda": CUDA}


def compiled(function, shape, target, dtype="f32"):
    b = builder()
    x = b.input(tensor_type(shape, from_short(dtype)), "x")
    outputs = function(b, x)
    return compile_graph(b.finish(outputs if isinstance(outputs, list) else [outputs], "divided"), target)


def shares(b, x):
    """What each element is of its row's sum."""
    return x / b.sum(x, (-1,), keepdims=True)


def shares_used_again(b, x):
    y = shares(b, x)
    return [y, y + 1.0]


def shares_of_columns(b, x):
    return x / b.sum(x, (0,), keepdims=True)


def rows(count, length):
    """Numbers whose sums are exact in any order, among them zeros of both signs, subnormal and large ones."""
    rng = np.random.default_rng(length)
    x = rng.integers(-40, 200, (count, length)).astype(np.float32)
    x[:, rng.permutation(length)[: length // 4]] = 0
    x[:, 0] = -0.0
    x[1] = np.ldexp(x[1], -140)
    x[2] = np.ldexp(x[2], 60)
    x[3, 1:] = np.where(np.arange(1, length) % 2, 1e-45, 0)
    x[3, 1] = 28
    x[4, 2] = np.nan
    x[5, 3] = np.inf
    x[6] = -abs(x[6])
    x[7] = 0
    return x


@pytest.mark.parametrize("length", [8, 40, 129, 1024])
@pytest.mark.parametrize("function", [shares, shares_used_again])
def test_strict_bits(function, length, cuda_driver):
    x = rows(12, length)
    with np.errstate(all="ignore"):
        y = x / x.sum(1, keepdims=True)
    for target in TARGETS.values():
        program = compiled(function, x.shape, target)
        first, *rest = run_program(program, [x], cuda_driver)
        np.testing.assert_array_equal(first, y)
        np.testing.assert_array_equal(np.signbit(first)[y == 0], np.signbit(y)[y == 0])
        for other in rest:
            np.testing.assert_array_equal(other, y + np.float32(1))
        text = "".join(k.text for k in program.kernels)
        assert ("hg::divide(" in text) == (function is shares and target is CUDA)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("function", [shares, shares_used_again, shares_of_columns])
def test_fast_multiplies(function, target, cuda_driver):
    x = np.random.default_rng(1).uniform(0.5, 1, (24, 40)).astype(np.float32)
    program = compiled(function, x.shape, replace(TARGETS[target], numeric="fast"))
    axis = 0 if function is shares_of_columns else 1
    found = run_program(program, [x], cuda_driver)[0]
    np.testing.assert_allclose(found, x / x.sum(axis, dtype=np.float64, keepdims=True), rtol=1e-6)
    text = re.sub(r"//.*", "", program.source or "".join(k.text for k in program.kernels))
    assert set(re.findall(r"(\S+) / v\d+", text)) == {"1.0f"}


def shares_in_float(b, x):
    """As the operators of half precision compute."""
    return b.cast(shares(b, b.cast(x, from_short("f32"))), x.dtype)


@pytest.mark.parametrize("function", [shares, shares_in_float])
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_half_precision_is_rounded_once(dtype, function, cuda_driver):
    x = rows(12, 64)[4:].astype(from_short(dtype).np)
    program = compiled(function, x.shape, CUDA, dtype)
    with np.errstate(all="ignore"):
        wide = x.astype(np.float32)
        y = (wide / wide.sum(1, keepdims=True)).astype(x.dtype)
    (found,) = run_program(program, [x], cuda_driver)
    np.testing.assert_array_equal(found.astype(np.float32), y.astype(np.float32))
    assert "hg::divide(n0, " in program.kernels[0].text


def test_other_types_and_places_are_divided():
    def last(b, x):
        return x / (x * 0.5 + 1.0)  # by a value of its own

    for dtype, function in (("f64", shares), ("f32", last), ("f32", shares_of_columns)):
        program = compiled(function, (24, 40), CUDA, dtype)
        assert "hg::divide(" not in "".join(k.text for k in program.kernels)
