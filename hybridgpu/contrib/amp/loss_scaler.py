# SPDX-License-Identifier: Apache-2.0
"""The dynamic scale of losses, which keeps small gradients above the smallest float16."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from ... import autograd
from ... import ndarray as nd

__all__ = ["LossScaler"]

_CHUNK = 200  #: gradients that one call of the operator looks at


class LossScaler:
    """A factor of losses that is halved after a step with gradients that are not finite, and doubled after many without."""

    def __init__(self) -> None:
        self._loss_scale = 2.0**16
        self._next_loss_scale = self._loss_scale
        self._max_loss_scale = 2.0**24
        self._scale_seq_len = 2000
        self._unskipped = 0

    @property
    def loss_scale(self) -> float:
        """The factor of the present step."""
        return self._loss_scale

    def has_overflow(self, params: Sequence[Any]) -> bool:
        """Whether a gradient of these parameters is infinite or NaN; sets the factor of the next step."""
        overflow = not _all_finite([p._grad[0].as_nd_ndarray() for p in params if p._grad is not None])
        self._loss_scale = self._next_loss_scale
        if overflow:
            self._next_loss_scale = self._loss_scale / 2.0
            self._unskipped = 0
            logging.info("AMP: decreasing loss scale to %f", self._next_loss_scale)
        else:
            self._unskipped += 1
        if self._unskipped == self._scale_seq_len:
            self._unskipped = 0
            self._next_loss_scale = min(self._max_loss_scale, self._loss_scale * 2.0)
            logging.info("AMP: increasing loss scale to %f", self._next_loss_scale)
        return overflow


def _all_finite(arrays: Sequence[Any]) -> bool:
    with autograd.pause():
        flags = [
            nd.multi_all_finite(*arrays[k : k + _CHUNK], num_arrays=len(arrays[k : k + _CHUNK]))
            for k in range(0, len(arrays), _CHUNK)
        ]
        return all(bool(f.asscalar()) for f in flags)
