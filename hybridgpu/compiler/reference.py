# SPDX-License-Identifier: Apache-2.0
"""The reference interpreter: what a graph means.

It is the oracle of the tests (in float64 on request), the way eager operators run, and the last
fallback where there is no compiler. A graph is prepared once into a flat list of steps and then
run with almost no interpretation.

bfloat16 is computed as generated kernels do: values are held in float32 and rounded where they are
stored, and where the graph says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..dtypes import DType, bf16, f64
from .ir.graph import Graph, Node, Primitive
from .ir.types import TensorType, tensor_type

__all__ = ["Interpreter", "evaluate", "evaluate_stored"]

#: besides leaves and views, what moves elements without computing
_MOVES = frozenset({"take", "take_along", "scatter_set", "select", "copy", "stop_gradient"})


class Interpreter:
    """Runs one graph on arrays of the module ``xp`` (NumPy or CuPy).

    Results are C-contiguous arrays that share no memory with the arguments or each other.
    """

    def __init__(
        self, graph: Graph, xp: Any = np, wide: bool = False, special: Callable[..., Any] | None = None
    ) -> None:
        """
        Args:
            wide: evaluate every float in float64, whatever its declared type.
            special: (node, types of its operands as they are held, params, its type) -> what evaluates it on this
                device, with the arguments of ``Primitive.evaluate``; None for the primitive's own evaluation.
        """
        self.graph, self._xp = graph, xp
        plain = not wide and _moves_only(graph)
        slot: dict[Node, int] = {}
        self._start: list[Any] = []  # constants that only elementwise primitives read, as zero-dimensional arrays
        scalars = _broadcastable(graph)
        self._steps: list[tuple[Callable[..., Any], list[int], Any, TensorType, int]] = []
        for node in graph.nodes:
            slot[node] = len(slot)
            self._start.append(None)
            if node in scalars:
                self._start[-1] = xp.asarray(node.params["value"], _held(node.dtype, wide).np)
            elif node.prim.name != "input":
                run, params, type = node.prim.evaluate, node.params, node.type
                if wide:
                    type, params = _held_type(type, wide), _held_params(params, wide)
                    if node.prim.name == "cast" and params["dtype"].is_float:
                        params = {"dtype": f64}
                elif not plain and any(n.dtype is bf16 for n in (node, *node.inputs)):
                    run, params, type = _in_float32(node)
                if special is not None:
                    held = [i.type if plain else _held_type(i.type, wide) for i in node.inputs]
                    run = special(node, held, params, type) or run
                self._steps.append((run, [slot[i] for i in node.inputs], params, type, slot[node]))
        self._inputs = [
            (
                slot[n],
                _held(n.dtype, wide).np if n.dtype.is_float and (wide or (n.dtype is bf16 and not plain)) else None,
            )
            for n in graph.inputs
        ]
        self._outputs = [slot[n] for n in graph.outputs]
        # an output that may be a view (or repeats another output) is copied
        self._copy = [
            n.prim.family in ("view", "leaf") or n.prim.name == "stop_gradient" or n in graph.outputs[:k]
            for k, n in enumerate(graph.outputs)
        ]
        self._rounded = [n.dtype is bf16 and not wide and not plain for n in graph.outputs]

    def __call__(self, *arrays: Any) -> list[Any]:
        env = self._start.copy()
        for (k, held), a in zip(self._inputs, arrays, strict=True):
            env[k] = a if held is None else a.astype(held)
        xp = self._xp
        with np.errstate(all="ignore"):
            for run, inputs, params, out, target in self._steps:
                env[target] = run(xp, [env[k] for k in inputs], params, out)
        results = []
        for k, copy, rounded in zip(self._outputs, self._copy, self._rounded, strict=True):
            y = env[k]
            if rounded:
                y = xp.asarray(y).astype(bf16.np, order="C")
            elif copy:
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


def _moves_only(graph: Graph) -> bool:
    """Whether nothing is computed in bfloat16: elements are moved, which array libraries do as they are."""
    return not any(
        node.dtype is bf16 or any(i.dtype is bf16 for i in node.inputs)
        for node in graph.nodes
        if node.prim.family not in ("leaf", "view") and node.prim.name not in _MOVES
    )


def _held(dtype: DType, wide: bool) -> DType:
    """The type in which values are held between steps."""
    return f64 if wide and dtype.is_float else dtype.evaluated


def _held_type(type: TensorType, wide: bool) -> TensorType:
    held = _held(type.dtype, wide)
    return type if held is type.dtype else tensor_type(type.shape, held)


def _held_params(params: Any, wide: bool) -> dict[str, Any]:
    return {k: _held_type(v, wide) if isinstance(v, TensorType) else v for k, v in params.items()}


def _in_float32(node: Node) -> tuple[Callable[..., Any], Any, TensorType]:
    """(evaluation, params, type) of a node of bfloat16 on values held in float32."""
    evaluate = node.prim.evaluate
    if "body" in node.params:  # a loop stores what its steps exchange
        inner = [i.dtype is bf16 for i in node.inputs]

        def loop(xp: Any, inputs: Sequence[Any], params: Any, out: TensorType) -> Any:
            stored = [x.astype(bf16.np) if b else x for x, b in zip(inputs, inner, strict=True)]
            return evaluate(xp, stored, params, out).astype(out.dtype.evaluated.np, copy=False)

        return loop, node.params, node.type
    if node.prim.name == "cast" and node.dtype is bf16:

        def rounded(xp: Any, inputs: Sequence[Any], params: Any, out: TensorType) -> Any:
            return xp.asarray(evaluate(xp, inputs, params, out)).astype(np.float32)

        return rounded, node.params, node.type
    return evaluate, _held_params(node.params, False), _held_type(node.type, False)


def evaluate_stored(prim: Primitive, xp: Any, inputs: Sequence[Any], params: Any, out: TensorType) -> Any:
    """A primitive on arrays as they are stored; of bfloat16 the result is in float32, still to be rounded."""
    if out.dtype is not bf16 and all(x.dtype.kind != "V" for x in inputs):
        return prim.evaluate(xp, inputs, params, out)
    held = [x.astype(np.float32) if x.dtype == bf16.np else x for x in inputs]
    return prim.evaluate(xp, held, _held_params(params, False), _held_type(out, False))


def evaluate(graph: Graph, arrays: Sequence[Any], xp: Any = np, wide: bool = False) -> list[Any]:
    """One-off evaluation; see :class:`Interpreter`."""
    return Interpreter(graph, xp, wide)(*arrays)
