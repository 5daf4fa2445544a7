# SPDX-License-Identifier: Apache-2.0
"""``mx.hybridize``: a function of arrays that is compiled, as a hybridized block is.

The function is run once for each signature, on arrays without values (``hybridgpu.tracing``); what its operators make is
compiled, and later calls run that alone.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

import numpy as np

from ..backends.devices import device_of
from ..base import MXNetError
from ..context import Context
from ..core import autograd_state
from ..core.fork_safe_lock import Lock
from ..core.pytree import Named, Static, flatten_tree, regroup
from ..core.source_location import block_scope, located_hint, place, user_frame
from ..name import NameManager
from ..ndarray import NDArray
from ..ndarray.apply import numpy_class
from ..ndarray.ndarray import wrap
from ..ndarray.serialization import write_arrays
from ..ndarray.versions import exchanging, is_versioned, pinned
from ..runtime.cached_op import CachedOp
from ..runtime.hybridize_flags import FLAGS, call_options, check_flags, no_flag
from ..runtime.reports.explain import Explanation
from ..runtime.traced_calls import TracedCalls, static_value
from ..tracing.error import SharedMemoryError, tell_of_sharing
from ..util import is_np_array

__all__ = ["HybridFunction", "HybridMethod", "Lowered", "hybridize"]

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")

_preparing = Lock()  #: a function is traced by one thread
_WARN_AFTER = 16  #: values of an argument that is no array, after which a warning says what they cost


class Lowered:
    """The compiled form of a call; ``print`` it.

    Attributes:
        explanation: the report of its programs.
        symbol: the graph of operators.
    """

    def __init__(self, explanation: Explanation, op: CachedOp) -> None:
        self.explanation, self.symbol = explanation, op.symbol

    @property
    def text(self) -> str:
        """The graph of primitives, as it is printed, and the sources of its kernels."""
        parts = getattr(self.explanation, "parts", [self.explanation])
        programs = [p.program for p in parts if isinstance(p, Explanation) and p.program is not None]
        return "\n".join([*(p.graph for p in programs), self.explanation.source()])

    def __str__(self) -> str:
        return self.text


class _Calls:
    """The calls of a function: its prepared call, and the graphs behind it.

    Args:
        function: gives the Python function.
        name: for reports.
        static: positions of arguments that are never taken apart.
    """

    def __init__(self, function: Callable[[], Callable[..., Any]], name: str, settings: _Settings) -> None:
        self._function, self.name, self._settings = function, name, settings
        self.traced = TracedCalls(name, settings.options)
        self.fast: Callable[..., Any] | None = None
        self._statics: set[Any] | None = set()
        self._reported_sharing = False  #: that arguments shared memory

    def __call__(self, args: tuple[Any, ...]) -> Any:
        """Any call, its arguments by position."""
        if autograd_state.state.trace is not None:  # it is part of another one's graph
            with block_scope(self.name):
                return self._function()(*args)
        if args and not self._settings.static and all(x.__class__ is np.ndarray for x in args):  # a shorter way
            converted: list[Any] = [_array(x) for x in args]
            self._check_copies(args, converted, [0] * len(args))
            return _given_back(self._run(tuple(converted)))
        flat, form, foreign = self._arrays(args)
        if foreign is not None:
            converted = [x if x is None else _array(x) for x in flat]
            self._check_copies(flat, converted, form)
            out = self._run(tuple(regroup(converted, form)))
            return _given_back(out)
        if any(map(is_versioned, flat)):  # a parameter's, whose memory prepared calls must not take
            with exchanging:
                args = tuple(regroup([x if x is None else pinned(x) for x in flat], form))
            return self._run(args)
        try:
            op = self._graph(flat, form)
        except SharedMemoryError as e:
            self._reported_sharing = tell_of_sharing(e, self._reported_sharing)
            return self._function()(*args)
        arrays = [x for x in flat if x is not None]
        out = op(arrays)
        fast = op.prepared(self, args, form, op.formats[1], self._install)
        if fast is not None:
            self.fast = fast
        results = op.formats[1]
        return out[0] if isinstance(results, int) and results == 0 else regroup(list(out), results)

    def _run(self, args: tuple[Any, ...]) -> Any:
        fast = self.fast
        return self(args) if fast is None else fast(*args)

    def _check_copies(self, given: Sequence[Any], arrays: Sequence[NDArray], form: list[Any]) -> None:
        """Raise ValueError if the function writes into an argument of which it has a copy: the caller would not see it.

        Args:
            given: arrays of another library.
            arrays: what stands for them.
            form: how they are nested.
        """
        for x, y in zip(given, arrays, strict=True):
            if x is not None and y._data is not x:
                break
        else:
            return
        pairs = [(x, y) for x, y in zip(given, arrays, strict=True) if x is not None]
        op = self._graph(arrays, form)
        for k in sorted(op.written_inputs()):
            source = op.sources[k]
            if isinstance(source, int) and pairs[source][1]._data is not pairs[source][0]:
                raise ValueError(
                    f"{self.name} writes into {op.symbol.list_inputs()[k]}, of which it has a copy: that is not one piece of "
                    f"memory in the order of its elements\n{located_hint('Give it a contiguous copy, and read that afterwards.')}"
                )

    def _install(self, fast: Callable[..., Any]) -> None:
        self.fast = fast

    def _arrays(self, args: Sequence[Any]) -> tuple[list[Any], list[Any], str | None]:
        """(arrays and Nones in order, format, whose arrays the caller has if they are NumPy's or CuPy's).

        Raises:
            TypeError: arrays of both, or something that is neither array nor hashable.
        """
        kinds: set[str] = set()

        def leaf(x: Any) -> bool:
            if isinstance(x, NDArray):
                kinds.add("")
                return True
            foreign = _library(x)
            if foreign:
                kinds.add(foreign)
            return bool(foreign)

        flat: list[Any] = []
        form: list[Any] = []
        static = self._settings.static
        for k, x in enumerate(args):
            if k in static:
                form.append(static_value(x))
                continue
            inner, f = flatten_tree(x, leaf, static_value)
            flat += inner
            form.append(f)
        if len(kinds) > 1 and "" not in kinds:
            raise TypeError(f"{self.name} is given arrays of NumPy and of CuPy; give it one kind")
        if "" in kinds and len(kinds) > 1:
            flat = [x if x is None or isinstance(x, NDArray) else _array(x) for x in flat]
        only = kinds.pop() if len(kinds) == 1 else ""
        return flat, form, only or None

    def _graph(self, flat: Sequence[Any], form: list[Any]) -> CachedOp:
        arrays = [x for x in flat if x is not None]
        _check_contexts(arrays)
        names = self._settings.names(form)
        with _preparing:
            if self._statics is not None:
                self._count(form)
            op = self.traced.graph_for(arrays, form, self._function(), names, lambda: _scopes(self.name))
        self._settings.recent[:] = [op]
        return op

    def _count(self, form: Sequence[Any]) -> None:
        """Warn once of values that keep changing."""
        values = tuple(f for f in form if isinstance(f, Static))
        if not values or self._statics is None:
            return
        self._statics.add(values)
        if len(self._statics) > _WARN_AFTER:
            import warnings

            self._statics = None
            warnings.warn(
                f"{self.name} has been traced for {_WARN_AFTER + 1} values of its arguments that are no arrays, the last ones "
                f"{', '.join(map(repr, values))}: each is compiled by itself. Give numbers that change as arrays.",
                stacklevel=user_frame(),
            )

    def op_of(self, args: tuple[Any, ...]) -> tuple[CachedOp, list[NDArray]]:
        """The graph of a call, and its arrays."""
        flat, form, foreign = self._arrays(args)
        if foreign is not None:
            flat = [x if x is None else _array(x) for x in flat]
        return self._graph(flat, form), [x for x in flat if x is not None]


class _Settings:
    """What the calls of one function have in common."""

    def __init__(self, function: Callable[..., Any], static: Iterable[str], flags: dict[str, Any]) -> None:
        for name in flags:
            if name not in FLAGS:
                raise MXNetError(no_flag(name))
        check_flags(flags)
        self.options = call_options(flags)
        self.flags = flags
        try:
            self.signature: inspect.Signature | None = inspect.signature(function)
        except (TypeError, ValueError):  # a function written in C
            self.signature = None
        self.parameters = [] if self.signature is None else list(self.signature.parameters.values())
        self.static_names = (static,) if isinstance(static, str) else tuple(static)
        names = [p.name for p in self.parameters]
        self.keywords = frozenset(
            p.name for p in self.parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
        )
        for name in self.static_names:
            if name not in names:
                raise ValueError(
                    f"{_name(function)} has no argument {name!r} that could be static; it has {', '.join(names)}"
                )
        self.static = frozenset(names.index(n) for n in self.static_names)
        self.recent: list[CachedOp] = []  #: the graph that was looked up last
        self._orders: dict[tuple[int, tuple[str, ...]], list[Any] | None] = {}

    def names(self, form: Sequence[Any]) -> list[str]:
        """Names of the variables that stand for arrays: those of the arguments, numbered where there are several."""
        variables: list[str] = []

        def visit(f: Any, name: str) -> None:
            if isinstance(f, Named) and f.is_dict:
                f = f.parts[0]
            if isinstance(f, dict):
                for key, inner in f.items():
                    visit(inner, f"{name}_{key}")
            elif isinstance(f, (list, tuple)):
                for k, inner in enumerate(getattr(f, "parts", f)):
                    visit(inner, f"{name}{k}")
            elif not isinstance(f, Static) and f == 0:
                variables.append(name)

        for k, f in enumerate(form):
            p = self.parameters[min(k, len(self.parameters) - 1)] if self.parameters else None
            name = p.name if p is not None else f"arg{k}"
            if p is not None and p.kind is p.VAR_POSITIONAL:
                name += str(k - len(self.parameters) + 1)
            visit(f, name)
        return _distinct(variables)

    def positional(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...] | None:
        """All arguments by position; None where some can only be given by keyword.

        Raises:
            TypeError: they do not fit, in Python's words.
        """
        key = (len(args), tuple(kwargs))
        if key not in self._orders:
            self._orders[key] = self._order(args, kwargs)
        order = self._orders[key]
        if order is None:
            return None
        return (*args, *[kwargs.get(o.name, o.default) for o in order])

    def _order(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[inspect.Parameter] | None:
        if self.signature is None:
            return None
        self.signature.bind(*args, **kwargs)
        rest = self.parameters[len(args) :]
        ordered: list[inspect.Parameter] = []
        left = set(kwargs)
        for p in rest:
            if not left:
                break
            if p.kind is not p.POSITIONAL_OR_KEYWORD:
                return None
            left.discard(p.name)
            ordered.append(p)
        return None if left else ordered


def _distinct(names: list[str]) -> list[str]:
    """The names; of equal ones all but the first get a number."""
    taken = set(names)
    if len(taken) == len(names):
        return names
    distinct: dict[str, None] = {}
    for name in names:
        if name in distinct:
            name = next(new for new in (f"{name}_{n}" for n in count(1)) if new not in taken)
            taken.add(name)
        distinct[name] = None
    return list(distinct)


class _Callable(Generic[P, R]):
    """What functions and bound methods have in common."""

    _calls: _Calls
    _keyword_calls: dict[tuple[int, tuple[str, ...]], _Calls]
    _settings: _Settings

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        calls = self._calls
        try:
            if kwargs:
                return self._with_keywords(args, kwargs)  # type: ignore[no-any-return]
            fast = calls.fast
            if fast is not None:
                return fast(*args)  # type: ignore[no-any-return]
            return calls(args)  # type: ignore[no-any-return]
        except MXNetError as e:
            place(e, calls.name)
            raise

    def _with_keywords(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        calls, positional = self._by_position(args, kwargs)
        return calls._run(positional)

    def _by_position(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[_Calls, tuple[Any, ...]]:
        """What makes a call, and its arguments by position."""
        if not kwargs:
            return self._calls, args
        positional = self._settings.positional(args, kwargs)
        if positional is not None:
            return self._calls, positional
        # whoever takes the others as **keywords sees their order
        keywords = self._settings.keywords
        names = (*sorted(n for n in kwargs if n in keywords), *[n for n in kwargs if n not in keywords])
        calls = self._keyword_calls.get((len(args), names))
        if calls is None:
            calls = self._keyword_calls[len(args), names] = self._for_keywords(len(args), names)
        return calls, (*args, *[kwargs[n] for n in names])

    def _for_keywords(self, positional: int, names: tuple[str, ...]) -> _Calls:
        """Calls with so many arguments by position, then those names' in order."""
        function = self._calls._function

        def spelled() -> Callable[..., Any]:
            python = function()
            return lambda *args: python(*args[:positional], **dict(zip(names, args[positional:], strict=True)))

        settings = _Settings.__new__(_Settings)
        settings.__dict__.update(self._settings.__dict__)
        by_name = {p.name: p for p in self._settings.parameters}
        first = self._settings.parameters[:positional]
        settings.parameters = [
            *first,
            *(by_name.get(n) or inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY) for n in names),
        ]
        settings.static = frozenset(
            k for k, p in enumerate(settings.parameters) if p.name in self._settings.static_names
        )
        return _Calls(spelled, self._calls.name, settings)

    # -- reports and files

    def explain(self, *args: P.args, **kwargs: P.kwargs) -> Explanation:
        """The report of the compiled call for these arguments: kernels, library calls, cuts.

        Under ``autograd.record`` that is the forward and the backward program of a recorded call.
        """
        calls, positional = self._by_position(args, kwargs)
        op, arrays = calls.op_of(positional)
        return op.explain(arrays)

    def lower(self, *args: P.args, **kwargs: P.kwargs) -> Lowered:
        """The compiled form of a call with these arguments, without making it."""
        calls, positional = self._by_position(args, kwargs)
        op, arrays = calls.op_of(positional)
        return Lowered(op.explain(arrays), op)

    def source(self) -> str:
        """The texts of the kernels of the signature that was met, explained or lowered last.

        Raises:
            RuntimeError: there was no call yet.
        """
        op = self._last("source()")
        last = op.last_call or op.last_recorded
        if last is None:
            raise RuntimeError(f"{self._calls.name} consists of several programs: print lower(...).text for a call")
        program = last[-1]
        return Explanation(self._calls.name, getattr(program, "forward", program)).source()

    def _last(self, what: str) -> CachedOp:
        recent = self._settings.recent
        if not recent:
            raise RuntimeError(f"{self._calls.name} was not called yet: call it with arguments before {what}")
        return recent[0]

    def export(self, path: str, epoch: int = 0, remove_amp_cast: bool = True) -> None:
        """Write ``<path>-symbol.json`` and ``<path>-<epoch, four digits>.params``.

        Of several signatures it is the graph of the one that was met, explained or lowered last.
        ``gluon.SymbolBlock.imports`` reads it, with the names of the function's arguments as inputs.

        Raises:
            RuntimeError: there was no call yet.
        """
        op = self._last("export()")
        assert op.traced is not None
        auxiliary = set(op.symbol.list_auxiliary_states())
        values = {
            f"{'aux' if n in auxiliary else 'arg'}:{n}": op.traced.sources[n]._reduce()
            for n in op.symbol.list_inputs()
            if n in op.traced.sources
        }
        write_arrays(f"{path}-{epoch:04d}.params", values)
        op.symbol.save(f"{path}-symbol.json", remove_amp_cast)


class HybridFunction(_Callable[P, R]):
    """A compiled function; made by :func:`hybridize`. Attributes of the Python function are its own, too."""

    __wrapped__: Callable[P, R]

    def __init__(self, function: Callable[P, R], static_argnames: Iterable[str] = (), **flags: Any) -> None:
        if not callable(function):
            raise TypeError(f"hybridize takes a function or a block, not {function!r}")
        functools.update_wrapper(self, function)
        self._settings = _Settings(function, static_argnames, flags)
        self._calls = _Calls(lambda: function, _name(function), self._settings)
        self._keyword_calls = {}
        self._methods: weakref.WeakKeyDictionary[Any, tuple[_Calls, dict[Any, _Calls]]] = weakref.WeakKeyDictionary()
        self._method_settings: _Settings | None = None

    def __repr__(self) -> str:
        return f"<hybridized function {self._calls.name}>"

    @overload
    def __get__(self, instance: None, owner: Any = None) -> HybridFunction[P, R]: ...

    @overload
    def __get__(
        self: HybridFunction[Concatenate[Any, Q], R], instance: object, owner: Any = None
    ) -> HybridMethod[Q, R]: ...

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        return HybridMethod(self, instance)

    def __reduce__(self) -> Any:
        return _rebuild, (self.__wrapped__, self._settings.static_names, self._settings.flags)


class HybridMethod(_Callable[P, R]):
    """A hybridized function bound to an object, with graphs of its own."""

    def __init__(self, function: HybridFunction[..., Any], instance: Any) -> None:
        self.__self__, self.__func__ = instance, function
        python = function.__wrapped__
        settings = function._method_settings
        if settings is None:
            bound = python.__get__(instance)  # type: ignore[attr-defined]
            names = [n for n in function._settings.static_names if n != function._settings.parameters[0].name]
            settings = function._method_settings = _Settings(bound, names, function._settings.flags)
        self._settings = settings
        calls = function._methods.get(instance)
        if calls is None:
            reference = weakref.ref(instance)

            def bound_function() -> Callable[..., Any]:
                return python.__get__(reference())  # type: ignore[attr-defined, no-any-return]

            calls = function._methods[instance] = (_Calls(bound_function, function._calls.name, settings), {})
        self._calls, self._keyword_calls = calls

    def __repr__(self) -> str:
        return f"<hybridized method {self._calls.name} of {self.__self__!r}>"


@overload
def hybridize(
    function: Callable[P, R], *, static_argnames: str | Iterable[str] = (), **flags: Any
) -> HybridFunction[P, R]: ...


@overload
def hybridize(
    function: None = None, *, static_argnames: str | Iterable[str] = (), **flags: Any
) -> Callable[[Callable[P, R]], HybridFunction[P, R]]: ...


def hybridize(function: Any = None, *, static_argnames: str | Iterable[str] = (), **flags: Any) -> Any:
    """Compile a function of arrays: ``@mx.hybridize``, or ``mx.hybridize(f)``.

    It is run once for each signature (shapes, element types, device; training and recording flags), on arrays that have
    no values, and what its operators make is compiled. Arrays may be nested in lists, tuples and dictionaries, and may be
    those of nd, np, NumPy or CuPy: results are of the same kind. Every other argument (numbers of Python, too) is *static*:
    part of the signature, so that another value compiles again. Parameters of blocks, and arrays from outside, are read
    at each call.

    Args:
        function: of arrays; a block is hybridized itself, and returned.
        static_argnames: arguments that are never taken apart, such as a tuple of sizes or an object that can be hashed.
        flags: those of ``HybridBlock.hybridize``.

    Raises:
        MXNetError: an unknown flag, or a value that is none of a flag's.
        ValueError: an argument that the function does not have.
    """
    if function is None:
        return functools.partial(hybridize, static_argnames=static_argnames, **flags)
    if isinstance(function, HybridFunction):
        function = function.__wrapped__
    if hasattr(function, "collect_params") and hasattr(function, "hybridize"):
        function.hybridize(**flags)
        return function
    return HybridFunction(function, static_argnames, **flags)


def _rebuild(function: Any, static: tuple[str, ...], flags: dict[str, Any]) -> Any:
    """The unpickled HybridFunction."""
    return HybridFunction(function, static, **flags)


def _name(function: Any) -> str:
    name = getattr(function, "__qualname__", type(function).__name__)
    return name.rpartition("<locals>.")[2].strip("<>")


@contextmanager
def _scopes(name: str) -> Iterator[None]:
    with NameManager(), block_scope(name):
        yield


def _check_contexts(arrays: Sequence[NDArray]) -> None:
    contexts = {str(x.context) for x in arrays}
    if len(contexts) > 1:
        raise ValueError(
            f"the arguments lie on several devices, {', '.join(sorted(contexts))}\n"
            + located_hint("A hybridized function is one graph on one device: move them with as_in_context.")
        )


# -- arrays of other libraries


def _library(x: Any) -> str:
    """Whose array it is: 'numpy', 'cupy', or '' for something else."""
    if type(x).__module__.partition(".")[0] == "cupy" and hasattr(x, "__cuda_array_interface__"):
        return "cupy"
    return "numpy" if isinstance(x, np.ndarray) else ""


def _array(x: Any) -> NDArray:
    """An array in the same memory if it is one piece: of np under NumPy's array semantics, else of nd."""
    if isinstance(x, NDArray):
        return x
    kind = numpy_class() if is_np_array() else None
    if _library(x) == "numpy":
        if x.dtype.kind not in "biuf":
            raise TypeError(f"arrays of {x.dtype} are not supported")
        flags, dtype = x.flags, x.dtype
        if not (dtype.isnative and (flags.carray or (flags.c_contiguous and flags.aligned))):  # carray: and writeable
            x = np.array(x, dtype.newbyteorder("="), order="C")
        return wrap(x, Context("cpu", 0), kind)
    ctx = Context("gpu", x.device.id)
    device = device_of(ctx)
    with device.current():
        return wrap(device.xp.ascontiguousarray(x), ctx, kind)


def _given_back(value: Any) -> Any:
    """The results as the caller's library has arrays."""
    if isinstance(value, NDArray):
        return value._data if value._data.dtype.kind in "biuf" else value.asnumpy()
    flat, form = flatten_tree(value, lambda x: isinstance(x, NDArray), Static, results=True)
    return regroup([x._data if x._data.dtype.kind in "biuf" else x.asnumpy() for x in flat], form)
