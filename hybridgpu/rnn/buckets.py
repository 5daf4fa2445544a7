# SPDX-License-Identifier: Apache-2.0
"""Batches of sentences of about the same length."""

from __future__ import annotations

import bisect
import logging
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..io.iterators import DataBatch, DataDesc, DataIter
from ..ndarray import array as make_array

__all__ = ["BucketSentenceIter"]


class BucketSentenceIter(DataIter):
    """Batches for ``BucketingModule``: sentences padded to the length of their bucket, labels are the next tokens.

    Args:
        sentences: lists of numbers (``encode_sentences``).
        batch_size: sentences a batch.
        buckets: lengths; by default those of at least ``batch_size`` sentences.
        invalid_label: fills sentences and the last label.
        layout: 'NT' or 'TN', which axis is the batch.

    Raises:
        ValueError: another layout, or no bucket.
    """

    def __init__(
        self,
        sentences: Sequence[Sequence[int]],
        batch_size: int,
        buckets: Sequence[int] | None = None,
        invalid_label: int = -1,
        data_name: str = "data",
        label_name: str = "softmax_label",
        dtype: Any = "float32",
        layout: str = "NT",
    ) -> None:
        super().__init__(batch_size)
        if not buckets:
            counts = np.bincount([len(s) for s in sentences])
            buckets = [length for length, count in enumerate(counts) if count >= batch_size]
        self.buckets = sorted(buckets)
        rows: list[list[Any]] = [[] for _ in self.buckets]
        discarded = 0
        for sentence in sentences:
            k = bisect.bisect_left(self.buckets, len(sentence))
            if k == len(self.buckets):
                discarded += 1
                continue
            row = np.full(self.buckets[k], invalid_label, dtype)
            row[: len(sentence)] = sentence
            rows[k].append(row)
        if discarded:
            # logging.warning would give the root logger its handler, and the program's basicConfig would do nothing
            logging.getLogger(__name__).warning("discarded %d sentences longer than the largest bucket.", discarded)
        if not self.buckets:
            raise ValueError(f"no length has {batch_size} sentences: give buckets, or a smaller batch_size")
        self.data = [np.array(r, dtype).reshape(len(r), b) for r, b in zip(rows, self.buckets, strict=True)]
        self.data_name, self.label_name = data_name, label_name
        self.dtype, self.layout, self.invalid_label = dtype, layout, invalid_label
        self.nddata: list[Any] = []
        self.ndlabel: list[Any] = []
        self.major_axis = layout.find("N")
        self.default_bucket_key = max(self.buckets)
        if self.major_axis not in (0, 1):
            raise ValueError(f"Invalid layout {layout}: Must by NT (batch major) or TN (time major)")
        whole = (batch_size, self.default_bucket_key)
        self.provide_data = self._hg_described(data_name, whole if self.major_axis == 0 else whole[::-1])
        self.provide_label = self._hg_described(label_name, whole if self.major_axis == 0 else whole[::-1])
        # (bucket, first sentence) of each batch; sentences that fill no batch stay out
        self.idx = [
            (k, first) for k, x in enumerate(self.data) for first in range(0, len(x) - batch_size + 1, batch_size)
        ]
        self.curr_idx = 0
        self.reset()

    def _hg_described(self, name: str, shape: tuple[int, ...]) -> list[DataDesc]:
        return [DataDesc(name, shape, layout=self.layout)]

    def reset(self) -> None:
        """Begin again, in another order (by ``random`` and ``numpy.random``)."""
        self.curr_idx = 0
        random.shuffle(self.idx)
        self.nddata, self.ndlabel = [], []
        for rows in self.data:
            np.random.shuffle(rows)
            labels = np.full_like(rows, self.invalid_label)
            labels[:, :-1] = rows[:, 1:]
            self.nddata.append(make_array(rows, dtype=self.dtype))
            self.ndlabel.append(make_array(labels, dtype=self.dtype))

    def next(self) -> DataBatch:
        """The next batch.

        Raises:
            StopIteration: there is none.
        """
        if self.curr_idx == len(self.idx):
            raise StopIteration
        k, first = self.idx[self.curr_idx]
        self.curr_idx += 1
        data, label = (x[k][first : first + self.batch_size] for x in (self.nddata, self.ndlabel))
        if self.major_axis == 1:
            data, label = data.T, label.T
        return DataBatch(
            [data],
            [label],
            pad=0,
            bucket_key=self.buckets[k],
            provide_data=self._hg_described(self.data_name, data.shape),
            provide_label=self._hg_described(self.label_name, label.shape),
        )
