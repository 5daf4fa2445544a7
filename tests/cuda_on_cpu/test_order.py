# SPDX-License-Identifier: Apache-2.0
"""Order by other means than block barriers: __syncwarp within its mask, fences with atomics."""

from __future__ import annotations

import numpy as np
import pytest

from . import Buffer, Hang, Race, UninitialisedRead
from .native import runtime
from .support import launch, out

ORDERS = ["forward", "reverse", "shuffle"]

# The 'last block' pattern: whoever finishes last adds up what all blocks left.
LAST_BLOCK = """
__global__ void k(float* part, unsigned* count, float* o) {
  __shared__ bool last;
  part[blockIdx.x * 32 + threadIdx.x] = 1;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicInc(count, gridDim.x - 1) == gridDim.x - 1;
  __syncthreads();
  if (last) {
    float v = 0;
    for (int b = 0; b < gridDim.x; b++) v += part[b * 32 + threadIdx.x];
    o[threadIdx.x] = v;
  }
}"""


def last_block(text: str, **how):
    count, result = Buffer(np.zeros(1, np.uint32), name="count"), out(32)
    launch(text, Buffer.empty(8 * 32, np.float32, name="part"), count, result, grid=8, **how)
    assert (result.get() == 8).all()
    assert count.get()[0] == 0


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("cooperative", [False, True])
def test_the_last_block_may_read_what_all_left(order, cooperative):
    last_block(LAST_BLOCK, order=order, cooperative=cooperative)


def test_a_fence_by_one_thread_after_the_barrier_will_do():
    text = LAST_BLOCK.replace(
        "__threadfence();\n  __syncthreads();\n  if (threadIdx.x == 0)",
        "__syncthreads();\n  if (threadIdx.x == 0) __threadfence();\n  if (threadIdx.x == 0)",
    )
    assert text != LAST_BLOCK
    last_block(text)


@pytest.mark.parametrize(
    "old, new",
    [
        ("  __threadfence();\n", ""),
        ("  __threadfence();\n  __syncthreads();", "  __threadfence();"),
        ("atomicInc(count, gridDim.x - 1)", "blockIdx.x"),
    ],
    ids=["no fence", "no barrier", "no atomic"],
)
@pytest.mark.parametrize("order", ["forward", "shuffle"])
def test_the_pattern_without_one_of_its_parts_is_a_race(old, new, order):
    assert old in LAST_BLOCK
    text = LAST_BLOCK.replace(old, new)
    with pytest.raises((Race, UninitialisedRead), match="global memory 'part'"):
        # run all blocks as if last, so that the order of blocks does not hide it
        last_block(text.replace("if (last)", "if (last || blockIdx.x == gridDim.x - 1)"), order=order)


def test_knowledge_passes_on_from_block_to_block():
    """Block b waits for block b - 1, which waited for the one before: decoupled look-back."""
    text = """
    __global__ void k(float* a, int* flag, float* o) {
      if (blockIdx.x > 0) {
        if (threadIdx.x == 0) {
          while (atomicAdd(flag + blockIdx.x - 1, 0) == 0);
          __threadfence();
        }
        __syncthreads();
      }
      a[blockIdx.x * 32 + threadIdx.x] = blockIdx.x;
      if (blockIdx.x == 3) o[threadIdx.x] = a[threadIdx.x];  // by three hand-overs
      __syncthreads();
      if (threadIdx.x == 0) { __threadfence(); atomicExch(flag + blockIdx.x, 1); }
    }"""
    for order in ORDERS:
        flags = Buffer(np.zeros(4, np.int32), name="flag")
        buffer = Buffer.empty(128, np.float32, name="a")
        launch(text, buffer, flags, out(32), grid=4, cooperative=True, order=order)
    with pytest.raises((Race, UninitialisedRead), match="'a'"):
        flags = Buffer(np.ones(4, np.int32), name="flag")
        buffer = Buffer.empty(128, np.float32, name="a")
        launch(text, buffer, flags, out(32), grid=4, cooperative=True, order="reverse")


def test_syncwarp_orders_the_lanes_of_its_mask_only():
    text = """__global__ void k(float* o) {
      __shared__ float s[32];
      s[threadIdx.x] = 1;
      __syncwarp(threadIdx.x < 16 ? 0xffffu : 0xffff0000u);
      o[threadIdx.x] = s[threadIdx.x ^ FLIP];
    }"""
    for order in ORDERS:
        launch(text.replace("FLIP", "15"), out(32), order=order)
        with pytest.raises((Race, UninitialisedRead)):
            launch(text.replace("FLIP", "16"), out(32), order=order)


def test_syncwarp_is_transitive():
    """Lane 0 to lane 1 by one mask, lane 1 to lane 2 by another."""
    text = """__global__ void k(float* o) {
      __shared__ float s;
      if (threadIdx.x == 0) s = 5;
      if (threadIdx.x < 2) __syncwarp(3);
      if (threadIdx.x == 1 || threadIdx.x == 2) __syncwarp(6);
      if (threadIdx.x == 2) o[0] = s;
    }"""
    for order in ORDERS:
        launch(text, out(1), order=order)
    with pytest.raises((Race, UninitialisedRead)):
        launch(text.replace("__syncwarp(3)", "__syncwarp(1u << threadIdx.x)"), out(1), order="shuffle")


def test_syncwarp_does_not_order_warps():
    text = """__global__ void k(float* o) {
      __shared__ float s[64];
      s[threadIdx.x] = 1;
      __syncwarp();
      o[threadIdx.x] = s[threadIdx.x ^ 32];
    }"""
    for order in ORDERS:
        with pytest.raises((Race, UninitialisedRead)):
            launch(text, out(64), block=64, order=order)


def test_warp_synchronous_code_is_a_race_volatile_or_not():
    text = """__global__ void k(float* o) {
      __shared__ QUALIFIER float s[64];
      s[threadIdx.x] = threadIdx.x; s[threadIdx.x + 32] = 0;
      __syncwarp();
      for (int d = 16; d; d >>= 1) s[threadIdx.x] += s[threadIdx.x + d];
      if (threadIdx.x == 0) o[0] = s[0];
    }"""
    for qualifier in ("volatile", ""):
        with pytest.raises(Race):
            launch(text.replace("QUALIFIER", qualifier), out(1))


def test_readers_and_a_later_writer_in_another_block():
    text = """__global__ void k(float* a, float* o) {
      o[blockIdx.x] = a[0];
      if (blockIdx.x == 5) a[0] = 1;
    }"""
    for order in ORDERS:
        with pytest.raises(Race, match="'a'"):
            launch(text, Buffer(np.zeros(1, np.float32), name="a"), out(), grid=6, block=1, order=order)


def test_launches_follow_one_another_in_order():
    buffer = out(32)
    launch("__global__ void k(float* o) { o[threadIdx.x] = threadIdx.x; }", buffer)
    launch(
        "__global__ void k(float* o) { if (!threadIdx.x) for (int i = 0; i < 32; i++) o[i] += 1; }",
        buffer,
    )
    assert (buffer.get() == np.arange(32) + 1).all()


def test_the_logical_clock_may_wrap():
    half = Buffer.empty(64, np.float32, name="half")
    launch("__global__ void k(float* o) { o[threadIdx.x] = 1; }", half)
    text = """__global__ void k(float* a, float* o) {
      __shared__ float s[32];
      s[threadIdx.x] = a[threadIdx.x];
      __syncthreads();
      o[threadIdx.x] = s[31 - threadIdx.x];
    }"""
    runtime().coc_set_clock(0xF0000001)
    for _ in range(3):
        launch(text, half, out(32))
    assert half.initialised().tolist() == [True] * 32 + [False] * 32
    with pytest.raises(UninitialisedRead, match="'half' byte 128"):
        launch(text.replace("= a[threadIdx.x]", "= a[threadIdx.x + 32]"), half, out(32))
    with pytest.raises((Race, UninitialisedRead)):
        launch(text.replace("__syncthreads();", ""), half, out(32), order="reverse")


# -- accesses that have an order and a scope
SIGNAL = """
__global__ void k(float* a, unsigned* flag, float* o) {
  if (blockIdx.x == 0) {
    a[threadIdx.x] = 5;
    __syncthreads();
    if (threadIdx.x == 0) asm volatile("RELEASE.global.SET [%0], %1;" : : "l"(flag), "r"(1u) : "memory");
  } else {
    if (threadIdx.x == 0) {
      unsigned seen;
      do asm volatile("ACQUIRE.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory"); while (!seen);
      LATER
    }
    __syncthreads();
    o[threadIdx.x] = a[threadIdx.x];
  }
}"""


def signal(release: str, acquire: str, later: str = "", **how) -> None:
    kind = "u32" if release.startswith("st") else "add.u32"
    text = SIGNAL.replace("RELEASE", release).replace("SET", kind).replace("ACQUIRE", acquire).replace("LATER", later)
    if release.startswith("atom"):
        text = text.replace('[%0], %1;" : :', '%0, [%1], %2;" : "=r"(*o_) :').replace(
            "float* o)", "float* o, unsigned* o_)"
        )
    result, more = out(64), [out(1, np.uint32)] if release.startswith("atom") else []
    buffers = Buffer.empty(64, np.float32, name="a"), Buffer(np.zeros(1, np.uint32), name="flag"), result, *more
    launch(text, *buffers, grid=2, block=64, cooperative=True, **how)
    assert (result.get() == 5).all()


FENCE = 'asm volatile("fence.acq_rel.gpu;" ::: "memory");'


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("release", ["red.release.gpu", "st.release.gpu", "atom.release.sys", "atom.acq_rel.gpu"])
@pytest.mark.parametrize(
    "acquire, later", [("ld.acquire.gpu", ""), ("ld.acquire.sys", ""), ("ld.relaxed.gpu", FENCE)], ids=str
)
def test_a_release_and_an_acquire_order_what_lies_around_them(release, acquire, later, order):
    signal(release, acquire, later, order=order)


NO_ORDER = {
    "a relaxed write": ("red.relaxed.gpu", "ld.acquire.gpu", ""),
    "a relaxed store": ("st.relaxed.gpu", "ld.acquire.gpu", ""),
    "no word is relaxed": ("red", "ld.acquire.gpu", ""),
    "an acquire that writes": ("atom.acquire.gpu", "ld.acquire.gpu", ""),
    "a relaxed read": ("red.release.gpu", "ld.relaxed.gpu", ""),
    "a fence of the block": ("red.release.gpu", "ld.relaxed.gpu", FENCE.replace("gpu", "cta")),
}


@pytest.mark.parametrize("what", NO_ORDER)
@pytest.mark.parametrize("order", ORDERS)
def test_other_accesses_order_nothing(what, order):
    with pytest.raises((Race, UninitialisedRead), match="'a'"):
        signal(*NO_ORDER[what], order=order)


@pytest.mark.parametrize(
    "release, acquire", [("red.release.cta", "ld.acquire.gpu"), ("red.release.gpu", "ld.acquire.cta")]
)
@pytest.mark.parametrize("order", ORDERS)
def test_a_scope_that_leaves_the_other_block_out_orders_nothing(release, acquire, order):
    with pytest.raises((Race, UninitialisedRead), match="'a'|'flag'"):
        signal(release, acquire, order=order)


def test_a_store_hides_what_was_released_before():
    """Who reads the later value has synchronised with whoever stored it, and with nobody else."""
    text = """
    __global__ void k(float* a, unsigned* flag, float* o) {
      unsigned seen = 0;
      if (blockIdx.x == 0) { a[0] = 5; asm volatile("red.release.gpu.global.add.u32 [%0], 1;" :: "l"(flag) : "memory"); }
      if (blockIdx.x == 1) {
        while (!seen) asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
        asm volatile("OP" :: "l"(flag), "r"(2u) : "memory");
      }
      if (blockIdx.x == 2) {
        while (seen < 2) asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
        o[0] = a[0];
      }
    }"""
    for op in ("red.relaxed.gpu.global.add.u32 [%0], %1;", "st.relaxed.gpu.global.u32 [%0], %1;"):
        buffers = Buffer.empty(1, np.float32, name="a"), Buffer(np.zeros(1, np.uint32), name="flag"), out(1)
        # (in another order of blocks the last may see the first value, too)
        how = {"grid": 3, "block": 1, "cooperative": True, "order": "forward"}
        if op.startswith("red"):
            launch(text.replace("OP", op), *buffers, **how)
            continue
        with pytest.raises((Race, UninitialisedRead), match="'a'"):
            launch(text.replace("OP", op), *buffers, **how)


def test_a_release_is_no_fence_for_later_writes():
    text = """
    __global__ void k(float* a, unsigned* flag, float* o) {
      if (blockIdx.x == 0) {
        asm volatile("red.release.gpu.global.add.u32 [%0], 1;" :: "l"(flag + 1) : "memory");
        a[0] = 5;
        asm volatile("SECOND.global.add.u32 [%0], 1;" :: "l"(flag) : "memory");
      } else {
        unsigned seen = 0;
        while (!seen) asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
        o[0] = a[0];
      }
    }"""
    for order in ORDERS:
        for second in ("red.release.gpu", "red.relaxed.gpu"):
            buffers = Buffer.empty(1, np.float32, name="a"), Buffer(np.zeros(2, np.uint32), name="flag"), out(1)
            how = {"grid": 2, "block": 1, "cooperative": True, "order": order}
            if second == "red.release.gpu":
                launch(text.replace("SECOND", second), *buffers, **how)
                continue
            with pytest.raises((Race, UninitialisedRead), match="'a'"):
                launch(text.replace("SECOND", second), *buffers, **how)


OPERATIONS = {"add": 12, "exch": 5, "min": 5, "max": 7, "and": 5, "or": 7, "xor": 2}


@pytest.mark.parametrize("op", OPERATIONS)
def test_what_atomics_compute(op):
    bits = "b32" if op in ("exch", "and", "or", "xor") else "u32"
    text = f"""__global__ void k(unsigned* a, unsigned* o) {{
      asm volatile("atom.relaxed.gpu.global.{op}.{bits} %0, [%1], %2;" : "=r"(*o) : "l"(a), "r"(5u) : "memory");
      asm volatile("red.relaxed.gpu.global.{op}.{bits} [%0], %1;" : : "l"(a + 1), "r"(5u) : "memory");
    }}"""
    a, old = Buffer(np.full(2, 7, np.uint32), name="a"), out(1, np.uint32)
    assert launch(text, a, old, block=1).atomics == 2
    assert a.get().tolist() == [OPERATIONS[op]] * 2 and old.get()[0] == 7


def test_a_flag_that_nobody_sets_is_a_deadlock():
    """Reported at once, and not by the time it takes; waiting for what comes late is none."""
    text = """
    __global__ void k(unsigned* flag, int* n) {
      if (blockIdx.x == 0) { for (int i = 0; i < 200000; i++) atomicAdd(n, 1); SET }
      WAIT
    }"""
    loop = "while (*(volatile unsigned*)flag == 0);"
    ptx = """unsigned v = 0; while (!v) asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(flag) : "memory");"""
    for wait in (loop, ptx):
        for order in ORDERS:
            how = {"grid": 3, "block": 64, "cooperative": True, "order": order, "timeout": 0}
            for last in ("atomicExch(flag, 1u);", ""):
                buffers = Buffer(np.zeros(1, np.uint32), name="flag"), Buffer(np.zeros(1, np.int32), name="n")
                changed = (
                    text.replace("WAIT", wait).replace("SET", last).replace("200000", "20" if not last else "3000")
                )
                if last:
                    launch(changed, *buffers, **how)
                    continue
                with pytest.raises(Hang, match=r"(?s)deadlock: every thread that is left waits, .*while"):
                    launch(changed, *buffers, **how)
