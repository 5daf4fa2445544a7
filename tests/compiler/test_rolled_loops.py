# SPDX-License-Identifier: Apache-2.0
"""Loops over the operands of a concat as one loop over a table."""

from __future__ import annotations

import numpy as np
import pytest

from hybridgpu.backends.cpu.backend import cpu_backend
from hybridgpu.compiler.ir import tensor_type
from hybridgpu.compiler.ir.indexing import Var, of_var
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.reference import evaluate
from hybridgpu.compiler.schedule.cpu.rolled_loops import alike_parts, roll
from hybridgpu.compiler.schedule.kernel import CWriter
from hybridgpu.compiler.schedule.scalar import Scalar, ScalarProgram, Store
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
    "of halves that are copied": ([(c, 300) for c in (20, 30, 10, 40, 50)], 0, f16, False, 1),
    "of lines": ([(n,) for n in (700, 300, 100, 400, 500)], 0, f32, True, 1),
    "of dozens": ([(1, c, 14, 14) for c in (64, 32, 32, 32, 48, 16) * 5], 1, f32, True, 1),
    "of dozens of several samples": ([(5, c, 14, 14) for c in (64, 32, 32, 32, 48, 16) * 5], 1, f32, True, 1),
    "of three": ([(1, c, 14, 14) for c in (64, 32, 32)], 1, f32, True, 0),
    "of long rows": ([(30, c) for c in (256, 512, 256, 768, 256)], 1, f32, True, 1),
    "of long rows of halves": ([(30, c) for c in (256, 512, 256, 768, 256)], 1, f16, True, 1),
    "of long rows, not of blocks": ([(30, c) for c in (256, 512, 320, 704, 256)], 1, f32, True, 0),
    "of short rows": ([(300, c) for c in (24, 8, 16, 32, 48)], 1, f32, True, 0),
}


@pytest.mark.parametrize("name", JOINS)
def test_joins(name):
    shapes, axis, dtype, scaled, tables = JOINS[name]
    program = checked(joined(shapes, axis, dtype, scaled))
    (kernel,) = program.kernels
    assert kernel.text.count("loops[] =") == tables


def checked(graph):
    """The program of a graph, which computes what the reference does."""
    program = compile_graph(graph, CPU)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(i.shape).astype(i.dtype.np) for i in graph.inputs]
    (want,) = evaluate(graph, arrays)
    found = np.full_like(want, np.nan)
    cpu_backend().load(program)(arrays, [found])
    np.testing.assert_array_equal(found, want)
    return program


ALL, I1 = Var("i0", 50), Var("i1", 50)
BUILDER = builder()
X = [BUILDER.input(tensor_type((2500,), f32)) for _ in range(10)]
HALF = BUILDER.input(tensor_type((2500,), f16))
Y = BUILDER.exp(X[0])


def part(k, begin=None, step=50, inner=I1, more=0, node=None, twice=False, double=False, place=0):
    """y0[i0 * 50 + i1 + place] = x{k}[i0 * step + i1 - 500 * k + more] * x9[i0], …"""
    i0 = Var("i0", 10, 10 * k if begin is None else begin)
    place, walk = of_var(i0) * 50 + of_var(inner) + place, of_var(i0) * step + of_var(inner) + (more - 500 * k)
    one = Scalar("load", f32, node=node or X[k], offset=walk, vars=walk.vars)
    line = Scalar("load", f32, node=X[9], offset=of_var(i0), vars=frozenset({i0}))
    product = Scalar("compute", f32, (one, one if twice else line), BUILDER.mul(X[0], X[1]), vars=walk.vars)
    scalars = [one, line, product]
    if double:
        scalars.append(Scalar("compute", f32, (product, product), BUILDER.add(X[0], X[1]), vars=walk.vars))
    return ScalarProgram(scalars, [], [Store(Y, scalars[-1], place)], [i0, inner], []), i0


def parts(count=5, **changed):
    """Parts of which the last one is different."""
    return [*map(part, range(count - 1)), part(count - 1, **changed)]


def sizes(parts):
    return [len(run) for run in alike_parts(parts, ALL)]


@pytest.mark.parametrize(
    ("changed", "runs"),
    [
        ({}, [5]),
        ({"more": 2000}, [5]),
        ({"node": X[0]}, [5]),
        ({"inner": Var("i1", 51)}, [4, 1]),
        ({"step": 51}, [4, 1]),
        ({"node": HALF}, [4, 1]),
        ({"twice": True}, [4, 1]),
        ({"double": True}, [4, 1]),
        ({"place": 1}, [4, 1]),
    ],
    ids=lambda x: ",".join(x) if isinstance(x, dict) else "",
)
def test_what_differs_in_anything_else_is_a_loop_of_its_own(changed, runs):
    assert sizes(parts(**changed)) == runs


def test_few_loops_stay():
    assert sizes(parts(3)) == [1, 1, 1]


def test_parts_of_one_value_are_no_loops():
    assert sizes([(program, None) for program, _ in parts()]) == [1, 1, 1, 1, 1]


def rolled(parts):
    """The table of some parts, and the loads of the loop over it."""
    program, _ = parts[0]
    writer = CWriter(CPU, ScalarProgram([s for p, _ in parts for s in p.scalars], [], [], [ALL, I1], []))
    table = roll(parts, lambda v: (str(v.low), str(v.high + 1)), writer, 0)
    assert (table.var.low, table.var.high) == (0, 49) and program.vars == [table.var, I1]
    return table, [writer.load_text(s) for s in program.scalars if s.op == "load"]


def test_a_table_has_what_differs_and_nothing_else():
    table, loads = rolled(parts())
    assert table.declaration == (
        "const struct { Index p0; Index p1; const float* p2; Index p3; } loops[] = "
        "{{0, 10, x0, 0}, {10, 20, x2, -500}, {20, 30, x3, -1000}, {30, 40, x4, -1500}, {40, 50, x5, -2000}};"
    )
    assert loads == ["p2[i0 * 50 + i1 + p3]", "x1[i0]"]


def test_what_does_not_differ_is_in_no_table():
    table, loads = rolled([part(0, begin=10 * k) for k in range(5)])
    assert len(table.columns) == 2 and loads == ["x0[i0 * 50 + i1]", "x1[i0]"]


def test_what_is_written_over_an_operand_makes_no_promises():
    """The pointers in a table are of operands any of which a result may be written over, as is decided later."""
    table, _ = rolled(parts())
    assert "const float* const p2 = loops[loop].p2;" in table.definitions


def test_tables_within_tables():
    """Parts of a concat that are concats of equal parts: the inner table has what the outer one's row tells."""
    b = builder()
    blocks = [b.concat([b.input(tensor_type((3, r, c, 40), f32)) for c in (10, 20, 30, 20)], 2) for r in (3, 4, 5, 4)]
    scale = b.broadcast(b.input(tensor_type((16, 1, 20, 1), f32)), shape=(16, 1, 20, 2))
    y = b.concat(blocks, 1) * b.reshape(scale, shape=(16, 1, 40)) + b.input(tensor_type((80, 1), f32))
    (kernel,) = checked(b.finish([y], "joined")).kernels
    assert "loops[] = {{0, 10, p2, i1 * 400 + p3}, {10, 30, p4, i1 * 800 + p5}," in kernel.text


def test_short_rows_in_a_table():
    """The innermost loop is written out: each of its turns has places of its own."""
    b = builder()
    y = b.concat([b.input(tensor_type((2, r, 40, 3), f32)) for r in (5, 6, 7, 8, 9)], 1)
    program = checked(b.finish([y * b.input(tensor_type((35, 1, 3), f32))], "joined"))
    assert "i2 * 3 + p3 + 1]" in program.kernels[0].text
