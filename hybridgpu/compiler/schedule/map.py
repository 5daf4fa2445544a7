# SPDX-License-Identifier: Apache-2.0
"""Kernels without reductions: every point of the domain on its own.

CPU: a nest of loops, the innermost vectorised by the compiler; what does not depend on an inner
loop is computed outside it. CUDA: one thread computes ``vector`` neighbours along the innermost
axis, so that contiguous accesses are 128 bits wide.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ..ir.graph import Node
from ..target import Target
from .indexing import Expr, Var
from .kernel import Kernel, Launch, Statement, Writer, address, coordinates, headers, mentioned, summary, traffic
from .scalar import Scalar, ScalarProgram

__all__ = ["schedule_map"]

_THREADS = 256


@dataclass(frozen=True)
class Loop:
    """One loop of a nest: its variable, its extent (a number or the name of a parameter)."""

    var: str
    extent: str
    body: list[Statement]


@dataclass(frozen=True)
class Pack:
    """``vector`` neighbouring elements that travel in one access."""

    name: str
    type: str
    pointer: str
    offset: str

    @property
    def address(self) -> str:
        return address(self.pointer, self.offset)


def schedule_map(program: ScalarProgram, target: Target, members: list[Node]) -> Kernel:
    """The kernel of a group without reductions (``program`` is normalised)."""
    if not program.vars:
        program.vars.append(Var("i0", 1))
    outer = program.vars[0]
    writer = Writer(target, program)
    outputs = [s.node for s in program.stores]
    pointers = writer.pointer_list(outputs)
    read, written = traffic(program)
    fields = {"pointers": pointers, "rank": len(program.vars)}
    launch = None
    choice: dict[str, object] = {}
    if target.name == "cpu":
        fields |= _nest(program, writer)
    else:
        vector = _vector(program)
        fields |= _flat(program, writer, vector)
        inner = prod(v.extent for v in program.vars[1:])
        fields["inner"] = inner
        choice = {"threads": _THREADS, "vector": vector}
        launch = Launch(_THREADS, extent=0, scale=inner, per_block=_THREADS * vector, limit=16)
    return Kernel(
        kind="map",
        template=f"{target.name}/map.j2",
        summary=summary(members),
        fields=fields,
        inputs=writer.inputs,
        outputs=outputs,
        extents=(outer.extent,),
        headers=headers(program),
        members=members,
        launch=launch,
        choice=choice,
        bytes_read=read,
        bytes_written=written,
    )


def _nest(program: ScalarProgram, writer: Writer) -> dict[str, object]:
    """Loops outermost first, each with the statements that belong directly into it."""
    depth = {v: k for k, v in enumerate(program.vars)}
    bodies: list[list[Statement]] = [[] for _ in range(len(program.vars) + 1)]
    for s in program.scalars:
        statement = writer.statement(s)
        if statement:
            bodies[max((depth[v] + 1 for v in s.vars), default=0)].append(statement)
    for k, store in enumerate(program.stores):
        bodies[-1].append(Statement("", f"y{k}[{writer.expr(store.offset)}]", writer.names[store.value]))
    loops = [Loop(v.name, "n0" if k == 0 else str(v.extent), bodies[k + 1]) for k, v in enumerate(program.vars)]
    return {"before": bodies[0], "loops": loops}


def _vector(program: ScalarProgram) -> int:
    """Elements a thread computes: 16 bytes of the widest array, if the innermost extent allows."""
    inner = program.vars[-1]
    sizes = [s.node.dtype.size for s in program.scalars if s.op == "load" and s.node and _contiguous(s, inner)]
    sizes += [store.node.dtype.size for store in program.stores]
    width = max(1, 16 // max(sizes))
    if len(program.vars) == 1:
        return width  # a scalar tail takes the rest
    while inner.extent % width:
        width //= 2
    return width


def _contiguous(s: Scalar, inner: Var) -> bool:
    """True if neighbours along ``inner`` are neighbours in memory and nothing else varies with it."""
    return s.op == "load" and not s.conditions and _stride_one(s.offset, inner)


def _stride_one(e: Expr | None, inner: Var) -> bool:
    return (
        e is not None
        and e.coefficient(inner) == 1
        and inner not in Expr(tuple((a, c) for a, c in e.terms if a is not inner), e.const).vars
    )


def _aligned(e: Expr, inner: Var, vector: int) -> bool:
    """True if ``e`` is a multiple of ``vector`` whenever ``inner`` is."""
    return e.const % vector == 0 and all(a is inner or (isinstance(a, Var) and c % vector == 0) for a, c in e.terms)


def _flat(program: ScalarProgram, writer: Writer, vector: int) -> dict[str, object]:
    """One step of ``vector`` elements: packed loads, statements, packed stores."""
    inner = program.vars[-1]
    packs: list[Pack] = []
    once: list[Statement] = []
    each: list[Statement] = []
    base = {inner: f"{inner.name}_0"}
    for s in program.scalars:
        if _contiguous(s, inner) and _aligned(s.offset, inner, vector):  # type: ignore[arg-type]
            name = f"p{len(packs)}"
            writer.renamed = base
            packs.append(Pack(name, s.node.dtype.storage, writer.pointers[s.node], writer.expr(s.offset)))  # type: ignore[arg-type,union-attr,index]
            writer.renamed = {}
            each.append(Statement(s.dtype.compute, writer.names[s], f"{name}.v[j]"))
            continue
        statement = writer.statement(s)
        if statement:
            (each if inner in s.vars else once).append(statement)
    stores, direct = [], []
    for k, store in enumerate(program.stores):
        if _stride_one(store.offset, inner) and _aligned(store.offset, inner, vector):
            writer.renamed = base
            stores.append(Pack(f"q{k}", store.node.dtype.storage, f"y{k}", writer.expr(store.offset)))
            writer.renamed = {}
            each.append(Statement("", f"q{k}.v[j]", writer.names[store.value]))
        else:
            direct.append(Statement("", f"y{k}[{writer.expr(store.offset)}]", writer.names[store.value]))
    # coordinates of element e: the last axis is the remainder, the first one the quotient
    position = coordinates([*program.vars[:-1], Var(base[inner], inner.extent)], "e")
    inside = mentioned([*each, *direct])
    outside = mentioned([*once, *(p.offset for p in (*packs, *stores)), *inside])
    needs_inner = inner.name in inside
    wanted = outside | ({base[inner]} if needs_inner else set())
    return {
        "vector": vector,
        "tail": len(program.vars) == 1 and vector > 1,
        "coordinates": [c for c in position if c.name in wanted],
        "packs": packs,
        "once": once,
        "each": each + direct,
        "stores": stores,
        "inner_var": inner.name if needs_inner else "",
        "index_type": "int" if _fits_int(program) else "long long",
    }


def _fits_int(program: ScalarProgram) -> bool:
    """True if every position, with room for a last step past the end, fits 32 bits."""
    limit = 1 << 31
    total = prod(v.extent for v in program.vars)
    sizes = [s.node.size for s in program.scalars if s.op == "load" and s.node] + [s.node.size for s in program.stores]
    return 2 * max([total, *sizes]) < limit
