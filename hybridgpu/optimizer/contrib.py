# SPDX-License-Identifier: Apache-2.0
"""``mx.optimizer.contrib``: optimizers for tables of embeddings."""

from __future__ import annotations

from typing import Any

from .. import ndarray as nd
from ..ndarray import NDArray, zeros
from .base import Optimizer, register

__all__ = ["GroupAdaGrad"]


@register
class GroupAdaGrad(Optimizer):
    """AdaGrad with one rate for each row: h += mean(g**2, axis=1); w -= lr * g / sqrt(h + eps); 2-d weights, no decay."""

    def __init__(self, eps: float = 1e-5, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.float_stable_eps = eps

    def create_state(self, index: Any, weight: NDArray) -> Any:
        assert len(weight.shape) == 2
        return zeros((weight.shape[0], 1), weight.context, dtype=weight.dtype)

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        lr, wd, _ = self._hg_begin(index)
        assert wd == 0, "Weight decay is not supported for GroupAdaGrad"
        g = self._hg_gradient(grad)
        state += nd.mean(nd.square(g), axis=1, keepdims=True)
        weight -= lr * g / nd.sqrt(state + self.float_stable_eps)
