# SPDX-License-Identifier: Apache-2.0
"""Programs over a part of their domain: what is left of a choice, wherever the part begins and ends."""

from __future__ import annotations

import pytest

from hybridgpu.compiler.ir.dims import symbolic_dims
from hybridgpu.compiler.ir.graph import Node
from hybridgpu.compiler.ir.indexing import Condition, Var, const, of_var
from hybridgpu.compiler.ir.types import tensor_type
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.schedule.index_set_splitting import breakpoints, restrict
from hybridgpu.compiler.schedule.scalar import Scalar, ScalarProgram, Store
from hybridgpu.core.dtypes import bool_, f32


def joined(extents: tuple[int, int]) -> tuple[ScalarProgram, Var, tuple[Node, Node]]:
    """Two arrays, one behind the other."""
    b = builder()
    first, second = (b.input(tensor_type((n,), f32), f"x{k}") for k, n in enumerate(extents))
    result = b.input(tensor_type((sum(extents),), f32), "y")
    var = Var("i", sum(extents))
    place, used = of_var(var), frozenset({var})
    inside = Scalar("predicate", bool_, conditions=(Condition(place, extents[0]),), vars=used)
    parts = (
        Scalar("load", f32, node=first, offset=place, vars=used),
        Scalar("load", f32, node=second, offset=place + const(-extents[0]), vars=used),
    )
    choice = Scalar("compute", f32, (inside, *parts), vars=used)
    program = ScalarProgram([inside, *parts, choice], [], [Store(result, choice, place)], [var], [])
    return program, var, (first, second)


def test_places_that_are_alike_at_this_size_are_one():
    with symbolic_dims() as scope:
        n = scope.dim(7, 50)
        program, var, _ = joined((2, n))
        (inside, *others) = program.scalars
        again = Scalar("predicate", bool_, conditions=(Condition(of_var(var), n - 5),), vars=inside.vars)
        program = ScalarProgram([inside, again, *others], [], program.stores, [var], [])
        assert breakpoints(program, var) == [2]


@pytest.mark.parametrize("extents", [(4, 7), (1, 1)])
def test_what_is_left_of_a_choice(extents):
    program, var, arrays = joined(extents)
    first, whole = extents[0], sum(extents)
    assert breakpoints(program, var) == [first]
    for begin in range(whole + 1):
        for end in range(begin, whole + 1):
            part, _ = restrict(program, var, begin, end)
            read = {s.node for s in part.scalars if s.op == "load"}
            if begin == end:  # nothing is read: any of them will do
                assert len(read) <= 1
                continue
            assert read == {a for a, met in zip(arrays, (begin < first, end > first), strict=True) if met}
            assert any(s.op == "predicate" for s in part.scalars) == (begin < first < end)
