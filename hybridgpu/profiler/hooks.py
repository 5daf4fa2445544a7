# SPDX-License-Identifier: Apache-2.0
"""How calls are timed: functions that run graphs are exchanged for timing ones while the profiler runs.

While it does not, nothing of this is on the path of a call. Devices work through calls one by one while
profiling: each is waited for, so that its time is its own.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from .. import operator as custom
from ..backends.devices import Device
from ..core.name_table import GRAPH
from ..ndarray import apply as eager
from ..ndarray.binding_version import invalidate_bindings
from ..ndarray.plans import suspend_plans
from ..ndarray.tape import DifferentiableGraph
from ..ops import OPERATORS
from ..runtime.cached_op import CachedOp
from ..runtime.compilation import Compiled
from ..runtime.optimizer_programs import Update
from ..runtime.recorded_program import RecordedCall
from .trace import Trace

__all__ = ["Hooks", "scopes"]


class _Scopes(threading.local):
    def __init__(self) -> None:
        self.names: list[str] = []  #: what is put before the names of operators
        self.custom: list[list[Any]] = []  #: [type, nanoseconds of operators inside] of the custom operators that run
        self.graphs: list[str] = []  #: blocks whose graphs run: programs are shared, so they do not know


scopes = _Scopes()


class Hooks:
    """Timing functions for one trace. Eager calls make no plans meanwhile.

    Args:
        trace: where times go.
        operators: time operators on arrays.
        graphs: time compiled graphs.
    """

    def __init__(self, trace: Trace, operators: bool, graphs: bool) -> None:
        self._trace = trace
        self._blocks: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._swaps: list[tuple[Any, str, Any]] = []
        self._wanted: list[tuple[Any, str, Callable[[Any], Any]]] = []
        if operators:
            self._wanted += [
                (DifferentiableGraph, "run", self._function),
                (eager, "run_eagerly", self._eagerly),
                (custom, "run_python", self._python),
            ]
        if graphs:
            # a prepared call is one foreign call: none is made while profiling, and those that were are dropped
            self._wanted += [
                (Compiled, "results", self._compiled),
                (CachedOp, "__call__", self._block),
                (RecordedCall, "_gradients", self._backward),
                (Update, "__call__", self._update),
                (CachedOp, "prepared", _never),
            ]

    def install(self) -> None:
        """Begin to time."""
        for owner, name, make in self._wanted:
            old = getattr(owner, name)
            self._swaps.append((owner, name, old))
            setattr(owner, name, make(old))
        suspend_plans(True)
        invalidate_bindings()

    def remove(self) -> None:
        """Put back what was there."""
        while self._swaps:
            setattr(*self._swaps.pop())
        suspend_plans(False)

    def _function(self, old: Callable[..., Any]) -> Callable[..., Any]:
        def run(function: DifferentiableGraph, device: Device, arrays: Sequence[Any]) -> Any:
            with device.current():
                name = operator_name(function.graph.name)
                return self._timed(name, device.xp, lambda: old(function, device, arrays))

        return run

    def _eagerly(self, old: Callable[..., Any]) -> Callable[..., Any]:
        def run(op: Any, xp: Any, values: Any, arrays: Sequence[Any]) -> Any:
            return self._timed(op.name, xp, lambda: old(op, xp, values, arrays))

        return run

    def _timed(self, name: str, xp: Any, call: Callable[[], Any]) -> Any:
        start = time.perf_counter_ns()
        result = call()
        place = _wait(xp)
        stop = time.perf_counter_ns()
        inside = scopes.custom[-1] if scopes.custom else None
        if inside is not None:
            inside[1] += stop - start
            self._trace.span("Custom Operator", f"{inside[0]}::{name}", place, start, stop)
        else:
            self._trace.span("operator", "".join([*scopes.names, name]), place, start, stop)
        return result

    def _python(self, old: Callable[..., Any]) -> Callable[..., Any]:
        def run(name: str, method: Callable[..., Any], *args: Any) -> Any:
            scopes.custom.append([name, 0])
            start = time.perf_counter_ns()
            try:
                return old(name, method, *args)
            finally:
                stop = time.perf_counter_ns()
                _, inside = scopes.custom.pop()
                self._trace.span("Custom Operator", f"{name}::pure_python", "python", start, stop - inside)

        return run

    def _compiled(self, old: Callable[..., Any]) -> Callable[..., Any]:
        def results(program: Compiled, arrays: Sequence[Any], seed: Any = None, kept: Sequence[Any] = ()) -> Any:
            start = time.perf_counter_ns()
            outputs = old(program, arrays, seed, kept)
            with program.device.current():
                place = _wait(program.device.xp)
            own = program.names(program.program.name if program.program else GRAPH)
            name = "".join([*scopes.names, scopes.graphs[-1] if scopes.graphs else own])
            self._trace.span("graph", name, place, start, time.perf_counter_ns())
            return outputs

        return results

    def _update(self, old: Callable[..., Any]) -> Callable[..., Any]:
        def call(update: Update, numbers: Any) -> None:
            start = time.perf_counter_ns()
            old(update, numbers)
            with update.device.current():
                place = _wait(update.device.xp)
            name = "".join([*scopes.names, update.program.spec.name])
            self._trace.span("graph", name, place, start, time.perf_counter_ns())

        return call

    def _block(self, old: Callable[..., Any]) -> Callable[..., Any]:
        def call(op: CachedOp, arrays: Sequence[Any]) -> Any:
            outputs = _inside(op.name, old, op, arrays)
            for node in {r._autograd.node for r in outputs if r._autograd is not None}:
                if isinstance(node, RecordedCall):
                    self._blocks[node] = op.name
            return outputs

        return call

    def _backward(self, old: Callable[..., Any]) -> Callable[..., Any]:
        def gradients(node: RecordedCall, *args: Any) -> Any:
            name = self._blocks.get(node)
            return old(node, *args) if name is None else _inside(f"_backward_{name}", old, node, *args)

        return gradients


def _inside(name: str, call: Callable[..., Any], *args: Any) -> Any:
    scopes.graphs.append(name)
    try:
        return call(*args)
    finally:
        scopes.graphs.pop()


def _never(old: Callable[..., Any]) -> Callable[..., Any]:
    return lambda op, slow, args, form, results, install: None


def _wait(xp: Any) -> str:
    """Wait for the device of an array module; its name."""
    cuda = getattr(xp, "cuda", None)
    if cuda is None:
        return "cpu/0"
    cuda.get_current_stream().synchronize()
    return f"gpu/{cuda.runtime.getDevice()}"


def operator_name(graph: str) -> str:
    """The operator of a one-operator graph, as MXNet names it; a derivative is ``_backward_<operator>``."""
    base = graph.removesuffix("_backward")
    operator = base if base in OPERATORS else f"_{base}" if f"_{base}" in OPERATORS else base
    return operator if base == graph else f"_backward_{operator.lstrip('_')}"
