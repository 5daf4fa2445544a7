# SPDX-License-Identifier: Apache-2.0
"""Kernels with reductions on CUDA: from the passes over a row to what the templates see."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from ....dataclass import dataclass, field
from ....dtypes import f32
from ...ir.graph import Node
from ...ir.indexing import Expr, Var
from ...ir.types import tensor_type
from ...size_buckets import length_class
from ..in_place import in_passes
from ..kernel import Kernel, Launch, Statement, Writer, coordinates, headers, mentioned, summary, touched, traffic
from ..reduction_passes import Accumulator, Plan, Sum
from ..row_reciprocals import stored_quotients
from ..runtime_args import adds_over_the_batch, ranks
from ..scalar import Reduction, Scalar, ScalarProgram
from .index_type import index_type
from .reduction_config import Form, Work, choose_columns, choose_rows, choose_rows_with_sums, kept_values
from .vector_access import Block, Spans, choose_vector, kept_type

__all__ = ["cuda_kernel"]

_LEAST = 256  #: elements that shorter rows are added up as, if their number is an argument: all take next to nothing
_ANY = 1 << 10  #: neighbours that stand for any number of them
_SHORTEST = 64  #: elements that a row on chip has room for, at least, if how many it has is an argument


@dataclass
class Walk:
    """One walk over a row as a template sees it.

    Attributes:
        row: statements of the row before it.
        before: the same for rows side by side.
        first: the variable with the position of a span's first element ('' if nothing needs it), and what follows
            from it.
        inner, before_inner: the variable along a span, where statements mention it.
        block, accumulators, sums: of an element.
        row_in, row_out, each_in: row values that cross from block to block, as (type, name).
    """

    row: list[Statement]
    before: Block
    first: str
    coordinates: list[Statement]
    inner: str
    before_inner: str
    block: Block
    accumulators: list[Accumulator]
    sums: list[Sum] = field(default_factory=list)
    row_in: list[tuple[str, str]] = field(default_factory=list)
    row_out: list[tuple[str, str]] = field(default_factory=list)
    each_in: list[tuple[str, str]] = field(default_factory=list)


def cuda_kernel(
    program: ScalarProgram,
    writer: Writer,
    rows: list[Var],
    columns: bool,
    members: list[Node],
    told: Var | None,
) -> Kernel:
    """The kernel of a group with reductions.

    Sums over all rows are left in parts (see :mod:`.column_sums`), the last results.

    Args:
        told: the variable whose extent may be an argument.
    """
    outputs = [s.node for s in program.stores]
    var = rows[-1] if columns else program.reduced[-1]
    if _ordered(program, writer.target.numeric):  # a batch of one is added up as others are
        told = None
    ragged = not columns and not program.sums and len(program.reduced) == 1
    ragged = ragged and _any_order(program, writer.target.numeric)
    vector, anchor = choose_vector(program, var, ragged)
    width = prod(v.extent for v in program.reduced)
    length = length_class(width, _LEAST) if told else 0
    widest = vector
    inside = None if columns else frozenset(program.reduced)
    quotients: dict[Scalar, tuple[Scalar, Scalar]] = {}
    if not columns and anchor is None and writer.target.numeric == "strict":
        quotients = stored_quotients(program, Spans(writer, var, vector, inside=inside).fits)
        writer.name(program.scalars)
    plan, form, vector = _choose(program, writer, rows, columns, widest, anchor, length)
    if told is not None and (_on_chip(form) or _read_again(program, plan, rows)):  # arrays on chip have a length
        roomy = _choose(program, writer, rows, columns, widest, anchor, max(ranks(width), _SHORTEST))
        again, kept = _read_again(program, roomy[0], rows), _on_chip(roomy[1])
        exact = _choose(program, writer, rows, columns, widest, anchor, 0) if again or not kept else None
        if exact and ((_on_chip(form) and not kept) or _read_again(program, exact[0], rows) < again):
            (plan, form, vector), told = exact, None  # it fits, a longer one would not
        elif kept:
            plan, form, vector = roomy
    spans = Spans(writer, var, vector, anchor, inside, quotients)
    make = _columns if columns else _rows
    fields, launch = make(program, plan, form, spans, rows, _length(program, writer, told))
    extents: tuple[int, ...] = (rows[0].extent,)
    read, written = traffic(program)
    if program.sums:
        parts = form.parts(prod(v.extent for v in rows), writer.target)
        extents = (*extents, parts)
        left = [part_of(r, parts, width) for r in program.sums]
        outputs += left
        written += sum(n.type.nbytes for n in left)
    again = _read_again(program, plan, rows)
    full = any(walk.targets for walk in plan.passes)
    choice: dict[str, Any] = {
        "form": "columns" if columns else "rows",
        "width": prod(v.extent for v in program.reduced),
        "threads": form.threads,
        "team": form.team,
        "vector": vector,
        "steps": form.steps,
    }
    if form.cluster > 1:
        choice["cluster"] = form.cluster
    if form.merged > 1:
        choice["merged"] = form.merged
    if program.sums:
        choice |= {"sums_beside_rows": len(program.sums), "parts": extents[-1]}
    if again:
        choice["read_again"] = again
    return Kernel(
        kind="rows" if full else "reduce",
        template=f"cuda/{'columns' if columns else 'rows'}.j2",
        summary=summary(members),
        fields=fields | {"pointers": writer.pointer_list(outputs)},
        inputs=writer.inputs,
        outputs=outputs,
        extents=extents,
        headers=(*headers(program), "reduce.h", *(["divide_cuda.h"] if quotients else [])),
        members=members,
        launch=launch,
        choice={**choice, "why": form.why},
        bytes_read=read + again,
        bytes_written=written,
        touched=touched(program),
        in_place=in_passes(program, plan) if _each_once(rows, form, columns, spans) else [],
        numbers=writer.numbers,
    )


def _any_order(program: ScalarProgram, numeric: str) -> bool:
    """True if the lanes' shares of a row may differ between rows, as they do where spans begin at multiples of 16 bytes.

    In the strict mode sums that round have the same order wherever the row stands.
    """
    rounds = (r.node.dtype.is_float and r.node.prim.name in ("sum", "prod") for r in program.reductions)
    return numeric == "fast" or not any(rounds)


def _ordered(program: ScalarProgram, numeric: str) -> bool:
    """True if a row is added up in the same order however many there are: in the strict mode, if rows are a batch."""
    return not _any_order(program, numeric) and not adds_over_the_batch(program)


def part_of(total: Reduction, parts: int, width: int) -> Node:
    """The array of so many parts of a sum over all rows, each of which has ``width`` elements."""
    node, dtype = total.node, total.operand.dtype
    held = tensor_type((parts, width), f32 if dtype.is_half else dtype)
    return Node(node.builder, node.prim, (), {}, held, node.index, node.prov)


def _each_once(rows: list[Var], form: Form, columns: bool, spans: Spans) -> bool:
    """True if no thread without rows of its own reads those of others, to take part in barriers."""
    together = form.across * (spans.vector if columns else 1)
    return prod(v.extent for v in rows) % together == 0 or not (columns or 1 < form.team < form.threads)


def _choose(
    program: ScalarProgram,
    writer: Writer,
    rows: list[Var],
    columns: bool,
    vector: int,
    anchor: Expr | None,
    width: int,
) -> tuple[Plan, Form, int]:
    """The passes, the form and the elements of a span, which are fewer where sums over all rows have no room otherwise, or
    elements that are needed again.

    What has no place on chip is refused, and the passes are planned again without it.

    Args:
        width: the length that stands for all that the form is to serve; 0 if that is this kernel's alone.
    """
    refused: frozenset[Scalar] = frozenset()
    while True:
        plan = Plan(program, writer, True, "", refused)
        work = _work(program, plan, rows, vector, anchor is not None)
        work = replace(work, width=width, told=True) if width else work
        if columns:
            same = _ordered(program, writer.target.numeric)
            form = choose_columns(work, writer.target, _neighbours(program, rows, same), same)
        elif program.sums:
            found = choose_rows_with_sums(work, writer.target)
            if found is None:
                assert vector > 1, "sums over all rows have no room in any form"
                vector //= 2
                continue
            form = found
        else:
            form = choose_rows(work, writer.target)
        refused |= form.refused
        if not form.refused:
            break
    if columns and vector > 1 and _read_again(program, plan, rows):  # fewer rows side by side may have room
        fewer = _choose(program, writer, rows, columns, vector // 2, anchor, width)
        if fewer[1].cluster > 1 and not _read_again(program, fewer[0], rows):
            return fewer
    return plan, form, vector


def _on_chip(form: Form) -> bool:
    """True if the text depends on how long rows are."""
    return bool(form.places) or form.cluster > 1


def _neighbours(program: ScalarProgram, rows: list[Var], same_order: bool) -> int:
    """How many rows follow each other in memory; any number of them if that is a batch, which may not decide."""
    batch = len(rows) == 1 and all(r.node.inputs[0].shape[0] > 1 for r in program.reductions)
    return _ANY if batch and same_order else rows[-1].extent


def _work(program: ScalarProgram, plan: Plan, rows: list[Var], vector: int, ragged: bool) -> Work:
    width = prod(v.extent for v in program.reduced)
    count = prod(v.extent for v in rows)
    streamed = {
        s.node: s.node.dtype.size for s in program.scalars if s.op == "load" and s.node and _is_stream(s, rows, program)
    }
    walks = [w for w in plan.passes if w.scalars or w.accumulators or w.targets]
    arrays = {
        s.node: s.node.dtype.size
        for s in program.scalars
        if s.op == "load" and s.node and s.vars & set(program.reduced)
    }
    return Work(
        rows=count,
        width=width,
        vector=vector,
        ragged=ragged,
        read=sum(streamed.values()),
        written=sum(program.stores[n].node.dtype.size for w in walks for n in w.targets),
        walks=len(walks),
        merges=sum(bool(w.accumulators) for w in walks),
        state=sum(_state_size(r.operand, r.node) for w in walks for r in w.reductions),
        operations=sum(s.node.prim.cost if s.node and s.op == "compute" else 1 for w in walks for s in w.scalars),
        kept=kept_values(plan),
        again=_read_again(program, plan, rows) // (count * width),
        arrays=len(arrays),
        loaded=sum(arrays.values()),
        double=any(s.dtype.is_float and s.dtype.size == 8 for s in program.scalars),
        sums=sum(max(4, r.operand.dtype.size) // 4 for r in program.sums),
        crossing=len(plan.row_values),
    )


def _is_stream(s: Scalar, rows: list[Var], program: ScalarProgram) -> bool:
    """True if a load brings other elements from memory for other rows, so that caches do not hold them."""
    if len(rows) == 1 and rows[0].extent == 1:
        return bool(s.vars & set(program.reduced))
    return bool(s.vars & set(program.reduced)) and bool(s.vars & set(rows))


def _state_size(operand: Scalar, node: Node) -> int:
    size = max(4, operand.dtype.size) if operand.dtype.is_float else operand.dtype.size
    return 16 if node.prim.name in ("argmax", "argmin") else size


def _read_again(program: ScalarProgram, plan: Plan, rows: list[Var]) -> int:
    """Bytes that walks read from memory once more, because nothing on chip had room for them."""
    total = 0
    for s in program.scalars:
        if s.op != "load" or s in plan.cached or not _is_stream(s, rows, program):
            continue
        times = sum(s in w.scalars for w in plan.passes)
        assert s.node is not None
        total += max(0, times - 1) * min(s.node.size, prod(v.extent for v in s.vars)) * s.node.dtype.size
    return total


# -- what the templates see


def _length(program: ScalarProgram, writer: Writer, told: Var | None) -> str:
    """C text of the number of elements that are reduced, if an argument decides about it; else empty."""
    if told is None:
        return ""
    rest = prod(v.extent for v in program.reduced if v is not told)
    return f"(Index){writer.numbers.extent(told)}" + (f" * {rest}" if rest > 1 else "")


def _counts(form: Form, length: str) -> bool:
    """True if the ``length`` decides how many steps there are; where elements are kept, there is room for the most."""
    return bool(length) and not form.places and form.cluster == 1


def _rows(
    program: ScalarProgram, plan: Plan, form: Form, spans: Spans, rows: list[Var], length: str
) -> tuple[dict[str, Any], Launch]:
    """Rows that are contiguous: a team of threads has one."""
    vector, width = spans.vector, prod(v.extent for v in program.reduced)
    inner_rows = prod(v.extent for v in rows[1:])
    teams = form.threads // form.team
    single = len(program.reduced) == 1
    first = spans.base if single else "c_0"
    after = coordinates([*program.reduced[:-1], Var(spans.base, spans.var.extent)], first) if not single else []
    places = _names(plan, form)
    each = form.team * vector
    partial = bool(length) or form.cluster * form.steps * form.team * vector != width or spans.anchor is not None
    walks = []
    for walk in plan.passes[:-1]:
        block = spans.walk(plan, walk, places, f"step * {vector} + j", form.team * vector)
        inside = mentioned([*block.each, *block.direct, *(a.position for a in walk.accumulators)])
        inner = spans.var.name if spans.var.name in inside or spans.anchor is not None else ""
        used = inside | mentioned(list(block.texts())) | ({spans.base} if inner else set())
        index = [c for c in after if c.name in used]
        walks.append(
            Walk(
                row=walk.row,
                before=Block(),
                first=first if partial or index or first in used else "",
                coordinates=index,
                inner=inner,
                before_inner="",
                block=block,
                accumulators=walk.accumulators,
                sums=walk.sums,
            )
        )
    again = form.team > 32 and sum(bool(w.accumulators) for w in walks) == 1
    sizes = [max(4, r.operand.dtype.size) for r in program.sums]
    turns = again and form.cluster > 1 and bool(plan.sums)  # barriers of a cluster are dear
    fields = _common(program, plan, form, spans, walks, places, length, each) | {
        "team": form.team,
        "lanes": min(form.team, 32),
        "warps": form.team // 32,
        "teams": teams,
        "cluster": form.cluster,
        "guarded": 1 < form.team < form.threads,
        "inner_rows": inner_rows,
        "row": rows[0].name if len(rows) == 1 else "r",
        "position": _position(form, vector, spans.shifted),
        "partial": partial,
        "ragged": spans.anchor is not None,
        "anchor": spans.writer.expr(spans.anchor) if spans.anchor is not None and spans.shifted else "",
        "part_shape": ("[2]" if turns else "") + f"[{form.threads // 32}]",
        "parts": [a for w in walks for a in w.accumulators] if form.team > 32 else [],
        "turns": "[turn]" if turns else "",
        "wholes": [],
        "row_stores": plan.row_stores,
        "again": again and not turns,
        "sums": [(s, f"y{len(program.stores) + n}") for n, s in enumerate(plan.sums)],
        "blocks": form.blocks,
        "sums_shape": f"[{form.steps * vector}][{form.threads}]" if plan.sums and teams > 1 else "",
        "merged": form.merged,
        "hidden": form.hidden,
        "sums_at": [form.steps * vector * form.threads * sum(sizes[:n]) for n in range(len(sizes))],
    }
    texts: list[object] = [*plan.row_stores, fields["anchor"]]
    for p in plan.passes:
        texts += p.row
    for w in walks:
        texts += [*w.block.texts(), *(a.position for a in w.accumulators)]
    used = mentioned(texts)
    index = coordinates(rows, "r") if len(rows) > 1 else []
    fields["row_index"] = [s for s in index if s.name in used]
    fields["reads_row"] = fields["row"] in used or bool(fields["row_index"])
    if program.sums:
        each = form.cluster * form.merged
        launch = Launch(form.threads, extent=1, scale=1, per_block=1, shared=form.shared, cluster=each)
    elif form.cluster > 1:
        launch = Launch(form.threads, 0, inner_rows, per_block=1, shared=form.shared, cluster=form.cluster)
    else:
        limit = 2048 // form.threads * 8
        launch = Launch(form.threads, 0, inner_rows, per_block=teams, limit=limit, shared=form.shared)
    return fields, launch


def _columns(
    program: ScalarProgram, plan: Plan, form: Form, spans: Spans, rows: list[Var], length: str
) -> tuple[dict[str, Any], Launch]:
    """Rows that are neighbours in memory: a thread has a span of them and every so many-th element."""
    vector, width = spans.vector, prod(v.extent for v in program.reduced)
    inner_rows = prod(v.extent for v in rows[1:])
    single = len(program.reduced) == 1
    column = program.reduced[0].name if single else "c"
    places = _names(plan, form)
    after = coordinates(program.reduced, column) if not single else []
    each = form.team
    partial = bool(length) if not _counts(form, length) else form.team > 1
    partial = partial or (not length and form.cluster * form.steps * form.team != width)
    accumulators = [a for w in plan.passes for a in w.accumulators]
    tile = spans.var.name
    walks = []
    stored = [(n, s) for n, s in enumerate(program.stores) if not plan.is_full_store(s.value, s.offset.vars)]
    for walk in plan.passes[:-1]:
        block = spans.walk(plan, walk, places, f"step * {vector} + j", form.threads * vector)
        before = spans.rows(walk.row_scalars, [])
        inside = mentioned([*block.each, *block.direct, *(a.position for a in walk.accumulators)])
        used = inside | mentioned(list(block.texts()))
        index = [c for c in after if c.name in used]
        walks.append(
            Walk(
                row=[],
                before=before,
                first=column if partial or index or column in used else "",
                coordinates=index,
                inner=tile if tile in inside else "",
                before_inner=tile if tile in mentioned(before.each) else "",
                block=block,
                accumulators=walk.accumulators,
                row_in=walk.row_in,
                row_out=walk.row_out,
                each_in=walk.each_in,
            )
        )
    last = spans.rows(plan.passes[-1].row_scalars, stored)
    fields = _common(program, plan, form, spans, walks, places, length, each) | {
        "across": form.across,
        "down": form.team,
        "inner_rows": inner_rows,
        "row": f"{tile}_0" if len(rows) == 1 else "r",
        "tile": tile,
        "cluster": form.cluster,
        "lanes": form.lanes,
        "ways": form.ways,
        "apart": form.across if form.lanes > 1 else 32,
        "position": _position_down(form),
        "partial": partial,
        "part_shape": f"[{form.ways}][{vector}][{form.across}]",
        "parts": accumulators if form.ways > 1 else [],
        "whole_shape": f"[{vector}][{form.across}]",
        "wholes": accumulators if form.cluster > 1 else [],
        "row_values": plan.row_values,
        "after": last,
        "after_inner": tile if tile in mentioned([*last.each, *last.direct]) else "",
        "stores_rows": bool(stored),
        "sums_shape": "",
        "merged": 1,
        "again": form.ways > 1 and sum(bool(w.accumulators) for w in walks) == 1,
    }
    texts: list[object] = list(last.texts())
    inner = bool(fields["after_inner"])
    for w in walks:
        texts += [*w.before.texts(), *w.block.texts(), *(a.position for a in w.accumulators)]
        inner = inner or bool(w.inner or w.before_inner)
    used = mentioned(texts) | ({spans.base} if inner else set())
    index = coordinates([*rows[:-1], Var(spans.base, spans.var.extent)], "r") if len(rows) > 1 else []
    fields["row_index"] = [s for s in index if s.name in used]
    limit = max(1, 2048 // form.threads) * 8 if form.cluster == 1 else 0
    launch = Launch(form.threads, 0, inner_rows, form.across * vector, limit, shared=form.shared, cluster=form.cluster)
    return fields, launch


def _common(
    program: ScalarProgram,
    plan: Plan,
    form: Form,
    spans: Spans,
    walks: list[Walk],
    places: dict[Scalar, str],
    length: str,
    each: int,
) -> dict[str, Any]:
    """What both forms have.

    Args:
        length: C text of the number of elements, if that is an argument.
        each: elements that a step takes.
    """
    more = each - 1 + (spans.vector - 1 if spans.anchor is not None else 0)
    steps = ""
    if _counts(form, length):
        steps = f"({length} + {more}) / {each}" if more else length
    width = prod(v.extent for v in program.reduced)
    held = {s: place for s, place in form.places.items() if place != "registers"}
    parts = form.parts(prod(v.extent for v in program.vars if v not in program.reduced), spans.writer.target)
    return {
        "threads": form.threads,
        "demand": form.demand,
        "width": length or width,
        "vector": spans.vector,
        "steps": steps or form.steps,
        "items": form.steps * spans.vector,
        "unroll": "HG_UNROLL" if form.steps <= form.unroll and not steps else f"#pragma unroll {form.unroll}",
        "index_type": index_type([program], [parts * width] if program.sums else ()),
        "walks": walks,
        "last": plan.passes[-1],
        "last_merge": max((n for n, w in enumerate(walks) if w.accumulators), default=-1),
        "held": [{"type": kept_type(s), "name": places[s], "offset": at} for s, at in held.items()],
        "arrays": [(kept_type(s), plan.cached[s]) for s, place in form.places.items() if place == "registers"],
    }


def _names(plan: Plan, form: Form) -> dict[Scalar, str]:
    """Where a thread's part of every kept value begins: 'registers' or a pointer into shared memory."""
    return {s: p if isinstance(p, str) else f"m_{plan.cached[s]}" for s, p in form.places.items()}


def _position_down(form: Form) -> str:
    """The position along the row of what a thread takes in a step, of rows that are neighbours."""
    text = f"step * {form.team} + down" if form.team > 1 else "step"
    return f"rank * {form.steps * form.team} + {text}" if form.cluster > 1 else text


def _position(form: Form, vector: int, shifted: bool) -> str:
    """The position of a span's first element along the row."""
    text = f"step * {form.team} + lane" if form.team > 1 else "step"
    if vector > 1:
        text = f"({text}) * {vector}" if form.team > 1 else f"step * {vector}"
    if form.cluster > 1:
        text = f"rank * {form.steps * form.team * vector} + {text}"
    return f"{text} - shift" if shifted else text
