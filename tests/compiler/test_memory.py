# SPDX-License-Identifier: Apache-2.0
"""Memory that is used again: results over operands, intermediate results where results will lie; values from poison."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from compiler.cases import arrays, parse
from compiler.oracle import Oracle
from compiler.random_graphs import graphs
from compiler.sharing import sharing
from compiler.test_random_graphs import examples, show
from cuda_on_cpu.static_checks import compile_report, has_nvrtc
from cuda_on_cpu.support import by_architecture
from emulated import aligned
from hypothesis import assume, given, note
from hypothesis import strategies as st

import hybridgpu as mx
from hybridgpu.backends.base import Mode
from hybridgpu.backends.cpu.backend import cpu_backend
from hybridgpu.backends.cuda.backend import CudaBackend
from hybridgpu.backends.cuda.driver import module_source
from hybridgpu.backends.cuda.nvrtc import NUMERIC
from hybridgpu.cache.package_files import kernels_folder
from hybridgpu.compiler import pipeline
from hybridgpu.compiler.ir import Builder, Graph, Node
from hybridgpu.compiler.passes.memory.arena_offsets import ALIGNMENT
from hybridgpu.compiler.passes.memory.buffer_reuse import reuse_buffers
from hybridgpu.compiler.passes.memory.step_order import StepBuffers, order_steps
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.program import KernelStep, Program
from hybridgpu.compiler.target import CPU, CUDA, Target, cuda_target
from hybridgpu.core.dtypes import from_short
from hybridgpu.gluon import nn

pytestmark = pytest.mark.unsanitized("about the plan of memory: it fills arenas with their gaps, or measures them")

# -- which results may lie over which operands


def row_max(b: Builder, x: Node) -> Node:
    return b.reduce("amax", x, (-1,), keepdims=True)


def softmax(b: Builder, x: Node) -> Node:
    e = b.exp(x - row_max(b, x))
    return e / b.sum(e, (-1,), keepdims=True)


def convolved(b: Builder, x: Node, w: Node, r: Node) -> Node:
    rank = x.ndim - 2
    low = tuple(d // 2 for d in w.shape[2:])
    params = {"stride": (1,) * rank, "low": low, "high": low, "dilate": (1,) * rank, "base_dilate": (1,) * rank}
    return b.max(b.apply(b._table["conv"], (x, w), {**params, "groups": 1}) + r, 0.0)


def spread(b: Builder, row: Node, shape: tuple[int, ...]) -> Node:
    return b.broadcast(b.reshape(row, (1,) * (len(shape) - row.ndim) + row.shape), shape)


Rule = tuple[Any, tuple[str, ...], Any]
#: what a kernel computes -> (function of a builder, types of the operands, pairs of operand and result by number)
RULES: dict[str, Rule] = {
    "a chain": (lambda b, x, y: b.tanh(x * y + 1.0), ("f32[6,50]", "f32[6,50]"), "0>0 1>0"),
    "two results of one operand": (lambda b, x: (x + 1.0, b.exp(x)), ("f32[300]",), "0>0 0>1"),
    "a row beside": (lambda b, x, r: x * spread(b, r, x.shape), ("f32[6,50]", "f32[50]"), "0>0"),
    "under another shape": (lambda b, x: b.exp(b.reshape(x, (50, 6))), ("f32[6,50]",), "0>0"),
    "both transposed": (lambda b, x: b.transpose(b.exp(b.transpose(x, (1, 0))), (1, 0)), ("f32[9,50]",), "0>0"),
    "halves": (lambda b, x, y: x + y, ("f16[600]", "f16[600]"), "0>0 1>0"),
    "another type": (lambda b, x: b.cast(x, from_short("i32")), ("f32[300]",), ""),
    "turned": (lambda b, x: b.transpose(b.exp(x), (1, 0)), ("f32[40,50]",), ""),
    "turned onto itself": (lambda b, x: x + b.transpose(x, (1, 0)), ("f32[40,40]",), ""),
    "a neighbour": (lambda b, x, y: x * b.reverse(x, axes=(0,)) + y, ("f32[300]", "f32[300]"), "1>0"),
    "a part": (lambda b, x: b.exp(b.slice(x, (0,), (200,), (1,))), ("f32[300]",), ""),
    "a join": (lambda b, x, y: b.concat((x, y), 0), ("f32[300]", "f32[300]"), ""),
    "positions read at run time": (lambda b, x, i: b.take(x, i, axis=0) + x, ("f32[300]", "i32[300]"), ""),
    "softmax": (lambda b, x: softmax(b, x), ("f32[64,300]",), "0>0"),
    "softmax written across": (lambda b, x: b.transpose(softmax(b, x), (1, 0)), ("f32[64,300]",), ""),
    "a sum": (lambda b, x: b.sum(x, (1,)), ("f32[64,300]",), ""),
    "a sum of rows of one": (lambda b, x: b.sum(x, (1,)) * 2.0, ("f32[64,1]",), "0>0"),
    "columns": (lambda b, x: x / b.sum(x, (0,), keepdims=True), ("f32[30,512]",), "0>0"),
    "a product's bias": (
        lambda b, x, w, r: b.max(b.dot(x, w) + r, 0.0),
        ("f32[3,40]", "f32[40,24]", "f32[3,24]"),
        "2>0",
    ),
    "a product's operand": (lambda b, x, w: b.dot(x, w) + x, ("f32[3,24]", "f32[24,24]"), ""),
    "a convolution's residual": (convolved, ("f32[2,4,8,8]", "f32[4,4,3,3]", "f32[2,4,8,8]"), "2>0"),
    "a convolution's operand": (lambda b, x, w: convolved(b, x, w, x), ("f32[2,4,8,8]", "f32[4,4,3,3]"), ""),
}
#: the same where a target differs
CPU_RULES: dict[str, Rule] = {
    # powers wait where the result will lie, so that nothing is left of the operand for the last walk
    "read after the result is begun": (lambda b, x: softmax(b, x) + x, ("f32[4,20000]",), ""),
    "bands that overlap": (convolved, ("f32[1,48,41,90]", "f32[8,48,3,3]", "f32[1,8,41,90]"), ""),
    "bands that do not": (convolved, ("f32[1,48,40,64]", "f32[8,48,3,3]", "f32[1,8,40,64]"), "2>0"),
    "small rows": (lambda b, x: softmax(b, x), ("f32[67,10]",), "0>0"),
}
CUDA_RULES: dict[str, Rule] = {
    "read after the result is begun": (lambda b, x: softmax(b, x) + x, ("f32[4,20000]",), "0>0"),
    "teams without a row": (lambda b, x: softmax(b, x), ("f32[67,200]",), ""),
    "a row for each team": (lambda b, x: softmax(b, x), ("f32[64,200]",), "0>0"),
    "threads without a column": (lambda b, x: x / b.sum(x, (0,), keepdims=True), ("f32[30,500]",), ""),
    "small ones in one launch": (lambda b, x, y: (x + 1.0, y * 2.0), ("f32[300]", "f32[200]"), "0>0 1>1"),
    "one operand of several": (
        lambda b, x, y: (x + 1.0, b.slice(x, (1,), (201,), (1,)) * y),
        ("f32[300]", "f32[200]"),
        "1>1",
    ),
}
TABLE = [(t, n, r) for t in (CPU, CUDA) for n, r in RULES.items()]
TABLE += [(CPU, n, r) for n, r in CPU_RULES.items()] + [(CUDA, n, r) for n, r in CUDA_RULES.items()]


def drawn(function: Any, types: Sequence[str], name: str = "graph") -> Graph:
    b = builder()
    out = function(b, *(b.input(parse(t), f"x{k}") for k, t in enumerate(types)))
    return b.finish([out] if isinstance(out, Node) else list(out), name)


@pytest.mark.no_host_code
@pytest.mark.parametrize("target, name, rule", TABLE, ids=[f"{t.name}-{n}" for t, n, _ in TABLE])
def test_what_may_lie_over_what(target, name, rule):
    function, types, wanted = rule
    seen: dict[str, Any] = {}
    graph = drawn(function, types)
    program = compile_graph(graph, target, observe=seen.__setitem__)
    assert len(program.steps) == 1, "the rule is about one kernel"
    ((_, kernel),) = list(seen.values())[-2]  # before the program
    names = {n.params["name"]: k for k, n in enumerate(graph.inputs)}
    # nodes after the passes are others than those of the graph; arguments keep their names, results their order
    results = {n: k for k, n in enumerate(sorted(kernel.outputs, key=lambda n: n.index))}
    found = {f"{names[x.params['name']]}>{results[y]}" for x, y in kernel.in_place}
    assert found == set(wanted.split())


# -- what is chosen


def peak(lifetimes: Sequence[tuple[int, int, int]], once: Sequence[tuple[int, int]] = ()) -> int:
    """Bytes at the fullest step; of a pair only one counts where both live."""
    size = [-(-max(n, 1) // ALIGNMENT) * ALIGNMENT for _, _, n in lifetimes]
    steps = {t for a, b, _ in lifetimes for t in (a, b)}
    live = {t: sum(z for z, (a, b, _) in zip(size, lifetimes) if a <= t <= b) for t in steps}
    for a, _ in once:
        live[lifetimes[a][1]] -= size[a]
    return max(live.values(), default=0)


@st.composite
def memories(draw: Any) -> tuple[list[tuple[int, int, int]], list[tuple[int, int]], list[tuple[int, int]], list[Any]]:
    """Lifetimes, what may be written over what, results, and what these may be written over."""
    count = draw(st.integers(1, 14))
    lives = []
    for _ in range(count):
        first = draw(st.integers(0, 9))
        lives.append((first, first + draw(st.integers(0, 5)), draw(st.sampled_from((100, 256, 1000, 5000)))))
    results = draw(st.lists(st.tuples(st.integers(0, 14), st.sampled_from((200, 1000, 6000))), max_size=4))
    read = [a for a in range(count) if lives[a][0] < lives[a][1]]  # by a step after the one that wrote it
    near = [(a, b) for a in read for b in range(count) if (lives[a][1], lives[a][2]) == (lives[b][0], lives[b][2])]
    pairs = [p for p in near if draw(st.booleans())]
    over = [(a, r) for a in read for r, (w, n) in enumerate(results) if lives[a][1] == w and lives[a][2] <= n]
    return lives, pairs, results, [p for p in over if draw(st.booleans())]


@pytest.mark.no_host_code
@examples(400)
@given(memories())
def test_shared_memory_is_never_needed_twice(drawn):
    lifetimes, pairs, results, into = drawn
    found = reuse_buffers(lifetimes, pairs, results, into, min_peak=0)
    assert set(found.in_place) <= set(pairs)
    for side in zip(*found.in_place):
        assert len(set(side)) == len(side)
    for a, b in found.in_place:
        assert found.storage[a] == found.storage[b] and not {a, b} & found.aliased.keys()
    assert sum(found.storage[k] != k for k in range(len(lifetimes))) == len(found.in_place)
    for k, r in found.aliased.items():
        _, last, nbytes = lifetimes[k]
        written, room = results[r]
        assert nbytes <= room and last <= written
        assert (last == written) == (k in found.in_place_aliased) and (last < written or (k, r) in into)
        for j, other in found.aliased.items():
            if other == r and j != k:
                assert lifetimes[j][1] < lifetimes[k][0] or last < lifetimes[j][0], "two lodgers at once"
    merged = found.lifetimes(lifetimes)
    assert set(merged) == {found.storage[k] for k in range(len(lifetimes)) if k not in found.aliased}
    stayed = [live for k, live in enumerate(lifetimes) if k not in found.aliased]
    assert peak(list(merged.values())) <= peak(stayed) <= peak(lifetimes)


@pytest.mark.no_host_code
@examples(300)
@given(memories())
def test_in_place_reaches_the_least(drawn):
    """Without results to lie in, the peak is that of the best choice of pairs at each step."""
    lifetimes, pairs, _, _ = drawn
    found = reuse_buffers(lifetimes, pairs, min_peak=0)

    def best(at: int, left: list[tuple[int, int]]) -> int:
        """Bytes that the best pairs of a step save."""
        if not left:
            return 0
        (a, b), *rest = left
        size = -(-max(lifetimes[a][2], 1) // ALIGNMENT) * ALIGNMENT
        return max(best(at, rest), size + best(at, [(c, d) for c, d in rest if c != a and d != b]))

    live = {t: peak([(a, b, n) for a, b, n in lifetimes if a <= t <= b]) for a, b, _ in lifetimes for t in (a, b)}
    wanted = max(v - best(t, [p for p in pairs if lifetimes[p[0]][1] == t]) for t, v in live.items())
    # a first choice that fits may stand in the way of two others: where it does, one step more is left
    assert peak(list(found.lifetimes(lifetimes).values())) <= max(wanted, peak(lifetimes, found.in_place))
    assert wanted <= peak(list(found.lifetimes(lifetimes).values())) <= peak(lifetimes)


def test_nothing_is_shared_where_it_does_not_pay():
    few = [(0, 1, 4000), (1, 2, 4000)]
    assert reuse_buffers(few, [(0, 1)]).in_place == []
    assert reuse_buffers(few, [(0, 1)], min_peak=0).in_place == [(0, 1)]
    # the fullest step is another one
    assert reuse_buffers([*few, (3, 3, 9000)], [(0, 1)], min_peak=0).in_place == []
    # … but what is large is written over on a host in any case
    assert reuse_buffers([*few, (3, 3, 9000)], [(0, 1)], min_peak=0, large=4000).in_place == [(0, 1)]
    assert reuse_buffers([*few, (3, 3, 9000)], [(0, 1)], min_peak=0, large=4001).in_place == []
    # a crumb beside the peak is not worth the memory of a result
    assert reuse_buffers([(0, 0, 1000), (0, 0, 10_000_000)], results=[(5, 1000)], min_peak=0).aliased == {}
    assert reuse_buffers([(0, 0, 1000), (0, 0, 2000)], results=[(5, 1000)], min_peak=0).aliased == {0: 0}


def test_one_result_hosts_several_in_turn():
    lifetimes = [(0, 1, 1000), (2, 3, 1000), (1, 2, 1000)]
    found = reuse_buffers(lifetimes, results=[(9, 1000)], min_peak=0)
    assert sum(1 for r in found.aliased.values() if r == 0) == 2


def test_nearby_sizes_share_memory_alike():
    """What is large enough is decided by other bytes than those that have to fit."""
    few = [(0, 1, 4000), (1, 2, 4000)]
    judged = [(a, b, 8 * n) for a, b, n in few]
    assert reuse_buffers(judged, [(0, 1)], min_peak=20_000, actual=(few, [])).in_place == [(0, 1)]
    # … in a result's memory there must be room for both
    for kept, fits in ((32_000, 4000), (31_999, 4000), (32_000, 3999)):
        found = reuse_buffers(judged, results=[(5, kept)], min_peak=0, actual=(few, [(5, fits)]))
        assert bool(found.aliased) == (kept >= 32_000 and fits >= 4000)
    # results of one size, whose bytes are judged apart, are still written over each other
    assert reuse_buffers([(0, 1, 100), (1, 2, 900)], [(0, 1)], min_peak=0, actual=(few, [])).in_place == [(0, 1)]


# -- the order of steps


def lived(steps: Sequence[StepBuffers], theirs: frozenset[Node]) -> int:
    """Bytes at the fullest step, counted step by step; AssertionError if something is read before it is written."""
    last = {n: at for at, s in enumerate(steps) for n in (*s.outputs, *s.inputs)}
    written = {n for s in steps for n in s.outputs}
    there: set[Node] = set()
    most = 0
    for at, step in enumerate(steps):
        assert there >= {n for n in step.inputs if n in written}
        there |= set(step.outputs)
        most = max(most, sum(n.type.nbytes for n in there if n not in theirs and last[n] >= at))
    return most


@st.composite
def dags(draw: Any) -> tuple[list[StepBuffers], frozenset[Node]]:
    b = builder()
    nodes = [b.input(parse("f32[10]"), "x")]
    steps = []
    for k in range(draw(st.integers(1, 14))):
        read = draw(st.lists(st.sampled_from(nodes), min_size=1, max_size=3, unique=True))
        made = [
            b.input(parse(f"f32[{draw(st.sampled_from((1, 50, 400)))}]"), f"n{k}")
            for _ in range(draw(st.integers(1, 2)))
        ]
        nodes += made
        steps.append(StepBuffers(read, made, library=draw(st.booleans())))
    theirs = [nodes[0], *draw(st.lists(st.sampled_from(nodes), max_size=3))]
    return steps, frozenset(theirs)


@pytest.mark.no_host_code
@examples(300)
@given(dags())
def test_another_order_is_one_and_never_worse(drawn):
    steps, theirs = drawn
    found = order_steps(steps, theirs, min_peak=0)
    assert sorted(found) == list(range(len(steps)))
    before, after = lived(steps, theirs), lived([steps[k] for k in found], theirs)
    assert found == list(range(len(steps))) or after <= 0.95 * before


def test_gradients_are_computed_when_their_operands_are_there():
    """A backward pass in the order of levels: first all slopes, then what the weights get of each."""
    b = builder()
    count = 12
    slopes = [b.input(parse("f32[1000]"), f"slope{k}") for k in range(count + 1)]
    weights = [b.input(parse("f32[3]"), f"weight{k}") for k in range(count)]
    steps = [StepBuffers([slopes[k]], [slopes[k + 1]]) for k in range(count)]
    steps += [StepBuffers([slopes[k + 1]], [weights[k]]) for k in range(count)]
    theirs = frozenset((slopes[0], *weights))
    assert lived(steps, theirs) == count * 4000
    found = [steps[k] for k in order_steps(steps, theirs, min_peak=0)]
    assert lived(found, theirs) == 2 * 4000
    assert order_steps(steps, theirs) == list(range(2 * count)), "small programs stay as they are"


def test_few_changes_between_kernels_and_libraries():
    """Of orders with the same peak the one with fewer entries into machine code."""
    b = builder()
    x, y, z = ([b.input(parse("f32[1000]"), f"{c}{k}") for k in range(4)] for c in "xyz")
    end = b.input(parse("f32[1]"), "end")
    steps = [StepBuffers([], [n]) for n in x] + [StepBuffers([x[k]], [y[k]], library=True) for k in range(4)]
    steps += [StepBuffers([y[k]], [z[k]]) for k in range(4)] + [StepBuffers(z, [end])]
    found = [steps[k] for k in order_steps(steps, frozenset([end]), min_peak=0)]
    changes = sum(a.library and not b.library for a, b in pairwise(found))
    assert changes <= 4 and lived(found, frozenset([end])) <= lived(steps, frozenset([end]))


# -- programs, whose memory holds poison first


def poisoned(shape: Sequence[int], dtype: Any) -> Any:
    made = aligned(tuple(shape), dtype)
    made.reshape(-1).view(np.uint8)[:] = 0xFF
    return made


class Poison:
    """NumPy, except that fresh memory holds NaN."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    @staticmethod
    def empty(shape: Any, dtype: Any) -> Any:
        return poisoned((shape,) if isinstance(shape, int) else shape, np.dtype(dtype))


def run(
    program: Program, inputs: Sequence[np.ndarray], driver: Any = None, mode: Mode = Mode.EAGER_ALLOC
) -> list[np.ndarray]:
    outputs = [poisoned(shape, from_short(short).np) for shape, short in program.outputs]
    held = []
    for a in inputs:
        held.append(aligned(a.shape, a.dtype))
        held[-1][...] = a
    if driver is not None:
        loaded = CudaBackend(driver, Poison(), lambda a: int(a.__array_interface__["data"][0])).load(program)
        loaded.in_mode(mode)(held, outputs)
        if mode is Mode.GRAPH:  # results elsewhere: nodes of the graph that use their memory get new addresses
            kept, outputs = outputs, [poisoned(a.shape, a.dtype) for a in outputs]
            loaded.in_mode(mode)(held, outputs)
            for a, b in zip(outputs, kept, strict=True):
                np.testing.assert_array_equal(a, b)
        return outputs
    loaded = cpu_backend().load(program)
    owner, address = loaded.arena()
    if owner is not None:
        owner[:] = 0xFF
    loaded.release((owner, address))
    loaded(held, outputs)
    for a, b in zip(held, inputs):
        np.testing.assert_array_equal(a.reshape(-1).view(np.uint8), np.ascontiguousarray(b).reshape(-1).view(np.uint8))
    return outputs


def turns(b: Builder, x: Node, count: int) -> Node:
    """Normalised along one axis and the other in turn: a kernel each, which may work in place."""
    for k in range(count):
        x = b.exp(x) / b.sum(b.exp(x), (k % 2,), keepdims=True) * 3.0
    return x


#: name -> (function, types, targets on which results lie over operands, … and buffers in the memory of results)
PROGRAMS: dict[str, tuple[Any, tuple[str, ...], str, str]] = {
    "over each other": (lambda b, x: b.reduce("amin", turns(b, x, 4), (0,)), ("f32[256,64]",), "cpu cuda", ""),
    "halves over halves": (lambda b, x: b.reduce("amax", turns(b, x, 3), (0,)), ("f16[64,64]",), "cpu cuda", ""),
    "a result over its operand": (lambda b, x: turns(b, x, 2), ("f32[64,64]",), "cpu cuda", "cpu cuda"),
    "a residual in a product": (
        lambda b, x, w, v, u: b.dot(b.max(b.dot(x, w) + b.tanh(b.dot(x, v)), 0.0), u),
        ("f32[4,64]", "f32[64,64]", "f32[64,64]", "f32[64,4]"),
        "cpu cuda",
        "",
    ),
    "a residual in a convolution": (
        lambda b, x, w, v, u: convolved(b, convolved(b, x, w, convolved(b, x, v, b.full_like(x, 0.0))), u, 1.0),
        ("f32[1,4,9,9]", "f32[4,4,3,3]", "f32[4,4,1,1]", "f32[1,4,3,3]"),
        "cpu cuda",
        "",
    ),
    "between library calls": (
        lambda b, x: b.sum(b.cumsum(b.exp(b.cumsum(x * 0.1, axis=0)) * 0.1, axis=1)),
        ("f32[30,40]",),
        "",
        "",
    ),
    "a library's operand in a result": (
        lambda b, x, y: (b.argsort(turns(b, x, 1), axis=0, ascending=True), turns(b, y, 1)),
        ("f32[48,48]", "f32[64,64]"),
        "",
        "cpu",
    ),
    "small ones in one launch": (
        lambda b, x, y: [b.reduce("amax", turns(b, v + 1.0, 2) * 2.0, (0,)) for v in (x, y)],
        ("f32[64,64]", "f32[32,64]"),
        "cpu cuda",
        "",
    ),
}


MANNERS = ("as large ones", "everywhere")
TARGETS = pytest.mark.parametrize("target", [CPU, CUDA], ids=lambda t: t.name)


@TARGETS
@pytest.mark.parametrize("manner", MANNERS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(request, name, manner, target):
    function, types, over, hosted = PROGRAMS[name]
    driver = request.getfixturevalue("cuda_driver" if target is CUDA else "compiler")
    graph = drawn(function, types)
    with sharing(manner):
        program = compile_graph(graph, target)
    if manner != "everywhere":
        assert (program.in_place_results > 0) == (target.name in over.split())
        assert program.aliased_to_outputs > 0 or target.name not in hosted.split()
    inputs = arrays(graph, 3)
    Oracle(graph, inputs).check(run(program, inputs, driver, Mode.GRAPH), target.name)
    again = Program.from_bytes(program.to_bytes())
    assert (again.in_place_results, again.aliased_to_outputs, again.steps) == (
        program.in_place_results,
        program.aliased_to_outputs,
        program.steps,
    )


@pytest.mark.no_host_code
@pytest.mark.skipif(not has_nvrtc(), reason="NVRTC is not installed")
@pytest.mark.parametrize("arch", by_architecture(["sm_75", "sm_90", "sm_120"]))
def test_texts_in_place_stay_in_registers(arch):
    """Pointers that make no promises let the compiler keep less at hand, and must not cost memory."""
    found = {}
    for function, types, _, _ in PROGRAMS.values():
        with sharing("everywhere"):
            program = compile_graph(drawn(function, types), cuda_target(arch, CUDA.gpu.multiprocessors))
        shared = {program.kernels[s.kernel].name for s in program.steps if isinstance(s, KernelStep) and s.in_place}
        found |= {k.name: k for k in program.kernels if k.name in shared}
    assert len(found) > 5
    for k in found.values():
        assert k.text.count("HG_RESTRICT") < k.text.count("* ")
    report = compile_report(
        module_source(list(found.values())), arch, ["-default-device", *NUMERIC["strict"]], [kernels_folder()]
    )
    assert set(report.kernels) == set(found) and report.stack == report.spills == 0, report.log


def check_random(target: Target, graph: Graph, seed: int, manner: str, driver: Any = None) -> None:
    with sharing(manner):
        program = compile_graph(graph, replace(target, max_nodes=2))  # many kernels, which leave much in memory
    assume(program.in_place_results)
    inputs = arrays(graph, seed)
    show(graph, inputs)
    for k in program.kernels:
        note(k.text)
    Oracle(graph, inputs).check(run(program, inputs, driver), target.name)


@pytest.mark.parametrize("manner", MANNERS)
@examples(15)
@given(graph=graphs(steps=16), seed=st.integers(0, 99))
def test_random_graphs_on_the_host(compiler, manner, graph, seed):
    check_random(CPU, graph, seed, manner)


@pytest.mark.long_test
@pytest.mark.parametrize("manner", MANNERS)
@examples(8)
@given(graph=graphs(steps=16, size_limit=300), seed=st.integers(0, 99))
def test_random_graphs_of_a_gpu(cuda_driver, manner, graph, seed):
    check_random(CUDA, graph, seed, manner, cuda_driver)


# -- a training step from end to end


class Residual(nn.HybridBlock):
    """A little network with branches that meet, whose programs share memory in every way."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.first, self.norm = nn.Conv2D(5, 3, padding=1), nn.BatchNorm()
            self.second, self.third = nn.Conv2D(5, 3, padding=1), nn.Conv2D(5, 1)
            self.pool, self.last = nn.MaxPool2D(2), nn.Dense(37)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        y = F.relu(self.norm(self.first(x)))
        y = F.relu(self.second(y) + self.third(y) * F.sigmoid(y))
        return F.log_softmax(self.last(self.pool(y)))


@contextmanager
def recorded(seen: list[Program]) -> Iterator[None]:
    """Notes the programs that are compiled."""
    with pytest.MonkeyPatch.context() as patch:
        compile_ = pipeline.compile_graph

        def watching(*args: Any, **kwargs: Any) -> Program:
            seen.append(compile_(*args, **kwargs))
            return seen[-1]

        patch.setattr(pipeline, "compile_graph", watching)
        yield


@pytest.mark.long_table
@TARGETS
@pytest.mark.parametrize("manner", MANNERS)
def test_training(request, manner, target):
    request.getfixturevalue("cuda_driver" if target is CUDA else "compiler")
    ctx = mx.gpu(0) if target is CUDA else mx.cpu()
    seen: list[Program] = []
    found = []
    mx.random.seed(5)
    net = Residual()
    net.initialize(mx.init.Xavier(), ctx=ctx)
    rng = np.random.default_rng(0)
    # extents that no other test has: programs of the same identity come from the cache, whatever they share
    x = mx.nd.array(rng.standard_normal((3, 2, 13, 13 if manner == "everywhere" else 15)), ctx=ctx)
    label = mx.nd.array([1, 4, 36], ctx=ctx)
    net(x)
    for hybrid in (False, True):
        if hybrid:
            net.hybridize()
        with sharing(manner), recorded(seen if hybrid else []):  # eager operators' programs have dimensions in them
            with mx.autograd.record():
                loss = -mx.nd.pick(net(x), label).sum()
            loss.backward()
        found.append(
            [loss.asnumpy(), *(p.grad(ctx).asnumpy() for p in net.collect_params().values() if p.grad_req != "null")]
        )
    for eager, fused in zip(*found, strict=True):
        np.testing.assert_allclose(fused, eager, rtol=2e-3, atol=2e-5 * np.abs(eager).max() + 1e-6)
    if seen and manner == "everywhere":  # memory is shared, over operands or by what is needed at different times
        apart = [sum(b.nbytes for b in p.buffers if b.space == "arena") for p in seen]
        assert any(p.in_place_results or p.arena_bytes < a for p, a in zip(seen, apart, strict=True))


class Turns(nn.HybridBlock):
    """Normalised along one axis and the other in turn."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        for k in range(4):
            x = F.softmax(x * 3, axis=k % 2)
        return F.sum(x)


def test_explain_counts_what_is_shared(compiler):
    net, x = Turns(), mx.nd.array(np.random.default_rng(0).standard_normal((31, 67)))
    net.hybridize()
    with sharing("as large ones"):
        report = net.explain(x)
    assert report.program is not None and report.in_place_results == report.program.in_place_results == 3
    assert 31 * 67 * 4 < report.peak_live_bytes <= report.arena_bytes < 2 * 31 * 67 * 4, (
        "one of them at a time, and sums"
    )
    assert "; 3 written over an operand" in str(report)
    np.testing.assert_allclose(net(x).asscalar(), 31, rtol=1e-5)
