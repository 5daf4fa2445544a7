# SPDX-License-Identifier: Apache-2.0
"""Scatter epilogue fusion: a kernel that scatters computes what follows it, instead of storing its table.

Fusion leaves a table in memory, since it is complete only behind the last update. Then the kernel itself can go over
its elements once more, or over those of them that a block owns, and store what an elementwise kernel would make of them:
a gradient plus another one, scaled, or clipped.

Why this stays beside the merging of groups (``passes/fuse/match.py``): the table is read in one order, but behind a barrier of
the whole kernel or of the blocks that own its rows, and the domain of the updates is not that of the table. One group with two
domains in turn would be a third kind of reduction over rows there, for one reader.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..ir.graph import Node
from ..ir.indexing import linearize
from ..passes.fuse import FusionPlan, Group
from ..passes.fuse.group import label, label_pair, row_major_vars
from ..target import Target

if TYPE_CHECKING:
    from ..pass_context import PassContext

__all__ = ["run"]


def run(plan: FusionPlan, ctx: PassContext) -> FusionPlan:
    """``plan`` with what follows scatters in their kernels, where that is elementwise over their tables."""
    outputs, target = ctx.outputs, ctx.target
    readers = plan.readers()
    joined: dict[Node, Group] = {}
    refused: dict[Node, str] = {}
    for producer in plan.groups:
        if producer.scatter is None or not readers.get(producer.scatter):
            continue
        node, reader = producer.scatter, readers[producer.scatter][0]
        why = _why_not_fused(producer, node, readers, outputs, target)
        if why:
            refused[node] = why
            continue
        reader.scatter_source = producer
        del reader.reads[node]
        reader.must_be_materialized.pop(node, None)
        for read, indices in producer.reads.items():
            reader.reads.setdefault(read, []).extend(indices)
            readers[read] = list(dict.fromkeys(reader if g is producer else g for g in readers[read]))
        joined[node] = reader
    cuts = []
    for c in plan.refusals:
        if c.rule != "scatter" or c.producer not in {**joined, **refused}:
            cuts.append(c)
        elif c.producer in refused:
            cuts.append(replace(c, reason=f"{c.reason}: {refused[c.producer]}"))
    gone = {g.scatter_source for g in joined.values()}
    return FusionPlan([g for g in plan.groups if g not in gone], cuts)


def _why_not_fused(
    producer: Group, node: Node, readers: dict[Node, list[Group]], outputs: frozenset[Node], target: Target
) -> str:
    """Why what reads ``node`` is not computed by the kernel that scatters it, in words; '' if it is."""
    reader, *others = readers[node]
    if node.size == 1:
        return "its table is a single element, which no thread walks along"
    if node in outputs:
        return "it is a result, and in memory anyway"
    if others:
        return "several kernels read it"
    if any(n is not node and (n in outputs or n in readers) for n in producer.index_of):
        return "its updates are wanted in memory, too"
    if reader.scatter_source:
        return f"its reader's kernel adds up {label(reader.scatter_source.root)}"
    if reader.library or reader.contraction or reader.reduced or reader.scatter:
        return f"its kernel takes elementwise work on the table only, not {label(reader.root)}"
    offset = reader.affine_offset(node)
    order = row_major_vars(offset, node.size) if offset is not None else None
    if offset is None or order is None or set(order) != set(reader.vars):
        return f"{label_pair(reader.root, node)[0]} does not read each of its elements once"
    stored = [n for n in reader.index_of if n in outputs or n in readers]
    if any(linearize(reader.index_of[n], n.shape) != offset for n in stored):
        return f"results of {label(reader.root)} lie in another order"
    if target.device.scatters_in_result and all(n.dtype is not node.dtype for n in stored):
        return "no result has its type, so it would need memory of its own"
    if len({**producer.reads, **reader.reads}) > target.max_arguments:
        return f"together the kernels would read more than {target.max_arguments} arrays"
    return ""
