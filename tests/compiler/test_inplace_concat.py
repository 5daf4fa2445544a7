# SPDX-License-Identifier: Apache-2.0
"""Joins whose parts are written where they belong: what they move, and what refuses it.

Values, traffic as planned and texts for every architecture are those of all cases (test_graphs.py, test_nvrtc.py).
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from compiler.cases import arrays, build, joined, parse
from compiler.oracle import Oracle
from emulated import run_program

from hybridgpu.compiler import select
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.program import Program
from hybridgpu.compiler.target import CPU, CUDA

TARGETS = pytest.mark.parametrize("target", [CPU, CUDA], ids=lambda t: t.name)

#: case -> bytes moved over the least (before: 1.0 to 2.7), and the kernels
MOVED: dict[str, tuple[float, list[str]]] = {
    "softmaxes_in_rows": (1.0, ["rows"] * 2),
    "softmaxes_in_uneven_rows": (1.0, ["rows"] * 2),
    "softmaxes_in_columns": (1.0, ["rows"] * 2),
    "softmaxes_in_uneven_columns": (1.0, ["rows"] * 2),
    "softmaxes_of_halves": (1.0, ["rows"] * 2),
    "softmaxes_in_the_middle": (1.0, ["rows"] * 2),
    "long_softmaxes": (1.0, ["rows"] * 2),
    "short_softmaxes": (1.0, ["rows"] * 2),
    "stacked_softmaxes": (1.0, ["rows"] * 2),
    "stacked_softmaxes_inside": (1.0, ["rows"] * 2),
    "joined_with_a_map": (1.0, ["rows", "rows", "map"]),
    "joined_with_an_argument": (1.0, ["rows", "map"]),
    "joined_and_followed": (1.0, ["rows"] * 2),
    "join_of_joins": (1.0, ["rows"] * 3),
    "joined_and_an_output": (1.0, ["rows"] * 2),
    "joined_and_read": (1.3, []),
    "joined_and_multiplied": (1.35, ["rows", "rows", "matmul"]),
    "joined_and_summed": (2.0, ["rows", "rows", "reduce"]),
    "joined_vectors": (1.0, ["rows"] * 2),
    "joined_with_a_scatter": (1.95, ["scatter", "rows", "map"]),
    "joined_twice": (1.0, ["rows"]),
    "joined_with_what_is_made_of_it": (1.0, ["rows"]),
    "joined_inside": (1.65, ["rows", "rows", "conv"]),
    "joined_means": (1.0, ["reduce"] * 2),
    "joined_columns": (1.0, ["rows"] * 2),
    "joined_convolutions": (1.2, ["conv"] * 2),  # (both read one operand)
    "joined_convolutions_of_one": (1.15, ["conv"] * 2),
    "joined_lines": (1.15, ["conv"] * 2),
    "fired": (1.2, ["conv"] * 2),
    "dense_block": (1.4, ["conv", "map"]),
    "joined_products": (1.15, ["matmul"] * 2),
    "joined_products_in_rows": (1.2, ["matmul"] * 2),
    "joined_batches_of_products": (1.5, ["matmul"] * 2),
}


def test_every_case_is_in_the_table():
    assert set(MOVED) == {n for n, f in vars(joined).items() if getattr(f, "__module__", "") == joined.__name__}


@pytest.mark.no_host_code
@TARGETS
@pytest.mark.parametrize("name", list(MOVED))
def test_bytes_moved(name, target):
    program = compile_graph(build(name), target)
    most, kinds = MOVED[name]
    assert program.bytes_moved <= (most + 0.02) * program.bytes_min, program.refusals
    assert not kinds or [program.kernels[s.kernel].kind for s in program.steps] == kinds


@TARGETS
def test_kernels_of_parts_share_a_text(target):
    """Where a part begins is told, so that kernels of parts of one shape are the same."""
    b = builder()
    xs = [b.input(parse("f32[32,96]"), f"x{k}") for k in range(5)]
    program = compile_graph(b.finish([b.concat([joined.softmax(b, x) for x in xs], 1)], "alike"), target)
    assert len(program.steps) == 5 and len(program.kernels) == 1
    alone = b.finish([joined.softmax(b, x) for x in xs], "apart")
    rows = b.finish([b.concat([joined.softmax(b, x) for x in xs], 0)], "rows")
    one, other = (compile_graph(g, target).kernels for g in (alone, rows))
    assert [k.text for k in one] == [k.text for k in other]  # in rows they are what they are alone


@TARGETS
def test_explanation_says_where_parts_go(target):
    program = compile_graph(build("softmaxes_in_columns"), target)
    assert all(program.kernels[s.kernel].choice["writes"] == "writes its part of concat_buffer" for s in program.steps)


def short_parts(b, x, y):
    return b.concat([b.reshape(joined.softmax(b, v), (*v.shape, 1)) for v in (x, y)], 2)


@TARGETS
def test_short_parts_are_copied(target, compiler, cuda_driver):
    """A part of which single elements are neighbours would be written in pieces of sectors."""
    b = builder()
    x, y = (b.input(parse("f32[32,96]"), name) for name in "xy")
    graph = b.finish([short_parts(b, x, y)], "short")
    program = compile_graph(graph, target)
    assert [program.kernels[s.kernel].kind for s in program.steps] == ["rows", "rows", "map"]
    assert any(rule == "concat" and "no more than 4 bytes in a row" in why for *_, rule, why in program.refusals)
    held = arrays(graph)
    Oracle(graph, held).check(run_program(program, held, cuda_driver), "short")


@TARGETS
def test_results_that_replace_arguments_are_copied(target):
    """Another step may still read the argument when the first part is written."""
    b = builder()
    x, y = (b.input(parse("f32[32,96]"), name) for name in "xy")
    z = b.input(parse("f32[64,96]"), "z")
    graph = b.finish([b.concat([joined.softmax(b, x), joined.softmax(b, y)], 0), b.sum(z, (0,))], "replacing")
    program = compile_graph(graph, target, donated={0: 2})
    assert [program.kernels[s.kernel].kind for s in program.steps].count("map") == 1
    assert len(compile_graph(graph, target).steps) == 3


@TARGETS
def test_small_parts_are_copied(target):
    """As in the later layers of a DenseNet: what a layer adds is also read by itself, and little of the join."""
    b = builder()
    x, y = (b.input(parse(t), name) for t, name in (("f32[64,900]", "x"), ("f32[64,60]", "y")))
    graph = b.finish([b.concat([x, joined.softmax(b, y)], 1)], "little")
    program = compile_graph(graph, target)
    assert [program.kernels[s.kernel].kind for s in program.steps] == ["rows", "map"]
    assert any(rule == "concat" and "would gain little" in why for *_, rule, why in program.refusals)


@TARGETS
def test_explanation_says_that_what_is_scattered_is_copied(target):
    refusals = compile_graph(build("joined_with_a_scatter"), target).refusals
    assert any(rule == "concat" and "a part of which is scattered" in why for *_, rule, why in refusals)


def test_small_joins_stay_steps_of_one_kernel():
    """Where small kernels are put together, a join that others read would keep them apart."""
    target = replace(CUDA, resident="auto")
    program = compile_graph(build("joined_inside"), target)
    assert any(rule == "concat" and "as a step of one kernel" in why for *_, rule, why in program.refusals)
    assert [k.kind for k in program.kernels] == ["graph"]


@TARGETS
@pytest.mark.parametrize("widths", [(64, 64, 1), (64, 1, 64)], ids=str)
@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("squared", [False, True])
def test_nothing_is_computed_for_what_a_slice_leaves_out(target, widths, step, squared, compiler, cuda_driver):
    """The first part is seen by nothing: its group stores nothing, and had no kernel that could be made."""
    b = builder()
    parts = [joined.softmax(b, b.input(parse(f"f32[33,{w}]"), f"x{k}")) for k, w in enumerate(widths)]
    whole = b.concat(parts, 1)
    whole = whole * whole if squared else whole
    graph = b.finish([b.slice(whole, (0, 64), (33, 129), (1, step))], "seen")
    program = compile_graph(graph, target)
    read = [program.buffers[k] for s in program.steps for k in s.buffers]
    assert {b.index for b in read if b.space == "input"} == {1, 2}
    held = arrays(graph)
    Oracle(graph, held).check(run_program(program, held, cuda_driver, exact=False), "seen")


@TARGETS
@pytest.mark.parametrize("axis", [0, 1])
def test_products_of_libraries_are_written_into_parts(target, axis, compiler, cuda_driver, monkeypatch):
    monkeypatch.setattr(select, "_select_dot", lambda node, target: select.Selection("library"))
    b = builder()
    x, v, w = (b.input(parse(t), name) for t, name in (("f32[24,96]", "x"), ("f32[96,20]", "v"), ("f32[96,20]", "w")))
    graph = b.finish([b.concat([b.dot(x, v), b.dot(x, w)], axis)], "products")
    program = compile_graph(graph, target)
    assert [s.concat for s in program.steps] == ["concat_buffer"] * 2
    assert program.bytes_moved == sum(program.buffers[k].nbytes for s in program.steps for k in (*s.inputs, s.output))
    held = arrays(graph)
    Oracle(graph, held).check(run_program(program, held, cuda_driver), "products")
    again = Program.from_bytes(program.to_bytes())
    Oracle(graph, held).check(run_program(again, held, cuda_driver), "read back")
