# SPDX-License-Identifier: Apache-2.0
"""Sums over all rows beside the rows on CUDA: blocks leave parts of them, which a second kernel adds up."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import add

import pytest
from compiler.cases import parse
from compiler.test_beside import (
    MAKERS,
    NONE_OR_ONE,
    SHAPES,
    TOGETHER,
    TURNED,
    Made,
    a_value_of_columns,
    extremes,
    graph_of,
    in_pieces,
    in_turn,
    mixture,
    norm_slopes,
    scaled_slopes,
    softmaxes,
)
from compiler.test_rows_cuda import check
from cuda_on_cpu.static_checks import compile_report, has_nvrtc

from hybridgpu.backends.cuda.driver import module_source
from hybridgpu.compiler.ir import Builder, Graph, Node
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.program import Program
from hybridgpu.compiler.target import CUDA, cuda_target
from hybridgpu.dtypes import DType, f64, from_short
from hybridgpu.resources import kernels_folder

FEW = replace(CUDA, multiprocessors=2)  #: blocks have several rows, and those of some a row less


def beside(program: Program) -> list[dict]:
    return [k.choice for k in program.kernels if "sums_beside_rows" in k.choice]


def four_sums(b: Builder, x: Node, dy: Node, g: Node) -> Made:
    dx, *slopes = norm_slopes(b, x, dy, g)
    return dx, *slopes, b.sum(b.tanh(x), (0,)), b.sum(x * x, (0,))


@pytest.mark.parametrize("shape", [*SHAPES, (37, 800), (130, 72), (9, 8192)], ids=str)
@pytest.mark.parametrize("make", MAKERS)
def test_two_kernels_read_everything_once(make, shape, cuda_driver):
    program = check(cuda_driver, graph_of(MAKERS[make], shape), FEW, orders=2)
    (choice,) = beside(program)
    assert choice["sums_beside_rows"] == {"softmax_bias": 1, "rows_as_results": 1}.get(make, 2)
    assert len(program.steps) == 2
    parts = 2 * choice["sums_beside_rows"] * choice["parts"] * shape[-1] * 4
    beyond = 0 if make != "scaled_slopes" else 4 * shape[-1]  # what a sum is added to is read by the second kernel, too
    assert program.bytes_moved - program.bytes_min == parts + beyond


@pytest.mark.parametrize(("dtype", "width"), [("f16", 90), ("f16", 512), ("bf16", 96), ("f64", 100), ("f64", 2048)])
@pytest.mark.parametrize("make", MAKERS)
def test_every_float(make, dtype, width, cuda_driver):
    assert beside(check(cuda_driver, graph_of(MAKERS[make], (70, width), dtype), FEW))


@pytest.mark.parametrize("rows", [2, 3, 4, 5, 8, 9, 31, 64])
def test_any_number_of_rows(rows, cuda_driver):
    """Blocks and teams that have no row, or one less than others."""
    for target in (FEW, CUDA):
        assert beside(check(cuda_driver, graph_of(norm_slopes, (rows, 160)), target))


def test_text_is_the_same_for_every_number_of_rows():
    counts = (2, 5, 16, 17, 300, 5000, 70000)
    programs = [compile_graph(graph_of(norm_slopes, (rows, 96)), CUDA) for rows in counts]
    assert all(beside(p) for p in programs)
    assert len({tuple(k.text for k in p.kernels) for p in programs}) == 1


def test_many_rows_are_added_up_in_parts(cuda_driver):
    """A sum of 6,000 values of one sign in float32."""
    b = builder()
    x = b.input(parse("f32[6000,64]"), "x")
    y = b.exp(x - b.reduce("amax", x, (-1,), keepdims=True))
    program = check(cuda_driver, b.finish([y / b.sum(y, (-1,), keepdims=True), b.sum(y, (0,))], "many"))
    assert beside(program)[0]["parts"] > 8


def test_sums_of_many_rows_are_not_reduced_apart():
    """Columns of so many rows would be cut into parts otherwise, which are no sums over all rows any more."""
    for shape in ((60000, 256), (16, 4096, 768)):
        program = compile_graph(graph_of(scaled_slopes, shape), CUDA)
        assert len(program.steps) == 2 and beside(program)
        assert program.bytes_moved < 1.1 * program.bytes_min


@pytest.mark.parametrize(
    ("make", "shape", "reason"),
    [
        (in_turn, (50, 100), "needs its sums over all rows before these were walked"),
        (extremes, (50, 100), "which add up sums only on the way"),
        (norm_slopes, (50, 48), "whose 48 elements are too few to be walked one by one"),
        (norm_slopes, (50, 20000), "whose 20000 elements are more than a block has registers for"),
    ],
)
def test_what_is_refused_and_why(make, shape, reason, cuda_driver):
    program = check(cuda_driver, graph_of(make, shape))
    assert not beside(program)
    assert any(rule == "beside" and reason in why for _, _, rule, why in program.cuts), program.cuts


@pytest.mark.parametrize("make", TURNED)
def test_of_a_square_rows_are_not_taken_for_columns(make, cuda_driver):
    check(cuda_driver, graph_of(make, (72, 72)))


@pytest.mark.parametrize(("make", "sums"), NONE_OR_ONE)
def test_what_is_no_sum_beside_rows(make, sums, cuda_driver):
    program = check(cuda_driver, graph_of(make, (128, 128)))
    assert sum(c["sums_beside_rows"] for c in beside(program)) == sums


def test_columns_of_rows_in_pieces(cuda_driver):
    (choice,) = beside(check(cuda_driver, graph_of(in_pieces, (50, 100)), FEW))
    assert choice["sums_beside_rows"] == 1


def test_a_value_of_columns_is_stored_once(cuda_driver):
    """… by the second kernel, although it waits for no sum."""
    program = check(cuda_driver, graph_of(a_value_of_columns, (50, 100)), FEW)
    assert beside(program) and len(program.steps) == 2


def test_as_many_sums_as_there_are_registers_for(cuda_driver):
    program = check(cuda_driver, graph_of(four_sums, (50, 6000)))
    assert [c["sums_beside_rows"] for c in beside(program)] == [2]
    reason = "for which a thread would need 48 registers"
    assert any(rule == "beside" and reason in why for _, _, rule, why in program.cuts), program.cuts


@pytest.mark.parametrize(("count", "width", "sums"), [(2, 128, [2]), (3, 5000, [3]), (3, 6000, [1, 2])])
def test_walks_with_sums_become_one_as_far_as_these_fit(count, width, sums, cuda_driver):
    program = check(cuda_driver, graph_of(softmaxes(count), (7, width)), FEW)
    assert sorted(c["sums_beside_rows"] for c in beside(program)) == sums
    assert any(why.startswith(TOGETHER) for *_, why in program.cuts) is (len(sums) > 1)


def of_many(dtype: str, width: int, arrays: int, sums: int) -> Graph:
    """A softmax of a sum of many arrays, and some of them times it, summed over all rows."""
    b = builder()
    x = [b.input(parse(f"{dtype}[5,{width}]"), f"x{k}") for k in range(arrays)]
    total = reduce(add, x)
    e = b.exp(total - b.reduce("amax", total, (-1,), keepdims=True))
    y = e / b.sum(e, (-1,), keepdims=True)
    return b.finish([y, *(b.sum(a * y, (0,)) for a in x[:sums])], "of_many")


@pytest.mark.parametrize(
    ("dtype", "width", "arrays", "sums", "words"),
    [("f32", 4096, 26, 4, 0), ("f32", 5461, 26, 3, 33), ("f64", 512, 20, 13, 0), ("f64", 600, 20, 13, 52)],
)
def test_sums_of_many_arrays(dtype, width, arrays, sums, words, cuda_driver):
    """These take registers, too: what is not refused has a form that has enough."""
    program = check(cuda_driver, of_many(dtype, width, arrays, sums))
    assert [c["sums_beside_rows"] for c in beside(program)] == [sums] * (not words)
    refused = [why for _, _, rule, why in program.cuts if rule == "beside"]
    assert [why.endswith(f"for which a thread would need {words} registers") for why in refused] == [True] * bool(words)


def two_types(dtype: DType, width: int, rows: int = 5) -> Graph:
    b = builder()
    x = b.input(parse(f"f32[{rows},{width}]"), "x")
    y = b.exp(x - b.reduce("amax", x, (-1,), keepdims=True))
    y = y / b.sum(y, (-1,), keepdims=True)
    return b.finish([y, b.sum(b.cast(x, dtype), (0,)), b.sum(x * 2.0, (0,))], "two_types")


def test_sums_of_two_types(cuda_driver):
    """The second one has other limits than the first."""
    program = check(cuda_driver, two_types(f64, 8192))
    assert not beside(program)
    reason = "would need 48 registers"
    assert any(rule == "beside" and reason in why for _, _, rule, why in program.cuts), program.cuts


@pytest.mark.parametrize("dtype", ["i8", "u8", "i32", "i64"])
@pytest.mark.parametrize("width", [90, 512])
def test_sums_of_integers(dtype, width, cuda_driver):
    """They are exact, in whatever order."""
    assert beside(check(cuda_driver, two_types(from_short(dtype), width, 70), FEW))


@pytest.mark.parametrize("dtype", ["i8", "u8", "i32", "i64"])
def test_rows_of_integers(dtype, cuda_driver):
    """The largest of each row, how far elements are from it, and sums over all rows, which wrap."""
    b = builder()
    x = b.input(parse(f"{dtype}[70,160]"), "x")
    far = b.reduce("amax", x, (-1,), keepdims=True) - x
    assert beside(check(cuda_driver, b.finish([far, b.sum(x, (0,)), b.sum(far * x, (0,))], "integers"), FEW))


@pytest.mark.parametrize("seed", range(100, 106))
def test_mixtures(seed, cuda_driver):
    check(cuda_driver, mixture(seed), FEW)


def test_as_steps_of_one_kernel(cuda_driver):
    target = replace(FEW, resident="always")
    program = check(cuda_driver, graph_of(scaled_slopes, (37, 800)), target)
    assert [k.kind for k in program.kernels] == ["graph"]


@pytest.mark.skipif(not has_nvrtc(), reason="NVRTC is not installed")
@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_90", "sm_100", "sm_120"])
def test_sums_stay_in_registers(arch):
    """As NVIDIA's compiler builds them: nothing is spilled."""
    shapes = [(4096, w) for w in (64, 100, 257, 768, 1024, 1500, 2048, 4096, 8192)]
    graphs = [graph_of(norm_slopes, s, d) for s in shapes for d in ("f16", "f32", "f64") if d != "f64" or s[1] <= 4096]
    graphs += [graph_of(MAKERS[m], (4096, w)) for m in ("softmax_bias", "rows_as_results") for w in (1024, 8192)]
    graphs += [two_types(from_short(d), w, 4096) for d in ("i32", "i64") for w in (1024, 4096)]
    found = {k.name: k for g in graphs for k in compile_graph(g, cuda_target(arch, 132)).kernels}
    assert sum("sums_beside_rows" in k.choice for k in found.values()) >= len(graphs) - 1
    report = compile_report(module_source(list(found.values())), arch, ["-default-device"], [kernels_folder()])
    wrong = {
        n: need
        for n, need in report.kernels.items()
        if need.spills or need.registers * found[n].launch["threads"] > 1 << 16
    }
    assert not wrong, {n: (need, found[n].choice) for n, need in wrong.items()}
