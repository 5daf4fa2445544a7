# SPDX-License-Identifier: Apache-2.0
"""The array class and the functions of ``mx.np``, which programs also find here."""

from __future__ import annotations

from typing import Any

from ..ndarray.numpy.array import ndarray
from ..ndarray.numpy.creation import array

__all__ = ["array", "ndarray"]

array.__module__ = "hybridgpu.numpy"


def __getattr__(name: str) -> Any:
    from .. import numpy

    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(numpy, name)
