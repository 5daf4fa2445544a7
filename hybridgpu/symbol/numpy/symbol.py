# SPDX-License-Identifier: Apache-2.0
"""The Symbol class of np."""

from __future__ import annotations

from typing import Any

from ..symbol import Symbol

__all__ = ["_Symbol"]


class _Symbol(Symbol):
    """A Symbol of ``mx.sym.np``."""

    __slots__ = ()

    def as_np_ndarray(self) -> _Symbol:
        """Itself."""
        return self

    def as_nd_ndarray(self) -> Symbol:
        """The legacy Symbol of the same results."""
        return Symbol(self._heads)

    def __add__(self, other: Any) -> Any:
        from .application import SYMBOLS

        return SYMBOLS.function("add")(self, other)


_Symbol._kind = _Symbol
