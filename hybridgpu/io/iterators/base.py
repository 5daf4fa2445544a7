# SPDX-License-Identifier: Apache-2.0
"""DataIter, DataBatch and DataDesc: the protocol of iterators."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...hints.arguments import TellsArguments
from ...ndarray import NDArray

__all__ = ["DataBatch", "DataDesc", "DataIter"]


class DataDesc(namedtuple("DataDesc", ["name", "shape"])):
    """Name and shape of an input, as a pair, with its element type and layout.

    Args:
        layout: a letter for each axis; the batch is along the one called 'N'.
    """

    dtype: Any
    layout: str | None

    def __new__(cls, name: str, shape: Sequence[int], dtype: Any = np.float32, layout: str | None = "NCHW") -> DataDesc:
        desc = super().__new__(cls, name, shape)
        desc.dtype, desc.layout = dtype, layout
        return desc

    def __getnewargs__(self) -> tuple[Any, ...]:
        return self.name, self.shape, self.dtype, self.layout

    def __repr__(self) -> str:
        return f"DataDesc[{self.name},{self.shape},{self.dtype},{self.layout}]"

    __str__ = __repr__

    @staticmethod
    def get_batch_axis(layout: str | None) -> int:
        """The axis called 'N': 0 without a layout, -1 if none is called so."""
        return 0 if layout is None else layout.find("N")

    @staticmethod
    def get_list(shapes: Any, types: Any) -> list[DataDesc]:
        """Descriptions from pairs (name, shape) and, unless None, pairs (name, element type)."""
        if types is None:
            return [DataDesc(*pair) for pair in shapes]
        named = dict(types)
        return [DataDesc(name, shape, named[name]) for name, shape in shapes]


class DataBatch:
    """One batch.

    Args:
        data, label: lists of arrays.
        pad: how many samples at the end are there only to fill the batch.
        index: numbers of the samples.
        bucket_key: which bucket it belongs to, for ``BucketingModule``.
        provide_data, provide_label: descriptions of the arrays.

    Raises:
        AssertionError: ``data`` or ``label`` is no list.
    """

    def __init__(
        self,
        data: Any,
        label: Any = None,
        pad: int | None = None,
        index: Any = None,
        bucket_key: Any = None,
        provide_data: Any = None,
        provide_label: Any = None,
    ) -> None:
        if data is not None:
            assert isinstance(data, (list, tuple)), "Data must be list of NDArrays"
        if label is not None:
            assert isinstance(label, (list, tuple)), "Label must be list of NDArrays"
        self.data, self.label = data, label
        self.pad, self.index = pad, index
        self.bucket_key = bucket_key
        self.provide_data, self.provide_label = provide_data, provide_label

    def __str__(self) -> str:
        labels = [x.shape for x in self.label] if self.label else None
        return f"{type(self).__name__}: data shapes: {[x.shape for x in self.data]} label shapes: {labels}"


class DataIter(TellsArguments):
    """Base of iterators: a subclass defines ``iter_next``, ``getdata``, ``getlabel``, ``getpad``, or ``next``."""

    def __init__(self, batch_size: int = 0) -> None:
        self.batch_size = batch_size

    def __iter__(self) -> DataIter:
        return self

    def __next__(self) -> DataBatch:
        return self.next()

    def reset(self) -> None:
        """Begin again."""

    def next(self) -> DataBatch:
        """The next batch.

        Raises:
            StopIteration: there is none.
        """
        if not self.iter_next():
            raise StopIteration
        return DataBatch(data=self.getdata(), label=self.getlabel(), pad=self.getpad(), index=self.getindex())

    def iter_next(self) -> bool:
        """Go to the next batch; False at the end."""
        return False

    def getdata(self) -> Any:
        """Data of the batch."""

    def getlabel(self) -> Any:
        """Labels of the batch."""

    def getindex(self) -> Any:
        """Numbers of its samples, None if they have none."""
        return None

    def getpad(self) -> Any:
        """How many of its samples only fill the batch."""


def described(name: str, array: NDArray, batch_size: int, layout: str | None) -> DataDesc:
    """The description of batches of ``array``."""
    return DataDesc(name, (batch_size, *array.shape[1:]), array.dtype, layout)
