# SPDX-License-Identifier: Apache-2.0
"""Prologue fusion: products and convolutions compute an operand as they load it, instead of reading it from memory.

Fusion leaves operands of products in memory, since a product reads every element many times. Where a kernel without
reductions computes such an operand for products alone, its work can be theirs: it is neither stored nor read back.
Whether that pays is decided here, once for every reader of what the kernel stores: bytes and a start saved, against
arithmetic repeated for each of a product's panels (on a GPU, for each thread that loads the element).

Why this stays beside the merging of groups (``passes/fuse/match.py``): merged groups visit an array in one order, each element
once. A product visits its operand in tiles, again and again, so that whether a prologue is possible and what it costs is known
only with the product's configuration, which schedules choose. It is decided for all readers at once, since the array is
stored or not; and the producer stays a group of its own, with loops of its own inside the product's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from ...core.dataclass import dataclass
from ..cost import seconds, separate_launch_seconds
from ..devices.cpu import CpuConstants
from ..ir.dims import nominal
from ..ir.graph import Node
from ..ir.indexing import Var
from ..passes.fuse import FusionPlan, Group, Refusal
from ..passes.fuse.group import label, label_pair
from ..passes.materialize import matrix_strides
from ..primitives.views import strip_views
from ..target import Target
from .matmul.blocked import why_in_blocks
from .matmul.product import contiguous_along_k
from .prologue import ComputedOperand, computed_operand, panel_columns, panel_rows, strided_array, strided_in_rows
from .runtime_args import reduces_outermost

if TYPE_CHECKING:
    from ..pass_context import PassContext
    from ..select import Selector

__all__ = ["run"]

_MIN_MATRIX_ELEMENTS = 64  #: elements of a matrix, of many, that are worth loops of their own


@dataclass(frozen=True)
class _Use:
    """``operand`` is the ``position``-th operand of the product or convolution that is in ``reader``."""

    reader: Group
    position: int
    operand: Node
    node: Node  #: what of the operand lies in memory


def run(plan: FusionPlan, ctx: PassContext) -> FusionPlan:
    """``plan`` with operands computed by the products that read them, where that pays."""
    outputs, target = ctx.outputs, ctx.target
    readers = plan.readers()
    settled: dict[Node, list[Group]] = {}
    refused: list[Refusal] = []
    gone: set[Group] = set()
    for producer in plan.groups:
        if producer.library is not None or producer.contraction is not None or producer.reduced:
            continue
        if producer.scatter is not None:
            continue
        stored = [n for n in producer.index_of if n in outputs or n in readers]
        uses = [u for n in stored for g in readers.get(n, ()) for u in _uses(g, n, ctx.select)]
        if not uses:
            continue
        why = _refusal(producer, stored, uses, readers, outputs, target)
        for use in uses:
            settled.setdefault(use.node, []).append(use.reader)
        if why is not None:
            refused += [Refusal(u.node, u.reader.root, *why) for u in {(u.node, u.reader): u for u in uses}.values()]
            continue
        for use in uses:
            _fuse(producer, use)
        gone.add(producer)
    # what fusion said of these pairs holds no longer
    refusals = [
        c
        for c in plan.refusals
        if c.rule != "memory" or not any(c.consumer in g.index_of for g in settled.get(c.producer, ()))
    ]
    return FusionPlan([g for g in plan.groups if g not in gone], refusals + refused)


def _uses(reader: Group, node: Node, select: Selector) -> Iterator[_Use]:
    """The operands of ``reader``'s product that are views of ``node``; of a convolution the first one may be."""
    product = reader.contraction
    if product is None:
        return
    positions = [k for k, operand in enumerate(product.inputs) if strip_views(operand) is node]
    if product.prim.name == "conv" and (positions != [0] or select(product).kind == "conv_backward_filter"):
        return
    for k in positions:
        yield _Use(reader, k, product.inputs[k], node)


def _fuse(producer: Group, use: _Use) -> None:
    group = use.reader
    group.prologues[use.position] = producer
    group.reads.pop(use.node, None)
    group.must_be_materialized.pop(use.node, None)
    for read in producer.backward_slice(use.node)[1]:
        group.reads.setdefault(read, []).append(())
        group.must_be_materialized[read] = use.node


# -- whether it pays


def _refusal(
    producer: Group,
    stored: list[Node],
    uses: list[_Use],
    readers: dict[Node, list[Group]],
    outputs: frozenset[Node],
    target: Target,
) -> tuple[str, str] | None:
    """Rule and reason if what ``producer`` stores is better left in memory."""
    for n in stored:
        if n in outputs:
            return "already-stored", f"{label(n)} is a result, and in memory anyway"
        for g in readers.get(n, ()):
            if not any(u.reader is g and u.node is n for u in uses):
                return "already-stored", "{} is in memory anyway, for {}".format(*label_pair(n, g.root))
            if any(index for index in g.reads[n]):
                return "already-stored", f"{label(n)} is in memory anyway, for what follows the product"
    # what it takes to store and read back, and to compute as it is loaded
    separate_seconds, fused_seconds = separate_launch_seconds(target), 0.0
    dearest = _PrologueCost(0.0, "", "")
    for n in stored:
        members, read = producer.backward_slice(n)
        separate_seconds += seconds(target, nominal(n.type.nbytes)) + _computing_seconds(
            members, read, nominal(n.size), target
        )
    together: dict[Group, tuple[set[Node], set[Node]]] = {}
    for use in uses:
        members, read = producer.backward_slice(use.node)
        # both operands of a product may be computed as it loads them
        all_members, arrays = together.get(use.reader, ({*use.reader.members}, {*use.reader.reads}))
        together[use.reader] = all_members, arrays = all_members.union(members), arrays.union(read)
        if len(all_members) > target.max_nodes:
            return "size", "together the kernels would hold too many operations"
        if len(arrays) > target.max_arguments:
            return "arguments", f"together the kernels would read more than {target.max_arguments} arrays"
        other = 1 - use.position
        both = other in use.reader.prologues or any(u.reader is use.reader and u.position == other for u in uses)
        price = _prologue_cost(producer, use, both, target)
        if price.times is None:
            return price.rule, price.reason
        separate_seconds += seconds(target, nominal(use.node.type.nbytes))
        fused_seconds += _computing_seconds(members, read, nominal(use.operand.size), target, price.times)
        dearest = max(dearest, price, key=lambda p: p.times or 0.0)
    if fused_seconds <= separate_seconds:
        return None
    if len(uses) > 1:
        return "recompute", f"{label(stored[0])} would be computed for each of {len(uses)} products"
    return dearest.rule, dearest.reason


@dataclass(frozen=True)
class _PrologueCost:
    """The times that each element would be computed, None if that cannot be; and a reason against it."""

    times: float | None
    rule: str
    reason: str


def _computing_seconds(members: list[Node], read: list[Node], size: int, target: Target, times: float = 1.0) -> float:
    """Seconds to compute ``size`` elements, each of them several ``times``; later ones read from a cache."""
    arrays = [n for n in read if n.prim.name == "input" or n.prim.family != "leaf"]
    arithmetic = sum(n.prim.cost for n in members) + target.device.product_load_ops * max(0, len(arrays) - 1)
    nbytes = sum(min(nominal(n.type.nbytes), size * n.dtype.size) for n in arrays)
    return seconds(target, nbytes, times * size * arithmetic)


def _prologue_cost(producer: Group, use: _Use, both: bool, target: Target) -> _PrologueCost:
    """The cost of computing an operand as it is loaded; ``both``: the other operand of the product is, too."""
    product = use.reader.contraction
    assert product is not None
    if product.prim.name == "conv":
        return _conv_prologue_cost(producer, use, product, target)
    if target.device.loop_nests:
        return _panel_prologue_cost(producer, use, product, both, target)
    from .matmul.config_cuda import choose_config, dot_shape, loads_along_k, loads_per_element

    figures = dot_shape(product)
    form = choose_config(target, figures)
    apart = strided_array(_computed_operand(producer, use, loads_along_k(form)[use.position]))
    return _strided_refusal(apart, target) or _recompute_cost(use, loads_per_element(form, figures)[use.position])


def _conv_prologue_cost(producer: Group, use: _Use, conv: Node, target: Target) -> _PrologueCost:
    from .conv.direct import recompute_factor

    times = recompute_factor(target, conv)
    if times is None:
        return _PrologueCost(None, "panel", f"zeros would stand between the elements of {label(use.node)}")
    apart = strided_in_rows(producer, use.operand)
    if not target.device.loop_nests:
        return _strided_refusal(apart, target) or _recompute_cost(use, times)
    if conv.params["stride"][-1] > 1:
        times *= 2  # neighbours are no vectors
    return _strided_refusal(apart, target) or _panel_cost(use, times)


def _panel_prologue_cost(producer: Group, use: _Use, dot: Node, both: bool, target: Target) -> _PrologueCost:
    if why_in_blocks(dot, target):
        return _PrologueCost(None, "panel", f"{label(use.node)} would be computed again for every block of the product")
    (m, k), n, itemsize = dot.inputs[0].shape[-2:], dot.shape[-1], dot.dtype.size
    rows = panel_rows(m, k, itemsize)
    along = use.position == 0 or contiguous_along_k(dot)
    if not (rows if use.position == 0 else panel_columns(n, k, itemsize, along)):
        return _PrologueCost(None, "panel", f"a panel of {label(use.node)} would not fit a core's cache")
    if both and m > rows:
        return _PrologueCost(
            None, "panel", f"{label(use.node)} would be computed again for every panel of the other operand"
        )
    apart = strided_array(_computed_operand(producer, use, along))
    if use.operand.ndim > 2 and nominal(use.operand.shape[-1] * use.operand.shape[-2]) < _MIN_MATRIX_ELEMENTS:
        return _PrologueCost(
            None, "order", f"matrices of so few elements of {label(use.node)} are computed better many at a time"
        )
    refused = _strided_refusal(apart, target)
    left, right = (matrix_strides(i) for i in dot.inputs)
    assert left is not None and right is not None
    if refused is None and dot.ndim == 2 and reduces_outermost(left, right, k):
        reason = f"a panel of {label(use.node)} would be compiled anew for each number of rows that are added up"
        return _PrologueCost(None, "panel", reason)
    return refused or _panel_cost(use, 1.0)


def _recompute_cost(use: _Use, times: float) -> _PrologueCost:
    """The price of an operand of which each element is computed so many ``times`` for each that the product has."""
    every = times * nominal(use.operand.size) / nominal(use.node.size)  # one matrix may be that of a whole batch
    often = f"{every:.0f} times" if every >= 1.5 else "more than once"
    reason = f"{label(use.node)} would be computed {often} an element, which costs more than storing it"
    return _PrologueCost(times, "recompute", reason)


def _panel_cost(use: _Use, times: float) -> _PrologueCost:
    """The price of an operand that is computed part after part, ``times`` in all."""
    if times * nominal(use.operand.size) > nominal(use.node.size):
        return replace(_recompute_cost(use, times), times=times * CpuConstants.panel_overhead)
    reason = f"{label(use.node)} has so much arithmetic that recomputing it here costs more than storing it"
    return _PrologueCost(CpuConstants.panel_overhead, "arithmetic", reason)


def _strided_refusal(apart: Node | None, target: Target) -> _PrologueCost | None:
    """The reason if ``apart`` would be read in an order that memory is slow in."""
    if apart is None or nominal(apart.type.nbytes) <= target.device.strided_read_bytes:
        return None
    return _PrologueCost(None, "order", f"{label(apart)} would be read across its rows")


def _computed_operand(producer: Group, use: _Use, along: bool) -> ComputedOperand:
    names = [Var(f"i{k}", d) for k, d in enumerate(use.operand.shape)]
    return computed_operand(producer, use.operand, names[:-2], names[-2], names[-1], along == (use.position == 0))
