# SPDX-License-Identifier: Apache-2.0
"""Global memory: arrays that kernels may access, checked to the byte."""

from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from .native import runtime

__all__ = ["Buffer", "Pointer"]


class Pointer(int):
    """A raw address, to pass a pointer into the middle of a Buffer."""


class Buffer:
    """Memory that kernels may access, between guard zones and aligned as cudaMalloc aligns.

    ``Buffer(array)`` copies the array; ``Buffer.empty`` holds nothing yet; ``Buffer.over(array)``
    uses the array's own memory in place. One Buffer may be passed for several parameters.
    What kernels and host have written is remembered from launch to launch.
    """

    __slots__ = ("_array", "dtype", "name", "nbytes", "ptr", "shape")

    def __init__(self, array: ArrayLike, *, name: str = "buffer") -> None:
        source = np.ascontiguousarray(array).reshape(np.shape(array))
        self._open(source.shape, source.dtype, name, init=True)
        if self.nbytes:
            runtime().coc_write(self.ptr, 0, source.ctypes.data, self.nbytes)

    def _open(self, shape: tuple[int, ...], dtype: np.dtype, name: str, init: bool) -> None:
        self.ptr: int | None = None
        self.shape = shape
        self.dtype = dtype
        self.name = name
        self.nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        self._array: np.ndarray | None = None
        self.ptr = runtime().coc_alloc(self.nbytes, int(init), name.encode())
        if self.ptr is None:
            raise MemoryError(f"no memory for {self.nbytes} bytes of buffer {name!r}")

    @classmethod
    def empty(cls, shape: int | tuple[int, ...], dtype: DTypeLike, *, name: str = "out") -> Buffer:
        """Memory nothing has written yet: a kernel that reads it before writing it faults."""
        self = cls.__new__(cls)
        whole = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
        self._open(whole, np.dtype(dtype), name, init=False)
        return self

    @classmethod
    def over(cls, array: np.ndarray, *, name: str = "buffer") -> Buffer:
        """The array's own memory, without guard zones.

        An access past its end is caught unless it lies in another buffer of the launch. Raises
        ValueError if the array is not contiguous or overlaps another Buffer.
        """
        if not array.flags.c_contiguous:
            raise ValueError("Buffer.over needs a C-contiguous array")
        self = cls.__new__(cls)
        self.shape, self.dtype, self.nbytes, self.name = (
            array.shape,
            array.dtype,
            array.nbytes,
            name,
        )
        self._array, self.ptr = array, None
        address = array.ctypes.data
        status = runtime().coc_register(address, self.nbytes, name.encode())
        if status == 0:
            raise MemoryError(f"no shadow memory for {self.nbytes} bytes of buffer {name!r}")
        if status < 0:
            raise ValueError(f"buffer {name!r} overlaps another: pass Buffer.offset of that one")
        self.ptr = address
        return self

    def get(self) -> np.ndarray:
        """A copy of the contents."""
        if self._array is not None:
            return self._array.copy()
        out = np.empty(self.shape, self.dtype)
        out.reshape(-1).view(np.uint8)[:] = self.bytes()
        return out

    def bytes(self) -> np.ndarray:
        """The memory itself, valid while the Buffer lives. Writes through it are not noticed."""
        kind = ctypes.c_uint8 * self.nbytes
        return np.frombuffer(kind.from_address(self._live()), np.uint8)

    def set(self, array: ArrayLike, offset: int = 0) -> None:
        """Copies the array's bytes to a byte offset and marks them as written."""
        source = np.ascontiguousarray(array)
        if source.nbytes and not runtime().coc_write(self._live(), offset, source.ctypes.data, source.nbytes):
            raise ValueError(f"{source.nbytes} bytes at {offset} do not fit in buffer {self.name!r}")

    def copy_from(self, other: Buffer, nbytes: int | None = None, *, offset: int = 0, other_offset: int = 0) -> None:
        """Copies bytes of another Buffer; what was not written there counts as not written here."""
        count = other.nbytes - other_offset if nbytes is None else nbytes
        if not runtime().coc_copy(self._live(), offset, other._live(), other_offset, count):
            raise ValueError(f"{count} bytes at {offset} do not fit in buffer {self.name!r}")

    def forget(self, offset: int = 0, nbytes: int | None = None) -> None:
        """Makes bytes unwritten again, as memory is that an allocator hands out once more."""
        count = self.nbytes - offset if nbytes is None else nbytes
        if not runtime().coc_forget(self._live(), offset, count):
            raise ValueError(f"{count} bytes at {offset} are not in buffer {self.name!r}")

    def unwritten(self, offset: int = 0, nbytes: int | None = None) -> int:
        """How many of the bytes nothing has written yet."""
        count = self.nbytes - offset if nbytes is None else nbytes
        return runtime().coc_unwritten(self._live(), offset, count)

    def offset(self, nbytes: int) -> Pointer:
        """A pointer so many bytes into the memory. The Buffer must outlive it."""
        return Pointer(self._live() + nbytes)

    def written(self) -> np.ndarray:
        """Mask of the elements that the last launch wrote."""
        return self._touched(1)

    def read(self) -> np.ndarray:
        """Mask of the elements that the last launch read."""
        return self._touched(2)

    def initialised(self) -> np.ndarray:
        """Mask of the elements that anything has ever written."""
        return self._touched(4)

    def free(self) -> None:
        """Gives the memory back; a pointer to it is then a fault."""
        if self.ptr is not None:
            runtime().coc_free(self.ptr)
            self.ptr = None

    def _live(self) -> int:
        if self.ptr is None:
            raise ValueError(f"buffer {self.name!r} has been freed")
        return self.ptr

    def _touched(self, bit: int) -> np.ndarray:
        bits = np.zeros(self.shape, np.uint8)
        if self.nbytes:
            runtime().coc_touched(self._live(), self.dtype.itemsize, bits.ctypes.data)
        return (bits & bit) != 0

    def __del__(self) -> None:
        try:
            self.free()
        except (AttributeError, TypeError):  # half built, or the interpreter is going down
            pass
