# SPDX-License-Identifier: Apache-2.0
"""Rows taken apart: how many parts keep a machine busy, along which axes they lie, and the nodes that cut and line up.

What is done with the parts is for the passes that want them: split.py puts results of parts together, moments.py
merges means and squared deviations, exponentials.py maxima and sums about them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from math import prod

from ....dataclass import dataclass
from ...devices.cpu import CpuConstants
from ...devices.gpu import GpuConstants
from ...ir.graph import Builder, Node
from ...size_buckets import NARROW
from ...target import Target

__all__ = [
    "SIDE_BY_SIDE",
    "Parts",
    "cut",
    "kept_by_blocks",
    "lined_up",
    "met_nearby",
    "normalises",
    "parts_on_chip",
    "rate",
    "taken_apart",
    "wanted_parts",
]

SIDE_BY_SIDE = 32  #: neighbouring rows that a block takes at once
_BLOCKS = 4  #: blocks that every multiprocessor should get
_NEARBY = 64  #: readers that are looked at for one of a reduction's own size
_ROUND = 64  #: parts hold a multiple of so many elements where that is possible

_PART = 64 << 10  #: CUDA: bytes of a part, which a block keeps on chip, …
_SHARE = 2  #: … and of a block's shared memory at most one in so many
_CLUSTERED = 2048  #: CUDA: elements of rows that are neighbours in memory from which on blocks of a cluster share them
_CPU_PART = CpuConstants.l2_bytes // 4  #: CPU: bytes of a part, which the second-level cache keeps, …
_NEAR = CpuConstants.l2_bytes  #: … of a row that it keeps, …
_FAR = CpuConstants.l3_bytes // 2  #: … and of one that is read again in any case, by the same kernel and soon
_COLUMNS = 128  #: CPU: rows that are neighbours in memory and walked together
_RUN = 1 << 10  #: CPU: elements inside an axis that is cut unevenly, at least


@dataclass(frozen=True)
class Parts:
    """How an operand is taken apart.

    Attributes:
        kept: reduced axes of which every element is a part of its own, …
        axis: … and the one that is cut, or None, …
        count, length: … into so many parts of so many elements along it; the last one may be filled up.
    """

    kept: tuple[int, ...]
    axis: int | None = None
    count: int = 1
    length: int = 1


def normalises(node: Node, uses: dict[Node, list[Node]]) -> bool:
    """True if something of the operand's size is computed from the result: rows may then be kept on chip."""
    size, seen, frontier = node.inputs[0].size, {node}, [node]
    while frontier and len(seen) < _NEARBY:
        for reader in uses.get(frontier.pop(), ()):
            if reader in seen or reader.prim.family not in ("elementwise", "view"):
                continue
            if reader.size >= size:
                return True
            seen.add(reader)
            frontier.append(reader)
    return False


def met_nearby(x: Node, uses: dict[Node, list[Node]]) -> Iterator[Node]:
    """The reductions of what is computed from ``x`` or with it, element by element, the nearest first."""
    seen, frontier = {x}, deque([x])
    while frontier and len(seen) < _NEARBY:
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


def rate(blocks: int, target: Target) -> float:
    """Bytes a second that so many blocks read."""
    return target.device.rate(blocks)


def wanted_parts(rows: int, contiguous: bool, target: Target) -> int:
    """Parts of a row that keep all multiprocessors busy."""
    blocks = rows if contiguous else -(-rows // SIDE_BY_SIDE)
    return -(-_BLOCKS * target.gpu.multiprocessors // blocks)


def cut(shape: tuple[int, ...], axes: tuple[int, ...], wanted: int) -> Parts | None:
    """About ``wanted`` parts: whole outer axes first, then a part of the next one."""
    kept: list[int] = []
    for a in axes:
        extent = shape[a]
        if extent <= wanted:
            kept.append(a)
            wanted //= extent
            continue
        last = a == axes[-1]
        even = [s for s in range(max(2, wanted // 2), min(2 * wanted, extent) + 1) if extent % s == 0]
        if wanted > 1 and even:
            rounded = [s for s in even if not last or extent // s % _ROUND == 0] or even
            best = min(rounded, key=lambda s: abs(s - wanted))
            return Parts(tuple(kept), a, best, extent // best)
        if wanted > 1:  # uneven: the last part is filled up
            length = -(-extent // wanted)
            if last:
                length = -(-length // _ROUND) * _ROUND
            count = -(-extent // length)
            return Parts(tuple(kept), a, count, length) if count > 1 else None
        break
    return Parts(tuple(kept)) if kept and len(kept) < len(axes) else None


def parts_on_chip(total: Node, again: bool, target: Target) -> Parts | None:
    """The parts of a row, None if all of it stays on chip or reading it again costs less than more launches.

    ``again``: something of a row's size is computed from the result, which needs the row once more.
    """
    x, axes = total.inputs[0], total.params["axes"]
    contiguous = all(x.shape[a] == 1 for a in range(axes[-1] + 1, x.ndim))
    count, size = x.size // total.size, max(4, x.dtype.size)
    if target.name == "cpu":
        inner = prod(d for a, d in enumerate(x.shape) if a > axes[-1])
        together = 1 if contiguous else min(_COLUMNS, inner)
        most = _CPU_PART // (size * together)
        row = count * size * together
        in_order = contiguous or (inner < NARROW and axes[0] > 0)
        wanted = -(-count // most) if row > (_FAR if again and in_order else _NEAR) else 1
    else:
        together = 1 if contiguous else min(SIDE_BY_SIDE, total.size)
        most = min(_PART, target.gpu.shared_bytes // _SHARE) // (size * together)
        if not _gains(total, again, contiguous, target):
            return None
        busy = wanted_parts(total.size, contiguous, target)
        wanted = max(-(-count // most), min(count // target.part_elements, busy))
    found = cut(x.shape, axes, wanted) if wanted > 1 else None
    # axes of awkward extents may leave parts that are hardly shorter
    if not found or _length(x, axes, found) > 2 * most:
        return None
    return None if target.name == "cpu" and contiguous and _crumbles(x.shape, axes, found) else found


def _crumbles(shape: tuple[int, ...], axes: tuple[int, ...], parts: Parts) -> bool:
    """True if an uneven cut costs more than it gains: up to four times the time of a second walk, as measured.

    What fills up the last part is told by its place along the axis that is cut. Axes inside are then walked apart from
    it, in runs that have to be long: short ones are added one to the other, and rounding errors pile up.
    """
    if parts.axis is None or parts.count * parts.length == shape[parts.axis]:
        return False
    return prod(shape[a] for a in axes if a > parts.axis) < _RUN


def _gains(total: Node, again: bool, contiguous: bool, target: Target) -> bool:
    """True if a GPU is faster with parts."""
    x, size = total.inputs[0], max(4, total.dtype.size)
    if contiguous or again:
        fits, blocks = kept_by_blocks(total, contiguous, target)
    else:
        fits = x.size // total.size * min(GpuConstants.sector_bytes, total.size * size) <= target.gpu.shared_bytes
        blocks = -(-total.size // SIDE_BY_SIDE)
    whole = x.type.nbytes * (1 if fits else 3 if again else 2) / rate(blocks, target)
    merged = x.type.nbytes * target.byte_seconds * (2 if again else 1) + target.launch_seconds * (2 if again else 1)
    return merged < whole


def kept_by_blocks(total: Node, contiguous: bool, target: Target) -> tuple[bool, int]:
    """Whether the blocks of a cluster keep what a reduction takes in on chip, and how many blocks of rows there are then.

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
        return False, -(-total.size // SIDE_BY_SIDE)
    wide = min(SIDE_BY_SIDE, inner, room // (count * size))
    return True, -(-total.size // wide) * (gpu.cluster_blocks if count >= _CLUSTERED else 1)


def _length(x: Node, axes: tuple[int, ...], parts: Parts) -> int:
    """Elements of a part."""
    inner = prod(x.shape[a] for a in axes if a not in parts.kept and a != parts.axis)
    return inner * (parts.length if parts.axis is not None else 1)


def taken_apart(
    b: Builder, x: Node, axes: tuple[int, ...], parts: Parts, filling: bool | int | float
) -> tuple[Node, tuple[int, ...]]:
    """``x`` with an axis for the parts of the one that is cut, and the axes of a part's own elements."""
    inner = tuple(a for a in axes if a not in parts.kept)
    if parts.axis is not None:
        a, missing = parts.axis, parts.count * parts.length - x.shape[parts.axis]
        if missing:
            high = tuple(missing if k == a else 0 for k in range(x.ndim))
            x = b.pad(x, low=(0,) * x.ndim, high=high, value=filling)
        x = b.reshape(x, (*x.shape[:a], parts.count, parts.length, *x.shape[a + 1 :]))
        inner = tuple(k + (k >= a) for k in inner)
    return x, inner


def lined_up(b: Builder, found: Node, inner: tuple[int, ...], parts: Parts, lead: int) -> Node:
    """``found``, which lacks the ``inner`` axes of what was taken apart, with one axis for all parts."""
    # what is left of the axes, in order: rows' own ones, and those of the parts among them
    left = [k for k in range(found.ndim + len(inner)) if k not in inner]
    split = {k + (parts.axis is not None and k > parts.axis) for k in parts.kept}
    split |= {parts.axis} if parts.axis is not None else set()
    middle = [k for k, axis in enumerate(left) if axis in split]
    own = [k for k in range(len(left)) if k not in middle]
    found = b.transpose(found, (*own[:lead], *middle, *own[lead:]))
    shape = found.shape
    return b.reshape(found, (*shape[:lead], prod(shape[lead : lead + len(middle)]), *shape[lead + len(middle) :]))
