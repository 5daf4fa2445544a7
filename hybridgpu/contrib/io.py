# SPDX-License-Identifier: Apache-2.0
"""``mx.contrib.io``: a Gluon data loader as an iterator, for Module."""

from __future__ import annotations

from typing import Any

from .. import ndarray as nd
from ..io.iterators.base import DataDesc, DataIter
from ..ndarray import NDArray

__all__ = ["DataLoaderIter"]


class DataLoaderIter(DataIter):
    """Batches of a ``gluon.data.DataLoader`` whose samples are pairs of data and label.

    Every batch has the shape of the first one. A shorter last one is filled with zeros, and its ``pad`` says with how
    many samples.

    Args:
        loader: the data loader, of which ``reset`` begins another round.
        data_name, label_name: names of the two inputs.
        dtype: element type of both.

    Raises:
        StopIteration: the loader has no batch.
    """

    def __init__(
        self, loader: Any, data_name: str = "data", label_name: str = "softmax_label", dtype: Any = "float32"
    ) -> None:
        super().__init__()
        self._loader = loader
        data, label = next(iter(loader))
        self.batch_size, self.dtype = data.shape[0], dtype
        self.provide_data = [DataDesc(data_name, data.shape, dtype)]
        self.provide_label = [DataDesc(label_name, label.shape, dtype)]
        self._hg_batch: Any = None
        self.reset()

    def reset(self) -> None:
        self._iter = iter(self._loader)

    def iter_next(self) -> bool:
        self._hg_batch = next(self._iter, None)
        return self._hg_batch is not None

    def getdata(self) -> list[NDArray]:
        return [self._hg_filled(self._hg_batch[0])]

    def getlabel(self) -> list[NDArray]:
        return [self._hg_filled(self._hg_batch[1])]

    def getpad(self) -> int:
        return int(self.batch_size - self._hg_batch[0].shape[0])

    def _hg_filled(self, array: NDArray) -> NDArray:
        cast: NDArray = array.astype(self.dtype)
        if not self.getpad():
            return cast
        whole: NDArray = nd.zeros((self.batch_size, *array.shape[1:]), dtype=self.dtype)
        whole[: array.shape[0]] = cast
        return whole
