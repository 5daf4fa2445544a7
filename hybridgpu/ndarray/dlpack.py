# SPDX-License-Identifier: Apache-2.0
"""Sharing memory with other array libraries by DLPack, bfloat16 included.

NumPy neither exports nor takes bfloat16, so there it passes as 16-bit words, and the type code in the capsule
is written or read here: a DLTensor's place in either kind of capsule is fixed by the standard.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ..backends.write_tracking import mark_exported
from ..core.dtypes import bf16

__all__ = ["Capsule", "Taken", "exported"]

_UINT, _BFLOAT = 1, 4  #: type codes of DLPack
_CODE = 8 + 8 + 4  #: where a DLTensor has it: behind the address, the device and the number of axes
#: name of a capsule -> where its DLTensor begins: behind version, context, deleter and flags in the newer kind
_BEGINS = {b"dltensor": 0, b"dltensor_versioned": 8 + 8 + 8 + 8}


def _type_code(capsule: Any) -> Any:
    """The byte of the type code, to read and write."""
    api = ctypes.pythonapi
    name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", api))
    address_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", api))
    name = name_of(capsule)
    begins = _BEGINS.get(name)
    if begins is None:
        raise ValueError(f"no DLPack capsule that can be taken: {name!r}")
    return ctypes.c_uint8.from_address(address_of(capsule, name) + begins + _CODE)


def exported(data: Any, **kwargs: Any) -> Any:
    """A capsule of a NumPy or CuPy array, whose memory anybody may write from now on."""
    mark_exported(data)
    if data.dtype.name != "bfloat16":
        return data.__dlpack__(**kwargs)
    capsule = data.view(np.uint16).__dlpack__(**kwargs)
    _type_code(capsule).value = _BFLOAT
    return capsule


class Capsule:
    """Gives a bare capsule the protocol that NumPy reads."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class Taken:
    """Someone's array, handed to NumPy or CuPy; ``array`` gives it its type."""

    def __init__(self, source: Any) -> None:
        self._source, self._half = source, False

    def __dlpack__(self, **kwargs: Any) -> Any:
        capsule = self._source.__dlpack__(**kwargs)
        code = _type_code(capsule)
        if code.value == _BFLOAT:
            code.value, self._half = _UINT, True
        return capsule

    def __dlpack_device__(self) -> Any:
        return self._source.__dlpack_device__()

    def array(self, xp: Any, writable: bool = False) -> Any:
        """The memory as an array of ``xp``, NumPy or CuPy; of NumPy's made writable on request."""
        data = xp.from_dlpack(self)
        if writable and not data.flags.writeable:
            data = np.asarray(_Writable(data))
        mark_exported(data)
        return data.view(bf16.np) if self._half else data


class _Writable:
    """The memory of an array that NumPy took from an old capsule, and therefore marks as read-only."""

    def __init__(self, data: Any) -> None:
        self._owner = data
        address, _ = data.__array_interface__["data"]
        self.__array_interface__ = {**data.__array_interface__, "data": (address, False)}
