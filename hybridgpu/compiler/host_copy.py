# SPDX-License-Identifier: Apache-2.0
"""Host copies: programs for graphs that only permute the elements of their inputs, run by NumPy.

A copy of a weight in another order, made once, is no reason to run a compiler: it takes a few milliseconds, a compiler
more than a hundred. NumPy makes such copies, through views of the inputs.
"""

from __future__ import annotations

from .ir.graph import Graph, Node
from .passes.materialize import as_strided
from .program import Buffer, LibraryStep, Program
from .target import Target

__all__ = ["host_copy_program"]

_MAX_ELEMENTS = 1 << 20  #: elements in all; NumPy takes several times as long for them as a kernel does


def host_copy_program(graph: Graph, target: Target) -> Program | None:
    """The program without kernels of ``graph``; None if it computes something, or copies much, or is for a GPU."""
    if not target.device.host_memory or sum(o.size for o in graph.outputs) > _MAX_ELEMENTS:
        return None
    at = {n: k for k, n in enumerate(graph.inputs)}
    steps = []
    for k, node in enumerate(graph.outputs):
        copied = _copied(node)
        if copied is None or copied[0] not in at:
            return None
        source, strides, offset = copied
        steps.append(
            LibraryStep(
                primitive="copy",
                params={"strides": strides, "offset": offset},
                inputs=(at[source],),
                input_shapes=((source.size,),),
                transposed=(False,),
                output=len(at) + k,
                operator=(node.prov.op, node.prov.name, node.prov.line) if node.prov else ("copy", "", ""),
            )
        )
    nodes = [*graph.inputs, *graph.outputs]
    places = [("input", k) for k in range(len(at))] + [("output", k) for k in range(len(graph.outputs))]
    return Program(
        name=graph.name,
        target=target.name,
        inputs=[(n.shape, n.dtype.short) for n in graph.inputs],
        outputs=[(n.shape, n.dtype.short) for n in graph.outputs],
        output_buffers=list(range(len(at), len(nodes))),
        buffers=[
            Buffer(place, k, n.shape, n.dtype.short, n.type.nbytes) for (place, k), n in zip(places, nodes, strict=True)
        ],
        kernels=[],
        steps=list(steps),
        arena_bytes=0,
        graph=str(graph),
        numeric=target.numeric,
        tf32=target.rounds_to_tf32,
    )


def _copied(node: Node) -> tuple[Node, tuple[int, ...], int] | None:
    """The array that ``node`` copies, with the step along each axis and the first element; None if it is no copy."""
    while node.prim.name == "copy" and node.inputs[0].prim.name == "copy":
        node = node.inputs[0]
    strided = as_strided(node.inputs[0] if node.prim.name == "copy" else node)
    if strided is None or node.size == 0:
        return None
    source, axes, offset = strided
    return source, tuple(offset.coefficient(v) for v in axes), offset.const
