# SPDX-License-Identifier: Apache-2.0
"""GEMM epilogues: bias (and relu) in a library's matrix product, where that saves a kernel.

A bias (and a relu) joins its product where it would otherwise be a kernel of its own: where what reads the sum takes
it from memory anyway. Kernels that read it add the bias for nothing. Whether a library's relu keeps NaN is not
documented, so it is used in the numeric mode 'fast' alone. (Convolutions: :mod:`.conv_epilogues`, which says why both stay.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....core.dataclass import dataclass
from ...ir.graph import Builder, Graph, Node, closure
from ...primitives.views import SIMPLE_VIEWS, strip_views
from ..materialize import as_strided, is_fusible
from ..rewrite import replace_nodes

if TYPE_CHECKING:
    from ...pass_context import PassContext

__all__ = ["Uses", "broadcast_source", "is_zero", "read_from_memory", "run", "sole_reader"]

Uses = dict[Node, list[Node]]  #: node -> what reads it


@dataclass(frozen=True)
class _Epilogue:
    """``dot`` plus ``bias`` for each of its columns, then relu if asked for."""

    dot: Node
    bias: Node
    relu: bool


def run(graph: Graph, ctx: PassContext) -> Graph:
    """``graph`` with ``gemm_bias`` in place of products and what follows them, where the target gains by it."""
    uses = graph.uses()
    outputs = frozenset(graph.outputs)
    epilogues: dict[Node, _Epilogue] = {}
    for node in graph.nodes:
        if node.prim.name == "dot" and node.dtype.is_float and not ctx.generates(node):  # a kernel takes any epilogue
            match = _match(node, uses, outputs, ctx.target.numeric == "fast")
            if match is not None:
                epilogues[match[0]] = match[1]
    return replace_nodes(graph, epilogues, _build)


def _build(b: Builder, node: Node, new: dict[Node, Node], epilogue: _Epilogue) -> Node:
    b.prov = epilogue.dot.prov
    x, w = (new[i] for i in epilogue.dot.inputs)
    bias = b.reshape(new[epilogue.bias], epilogue.dot.shape[-1:])
    gemm = b.gemm_bias(x, w, bias, relu=epilogue.relu)
    return b.reshape(gemm, node.shape)


def _match(dot: Node, uses: Uses, outputs: frozenset[Node], fast: bool) -> tuple[Node, _Epilogue] | None:
    """The last node of an epilogue of ``dot`` and what it computes, if it pays."""
    columns = dot.shape[-1]
    last = dot
    while True:
        reader = sole_reader(last, uses, outputs)
        if reader is None:
            return None
        if reader.prim.name != "reshape":
            break
        if reader.shape[-1:] != (columns,):
            return None
        last = reader
    others = [i for i in reader.inputs if i is not last]
    bias = broadcast_source(others[0], reader.ndim - 1) if reader.prim.name == "add" and others else None
    if bias is None:
        return None
    last, relu = reader, False
    after = sole_reader(last, uses, outputs) if fast else None
    if after is not None and after.prim.name == "max" and any(is_zero(i) for i in after.inputs):
        last, relu = after, True
    return (last, _Epilogue(dot, bias, relu)) if read_from_memory(last, uses) else None


def sole_reader(node: Node, uses: Uses, outputs: frozenset[Node]) -> Node | None:
    """The only reader of ``node``; None if it is a result, or read by several."""
    readers = uses.get(node, [])
    return readers[0] if len(set(readers)) == 1 and node not in outputs else None


def broadcast_source(node: Node, axis: int) -> Node | None:
    """The array, of an element for each position along ``axis``, that ``node`` repeats along all others; None if it is none."""
    strided = as_strided(node)
    if strided is None or not node.ndim or strided[0].size != node.shape[axis]:
        return None
    memory, variables, offset = strided
    expected = [int(k == axis) for k in range(node.ndim)]
    return None if offset.const or [offset.coefficient(v) for v in variables] != expected else memory


def is_zero(node: Node) -> bool:
    """True for a constant 0 of any shape; not for a 0 that is padded or joined with something else."""
    node = strip_views(node, SIMPLE_VIEWS)
    return node.prim.name == "full" and node.params["value"] == 0


def read_from_memory(node: Node, uses: Uses) -> bool:
    """True if nothing that reads ``node`` is computed by a kernel that could do more with it."""
    readers = closure([node], lambda n: uses.get(n, ()) if n is node or n.prim.family == "view" else ())
    return not any(is_fusible(n) for n in readers - {node})
