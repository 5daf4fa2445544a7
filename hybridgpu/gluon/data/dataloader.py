# SPDX-License-Identifier: Apache-2.0
"""Loading batches, in this process or by workers ahead of time."""

from __future__ import annotations

import multiprocessing
import pickle
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures import TimeoutError as LateError
from typing import Any

import numpy as np

from ...arguments import unexpected
from ...base import MXNetError
from ...context import Context, cpu, cpu_pinned
from ...ndarray import concat, stack
from ...ndarray.array import NDArray
from ...ndarray.creation import array
from ...provenance import advice
from ..habits import OF_LOADERS
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

__all__ = ["DataLoader", "default_batchify_fn", "default_mp_batchify_fn"]


def _stacked(data: list[Any], leaf: Callable[[Any], Any]) -> Any:
    if isinstance(data[0], (tuple, list)):
        return [_stacked(list(part), leaf) for part in zip(*data, strict=True)]
    try:
        if isinstance(data[0], NDArray):
            return stack(*data) if data[0].ndim else concat(*(d.reshape((1,)) for d in data), dim=0)
        return leaf(np.asarray(data))
    except (MXNetError, ValueError) as e:
        shapes = list(dict.fromkeys(d.shape for d in data if isinstance(d, (NDArray, np.ndarray))))
        if len(shapes) > 1:
            e.args = (f"{e}\n{advice(f'{_ALIKE} {shapes[0]} and {shapes[1]} were given.')}",)
        raise


_ALIKE = "Samples of a batch need one shape: bring them to it in a transform, or pad them in a batchify_fn;"


def default_batchify_fn(data: list[Any]) -> Any:
    """Samples side by side: arrays are stacked, tuples become lists of batches, numbers an array of their own type."""
    return _stacked(data, lambda a: array(a, dtype=a.dtype))


def default_mp_batchify_fn(data: list[Any]) -> Any:
    """As ``default_batchify_fn``, for workers: what is no array yet stays a NumPy array until it has arrived."""
    return _stacked(data, lambda a: a)


def _arrived(data: Any, ctx: Context) -> Any:
    """The batch as arrays of the caller's process."""
    if isinstance(data, np.ndarray):
        return array(data, dtype=data.dtype, ctx=ctx)
    if isinstance(data, NDArray):
        return data.as_in_context(ctx) if data.context != ctx else data
    if isinstance(data, (list, tuple)):
        return [_arrived(d, ctx) for d in data]
    return data


_dataset: Any = None  #: of a worker process


def _start(dataset: Any) -> None:
    global _dataset
    _dataset = dataset


def _ready() -> None:
    pass


def _load(indices: list[int], batchify: Callable[[list[Any]], Any]) -> bytes:
    try:
        return pickle.dumps(batchify([_dataset[k] for k in indices]), pickle.HIGHEST_PROTOCOL)
    except Exception as e:
        if _arrives(e):
            raise
        kind, text = type(e).__name__, traceback.format_exc()
        raise RuntimeError(f"{kind} in a worker of the DataLoader: {e}\n\n{text}") from None


def _arrives(error: Exception) -> bool:
    """Whether an error can be pickled and made again: one that cannot would break the pool."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return False
    return True


def _load_here(dataset: Any, indices: list[int], batchify: Callable[[list[Any]], Any]) -> Any:
    return batchify([dataset[k] for k in indices])


class DataLoader:
    """Batches of a dataset.

    Args:
        dataset: samples by number.
        batch_size: samples a batch, unless ``batch_sampler`` is given.
        shuffle: a new random order every pass.
        sampler: the order; not together with ``shuffle``.
        last_batch: keep (default), discard or rollover, see BatchSampler.
        batch_sampler: lists of numbers; instead of the four above.
        batchify_fn: from a list of samples to a batch.
        num_workers: processes (threads with ``thread_pool``) that prepare batches ahead; 0 means none.
        pin_memory, pin_device_id: batches come on ``cpu_pinned(pin_device_id)``.
        prefetch: batches prepared ahead; default twice the workers.
        thread_pool: threads instead of processes.
        timeout: seconds to wait for a batch.
        auto_reload: start to prepare the next pass as soon as one ends.

    Raises:
        ValueError: arguments that exclude each other.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = None,
        shuffle: bool = False,
        sampler: Sampler | None = None,
        last_batch: str | None = None,
        batch_sampler: Any = None,
        batchify_fn: Callable[[list[Any]], Any] | None = None,
        num_workers: int = 0,
        pin_memory: bool = False,
        pin_device_id: int = 0,
        prefetch: int | None = None,
        thread_pool: bool = False,
        timeout: int = 120,
        auto_reload: bool = False,
        **others: Any,
    ) -> None:
        if others:
            raise unexpected(type(self), next(iter(others)), OF_LOADERS)
        self._dataset, self._timeout, self._threads = dataset, timeout, thread_pool
        assert timeout > 0, f"timeout must be positive, given {timeout}"
        self._ctx = cpu_pinned(pin_device_id) if pin_memory else cpu()
        if batch_sampler is None:
            if batch_size is None:
                raise ValueError("batch_size must be specified unless batch_sampler is specified")
            if sampler is None:
                sampler = RandomSampler(len(dataset)) if shuffle else SequentialSampler(len(dataset))
            elif shuffle:
                raise ValueError("shuffle must not be specified if sampler is specified")
            batch_sampler = BatchSampler(sampler, batch_size, last_batch or "keep")
        elif batch_size is not None or shuffle or sampler is not None or last_batch is not None:
            raise ValueError(
                "batch_size, shuffle, sampler and last_batch must not be specified if batch_sampler is specified."
            )
        self._batch_sampler = batch_sampler
        self._num_workers = max(0, num_workers)
        self._prefetch = max(0, int(prefetch) if prefetch is not None else 2 * self._num_workers)
        own = default_mp_batchify_fn if self._num_workers and not thread_pool else default_batchify_fn
        self._batchify = batchify_fn or own
        self._pool: Executor | None = None
        if self._num_workers and thread_pool:
            self._pool = ThreadPoolExecutor(self._num_workers)
        elif self._num_workers:
            self._pool = self._processes()
        self._next: Iterator[Any] | None = None
        self._auto_reload = auto_reload and self._num_workers > 0
        if self._auto_reload:
            self._next = self._ahead()

    def __iter__(self) -> Iterator[Any]:
        if not self._num_workers:
            return self._plain()
        if self._auto_reload:
            return self._reloading()
        ready, self._next = self._next, None
        return self._ahead() if ready is None else ready

    def _plain(self) -> Iterator[Any]:
        for indices in self._batch_sampler:
            batch = _load_here(self._dataset, indices, self._batchify)
            yield _arrived(batch, self._ctx) if self._ctx.device_type == "cpu_pinned" else batch

    def _submit(self, indices: list[int]) -> Any:
        assert self._pool is not None
        if self._threads:
            return self._pool.submit(_load_here, self._dataset, indices, self._batchify)
        try:
            return self._pool.submit(_load, indices, self._batchify)
        except BrokenExecutor as e:
            raise self._ended() from e

    def _ended(self) -> RuntimeError:
        """The error for a pool that lost a worker; the next pass has another pool."""
        self._pool = self._processes()
        return RuntimeError(
            "A worker of the DataLoader ended while it made a batch: it may have run out of memory, or a library crashed.\n"
            "Try fewer workers, or num_workers=0 to see the error itself."
        )

    def _processes(self) -> Executor:
        # forked workers see the dataset as it is, closures included; where there is no fork it is pickled
        kind = "fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn"
        pool = ProcessPoolExecutor(
            self._num_workers, multiprocessing.get_context(kind), initializer=_start, initargs=(self._dataset,)
        )
        pool.submit(_ready)  # workers start now: what becomes of the dataset afterwards is not theirs
        return pool

    def _ahead(self) -> Iterator[Any]:
        batches = iter(self._batch_sampler)
        pending: deque[Any] = deque()
        for indices in batches:
            pending.append(self._submit(indices))
            if len(pending) > max(self._prefetch, 1):
                break
        return self._drain(pending, batches)

    def _drain(self, pending: deque[Any], batches: Iterator[list[int]]) -> Iterator[Any]:
        while pending:
            try:
                data = pending.popleft().result(self._timeout)
            except LateError:
                for worker in (getattr(self._pool, "_processes", None) or {}).values():
                    worker.terminate()  # or the end of the program would wait for it
                raise RuntimeError(
                    f"Worker timed out after {self._timeout} seconds. This might be caused by slow transforms, a deadlock in the "
                    "dataset, or too many workers.\nTry a larger timeout, num_workers=0 to see the error itself, or "
                    "thread_pool=True."
                ) from None
            except BrokenExecutor as e:
                raise self._ended() from e
            indices = next(batches, None)
            if indices is not None:
                pending.append(self._submit(indices))
            yield _arrived(pickle.loads(data) if isinstance(data, bytes) else data, self._ctx)

    def _reloading(self) -> Iterator[Any]:
        current, self._next = self._next, None
        if current is None:
            current = self._ahead()
        yield from current
        self._next = self._ahead()

    def refresh(self) -> None:
        """Let workers begin with the next pass now."""
        if self._num_workers:
            self._next = self._ahead()

    def clean(self) -> None:
        """Forget batches that were prepared for the next pass."""
        self._next = None

    def __len__(self) -> int:
        return len(self._batch_sampler)

    def __del__(self) -> None:
        pool = getattr(self, "_pool", None)
        if pool is not None:  # who works finishes; multiprocessing.Pool could hang here, with results under way
            pool.shutdown(wait=False, cancel_futures=True)
