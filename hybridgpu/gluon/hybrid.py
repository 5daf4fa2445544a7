# SPDX-License-Identifier: Apache-2.0
"""HybridBlock: a block that can be traced into a graph and compiled."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from .. import ndarray as nd_module
from ..core import autograd_state
from ..core.settings import numeric_mode
from ..core.source_location import located_hint, user_frame
from ..hints.gluon import about_arguments
from ..hints.misplaced import about_child
from ..ndarray import NDArray
from ..ndarray.serialization import write_arrays
from ..ndarray.versions import exchanging, is_versioned, pinned
from ..runtime.cached_op import CachedOp
from ..runtime.hybridize_flags import FLAGS, check_flags, warn_of_unused
from ..symbol import Symbol
from .block import Block
from .forward import (
    HYBRID_BLOCK,
    argument_tree,
    call_forward,
    changing,
    complete_shapes,
    exported_sources,
    graph_of,
    in_a_trace,
    overrides_forward,
    preparing,
    run_graph,
    to_be_defined,
    traces_arrays,
    why_python,
)
from .operators import with_operators_of_mode
from .parameter import DeferredInitializationError, Parameter, ParameterDict, shape_is_known
from .pytree import check_contexts, first_array, flatten, formats_agree, kind_of_call, regroup
from .symbolic_trace import bound_graph, call_on_symbols, infer_parameter_shapes, infer_parameter_types, trace_symbols

if TYPE_CHECKING:
    from ..runtime.reports.explain import Explanation
    from ..runtime.traced_calls import TracedCalls

__all__ = ["HybridBlock"]

_PACKAGE = __name__.partition(".")[0] + "."


class HybridBlock(Block):
    """A block written once: define ``hybrid_forward(F, x, ..., **params)`` for arrays and Symbols, or ``forward(x, ...)``.

    ``hybridize()`` traces it at the next call, compiles the graph, and runs the compiled graph from then on.
    ``hybrid_forward`` is traced with ``F = mx.sym``, once for all. A ``forward`` of a class without ``hybrid_forward`` is
    traced on arrays without values (``hybridgpu.tracing``), once for each signature.
    """

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None, **others: Any) -> None:
        super().__init__(prefix, params, **others)
        self._active = False
        self._flags: dict[str, Any] = {}
        self._cached_graph: tuple[list[Symbol], Symbol] | None = None
        self._cached_op: CachedOp | None = None
        self._hg_traced: TracedCalls | None = None
        self._in_format: Any = None
        self._out_format: Any = None
        self._callback: tuple[Callable[..., None], bool] | None = None
        self._hg_first = "first call"

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = cls.__dict__.get("hybrid_forward")
        if own is not None and cls.__module__.startswith(_PACKAGE):
            cls.hybrid_forward = with_operators_of_mode(own)  # type: ignore[method-assign]

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if isinstance(value, HybridBlock) or name in ("forward", "hybrid_forward"):
            self._clear_cached_op(f"{name} was assigned")

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        if name in ("forward", "hybrid_forward"):
            self._clear_cached_op(f"{name} was deleted")

    def __getstate__(self) -> dict[str, Any]:
        """What copies and pickles hold: no programs, which are found again (or compiled) at their first call."""
        state = super().__getstate__() | {"_cached_op": None, "_hg_traced": None}
        if self.__dict__.get("_hg_traced") is not None:  # its graph is of one signature
            state["_cached_graph"] = None
        for name in ("_hg_inner", "_hg_eager_because"):
            state.pop(name, None)
        if self._cached_op is not None:
            state["_hg_first"] = "first call of a copy"
        return state

    def register_child(self, block: Block, name: str | None = None) -> None:
        """Add a child, which must be a HybridBlock.

        Raises:
            ValueError: it is none.
        """
        if not isinstance(block, HybridBlock):
            raise ValueError(
                f"Children of HybridBlock must also be HybridBlock, but {block} has type {type(block)}. "
                "If you are using Sequential, please try HybridSequential instead."
                + about_child(block, isinstance(block, Block))
            )
        super().register_child(block, name)
        self._clear_cached_op("a child was added")

    def _hg_changed(self) -> None:
        super()._hg_changed()
        self.__dict__.pop("_hg_inner", None)

    def _clear_cached_op(self, why: str) -> None:
        with changing:
            self._hg_drop_cached_op(why)
            self._cached_graph = None
        self._hg_changed()

    def _hg_drop_cached_op(self, why: str) -> None:
        with changing:
            if self._cached_op is not None:
                self._hg_first = f"first call since {why}"
            self._cached_op = self._hg_traced = None
            self.__dict__.pop("_hg_eager_because", None)
            self._hg_changes += 1

    def _hg_stored_graph(self) -> tuple[tuple[list[Symbol], Symbol], tuple[Any, Any]] | None:
        """The graph that calls run, with how their arguments and results are nested; None where they run operators."""
        with changing:
            graph = self._cached_graph if self._active and self._hg_traced is None else None
            return None if graph is None else (graph, (self._in_format, self._out_format))

    def _hg_take_graph(self, graph: tuple[list[Symbol], Symbol], formats: tuple[Any, Any]) -> None:
        """Run a graph that was stored, in place of a trace, from the next call on."""
        with changing:
            self._hg_drop_cached_op("load()")
            self._cached_graph, (self._in_format, self._out_format), self._active = graph, formats, True
        self._hg_changed()

    def hybridize(
        self,
        active: bool = True,
        backend: str | None = None,
        clear: bool = True,
        static_alloc: bool = False,
        static_shape: bool = False,
        inline_limit: int = 2,
        forward_bulk_size: int | None = None,
        backward_bulk_size: int | None = None,
        numeric: str | None = None,
        background: bool = False,
        **kwargs: Any,
    ) -> None:
        """Trace and compile at the next call (or stop doing so).

        Args:
            active: False returns to eager execution.
            static_alloc: on a GPU, keep the memory of intermediate results between calls, one block of it for each stream
                (and thread, where several call at once), as large as the largest program needs; ``ctx.empty_cache()``
                gives it back. Up to a megabyte is kept anyway, and everything on the CPU.
            static_shape: on a GPU, start kernels together as a CUDA graph, in which only addresses are changed
                between calls (needs ``static_alloc``); other shapes are prepared as usual. ``explain`` tells what
                was made, and why where there is no graph. Results are the caller's with all flags.
            inline_limit, forward_bulk_size, backward_bulk_size: of MXNet's engine; without effect.
            numeric: 'strict' rounds after every operation, as arrays do; 'fast' contracts and approximates. None
                takes ``HYBRIDGPU_NUMERIC``, which is strict unless set. See docs/numbers.md.
            background: compile in another thread; until a program is there, operators run one by one (which
                ``compile_report`` says, too). Calls do not wait, and their results differ by roundings.
            backend, backend_opts: MXNet rewrites graphs with them; nothing does here, which a warning says. Nor has
                any other argument an effect.

        Raises:
            MXNetError: another word for ``numeric``, or a flag that is neither True nor False.
            AssertionError: ``backend`` is no text.
        """
        if numeric is not None:
            numeric_mode(numeric)
        warn_of_unused(backend, kwargs)
        flags = {
            "static_alloc": static_alloc,
            "static_shape": static_shape,
            "inline_limit": inline_limit,
            "forward_bulk_size": forward_bulk_size,
            "backward_bulk_size": backward_bulk_size,
            "numeric": numeric,
            "background": background,
        }
        check_flags(flags)
        with changing:
            before, self._active, self._flags = self._flags, active, flags
            self._hg_changes += 1
            if clear:
                self._clear_cached_op("hybridize()")
            elif self._flags != before:
                self._hg_drop_cached_op("hybridize()")  # the trace stays; calls are as the new flags say
        if active and (self._forward_hooks or self._forward_pre_hooks):
            warnings.warn(
                f'"{self}" is being hybridized while still having forward hook/pre-hook. '
                f'If "{self}" is a child of HybridBlock, the hooks will not take effect.',
                stacklevel=user_frame(),
            )
        super().hybridize(
            active,
            static_alloc=static_alloc,
            static_shape=static_shape,
            inline_limit=inline_limit,
            forward_bulk_size=forward_bulk_size,
            backward_bulk_size=backward_bulk_size,
            numeric=numeric,
            background=background,
        )
        self._hg_changed()

    def cast(self, dtype: Any) -> None:
        """Convert all parameters; the graph is traced again."""
        self._clear_cached_op("cast()")
        super().cast(dtype)

    # -- running

    def _hg_call(self, args: tuple[Any, ...], compute: Callable[..., Any] | None = None) -> Any:
        if compute is None and overrides_forward(self):
            return call_forward(self, args)
        return super()._hg_call(args, compute)

    def forward(self, x: Any, *args: Any) -> Any:
        """Run ``hybrid_forward`` on arrays (or its compiled graph), or on Symbols."""
        inner = self._hg_inner
        return self._hg_forward((x, *args)) if inner is None else inner(x, *args)

    _hg_changes = 0  #: how often it was hybridized, or its graph dropped
    _hg_entry: Callable[..., Any] = forward  #: the ``forward`` that a prepared call may stand for
    _hg_inner: Callable[..., Any] | None = None  #: a prepared call where ``forward`` is overridden and calls this one

    def _hg_forward(self, call: tuple[Any, ...]) -> Any:
        x, *args = call
        kind = kind_of_call(call)
        if kind is NDArray:
            if autograd_state.state.trace is not None:
                return in_a_trace(self, x, tuple(args))
            if self._active:
                return run_graph(self, call, self._hg_eager_call)
            return self._hg_eager(x, tuple(args))
        return call_on_symbols(self, call)

    def _hg_eager_call(self, x: Any, *args: Any) -> Any:
        return self._hg_eager(x, args)

    def _hg_eager(self, x: Any, args: tuple[Any, ...]) -> Any:
        ctx = (x if isinstance(x, NDArray) else first_array((x, *args))).context
        params: dict[str, NDArray] | None
        try:
            params = {key: p.data(ctx) for key, p in self._reg_params.items()}
        except DeferredInitializationError:
            params = None  # completed outside, where errors are none that happened while this one was handled
        if params is None:
            self._hg_complete(self.params.values(), (x, *args))
            params = {key: p.data(ctx) for key, p in self._reg_params.items()}
        try:
            return self.hybrid_forward(nd_module, x, *args, **params)
        except TypeError as e:
            about_arguments(e, self, 1 + len(args))
            raise

    @to_be_defined
    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """What the block computes, with ``F`` the module ``nd`` or ``sym``; to be overridden."""
        raise NotImplementedError(
            f"{type(self).__name__} defines neither hybrid_forward(self, F, x, ...) nor forward(self, x, ...)"
        )

    # -- tracing

    def _get_graph(self, *args: Any) -> tuple[list[Symbol], Symbol]:
        """(input variables, output) of the trace; made once."""
        graph = self._cached_graph  # which another thread may drop
        if graph is None:
            with preparing, changing:  # what another thread changes meanwhile comes after the trace, and undoes it
                graph = self._cached_graph
                if graph is None:
                    graph, (self._in_format, self._out_format) = trace_symbols(self, args)
                    self._cached_graph = graph
        return graph

    def _hg_compiled_graph(self, args: tuple[Any, ...]) -> CachedOp:
        """The graph of calls, traced and bound to the parameters if need be."""
        op = self._cached_op
        if op is None:
            with preparing:
                op = self._cached_op
                if op is None:
                    changes = self._hg_changes
                    with changing:
                        graph = self._get_graph(*args)
                        formats, flags = (self._in_format, self._out_format), self._flags
                    op = bound_graph(self, graph, formats, flags, self._hg_first)
                    with changing:
                        if self._hg_changes == changes:  # else it is out of date: another thread has called hybridize()
                            self._cached_op = op
        return op

    def _call_cached_op(self, args: tuple[Any, ...]) -> Any:
        traced = self._hg_traced is not None if self._cached_op is not None else traces_arrays(self)
        flat, form = argument_tree(args) if traced else flatten(args, "input")
        if any(map(is_versioned, flat)):  # a parameter's, whose memory prepared calls must not take
            with exchanging:
                args = tuple(regroup([x if x is None else pinned(x) for x in flat], form))
            fast = self._hg_fast or self._hg_inner
            return self._call_cached_op(args) if fast is None else fast(*args)
        op = graph_of(self, flat, form) if traced else self._hg_compiled_graph(args)
        stored, results = op.formats
        if not traced and not formats_agree(stored, form):
            raise ValueError(
                f"The argument structure of HybridBlock does not match the cached version. Stored format = {form}, input format = {stored}\n"
                + located_hint(
                    # (MXNet's words call this call's format the stored one)
                    f"The net was traced with {stored}, this call has {form}: 0 is an array, -1 is None, brackets are a list. "
                    "Pass arguments of the same structure at each call, or call hybridize() again before another one."
                )
            )
        arrays = [x for x in flat if x is not None]
        check_contexts(arrays)
        try:
            out = op(arrays)
        except DeferredInitializationError:
            out = None
        if out is None:
            self._hg_complete([op.sources[k] for k in op.fixed], args)
            out = op(arrays)
        callback = self._callback
        if callback is not None:
            for name, op_name, value in op.internals(arrays, callback[1]):
                callback[0](name.encode(), op_name.encode(), value)
        elif self._hg_is_repeated_call(op):
            # what a user's forward does around ours is done at every call
            whole = getattr(self.forward, "__func__", None) is type(self)._hg_entry or overrides_forward(self)
            place, of = "_hg_fast" if whole else "_hg_inner", weakref.ref(op)

            def install(fast: Callable[..., Any]) -> None:
                object.__setattr__(self, place, fast)
                if not self._hg_is_repeated_call(of()):  # another thread has changed the block meanwhile
                    self.__dict__.pop(place, None)

            fast = op.prepared(self._hg_call if whole else self._hg_forward, args, form, results, install)
            if fast is not None:
                install(fast)
        if isinstance(results, int) and results == 0:
            return out[0]
        return regroup(list(out), results)

    def _hg_is_repeated_call(self, op: CachedOp | None) -> bool:
        """Whether prepared calls of this graph stand for calls of the block as it is now."""
        changed = self._forward_hooks or self._forward_pre_hooks or self._callback is not None
        traced = self._hg_traced
        current = self._cached_op is op if traced is None else op in traced
        return op is not None and current and self._active and not changed

    def register_op_hook(self, callback: Callable[..., None], monitor_all: bool = False) -> None:
        """Call ``callback(name, operator, array)`` for every result inside the compiled graph."""
        self._callback = (callback, monitor_all)
        self._hg_changed()
        super().register_op_hook(callback, monitor_all)

    # -- deferred shapes

    def _hg_complete(self, params: Iterable[Parameter], args: tuple[Any, ...]) -> None:
        """Fill the parameters that wait for their shapes.

        Raises:
            ValueError: a shape does not follow from the inputs.
        """
        with preparing:
            self._deferred_infer_shape(*args)
            for p in params:
                if not shape_is_known(p.shape):
                    raise ValueError(
                        f"Deferred initialization failed because shape cannot be inferred. '{p.name}'\n"
                        + located_hint("No computation uses it: give its shape where it is made, or leave it out.")
                    )
                p._finish_deferred_init()

    def _deferred_infer_shape(self, *args: Any) -> None:
        try:
            self.infer_shape(*args)
        except Exception as e:
            raise ValueError(f"Deferred initialization failed because shape cannot be inferred. {e}") from e

    def infer_shape(self, *args: Any) -> None:
        """Fill in unknown shapes of parameters from the inputs."""
        if traces_arrays(self):
            complete_shapes(self, args)
        else:
            infer_parameter_shapes(self, self._get_graph(*args), args)

    def infer_type(self, *args: Any) -> None:
        """Give parameters the element types that follow from the inputs."""
        infer_parameter_types(self, self._get_graph(*args), args)

    # -- files and reports

    def export(self, path: str, epoch: int = 0, remove_amp_cast: bool = True) -> None:
        """Write ``<path>-symbol.json`` and ``<path>-<epoch, four digits>.params``.

        Raises:
            RuntimeError: not traced yet.
        """
        graph = self._cached_graph
        if not graph or (self._hg_traced is not None and self._hg_traced.latest is None):
            raise RuntimeError(
                "Please first call block.hybridize() and then run forward with this block at least once before calling export."
            )
        out = graph[1]
        auxiliary = set(out.list_auxiliary_states())
        parameters = self.collect_params() if self._hg_traced is None else exported_sources(self._hg_traced)
        values = {}
        for name in out.list_inputs():  # MXNet's order: that of the graph
            if name in parameters:
                kind = "aux" if name in auxiliary else "arg"
                values[f"{kind}:{name}"] = parameters[name]._reduce()
        write_arrays(f"{path}-{epoch:04d}.params", values)  # first what a full disk refuses first
        out.save(f"{path}-symbol.json", remove_amp_cast)

    def optimize_for(
        self,
        x: Any,
        *args: Any,
        backend: str | None = None,
        clear: bool = False,
        static_alloc: bool = False,
        static_shape: bool = False,
        inline_limit: int = 2,
        forward_bulk_size: int | None = None,
        backward_bulk_size: int | None = None,
        **kwargs: Any,
    ) -> None:
        """Hybridize and trace with given inputs. Graph rewriting backends do not exist here."""
        flags = {k: v for k, v in kwargs.items() if k in FLAGS}
        bulk = (inline_limit, forward_bulk_size, backward_bulk_size)
        self.hybridize(True, backend, clear, static_alloc, static_shape, *bulk, **flags)
        self(x, *args)

    def explain(self, *inputs: Any) -> Explanation:
        """What the compiled graph for these inputs consists of: kernels, library calls, refusals to fuse.

        Under ``autograd.record`` that is the forward and the backward program of a recorded call.

        Raises:
            RuntimeError: the block is not hybridized, or its ``forward`` is Python of its own.
            TypeError: no inputs were given.
        """
        op = None
        while op is None:
            with changing:
                active, before = self._active, self._hg_changes
            if not active:
                raise RuntimeError(f"{self.name} is not hybridized: call hybridize() before explain()")
            if not inputs:
                raise TypeError(
                    f"explain() of {self.name} needs the inputs of a call, whose shapes it reports on: write net.explain(x)"
                )
            self._hg_call(inputs)
            with changing:
                op, changes = self._cached_op, self._hg_changes
            if op is None and changes == before:  # else another thread has hybridized it anew since
                raise RuntimeError(
                    f"{self.name} has no graph to explain: {why_python(self)}\nExplain the blocks that it calls."
                )
        flat = argument_tree(inputs)[0] if op.traced is not None else flatten(inputs, "input")[0]
        return op.explain([x for x in flat if x is not None])


HYBRID_BLOCK.append(HybridBlock)
