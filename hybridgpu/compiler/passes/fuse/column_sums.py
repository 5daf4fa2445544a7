# SPDX-License-Identifier: Apache-2.0
"""Room for column sums: how many sums a kernel that iterates over rows can keep, one for each element of a row.

The room is predicted here rather than asked of the scheduler. Fusion asks for every pair of groups that read one array, and
``split_reductions`` before there are groups at all; a schedule takes scalars, passes and a search over launches, of which
most pairs would be thrown away. The limits are few and conservative: the scheduler takes ``MAX_SUM_WORDS`` from here, and a kernel
that this admits always has a launch, which the schedule of rows on CUDA asserts.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod

from ...devices.cpu import CpuConstants
from ...ir.graph import Node
from ...ir.indexing import Var
from ...target import Target

__all__ = ["MAX_SUM_WORDS", "why_no_room"]

_MIN_ROW = 64  #: elements of a row, at least: shorter rows lie side by side on a CPU, and are too short for a team
_MAX_CPU_BYTES = 2 * CpuConstants.l1_bytes  #: CPU: of the sums, which stay in the first two caches beside the row
MAX_SUM_WORDS = 64  #: CUDA: 4-byte words of the sums that a thread keeps in registers, at most
_CUDA_THREADS = 512  #: CUDA: of a block that has registers for these beside any arrays; one of 1024 may not have
_MAX_CUDA_ITEMS = 32  #: CUDA: 4-byte elements of a row for each of these, at most, …
_CUDA_SHARED_VALUES = 2  #: … so many of which are kept in shared memory where registers hold more than …
_CUDA_REGISTER_ITEMS = 16  #: … so many sums


def why_no_room(sums: Collection[Node], reduced: Sequence[Var], target: Target) -> str:
    """The reason why a kernel has no room for ``sums`` of each element of a row; '' if it has."""
    width = prod(v.extent for v in reduced)
    nbytes = sum(max(4, n.dtype.size) for n in sums)  # of an element
    if width < _MIN_ROW:
        return f"whose {width} elements are too few to be walked one by one"
    if target.device.has_shared_memory:
        items = -(-width // (_CUDA_THREADS * target.gpu.cluster_blocks))
        size = max(4, *(n.dtype.size for n in sums))
        most = target.gpu.cluster_blocks * target.gpu.shared_bytes // (_CUDA_SHARED_VALUES * size)
        if items * size > 4 * _MAX_CUDA_ITEMS or (items * size > 4 * _CUDA_REGISTER_ITEMS and width > most):
            blocks = f"{target.gpu.cluster_blocks} blocks have" if target.gpu.cluster_blocks > 1 else "a block has"
            return f"whose {width} elements are more than {blocks} room for"
        words = items * nbytes // 4
        return f"for which a thread would need {words} registers" if words > MAX_SUM_WORDS else ""
    sum_bytes = 2 * width * nbytes  # those of 64 rows, too
    if sum_bytes > _MAX_CPU_BYTES:
        return f"for which {sum_bytes >> 10} KiB of sums would have to stay in the caches"
    return ""
