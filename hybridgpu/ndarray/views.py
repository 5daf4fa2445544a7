# SPDX-License-Identifier: Apache-2.0
"""Methods of NDArray that give it another shape, in the same memory where they can."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base import MXNetError
from ..hints.arguments import telling
from ..ops.record import OPERATORS
from .late_bindings import late
from .plans import with_plans

if TYPE_CHECKING:
    from .ndarray import NDArray

__all__ = ["broadcast_to", "expand_dims", "flatten", "reshape", "squeeze"]


def reshape(self: NDArray, *shape: Any, **kwargs: Any) -> NDArray:
    """The same memory under another shape; codes 0, -1, -2, -3, -4 as in ``nd.reshape``.

    Raises:
        AssertionError: no shape.
        ValueError: fewer elements than the array has.
    """
    if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
        shape = tuple(shape[0])
    elif not shape:
        shape = tuple(kwargs.get("shape") or ())
        assert kwargs.get("shape") is not None, "Shape must be provided."
    if kwargs and (unknown := set(kwargs) - {"shape", "reverse"}):
        raise TypeError(
            f"Got unknown keywords in reshape: {', '.join(sorted(unknown))}. Accepted keyword arguments are 'shape' and 'reverse'."
        )
    reverse = bool(kwargs.get("reverse", False))
    own = self._type.shape
    if all(d > 0 for d in shape):
        target: Any = tuple(shape)
        size, new = prod(own), prod(shape)
        if new < size:
            raise ValueError(f"Cannot reshape array of size {size} into shape {target}")
        if new > size:
            raise MXNetError(
                f"target shape size is larger than the current shape: {target} has {new} elements, the array {size}"
            )
    else:
        target = None
    if late.tracked((self,)):
        op = OPERATORS["Reshape"]
        return late.apply(op, (self,), op.parse({"shape": tuple(shape), "reverse": reverse}))  # type: ignore[no-any-return]
    if target is None:
        from ..ops.shape import infer_reshape  # loaded with the first code

        target = infer_reshape(own, shape, reverse)
    return self._reshaped(target, tuple(shape), reverse)


def flatten(self: NDArray, inplace: bool = False) -> NDArray:
    """All axes but the first as one; with ``inplace`` in the same memory."""
    if inplace:
        return self.reshape((0, -1)) if self.ndim > 1 else self.reshape((self.shape[0], 1))
    return _operator(self, "Flatten")


def expand_dims(self: NDArray, axis: int, inplace: bool = False) -> NDArray:
    """A new axis of extent 1 before ``axis``; with ``inplace`` in the same memory."""
    if inplace:
        at = axis if axis >= 0 else axis + self.ndim + 1
        assert 0 <= at <= self.ndim, f"axis {axis} is out of bounds for array of dimension {self.ndim}"
        return self.reshape((*self.shape[:at], 1, *self.shape[at:]))
    return _operator(self, "expand_dims", axis=axis)


def squeeze(self: NDArray, axis: Any = None, inplace: bool = False) -> NDArray:
    """Without axes of extent 1, all or those given; with ``inplace`` in the same memory.

    Raises:
        ValueError, AssertionError, MXNetError: an axis of another extent, out of range or given twice.
    """
    if not inplace:
        return _operator(self, "squeeze", axis=axis)
    axes = range(self.ndim) if axis is None else [axis] if isinstance(axis, int) else list(axis)
    chosen = {a + self.ndim if a < 0 else a for a in axes}
    assert axis is None or len(chosen) == len(list(axes)), "axis contains duplicate which is not allowed."
    assert all(0 <= a < self.ndim for a in chosen), f"axis {axis} is out of bounds for array of dimension {self.ndim}"
    if axis is None:
        chosen = {a for a in chosen if self.shape[a] == 1}
    for a in chosen:
        if self.shape[a] != 1:
            raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    return self.reshape(tuple(d for k, d in enumerate(self.shape) if k not in chosen) or (1,))


@with_plans
def _operator(self: NDArray, name: str, **attributes: Any) -> NDArray:
    op = OPERATORS[name]
    return late.apply(op, (self,), op.parse(attributes))  # type: ignore[no-any-return]


def broadcast_to(self: NDArray, shape: Any) -> NDArray:
    """Repeat axes of extent 1, and new leading axes, up to ``shape``.

    Raises:
        ValueError: an extent other than 1 would have to grow.
    """
    target = (int(shape),) if np.ndim(shape) == 0 else tuple(int(d) for d in shape)
    own = (1,) * (len(target) - self.ndim) + self.shape
    if len(own) != len(target) or any(d not in (1, t) for d, t in zip(own, target, strict=True)):
        raise ValueError(
            "operands could not be broadcast together with remapped shapes[original->remapped]: "
            f"{self.shape} and requested shape {target}"
        )
    return _operator(self.reshape(own) if own != self.shape else self, "broadcast_to", shape=target)


for _method in (reshape, flatten, expand_dims, squeeze, broadcast_to):
    _method.__qualname__ = f"NDArray.{_method.__name__}"  # as errors about arguments and help() name it
flatten, expand_dims, squeeze = telling(flatten), telling(expand_dims), telling(squeeze)
