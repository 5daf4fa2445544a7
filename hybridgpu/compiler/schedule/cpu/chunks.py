# SPDX-License-Identifier: Apache-2.0
"""Chunks: iterations of a CPU kernel's outermost loop that one thread takes at once.

They follow from the kernel's shapes and the cost model alone, not from the number of threads, so that results have the same
bits whatever runs them. A step that is over before another thread could help is one chunk. Of longer ones chunks are as short as
pays, so that threads which come later, or are kept from running, leave little undone; beyond some number, which many cores
share well, they become longer.
"""

from __future__ import annotations

from ...cost import cpu_kernel_seconds
from ...ir.computed import computed
from ...target import Target
from ..kernel import Kernel

__all__ = ["CHUNK_ROWS", "chunk_size", "either", "one_thread_seconds"]

CHUNK_ROWS = "chunk_rows"  #: the parameter of a kernel that runs its chunks itself
_MOST_CHUNKS = 128  #: of a step: two for each of 64 cores


def chunk_size(kernel: Kernel, target: Target) -> int:
    """Iterations of the outermost loop that are a chunk; 0 where the kernel runs as a whole."""
    if not kernel.chunk_multiple or not target.device.loop_nests:
        return 0
    seconds, most = one_thread_seconds(kernel, target), kernel.most_chunks or _MOST_CHUNKS
    return _chunk(kernel.extents[0], kernel.chunk_multiple, seconds / target.cpu.chunk_seconds, most)


@computed
def _chunk(extent: int, multiple: int, worth: float, most: int) -> int:
    """A chunk of ``extent`` iterations that are ``worth`` as many chunks."""
    chunks = min(int(worth), most, -(-extent // multiple))
    if chunks < 2:
        return 0
    each = -(-extent // chunks)
    each += -each % multiple
    return each if each < extent else 0


@computed
def either(chunk: int, otherwise: int) -> int:
    """The chunk, or something else where a kernel runs as a whole."""
    return chunk or otherwise


def one_thread_seconds(kernel: Kernel, target: Target) -> float:
    """Seconds of a kernel of the CPU on one thread; 0 on another device."""
    if not target.device.loop_nests:
        return 0.0
    return cpu_kernel_seconds(target, kernel.bytes_read + kernel.bytes_written, kernel.members)
