# SPDX-License-Identifier: Apache-2.0
"""Kernels with reductions: softmax, normalisations, sums, and elementwise work around them.

The reduced variables are walked once per *pass*; a reduction of something that needs an earlier
reduction waits for the next pass. Scalars that depend on no reduced variable belong to the row and
are computed once between passes. What a later pass needs again is recomputed where that is cheap
and cached on chip where it is not.

Two forms: *inner*, the reduced elements are neighbours in memory (threads or vector lanes share a
row); *columns*, the rows are neighbours (every thread or lane has a row of its own).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

from ..ir.graph import Node
from ..target import Target
from .indexing import Expr, Opaque, Quotient, Remainder, Var
from .kernel import Kernel, Launch, Statement, Writer, coordinates, headers, mentioned, summary, traffic
from .scalar import Reduction, Scalar, ScalarProgram

__all__ = ["schedule_rows"]

_COMBINE = {"sum": "Sum", "prod": "Prod", "amax": "Max", "amin": "Min", "argmax": "ArgMax", "argmin": "ArgMin"}
_LANES = 64  #: columns that one CPU tile works on at once
_WINDOW = 64  #: elements of a window, …
_STEP = 4  #: … distance of windows, …
_NEIGHBOURS = 4  #: … and their number along an axis, for which each lane or thread takes a window of its own
_CHUNK = 512  #: elements that a CPU pass computes before it folds them into the accumulators
_REGISTERS = 16  #: values of one row that a CUDA thread keeps
_RECOMPUTE = 6  #: scalar operations that are cheaper to repeat than to keep


@dataclass(frozen=True)
class Accumulator:
    """One reduction in a template.

    Attributes:
        name: the variable that holds its state.
        combine, type: the combiner of ``reduce.h`` and the type it works on.
        operand: the value taken in at every element.
        position, step: for argmax and argmin, the element's position and how far apart neighbours
            along the last reduced axis are; else empty and 0.
        result, result_type: the reduced value.
    """

    name: str
    combine: str
    type: str
    operand: str
    position: str
    step: int
    result: str
    result_type: str


@dataclass
class Pass:
    """One walk over the reduced variables, and the row's own statements before it.

    Attributes:
        row, each: statements of the row, and of every element.
        keep: (cache, value) pairs written to the row's cache.
        stores: full-size stores.
        accumulators: reductions that end with the walk.
        row_in, row_out, each_in: row values that the columns form reads from and writes to arrays,
            as (type, name).
    """

    row: list[Statement] = field(default_factory=list)
    each: list[Statement] = field(default_factory=list)
    keep: list[tuple[str, str]] = field(default_factory=list)
    stores: list[Statement] = field(default_factory=list)
    accumulators: list[Accumulator] = field(default_factory=list)
    row_tile: bool = False  #: the columns form's row statements, and those of every element,
    each_tile: bool = False  #: mention the tile's variable
    column: bool = False  #: CUDA: its position along the row is needed
    row_in: list[tuple[str, str]] = field(default_factory=list)
    row_out: list[tuple[str, str]] = field(default_factory=list)
    each_in: list[tuple[str, str]] = field(default_factory=list)


def schedule_rows(program: ScalarProgram, target: Target, members: list[Node]) -> Kernel:
    """The kernel of a group with reductions (``program`` is normalised)."""
    writer = Writer(target, program)
    outputs = [s.node for s in program.stores]
    rows = [v for v in program.vars if v not in program.reduced]
    columns = _is_columns(program, rows)
    width = prod(v.extent for v in program.reduced)
    if not rows:
        rows = [Var("r0", 1)]
        program.vars.insert(0, rows[0])
    if not program.reduced:
        program.reduced.append(Var("c0", 1))
        program.vars.append(program.reduced[0])
    fields, choice, launch = _FORMS[target.name](program, rows, width, columns)
    keeps = not columns and width * 4 <= target.register_row and (target.name == "cpu" or fields["items"] <= _REGISTERS)
    plan = Plan(program, writer, keeps, fields["kept"])
    read, written = traffic(program)
    full = any(plan.is_full_store(s.value, s.offset.vars) for s in program.stores)
    if target.name == "cuda":
        _drop_unused(fields, plan)
    elif columns:
        _note_tile(fields, plan)
    fields |= {
        "pointers": writer.pointer_list(outputs),
        "width": width,
        "passes": plan.passes[:-1],
        "last": plan.passes[-1],
        "caches": plan.caches,
        "row_values": plan.row_values,
        "row_stores": plan.row_stores,
    }
    return Kernel(
        kind="rows" if full else "reduce",
        template=f"{target.name}/{'columns' if columns and target.name == 'cpu' else 'rows'}.j2",
        summary=summary(members),
        fields=fields,
        inputs=writer.inputs,
        outputs=outputs,
        extents=(rows[0].extent,),
        headers=(*headers(program), "reduce.h"),
        members=members,
        launch=launch,
        choice={"form": "columns" if columns else "inner", "width": width, "kept": len(plan.caches), **choice},
        bytes_read=read,
        bytes_written=written,
    )


def _drop_unused(fields: dict[str, Any], plan: Plan) -> None:
    """Leave out definitions of coordinates that nothing reads (NVRTC warns of them)."""
    walks = [mentioned([*w.each, *w.stores, *(a.position for a in w.accumulators)]) for w in plan.passes]
    used = mentioned([*(s for w in plan.passes for s in w.row), *plan.row_stores]).union(*walks)
    fields["row_index"] = [s for s in fields["row_index"] if s.name in used]
    fields["reads_row"] = fields["row"] in used or bool(fields["row_index"])
    fields["reduced_in"] = [[s for s in fields["reduced_index"] if s.name in walk] for walk in walks]
    for w, walk, inside in zip(plan.passes, walks, fields["reduced_in"], strict=True):
        w.column = fields["partial"] or fields["column"] in walk or bool(inside)


def _note_tile(fields: dict[str, Any], plan: Plan) -> None:
    """Where the columns form needs the tile's variable."""
    for w in plan.passes:
        last = plan.row_stores if w is plan.passes[-1] else []
        w.row_tile = fields["tile"] in mentioned([*w.row, *last])
        w.each_tile = fields["tile"] in mentioned([*w.each, *w.stores, *(a.position for a in w.accumulators)])


_Form = tuple[dict[str, Any], dict[str, Any], Launch | None]


def _cpu_form(program: ScalarProgram, rows: list[Var], width: int, columns: bool) -> _Form:
    last = program.reduced[-1]
    tile = rows[-1] if columns else last
    size = min(_LANES if columns else _CHUNK, tile.extent)
    end = "end" if columns and len(rows) == 1 else str(tile.extent)
    whole = end != "end" and tile.extent % size == 0
    fields = {
        "rows": [(v.name, v.extent) for v in (rows[:-1] if columns else rows)],
        "reduced": [(v.name, v.extent) for v in (program.reduced if columns else program.reduced[:-1])],
        "tile": tile.name,
        "tile_begin": "begin" if end == "end" else "0",
        "tile_end": end,
        "tile_size": size,
        "count": str(size) if whole else f"{end} - at < {size} ? {end} - at : {size}",
        "kept": _linear(program.reduced),
    }
    return fields, {"tile": size}, None


def _cuda_form(program: ScalarProgram, rows: list[Var], width: int, columns: bool) -> _Form:
    team = 1 if columns else min(1024, _power_of_two(width if width < 32 else max(32, -(-width // 8))))
    threads = max(128, team)
    inner = prod(v.extent for v in rows[1:])
    sizes = [s.node.size for s in program.scalars if s.op == "load" and s.node] + [s.node.size for s in program.stores]
    total = prod(v.extent for v in program.vars)
    fields = {
        "team": team,
        "teams": threads // team,
        "threads": threads,
        "items": -(-width // team),
        "partial": width % team != 0,
        "inner_rows": inner,
        "guarded": 1 < team < threads,
        "kept": "kept",
        "row": rows[0].name if len(rows) == 1 else "r",
        "column": program.reduced[0].name if len(program.reduced) == 1 else "c",
        "row_index": coordinates(rows, "r") if len(rows) > 1 else [],
        "reduced_index": coordinates(program.reduced, "c") if len(program.reduced) > 1 else [],
        "index_type": "int" if 2 * max([total, *sizes]) < 1 << 31 else "long long",
    }
    launch = Launch(threads, extent=0, scale=inner, per_block=threads // team, limit=2048 // threads * 8)
    return fields, {"threads": threads, "team": team}, launch


_FORMS: dict[str, Callable[..., _Form]] = {"cpu": _cpu_form, "cuda": _cuda_form}


def _linear(variables: list[Var]) -> str:
    """The row-major position of the variables as C text."""
    text = variables[0].name
    for v in variables[1:]:
        text = f"({text}) * {v.extent} + {v.name}"
    return text


def _power_of_two(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()


def _is_columns(program: ScalarProgram, rows: list[Var]) -> bool:
    """True if most data is contiguous along a row variable rather than a reduced one."""
    if not rows or not program.reduced:
        return False
    votes = 0
    for s in program.scalars:
        if s.op == "load" and s.offset is not None and s.vars & set(program.reduced):
            elements = prod(v.extent for v in s.vars)
            votes += elements * (s.offset.coefficient(rows[-1]) == 1)
            votes -= elements * (s.offset.coefficient(program.reduced[-1]) == 1)
    return votes > 0 or _small_windows(program, rows[-1])


def _small_windows(program: ScalarProgram, row: Var) -> bool:
    """True if small windows slide over the data: neighbouring rows overlap or follow each other closely."""
    offsets = [s.offset for s in program.scalars if s.op == "load" and s.offset and s.vars & set(program.reduced)]
    return bool(offsets) and all(_slides(program, e, row) for e in offsets)


def _slides(program: ScalarProgram, offset: Expr, row: Var) -> bool:
    step = offset.coefficient(row)
    last = program.reduced[-1].extent
    small = prod(v.extent for v in program.reduced) <= _WINDOW and row.extent >= _NEIGHBOURS
    return small and 0 < step <= _STEP and (len(program.reduced) > 1 or step < last)


class Plan:
    """Distributes the scalars of a program over passes.

    Attributes:
        passes: the walks, and at the end one more whose row statements follow the last walk.
        row_stores: stores of one value a row.
        caches: (type, name) of the row's caches.
        row_values: (type, name) of row values that outlive the block that computes them.
    """

    def __init__(self, program: ScalarProgram, writer: Writer, keeps: bool, kept: str) -> None:
        self.program, self.writer, self.keeps, self.kept = program, writer, keeps, kept
        self.reduced = set(program.reduced)
        self.reduction_of = {r.result: r for r in program.reductions}
        self.phase: dict[Scalar, int] = {}
        for s in program.scalars:
            before = max((self.phase[a] for a in _operands(s)), default=0)
            self.phase[s] = before + (1 if s in self.reduction_of else 0)
        self.passes: list[Pass] = []
        self.cached: dict[Scalar, str] = {}
        self.row_stores = [
            Statement("", f"y{k}[{writer.expr(s.offset)}]", writer.names[s.value])
            for k, s in enumerate(program.stores)
            if not self.is_full_store(s.value, s.offset.vars)
        ]
        self._build()
        self.caches = [(s.dtype.compute, name) for s, name in self.cached.items()]

    def is_full(self, s: Scalar) -> bool:
        """True if ``s`` is computed for every element of a row."""
        return bool(s.vars & self.reduced) and s not in self.reduction_of

    def is_full_store(self, value: Scalar, used: frozenset[Var]) -> bool:
        return self.is_full(value) or bool(used & self.reduced)

    def _build(self) -> None:
        targets = self._targets()
        computed: set[Scalar] = set()
        first: dict[Scalar, Pass] = {}
        rows: list[list[Scalar]] = []
        walks: list[list[Scalar]] = []
        emitted: set[Scalar] = set()
        for k, (reductions, stores) in enumerate([*targets, ([], [])]):
            walk = Pass()
            rows.append(self._row_scalars(k if k < len(targets) else 1 << 30, emitted))
            walk.row = [st for s in rows[-1] if (st := self.writer.statement(s))]
            order = self._walk_order([r.operand for r in reductions] + [s for s, _ in stores], computed)
            for s in order:
                if s in self.cached and s in computed:
                    statement: Statement | None = Statement(
                        s.dtype.compute, self.writer.names[s], f"{self.cached[s]}[{self.kept}]"
                    )
                else:
                    statement = self.writer.statement(s)
                    first.setdefault(s, walk)
                if statement:
                    walk.each.append(statement)
            walk.accumulators = [self._accumulator(r) for r in reductions]
            walk.stores = [text for _, text in stores]
            walks.append(order + [r.operand for r in reductions] + [s for s, _ in stores])
            computed.update(order)
            self.passes.append(walk)
        for s, cache in self.cached.items():
            first[s].keep.append((cache, self.writer.names[s]))
        self._connect(rows, walks)

    def _targets(self) -> list[tuple[list[Reduction], list[tuple[Scalar, Statement]]]]:
        """What each pass is walked for: reductions by the phase of their operand, then full stores."""
        by_phase: dict[int, tuple[list[Reduction], list[tuple[Scalar, Statement]]]] = {}
        for r in self.program.reductions:
            by_phase.setdefault(self.phase[r.operand], ([], []))[0].append(r)
        for k, store in enumerate(self.program.stores):
            if self.is_full_store(store.value, store.offset.vars):
                text = Statement("", f"y{k}[{self.writer.expr(store.offset)}]", self.writer.names[store.value])
                by_phase.setdefault(self.phase[store.value], ([], []))[1].append((store.value, text))
        return [by_phase.get(k, ([], [])) for k in range(max(by_phase, default=-1) + 1)]

    def _row_scalars(self, phase: int, emitted: set[Scalar]) -> list[Scalar]:
        """Scalars of the row that can be computed before pass ``phase`` and have not been."""
        found = []
        for s in self.program.scalars:
            if s.op != "const" and s not in emitted and self.phase[s] <= phase and not self.is_full(s):
                emitted.add(s)
                found.append(s)
        return found

    def _walk_order(self, wanted: list[Scalar], computed: set[Scalar]) -> list[Scalar]:
        """The full scalars a pass needs, in order; marks what is better kept than computed again."""
        needed: set[Scalar] = set()
        stack = [s for s in wanted if self.is_full(s)]
        while stack:
            s = stack.pop()
            if s in needed:
                continue
            needed.add(s)
            if s in computed and self.keeps and self._cost(s, 0) >= _RECOMPUTE:
                self.cached.setdefault(s, f"k{len(self.cached)}")
                continue
            stack.extend(a for a in _operands(s) if self.is_full(a))
        return [s for s in self.program.scalars if s in needed]

    def _cost(self, s: Scalar, depth: int) -> int:
        """Scalar operations to compute ``s`` again from loads, counted up to the limit."""
        if s.op == "load":  # on the CPU a row that was just read is in the first-level cache
            return 2 if self.writer.target.name == "cpu" else _RECOMPUTE
        if s.op != "compute":
            return 0
        if depth > 8:
            return _RECOMPUTE
        total = s.node.prim.cost if s.node is not None else 1
        for a in s.args:
            if self.is_full(a) and total < _RECOMPUTE:
                total += self._cost(a, depth + 1)
        return total

    def _accumulator(self, r: Reduction) -> Accumulator:
        name = r.node.prim.name
        is_arg = name in ("argmax", "argmin")
        return Accumulator(
            f"a{self.program.reductions.index(r)}",
            _COMBINE[name],
            r.operand.dtype.compute,
            self.writer.names[r.operand],
            self.writer.expr(r.position) if is_arg else "",
            r.position.coefficient(self.program.reduced[-1]) if is_arg else 0,
            self.writer.names[r.result],
            r.result.dtype.compute,
        )

    def _connect(self, rows: list[list[Scalar]], walks: list[list[Scalar]]) -> None:
        """Note which row values cross from one block to another (only the columns form needs them)."""

        def entry(s: Scalar) -> tuple[str, str]:
            return s.dtype.compute, self.writer.names[s]

        def row_operands(block: list[Scalar]) -> list[Scalar]:
            used = dict.fromkeys(
                a for s in block for a in (*_operands(s), s) if a.op != "const" and not self.is_full(a)
            )
            return list(used)

        crossing: dict[Scalar, None] = {}
        stored = [s.value for s in self.program.stores if not self.is_full_store(s.value, s.offset.vars)]
        for k, walk in enumerate(self.passes):
            own = {s for s in rows[k] if s.op != "reduction"}  # results come from the walk before
            last = k == len(self.passes) - 1
            incoming = [s for s in row_operands([*rows[k], *(stored if last else [])]) if s not in own]
            walk.row_in = [entry(s) for s in incoming]
            used = row_operands(walks[k])
            walk.each_in = [entry(s) for s in used]
            crossing.update(dict.fromkeys([*incoming, *used]))
        for k, walk in enumerate(self.passes):
            walk.row_out = [entry(s) for s in rows[k] if s in crossing and s.op != "reduction"]
        self.row_values = [entry(s) for s in crossing]


def _operands(s: Scalar) -> list[Scalar]:
    """What ``s`` is computed from, positions read at run time included."""
    found = list(s.args)
    expressions = [s.offset] if s.offset is not None else []
    for e in [*expressions, *(c.expr for c in s.conditions)]:
        found += _opaque(e)
    return found


def _opaque(e: Expr) -> list[Scalar]:
    found: list[Scalar] = []
    for atom, _ in e.terms:
        if isinstance(atom, Opaque):
            found.append(atom.value)
        elif isinstance(atom, (Quotient, Remainder)):
            found += _opaque(atom.expr)
    return found
