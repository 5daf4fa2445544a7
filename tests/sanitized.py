# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest under which generated host code and its memory are checked by AddressSanitizer.

``tests/sanitize.sh`` starts it. Each array and each intermediate result is an allocation of its own or lies between
bytes that nobody may touch: elsewhere what lies behind a block is another block of the same arena, slab or cache.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

_APART = 256  #: bytes between blocks that nobody may touch

_ALLOCATOR = """
#include <stdlib.h>
static void* make(void* c, size_t n) { return malloc(n ? n : 1); }
static void* zero(void* c, size_t n, size_t m) { return calloc(n * m ? n : 1, n * m ? m : 1); }
static void* more(void* c, void* p, size_t n) { return realloc(p, n ? n : 1); }
static void gone(void* c, void* p, size_t n) { free(p); }
const char* const capsule = "mem_handler";
struct { char name[127]; unsigned char version; void* context; void* functions[4]; } handler =
    {"of the C library", 1, 0, {(void*)make, (void*)zero, (void*)more, (void*)gone}};
"""

_process = ctypes.CDLL(None)
_poison = _process.__asan_poison_memory_region
_poison.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def _address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def _use_malloc() -> None:
    """NumPy keeps freed small arrays for the next ones: have it give them back."""
    from numpy._core._multiarray_umath import _ARRAY_API

    environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    with tempfile.TemporaryDirectory(prefix="sanitized-") as folder:
        text, made = Path(folder, "a.c"), Path(folder, "a.so")
        text.write_text(_ALLOCATOR)
        subprocess.run(["gcc", "-shared", "-fPIC", str(text), "-o", str(made)], check=True, env=environment)
        library = ctypes.CDLL(str(made))
    handler = ctypes.addressof(ctypes.c_char.in_dll(library, "handler"))
    name = ctypes.c_void_p.in_dll(library, "capsule")  # outlives the capsule, which names it only
    api = ctypes.pythonapi
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    api.PyCapsule_New.restype = ctypes.py_object
    api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    table = ctypes.cast(api.PyCapsule_GetPointer(_ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))
    set_handler = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(table[304])  # PyDataMem_SetHandler
    set_handler(api.PyCapsule_New(handler, name, None))


def _aligned_bytes(nbytes: int, make=np.empty) -> np.ndarray:
    """As backends.memory.aligned_bytes; nobody may touch what is around."""
    raw = make(nbytes + 64 + _APART, np.uint8)
    start = _address(raw)
    skip = -start % 64
    _poison(start, skip)
    _poison(start + skip + nbytes, len(raw) - skip - nbytes)
    return raw[skip : skip + nbytes]


def _place(lifetimes):
    """As passes.memory.arena_offsets.allocate; no two blocks share memory, and there is a gap behind each."""
    offsets, at = [], 0
    for _, _, nbytes in lifetimes:
        offsets.append(at)
        at += -(-nbytes // 256) * 256 + _APART
    return offsets, at


def _arena(self):
    """As CpuProgram.arena, whose gaps nobody may touch."""
    if not self.free and self.program.arena_bytes:
        memory = _aligned_bytes(self.program.arena_bytes)
        base, end = _address(memory), 0
        blocks = sorted((b.index, b.nbytes) for b in self.program.buffers if b.space == "arena")
        for begin, nbytes in [*blocks, (self.program.arena_bytes, 0)]:
            if begin > end:
                _poison(base + end, begin - end)
            end = max(end, begin + nbytes)
        return memory, base
    return _ordinary(self)


_FAULT = """
extern "C" __attribute__((visibility("default"))) float sum(const float* x, long n) {
  float s = 0;
  for (long k = 0; k < n; ++k) s += x[k];
  return s;
}
"""


def _faults_are_found(backend) -> bool:
    """Whether a child that reads one element too many ends, and one that does not lives."""
    from hybridgpu.compiler.program import Unit

    with tempfile.TemporaryDirectory(prefix="sanitized-") as folder:
        file = Path(folder, "fault.so")
        file.write_bytes(backend.toolchain.compile([Unit(entries=_FAULT)], "strict", backend.store).library)
        add = ctypes.CDLL(str(file)).sum
    x = _aligned_bytes(40)
    ended = []
    for count in (10, 11):
        child = os.fork()
        if not child:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            add(ctypes.c_void_p(_address(x)), ctypes.c_long(count))
            os._exit(0)
        ended.append(os.waitpid(child, 0)[1] != 0)
    return ended == [False, True]


def pytest_configure(config):
    global _ordinary
    _use_malloc()
    from hybridgpu.backends import memory
    from hybridgpu.backends.cpu import backend
    from hybridgpu.compiler.passes.memory import buffer_assignment as planned
    from hybridgpu.runtime.dispatch import pools

    memory.aligned_bytes = memory._piece = pools.aligned_bytes = _aligned_bytes
    planned.allocate = _place
    _ordinary = backend.CpuProgram.arena
    backend.CpuProgram.arena = _arena
    found = backend.cpu_backend()
    assert found is not None, "no C++ compiler with these sanitizers"
    found.toolchain = replace(found.toolchain, flags=tuple("-O1" if f == "-O3" else f for f in found.toolchain.flags))
    if not hasattr(config, "workerinput"):
        assert _faults_are_found(found), "the sanitizer does not see what it should"


def pytest_collection_modifyitems(config, items):
    """Only host code is of interest, and nothing that is about what is replaced here."""
    emulated = {"cuda_driver", "device", "update_golden"}
    kept = [i for i in items if emulated.isdisjoint(i.fixturenames) and not i.get_closest_marker("unsanitized")]
    config.hook.pytest_deselected(items=[i for i in items if i not in set(kept)])
    items[:] = kept
