# SPDX-License-Identifier: Apache-2.0
"""Checks of a valid graph. They run after every pass in tests (``HYBRIDGPU_VERIFY=1``), and are free otherwise."""

from __future__ import annotations

from .graph import Graph

__all__ = ["VerifyError", "verify"]


class VerifyError(AssertionError):
    """A pass produced an invalid graph; the message shows the lines around the guilty node."""


def verify(graph: Graph) -> None:
    """Check order, ownership and types of every node.

    Raises:
        VerifyError: with the neighbourhood of the first node that is wrong.
    """
    defined: set[object] = set()
    for position, node in enumerate(graph.nodes):
        problem = ""
        if any(i not in defined for i in node.inputs):
            problem = "an operand is not defined before it"
        else:
            try:
                inferred = node.prim.infer([i.type for i in node.inputs], node.params)
            except (TypeError, ValueError, KeyError, IndexError) as e:
                problem = f"{type(e).__name__}: {e}"
            else:
                if inferred is not node.type:
                    problem = f"its type should be {inferred!r}"
        if problem:
            around = "\n".join(map(repr, graph.nodes[max(0, position - 5) : position + 6]))
            raise VerifyError(f"{node!r}: {problem}; around it:\n{around}")
        defined.add(node)
    for out in graph.outputs:
        if out not in defined:
            raise VerifyError(f"the output {out!r} is not in the graph")
