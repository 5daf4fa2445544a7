# SPDX-License-Identifier: Apache-2.0
"""kernels/divide_cuda.h has the bits of IEEE division: for all divisors, special values, and random numbers."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import math_library as ml

pytestmark = pytest.mark.skipif(ml.CXX is None, reason="no C++ compiler")

MANTISSAS = 1 << 23, 1 << 24


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    out = tmp_path_factory.mktemp("divide") / "divide.so"
    flags = ["-O2", "-march=native", "-ffp-contract=off", "-shared", "-fPIC", "-std=c++17", "-w"]
    ml.compile_text((ml.HERE / "divide_checker.cpp").read_text(), out, flags)
    found = ctypes.CDLL(str(out))
    found.wrong_quotients.restype = ctypes.c_int64
    return found


def divided(library, n, d):
    """Each four of ``n`` divided by one of ``d``."""
    n, d = np.ascontiguousarray(n, np.float32), np.ascontiguousarray(d, np.float32)
    q = np.empty_like(n)
    pointers = [a.ctypes.data_as(ctypes.c_void_p) for a in (n, d, q)]
    library.divide_all(*pointers, ctypes.c_int64(d.size))
    return q


def check(library, n, d):
    with np.errstate(all="ignore"):
        wanted = n.astype(np.float32) / np.repeat(d.astype(np.float32), 4)
    got = divided(library, n, d)
    same = (got.view(np.uint32) == wanted.view(np.uint32)) | (np.isnan(got) & np.isnan(wanted))
    k = int(np.argmin(same))
    assert same.all(), f"{n[k]!r} / {d[k // 4]!r} is {got[k]!r}, not {wanted[k]!r}"


def hardest(library, first, last, step):
    tried = ctypes.c_int64()
    wrong = library.wrong_quotients(*map(ctypes.c_int64, (first, last, step)), ctypes.byref(tried))
    return wrong, tried.value


def test_the_hardest_quotients(library):
    wrong, tried = hardest(library, *MANTISSAS, 211)
    assert tried > 500_000 and not wrong
    wrong, tried = hardest(library, MANTISSAS[1] - 5000, MANTISSAS[1], 1)  # where Newton's step alone goes wrong
    assert tried > 50_000 and not wrong


@pytest.mark.exhaustive
def test_the_hardest_quotients_by_every_divisor(library):
    wrong, tried = hardest(library, *MANTISSAS, 1)
    assert tried > 100_000_000 and not wrong


def edges():
    """Powers of two and their neighbours, where ranges begin and end, and what is no number."""
    powers = np.ldexp(np.float32(1), np.arange(-149, 128)).astype(np.float32)
    bits = powers.view(np.uint32)
    values = np.concatenate([bits, bits + 1, bits - 1]).view(np.float32)
    more = np.array([0, np.inf, np.nan, 3, 7, 10, 28, 1 / 3, 1e-45, 3e-45, 4.2e-45, 3.4028235e38], np.float32)
    values = np.concatenate([values, more])
    return np.concatenate([values, -values])


def test_edges(library):
    values = edges()
    some = values[::7]
    d = np.repeat(some, -(-values.size // 4))
    check(library, np.tile(np.resize(values, -(-values.size // 4) * 4), some.size), d)
    for n in values[::11]:  # a vector of its own for each, so that no neighbour decides
        check(library, np.full(4 * values.size, n, np.float32), values)


def test_all_exponents(library):
    rng = np.random.default_rng(7)
    n, d = (rng.integers(0, 1 << 32, 4 * count, dtype=np.uint32).view(np.float32) for count in (400_000, 100_000))
    check(library, n[:400_000], d[:100_000])
    check(library, n, np.exp2(rng.uniform(-126, 24, n.size // 4)).astype(np.float32))  # mostly the short way


def test_subnormal_quotients(library):
    """Every numerator that can come to a tie there, of some divisors."""
    d = np.repeat(np.arange(1, 200, dtype=np.float32) / 2, 256)
    n = np.ldexp(np.tile(np.arange(1024), 199).astype(np.float32), -149).astype(np.float32)
    check(library, n, d)
