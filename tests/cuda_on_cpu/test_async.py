# SPDX-License-Identifier: Apache-2.0
"""Asynchronous copies: data arrives at the wait, and nothing may touch it before."""

from __future__ import annotations

import numpy as np
import pytest

from . import (
    Buffer,
    CompileError,
    Misaligned,
    OutOfBounds,
    Race,
    UndefinedBehaviour,
    UninitialisedRead,
)
from .support import launch, normal, out

PRIMITIVES = "#include <cuda_pipeline.h>\n"

# Double-buffered: tile i + 1 travels while tile i is used.
PIPELINE = """
__global__ void k(const float* x, float* o, int tiles) {
  __shared__ float s[2][128];
  const int t = threadIdx.x;
  COPY(&s[0][4 * t], x + 4 * t);
  COMMIT;
  float v = 0;
  for (int i = 0; i < tiles; i++) {
    if (i + 1 < tiles) COPY(&s[(i + 1) % 2][4 * t], x + (i + 1) * 128 + 4 * t);
    COMMIT;
    WAIT(1);
    __syncthreads();  // arrived
    for (int j = 0; j < 4; j++) v += s[i % 2][(4 * t + j + 4) % 128];
    __syncthreads();  // used
  }
  o[t] = v;
}"""
STYLES = {
    "primitives": PRIMITIVES
    + """
#define COPY(to, from) __pipeline_memcpy_async(to, from, 16)
#define COMMIT __pipeline_commit()
#define WAIT(n) __pipeline_wait_prior(n)
""",
    "ptx": """
#define COPY(to, from) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" \\
    :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory")
#define COMMIT asm volatile("cp.async.commit_group;")
#define WAIT(n) asm volatile("cp.async.wait_group %0;" :: "n"(n))
""",
}


def pipeline(text: str, tiles: int = 5, **how):
    x = np.round(normal(tiles, 128) * 8)
    result = out(32)
    report = launch(text, Buffer(x, name="x"), result, np.int32(tiles), **how)
    expected = np.roll(x.sum(0), -4).reshape(32, 4).sum(1)
    assert (result.get() == expected).all()
    return report


@pytest.mark.parametrize("order", ["forward", "reverse", "shuffle"])
@pytest.mark.parametrize("style", STYLES)
def test_a_pipeline(style, order):
    report = pipeline(STYLES[style] + PIPELINE, order=order)
    assert (report.async_copies, report.async_bytes) == (5 * 32, 5 * 512)
    assert report.traffic["x"].read == 5 * 512
    assert report.wide_loads == 5 * 32
    pipeline(STYLES[style] + PIPELINE, order=order, check=False)


DEFECTS = {
    "waits for too little": ("WAIT(1)", "WAIT(2)"),
    "does not wait": ("WAIT(1);", ""),
    "does not commit": ("COMMIT;\n    WAIT(1);", "WAIT(0);"),
    "no barrier after the wait": ("__syncthreads();  // arrived", ""),
    "no barrier before reuse": ("__syncthreads();  // used", ""),
}


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("defect", DEFECTS)
def test_defects_of_a_pipeline(style, defect):
    text = STYLES[style] + PIPELINE
    old, new = DEFECTS[defect]
    assert old in text
    with pytest.raises((Race, UninitialisedRead), match="in flight|race on shared|nothing has written"):
        pipeline(text.replace(old, new))


def one_copy(body: str, **how):
    text = (
        STYLES["primitives"]
        + f"""__global__ void k(float* x, float* o) {{
      __shared__ float s[64];
      const int t = threadIdx.x;
      {body}
      o[t] = s[t];
    }}"""
    )
    result = out(32)
    launch(text, Buffer(np.arange(64, dtype=np.float32), name="x"), result, **how)
    return result.get()


def test_small_copies_and_zero_fill():
    assert (one_copy("__pipeline_memcpy_async(s + t, x + t, 4); COMMIT; WAIT(0);") == np.arange(32)).all()
    body = """if (t < 8) __pipeline_memcpy_async(s + 4 * t, x + 4 * t, 16, t == 7 ? 12 : 0);
      COMMIT; WAIT(0); __syncthreads();"""
    assert (one_copy(body) == np.r_[np.arange(29), 0, 0, 0]).all()


def test_zero_fill_may_stand_for_what_lies_past_the_end():
    """The usual guard at a matrix's edge: the source size is 0 where the source is outside."""
    text = """__global__ void k(const float* x, float* o, int n) {
      __shared__ float s[128];
      const int t = threadIdx.x, left = min(16, max(0, 4 * (n - 4 * t)));
      asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;"
                   :: "r"((unsigned)__cvta_generic_to_shared(s + 4 * t)), "l"(x + 4 * t),
                      "r"(left));
      asm volatile("cp.async.wait_all;");
      for (int j = 0; j < 4; j++) o[4 * t + j] = s[4 * t + j];
    }"""
    result = out(128)
    launch(text, Buffer(np.ones(50, np.float32), name="x"), result, np.int32(50))
    assert (result.get() == (np.arange(128) < 50)).all()
    with pytest.raises(OutOfBounds, match="buffer 'x'"):
        launch(text, Buffer(np.ones(50, np.float32), name="x"), out(128), np.int32(54))


BAD_COPIES = [
    (UndefinedBehaviour, "of 12 bytes", "__pipeline_memcpy_async(s, x, 12);"),
    (Misaligned, "not aligned", "__pipeline_memcpy_async(s + 1, x, 16);"),
    (OutOfBounds, "not shared memory", "__pipeline_memcpy_async(o, x, 16);"),
    (OutOfBounds, "not from global", "__pipeline_memcpy_async(s, s + 4, 16);"),
    (OutOfBounds, "buffer 'x'", "__pipeline_memcpy_async(s, x + 64, 4);"),
    (OutOfBounds, "overrun", "__pipeline_memcpy_async(s + 64 + t, x, 4);"),
    (
        Race,
        "written by .* while an asynchronous copy from it is in flight",
        "__pipeline_memcpy_async(s + t, x + t, 4); x[t] = 5; COMMIT; WAIT(0);",
    ),
    (Race, "in flight", "__pipeline_memcpy_async(s + t, x + t, 4); s[t] = 5; COMMIT; WAIT(0);"),
]


@pytest.mark.parametrize("kind, message, body", BAD_COPIES)
def test_bad_copies(kind, message, body):
    with pytest.raises(kind, match=message):
        one_copy(body)


def test_cg_copies_sixteen_bytes():
    text = 'asm volatile("cp.async.cg.shared.global [%0], [%1], 8;" :: "r"(0u), "l"(o));'
    with pytest.raises(CompileError, match="copies 16 bytes"):
        launch(f"__global__ void k(float* o) {{ {text} }}", out())


PREFETCH = """__global__ void k(const float* x, float* o, int from, int bytes) {
  for (int at = from + 128 * threadIdx.x; at < bytes; at += 128 * 32)
    asm volatile("prefetch.global.L2 [%0];" : : "l"((const char*)x + at));
  o[threadIdx.x] = x[threadIdx.x];
}"""


def test_prefetches_are_counted_and_are_no_reads():
    """A buffer begins a line; the last one ends with it."""
    report = launch(PREFETCH, Buffer(np.ones(1000, np.float32), name="x"), out(), np.int32(0), np.int32(4000))
    assert (report.prefetches, report.prefetched) == (32, 4000)
    assert report.traffic["x"].read == report.traffic["x"].read_unique == 128


@pytest.mark.parametrize("begin, end", [(0, 4001), (-4, 4000)])
def test_prefetches_outside_of_buffers(begin, end):
    with pytest.raises(OutOfBounds, match="prefetch at .*, which is in no buffer of the launch"):
        launch(PREFETCH, Buffer(np.ones(992, np.float32), name="x"), out(), np.int32(begin), np.int32(end))
