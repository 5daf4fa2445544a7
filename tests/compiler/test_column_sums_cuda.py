# SPDX-License-Identifier: Apache-2.0
"""Sums over all rows beside the rows on CUDA: blocks leave parts of them, which a second kernel adds up."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import add

import pytest
from compiler.cases import parse
from compiler.test_column_sums import (
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
    softmax_bias,
    softmaxes,
)
from compiler.test_rows_cuda import check
from cuda_on_cpu.static_checks import compile_report, has_nvrtc
from cuda_on_cpu.support import by_architecture

from hybridgpu.backends.cuda.driver import module_source
from hybridgpu.backends.cuda.nvrtc import NUMERIC
from hybridgpu.cache.package_files import kernels_folder
from hybridgpu.compiler.ir import Builder, Graph, Node
from hybridgpu.compiler.ir.types import tensor_type
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.program import Program
from hybridgpu.compiler.target import CUDA, cuda_target
from hybridgpu.core.dtypes import DType, f32, f64, from_short

pytestmark = pytest.mark.no_host_code

FEW = CUDA.changed(multiprocessors=2)  #: blocks have several rows, and those of some a row less
ALONE = CUDA.changed(cluster_blocks=1)  #: rows of one block, as before sm_90


def beside(program: Program) -> list[dict]:
    return [k.choice for k in program.kernels if "column_sums" in k.choice]


def four_sums(b: Builder, x: Node, dy: Node, g: Node) -> Made:
    dx, *slopes = norm_slopes(b, x, dy, g)
    return dx, *slopes, b.sum(b.tanh(x), (0,)), b.sum(x * x, (0,))


@pytest.mark.parametrize("shape", [*SHAPES, (37, 800), (130, 72), (9, 8192), (9, 20000)], ids=str)
@pytest.mark.parametrize("make", MAKERS)
def test_two_kernels_read_everything_once(make, shape, cuda_driver):
    program = check(cuda_driver, graph_of(MAKERS[make], shape), FEW, orders=2)
    (choice,) = beside(program)
    assert choice["column_sums"] == {"softmax_bias": 1, "rows_as_results": 1}.get(make, 2)
    assert len(program.steps) == 2
    parts = 2 * choice["column_sums"] * choice["parts"] * shape[-1] * 4
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


@pytest.mark.parametrize("rows", [2, 3, 8, 9, 13])
@pytest.mark.parametrize("make", ["norm_slopes", "one_merge", "softmax_bias"])
def test_any_number_of_rows_in_clusters(make, rows, cuda_driver):
    """Clusters that have no row, or one less than others; some put states together once a row, others more often."""
    program = check(cuda_driver, graph_of(IN_CLUSTERS[make], (rows, 12000)), FEW, orders=2)
    assert [c["cluster"] > 1 for c in beside(program)] == [True] and len(program.steps) == 2


@pytest.mark.parametrize("width", [8193, 9001, 16384, 30000, 65536, 131072])
@pytest.mark.parametrize("dtype", ["f16", "f32"])
def test_long_rows(dtype, width, cuda_driver):
    """Each block of a cluster owns a piece of the columns."""
    program = check(cuda_driver, graph_of(one_merge, (3, width), dtype))
    assert beside(program)[0]["cluster"] > 1 and len(program.steps) == 2


def test_nothing_is_kept_for_sums_alone(cuda_driver):
    """They take in elements in the first walk that has them; the second needs two values of each again."""
    b = builder()
    x, dy, g, mean = (b.input(parse(f"f32[{s}]"), f"x{k}") for k, s in enumerate(("9,800", "9,800", "800", "9,1")))
    n, w = b.tanh(x - mean), dy * g
    dx = w - b.mean(w, (-1,), keepdims=True) - n * b.mean(w * n, (-1,), keepdims=True)
    program = check(cuda_driver, b.finish([dx, b.sum(dy * (x - mean), (0,)), b.sum(dy, (0,))], "known_mean"), FEW)
    text = program.kernels[0].text
    assert beside(program) and "float k1[" in text and "k2[" not in text


@pytest.mark.parametrize("dtype", ["f16", "f32"])
@pytest.mark.parametrize("width", [2304, 2500, 4096, 8192])
def test_blocks_put_their_sums_together(dtype, width, cuda_driver):
    """Eight blocks of four rows leave one part: a sixteenth of the bytes of an array of float32."""
    program = check(cuda_driver, graph_of(one_merge, (67, width), dtype), FEW, orders=2)
    assert beside(program)[0]["merged"] == 8
    least = compile_graph(graph_of(one_merge, (512, width), dtype), CUDA)
    assert beside(least)[0]["parts"] <= 16
    assert least.bytes_moved < (1.05 if dtype == "f32" else 1.09) * least.bytes_min


@pytest.mark.parametrize(("width", "shared", "two"), [(8193, 227, 2), (16384, 227, 2), (16385, 227, 0), (16384, 99, 0)])
def test_long_rows_of_one_block(width, shared, two, cuda_driver):
    """What is needed again, beside sums that take half of the registers, is in shared memory."""
    program = check(cuda_driver, graph_of(norm_slopes, (3, width)), ALONE.changed(shared_bytes=shared << 10))
    assert [(c["column_sums"], "cluster" in c, "reread_bytes" in c) for c in beside(program)] == [
        (two, False, False)
    ] * bool(two)


def one_merge(b: Builder, x: Node, dy: Node, g: Node) -> Made:
    """As the derivative of a norm whose statistics are known."""
    w = dy * g
    return w - b.mean(w * x, (-1,), keepdims=True) * x, b.sum(dy * x, (0,)), b.sum(dy, (0,))


IN_CLUSTERS = MAKERS | {"one_merge": one_merge}


@pytest.mark.parametrize(("width", "most"), [(96, 70000), (20000, 50000)])
def test_text_is_the_same_for_every_number_of_rows(width, most):
    counts = (2, 5, 16, 17, 300, 5000, most)
    programs = [compile_graph(graph_of(norm_slopes, (rows, width)), CUDA) for rows in counts]
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
        (norm_slopes, (2, 131073), "whose 131073 elements are more than 8 blocks have room for"),
    ],
)
def test_what_is_refused_and_why(make, shape, reason, cuda_driver):
    program = check(cuda_driver, graph_of(make, shape))
    assert not beside(program)
    assert any(rule == "column-sums" and reason in why for _, _, rule, why in program.refusals), program.refusals


@pytest.mark.parametrize("make", TURNED)
def test_of_a_square_rows_are_not_taken_for_columns(make, cuda_driver):
    check(cuda_driver, graph_of(make, (72, 72)))


@pytest.mark.parametrize(("make", "sums"), NONE_OR_ONE)
def test_what_is_no_sum_beside_rows(make, sums, cuda_driver):
    program = check(cuda_driver, graph_of(make, (128, 128)))
    assert sum(c["column_sums"] for c in beside(program)) == sums


def test_columns_of_rows_in_pieces(cuda_driver):
    (choice,) = beside(check(cuda_driver, graph_of(in_pieces, (50, 100)), FEW))
    assert choice["column_sums"] == 1


def test_a_value_of_columns_is_stored_once(cuda_driver):
    """… by the second kernel, although it waits for no sum."""
    program = check(cuda_driver, graph_of(a_value_of_columns, (50, 100)), FEW)
    assert beside(program) and len(program.steps) == 2


def test_as_many_sums_as_there_are_registers_for(cuda_driver):
    program = check(cuda_driver, graph_of(four_sums, (5, 9000)), ALONE)
    assert [c["column_sums"] for c in beside(program)] == [3]
    reason = "for which a thread would need 72 registers"
    assert any(rule == "column-sums" and reason in why for _, _, rule, why in program.refusals), program.refusals


@pytest.mark.parametrize(("count", "width", "sums"), [(2, 128, [2]), (3, 9000, [3]), (3, 15000, [1, 2])])
def test_walks_with_sums_become_one_as_far_as_these_fit(count, width, sums, cuda_driver):
    program = check(cuda_driver, graph_of(softmaxes(count), (7, width)), ALONE.changed(multiprocessors=2))
    assert sorted(c["column_sums"] for c in beside(program)) == sums
    assert any(why.startswith(TOGETHER) for *_, why in program.refusals) is (len(sums) > 1)


def of_many(dtype: str, width: int, arrays: int, sums: int) -> Graph:
    """A softmax of a sum of many arrays, and some of them times it, summed over all rows."""
    b = builder()
    x = [b.input(parse(f"{dtype}[5,{width}]"), f"x{k}") for k in range(arrays)]
    total = reduce(add, x)
    e = b.exp(total - b.reduce("amax", total, (-1,), keepdims=True))
    y = e / b.sum(e, (-1,), keepdims=True)
    return b.finish([y, *(b.sum(a * y, (0,)) for a in x[:sums])], "of_many")


@pytest.mark.long_table
@pytest.mark.parametrize(
    ("dtype", "width", "arrays", "sums", "words"),
    [("f32", 8192, 22, 4, 0), ("f32", 9000, 22, 4, 72), ("f64", 1024, 20, 13, 0), ("f64", 1100, 20, 13, 78)],
)
def test_sums_of_many_arrays(dtype, width, arrays, sums, words, cuda_driver):
    """These take registers, too: what is not refused has a form that has enough."""
    program = check(cuda_driver, of_many(dtype, width, arrays, sums), ALONE)
    assert [c["column_sums"] for c in beside(program)] == [sums] * (not words)
    refused = [why for _, _, rule, why in program.refusals if rule == "column-sums"]
    assert [why.endswith(f"for which a thread would need {words} registers") for why in refused] == [True] * bool(words)


def two_types(dtype: DType, width: int, rows: int = 5) -> Graph:
    b = builder()
    x = b.input(parse(f"f32[{rows},{width}]"), "x")
    y = b.exp(x - b.reduce("amax", x, (-1,), keepdims=True))
    y = y / b.sum(y, (-1,), keepdims=True)
    return b.finish([y, b.sum(b.cast(x, dtype), (0,)), b.sum(x * 2.0, (0,))], "two_types")


def test_sums_of_two_types(cuda_driver):
    """The second one has other limits than the first."""
    assert beside(compile_graph(two_types(f32, 12000), ALONE))
    program = check(cuda_driver, two_types(f64, 12000), ALONE)
    assert not beside(program)
    reason = "whose 12000 elements are more than a block has room for"
    assert any(rule == "column-sums" and reason in why for _, _, rule, why in program.refusals), program.refusals


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
@pytest.mark.parametrize("arch", by_architecture(["sm_80", "sm_86", "sm_90", "sm_100", "sm_120"]))
def test_sums_stay_in_registers(arch):
    """As NVIDIA's compiler builds them: nothing is spilled."""
    shapes = [(4096, w) for w in (64, 100, 257, 768, 1024, 1500, 2048, 4096, 8192)]
    graphs = [graph_of(norm_slopes, s, d) for s in shapes for d in ("f16", "f32", "f64") if d != "f64" or s[1] <= 4096]
    graphs += [graph_of(MAKERS[m], (4096, w)) for m in ("softmax_bias", "rows_as_results") for w in (1024, 8192)]
    if cuda_target(arch, 132).gpu.cluster_blocks > 1:
        makers, long = (norm_slopes, one_merge, softmax_bias), (20000, 131072)
        graphs += [graph_of(m, (512, w), d) for m in makers for w in long for d in ("f16", "f32")]
        graphs += [graph_of(norm_slopes, (512, w), d) for w, d in ((9001, "f32"), (65536, "f32"), (65536, "f64"))]
    graphs += [two_types(from_short(d), w, 4096) for d in ("i32", "i64") for w in (1024, 4096)]
    programs = [compile_graph(g, cuda_target(arch, 132)) for g in graphs]
    assert all(beside(p) for p in programs)
    found = {k.name: k for p in programs for k in p.kernels}
    report = compile_report(module_source(list(found.values())), arch, ["-default-device"], [kernels_folder()])
    wrong = {
        n: need
        for n, need in report.kernels.items()
        if need.spills or need.registers * found[n].launch["threads"] > 1 << 16
    }
    assert not wrong, {n: (need, found[n].choice) for n, need in wrong.items()}


def norm_gelu(b: Builder, x: Node, dy: Node, g: Node) -> Made:
    """The derivative of a norm, whose statistics are known, before GELU."""
    shape = (x.shape[0], 1)
    mean, scale = (b.input(tensor_type(shape, x.dtype), name) for name in ("mean", "scale"))
    n = (x - mean) * scale
    y = n * g
    slope = dy * ((b.erf(y * 0.70710678) + 1.0) * 0.5 + y * b.exp(y * y * -0.5) * 0.39894228)
    w = slope * g
    dx = scale * (w - b.mean(w, (-1,), keepdims=True) - n * b.mean(w * n, (-1,), keepdims=True))
    return dx, b.sum(slope * n, (0,)), b.sum(slope, (0,))


def rms_slopes(b: Builder, x: Node, dy: Node, g: Node) -> Made:
    """One sum."""
    scale = b.rsqrt(b.mean(x * x, (-1,), keepdims=True) + 1e-6)
    w = dy * g
    return scale * (w - x * (scale * scale) * b.mean(w * x, (-1,), keepdims=True)), b.sum(dy * x * scale, (0,))


@pytest.mark.skipif(not has_nvrtc(), reason="NVRTC is not installed")
@pytest.mark.parametrize("arch", by_architecture(["sm_80", "sm_90", "sm_100", "sm_120"]))
def test_sums_that_take_most_registers_leave_no_stack(arch):
    """In the strict mode, as production compiles: no stack, not even in the first compilation."""
    target, lengths = cuda_target(arch, 132), (8192, 12288, 16384)
    lengths += (65536, 100000, 120000, 131072) if target.gpu.cluster_blocks > 1 else ()
    found = {}
    for make in (norm_slopes, norm_gelu, rms_slopes):
        for w in lengths:
            for k in compile_graph(graph_of(make, (512, w)), target).kernels:
                if "column_sums" in k.choice:
                    found[k.name] = k
    options = ["-default-device", *NUMERIC["strict"]]
    report = compile_report(module_source(list(found.values())), arch, options, [kernels_folder()])
    wrong = {n: need for n, need in report.kernels.items() if need.stack or need.spills}
    assert len(found) >= 2 * len(lengths) - 2
    assert not wrong, {n: (need, found[n].choice) for n, need in wrong.items()}


def test_positions_are_found_anew_where_sums_take_most_registers():
    texts = [compile_graph(graph_of(norm_slopes, (512, w)), CUDA).kernels[0].text for w in (4096, 8192, 65536, 120000)]
    assert ["hg::opaque(lane)" in t for t in texts] == [False, False, True, True]
