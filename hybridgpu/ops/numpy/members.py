# SPDX-License-Identifier: Apache-2.0
"""Methods and operators of np arrays, which are functions of np with the array as first argument."""

from __future__ import annotations

import inspect
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from ...core.source_location import located_hint
from ...hints.arguments import telling
from .application import NP, NPX, Application

if TYPE_CHECKING:
    from typing_extensions import Self  # which checkers know without the package; in typing from Python 3.11 on

__all__ = ["Members", "np_module_with", "order_of_call", "shape_of_call", "unsupported"]


class Members:
    """What np arrays have besides data: each member calls a definition with the class's application.

    Attributes:
        _F: the application.
    """

    __slots__ = ()
    _F: Application

    # -- operators

    def __add__(self, other: Any) -> Self:
        return NP["add"](self._F, self, other)

    def __radd__(self, other: Any) -> Self:
        return self.__add__(other)

    def __sub__(self, other: Any) -> Self:
        return NP["subtract"](self._F, self, other)

    def __rsub__(self, other: Any) -> Self:
        return NP["subtract"](self._F, other, self)

    def __mul__(self, other: Any) -> Self:
        return NP["multiply"](self._F, self, other)

    def __rmul__(self, other: Any) -> Self:
        return self.__mul__(other)

    def __truediv__(self, other: Any) -> Self:
        return NP["true_divide"](self._F, self, other)

    def __rtruediv__(self, other: Any) -> Self:
        return NP["true_divide"](self._F, other, self)

    def __mod__(self, other: Any) -> Self:
        return NP["mod"](self._F, self, other)

    def __rmod__(self, other: Any) -> Self:
        return NP["mod"](self._F, other, self)

    def __pow__(self, other: Any) -> Self:
        return NP["power"](self._F, self, other)

    def __rpow__(self, other: Any) -> Self:
        return NP["power"](self._F, other, self)

    def __matmul__(self, other: Any) -> Self:
        return NP["matmul"](self._F, self, other)

    def __rmatmul__(self, other: Any) -> Self:
        return NP["matmul"](self._F, other, self)

    def __and__(self, other: Any) -> Self:
        return NP["bitwise_and"](self._F, self, other)

    def __rand__(self, other: Any) -> Self:
        return NP["bitwise_and"](self._F, other, self)

    def __or__(self, other: Any) -> Self:
        return NP["bitwise_or"](self._F, self, other)

    def __ror__(self, other: Any) -> Self:
        return NP["bitwise_or"](self._F, other, self)

    def __xor__(self, other: Any) -> Self:
        return NP["bitwise_xor"](self._F, self, other)

    def __rxor__(self, other: Any) -> Self:
        return NP["bitwise_xor"](self._F, other, self)

    def __eq__(self, other: Any) -> Any:
        return NP["equal"](self._F, self, other)

    def __ne__(self, other: Any) -> Any:
        return NP["not_equal"](self._F, self, other)

    def __gt__(self, other: Any) -> Self:
        return NP["greater"](self._F, self, other)

    def __ge__(self, other: Any) -> Self:
        return NP["greater_equal"](self._F, self, other)

    def __lt__(self, other: Any) -> Self:
        return NP["less"](self._F, self, other)

    def __le__(self, other: Any) -> Self:
        return NP["less_equal"](self._F, self, other)

    def __hash__(self) -> int:
        raise NotImplementedError(
            "arrays of np have no hash\n" + located_hint("Use id(x) as the key, or x.tobytes() of NumPy.")
        )

    def __neg__(self) -> Self:
        return self.__mul__(-1.0)

    def __invert__(self) -> Self:
        return NP["bitwise_not"](self._F, self)

    def __abs__(self) -> Self:
        return NP["absolute"](self._F, self)

    def __round__(self, n: int = 0) -> Self:
        return NP["around"](self._F, self, n)

    def __ceil__(self) -> Self:
        return NP["ceil"](self._F, self)

    def __floor__(self) -> Self:
        return NP["floor"](self._F, self)

    def __trunc__(self) -> Self:
        return NP["trunc"](self._F, self)

    # -- methods

    @property
    def T(self) -> Self:
        """Axes in the opposite order."""
        return self.transpose()

    def transpose(self, *axes: Any) -> Self:
        """Axes in another order, by default the opposite."""
        return NP["transpose"](self._F, self, order_of_call(axes))

    def reshape(self, *args: Any, **kwargs: Any) -> Self:
        """The elements in another shape, which is one tuple or several integers.

        Raises:
            TypeError: no shape, or another keyword than ``order``.
            NotImplementedError: another ``order`` than 'C'.
        """
        return NP["reshape"](self._F, self, shape_of_call(args, kwargs))

    def flatten(self, order: str = "C") -> Self:
        """All axes as one."""
        return self.reshape(-1, order=order)

    def squeeze(self, axis: Any = None) -> Self:
        """Without axes of one element."""
        return NP["squeeze"](self._F, self, axis)

    def swapaxes(self, axis1: int, axis2: int) -> Self:
        """With two axes exchanged."""
        return NP["swapaxes"](self._F, self, axis1, axis2)

    def broadcast_to(self, shape: Any) -> Self:
        """Repeated up to a shape."""
        return NP["broadcast_to"](self._F, self, shape)

    def repeat(self, repeats: Any, axis: Any = None) -> Self:
        """Each element several times."""
        return NP["repeat"](self._F, self, repeats, axis)

    def take(self, indices: Any, axis: Any = None, mode: str = "raise") -> Self:
        """Elements at positions along an axis, or of all elements in a row."""
        return NP["take"](self._F, self, indices, axis, mode=mode)

    def sum(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Self:
        """The sum over axes, by default over all."""
        return NP["sum"](self._F, self, axis=axis, dtype=dtype, out=out, keepdims=keepdims)

    def prod(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Self:
        """The product over axes, by default over all."""
        return NP["prod"](self._F, self, axis=axis, dtype=dtype, out=out, keepdims=keepdims)

    def mean(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Self:
        """The mean over axes, by default over all."""
        return NP["mean"](self._F, self, axis=axis, dtype=dtype, out=out, keepdims=keepdims)

    def std(self, axis: Any = None, dtype: Any = None, out: Any = None, ddof: int = 0, keepdims: bool = False) -> Self:
        """The standard deviation over axes, by default over all."""
        return NP["std"](self._F, self, axis=axis, dtype=dtype, out=out, ddof=ddof, keepdims=keepdims)

    def var(self, axis: Any = None, dtype: Any = None, out: Any = None, ddof: int = 0, keepdims: bool = False) -> Self:
        """The variance over axes, by default over all."""
        return NP["var"](self._F, self, axis=axis, dtype=dtype, out=out, ddof=ddof, keepdims=keepdims)

    def max(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Self:
        """The largest element over axes, by default over all."""
        return NP["max"](self._F, self, axis=axis, out=out, keepdims=keepdims)

    def min(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Self:
        """The smallest element over axes, by default over all."""
        return NP["min"](self._F, self, axis=axis, out=out, keepdims=keepdims)

    def all(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Self:
        """Whether all elements over axes are true."""
        return NP["all"](self._F, self, axis=axis, out=out, keepdims=keepdims)

    def any(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Self:
        """Whether any element over axes is true."""
        return NP["any"](self._F, self, axis=axis, out=out, keepdims=keepdims)

    def cumsum(self, axis: Any = None, dtype: Any = None, out: Any = None) -> Self:
        """Sums of the elements so far, along an axis or of all in a row."""
        return NP["cumsum"](self._F, self, axis=axis, dtype=dtype, out=out)

    def argmax(self, axis: Any = None, out: Any = None) -> Self:
        """Positions of the largest elements along an axis, or in a row."""
        return NP["argmax"](self._F, self, axis, out)

    def argmin(self, axis: Any = None, out: Any = None) -> Self:
        """Positions of the smallest elements along an axis, or in a row."""
        return NP["argmin"](self._F, self, axis, out)

    def argsort(self, axis: Any = -1, kind: Any = None, order: Any = None) -> Self:
        """The positions that sort along an axis."""
        return NP["argsort"](self._F, self, axis=axis, kind=kind, order=order)

    def sort(self, axis: Any = -1, kind: Any = None, order: Any = None) -> Self:
        """A sorted copy, along an axis."""
        return NP["sort"](self._F, self, axis=axis, kind=kind, order=order)

    def nonzero(self) -> tuple[Self, ...]:
        """The positions of the elements that are not zero, an array an axis."""
        return NP["nonzero"](self._F, self)

    def dot(self, b: Any, out: Any = None) -> Self:
        """The dot product with ``b``."""
        return NP["dot"](self._F, self, b, out=out)

    def clip(self, min: Any = None, max: Any = None, out: Any = None) -> Self:
        """Between two bounds."""
        return NP["clip"](self._F, self, min, max, out=out)

    def round(self, decimals: int = 0, out: Any = None, **kwargs: Any) -> Self:
        """Rounded to decimals."""
        return NP["around"](self._F, self, decimals, out=out, **kwargs)


#: methods of legacy arrays that np arrays do not have
_UNSUPPORTED = [
    "abs",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctanh",
    "argmax_channel",
    "asscalar",
    "broadcast_axes",
    "broadcast_like",
    "cbrt",
    "ceil",
    "cos",
    "cosh",
    "degrees",
    "depth_to_space",
    "diag",
    "exp",
    "expand_dims",
    "expm1",
    "fix",
    "flip",
    "floor",
    "log",
    "log10",
    "log1p",
    "log2",
    "log_softmax",
    "nanprod",
    "nansum",
    "norm",
    "one_hot",
    "ones_like",
    "pad",
    "pick",
    "radians",
    "rcbrt",
    "reciprocal",
    "relu",
    "reshape_like",
    "rint",
    "rsqrt",
    "shape_array",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "size_array",
    "slice",
    "slice_axis",
    "slice_like",
    "softmax",
    "softmin",
    "space_to_depth",
    "split",
    "split_v2",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "tile",
    "topk",
    "tostype",
    "trunc",
    "zeros_like",
]


for _name, _method in list(vars(Members).items()):
    if inspect.isfunction(_method):
        _method.__qualname__ = _method.__name__  # with which Python's errors about arguments begin: not of arrays alone
        if not _name.startswith("_"):
            setattr(Members, _name, telling(_method))


def unsupported(cls: type) -> None:
    """Give a class of np the methods that only the legacy class has; they raise MXNet's error when they are called."""
    for name in _UNSUPPORTED:
        setattr(cls, name, _refusal(name))


def _refusal(name: str) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        from ...hints import members

        text = f"mxnet.numpy.ndarray object has no attribute {name}"
        written = members.instead(members.ARRAYS_OF_NP, name, partial(np_module_with, before=""), ())
        raise AttributeError(f"{text}\n{located_hint(written)}" if written else text)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = "Of legacy arrays only: raises AttributeError."
    return method


def np_module_with(name: str, before: str) -> str:
    """How users call the module that has a function of a name, np or npx with ``before`` in front; '' if neither has."""
    module = "np" if name in NP else "npx" if name in NPX else ""
    return module and before + module


def shape_of_call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The shape that a call of the method ``reshape`` gives.

    Raises:
        TypeError: no shape, or another keyword than ``order``.
        NotImplementedError: another ``order`` than 'C'.
    """
    if len(kwargs) > 1:
        raise TypeError("function takes at most 1 keyword argument")
    order = kwargs.pop("order", "C")
    if kwargs:
        raise TypeError(f"{next(iter(kwargs))} is an invalid keyword argument for this function")
    if order != "C":
        raise NotImplementedError(f"only supports C-order, while received {order}")
    if not args:
        raise TypeError("reshape() takes exactly 1 argument (0 given)")
    return args[0] if len(args) == 1 and isinstance(args[0], tuple) else args


def order_of_call(axes: tuple[Any, ...]) -> Any:
    """The order of axes that a call of the method ``transpose`` gives; None for the opposite one."""
    if not axes or axes[0] is None:
        return None
    return axes[0] if len(axes) == 1 and isinstance(axes[0], (tuple, list)) else axes
