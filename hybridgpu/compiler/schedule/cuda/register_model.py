# SPDX-License-Identifier: Apache-2.0
"""Register model: how many registers ptxas gives a thread of a CUDA reduction kernel, fitted to what NVRTC made.

``bench/registers.py`` compiles the case graphs in several forms each, compares, and fits the figures below anew.
"""

from __future__ import annotations

from ....core.dataclass import dataclass
from ...target import Target

__all__ = ["RegisterDemand", "blocks_by_registers", "predicted_registers"]

MIN_REGISTERS = 16  #: that a thread of these kernels takes, at least
MAX_REGISTERS = 255  #: that an instruction can name
#: registers that ptxas gives up for a block more of a multiprocessor
SQUEEZED = 4


@dataclass(frozen=True)
class RegisterDemand:
    """The registers of a thread, in 4-byte words.

    Attributes:
        columns: it is of a kernel whose rows are neighbours in memory.
        cached: values of elements that later passes need.
        sums: sums over all rows.
        loading: spans on their way from memory, beyond the first.
        row_values: values of rows that passes leave to others.
        double: arithmetic is in double precision.
        unaligned_rows: rows may begin at any element.
    """

    columns: bool
    cached: int
    sums: int
    loading: int
    row_values: int
    double: bool
    unaligned_rows: bool = False


#: Registers of any thread, and for a word of each kind. Fitted with NVRTC 12.9 for sm_90 in strict mode: rows, …
ROWS = {
    "any": 22.0,
    "cached": 0.76,
    "sums": 2.0,
    "loading": 0.47,
    "row_values": 0.77,
    "double": 0.65,
    "unaligned_rows": 16.0,
}
#: … and columns.
COLUMNS = {
    "any": 27.8,
    "cached": 0.73,
    "sums": 0.0,
    "loading": 0.14,
    "row_values": 0.48,
    "double": 18.1,
    "unaligned_rows": 0.0,
}


def predicted_registers(demand: RegisterDemand, threads: int, target: Target) -> int:
    """Registers of a thread in blocks of so many."""
    fitted = COLUMNS if demand.columns else ROWS
    estimate = sum(c * (1 if name == "any" else getattr(demand, name)) for name, c in fitted.items())
    return round(max(MIN_REGISTERS, min(estimate, MAX_REGISTERS, target.gpu.registers // threads)))


def blocks_by_registers(count: int, threads: int, target: Target) -> int:
    """Blocks of so many threads for which a multiprocessor has registers, ``count`` predicted for a thread."""
    unit = target.gpu.register_unit
    each = -(-max(MIN_REGISTERS, count - SQUEEZED) // unit) * unit
    return max(1, target.gpu.registers // (each * threads))
