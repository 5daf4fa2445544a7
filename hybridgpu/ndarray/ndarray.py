# SPDX-License-Identifier: Apache-2.0
"""NDArray: an array on a device.

An NDArray holds a C-contiguous NumPy or CuPy array and an *interned* type (shape, element type,
context): two arrays are of one type exactly if their types are the same object, which is what makes
recognising a hybridized call's signature cheap.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backends import memory
from ..backends.devices import device_of
from ..backends.write_tracking import assign, mark_exported
from ..base import MXNetError, numeric_types, shown
from ..compiler.ir.types import tensor_type
from ..context import Context, current_context
from ..core.autograd_state import state, traces
from ..core.dtypes import dtype_of
from ..core.source_location import located_hint
from ..hints.operators import install_stubs
from ..hints.tracing import in_array_code, in_graph, is_symbol
from ..ops.record import OPERATORS, Operator
from . import views
from .dlpack import exported
from .late_bindings import late
from .plans import ARRAY_CLASSES, arithmetic_with_plans, noting, with_plans
from .types import ArrayType, array_type

if TYPE_CHECKING:  # a stub, made from the records
    from .operator_methods import OperatorMethods
else:
    OperatorMethods = object

__all__ = ["NDArray", "allocate", "wrap"]


def wrap(data: Any, ctx: Context, kind: type[NDArray] | None = None) -> NDArray:
    """An NDArray, or a ``kind`` of it, around a C-contiguous device array, without a copy."""
    if kind is None:
        kind = NDArray
    self = kind.__new__(kind)
    self._data = data
    self._type = array_type(data.shape, data.dtype, ctx)
    self._address = None
    self._autograd = None
    return self


def allocate(shape: tuple[int, ...], ctx: Context | None = None, dtype: Any = np.float32) -> NDArray:
    """An uninitialised array.

    Raises:
        MXNetError: there can be no array of this size.
    """
    kind = dtype_of(dtype)
    tensor_type(shape, kind)
    where = ctx or current_context()
    device = device_of(where)
    with device.current():
        return wrap(memory.empty(device.xp, shape, kind.np), where)


def _binary(
    operator: str, scalar: str, reverse_scalar: str | None = None, reflected: bool = False
) -> Callable[[Any, Any], NDArray]:
    """An arithmetic method: with an array the broadcasting operator, with a number the scalar one."""

    def method(self: NDArray, other: Any) -> Any:
        if isinstance(other, NDArray):
            op = OPERATORS[operator]
            pair = (other, self) if reflected else (self, other)
            return late.apply(op, pair, op.parse({}))
        if isinstance(other, numeric_types):
            op = OPERATORS[reverse_scalar if reflected and reverse_scalar else scalar]
            return late.apply(op, (self,), op.parse({"scalar": float(other)}))
        # an array on the left of a Symbol is what is out of place
        instead = in_graph(self) if is_symbol(other) else in_array_code(other)
        raise TypeError(f"type {type(other)} not supported{instead}")

    return arithmetic_with_plans(method)


def _in_place(
    binary: Callable[[Any, Any], Any], operator: str, scalar: str, symbol: str
) -> Callable[[Any, Any], NDArray]:
    """An in-place method: computes, then writes into the array's own memory.

    Args:
        binary: the method that gives a new array. Its plans serve here where nothing else is to be seen to.
    """

    def method(self: NDArray, other: Any) -> NDArray:
        if (
            self._data.__class__ is np.ndarray
            and not (traces or state.recording)
            and noting.calls is None  # who looks would not see what is written
            and (other.__class__ in (float, int) or _same_class_and_type(self, other))
        ):
            result = binary(self, other)
            if result._type is self._type.plain:
                late.before_write(self)
                assign(self._data, result._data)
                return self
        refuse_in_place(self)
        if isinstance(other, NDArray):
            op = OPERATORS[operator]
            if other._kind is not None:
                raise of_np(op)
            grown = np.broadcast_shapes(self.shape, other.shape) if _broadcasts(self, other) else self.shape
            if grown != self.shape:
                from ..base import MXNetError
                from ..ops.record import shape_text

                raise MXNetError(
                    f"Shape inconsistent, Provided = {shape_text(self.shape)}, inferred shape={shape_text(grown)}"
                )
            late.apply(op, (self, other), op.parse({}), out=self)
        elif isinstance(other, numeric_types):
            op = OPERATORS[scalar]
            late.apply(op, (self,), op.parse({"scalar": float(other)}), out=self)
        else:
            raise TypeError(f"type {type(other)} not supported{in_array_code(other)}")
        return self

    method.__doc__ = f"``self {symbol} other`` in the array's own memory."
    return method


def _same_class_and_type(a: NDArray, b: Any) -> bool:
    return b.__class__ is a.__class__ and b._type.plain is a._type.plain


def of_np(op: Operator) -> TypeError:
    """The error for an array of np among the inputs of a legacy operator."""
    from ..ops.numpy.application import legacy_operand

    return legacy_operand(op.name, op.name)


def _broadcasts(a: NDArray, b: NDArray) -> bool:
    try:
        np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        return False
    return True


def refuse_in_place(x: NDArray) -> None:
    """Raise MXNet's error for writing into an array that gradients are recorded for."""
    from ..core import autograd_state

    if autograd_state.state.recording and autograd_state.history(x) is not None:
        from ..base import MXNetError

        raise MXNetError(
            "Assigning to NDArrays that are already in a computational graph will cause undefined behavior when evaluating "
            "gradients. Please call backward first to clear the graph or do this out side of a record section. Also note that "
            "you cannot use inplace operations like +=, *=, relu(x, out=x), y[idx]=x, etc inside a record section.\n"
            + located_hint(
                "Write y = y + x for y += x; make y[idx] = x of nd.where, nd.concat or np.where, np.concatenate."
            )
        )


def in_place_recorded() -> MXNetError:
    """MXNet's error for writing what gradients are recorded for over an operand, or over a part of an array."""
    return MXNetError(
        "Check failed: AGInfo::IsNone(*output): Inplace operations (+=, -=, x[:]=, etc) are not supported when recording with "
        "autograd.\nBuild the result with concat, where or slices instead, or assign outside autograd.record()."
    )


@shown
class NDArray(OperatorMethods):
    """An n-dimensional array on a device.

    Arithmetic between arrays broadcasts; elements types must agree; a number is converted to the
    array's type first. Comparisons give 0 and 1 in the array's type. See the MXNet NDArray API.
    """

    __slots__ = ("__weakref__", "_address", "_autograd", "_data", "_type")
    __array_priority__ = 1000.0
    _kind: type[NDArray] | None = (
        None  #: the class of views and results: None for this one, ``mx.np.ndarray`` for the arrays of np
    )
    _data: Any
    _type: ArrayType
    _address: int | None
    _autograd: Any  #: gradient buffer and place in the recorded graph, None without either

    def __init__(self) -> None:
        raise TypeError("make arrays with mx.nd.array, zeros, ones, empty …")

    # -- properties

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the axes."""
        return self._type.tensor.shape

    @property
    def dtype(self) -> Any:
        """The element type as a NumPy class, such as ``numpy.float32``."""
        return self._type.tensor.dtype.np.type

    @property
    def context(self) -> Context:
        """The device it lies on."""
        return self._type.ctx

    ctx = context

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._type.tensor.size

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self._type.tensor.shape)

    @property
    def stype(self) -> str:
        """Storage: always 'default' (dense)."""
        return "default"

    @property
    def writable(self) -> bool:
        return True

    @property
    def handle(self) -> int:
        """The address of the data, for others to read and write."""
        mark_exported(self._data)
        return self.address

    @property
    def address(self) -> int:
        """The address of the data on its device."""
        if self._address is not None:
            return self._address
        at = device_of(self._type.ctx).address(self._data)
        if self._type.family is None:
            self._address = at
        return at

    @property
    def T(self) -> NDArray:
        """All axes reversed."""
        return self.transpose()  # type: ignore[no-any-return]

    @property
    def grad(self) -> NDArray | None:
        """The gradient buffer of ``attach_grad``, None without one."""
        return None if self._autograd is None else self._autograd.grad

    @property
    def _fresh_grad(self) -> bool:
        """Whether a backward pass has written the gradient since this was last set to False (Trainer does)."""
        return self._autograd is not None and self._autograd.fresh

    @_fresh_grad.setter
    def _fresh_grad(self, value: bool) -> None:
        if self._autograd is not None:
            self._autograd.fresh = bool(value)

    # -- conversions

    def asnumpy(self) -> Any:
        """The values as a NumPy array of the caller's own; waits for the device."""
        return device_of(self._type.ctx).to_host(self._data)

    def asscalar(self) -> Any:
        """The one element as a NumPy scalar.

        Raises:
            ValueError: the size is not 1.
        """
        if self.size != 1:
            from ..hints.members import no_number

            raise ValueError(f"The current array is not a scalar{no_number(self.shape, 'asscalar')}")
        return self.asnumpy().reshape(-1)[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if copy is False:
            if self._type.ctx.device_typeid == 2:
                raise ValueError("an array on a GPU cannot be seen by NumPy without a copy")
            mark_exported(self._data)
            return self._data if dtype is None else self._data.astype(dtype, copy=False)
        values = self.asnumpy()
        return values if dtype is None else values.astype(dtype)

    def __dlpack__(self, **kwargs: Any) -> Any:
        return exported(self._data, **kwargs)

    def __dlpack_device__(self) -> Any:
        return self._data.__dlpack_device__()

    def to_dlpack_for_read(self) -> Any:
        """A DLPack capsule that shares the memory."""
        return exported(self._data)

    to_dlpack_for_write = to_dlpack_for_read

    @with_plans
    def astype(self, dtype: Any, copy: bool = True) -> NDArray:
        """A copy in another element type (``self`` if ``copy`` is False and the type is equal)."""
        target = dtype_of(dtype)
        if not copy and target is self._type.tensor.dtype:
            return self
        op = OPERATORS["Cast"]
        return late.apply(op, (self,), op.parse({"dtype": target.name}))  # type: ignore[no-any-return]

    def as_in_context(self, context: Context) -> NDArray:
        """``self`` if it lies there already, else a copy on ``context``."""
        return self if context == self.context else self.copyto(context)

    def copyto(self, other: NDArray | Context) -> NDArray:
        """Copy into an array (which converts to its type) or to a device.

        Raises:
            TypeError: ``other`` is neither.
        """
        if isinstance(other, Context):

            def move(x: NDArray) -> list[NDArray]:
                device, own = device_of(other), device_of(x._type.ctx)
                if _moves(x, other):
                    return [wrap(device.adopt(x._data, own), other, x._kind)]
                with own.current():
                    return [wrap(memory.copy(device.xp, x._data), other, x._kind)]

            return late.record_call(move, lambda g: [g.copyto(self.context)], [self])[0]
        if not isinstance(other, NDArray):
            text = f"copyto does not support type {type(other)}"
            raise TypeError(
                f"{text}\n{located_hint('Write mx.cpu() or mx.gpu(i).')}" if isinstance(other, str) else text
            )
        if other is self:
            warnings.warn("You are attempting to copy an array to itself", RuntimeWarning, stacklevel=2)
            return False  # type: ignore[return-value]
        refuse_in_place(other)
        if other.shape != self.shape:
            from ..base import MXNetError
            from ..ops.record import shape_text

            raise MXNetError(
                f"Incompatible attr in node  at 0-th output: expected {shape_text(self.shape)}, got "
                f"{shape_text(other.shape)}\ncopyto needs an array of the same shape: write other[:] = x to broadcast."
            )
        device = device_of(other.context)
        moved = device.adopt(self._data, device_of(self._type.ctx)) if _moves(self, other.context) else self._data
        with device.current():
            late.before_write(other)
            assign(other._data, moved)
        return other

    @with_plans
    def copy(self) -> NDArray:
        """A copy on the same device."""
        op = OPERATORS["_copy"]
        return late.apply(op, (self,), op.parse({}))  # type: ignore[no-any-return]

    def as_np_ndarray(self) -> Any:
        """The array of np of the same memory, gradient and history."""
        return self._as_kind(late.ndarray)

    def as_nd_ndarray(self) -> NDArray:
        """Itself."""
        return self

    def __copy__(self) -> NDArray:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> NDArray:
        return self.copy()

    def __reduce__(self) -> Any:
        return _restore, (self.asnumpy(), self.context, self._kind is not None)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the content of an array that MXNet pickled, ``{"handle": bytes}``; it comes to lie on the CPU."""
        array, before = late.array_of_record(state["handle"]), getattr(self, "_type", None)
        self._data, self._type, self._address, self._autograd = array._data, array._type, None, None
        if before is not None and before.family is not None:
            type(before.family)(self._data, self._type.ctx).join(self)

    def detach(self) -> NDArray:
        """The same memory without history."""
        return self._sharing(_whole)

    def _sharing(self, cut: Callable[[Any], Any]) -> NDArray:
        """An array in the same memory: of ``cut``, a contiguous view of the data that it is given."""
        if (family := self._type.family) is not None:
            return family.array(self, self._kind, cut)
        return wrap(cut(self._data), self._type.ctx, self._kind)

    def _reshaped(self, shape: tuple[int, ...], codes: tuple[int, ...], reverse: bool) -> NDArray:
        """The same memory in another shape, which is what these codes of ``reshape`` say."""
        return self._sharing(lambda data: data.reshape(shape))

    def _as_kind(self, kind: type[NDArray] | None) -> NDArray:
        """The array of another interface in the same memory, with its gradient and history."""
        family = self._type.family
        result = wrap(self._data, self._type.ctx, kind) if family is None else family.array(self, kind)
        result._autograd = self._autograd
        return result

    def attach_grad(self, grad_req: str = "write", stype: str | None = None) -> None:
        """Give the array a zeroed gradient buffer; cuts its history.

        Raises:
            KeyError: a grad_req other than write, add and null.
        """
        from ..core import autograd_state

        device = device_of(self._type.ctx)
        with device.current():
            zero = wrap(memory.zeros(device.xp, self.shape, self._data.dtype), self._type.ctx, self._kind)
        autograd_state.mark_variables([self], [zero], grad_req)

    def backward(self, out_grad: NDArray | None = None, retain_graph: bool = False, train_mode: bool = True) -> None:
        """Write the gradients of the sum of this array's elements, weighted by ``out_grad``, into the buffers
        of the variables that it depends on; see ``autograd.backward``.

        Raises:
            MXNetError: the array was not recorded, or its graph was used before.
        """
        late.backward([self], [out_grad], None, retain_graph, False, train_mode)

    def tostype(self, stype: str) -> NDArray:
        """``self``: storage is always dense.

        Raises:
            ValueError: a sparse storage type.
        """
        if stype != "default":
            raise ValueError(f"storage type {stype!r} is not supported; arrays are dense")
        return self

    # -- waiting

    def wait_to_read(self) -> None:
        """Wait until the values are there."""
        device_of(self._type.ctx).synchronize()

    wait_to_write = wait_to_read

    # -- shape

    reshape = views.reshape
    flatten = views.flatten
    expand_dims = views.expand_dims
    squeeze = views.squeeze
    broadcast_to = views.broadcast_to

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[NDArray]:
        for k in range(self.shape[0]):
            yield self[k]

    def __bool__(self) -> bool:
        if self.size == 0:
            return False
        if self.size == 1:
            return bool(self.asscalar())
        from ..hints.members import no_truth

        raise ValueError(f"The truth value of an NDArray with multiple elements is ambiguous.{no_truth(of_np=False)}")

    def __getitem__(self, key: Any) -> NDArray:
        return late.get_item(self, key)

    @staticmethod
    def _basic_indexing_slice_is_contiguous(slc_key: tuple[slice, ...], shape: tuple[int, ...]) -> bool:
        """Whether ``x[slc_key]`` is a view of an array of this shape; programs ask for it."""
        return late.is_contiguous(slc_key, shape)

    def __setitem__(self, key: Any, value: Any) -> None:
        refuse_in_place(self)
        late.set_item(self, key, value)

    # -- printing

    def __repr__(self) -> str:
        extents = "x".join(str(d) for d in self.shape)
        return f"\n{self.asnumpy()!s}\n<NDArray {extents} @{self.context}>"

    __str__ = __repr__

    # -- arithmetic

    __add__ = _binary("broadcast_add", "_plus_scalar")
    __radd__ = _binary("broadcast_add", "_plus_scalar", reflected=True)
    __sub__ = _binary("broadcast_sub", "_minus_scalar")
    __rsub__ = _binary("broadcast_sub", "_minus_scalar", "_rminus_scalar", reflected=True)
    __mul__ = _binary("broadcast_mul", "_mul_scalar")
    __rmul__ = _binary("broadcast_mul", "_mul_scalar", reflected=True)
    __truediv__ = _binary("broadcast_div", "_div_scalar")
    __rtruediv__ = _binary("broadcast_div", "_div_scalar", "_rdiv_scalar", reflected=True)
    __mod__ = _binary("broadcast_mod", "_mod_scalar")
    __rmod__ = _binary("broadcast_mod", "_mod_scalar", "_rmod_scalar", reflected=True)
    __pow__ = _binary("broadcast_power", "_power_scalar")
    __rpow__ = _binary("broadcast_power", "_power_scalar", "_rpower_scalar", reflected=True)
    __eq__: Any = _binary("broadcast_equal", "_equal_scalar")
    __ne__: Any = _binary("broadcast_not_equal", "_not_equal_scalar")
    __gt__ = _binary("broadcast_greater", "_greater_scalar")
    __ge__ = _binary("broadcast_greater_equal", "_greater_equal_scalar")
    __lt__ = _binary("broadcast_lesser", "_lesser_scalar")
    __le__ = _binary("broadcast_lesser_equal", "_lesser_equal_scalar")
    __iadd__ = _in_place(__add__, "broadcast_add", "_plus_scalar", "+=")
    __isub__ = _in_place(__sub__, "broadcast_sub", "_minus_scalar", "-=")
    __imul__ = _in_place(__mul__, "broadcast_mul", "_mul_scalar", "*=")
    __itruediv__ = _in_place(__truediv__, "broadcast_div", "_div_scalar", "/=")
    __imod__ = _in_place(__mod__, "broadcast_mod", "_mod_scalar", "%=")

    def __hash__(self) -> int:
        return id(self) // 16

    def __neg__(self) -> NDArray:
        return self * -1.0  # type: ignore[no-any-return]

    def __abs__(self) -> NDArray:
        return self.abs()  # type: ignore[no-any-return]

    if not TYPE_CHECKING:  # checkers know the members, and tell of misspelt ones

        def __getattr__(self, name: str) -> Any:
            """Operators as methods, made at first use."""
            method = late.make_method(name)
            if method is None:
                raise late.attribute_error(self, name)
            setattr(NDArray, name, method)
            return getattr(self, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(late.method_names() if self._kind is None else ())})


ARRAY_CLASSES.add(NDArray)
install_stubs(
    NDArray,
    "nd",
    "float() argument must be a string or a real number, not '{kind}'",
    "x.asscalar() is the number in an array of one element; operators of nd take whole arrays.",
)


def _moves(x: NDArray, target: Context) -> bool:
    """True if the data must travel from one memory to another."""
    own = x.context
    return (own.device_typeid == 2 or target.device_typeid == 2) and own != target


def _whole(data: Any) -> Any:
    return data


def _restore(values: Any, ctx: Context, of_np: bool = False) -> NDArray:
    return wrap(device_of(ctx).from_host(values), ctx, late.ndarray if of_np else None)
