# SPDX-License-Identifier: Apache-2.0
"""One buffer by several parameters: allowed, unless that breaks a __restrict__ promise."""

from __future__ import annotations

import numpy as np
import pytest

from . import Buffer, OutOfBounds, Race, RestrictViolation
from .support import launch, normal, out

COPY = "__global__ void k(const float* Q a, float* Q b) { b[threadIdx.x] = a[threadIdx.x] + 1; }"


def test_in_place_without_restrict():
    x = normal(32)
    buffer = Buffer(x, name="x")
    launch(COPY.replace("Q", ""), buffer, buffer)
    assert (buffer.get() == x + 1).all()


@pytest.mark.parametrize("qualifier", ["__restrict__", "__restrict", "HG_RESTRICT"])
def test_in_place_with_restrict(qualifier):
    macro = "#define HG_RESTRICT __restrict__\n"
    buffer = Buffer(normal(32), name="x")
    with pytest.raises(RestrictViolation, match=r"'b' \(__restrict__\), which parameter 'a'") as caught:
        launch(macro + COPY.replace("Q", qualifier), buffer, buffer)
    assert "buffer 'x'" in str(caught.value)
    assert caught.value.line == 2


def test_one_restrict_parameter_is_enough():
    buffer = Buffer(normal(32), name="x")
    for text in (
        COPY.replace("* Q a", "* __restrict__ a"),
        COPY.replace("* Q b", "* __restrict__ b"),
    ):
        with pytest.raises(RestrictViolation):
            launch(text.replace("Q", ""), buffer, buffer)


def test_parts_that_do_not_overlap_are_fine():
    x = normal(64)
    buffer = Buffer(x, name="x")
    launch(COPY.replace("Q", "__restrict__"), buffer, buffer.offset(128))
    assert (buffer.get()[32:] == x[:32] + 1).all()
    with pytest.raises(RestrictViolation):
        launch(
            COPY.replace("Q", "__restrict__"),
            buffer,
            buffer.offset(124),
            order="reverse",
            races=False,
        )


def test_reading_one_buffer_twice_is_fine():
    text = """__global__ void k(
        const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ o) {
      o[threadIdx.x] = a[threadIdx.x] * b[31 - threadIdx.x];
    }"""
    x = normal(32)
    buffer, result = Buffer(x, name="x"), out(32)
    report = launch(text, buffer, buffer, result)
    assert (result.get() == x * x[::-1]).all()
    assert report.traffic["x"].read == 256
    text = text.replace("const float* __restrict__ a", "float* __restrict__ a")
    report = launch(text, buffer, buffer, result)
    assert report.traffic["x"].read == 256


def test_writing_by_two_parameters():
    text = """__global__ void k(float* __restrict__ a, float* b) {
      a[threadIdx.x] = 1;
      b[threadIdx.x] = 2;
    }"""
    buffer = out(32)
    with pytest.raises(RestrictViolation, match="writes byte 0 .* 'a' .* writes"):
        launch(text, buffer, buffer)


def test_the_other_checks_hold_for_aliases():
    buffer = Buffer(normal(32), name="x")
    text = """__global__ void k(const float* __restrict__ a, float* __restrict__ b, int n, int m) {
      float v = a[threadIdx.x * n];
      b[m] = v;
    }"""
    with pytest.raises(OutOfBounds, match="after the end of buffer 'x'"):
        launch(text, buffer, buffer, np.int32(0), np.int32(32))
    with pytest.raises(Race, match="write-after-write"):
        launch(text, buffer, buffer, np.int32(0), np.int32(1))


def test_aliases_see_each_others_bytes():
    """The parameters have addresses of their own, but the memory is one."""
    text = """__global__ void k(float* a, float* __restrict__ b, float* o) {
      if (threadIdx.x == 0) { a[0] = 7; o[0] = a[0]; b[1] = 8; o[1] = b[1]; }
    }"""
    buffer, result = out(4), out(2)
    launch(text, buffer, buffer, result)
    assert buffer.get()[:2].tolist() == [7, 8]
    assert result.get().tolist() == [7, 8]
    assert buffer.unwritten() == 8


def test_templates_and_name_expressions():
    text = """template <class T> __global__ void k(const T* __restrict__ a, T* b) {
      b[threadIdx.x] = a[threadIdx.x];
    }"""
    buffer = Buffer(normal(32), name="x")
    with pytest.raises(RestrictViolation):
        launch(text, buffer, buffer, name="k<float>", names=["k<float>"])
