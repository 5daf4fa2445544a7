# SPDX-License-Identifier: Apache-2.0
"""The array class of np."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ...backends import memory
from ...backends.devices import device_of
from ...base import MXNetError, shown
from ...context import Context, current_context
from ...core.dtypes import dtype_of
from ...core.source_location import located_hint
from ...hints.members import no_number, no_truth
from ...hints.operators import install_stubs
from ...ops.numpy.members import Members, unsupported
from ...ops.record import OPERATORS
from ..apply import apply
from ..ndarray import NDArray, of_np, wrap
from ..plans import ARRAY_CLASSES, arithmetic_with_plans
from .application import ArrayApplication
from .late_bindings import late

__all__ = ["ARRAYS", "ndarray"]


class ndarray(Members, NDArray):  # type: ignore[misc]
    """An array of ``mx.np``: zero-dimensional and empty ones included, with the methods of NumPy's arrays.

    Made by ``np.array``, ``np.zeros`` and their like; called, the class gives an array with undefined values.

    Args:
        shape: extents.
        dtype: element type, float32 by default.
        ctx: where it lies, by default the current context.
    """

    __slots__ = ("__dict__",)  # programs may give these arrays attributes, as in MXNet

    def __init__(self, shape: Any, dtype: Any = None, ctx: Context | None = None) -> None:
        where = ctx or current_context()
        device = device_of(where)
        extents = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
        with device.current():
            data = memory.empty(device.xp, extents, dtype_of(np.float32 if dtype is None else dtype).np)
        base = wrap(data, where)
        self._data, self._type, self._address, self._autograd = data, base._type, None, None

    # -- what differs from the legacy class

    @property
    def dtype(self) -> Any:
        """The element type, as NumPy's ``dtype``."""
        return self._type.tensor.dtype.np

    @property
    def ctx(self) -> Context:
        """The device it lies on."""
        return self._type.ctx

    context = ctx

    def as_np_ndarray(self) -> ndarray:
        """Itself."""
        return self

    def as_nd_ndarray(self) -> NDArray:
        """The legacy array of the same memory, gradient and history."""
        return self._as_kind(None)

    def item(self, *args: Any) -> Any:
        """One element as a number of Python: the only one, or that at a place.

        Raises:
            ValueError: no place, and more elements than one.
        """
        if not args and self.size != 1:
            raise ValueError(f"can only convert an array of size 1 to a Python scalar{no_number(self.shape, 'item')}")
        return self.asnumpy().item(*args)

    def tolist(self) -> Any:
        """Nested lists of numbers of Python."""
        return self.asnumpy().tolist()

    def astype(  # type: ignore[override]
        self, dtype: Any, order: str | None = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True
    ) -> ndarray:
        """A copy in another element type; itself if ``copy`` is False and the type is equal.

        Raises:
            ValueError: another ``order``, ``casting`` or ``subok`` than the defaults ('C' is one, too).
        """
        if order is not None and order not in ("K", "C"):
            raise ValueError("order must be either 'K' or 'C'")
        if casting != "unsafe":
            raise ValueError("casting must be equal to 'unsafe'")
        if not subok:
            raise ValueError("subok must be equal to True")
        target = dtype_of(dtype)
        if not copy and target is self._type.tensor.dtype:
            return self
        op = OPERATORS["Cast"]
        return apply(op, (self,), op.parse({"dtype": target.name}), kind=ndarray)

    def copy(self, order: str = "C") -> ndarray:
        """A copy on the same device.

        Raises:
            NotImplementedError: another ``order`` than 'C'.
        """
        if order != "C":
            raise NotImplementedError(f"ndarray.copy only supports order='C', while received {order}")
        return self.copyto(self._type.ctx)

    def copyto(self, other: Any) -> Any:
        """Copy into an array of np (which converts to its type) or to a device.

        Raises:
            TypeError: ``other`` is neither.
        """
        if isinstance(other, Context):
            return super().copyto(other).as_np_ndarray()
        if not isinstance(other, ndarray):
            text = f"copyto does not support type {type(other)}"
            raise TypeError(
                f"{text}\n{located_hint('Write npx.cpu() or npx.gpu(i).')}" if isinstance(other, str) else text
            )
        if other is self:
            warnings.warn("You are attempting to copy an array to itself", RuntimeWarning, stacklevel=2)
            return False
        if other.shape != self.shape:
            from ...ops.record import shape_text

            raise MXNetError(
                f"Incompatible attr in node  at 0-th output: expected {shape_text(self.shape)}, got "
                f"{shape_text(other.shape)}\n{located_hint('copyto needs an array of the same shape: write other[:] = x to broadcast.')}"
            )
        late.assign_whole(other, self)
        return other

    def as_in_ctx(self, ctx: Context) -> ndarray:
        """Itself if it lies there already, else a copy on ``ctx``."""
        return self if ctx == self._type.ctx else self.copyto(ctx)

    def as_in_context(self, context: Context) -> ndarray:
        """The older name of :meth:`as_in_ctx`."""
        return self.as_in_ctx(context)

    def attach_grad(self, grad_req: str = "write") -> None:  # type: ignore[override]
        super().attach_grad(grad_req)

    def reshape_view(self, *shape: Any, **kwargs: Any) -> ndarray:
        """A view as of the method ``reshape`` of legacy arrays: the same memory, and their codes."""
        return NDArray.reshape(self.as_nd_ndarray(), *shape, **kwargs).as_np_ndarray()

    def slice_assign(self, rhs: Any, begin: Any, end: Any, step: Any) -> ndarray:
        """Write an array into a slice of this one."""
        return self._F.invoke("_npi_slice_assign", (self, rhs), {"begin": begin, "end": end, "step": step}, self)

    def slice_assign_scalar(self, value: float, begin: Any, end: Any, step: Any) -> ndarray:
        """Write a number into a slice."""
        attributes = {"scalar": float(value), "begin": begin, "end": end, "step": step}
        return self._F.invoke("_npi_slice_assign_scalar", (self,), attributes, self)

    # -- one element, and the elements in turn

    def __bool__(self) -> bool:
        if self.size == 0:
            text = "The truth value of an empty array is ambiguous. Returning False, but in future this will result in an error."
            warnings.warn(text, DeprecationWarning, stacklevel=2)
            return False
        if self.size == 1:
            return bool(self.item())
        raise ValueError(f"The truth value of an ndarray with multiple elements is ambiguous.{no_truth(of_np=True)}")

    def __float__(self) -> float:
        return float(self._only())

    def __int__(self) -> int:
        return int(self._only())

    def __complex__(self) -> complex:
        return complex(self._only())

    def _only(self) -> Any:
        if self.size != 1:
            raise TypeError(f"only size-1 arrays can be converted to Python scalars{no_number(self.shape, 'item')}")
        return self.item()

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Iterator[ndarray]:
        for k in range(self.shape[0] if self.ndim else 0):
            yield self[k]

    # -- indexing

    def __getitem__(self, key: Any) -> ndarray:
        return late.get_item(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        late.set_item(self, key, value)

    # -- arithmetic

    __add__ = arithmetic_with_plans(Members.__add__)
    __sub__ = arithmetic_with_plans(Members.__sub__)
    __rsub__ = arithmetic_with_plans(Members.__rsub__)
    __mul__ = arithmetic_with_plans(Members.__mul__)
    __truediv__ = arithmetic_with_plans(Members.__truediv__)
    __rtruediv__ = arithmetic_with_plans(Members.__rtruediv__)

    # -- in place

    def __radd__(self, other: Any) -> ndarray:
        if isinstance(other, NDArray) and not isinstance(other, ndarray):  # whose own addition MXNet asks
            raise of_np(OPERATORS["broadcast_add"])
        return self + other

    def __iadd__(self, other: Any) -> ndarray:
        return self._function("add")(self, other, out=self)

    def __isub__(self, other: Any) -> ndarray:
        return self._function("subtract")(self, other, out=self)

    def __imul__(self, other: Any) -> ndarray:
        return self._function("multiply")(self, other, out=self)

    def __itruediv__(self, other: Any) -> ndarray:
        return self._function("true_divide")(self, other, out=self)

    def __imod__(self, other: Any) -> ndarray:
        return self._function("mod")(self, other, out=self)

    def __imatmul__(self, other: Any) -> ndarray:
        return self._function("matmul")(self, other, out=self)

    def __iand__(self, other: Any) -> ndarray:
        return self._function("bitwise_and")(self, other, out=self)

    def __ior__(self, other: Any) -> ndarray:
        return self._function("bitwise_or")(self, other, out=self)

    def __ixor__(self, other: Any) -> ndarray:
        return self._function("bitwise_xor")(self, other, out=self)

    # -- NumPy's functions

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return late.array_ufunc(self, ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return late.array_function(self, func, types, args, kwargs)

    # -- printing

    def __repr__(self) -> str:
        text = repr(self.asnumpy())
        if self.size and "shape=" in text:  # NumPy tells it since 2.2, of what it does not print as a whole
            text = re.sub(r",\s*shape=\([0-9, ]*\)", "", text)
        dtype = self.dtype
        if "dtype=" in text:
            if dtype == np.float32:
                text = text[: text.rindex(",")] + ")"
        elif dtype not in (np.float32, np.bool_):
            text = f"{text[:-1]}, dtype={dtype})"
        return text if self._type.ctx.device_typeid != 2 else f"{text[:-1]}, ctx={self._type.ctx})"

    def __str__(self) -> str:
        text = str(self.asnumpy())
        return f"{text} @{self._type.ctx}" if self._type.ctx.device_typeid == 2 and self.ndim else text

    def __format__(self, format_spec: str) -> str:
        if not self.ndim:
            return format(self.item(), format_spec)
        if format_spec:
            raise TypeError("Cannot format mxnet.numpy.ndarray with format_spec")
        return str(self)

    def _function(self, name: str) -> Any:
        return self._F.function(name)

    if not TYPE_CHECKING:  # checkers know the members, and tell of misspelt ones

        def __getattr__(self, name: str) -> Any:
            from ..methods import attribute_error

            raise attribute_error(self, name)


ndarray._kind = ndarray
ARRAY_CLASSES.add(ndarray)
ndarray.__module__ = "hybridgpu.numpy"
shown(ndarray)
unsupported(ndarray)
install_stubs(
    ndarray,
    "np",
    "must be real number, not {kind}",
    "x.item() is the number in an array of one element; functions of np take whole arrays.",
    supported={*vars(ndarray), *vars(Members)},
)
ARRAYS = ArrayApplication(ndarray)
ndarray._F = ARRAYS
