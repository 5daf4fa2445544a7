# SPDX-License-Identifier: Apache-2.0
"""In which order a loader reads a dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...hints.undefined import undefined

__all__ = ["BatchSampler", "FilterSampler", "RandomSampler", "Sampler", "SequentialSampler"]


class Sampler:
    """A sequence of indices; subclasses define ``__iter__`` and ``__len__``."""

    def __iter__(self) -> Iterator[Any]:
        raise undefined(self, "__iter__(self)")

    def __len__(self) -> int:
        raise undefined(self, "__len__(self)")


class SequentialSampler(Sampler):
    """``start``, ``start + 1``, …, ``start + length - 1``."""

    def __init__(self, length: int, start: int = 0) -> None:
        self._length, self._start = length, start

    def __iter__(self) -> Iterator[int]:
        return iter(range(self._start, self._start + self._length))

    def __len__(self) -> int:
        return self._length


class RandomSampler(Sampler):
    """0 … ``length - 1`` in a new random order every time (NumPy's global generator)."""

    def __init__(self, length: int) -> None:
        self._length = length

    def __iter__(self) -> Iterator[int]:
        return iter(np.random.permutation(self._length).tolist())

    def __len__(self) -> int:
        return self._length


class FilterSampler(Sampler):
    """Indices of the samples for which ``fn(sample)`` holds."""

    def __init__(self, fn: Callable[[Any], Any], dataset: Any) -> None:
        self._indices = [k for k in range(len(dataset)) if fn(dataset[k])]

    def __iter__(self) -> Iterator[int]:
        return iter(self._indices)

    def __len__(self) -> int:
        return len(self._indices)


class BatchSampler(Sampler):
    """Batches of another sampler's indices.

    Args:
        sampler: gives the indices.
        batch_size: how many at a time.
        last_batch: what happens to an incomplete last batch: ``keep`` it, ``discard`` it, or ``rollover``:
            begin the next pass with it.
    """

    def __init__(self, sampler: Sampler | Sequence[int], batch_size: int, last_batch: str = "keep") -> None:
        self._sampler, self._batch_size, self._last_batch = sampler, batch_size, last_batch
        self._hg_rest: list[int] = []

    def __iter__(self) -> Iterator[list[int]]:
        batch, self._hg_rest = self._hg_rest, []
        for k in self._sampler:
            batch.append(k)
            if len(batch) == self._batch_size:
                yield batch
                batch = []
        if batch:
            if self._last_batch == "keep":
                yield batch
            elif self._last_batch == "rollover":
                self._hg_rest = batch
            elif self._last_batch != "discard":
                raise ValueError(
                    f"last_batch must be one of 'keep', 'discard', or 'rollover', but got {self._last_batch}"
                )

    def __len__(self) -> int:
        count = len(self._sampler)
        if self._last_batch == "keep":
            return (count + self._batch_size - 1) // self._batch_size
        if self._last_batch == "discard":
            return count // self._batch_size
        if self._last_batch == "rollover":
            return (len(self._hg_rest) + count) // self._batch_size
        raise ValueError(f"last_batch must be one of 'keep', 'discard', or 'rollover', but got {self._last_batch}")
