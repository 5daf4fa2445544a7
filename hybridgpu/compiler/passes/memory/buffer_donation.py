# SPDX-License-Identifier: Apache-2.0
"""Buffer donation: results written over arguments, new weights and states where the old ones were.

A graph has no notion of writing; what calls it may want a result in the memory of an argument. That is done where no
step can see the difference: the step that writes the result is the last one that reads the argument, and reads each
element before it writes it. Any other result stays one, and the caller copies it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...ir.graph import Graph, Node
from .step_order import StepBuffers

__all__ = ["donate_buffers"]


def donate_buffers(graph: Graph, steps: Sequence[StepBuffers], donated: Mapping[int, int]) -> dict[Node, Node]:
    """The results that may be written over arguments: result -> argument.

    Args:
        steps: in the order in which they run.
        donated: number of the result -> number of the argument that it is to replace.
    """
    written = {n: at for at, step in enumerate(steps) for n in step.outputs}
    last: dict[Node, int] = {}
    for at, step in enumerate(steps):
        for node in step.inputs:
            last[node] = at
    donations: dict[Node, Node] = {}
    for k, j in donated.items():
        result, argument = graph.outputs[k], graph.inputs[j]
        at, read = written.get(result, -1), last.get(argument, -1)
        if read > at or at < 0 or result.type.nbytes != argument.type.nbytes or argument in donations.values():
            continue
        if read < at or (argument, result) in steps[at].in_place:
            donations[result] = argument
    return donations
