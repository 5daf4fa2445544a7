# SPDX-License-Identifier: Apache-2.0
"""ResizeIter and PrefetchingIter: iterators around iterators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from .base import DataBatch, DataDesc, DataIter

__all__ = ["PrefetchingIter", "ResizeIter"]


class _Current(DataIter):
    """Answers from the batch at hand."""

    current_batch: DataBatch | None = None

    def _hg_batch(self) -> DataBatch:
        assert self.current_batch is not None, "there is no batch before the first iter_next() or next()"
        return self.current_batch

    def next(self) -> DataBatch:
        """The next batch."""
        if not self.iter_next():
            raise StopIteration
        return self._hg_batch()

    def getdata(self) -> Any:
        """Data of the batch."""
        return self._hg_batch().data

    def getlabel(self) -> Any:
        """Labels of the batch."""
        return self._hg_batch().label

    def getindex(self) -> Any:
        """Numbers of its samples."""
        return self._hg_batch().index

    def getpad(self) -> Any:
        """How many of its samples only fill the batch."""
        return self._hg_batch().pad


class ResizeIter(_Current):
    """Another iterator with ``size`` batches an epoch, whatever it has itself.

    Args:
        reset_internal: begin ``data_iter`` again at each ``reset``; otherwise go on with it.
    """

    def __init__(self, data_iter: Any, size: int, reset_internal: bool = True) -> None:
        super().__init__()
        self.data_iter, self.size, self.reset_internal = data_iter, size, reset_internal
        self.cur = 0
        self.provide_data, self.provide_label = data_iter.provide_data, data_iter.provide_label
        self.batch_size = data_iter.batch_size
        if hasattr(data_iter, "default_bucket_key"):
            self.default_bucket_key = data_iter.default_bucket_key

    def reset(self) -> None:
        """Begin again."""
        self.cur = 0
        if self.reset_internal:
            self.data_iter.reset()

    def iter_next(self) -> bool:
        """Go to the next batch; False at the end."""
        if self.cur == self.size:
            return False
        try:
            self.current_batch = self.data_iter.next()
        except StopIteration:
            self.data_iter.reset()
            self.current_batch = self.data_iter.next()
        self.cur += 1
        return True


def _next_or_none(source: Any) -> Any:
    try:
        return source.next()
    except StopIteration:
        return None


class PrefetchingIter(_Current):
    """Iterators read ahead by one batch, each in a thread of its own; their batches are put side by side.

    Args:
        iters: one iterator or several, all with equally many batches.
        rename_data, rename_label: for each iterator, new names by old ones.

    Raises:
        AssertionError: no iterator, or iterators that end at different times or pad differently.
    """

    def __init__(
        self,
        iters: Any,
        rename_data: Sequence[Mapping[str, str]] | None = None,
        rename_label: Sequence[Mapping[str, str]] | None = None,
    ) -> None:
        super().__init__()
        self.iters = iters if isinstance(iters, list) else [iters]
        self.n_iter = len(self.iters)
        assert self.n_iter > 0
        self.rename_data, self.rename_label = rename_data, rename_label
        self.batch_size = self.provide_data[0][1][0]
        # a thread each: the same source is never asked twice at a time
        self._hg_threads = [ThreadPoolExecutor(1, thread_name_prefix="hybridgpu-prefetch") for _ in self.iters]
        self._hg_ask()

    def _hg_ask(self) -> None:
        self._hg_asked: list[Future[Any]] = [
            t.submit(_next_or_none, i) for t, i in zip(self._hg_threads, self.iters, strict=True)
        ]

    def __del__(self) -> None:
        for t in getattr(self, "_hg_threads", ()):
            t.shutdown(wait=False, cancel_futures=True)

    def _hg_described(self, attribute: str, renames: Sequence[Mapping[str, str]] | None) -> list[DataDesc]:
        descriptions = []
        for k, source in enumerate(self.iters):
            for x in getattr(source, attribute):
                if renames is None:
                    descriptions.append(x)
                    continue
                old = x if isinstance(x, DataDesc) else DataDesc(*x)
                descriptions.append(DataDesc(renames[k].get(old.name, old.name), old.shape, old.dtype, old.layout))
        return descriptions

    @property
    def provide_data(self) -> list[DataDesc]:
        """Descriptions of the data of all iterators."""
        return self._hg_described("provide_data", self.rename_data)

    @property
    def provide_label(self) -> list[DataDesc]:
        """Descriptions of the labels of all iterators."""
        return self._hg_described("provide_label", self.rename_label)

    def reset(self) -> None:
        """Begin all iterators again."""
        for asked in self._hg_asked:
            asked.exception()  # what was read ahead is dropped, with its error
        for source in self.iters:
            source.reset()
        self._hg_ask()

    def iter_next(self) -> bool:
        """Go to the next batch; False at the end.

        Raises:
            Exception: what an iterator raised in its thread.
        """
        batches = [asked.result() for asked in self._hg_asked]
        if batches[0] is None:
            assert not any(batches), "Number of entry mismatches between iterators"
            return False
        assert all(b is not None for b in batches), "Number of entry mismatches between iterators"
        assert all(b.pad == batches[0].pad for b in batches), "Different pad number in data batches"
        self.current_batch = DataBatch(
            [x for b in batches for x in b.data],
            [x for b in batches for x in b.label],
            batches[0].pad,
            batches[0].index,
            provide_data=self.provide_data,
            provide_label=self.provide_label,
        )
        self._hg_ask()
        return True
