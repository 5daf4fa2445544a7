# SPDX-License-Identifier: Apache-2.0
"""The three example kernels give right results in every order, and injected defects are caught."""

from __future__ import annotations

import numpy as np
import pytest

from . import Buffer, Misaligned, Module, OutOfBounds, Race, Report, UninitialisedRead
from .support import inject, kernel_text, normal


def elementwise(text: str, n: int = 1003, offset: int = 0, **how) -> Report:
    a, b = normal(n + 4, seed=1), normal(n + 4, seed=2)
    a_buffer, b_buffer = Buffer(a, name="a"), Buffer(b, name="b")
    result = Buffer.empty(n, np.float32, name="out")
    first = a_buffer.offset(4 * offset) if offset else a_buffer
    report = Module(text)["fused_elementwise"](3, 64, (first, b_buffer, result, np.float32(0.5), np.int32(n)), **how)
    x = a[offset : offset + n]
    expected = np.tanh(x * np.float32(0.5) + b[:n]) * x
    np.testing.assert_allclose(result.get(), expected, rtol=2e-5, atol=1e-6)
    assert result.written().all()
    return report


def softmax(text: str, rows: int = 5, cols: int = 1000, **how) -> Report:
    x = normal(rows, cols)
    if rows > 1:
        x[0, cols // 3] += 1000  # an outlier: a wrong maximum overflows
    x_buffer, result = Buffer(x, name="x"), Buffer.empty(x.shape, np.float32, name="y")
    report = Module(text)["row_softmax"](rows, 128, (x_buffer, result, np.int32(cols)), **how)
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(result.get(), e / e.sum(1, keepdims=True), rtol=1e-5, atol=1e-7)
    return report


def gemv(text: str, rows: int = 37, cols: int = 1000, **how) -> Report:
    a, x, bias = normal(rows, cols), normal(cols), normal(rows)
    inputs = [Buffer(v, name=n) for v, n in ((a, "A"), (x, "x"), (bias, "bias"))]
    result = Buffer.empty(rows, np.float32, name="y")
    report = Module(text)["gemv_bias_relu"](
        (rows + 3) // 4,
        (32, 4),
        (*inputs, result, np.int32(rows), np.int32(cols)),
        shared_mem=4 * cols,
        **how,
    )
    np.testing.assert_allclose(result.get(), np.maximum(a @ x + bias, 0), rtol=1e-4, atol=1e-4)
    return report


EXAMPLES = {"fused_elementwise": elementwise, "row_softmax": softmax, "gemv_bias_relu": gemv}


@pytest.mark.parametrize("order", ["forward", "reverse", "shuffle"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_right_results_in_every_order(name, order):
    EXAMPLES[name](kernel_text(name), order=order, seed=3)


@pytest.mark.parametrize("n", [1, 3, 4, 5, 63, 64, 255, 256, 257])
def test_awkward_sizes(n):
    elementwise(kernel_text("fused_elementwise"), n=n)
    softmax(kernel_text("row_softmax"), rows=2, cols=n)


def test_out_of_bounds_write_names_its_line():
    text = kernel_text("row_softmax")
    message = r"writes 4 bytes 0 bytes after the end of buffer 'y'"
    with pytest.raises(OutOfBounds, match=message) as caught:
        softmax(inject(text, "if (c < cols) y", "if (c <= cols) y"), rows=1)
    assert "y[(size_t)blockIdx.x * cols + c]" in text.splitlines()[caught.value.line - 1]


@pytest.mark.parametrize("nth", [0, 1, 2, 3])
def test_each_missing_syncthreads_is_caught(nth):
    text, at = kernel_text("row_softmax"), -1
    for _ in range(nth + 1):
        at = text.index("__syncthreads();", at + 1)
    broken = text[:at] + text[at:].replace("__syncthreads();", "", 1)
    message = "race on shared memory|nothing has written"
    with pytest.raises((Race, UninitialisedRead), match=message):
        softmax(broken)


def test_a_race_is_caught_though_results_are_right_here():
    """The second barrier guards the reuse of part[]; a forward run would get by without it."""
    text = inject(kernel_text("row_softmax"), "__syncthreads();  // part is reused", "// part is reused")
    with pytest.raises(Race, match="race on shared memory 'part'") as caught:
        softmax(text)
    assert "the other access: line" in str(caught.value)


def test_misaligned_float4_load_is_caught():
    text = kernel_text("fused_elementwise")
    with pytest.raises(Misaligned, match="not a multiple of 16 .off by 4") as caught:
        elementwise(text, offset=1)
    assert "float4 x" in text.splitlines()[caught.value.line - 1]


def test_a_row_that_runs_into_the_next_is_caught():
    """Inside the buffer no bounds check can see it; the race with the next row's block can."""
    text = inject(kernel_text("row_softmax"), "if (c < cols) y", "if (c <= cols) y")
    with pytest.raises(Race, match="write-after-write race on global memory 'y' byte 4000"):
        softmax(text, rows=2)


def test_figures_are_exact_and_repeatable():
    text = kernel_text("fused_elementwise")
    first, second = (elementwise(text, n=1024, trace_warps=1) for _ in range(2))
    assert first == second
    assert first.global_read == 2 * 4096
    assert first.global_written == 4096
    assert first.wide_loads == 512
    assert first.wide_stores == 256
    assert first.accesses
    assert all(a.sectors == a.ideal for a in first.accesses)  # fully coalesced
