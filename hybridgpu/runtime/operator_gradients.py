# SPDX-License-Identifier: Apache-2.0
"""Gradients of a recorded call of a hybridized graph, operator by operator, as if each had been recorded by itself.

Programs compute again what they do not keep, from what their inputs hold when the backward pass runs. Where inputs were
written since, that is a mixture: MXNet's operators take their arguments as they are by then, and results as they were. So all
results are computed once more from the values of before, one operator after the other, and each operator is differentiated with what
it takes of both. Derivatives of derivatives are made so, too: inputs may be written between the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backends.devices import Device, device_of
from ..compiler.ir.types import TensorType
from ..ndarray.backward_pass import accumulate
from ..ndarray.ndarray import NDArray, wrap
from ..ndarray.tape import DifferentiableGraph, FunctionCall
from ..symbol.lowering import lower_operators
from ..symbol.node import Entry, topological
from ..symbol.symbol import Symbol

if TYPE_CHECKING:
    from .recorded_program import RecordedCall

__all__ = ["OperatorFunctions"]


class OperatorFunctions:
    """The operators of a graph, each as a function that can be differentiated."""

    def __init__(self, symbol: Symbol, types: Mapping[str, TensorType], training: bool) -> None:
        self._heads: list[Entry] = list(symbol._heads)
        self._variables = [n for n in topological(symbol._heads) if n.op is None]
        self._operators = [
            (node, DifferentiableGraph(graph)) for node, graph in lower_operators(symbol, types, training)
        ]

    def gradients(
        self,
        call: RecordedCall,
        before: Sequence[Any],
        written: Mapping[int, Any],
        cotangents: Sequence[NDArray | None],
        wanted: Sequence[bool],
    ) -> list[NDArray | None]:
        """Cotangents of the wanted inputs of a call, which are recorded if recording is on.

        Args:
            before: what the inputs held when the call was made.
            written: memory of results that were written since, by number.
        """
        ctx, seed = call.ctx, self._seed(call)
        values = self._values(before, seed, device_of(ctx))
        arrays: dict[Entry, NDArray] = {}
        for n, data, info in zip(self._variables, call.arrays, call.inputs, strict=True):
            arrays[n, 0] = wrap(data, ctx)
            arrays[n, 0]._autograd = info
        live = {entry: written[k] for k, entry in enumerate(self._heads) if k in written}
        needed = {(n, 0) for n, w in zip(self._variables, wanted, strict=True) if w}
        calls = []
        for node, function in self._operators:
            entries = [(node, k) for k in range(len(function.graph.outputs))]
            results = [wrap(live.get(e, values[e]), ctx) for e in entries]
            assert node.op is not None
            recorded = FunctionCall(
                function,
                [arrays[e] for e in node.inputs],
                results,
                ctx,
                seed if function.draws else None,
                operator=(node.op, node.values),
            )
            arrays |= zip(entries, results, strict=True)
            flags = recorded.reached([e in needed for e in node.inputs])
            if True in flags:
                needed.update(entries)
                calls.append((node, recorded, flags))
        sums: dict[Entry, NDArray] = {}
        for entry, c in zip(self._heads, cotangents, strict=True):
            if c is not None:
                accumulate(sums, entry, c)
        for node, recorded, flags in reversed(calls):
            output_cotangents = [sums.pop((node, k), None) for k in range(len(recorded.types))]
            if all(c is None for c in output_cotangents):
                continue
            parts = iter(recorded.backward(output_cotangents, flags))
            for entry, flag in zip(node.inputs, flags, strict=True):
                part = next(parts) if flag else None
                if part is not None:
                    accumulate(sums, entry, part)
        return [sums.get((n, 0)) for n, w in zip(self._variables, wanted, strict=True) if w]

    def _seed(self, call: RecordedCall) -> Any:
        """The seed of the call, for what may outlive its hold on it."""
        if call.seed is not None:
            return call.seed.copy()
        if any(function.draws for _, function in self._operators):  # nothing that the heads show
            return device_of(call.ctx).from_host(np.zeros(4, np.uint32))
        return None

    def _values(self, inputs: Sequence[Any], seed: Any, device: Device) -> dict[Entry, Any]:
        """The results of all operators."""
        values: dict[Entry, Any] = {(n, 0): a for n, a in zip(self._variables, inputs, strict=True)}
        for node, function in self._operators:
            arrays = [values[e] for e in node.inputs]
            results = function.run(device, [*arrays, seed] if function.draws else arrays)
            values |= {(node, k): r for k, r in enumerate(results)}
        return values
