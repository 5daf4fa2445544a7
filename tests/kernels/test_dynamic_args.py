# SPDX-License-Identifier: Apache-2.0
"""Loops of the host's headers whose length is an argument: the bits of those whose length is in the text.

A program is compiled with or without the length of a sum, as its graph has it; neither may show in the result.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import numpy as np
import pytest
from guard_pages import guarded, guarded_copy

sys.path.insert(0, str(Path(__file__).resolve().parent))
import math_library as ml  # noqa: E402  (of this folder)

pytestmark = pytest.mark.skipif(ml.CXX is None, reason="no C++ compiler")

ROWS = 19  #: of the product: enough for copies of columns, and no multiple of a block's rows
#: columns of the product, and how far apart rows of the right operand lie: whole vectors and rests of them, one by one,
#: and columns of which copies are made because rows begin anywhere, or meet in a set of the cache
COLUMNS = {8: 16, 48: 48, 64: 64, 37: 37, 5: 8, 136: 512}
#: of one row, which takes eight vectors at a time, then four, then one
LINES = (37, 96, 128, 192, 328)
SHORT, LONG, MOST = 700, (1024, 1300), 2500  #: terms: one sum; sums of partial ones; more than a copy may have
LANES = (*range(1, 20), 24, 32, 33, 48, 63, 64)

TEXT = """
#define HG_NO_LIBRARY
#include "cpu.h"
#include "core.h"
#include "math.h"
#include "reduce.h"
#include "reduce_cpu.h"
#include "matmul_cpu.h"
template <int N, int K, int STRIDE>
static void product(const float* a, const float* b, float* y, int terms) {
  hg::matmul_axpy<false, N, K, 1, ROWS, STRIDE, 1>(a, b, 0, ROWS, terms,
                                                   [&](Index m, Index n, float v) { y[m * N + n] = v; });
}
template <int N, int K>
static void line(const float* a, const float* b, float* y, int terms) {
  hg::matmul_axpy<true, N, K, K, 1, N, 1>(a, b, 0, 1, terms, [&](Index, Index n, float v) { y[n] = v; });
}
extern "C" void lines(int k, int n, const float* a, const float* b, float* y, int terms) {
  switch (n) {
LINES
  }
}
template <int K>
static void columns(int n, const float* a, const float* b, float* y, int terms) {
  switch (n) {
COLUMNS
  }
}
extern "C" void products(int k, int n, const float* a, const float* b, float* y, int terms) {
  switch (k) {
KNOWN
  }
}
template <typename Op, int N>
static void both(const float* x, float* known, float* told) {
  float s[N] __attribute__((aligned(64))), t[N] __attribute__((aligned(64)));
  for (int j = 0; j < N; ++j) s[j] = t[j] = x[j];
  *known = hg::Fold<Op, float, N>::of(s);
  *told = hg::fold_some<Op>(t, (Index)N);
}
extern "C" void folds(int n, const float* x, float* known, float* told) {
  switch (n) {
FOLDS
  }
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    known = (0, SHORT, *LONG)
    text = TEXT.replace("ROWS", str(ROWS))
    text = text.replace(
        "COLUMNS", "\n".join(f"case {n}: return product<{n}, K, {s}>(a, b, y, terms);" for n, s in COLUMNS.items())
    )
    text = text.replace("KNOWN", "\n".join(f"case {k}: return columns<{k}>(n, a, b, y, terms);" for k in known))
    one = "case {0}: return k ? line<{0}, {1}>(a, b, y, terms) : line<{0}, 0>(a, b, y, terms);"
    text = text.replace("LINES", "\n".join(one.format(n, SHORT) for n in LINES))
    text = text.replace(
        "FOLDS", "\n".join(f"case {n}: return both<hg::Sum<float>, {n}>(x, known, told);" for n in LANES)
    )
    out = tmp_path_factory.mktemp("told") / "told.so"
    ml.compile_text(text, out, [*ml.FLAGS, "-march=native"])
    return ctypes.CDLL(str(out))


def product(library, a, b, n, known):
    y = guarded((ROWS, n), np.float32)
    library.products(known, n, *map(ml.pointer, (a, b, y)), len(a))
    return y


@pytest.mark.parametrize("n", COLUMNS)
@pytest.mark.parametrize("terms", [1, 5, SHORT, *LONG, 1023, MOST])
def test_products(library, terms, n):
    """As of a weight's gradient: a length up to 1023 is one sum, a longer one has the rounding of partial ones."""
    rng = np.random.default_rng(terms)
    a = guarded_copy(rng.standard_normal((terms, ROWS), np.float32))
    rows = rng.standard_normal((terms, COLUMNS[n]), np.float32)
    b = guarded_copy(rows.ravel()[: (terms - 1) * COLUMNS[n] + n])  # nothing behind the last element
    told = product(library, a, b, n, 0)
    np.testing.assert_allclose(told, a.T.astype(float) @ rows[:, :n].astype(float), 1e-5, 4e-6 * terms**0.5)
    if terms in (SHORT, *LONG):
        assert told.tobytes() == product(library, a, b, n, terms).tobytes()


@pytest.mark.parametrize("n", LINES)
@pytest.mark.parametrize("terms", [SHORT, LONG[1]])
def test_one_row(library, terms, n):
    rng = np.random.default_rng(terms)
    a, b = (guarded_copy(rng.standard_normal(s, np.float32)) for s in (terms, (terms, n)))
    told, known = guarded((n,), np.float32), guarded((n,), np.float32)
    library.lines(0, n, *map(ml.pointer, (a, b, told)), terms)
    np.testing.assert_allclose(told, a.astype(float) @ b.astype(float), 1e-5, 4e-6 * terms**0.5)
    if terms == SHORT:
        library.lines(terms, n, *map(ml.pointer, (a, b, known)), terms)
        assert told.tobytes() == known.tobytes()


@pytest.mark.parametrize("n", LANES)
def test_folds(library, n):
    x = np.random.default_rng(n).standard_normal(n, np.float32)
    known, told = np.zeros(2, np.float32), np.zeros(2, np.float32)
    library.folds(n, *map(ml.pointer, (x, known, told)))
    assert known.tobytes() == told.tobytes() and not known[1]
    np.testing.assert_allclose(known[0], x.astype(float).sum(), 1e-5, 1e-6 * n)
