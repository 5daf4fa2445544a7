# SPDX-License-Identifier: Apache-2.0
"""Element types: one row each, and everything else derived from the row.

A ``DType`` is interned: compare with ``is``. ``flag`` is the number that MXNet writes into files
and attributes; ``storage`` and ``compute`` are the C types in memory and in registers (half
precision is computed in float).

NumPy has no bfloat16: arrays of it are of the package ml_dtypes, as in JAX and CuPy, which is
imported when the first one is made.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .dataclass import dataclass, field

__all__ = ["ALL_DTYPES", "DType", "dtype_of", "from_flag", "from_short", "holds_numbers"]


@dataclass(frozen=True, eq=False, slots=True)
class DType:
    """One element type."""

    name: str  #: NumPy's name, which is also MXNet's
    short: str  #: the name in printed graphs
    kind: str  #: 'f' float, 'i' signed, 'u' unsigned, 'b' bool
    size: int  #: bytes in memory
    flag: int  #: MXNet's type flag, -1 where it has none
    storage: str  #: C type in memory
    compute: str  #: C type in registers
    np: Any = field(init=False)  #: the numpy.dtype; of bfloat16 set at first use

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_half(self) -> bool:
        """Whether it is a float of two bytes."""
        return self.kind == "f" and self.size == 2

    @property
    def is_integer(self) -> bool:
        return self.kind in "iu"

    @property
    def evaluated(self) -> DType:
        """The type in which array libraries compute: float32 for bfloat16, else the type itself."""
        return f32 if self is bf16 else self

    @property
    def finfo(self) -> Any:
        """NumPy's description of a floating point type."""
        if self is bf16:
            import ml_dtypes

            return ml_dtypes.finfo(self.np)  # type: ignore[no-untyped-call]
        return np.finfo(self.np)

    @property
    def type(self) -> Any:
        """NumPy's scalar class, which is what ``NDArray.dtype`` shows."""
        return self.np.type

    def __getattr__(self, name: str) -> Any:  # only for what is not set
        if name == "np":
            return _load_bfloat16()
        raise AttributeError(name)

    def __repr__(self) -> str:
        return self.short

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return from_short, (self.short,)


def _row(name: str, short: str, kind: str, size: int, flag: int, storage: str, compute: str = "") -> DType:
    dtype = DType(name, short, kind, size, flag, storage, compute or storage)
    object.__setattr__(dtype, "np", np.dtype(name))
    return dtype


f32 = _row("float32", "f32", "f", 4, 0, "float")
f64 = _row("float64", "f64", "f", 8, 1, "double")
f16 = _row("float16", "f16", "f", 2, 2, "hg::half", "float")
u8 = _row("uint8", "u8", "u", 1, 3, "unsigned char")
i32 = _row("int32", "i32", "i", 4, 4, "int")
i8 = _row("int8", "i8", "i", 1, 5, "signed char")
i64 = _row("int64", "i64", "i", 8, 6, "long long")
bool_ = _row("bool", "bool", "b", 1, 7, "bool")
i16 = _row("int16", "i16", "i", 2, 8, "short")
u16 = _row("uint16", "u16", "u", 2, 9, "unsigned short")
u32 = _row("uint32", "u32", "u", 4, 10, "unsigned int")
u64 = _row("uint64", "u64", "u", 8, 11, "unsigned long long")
bf16 = DType("bfloat16", "bf16", "f", 2, 12, "hg::bfloat16", "float")

_OF_NUMPY: tuple[DType, ...] = (f32, f64, f16, u8, i32, i8, i64, bool_, i16, u16, u32, u64)
ALL_DTYPES: tuple[DType, ...] = (*_OF_NUMPY, bf16)
_BY_NP: dict[Any, DType] = {
    **{d.np: d for d in _OF_NUMPY},
    np.dtype([("bfloat16", np.uint16)]): bf16,  # what MXNet calls it
}
_BY_NAME = {d.name: d for d in ALL_DTYPES}
_BY_SHORT = {d.short: d for d in ALL_DTYPES}
_BY_FLAG = {d.flag: d for d in ALL_DTYPES}
_BY_ANY: dict[Any, DType] = {
    **_BY_NAME,
    **{d.np.type: d for d in _OF_NUMPY},
    **_BY_NP,
    float: f64,
    int: i64,
    bool: bool_,
}


def _load_bfloat16() -> Any:
    """NumPy's type of bfloat16 numbers, from now on known to ``dtype_of``."""
    try:
        import ml_dtypes
    except ImportError as e:
        raise ImportError(f"bfloat16 arrays need the package ml_dtypes ({e})\nInstall it: pip install ml_dtypes") from e
    np_dtype = np.dtype(ml_dtypes.bfloat16)
    _BY_NP[np_dtype] = _BY_ANY[np_dtype] = _BY_ANY[np_dtype.type] = bf16
    object.__setattr__(bf16, "np", np_dtype)
    return np_dtype


def dtype_of(value: Any) -> DType:
    """The DType named by a string, a NumPy class or dtype, a DType, or an array, whose element type it is.

    Raises:
        TypeError: the type is unknown or not supported.
    """
    if isinstance(value, DType):
        return value
    try:
        return _BY_ANY[value]
    except (KeyError, TypeError):
        pass
    of_array = None if isinstance(value, type) else getattr(value, "dtype", None)
    if of_array is not None:
        return dtype_of(of_array)
    try:
        np_dtype = np.dtype(value).newbyteorder("=")  # the order of bytes is of a source, not of an array
        if np_dtype.name == "bfloat16":  # someone else's, before there was one here
            _load_bfloat16()
        return _BY_NP[np_dtype]
    except (KeyError, TypeError):
        names = ", ".join(d.name for d in ALL_DTYPES)
        raise TypeError(f"data type {value!r} is not understood; known types: {names}") from None


def from_flag(flag: int) -> DType:
    """The DType with MXNet's number ``flag``; KeyError if there is none."""
    return _BY_FLAG[flag]


def holds_numbers(dtype: Any) -> bool:
    """Whether arrays of a NumPy type hold truth values, integers or floats (and no objects, texts, times …)."""
    return dtype.kind in "biuf" or dtype.name == "bfloat16"


def from_short(short: str) -> DType:
    """The DType with the short name of printed graphs; KeyError if there is none."""
    return _BY_SHORT[short]
