# SPDX-License-Identifier: Apache-2.0
"""Products, transposes and gradients of weights as other processors get them: narrower vectors, other instructions, or no fused ones.

Programs are compiled for the processor at hand, which takes one of the headers' ways; the rest of the tests see only that.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from pathlib import Path

import numpy as np
import pytest
from guard_pages import guarded, guarded_copy

sys.path.insert(0, str(Path(__file__).resolve().parent))
import math_library as ml  # noqa: E402  (of this folder)
from math_accuracy import cpu_flags  # noqa: E402

pytestmark = pytest.mark.skipif(
    ml.CXX is None or platform.machine() != "x86_64", reason="no C++ compiler for x86-64, whose ways these are"
)

#: processor -> what the one at hand must have for it
PROCESSORS = {
    "skylake-avx512": ("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"),
    "haswell": ("avx2", "fma", "bmi2"),
    "x86-64": (),
}
ROWS, TERMS, COLUMNS = 19, 40, (48, 37)  #: of a product, with rests of blocks and of vectors
TYPES = {"float": np.float32, "double": np.float64}
BITS = {"char": np.uint8, "short": np.uint16, "int": np.uint32, "long": np.uint64}
EXTENTS = [(8, 8), (16, 16), (9, 40), (33, 17), (64, 48), (5, 70), (70, 7)]  #: of a transpose

TEXT = """
#define HG_NO_LIBRARY
#include "cpu.h"
#include "core.h"
#include "math.h"
#include "matmul_cpu.h"
#include "matmul_blocked_cpu.h"
#include "tile_cpu.h"
#include "conv_backward_filter_cpu.h"
enum { ROWS = 19, TERMS = 40 };
template <typename T, int N>
static void axpy(const T* a, const T* b, T* y) {
  hg::matmul_axpy<false, N, TERMS, 1, ROWS, N, 1>(a, b, 0, ROWS, [&](Index m, Index n, T v) { y[m * N + n] = v; });
}
template <typename T, int N>
static void dots(const T* a, const T* b, T* y) {
  hg::matmul_dots<false, N, TERMS, TERMS, 1, 1, TERMS>(a, b, 0, ROWS, [&](Index m, Index n, T v) { y[m * N + n] = v; });
}
"""
OF_ANY_SHAPE = """HG_EXPORT void {f}_{t}(const {t}* a, const {t}* b, {t}* y, Index rows, Index columns, Index terms, Index am,
                            Index ak, Index bk, Index bn) {{
  {call}
                     [&](Index m, Index n, {t} v) {{ y[m * columns + n] = v; }});
}}
"""
#: name of a function of any shape -> the call in it
CALLS = {
    "blocked": "hg::matmul_blocked(a, b, 0, rows, 0, columns, hg::Shape{0, terms, am, ak, bk, bn},",
    "any": "hg::matmul_axpy<false, 0, 0, hg::DYNAMIC, hg::DYNAMIC, hg::DYNAMIC, hg::DYNAMIC>(a, b, 0, rows, hg::Shape{columns, terms, am, ak, bk, bn},",
    "side_by_side": "hg::matmul_axpy<false, 0, 0, hg::DYNAMIC, hg::DYNAMIC, hg::DYNAMIC, 1>(a, b, 0, rows, hg::Shape{columns, terms, am, ak, bk, 1},",
}
PRODUCT = "HG_EXPORT void {f}_{t}_{n}(const {t}* a, const {t}* b, {t}* y) {{ {f}<{t}, {n}>(a, b, y); }}\n"
TURN = """HG_EXPORT void turn_{t}(const {t}* from, Index rows, {t}* to, Index columns, Index height, Index width) {{
  hg::transpose(from, rows, to, columns, height, width);
}}
"""


#: convolutions whose weight's gradient is computed: channels, filters, side of the image, of the kernel, stride, zeros around
CONVOLUTIONS = [
    (5, 19, 9, 3, 1, 1),
    (70, 37, 4, 3, 2, 1),
    (20, 150, 2, 3, 1, 1),
    (3, 24, 23, 7, 2, 3),
    (33, 70, 6, 1, 1, 0),
    (1, 6, 12, 7, 1, 0),  # rows of taps are left over
]
SAMPLES = 5
GRADIENT = """
struct S{i} {{
  static constexpr int G = 1, MC = {c}, SC = {f}, OD = 1, OH = {o}, OW = {o}, D = 1, H = {h}, W = {h}, KD = 1, KH = {k}, KW = {k};
  static constexpr int STEPD = 1, STEPH = {s}, STEPW = {s}, MOVED = 1, MOVEH = 1, MOVEW = 1, STARTD = 0, STARTH = -{p}, STARTW = -{p};
  static constexpr long long SN = {f} * {o} * {o}, SG = 0, SS = {o} * {o}, MN = {c} * {h} * {h}, MG = 0, MM = {h} * {h};
  static constexpr int UNITS = 64;
  static constexpr bool DIRECT = {direct}, ACROSS = false;
}};
HG_EXPORT void gradient_{t}_{i}(const {t}* dy, const {t}* x, {t}* dw, Index begin, Index end) {{
  hg::conv_backward_filter<S{i}, {t}>(dy, x, begin, end, {n}, [&](Index, Index m, Index s, Index, Index h, const {t}* line) {{
    for (Index w = 0; w < {k}; ++w) dw[((s * {c} + m) * {k} + h) * {k} + w] = line[w];
  }});
}}
"""


def gradient_text(name: str) -> str:
    """Functions of the weight's gradients of all CONVOLUTIONS."""
    return "".join(
        GRADIENT.format(
            i=i, t=name, n=SAMPLES, c=c, f=f, h=h, k=k, s=s, p=p, o=(h + 2 * p - k) // s + 1, direct=str(p == 0).lower()
        )
        for i, (c, f, h, k, s, p) in enumerate(CONVOLUTIONS)
    )


@pytest.fixture(scope="module", params=PROCESSORS)
def library(request, tmp_path_factory):
    if not set(PROCESSORS[request.param]) <= cpu_flags():
        pytest.skip("the processor has no such instructions")
    products = [PRODUCT.format(f=f, t=t, n=n) for f in ("axpy", "dots") for t in TYPES for n in COLUMNS]
    out = tmp_path_factory.mktemp("processor") / "library.so"
    products += [OF_ANY_SHAPE.format(f=f, t=t, call=call) for f, call in CALLS.items() for t in TYPES]
    products += [f"namespace gradient_of_{t} {{{gradient_text(t)}}}\n" for t in TYPES]
    text = "".join([TEXT, *products, *(TURN.format(t=t) for t in BITS)])
    # hidden, as in programs: of templates' constants that are not, a process has one for all libraries
    ml.compile_text(text, out, [*ml.FLAGS, "-fvisibility=hidden", f"-march={request.param}"])
    return ctypes.CDLL(str(out))


@pytest.mark.long_table
@pytest.mark.parametrize("n", COLUMNS)
@pytest.mark.parametrize("name", TYPES)
def test_products(library, name, n):
    rng = np.random.default_rng(n)
    a, b = (rng.standard_normal(s).astype(TYPES[name]) for s in ((ROWS, TERMS), (TERMS, n)))
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    for function, operands in (("axpy", (a.T, b)), ("dots", (a, b.T))):
        held = [*map(guarded_copy, operands), guarded((ROWS, n), TYPES[name])]
        getattr(library, f"{function}_{name}_{n}")(*map(ml.pointer, held))
        np.testing.assert_allclose(held[2], wanted, *((1e-5, 1e-5) if name == "float" else (1e-13, 1e-13)))


#: rows, terms and columns: rests of tiles, of vectors and of panels; more rows and terms than are kept together
BLOCKS = [(19, 40, 48), (19, 40, 37), (5, 1, 3), (3, 257, 130), (520, 70, 9), (7, 1100, 65), (30, 1030, 290)]


@pytest.mark.parametrize("turned", ["", "left", "right", "both"])
@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize(("rows", "terms", "columns"), BLOCKS)
def test_products_in_blocks(library, rows, terms, columns, name, turned):
    """Of operands that lie either way; nothing beside them is read or written. Sums are those of matmul_axpy, to the bit."""
    rng = np.random.default_rng(terms)
    kind = TYPES[name]
    a, b = (rng.standard_normal(s).astype(kind) for s in ((rows, terms), (terms, columns)))
    left = guarded_copy(a.T if turned in ("left", "both") else a)
    right = guarded_copy(b.T if turned in ("right", "both") else b)
    y = guarded((rows, columns), kind)
    steps = [
        (1, rows) if turned in ("left", "both") else (terms, 1),
        (1, terms) if turned in ("right", "both") else (columns, 1),
    ]
    sizes = [ctypes.c_longlong(n) for n in (rows, columns, terms, *steps[0], *steps[1])]
    getattr(library, f"blocked_{name}")(*map(ml.pointer, (left, right, y)), *sizes)
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(y, wanted, *((1e-5, 1e-4) if name == "float" else (1e-13, 1e-12)))
    if turned:  # however operands lie, and whichever of them has the rows of tiles
        plain = guarded_copy(a), guarded_copy(b), guarded((rows, columns), kind)
        sizes[3:] = [ctypes.c_longlong(n) for n in (terms, 1, columns, 1)]
        getattr(library, f"blocked_{name}")(*map(ml.pointer, plain), *sizes)
        np.testing.assert_array_equal(y, plain[2])
    if (rows, terms) == (ROWS, TERMS):
        held = guarded_copy(a.T), guarded_copy(b), guarded((rows, columns), kind)
        getattr(library, f"axpy_{name}_{columns}")(*map(ml.pointer, held))
        np.testing.assert_array_equal(y, held[2])


@pytest.mark.parametrize("function", ["any", "side_by_side"])
@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("columns", [1, 7, 8, 15, 33, 37, 47, 64, 71])
def test_columns_that_are_an_argument(library, columns, name, function):
    """Nothing behind the last column is touched, though vectors reach beyond it."""
    rng = np.random.default_rng(columns)
    a, b = (rng.standard_normal(s).astype(TYPES[name]) for s in ((ROWS, TERMS), (TERMS, columns)))
    held = guarded_copy(a), guarded_copy(b), guarded((ROWS, columns), TYPES[name])
    sizes = [ctypes.c_longlong(n) for n in (ROWS, columns, TERMS, TERMS, 1, columns, 1)]
    getattr(library, f"{function}_{name}")(*map(ml.pointer, held), *sizes)
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(held[2], wanted, *((1e-5, 1e-4) if name == "float" else (1e-13, 1e-12)))


@pytest.mark.parametrize("name", BITS)
@pytest.mark.parametrize(("height", "width"), EXTENTS)
def test_transposes(library, height, width, name):
    """Of matrices within larger ones: what lies beside them stays as it is."""
    rng = np.random.default_rng(width)
    whole = rng.integers(0, np.iinfo(BITS[name]).max, (height, width + 3), BITS[name])
    source = guarded_copy(whole.ravel()[: (height - 1) * (width + 3) + width])
    to = guarded((width * (height + 2) - 2,), BITS[name])
    sizes = [ctypes.c_longlong(n) for n in (width + 3, height + 2, height, width)]
    getattr(library, f"turn_{name}")(ml.pointer(source), sizes[0], ml.pointer(to), *sizes[1:])
    turned = np.full((width, height + 2), np.iinfo(BITS[name]).max, BITS[name])
    turned[:, :height] = whole[:, :width].T
    np.testing.assert_array_equal(to, turned.ravel()[: to.size])


@pytest.mark.parametrize("case", range(len(CONVOLUTIONS)))
@pytest.mark.parametrize("name", TYPES)
def test_gradients_of_weights(library, name, case):
    """Every unit writes its share of the results, and nothing else."""
    c, f, h, k, s, p = CONVOLUTIONS[case]
    o = (h + 2 * p - k) // s + 1
    rng = np.random.default_rng(case)
    x, dy = (rng.standard_normal(n).astype(TYPES[name]) for n in ((SAMPLES, c, h, h), (SAMPLES, f, o, o)))
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (p, p), (p, p)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (k, k), (2, 3))[:, :, ::s, ::s]
    wanted = np.einsum("nfhw,nchwij->fcij", dy.astype(np.float64), windows[:, :, :o, :o])
    held = guarded_copy(dy), guarded_copy(x), guarded((f, c, k, k), TYPES[name])
    held[2][:] = np.nan
    for begin in range(0, 64, 16):
        call = getattr(library, f"gradient_{name}_{case}")
        call(*map(ml.pointer, held), ctypes.c_longlong(begin), ctypes.c_longlong(begin + 16))
    np.testing.assert_allclose(held[2], wanted, *((1e-5, 1e-4) if name == "float" else (1e-13, 1e-12)))
