# SPDX-License-Identifier: Apache-2.0
"""Column sums: a kernel that iterates over rows also accumulates sums over all rows, one for each column.

The derivative of a normalisation has a result of the operand's size, for which it walks rows, and slopes of the scale
and the shift, which are sums along columns. Both read the same arrays, so one kernel that keeps an accumulator for each
column reads them once. That holds for any row kernel and anything summed over its rows, as long as nothing but what
follows the sums waits for them: they are complete after the last row only.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod

from ....core.dataclass import dataclass
from ...devices.cpu import CpuConstants
from ...ir.graph import Node
from ...ir.indexing import Var, all_vars
from ...target import Target
from .group import Group, Refusal, align_splits, label_pair, row_major_vars

__all__ = ["MAX_SUM_WORDS", "ColumnFusion", "dependents", "match_column_sums", "why_no_room"]

_MAX_TRIED = 4  #: arrays that two groups are tried to be lined up by
_MIN_ROW = 64  #: elements of a row, at least: shorter rows lie side by side on a CPU, and are too short for a team
_MAX_CPU_BYTES = 2 * CpuConstants.l1_bytes  #: CPU: of the sums, which stay in the first two caches beside the row
MAX_SUM_WORDS = 64  #: CUDA: 4-byte words of the sums that a thread keeps in registers, at most
_CUDA_THREADS = 512  #: CUDA: of a block that has registers for these beside any arrays; one of 1024 may not have
_MAX_CUDA_ITEMS = 32  #: CUDA: 4-byte elements of a row for each of these, at most, …
_CUDA_SHARED_VALUES = 2  #: … so many of which are kept in shared memory where registers hold more than …
_CUDA_REGISTER_ITEMS = 16  #: … so many sums


@dataclass(frozen=True)
class ColumnFusion:
    """A fusion of a group that reduces columns into one that iterates over rows.

    Attributes:
        substitution: the variables of the group that is merged -> those of the other.
        reduced: those that a row consists of.
        sums: the reductions that become column sums.
    """

    substitution: dict[Var, Var]
    reduced: list[Var]
    sums: list[Node]


def match_column_sums(a: Group, b: Group, shared: Node, target: Target) -> ColumnFusion | Refusal | None:
    """The fusion of ``b`` into ``a``, one of which iterates over the rows of a domain and the other over its columns.

    Returns:
        a refusal if a limit forbids it; None if they are no rows and columns of one domain.
    """
    if not (a.reduced and b.reduced) or a.points != b.points:
        return None
    found = _match_domains(a, b, shared)
    if found is None:
        return None
    table, order = found
    along, across = set(a.reduced), {table[v] for v in b.reduced}
    if along & across or along | across != set(a.vars):
        return None
    # the innermost variable in memory tells which of them walks rows
    rows, columns = (a, b) if order[-1] in along else (b, a)
    if columns.column_sums:
        return None
    reduced = a.reduced if rows is a else [table[v] for v in b.reduced]
    sums = [n for n in columns.index_of if n.prim.family == "reduce"]
    one, other = label_pair(columns.root, rows.root)

    def refuse(reason: str) -> Refusal:
        return Refusal(columns.root, rows.root, "column-sums", reason)

    if not sums:  # (it is going to walk columns of a sum that is still to be placed)
        return None
    if any(n.prim.name != "sum" for n in sums):
        return refuse(f"{one} runs along columns of the rows of {other}, which add up sums only on the way")
    early = set(rows.reads) & dependents(columns, sums) or set(columns.reads) & dependents(rows, list(rows.column_sums))
    if early or _needed_before_end(columns, sums):
        return refuse(f"{one} needs its sums over all rows before these were walked")
    why = why_no_room([*sums, *rows.column_sums], reduced, target)
    if why:
        return refuse(f"{one} is summed over the rows of {other}, {why}")
    return ColumnFusion(table, reduced, sums)


def why_no_room(sums: Collection[Node], reduced: Sequence[Var], target: Target) -> str:
    """The reason why a kernel has no room for ``sums`` of each element of a row; '' if it has."""
    width = prod(v.extent for v in reduced)
    nbytes = sum(max(4, n.dtype.size) for n in sums)  # of an element
    if width < _MIN_ROW:
        return f"whose {width} elements are too few to be walked one by one"
    if target.has_shared_memory:
        items = -(-width // (_CUDA_THREADS * target.gpu.cluster_blocks))
        size = max(4, *(n.dtype.size for n in sums))
        most = target.gpu.cluster_blocks * target.gpu.shared_bytes // (_CUDA_SHARED_VALUES * size)
        if items * size > 4 * _MAX_CUDA_ITEMS or (items * size > 4 * _CUDA_REGISTER_ITEMS and width > most):
            blocks = f"{target.gpu.cluster_blocks} blocks have" if target.gpu.cluster_blocks > 1 else "a block has"
            return f"whose {width} elements are more than {blocks} room for"
        words = items * nbytes // 4
        return f"for which a thread would need {words} registers" if words > MAX_SUM_WORDS else ""
    held = 2 * width * nbytes  # those of 64 rows, too
    if held > _MAX_CPU_BYTES:
        return f"for which {held >> 10} KiB of sums would have to stay in the caches"
    return ""


def _match_domains(a: Group, b: Group, shared: Node) -> tuple[dict[Var, Var], list[Var]] | None:
    """(variables of ``b`` -> those of ``a``, all of these from the outermost to the innermost in memory).

    By ``shared`` or another array that both read, or one computes and the other reads, each element once.
    """
    both = [n for n in b.reads if n in a.reads or n in a.index_of] + [n for n in a.reads if n in b.index_of]
    for node in [n for n in dict.fromkeys([shared, *both]) if n.size == a.points][:_MAX_TRIED]:
        orders: list[list[Var]] = []
        for g in (a, b):
            offset = g.affine_offset(node)
            order = row_major_vars(offset, node.size) if offset is not None else None
            if order is None:
                break
            orders.append(order)
        if len(orders) < 2 or (len(orders[0]) != len(orders[1]) and not align_splits(a, b, orders, node)):
            continue
        if [v.extent for v in orders[0]] == [v.extent for v in orders[1]]:
            return dict(zip(orders[1], orders[0], strict=True)), orders[0]
    return None


def dependents(group: Group, sums: list[Node]) -> set[Node]:
    """The members of ``group`` that depend on ``sums``, these included."""
    return {n for n in group.index_of if any(m in sums for m in group.backward_slice(n)[0])} if sums else set()


def _needed_before_end(columns: Group, sums: list[Node]) -> bool:
    """True if something that is computed for every element, or another sum, depends on one of ``sums``."""
    across = set(columns.reduced)
    waiting = dependents(columns, sums)
    for n in waiting:
        if n in sums:
            if any(m in sums and m is not n for m in columns.backward_slice(n)[0]):
                return True
        elif all_vars(columns.index_of[n]) & across:
            return True
    return False
