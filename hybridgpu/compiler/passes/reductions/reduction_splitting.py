# SPDX-License-Identifier: Apache-2.0
"""Reduction splitting: into how many chunks a reduction is split, along which axes, and whether that pays."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from math import prod

from ....core.dataclass import dataclass
from ...cost import read_seconds, seconds
from ...devices.cpu import CpuConstants
from ...devices.gpu import GpuConstants
from ...ir.graph import Node
from ...size_buckets import MIN_LANE_ROWS
from ...target import Target

__all__ = [
    "ROWS_PER_BLOCK",
    "Split",
    "choose_split",
    "fits_on_chip",
    "nearby_reductions",
    "rereads_operand",
    "split_to_fit",
    "target_splits",
]

ROWS_PER_BLOCK = 32  #: contiguous rows that a block reduces at once
_BLOCKS_PER_MULTIPROCESSOR = 4  #: blocks that every multiprocessor should get
_MAX_LOOKAHEAD = 64  #: readers that are looked at for one of a reduction's own size
_CHUNK_MULTIPLE = 64  #: chunks hold a multiple of so many elements where that is possible

_CUDA_CHUNK_BYTES = 64 << 10  #: CUDA: bytes of a chunk, which a block keeps on chip, …
_SHARED_DIVISOR = 2  #: … and of a block's shared memory at most one in so many
_MIN_CLUSTER_ELEMENTS = 2048  #: CUDA: elements of interleaved rows from which on blocks of a cluster share them
_CPU_CHUNK_BYTES = CpuConstants.l2_bytes // 4  #: CPU: bytes of a chunk, which the second-level cache keeps, …
_CPU_ROW_BYTES = CpuConstants.l2_bytes  #: … of a row that it keeps, …
_CPU_REREAD_BYTES = CpuConstants.l3_bytes // 2  #: … and of one that the same kernel soon reads again in any case
_CPU_COLUMNS = 128  #: CPU: interleaved rows that are reduced together
_MIN_CONTIGUOUS_RUN = 1 << 10  #: CPU: elements inside an axis that is split unevenly, at least


@dataclass(frozen=True)
class Split:
    """A split of an operand's reduced axes into chunks.

    Attributes:
        whole_axes: reduced axes of which every element is a chunk of its own, …
        axis: … and the one that is split, or None, …
        count, length: … into so many chunks of so many elements along it; the last one may be padded.
    """

    whole_axes: tuple[int, ...]
    axis: int | None = None
    count: int = 1
    length: int = 1


def rereads_operand(node: Node, uses: dict[Node, list[Node]]) -> bool:
    """True if something of the operand's size is computed from the result: rows may then be kept on chip."""
    size, seen, frontier = node.inputs[0].size, {node}, [node]
    while frontier and len(seen) < _MAX_LOOKAHEAD:
        for reader in uses.get(frontier.pop(), ()):
            if reader in seen or reader.prim.family not in ("elementwise", "view"):
                continue
            if reader.size >= size:
                return True
            seen.add(reader)
            frontier.append(reader)
    return False


def nearby_reductions(x: Node, uses: dict[Node, list[Node]]) -> Iterator[Node]:
    """Reductions of what is computed from ``x`` or with it, element by element, the nearest first."""
    seen, frontier = {x}, deque([x])
    while frontier and len(seen) < _MAX_LOOKAHEAD:
        n = frontier.popleft()
        for m in (*n.inputs, *uses.get(n, ())):
            if m in seen:
                continue
            if m.prim.family == "reduce" and m.inputs[0].size == x.size > m.size:
                seen.add(m)
                yield m
            elif m.size == x.size and m.prim.family in ("elementwise", "view", "leaf"):
                seen.add(m)
                frontier.append(m)


def target_splits(rows: int, contiguous: bool, target: Target) -> int:
    """The number of chunks of a row that keep all multiprocessors busy."""
    blocks = rows if contiguous else -(-rows // ROWS_PER_BLOCK)
    return -(-_BLOCKS_PER_MULTIPROCESSOR * target.gpu.multiprocessors // blocks)


def choose_split(shape: tuple[int, ...], axes: tuple[int, ...], wanted: int) -> Split | None:
    """A split into about ``wanted`` chunks: whole outer axes first, then a part of the next one."""
    split_axes: list[int] = []
    for a in axes:
        extent = shape[a]
        if extent <= wanted:
            split_axes.append(a)
            wanted //= extent
            continue
        last = a == axes[-1]
        even = [s for s in range(max(2, wanted // 2), min(2 * wanted, extent) + 1) if extent % s == 0]
        if wanted > 1 and even:
            rounded = [s for s in even if not last or extent // s % _CHUNK_MULTIPLE == 0] or even
            best = min(rounded, key=lambda s: abs(s - wanted))
            return Split(tuple(split_axes), a, best, extent // best)
        if wanted > 1:  # uneven: the last part is filled up
            length = -(-extent // wanted)
            if last:
                length = -(-length // _CHUNK_MULTIPLE) * _CHUNK_MULTIPLE
            count = -(-extent // length)
            return Split(tuple(split_axes), a, count, length) if count > 1 else None
        break
    return Split(tuple(split_axes)) if split_axes and len(split_axes) < len(axes) else None


def split_to_fit(total: Node, rereads: bool, target: Target) -> Split | None:
    """The split of a row whose chunks fit on chip; None if all of it does, or rereading costs less than more launches.

    ``rereads``: something of a row's size is computed from the result, which needs the row once more.
    """
    x, axes = total.inputs[0], total.params["axes"]
    contiguous = all(x.shape[a] == 1 for a in range(axes[-1] + 1, x.ndim))
    count, size = x.size // total.size, max(4, x.dtype.size)
    if not target.device.has_shared_memory:
        inner = prod(d for a, d in enumerate(x.shape) if a > axes[-1])
        together = 1 if contiguous else min(_CPU_COLUMNS, inner)
        most = _CPU_CHUNK_BYTES // (size * together)
        row = count * size * together
        in_order = contiguous or (inner < MIN_LANE_ROWS and axes[0] > 0)
        chunks = -(-count // most) if row > (_CPU_REREAD_BYTES if rereads and in_order else _CPU_ROW_BYTES) else 1
    else:
        together = 1 if contiguous else min(ROWS_PER_BLOCK, total.size)
        most = min(_CUDA_CHUNK_BYTES, target.gpu.shared_bytes // _SHARED_DIVISOR) // (size * together)
        if not _split_is_faster(total, rereads, contiguous, target):
            return None
        busy = target_splits(total.size, contiguous, target)
        chunks = max(-(-count // most), min(count // target.part_elements, busy))
    split = choose_split(x.shape, axes, chunks) if chunks > 1 else None
    # axes of awkward extents may leave parts that are hardly shorter
    if not split or _chunk_elements(x, axes, split) > 2 * most:
        return None
    return None if target.device.loop_nests and contiguous and _uneven_split_is_slow(x.shape, axes, split) else split


def _uneven_split_is_slow(shape: tuple[int, ...], axes: tuple[int, ...], parts: Split) -> bool:
    """True if an uneven split costs more than it gains: up to four times the time of a second pass, as measured.

    What fills up the last part is told by its place along the axis that is cut. Axes inside are then walked apart from
    it, in runs that have to be long: short ones are added one to the other, and rounding errors pile up.
    """
    if parts.axis is None or parts.count * parts.length == shape[parts.axis]:
        return False
    return prod(shape[a] for a in axes if a > parts.axis) < _MIN_CONTIGUOUS_RUN


def _split_is_faster(total: Node, rereads: bool, contiguous: bool, target: Target) -> bool:
    """True if a GPU is faster with the split."""
    x, size = total.inputs[0], max(4, total.dtype.size)
    if contiguous or rereads:
        fits, blocks = fits_on_chip(total, contiguous, target)
    else:
        fits = x.size // total.size * min(GpuConstants.sector_bytes, total.size * size) <= target.gpu.shared_bytes
        blocks = -(-total.size // ROWS_PER_BLOCK)
    whole = read_seconds(target, x.type.nbytes * (1 if fits else 3 if rereads else 2), blocks)
    times = 2 if rereads else 1
    merged = seconds(target, x.type.nbytes * times, launches=times)
    return merged < whole


def fits_on_chip(total: Node, contiguous: bool, target: Target) -> tuple[bool, int]:
    """Whether the operand of a reduction fits on chip in the blocks of a cluster, and the number of blocks then.

    Of neighbouring rows they keep some that are half a sector of memory side by side, or half of all.
    """
    gpu = target.gpu
    x = total.inputs[0]
    room, count, size = gpu.cluster_blocks * gpu.shared_bytes, x.size // total.size, x.dtype.size
    if contiguous:
        return count * max(4, total.dtype.size) <= room, total.size * gpu.cluster_blocks
    inner = prod(d for a, d in enumerate(x.shape) if a > total.params["axes"][-1])
    tile = 1 << (-(-min(inner, GpuConstants.sector_bytes // size) // 2) - 1).bit_length()
    if count * tile * size > room:
        return False, -(-total.size // ROWS_PER_BLOCK)
    wide = min(ROWS_PER_BLOCK, inner, room // (count * size))
    return True, -(-total.size // wide) * (gpu.cluster_blocks if count >= _MIN_CLUSTER_ELEMENTS else 1)


def _chunk_elements(x: Node, axes: tuple[int, ...], parts: Split) -> int:
    """The number of elements of a chunk."""
    inner = prod(x.shape[a] for a in axes if a not in parts.whole_axes and a != parts.axis)
    return inner * (parts.length if parts.axis is not None else 1)
