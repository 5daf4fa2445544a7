# SPDX-License-Identifier: Apache-2.0
"""Map kernels on CUDA.

A thread computes a few neighbours along the innermost axis, so that accesses in order are 128 bits wide; where
rows are not a multiple of that, neighbours in the whole result. Operands that lie across pass through shared
memory, a tile at a time (``transpose_tiling``). A join becomes several *parts*, one for each of its operands (``index_set_splitting``),
which share the blocks of one launch.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from math import prod

from ....core.dataclass import dataclass
from ...ir.graph import Node
from ...ir.indexing import Expr, Var, linearize, of_var
from ...size_buckets import MAX_SPLIT_PARTS, next_power_of_two
from ...target import Target
from ..choice import Choice
from ..index_set_splitting import bit_copies, breakpoints, restrict
from ..kernel import CWriter, Launch, Pointer, Statement, unravel, variables_of
from ..scalar import Scalar, ScalarProgram
from ..transpose_tiling import Tiling, bucketed_points, choose_tiling, unit_stride
from .index_type import index_type
from .map_fields import LinearPart, MapFields, PartBody, SharedTile, TiledPart, VectorAccess

__all__ = ["THREADS", "aligned", "contiguous", "map_fields", "vector_body"]

THREADS = 256  #: of a block
_SHARED_BYTES = 40 * 1024  #: of all tiles of a kernel: 48 KiB are there without asking
_MIN_TILE_POINTS = 512  #: elements of two axes that are worth a tile
_MAX_UNROLLED = 4  #: steps of a thread that are taken together
_MAX_INLINE_COST = 1  #: scalar operations of what is an instruction, not a function, in double precision
_MIN_PART_POINTS = 2048  #: points of a kernel's average part


def map_fields(
    program: ScalarProgram, writer: CWriter, pointers: Sequence[Pointer]
) -> tuple[MapFields, Launch, Choice]:
    """Fields of the template, the launch, and what was chosen and why."""
    writer.reset_names()
    first = program.vars[0]
    pieces = _split_at_concats(program)
    parts: list[LinearPart | TiledPart] = []
    tile, why, vector, unroll = "", "", 1, 1
    blocks, free = Fraction(0), _SHARED_BYTES
    for k, piece in enumerate(pieces):
        writer.bit_copied |= bit_copies(piece)
        writer.name_scalars(piece.scalars)
        suffix = str(k) if len(pieces) > 1 else ""
        plan = _plan_tile(piece, free)
        part: LinearPart | TiledPart
        if plan:
            part, share = _tiled_part(piece, writer, suffix, plan, first, many=len(pieces) > 1)
            free -= plan.bytes
            tile, why = f"{plan.wide}x{plan.long}", plan.tiles.why
        else:
            part, share = _linear_part(piece, writer, suffix, first)
        vector = max(part.vector, vector)
        blocks += share
        parts.append(part)
    if len(pieces) > 1:
        for part in parts:  # (their blocks take one step, most of them)
            if isinstance(part, LinearPart):
                part.unroll = 1
    elif isinstance(parts[0], LinearPart):
        unroll = parts[0].unroll
    launch = Launch(THREADS, extent=0, scale=blocks.numerator, per_block=blocks.denominator, limit=16)
    fields = MapFields(
        pointers=pointers,
        parts=parts,
        index_type=index_type([program]),
        several=len(pieces) > 1,
        bounds=_bounds_macro(program),
        held=writer.target.gpu.resident_threads // THREADS if unroll > 1 else 0,
    )
    choice = Choice(
        {
            "threads": THREADS,
            "tile": tile,
            "vector": vector,
            "parts": len(pieces) if len(pieces) > 1 else None,
            "unroll": unroll if unroll > 1 else None,
        },
        why=why,
    )
    return fields, launch, choice


def _bounds_macro(program: ScalarProgram) -> str:
    """The macro that tells how many threads a block has."""
    called = any(
        s.op == "compute" and s.node and s.dtype.is_float and s.dtype.size == 8 and s.node.prim.cost > _MAX_INLINE_COST
        for s in program.scalars
    )
    return "HG_BOUNDS_WIDE" if called else "HG_BOUNDS"


# -- parts


def _split_at_concats(program: ScalarProgram) -> list[ScalarProgram]:
    """``program`` cut where joins change, if that leaves parts worth their text."""
    joins = [s for s in program.scalars if s.op == "load" and s.conditions]
    if len({s.node for s in joins}) < 2:
        return [program]
    pieces = [program]
    for var in program.vars:
        cut: list[ScalarProgram] = []
        for piece in pieces:
            mine = next((v for v in piece.vars if v.name == var.name), None)
            at = breakpoints(piece, mine) if mine else []
            if mine and at:
                cut += [restrict(piece, mine, a, b)[0] for a, b in pairwise([mine.low, *at, mine.high + 1])]
            else:
                cut.append(piece)
            if len(cut) > MAX_SPLIT_PARTS:
                return [program]
        pieces = cut
    if bucketed_points(program) < _MIN_PART_POINTS * len(pieces):
        return [program]
    return pieces


# -- walks in order


def _linear_part(program: ScalarProgram, writer: CWriter, suffix: str, first: Var) -> tuple[LinearPart, Fraction]:
    """A part that walks its elements in order, and the blocks it wants for each unit of the first extent."""
    inner = program.vars[-1]
    vector, whole_rows = _vector(program)
    coordinates: list[Statement] = []
    if whole_rows:
        base = Var(f"{inner.name}_0", inner.extent, inner.start)
        body = vector_body(program, writer, inner, base.name, vector)
        coordinates = [c for c in unravel([*program.vars[:-1], base], "e") if c.name in body.names]
    else:
        body = _linear_body(program, writer)
    runs = program.vars[0] is first
    scale = prod(v.extent for v in program.vars[1:])
    whole = 0 if runs else scale * program.vars[0].extent
    per_block = THREADS * vector
    named = frozenset[str]().union(*(p.variables for p in body.loads))
    part = LinearPart(
        suffix,
        vector,
        vector > 1 and (not whole_rows or len(program.vars) == 1),
        coordinates,
        body,
        scale,
        whole,
        _blocks(f"n0 * {scale}" if scale > 1 else "n0", per_block) if runs else str(-(-whole // per_block)),
        [c for c in coordinates if c.name in named],
        _unroll(program, body, vector, writer.target),
    )
    return part, Fraction(scale, per_block) if runs else Fraction(-(-whole // per_block), first.extent)


def _unroll(program: ScalarProgram, body: PartBody, vector: int, target: Target) -> int:
    """Steps of a thread that are taken together, so that their wide loads keep memory busy."""
    if any(s.dtype.size > 4 for s in program.scalars):  # (of two registers each)
        return 1
    gpu = target.gpu
    size_of = {s.dtype.storage: s.dtype.size for s in program.scalars if s.op == "load"}
    loaded = vector * sum(size_of[p.type] for p in body.loads)
    unroll = 1
    while loaded and unroll < _MAX_UNROLLED and gpu.resident_threads * loaded * unroll < gpu.bytes_in_flight:
        unroll *= 2
    return unroll


def _blocks(count: str, per_block: int) -> str:
    return f"(Index)(({count} + {per_block - 1}) / {per_block})"


def _vector(program: ScalarProgram) -> tuple[int, bool]:
    """Elements a thread computes, and if they are neighbours within a row rather than in the whole result.

    16 bytes of the widest array: within rows if they are multiples of that, in the whole result if more
    accesses are in order there.
    """
    inner = program.vars[-1]
    loads = [s for s in program.scalars if s.op == "load" and s.node]
    sizes = [s.node.dtype.size for s in loads if s.node and contiguous(s, inner)]
    sizes += [store.node.dtype.size for store in program.stores]
    width = max(1, 16 // max(sizes))
    if len(program.vars) == 1:
        return width, True  # a scalar tail takes the rest
    row = width
    while inner.extent % row or not all(
        row == 1 or (unit_stride(t.offset, inner) and aligned(t.offset, inner, row)) for t in program.stores
    ):
        row //= 2
    position = _position(program)
    if row == width or any(t.offset != position for t in program.stores) or any(v.start for v in program.vars):
        return row, True
    in_rows = sum(s.node.dtype.size / row for s in loads if s.node and inner in s.vars)
    in_rows += sum(t.node.dtype.size / row for t in program.stores)
    in_all = sum(s.node.dtype.size / (width if s.offset == position else 1) for s in loads if s.node and s.vars)
    in_all += sum(t.node.dtype.size / width for t in program.stores)
    return (width, False) if in_all < in_rows else (row, True)


def _position(program: ScalarProgram) -> Expr:
    """The row-major position of a point in the whole domain."""
    return linearize([of_var(v) for v in program.vars], [v.extent for v in program.vars])


def contiguous(s: Scalar, inner: Var) -> bool:
    """True if neighbours along ``inner`` are neighbours in memory and nothing else varies with it."""
    return s.op == "load" and not s.conditions and unit_stride(s.offset, inner)


def aligned(e: Expr, inner: Var, vector: int) -> bool:
    """True if ``e`` is a multiple of ``vector`` whenever ``inner`` is a multiple of it behind its start."""
    return (e.const + inner.start) % vector == 0 and all(
        a is inner or (isinstance(a, Var) and c % vector == 0) for a, c in e.terms
    )


def vector_body(program: ScalarProgram, writer: CWriter, inner: Var, base: str, vector: int) -> PartBody:
    """A step of ``vector`` elements from ``base`` along ``inner``."""
    body = PartBody()

    def pack(name: str, type: str, pointer: str, offset: Expr) -> VectorAccess:
        writer.printed.clear()
        return VectorAccess(name, type, writer.place(pointer, offset, {inner: base}), writer.variables())

    for s in program.scalars:
        on_chip = s in writer.tile_elements
        if not on_chip and contiguous(s, inner) and aligned(s.offset, inner, vector):  # type: ignore[arg-type]
            assert s.node is not None and s.offset is not None
            name = f"p{len(body.loads)}"
            body.loads.append(pack(name, s.node.dtype.storage, writer.pointers[s.node], s.offset))
            body.each.append(Statement(writer.c_type(s), writer.names[s], writer.as_stored(s, f"{name}.v[j]")))
            continue
        statement = writer.statement(s)
        if statement:
            (body.each if inner in s.vars else body.once).append(statement)
    direct = []
    for k, store in enumerate(program.stores):
        value = writer.names[store.value]
        writer.printed.clear()
        if store.scattered:
            place = writer.store_address(k, store)
            direct.append(writer.store(place, writer.stored_value(store, place)))
        elif store in writer.tile_elements:
            as_bits = store.node.dtype.is_half and store.value not in writer.bit_copied
            value = f"{store.node.dtype.storage}({value}).bits" if as_bits else value
            direct.append(Statement("", writer.tile_elements[store], value))
        elif unit_stride(store.offset, inner) and aligned(store.offset, inner, vector):
            body.stores.append(pack(f"q{k}", store.node.dtype.storage, f"y{k}", store.offset))
            body.each.append(Statement("", writer.as_stored(store.value, f"q{k}.v[j]"), value))
        else:
            target = writer.as_stored(store.value, f"y{k}[{writer.address_text(store.offset)}]")
            direct.append(writer.store(target, value))
    body.each += direct
    if inner.name in variables_of(body.each):
        body.each.insert(0, Statement("Index", inner.name, f"{base} + j", frozenset({base})))
    return body


def _linear_body(program: ScalarProgram, writer: CWriter) -> PartBody:
    """A step of neighbours in the whole result, from position ``e``, each with coordinates of its own."""
    body, position = PartBody(), _position(program)
    for s in program.scalars:
        if s.op == "load" and s.node and not s.conditions and s.offset == position:
            name = f"p{len(body.loads)}"
            body.loads.append(VectorAccess(name, s.node.dtype.storage, f"{writer.pointers[s.node]} + e"))
            body.each.append(Statement(writer.c_type(s), writer.names[s], writer.as_stored(s, f"{name}.v[j]")))
            continue
        statement = writer.statement(s)
        if statement:
            (body.each if s.vars else body.once).append(statement)
    for k, store in enumerate(program.stores):
        body.stores.append(VectorAccess(f"q{k}", store.node.dtype.storage, f"y{k} + e"))
        body.each.append(Statement("", writer.as_stored(store.value, f"q{k}.v[j]"), writer.names[store.value]))
    named = variables_of(body.each)
    body.each[:0] = [c for c in unravel(program.vars, "e + j") if c.name in named]
    return body


# -- tiles


@dataclass(frozen=True)
class _TilePlan:
    tiles: Tiling
    vector: int
    wide: int  #: extent of a tile across
    long: int  #: extent of a tile along
    pitch: int
    bytes: int


def _plan_tile(program: ScalarProgram, free: int) -> _TilePlan | None:
    """The plan of ``program`` in tiles that take no more than ``free`` bytes, if it is worth it."""
    tiles = choose_tiling(program)
    if tiles is None or tiles.across.extent * tiles.along.extent < _MIN_TILE_POINTS:
        return None
    offsets = [s.offset for s in tiles.loads] + [program.stores[k].offset for k in tiles.stores]
    types = [s.node.dtype for s in tiles.loads if s.node] + [program.stores[k].node.dtype for k in tiles.stores]
    widest = max([d.size for d in types] + [t.node.dtype.size for t in program.stores])
    vector = max(1, 4 // widest)  # four bytes a thread: a warp then moves whole lines
    straight = [t.offset for k, t in enumerate(program.stores) if k not in tiles.stores]
    while vector > 1 and not (
        tiles.across.extent % vector == 0
        and tiles.along.extent % vector == 0
        and all(aligned(o, tiles.across, vector) for o in offsets if o)
        and all(aligned(o, tiles.along, vector) for o in straight)
    ):
        vector //= 2
    while True:
        area = (32 * vector) ** 2
        long = min(next_power_of_two(tiles.along.extent), 32 * vector)
        wide = min(next_power_of_two(tiles.across.extent), area // long)
        long = min(next_power_of_two(tiles.along.extent), area // wide)
        # threads next to each other along read elements that are a pitch apart: in different banks
        pitch = wide + max(1, 32 * vector // long)
        size = sum(-(-long * pitch * d.size // 16) * 16 for d in types)
        if size <= free:
            return _TilePlan(tiles, vector, wide, long, pitch, size)
        if vector == 1:
            return None
        vector //= 2


def _tiled_part(
    program: ScalarProgram, writer: CWriter, suffix: str, plan: _TilePlan, first: Var, many: bool
) -> tuple[TiledPart, Fraction]:
    """A part that walks tiles, and the blocks it wants for each unit of the first extent."""
    across, along = plan.tiles.across, plan.tiles.along
    begin = {v: f"b{v.name[1:]}" for v in (across, along)}
    extent = {across: plan.wide, along: plan.long}
    runs = first if first in program.vars else None
    # a tile's number: the first variable (or its blocks) outermost, since its extent is known at run time only
    digits = [v for v in program.vars if v not in extent] + [across, along]
    if runs in extent:
        digits.remove(runs)
        digits.insert(0, runs)
    counts = [
        Var(begin.get(v, v.name), -(-v.extent // extent.get(v, 1)), 0 if v in extent else v.start) for v in digits
    ]
    position = unravel(counts, "tile")
    one = {c.name for c in counts if c.extent == 1 and c is not counts[0]}
    for k, v in enumerate(digits):
        if v in extent:
            text = position[k].text
            start = f" + {v.start}" if v.start else ""
            text = f"({text}) * {extent[v]}" if " " in text else f"{text} * {extent[v]}"
            position[k] = Statement("Index", begin[v], str(v.start) if begin[v] in one else text + start)
    rest = prod(c.extent for c in counts[1:])
    if not runs:
        count, share = str(rest * counts[0].extent), Fraction(rest * counts[0].extent, first.extent)
    elif runs in extent:
        size = extent[runs]
        count = f"(n0 + {size - 1}) / {size}" + (f" * {rest}" if rest > 1 else "")
        share = Fraction(rest, size)
    else:
        count, share = "n0" + (f" * {rest}" if rest > 1 else ""), Fraction(rest)
    limits = {v: "n0" if v is runs else str(v.high + 1) for v in extent if v is runs or v.extent % extent[v]}

    items = plan.wide * plan.long // plan.vector

    def access(pack: Var, other: Var) -> list[str]:
        """The place of a thread's access ``k`` whose elements follow each other along ``pack``, of which the first is looked at."""
        lanes = extent[pack] // plan.vector
        times = f" * {plan.vector}" if plan.vector > 1 else ""
        lines = [f"const int t = (int)threadIdx.x + k * {THREADS};"]
        lines.append(f"const Index {other.name} = {begin[other]} + t / {lanes};")
        lines.append(f"const Index {pack.name}_0 = {begin[pack]} + t % {lanes}{times};")
        lines += [f"if (t >= {items}) continue;"] if items < THREADS else []
        inside = " && ".join(f"{v.name}{'_0' if v is pack else ''} < {limit}" for v, limit in limits.items())
        return [*lines, f"if (!({inside})) continue;"] if inside else lines

    loads: list[SharedTile] = []
    stores: list[SharedTile] = []
    element = f"({along.name}_0 - {begin[along]} + j) * {plan.pitch} + {across.name} - {begin[across]}"

    def tiled(name: str, pointer: str, node: Node, offset: Expr) -> SharedTile:
        writer.printed.clear()
        text = writer.place(pointer, offset, {across: f"{across.name}_0"})
        variables = writer.variables()
        array = f"s{len(loads) + len(stores)}"
        half = node.dtype.is_half
        held_as = "unsigned short" if half else node.dtype.storage
        size = plan.long * plan.pitch
        return SharedTile(
            name, array, node.dtype.storage, held_as, plan.pitch, text, size, variables, ".bits" if half else ""
        )

    for s in plan.tiles.loads:
        assert s.node is not None and s.offset is not None
        loads.append(tiled(f"r{len(loads)}", writer.pointers[s.node], s.node, s.offset))
        text = f"{loads[-1].array}[{element}]"
        as_float = s.dtype.is_half and s not in writer.bit_copied
        writer.tile_elements[s] = f"{s.dtype.storage}_to_float({text})" if as_float else text
    for k in plan.tiles.stores:
        store = program.stores[k]
        stores.append(tiled(f"w{len(stores)}", f"y{k}", store.node, store.offset))
        writer.tile_elements[store] = f"{stores[-1].array}[{element}]"
    body = vector_body(program, writer, along, f"{along.name}_0", plan.vector)
    writer.tile_elements.clear()
    used = body.names.union(begin.values(), *(t.variables for t in (*loads, *stores)))
    part = TiledPart(
        suffix=suffix,
        vector=plan.vector,
        steps=-(-items // THREADS),
        across=across.name,
        along=along.name,
        begin_across=begin[across],
        begin_along=begin[along],
        access_across=access(across, along),
        access_along=access(along, across),
        coordinates=[c for c in position if c.name in used],
        count=count,
        loads=loads,
        stores=stores,
        body=body,
        final_barrier=bool(stores) and (many or not loads),
        block_count=f"(Index)({count})",
    )
    return part, share
