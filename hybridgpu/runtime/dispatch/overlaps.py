# SPDX-License-Identifier: Apache-2.0
"""Arrays of a call that share memory which its graph writes.

The values of a graph are apart: what is written into one input does not show in another one. So a graph that was traced
on arrays, which may write them, is none of a call of which a written input shares memory with another. What writes
nothing is not asked.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from ...backends.code_cache import define
from ...context import Context
from ...ndarray.ndarray import NDArray
from ...ndarray.types import ArrayType
from ...tracing.error import SharedMemoryError
from .source import FILE

if TYPE_CHECKING:
    from ..cached_op import CachedOp

__all__ = ["check_no_overlap", "overlap_test"]


def _extent(x: NDArray) -> tuple[int, int]:
    """Where the memory of an array begins and ends."""
    begin = x.address
    return begin, begin + x._type.tensor.nbytes


def check_no_overlap(op: CachedOp, arrays: Sequence[NDArray], ctx: Context) -> None:
    """Raise SharedMemoryError if an argument shares memory that a call of the graph writes.

    Args:
        arrays: the arguments.
    """
    written = op.written_inputs()
    if not written:
        return
    inputs = [arrays[s] if isinstance(s, int) else s.data(ctx) for s in op.sources]
    places = [_extent(x) for x in inputs]
    for k in sorted(written):
        begin, end = places[k]
        for j, (first, last) in enumerate(places):
            if j == k or not (isinstance(op.sources[j], int) or isinstance(op.sources[k], int)):
                continue  # two that are no arguments were compared when the function was traced
            if max(begin, first) < min(end, last):
                names = op.symbol.list_inputs()
                raise SharedMemoryError(
                    f"{op.name} writes into {names[k]}, whose memory {names[j]} shares\n"
                    "A graph has no shared memory: give one of them as a copy(), or use one argument for both."
                )


def overlap_test(
    op: CachedOp, types: Sequence[ArrayType], written: Iterable[int], params: Mapping[int, NDArray]
) -> Callable[[Sequence[NDArray]], bool] | None:
    """Whether arguments share memory that a call writes, as a function of them; None where that need not be asked.

    Args:
        types: of the arguments, in order.
        written: positions of the inputs that the call writes.
        params: the inputs that are no arguments, by position.
    """
    if op.traced is None:
        return None
    positions, sizes = set(written), [t.tensor.nbytes for t in types]
    arguments = {s: k in positions for k, s in enumerate(op.sources) if isinstance(s, int) and sizes[s]}
    names: dict[str, Any] = {"bisect": bisect_right}
    conditions, read = [], set()
    for a, is_written in arguments.items():
        for b, other in arguments.items():
            if a < b and (is_written or other):
                conditions.append(f"at{a} < at{b} + {sizes[b]} and at{b} < at{a} + {sizes[a]}")
                read |= {a, b}
        others = [p for k, p in params.items() if (is_written or k in positions) and p._type.tensor.nbytes]
        fixed = sorted(map(_extent, others))
        if fixed:
            names[f"begins{a}"] = [0, *(begin for begin, _ in fixed)]
            names[f"ends{a}"] = [0, *accumulate((end for _, end in fixed), max)]
            conditions.append(f"ends{a}[bisect(begins{a}, at{a} + {sizes[a] - 1}) - 1] > at{a}")
            read.add(a)
    if not conditions:
        return None
    lines = [f"at{a} = args[{a}]._address or args[{a}].address" for a in sorted(read)]
    return define("shares_memory(args)", [*lines, f"return {' or '.join(conditions)}"], names, FILE)
