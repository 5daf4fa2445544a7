# SPDX-License-Identifier: Apache-2.0
"""Convolution epilogues: bias, residual and relu in a library's call, where that saves a kernel.

cuDNN adds a bias and an array of the result's shape, and takes relu, in one call. A scale of the channels (of a
normalisation whose statistics are constant) becomes part of a constant weight first, which the program's prelude then
multiplies once. All that is done where it saves a kernel: where what reads the result takes it from memory anyway.
A scaled weight is rounded once more, and cuDNN's relu makes 0 of NaN, so both are for the numeric mode 'fast' alone.

Why this and the epilogues of products (:mod:`.gemm_epilogues`) stay beside fusion's own: a generated kernel takes any
elementwise work behind it, by the rule of merging domains; a library takes one of a few forms in a fixed order, each with
conditions of its own on types, layouts and NaN. That is a match of patterns. They share its parts (the sole reader, the
repeated array, what is read from memory), and nothing else: a convolution folds a scale into its weight and adds a residual,
a product does neither.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from ....core.dataclass import dataclass
from ...ir.graph import Builder, Graph, Node, constant_nodes
from ...primitives.conv import is_forward
from ...primitives.views import RESHAPES, strip_views
from ...target import Target
from ..materialize import is_fusible
from ..rewrite import replace_nodes
from .gemm_epilogues import Uses, broadcast_source, is_zero, read_from_memory, sole_reader

if TYPE_CHECKING:
    from ...pass_context import PassContext

__all__ = ["run", "why_not_fused"]

_MAX_ELEMENTS = (1 << 31) - 1  #: elements that cuDNN can count
_Predicate = Callable[[Node], bool]


@dataclass(frozen=True)
class _Epilogue:
    """``(conv + bias) * scale + shift`` for each channel (what is None is left out) ``+ residual``, then relu if asked for."""

    conv: Node
    bias: Node | None
    scale: Node | None
    shift: Node | None
    residual: Node | None
    relu: bool


def run(graph: Graph, ctx: PassContext) -> Graph:
    """``graph`` with ``conv_bias_act`` in place of convolutions and what follows them, where the target gains by it."""
    convs = [n for n in graph.nodes if n.prim.name == "conv" and not ctx.generates(n)]  # a kernel takes any epilogue
    if not convs:
        return graph
    constants = constant_nodes(graph, ctx.folded_inputs)
    uses, outputs = graph.uses(), frozenset(graph.outputs)
    epilogues: dict[Node, _Epilogue] = {}
    for conv in convs:
        match = _match(conv, uses, outputs, ctx.target.numeric == "fast", ctx.generates, constants)
        if not isinstance(match, str):
            epilogues[match[0]] = match[1]
    return replace_nodes(graph, epilogues, _build)


def _build(b: Builder, node: Node, new: dict[Node, Node], epilogue: _Epilogue) -> Node:
    conv, residual = epilogue.conv, epilogue.residual
    b.prov = conv.prov
    x, w = (new[i] for i in conv.inputs)
    channels = conv.shape[1:2]
    bias, scale, shift = (
        None if n is None else b.reshape(new[n], channels) for n in (epilogue.bias, epilogue.scale, epilogue.shift)
    )
    if scale is not None:
        w = b.mul(w, b.broadcast(b.reshape(scale, (*channels, *(1,) * (w.ndim - 1))), w.shape))
        bias = None if bias is None else b.mul(bias, scale)
    if bias is None or shift is None:
        bias = bias or shift
    else:
        bias = b.add(bias, shift)
    assert bias is not None
    added = [bias] if residual is None else [bias, new[residual]]
    return b.conv_bias_act(x, w, *added, **conv.params, residual=residual is not None, relu=epilogue.relu)


def why_not_fused(graph: Graph, target: Target, wants_kernel: _Predicate) -> Callable[[Node], str]:
    """A function from a convolution of ``graph`` to the reason, in words, why its library does not compute what follows."""
    uses: Uses = {}

    def why(node: Node) -> str:
        if not target.library_convolutions or node.prim.name != "conv":
            return ""
        if not uses:
            uses.update(graph.uses())
        match = _match(node, uses, frozenset(graph.outputs), target.numeric == "fast", wants_kernel, graph.nodes)
        return match if isinstance(match, str) else "the scale of its channels is not constant"

    return why


def _match(
    conv: Node, uses: Uses, outputs: frozenset[Node], fast: bool, wants_kernel: _Predicate, constant: Collection[Node]
) -> tuple[Node, _Epilogue] | str:
    """The last node of an epilogue of ``conv`` and what it computes; or why a library does not compute it."""
    weight = conv.inputs[1]
    positions = conv.size // max(1, conv.shape[0] * conv.shape[1])
    if not is_forward(weight.shape, conv.shape, conv.params) or positions < 2:
        return "cuDNN adds nothing to transposed convolutions, gradients and matrix products"
    if conv.ndim > 5 or max(n.size for n in (conv, *conv.inputs)) > _MAX_ELEMENTS:
        return "cuDNN does not compute it"
    bias: Node | None = None
    scale: Node | None = None
    shift: Node | None = None
    residual: Node | None = None
    last, relu = conv, False
    while (reader := sole_reader(last, uses, outputs)) is not None:
        if conv.dtype.is_half and reader.prim.name in ("cast", "mul"):
            return "a scale of its channels would become part of its weight, and halves be rounded twice"
        others = [i for i in reader.inputs if i is not last]
        if not others:
            break
        other, channels = others[0], broadcast_source(others[0], 1) if others[0].shape == conv.shape else None
        if reader.prim.name == "max" and is_zero(other):
            relu = True
            if fast:
                last = reader
            break
        if reader.prim.name == "mul" and channels is not None and not (scale or shift or residual):
            if not fast:
                return "a scale of its channels becomes part of its weight in the numeric mode 'fast' alone"
            parts = [n for n in (weight, bias, channels) if n is not None]
            if any(n not in constant for n in parts):
                break
            scale = channels
        elif reader.prim.name != "add":
            break
        elif channels is not None and bias is None and scale is None:
            bias = channels
        elif channels is not None and scale is not None and shift is None and channels in constant:
            shift = channels
        elif residual is not None or not _always_in_memory(other, uses, outputs, wants_kernel):
            break
        elif strip_views(other, RESHAPES) is strip_views(conv.inputs[0], RESHAPES):
            return "cuDNN adds no array that is the operand, too"
        else:
            residual = other
        last = reader
    if bias is None and shift is None:
        return "cuDNN wants a bias behind it, then an array or a relu"
    if relu and not fast:
        return "cuDNN's relu makes 0 of NaN, and computes it in the numeric mode 'fast' alone"
    if not read_from_memory(last, uses):
        return "cuDNN adds a bias and an array and takes relu, and the kernel of what else follows does that on the way"
    return last, _Epilogue(conv, bias, scale, shift, residual, relu)


def _always_in_memory(node: Node, uses: Uses, outputs: frozenset[Node], wants_kernel: _Predicate) -> bool:
    """True if ``node`` lies in memory whatever is fused: an argument, a result, or what a library makes or reads."""

    def library(n: Node) -> bool:
        if n.prim.name in ("dot", "conv"):
            return not wants_kernel(n)
        return n.prim.family not in ("view", "leaf") and not is_fusible(n)

    stored = strip_views(node, RESHAPES)
    if stored.prim.family in ("view", "leaf"):
        return stored.prim.name == "input"
    return stored in outputs or library(stored) or any(library(n) for n in uses.get(stored, ()))
