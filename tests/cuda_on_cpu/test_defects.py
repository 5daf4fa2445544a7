# SPDX-License-Identifier: Apache-2.0
"""Every kind of fault, each from the smallest kernel that has the defect; and near misses pass."""

from __future__ import annotations

import ctypes
import sys
import threading

import numpy as np
import pytest

from . import (
    BadLaunch,
    BarrierFault,
    Buffer,
    Hang,
    Misaligned,
    Module,
    OutOfBounds,
    Race,
    UndefinedBehaviour,
    UninitialisedRead,
    WarpFault,
)
from .support import inject, launch, normal, out

DEFECTS = {
    "before the buffer": (
        OutOfBounds,
        "4 bytes before buffer 'out'",
        "o[(int)threadIdx.x - 1] = 1;",
        {},
    ),
    "far away": (OutOfBounds, "wild address|after the end", "o[1 << 28] = 1;", {}),
    "read past the end": (
        OutOfBounds,
        "after the end",
        "o[threadIdx.x] = o[threadIdx.x + 64];",
        {},
    ),
    "null pointer": (OutOfBounds, "null pointer", "*(float*)(size_t)(threadIdx.x * 4) = 1;", {}),
    "declared array": (
        OutOfBounds,
        "index 32 is outside",
        "__shared__ float s[32]; s[threadIdx.x + 1] = 1; __syncthreads(); o[threadIdx.x] = s[0];",
        {},
    ),
    "shared through a pointer": (
        OutOfBounds,
        "shared memory|overrun",
        "__shared__ float s[32]; float* p = s; p[threadIdx.x * 64] = 1; o[threadIdx.x] = p[0];",
        {},
    ),
    "dynamic shared": (
        OutOfBounds,
        "at byte 64 of dynamic shared memory, launched with 64 bytes",
        "extern __shared__ float s[]; s[threadIdx.x] = 1;",
        {"shared_mem": 64},
    ),
    "another thread's local memory": (
        OutOfBounds,
        "local memory",
        "__shared__ float* s; float v = 1; if (!threadIdx.x) s = &v; __syncthreads(); o[threadIdx.x] = *s;",
        {},
    ),
    "unwritten shared": (
        UninitialisedRead,
        "shared memory 's' byte 128",
        "__shared__ float s[64]; s[threadIdx.x] = 1; __syncthreads(); o[threadIdx.x] = s[threadIdx.x + 16];",
        {},
    ),
    "unwritten global": (UninitialisedRead, "global", "o[threadIdx.x] += 1;", {}),
    "returned before the barrier": (
        BarrierFault,
        "barrier not reached by all threads: 16 of 32",
        "if (threadIdx.x >= 16) return; __syncthreads(); o[threadIdx.x] = 1;",
        {},
    ),
    "two barriers": (
        BarrierFault,
        "divergent barrier",
        "\nif (threadIdx.x < 16)\n __syncthreads();\n else\n __syncthreads();\n",
        {},
    ),
    "exited lane": (
        WarpFault,
        "has exited",
        "if (threadIdx.x == 5) return; o[threadIdx.x] = __shfl_xor_sync(~0u, 1.f, 1);",
        {},
    ),
    "mask without the caller": (
        WarpFault,
        "lacks its own lane",
        "o[threadIdx.x] = __shfl_xor_sync(0xffffu, 1.f, 1);",
        {},
    ),
    "mask with absent lanes": (
        WarpFault,
        "does not exist",
        "o[threadIdx.x] = __shfl_xor_sync(~0u, 1.f, 1);",
        {"block": 48},
    ),
    "shuffle from outside the mask": (
        WarpFault,
        "reads lane 16",
        "if (threadIdx.x < 16) o[threadIdx.x] = __shfl_down_sync(0xffffu, 1.f, 1);",
        {},
    ),
    "shuffle width": (
        WarpFault,
        "width 12",
        "o[threadIdx.x] = __shfl_down_sync(~0u, 1.f, 1, 12);",
        {},
    ),
    "different warp operations": (
        WarpFault,
        "different warp operations",
        "\nif (threadIdx.x & 1)\n __syncwarp();\n else\n __shfl_xor_sync(~0u, 1, 1);\n",
        {},
    ),
    "barrier against warp operation": (
        BarrierFault,
        "deadlock",
        "if (threadIdx.x < 16) __syncthreads(); else __syncwarp();",
        {},
    ),
    "all write one place": (Race, "write-after-write race on global", "o[0] = threadIdx.x;", {}),
    "blocks write one place": (
        Race,
        "race on global memory 'out'",
        "o[threadIdx.x] = blockIdx.x;",
        {"grid": 2},
    ),
    "a shuffle does not order memory": (
        Race,
        "shared",
        "__shared__ float s[32]; s[threadIdx.x] = 1; float v = __shfl_xor_sync(~0u, 1.f, 1);"
        " o[threadIdx.x] = s[threadIdx.x ^ 1] + v;",
        {},
    ),
    "plain read of an atomic's target": (
        Race,
        "race on shared memory 's'",
        "__shared__ int s; if (!threadIdx.x) s = 0; __syncthreads(); atomicAdd(&s, 1); o[threadIdx.x] = s;",
        {},
    ),
    "shift": (
        UndefinedBehaviour,
        "shift",
        "int n = 16; o[threadIdx.x] = 1 << (n + threadIdx.x);",
        {},
    ),
    "signed overflow": (
        UndefinedBehaviour,
        "signed overflow",
        "int n = threadIdx.x + 2147483640; o[threadIdx.x] = n;",
        {"block": 1024, "fix": "int n = (int)threadIdx.x + 2147483640;"},
    ),
    "division by zero": (
        UndefinedBehaviour,
        "division by zero",
        "o[threadIdx.x] = 7 / (int)threadIdx.x;",
        {},
    ),
    "assert": (
        UndefinedBehaviour,
        "assertion failed: threadIdx.x < 8",
        "assert(threadIdx.x < 8);",
        {},
    ),
    "trap": (UndefinedBehaviour, r"__trap\(\)", "__trap();", {}),
    "misaligned atomic": (
        Misaligned,
        "atomic",
        "atomicAdd((int*)((char*)o + 2), 1);",
        {},
    ),
    "misaligned half-word": (
        Misaligned,
        "multiple of 2",
        "*(short*)((char*)o + 1) = 1;",
        {},
    ),
}


@pytest.mark.parametrize("order", ["forward", "reverse", "shuffle"])
@pytest.mark.parametrize("defect", DEFECTS)
def test_defect_is_caught_in_every_order(defect, order):
    kind, message, body, how = DEFECTS[defect]
    how = dict(how)
    if "fix" in how:
        body = inject(body, body.split(";")[0] + ";", how.pop("fix"))
    message = message if order == "forward" else ".*"
    with pytest.raises(kind, match=message):
        launch(f"__global__ void k(float* o) {{ {body} }}", out(), order=order, **how)


def test_near_misses_pass():
    launch(
        "__global__ void k(float* o) { __shared__ float s[32]; s[threadIdx.x] = 1; __syncwarp();"
        " o[threadIdx.x] = s[threadIdx.x ^ 1]; }",
        out(),
    )
    launch(
        "__global__ void k(float* o) { if (threadIdx.x == 0) o[blockIdx.x] = blockIdx.x; }",
        out(),
        grid=4,
    )


def test_a_fault_inside_an_inlined_helper_names_both_lines():
    text = "__device__ void put(float* o, int i) {\n  o[i] = 1;\n}\n"
    text += "__global__ void k(float* o) {\n put(o, 99);\n}"
    with pytest.raises(OutOfBounds) as caught:
        launch(text, out())
    assert caught.value.line == 2
    assert caught.value.where == ("kernel.cu:2", "kernel.cu:5")


def test_wrong_arguments_are_refused():
    kernel = Module("__global__ void k(float* o, float s, int n) {}")["k"]
    scale, count = np.float32(1), np.int32(1)
    for bad in [
        (out(), np.float64(1), count),
        (out(), scale, np.int64(1)),
        (out(), 1.0, count),
        (np.uint64(0), scale, count),
        (out(),),
        (scale, scale, count),
    ]:
        with pytest.raises(BadLaunch):
            kernel(1, 32, bad)
    kernel(1, 32, (None, scale, count))


def test_a_pointer_into_nothing_is_refused():
    kernel = Module("__global__ void k(float* o) {}")["k"]
    freed = out()
    pointer = freed.offset(0)
    freed.free()
    for bad in (freed, pointer):
        with pytest.raises(BadLaunch, match="freed|points into no live buffer"):
            kernel(1, 32, (bad,))


@pytest.mark.parametrize(
    "grid, block, how",
    [
        (0, 32, {}),
        (1, 0, {}),
        (1, 1025, {}),
        (1, (1, 1, 65), {}),
        ((1, 65536), 32, {}),
        (3, 32, {"cluster": 2}),
        (1, 32, {"shared_mem": 228 * 1024}),
        (1024, 1024, {"cooperative": True}),
        ((1, 2, 3, 4), 32, {}),
        (-1, 32, {}),
    ],
)
def test_impossible_launches_are_refused(grid, block, how):
    with pytest.raises(BadLaunch):
        launch("__global__ void k() {}", grid=grid, block=block, **how)


def test_launch_bounds_are_enforced():
    text = "__global__ void __launch_bounds__(4 * 32) k() {}"
    launch(text, block=128)
    with pytest.raises(BadLaunch, match="__launch_bounds__"):
        launch(text, block=129)


ENDLESS = [
    "for (;;) o[threadIdx.x] = 1;",
    "for (;;) __syncthreads();",
    "unsigned x = threadIdx.x; while (x != 1u << 31) x = x * 4 + 1; o[0] = x;",
    "while (atomicAdd((int*)o, 0) != 7);",
    "volatile float* v = o; while (v[0] != 7.f);",
]


@pytest.mark.parametrize("body", ENDLESS)
def test_a_kernel_that_never_ends_is_stopped(body):
    text = f"__global__ void k(float* o) {{ {body} }}"
    for _ in range(2):
        with pytest.raises(Hang, match="still running|deadlock"):
            launch(text, Buffer(np.zeros(64, np.float32), name="out"), timeout=0.2)


def test_stack_overflow_is_a_fault():
    text = """
    __device__ __noinline__ float deep(const float* p, int n) {
      volatile float big[256];
      big[n & 255] = p[0];
      return n ? deep((float*)big, n - 1) + big[1] : 0.f;
    }
    __global__ void k(float* o) { o[threadIdx.x] = deep(o, 1000000); }"""
    for check in (True, False):
        with pytest.raises((UndefinedBehaviour, UninitialisedRead), match="stack overflow"):
            launch(text, Buffer(normal(64), name="out"), check=check)


def test_crashes_of_unchecked_kernels_are_faults():
    text = "__global__ void k(float* o, int n) { o[(size_t)n * 1000000007u] = 1; }"
    for _ in range(3):
        with pytest.raises(OutOfBounds, match="crashes at address"):
            launch(text, out(), np.int32(5), check=False)
    with pytest.raises(UndefinedBehaviour, match="division"):
        launch(
            "__global__ void k(int* o, int n) { o[0] = 5 / n; }",
            out(4, np.int32),
            np.int32(0),
            check=False,
        )


def test_the_process_survives_many_faults():
    text = "__global__ void k(float* o) { __syncthreads(); o[threadIdx.x * 1000] = 1; }"
    for _ in range(50):
        with pytest.raises(OutOfBounds):
            launch(text, out())
    launch("__global__ void k(float* o) { o[threadIdx.x] = 1; }", out())


@pytest.mark.parametrize(
    ("body", "grid", "kind", "off"),
    [
        ("o[0] = threadIdx.x;", 1, Race, {"races": False}),
        ("o[threadIdx.x] = blockIdx.x;", 2, Race, {"races": "block"}),
        ("o[threadIdx.x] += 1;", 1, UninitialisedRead, {"uninit": False}),
    ],
)
def test_checks_can_be_turned_off(body, grid, kind, off):
    text = f"__global__ void k(float* o) {{ {body} }}"
    with pytest.raises(kind):
        launch(text, out(), grid=grid)
    launch(text, out(), grid=grid, **off)


def test_writing_what_the_read_only_path_reads_is_a_race():
    text = "__global__ void k(float* o) { o[threadIdx.x] = __ldg(o + threadIdx.x) + 1; }"
    with pytest.raises(Race, match="read-only path"):
        launch(text, Buffer(normal(64), name="out"))
    text = """__global__ void k(float* o) {
      o[threadIdx.x] = 1;
      o[threadIdx.x + 32] = __ldg(o + threadIdx.x);
    }"""
    with pytest.raises(Race, match="read-only path"):
        launch(text, Buffer(normal(64), name="out"))


def test_memory_functions_are_checked():
    text = "__global__ void k(char* o, int n) { memcpy(o, o + 64, n); }"
    buffer = Buffer(np.arange(128, dtype=np.uint8), name="out")
    launch(text, buffer, np.int32(64), block=1)
    assert buffer.get()[:64].tolist() == list(range(64, 128))
    with pytest.raises(OutOfBounds, match="65 bytes at byte 64 of buffer 'out'"):
        launch(text, buffer, np.int32(65), block=1)
    with pytest.raises(OutOfBounds):
        launch("__global__ void k(char* o, int n) { memset(o, 1, n); }", buffer, np.int32(129), block=1)


def test_launches_from_another_thread():
    """Faults, crashes and timeouts find the thread that launched."""
    caught: list[type] = []

    def work() -> None:
        for body, check in [
            ("o[99] = 1;", True),
            ("o[(size_t)1 << 40] = 1;", False),
            ("for (;;) o[threadIdx.x] = 1;", True),
            ("unsigned x = 1; while (x) x = x * 4 + 1; o[0] = x;", False),
        ]:
            try:
                text = f"__global__ void k(float* o) {{ {body} }}"
                launch(text, out(), check=check, timeout=0.2)
            except Exception as error:
                caught.append(type(error))

    for _ in range(2):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert caught == [OutOfBounds, OutOfBounds, Hang, Hang] * 2
    launch("__global__ void k(float* o) { o[threadIdx.x] = 1; }", out())


def alternate_stack() -> tuple[int | None, int, int]:
    """Address, flags and size of where this thread's signal handlers run that ask for a stack of their own."""

    class Stack(ctypes.Structure):
        _fields_ = (("address", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t))

    stack = Stack()
    assert ctypes.CDLL(None).sigaltstack(None, ctypes.byref(stack)) == 0
    return stack.address, stack.flags, stack.size


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the structure differs")
@pytest.mark.parametrize("body", ["o[threadIdx.x] = 1;", "o[(size_t)1 << 40] = 1;"], ids=["plain", "crash"])
def test_a_launch_gives_its_signal_stack_back(body: str) -> None:
    """It is one for all threads, of which one launches at a time; the others may get signals then."""
    found: list[object] = []

    def work() -> None:
        found.append(alternate_stack())
        try:
            launch(f"__global__ void k(float* o) {{ {body} }}", out(), check=False)
        except OutOfBounds:
            found.append("a fault")
        found.append(alternate_stack())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    before, *fault, after = found
    assert after == before
    assert fault == ["a fault"] * ("<<" in body)


def test_volatile_and_atomic_accesses_of_global_memory_do_not_race():
    text = """__global__ void k(int* flag, int* o) {
      if (blockIdx.x == 0) atomicExch(flag, 1);
      else o[threadIdx.x] = *(volatile int*)flag;
    }"""
    for order in ("forward", "reverse"):
        flag = Buffer(np.zeros(1, np.int32), name="flag")
        launch(text, flag, out(32, np.int32), grid=2, order=order)
        with pytest.raises(Race, match="'flag'"):
            plain = text.replace("*(volatile int*)flag", "*flag")
            launch(plain, flag, out(32, np.int32), grid=2, order=order)
