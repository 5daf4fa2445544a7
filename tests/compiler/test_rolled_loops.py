# SPDX-License-Identifier: Apache-2.0
"""Loops over the operands of a concat as one loop over a table."""

from __future__ import annotations

import re

import numpy as np
import pytest

from hybridgpu.backends.cpu.backend import cpu_backend
from hybridgpu.compiler.ir import tensor_type
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.reference import evaluate
from hybridgpu.compiler.schedule.blocks import Block
from hybridgpu.compiler.schedule.cpu.rolled_loops import rolled
from hybridgpu.compiler.schedule.kernel import Pointer
from hybridgpu.compiler.target import CPU
from hybridgpu.core.dtypes import f16, f32

pytestmark = pytest.mark.usefixtures("compiler")


def joined(shapes, axis, dtype=f32, scaled=True):
    """relu(concat * scale + shift), as a normalisation in a dense block; a copy if not ``scaled``."""
    b = builder()
    y = b.concat([b.input(tensor_type(s, dtype)) for s in shapes], axis)
    if scaled:
        line = tensor_type((y.shape[axis], *(1,) * (len(y.shape) - axis - 1)), dtype)
        y = b.max(y * b.input(line) + b.input(line), 0.0)
    return b.finish([y], "joined")


# name -> shapes, axis, element type, scaled, tables in the text
JOINS = {
    "of channels": ([(1, c, 14, 14) for c in (64, 32, 32, 32, 48, 16)], 1, f32, True, 1),
    "of channels of several samples": ([(3, c, 14, 14) for c in (64, 32, 32, 32, 48, 16)], 1, f32, True, 1),
    "past the caches": ([(1, c, 56, 56) for c in (64, 32, 32, 32, 48, 16)], 1, f32, True, 1),
    "rows that begin anywhere": ([(c, 196) for c in (256, 32, 32, 32, 32)], 0, f32, True, 1),
    "of halves": ([(c, 300) for c in (20, 30, 10, 40, 50)], 0, f16, True, 1),
    "of halves that are copied": ([(c, 300) for c in (20, 30, 10, 40, 50)], 0, f16, False, 0),
    "of lines": ([(n,) for n in (700, 300, 100, 400, 500)], 0, f32, True, 0),
    "of three": ([(1, c, 14, 14) for c in (64, 32, 32)], 1, f32, True, 0),
    "of short rows": ([(300, c) for c in (24, 8, 16, 32, 48)], 1, f32, True, 0),
}


@pytest.mark.parametrize("name", JOINS)
def test_joins(name):
    shapes, axis, dtype, scaled, tables = JOINS[name]
    graph = joined(shapes, axis, dtype, scaled)
    program = compile_graph(graph, CPU)
    (kernel,) = program.kernels
    assert kernel.text.count("loops[] =") == tables
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(i.shape).astype(dtype.np) for i in graph.inputs]
    (want,) = evaluate(graph, arrays)
    (shape, _), *_ = program.outputs
    found = np.full(shape, np.nan, dtype.np)
    cpu_backend().load(program)(arrays, [found])
    np.testing.assert_array_equal(found, want)


def loop(k, begin, end, inner="0; i1 < 50", offset="", body=""):
    head = f"for (Index i0 = {begin}; i0 < {end}; ++i0)"
    return Block(
        [head], [f"const float v{k} = x9[i0];", Block([f"for (Index i1 = {inner}; ++i1)"], [f"y0[i0 * 50 + i1] = x{k}[i0 * 50 + i1{offset}] * v{k}{body};"])]
    )  # fmt: skip


def alike(count=5, **changed):
    """Loops of which the last one is different."""
    found = [loop(k, 10 * k, 10 * k + 10, offset=f" - {500 * k}" if k else "") for k in range(count)]
    return [*found[:-1], loop(count - 1, 10 * count - 10, 10 * count, **{"offset": " - 2000", **changed})]


def printed(lines):
    """Every line of them, in order."""
    return [x for line in lines for x in ([*line.opening, *printed(line.lines)] if isinstance(line, Block) else [line])]


def pointers(aliased=()):
    return [Pointer(f"x{k}", f32, aliased=f"x{k}" in aliased) for k in range(10)] + [Pointer("y0", f32, True)]


@pytest.mark.parametrize(
    ("changed", "loops"),
    [
        ({}, 1),
        ({"inner": "0; i1 < 51"}, 2),
        ({"body": " + 1.0f"}, 2),
        ({"offset": " + start3"}, 1),
        ({"offset": "00"}, 2),
    ],
    ids=str,
)
def test_what_differs_in_anything_else_stays_a_loop(changed, loops):
    lines = alike(**changed)
    found = rolled(lines, pointers())
    assert len(found) == loops and (loops == 1 or printed(found[1:]) == printed(lines[-1:]))


def test_a_table_has_what_differs_and_nothing_else():
    (found,) = rolled(alike(), pointers())
    table, over = found.lines
    assert "{10, 20, x1, -500}" in table and "x9" not in table
    text = "\n".join([*over.heads, *over.lines[:-1], *over.lines[-1].lines[-1].lines])
    assert "loop < 5" in text and re.search(r"y0\[i0 \* 50 \+ i1\] = p2\[i0 \* 50 \+ i1 \+ p3\] \* w0;", text)


def test_what_is_written_over_an_operand_makes_no_promises():
    (plain,) = rolled(alike(), pointers())
    (aliased,) = rolled(alike(), pointers({f"x{k}" for k in range(5)}))
    assert any("HG_RESTRICT" in line for line in plain.lines[1].lines[:-1])
    assert not any("HG_RESTRICT" in line for line in aliased.lines[1].lines[:-1])
    mixed = rolled(alike(), pointers({"x2"}))
    assert printed(mixed) == printed(alike()), "pointers of different types are in no table"


def test_few_loops_stay():
    assert printed(rolled(alike(3), pointers())) == printed(alike(3))
