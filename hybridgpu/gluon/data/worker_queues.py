# SPDX-License-Identifier: Apache-2.0
"""Workers that programs start for loaders of their own: queues, loops, and iterators over what comes from them.

``DataLoader`` itself has other workers. Arrays travel as copies of their values.
"""

from __future__ import annotations

import io
import multiprocessing
import multiprocessing.pool
import multiprocessing.queues
import os
import pickle
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.reduction import ForkingPickler
from typing import Any

from ...context import Context, cpu, cpu_pinned
from ...ndarray.ndarray import NDArray
from ...util import set_np
from .dataset import described, name_of

__all__ = [
    "ConnectionWrapper",
    "MultiWorkerIter",
    "MultiWorkerIterV1",
    "Queue",
    "SimpleQueue",
    "as_in_context",
    "fetcher_loop_v1",
    "thread_worker_fn",
    "thread_worker_initializer",
    "worker_fn",
    "worker_initializer",
    "worker_loop_v1",
]


class ConnectionWrapper:
    """A connection whose objects are pickled as those of :mod:`multiprocessing` are."""

    def __init__(self, conn: Any) -> None:
        self._conn = conn

    def send(self, obj: Any) -> None:
        """Send an object."""
        self._conn.send_bytes(_pickled(obj))

    def recv(self) -> Any:
        """Receive an object."""
        return pickle.loads(self._conn.recv_bytes())

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_conn"], name)


def _pickled(value: Any) -> bytes:
    buffer = io.BytesIO()
    ForkingPickler(buffer, pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getvalue()


class _Wrapped:
    """What both queues do with their connections."""

    _reader: Any
    _writer: Any

    def _wrap(self) -> None:
        self._reader = ConnectionWrapper(self._reader)
        self._writer = ConnectionWrapper(self._writer)
        self._send, self._recv = self._writer.send, self._reader.recv


class Queue(_Wrapped, multiprocessing.queues.Queue):  # type: ignore[type-arg]
    """:class:`multiprocessing.Queue` with arrays in it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, ctx=multiprocessing.get_context(), **kwargs)
        self._wrap()


class SimpleQueue(_Wrapped, multiprocessing.queues.SimpleQueue):  # type: ignore[type-arg]
    """:class:`multiprocessing.SimpleQueue` with arrays in it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, ctx=multiprocessing.get_context(), **kwargs)
        self._wrap()


def as_in_context(data: Any, ctx: Context) -> Any:
    """A batch, nested as it may be, on a device."""
    if isinstance(data, NDArray):
        return data.as_in_context(ctx)
    return [as_in_context(d, ctx) for d in data] if isinstance(data, (list, tuple)) else data


def batch_of(dataset: Any, indices: Iterable[int], batchify_fn: Callable[[list[Any]], Any]) -> Any:
    """The batch of some samples; errors get a note that names the sample, or the function of the batch."""
    samples: list[Any] = []
    indices = list(indices)
    try:
        for k in indices:
            samples.append(dataset[k])
    except Exception as e:
        add_note(e, f"Raised by sample {indices[len(samples)]} of {described(dataset)}.")
        if isinstance(e, StopIteration):  # which would end the loop over the batches
            raise RuntimeError("a dataset raised StopIteration") from e
        raise
    try:
        return batchify_fn(samples)
    except Exception as e:
        add_note(e, f"Raised by {name_of(batchify_fn)} for the batch of samples {indices} of {described(dataset)}.")
        raise


def add_note(error: BaseException, note: str) -> None:
    """As ``error.add_note``, which Python has since 3.11; earlier ones keep the note, but do not print it."""
    notes = error.__dict__.setdefault("__notes__", [])
    if note not in notes:  # one object may be raised for several batches
        notes.append(note)


def picklable_error(error: BaseException) -> BaseException:
    """The error of a worker process for the process that waits: itself where it can be pickled, else a RuntimeError of its text.

    One that cannot be made again there would break a pool.
    """
    add_note(error, f"Raised in worker process {os.getpid()} of the DataLoader.")
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # of any class: code of the error's class runs. The error itself is told all the same
        kind, text = type(error).__name__, _traceback_of(error)
        return RuntimeError(f"{kind} in a worker of the DataLoader: {error}\n\n{text}")
    return error


def _traceback_of(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


class _Failure:
    """What a worker puts in the place of a batch that it could not make; no tuple, which a batch may be."""

    def __init__(self, error: BaseException, text: str) -> None:
        self.error, self.text = error, text


def worker_loop_v1(dataset: Any, key_queue: Any, data_queue: Any, batchify_fn: Callable[[list[Any]], Any]) -> None:
    """Make the batches that a queue asks for, pairs (number, samples), until (None, None) comes."""
    for number, samples in iter(key_queue.get, (None, None)):
        batch: Any
        try:
            batch = batch_of(dataset, samples, batchify_fn)
        except Exception as e:  # of a sample, of any class: the process that waits raises it
            error = picklable_error(e)
            batch = _Failure(error, _traceback_of(e))
        data_queue.put((number, batch))


def fetcher_loop_v1(
    data_queue: Any,
    data_buffer: dict[int, Any],
    pin_memory: bool = False,
    pin_device_id: int = 0,
    data_buffer_lock: Any = None,
) -> None:
    """Put the batches of a queue into a dictionary by number, until (None, None) comes."""
    ctx = cpu_pinned(pin_device_id) if pin_memory else cpu()
    with_lock = data_buffer_lock or threading.Lock()
    while True:
        number, batch = data_queue.get()
        if number is None:
            break
        with with_lock:
            data_buffer[number] = as_in_context(batch, ctx)


class MultiWorkerIterV1:
    """Batches in order from processes of its own, which run ``worker_fn``.

    Args:
        num_workers: how many.
        dataset, batchify_fn, batch_sampler: as of a DataLoader.
        pin_memory, pin_device_id: batches come on ``cpu_pinned(pin_device_id)``.
        worker_fn: (dataset, queue of orders, queue of batches, batchify_fn), see :func:`worker_loop_v1`.
    """

    def __init__(
        self,
        num_workers: int,
        dataset: Any,
        batchify_fn: Callable[[list[Any]], Any],
        batch_sampler: Any,
        pin_memory: bool = False,
        pin_device_id: int = 0,
        worker_fn: Callable[..., None] = worker_loop_v1,
    ) -> None:
        assert num_workers > 0, f"_MultiWorkerIter is not for {num_workers} workers"
        self._num_workers, self._dataset, self._batchify_fn = num_workers, dataset, batchify_fn
        self._batch_sampler = batch_sampler
        self._key_queue, self._data_queue = Queue(), SimpleQueue()
        self._data_buffer: dict[int, Any] = {}
        self._arrived = threading.Condition()
        self._rcvd_idx = self._sent_idx = 0
        self._iter = iter(batch_sampler)
        self._shutdown = False
        arguments = (dataset, self._key_queue, self._data_queue, batchify_fn)
        self._workers = [
            multiprocessing.Process(target=worker_fn, args=arguments, daemon=True) for _ in range(num_workers)
        ]
        for worker in self._workers:
            worker.start()
        fetched = (self._data_queue, self._data_buffer, pin_memory, pin_device_id, _Telling(self._arrived))
        self._fetcher = threading.Thread(target=fetcher_loop_v1, args=fetched, daemon=True)
        self._fetcher.start()
        for _ in range(2 * num_workers):
            self._push_next()

    def __len__(self) -> int:
        return len(self._batch_sampler)

    def __del__(self) -> None:
        self.shutdown()

    def __iter__(self) -> Iterator[Any]:
        return self

    def _push_next(self) -> None:
        """Order one more batch."""
        samples = next(self._iter, None)
        if samples is not None:
            self._key_queue.put((self._sent_idx, samples))
            self._sent_idx += 1

    def __next__(self) -> Any:
        assert not self._shutdown, "call __next__ after shutdown is forbidden"
        if self._rcvd_idx == self._sent_idx:
            self.shutdown()
            raise StopIteration
        with self._arrived:
            ended = False
            while self._rcvd_idx not in self._data_buffer:
                if ended:
                    self.shutdown()
                    raise RuntimeError("A worker ended before its batch was made: it may have run out of memory.")
                ended = not all(worker.is_alive() for worker in self._workers)  # what it made may still be under way
                self._arrived.wait(1.0)
            batch = self._data_buffer.pop(self._rcvd_idx)
        if isinstance(batch, _Failure):
            self.shutdown()
            raise batch.error from multiprocessing.pool.RemoteTraceback(batch.text)  # type: ignore[attr-defined]
        self._rcvd_idx += 1
        self._push_next()
        return batch

    next = __next__

    def shutdown(self) -> None:
        """End the workers."""
        if self.__dict__.get("_shutdown", True):
            return
        self._shutdown = True
        self._data_queue.put((None, None))
        self._fetcher.join()
        for _ in range(self._num_workers):
            self._key_queue.put((None, None))
        for worker in self._workers:
            if worker.is_alive():
                worker.terminate()


class _Telling:
    """The lock of a condition, whose release wakes who waits for it."""

    def __init__(self, condition: threading.Condition) -> None:
        self._condition = condition

    def __enter__(self) -> None:
        self._condition.acquire()

    def __exit__(self, *error: object) -> None:
        self._condition.notify_all()
        self._condition.release()


_worker_dataset: Any = None  #: of a worker process


def worker_initializer(dataset: Any, active_shape: bool = False, active_array: bool = False) -> None:
    """What a worker process begins with: its dataset, and the settings of NumPy's interface."""
    global _worker_dataset
    _worker_dataset = dataset
    set_np(shape=active_shape, array=active_array)


def thread_worker_initializer(active_shape: bool = False, active_array: bool = False) -> None:
    """What a worker thread begins with."""
    set_np(shape=active_shape, array=active_array)


def worker_fn(samples: Iterable[int], batchify_fn: Callable[[list[Any]], Any], dataset: Any = None) -> bytes:
    """A batch, pickled, of the dataset that the process began with."""
    return _pickled(batch_of(_worker_dataset, samples, batchify_fn))


def thread_worker_fn(samples: Iterable[int], batchify_fn: Callable[[list[Any]], Any], dataset: Any) -> Any:
    """A batch of a dataset."""
    return batch_of(dataset, samples, batchify_fn)


class MultiWorkerIter:
    """Batches in order from a pool.

    Args:
        worker_pool: has ``apply_async(function, arguments)``, as pools of :mod:`multiprocessing` have.
        batchify_fn, batch_sampler: as of a DataLoader.
        pin_memory, pin_device_id: batches come on ``cpu_pinned(pin_device_id)``.
        worker_fn: (samples, batchify_fn, dataset) -> the batch, pickled where ``dataset`` is None.
        prefetch: batches ordered at once.
        dataset: what threads read; None for processes, which have theirs.
        data_loader: kept alive.
        timeout: seconds to wait for a batch.
    """

    def __init__(
        self,
        worker_pool: Any,
        batchify_fn: Callable[[list[Any]], Any],
        batch_sampler: Any,
        pin_memory: bool = False,
        pin_device_id: int = 0,
        worker_fn: Callable[..., Any] = worker_fn,
        prefetch: int = 0,
        dataset: Any = None,
        data_loader: Any = None,
        timeout: int = 120,
    ) -> None:
        self._worker_pool, self._batchify_fn, self._batch_sampler = worker_pool, batchify_fn, batch_sampler
        self._pin_memory, self._pin_device_id = pin_memory, pin_device_id
        self._worker_fn, self._dataset, self._data_loader, self._timeout = worker_fn, dataset, data_loader, timeout
        self._data_buffer: dict[int, Any] = {}
        self._rcvd_idx = self._sent_idx = 0
        self._iter = iter(batch_sampler)
        for _ in range(prefetch):
            self._push_next()

    def __len__(self) -> int:
        return len(self._batch_sampler)

    def __iter__(self) -> Iterator[Any]:
        return self

    def _push_next(self) -> None:
        """Order one more batch."""
        samples = next(self._iter, None)
        if samples is not None:
            order = (samples, self._batchify_fn, self._dataset)
            self._data_buffer[self._sent_idx] = self._worker_pool.apply_async(self._worker_fn, order)
            self._sent_idx += 1

    def __next__(self) -> Any:
        self._push_next()
        if self._rcvd_idx == self._sent_idx:
            raise StopIteration
        ordered = self._data_buffer.pop(self._rcvd_idx)
        try:
            batch = ordered.get(self._timeout)
        except multiprocessing.TimeoutError:
            print(
                f"Worker timed out after {self._timeout} seconds. This might be caused by slow transforms: "
                "increase timeout to allow slower data loading in each worker."
            )
            raise
        except Exception:  # a sample's, of any class, which the caller gets
            # as in MXNet no worker makes more batches
            self._worker_pool.terminate()
            raise
        self._rcvd_idx += 1
        if self._dataset is None:
            batch = pickle.loads(batch)
        return as_in_context(batch, cpu_pinned(self._pin_device_id)) if self._pin_memory else batch

    next = __next__
