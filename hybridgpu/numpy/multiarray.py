# SPDX-License-Identifier: Apache-2.0
"""The array class and the functions of ``mx.np``, which programs also find here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ndarray.numpy.array import ndarray
from ..ndarray.numpy.creation import array

if TYPE_CHECKING:  # at run time frontend/module_aliases.py finds the functions

    def __getattr__(name: str) -> Any: ...


__all__ = ["array", "ndarray"]

array.__module__ = "hybridgpu.numpy"
