# SPDX-License-Identifier: Apache-2.0
# Made from records and definitions by `python docs/make_stubs.py`; do not edit.
"""Functions of ``mx.np``."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, overload

import numpy
from numpy.typing import ArrayLike

from hybridgpu.context import Context
from hybridgpu.ndarray.numpy.array import ndarray

_Array: TypeAlias = ndarray
_DType: TypeAlias = str | type[Any] | numpy.dtype[Any]
_Device: TypeAlias = Context | str

@overload
def abs(x: _Array, out: _Array | None = None) -> _Array: ...
@overload
def abs(x: float, out: _Array | None = None) -> float:
    """Absolute value."""
@overload
def absolute(x: _Array, out: _Array | None = None) -> _Array: ...
@overload
def absolute(x: float, out: _Array | None = None) -> float:
    """Absolute value."""
@overload
def add(x1: _Array, x2: _Array | float, out: _Array | None = None) -> _Array: ...
@overload
def add(x1: float, x2: _Array, out: _Array | None = None) -> _Array: ...
@overload
def add(x1: float, x2: float, out: _Array | None = None) -> float:
    """lhs + rhs (broadcasting)."""
def all(a: _Array, axis: int | Sequence[int] | None = None, keepdims: bool = False, out: _Array | None = None, initial: float | None = None, name: str | None = None) -> _Array:
    """Whether no element over axes is 0."""
def allclose(a: _Array | ArrayLike, b: _Array | ArrayLike, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    """Whether all elements are equal within ``atol + rtol * |b|``."""
def alltrue(a: _Array | ArrayLike, axis: int | Sequence[int] | None = None, out: _Array | None = None, keepdims: bool = False, where: Any = None) -> Any:
    """Whether no element over axes is 0."""
def amax(a: _Array, axis: int | Sequence[int] | None = None, keepdims: bool = False, out: _Array | None = None, initial: float | None = None, name: str | None = None) -> _Array:
    """The largest element over axes, all of them by default."""
def amin(a: _Array, axis: int | Sequence[int] | None = None, keepdims: bool = False, out: _Array | None = None, initial: float | None = None, name: str | None = None) -> _Array:
    """The smallest element over axes, all of them by default."""
def any(a: _Array, axis: int | Sequence[int] | None = None, keepdims: bool = False, out: _Array | None = None, initial: float | None = None, name: str | None = None) -> _Array:
    """Whether any element over axes is not 0."""
def append(arr: _Array, values: _Array | float, axis: int | None = None) -> _Array:
    """Two arrays joined along an axis; with axis None flattened, in a row."""
def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: _Array | ArrayLike, *args: _Array | ArrayLike) -> Any:
    """The results of a function of lines for each line along an axis, in its place."""
def apply_over_axes(func: Callable[..., Any], a: _Array | ArrayLike, axes: Any) -> Any:
    """The result of a function of an array and an axis, applied for one axis after the other; reduced axes stay."""
def arange(start: float, stop: float | None = None, step: float = 1, dtype: _DType | None = None, ctx: _Device | None = None) -> _Array:
    """Values at equal distances from start (0 by default) to before stop, float32 by default."""
@overload
def arccos(x: _Array, out: _Array | None = None) -> _Array: ...
@overload
def arccos(x: float, out: _Array | None = None) -> float:
    """Inverse cosine, radians."""
@overload
def arccosh(x: _Array, out: _Array | None = None) -> _Array: ...
@overload
def arccosh(x: float, out: _Array | None = None) -> float:
    """Inverse hyperbolic cosine."""
@overload
def arcsin(x: _Array, out: _Array | None = None) -> _Array: ...
@overload
def arcsin(x: float, out: _Array | None = None) -> float:
    """Inverse sine, radians."""
@overload
def arcsinh(x: _Array, out: _Array | None = None) -> _Array: ...
@overload
def arcsinh(x: float, out: _Array | None = None) -> float:
    """Inverse hyperbolic sine."""
@overload
def arctan(x: _Array, out: _Array | None = None) -> _Array: ...
@overload
def arctan(x: float, out: _Array | None = None) -> float:
    """Inverse tangent, radians."""
@overload
def arctan2(x1: _Array, x2: _Array | float, out: _Array | None = None) -> _Array: ...
@overload
def arctan2(x1: float, x2: _Array, out: _Array | None = None) -> _Array: ...
@overload
def arctan2(x1: float, x2: float, out: _Array | None = None) -> float:
    """angle of (x2, x1) (broadcasting)."""
@overload
def arctanh(x: _Array, out: _Array | None = None) -> _Array: ...
@overload
def arctanh(x: float, out: _Array | None = None) -> float:
    """Inverse hyperbolic tangent."""
def argmax(a: _Array, axis: int | None = None, out: _Array | None = None) -> _Array:
    """The index (int64) of the first largest element along an axis, or of the flattened array."""
def argmin(a: _Array, axis: int | None = None, out: _Array | None = None) -> _Array:
    """The index (int64) of the first smallest element along an axis, or of the flattened array."""
def argpartition(a: _Array | ArrayLike, kth: int | Sequence[int], axis: int | Sequence[int] | None = -1, kind: str = 'introselect', order: str | None = None) -> Any:
    """The positions of what ``partition`` gives; in a graph all in order."""
def argsort(a: _Array, axis: int | None = -1, kind: str | None = None, order: str | None = None) -> _Array:
    """The positions (int64) of the elements in ascending order along an axis; axis None flattens."""
def argwhere(a: Any) -> Any:
    """NumPy's ``argwhere`` of the values of arrays."""
@overload
def around(x: _Array, decimals: int = 0, out: _Array | None = None) -> _Array: ...
@overload
def around(x: float, decimals: int = 0, out: _Array | None = None) -> float:
    """Numbers rounded to so many decimals, halves to even."""
def array_equal(a1: _Array | ArrayLike, a2: _Array | ArrayLike, equal_nan: bool = False) -> Any:
    """Whether two arrays have one shape and equal elements."""
def array_equiv(a1: _Array | ArrayLike, a2: _Array | ArrayLike) -> Any:
    """Whether two arrays broadcast and have equal elements."""
def array_split(ary: _Array, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[_Array]:
    """Parts along an axis, the first ones longer by one if they cannot be equal, or between positions."""
def atleast_1d(*arys: _Array) -> Any:
    """The arrays with at least one axis."""
def atleast_2d(*arys: _Array) -> Any:
    """The arrays with at least two axes, new ones first."""
def atleast_3d(*arys: _Array) -> Any:
    """The arrays with at least three axes: (N,) becomes (1, N, 1), (M, N) becomes (M, N, 1)."""
def average(a: _Array, axis: int | Sequence[int] | None = None, weights: _Array | None = None, returned: bool = False, out: _Array | None = None) -> Any:
    """The mean over axes, weighted if there are weights; with ``returned`` the sum of the weights, too."""
def bincount(x: _Array | float, weights: _Array | None = None, minlength: int = 0) -> _Array:
    """How often each number that is not negative occurs, or the sum of its weights."""
@overload
def bitwise_and(x1: _Array, x2: _Array | float, out: _Array | None = None) -> _Array: ...
@overload
def bitwise_and(x1: float, x2: _Array, out: _Array | None = None) -> _Array: ...
@overload
def bitwise_and(x1: float, x2: float, out: _Array | None = None) -> float:
    """bits set in both (broadcasting)."""
@overload
def bitwise_not(x: _Array, out: _Array | None = None) -> _Array: ...
@overload
def bitwise_not(x: float, out: _Array | None = None) -> float:
    """Every bit the other way round; of bool: not."""
@overload
def bitwise_or(x1: _Array, x2: _Array | float, out: _Array | None = None) -> _Array: ...
@overload
def bitwise_or(x1: float, x2: _Array, out: _Array | None = None) -> _Array: ...
@overload
def bitwise_or(x1: float, x2: float, out: _Array | None = None) -> float:
    """bits set in either (broadcasting)."""
@overload
def bitwise_xor(x1: _Array, x2: _Array | float, out: _Array | None = None) -> _Array: ...
@overload
def bitwise_xor(x1: float, x2: _Array, out: _Array | None = None) -> _Array: ...
@overload
def bitwise_xor(x1: float, x2: float, out: _Array | None = None) -> float:
    """bits set in exactly one (broadcasting)."""
def blackman(M: int, dtype: _DType | None = ..., ctx: _Device | None = None) -> _Array:
    """The Blackman window of M points."""
def broadcast_arrays(*args: _Array) -> list[_Array]:
    """The arrays and numbers, each broadcast to the shape of all."""
def broadcast_to(array: _Array, shape: int | Sequence[int]) -> _Array:
    """Repeated along new axes, and along those of extent 1, up to a shape."""
@overload
def cbrt(x: _Array, out: _Array | None = None) -> _Array: ...
@overload
def cbrt(x: float, out: _Array | None = None) -> float:
    """Cube root."""
@overload
def ceil(x: _Array, out: _Array | None = None) -> _Array: ...
@overload
def ceil(x: float, out: _Array | None = None) -> float:
    """Smallest integer not below."""
def choose(a: _Array | ArrayLike, choices: _Array | ArrayLike | Sequence[_Array | ArrayLike], out: _Array | None = None, mode: str = 'raise') -> Any:
    """Of several arrays the element of the one that the number at its place says."""
def clip(a: _Array, a_min: float | None, a_max: float | None, out: _Array | None = None) -> _Array:
    """Values limited to a_min … a_max; None for no limit on that side."""
def column_stack(tup: Sequence[_Array]) -> _Array:
    """Vectors as columns, and matrices, side by side."""
def compress(condition: _Array | ArrayLike, a: _Array | ArrayLike, axis: int | Sequence[int] | None = None, out: _Array | None = None) -> Any:
    """The entries along an axis, or of the flattened array, where a condition holds, which is a list in a graph."""
def concatenate(seq: Sequence[_Array], axis: int | None = 0, out: _Array | None = None) -> _Array:
    """Arrays joined along an axis; with axis None flattened, in a row."""
def copy(a: _Array, out: _Array | None = None, name: str | None = None) -> _Array:
    """The same values in an array of its own."""
@overload
def copysign(x1: _Array, x2: _Array | float, out: _Array | None = None) -> _Array: ...
@overload
def copysign(x1: float, x2: _Array, out: _Array | None = None) -> _Array: ...
@overload
def copysign(x1: float, x2: float, out: _Array | None = None) -> float:
    """|lhs| with the sign of rhs (broadcasting)."""
def corrcoef(x: _Array | ArrayLike | float, y: _Array | ArrayLike | float | None = None, rowvar: bool = True, bias: _Array | ArrayLike | None = None, ddof: int | None = None, *, dtype: _DType | None = None) -> Any:
    """Correlation coefficients of variables, a row or (``rowvar`` False) a column each; in double precision by default."""
def correlate(a: _Array | ArrayLike, v: _Array | ArrayLike, mode: str = 'valid') -> Any:
    """The sums of products of a line with another one that is shifted along it."""
@overload
def cos(x: _Array, out: _Array | None = None) -> _Array: ...
@overload
def cos(x: float, out: _Array | None = None) -> float:
    """Cosine of an angle in radians."""
@overload
def cosh(x: _Array, out: _Array | None = None) -> _Array: ...
@overload
def cosh(x: float, out: _Array | None = None) -> float:
    """Hyperbolic cosine."""
def count_nonzero(a: _Array | ArrayLike, axis: int | Sequence[int] | None = None, *, keepdims: bool = False) -> Any:
    """How many elements are not 0, over axes."""
def cov(m: _Array | ArrayLike, y: _Array | ArrayLike | float | None = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None, fweights: _Array | ArrayLike | None = None, aweights: _Array | ArrayLike | None = None, *, dtype: _DType | None = None) -> Any:
    """Covariances of variables, a row or (``rowvar`` False) a column each; in double precision by default."""
def cumsum(a: _Array, axis: int | None = None, dtype: _DType | None = None, out: _Array | None = None, name: str | None = None) -> _Array:
    """Running sums along an axis, or of the flattened array; of bool in int64."""
def deg2rad(x: _Array | float, out: _Array | None = None) -> _Array:
    """numpy.deg2rad, elementwise; of a number, NumPy's own. ``out`` receives the result."""
@overload
def degrees(x: _Array, out: _Array | None = None) -> _Array: ...
@overload
def degrees(x: float, out: _Array | None = None) -> float:
    """Radians to degrees."""
def delete(arr: _Array, obj: int | slice | Sequence[int] | _Array, axis: int | Sequence[int] | None = None) -> _Array:
    """The array without the positions ``obj``: a number, a slice or an array."""
def diag(array: _Array, k: int = 0, out: _Array | None = None, name: str | None = None) -> _Array:
    """The k-th diagonal of a matrix, or the matrix with a vector as its k-th diagonal."""
def diag_indices_from(arr: _Array) -> tuple[_Array, ...]:
    """The positions of the main diagonal, an array of int64 an axis."""
def diagflat(array: _Array, k: int = 0, out: _Array | None = None, name: str | None = None) -> _Array:
    """The matrix whose k-th diagonal is the flattened array."""
def diagonal(a: _Array, offset: int = 0, axis1: int = 0, axis2: int = 1, out: _Array | None = None, name: str | None = None) -> _Array:
    """The diagonals of a plane of two axes, as the last axis."""
def diff(a: _Array, n: int = 1, axis: int = -1, prepend: None = None, append: None = None) -> _Array:
    """Differences of neighbours along an axis, ``n`` times."""
def digitize(x: _Array | ArrayLike | float, bins: int | str | Sequence[float] | _Array | ArrayLike, right: bool = False) -> Any:
    """The number of the bin of each element."""
@overload
def divide(x1: _Array, x2: _Array | float, out: _Array | None = None) -> _Array: ...
@overload
def divide(x1: float, x2: _Array, out: _Array | None = None) -> _Array: ...
@overload
def divide(x1: float, x2: float, out: _Array | None = None) -> float:
    """numpy.divide of two arrays that broadcast, or of an array and a number. ``out`` receives the result."""
def divmod(x1: _Array | ArrayLike | float, x2: _Array | ArrayLike | float, out: _Array | None = None) -> tuple[Any, Any]:
    """The quotient rounded down, and the remainder with the sign of ``x2``."""
def dot(a: _Array, b: _Array, out: _Array | None = None, name: str | None = None) -> _Array:
    """The sum over the last axis of a and the last but one (of vectors the only one) of b."""
def dsplit(ary: _Array, indices_or_sections: int | Sequence[int]) -> list[_Array]:
    """Parts along the third axis."""
def dstack(arrays: Sequence[_Array]) -> _Array:
    """Arrays joined along the third axis."""
def ediff1d(ary: _Array, to_end: _Array | float | None = None, to_begin: _Array | float | None = None) -> _Array:
    """Differences of neighbours of the flattened array, between ``to_begin`` and ``to_end``."""
def einsum(*operands: Any) -> _Array:
    """Sum of products over labelled axes: ``einsum("ij,jk->ik", a, b)``."""
def empty(shape: int | Sequence[int], dtype: _DType | None = ..., order: str = 'C', ctx: _Device | None = None) -> _Array:
    """An array whose values do not count, float32 by default."""
def empty_like(prototype: _Array, dtype: _DType | None = None, order: str = 'C', subok: bool = False, shape: int | Sequence[int] | None = None) -> _Array:
    """An array in the shape of another, and in its type by default, whose values do not count."""
@overload
def equal(x1: _Array, x2: _Array | float, out: _Array | None = None) -> _Array: ...
@overload
def equal(x1: float, x2: _Array, out: _Array | None = None) -> _Array: ...
@overload
def equal(x1: float, x2: float, out: _Array | None = None) -> float:
    """lhs == rhs (broadcasting)."""
@overload
def exp(x: _Array, out: _Array | None = None) -> _Array: ...
@overload
def exp(x: float, out: _Array | None = None) -> float:
    """e ** x."""
def expand_dims(a: _Array, axis: int) -> _Array:
    """With a new axis of extent 1."""
@overload
def expm1(x: _Array, out: _Array | None = None) -> _Array: ...
@overload
def expm1(x: float, out: _Array | None = None) -> float:
    """e ** x - 1 without cancellation."""
def extract(condition: _Array | ArrayLike, arr: _Array | ArrayLike) -> Any:
    """The elements of the flattened array where a condition holds, which is a list in a graph."""
def eye(N: int, M: int | None = None, k: int = 0, dtype: _DType | None = ...) -> _Array:
    """Ones on the k-th diagonal, float32 by default."""
def fabs(x: _Array | float, out: _Array | None = None) -> _Array:
    """numpy.fabs, elementwise; of a number, NumPy's own. ``out`` receives the result."""
@overload
def fix(x: _Array, out: _Array | None = None) -> _Array: ...
@overload
def fix(x: float, out: _Array | None = None) -> float:
    """Nearest integer towards zero."""
def flatnonzero(a: Any) -> Any:
    """NumPy's ``flatnonzero`` of the values of arrays."""
def flip(m: _Array, axis: int | Sequence[int] | None = None, out: _Array | None = None) -> _Array:
    """The order of elements reversed along axes, all of them by default."""
def fliplr(m: _Array) -> _Array:
    """Columns in reverse order."""
def flipud(m: _Array) -> _Array:
    """Rows in reverse order."""
def float_power(x1: _Array | ArrayLike | float, x2: _Array | ArrayLike | float, out: _Array | None = None) -> Any:
    """x1 to the power x2, in double precision."""
@overload
def floor(x: _Array, out: _Array | None = None) -> _Array: ...
@overload
def floor(x: float, out: _Array | None = None) -> float:
    """Largest integer not above."""
def frexp(x: _Array | ArrayLike | float, out: _Array | None = None) -> Any:
    """Numbers from 0.5 to 1, with the sign of x, and exponents (int32) of 2."""
def full(shape: int | Sequence[int], fill_value: _Array | float, dtype: _DType | None = None, order: str = 'C', ctx: _Device | None = None, out: _Array | None = None) -> _Array:
    """One value everywhere, or an array that is broadcast; float32 by default, bool for True and False."""
def full_like(a: _Array, fill_value: _Array | float, dtype: _DType | None = None, order: str = 'C', ctx: _Device | None = None, out: _Array | None = None) -> _Array:
    """One value everywhere, in the shape of an array, and in its type by default."""
@overload
def greater(x1: _Array, x2: _Array | float, out: _Array | None = None) -> _Array: ...
@overload
def greater(x1: float, x2: _Array, out: _Array | None = None) -> _Array: ...
@overload
def greater(x1: float, x2: float, out: _Array | None = None) -> float:
    """lhs > rhs (broadcasting)."""
@overload
def greater_equal(x1: _Array, x2: _Array | float, out: _Array | None = None) -> _Array: ...
@overload
def greater_equal(x1: float, x2: _Array, out: _Array | None = None) -> _Array: ...
@overload
def greater_equal(x1: float, x2: float, out: _Array | None = None) -> float:
    """lhs >= rhs (broadcasting)."""
def hamming(M: int, dtype: _DType | None = ..., ctx: _Device | None = None) -> _Array:
    """The Hamming window of M points."""
def hanning(M: int, dtype: _DType | None = ..., ctx: _Device | None = None) -> _Array:
    """The Hanning window of M points."""
def heaviside(x1: _Array | ArrayLike | float, x2: _Array | ArrayLike | float, out: _Array | None = None) -> Any:
    """0 below 0, 1 above, ``x2`` at 0."""
def histogram(a: _Array, bins: int | str | Sequence[float] | _Array = 10, range: tuple[float, float] | None = None, normed: bool | None = None, weights: _Array | None = None, density: bool | None = None) -> tuple[_Array, _Array]:
    """How many elements lie in each bin, and the edges of the bins: a number with a range, or an array of edges."""
def histogram2d(x: _Array | ArrayLike | float, y: _Array | ArrayLike | float, bins: int | str | Sequence[float] | _Array | ArrayLike = 10, range: tuple[float, float] | None = None, normed: bool | None = None, weights: _Array | ArrayLike | None = None, density: bool | None = None) -> Any:
    """How many points lie in each rectangle, and the edges along both axes."""
def histogram_bin_edges(a: _Array | ArrayLike, bins: int | str | Sequence[float] | _Array | ArrayLike = 10, range: tuple[float, float] | None = None, weights: _Array | ArrayLike | None = None) -> Any:
    """The edges of bins of one width; where the bins are chosen by a rule, such as 'auto', values say how many."""
def histogramdd(sample: _Array | ArrayLike | Sequence[_Array | ArrayLike], bins: int | str | Sequence[float] | _Array | ArrayLike = 10, range: tuple[float, float] | None = None, normed: bool | None = None, weights: _Array | ArrayLike | None = None, density: bool | None = None) -> Any:
    """How many points lie in each box, and the list of the edges along each axis; a point is a row, or there is a list of"""
def hsplit(ary: _Array, indices_or_sections: int | Sequence[int]) -> list[_Array]:
    """Parts along the second axis, of vectors along their only one."""
def hstack(arrays: Sequence[_Array]) -> _Array:
    """Arrays joined along the second axis, vectors along their only one."""
@overload
def hypot(x1: _Array, x2: _Array | float, out: _Array | None = None) -> _Array: ...
@overload
def hypot(x1: float, x2: _Array, out: _Array | None = None) -> _Array: ...
@overload
def hypot(x1: float, x2: float, out: _Array | None = None) -> float:
    """sqrt(x1**2 + x2**2) (broadcasting)."""
def i0(x: _Array | ArrayLike | float) -> Any:
    """The modified Bessel function of the first kind and order 0."""
def identity(n: int, dtype: _DType | None = None, ctx: _Device | None = None) -> _Array:
    """The square matrix with ones on its diagonal, float32 by default."""
def in1d(ar1: _Array | ArrayLike, ar2: _Array | ArrayLike, assume_unique: bool = False, invert: bool = False) -> Any:
    """Which elements of the flattened array are among others."""
def indices(dimensions: int | Sequence[int], dtype: _DType | None = ..., ctx: _Device | None = None) -> _Array:
    """The positions of a grid's elements, int32 by default."""
def inner(a: _Array, b: _Array) -> _Array:
    """The sum over the last axes."""
def insert(arr: _Array, obj: int | slice | Sequence[int] | _Array, values: _Array | float, axis: int | Sequence[int] | None = None) -> _Array:
    """The array with values before the positions ``obj``: a number, a slice or an array."""
def interp(x: _Array | ArrayLike | float, xp: _Array | ArrayLike, fp: _Array | ArrayLike, left: float | None = None, right: float | None = None, period: float | None = None) -> Any:
    """The values at ``x`` of straight lines between the points (xp, fp), in double precision."""
def intersect1d(ar1: Any, ar2: Any, assume_unique: Any = False, return_indices: Any = False) -> Any:
    """NumPy's ``intersect1d`` of the values of arrays."""
def invert(x: _Array | float, out: _Array | None = None) -> _Array:
    """numpy.invert, elementwise; of a number, NumPy's own. ``out`` receives the result."""
def isclose(a: _Array | ArrayLike, b: _Array | ArrayLike, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    """Whether elements are equal within ``atol + rtol * |b|``."""
@overload
def isfinite(x: _Array, out: _Array | None = None) -> _Array: ...
@overload
def isfinite(x: float, out: _Array | None = None) -> float:
    """True for all but NaN and infinities."""
def isin(element: _Array | ArrayLike | ArrayLike, test_elements: ArrayLike, assume_unique: bool = False, invert: bool = False) -> Any:
    """Which elements are among others."""
@overload
def isinf(x: _Array, out: _Array | None = None) -> _Array: ...
@overload
def isinf(x: float, out: _Array | None = None) -> float:
    """True for both infinities."""
@overload
def isnan(x: _Array, out: _Array | None = None) -> _Array: ...
@overload
def isnan(x: float, out: _Array | None = None) -> float:
    """True for NaN."""
@overload
def isneginf(x: _Array, out: _Array | None = None) -> _Array: ...
@overload
def isneginf(x: float, out: _Array | None = None) -> float:
    """True for minus infinity."""
@overload
def isposinf(x: _Array, out: _Array | None = None) -> _Array: ...
@overload
def isposinf(x: float, out: _Array | None = None) -> float:
    """True for infinity."""
def ix_(*args: _Array | ArrayLike) -> Any:
    """Lines of positions with an axis for each, so that they broadcast to the positions of all combinations."""
@overload
def lcm(x1: _Array, x2: _Array | float, out: _Array | None = None) -> _Array: ...
@overload
def lcm(x1: float, x2: _Array, out: _Array | None = None) -> _Array: ...
@overload
def lcm(x1: float, x2: float, out: _Array | None = None) -> float:
    """least common multiple (broadcasting)."""
@overload
def ldexp(x1: _Array, x2: _Array | float, out: _Array | None = None) -> _Array: ...
@overload
def ldexp(x1: float, x2: _Array, out: _Array | None = None) -> _Array: ...
@overload
def ldexp(x1: float, x2: float, out: _Array | None = None) -> float:
    """lhs * 2**rhs (broadcasting)."""
@overload
def less(x1: _Array, x2: _Array | float, out: _Array | None = None) -> _Array: ...
@overload
def less(x1: float, x2: _Array, out: _Array | None = None) -> _Array: ...
@overload
def less(x1: float, x2: float, out: _Array | None = None) -> float:
    """lhs < rhs (broadcasting)."""
@overload
def less_equal(x1: _Array, x2: _Array | float, out: _Array | None = None) -> _Array: ...
@overload
def less_equal(x1: float, x2: _Array, out: _Array | None = None) -> _Array: ...
@overload
def less_equal(x1: float, x2: float, out: _Array | None = None) -> float:
    """lhs <= rhs (broadcasting)."""
def lexsort(keys: _Array | ArrayLike | Sequence[_Array | ArrayLike], axis: int = -1) -> Any:
    """The positions (int64) in the order of the last key, of equal ones in that of the key before it, and so on."""
def linspace(start: float, stop: float | None, num: int = 50, endpoint: bool = True, retstep: bool = False, dtype: _DType | None = None, axis: int = 0, ctx: _Device | None = None) -> Any:
    """``num`` values at equal distances from start to stop, float32 by default; with ``retstep`` the distance, too."""
@overload
def log(x: _Array, out: _Array | None = None) -> _Array: ...
@overload
def log(x: float, out: _Array | None = None) -> float:
    """Natural logarithm."""
@overload
def log10(x: _Array, out: _Array | None = None) -> _Array: ...
@overload
def log10(x: float, out: _Array | None = None) -> float:
    """Logarithm to base 10."""
@overload
def log1p(x: _Array, out: _Array | None = None) -> _Array: ...
@overload
def log1p(x: float, out: _Array | None = None) -> float:
    """log(1 + x) without cancellation."""
@overload
def log2(x: _Array, out: _Array | None = None) -> _Array: ...
@overload
def log2(x: float, out: _Array | None = None) -> float:
    """Logarithm to base 2."""
@overload
def logical_not(x: _Array, out: _Array | None = None) -> _Array: ...
@overload
def logical_not(x: float, out: _Array | None = None) -> float:
    """True where x is 0."""
def logspace(start: float, stop: float | None, num: int = 50, endpoint: bool = True, base: float = 10.0, dtype: _DType | None = None, axis: int = 0, ctx: _Device | None = None) -> _Array:
    """``num`` powers of a base whose exponents lie at equal distances from start to stop, float32 by default."""
def matmul(a: _Array, b: _Array, out: _Array | None = None) -> _Array:
    """Matrix products of the last two axes; the others broadcast."""
def max(a: _Array, axis: int | Sequence[int] | None = None, keepdims: bool = False, out: _Array | None = None, initial: float | None = None, name: str | None = None) -> _Array:
    """The largest element over axes, all of them by default."""
@overload
def maximum(x1: _Array, x2: _Array | float, out: _Array | None = None) -> _Array: ...
@overload
def maximum(x1: float, x2: _Array, out: _Array | None = None) -> _Array: ...
@overload
def maximum(x1: float, x2: float, out: _Array | None = None) -> float:
    """the larger; NaN if either is NaN (broadcasting)."""
def may_share_memory(a: _Array, b: _Array, max_work: int | None = None) -> bool:
    """Whether two arrays lie in the same memory."""
def mean(a: _Array, axis: int | Sequence[int] | None = None, dtype: _DType | None = None, out: _Array | None = None, keepdims: bool = False) -> _Array:
    """The mean over axes, all of them by default; of integers in float32."""
def meshgrid(*xi: _Array) -> list[_Array]:
    """The coordinates of a grid from those of its axes: an array an axis, each of the grid's shape."""
def min(a: _Array, axis: int | Sequence[int] | None = None, keepdims: bool = False, out: _Array | None = None, initial: float | None = None, name: str | None = None) -> _Array:
    """The smallest element over axes, all of them by default."""
def min_scalar_type(*args: Any, **kwargs: Any) -> Any:
    """NumPy's ``min_scalar_type`` of the values of arrays."""
@overload
def minimum(x1: _Array, x2: _Array | float, out: _Array | None = None) -> _Array: ...
@overload
def minimum(x1: float, x2: _Array, out: _Array | None = None) -> _Array: ...
@overload
def minimum(x1: float, x2: float, out: _Array | None = None) -> float:
    """the smaller; NaN if either is NaN (broadcasting)."""
def mirr(*args: Any, **kwargs: Any) -> Any:
    """Removed from NumPy 1.20; numpy_financial has it."""
@overload
def mod(x1: _Array, x2: _Array | float, out: _Array | None = None) -> _Array: ...
@overload
def mod(x1: float, x2: _Array, out: _Array | None = None) -> _Array: ...
@overload
def mod(x1: float, x2: float, out: _Array | None = None) -> float:
    """remainder with the sign of rhs (broadcasting)."""
def modf(x: _Array | ArrayLike | float, out: _Array | None = None) -> tuple[Any, Any]:
    """The part behind the point and the whole part, both with the sign of the number."""
def moveaxis(a: _Array, source: int | Sequence[int], destination: int | Sequence[int], out: _Array | None = None, name: str | None = None) -> _Array:
    """Axes at other places; the others keep their order."""
def msort(a: _Array | ArrayLike) -> Any:
    """The elements in ascending order along the first axis."""
@overload
def multiply(x1: _Array, x2: _Array | float, out: _Array | None = None) -> _Array: ...
@overload
def multiply(x1: float, x2: _Array, out: _Array | None = None) -> _Array: ...
@overload
def multiply(x1: float, x2: float, out: _Array | None = None) -> float:
    """lhs * rhs (broadcasting)."""
@overload
def nan_to_num(x: _Array, copy: bool = True, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> _Array: ...
@overload
def nan_to_num(x: float, copy: bool = True, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> float:
    """Numbers in the place of NaN and infinities; ``copy=False`` writes them into ``x``."""
def nanargmax(a: _Array | ArrayLike, axis: int | Sequence[int] | None = None, out: _Array | None = None, *, keepdims: bool = False) -> Any:
    """The position (int64) of the largest element along an axis, or of the flattened array, that is not NaN."""
def nanargmin(a: _Array | ArrayLike, axis: int | Sequence[int] | None = None, out: _Array | None = None, *, keepdims: bool = False) -> Any:
    """The position (int64) of the smallest element along an axis, or of the flattened array, that is not NaN."""
def nancumprod(a: _Array | ArrayLike, axis: int | Sequence[int] | None = None, dtype: _DType | None = None, out: _Array | None = None) -> Any:
    """Running products along an axis, or of the flattened array, with NaN as 1; of integers in int64."""
def nancumsum(a: _Array | ArrayLike, axis: int | Sequence[int] | None = None, dtype: _DType | None = None, out: _Array | None = None) -> Any:
    """Running sums along an axis, or of the flattened array, with NaN as 0; of integers in int64."""
def nanmax(a: _Array | ArrayLike, axis: int | Sequence[int] | None = None, out: _Array | None = None, keepdims: bool = False, initial: float | None = None, where: Any = None) -> Any:
    """Largest element over axes that is not NaN; NaN if there is none."""
def nanmedian(a: _Array | ArrayLike, axis: int | Sequence[int] | None = None, out: _Array | None = None, overwrite_input: bool = False, keepdims: bool = False) -> Any:
    """The median over axes of the elements that are not NaN."""
def nanmin(a: _Array | ArrayLike, axis: int | Sequence[int] | None = None, out: _Array | None = None, keepdims: bool = False, initial: float | None = None, where: Any = None) -> Any:
    """Smallest element over axes that is not NaN; NaN if there is none."""
def nanpercentile(a: _Array | ArrayLike, q: _Array | ArrayLike | float, axis: int | Sequence[int] | None = None, out: _Array | None = None, overwrite_input: bool = False, method: str = 'linear', keepdims: bool = False, *, interpolation: str | None = None) -> Any:
    """Percentiles over axes of the elements that are not NaN."""
def nanprod(a: _Array | ArrayLike, axis: int | Sequence[int] | None = None, dtype: _DType | None = None, out: _Array | None = None, keepdims: bool = False, initial: float | None = None, where: Any = None) -> Any:
    """The product over axes, all of them by default, with NaN as 1; of integers in int64."""
def nanquantile(a: _Array | ArrayLike, q: _Array | ArrayLike | float, axis: int | Sequence[int] | None = None, out: _Array | None = None, overwrite_input: bool = False, method: str = 'linear', keepdims: bool = False, *, interpolation: str | None = None) -> Any:
    """Quantiles over axes of the elements that are not NaN."""
def ndim(a: _Array | ArrayLike) -> int:
    """The number of axes."""
@overload
def negative(x: _Array, out: _Array | None = None) -> _Array: ...
@overload
def negative(x: float, out: _Array | None = None) -> float:
    """The negative."""
def nonzero(a: _Array) -> tuple[_Array, ...]:
    """The positions of elements that are not zero, an array an axis."""
@overload
def not_equal(x1: _Array, x2: _Array | float, out: _Array | None = None) -> _Array: ...
@overload
def not_equal(x1: float, x2: _Array, out: _Array | None = None) -> _Array: ...
@overload
def not_equal(x1: float, x2: float, out: _Array | None = None) -> float:
    """lhs != rhs (broadcasting)."""
def npv(*args: Any, **kwargs: Any) -> Any:
    """Removed from NumPy 1.20; numpy_financial has it."""
def ones(shape: int | Sequence[int], dtype: _DType | None = ..., order: str = 'C', ctx: _Device | None = None) -> _Array:
    """Ones, float32 by default."""
def ones_like(a: _Array, dtype: _DType | None = None, order: str = 'C', ctx: _Device | None = None, out: _Array | None = None) -> _Array:
    """Ones in the shape of an array, and in its type by default."""
def outer(a: _Array, b: _Array) -> _Array:
    """Products of all pairs of elements."""
def packbits(a: _Array | ArrayLike, axis: int | Sequence[int] | None = None, bitorder: str = 'big') -> Any:
    """Eight elements along an axis, or of the flattened array, as the bits of one (uint8)."""
def pad(x: _Array | float, pad_width: int | Sequence[int] | Sequence[Sequence[int]] | None = None, mode: str | Callable[..., Any] = 'constant') -> _Array:
    """The array with more elements at both ends of its axes."""
def partition(a: _Array | ArrayLike, kth: int | Sequence[int], axis: int | Sequence[int] | None = -1, kind: str = 'introselect', order: str | None = None) -> Any:
    """The elements along an axis, those before ``kth`` not larger; in a graph all in order."""
def percentile(a: _Array, q: _Array | float, axis: int | Sequence[int] | None = None, out: _Array | None = None, overwrite_input: bool | None = None, interpolation: str = 'linear', keepdims: bool = False) -> _Array:
    """Percentiles over axes, all of them by default."""
def piecewise(x: _Array | ArrayLike | float, condlist: Sequence[_Array | ArrayLike], funclist: Sequence[Any], *args: _Array | ArrayLike) -> Any:
    """Functions of x, or numbers, each where its condition holds; one more than conditions counts where none does."""
def poly(seq_of_zeros: _Array | ArrayLike) -> Any:
    """The polynomial with these zeros."""
def polyadd(a1: _Array | ArrayLike, a2: _Array | ArrayLike) -> Any:
    """numpy.polyadd: coefficients of a polynomial, the highest power first."""
def polydiv(u: Any, v: Any) -> Any:
    """NumPy's ``polydiv`` of the values of arrays."""
def polyfit(x: _Array | ArrayLike | float, y: _Array | ArrayLike | float, deg: int, rcond: _Array | ArrayLike | float | str | None = None, full: bool = False, w: _Array | ArrayLike | None = None, cov: _Array | ArrayLike | bool | str = False) -> Any:
    """The polynomial of the degree ``deg`` nearest to points, by least squares, in double precision."""
def polyint(p: Any, m: int = 1, k: int | None = None) -> Any:
    """The integral of a polynomial, taken ``m`` times with the constants ``k``, in double precision."""
def polymul(a1: _Array | ArrayLike, a2: _Array | ArrayLike) -> Any:
    """The product of two polynomials."""
def polysub(a1: _Array | ArrayLike, a2: _Array | ArrayLike) -> Any:
    """numpy.polysub: coefficients of a polynomial, the highest power first."""
def polyval(p: Any, x: _Array | float) -> _Array:
    """The polynomial with the coefficients ``p``, the highest first, at ``x``."""
def positive(x: _Array | ArrayLike | float, out: _Array | None = None) -> Any:
    """A copy."""
@overload
def power(x1: _Array, x2: _Array | float, out: _Array | None = None) -> _Array: ...
@overload
def power(x1: float, x2: _Array, out: _Array | None = None) -> _Array: ...
@overload
def power(x1: float, x2: float, out: _Array | None = None) -> float:
    """lhs ** rhs (broadcasting)."""
def ppmt(*args: Any, **kwargs: Any) -> Any:
    """Removed from NumPy 1.20; numpy_financial has it."""
def prod(a: _Array, axis: int | Sequence[int] | None = None, dtype: _DType | None = None, out: _Array | None = None, keepdims: bool = False, initial: float | None = None, name: str | None = None) -> _Array:
    """The product over axes, all of them by default; of bool in int64."""
def product(a: _Array, axis: int | Sequence[int] | None = None, dtype: _DType | None = None, out: _Array | None = None, keepdims: bool = False, initial: float | None = None, name: str | None = None) -> _Array:
    """The product over axes, all of them by default; of bool in int64."""
def promote_types(*args: Any, **kwargs: Any) -> Any:
    """NumPy's ``promote_types`` of the values of arrays."""
def ptp(a: _Array | ArrayLike, axis: int | Sequence[int] | None = None, out: _Array | None = None, keepdims: bool = False) -> Any:
    """The largest less the smallest element over axes."""
def pv(*args: Any, **kwargs: Any) -> Any:
    """Removed from NumPy 1.20; numpy_financial has it."""
def quantile(a: _Array, q: _Array | float, axis: int | Sequence[int] | None = None, out: _Array | None = None, overwrite_input: bool | None = None, interpolation: str = 'linear', keepdims: bool = False) -> _Array:
    """Quantiles over axes, all of them by default."""
def rad2deg(x: _Array | float, out: _Array | None = None) -> _Array:
    """numpy.rad2deg, elementwise; of a number, NumPy's own. ``out`` receives the result."""
@overload
def radians(x: _Array, out: _Array | None = None) -> _Array: ...
@overload
def radians(x: float, out: _Array | None = None) -> float:
    """Degrees to radians."""
def rate(*args: Any, **kwargs: Any) -> Any:
    """Removed from NumPy 1.20; numpy_financial has it."""
def ravel(x: _Array | float, order: str = 'C') -> _Array:
    """All elements in a row."""
def real(val: _Array | ArrayLike) -> Any:
    """The array itself: its numbers are real."""
@overload
def reciprocal(x: _Array, out: _Array | None = None) -> _Array: ...
@overload
def reciprocal(x: float, out: _Array | None = None) -> float:
    """1 / x."""
@overload
def remainder(x1: _Array, x2: _Array | float, out: _Array | None = None) -> _Array: ...
@overload
def remainder(x1: float, x2: _Array, out: _Array | None = None) -> _Array: ...
@overload
def remainder(x1: float, x2: float, out: _Array | None = None) -> float:
    """numpy.remainder of two arrays that broadcast, or of an array and a number. ``out`` receives the result."""
def repeat(a: _Array, repeats: int | Sequence[int], axis: int | None = None, out: _Array | None = None, name: str | None = None) -> _Array:
    """Each element several times, along an axis or of the flattened array."""
def reshape(a: _Array, newshape: int | Sequence[int], order: str = 'C', out: _Array | None = None, name: str | None = None) -> _Array:
    """The same elements under another shape, of which one extent may be -1."""
def resize(a: _Array, new_shape: int | Sequence[int]) -> _Array:
    """The elements again and again until the shape is filled."""
def result_type(*arrays_and_dtypes: Any) -> Any:
    """NumPy's ``result_type`` of the values of arrays."""
@overload
def rint(x: _Array, out: _Array | None = None) -> _Array: ...
@overload
def rint(x: float, out: _Array | None = None) -> float:
    """Nearest integer, halves down."""
def roll(a: _Array, shift: int | Sequence[int], axis: int | Sequence[int] | None = None, out: _Array | None = None, name: str | None = None) -> _Array:
    """Elements shifted along axes, or of the flattened array."""
def rollaxis(a: _Array | ArrayLike, axis: int, start: int = 0) -> Any:
    """An axis moved before another one."""
def roots(p: Any) -> Any:
    """NumPy's ``roots`` of the values of arrays."""
def rot90(m: _Array, k: int = 1, axes: Any = (0, 1)) -> _Array:
    """Turned by right angles in the plane of two axes, from the first towards the second."""
@overload
def round(x: _Array, decimals: int = 0, out: _Array | None = None) -> _Array: ...
@overload
def round(x: float, decimals: int = 0, out: _Array | None = None) -> float:
    """Numbers rounded to so many decimals, halves to even."""
@overload
def round_(x: _Array, decimals: int = 0, out: _Array | None = None) -> _Array: ...
@overload
def round_(x: float, decimals: int = 0, out: _Array | None = None) -> float:
    """Numbers rounded to so many decimals, halves to even."""
def row_stack(arrays: Sequence[_Array]) -> _Array:
    """Arrays joined as rows."""
def searchsorted(a: _Array | ArrayLike, v: _Array | ArrayLike, side: str = 'left', sorter: _Array | ArrayLike | None = None) -> Any:
    """The positions at which numbers would keep an ordered array in order."""
def select(condlist: Sequence[_Array | ArrayLike], choicelist: Sequence[_Array | ArrayLike], default: _Array | ArrayLike | float = 0) -> Any:
    """Of several arrays the first whose condition holds, else ``default``."""
def setdiff1d(ar1: Any, ar2: Any, assume_unique: Any = False) -> Any:
    """NumPy's ``setdiff1d`` of the values of arrays."""
def setxor1d(ar1: Any, ar2: Any, assume_unique: Any = False) -> Any:
    """NumPy's ``setxor1d`` of the values of arrays."""
def shape(a: _Array) -> tuple[int, ...]:
    """The extents."""
def shares_memory(a: _Array, b: _Array, max_work: int | None = None) -> bool:
    """Whether two arrays lie in the same memory."""
@overload
def sign(x: _Array, out: _Array | None = None) -> _Array: ...
@overload
def sign(x: float, out: _Array | None = None) -> float:
    """-1, 0 or 1; 0 for NaN."""
def signbit(x: _Array | ArrayLike | float, out: _Array | None = None) -> Any:
    """Whether the sign is minus."""
@overload
def sin(x: _Array, out: _Array | None = None) -> _Array: ...
@overload
def sin(x: float, out: _Array | None = None) -> float:
    """Sine of an angle in radians."""
@overload
def sinh(x: _Array, out: _Array | None = None) -> _Array: ...
@overload
def sinh(x: float, out: _Array | None = None) -> float:
    """Hyperbolic sine."""
def size(a: _Array | ArrayLike, axis: int | None = None) -> int:
    """The number of elements, or of those along an axis."""
def sometrue(a: _Array, axis: int | Sequence[int] | None = None, keepdims: bool = False, out: _Array | None = None, initial: float | None = None, name: str | None = None) -> _Array:
    """Whether any element over axes is not 0."""
def sort(a: _Array, axis: int | None = -1, kind: str | None = None, order: str | None = None) -> _Array:
    """The elements in ascending order along an axis; axis None flattens."""
def spacing(x: _Array | ArrayLike | float, out: _Array | None = None) -> Any:
    """The distance of each number to the next one away from 0."""
def split(ary: _Array, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[_Array]:
    """Parts along an axis: equal ones, or between positions."""
@overload
def sqrt(x: _Array, out: _Array | None = None) -> _Array: ...
@overload
def sqrt(x: float, out: _Array | None = None) -> float:
    """Square root."""
@overload
def square(x: _Array, out: _Array | None = None) -> _Array: ...
@overload
def square(x: float, out: _Array | None = None) -> float:
    """x * x."""
def squeeze(a: _Array, axis: int | Sequence[int] | None = None, out: _Array | None = None, name: str | None = None) -> _Array:
    """Without axes of extent 1: all of them, or those given."""
def stack(arrays: Sequence[_Array], axis: int = 0, out: _Array | None = None) -> _Array:
    """Arrays joined along a new axis."""
def std(a: _Array, axis: int | Sequence[int] | None = None, dtype: _DType | None = None, out: _Array | None = None, ddof: int = 0, keepdims: bool = False) -> _Array:
    """The standard deviation over axes; ``ddof`` is subtracted from the number of elements."""
@overload
def subtract(x1: _Array, x2: _Array | float, out: _Array | None = None) -> _Array: ...
@overload
def subtract(x1: float, x2: _Array, out: _Array | None = None) -> _Array: ...
@overload
def subtract(x1: float, x2: float, out: _Array | None = None) -> float:
    """lhs - rhs (broadcasting)."""
def sum(a: _Array, axis: int | Sequence[int] | None = None, dtype: _DType | None = None, keepdims: bool = False, initial: float | None = None, out: _Array | None = None, name: str | None = None) -> _Array:
    """The sum over axes, all of them by default; of bool in int64."""
def swapaxes(a: _Array, axis1: int, axis2: int) -> _Array:
    """Two axes exchanged."""
def take(a: _Array, indices: _Array, axis: int | None = None, mode: str = 'raise', out: _Array | None = None) -> _Array:
    """Entries along an axis, or of the flattened array; the shape of the indices takes the place of the axis."""
def take_along_axis(arr: _Array | ArrayLike, indices: _Array | ArrayLike, axis: int | Sequence[int] | None) -> Any:
    """The elements at positions along an axis; ``indices`` has as many axes as the array."""
@overload
def tan(x: _Array, out: _Array | None = None) -> _Array: ...
@overload
def tan(x: float, out: _Array | None = None) -> float:
    """Tangent of an angle in radians."""
@overload
def tanh(x: _Array, out: _Array | None = None) -> _Array: ...
@overload
def tanh(x: float, out: _Array | None = None) -> float:
    """Hyperbolic tangent."""
def tensordot(a: _Array, b: _Array, axes: Any = 2) -> _Array:
    """The sum over so many last axes of a and first ones of b, or over pairs of axes."""
def tile(A: _Array, reps: int | Sequence[int] | _Array) -> _Array:
    """The whole array repeated along its axes."""
def trace(a: _Array, offset: int = 0, axis1: int = 0, axis2: int = 1, out: _Array | None = None, name: str | None = None) -> _Array:
    """The sums of the diagonals of a plane of two axes."""
def transpose(a: _Array, axes: Any = None, name: str | None = None, out: _Array | None = None) -> _Array:
    """The axes in another order, reversed by default."""
def trapz(y: _Array | ArrayLike | float, x: _Array | ArrayLike | float | None = None, dx: float = 1.0, axis: int = -1) -> Any:
    """The integral along an axis by the trapezoidal rule, between positions ``x`` or at the distance ``dx``."""
def tril(m: _Array, k: int = 0) -> _Array:
    """Matrices with zeros above the k-th diagonal."""
def tril_indices_from(arr: _Array | ArrayLike, k: int = 0) -> Any:
    """Lower triangle of a matrix: the rows and the columns (int64) of its elements."""
def trim_zeros(filt: Any, trim: Any = 'fb', axis: Any = None) -> Any:
    """NumPy's ``trim_zeros`` of the values of arrays."""
def triu_indices_from(arr: _Array | ArrayLike, k: int = 0) -> Any:
    """Upper triangle of a matrix: the rows and the columns (int64) of its elements."""
@overload
def true_divide(x1: _Array, x2: _Array | float, out: _Array | None = None) -> _Array: ...
@overload
def true_divide(x1: float, x2: _Array, out: _Array | None = None) -> _Array: ...
@overload
def true_divide(x1: float, x2: float, out: _Array | None = None) -> float:
    """lhs / rhs; of integers in float32 (broadcasting)."""
@overload
def trunc(x: _Array, out: _Array | None = None) -> _Array: ...
@overload
def trunc(x: float, out: _Array | None = None) -> float:
    """The integer part."""
def union1d(ar1: Any, ar2: Any) -> Any:
    """NumPy's ``union1d`` of the values of arrays."""
def unique(ar: _Array, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False, axis: int | Sequence[int] | None = None) -> Any:
    """The different elements in order; where each first occurs, which one each element is, how often each occurs."""
def unpackbits(a: _Array | ArrayLike, axis: int | Sequence[int] | None = None, count: int | None = None, bitorder: str = 'big') -> Any:
    """The bits of elements (uint8) along an axis, or of the flattened array, as 0 and 1."""
def unravel_index(indices: _Array, shape: int | Sequence[int], order: str = 'C') -> tuple[_Array, ...]:
    """The coordinates of positions in the flattened array, an array an axis."""
def unwrap(p: Any, discont: float | None = None, axis: int = -1, *, period: float = 6.283185307179586) -> Any:
    """Angles without jumps of more than half a period along an axis."""
def vander(x: _Array | ArrayLike | float, N: int | None = None, increasing: bool = False) -> Any:
    """The matrix of the powers of each element, the highest first."""
def var(a: _Array, axis: int | Sequence[int] | None = None, dtype: _DType | None = None, out: _Array | None = None, ddof: int = 0, keepdims: bool = False) -> _Array:
    """The variance over axes; ``ddof`` is subtracted from the number of elements."""
def vdot(a: _Array, b: _Array) -> _Array:
    """The sum of the products of corresponding elements."""
def vsplit(ary: _Array, indices_or_sections: int | Sequence[int]) -> list[_Array]:
    """Parts along the first axis."""
def vstack(arrays: Sequence[_Array], out: _Array | None = None) -> _Array:
    """Arrays joined as rows."""
def where(condition: _Array, x: _Array | float | None = None, y: _Array | float | None = None) -> _Array:
    """``x`` where the condition holds, else ``y``; without both, the positions where it holds."""
def zeros(shape: int | Sequence[int], dtype: _DType | None = None, order: str = 'C', ctx: _Device | None = None) -> _Array:
    """Zeros, float32 by default."""
def zeros_like(a: _Array, dtype: _DType | None = None, order: str = 'C', ctx: _Device | None = None, out: _Array | None = None) -> _Array:
    """Zeros in the shape of an array, and in its type by default."""
