# SPDX-License-Identifier: Apache-2.0
"""NDArrayIter: batches of arrays in memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ndarray import NDArray, concat
from ...ndarray import array as make_array
from .base import DataBatch, DataDesc, DataIter, described

__all__ = ["NDArrayIter"]


def init_data(data: Any, allow_empty: bool, default_name: str) -> list[tuple[str, NDArray]]:
    """(name, array) pairs, those of a dict in the order of their names.

    Raises:
        TypeError: neither an array, a list nor a dict of them.
        AssertionError: nothing, where something is needed.
    """
    if data is None or (isinstance(data, (list, tuple)) and not data):
        assert allow_empty, "NDArrayIter needs data"
        return []
    if isinstance(data, (NDArray, np.ndarray)):
        data = {default_name: data}
    elif isinstance(data, (list, tuple)):
        data = {default_name: data[0]} if len(data) == 1 else {f"_{k}_{default_name}": x for k, x in enumerate(data)}
    elif isinstance(data, dict):
        assert data or allow_empty, "NDArrayIter needs data"
    else:
        raise TypeError(
            "Input must be NDArray, numpy.ndarray, h5py.Dataset a list of them or dict with them as values"
            f"\nGot {type(data).__name__}."
        )
    arrays = []
    for name in sorted(data):
        value = data[name]
        if not isinstance(value, NDArray):
            try:
                value = make_array(value)
            except (TypeError, ValueError):
                raise TypeError(
                    f"Invalid type '{type(value)}' for {name}, should be NDArray, numpy.ndarray or h5py.Dataset"
                ) from None
        arrays.append((name, value))
    return arrays


def has_instance(data: list[tuple[str, Any]], dtype: Any) -> bool:
    """Whether one of the named arrays is of a class."""
    return any(isinstance(x, dtype) for _, x in data)


class NDArrayIter(DataIter):
    """Batches of arrays in memory, cut along their first axis.

    Args:
        data, label: an array, a list of arrays or a dict of them (NDArray or NumPy); NumPy arrays become float32.
        batch_size: samples a batch.
        shuffle: another order after each ``reset``, by ``numpy.random``; ``data`` and ``label`` are in it, too.
        last_batch_handle: what becomes of a last batch that is too short: 'pad' fills it from the start,
            'discard' leaves it out, 'roll_over' puts it at the front of the next epoch.
        data_name, label_name: names of the arrays; those of a list are '_0_data', '_1_data', ...
        layout: of the batches.

    Raises:
        TypeError: data or labels of another type.
        AssertionError: no data, or an array shorter than the first one.
    """

    def __init__(
        self,
        data: Any,
        label: Any = None,
        batch_size: int = 1,
        shuffle: bool = False,
        last_batch_handle: str = "pad",
        data_name: str = "data",
        label_name: str = "softmax_label",
        layout: str | None = "NCHW",
    ) -> None:
        super().__init__(batch_size)
        self.data = init_data(data, False, data_name)
        self.label = init_data(label, True, label_name)
        assert last_batch_handle in ("pad", "discard", "roll_over"), (
            f"last_batch_handle must be 'pad', 'discard' or 'roll_over', got {last_batch_handle!r}"
        )
        self.num_data = self.data[0][1].shape[0]
        for name, x in [*self.data, *self.label]:
            assert x.shape[0] >= self.num_data, (
                f"{name} has {x.shape[0]} samples, but {self.data[0][0]} has {self.num_data}"
            )
        self.shuffle, self.last_batch_handle, self.layout = shuffle, last_batch_handle, layout
        self.idx = np.arange(self.num_data)
        self.num_source = len(self.data) + len(self.label)
        self.cursor = -batch_size
        self._hg_forget()
        self.reset()

    @property
    def provide_data(self) -> list[DataDesc]:
        """Descriptions of the data."""
        return [described(name, x, self.batch_size, self.layout) for name, x in self.data]

    @property
    def provide_label(self) -> list[DataDesc]:
        """Descriptions of the labels."""
        return [described(name, x, self.batch_size, self.layout) for name, x in self.label]

    def hard_reset(self) -> None:
        """Begin again and forget samples that were rolled over."""
        self._hg_forget()
        self.cursor = -self.batch_size
        if self.shuffle:
            self._shuffle_data()

    def reset(self) -> None:
        """Begin again; with 'roll_over', samples that made no whole batch go first."""
        left = self.num_data - self.cursor
        if self.last_batch_handle == "roll_over" and 0 < left < self.batch_size:
            self._hg_carried = [self._hg_take(arrays, self.num_data) for arrays in (self.data, self.label)]
            self.cursor = -left - self.batch_size
        else:
            self._hg_forget()
            self.cursor = -self.batch_size
        if self.shuffle:
            self._shuffle_data()

    def _shuffle_data(self) -> None:
        np.random.shuffle(self.idx)  # programs seed NumPy's global generator
        self.data = [(name, _rows(x, self.idx)) for name, x in self.data]
        self.label = [(name, _rows(x, self.idx)) for name, x in self.label]

    def _hg_forget(self) -> None:
        self._hg_carried = [[], []]

    def iter_next(self) -> bool:
        """Go to the next batch; False at the end."""
        if self.last_batch_handle == "roll_over" and self.cursor + self.batch_size > self.num_data:
            return False  # asked again at the end: what is left over must stay so
        self.cursor += self.batch_size
        return self.cursor < self.num_data

    def next(self) -> DataBatch:
        """The next batch.

        Raises:
            StopIteration: there is none, or not a whole one and it is not to be filled.
        """
        if not self.iter_next() or self._hg_too_short():
            raise StopIteration
        return DataBatch(data=self.getdata(), label=self.getlabel(), pad=self.getpad(), index=None)

    def _hg_too_short(self) -> bool:
        return self.last_batch_handle != "pad" and self.cursor + self.batch_size > self.num_data

    def _hg_take(self, arrays: list[tuple[str, NDArray]], stop: int) -> list[NDArray]:
        """Samples from the cursor on; negative positions are those carried over, behind the end it begins anew."""
        if self.cursor >= 0 and stop <= self.num_data:
            return [x[self.cursor : stop] for _, x in arrays]
        positions = np.arange(max(self.cursor, 0), stop) % self.num_data
        rows = [_rows(x, positions) for _, x in arrays]
        if self.cursor >= 0:
            return rows
        carried = self._hg_carried[0 if arrays is self.data else 1]
        return [concat(*pair, dim=0) for pair in zip(carried, rows, strict=True)]

    def getdata(self) -> list[NDArray]:
        """Data of the batch."""
        return self._hg_take(self.data, self.cursor + self.batch_size)

    def getlabel(self) -> list[NDArray]:
        """Labels of the batch."""
        return self._hg_take(self.label, self.cursor + self.batch_size)

    def getpad(self) -> int:
        """How many samples fill the batch ('pad'), or were carried over ('roll_over')."""
        behind = self.cursor + self.batch_size - self.num_data
        if self.last_batch_handle == "pad" and behind > 0:
            return behind
        if self.last_batch_handle == "roll_over" and -self.batch_size < self.cursor < 0:
            return -self.cursor
        return 0


def _rows(x: NDArray, positions: Any) -> NDArray:
    return x[make_array(positions, ctx=x.context, dtype="int64")]
