# SPDX-License-Identifier: Apache-2.0
"""Generated reductions at the lengths where their forms change: values, rounding errors, ties, batch positions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from hybridgpu import nd
from hybridgpu.backends.cpu.backend import cpu_backend
from hybridgpu.compiler.ir import Builder, Node, tensor_type
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.target import CPU
from hybridgpu.core.dtypes import from_short
from hybridgpu.gluon import HybridBlock

pytestmark = pytest.mark.usefixtures("compiler")

#: around lanes, vectors, tiles of short rows, the blocks of a walk and its parts
LENGTHS = (1, 2, 3, 5, 7, 8, 12, 16, 17, 31, 33, 63, 64, 65, 80, 127, 128, 130, 1000, 4096, 4100, 9000)


def run(function, *arrays: np.ndarray) -> list[np.ndarray]:
    """The results of a graph of inputs like ``arrays``."""
    b = builder()
    inputs = [b.input(tensor_type(a.shape, from_short(_SHORT[a.dtype.name]))) for a in arrays]
    graph = b.finish(list(function(b, *inputs)))
    program = compile_graph(graph, CPU)
    assert {k.kind for k in program.kernels} <= {"rows", "reduce", "map"}
    results = [np.empty(n.shape, n.dtype.np) for n in graph.outputs]
    cpu_backend().load(program)(list(arrays), results)
    return results


_SHORT = {
    **{"float32": "f32", "float64": "f64", "float16": "f16"},
    **{"int8": "i8", "uint8": "u8", "int16": "i16", "uint16": "u16", "int32": "i32", "uint32": "u32"},
    **{"int64": "i64", "uint64": "u64", "bool": "bool"},
}


def softmax(b: Builder, x: Node, axis: int) -> Node:
    e = b.exp(x - b.reduce("amax", x, (axis,), keepdims=True))
    return e / b.sum(e, (axis,), keepdims=True)


def softmax_of(x: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


@pytest.mark.parametrize("axis", [0, 1])
def test_lengths(axis):
    """Every length in one program, over the last axis and over the first one."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((n, 70) if axis == 0 else (70, n)).astype("f") for n in LENGTHS]

    def graph(b: Builder, *xs: Node) -> Sequence[Node]:
        return [
            y
            for x in xs
            for y in (
                softmax(b, x, axis),
                b.sum(x * x, (axis,)),
                b.reduce("amin", x, (axis,)),
                b.argmax(x, axes=(axis,)),
            )
        ]

    found = iter(run(graph, *arrays))
    for x in arrays:
        wide = x.astype("float64")
        np.testing.assert_allclose(next(found), softmax_of(wide, axis), 2e-6, 1e-30)
        np.testing.assert_allclose(next(found), (wide * wide).sum(axis), 2e-6)
        np.testing.assert_array_equal(next(found), x.min(axis))
        np.testing.assert_array_equal(next(found), x.argmax(axis))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "uint8", "int32", "int64", "bool"])
def test_positions_of_extremes(dtype):
    """Of equals the first one, NaN before all, infinities in their place; as in NumPy."""
    rng = np.random.default_rng(1)
    arrays = []
    for rows, columns in ((40, 5), (3, 100), (150, 70), (2, 9000)):
        x = rng.integers(0, 3, (rows, columns)).astype(dtype)
        if x.dtype.kind == "f":
            x[rng.random(x.shape) < 0.3] = -np.inf
            x[0] = -np.inf
            x[1, :] = np.inf
            x[:, 2] = np.inf
            x[rng.random(x.shape) < 2 / columns] = np.nan
        elif x.dtype.kind in "iu":
            x[0] = np.iinfo(dtype).min
            x[1] = np.iinfo(dtype).max
        arrays.append(x)

    def graph(b: Builder, *xs: Node) -> Sequence[Node]:
        return [f(x, axes=(axis,)) for x in xs for axis in (0, 1) for f in (b.argmax, b.argmin)]

    found = iter(run(graph, *arrays))
    for x in arrays:
        for axis in (0, 1):
            np.testing.assert_array_equal(next(found), x.argmax(axis))
            np.testing.assert_array_equal(next(found), x.argmin(axis))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_extremes_of_integers(dtype):
    """From one end of the type to the other, and of rows that hold nothing but an end."""
    ends = np.iinfo(dtype)

    def extremes(b: Builder, *xs: Node) -> Sequence[Node]:
        return [b.reduce(r, x, (k,)) for x in xs for r in ("amax", "amin") for k in (0, 1)]

    x = np.random.default_rng(5).integers(ends.min, ends.max, (130, 70), dtype, endpoint=True)
    x[0], x[1], x[:, 2], x[:, 3] = ends.min, ends.max, ends.min, ends.max
    x[2:50, 5:9] = 7  # no end in sight
    for y, want in zip(run(extremes, x), [x.max(0), x.max(1), x.min(0), x.min(1)], strict=True):
        np.testing.assert_array_equal(y, want)
    wanted = [7, ends.min, ends.max]
    arrays = [np.full((48, 40), value, dtype) for value in wanted]
    for k, y in enumerate(run(extremes, *arrays)):
        np.testing.assert_array_equal(y, wanted[k // 4])


def test_extremes_with_nan():
    """A NaN anywhere in a row, of either sign, is its extreme; infinities are numbers."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal((300, 130)).astype("f")
    x[np.arange(130), np.arange(130)] = np.where(np.arange(130) % 2, np.nan, -np.nan)
    x[200], x[201], x[202, 5], x[203, 6] = -np.inf, np.inf, np.inf, -np.inf
    for a in (x, x.astype("d"), np.ascontiguousarray(x.T)):
        found = run(lambda b, x: [b.reduce(r, x, (k,)) for r in ("amax", "amin") for k in (0, 1)], a)
        for y, expected in zip(found, [a.max(0), a.max(1), a.min(0), a.min(1)], strict=True):
            np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((1 << 20,), (0,)),
        ((2, 300001), (1,)),
        ((100000, 4), (0,)),
        ((4000, 200), (0,)),
        ((90000, 3), (0, 1)),
        ((300, 4, 500), (0, 2)),
    ],
)
def test_rounding_errors_of_sums(shape, axes):
    """Those of partial sums: one sum after another would be off by a hundred times as much."""
    x = np.random.default_rng(3).uniform(0, 1, shape).astype("f")
    (total,) = run(lambda b, x: [b.sum(x, axes)], x)
    expected = x.astype("float64").sum(axes)
    assert np.max(np.abs(total - expected) / expected) < 6e-7


@pytest.mark.parametrize("width", [3, 10, 40, 100, 1000])
def test_rows_do_not_depend_on_their_place(width):
    """The same bits, alone and anywhere in a batch."""
    row = np.random.default_rng(4).standard_normal(width).astype("f")

    def graph(b: Builder, x: Node) -> Sequence[Node]:
        centred = x - b.mean(x, (1,), keepdims=True)
        variance = b.mean(centred * centred, (1,), keepdims=True)
        return softmax(b, x, 1), centred * b.rsqrt(variance + 1e-5), b.sum(x, (1,))

    alone = run(graph, row[None])
    for rows in (2, 67):
        for y, one in zip(run(graph, np.tile(row, (rows, 1))), alone, strict=True):
            np.testing.assert_array_equal(y, np.broadcast_to(one, y.shape))


@pytest.mark.parametrize(("width", "together"), [(100, 4), (512, 4), (700, 2), (1024, 2), (1025, 0), (9000, 0)])
def test_rows_that_are_walked_together(width, together):
    """A walk of some rows, then the next walk of them, where they stay near: whether rows are left over or not."""
    b = builder()
    x = b.input(tensor_type((3, 7, width), from_short("f32")))
    (kernel,) = compile_graph(b.finish([softmax(b, x, 2)]), CPU).kernels
    assert kernel.choice.get("group", 0) == together
    rng = np.random.default_rng(5)
    for rows in range(1, 10):
        a = rng.standard_normal((rows, width)).astype("f")
        (y,) = run(lambda b, x: [softmax(b, x, 1)], a)
        np.testing.assert_allclose(y, softmax_of(a.astype("d"), 1), rtol=1e-5)
        for row, alone in zip(a, y, strict=True):
            np.testing.assert_array_equal(run(lambda b, x: [softmax(b, x, 1)], row[None])[0][0], alone)


def inner_norm(b: Builder, x: Node) -> list[Node]:
    mean = b.mean(x, (1,), keepdims=True)
    d = x - mean
    return [d * b.rsqrt(b.mean(d * d, (1,), keepdims=True) + 1e-5), mean]


def inner_norm_of(x: np.ndarray) -> list[np.ndarray]:
    return [(x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5), x.mean(1, keepdims=True)]


def extremes(b: Builder, x: Node) -> list[Node]:
    return [b.reduce("amax", x, (1,)), b.reduce("amin", x, (1,)), b.sum(x, (1,)), b.reduce("amax", x, (1,)) * 2]


def extremes_of(x: np.ndarray) -> list[np.ndarray]:
    return [x.max(1), x.min(1), x.sum(1), x.max(1) * 2]


#: shape -> elements of a row that lanes take at once; 0: lanes are rows
RUNS = {
    (5, 64, 2): 32,
    (3, 48, 3): 16,
    (2, 32, 5): 16,
    (2, 64, 6): 16,
    (3, 32, 7): 16,
    (2, 40, 8): 8,
    (2, 32, 12): 8,
    (2, 36, 16): 4,
    (2, 34, 24): 2,
    (1, 9216, 2): 32,
    (3, 20000, 8): 8,
    (6, 160, 4): 16,
    (5, 63, 2): 0,
    (5, 32, 2): 0,
    (5, 16, 8): 0,
    (2, 33, 24): 0,
    (2, 64, 31): 0,
    (2, 64, 32): 0,
}


@pytest.mark.parametrize(
    ("function", "wanted", "dtype", "error"),
    [
        (lambda b, x: [softmax(b, x, 1)], lambda x: [softmax_of(x, 1)], "float32", 1e-5),
        (lambda b, x: [softmax(b, x, 1)], lambda x: [softmax_of(x, 1)], "float16", 2e-3),
        (inner_norm, inner_norm_of, "float32", 1e-5),
        (inner_norm, inner_norm_of, "float64", 1e-12),
        (extremes, extremes_of, "int32", 0),
    ],
    ids=["softmax", "softmax_half", "norm", "norm_double", "extremes"],
)
@pytest.mark.parametrize(("shape", "length"), RUNS.items(), ids=str)
def test_few_rows_side_by_side(function, wanted, dtype, error, shape, length):
    """Lanes take what lies in memory, whichever row it is of."""
    x = (np.random.default_rng(3).standard_normal(shape) * 9).astype(dtype)
    b = builder()
    graph = b.finish(function(b, b.input(tensor_type(x.shape, from_short(_SHORT[dtype])))))
    (kernel,) = compile_graph(graph, CPU).kernels
    assert kernel.choice.get("run", 0) == length
    wide = x.astype(np.float64) if dtype != "int32" else x
    for got, want in zip(run(function, x), wanted(wide), strict=True):
        np.testing.assert_allclose(got.astype(wide.dtype), want, rtol=error, atol=error)


@pytest.mark.parametrize("shape", [(64, 2), (4096, 3), (20000, 8), (63, 2)], ids=str)
def test_a_row_along_an_inner_axis_is_the_same_in_any_batch(shape):
    x = np.random.default_rng(3).standard_normal(shape).astype("f")
    found = set()
    for batch in (1, 2, 5):
        for y in run(inner_norm, np.stack([x] * batch))[0]:
            found.add(y.tobytes())
    assert len(found) == 1


def test_how_many_are_added_up_over_the_batch_is_told():
    """Elsewhere lengths of runs are literals."""
    for length in (4096, 8192):
        b = builder()
        graph = b.finish([b.sum(b.input(tensor_type((length, 4), from_short("f32"))), (0,))])
        (kernel,) = compile_graph(graph, CPU).kernels
        assert "n_i" in kernel.text and "run" not in kernel.choice


def test_positions_of_rows_that_are_not_there():
    """A tile of short rows computes all its lanes: what is read at computed positions must not be among that."""

    class Gathered(HybridBlock):
        def hybrid_forward(self, F, x, at):
            return F.sum(F.take(x, at * 1.0, mode="clip") * at, axis=1), F.max(at, axis=1)

    net = Gathered()
    net.hybridize()
    x = nd.arange(50)
    for rows in (1, 3, 65):
        at = nd.array(np.random.default_rng(rows).integers(0, 50, (rows, 4)).astype(np.float32))
        got, most = (y.asnumpy() for y in net(x, at))
        np.testing.assert_allclose(got, (at.asnumpy() ** 2).sum(1))
        np.testing.assert_array_equal(most, at.asnumpy().max(1))
