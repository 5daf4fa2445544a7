# SPDX-License-Identifier: Apache-2.0
"""What schedules decided, for reports: nothing reads it to compile.

A number that is None, and a text that is empty, was not decided, and reports do not show it.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from ...core.dataclass import dataclass

__all__ = [
    "BandConvChoice",
    "Choice",
    "ColumnsChoice",
    "DirectConvChoice",
    "FilterGradientChoice",
    "ForeachChoice",
    "InputDilatedChoice",
    "MapChoice",
    "MatmulChoice",
    "PersistentChoice",
    "ReductionChoice",
    "RowsChoice",
    "ScatterChoice",
]


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What was decided for any kernel.

    Attributes:
        selected: why a kernel is generated rather than a library called, in words.
        prologue: which operands are computed as they are loaded, in words.
        why: why the kernel is as it is, in words.
        writes: which concat the results are parts of, in words.
    """

    selected: str = ""
    prologue: str = ""
    why: str = ""
    writes: str = ""

    def report(self) -> dict[str, Any]:
        """Names and values of what was decided: the plain form that programs store and reports show."""
        names = [f.name for f in fields(self)]
        general = len(fields(Choice))
        decided = {name: getattr(self, name) for name in (*names[general:], *names[:general])}
        return {name: value for name, value in decided.items() if value is not None and value != ""}


@dataclass(frozen=True, kw_only=True)
class MapChoice(Choice):
    """Of an elementwise kernel: its tile, and on CUDA threads, elements of an access, parts and steps together."""

    form: str = ""
    threads: int | None = None
    tile: str = ""
    vector: int | None = None
    parts: int | None = None
    unroll: int | None = None


@dataclass(frozen=True, kw_only=True)
class RowsChoice(Choice):
    """Of a reduction on the CPU whose lanes share a row; values kept, lanes, rows walked together, sums over rows."""

    form: str
    width: int
    kept: int
    tile: int
    group: int | None
    sums_beside_rows: int | None
    totals: int | None


@dataclass(frozen=True, kw_only=True)
class ColumnsChoice(Choice):
    """Of a reduction on the CPU whose lanes are rows; ``run``: elements of each that lanes take at once."""

    form: str
    width: int
    kept: int
    tile: int
    run: int | None
    totals: int | None


@dataclass(frozen=True, kw_only=True)
class ReductionChoice(Choice):
    """Of a reduction on CUDA: its launch, and bytes that are read again; ``merged``: blocks that put sums together."""

    form: str
    width: int
    threads: int
    team: int
    vector: int
    steps: int
    cluster: int | None
    merged: int | None
    sums_beside_rows: int | None
    parts: int | None
    read_again: int | None


@dataclass(frozen=True, kw_only=True)
class MatmulChoice(Choice):
    """Of a product: the function, and on CUDA its patch, layers of partial sums and elements of an access."""

    form: str
    rows: int | None = None
    columns: int | None = None
    threads: int | None = None
    layers: int | None = None
    vectors: list[int] | None = None


@dataclass(frozen=True, kw_only=True)
class BandConvChoice(Choice):
    """Of a convolution on the CPU: its band, whether that is copied, and the part of what is computed that counts."""

    rows: int
    columns: int
    copies: bool
    use: float


@dataclass(frozen=True, kw_only=True)
class DirectConvChoice(Choice):
    """Of a convolution on CUDA: neighbours that a thread computes, results of a window and threads that share it."""

    neighbours: int | None
    window: int | None
    lanes: int | None


@dataclass(frozen=True, kw_only=True)
class InputDilatedChoice(Choice):
    """Of an input-dilated convolution: phases, rows of a band, and the part of what is computed that counts."""

    phases: int
    rows: int
    use: float


@dataclass(frozen=True, kw_only=True)
class FilterGradientChoice(Choice):
    """Of a derivative by a weight: what vectors run along, whether operands are copied, or change places."""

    along: str
    copies: bool
    exchanged: bool


@dataclass(frozen=True, kw_only=True)
class ScatterChoice(Choice):
    """Of a scatter; on CUDA rows of a block, blocks, and bytes of positions that are read again."""

    threads: int | None = None
    vector: int | None = None
    rows: int | None = None
    blocks: int | None = None
    scanned: int | None = None


@dataclass(frozen=True, kw_only=True)
class ForeachChoice(Choice):
    """Of kernels that share a launch."""

    threads: int
    kernels: int
    bodies: int


@dataclass(frozen=True, kw_only=True)
class PersistentChoice(Choice):
    """Of a kernel of steps: their kinds, iterations of each, barriers, registers of a thread, bytes fetched ahead."""

    threads: int
    steps: list[str]
    turns: list[int] | None
    barriers: int
    registers: int
    cluster: int | None
    ahead: dict[str, int] | None
