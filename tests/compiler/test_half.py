# SPDX-License-Identifier: Apache-2.0
"""float16 in generated kernels: every number is read as it is, and every rounding is NumPy's, ties included."""

from __future__ import annotations

import numpy as np
import pytest
from compiler.test_bfloat16 import equal, graph_of, on_cpu, on_cuda, runners

from hybridgpu.core.dtypes import f16, f32


def halves() -> np.ndarray:
    """All of them."""
    return np.arange(1 << 16, dtype=np.uint16).view(np.float16)


def neighbours() -> tuple[np.ndarray, np.ndarray]:
    """Many halves, and the next larger ones."""
    bits = np.concatenate([np.arange(0, 0x7C00, 7), np.arange(40), np.arange(0x7BF0, 0x7C00)]).astype(np.uint16)
    return bits.view(np.float16), (bits + np.uint16(1)).view(np.float16)


def hard_floats() -> np.ndarray:
    """Halves, the middles between neighbours, and what lies beside those; beyond the largest and below the least."""
    near, after = (a.astype(np.float32) for a in neighbours())
    middle = (near + np.where(np.isinf(after), np.float32(65536), after)) / 2
    around = [
        near.astype(np.float32),
        middle,
        np.nextafter(middle, np.float32(0)),
        np.nextafter(middle, np.float32(1e9)),
    ]
    rest = np.float32([0, 1e-9, 2.0**-25, 2.0**-24, 1e5, 1e38, np.inf, np.nan])
    x = np.concatenate([*around, rest])
    return np.concatenate([x, -x])


@runners
def test_every_number_is_read_as_it_is(run, cuda_driver):
    x = halves()
    (got,) = run(graph_of(lambda b, x: b.cast(x, f32), (x, f16)), [x], cuda_driver)
    equal(got, x.astype(np.float32))


@runners
def test_rounding_to_nearest_even(run, cuda_driver):
    """Where a half is stored, and where it stays in a float."""
    x = hard_floats()
    with np.errstate(over="ignore"):
        want = x.astype(np.float16).astype(np.float32)
    graph = graph_of(lambda b, x: [b.cast(x, f16), b.cast(b.cast(x, f16), f32)], (x, f32))
    stored, kept = run(graph, [x], cuda_driver)
    assert stored.dtype == np.float16
    equal(stored.astype(np.float32), want)
    equal(kept, want)


@pytest.mark.parametrize("run", [on_cpu, on_cuda], ids=lambda f: f.__name__)
def test_results_in_the_middle_go_to_the_even_neighbour(run, cuda_driver):
    """Kernels compute in float and round what they store."""
    x, y = (a[:-1] for a in neighbours())  # without the largest, whose neighbour is infinite
    (got,) = run(graph_of(lambda b, x, y: (x + y) * 0.5, (x, f16), (y, f16)), [x, y], cuda_driver)
    want = ((x.astype(np.float32) + y.astype(np.float32)) / 2).astype(np.float16)
    equal(got.astype(np.float32), want.astype(np.float32))
    assert (got.view(np.uint16) & 1 == 0).all()
