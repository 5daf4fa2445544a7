# SPDX-License-Identifier: Apache-2.0
"""Map kernels, which have no reductions: every point of the domain on its own.

Here is what both targets share; ``cpu.loop_nests`` writes nests of loops, ``cuda.map`` steps of threads.
"""

from __future__ import annotations

from ..ir.graph import Node
from ..ir.indexing import Var
from ..target import Target
from .blocks import texts
from .cpu.loop_nests import LoopFields, blocks, build_loops, has_transposes, is_pure_transpose
from .cpu.nontemporal_stores import nontemporal_loops
from .in_place import in_place_pairs
from .index_set_splitting import bit_copies, outer_breakpoint_axis
from .kernel import CWriter, Kernel, TemplateFields
from .program_kernel import kernel_of_program
from .runtime_args import dynamic_axes, dynamic_in_tiles, dynamic_outer
from .scalar import ScalarProgram
from .transpose_tiling import Tiling, choose_tiling

__all__ = ["schedule_map"]

_CHUNK_MULTIPLE = 256  #: elements: whole lines of bytes, blocks of stores past the caches, and tiles


def schedule_map(program: ScalarProgram, target: Target, members: list[Node]) -> Kernel:
    """The kernel of a group without reductions (``program`` is normalised)."""
    if not program.vars:
        program.vars.append(Var("i0", 1))
    outer = program.vars[0]
    writer = CWriter(target, program, allows_dynamic=True)
    writer.bit_copied = bit_copies(program)
    writer.split_axis = outer_breakpoint_axis(program)
    tiles = choose_tiling(program, conditions=True, cached=True) if target.name == "cpu" else None
    if tiles:
        moved = is_pure_transpose(program, tiles)
        writer.dynamic_axes = dynamic_in_tiles(program, tiles.across, tiles.along, moved)
        writer.literal_axes = frozenset() if moved else writer.dynamic_axes & {tiles.along.name}
    elif target.name == "cpu" and (of_vectors := dynamic_outer(program)):
        writer.dynamic_axes = of_vectors
    elif target.name == "cpu":
        tested = frozenset(v for s in program.scalars for c in s.conditions for v in c.expr.vars)
        writer.inner, writer.dynamic_axes = program.vars[-1], dynamic_axes(program, program.vars[-1], tested)
        writer.literal_axes = frozenset(v.name for v in tested)
    pointers = writer.pointer_list([s.node for s in program.stores])
    fields: TemplateFields
    launch = None
    more: tuple[str, ...] = ()
    if target.name == "cpu":
        past = nontemporal_loops(program, writer, build_loops(program, writer)[1])
        before, loops, choice = build_loops(program, writer, prefetch=True)
        once, nest = texts(before), blocks(loops)
        streamed = [*once, *past.lines(nest)] if past else None
        fields = LoopFields(pointers=pointers, lines=[*once, *nest], nontemporal=streamed)
        more = ("tile_cpu.h",) * has_transposes(loops) + ("stream_cpu.h",) * bool(past)
    else:
        from .cuda.map import map_fields

        fields, launch, choice = map_fields(program, writer, pointers)
    return kernel_of_program(
        writer,
        "map",
        members,
        fields,
        choice,
        (outer.extent,),
        more,
        compile_cost=1,
        launch=launch,
        in_place=in_place_pairs(program),
        chunk_multiple=_chunk_multiple(program, outer, tiles),
    )


def _chunk_multiple(program: ScalarProgram, outer: Var, tiles: Tiling | None) -> int:
    """The number that chunks along the outermost variable are multiples of: whole vectors, blocks or tiles of what lies along it."""
    if any(s.scattered or not s.is_parallel(outer) for s in program.stores):
        return 0
    lies = outer is program.vars[-1] or (tiles is not None and outer in (tiles.across, tiles.along))
    return _CHUNK_MULTIPLE if lies or any(s.offset.coefficient(outer) == 1 for s in program.stores) else 1
