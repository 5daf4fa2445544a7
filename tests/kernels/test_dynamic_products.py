# SPDX-License-Identifier: Apache-2.0
"""Products of which a length is an argument, as in attention: of every length right, and the bits of the literal one."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import numpy as np
import pytest
from guard_pages import guarded, guarded_copy
from hypothesis import example, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parent))
import math_library as ml  # noqa: E402  (of this folder)

pytestmark = pytest.mark.skipif(ml.CXX is None, reason="no C++ compiler")

DEPTHS = (8, 40)  #: features of a head
KNOWN = (31, 48, 65)  #: lengths that are literals, too, with the greater depth: rests of two and one vectors, and none

#: name -> how the function is called; L stands for the length where it is a literal, l for the argument, D for a depth
CALLS = {
    # scores: rows of one operand with columns of the other one, which a copy has made neighbours
    "scores": ("axpy<false, {N}, D, D, 1, {S}, 1>", "0, l", "hg::Shape{{l, 0, 0, 0, l, 0}}", "y[m * l + n]"),
    "scores_of_one": ("axpy<true, {N}, D, D, 1, {S}, 1>", "0, 1", "hg::Shape{{l, 0, 0, 0, l, 0}}", "y[m * l + n]"),
    # … with rows of it, as they lie
    "dots": ("dots<false, {N}, D, D, 1, 1, D>", "0, l", "hg::Shape{{l, 0, 0, 0, 0, 0}}", "y[m * l + n]"),
    "dots_of_one": ("dots<true, {N}, D, D, 1, 1, D>", "0, 1", "hg::Shape{{l, 0, 0, 0, 0, 0}}", "y[m * l + n]"),
    # weights times values, and the same with the weights turned, which values' gradients are
    "seen": ("axpy<false, D, {K}, {S}, 1, D, 1>", "0, l", "hg::Shape{{0, l, l, 0, 0, 0}}", "y[m * D + n]"),
    "seen_by_one": ("axpy<true, D, {K}, {S}, 1, D, 1>", "0, 1", "hg::Shape{{0, l, l, 0, 0, 0}}", "y[m * D + n]"),
    "slopes": ("axpy<false, D, {K}, 1, {S}, D, 1>", "0, l", "hg::Shape{{0, l, 0, l, 0, 0}}", "y[m * D + n]"),
    # of two lengths, and of columns that are no neighbours
    "both": ("axpy<false, {N}, {K}, {S}, 1, {S}, 1>", "0, l", "hg::Shape{{l, l, l, 0, l, 0}}", "y[m * l + n]"),
    "turned": ("axpy<false, {N}, {K}, 1, {S}, 1, {S}>", "0, l", "hg::Shape{{l, l, 0, l, 0, l}}", "y[m * l + n]"),
    "turned_one": ("axpy<true, {N}, {K}, 1, {S}, 1, {S}>", "0, 1", "hg::Shape{{l, l, 0, l, 0, l}}", "y[m * l + n]"),
}
#: name -> (rows, columns, sum) of the product: l for the length, D for the depth; the operands as they lie
SHAPES = {
    "scores": ("l", "l", "D", "mk", "kn"),
    "scores_of_one": ("1", "l", "D", "mk", "kn"),
    "dots": ("l", "l", "D", "mk", "nk"),
    "dots_of_one": ("1", "l", "D", "mk", "nk"),
    "seen": ("l", "D", "l", "mk", "kn"),
    "seen_by_one": ("1", "D", "l", "mk", "kn"),
    "slopes": ("l", "D", "l", "km", "kn"),
    "both": ("l", "l", "l", "mk", "kn"),
    "turned": ("l", "l", "l", "km", "nk"),
    "turned_one": ("1", "l", "l", "km", "nk"),
}


def text() -> str:
    lines = ["#define HG_NO_LIBRARY"]
    lines += [f'#include "{h}"' for h in ("cpu.h", "core.h", "math.h", "matmul_cpu.h")]
    head = "const float* a, const float* b, float* y"
    for name, (call, rows, shape, place) in CALLS.items():
        out = f"[&](hg::Index m, hg::Index n, float v) __attribute__((always_inline)) {{ {place} = v; }}"
        lines.append(f"template <int D>\nstatic void {name}({head}, const hg::Index l) {{")
        lines.append(
            f"  hg::matmul_{call.format(N=0, K=0, S='hg::DYNAMIC')}(a, b, {rows}, {shape.format()}, {out});\n}}"
        )
        lines.append(f"template <int D, int L>\nstatic void {name}_known({head}) {{\n  const hg::Index l = L;")
        lines.append(f"  hg::matmul_{call.format(N='L', K='L', S='L')}(a, b, {rows}, {out});\n}}")
        lines.append(f'extern "C" void {name}(int d, int known, int l, {head}) {{')
        for d in DEPTHS:
            lines.append(f"  if (d == {d} && !known) return {name}<{d}>(a, b, y, l);")
        lines += [f"  if (known == {k}) return {name}_known<{DEPTHS[-1]}, {k}>(a, b, y);" for k in KNOWN]
        lines.append("}")
    return "\n".join(lines).replace("hg::Index", "Index")


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    out = tmp_path_factory.mktemp("told") / "products.so"
    ml.compile_text(text(), out, [*ml.FLAGS, "-march=native"])
    return ctypes.CDLL(str(out))


def product(library, name: str, depth: int, length: int, known: bool = False):
    """The product of random operands, none of which may be read beyond its ends; and what it is in float64."""
    rows, columns, terms, first, second = SHAPES[name]
    extents = {"m": rows, "n": columns, "k": terms}
    sizes = {axis: {"l": length, "D": depth, "1": 1}[e] for axis, e in extents.items()}
    if rows == "1" and name == "turned_one":
        sizes["m"] = length  # one row of many: neighbours of it lie between
    rng = np.random.default_rng(length)
    a, b = (guarded_copy(rng.standard_normal([sizes[v] for v in order], np.float32)) for order in (first, second))
    y = guarded((1 if rows == "1" else sizes["m"], sizes["n"]), np.float32)
    getattr(library, name)(depth, length if known else 0, length, *map(ml.pointer, (a, b, y)))
    left, right = (x.astype(float) if o in ("mk", "kn") else x.T.astype(float) for x, o in ((a, first), (b, second)))
    return y, (left @ right)[: len(y)]


@pytest.mark.parametrize("name", CALLS)
@settings(max_examples=40, deadline=None)
@given(depth=st.sampled_from(DEPTHS), length=st.integers(9, 200))
@example(depth=8, length=9).via("the shortest")
@example(depth=8, length=64).via("whole vectors")
@example(depth=40, length=513).via("more terms than a copy has room for")
@example(depth=40, length=528).via("… and whole vectors")
@example(depth=8, length=1031).via("partial sums")
def test_every_length(library, name, depth, length):
    told, wanted = product(library, name, depth, length)
    np.testing.assert_allclose(told, wanted, 1e-5, 4e-6 * max(depth, length) ** 0.5)


@pytest.mark.parametrize("length", KNOWN)
@pytest.mark.parametrize("name", CALLS)
def test_bits_of_a_literal_length(library, name, length):
    told, known = (product(library, name, DEPTHS[-1], length, k)[0] for k in (False, True))
    assert told.tobytes() == known.tobytes()
