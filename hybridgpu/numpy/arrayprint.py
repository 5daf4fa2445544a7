# SPDX-License-Identifier: Apache-2.0
"""How arrays are printed."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["set_printoptions"]


def set_printoptions(precision: int | None = None, threshold: int | None = None, **kwarg: Any) -> None:
    """Set the digits behind the point, and the number of elements from which arrays are abridged, in NumPy too."""
    if kwarg:
        raise NotImplementedError(
            "mxnet.numpy.set_printoptions only supports parameters precision and threshold for now."
        )
    np.set_printoptions(precision=precision, threshold=threshold)
