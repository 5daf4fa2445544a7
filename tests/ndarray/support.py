# SPDX-License-Identifier: Apache-2.0
"""Arrays that tests of arrays look at."""

from __future__ import annotations

import numpy as np


def numbered(shape, dtype="float32"):
    return np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape)
