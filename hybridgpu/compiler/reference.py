# SPDX-License-Identifier: Apache-2.0
"""The reference interpreter: what a graph means.

It is the oracle of the tests (in float64 on request), the way eager operators run, and the last
fallback where there is no compiler. A graph is prepared once into a flat list of steps and then
run with almost no interpretation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..dtypes import f64
from .ir.graph import Graph, Node
from .ir.types import TensorType, tensor_type

__all__ = ["Interpreter", "evaluate"]


class Interpreter:
    """Runs one graph on arrays of the module ``xp`` (NumPy or CuPy).

    Results are C-contiguous arrays that share no memory with the arguments or each other.
    """

    def __init__(self, graph: Graph, xp: Any = np, wide: bool = False) -> None:
        """``wide`` evaluates every float in float64, whatever its declared type."""
        self.graph, self._xp, self._wide = graph, xp, wide
        slot: dict[Node, int] = {}
        self._start: list[Any] = []  # constants that only elementwise primitives read, as zero-dimensional arrays
        scalars = _broadcastable(graph)
        self._steps: list[tuple[Callable[..., Any], list[int], Any, TensorType, int]] = []
        for node in graph.nodes:
            slot[node] = len(slot)
            self._start.append(None)
            if node in scalars:
                dtype = np.float64 if wide and node.dtype.is_float else node.dtype.np
                self._start[-1] = xp.asarray(node.params["value"], dtype)
            elif node.prim.name != "input":
                params, type = node.params, node.type
                if wide:
                    type, params = (
                        _widen(type),
                        {k: _widen(v) if isinstance(v, TensorType) else v for k, v in params.items()},
                    )
                    if node.prim.name == "cast" and params["dtype"].is_float:
                        params = {"dtype": f64}
                self._steps.append((node.prim.evaluate, [slot[i] for i in node.inputs], params, type, slot[node]))
        self._inputs = [slot[n] for n in graph.inputs]
        self._outputs = [slot[n] for n in graph.outputs]
        # an output that may be a view (or repeats another output) is copied
        self._copy = [
            n.prim.family in ("view", "leaf") or n.prim.name == "stop_gradient" or n in graph.outputs[:k]
            for k, n in enumerate(graph.outputs)
        ]

    def __call__(self, *arrays: Any) -> list[Any]:
        env = self._start.copy()
        for k, a in zip(self._inputs, arrays, strict=True):
            env[k] = a.astype(np.float64) if self._wide and a.dtype.kind == "f" else a
        xp = self._xp
        with np.errstate(all="ignore"):
            for run, inputs, params, out, target in self._steps:
                env[target] = run(xp, [env[k] for k in inputs], params, out)
        results = []
        for k, copy in zip(self._outputs, self._copy, strict=True):
            y = env[k]
            if copy:
                y = xp.array(y, order="C")
            elif not isinstance(y, xp.ndarray):  # NumPy returns scalars for shape ()
                y = xp.asarray(y)
            elif not y.flags.c_contiguous:
                y = xp.ascontiguousarray(y)
            results.append(y)
        return results


def _broadcastable(graph: Graph) -> set[Node]:
    """Constants whose every reader broadcasts: elementwise primitives with another operand of full shape."""
    found = {n for n in graph.nodes if n.prim.name == "full"} - set(graph.outputs)
    for node in graph.nodes:
        alone = all(i.prim.name == "full" for i in node.inputs)
        if node.prim.family != "elementwise" or node.prim.name == "select" or alone:
            found.difference_update(node.inputs)
    return found


def _widen(type: TensorType) -> TensorType:
    return tensor_type(type.shape, f64) if type.dtype.is_float else type


def evaluate(graph: Graph, arrays: Sequence[Any], xp: Any = np, wide: bool = False) -> list[Any]:
    """One-off evaluation; see :class:`Interpreter`."""
    return Interpreter(graph, xp, wide)(*arrays)
