# SPDX-License-Identifier: Apache-2.0
"""Fusion and memory: certificates on random graphs, linear work, no recursion in deep graphs, no buffer over another."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from compiler.cases import CASES, build, parse
from compiler.one_pass import run_pass
from compiler.random_graphs import graphs
from compiler.sharing import sharing
from compiler.test_random_graphs import examples
from hypothesis import given, note
from hypothesis import strategies as st

from hybridgpu.compiler.ir import Graph, Node
from hybridgpu.compiler.ir.parse import parse_graph
from hybridgpu.compiler.ir.verify import verify
from hybridgpu.compiler.pass_context import PassContext
from hybridgpu.compiler.passes import materialize
from hybridgpu.compiler.passes.canonicalize.simplify import simplify
from hybridgpu.compiler.passes.fuse import FusionPlan, fuse
from hybridgpu.compiler.passes.memory.arena_offsets import ALIGNMENT, allocate, peak_live
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import TABLE, builder
from hybridgpu.compiler.primitives.views import RESHAPES, strip_views
from hybridgpu.compiler.program import KernelStep, Program
from hybridgpu.compiler.reference import evaluate
from hybridgpu.compiler.target import CPU, CUDA

pytestmark = pytest.mark.no_host_code


def fused(graph: Graph, target: Any) -> tuple[Graph, FusionPlan]:
    ctx = PassContext(target)
    ready = materialize.run(simplify(graph), ctx)
    return ready, fuse.run(ready, ctx)


def certify(graph: Graph, plan: FusionPlan, target: Any) -> None:
    """What groups read is computed once, by a group that runs before them and has a higher level.

    Other elementwise nodes may be computed by several groups, each for itself.
    """
    home: dict[Node, int] = {}
    repeated: set[Node] = set()
    for k, g in enumerate(plan.groups):
        members = [g.library] if g.library is not None else list(g.index_of)
        assert members
        for node in members:
            if node in home:
                repeated.add(node)
            home[node] = k
        if g.library is None:
            assert len(g.index_of) <= target.max_nodes
            assert (
                len({n for n in g.reads if n.prim.family != "leaf" or n.prim.name == "input"}) <= target.max_arguments
            )
    explained = {cut.producer for cut in plan.refusals}
    for k, g in enumerate(plan.groups):
        for read in g.reads:
            node = strip_views(read, RESHAPES)
            if node.prim.family in ("leaf", "view"):
                continue
            assert node in home, f"{node!r} is read and never computed"
            assert node not in repeated, f"{node!r} is computed twice and read from memory"
            assert node in explained, f"{node!r} is read from memory, and no reason says why"
            assert home[node] < k, f"{node!r} is read before it is computed"
            assert plan.groups[home[node]].level > g.level
    for out in graph.outputs:
        assert out in home and out not in repeated
    assert all(node.prim.family == "elementwise" for node in repeated)
    assert all(cut.rule and cut.reason for cut in plan.refusals)


@pytest.mark.parametrize("target", [CPU, CUDA], ids=lambda t: t.name)
@examples(100)
@given(graph=graphs(steps=24))
def test_random_graphs_have_certificates(target, graph):
    note(str(graph))
    certify(*fused(graph, target), target)


# -- large graphs


def chain(n: int) -> Graph:
    b = builder()
    y = b.input(parse("f32[64]"), "x")
    for k in range(n):
        y = b.tanh(y) if k % 2 else y * 1.5
    return b.finish([y], "chain")


def layers(n: int) -> Graph:
    """Residual layers with a normalisation each: nine primitives a layer."""
    b = builder()
    x = b.input(parse("f32[8,16]"), "x")
    for _ in range(n // 9):
        d = x - b.mean(x, (-1,), keepdims=True)
        x = x + d * b.rsqrt(b.mean(d * d, (-1,), keepdims=True) + 1e-5)
    return b.finish([x], "layers")


def wide(n: int) -> Graph:
    b = builder()
    x = b.input(parse("f32[64]"), "x")
    return b.finish([b.exp(x * float(k)) for k in range(n // 2)], "wide")


def random_dag(n: int, seed: int = 0) -> Graph:
    """Every node reads some of the last thirty."""
    rng = np.random.default_rng(seed)
    b = builder()
    xs = [b.input(parse("f32[8,16]"), "x")]
    for _ in range(n):
        i, j = (xs[-1 - int(rng.integers(0, min(30, len(xs))))] for _ in range(2))
        kind = rng.integers(0, 10)
        if kind < 5:
            xs.append(i + j if kind < 3 else i * j)
        elif kind < 8:
            xs.append(b.tanh(i))
        elif kind == 8:
            xs.append(i - b.reduce("amax", i, (-1,), keepdims=True))
        else:
            xs.append(b.sum(i, (0,), keepdims=True) * j)
    return b.finish(xs[-30:], "dag")


def calls(run: Callable[[], Any]) -> int:
    """How many Python functions ``run`` calls: work that does not depend on the machine."""
    count = 0

    def watch(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        run()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("make", [chain, layers, wide, random_dag])
def test_fusion_is_linear(make):
    work = {}
    for n in (500, 1000, 2000):
        ctx = PassContext(CPU, generates=lambda dot: True)
        ready = materialize.run(simplify(make(n)), ctx)
        work[n] = calls(lambda ready=ready, ctx=ctx: fuse.run(ready, ctx))
    assert work[1000] < 2.3 * work[500] and work[2000] < 2.3 * work[1000], work


@pytest.mark.parametrize("make", [chain, layers])
def test_the_whole_compiler_is_linear(make):
    work = {n: calls(lambda n=n: compile_graph(make(n), CUDA)) for n in (600, 1200, 2400)}
    assert work[1200] < 2.4 * work[600] and work[2400] < 2.4 * work[1200], work


@pytest.mark.parametrize("make", [chain, layers, wide, random_dag])
def test_ten_thousand_nodes_fuse(make):
    graph = make(10_000)
    assert len(graph.nodes) > 9_000
    certify(*fused(graph, CPU), CPU)


@pytest.mark.parametrize("make", [chain, layers])
def test_depth_is_no_recursion(make):
    """Chains of more than 5,000 with the stack Python has by default."""
    assert sys.getrecursionlimit() <= 3000
    graph = make(6_000)
    text = str(graph)
    again = parse_graph(text, TABLE)
    verify(again)
    assert str(again) == text
    x = np.random.default_rng(0).standard_normal(graph.inputs[0].shape).astype(np.float32)
    np.testing.assert_array_equal(evaluate(graph, [x])[0], evaluate(simplify(graph), [x])[0])
    for target in (CPU, CUDA):
        program = compile_graph(graph, target)
        assert Program.from_bytes(program.to_bytes()) == program


# -- memory


def overlapping(lifetimes: list[tuple[int, int, int]], offsets: list[int]) -> list[tuple[int, int]]:
    """Pairs of buffers that live at once and share bytes."""
    found = []
    for i, (first, last, nbytes) in enumerate(lifetimes):
        for j in range(i):
            alive = lifetimes[j][0] <= last and first <= lifetimes[j][1]
            if alive and offsets[i] < offsets[j] + lifetimes[j][2] and offsets[j] < offsets[i] + nbytes:
                found.append((j, i))
    return found


@examples(200)
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 8), st.integers(0, 5000)), max_size=30))
def test_no_two_living_buffers_overlap(drawn):
    lifetimes = [(first, first + length, nbytes) for first, length, nbytes in drawn]
    offsets, total = allocate(lifetimes)
    assert not overlapping(lifetimes, offsets)
    assert all(at % ALIGNMENT == 0 for at in offsets)
    assert all(at + nbytes <= total for at, (_, _, nbytes) in zip(offsets, lifetimes))
    # never worse than one after the other
    assert total <= sum(-(-max(n, 1) // ALIGNMENT) * ALIGNMENT for _, _, n in lifetimes)


def test_dead_buffers_are_used_again():
    offsets, total = allocate([(k, k + 1, 1000) for k in range(50)])
    assert total == 2048 and set(offsets) == {0, 1024}


def check_memory(program: Program) -> None:
    """What a step reads is what was written last there; operands and results are apart, but for pairs in place."""
    held: dict[int, tuple[Any, int, int]] = {}  # the buffers whose values are in memory, and where

    def whole(k: int) -> int:
        return program.buffers[k].parent if program.buffers[k].parent >= 0 else k

    def lies(k: int) -> tuple[Any, int, int]:
        b = program.buffers[whole(k)]
        if b.space == "output":
            return b.index, 0, b.nbytes
        if b.space == "barrier":  # what blocks wait on is no value
            return "barrier", 0, 0
        assert b.index + b.nbytes <= program.arena_bytes
        return "arena", b.index, b.index + b.nbytes

    def there(k: int) -> bool:
        parts = sum(program.buffers[j].nbytes for j in held if program.buffers[j].parent == k)
        return k in held or parts == program.buffers[k].nbytes

    def meet(a: tuple[Any, int, int], b: tuple[Any, int, int]) -> bool:
        return a[0] == b[0] and a[1] < b[2] and b[1] < a[2]

    for at, step in enumerate(program.steps):
        over: set[tuple[int, int]] = set()
        if isinstance(step, KernelStep):
            split = len(step.buffers) - step.outputs
            read, written, over = step.buffers[:split], step.buffers[split:], set(step.in_place)
        else:
            read, written = step.inputs, (step.output,)
        inside = [k for k in read if program.buffers[k].space != "input"]
        for k in inside:
            assert there(k), f"step {at} reads buffer {k}, which is not there"
        for n, k in enumerate(written):
            assert program.buffers[k].space != "input", f"step {at} writes an input"
            place = lies(k)
            for j in (*inside, *(j for j in written[:n] if whole(j) == j or whole(j) != whole(k))):
                assert not meet(lies(j), place) or (j, k) in over, f"step {at} writes buffer {k} over {j}"
            for j in [j for j, other in held.items() if meet(other, place) and (whole(j) == j or whole(j) != whole(k))]:
                del held[j]
            held[k] = place
    for k in program.output_buffers:
        assert there(k), "a result is not there in the end"


@pytest.mark.parametrize("target", [CPU, CUDA], ids=lambda t: t.name)
@examples(100)
@given(graph=graphs(steps=24))
def test_memory_of_random_graphs(target, graph):
    note(str(graph))
    check_memory(compile_graph(graph, target))
    with sharing("as large ones"):
        check_memory(compile_graph(graph, target))


@pytest.mark.parametrize("target", [CPU, CUDA], ids=lambda t: t.name)
def test_memory_of_cases_and_large_graphs(target):
    for name in CASES:
        with sharing("everywhere"):
            check_memory(compile_graph(build(name), target))
    for make in (layers, random_dag):
        with sharing("as large ones"):
            program = compile_graph(make(2000), target)
        check_memory(program)
        temporary = sum(b.nbytes for b in program.buffers if b.space == "arena")
        assert program.arena_bytes <= temporary + ALIGNMENT * len(program.buffers)


@examples(200)
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 8), st.integers(0, 5000)), max_size=30))
def test_least_is_the_fullest_step(drawn):
    lifetimes = [(first, first + length, nbytes) for first, length, nbytes in drawn]
    sizes = [-(-max(n, 1) // ALIGNMENT) * ALIGNMENT for _, _, n in lifetimes]
    steps = {t for first, last, _ in lifetimes for t in (first, last)}
    fullest = max((sum(z for z, (a, b, _) in zip(sizes, lifetimes) if a <= t <= b) for t in steps), default=0)
    assert peak_live(lifetimes) == fullest <= allocate(lifetimes)[1]


@pytest.mark.parametrize(("limit", "rule"), [("max_arguments", "arguments"), ("max_nodes", "size")])
def test_readers_of_one_array_become_one_as_far_as_there_is_room(limit, rule):
    """Each multiplies it by arrays of its own."""
    b = builder()
    x, *others = (b.input(parse("f32[40]"), f"x{k}") for k in range(13))
    outs = [x * y * z for y, z in zip(others[::2], others[1::2], strict=True)]
    for target in (CPU, CUDA):
        for most in range(4, 14):
            _, plan = fused(b.finish(outs, "siblings"), target.changed(**{limit: most}))
            sizes = [len(g.index_of) if rule == "size" else len(g.reads) for g in plan.groups]
            each = 2 if rule == "size" else 1 + 2
            room = most // 2 if rule == "size" else (most - 1) // 2  # of outputs that a kernel may have
            assert len(sizes) == -(-6 // min(room, 6)) and each <= max(sizes) <= most


def products(name: str, *shapes: str) -> Callable[..., Graph]:
    """A graph of what follows products of such matrices."""

    def of(follow: Callable[..., Node]) -> Graph:
        b = builder()
        found = [b.dot(b.input(parse(s), f"x{k}"), b.input(parse("f32[16,8]"), f"w{k}")) for k, s in enumerate(shapes)]
        return b.finish([follow(b, *found)], name)

    return of


MORE, NOT_ONCE = "has more elements than the contraction", "does not read each result of the contraction once"
TWO, ONE = products("two", "f32[6,16]", "f32[6,16]"), products("one", "f32[6,16]")


@pytest.mark.parametrize(
    ("graph", "why"),
    [
        (TWO(lambda b, x, y: b.concat([x, y], 0)), ""),
        (TWO(lambda b, x, y: b.concat([x, y], 1)), ""),
        (ONE(lambda b, x: b.pad(x, (0, 1), (1, 0), 0.0)), MORE),
        (ONE(lambda b, x: b.broadcast(b.reshape(x, (1, 6, 8)), (3, 6, 8)) + 1.0), MORE),
        (ONE(lambda b, x: b.slice(x, (0, 0), (3, 8)) + 1.0), NOT_ONCE),
        (ONE(lambda b, x: b.reverse(x, axes=(0,)) + 1.0), NOT_ONCE),
        (ONE(lambda b, x: x + 1.0), ""),
    ],
    ids=["rows joined", "columns joined", "padded", "repeated", "a part", "turned round", "each once"],
)
@pytest.mark.parametrize("target", [CPU, CUDA], ids=lambda t: t.name)
def test_what_is_no_epilogue_is_told_why(graph, why, target):
    """(The parts of a join are stored where they belong.)"""
    reasons = {reason for *_, rule, reason in compile_graph(graph, target).refusals if rule == "epilogue"}
    assert len(reasons) == bool(why) and all(f" {why}" in reason for reason in reasons)


def test_one_result_many_times_is_copied_each_from_the_first():
    """A thousand heads of one value: no chain of copies, whose length was squared."""
    b = builder()
    y = b.exp(b.input(parse("f32[2,3]"), "x"))
    graph = run_pass("materialize", b.finish([y] * 1000), CPU)
    copies = [n for n in graph.nodes if n.prim.name == "copy"]
    assert len(copies) == 999
    assert {n.inputs[0].prim.name for n in copies} == {"exp"}
