# SPDX-License-Identifier: Apache-2.0
"""Sums over all rows beside the rows: the kernel that walks rows adds up their elements on the way.

The derivative of a normalisation has a result of the operand's size, for which it walks rows, and slopes of the scale
and the shift, which are sums along columns. Both read the same arrays, so one kernel that keeps a sum for each column
at hand reads them once. That holds for whatever walks rows and whatever is summed over them, as long as nothing but what
follows the sums waits for these: they are known behind the last row only.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod

from ....dataclass import dataclass
from ...devices.cpu import CpuConstants
from ...ir.graph import Node
from ...ir.indexing import Var, all_vars
from ...target import Target
from .group import Cut, Group, align, bijective, describe_two

__all__ = ["MOST_SUMS", "Beside", "beside", "fits", "late"]

_TRIED = 4  #: arrays that two groups are tried to be lined up by
_ROW = 64  #: elements of a row, at least: shorter rows lie side by side on a CPU, and are too short for a team
_CPU_BYTES = 2 * CpuConstants.l1_bytes  #: CPU: of the sums, which stay in the first two caches beside the row
MOST_SUMS = 64  #: CUDA: 4-byte words of the sums that a thread keeps in registers, at most
_CUDA_THREADS = 512  #: CUDA: of a block that has registers for these beside any arrays; one of 1024 may not have
_CUDA_ITEMS = 32  #: CUDA: 4-byte elements of a row for each of these, at most, …
_CUDA_KEPT = 2  #: … so many of which are kept in shared memory where registers hold more than …
_CUDA_FEW = 16  #: … so many sums


@dataclass(frozen=True)
class Beside:
    """How one group takes in another.

    Attributes:
        table: the variables of the group that is taken in -> those of the other.
        reduced: those that a row consists of.
        sums: the reductions that become sums over all rows.
    """

    table: dict[Var, Var]
    reduced: list[Var]
    sums: list[Node]


def beside(a: Group, b: Group, shared: Node, target: Target) -> Beside | Cut | None:
    """How ``a`` can take in ``b``, one of which walks the rows of a domain and the other its columns.

    Returns:
        why it cannot, if it could but for a limit; None if they are no rows and columns of one domain.
    """
    if not (a.reduced and b.reduced) or a.points != b.points:
        return None
    found = _lined_up(a, b, shared)
    if found is None:
        return None
    table, order = found
    along, across = set(a.reduced), {table[v] for v in b.reduced}
    if along & across or along | across != set(a.vars):
        return None
    # the innermost variable in memory tells which of them walks rows
    rows, columns = (a, b) if order[-1] in along else (b, a)
    if columns.sums:
        return None
    reduced = a.reduced if rows is a else [table[v] for v in b.reduced]
    sums = [n for n in columns.at if n.prim.family == "reduce"]
    one, other = describe_two(columns.anchor, rows.anchor)

    def refuse(reason: str) -> Cut:
        return Cut(columns.anchor, rows.anchor, "beside", reason)

    if not sums:  # (it is going to walk columns of a sum that is still to be placed)
        return None
    if any(n.prim.name != "sum" for n in sums):
        return refuse(f"{one} runs along columns of the rows of {other}, which add up sums only on the way")
    early = set(rows.pending) & late(columns, sums) or set(columns.pending) & late(rows, list(rows.sums))
    if early or _awaited(columns, sums):
        return refuse(f"{one} needs its sums over all rows before these were walked")
    why = fits([*sums, *rows.sums], reduced, target)
    if why:
        return refuse(f"{one} is summed over the rows of {other}, {why}")
    return Beside(table, reduced, sums)


def fits(sums: Collection[Node], reduced: Sequence[Var], target: Target) -> str:
    """Why a kernel cannot keep ``sums`` for each element of a row, in words; '' if it can."""
    width = prod(v.extent for v in reduced)
    nbytes = sum(max(4, n.dtype.size) for n in sums)  # of an element
    if width < _ROW:
        return f"whose {width} elements are too few to be walked one by one"
    if target.name == "cuda":
        items = -(-width // (_CUDA_THREADS * target.gpu.cluster_blocks))
        size = max(4, *(n.dtype.size for n in sums))
        most = target.gpu.cluster_blocks * target.gpu.shared_bytes // (_CUDA_KEPT * size)
        if items * size > 4 * _CUDA_ITEMS or (items * size > 4 * _CUDA_FEW and width > most):
            blocks = f"{target.gpu.cluster_blocks} blocks have" if target.gpu.cluster_blocks > 1 else "a block has"
            return f"whose {width} elements are more than {blocks} room for"
        words = items * nbytes // 4
        return f"for which a thread would need {words} registers" if words > MOST_SUMS else ""
    held = 2 * width * nbytes  # those of 64 rows, too
    if held > _CPU_BYTES:
        return f"for which {held >> 10} KiB of sums would have to stay in the caches"
    return ""


def _lined_up(a: Group, b: Group, shared: Node) -> tuple[dict[Var, Var], list[Var]] | None:
    """(variables of ``b`` -> those of ``a``, all of these from the outermost to the innermost in memory).

    By ``shared`` or another array that both read, or one computes and the other reads, each element once.
    """
    both = [n for n in b.pending if n in a.pending or n in a.at] + [n for n in a.pending if n in b.at]
    for node in [n for n in dict.fromkeys([shared, *both]) if n.size == a.points][:_TRIED]:
        orders: list[list[Var]] = []
        for g in (a, b):
            offset = g.refine(node)
            order = bijective(offset, node.size) if offset is not None else None
            if order is None:
                break
            orders.append(order)
        if len(orders) < 2 or (len(orders[0]) != len(orders[1]) and not align(a, b, orders, node)):
            continue
        if [v.extent for v in orders[0]] == [v.extent for v in orders[1]]:
            return dict(zip(orders[1], orders[0], strict=True)), orders[0]
    return None


def late(group: Group, sums: list[Node]) -> set[Node]:
    """The members of ``group`` that are made of ``sums``, these included."""
    return {n for n in group.at if any(m in sums for m in group.needed(n)[0])} if sums else set()


def _awaited(columns: Group, sums: list[Node]) -> bool:
    """True if something that is computed for every element, or another sum, depends on one of ``sums``."""
    across = set(columns.reduced)
    waiting = late(columns, sums)
    for n in waiting:
        if n in sums:
            if any(m in sums and m is not n for m in columns.needed(n)[0]):
                return True
        elif all_vars(columns.at[n]) & across:
            return True
    return False
