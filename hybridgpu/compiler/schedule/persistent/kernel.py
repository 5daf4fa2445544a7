# SPDX-License-Identifier: Apache-2.0
"""Consecutive small kernels as the steps of one kernel, whose blocks all live at once (CUDA).

These are all blocks of a cooperative grid, those of one cluster, or a single block: what costs least (cost.py).

Where kernels take less time than starting them, the steps of a graph share one launch. Steps that do not depend on
each other make a *phase*; between phases all blocks wait for each other (``kernels/grid.h``). What an earlier phase
wrote stays in the second-level cache, as do the weights from call to call if they fit.

A step keeps its template and its numbers: its text becomes a function that plays one block of its grid, called for
every block by turns. So sums are taken in the same order, and results are the same to the last bit. Blocks have one
size, that of the largest step. Threads that a step has no use for skip it, and its barriers are for the others.

A loop is a step of several phases, which it goes through again at every turn (grid_loops.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from heapq import heappop, heappush

from ....dataclass import dataclass
from ....dtypes import DType
from ...devices.gpu import GpuConstants
from ...ir.graph import Node
from ...passes.fuse.group import Group
from ...target import Target
from ..kernel import Kernel, Launch, summary, touched_by_all
from ..matmul.matmul import beyond_library
from .cost import (
    Blocks,
    Placed,
    Weighed,
    at_once,
    barriers_of,
    block_threads,
    blocks_held,
    grid_blocks,
    launch_seconds,
    registers_of,
    seconds_alone,
    size_of,
    weigh,
)
from .grid_loops import Body, Loop, Turns, as_kernel, why_no_kernel
from .prefetch import Staged, fetch_ahead

__all__ = ["Parameter", "Step", "resident"]

_LARGE = 4  #: launches that a step may take as long as
_MOST_STEPS = 32  #: of a kernel: compilers take more than twice as long for twice the text
_MOST_PARAMETERS = 250  #: of eight bytes each: a kernel may have 4 KiB of them, but every launch copies them
_GREEDY = 96  #: words that a thread of a product holds, from which on blocks may not leave threads 128 registers each
_WIDE = 256  #: threads of a block with such a step, at most
_STATIC = GpuConstants.static_shared  #: bytes of shared memory that steps declare, at most

Scheduled = list[tuple[Group, Kernel | None]]


@dataclass(frozen=True)
class Parameter:
    """A pointer parameter. Only what no step writes may be read through caches that do not see other blocks' writes."""

    name: str
    dtype: DType
    written: bool

    @property
    def declaration(self) -> str:
        storage = self.dtype.storage
        return f"{storage}* {self.name}" if self.written else f"const {storage}* HG_RESTRICT {self.name}"


@dataclass(frozen=True)
class Step:
    """A kernel as a step of another.

    Attributes:
        kernel: what it would be by itself.
        phase: the phases before it; of those of a loop each counts once.
        arguments: C text of its arguments.
        blocks: C text of the number of its blocks.
        walks: it is called once, with the blocks that there are, and takes what is left in a loop of its own.
        pool: it has shared memory of known size, which lies over that of other steps.
        syncs: it has shared memory.
        spare: there are threads beyond its own, which return at once.
        flat: its blocks have as many threads, an element each, as they get.
        threads: its own.
        staged: what its blocks copy into shared memory before it begins (prefetch.py).
        function: its name (codegen/render.py).
    """

    kernel: Kernel
    phase: int
    arguments: str
    blocks: str
    walks: bool
    pool: bool
    syncs: bool
    spare: bool
    flat: bool
    threads: int
    staged: Staged | None = None
    function: str = ""

    @property
    def shared(self) -> str:
        """C text of the last arguments: its pieces of shared memory."""
        pool = f", *reinterpret_cast<{self.function}_::Pool*>(pool)" if self.pool else ""
        return pool + (f", held + {self.staged.offset}" if self.staged else "")


def resident(scheduled: Scheduled, target: Target, body: Body) -> tuple[Scheduled, list[str]]:
    """``scheduled`` with runs of kernels put together where that pays (or wherever it can be, as the target says).

    Args:
        body: computes the kernels of a turn of a loop.

    Returns:
        The kernels, and what was decided for each run and why, in words.
    """
    if target.name != "cuda" or target.resident == "never":
        return scheduled, []
    scheduled, loops = _with_loops(scheduled, target, body)
    said = [f"a loop of {k.turns.length} turns is one kernel: {_why(k, target)}" for _, k in scheduled if k and k.turns]
    said += _why_no_steps(scheduled, target, loops)
    if not any(k is not None and _is_large(k, target) for _, k in scheduled):  # (others decide over what lives when)
        scheduled = _side_by_side(scheduled, target)
    out: list[tuple[Group, Kernel | None] | None] = list(scheduled)
    for run in _runs(scheduled, target):
        kernels = [k for at in run if (k := scheduled[at][1])]
        placed = _in_phases(kernels)
        found = weigh(placed, len(kernels), target, [_weighed(k, target) for k in kernels if k.turns])
        if len(run) > 1 and not found.wins and target.resident != "always":
            said.append(f"{len(run)} kernels stay apart: {found}")
            for at, kernel in zip(run, kernels, strict=True):
                if kernel.turns is not None:
                    out[at] = (scheduled[at][0], _loop_alone(kernel, target))
            continue
        if len(run) == 1:
            out[run[0]] = (scheduled[run[0]][0], _loop_alone(kernels[0], target))
            continue
        why = found.reason
        said.append(f"{len(run)} kernels are one: {why}")
        out[run[0]] = (scheduled[run[0]][0], _graph(kernels, placed, target, why, found.blocks))
        for at in run[1:]:
            out[at] = None
    return [s for s in out if s], said


def _with_loops(scheduled: Scheduled, target: Target, body: Body) -> tuple[Scheduled, dict[Node, str]]:
    """``scheduled`` with loops that are kernels, and of the other loops why they are none."""
    found: Scheduled = []
    reasons: dict[Node, str] = {}
    for group, kernel in scheduled:
        node = group.library
        if kernel is not None or node is None or "body" not in node.params:
            found.append((group, kernel))
            continue
        graph, steps = body(node.params["body"], target)
        if None in steps:  # what a library computes faster may cost less without the host
            graph, steps = body(node.params["body"], replace(target, library_products=False))
        why = why_no_kernel(node, graph, steps)
        kernels = [k for k in steps if k is not None]
        why = why or next(filter(None, (_why_no_part(k, target) for k in kernels)), "")
        if not why and (len(kernels) > _MOST_STEPS or _block(kernels) is None):
            why = "more or other kernels in a turn than one can hold"
        loop = None if why else as_kernel(node, graph, kernels)
        if loop is not None and target.resident != "always":
            weighed = _weighed(loop, target)
            why = "" if weighed.wins else str(weighed)
        if why:
            reasons[node] = why
        found.append((group, None if why else loop))
    return found, reasons


def _weighed(loop: Kernel, target: Target) -> Weighed:
    """What one kernel would save against starting a loop's kernels one by one, which no CUDA graph does."""
    length, kernels = loop.turns.length, loop.turns.kernels
    found = weigh(_in_phases([loop]), length * len(kernels), replace(target, replayed=False))
    products = [x for k in kernels for x in k.members if x.prim.name == "dot"]
    slower = sum(max(0.0, beyond_library(target, x)) for x in products)
    host = length * target.gpu.iteration_seconds
    return replace(found, saved=found.saved + host, cost=found.cost + length * slower, turns=length)


def _loop_alone(loop: Kernel, target: Target) -> Kernel:
    found = _weighed(loop, target)
    return _graph([loop], _in_phases([loop]), target, found.reason, found.blocks)


def _why(loop: Kernel, target: Target) -> str:
    return _weighed(loop, target).reason


# -- which kernels may be steps


def _why_no_step(kernel: Kernel, target: Target) -> str:
    """Why a kernel may not be a step of another, '' if it may."""
    if kernel.turns is not None:
        return ""
    return "far longer than starting one" if _is_large(kernel, target) else _why_no_part(kernel, target)


def _why_no_part(kernel: Kernel, target: Target) -> str:
    """Why a kernel may not be part of another whatever it takes, '' if it may."""
    launch, f = kernel.launch, kernel.fields
    assert launch is not None
    if f.get("cluster", 1) > 1:
        return "rows that several blocks share"
    if f.get("merged", 1) > 1:
        return "sums that several blocks put together"
    if kernel.kind == "scatter":
        return "a table that blocks own in parts"
    if kernel.choice.get("read_again"):
        return "rows that are read a second time"
    if launch.shared and launch.shared + _STATIC > target.gpu.shared_bytes:
        return "more shared memory than steps have"
    return ""


def _why_no_steps(scheduled: Scheduled, target: Target, of_loops: dict[Node, str]) -> list[str]:
    """What is no step of a kernel, if there are several that could be some: how many of what, and why.

    Args:
        of_loops: loops that are none, and why.
    """
    reasons: dict[tuple[str, str], int] = {}
    for group, kernel in scheduled:
        if kernel is not None:
            what = "kernel", _why_no_step(kernel, target)
        else:
            assert group.library is not None
            if group.join is not None:
                continue
            why = of_loops.get(group.library)
            what = ("loop", why) if why else ("library call", "")
        if what != ("kernel", ""):
            reasons[what] = reasons.get(what, 0) + 1
    if sum(k is not None for _, k in scheduled) < 2 and not of_loops:
        return []
    return [
        f"{n} {what}{' is' if n == 1 else 's are'} no step of a kernel{why and f': {why}'}"
        for (what, why), n in reasons.items()
    ]


def _side_by_side(scheduled: Scheduled, target: Target) -> Scheduled:
    """``scheduled`` in an order that brings together what may be a step, as far as what is read allows."""
    may = [k is not None and not _why_no_step(k, target) for _, k in scheduled]
    if all(may) or not any(may):
        return scheduled
    makers: dict[Node, int] = {}
    readers: list[list[int]] = [[] for _ in scheduled]
    missing = [0] * len(scheduled)
    for at, (group, kernel) in enumerate(scheduled):
        for maker in {makers[n] for n in (kernel.inputs if kernel else group.pending) if n in makers}:
            readers[maker].append(at)
            missing[at] += 1
        made = kernel.outputs if kernel else [group.library] if group.library else []
        makers.update(dict.fromkeys(made, at))
    ready: dict[bool, list[int]] = {True: [], False: []}  # heaps
    for at, count in enumerate(missing):
        if not count:
            ready[may[at]].append(at)
    found: Scheduled = []
    kind = True
    while len(found) < len(scheduled):
        kind = kind if ready[kind] else not kind
        at = heappop(ready[kind])
        found.append(scheduled[at])
        for reader in readers[at]:
            missing[reader] -= 1
            if not missing[reader]:
                heappush(ready[may[reader]], reader)
    return found


def _runs(scheduled: Scheduled, target: Target) -> Iterator[list[int]]:
    """Neighbours that fit into one kernel: two or more, or a loop."""
    run: list[int] = []
    held: list[Kernel] = []
    used = 0

    def whole() -> bool:
        return len(run) > 1 or any(k is not None and k.turns is not None for _, k in (scheduled[at] for at in run))

    for at, (_, kernel) in enumerate(scheduled):
        parts = [] if kernel is None or _why_no_step(kernel, target) else _parts(kernel)
        wanted = 0 if kernel is None else 2 * len(kernel.inputs) + len(kernel.outputs) + len(kernel.arguments)
        if kernel is not None and kernel.turns is not None:  # and where slices begin
            wanted += sum(len(k.arguments) for k in parts) + 2 * len(kernel.inputs) + 2 * len(kernel.outputs)
        full = len(held) + len(parts) > _MOST_STEPS or used + wanted + 2 > _MOST_PARAMETERS
        if not parts or full or _block([*held, *parts]) is None:
            if whole():
                yield run
            run, held, used = [], [], 0
        if parts:
            run.append(at)
            held += parts
            used += wanted
    if whole():
        yield run


def _parts(kernel: Kernel) -> list[Kernel]:
    """A kernel, or those of a turn of a loop."""
    return [kernel] if kernel.turns is None else list(kernel.turns.kernels)


def _is_large(kernel: Kernel, target: Target) -> bool:
    """Whether a kernel would lose more by a smaller grid than a launch costs, unless that is asked for."""
    if target.resident != "auto" or kernel.turns is not None:
        return False
    return seconds_alone(kernel, target) > _LARGE * launch_seconds(target)


def _greedy(kernel: Kernel) -> bool:
    """Whether a step's threads hold so much that there may not be many."""
    if kernel.kind != "matmul" or kernel.fields["form"] != "axpy":
        return False
    from ..matmul.config_cuda import axpy_words

    deep, vector = kernel.choice["vectors"]
    dot = next(n for n in kernel.members if n.prim.name == "dot")
    return axpy_words(kernel.choice["rows"], deep, vector, dot.dtype) >= _GREEDY


def _block(kernels: Sequence[Kernel]) -> int | None:
    """The size of the blocks of a kernel with such steps, if there is one."""
    threads = block_threads([size_of(k) for k in kernels])
    if threads is None or threads <= _WIDE:
        return threads
    # (a product whose own blocks are as large was chosen with that in view)
    return None if any(k.launch and k.launch.threads < threads and _greedy(k) for k in kernels) else threads


def _pooled(kernel: Kernel) -> bool:
    """Whether a kernel declares shared memory."""
    f = kernel.fields
    if kernel.kind == "map":
        return any(p.tile for p in f["parts"])
    return bool(f.get("parts") or f.get("sums_shape") or f.get("patch")) and kernel.kind != "foreach"


# -- the choice


def _in_phases(kernels: Sequence[Kernel]) -> list[Placed]:
    """The kernels of a run and those of its loops, phase by phase; loops share phases with other loops alone."""
    ready: dict[Node, int] = {}  # what is written here -> the first phase that may read it
    found: list[Placed] = []
    floor = 0  # the phase behind the last loop
    waiting = list(kernels)
    while waiting:
        behind: set[Node] = set()  # what loops compute that have not run, and what follows from it
        left: list[Kernel] = []
        loops: list[Kernel] = []
        for k in waiting:
            if k.turns is None and not behind.intersection(k.inputs):
                phase = max((ready.get(n, 0) for n in k.inputs), default=0)
                found.append(Placed(k, max(floor, phase)))
                ready.update((n, found[-1].phase + 1) for n in k.outputs)
                continue
            together = k.turns is not None and not behind.intersection(k.inputs)
            if together and all(k.turns.length == other.turns.length for other in loops):
                loops.append(k)
            else:
                left.append(k)
            behind.update(k.outputs)
        waiting = left
        if loops:
            floor = max((p.phase + 1 for p in found), default=0)
            for k in loops:
                pairs = zip(k.turns.kernels, k.turns.phases, strict=True)
                found += [Placed(inner, floor + phase, k.turns) for inner, phase in pairs]
            floor += max(k.turns.depth for k in loops)
            ready.update((n, floor) for k in loops for n in k.outputs)
    return found


# -- the kernel


class _Numbers:
    """What a kernel is told besides its arrays. Calling it tells one more number, and gives the parameter's name."""

    def __init__(self) -> None:
        self.values: list[int] = []

    def __call__(self, value: int) -> str:
        self.values.append(value)
        return f"n{len(self.values) - 1}"


def _turns(
    placed: Sequence[Placed], name: dict[Node, str], number: _Numbers
) -> tuple[dict[int, Turns], dict[Loop | None, dict[Node, str]]]:
    """The turns by the first of their phases, and what arrays are called in each loop and outside."""
    turns: dict[int, Turns] = {}
    where: dict[Loop | None, dict[Node, str]] = {None: name}
    for loop in dict.fromkeys(p.loop for p in placed if p.loop):
        begin = min(p.phase for p in placed if p.loop is loop)
        if begin not in turns:
            turns[begin] = Turns(number(loop.length))
        where[loop] = turns[begin].add(loop, name, number)
    return turns, where


def _step(
    placed: Placed,
    size: tuple[str, int],
    threads: int,
    name: dict[Node, str],
    number: _Numbers,
    staged: Staged | None,
) -> Step:
    """A kernel as a step of one whose blocks have ``threads``; ``size``: how it takes them, and its own blocks'."""
    kernel, launch, (how, own) = placed.kernel, placed.kernel.launch, size
    assert launch is not None
    numbers = [number(n) for n in kernel.arguments]
    count = numbers[launch.extent] + (f" * {launch.scale}" if launch.scale > 1 else "")
    each = threads if how == "flat" else launch.per_block
    if each > 1:
        count = f"({count} + {each - 1}) / {each}"
    pool = _pooled(kernel)
    return Step(
        kernel=kernel,
        phase=placed.phase,
        arguments=", ".join([*(name[n] for n in (*kernel.inputs, *kernel.outputs)), *numbers]),
        blocks=f"(unsigned int)({count})",
        walks=bool(launch.limit),
        pool=pool,
        syncs=pool or bool(launch.shared),
        spare=how == "own" and own < threads,
        flat=how == "flat",
        threads=threads if how == "flat" else own,
        staged=staged,
    )


def _graph(kernels: Sequence[Kernel], placed: Sequence[Placed], target: Target, why: str, blocks: Blocks) -> Kernel:
    gpu = target.gpu
    sizes = [size_of(p.kernel) for p in placed]
    threads = block_threads(sizes)
    assert threads is not None
    outputs = list(dict.fromkeys(n for k in kernels for n in k.outputs))
    written = set(outputs)
    inputs = list(dict.fromkeys(n for k in kernels for n in k.inputs if n not in written))
    pointers = [Parameter(f"p{j}", n.dtype, n in written) for j, n in enumerate((*inputs, *outputs))]
    name = {n: p.name for n, p in zip((*inputs, *outputs), pointers, strict=True)}
    held = 1 if blocks.cluster else blocks_held(placed, threads, target)
    grid = grid_blocks(placed, sizes, threads, blocks, target)
    first = {k: next(p.phase for p in placed if p.kernel is k or (p.loop and p.loop is k.turns)) for k in kernels}
    seconds = [sum(p.times * seconds_alone(p.kernel, target) for p in placed if p.kernel in _parts(k)) for k in kernels]
    ahead = fetch_ahead(kernels, [first[k] for k in kernels], seconds, held, grid, target)
    near = {kernels[k]: staged for k, staged in ahead.near.items()}
    number = _Numbers()
    turns, where = _turns(placed, name, number)
    steps = [
        _step(p, size, threads, where[p.loop], number, near.get(p.kernel))
        for p, size in zip(placed, sizes, strict=True)
    ]
    far = [(name[n], number(n.type.nbytes)) for n in ahead.far]  # (numbers, so that texts do not depend on the batch)
    read = touched_by_all(kernels)
    members = [m for k in kernels for m in k.members]
    return Kernel(
        kind="graph",
        template="cuda/graph.j2",
        summary=summary(members),
        fields={
            "pointers": pointers,
            "threads": threads,
            "cluster": blocks.cluster,
            "numbers": [f"n{j}" for j in range(len(number.values))],
            "far": far,
            "turns": turns,
        },
        inputs=inputs,
        outputs=outputs,
        extents=(*number.values, 1 if blocks.cluster else at_once(placed, sizes, threads)),
        headers=tuple(dict.fromkeys([h for k in kernels for h in k.headers] + ["cluster.h", "grid.h"])),
        members=members,
        launch=Launch(
            threads,
            extent=len(number.values),
            scale=1,
            per_block=1,
            limit=0 if blocks.cluster else gpu.resident_threads // threads,
            shared=ahead.shared,
            cooperative=not blocks.cluster,
            cluster=blocks.cluster or 1,
        ),
        choice={
            "threads": threads,
            "steps": [p.kernel.kind for p in placed],
            **({"turns": [p.times for p in placed]} if turns else {}),
            "barriers": barriers_of(placed),
            "registers": registers_of(placed),
            **({"cluster": blocks.cluster} if blocks.cluster else {}),
            **({"ahead": ahead.numbers} if ahead.numbers else {}),
            "why": f"{why}; {ahead} are fetched while the first phase runs" if ahead.numbers else why,
        },
        bytes_read=sum(n * node.dtype.size for node, n in read.items()),
        bytes_written=sum(k.bytes_written for k in kernels),
        steps=steps,
    )
