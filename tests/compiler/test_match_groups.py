# SPDX-License-Identifier: Apache-2.0
"""The legality rule of merging: which groups are one loop nest, over which variables their reductions then run, and why not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from compiler.cases import parse

from hybridgpu.compiler.ir import Builder, Node
from hybridgpu.compiler.ir.indexing import of_var
from hybridgpu.compiler.passes.fuse.group import Group, Refusal
from hybridgpu.compiler.passes.fuse.match import match_groups
from hybridgpu.compiler.passes.recompute_hints import NO_RECOMPUTE
from hybridgpu.compiler.primitives import TABLE, builder
from hybridgpu.compiler.target import CPU

pytestmark = pytest.mark.no_host_code

ROWS, WIDTH = 128, 256


def group(level: int, *nodes: Node) -> Group:
    """A group of nodes that reduce an array of rows by the same axes, or have its elements."""
    made = Group(0, level)
    (i, j) = (of_var(v) for e in made.new_vars((ROWS, WIDTH)) for v in e.vars)
    for n in nodes:
        axes = n.params["axes"] if n.prim.family == "reduce" else ()
        if axes:
            made.reduced = [made.vars[a] for a in axes]
        made.add(n, tuple(e for a, e in enumerate((i, j)) if a not in axes))
    return made


def full(level: int, node: Node) -> Group:
    """A group that reduces one value of each row."""
    made = Group(0, level)
    made.new_vars((ROWS,))
    made.reduced = list(made.vars)
    made.add(node, ())
    return made


def untouched(b: Builder, x: Node) -> Node:
    return b.apply(TABLE["copy"], (b.exp(x),), {NO_RECOMPUTE: "own-extremum"})


#: what is computed of x beside sums along its rows -> the extents that a row of both has, and its reductions over all rows
MATCHES: dict[str, tuple[Callable[[Builder, Node], Node], list[int], int]] = {
    "other reductions of the same rows": (lambda b, x: b.reduce("amax", x, (1,)), [WIDTH], 0),
    "elements": (lambda b, x: b.exp(x), [WIDTH], 0),
    "sums of columns": (lambda b, x: b.sum(x, (0,)), [WIDTH], 1),
}


@pytest.mark.parametrize("name", MATCHES)
@pytest.mark.parametrize("turned", [False, True], ids=["into rows", "rows into it"])
def test_groups_over_one_array(name, turned):
    make, row, over_rows = MATCHES[name]
    b = builder()
    x = b.input(parse(f"f32[{ROWS},{WIDTH}]"), "x")
    a, other = group(0, b.sum(x, (1,))), group(0, make(b, x))
    a, other = (other, a) if turned else (a, other)
    found = match_groups(a, other, x, CPU)
    assert not isinstance(found, Refusal), found
    assert [v.extent for v in found.reduced] == row and set(found.reduced) <= set(a.vars)
    assert [found.substitution[v] for v in other.vars] == a.vars
    assert [n.params["axes"] for n in found.over_rows] == [(0,)] * over_rows


def test_full_reduction_of_row_values():
    b = builder()
    x = b.input(parse(f"f32[{ROWS},{WIDTH}]"), "x")
    rows = b.sum(x, (1,))
    a, other = group(1, rows), full(0, b.sum(rows, (0,)))
    found = match_groups(a, other, rows, CPU, full_reductions=True)
    assert not isinstance(found, Refusal), found
    assert [v.extent for v in found.reduced] == [WIDTH] and found.over_rows == list(other.index_of)
    refused = match_groups(a, other, rows, CPU)
    assert isinstance(refused, Refusal) and refused.rule == "domain", "only where that is asked for"


@pytest.mark.parametrize(
    ("kind", "rule", "reason"),
    [("amax", "column-sums", "which add up sums only on the way"), ("prod", "column-sums", "add up sums only")],
)
def test_columns_are_summed_only(kind, rule, reason):
    b = builder()
    x = b.input(parse(f"f32[{ROWS},{WIDTH}]"), "x")
    refused = match_groups(group(0, b.sum(x, (1,))), group(0, b.reduce(kind, x, (0,))), x, CPU)
    assert isinstance(refused, Refusal) and refused.rule == rule and reason in refused.reason


def test_what_is_known_after_the_last_row_is_not_read_on_the_way():
    b = builder()
    x = b.input(parse(f"f32[{ROWS},{WIDTH}]"), "x")
    sums = b.sum(x, (0,))
    a = group(1, b.sum(x, (1,)))
    a.over_rows[sums] = None
    a.add(sums, (of_var(a.vars[1]),))
    reader = group(0, x * b.broadcast(b.reshape(sums, (1, WIDTH)), x.shape))
    refused = match_groups(a, reader, x, CPU, across_levels=True)
    assert isinstance(refused, Refusal) and refused.rule == "domain"


@pytest.mark.parametrize(("make", "joins"), [(lambda b, x: b.exp(x), True), (untouched, False)], ids=["map", "stored"])
def test_what_must_keep_its_bits_is_read_from_memory(make, joins):
    b = builder()
    x = b.input(parse(f"f32[{ROWS},{WIDTH}]"), "x")
    made = make(b, x)
    found = match_groups(group(1, made), group(0, b.sum(made, (1,))), made, CPU, across_levels=True)
    assert isinstance(found, Refusal) is not joins


def test_reductions_are_read_where_they_are():
    """A square array's row sums, read by its columns: the kernel has a row's sum in this row only."""
    b = builder()
    x = b.input(parse(f"f32[{WIDTH},{WIDTH}]"), "x")
    rows = b.sum(x, (1,))
    for shape, joins in (((WIDTH, 1), True), ((1, WIDTH), False)):
        centred = x - b.broadcast(b.reshape(rows, shape), x.shape)
        groups = []
        for level, node in ((1, rows), (0, centred)):
            made = Group(0, level)
            index = made.new_vars(x.shape)
            made.reduced = [made.vars[1]] if node is rows else []
            made.add(node, index[:1] if node is rows else index)
            groups.append(made)
        found = match_groups(*groups, x, CPU, across_levels=True)
        assert isinstance(found, Refusal) is not joins
