# SPDX-License-Identifier: Apache-2.0
"""Horizontal fusion (CUDA): small independent kernels, over arrays of any shapes, share one launch.

An optimizer's step is the same few operations for a hundred arrays, and starting a kernel costs more than most of
them take. Kernels of one level share a launch: blocks are dealt out in proportion to their elements. Those with
the same text are one *body* that finds the arrays of its block. Sizes are parameters, so that the text does not
depend on them. (On the host one call runs all kernels anyway.)

This stays beside :mod:`..persistent`, which also makes one launch of many kernels: there steps wait for each other, all
blocks must live at once, and each step is text and registers of the kernel. Kernels of one level wait for nobody: any number
of blocks, arrays of any size, one text for a hundred of them, and no cooperative launch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, ClassVar

from ....core.dataclass import dataclass
from ...cost import seconds, separate_launch_seconds
from ...ir.graph import Node
from ...target import Target
from ..choice import Choice
from ..kernel import Kernel, Launch, Pointer, TemplateFields, summary
from ..traffic import bytes_of, elements_read_by_all
from .map import THREADS
from .map_fields import LinearPart, MapFields

if TYPE_CHECKING:
    from ...pass_context import PassContext
    from ..schedule_groups import Scheduled

__all__ = ["MAX_PARAMETERS", "Body", "ForeachFields", "Instance", "run"]

MAX_PARAMETERS = 250  #: of eight bytes each: a kernel may have 4 KiB of them, but every launch copies them
_MAX_LIVE_BYTES = 16 << 20  #: bytes of intermediate results that wait for a launch, of which kernels may read little


@dataclass(frozen=True)
class Instance:
    """One kernel's share of the launch.

    Attributes:
        pointers: the parameters that stand for the body's pointers.
        begin, end: C text of its first block and the one behind its last.
        size: C text of its number of elements.
        runtime_args: parameters that stand for the body's further numbers.
    """

    pointers: list[str]
    begin: str
    end: str
    size: str
    runtime_args: list[str]

    @property
    def arguments(self) -> str:
        """The pointers and numbers as arguments of a function, with a comma behind each."""
        return "".join(f"{p}, " for p in (*self.pointers, *self.runtime_args))


@dataclass(frozen=True)
class Body:
    """The text that some instances share, and the pointers and numbers it names."""

    part: LinearPart
    pointers: Sequence[Pointer]
    runtime_args: list[str]
    instances: list[Instance]

    @property
    def arguments(self) -> str:
        """The names of pointers and numbers as arguments of a function, with a comma behind each."""
        return "".join(f"{name}, " for name in (*(p.name for p in self.pointers), *self.runtime_args))


@dataclass(frozen=True, kw_only=True)
class ForeachFields(TemplateFields):
    """Kernels that share a launch.

    Attributes:
        numbers: names of their extents, the first one the number of blocks.
        bodies: what they compute.
        bounds, index_type: as for one (:class:`.map.MapFields`).
    """

    template: ClassVar[str] = "cuda/foreach.j2"
    numbers: list[str]
    bodies: list[Body]
    bounds: str
    index_type: str

    def with_aliased(self, names: set[str]) -> ForeachFields:
        """The same, where arrays go by the names of a body, too."""
        return replace(super().with_aliased(names), bodies=[_aliased(body, names) for body in self.bodies])


def _aliased(body: Body, names: set[str]) -> Body:
    pointers = [
        replace(p, aliased=any(i.pointers[j] in names for i in body.instances)) for j, p in enumerate(body.pointers)
    ]
    return replace(body, pointers=pointers)


def run(scheduled: Scheduled, ctx: PassContext) -> Scheduled:
    """``scheduled`` with small kernels of one level put together."""
    levels: dict[int, list[int]] = {}
    for at, (group, kernel) in enumerate(scheduled):
        if kernel is not None and _is_small(kernel, ctx.target):
            levels.setdefault(group.level, []).append(at)
    out = dict(enumerate(scheduled))
    for places in levels.values():
        for chunk in _chunks(places, scheduled):
            if len(chunk) > 1:
                kernels = [k for at in chunk if (k := scheduled[at][1])]
                out[chunk[0]] = (scheduled[chunk[0]][0], _foreach(kernels))
                for at in chunk[1:]:
                    del out[at]
    return list(out.values())


def _is_small(kernel: Kernel, target: Target) -> bool:
    """True for a walk in order that takes no longer than starting it."""
    if not isinstance(kernel.fields, MapFields) or _only_linear_part(kernel.fields) is None:
        return False
    return seconds(target, kernel.bytes_read + kernel.bytes_written) <= separate_launch_seconds(target)


def _only_linear_part(fields: MapFields) -> LinearPart | None:
    """The part of a walk in order; None if it is another one."""
    part = fields.parts[0]
    return part if len(fields.parts) == 1 and isinstance(part, LinearPart) else None


def _chunks(places: Sequence[int], scheduled: Scheduled) -> Iterator[list[int]]:
    chunk: list[int] = []
    live: set[Node] = set()
    used = 1
    for at in places:
        kernel = scheduled[at][1]
        assert kernel is not None
        parameters = len(kernel.inputs) + len(kernel.outputs) + 2 + len(kernel.runtime_args.values)
        live |= {n for n in kernel.inputs if n.prim.name != "input"}
        if used + parameters > MAX_PARAMETERS or sum(n.type.nbytes for n in live) > _MAX_LIVE_BYTES:
            yield chunk
            chunk, used = [], 1
            live = {n for n in kernel.inputs if n.prim.name != "input"}
        chunk.append(at)
        used += parameters
    yield chunk


def _foreach(kernels: list[Kernel]) -> Kernel:
    """The one launch of ``kernels``: those of equal text are instances of one body, sizes and bounds are parameters."""
    alike: dict[tuple[str, ...], list[tuple[Kernel, MapFields, LinearPart]]] = {}
    for k in kernels:
        assert isinstance(k.fields, MapFields)
        part = _only_linear_part(k.fields)
        assert part is not None
        key = repr(replace(part, scale=0, fixed_size=0, block_count=""))
        alike.setdefault((key, *(p.declaration for p in k.fields.pointers)), []).append((k, k.fields, part))
    order = [k for same in alike.values() for k, _, _ in same]
    maps = [f for same in alike.values() for _, f, _ in same]
    inputs = [n for k in order for n in k.inputs]
    outputs = [n for k in order for n in k.outputs]
    pointers = [Pointer(f"a{j}", n.dtype) for j, n in enumerate(inputs)]
    pointers += [Pointer(f"b{j}", n.dtype, True) for j, n in enumerate(outputs)]
    read, written = iter(pointers[: len(inputs)]), iter(pointers[len(inputs) :])
    bodies, extents, end, last = [], [0], 0, 0
    for same in alike.values():
        instances = []
        for k, _, part in same:
            size = k.extents[0] * part.scale
            begin = f"(Index)n{last}" if end else "0"
            end += max(1, -(-size // (THREADS * part.vector)))
            names = [p.name for p in (*islice(read, len(k.inputs)), *islice(written, len(k.outputs)))]
            at = last = len(extents)
            values = list(k.runtime_args.values.values())
            arguments = [f"n{at + 2 + j}" for j in range(len(values))]
            instances.append(Instance(names, begin, f"(Index)n{at}", f"(Index)n{at + 1}", arguments))
            extents += [end, size, *values]
        first, fields, part = same[0]
        bodies.append(Body(part, fields.pointers, list(first.runtime_args.values), instances))
    extents[0] = end
    reads = elements_read_by_all(kernels)
    members = [m for k in order for m in k.members]
    return Kernel(
        kind="foreach",
        summary=summary(members),
        fields=ForeachFields(
            pointers=pointers,
            numbers=[f"n{j}" for j in range(len(extents))],
            bodies=bodies,
            bounds=max((f.bounds for f in maps), key=len),
            index_type=max((f.index_type for f in maps), key=len),
        ),
        inputs=inputs,
        outputs=outputs,
        extents=tuple(extents),
        headers=tuple(dict.fromkeys(h for k in order for h in k.headers)),
        members=members,
        launch=Launch(THREADS, extent=0, scale=1, per_block=1),
        choice=Choice(
            {"threads": THREADS, "kernels": len(kernels), "bodies": len(bodies)},
            why="small kernels that do not depend on each other share one launch",
        ),
        bytes_read=bytes_of(reads),
        bytes_written=sum(k.bytes_written for k in kernels),
        elements_read=reads,
        in_place=[(x, y) for k in order for x, y in k.in_place if inputs.count(x) == 1],
    )
