# SPDX-License-Identifier: Apache-2.0
"""Pooling tiles on the CPU: a lane for each window, whose elements are transposed so that lanes are neighbours.

Windows that follow each other without a gap (a pooling with a stride as long as its window) make vectors of loads
with a stride. Instead a tile of windows is turned first, row by row of theirs, and results go back in the same way.
Where an image has few windows in a row, several rows of them share a tile.

Why this stays beside the tiles of the map kernels (``schedule/transpose_tiling.py``): those turn two loops around a whole
kernel, and only where nothing is reduced. Here a lane is a window, of which each row is turned before the loops that reduce
it, so that tiles belong to the fields of a reduction (:mod:`.reduction_fields`), as those of short rows do (:mod:`.rows`).
"""

from __future__ import annotations

from math import prod

from ...devices.cpu import CpuConstants
from ...ir.dims import nominal
from ...ir.graph import Node
from ...ir.indexing import ZERO, Expr, Index, Var, delinearize, linearize, of_var, substitute
from ...passes.fuse.group import Group
from ..kernel import CWriter, address
from ..scalar import Scalar, ScalarProgram, Store
from .reduction_loops import RowTiles, TileCopy

__all__ = ["lane_utilization", "tile_pooling_windows"]

_LANES = 64  #: windows of a tile, …
_MAX_LANES = 256  #: … or so many of several rows
#: of whose lanes there is a multiple: what is left over would be computed window by window
_VECTOR = CpuConstants.vector_bytes // 4
_FILLED = 0.75  #: of vectors' lanes, from which on they count as used
_MIN_WINDOWS = 4  #: windows side by side that are worth a tile
_MAX_WINDOW_WIDTH = 4  #: elements of a window's row that tiles are turned for
_MAX_WINDOW = 16  #: elements of a window


def tile_pooling_windows(program: ScalarProgram, rows: list[Var], writer: CWriter) -> RowTiles | None:
    """Turn tiles of windows; the last of ``rows`` may become a variable that stands for several.

    Returns:
        the tiles, with the loads and stores of ``writer`` led to the copies; None if there are none.
    """
    if not rows or not program.reduced or nominal(prod(v.extent for v in program.reduced)) > _MAX_WINDOW:
        return None
    row, inner = rows[-1], program.reduced[-1]
    run = inner.extent
    if not 2 <= run <= _MAX_WINDOW_WIDTH or row.extent < _MIN_WINDOWS:
        return None

    def turned(e: Expr) -> bool:
        return e.affine and e.coefficient(row) == run and e.coefficient(inner) == 1

    loads = [s for s in program.scalars if s.op == "load" and s.offset is not None and turned(s.offset)]
    stores = [s for s in program.stores if turned(s.offset)]
    if not loads or any(s.conditions for s in loads):
        return None
    if any(s.op == "load" and s.offset is not None and not s.offset.affine for s in program.scalars):
        return None  # tiles may have lanes without a window: positions would be anything
    merged = _merged(program, rows, [*loads, *stores])
    lanes = prod(v.extent for v in merged) if len(merged) > 1 else min(_LANES, row.extent)
    lanes += -lanes % _VECTOR
    outer = program.reduced[:-1]
    place = linearize([*map(of_var, outer), ZERO], [v.extent for v in program.reduced]) * lanes
    place = place + linearize([*map(of_var, merged[:-1]), ZERO], [v.extent for v in merged])
    at = ZERO if len(merged) > 1 else of_var(Var("at", row.extent)) * run
    moves: dict[tuple[str, str], str] = {}
    elements: dict[Scalar | Store, str] = {}
    element = f"[({writer.expr(linearize([of_var(v) for v in program.reduced], [v.extent for v in program.reduced]))}) * {lanes} + j]"

    def source(pointer: str, e: Expr) -> str:
        return address(pointer, writer.address_text(e + of_var(row) * -run + of_var(inner) * -1 + at))

    for s in loads:
        assert s.node is not None and s.offset is not None
        key = s.node.dtype.storage, source(writer.pointers[s.node], s.offset)
        elements[s] = moves.setdefault(key, f"t{len(moves)}") + element
    out = []
    for k, store in enumerate(program.stores):
        if store in stores:
            out.append((store.node.dtype.storage, f"o{k}", source(f"y{k}", store.offset)))
            elements[store] = f"o{k}{element}"
    part = writer.expr(place)
    tiles = RowTiles(
        loads=[TileCopy(type, name, address(name, part), where) for (type, where), name in moves.items()],
        stores=[TileCopy(type, name, address(name, part), where) for type, name, where in out],
        loops=[(v.name, v.extent) for v in (*outer, *merged[:-1])],
        run=run,
        count=str(row.extent) if len(merged) > 1 else "count",
        rows=lanes,
    )
    writer.tile_elements |= elements
    if len(merged) > 1:
        _replace(program, rows, merged)
    return tiles


def lane_utilization(group: Group, node: Node, index: Index) -> float:
    """The part of vectors' lanes that loops over windows of ``group`` use where they compute ``node`` at ``index``.

    Lanes are neighbouring windows, of several rows in a tile, or neighbours in a row of a window where windows are few or
    far apart. Where windows are written rather than reduced, they are neighbours along the innermost axis, such as the
    columns of a window. A rest that is small compared with whole vectors does not count.
    """
    rows, offset = group.rows, linearize(index, node.shape)
    if not rows:
        return 1.0
    if not group.reduced:
        columns = (atom for e in reversed(index) for atom, _ in e.terms if rows[-1] in atom.vars)
        return _utilization(next((nominal(a.high) - nominal(a.low) + 1 for a in columns), nominal(rows[-1].extent)))
    lanes, step, run = rows[-1].extent, offset.coefficient(rows[-1]), 1
    for v in reversed(group.reduced):
        run *= v.extent if offset.coefficient(v) == run else 1
    if lanes < _MIN_WINDOWS or step > _MAX_WINDOW_WIDTH:
        lanes = run
    elif step == group.reduced[-1].extent:
        for v in rows[-2:0:-1]:
            lanes *= v.extent if lanes * v.extent <= _MAX_LANES else 1
    return _utilization(lanes)


def _utilization(lanes: int) -> float:
    share = lanes / (lanes + -lanes % _VECTOR)
    return share if share < _FILLED else 1.0


def _merged(program: ScalarProgram, rows: list[Var], tiled: list[Scalar | Store]) -> list[Var]:
    """The last rows that one variable can stand for: what is not turned lies as if they were one anyway."""
    for count in range(len(rows) - 1, 1, -1):
        last = rows[-count:]
        if prod(v.extent for v in last) > _MAX_LANES or any(s.conditions for s in program.scalars):
            continue
        _, table = _lane(last)
        scalars = [s.offset for s in program.scalars if s.offset is not None and s not in tiled]
        others = [s.offset for s in program.stores if s not in tiled]
        if all(substitute(e, table).affine for e in (*scalars, *others)):
            return last
    return rows[-1:]


def _lane(merged: list[Var]) -> tuple[Var, dict[Var, Expr]]:
    """One variable for several, and these in terms of it."""
    extents = [v.extent for v in merged]
    lane = Var("lane", prod(extents))
    return lane, dict(zip(merged, delinearize(of_var(lane), extents), strict=True))


def _replace(program: ScalarProgram, rows: list[Var], merged: list[Var]) -> None:
    lane, table = _lane(merged)
    program.replace(table)
    rows[-len(merged) :] = [lane]
    at = program.vars.index(merged[0])
    program.vars[at : at + len(merged)] = [lane]
