# SPDX-License-Identifier: Apache-2.0
"""Loading batches, in this process or by workers ahead of time."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures import TimeoutError as LateError
from multiprocessing.util import Finalize
from typing import Any

import numpy as np

from ...base import MXNetError
from ...context import Context, cpu, cpu_pinned
from ...core.num_threads import set_num_threads
from ...core.source_location import located_hint
from ...hints.arguments import unexpected
from ...hints.gluon import OF_LOADERS
from ...ndarray import concat, stack
from ...ndarray.creation import array
from ...ndarray.mode import of_mode
from ...ndarray.ndarray import NDArray
from ...util import is_np_array, is_np_shape, set_np
from . import worker_queues
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

__all__ = ["DataLoader", "DataLoaderV1", "default_batchify_fn", "default_mp_batchify_fn"]


def _stacked(data: list[Any], leaf: Callable[[Any], Any]) -> Any:
    if isinstance(data[0], list) and (numbers := _numbers(data)) is not None:
        return leaf(numbers)
    if isinstance(data[0], (tuple, list)):
        return [_stacked(list(part), leaf) for part in zip(*data, strict=True)]
    try:
        if isinstance(data[0], NDArray):
            data = [d.as_nd_ndarray() for d in data]
            return of_mode(stack(*data) if data[0].ndim else concat(*(d.reshape((1,)) for d in data), dim=0))
        return leaf(np.asarray(data))
    except (MXNetError, ValueError) as e:
        shapes = list(dict.fromkeys(d.shape for d in data if isinstance(d, (NDArray, np.ndarray))))
        if len(shapes) > 1:
            e.args = (f"{e}\n{located_hint(f'{_ALIKE} {shapes[0]} and {shapes[1]} were given.')}",)
        raise


def _numbers(samples: list[Any]) -> Any:
    """Lists of numbers as one array of NumPy, as MXNet takes them; None where it refuses: they hold arrays, or differ."""
    if any(isinstance(x, NDArray) for x in _leaves(samples)):
        return None
    try:
        array = np.asarray(samples)
    except ValueError:  # lengths that differ
        return None
    return array if array.dtype.kind in "biuf" else None


def _leaves(data: Any) -> Iterator[Any]:
    for part in data:
        if isinstance(part, (tuple, list)):
            yield from _leaves(part)
        else:
            yield part


_ALIKE = "Samples of a batch need one shape: bring them to it in a transform, or pad them in a batchify_fn;"


def default_batchify_fn(data: list[Any]) -> Any:
    """Samples side by side: arrays are stacked, tuples become lists of batches.

    Numbers, and lists of numbers, become an array of their own type.
    """
    return _stacked(data, lambda a: of_mode(array(a, dtype=a.dtype)))


def default_mp_batchify_fn(data: list[Any]) -> Any:
    """As ``default_batchify_fn``, for workers: what is no array yet stays a NumPy array until it has arrived."""
    return _stacked(data, lambda a: a)


def _arrived(data: Any, ctx: Context) -> Any:
    """The batch as arrays of the caller's process."""
    if isinstance(data, np.ndarray):
        return of_mode(array(data, dtype=data.dtype, ctx=ctx))
    if isinstance(data, NDArray):
        return data.as_in_context(ctx) if data.context != ctx else data
    if isinstance(data, (list, tuple)):
        return [_arrived(d, ctx) for d in data]
    return data


_make: Callable[[list[Any]], Any]  #: batchify_fn of a worker process


def _start(dataset: Any, batchify: Callable[[list[Any]], Any], mode: tuple[bool, bool]) -> None:
    global _make
    _make = batchify
    set_num_threads(1)  # the processors are shared among workers
    worker_queues.worker_initializer(dataset)
    set_np(*mode)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C goes to all processes, and is told by the first one
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End a worker whose program was killed: it would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _ready() -> None:
    pass


def _load(indices: list[int]) -> bytes:
    """A batch, pickled. Errors keep their class, and have the worker's traceback as their cause: the pool sees to both."""
    try:
        return pickle.dumps(
            worker_queues.batch_of(worker_queues._worker_dataset, indices, _make), pickle.HIGHEST_PROTOCOL
        )
    except BaseException as e:
        error = worker_queues.picklable_error(e)
        if error is e:
            raise
        raise error from None


def _processes_of(pool: Executor) -> list[Any]:
    return list((getattr(pool, "_processes", None) or {}).values())


def _dismiss(pool: Executor) -> None:
    """Let a pool end when its work is done; multiprocessing.Pool could hang here, with results under way."""
    workers = _processes_of(pool)
    pool.shutdown(wait=False, cancel_futures=True)
    if multiprocessing.parent_process() is not None:  # a worker that ends waits for its own, whom nothing reaches then
        for worker in workers:
            worker.terminate()


#: where the system refuses workers
_NEEDED = "They need processes, and room for semaphores in /dev/shm; thread_pool=True needs neither."


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
        self._dataset, self._timeout, self._thread_pool = dataset, timeout, thread_pool
        self._pin_memory, self._pin_device_id = pin_memory, pin_device_id
        assert timeout > 0, f"timeout must be positive, given {timeout}"
        self._hg_ctx = cpu_pinned(pin_device_id) if pin_memory else cpu()
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
        self._batchify_fn = batchify_fn or own
        self._hg_next: Iterator[Any] | None = None
        self._hg_pool: Executor | None = None
        self._hg_pid = os.getpid()
        if self._num_workers:
            self._hg_begin()
        self._hg_auto_reload = auto_reload and self._num_workers > 0
        if self._hg_auto_reload:
            self._hg_next = self._hg_ahead()

    def __iter__(self) -> Iterator[Any]:
        if not self._num_workers:
            return self._hg_plain()
        self._hg_adopt()
        if self._hg_auto_reload:
            return self._hg_reloading()
        ready, self._hg_next = self._hg_next, None
        return self._hg_ahead() if ready is None else ready

    def _hg_plain(self) -> Iterator[Any]:
        for indices in self._batch_sampler:
            batch = worker_queues.batch_of(self._dataset, indices, self._batchify_fn)
            yield _arrived(batch, self._hg_ctx) if self._hg_ctx.device_type == "cpu_pinned" else batch

    def _hg_adopt(self) -> None:
        """Have workers of this process: those of the one that forked it do not answer here."""
        if self._hg_pid != os.getpid():
            self._hg_next, self._hg_pid = None, os.getpid()
            self._hg_begin()

    def _hg_begin(self) -> None:
        """Have new workers, which go with the loader, or with the process."""
        self._hg_pool = self._hg_workers()
        Finalize(self, _dismiss, (self._hg_pool,), exitpriority=100)

    def _hg_submit(self, indices: list[int]) -> tuple[Executor, Future[Any]]:
        """Let a worker make a batch."""
        self._hg_adopt()
        assert self._hg_pool is not None
        if self._thread_pool:
            return self._hg_pool, self._hg_pool.submit(
                worker_queues.batch_of, self._dataset, indices, self._batchify_fn
            )
        try:
            return self._hg_pool, self._hg_pool.submit(_load, indices)
        except (
            BrokenExecutor
        ):  # a worker ended while it waited, or over an earlier batch, whose loss is told by _hg_result
            self._hg_replace(self._hg_pool)
            return self._hg_pool, self._hg_pool.submit(_load, indices)

    def _hg_replace(self, broken: Executor) -> None:
        """Other workers for those of a pool that lost one, unless another pass was here."""
        if self._hg_pool is broken:
            self._hg_begin()

    def _hg_workers(self) -> Executor:
        """Threads or processes.

        Raises:
            OSError: the system refuses processes, or the semaphores that they need.
        """
        if self._thread_pool:
            mode = is_np_shape(), is_np_array()
            return ThreadPoolExecutor(self._num_workers, initializer=set_np, initargs=mode)
        try:
            # forked workers see the dataset as it is, closures included; where there is no fork it is pickled
            # What the program asked for is followed, be it the platform's own way.
            way = multiprocessing.get_start_method(allow_none=True)
            if way is None:
                way = "fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn"
            pool = ProcessPoolExecutor(
                self._num_workers,
                multiprocessing.get_context(way),
                initializer=_start,
                initargs=(self._dataset, self._batchify_fn, (is_np_shape(), is_np_array())),
            )
            pool.submit(_ready)  # workers start now: what becomes of the dataset afterwards is not theirs
        except OSError as e:
            e.strerror = f"{e.strerror}: the workers of a DataLoader cannot be started\n{_NEEDED}"
            raise
        return pool

    def _hg_ahead(self) -> Iterator[Any]:
        batches = iter(self._batch_sampler)
        pending: deque[tuple[Executor, Future[Any]]] = deque()
        for indices in batches:
            pending.append(self._hg_submit(indices))
            if len(pending) > max(self._prefetch, 1):
                break
        return self._hg_drain(pending, batches)

    def _hg_drain(self, pending: deque[tuple[Executor, Future[Any]]], batches: Iterator[list[int]]) -> Iterator[Any]:
        while pending:
            data = self._hg_result(*pending.popleft())
            indices = next(batches, None)
            if indices is not None:
                pending.append(self._hg_submit(indices))
            data = _arrived(pickle.loads(data) if isinstance(data, bytes) else data, self._hg_ctx)
            yield data

    def _hg_result(self, pool: Executor, batch: Future[Any]) -> Any:
        """What a worker made."""
        try:
            return batch.result(self._timeout)
        except LateError:
            if not batch.done():
                raise self._hg_late(pool) from None
            raise  # the sample's own
        except BrokenExecutor as e:
            self._hg_replace(pool)
            raise RuntimeError(
                "A worker of the DataLoader ended while it made a batch: it may have run out of memory, or a library crashed.\n"
                "Try fewer workers, or num_workers=0 to see the error itself."
            ) from e

    def _hg_late(self, pool: Executor) -> RuntimeError:
        """The error for a batch that is not there in time; the next pass has other workers."""
        for worker in _processes_of(pool):
            worker.terminate()  # or the end of the program would wait for it
        self._hg_replace(pool)
        return RuntimeError(
            f"Worker timed out after {self._timeout} seconds. This might be caused by slow transforms, a deadlock in the "
            "dataset, or too many workers.\nTry a larger timeout, num_workers=0 to see the error itself, or "
            "thread_pool=True."
        )

    def _hg_reloading(self) -> Iterator[Any]:
        current, self._hg_next = self._hg_next, None
        if current is None:
            current = self._hg_ahead()
        yield from current
        self._hg_next = self._hg_ahead()

    def refresh(self) -> None:
        """Let workers begin with the next pass now."""
        if self._num_workers:
            self._hg_next = self._hg_ahead()

    def clean(self) -> None:
        """Forget batches that were prepared for the next pass."""
        self._hg_next = None

    @property
    def _worker_pool(self) -> Any:
        """The workers, for iterators that programs make of their own; None without workers."""
        return None if self._hg_pool is None else _Pool(self._hg_pool)

    def __len__(self) -> int:
        return len(self._batch_sampler)


class _Pool:
    """An executor with the methods of pools of :mod:`multiprocessing`."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def apply_async(self, func: Callable[..., Any], args: Sequence[Any] = ()) -> _Ordered:
        """Start a call."""
        return _Ordered(self._executor.submit(func, *args))

    def terminate(self) -> None:
        """End the workers."""
        _dismiss(self._executor)


class _Ordered:
    """The result of a call that was started."""

    def __init__(self, future: Future[Any]) -> None:
        self._future = future

    def get(self, timeout: float | None = None) -> Any:
        """The result, when it is there."""
        try:
            return self._future.result(timeout)
        except LateError:
            if self._future.done():
                raise
            raise multiprocessing.TimeoutError from None


class DataLoaderV1(DataLoader):
    """The loader from before thread pools: arguments as of :class:`DataLoader`."""

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
    ) -> None:
        super().__init__(
            dataset,
            batch_size,
            shuffle,
            sampler,
            last_batch,
            batch_sampler,
            batchify_fn,
            num_workers,
            pin_memory,
            pin_device_id,
        )
