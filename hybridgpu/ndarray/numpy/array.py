# SPDX-License-Identifier: Apache-2.0
"""The array class of np."""

from __future__ import annotations

from typing import Any

from ..array import NDArray, wrap

__all__ = ["ndarray"]


class ndarray(NDArray):
    """An array of ``mx.np``: zero-dimensional and empty ones included, with the methods of NumPy's arrays."""

    __slots__ = ()

    def as_np_ndarray(self) -> ndarray:
        """Itself."""
        return self

    def as_nd_ndarray(self) -> NDArray:
        """The legacy array of the same memory, gradient and history."""
        made: NDArray = wrap(self._data, self._type.ctx)
        made._autograd = self._autograd
        return made

    def __repr__(self) -> str:
        return repr(self.asnumpy())

    def __str__(self) -> str:
        return str(self.asnumpy())

    def __add__(self, other: Any) -> Any:
        from .application import ARRAYS

        return ARRAYS.function("add")(self, other)


ndarray._kind = ndarray
ndarray.__module__ = "hybridgpu.numpy"
