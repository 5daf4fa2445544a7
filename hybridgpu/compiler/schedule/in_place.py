# SPDX-License-Identifier: Apache-2.0
"""In-place pairs: which results a kernel may write over which of its operands.

A result may take an operand's place where every element of the operand is read at the same point of the kernel's
domain that writes this element of the result, by the same thread and before it writes; and where nothing else in
the kernel reads the operand. Then the order of points does not matter.

Pointers to memory that is shared in this way are no longer ``__restrict__``, so that the text differs: what is done
is decided where lifetimes are known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from math import prod

from ..ir.graph import Node
from ..ir.indexing import Expr
from ..passes.fuse.group import row_major_vars
from .kernel import Kernel
from .reduction_passes import PassPlan
from .scalar import ScalarProgram

__all__ = ["Pair", "apply_in_place", "in_place_pairs", "in_place_pairs_reduction"]

Pair = tuple[Node, Node]  #: an operand, and a result that may be written over it


def in_place_pairs(program: ScalarProgram, also_read: Collection[Node] = ()) -> list[Pair]:
    """The pairs of a kernel whose points are computed one by one, each of them once.

    Args:
        also_read: arrays that are read in other ways as well.
    """
    return [(node, program.stores[k].node) for node, k in _pairs(program, also_read)]


def in_place_pairs_reduction(plan: PassPlan) -> list[Pair]:
    """The pairs of a kernel of passes over rows: a result is written in no pass before the last that reads the operand."""
    program = plan.program
    read: dict[Node, int] = {}
    written: dict[int, int] = {}
    earlier: set[object] = set()
    for at, row_pass in enumerate(plan.passes):
        for s in (*row_pass.row_scalars, *row_pass.scalars):
            if s.op == "load" and s.node is not None and not (s in plan.cache and s in earlier):
                read[s.node] = at
        earlier.update(row_pass.scalars)
        cached_names = {s.name for s in row_pass.cache_writes}  # values that wait where results will lie
        for k, store in enumerate(program.stores):
            if k in row_pass.targets or plan.writer.store_address(k, store) in cached_names:
                written.setdefault(k, at)
    return [
        (node, program.stores[k].node)
        for node, k in _pairs(program)
        if k in written and read.get(node, 0) <= written[k]
    ]


def _pairs(program: ScalarProgram, also_read: Collection[Node] = ()) -> list[tuple[Node, int]]:
    """(operand, number of the store) where both are at one place, which is another one at every point."""
    offsets: dict[Node, Expr | None] = {}
    for s in program.scalars:
        if s.op == "load" and s.node is not None and s.offset is not None:
            first_offset = offsets.setdefault(s.node, s.offset)
            if first_offset is not None and not _same(first_offset, s.offset):
                offsets[s.node] = None
    points = prod(v.extent for v in program.vars)
    pairs = []
    for k, store in enumerate(program.stores):
        if store.node.size != points or not points or row_major_vars(store.offset, points) is None:
            continue
        for node, offset in offsets.items():
            alike = node.dtype == store.node.dtype and node.size == points and node not in also_read
            if alike and offset is not None and _same(offset, store.offset):
                pairs.append((node, k))
    return pairs


def _same(a: Expr, b: Expr) -> bool:
    return a.const == b.const and dict(a.terms) == dict(b.terms)


def apply_in_place(kernel: Kernel, pairs: Iterable[Pair]) -> None:
    """Let ``kernel`` write results over operands: pointers of ``pairs`` make no promises any more."""
    names: set[str] = set()
    pointers = kernel.fields.pointers
    for x, y in pairs:
        assert (x, y) in kernel.in_place
        names |= {pointers[kernel.inputs.index(x)].name, pointers[len(kernel.inputs) + kernel.outputs.index(y)].name}
    if names:
        kernel.fields = kernel.fields.with_aliased(names)
