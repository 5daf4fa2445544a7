# SPDX-License-Identifier: Apache-2.0
"""kernels/chunks_cpu.h: what chunks a kernel is called for, without threads."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import math_library as ml  # noqa: E402  (of this folder)

pytestmark = pytest.mark.skipif(ml.CXX is None, reason="no C++ compiler")

TEXT = """
#include "cpu.h"
#include "chunks_cpu.h"
static Index* written;
static void range(Index begin, Index end) { *written++ = begin; *written++ = end; }
extern "C" Index ranges(Index n, Index chunk, bool single, Index* to) {
  written = to;
  if (single)
    hg::in_single_chunks(n, chunk, range);
  else
    hg::in_chunks(n, chunk, range);
  return (written - to) / 2;
}
"""


@pytest.fixture(scope="module")
def ranges(tmp_path_factory):
    """A function (n, chunk, whether each chunk is a call) -> the ranges, in order."""
    out = tmp_path_factory.mktemp("chunks") / "chunks.so"
    ml.compile_text(TEXT, out, ml.FLAGS)
    function = ctypes.CDLL(str(out)).ranges
    function.restype = ctypes.c_longlong
    function.argtypes = [ctypes.c_longlong, ctypes.c_longlong, ctypes.c_bool, ctypes.c_void_p]

    def call(n, chunk, single):
        to = (ctypes.c_longlong * 64)()
        count = function(n, chunk, single, to)
        return [(to[2 * k], to[2 * k + 1]) for k in range(count)]

    return call


@pytest.mark.parametrize(
    ("n", "chunk", "single"),
    [
        (1, 8, [(0, 1)]),
        (8, 8, [(0, 8)]),
        (9, 8, [(0, 8), (8, 9)]),
        (16, 8, [(0, 8), (8, 16)]),
        (20, 8, [(0, 8), (8, 16), (16, 20)]),
        (3, 1, [(0, 1), (1, 2), (2, 3)]),
        (0, 8, [(0, 0)]),  # what runs chunks may call for none
    ],
)
def test_ranges(ranges, n, chunk, single):
    assert ranges(n, chunk, True) == single
    assert ranges(n, chunk, False) == [(0, n)]
