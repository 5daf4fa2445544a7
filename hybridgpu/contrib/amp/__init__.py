# SPDX-License-Identifier: Apache-2.0
"""``mx.contrib.amp``: automatic mixed precision, training in float16 or bfloat16 with parameters in float32."""

from __future__ import annotations

from . import amp, lists, loss_scaler
from .amp import *

__all__ = ["amp", "lists", "loss_scaler", *amp.__all__]
