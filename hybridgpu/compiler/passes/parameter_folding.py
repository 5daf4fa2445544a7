# SPDX-License-Identifier: Apache-2.0
"""Parameter folding: what depends on parameters alone is computed once, not at every call.

A graph is cut in two. The *prelude* computes from inputs that rarely change (and from constants) what the rest
reads: the scale and shift of a BatchNorm, a normalised or converted weight, a transposed copy for a library. The rest
takes these results as further inputs. Who runs the two keeps the results, and runs the prelude again when one of its
inputs was written.

Whether a value is worth keeping is decided in one place, :func:`_why_hoist`: what every call would pay for it against
reading it, and against the memory that it takes.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from ...core.dataclass import dataclass
from ..cost import node_operations, seconds
from ..ir.graph import Builder, Graph, Node, closure, constant_nodes
from ..primitives import TABLE
from ..primitives.views import SIMPLE_VIEWS, strip_views
from ..target import Target
from .materialize import is_fusible, memory_behind

if TYPE_CHECKING:
    from ..pass_context import PassContext

__all__ = ["FOLD_REASON", "Folding", "run"]

FOLD_REASON = "kept_for"  #: parameter of a copy: why its memory is worth keeping
_STORED = "every call would write it to memory"
_SMALL_BYTES = 64 << 10  #: bytes that are kept for whatever they save
_MAX_LABEL_NODES = 12  #: nodes that a label looks at
_MAX_CONE_NODES = 4096  #: nodes that are looked at below one value


@dataclass(frozen=True)
class Folding:
    """A graph cut in two.

    Attributes:
        prelude: gives what is kept.
        prelude_inputs: for each of its inputs the position among those of the whole graph.
        remainder: takes the inputs of the whole graph, then what is kept.
        folded_values: for each value that is kept what computes it, why it is kept, and its bytes.
    """

    prelude: Graph
    prelude_inputs: tuple[int, ...]
    remainder: Graph
    folded_values: tuple[tuple[str, str, int], ...]


def run(graph: Graph, ctx: PassContext) -> Graph:
    """The remainder of ``graph`` without what is worth keeping; where there is such, ``ctx.folding`` is the cut."""
    constant = constant_nodes(graph, ctx.folded_inputs)
    hoisted: dict[Node, str] = {}
    for node, stored in _candidates(graph, constant, ctx):
        why = _why_hoist(node, stored, hoisted, ctx.target)
        if why:
            hoisted[node] = why
    if not hoisted:
        return graph
    ctx.folding = _partition(graph, hoisted)
    ctx.pinned_inputs |= {len(graph.inputs) + k for k in range(len(hoisted))}
    return ctx.folding.remainder


def _candidates(graph: Graph, constant: set[Node], ctx: PassContext) -> list[tuple[Node, bool]]:
    """Constant nodes that the rest of the graph reads, operands first, and whether every call would store each."""
    candidates: dict[Node, bool] = {}
    for node in graph.nodes:
        if node in constant or not any(i in constant for i in node.inputs):
            continue
        strided = node.prim.name == "dot" or (node.prim.name == "conv" and ctx.target.device.loop_nests)
        generated = strided and ctx.generates(node)
        for k, operand in enumerate(node.inputs):
            if operand not in constant:
                continue
            stored = not is_fusible(node) or (k == 0 and node.prim.name in ("take", "take_along"))
            if node.prim.family == "view":  # of several operands
                stored, memory = False, strip_views(operand, SIMPLE_VIEWS)
            elif is_fusible(node):
                memory = strip_views(operand, SIMPLE_VIEWS)
            else:
                memory = memory_behind(node, k, operand, generated)
            candidates[memory] = candidates.get(memory, False) or stored
    for node in graph.outputs:
        if node in constant:
            candidates.setdefault(strip_views(node, SIMPLE_VIEWS), False)
    return sorted(candidates.items(), key=lambda c: c[0].index)


@dataclass
class _Cone:
    """The computation of a value: its operations, the bytes it reads, and whether it is more than one expression."""

    operations: int = 0
    bytes_read: int = 0
    needs_kernel: bool = False


def _cone(top: Node, hoisted: Collection[Node]) -> _Cone | None:
    """The computation of ``top`` from inputs and from what is kept already; None if that is too much to look at."""
    cone, seen, stack = _Cone(), {top}, [(top, top.size)]
    while stack:
        node, size = stack.pop()
        if len(seen) > _MAX_CONE_NODES:
            return None
        if node.prim.name == "input" or (node is not top and node in hoisted):
            cone.bytes_read += size * node.dtype.size
            continue
        if node.prim.family not in ("view", "leaf"):
            cone.operations += node_operations(node)
            cone.needs_kernel |= node.prim.family != "elementwise"
        for i in node.inputs:
            if i not in seen:
                seen.add(i)
                # of an array that is seen through views, no more than what is seen
                stack.append((i, min(size, i.size) if node.prim.family == "view" else i.size))
    return cone


def _why_hoist(node: Node, stored: bool, hoisted: Collection[Node], target: Target) -> str:
    """Why a value is kept, '' if it is not worth its memory."""
    if node.size == 0 or node.prim.name == "input":
        return ""
    if node.prim.name == "copy":  # simplify left those that are wanted in memory
        return str(node.params.get(FOLD_REASON, _STORED))
    cone = _cone(node, hoisted)
    if cone is None:
        return ""
    spared = seconds(target, cone.bytes_read - node.type.nbytes, cone.operations)
    if stored:  # the memory is no more than that which every call would write
        return _STORED
    if cone.needs_kernel:
        return "every call would need a kernel for it"
    if not cone.operations or spared <= 0:
        return ""
    if node.type.nbytes <= _SMALL_BYTES:
        return "every call would compute it"
    if spared >= seconds(target, node.type.nbytes):
        return "reading it is less than computing it"
    return ""


def _partition(graph: Graph, hoisted: dict[Node, str]) -> Folding:
    """The two graphs."""
    values = sorted(hoisted, key=lambda n: n.index)
    needed = closure(values, lambda n: n.inputs)
    takes = tuple(k for k, n in enumerate(graph.inputs) if n in needed)
    prelude = Builder(TABLE)
    in_prelude = {graph.inputs[k]: prelude.input(graph.inputs[k].type, graph.inputs[k].params["name"]) for k in takes}
    for node in graph.nodes:
        if node in needed and node not in in_prelude:
            prelude.prov = node.prov
            in_prelude[node] = prelude.reapply(node, [in_prelude[i] for i in node.inputs])
    rest = Builder(TABLE)
    new = {n: rest.input(n.type, n.params["name"]) for n in graph.inputs}
    for k, node in enumerate(values):
        new[node] = rest.input(node.type, f"kept{k}")
    live = closure(graph.outputs, lambda n: () if n in hoisted else n.inputs)
    for node in graph.nodes:
        if node in live and node not in new:
            rest.prov = node.prov
            new[node] = rest.reapply(node, [new[i] for i in node.inputs])
    return Folding(
        prelude.finish([in_prelude[n] for n in values], f"{graph.name}_prelude"),
        takes,
        rest.finish([new[o] for o in graph.outputs], graph.name),
        tuple((_label(n, hoisted), hoisted[n], n.type.nbytes) for n in values),
    )


def _label(top: Node, hoisted: Collection[Node]) -> str:
    """The computation of a value, for people: the last few primitives, and the operator that they are part of."""
    names: list[str] = []
    stack, seen = [top], {top}
    while stack and len(seen) < _MAX_LABEL_NODES:
        node = stack.pop(0)
        if node.prim.family != "leaf" and (node is top or node not in hoisted):
            names.append(node.prim.name)
            stack += [i for i in dict.fromkeys(node.inputs) if i not in seen]
            seen.update(node.inputs)
    words = ", ".join(dict.fromkeys(reversed(names))) or top.prim.name
    name = top.prov and (top.prov.name or top.prov.op)
    return f"{words} of {name}" if name else words
