# SPDX-License-Identifier: Apache-2.0
"""HybridBlocks that define ``forward(x, ...)``: traced on arrays without values, once a signature.

Which way a block goes:

* A class with a ``hybrid_forward`` is traced on Symbols. What a ``forward`` beside it does is Python at every call, as in
  MXNet 1.9.1: it usually ends in ``super().forward(...)``.
* A class that has ``forward`` alone is traced on arrays, and so is every block that has such a one below it. So is a subclass
  of a layer whose ``forward`` does not name ``super`` or ``forward``: it never comes to the layer's ``hybrid_forward``.

MXNet 1.9.1 runs the second kind operator by operator. So programs that are run under MXNet's name keep that where a
``forward`` cannot be traced, and a warning says so; under our own name it is the error of the trace.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import CodeType
from typing import TYPE_CHECKING, Any, TypeVar

from ..base import MXNetError, NotImplementedForSymbol
from ..core import autograd_state
from ..core.fork_safe_lock import Lock
from ..core.source_location import block_scope, set_by_user, user_frame
from ..frontend.module_aliases import ROOTS
from ..ndarray.binding_version import invalidate_bindings

if TYPE_CHECKING:
    from ..runtime.cached_op import CachedOp
    from ..runtime.traced_calls import TracedCalls
    from .block import Block
    from .hybrid import HybridBlock

__all__ = [
    "HYBRID_BLOCK",
    "argument_tree",
    "attribute_changed",
    "call_forward",
    "changing",
    "complete_shapes",
    "exported_sources",
    "graph_of",
    "in_a_trace",
    "overrides_forward",
    "preparing",
    "run_graph",
    "to_be_defined",
    "trace_again",
    "traces_arrays",
    "under_mxnets_name",
    "why_python",
]

Method = TypeVar("Method", bound=Callable[..., Any])
HYBRID_BLOCK: list[type[HybridBlock]] = []  #: the class, which is defined above this module and registers here
preparing = Lock()  #: a block is traced, and its parameters are filled, by one thread
changing = Lock()  #: held while a block gets or loses its compiled graph


def to_be_defined(method: Method) -> Method:
    """Mark a ``hybrid_forward`` that only says that there is none, or a ``forward`` that only leads there."""
    method.__dict__["to be defined"] = True
    return method


def overrides_forward(block: Any) -> bool:
    """Whether a block has a ``forward`` of its own, which no ``hybrid_forward`` is behind."""
    own, kind = block.__dict__, type(block)
    if "forward" not in own and kind.forward is kind._hg_entry:
        return False
    if "hybrid_forward" in own:
        return False
    if "to be defined" in kind.hybrid_forward.__dict__:
        return "to be defined" not in kind.forward.__dict__
    for parent in kind.__mro__:  # one that a subclass no longer comes to
        defined = vars(parent)
        if "forward" in defined or "hybrid_forward" in defined:
            return "hybrid_forward" not in defined and not _calls_back(defined["forward"])
    return False


def _calls_back(method: Any) -> bool:
    """Whether a ``forward`` may call that of the class above."""
    code = getattr(inspect.unwrap(method), "__code__", None)  # use_np wraps it
    return code is None or _names_it(code)


def _names_it(code: CodeType) -> bool:
    if "__class__" in code.co_freevars or {"super", "forward", "hybrid_forward"}.intersection(code.co_names):
        return True
    return any(isinstance(inner, CodeType) and _names_it(inner) for inner in code.co_consts)


def traces_arrays(block: Any) -> bool:
    """Whether a block, or one below it, is traced on arrays: then the whole is."""
    return overrides_forward(block) or any(
        traces_arrays(child) for child in block._children.values() if hasattr(child, "hybrid_forward")
    )


def argument_tree(args: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """(arrays and Nones in order, format) of the arguments of such a block."""
    from ..runtime import traced_calls

    return traced_calls.argument_tree(args)


def call_forward(block: HybridBlock, args: tuple[Any, ...]) -> Any:
    """Call a block that has a ``forward`` of its own."""
    trace = autograd_state.state.trace
    if trace is not None:  # it is part of another one's graph
        trace.blocks[id(block)] = block
        _infer_own(block, args)
        with block.name_scope(), block_scope(block.name):
            return block._hg_call(args, block.forward)
    if not block._active or not _takes_arrays(args):
        return block._hg_call(args, functools.partial(_eagerly, block))
    return block._hg_call(args, functools.partial(_traced_or_not, block))


def _traced_or_not(block: HybridBlock, *args: Any) -> Any:
    """The graph of a block's ``forward``, or ``forward`` where there is none and MXNet would run it."""
    if "_hg_eager_because" in block.__dict__:
        return block.forward(*args)
    from ..tracing import TracingError

    try:
        return run_graph(block, args, block.forward)
    except (TracingError, NotImplementedForSymbol) as e:
        if not under_mxnets_name():
            raise
        block.__dict__["_hg_eager_because"] = str(e)
        warnings.warn(
            f"{type(block).__name__}.forward of block {block.name} runs operator by operator, as in MXNet 1.9.1, "
            f"since it cannot be traced: {e}",
            stacklevel=user_frame(),
        )
    return block.forward(*args)


def run_graph(block: HybridBlock, args: tuple[Any, ...], python: Callable[..., Any]) -> Any:
    """The compiled graph of a block; ``python``, which computes the same, where arguments share memory that it writes."""
    try:
        return block._call_cached_op(args)
    except MXNetError as e:
        from ..tracing.error import SharedMemoryError, tell_of_sharing

        if not isinstance(e, SharedMemoryError):
            raise
        block.__dict__["_hg_reported_sharing"] = tell_of_sharing(e, "_hg_reported_sharing" in block.__dict__)
    return python(*args)


def under_mxnets_name() -> bool:
    """Whether ``import mxnet`` is answered by us in this process."""
    return "mxnet" in ROOTS


def why_python(block: HybridBlock) -> str:
    """Why a block that is hybridized runs as Python."""
    reason = block.__dict__.get("_hg_eager_because")
    if reason is not None:
        return f"its forward cannot be traced: {reason}"
    return (
        f"{type(block).__name__} overrides forward beside hybrid_forward, which runs as Python at every call. "
        "A class that has forward alone is traced."
    )


def _takes_arrays(args: Any) -> bool:
    """Whether no argument is a Symbol."""
    from ..symbol import Symbol

    for x in args.values() if isinstance(args, dict) else args:
        if isinstance(x, Symbol) or (isinstance(x, (list, tuple, dict)) and not _takes_arrays(x)):
            return False
    return True


def _eagerly(block: HybridBlock, *args: Any) -> Any:
    """Its ``forward`` as Python; shapes of parameters that are missing are found by a trace."""
    from .parameter import DeferredInitializationError

    _infer_own(block, args)
    try:
        return block.forward(*args)
    except DeferredInitializationError:
        if not _takes_arrays(args):
            raise
    block._hg_complete(block.params.values(), args)
    return block.forward(*args)


def _infer_own(block: HybridBlock, args: tuple[Any, ...]) -> None:
    """Let ``infer_shape`` of the user's set the shapes of parameters that wait for them."""
    if type(block).infer_shape is HYBRID_BLOCK[0].infer_shape:
        return
    uninitialized = [p for p in block._reg_params.values() if p._data is None and p._deferred_init]
    if uninitialized:
        block.infer_shape(*args)
        for p in uninitialized:
            p._finish_deferred_init()


def in_a_trace(block: HybridBlock, x: Any, args: tuple[Any, ...]) -> Any:
    """Run the ``hybrid_forward`` of a block that is part of another one's graph, on its arrays."""
    autograd_state.state.trace.blocks[id(block)] = block
    if not traces_arrays(block):
        uninitialized = [p for p in block._reg_params.values() if p._data is None and p._deferred_init]
        if uninitialized:
            block._hg_complete(uninitialized, (x, *args))
    with block.name_scope(), block_scope(block.name):
        return block._hg_eager(x, args)


def complete_shapes(block: HybridBlock, args: Sequence[Any]) -> None:
    """Give parameters that wait for their shapes those that a trace finds."""
    graph_of(block, *argument_tree(args))


def graph_of(block: HybridBlock, flat: Sequence[Any], form: Any) -> CachedOp:
    """The graph of a call with these arguments."""
    from ..runtime.hybridize_flags import call_options
    from ..runtime.traced_calls import TracedCalls
    from ..symbol import Group
    from .pytree import check_contexts

    arrays = [x for x in flat if x is not None]
    check_contexts(arrays)
    names = ["data"] if len(arrays) <= 1 else [f"data{k}" for k in range(len(arrays))]
    with preparing:
        with changing:
            calls, changes = block._hg_traced, block._hg_changes
            if calls is None:
                calls = TracedCalls(block.name, call_options(block._flags), block._hg_first)  # type: ignore[arg-type]
        whole = overrides_forward(block)

        def run(*args: Any) -> Any:
            return block.forward(*args) if whole else block._hg_eager(args[0], args[1:])

        op = calls.graph_for(
            arrays,
            form,
            run,
            names[: len(arrays)],
            lambda: _scopes(block, whole, regrouped(flat, form)),
            lambda: _check_kept(block),
        )
        with changing:
            if block._hg_changes == changes:  # else another thread has called hybridize()
                shown = calls.predicting or op
                assert shown.traced is not None
                block._hg_traced, block._cached_op = calls, op
                block._cached_graph = (shown.traced.inputs, Group([shown.symbol]))
                block._in_format, block._out_format = shown.formats
    return op


def regrouped(flat: Sequence[Any], form: Any) -> tuple[Any, ...]:
    """The arguments of a call."""
    from ..core.pytree import regroup

    return tuple(regroup(list(flat), form))


@contextmanager
def _scopes(block: HybridBlock, whole: bool, args: tuple[Any, ...]) -> Iterator[None]:
    autograd_state.state.trace.blocks[id(block)] = block
    if whole:
        _infer_own(block, args)
    with block.name_scope(), block_scope(block.name):
        yield


# -- attributes, which Python code has looked at while it was traced


@functools.cache
def _own_names() -> frozenset[str]:
    """Attributes that every HybridBlock has, which are no part of what it computes."""
    (hybrid_block,) = HYBRID_BLOCK
    return frozenset(hybrid_block(prefix="").__dict__) | frozenset(dir(hybrid_block))


def attribute_changed(block: Block, name: str, old: Any, new: Any) -> None:
    """Trace again what was traced through a block while an attribute had another value than it gets.

    A number or text that ``forward`` itself assigns while it is traced gets a warning: compiled calls do not run that line.
    """
    plain, tracing = isinstance(new, (int, float, str)), autograd_state.state.trace is not None
    if old is new or (type(old) is type(new) and plain and old == new) or (tracing and (old is None or not plain)):
        return
    if name in _own_names():
        return
    if not tracing:
        trace_again(block, f"{name} was assigned")
    elif set_by_user():
        warnings.warn(
            f"self.{name} of block {block.name} is assigned while its forward is traced: compiled calls neither assign nor read it "
            "again. Make it an argument of the block, or assign it outside of forward, after which the next call traces again.",
            stacklevel=user_frame(),
        )


def trace_again(block: Block, why: str) -> None:
    """Let functions and blocks whose graphs were traced through a block trace them at their next call."""
    readers = block.__dict__.get("_hg_readers")
    if readers and autograd_state.state.trace is None:
        for calls in list(readers):
            calls.forget(why)
        invalidate_bindings()  # so that no prepared call answers


def _check_kept(block: HybridBlock) -> None:
    """Raise TracingError where ``forward`` has stored an array that has no values."""
    from ..tracing.arrays import Traced
    from ..tracing.error import not_traced

    def holds(value: Any, depth: int = 3) -> bool:
        if isinstance(value, Traced):
            return True
        if depth and isinstance(value, (list, tuple, dict)):
            return any(holds(v, depth - 1) for v in (value.values() if isinstance(value, dict) else value))
        return False

    def visit(one: Any) -> None:
        for name, value in list(one.__dict__.items()):
            if holds(value):
                del one.__dict__[name]
                raise not_traced(
                    f"{type(one).__name__}.forward of block {one.name} keeps an array that it computes in self.{name}",
                    "It is computed in the graph, and has no values outside of it: return it, too.",
                )
        for child in one._children.values():
            visit(child)

    visit(block)


def exported_sources(calls: TracedCalls) -> dict[str, Any]:
    """What the graph that files hold reads besides its arguments, by name."""
    op = calls.predicting or calls.latest
    assert op is not None
    assert op.traced is not None
    return dict(op.traced.sources)
