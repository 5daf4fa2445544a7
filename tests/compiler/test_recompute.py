# SPDX-License-Identifier: Apache-2.0
"""Cheap values that several kernels need: computed by each, or written once, whichever moves fewer bytes."""

from __future__ import annotations

import pytest
from compiler.cases import parse
from compiler.cases.rows import softmax

from hybridgpu.compiler.ir import Builder, Graph, Node
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.program import KernelStep, Program
from hybridgpu.compiler.target import CPU, CUDA, Target
from hybridgpu.core.dtypes import f32

pytestmark = pytest.mark.no_host_code

TARGETS = pytest.mark.parametrize("target", [CPU, CUDA], ids=lambda t: t.name)
N = 512
ARRAY, ROW = 4 * N * N, 4 * N


def graph_of(function, *types: str) -> Graph:
    b = builder()
    out = function(b, *(b.input(parse(t), f"x{k}") for k, t in enumerate(types)))
    return b.finish(list(out) if isinstance(out, (list, tuple)) else [out], "g")


def stored(program: Program) -> int:
    """Bytes that go from one kernel to another."""
    made = [b for k, b in enumerate(program.buffers) if k not in program.output_buffers]  # in a result's memory, too
    return sum(b.nbytes for b in made if b.space in ("arena", "output"))


def crosswise(b: Builder, h: Node) -> tuple[Node, Node]:
    """Two readers that run over ``h`` differently (a sum over rows would be taken on the way)."""
    return softmax(b, h), b.reduce("amax", h, (0,))


#: what is needed twice, of which types, and what the program moves: reads of both kernels, results
REPEATED = {
    "a cast": (lambda b, x: crosswise(b, b.cast(x, f32)), ["f16"], 2 * (ARRAY // 2) + ARRAY + ROW),
    "a relu": (lambda b, x: crosswise(b, b.max(x, 0.0)), ["f32"], 2 * ARRAY + ARRAY + ROW),
    "a product": (lambda b, x, y: crosswise(b, x * y), ["f32", "f32"], 4 * ARRAY + ARRAY + ROW),
    "a chain": (lambda b, x, m: crosswise(b, b.max(b.cast(x, f32) * b.cast(m, f32), 0.0)), ["f16", "u8"],
                2 * (ARRAY // 2 + ARRAY // 4) + ARRAY + ROW),
}  # fmt: skip


@TARGETS
@pytest.mark.parametrize("what", REPEATED)
def test_what_is_cheaper_to_repeat_is_not_written(what, target):
    function, types, bytes_moved = REPEATED[what]
    program = compile_graph(graph_of(function, *(f"{t}[{N},{N}]" for t in types)), target)
    assert stored(program) == 0 and program.bytes_moved == bytes_moved
    assert [program.kernels[s.kernel].kind for s in program.steps] == ["rows", "reduce"]


@TARGETS
def test_a_value_that_a_later_kernel_needs_again(target):
    """The first kernel would write it beside its own result."""

    def function(b: Builder, x: Node) -> Node:
        h = x * 2.0
        return h + b.sum(b.max(h - b.sum(h, (1,), keepdims=True), 0.0), (0,), keepdims=True)

    program = compile_graph(graph_of(function, f"f32[{N},{N}]"), target)
    assert all(b.nbytes <= ROW for b in program.buffers if b.space == "arena")


def wide(b: Builder, *xs: Node) -> Node:
    total = xs[0]
    for x in xs[1:]:
        total = total + x
    return total


#: what is written once all the same
WRITTEN = {
    "made of more than it holds": (lambda b, *xs: crosswise(b, wide(b, *xs)), ["f32"] * 12),
    "many operations": (lambda b, x: crosswise(b, _often(b, x)), ["f32"]),
    "many operations on a reduction": (
        lambda b, x: crosswise(b, _often(b, x - b.sum(x, (1,), keepdims=True))),
        ["f32"],
    ),
    "a random number": (lambda b, x: crosswise(b, _mask(b) * x), ["f32"]),
}


def _often(b: Builder, x: Node) -> Node:
    for _ in range(20):
        x = b.tanh(x)
    return x


def _mask(b: Builder) -> Node:
    state = b.input(parse("u32[4]"), "state")
    bits = b.apply(b._table["random_bits"], (state,), {"shape": (N, N), "stream": 1})
    return b.cast(b.ge(b.cast(bits, f32), 2.0**31), f32)


@TARGETS
@pytest.mark.parametrize("what", WRITTEN)
def test_what_is_not_repeated(what, target):
    function, types = WRITTEN[what]
    program = compile_graph(graph_of(function, *(f"{t}[{N},{N}]" for t in types)), target)
    assert ARRAY <= stored(program) < 2 * ARRAY


def picked(b: Builder, y: Node, at: Node) -> Node:
    """The mean of one element a row, as a loss has it."""
    return b.mean(b.take_along(y, b.reshape(at, (N, 1)), axis=1), (0, 1))


def log_softmax(b: Builder, x: Node, axis: int = 1) -> Node:
    d = x - b.reduce("amax", x, (axis,), keepdims=True)
    return d - b.log(b.sum(b.exp(d), (axis,), keepdims=True))


#: what is made of rows and of their reductions, of which types, what lies between a GPU's kernels, how many arrays are moved
REDUCED = {
    "in two directions": (lambda b, x: crosswise(b, x - b.sum(x, (1,), keepdims=True)), ["f32"], ROW, 3),
    "at few places": (lambda b, x, at: picked(b, log_softmax(b, x), at), ["f32", "i64"], 2 * ROW, 1),
    "at few places, of three": (
        lambda b, x, y, z, at: picked(b, log_softmax(b, x + y + z), at),
        ["f32", "f32", "f32", "i64"],
        2 * ROW,
        3,
    ),
}


@TARGETS
@pytest.mark.parametrize("what", REDUCED)
def test_reductions_are_written_rather_than_what_is_made_of_them(what, target):
    function, kinds, between, arrays = REDUCED[what]
    types = [f"{t}[{N}]" if t == "i64" else f"{t}[{N},{N}]" for t in kinds]
    program = compile_graph(graph_of(function, *types), target)
    totals = any("full_reductions" in k.choice for k in program.kernels)  # (a host adds up what is picked on the way)
    assert totals == (target is CPU and between == 2 * ROW)
    assert stored(program) == (0 if totals else between)
    assert arrays * ARRAY < program.bytes_moved < arrays * ARRAY + 16 * ROW


@TARGETS
@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("reduced", [(0, 1, 2), (1, 2), ()], ids=["all", "each", "none"])
def test_cross_entropy_reads_its_operand_once(target, axis, reduced):
    def function(b: Builder, x: Node, at: Node) -> Node:
        label = b.reshape(at, (8, 1, 128) if axis == 1 else (8, 128, 1))
        loss = -b.take_along(log_softmax(b, x, axis), label, axis=axis)
        return b.mean(loss, reduced) if reduced else loss

    shape = "8,1000,128" if axis == 1 else "8,128,1000"
    program = compile_graph(graph_of(function, f"f32[{shape}]", "i64[8,128]"), target)
    assert program.bytes_moved < 1.05 * program.bytes_min


@TARGETS
def test_a_result_is_written_anyway(target):
    program = compile_graph(graph_of(lambda b, x: (h := x * 2.0, *crosswise(b, h)), f"f32[{N},{N}]"), target)
    assert stored(program) == 0
    assert program.bytes_moved <= 5 * ARRAY + ROW  # read, written, read twice, the softmax


# -- joins: an operand is computed for its own part only


@TARGETS
@pytest.mark.parametrize("count", [2, 4, 8])
@pytest.mark.parametrize("axis", [0, 1])
def test_operands_of_a_join_are_computed_in_their_own_loops(target, count, axis):
    def function(b: Builder, *xs: Node) -> Node:
        return b.concat([b.tanh(x) for x in xs], axis)

    program = compile_graph(graph_of(function, *[f"f32[{N},{N}]"] * count), target)
    (kernel,) = program.kernels
    assert program.bytes_moved == program.bytes_min
    # (a host stores past the caches from one line on: parts that begin elsewhere have a loop before and one behind)
    loops = 3 if target is CPU and axis == 0 else 1
    if target is CPU and count >= 4:  # loops that are alike are one, over a table of the operands
        assert f"loop < {count};" in kernel.text
        count = 1
    assert kernel.text.count("hg::tanh(") == loops * count and "?" not in kernel.text.replace("? rows", "")


@TARGETS
def test_the_border_of_a_pad_computes_nothing(target):
    graph = graph_of(lambda b, x: b.pad(b.tanh(x), low=(0, 40), high=(0, 4000), value=1.0), "f32[64,100]")
    assert len(compile_graph(graph, target).kernels) == 1


@pytest.mark.parametrize(("target", "kernels"), [(CPU, 8), (CUDA, 1)], ids=["cpu", "cuda"])
def test_short_parts_of_rows_are_computed_everywhere_or_before(target: Target, kernels: int):
    """Loops are not cut into pieces of a few elements: such operands are kernels of their own on a CPU, each of which
    writes its part.
    """
    graph = graph_of(lambda b, *xs: b.concat([b.tanh(x) for x in xs], 1), *["f32[4096,8]"] * 8)
    program = compile_graph(graph, target)
    assert len([s for s in program.steps if isinstance(s, KernelStep)]) == kernels


# -- reasons


def later(b: Builder, x: Node) -> Node:
    e = b.exp(b.exp(b.exp(x)))
    return e - b.sum(b.sum(e, (1,), keepdims=True) * e, (0,), keepdims=True)


def ordered(b: Builder, x: Node) -> Node:
    order = b.apply(b._table["argsort"], (x,), {"axis": 1, "ascending": True})
    return b.cast(order, f32) * 2.0


@TARGETS
@pytest.mark.parametrize(
    ("function", "rule", "reason"),
    [
        (later, "shared", "is computed in the kernel of sum, which runs before"),
        (ordered, "library", "argsort is a library call, which leaves its result in memory"),
    ],
    ids=["computed before", "of a library"],
)
def test_why_a_value_is_read_from_memory(target, function, rule, reason):
    program = compile_graph(graph_of(function, f"f32[{N},{N}]"), target)
    assert len(program.steps) > 1
    assert any(r == rule and text.endswith(reason) for _, _, r, text in program.refusals), program.refusals
