# SPDX-License-Identifier: Apache-2.0
"""How far a compiled graph may be from the reference interpreter in float64.

A fixed tolerance is too strict for random graphs (cancellation, steep functions) and too lax for most
values. So the graph is evaluated several times in float64 with every rounding replaced by a random one of
the declared precision: the spread of the results is what rounding can do to each element (Parker, "Monte
Carlo arithmetic", 1997). Results that are exact in the declared precision are not disturbed, so a value that
needs no rounding must come out to the last bit. Where the evaluations disagree in kind (a comparison
that tips over, an overflow), the element is not compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hybridgpu.compiler.ir import Graph, Node, tensor_type
from hybridgpu.core.dtypes import f64

__all__ = ["Oracle"]

_SAMPLES = 7
_MARGIN = 6  #: the largest of a few deviations is not the largest there can be
#: results that are one of the operands' elements, or integers of them
_MOVES = {
    "max",
    "min",
    "select",
    "neg",
    "abs",
    "copy",
    "stop_gradient",
    "custom_gradient",
    "amax",
    "amin",
    "take",
    "take_along",
}
#: correctly rounded on every target: exact operands with an exact result leave nothing to disturb
_EXACT = {
    *("add", "sub", "mul", "div", "sqrt", "floor", "ceil", "trunc", "rint", "round_away", "sign", "mod"),
    *("cast", "round_to"),
}


class Oracle:
    """The reference results of a graph, and the freedom of each element.

    Attributes:
        values: the results in float64 (integers and truth values as they are).
        spread: for each result, the largest deviation of a disturbed evaluation.
        compared: for each result, the elements on which all evaluations agree in kind.
    """

    def __init__(self, graph: Graph, arrays: Sequence[np.ndarray], seed: int = 0) -> None:
        self.graph = graph
        runs = [_run(graph, arrays, None, False)]
        for k in range(1, _SAMPLES):
            runs.append(_run(graph, arrays, np.random.default_rng([seed, k]), rounded=k % 2 == 1))
        self.values, self.spread, self.compared = runs[0], [], []
        for results in zip(*runs):
            first = results[0]
            if first.dtype.kind == "f":
                with np.errstate(all="ignore"):
                    finite = np.all([np.isfinite(r) for r in results], 0)
                    alike = np.all([(r == first) | (np.isnan(r) & np.isnan(first)) for r in results], 0)
                    spread = np.max([np.abs(r - first) for r in results], 0)
                self.spread.append(np.where(finite, spread, 0.0))
                self.compared.append(finite | alike)
            else:
                self.spread.append(np.zeros(first.shape))
                self.compared.append(np.all([r == first for r in results], 0))

    def check(self, results: Sequence[np.ndarray], what: str) -> None:
        """AssertionError naming the first element that is further off than rounding explains."""
        for k, (got, want) in enumerate(zip(results, self.values, strict=True)):
            node = self.graph.outputs[k]
            assert got.shape == want.shape == node.shape, f"{what}: result {k} has shape {got.shape}, not {want.shape}"
            if want.dtype.kind == "f":
                eps, tiny = float(node.dtype.finfo.eps), float(node.dtype.finfo.smallest_subnormal)
                with np.errstate(all="ignore"):
                    limit = _MARGIN * self.spread[k] + 4 * eps * np.abs(want) + 2 * tiny
                    right = np.abs(got.astype(np.float64) - want) <= limit
                    # an overflow that rounding explains, though no evaluation had it
                    most = float(node.dtype.finfo.max)
                    right |= np.isinf(got) & (np.copysign(1.0, got.astype(np.float64)) * want + limit > most)
                right |= (got == want) | (np.isnan(got) & np.isnan(want))
            else:
                right = got == want
            wrong = ~right & self.compared[k]
            if wrong.any():
                at = tuple(int(i[0]) for i in np.nonzero(wrong)) if wrong.ndim else ()
                raise AssertionError(
                    f"{what}: result {k} at {at} is {got[at]!r}, the reference says {want[at]!r} "
                    f"(rounding explains {_MARGIN * self.spread[k][at]:.3g}); {int(wrong.sum())} of {wrong.size} are wrong"
                )


def _run(graph: Graph, arrays: Sequence[np.ndarray], rng: Any, rounded: bool) -> list[np.ndarray]:
    env: dict[Node, Any] = {}
    for node, a in zip(graph.inputs, arrays, strict=True):
        env[node] = a.astype(np.float64) if node.dtype.is_float else a
    with np.errstate(all="ignore"):
        for node in graph.nodes:
            if node in env:
                continue
            inputs = [env[i] for i in node.inputs]
            params, type = node.params, node.type
            if node.dtype.is_float:
                type = tensor_type(node.shape, f64)
                params = {k: f64 if k == "dtype" else type if k == "type" else v for k, v in params.items()}
            if rng is not None and node.prim.name == "conv":
                # what meets padding is no part of the result (passes/canonicalize/conv_rewrites.py); the reference multiplies it,
                # so runs differ in kind where a weight is not finite, and nobody is right or wrong there
                inputs = [inputs[0], np.where(np.isfinite(inputs[1]), inputs[1], 0)]
            value = np.asarray(node.prim.evaluate(np, inputs, params, type))
            if rng is not None and node.dtype.is_float:
                value = _disturb(node, value, inputs, rng, rounded)
            env[node] = value
    return [np.array(env[o]) for o in graph.outputs]


def _disturb(node: Node, value: Any, inputs: Sequence[Any], rng: Any, rounded: bool) -> Any:
    name = node.prim.name
    if (node.prim.family in ("leaf", "view") and name != "round_to") or name in _MOVES:
        return value
    dtype = node.dtype.np
    eps = float(node.dtype.finfo.eps)
    error = np.abs(value) * (4 * eps)
    if dtype == np.float64:  # here the reference rounds too
        error = 4 * error
    keep = _held(value, dtype)
    floats = [a for a, i in zip(inputs, node.inputs) if i.dtype.is_float]
    if name in ("add", "sub"):  # a product among the operands may not have been rounded
        error = (np.abs(inputs[0]) + np.abs(inputs[1])) * eps
        for a in floats:
            keep = keep & _held(a, dtype)
    elif name in _EXACT:
        error = np.abs(value) * eps
        for a in floats:
            keep = keep & _held(a, dtype if name not in ("cast", "round_to") else node.inputs[0].dtype.np)
    elif name in ("sum", "dot", "conv", "scatter_add", "scatter_along"):  # any order of summation
        absolute = [np.abs(a) if i.dtype.is_float else a for a, i in zip(inputs, node.inputs)]
        size = node.prim.evaluate(np, absolute, node.params, tensor_type(node.shape, f64))
        inner = min(eps, np.finfo(np.float32).eps)  # half precision accumulates in float
        error = size * (4 * inner) + np.abs(value) * eps
        # multiples of 1/256 whose sum is far from the precision's end add up exactly in every order
        whole = np.all([np.all(a * 256 == np.rint(a * 256)) for a in floats])
        keep = keep & whole & (size * (1 << (16 if name in ("dot", "conv") else 8)) < 1 / inner)
    elif name == "prod":
        error = error * (1 + node.inputs[0].size / max(node.size, 1))
        keep = False
    else:
        keep = False
        if name in ("lgamma", "digamma"):  # accurate to the precision of 1 around their zeros
            error = error + 4 * eps
    noise = error * rng.uniform(-1, 1, np.shape(value))
    value = np.where(keep | ~np.isfinite(value), value, value + np.where(np.isfinite(noise), noise, 0))
    return value.astype(dtype).astype(np.float64) if rounded else value


def _held(a: Any, dtype: Any) -> Any:
    """Where ``dtype`` holds ``a`` exactly."""
    return np.asarray(a).astype(dtype).astype(np.float64) == a
