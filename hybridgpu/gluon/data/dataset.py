# SPDX-License-Identifier: Apache-2.0
"""Datasets: samples by number."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ...hints.undefined import undefined
from ...ndarray.ndarray import NDArray
from .sampler import FilterSampler, SequentialSampler

__all__ = ["ArrayDataset", "Dataset", "RecordFileDataset", "SimpleDataset", "described", "name_of"]


def described(dataset: Any) -> str:
    """A dataset in the words of an error: its class, and what was made of it by transforms and selections."""
    return dataset._hg_described() if isinstance(dataset, Dataset) else type(dataset).__name__


def name_of(function: Any) -> str:
    """The name of a function, or the class of what is called like one."""
    return getattr(function, "__qualname__", None) or type(function).__name__


class Dataset:
    """Samples by number; subclasses define ``__getitem__`` and ``__len__``."""

    def __getitem__(self, idx: int) -> Any:
        raise undefined(self, "__getitem__(self, idx)")

    def __len__(self) -> int:
        raise undefined(self, "__len__(self)")

    if TYPE_CHECKING:  # by numbers, as Python goes through what has no __iter__

        def __iter__(self) -> Iterator[Any]: ...

    def _hg_described(self) -> str:
        return type(self).__name__

    def filter(self, fn: Callable[[Any], Any]) -> Dataset:
        """The samples for which ``fn(sample)`` holds."""
        return _Selected(self, FilterSampler(fn, self))

    def shard(self, num_shards: int, index: int) -> Dataset:
        """Part ``index`` of ``num_shards`` parts of about equal size; the first ones are larger.

        Raises:
            AssertionError: an index outside of the parts.
        """
        assert index < num_shards, f"Shard index of out bound: {index} out of {num_shards}"
        assert num_shards > 0, "Number of shards must be greater than 0"
        assert index >= 0, "Index must be non-negative"
        each, rest = divmod(len(self), num_shards)
        start = each * index + min(index, rest)
        return _Selected(self, SequentialSampler(each + (index < rest), start))

    def take(self, count: int | None) -> Dataset:
        """The first ``count`` samples; None means all."""
        total = len(self)
        return _Selected(self, SequentialSampler(total if count is None or count > total else count))

    def sample(self, sampler: Any) -> Dataset:
        """The samples whose numbers a sampler gives.

        Raises:
            TypeError: no sampler.
        """
        from .sampler import Sampler

        if not isinstance(sampler, Sampler):
            raise TypeError(f"Invalid sampler type: {type(sampler)}. Expected gluon.data.Sampler instead.")
        return _Selected(self, sampler)

    def transform(self, fn: Callable[..., Any], lazy: bool = True) -> Dataset:
        """``fn`` of every sample (``fn(*sample)`` for tuples): when it is read, or all at once if not ``lazy``."""
        transformed = _Transformed(self, fn)
        return transformed if lazy else SimpleDataset([transformed[k] for k in range(len(transformed))])

    def transform_first(self, fn: Callable[..., Any], lazy: bool = True) -> Dataset:
        """``transform`` of the first element of every sample only."""
        return self.transform(_First(fn), lazy)


class SimpleDataset(Dataset):
    """A list, or anything with a length and numbered elements."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, idx: int) -> Any:
        return self._data[idx]


class _Selected(Dataset):
    """Samples of another dataset by the numbers of a sampler."""

    def __init__(self, dataset: Dataset, sampler: Any) -> None:
        self._dataset, self._indices = dataset, list(sampler)

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, idx: int) -> Any:
        return self._dataset[self._indices[idx]]

    def _hg_described(self) -> str:
        return f"a selection from {described(self._dataset)}"


class _Transformed(Dataset):
    def __init__(self, data: Dataset, fn: Callable[..., Any]) -> None:
        self._data, self._fn = data, fn

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, idx: int) -> Any:
        item = self._data[idx]
        return self._fn(*item) if isinstance(item, tuple) else self._fn(item)

    def _hg_described(self) -> str:
        first = isinstance(self._fn, _First)
        function = name_of(self._fn._fn if first else self._fn)  # type: ignore[attr-defined]
        return f"{described(self._data)} with transform{'_first' * first}({function})"


class _First:
    """A class, not a closure: workers receive it by pickling."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self._fn = fn

    def __call__(self, x: Any, *rest: Any) -> Any:
        return (self._fn(x), *rest) if rest else self._fn(x)


class ArrayDataset(Dataset):
    """Arrays of equal length side by side: sample ``k`` is the tuple of their elements ``k``.

    Args:
        args: arrays, lists, or datasets; one alone gives its elements themselves.

    Raises:
        AssertionError: lengths differ.
    """

    def __init__(self, *args: Any) -> None:
        assert args, "Needs at least 1 arrays"
        self._length = len(args[0])
        self._data = []
        for k, data in enumerate(args):
            assert len(data) == self._length, (
                f"All arrays must have the same length; array[0] has length {self._length} while array[{k}] has {len(data)}."
            )
            # elements of one-dimensional arrays as numbers, not as arrays of one element
            self._data.append(data.asnumpy() if isinstance(data, NDArray) and data.ndim == 1 else data)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, idx: int) -> Any:
        if len(self._data) == 1:
            return self._data[0][idx]
        return tuple(data[idx] for data in self._data)


class RecordFileDataset(Dataset):
    """Records of a RecordIO file with an index (``name.rec`` and ``name.idx``), as bytes."""

    def __init__(self, filename: str) -> None:
        from ...io.formats.recordio import IndexedRecordReader

        self._hg_filename = filename
        self._hg_reader = IndexedRecordReader(filename)

    def __len__(self) -> int:
        return len(self._hg_reader)

    def __getitem__(self, idx: int) -> bytes:
        return self._hg_reader[idx]
