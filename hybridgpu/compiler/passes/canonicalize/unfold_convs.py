# SPDX-License-Identifier: Apache-2.0
"""Convolutions that have no kernel on the CPU as products of the weight with the unfolded operand.

Of planes of a few elements most of what a kernel of convolutions computes would not count. A library would unfold the
operand as well, but on one thread, and multiply with threads of its own, which then wait for more work as long as they
keep the processors from ours: a training step of ResNet-18 on pictures of 64 x 64 lost a quarter of its time to that.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from ...ir.graph import Builder, Graph, Node
from ..rewrite import rewrite
from .simplify import simplify

if TYPE_CHECKING:
    from ...pass_context import PassContext

__all__ = ["run"]


def run(graph: Graph, ctx: PassContext) -> Graph:
    """``graph`` with products in place of the convolutions that a library would compute."""
    convs = {n for n in graph.nodes if n.prim.name == "conv" and _unfolds(n) and not ctx.generates(n)}
    if not convs:
        return graph

    def rule(b: Builder, node: Node, new: dict[Node, Node]) -> Node | None:
        return _product(b, node, *(new[i] for i in node.inputs)) if node in convs else None

    return simplify(rewrite(graph, rule))


def _unfolds(conv: Node) -> bool:
    """Whether the windows of a convolution are columns of one matrix of floats."""
    p = conv.params
    plain = p["groups"] == 1 and all(d == 1 for d in p["base_dilate"]) and min(*p["low"], *p["high"]) >= 0
    return plain and conv.dtype.short in ("f32", "f64") and conv.size > 0 and conv.inputs[1].size > 0


def _product(b: Builder, conv: Node, x: Node, w: Node) -> Node:
    """Rows are places of the result in all samples, as many as there happen to be; columns are its channels."""
    p, n, spatial = conv.params, conv.ndim - 2, conv.shape[2:]
    kernel, channels = w.shape[2:], x.shape[1]
    if any(p["low"]) or any(p["high"]):
        x = b.pad(x, low=(0, 0, *p["low"]), high=(0, 0, *p["high"]), value=0)
    x = b.broadcast(b.reshape(x, (1,) * n + x.shape), (*kernel, *x.shape))
    windows = b.unfold(x, stride=p["stride"], dilate=p["dilate"], extent=spatial)
    rows = b.transpose(windows, (n, *range(n + 2, 2 * n + 2), n + 1, *range(n)))
    terms, places = channels * prod(kernel), conv.shape[0] * prod(spatial)
    y = b.dot(b.reshape(rows, (places, terms)), b.transpose(b.reshape(w, (w.shape[0], terms)), (1, 0)))
    y = b.reshape(y, (conv.shape[0], *spatial, w.shape[0]))
    return b.transpose(y, (0, n + 1, *range(1, n + 1)))
