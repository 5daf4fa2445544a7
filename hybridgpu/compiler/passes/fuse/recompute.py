# SPDX-License-Identifier: Apache-2.0
"""Recomputation: values that several kernels compute for themselves, where that is cheaper than memory traffic.

Where the readers of a value cannot share a kernel, it is written once and read by each of them; or each reads what
it is made of and computes it again. Bytes decide: a cast of half precision, a product with a mask or a scale are
made of arrays that are no larger than they are; a softmax of which another kernel picks elements is made of its operand
and two numbers a row. Arrays that lie in memory anyway count, and reductions, whose results are then written instead;
results of products and gathers may still be computed together with a reader.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from math import prod

from ....core.dataclass import dataclass
from ....core.dtypes import DType, f32
from ...cost import round_trip_seconds, seconds, separate_launch_seconds
from ...devices.cpu import CpuConstants
from ...ir.dims import nominal
from ...ir.graph import Node
from ...primitives.views import SIMPLE_VIEWS
from ...size_buckets import bucket_scale
from ...target import Target
from .group import Group

__all__ = ["RecomputeInputs", "pays_to_recompute", "pays_to_recompute_in_windows", "recompute_cost", "recompute_inputs"]

_MAX_NODES = 12  #: that are looked at on the way to memory


@dataclass(frozen=True)
class RecomputeInputs:
    """The inputs from which a value would be recomputed.

    Attributes:
        bytes: array in memory -> how much of it is read.
        operations: for all its elements.
        reduction_bytes: of the results of reductions among these arrays, in memory only if the value is recomputed.
    """

    bytes: dict[Node, int]
    operations: int
    reduction_bytes: int


def recompute_cost(node: Node) -> float:
    """Scalar operations for an element of ``node``, beyond reading it where it would be kept."""
    if node.prim.name == "take":  # a position is computed for a row, whose elements are read then
        return node.prim.cost / max(1, prod(node.inputs[0].shape[node.params["axis"] + 1 :]))
    if node.prim.name == "cast" and node.inputs[0].dtype.is_half and node.dtype is f32:
        return 0  # kernels hold halves so, whatever they are read for
    return node.prim.cost


def recompute_inputs(node: Node, stored: Collection[Node], computes: Callable[[Node], bool]) -> RecomputeInputs | None:
    """The arrays and operations behind an elementwise node; None if there are others or many.

    Args:
        stored: nodes that will be in memory whatever happens.
        computes: whether kernels compute a node, not a library.
    """
    bytes_: dict[Node, int] = {}
    operations = written = 0
    larger = bucket_scale(node.shape)

    def count(n: Node, elements: int) -> int:
        """``elements`` of an array as they decide: those of as many examples as ``node`` has grow with these."""
        grows = n.shape[:1] == node.shape[:1] or nominal(n.size) >= nominal(node.size)
        return round(nominal(elements) * larger) if grows else nominal(elements)

    seen = {node}
    stack = [node]
    while stack:
        n = stack.pop()
        operations += count(n, n.size) * n.prim.cost
        for i in n.inputs:
            read = i.size
            while i.prim.name in SIMPLE_VIEWS:
                i = i.inputs[0]
                read = min(read, i.size)
            if i.prim.name in ("full", "iota"):
                continue
            if i in stored or i.prim.name == "input" or _computed_by_library(i, computes):
                bytes_[i] = max(bytes_.get(i, 0), count(i, read) * i.dtype.size)
            elif i.prim.family == "reduce":
                written += 0 if i in bytes_ else count(i, i.size) * i.dtype.size
                bytes_[i] = max(bytes_.get(i, 0), count(i, read) * i.dtype.size)
            elif i.prim.family != "elementwise":
                return None
            elif i not in seen:
                seen.add(i)
                stack.append(i)
        if len(seen) > _MAX_NODES:
            return None
    return RecomputeInputs(bytes_, operations, written)


def _computed_by_library(node: Node, computes: Callable[[Node], bool]) -> bool:
    return node.prim.family not in ("leaf", "view") and not computes(node)


def _conversion_ops(dtype: DType) -> int:
    """CPU: operations for an element that becomes a float, or is rounded."""
    return {"float16": CpuConstants.half_ops, "bfloat16": CpuConstants.bfloat16_ops}.get(dtype.name, 0)


def pays_to_recompute_in_windows(node: Node, inputs: RecomputeInputs | None, executions: float, target: Target) -> bool:
    """Whether the loops of a host over windows should compute ``node``, and all that it is made of, so many times.

    Otherwise it is written once, by a kernel that reads as much, and read in place of what it is made of. What is far from
    memory, or made by a product whose kernel can compute it, is not worth more than once.

    Args:
        executions: lanes of vectors that would hold no window count as well.
    """
    if inputs is None or inputs.reduction_bytes:
        return False
    size, nbytes = nominal(node.size), nominal(node.type.nbytes)
    arrays = [i for i in inputs.bytes if 2 * nominal(i.size) > size]
    converted = sum(_conversion_ops(i.dtype) for i in arrays)
    once = inputs.operations / (size * bucket_scale(node.shape)) + converted
    more = (executions - size) * once + executions * CpuConstants.load_ops * (len(arrays) - 1)
    more -= (executions + size) * _conversion_ops(node.dtype)  # read, and rounded, where it is kept
    saved = round_trip_seconds(target, nbytes, nbytes * bucket_scale(node.shape)) + separate_launch_seconds(target)
    return seconds(target, operations=more) <= saved


def pays_to_recompute(
    node: Node,
    inputs: RecomputeInputs,
    readers: Iterable[Group],
    writer: Group | None,
    executions: Callable[[Group], int],
    target: Target,
) -> bool:
    """Whether ``readers`` should compute ``node`` rather than read it.

    Args:
        readers: groups that would read it from memory.
        writer: the group that would write it; None for a kernel that does nothing else.
        executions: how often a group would compute it.
    """
    # the kernel of a reduction that it is made of could compute it as well, and is there in any case
    larger = bucket_scale(node.shape)
    size, own = round(nominal(node.type.nbytes) * larger), writer is None and not inputs.reduction_bytes
    before = size + (sum(inputs.bytes.values()) if own else 0)  # written, and what the writer reads for it
    after = inputs.reduction_bytes
    operations = -inputs.operations if own else 0
    for g in readers:
        times = round(executions(g) * larger)  # fewer than there are elements, if some are picked
        before += min(size, times * node.dtype.size)
        missing = [(i, n) for i, n in inputs.bytes.items() if i not in g.reads and i not in g.index_of]
        after += sum(min(n, times * i.dtype.size) for i, n in missing)
        operations += round(inputs.operations * times / max(nominal(node.size) * larger, 1))
    return seconds(target, before - after, launches=own) > seconds(target, operations=operations)
