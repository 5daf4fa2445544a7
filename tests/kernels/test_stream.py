# SPDX-License-Identifier: Apache-2.0
"""kernels/stream_cpu.h on every kind of processor: what is stored past the caches is what is stored through them.

Programs are compiled for the processor at hand, which takes one of the header's ways; here it takes each of them.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from pathlib import Path

import numpy as np
import pytest
from guard_pages import guarded

sys.path.insert(0, str(Path(__file__).resolve().parent))
import math_library as ml  # noqa: E402  (of this folder)
from math_accuracy import cpu_flags  # noqa: E402

pytestmark = pytest.mark.skipif(
    ml.CXX is None or platform.machine() != "x86_64", reason="no C++ compiler for x86-64, whose ways these are"
)

#: what a compiler is told -> the widest store past the caches in bytes, and what the processor must have for it
WAYS = {
    "-march=skylake-avx512": (64, ("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd")),
    "-march=haswell": (32, ("avx2", "fma", "bmi2")),
    "-march=x86-64": (16, ()),
    "-march=x86-64 -U__SSE2__": (0, ()),  # as on a processor of another kind: there are none
}
TYPES = {"float": np.float32, "double": np.float64, "short": np.int16, "char": np.int8}

TEXT = """
#include "cpu.h"
#include "stream_cpu.h"
extern "C" int widest() {
#ifdef HG_STREAM
  return HG_STREAM;
#else
  return 0;
#endif
}
extern "C" bool streams(Index bytes) { return hg::exceeds_caches(bytes); }
extern "C" Index cached() { return HG_CACHED; }
extern "C" bool aligned(const void* p) { return hg::aligned(p); }
"""
OF_TYPE = """
extern "C" Index head_T(const T* p, bool past) { return hg::unaligned_prefix(p, past); }
extern "C" void put_T(T* to, const T* from, bool past) {
  hg::store_block<128 / sizeof(T)>(to, from, past);
  hg::streaming_fence();
}
"""


@pytest.fixture(scope="module", params=WAYS)
def way(request, tmp_path_factory):
    """(the library compiled in a way, the widest store that it should have)."""
    widest, needed = WAYS[request.param]
    if not set(needed) <= cpu_flags():
        pytest.skip("the processor has no such instructions")
    out = tmp_path_factory.mktemp("stream") / "stream.so"
    text = TEXT + "".join(OF_TYPE.replace("_T", f"_{t}").replace("T*", f"{t}*").replace("(T)", f"({t})") for t in TYPES)
    ml.compile_text(text, out, [*ml.FLAGS, *request.param.split()])
    library = ctypes.CDLL(str(out))
    for name in ("streams", "aligned", *(f"head_{t}" for t in TYPES)):
        getattr(library, name).restype = ctypes.c_longlong if name.startswith("head") else ctypes.c_bool
    return library, widest


def lines(dtype, count: int) -> np.ndarray:
    """Whole lines of memory, between bytes that nobody may touch."""
    x = guarded((64 * count // np.dtype(dtype).itemsize,), dtype)
    assert x.ctypes.data % 64 == 0
    return x


def test_the_widest_store_that_there_is(way):
    library, widest = way
    cached = library.cached()
    assert library.widest() == widest
    assert not library.streams(ctypes.c_longlong(cached))
    assert library.streams(ctypes.c_longlong(cached + 1)) == (widest > 0)


@pytest.mark.parametrize("past", [False, True])
@pytest.mark.parametrize("name", TYPES)
def test_lines_are_stored(way, name, past):
    library, _ = way
    to, source = lines(TYPES[name], 2), lines(TYPES[name], 2)
    source.view(np.uint8)[:] = np.random.default_rng(1).integers(0, 255, 128)
    to.view(np.uint8)[:] = ~source.view(np.uint8)
    getattr(library, f"put_{name}")(ml.pointer(to), ml.pointer(source), ctypes.c_bool(past))
    assert to.tobytes() == source.tobytes()


@pytest.mark.parametrize("name", TYPES)
def test_elements_before_a_line(way, name):
    library, _ = way
    at, size = 1 << 20, np.dtype(TYPES[name]).itemsize
    for k in range(0, 129, size):
        place = ctypes.c_void_p(at + k)
        assert getattr(library, f"head_{name}")(place, ctypes.c_bool(True)) == -k % 64 // size
        assert getattr(library, f"head_{name}")(place, ctypes.c_bool(False)) == 0
        assert library.aligned(place) == (k % 64 == 0)
