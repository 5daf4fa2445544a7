# SPDX-License-Identifier: Apache-2.0
"""What an Estimator does with one batch."""

from __future__ import annotations

from typing import Any

from .... import autograd
from ....context import Context
from ....ndarray import NDArray
from ...utils import split_and_load

__all__ = ["BatchProcessor"]

Arrays = list[NDArray]


class BatchProcessor:
    """Forward and backward passes of a batch, on each device its part.

    For batches that are not (data, labels), or a loss of more than one result, inherit this class, override its methods
    and give an instance to :class:`Estimator`.
    """

    def _get_data_and_label(self, batch: Any, ctx: list[Context], batch_axis: int = 0) -> tuple[Arrays, Arrays]:
        data = split_and_load(batch[0], ctx_list=ctx, batch_axis=batch_axis)
        return data, split_and_load(batch[1], ctx_list=ctx, batch_axis=batch_axis)

    def evaluate_batch(
        self, estimator: Any, val_batch: Any, batch_axis: int = 0
    ) -> tuple[Arrays, Arrays, list[Any], Arrays]:
        """Predictions of ``estimator.val_net`` and their ``estimator.val_loss``.

        Args:
            val_batch: data and labels.
            batch_axis: the axis that is divided among devices.

        Returns:
            (data, labels, predictions, losses), lists with an entry a device.
        """
        data, label = self._get_data_and_label(val_batch, estimator.context, batch_axis)
        pred = [estimator.val_net(x) for x in data]
        loss = [estimator.val_loss(p, y) for p, y in zip(pred, label, strict=True)]
        return data, label, pred, loss

    def fit_batch(
        self, estimator: Any, train_batch: Any, batch_axis: int = 0
    ) -> tuple[Arrays, Arrays, list[Any], Arrays]:
        """Predictions of ``estimator.net``, their ``estimator.loss``, and its gradients; the parameters stay.

        Args and result as of :meth:`evaluate_batch`.
        """
        data, label = self._get_data_and_label(train_batch, estimator.context, batch_axis)
        with autograd.record():
            pred = [estimator.net(x) for x in data]
            loss = [estimator.loss(p, y) for p, y in zip(pred, label, strict=True)]
        for value in loss:
            value.backward()
        return data, label, pred, loss
