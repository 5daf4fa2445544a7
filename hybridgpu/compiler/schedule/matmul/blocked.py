# SPDX-License-Identifier: Apache-2.0
"""Large products on the CPU: which ones copy their operands in blocks (``kernels/matmul_blocked_cpu.h``), and why."""

from __future__ import annotations

from ...ir.dim_texts import report_text
from ...ir.graph import Node
from ...passes.materialize import matrix_strides
from ...target import Target
from ..runtime_args import reduces_outermost

__all__ = ["why_in_blocks"]

_MIN_TILE_ROWS = 16  #: rows that are worth copying some columns of the right operand at a time
_MIN_SUMS_OVER_BATCH = 1 << 10  #: elements of a product that sums over a batch


def why_in_blocks(node: Node, target: Target) -> str:
    """Why the CPU copies the operands of a product in blocks, '' where it reads them as they lie.

    That depends on the size of each matrix, not on that of a batch: attention's products, of which the extents are the
    length of a sentence, stay what they are when that changes. Nor does it depend on the number of terms where these are
    those of a batch, as in the gradient of a weight.
    """
    cpu, (m, k) = target.cpu, node.inputs[0].shape[-2:]
    work = node.size * k
    if node.dtype.short not in ("f32", "f64") or m <= cpu.thin_rows or work == 0:
        return ""
    along, across = (matrix_strides(i) for i in node.inputs)
    if node.ndim == 2 and along is not None and across is not None and reduces_outermost(along, across, k):
        size = m * node.shape[-1]
        return f"sums over a batch, {report_text(size, ',')} elements" if size >= _MIN_SUMS_OVER_BATCH else ""
    why = _why_if_not_small(node, target)
    return why if why and work > cpu.small_product_ops else ""  # asked last: it is a guard of every other size


def _why_if_not_small(node: Node, target: Target) -> str:
    """The same for a product that has more than a few multiplications, and does not sum over a batch."""
    cpu, (m, k) = target.cpu, node.inputs[0].shape[-2:]
    each = m * node.shape[-1] * k
    along, across = (matrix_strides(i) for i in node.inputs)
    if each > cpu.tiled_product_ops:
        return f"{report_text(each, ',')} multiplications, more than {cpu.tiled_product_ops:,}"
    long_column = f"columns of {report_text(k, ',')} elements" if k * node.dtype.size > cpu.copied_column_bytes else ""
    if along is None or across is None:  # copied first, into rows
        return long_column
    if across[0] == 1 and along[1] == 1:  # row_dot
        return ""
    if target.panels and across[1] == 1:
        from ...passes.prepack_weights import MAX_PANEL_ROWS, PANEL_ROW_BYTES

        if across[0] * node.dtype.size in PANEL_ROW_BYTES and k <= MAX_PANEL_ROWS:
            return ""  # outer_product, on whole vectors side by side
    if m < _MIN_TILE_ROWS:
        return f"{report_text(m)} rows, of a matrix that does not lie in the order of the sum"
    return long_column
