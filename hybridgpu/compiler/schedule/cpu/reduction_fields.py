# SPDX-License-Identifier: Apache-2.0
"""Records that the templates of the CPU's reduction kernels read."""

from __future__ import annotations

from typing import ClassVar

from ....core.dataclass import dataclass, field
from ..kernel import Statement, TemplateFields
from ..reduction_passes import ColumnSum, FullReduction, Pass

__all__ = ["ColumnsFields", "ReductionFields", "RowTiles", "RowsFields", "TileCopy"]


@dataclass(frozen=True)
class TileCopy:
    """An operand or result whose elements are turned: its type, its copy, the part of that, and where it lies."""

    type: str
    name: str
    part: str
    place: str


@dataclass(frozen=True)
class RowTiles:
    """Tiles of rows (or windows) that are turned, so that they lie side by side.

    Attributes:
        loads, stores: what is turned before the walks and behind them.
        loops: name and extent of the loops around.
        run: neighbours of a row, 0 if how many there are is dynamic: then ``length`` is C text of it.
        count: C text of the number of rows.
        rows: those of a tile.
    """

    loads: list[TileCopy] = field(default_factory=list)
    stores: list[TileCopy] = field(default_factory=list)
    loops: list[tuple[str, int]] = field(default_factory=list)
    run: int = 0
    length: str = ""
    count: str = "count"
    rows: int = 0


@dataclass(frozen=True, kw_only=True)
class ReductionFields(TemplateFields):
    """What both forms of reductions read.

    Attributes:
        rows: the loops over rows, as (variable, extent).
        reduced: the loops over what is reduced, but the outermost (columns form) or the innermost one.
        passes, last: the walks over a row, and what follows the last one.
        row_stores: stores of one value a row.
        row_values: (type, name) of row values that outlive the block that computes them.
        width: elements of a row that arrays have room for.
        tile, tile_begin, tile_end: the variable that lanes count along, and what it runs between.
        tile_size, count: lanes, and C text of how many of them are used.
        part: elements of which states are put together before they are added to others; 0: of all.
        cache_buffers: (type, name) of caches that have memory of their own.
        totals, totals_part: (reduction over all rows, type of its states), and after how many they are put together.
        after, after_stores: what follows the last row.
    """

    rows: list[tuple[str, str | int]]
    reduced: list[tuple[str, str]]
    passes: list[Pass]
    last: Pass
    row_stores: list[Statement]
    row_values: list[tuple[str, str]]
    width: int
    tile: str
    tile_begin: str
    tile_end: str
    tile_size: int
    count: str
    part: int
    cache_buffers: list[tuple[str, str]]
    totals: list[tuple[FullReduction, str]]
    totals_part: int
    after: list[Statement]
    after_stores: list[Statement]


@dataclass(frozen=True, kw_only=True)
class RowsFields(ReductionFields):
    """Rows whose elements are neighbours in memory: lanes share a row.

    Attributes:
        extent, tile_stop: C text of the number of elements of a row, and of where a part of them ends.
        masked_vector: lanes of a vector, where how many elements a row has is dynamic; else 0.
        elements: C text of the elements that a state may have taken in, '' if all of them have.
        element: C text of an element's position in a row.
        cache_length: elements of a cache.
        group, group_step: rows that there is room for where they are walked together (0: one after the other), and C
            text of how many are.
        sums, sums_part: sums over all rows, and after how many rows they are put together.
        totals_lanes: states of a reduction over all rows.
        streaming_condition: C text of when results are stored past the caches, '' if never.
    """

    template: ClassVar[str] = "cpu/rows.j2"
    extent: str
    tile_stop: str
    masked_vector: int
    elements: str
    element: str
    cache_length: int
    group: int
    group_step: str
    sums: list[ColumnSum]
    sums_part: int
    totals_lanes: int
    streaming_condition: str

    @property
    def streams(self) -> bool:
        """True if results may be stored past the caches: not those that are written over operands."""
        return bool(self.streaming_condition) and not any(p.aliased for p in self.pointers)


@dataclass(frozen=True, kw_only=True)
class ColumnsFields(ReductionFields):
    """Rows that are neighbours in memory, or are made so: lanes are rows.

    Attributes:
        first, first_extent, next: the outermost loop over what is reduced.
        neighbours: rows, where lanes take several elements of each; else 0.
        partial: C text of whether a tile may have lanes without a row; '' if none has.
        tiles: what is turned.
    """

    template: ClassVar[str] = "cpu/columns.j2"
    first: str
    first_extent: str
    next: str
    neighbours: int
    partial: str
    tiles: RowTiles
