# SPDX-License-Identifier: Apache-2.0
"""Arrays from text files."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..context import Context
from .multiarray import array, ndarray

__all__ = ["genfromtxt"]


def genfromtxt(*args: Any, ctx: Context | None = None, **kwargs: Any) -> ndarray:
    """NumPy's ``genfromtxt`` as an array of a device."""
    table = np.genfromtxt(*args, **kwargs)
    result: ndarray = array(table, dtype=table.dtype, ctx=ctx)
    return result
