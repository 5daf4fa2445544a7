# SPDX-License-Identifier: Apache-2.0
"""Kernels without reductions: every point of the domain on its own.

Here is what both targets share; ``cpu.loop_nests`` writes nests of loops, ``cuda.map`` steps of threads.
"""

from __future__ import annotations

from ..ir.graph import Node
from ..ir.indexing import Var
from ..target import Target
from .cpu.loop_nests import moves, nests
from .cpu.nontemporal_stores import streamed
from .in_place import at_points
from .index_set_splitting import cut, only_moved
from .kernel import Kernel, Writer, headers, summary, touched, traffic
from .runtime_args import told_axes, told_in_tiles, told_outer
from .scalar import ScalarProgram
from .transpose_tiling import tiling

__all__ = ["schedule_map"]


def schedule_map(program: ScalarProgram, target: Target, members: list[Node]) -> Kernel:
    """The kernel of a group without reductions (``program`` is normalised)."""
    if not program.vars:
        program.vars.append(Var("i0", 1))
    outer = program.vars[0]
    writer = Writer(target, program, tells=True)
    writer.moved = only_moved(program)
    writer.cut = cut(program)
    tiles = tiling(program, conditions=True, cached=True) if target.name == "cpu" else None
    if tiles:
        moved = moves(program, tiles)
        writer.told = told_in_tiles(program, tiles.across, tiles.along, moved)
        writer.fixed = frozenset() if moved else writer.told & {tiles.along.name}
    elif target.name == "cpu" and (of_vectors := told_outer(program)):
        writer.told = of_vectors
    elif target.name == "cpu":
        tested = frozenset(v for s in program.scalars for c in s.conditions for v in c.expr.vars)
        writer.inner, writer.told = program.vars[-1], told_axes(program, program.vars[-1], tested)
        writer.fixed = frozenset(v.name for v in tested)
    outputs = [s.node for s in program.stores]
    pointers = writer.pointer_list(outputs)
    read, written = traffic(program)
    in_place = at_points(program)
    fields: dict[str, object] = {"pointers": pointers}
    launch = None
    more: tuple[str, ...] = ()
    if target.name == "cpu":
        past = streamed(program, writer, nests(program, writer)[1])
        before, loops, choice = nests(program, writer, fetch=True)
        fields |= {"before": before, "loops": loops, "streamed": past}
        more = ("tile_cpu.h",) * ("tile" in choice) + ("stream_cpu.h",) * bool(past)
    else:
        from .cuda.map import parts

        made, launch, choice = parts(program, writer)
        fields |= made
    return Kernel(
        numbers=writer.numbers,
        kind="map",
        effort=1,
        template=f"{target.name}/map.j2",
        summary=summary(members),
        fields=fields,
        inputs=writer.inputs,
        outputs=outputs,
        extents=(outer.extent,),
        headers=(*headers(program), *more),
        members=members,
        launch=launch,
        choice=choice,
        bytes_read=read,
        bytes_written=written,
        touched=touched(program),
        in_place=in_place,
    )
