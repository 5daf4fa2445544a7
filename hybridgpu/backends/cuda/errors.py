# SPDX-License-Identifier: Apache-2.0
"""Errors of CUDA and its libraries in MXNet's words, with what to do."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ...core.extras import INSTALL_CUDA
from ...core.source_location import note_location
from ..device_errors import DeviceError, is_forked

__all__ = ["FORKED", "driver_error", "give_back", "lost_by_fork", "of_cupy"]

_NO_MEMORY = 2  #: cudaErrorMemoryAllocation, CUDA_ERROR_OUT_OF_MEMORY
_NOT_INITIALIZED = 3  #: cudaErrorInitializationError, CUDA_ERROR_NOT_INITIALIZED
#: what to do in a child of a fork where CUDA answers with the latter
FORKED = (
    "This process was forked from one that had used CUDA, which then works in the parent alone. Start processes that use a "
    'GPU by multiprocessing.get_context("spawn"), or fork before the first use of a GPU. Workers of a DataLoader are '
    'spawned after multiprocessing.set_start_method("spawn"); forked ones make arrays on mx.cpu().'
)
#: statuses after which a process can use the device no more, the same ones in both interfaces
_LOST = frozenset((214, 220, 226, 700, 702, 710, *range(714, 720), 721))
_LOST_NAMES = frozenset(
    f"cudaError{n}" for n in ("IllegalAddress", "IllegalInstruction", "MisalignedAddress", "LaunchFailure", "Assert")
)
_THRUST = re.compile(r"(cudaError\w+): (.*)")

#: CuPy's class -> how MXNet's checks name the library, and what it returns if all is well
_NAMES = {
    "CUDARuntimeError": ("CUDA", "cudaSuccess"),
    "CUDADriverError": ("CUDA", "CUDA_SUCCESS"),
    "CUBLASError": ("cuBLAS", "CUBLAS_STATUS_SUCCESS"),
    "CUSOLVERError": ("cuSolver", "CUSOLVER_STATUS_SUCCESS"),
    "CURANDError": ("cuRAND", "CURAND_STATUS_SUCCESS"),
    "CUFFTError": ("cuFFT", "CUFFT_SUCCESS"),
}


def of_cupy(error: Exception) -> DeviceError:
    """The error to raise in place of one of CuPy's, which is its cause."""
    device_error = _of_cupy(error)
    device_error.__cause__ = error
    note_location(device_error)
    return device_error


def _of_cupy(error: Exception) -> DeviceError:
    kind, status = type(error).__name__, getattr(error, "status", None)
    if isinstance(error, MemoryError) or "cudaErrorMemoryAllocation" in str(error):
        return _no_memory(getattr(error, "_size", 0), getattr(error, "_limit", 0))
    library, success = _NAMES.get(kind, ("CUDA", "cudaSuccess"))
    if library == "CUDA" and status == _NO_MEMORY:
        return _no_memory()
    text = str(error)
    if isinstance(error, ImportError):
        advice = f"Install it with CuPy's other libraries: {INSTALL_CUDA}."
        return DeviceError(f"a library of CUDA is missing: {text.strip()}\n{advice}")
    inside = _THRUST.search(text) if kind not in _NAMES else None
    if inside is not None:
        name, words = inside.groups()
        return _failed(library, success, words, name, None, name in _LOST_NAMES)
    name, _, words = text.partition(": ")
    if library != "CUDA" or kind not in _NAMES:
        name, words = "", text
    return _failed(library, success, words, name, status)


def lost_by_fork() -> bool:
    """Whether CUDA does not work in this process because it was used before the fork that made it."""
    cupy: Any = sys.modules.get("cupy")
    if cupy is None or not is_forked():
        return False
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as e:
        return bool(e.status == _NOT_INITIALIZED)
    return False


def driver_error(status: int, function: str, name: str, words: str, advice: str) -> DeviceError:
    """The error of a function of libcuda that returned ``status``, which CUDA calls ``name``: ``words``.

    Args:
        advice: what to do where it is about this function alone.
    """
    if status == _NO_MEMORY:
        device_error = _no_memory()
    elif status in _LOST or (status == _NOT_INITIALIZED and is_forked()):
        device_error = _failed("CUDA", "CUDA_SUCCESS", words, f"{name}, in {function}", status)
    else:
        text = ": ".join(part for part in (name, words) if part) or f"error {status}"
        device_error = DeviceError(f"CUDA: {function} failed: {text}\n{advice}")
    note_location(device_error)
    return device_error


def _failed(library: str, success: str, words: str, name: str, status: int | None, lost: bool = False) -> DeviceError:
    failed_check = f"Check failed: e == {success}: {library}: {words}" + (f" ({name})" if name else "")
    lost = lost or (library == "CUDA" and status in _LOST)
    if library == "CUDA" and status == _NOT_INITIALIZED and is_forked():
        lost, advice = True, FORKED
    elif lost:
        advice = (
            "A kernel failed, perhaps one of an earlier call: CUDA says so when it is asked for something again. This "
            "process can use the GPU no more; start it again, with CUDA_LAUNCH_BLOCKING=1 in its environment to see which "
            "call it is."
        )
    else:
        advice = "`hybridgpu info` tells what was found of the driver, the device and the libraries."
    return DeviceError(f"{failed_check}\n{advice}", lost=lost)


def _no_memory(asked: int = 0, limit: int = 0) -> DeviceError:
    """MXNet's message when a second try to get memory failed, with where the memory is.

    Args:
        asked: bytes, 0 where it is not known.
        limit: of CuPy's pool, 0 if it has none.
    """
    words = [f"{_bytes(asked)} were asked for"] if asked else []
    device = "the GPU"
    with suppress(Exception):  # where even this fails the error is to be told all the same
        import cupy  # type: ignore[import-untyped,import-not-found,unused-ignore]

        device = f"gpu({cupy.cuda.runtime.getDevice()})"
        free, total = cupy.cuda.runtime.memGetInfo()
        pool = cupy.get_default_memory_pool()
        words.append(f"{_bytes(free)} of {_bytes(total)} are free")
        words.append(f"arrays of this process hold {_bytes(pool.used_bytes())}")
        words.append(f"CuPy's pool has {_bytes(pool.free_bytes())} more")
    if limit:
        words.append(f"the pool may take {_bytes(limit)}")
    return DeviceError(
        f"cudaMalloc retry failed: out of memory\n{device}: {', '.join(words)}. Take a smaller batch; drop arrays, recorded "
        "graphs and results that are no longer needed; where other processes hold the memory, let them end. Memory that is "
        f"kept for reuse, that of static_alloc=True included, was given back before the second try; mx.{device}.empty_cache() "
        "does the same.",
        memory=True,
    )


def _bytes(count: int) -> str:
    value, unit = float(count), "bytes"
    for bigger in ("KiB", "MiB", "GiB"):
        if value >= 1024:
            value, unit = value / 1024, bigger
    return f"{count:,} bytes" if unit == "bytes" else f"{value:.3g} {unit}"


def give_back(release: Callable[[], object]) -> str:
    """Call ``release``, and give memory that CuPy's pool of the current device keeps back to CUDA; how much that was."""
    import cupy

    pool: Any = cupy.get_default_memory_pool()
    before = pool.total_bytes()
    release()
    with suppress(cupy.cuda.runtime.CUDARuntimeError):  # as in a capture of a stream: the second try says what is wrong
        pool.free_all_blocks()
    freed = before - pool.total_bytes()
    return _bytes(freed) if freed else ""
