# SPDX-License-Identifier: Apache-2.0
"""The Symbol class of np."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from operator import methodcaller
from typing import Any, NoReturn

import numpy as np

from ...base import NotImplementedForSymbol, shown
from ...core.source_location import located_hint
from ...hints.arguments import telling
from ...ops.numpy import NP
from ...ops.numpy.members import Members, np_module_with, order_of_call, shape_of_call
from ..symbol import Group, Symbol
from .application import SymbolApplication

__all__ = ["SYMBOLS", "_Symbol"]


class _Symbol(Members, Symbol):  # type: ignore[misc]
    """A Symbol with the methods and the rules of ``mx.np``. Made by ``as_np_ndarray()`` and the functions of ``mx.sym.np``."""

    __slots__ = ()

    @property
    def name(self) -> str | None:
        """The node's name.

        Raises:
            AttributeError: a group of several results has none.
        """
        if len(self._heads) > 1:
            raise AttributeError(
                f"This is a Group Symbol that contains {len(self._heads)} elements and does not have a name. "
                "Use str(sym) to print the name of all the elements instead."
            )
        return self._heads[0][0].name

    @property
    def num_outputs(self) -> int:
        """The number of results."""
        return len(self._heads)

    def __repr__(self) -> str:
        if len(self._heads) > 1:
            return f"<{type(self).__name__} group [{', '.join(map(str, self))}]>"
        return f"<{type(self).__name__} {self.name}>"

    __str__ = __repr__

    def __len__(self) -> int:
        if len(self._heads) == 1:
            raise TypeError(f"{self} is not a list and does not support len().")
        return len(self._heads)

    def __iter__(self) -> Iterator[_Symbol]:
        if len(self._heads) == 1:
            raise TypeError(f"'{self}' is not iterable.")
        return (type(self)([head]) for head in self._heads)

    def as_np_ndarray(self) -> _Symbol:
        """Itself."""
        return self

    def as_nd_ndarray(self) -> Symbol:
        """The same results as a legacy Symbol."""
        return Symbol(list(self._heads))

    def __reduce__(self) -> Any:
        return methodcaller("as_np_ndarray"), (self.as_nd_ndarray(),)

    # -- indexing

    def __getitem__(self, key: Any) -> Any:
        """One of several results; else the elements that integers and slices name."""
        if len(self._heads) > 1:
            return self._result(key)
        key = int(key) if isinstance(key, np.integer) else key
        if isinstance(key, int):
            return _reshape(_slice(self, [key], [key + 1]), (-3, -4))
        if isinstance(key, slice):
            _check_step(key)
            start = [None] if key.start is None else key.start
            stop = [None] if key.stop is None else key.stop
            return _slice(self, start, stop, key.step, with_step=True)
        if not isinstance(key, tuple):
            raise _unsupported_key(key)
        return self._axes(key) if key else self

    def _result(self, key: Any) -> _Symbol:
        if isinstance(key, (int, np.integer)):
            if not -len(self._heads) <= key < len(self._heads):
                raise IndexError("list index out of range")
            return type(self)([self._heads[key]])
        if isinstance(key, slice):
            return Group([type(self)([head]) for head in self._heads[key]], type(self))  # type: ignore[return-value]
        raise TypeError(f"indices of symbol group must be integers or slices, not {type(key)}")

    def _axes(self, key: tuple[Any, ...]) -> _Symbol:
        begin: list[int | None] = []
        end: list[int | None] = []
        step: list[int | None] = []
        shape: list[int] = []
        for index in key:
            if isinstance(index, slice):
                _check_step(index)
                begin.append(index.start)
                end.append(index.stop)
                step.append(index.step)
                shape.append(-2)
            elif isinstance(index, (int, np.integer)):
                forward = 1 if index >= 0 else -1  # -1 : -2 : -1 is the last one; -1 : 0 would be empty
                begin.append(int(index))
                end.append(int(index) + forward)
                step.append(forward)
                shape.append(-3)
            else:
                raise _unsupported_key(key)
        cut: _Symbol = _reshape(_slice(self, begin, end, step, with_step=True), (*shape, -4))
        return cut

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        raise NotImplementedError(
            located_hint("Build the result with F.np.where or F.np.concatenate instead of writing into x.")
        )

    def __delitem__(self, key: Any) -> NoReturn:
        raise AttributeError("__delitem__")

    def _instead(self, name: str) -> str:
        from ...hints import members

        return members.instead(members.SYMBOLS_OF_NP, name, partial(np_module_with, before="F."), dir(_Symbol))

    # -- arithmetic

    def __rmul__(self, other: Any) -> Any:
        return NP["multiply"](self._F, other, self)  # unlike that of arrays, which shows in files

    __hash__ = None  # type: ignore[assignment]

    def __itruediv__(self, other: Any) -> NoReturn:
        raise NotImplementedError(located_hint("Write x = x / y instead of x /= y."))

    def __bool__(self) -> bool:
        raise NotImplementedForSymbol(
            "__bool__",
            "bool",
            advice=located_hint(
                "Values are not known while tracing: write F.np.where, or F.npx.cond for whole branches."
            ),
        )

    # -- methods

    def astype(
        self, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True
    ) -> Any:
        """Converted to another element type.

        Raises:
            ValueError: another ``order``, ``casting`` or ``subok`` than the defaults (``order`` may be 'C').
        """
        if order is not None and order not in ("K", "C"):
            raise ValueError("order must be either 'K' or 'C'")
        if casting != "unsafe":
            raise ValueError("casting must be equal to 'unsafe'")
        if not subok:
            raise ValueError("subok must be equal to True")
        return _invoke("_npi_cast", self, dtype=dtype)

    def reshape(self, *args: Any, **kwargs: Any) -> Any:
        """With another shape, given as one tuple or as several integers.

        Raises:
            TypeError: no shape, or another keyword than ``order``.
            NotImplementedError: another ``order`` than 'C'.
        """
        return _invoke("_np_reshape", self, newshape=shape_of_call(args, kwargs), order="C")

    def transpose(self, *axes: Any) -> Any:  # type: ignore[override]
        """Axes in another order, by default the opposite."""
        return _invoke("_np_transpose", self, axes=order_of_call(axes))

    # as MXNet's methods, and unlike its functions, these write keepdims whatever it is

    @telling
    def sum(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:  # type: ignore[override]
        """The sum over axes, by default over all."""
        return _invoke("_np_sum", self, axis=axis, dtype=dtype, keepdims=keepdims)

    @telling
    def prod(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:  # type: ignore[override]
        """The product over axes, by default over all."""
        return _invoke("_np_prod", self, axis=axis, dtype=dtype, keepdims=keepdims)

    @telling
    def max(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:  # type: ignore[override]
        """The largest element over axes, by default over all."""
        return _invoke("_np_max", self, axis=axis, keepdims=keepdims)

    @telling
    def min(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:  # type: ignore[override]
        """The smallest element over axes, by default over all."""
        return _invoke("_np_min", self, axis=axis, keepdims=keepdims)


def _invoke(operator: str, *inputs: Any, **attributes: Any) -> Any:
    return _Symbol._F.invoke(operator, inputs, attributes)


def _slice(x: _Symbol, begin: Any, end: Any, step: Any = None, with_step: bool = False) -> Any:
    attributes = {"begin": begin, "end": end}
    return _invoke("_npi_slice", x, **attributes, **({"step": step} if with_step else {}))


def _reshape(x: _Symbol, shape: tuple[int, ...]) -> Any:
    return _invoke("_npi_reshape", x, newshape=shape)


def _check_step(key: slice) -> None:
    if key.step is not None and key.step == 0:
        raise ValueError("slice step cannot be zero")


def _unsupported_key(key: Any) -> IndexError:
    return IndexError(
        f"Only integer, slice, or tuple of these types are supported! Received key={key}\n"
        + located_hint(
            "Write F.np.expand_dims for None, F.np.take or F.npx.pick for positions, F.np.where for conditions."
        )
    )


SYMBOLS = SymbolApplication()
SymbolApplication.array = _Symbol
_Symbol._F = SYMBOLS
_Symbol._kind = _Symbol
_Symbol.__module__ = "hybridgpu.symbol.numpy"
shown(_Symbol)
