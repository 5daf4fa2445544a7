# SPDX-License-Identifier: Apache-2.0
"""Arrays without values, and what they have in the place of data: a value of the graph that is being traced.

Writing into such an array gives it another value of the graph. Arrays that share memory share a :class:`Value`: a view
is computed from the value that its base has when it is read, and writing into it writes into the base.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod
from typing import TYPE_CHECKING, Any, NoReturn

from ..context import Context
from ..core import autograd_state
from ..core.dtypes import dtype_of
from ..ndarray.ndarray import NDArray
from ..ops.functions import registered
from ..symbol import Symbol
from .error import needs_values, not_traced
from .late_bindings import late

if TYPE_CHECKING:
    from .trace import Trace

__all__ = ["GRADIENTS", "Traced", "Value", "check_memory", "traced_class"]

Map = Callable[[Symbol], Symbol]


class Value:
    """A value of a traced graph, in the place of an array's data.

    Whoever takes it for data asks for an attribute that only data have, which is the error of :func:`needs_values`.

    Args:
        trace: that it belongs to.
        symbol: of a value of its own.
        base: of a view, what it is a part of.
        take: of a view, (symbol of the base) -> its symbol.
        put: of a view, (symbol of the base, new symbol of the view) -> new symbol of the base.
    """

    __slots__ = ("_put", "_seen", "_symbol", "_take", "array", "base", "level", "trace", "variable", "version")

    def __init__(
        self,
        trace: Trace,
        symbol: Symbol | None = None,
        base: Value | None = None,
        take: Map | None = None,
        put: Callable[[Symbol, Symbol], Symbol] | None = None,
    ) -> None:
        self.trace, self.base = trace, base
        self._symbol, self._take, self._put = symbol, take, put
        self.level: object = trace.levels[-1] if base is None else base.level
        self.version, self._seen = 0, -1
        self.variable: Symbol | None = None  #: of what was there before the trace, its variable in the graph
        self.array: NDArray | None = None  #: and the array itself

    def symbol(self) -> Symbol:
        """The value as it is now.

        Raises:
            TracingError: as :meth:`check`.
        """
        self.check()
        if self.base is not None:
            symbol, version = self.base.symbol(), self.root.version
            if self._seen != version:
                assert self._take is not None
                self._symbol, self._seen = self._take(symbol), version
        assert self._symbol is not None
        return self._symbol

    def check(self) -> None:
        """Raise TracingError if its trace is over, or the body of the loop or branch that it belongs to."""
        if autograd_state.state.trace is not self.trace or self.level not in self.trace.levels:
            raise not_traced(
                "an array that was made while a function was traced is used after that",
                "It stands for one call and has no values: return it from the function, "
                "or from the body of a loop or branch, instead of keeping it in an attribute, a list or a global name.",
            )

    @property
    def root(self) -> Value:
        value = self
        while value.base is not None:
            value = value.base
        return value

    def assign(self, symbol: Symbol) -> None:
        """Take another value of the same type.

        Raises:
            TracingError: it belongs outside of the body that is being traced.
        """
        self.check()
        if self.base is not None:
            assert self._put is not None
            self.base.assign(self._put(self.base.symbol(), symbol))
            return
        if self.level is not self.trace.levels[-1]:
            raise not_traced(
                "the body of a loop or branch writes into an array from outside",
                "Make it one of the loop's states, or return the new value and write it outside.",
            )
        self._symbol = symbol
        self.version += 1

    def __getattr__(self, name: str) -> NoReturn:
        self.check()
        raise needs_values("what is done here")


def check_memory(written: Value, states: Iterable[Value]) -> None:
    """Raise TracingError if an array that the trace has met and writes shares its memory with another one of ``states``.

    Whether arguments do is asked at each call (``runtime.dispatch.overlaps``).
    """
    begin, end = _memory(written)
    for other in states:
        first, last = _memory(other)
        if other is not written and first < end and begin < last:
            raise not_traced(
                f"the function writes into {_name(written)}, whose memory {_name(other)} shares",
                "In a graph the other one would keep its values: give one of them a copy(), or use one array for both.",
            )


def _memory(value: Value) -> tuple[int, int]:
    """Where the memory of an array from outside begins and ends."""
    array = value.array
    assert array is not None
    begin, t = array.address, array._type.tensor
    return begin, begin + prod(t.shape) * t.dtype.np.itemsize


def _name(value: Value) -> str:
    assert value.variable is not None
    return value.variable._heads[0][0].name


def _refuses(what: str, instead: str = "") -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        self._data.check()
        raise needs_values(what, instead, self._kind is not None)

    method.__doc__ = f"Raises TracingError: {what} needs values."
    return method


GRADIENTS = (
    "Record the call of the whole function, autograd.record(): its gradients are those of what it does. "
    "TracedView of a loss that is a gradient itself is computed outside."
)


class Traced:
    """The base of all arrays of a traced function; the array class comes second.

    Shape, element type and context are known, values are not.
    """

    __slots__ = ()
    if TYPE_CHECKING:
        _data: Any
        _kind: type[NDArray] | None
        _type: Any
        shape: tuple[int, ...]
        context: Context
        dtype: Any

    # -- what needs values

    asnumpy = _refuses("asnumpy()")
    asscalar = _refuses("asscalar()")
    item = _refuses("item()")
    tolist = _refuses("tolist()")
    __bool__ = _refuses("a condition")
    __int__ = _refuses("int()")
    __index__ = _refuses("a number of Python's")
    __float__ = _refuses("float()")
    __complex__ = _refuses("complex()")
    __array__ = _refuses("a NumPy array")
    __dlpack__ = _refuses("a DLPack capsule")
    __dlpack_device__ = _refuses("a DLPack capsule")
    to_dlpack_for_read = to_dlpack_for_write = _refuses("a DLPack capsule")
    __reduce__ = _refuses("a pickle")
    attach_grad = _refuses("attach_grad()", GRADIENTS)
    backward = _refuses("backward()", GRADIENTS)

    def _hg_refuse_host(self, name: str) -> NoReturn:
        """The error for a function of NumPy that is called with the array."""
        self._data.check()
        raise needs_values(
            f"np.{name} with these arguments, which NumPy computes on the host,",
            "Call it on arrays outside, and give its result as an argument.",
        )

    @property
    def address(self) -> int:
        raise needs_values("the memory of an array")

    handle = address

    def wait_to_read(self) -> None:
        """There is nothing to wait for."""

    wait_to_write = wait_to_read

    # -- where it lies

    def as_in_context(self, context: Context) -> Any:
        """``self``: a graph is on one device.

        Raises:
            TracingError: another one.
        """
        if context != self.context:
            raise not_traced(
                f"a traced function is one graph on one device, {self.context}, and cannot go to {context}",
                "Move its arguments before the call.",
            )
        return self

    def copyto(self, other: Any) -> Any:
        """A copy on the same device, or write into ``other``."""
        if isinstance(other, Context):
            self.as_in_context(other)
            return self.copy()
        other[:] = self
        return other

    def copy(self, *args: Any, **kwargs: Any) -> Any:
        """A value of its own."""
        trace: Trace = self._data.trace
        return trace.result(node("_copy", [self._data.symbol()]), self._type and self._type.tensor, self._kind)

    # -- views

    def as_np_ndarray(self) -> Any:
        """The same memory as an array of np."""
        from ..ndarray.apply import numpy_class

        return self if self._kind is not None else self._as(numpy_class())

    def as_nd_ndarray(self) -> Any:
        """The same memory as a legacy array."""
        return self if self._kind is None else self._as(None)

    def _as(self, kind: type[NDArray] | None) -> Any:
        return self._data.trace.wrap(self._data, self.shape, self._type.tensor.dtype, kind)

    def __getitem__(self, key: Any) -> Any:
        return late.get_item(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        late.set_item(self, key, value)

    def detach(self) -> Any:
        """The same memory; no gradient comes back."""
        return view(self, self.shape, lambda s: node("BlockGrad", [s]), lambda s, new: new)

    def _sharing(self, cut: Callable[[Any], Any]) -> Any:
        """The array of ``cut``, which is given what stands for the data."""
        cut_view = cut(TracedView(self.shape))
        return view(self, cut_view.shape, cut_view.take, cut_view.put)

    def _reshaped(self, shape: tuple[int, ...], codes: tuple[int, ...], reverse: bool) -> Any:
        if min(codes, default=1) > 0 or 0 in self.shape:
            return self._sharing(lambda data: data.reshape(shape))

        def take(x: Symbol) -> Symbol:  # by the codes, which are right for other extents
            return node("Reshape", [x], shape=codes, reverse=reverse)

        return view(self, shape, take, lambda x, new: node("reshape_like", [new, x]))

    def astype(self, dtype: Any, copy: bool = True, **kwargs: Any) -> Any:
        """Another element type."""
        if not copy and self._type is not None and dtype_of(dtype) is self._type.tensor.dtype:
            return self
        return super().astype(dtype, **kwargs)  # type: ignore[misc]

    def __repr__(self) -> str:
        extents = "x".join(map(str, self.shape)) or "()"
        return f"<traced {type(self).__name__} {extents} {self._type.tensor.dtype.name} @{self.context}>"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)


_classes: dict[type, type] = {}


def traced_class(kind: type) -> type:
    """The class of arrays without values that are instances of the array class ``kind``."""
    cls = _classes.get(kind)
    if cls is None:
        if issubclass(kind, Traced):
            return kind
        cls = _classes[kind] = type(kind.__name__, (Traced, kind), {"__slots__": (), "__hash__": kind.__hash__})
    return cls


def node(name: str, inputs: list[Symbol], **attributes: Any) -> Symbol:
    """A node that Python's syntax makes, of one result."""
    from ..symbol.node_factory import make_node

    op = registered(name)
    assert op is not None
    return make_node(op, name.strip("_").lower(), list(inputs), attributes, None, None)


def reshaped(x: Symbol, shape: tuple[int, ...]) -> Symbol:
    """``x`` in another shape; extents are those of the result, no codes."""
    if shape and all(shape):
        return node("Reshape", [x], shape=shape)
    return node("_npx_reshape", [x], newshape=shape)  # for which 0 is an extent, and () a shape


class TracedView:
    """Stand-in for data of which a view is made, by ``reshape`` and by slices along the first axis.

    Attributes:
        shape: of the view.
        take, put: as of a :class:`Value`.
    """

    def __init__(self, shape: tuple[int, ...], take: Map | None = None, put: Any = None) -> None:
        self.shape = shape
        self.take: Map = take or (lambda x: x)
        self.put: Callable[[Symbol, Symbol], Symbol] = put or (lambda x, new: new)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def reshape(self, *shape: Any) -> TracedView:
        target = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
        known_size = prod(d for d in target if d >= 0)
        target = tuple(prod(self.shape) // max(known_size, 1) if d < 0 else d for d in target)
        before, inner, put = self.shape, self.take, self.put
        return TracedView(target, lambda x: reshaped(inner(x), target), lambda x, new: put(x, reshaped(new, before)))

    def __getitem__(self, key: Any) -> TracedView:
        selection = late.basic(self.shape, key)
        inner, put = self.take, self.put
        return TracedView(
            selection.shape,
            lambda x: selection.take(inner(x)),
            lambda x, new: put(x, selection.put(inner(x), new)),
        )


def view(x: Any, shape: tuple[int, ...], take: Map, put: Callable[[Symbol, Symbol], Symbol]) -> Any:
    """An array in the memory of ``x``."""
    trace: Trace = x._data.trace
    x._data.check()
    value = Value(trace, None, x._data, take, put)
    return trace.wrap(value, shape, x._type.tensor.dtype, x._kind)
