# SPDX-License-Identifier: Apache-2.0
"""The graphs of a function of arrays: it is traced once a signature, and signatures of one graph share it.

The *signature* of a call is how its arguments are nested, their types, the values that are no arrays, the training and the
recording flag, NumPy semantics, the current context, and mixed precision: all that Python code may have looked at.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakSet

import numpy as np

from ..context import Context, current_context, watching_context
from ..core import autograd_state
from ..core.pytree import Static, flatten_tree, key_of, regroup
from ..ndarray.ndarray import NDArray
from ..ops.precision import active as mixed_precision
from ..tracing import Trace, TracedGraph, TracingError, tracing
from ..tracing.error import NotStaticError, not_traced
from ..util import is_np_array, is_np_shape
from .cached_op import CachedOp
from .dispatch.call_cache import CallCache
from .dispatch.overlaps import check_no_overlap
from .host_numbers import Draws, drawing_line

__all__ = ["TracedCalls", "argument_tree", "static_value"]

_LIMIT = 256  #: signatures that are remembered
_TRIES = 4  #: traces that tell numbers of other threads from those of the function


def static_value(value: Any) -> Static:
    """The format of an argument or result that is no array.

    Raises:
        NotStaticError: it cannot be part of a signature.
    """
    try:
        hash(value)
    except TypeError:
        instead = "Give arrays, (nested) lists, tuples and dictionaries of them, and values that can be hashed."
        if isinstance(value, np.ndarray):
            instead = f"Make it an array first: mx.{'np' if is_np_array() else 'nd'}.array(x)."
        raise NotStaticError(
            f"{value!r} of type {type(value).__name__} is neither an array nor a value that tells signatures apart\n{instead}"
        ) from None
    return Static(value)


def _is_array(value: Any) -> bool:
    return isinstance(value, NDArray)


def argument_tree(args: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """(arrays and Nones in order, format) of arguments."""
    flat, form = flatten_tree(list(args), _is_array, static_value)
    return flat, form


class TracedCalls:
    """The graphs of one function, by signature.

    Args:
        name: for reports.
        options: how they run, as ``hybridize_flags.call_options`` gives it.
        first: why there are programs of it at all, for reports.

    Attributes:
        latest: the graph of the last call that was looked up here.
        predicting: that of the last one outside of training mode, which files hold.
    """

    def __init__(self, name: str, options: tuple[Any, ...], first: str = "first call") -> None:
        self.name, self._options, self._first = name, options, first
        self._by_signature: dict[Any, CachedOp] = {}
        self._graphs: list[CachedOp] = []
        self._calls = CallCache()
        self._last: tuple[list[str], list[Any], bool] | None = None
        self._why: str | None = None
        self.latest: CachedOp | None = None
        self.predicting: CachedOp | None = None

    def __contains__(self, op: Any) -> bool:
        return any(op is graph for graph in self._graphs)

    def forget(self, why: str) -> None:
        """Trace every signature again at its next call, since a block that the function calls has changed.

        What comes out as before keeps its programs.
        """
        self._by_signature = {}  # what is being traced now goes into the one before
        self.latest = self.predicting = None
        self._why = why

    def graph_for(
        self,
        arrays: Sequence[NDArray],
        form: Any,
        function: Callable[..., Any],
        names: Sequence[str],
        scope: Callable[[], Any],
        check: Callable[[], None] = lambda: None,
    ) -> CachedOp:
        """The graph for arguments like these; the function is traced if there is none.

        Args:
            arrays: the arrays among the arguments.
            form: how these are nested.
            names: of the variables that stand for the arrays.
            scope: what is entered while the function is traced.
            check: called after it ran, raises TracingError for what a trace must not leave behind.

        Raises:
            TracingError: the function does what a graph cannot.
            SharedMemoryError: it writes an argument that shares memory with another one, or with what it has met.
        """
        state = autograd_state.state
        current = current_context()
        ctx = arrays[0]._type.ctx if arrays else current
        flags = (state.training, state.recording, is_np_array(), is_np_shape(), current, mixed_precision())
        key = (key_of(form), tuple([x._type for x in arrays]), tuple([x._kind for x in arrays]), flags, ctx)
        by_signature = self._by_signature
        op = by_signature.get(key)
        if op is None or not op.traced.fits(ctx):  # type: ignore[union-attr]
            op = self._trace(ctx, arrays, form, function, names, scope, check)
            if len(by_signature) >= _LIMIT:
                del by_signature[next(iter(by_signature))]
            by_signature[key] = op
            if len(self._graphs) > _LIMIT:
                used = set(map(id, by_signature.values()))
                self._graphs = [graph for graph in self._graphs if id(graph) in used]
        check_no_overlap(op, arrays, ctx)
        self.latest = op
        if not state.training:
            self.predicting = op
        return op

    def _trace(
        self,
        ctx: Context,
        arrays: Sequence[NDArray],
        form: Any,
        function: Callable[..., Any],
        names: Sequence[str],
        scope: Callable[[], Any],
        check: Callable[[], None],
    ) -> CachedOp:
        def once() -> tuple[TracedGraph, Any, bool]:
            """(graph, format of the results, whether Python's or NumPy's generators were drawn from meanwhile)."""
            trace = Trace(ctx)
            with tracing(trace), watching_context() as asks_context, scope(), Draws() as drawn:
                values: list[Any] = [trace.argument(n, x) for n, x in zip(names, arrays, strict=True)]
                arguments = regroup(_with_nones(values, form), form)
                result = function(*arguments)
                flat, results = flatten_tree(result, _is_array, _result, results=True)
                graph = trace.graph(flat)
                check()
                for block in trace.blocks.values():
                    block.__dict__.setdefault("_hg_readers", WeakSet()).add(self)
                graph = graph._replace(asks_context=asks_context())
            return graph, results, bool(drawn)

        graph, results, drawn = once()
        if drawn:
            graph, results = self._undrawn((graph, results), once)
        reason = self._reason(names, arrays)
        for old in self._graphs:
            if (old.data or old.ctx == ctx) and old.formats == (form, results) and _is_same(old.traced, graph):  # type: ignore[arg-type]
                return old
        mode, numeric, background = self._options
        op = CachedOp(graph.symbol, list(names), graph.sources, self.name, mode, numeric, background, reason)
        op.formats, op.traced, op.ctx = (form, results), graph, ctx
        op._calls = self._calls  # one signature's prepared call finds that of another
        self._graphs.append(op)
        return op

    def _undrawn(
        self, first: tuple[TracedGraph, Any], once: Callable[[], tuple[TracedGraph, Any, bool]]
    ) -> tuple[TracedGraph, Any]:
        """The graph of a function while whose trace random numbers of Python or NumPy were drawn: by another thread.

        Raises:
            TracingError: by the function, whose graph differs from trace to trace.
        """
        traces = [first]
        for _ in range(_TRIES if threading.active_count() > 1 else 0):
            graph, results, drawn = once()
            traces.append((graph, results))
            if not drawn:
                return traces[-1]
        graph, results = traces[-1]
        if len(traces) > 1 and all(_is_same(g, graph, by_value=True) and r == results for g, r in traces[:-1]):
            return graph, results
        line = drawing_line(once)
        raise not_traced(
            f"{self.name} draws random numbers of Python or NumPy, which would be the same at every call",
            "Draw them with mx.nd.random or mx.np.random, whose numbers are part of the graph.",
            line,
        )

    def _reason(self, names: Sequence[str], arrays: Sequence[NDArray]) -> str:
        """Why a new graph is needed, in words."""
        training = autograd_state.state.training
        before, self._last = self._last, (list(names), [x._type for x in arrays], training)
        why, self._why = self._why, None
        if before is None:
            return self._first
        if why is not None:
            return f"first call since {why}"
        parts = []
        if before[0] == list(names):
            for n, a, x in zip(names, before[1], arrays, strict=True):
                if a is not x._type:
                    parts.append(f"{n}: {a!r} -> {x._type!r}")
        if before[2] != training:
            parts.append(f"training: {before[2]} -> {training}")
        return "; ".join(parts) or "another signature"


def _with_nones(values: list[Any], form: Any) -> list[Any]:
    """The values with a None for each None that the format has."""
    filled: list[Any] = []
    left = iter(values)

    def visit(f: Any) -> None:
        if isinstance(f, dict):
            f = list(f.values())
        if isinstance(f, (list, tuple)):
            for inner in getattr(f, "parts", f):
                visit(inner)
        elif not isinstance(f, Static):
            filled.append(None if f == -1 else next(left))

    visit(form)
    return filled


def _result(value: Any) -> Static:
    if hasattr(value, "list_arguments"):
        raise TracingError(f"a traced function gives the Symbol {value}; it works on arrays")
    for name, attribute in getattr(value, "__dict__", {}).items():
        if _is_array(attribute) and hasattr(attribute._data, "trace"):
            raise not_traced(
                f"the result, of type {type(value).__name__}, holds an array that is computed, in its attribute {name}",
                "Give arrays in lists, tuples, dictionaries, named tuples or dataclasses back.",
            )
    return Static(value)


def _is_same(a: TracedGraph, b: TracedGraph, by_value: bool = False) -> bool:
    """Whether two graphs are one for all types of arguments.

    Args:
        by_value: arrays from outside may be others of the same values: those that the function makes.
    """
    from ..symbol.lowering import structure

    if [i.name for i in a.inputs] != [i.name for i in b.inputs] or a.sources.keys() != b.sources.keys():
        return False
    if a.asks_context is not b.asks_context:
        return False
    for name, source in a.sources.items():
        other = b.sources[name]
        mine, others = getattr(source, "array", source), getattr(other, "array", other)
        if mine is not others and not (by_value and _is_equal(mine, others)):
            return False
    return a.symbol.list_inputs() == b.symbol.list_inputs() and structure(a.symbol).hash == structure(b.symbol).hash


def _is_equal(a: Any, b: Any) -> bool:
    if not (_is_array(a) and _is_array(b) and a._type is b._type):
        return False
    with autograd_state.untraced():
        return a.asnumpy().tobytes() == b.asnumpy().tobytes()  # type: ignore[no-any-return]
