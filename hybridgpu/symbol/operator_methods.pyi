# SPDX-License-Identifier: Apache-2.0
# Made from records and definitions by `python docs/make_stubs.py`; do not edit.
"""Methods of ``mx.sym.Symbol``."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, overload

import numpy
from numpy.typing import ArrayLike

from hybridgpu.context import Context
from hybridgpu.symbol.symbol import Symbol

_Array: TypeAlias = Symbol
_DType: TypeAlias = str | type[Any] | numpy.dtype[Any]
_Device: TypeAlias = Context | str

class OperatorMethods:
    """Methods of :class:`Symbol` that operators are."""

    __slots__ = ()

    def abs(self, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Absolute value."""
    def arccos(self, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Inverse cosine, radians."""
    def arccosh(self, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Inverse hyperbolic cosine."""
    def arcsin(self, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Inverse sine, radians."""
    def arcsinh(self, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Inverse hyperbolic sine."""
    def arctan(self, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Inverse tangent, radians."""
    def arctanh(self, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Inverse hyperbolic tangent."""
    def argmax(self, axis: int | None = None, keepdims: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Index of the first largest element, in the type of the data."""
    def argmax_channel(self, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """argmax along axis 1."""
    def argmin(self, axis: int | None = None, keepdims: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Index of the first smallest element, in the type of the data."""
    def argsort(self, axis: int | None = -1, is_ascend: bool = True, dtype: _DType = 'float32', *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """The positions of the elements in order along an axis."""
    def broadcast_axes(self, axis: int | Sequence[int] = (), size: int | Sequence[int] = (), *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Repeat single axes of extent 1."""
    def broadcast_like(self, rhs: _Array | None = None, lhs_axes: int | Sequence[int] | None = None, rhs_axes: int | Sequence[int] | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """lhs broadcast to the shape of rhs, or to single axes of it."""
    def cbrt(self, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Cube root."""
    def ceil(self, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Smallest integer not below."""
    def clip(self, a_min: float, a_max: float, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Limit the values to a_min … a_max; NaN stays."""
    def cos(self, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Cosine of an angle in radians."""
    def cosh(self, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Hyperbolic cosine."""
    def degrees(self, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Radians to degrees."""
    def depth_to_space(self, block_size: int, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Channels laid out as blocks in the plane: (N, B*B*C, H, W) becomes (N, C, H*B, W*B)."""
    def diag(self, k: int = 0, axis1: int = 0, axis2: int = 1, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """The diagonal of two axes, as a new last axis; of a vector: the matrix with that diagonal."""
    def exp(self, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """e ** x."""
    def expand_dims(self, axis: int, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """A new axis of extent 1."""
    def expm1(self, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """e ** x - 1 without cancellation."""
    def fix(self, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Nearest integer towards zero."""
    def flatten(self, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """All axes but the first folded into one."""
    def flip(self, axis: int | Sequence[int], *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Reverse the order along axes."""
    def floor(self, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Largest integer not above."""
    def log(self, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Natural logarithm."""
    def log10(self, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Logarithm to base 10."""
    def log1p(self, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """log(1 + x) without cancellation."""
    def log2(self, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Logarithm to base 2."""
    def log_softmax(self, axis: int = -1, temperature: float | None = None, dtype: _DType | None = None, use_length: bool | None = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """log(softmax(x)) without underflow."""
    def max(self, axis: int | Sequence[int] | None = None, keepdims: bool = False, exclude: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Largest element over axes; NaN wins."""
    def mean(self, axis: int | Sequence[int] | None = None, keepdims: bool = False, exclude: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Mean over axes; integers are cut towards zero."""
    def min(self, axis: int | Sequence[int] | None = None, keepdims: bool = False, exclude: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Smallest element over axes; NaN wins."""
    def nanprod(self, axis: int | Sequence[int] | None = None, keepdims: bool = False, exclude: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Product over axes, NaN counted as 1."""
    def nansum(self, axis: int | Sequence[int] | None = None, keepdims: bool = False, exclude: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Sum over axes, NaN counted as 0."""
    def norm(self, ord: int = 2, axis: int | Sequence[int] | None = None, out_dtype: _DType | None = None, keepdims: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Sum of absolute values (ord 1) or root of the sum of squares (ord 2)."""
    def one_hot(self, depth: int, on_value: float = 1.0, off_value: float = 0.0, dtype: _DType = 'float32', *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """A new last axis that is ``on_value`` at the index; indices out of range give no ``on_value``."""
    def ones_like(self, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Ones of the input's shape and type."""
    def pad(self, mode: Literal['constant', 'edge', 'reflect'] | str, pad_width: int | Sequence[int], constant_value: float = 0.0, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Surround the last axes of a 4-D or 5-D array with a constant, its edge, or its mirror image."""
    def pick(self, index: _Array | None = None, axis: int | None = -1, keepdims: bool = False, mode: Literal['clip', 'wrap'] | str = 'clip', *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """One entry along an axis for every position of the other axes."""
    def prod(self, axis: int | Sequence[int] | None = None, keepdims: bool = False, exclude: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Product over axes."""
    def radians(self, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Degrees to radians."""
    def rcbrt(self, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """1 / cbrt(x)."""
    def reciprocal(self, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """1 / x."""
    def relu(self, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """max(x, 0)."""
    def repeat(self, repeats: int, axis: int | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Every element repeated in place."""
    def reshape_like(self, rhs: _Array | None = None, lhs_begin: int | None = None, lhs_end: int | None = None, rhs_begin: int | None = None, rhs_end: int | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """lhs with the shape of rhs, or with axes begin … end replaced by those of rhs."""
    def rint(self, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Nearest integer, halves down."""
    def round(self, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Nearest integer, halves away from zero."""
    def rsqrt(self, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """1 / sqrt(x)."""
    def shape_array(self, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """The shape as an int64 array."""
    def sigmoid(self, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """1 / (1 + e ** -x)."""
    def sign(self, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """-1, 0 or 1; 0 for NaN."""
    def sin(self, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Sine of an angle in radians."""
    def sinh(self, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Hyperbolic sine."""
    def size_array(self, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """The number of elements as an int64 array."""
    def slice(self, begin: int | Sequence[int | None], end: int | Sequence[int | None], step: int | Sequence[int | None] | None = (), *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """A box of the array, as Python slices of the leading axes."""
    def slice_axis(self, axis: int, begin: int, end: int | None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """A slice of one axis."""
    def slice_like(self, shape_like: _Array | None = None, axes: int | Sequence[int] = (), *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """The start of every axis, as long as the other array's."""
    def softmax(self, length: _Array | None = None, axis: int = -1, temperature: float | None = None, dtype: _DType | None = None, use_length: bool | None = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """exp(x) / sum(exp(x)) along an axis."""
    def softmin(self, axis: int = -1, temperature: float | None = None, dtype: _DType | None = None, use_length: bool | None = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """softmax(-x)."""
    def sort(self, axis: int | None = -1, is_ascend: bool = True, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """The elements in order along an axis."""
    def space_to_depth(self, block_size: int, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Blocks of the plane stacked as channels: (N, C, H*B, W*B) becomes (N, B*B*C, H, W)."""
    def split(self, num_outputs: int, axis: int = 1, squeeze_axis: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Equal parts along an axis."""
    def split_v2(self, indices_or_sections: Any, axis: Any = 0, squeeze_axis: Any = False, name: Any = None) -> Any:
        """Split into equal parts (an integer) or at positions (a tuple)."""
    def sqrt(self, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Square root."""
    def square(self, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """x * x."""
    def squeeze(self, axis: int | Sequence[int] | None = None, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Drop axes of extent 1."""
    def sum(self, axis: int | Sequence[int] | None = None, keepdims: bool = False, exclude: bool = False, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Sum over axes."""
    def swapaxes(self, dim1: int = 0, dim2: int = 0, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Exchange two axes."""
    def take(self, indices: _Array | None = None, axis: int = 0, mode: Literal['clip', 'raise', 'wrap'] | str = 'clip', *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Entries of ``a`` along an axis; the shape of ``indices`` takes the place of the axis."""
    def tan(self, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Tangent of an angle in radians."""
    def tanh(self, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Hyperbolic tangent."""
    def tile(self, reps: int | Sequence[int], *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """The whole array repeated along its axes, as NumPy's tile."""
    def topk(self, axis: int | None = -1, k: int = 1, ret_typ: Literal['both', 'indices', 'mask', 'value'] | str = 'indices', is_ascend: bool = False, dtype: _DType = 'float32', *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """The k largest (or smallest) elements along an axis: their values, indices, both, or a mask of them."""
    def transpose(self, axes: int | Sequence[int] = (), *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Permute the axes."""
    def trunc(self, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """The integer part."""
    def zeros_like(self, *, out: Any = None, name: str | None = None, attr: dict[str, str] | None = None) -> _Array:
        """Zeros of the input's shape and type."""
