# SPDX-License-Identifier: Apache-2.0
"""Matrix products by cuBLASLt's stand-in: how operands lie in memory, types, epilogues, algorithms, failures."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest
from cublaslt_on_cpu.support import PLAIN, SPLIT, FakeProducts
from cudnn_on_cpu.support import Memory
from hypothesis import given, settings
from hypothesis import strategies as st

from hybridgpu.backends.cuda.cublaslt import CublasLtError
from hybridgpu.backends.cuda.cublaslt_dot import Matrices, ProductLibrary, matrices
from hybridgpu.backends.library import LibraryRequest, Unsupported
from hybridgpu.compiler.ir.types import tensor_type
from hybridgpu.compiler.primitives import TABLE
from hybridgpu.core.dtypes import bf16, f16, f32, f64, i32

#: of rounding the result, relative to it
BOUND = {"f16": 6e-4, "bf16": 5e-3, "f32": 2e-7, "f64": 4e-15}


@pytest.fixture
def fake(tmp_path):
    return FakeProducts(tmp_path)


@pytest.fixture
def place():
    return Memory()


@pytest.fixture
def library(fake, place):
    return ProductLibrary(place, fake.find)


def filled(shape, dtype, swapped=False, seed=3):
    rng = np.random.default_rng(seed + sum(shape))
    if swapped:
        shape = (*shape[:-2], shape[-1], shape[-2])
    a = rng.normal(size=shape).astype(np.float64).astype(dtype.np)
    return a.swapaxes(-1, -2) if swapped else a


def compute(library, operands, dtype, relu=None):
    """(the result, what was prepared); with a third operand, a bias."""
    primitive = "dot" if len(operands) == 2 else "gemm_bias"
    params = {} if primitive == "dot" else {"relu": bool(relu)}
    types = [tensor_type(a.shape, dtype) for a in operands]
    out = TABLE[primitive].infer(types, params)
    prepared = library.prepare(LibraryRequest(primitive, types, params, out, "fc0"))
    y = np.full(out.shape, np.nan, np.float64).astype(dtype.np)
    assert prepared(operands, y)
    return y, prepared


def check(y, operands, relu=False):
    x, w, *bias = (a.astype(np.float64) for a in operands)
    want = x @ w + (bias[0] if bias else 0)
    if relu:
        want = np.maximum(want, 0)
    short = {2: "f16", 4: "f32", 8: "f64"}[y.dtype.itemsize] if y.dtype.kind == "f" else "bf16"
    np.testing.assert_allclose(y.astype(np.float64), want, rtol=BOUND[short], atol=1e-7)


@pytest.mark.parametrize("dtype", [f16, bf16, f32, f64], ids=lambda d: d.short)
@pytest.mark.parametrize(("left", "right"), [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize("batch", [(), (3,), (2, 3)], ids=str)
def test_layouts_and_types(library, fake, dtype, left, right, batch):
    operands = [filled((*batch, 5, 7), dtype, left), filled((*batch, 7, 4), dtype, right)]
    y, prepared = compute(library, operands, dtype)
    check(y, operands)
    assert fake.products == 1 and fake.algorithm == SPLIT  # never the one that adds parts in the result's type
    assert prepared.note == "cuBLASLt 12.3.1"


@pytest.mark.parametrize("dtype", [f16, bf16, f32, f64], ids=lambda d: d.short)
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("batch", [(), (3,)], ids=str)
def test_epilogues(library, fake, dtype, relu, batch):
    operands = [filled((*batch, 5, 7), dtype), filled((*batch, 7, 4), dtype, True), filled((4,), dtype)]
    y, prepared = compute(library, operands, dtype, relu)
    check(y, operands, relu)
    words = "bias and relu" if relu else "bias"
    assert prepared.note == f"cuBLASLt 12.3.1, {words} in its epilogue"
    again = [operands[0], operands[1], filled((4,), dtype, seed=9)]  # another bias, by the same description
    out = np.empty_like(y)
    assert prepared(again, out)
    check(out, again, relu)
    assert fake.count("cublasLtMatmulAlgoGetHeuristic") == 1


@pytest.mark.parametrize(
    ("shape", "strides", "found"),
    [
        ((5, 7), (7, 1), Matrices(False, 7, (1, 0))),
        ((5, 7), (1, 5), Matrices(True, 5, (1, 0))),
        ((5, 7), (9, 1), Matrices(False, 9, (1, 0))),
        ((5, 7), (1, 8), Matrices(True, 8, (1, 0))),
        ((1, 7), (0, 1), Matrices(False, 7, (1, 0))),
        ((5, 1), (1, 0), Matrices(False, 1, (1, 0))),
        ((1, 7), (1, 3), Matrices(True, 3, (1, 0))),
        ((2, 3, 5, 7), (105, 35, 7, 1), Matrices(False, 7, (6, 35))),
        ((2, 1, 5, 7), (40, 9, 7, 1), Matrices(False, 7, (2, 40))),
        ((4, 5, 7), (0, 7, 1), Matrices(False, 7, (4, 0))),
        ((2, 3, 5, 7), (35, 70, 7, 1), None),
        ((5, 7), (-7, 1), None),
        ((5, 7), (14, 2), None),
        ((5, 7), (0, 1), None),
        ((4, 5, 7), (-35, 7, 1), None),
    ],
)
def test_strides(shape, strides, found):
    assert matrices(shape, strides) == found


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_view(data):
    """What ``matrices`` says of a view is where its elements lie."""
    draw = data.draw
    whole = np.arange(3 * 6 * 8 * 5).reshape(3, 6, 8, 5)
    view = whole.transpose(draw(st.permutations(range(4))))
    slices = [
        slice(draw(st.integers(0, 2)), None, draw(st.sampled_from([1, 1, 2, -1])))
        if draw(st.booleans())
        else slice(None)
        for _ in range(4)
    ]
    view = view[tuple(slices)]
    if not view.size:
        return
    found = matrices(view.shape, [s // 8 for s in view.strides])
    if found is None:
        return
    (count, step), first = found.batch, view[(0,) * 4]
    rows, columns = view.shape[-2:]
    by_row, by_column = (1, found.leading) if found.transposed else (found.leading, 1)
    k, i, j = np.ogrid[:count, :rows, :columns]
    np.testing.assert_array_equal(first + k * step + i * by_row + j * by_column, view.reshape(count, rows, columns))


@pytest.mark.parametrize("dtype", [bf16, f32], ids=lambda d: d.short)
def test_what_no_description_has_is_copied(library, dtype):
    x = filled((10, 14), dtype)[::2, ::2]
    w = filled((7, 8), dtype)[::-1, ::2]
    bias = filled((8,), dtype)[::2]
    operands = [x, w, bias]
    y, _ = compute(library, operands, dtype)
    check(y, operands)


def test_addresses_that_are_hardly_aligned(library, fake):
    """The heuristic is told; the stand-in fails where an address is less aligned than it was told."""
    raw = np.zeros(4 * 35 + 64, np.uint8)
    skip = -raw.__array_interface__["data"][0] % 16 + 4
    x = raw[skip : skip + 140].view(np.float32).reshape(5, 7)
    x[...] = filled((5, 7), f32)
    operands = [x, filled((7, 4), f32)]
    y, _ = compute(library, operands, f32)
    check(y, operands)


def test_a_plan_for_each_way_in_memory(library, fake):
    types = [tensor_type((5, 7), f32), tensor_type((7, 4), f32)]
    prepared = library.prepare(LibraryRequest("dot", types, {}, tensor_type((5, 4), f32), "fc0"))
    x, w = filled((5, 7), f32), filled((7, 4), f32)
    y = np.empty((5, 4), np.float32)
    for _ in range(3):
        prepared([x, w], y)
        prepared([x, filled((7, 4), f32, True)], y)
    assert fake.products == 6
    assert 2 <= fake.count("cublasLtMatmulAlgoGetHeuristic") <= 4  # NumPy's alignment varies
    for extra in range(20):  # they are forgotten again
        prepared([np.zeros((5, 20 + extra), np.float32)[:, :7], w], y)
    assert len(prepared._plans) == 8
    del prepared
    gc.collect()
    assert fake.descriptors == 0


def test_infinities_stay_in_their_rows(library):
    x, w = filled((5, 7), f32), filled((7, 4), f32)
    x[2, 3] = np.inf
    y, _ = compute(library, [x, w], f32)
    assert [tuple(i) for i in np.argwhere(~np.isfinite(y))] == [(2, j) for j in range(4)]


def test_the_next_algorithm_where_one_is_refused(library, fake):
    fake.plant("refuse", SPLIT)
    operands = [filled((5, 7), f32), filled((7, 4), f32)]
    y, prepared = compute(library, operands, f32)
    check(y, operands)
    assert fake.algorithm == PLAIN and fake.products == 2
    prepared(operands, y)
    assert fake.products == 3  # what was refused is not tried again


def test_no_algorithm(library, fake):
    fake.plant("none", 1)
    types = [tensor_type((5, 7), f32), tensor_type((7, 4), f32)]
    prepared = library.prepare(LibraryRequest("dot", types, {}, tensor_type((5, 4), f32), "fc0"))
    y = np.full((5, 4), 7, np.float32)
    assert not prepared([filled((5, 7), f32), filled((7, 4), f32)], y)
    assert (y == 7).all() and prepared.note == "CuPy's matmul (cuBLASLt 12.3.1 has no algorithm for it)"
    fake.plant("none", 0)
    fake.plant("cublasLtMatmulAlgoGetHeuristic", 15)
    other = library.prepare(LibraryRequest("dot", types, {}, tensor_type((5, 4), f32), "fc0"))
    assert not other([filled((5, 7), f32), filled((7, 4), f32)], y)


@pytest.mark.parametrize("function", ["cublasLtMatmul", "cublasLtMatmulAlgoGetHeuristic", "cublasLtMatmulDescCreate"])
def test_failures_name_the_operator(library, fake, function):
    fake.plant(function, 13)
    with pytest.raises(CublasLtError, match=rf"^Error in operator fc0: {function} of cuBLASLt 12.3.1 failed: "):
        compute(library, [filled((5, 7), f32), filled((7, 4), f32)], f32)


@pytest.mark.parametrize(
    ("primitive", "shapes", "dtype", "said"),
    [
        ("conv", ((1, 1, 3, 3), (1, 1, 1, 1)), f32, None),
        ("dot", ((5, 7), (7, 4)), i32, "CuPy's matmul (cuBLASLt is not used for int32)"),
        ("dot", ((5, 0), (0, 4)), f32, "CuPy's matmul (nothing is multiplied)"),
        ("dot", ((0, 5), (5, 4)), f32, "CuPy's matmul (nothing is multiplied)"),
        ("dot", ((1, 5), (5, 1 << 31)), f32, "CuPy's matmul (more than 2^31 rows)"),
    ],
)
def test_what_is_left_to_the_array_module(library, primitive, shapes, dtype, said):
    types = [tensor_type(s, dtype) for s in shapes]
    out = tensor_type((*shapes[0][:-1], shapes[1][-1]), dtype)
    prepared = library.prepare(LibraryRequest(primitive, types, {}, out, "x"))
    if said is None:
        assert prepared is None
    else:
        assert isinstance(prepared, Unsupported) and prepared.note == said


def test_without_the_library(place):
    library = ProductLibrary(place, lambda cuda: "it is not here")
    types = [tensor_type((5, 7), f32), tensor_type((7, 4), f32)]
    assert (
        library.prepare(LibraryRequest("dot", types, {}, tensor_type((5, 4), f32), "x")).note
        == "CuPy's matmul (it is not here)"
    )
    assert not library.supports("gemm_bias")


def test_it_is_looked_for_once_and_has_one_handle(library, fake, place):
    place.current_stream = 77
    for _ in range(2):
        compute(library, [filled((5, 7), f32), filled((7, 4), f32)], f32)
    assert fake.finds == 1 and fake.count("cublasLtCreate") == 1
    assert fake.stream == 77 and place.entered == 0 and library.supports("gemm_bias") and not library.supports("dot")


def test_threads(library, fake):
    """Each its own bias, by one description."""
    x, w = filled((5, 7), f32), filled((7, 4), f32)
    types = [tensor_type(a.shape, f32) for a in (x, w)] + [tensor_type((4,), f32)]
    prepared = library.prepare(LibraryRequest("gemm_bias", types, {"relu": False}, tensor_type((5, 4), f32), "fc0"))
    wrong = []

    def work(number):
        bias = np.full(4, number, np.float32)
        y = np.empty((5, 4), np.float32)
        for _ in range(50):
            prepared([x, w, bias], y)
            if not np.allclose(y, x @ w + number, atol=1e-5):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and fake.products == 200
