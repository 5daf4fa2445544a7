# SPDX-License-Identifier: Apache-2.0
"""Random shapes and arrays; small helpers on arrays."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import ndarray as nd
from ..context import Context
from ..io.iterators import DataIter
from ..ndarray.ndarray import NDArray
from .environment import default_context

__all__ = [
    "DummyIter",
    "assign_each",
    "assign_each2",
    "collapse_sum_like",
    "create_2d_tensor",
    "create_vector",
    "np_reduce",
    "rand_coord_2d",
    "rand_ndarray",
    "rand_shape_2d",
    "rand_shape_3d",
    "rand_shape_nd",
    "random_arrays",
    "random_sample",
    "random_uniform_arrays",
]


def random_arrays(*shapes: Any) -> Any:
    """Normal float32 arrays of the given shapes (NumPy); one alone is not in a list."""
    arrays = [
        np.array(np.random.randn(), np.float32) if not s else np.random.randn(*s).astype(np.float32) for s in shapes
    ]
    return arrays[0] if len(arrays) == 1 else arrays


def random_uniform_arrays(*shapes: Any, low: float = 0.0, high: float = 1.0, dtype: Any = np.float32) -> list[Any]:
    """Uniform arrays of the given shapes (NumPy)."""
    return [np.random.uniform(low, high, s).astype(dtype) for s in shapes]


def random_sample(population: Sequence[Any], k: int) -> list[Any]:
    """``k`` elements of ``population``, in their order."""
    chosen = sorted(random.sample(range(len(population)), k))
    return [population[i] for i in chosen]


def rand_shape_2d(dim0: int = 10, dim1: int = 10, allow_zero_size: bool = False) -> tuple[int, ...]:
    """A shape of two random extents up to the given ones."""
    return _extents((dim0, dim1), allow_zero_size)


def rand_shape_3d(dim0: int = 10, dim1: int = 10, dim2: int = 10, allow_zero_size: bool = False) -> tuple[int, ...]:
    """A shape of three random extents up to the given ones."""
    return _extents((dim0, dim1, dim2), allow_zero_size)


def rand_shape_nd(num_dim: int, dim: int = 10, allow_zero_size: bool = False) -> tuple[int, ...]:
    """A shape of ``num_dim`` random extents up to ``dim``."""
    return _extents((dim,) * num_dim, allow_zero_size)


def _extents(most: Sequence[int], allow_zero_size: bool) -> tuple[int, ...]:
    least = 0 if allow_zero_size else 1
    return tuple(int(np.random.randint(least, d + 1)) for d in most)


def rand_coord_2d(x_low: int, x_high: int, y_low: int, y_high: int) -> tuple[int, int]:
    """A random point of a box."""
    return int(np.random.randint(x_low, x_high)), int(np.random.randint(y_low, y_high))


def rand_ndarray(
    shape: Any,
    stype: str = "default",
    density: Any = None,
    dtype: Any = None,
    modifier_func: Callable[[Any], Any] | None = None,
    shuffle_csr_indices: bool = False,
    distribution: Any = None,
    ctx: Context | None = None,
) -> NDArray:
    """A uniform array in [-1, 1); dense only.

    Raises:
        ValueError: a sparse storage type.
    """
    if stype != "default":
        raise ValueError(f"storage type {stype!r} is not supported; arrays are dense")
    values = np.random.uniform(-1, 1, shape)
    if modifier_func is not None:
        values = np.vectorize(modifier_func)(values)
    return nd.array(values, dtype=np.float32 if dtype is None else dtype, ctx=ctx or default_context())


def np_reduce(dat: Any, axis: Any, keepdims: bool, numpy_reduce_func: Callable[..., Any]) -> Any:
    """Reduce over axes with a NumPy function that takes one; all axes with keepdims keep extents of 1."""
    if axis is None:
        axes = list(range(dat.ndim))
    else:
        axes = [axis] if isinstance(axis, int) else list(axis)
    axes = [a % dat.ndim if dat.ndim else a for a in axes]
    result = dat
    for a in sorted(axes, reverse=True):
        result = numpy_reduce_func(result, axis=a)
    if keepdims:
        result = result.reshape([1 if k in axes else d for k, d in enumerate(dat.shape)])
    return result


def assign_each(the_input: Any, function: Callable[[Any], Any] | None) -> Any:
    """``function`` of every element (NumPy)."""
    if function is None:
        return np.array(the_input)
    return np.vectorize(function, otypes=[the_input.dtype])(the_input) if the_input.size else np.array(the_input)


def assign_each2(input1: Any, input2: Any, function: Callable[[Any, Any], Any] | None) -> Any:
    """``function`` of every pair of elements (NumPy)."""
    assert input1.shape == input2.shape
    if function is None:
        return np.array(input1)
    return np.vectorize(function, otypes=[input1.dtype])(input1, input2)


def create_2d_tensor(rows: int, columns: int, dtype: Any = np.int64) -> NDArray:
    """Rows numbered from 0, every element the number of its row."""
    column = nd.array(np.arange(rows).reshape(rows, 1), dtype=dtype)
    return nd.broadcast_to(column, shape=(rows, columns))  # type: ignore[no-any-return]


def create_vector(size: int, dtype: Any = np.int64) -> NDArray:
    """0, 1, …, size - 1."""
    return nd.array(np.arange(size), dtype=dtype)


def collapse_sum_like(a: Any, shape: Sequence[int]) -> Any:
    """Sum ``a`` over the axes that broadcasting ``shape`` to it repeats."""
    assert len(a.shape) >= len(shape)
    if a.shape == tuple(shape):
        return a
    extra = len(a.shape) - len(shape)
    axes = [*range(extra), *(k + extra for k, d in enumerate(shape) if d != a.shape[k + extra])]
    return np.sum(a, axis=tuple(axes), keepdims=True).reshape(shape)


class DummyIter(DataIter):
    """The first batch of another iterator again and again, without end: for measuring speed."""

    def __init__(self, real_iter: Any) -> None:
        super().__init__()
        self.real_iter = real_iter
        self.provide_data, self.provide_label = real_iter.provide_data, real_iter.provide_label
        self.batch_size = real_iter.batch_size
        self.the_batch = next(real_iter)

    def next(self) -> Any:
        """That batch."""
        return self.the_batch
