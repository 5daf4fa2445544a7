# SPDX-License-Identifier: Apache-2.0
"""Consecutive small kernels as the steps of one kernel, whose blocks all live at once (CUDA).

Where kernels take less time than starting them, the steps of a graph share one launch. Steps that do not depend on
each other make a *phase*; between phases all blocks wait for each other (``kernels/grid.h``). What an earlier phase
wrote stays in the second-level cache, as do the weights from call to call if they fit.

A step keeps its template and its numbers: its text becomes a function that plays one block of its grid, called for
every block by turns. So sums are taken in the same order, and results are the same to the last bit. Blocks have one
size, that of the largest step. Threads that a step has no use for skip it, and its barriers are for the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush

from ...dataclass import dataclass
from ...dtypes import DType
from ..ir.graph import Node
from ..passes.fuse.group import Group
from ..target import Target
from .ahead import Staged, fetch_ahead
from .kernel import Kernel, Launch, summary, touched_by_all

__all__ = ["Parameter", "Step", "Weighed", "resident"]

# What a barrier of the grid and a cooperative launch cost: not measured yet, there was no GPU when they were chosen.
_BARRIER = 1.1e-6  #: seconds from the last arrival to the first read behind
_ARRIVAL = 6e-10  #: seconds more for each block: all count on one word
_COOPERATIVE = 5e-7  #: seconds that starting a cooperative kernel takes beyond another one

_LARGE = 4  #: launches that a step may take as long as
_MOST_STEPS = 32  #: of a kernel: compilers take more than twice as long for twice the text
_MOST_PARAMETERS = 250  #: of eight bytes each: a kernel may have 4 KiB of them, but every launch copies them
_REGISTERS = 96  #: that a thread is thought to hold: as many as the greediest step
_WARP = 32  #: threads: those that exchange values are all there
_USUAL = 256  #: threads of a block where every step takes any number
_STATIC = 48 << 10  #: bytes of shared memory that steps declare, at most

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
        phase: the barriers before it.
        arguments: C text of its arguments.
        blocks: C text of the number of its blocks.
        walks: it is called once, with the blocks that there are, and takes what is left in a loop of its own.
        pool: it has shared memory of known size, which lies over that of other steps.
        syncs: it has shared memory.
        spare: there are threads beyond its own, which return at once.
        flat: its blocks have as many threads, an element each, as they get.
        threads: its own.
        staged: what its blocks copy into shared memory before it begins (ahead.py).
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


@dataclass(frozen=True)
class Weighed:
    """What one kernel would save and cost in seconds."""

    steps: int
    barriers: int
    saved: float
    cost: float

    @property
    def wins(self) -> bool:
        return self.saved > self.cost

    def __str__(self) -> str:
        many = f"one launch instead of {self.steps} saves about {self.saved * 1e6:.1f} us"
        barriers = f"{self.barriers} barrier{'' if self.barriers == 1 else 's'} of the grid"
        return f"{many}; {barriers} and a smaller grid cost about {self.cost * 1e6:.1f} us"


def resident(scheduled: Scheduled, target: Target) -> tuple[Scheduled, list[str]]:
    """``scheduled`` with runs of kernels put together where that pays (or wherever it can be, as the target says).

    Returns:
        The kernels, and what was decided for each run and why, in words.
    """
    if target.name != "cuda" or target.resident == "never":
        return scheduled, []
    said = _why_no_steps(scheduled, target)
    if not any(k is not None and _is_large(k, target) for _, k in scheduled):  # (others decide over what lives when)
        scheduled = _side_by_side(scheduled, target)
    out: list[tuple[Group, Kernel | None] | None] = list(scheduled)
    for run in _runs(scheduled, target):
        kernels = [k for at in run if (k := scheduled[at][1])]
        phases = _phases(kernels)
        found = _weigh(kernels, phases, target)
        if not found.wins and target.resident != "always":
            said.append(f"{len(run)} kernels stay apart: {found}")
            continue
        why = str(found) if found.wins else f"asked for, although {found}"
        said.append(f"{len(run)} kernels are one: {why}")
        out[run[0]] = (scheduled[run[0]][0], _graph(kernels, phases, target, why))
        for at in run[1:]:
            out[at] = None
    return [s for s in out if s], said


# -- which kernels may be steps


def _why_no_step(kernel: Kernel, target: Target) -> str:
    """Why a kernel may not be a step of another, '' if it may."""
    launch, f = kernel.launch, kernel.fields
    assert launch is not None
    if _is_large(kernel, target):
        return "far longer than starting one"
    if f.get("cluster", 1) > 1:
        return "rows that several blocks share"
    if kernel.kind == "scatter":
        return "a table that blocks own in parts"
    if kernel.choice.get("read_again"):
        return "rows that are read a second time"
    if launch.shared and launch.shared + _STATIC > target.shared_bytes:
        return "more shared memory than steps have"
    return ""


def _why_no_steps(scheduled: Scheduled, target: Target) -> list[str]:
    """What is no step of a kernel, if there are several that could be some: how many of what, and why."""
    reasons: dict[tuple[str, str], int] = {}
    for group, kernel in scheduled:
        if kernel is not None:
            what = "kernel", _why_no_step(kernel, target)
        else:
            assert group.library is not None
            loops = "body" in group.library.params
            what = ("loop", "it starts kernels of its own for each turn") if loops else ("library call", "")
        if what != ("kernel", ""):
            reasons[what] = reasons.get(what, 0) + 1
    if sum(k is not None for _, k in scheduled) < 2:
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
    """Neighbours that fit into one kernel, two or more."""
    run: list[int] = []
    sizes: list[tuple[str, int]] = []
    used = 0
    for at, (_, kernel) in enumerate(scheduled):
        size = None if kernel is None or _why_no_step(kernel, target) else _size(kernel)
        wanted = 0 if kernel is None else 2 * len(kernel.inputs) + len(kernel.outputs) + len(kernel.arguments)
        full = len(run) >= _MOST_STEPS or used + wanted + 2 > _MOST_PARAMETERS
        if size is None or full or _threads([*sizes, size]) is None:
            if len(run) > 1:
                yield run
            run, sizes, used = [], [], 0
        if size is not None:
            run.append(at)
            sizes.append(size)
            used += wanted
    if len(run) > 1:
        yield run


def _is_large(kernel: Kernel, target: Target) -> bool:
    """Whether a kernel would lose more by a smaller grid than a launch costs, unless that is asked for."""
    return target.resident == "auto" and _seconds(kernel, target) > _LARGE * target.launch_seconds


def _size(kernel: Kernel) -> tuple[str, int]:
    """How a step takes blocks of another size, and its own.

    'any': it makes use of all threads; 'flat': likewise, an element each; 'own': others return at once; 'exact': there
    may be no others.
    """
    launch, f = kernel.launch, kernel.fields
    assert launch is not None
    threads = launch.threads
    if kernel.kind == "foreach":
        return "any", threads
    if kernel.kind == "map":
        tiles = [p.tile for p in f["parts"]]  # other parts walk with all threads
        return ("own" if all(tiles) else "exact" if any(tiles) else "any"), threads
    if kernel.kind == "conv" or (kernel.kind == "matmul" and not f["patch"]):
        return "flat", threads
    if kernel.kind == "matmul":  # barriers of tiles are in matmul_cuda.h
        return ("exact" if f["form"] == "tiles" else "own"), threads
    if f.get("team") == 1:  # a thread a row, in a loop over the grid
        return ("exact" if launch.shared else "any"), threads
    return "own", threads


def _threads(sizes: Sequence[tuple[str, int]]) -> int | None:
    """The size of the blocks of a kernel with such steps, if there is one."""
    exact = {n for how, n in sizes if how == "exact"}
    least = max((n for how, n in sizes if how == "own"), default=0)
    if len(exact) > 1 or (exact and least > max(exact)):
        return None
    return max(exact) if exact else -(-least // _WARP) * _WARP or _USUAL


def _pooled(kernel: Kernel) -> bool:
    """Whether a kernel declares shared memory."""
    f = kernel.fields
    if kernel.kind == "map":
        return any(p.tile for p in f["parts"])
    return bool(f.get("parts") or f.get("sums_shape") or f.get("patch")) and kernel.kind != "foreach"


# -- the choice


def _phases(kernels: Sequence[Kernel]) -> list[int]:
    """For each kernel how many barriers have to come before it."""
    ready: dict[Node, int] = {}  # what is written here -> the first phase that may read it
    found = []
    for k in kernels:
        phase = max((ready.get(n, 0) for n in k.inputs), default=0)
        found.append(phase)
        ready.update((n, phase + 1) for n in k.outputs)
    return found


def _blocks(kernel: Kernel, how: str, threads: int) -> int:
    """Blocks that a kernel is made of, as a step of one with blocks of so many threads."""
    launch = kernel.launch
    assert launch is not None
    each = threads if how == "flat" else launch.per_block
    return -(-kernel.extents[launch.extent] * launch.scale // each)


def _at_once(kernels: Sequence[Kernel], phases: Sequence[int], sizes: Sequence[tuple[str, int]], threads: int) -> int:
    """Blocks that the largest phase has."""
    found = [0] * (1 + max(phases))
    for k, phase, (how, _) in zip(kernels, phases, sizes, strict=True):
        found[phase] += _blocks(k, how, threads)
    return max(found)


def _held(threads: int, target: Target) -> int:
    """Blocks that a multiprocessor is thought to hold at once."""
    return max(1, min(target.resident_threads // threads, target.registers // (_REGISTERS * threads)))


def _weigh(kernels: Sequence[Kernel], phases: Sequence[int], target: Target) -> Weighed:
    """Launches that are saved against barriers, and against threads that the grid has not."""
    sizes = [_size(k) for k in kernels]
    threads = _threads(sizes)
    assert threads is not None
    barriers = max(phases)
    grid = min(_at_once(kernels, phases, sizes, threads), _held(threads, target) * target.multiprocessors)
    cost = _COOPERATIVE + barriers * (_BARRIER + grid * _ARRIVAL)
    everywhere = target.resident_threads * target.multiprocessors
    for k, (how, _) in zip(kernels, sizes, strict=True):
        launch = k.launch
        assert launch is not None
        # threads that would be at work
        alone = min(_blocks(k, how, threads) * (threads if how == "flat" else launch.threads), everywhere)
        here = min(alone, grid * (min(threads, launch.threads) if how == "own" else threads))
        cost += _seconds(k, target) * (alone / here - 1)
    return Weighed(len(kernels), barriers, (len(kernels) - 1) * target.launch_seconds, cost)


def _seconds(kernel: Kernel, target: Target) -> float:
    """What a kernel takes on all of the device."""
    moved = kernel.bytes_read + kernel.bytes_written
    return moved * target.byte_seconds + _operations(kernel) * target.op_seconds


def _operations(kernel: Kernel) -> int:
    """Scalar operations of a run."""
    total = 0
    for node in kernel.members:
        if node.prim.name == "dot":
            total += 2 * node.size * node.inputs[0].shape[-1]
        elif node.prim.name == "conv":
            weight = node.inputs[1]
            total += 2 * node.size * (weight.size // max(1, weight.shape[0]))
        else:
            total += node.prim.cost * max([node.size, *(i.size for i in node.inputs)])
    return total


# -- the kernel


def _graph(kernels: Sequence[Kernel], phases: Sequence[int], target: Target, why: str) -> Kernel:
    sizes = [_size(k) for k in kernels]
    threads = _threads(sizes)
    assert threads is not None
    outputs = list(dict.fromkeys(n for k in kernels for n in k.outputs))
    written = set(outputs)
    inputs = list(dict.fromkeys(n for k in kernels for n in k.inputs if n not in written))
    pointers = [Parameter(f"p{j}", n.dtype, n in written) for j, n in enumerate((*inputs, *outputs))]
    name = {n: p.name for n, p in zip((*inputs, *outputs), pointers, strict=True)}
    held = _held(threads, target)
    grid = min(_at_once(kernels, phases, sizes, threads), held * target.multiprocessors)
    ahead = fetch_ahead(kernels, phases, [_seconds(k, target) for k in kernels], held, grid, target)
    steps: list[Step] = []
    extents: list[int] = []
    for k, phase, (how, own) in zip(kernels, phases, sizes, strict=True):
        launch = k.launch
        assert launch is not None
        numbers = [f"n{len(extents) + j}" for j in range(len(k.arguments))]
        extents += k.arguments
        arguments = [*(name[n] for n in (*k.inputs, *k.outputs)), *numbers]
        count = numbers[launch.extent] + (f" * {launch.scale}" if launch.scale > 1 else "")
        each = threads if how == "flat" else launch.per_block
        if each > 1:
            count = f"({count} + {each - 1}) / {each}"
        pool = _pooled(k)
        steps.append(
            Step(
                kernel=k,
                phase=phase,
                arguments=", ".join(arguments),
                blocks=f"(unsigned int)({count})",
                walks=bool(launch.limit),
                pool=pool,
                syncs=pool or bool(launch.shared),
                spare=how == "own" and own < threads,
                flat=how == "flat",
                threads=threads if how == "flat" else own,
                staged=ahead.near.get(len(steps)),
            )
        )
    far = [(name[n], f"n{len(extents) + k}") for k, n in enumerate(ahead.far)]
    extents += [n.type.nbytes for n in ahead.far]  # (numbers, so that texts do not depend on the batch)
    read = touched_by_all(kernels)
    members = [m for k in kernels for m in k.members]
    return Kernel(
        kind="graph",
        template="cuda/graph.j2",
        summary=summary(members),
        fields={
            "pointers": pointers,
            "threads": threads,
            "numbers": [f"n{j}" for j in range(len(extents))],
            "far": far,
        },
        inputs=inputs,
        outputs=outputs,
        extents=(*extents, _at_once(kernels, phases, sizes, threads)),
        headers=tuple(dict.fromkeys([h for k in kernels for h in k.headers] + ["grid.h"])),
        members=members,
        launch=Launch(
            threads,
            extent=len(extents),
            scale=1,
            per_block=1,
            limit=target.resident_threads // threads,
            shared=ahead.shared,
            cooperative=True,
        ),
        choice={
            "threads": threads,
            "steps": [k.kind for k in kernels],
            "barriers": max(phases),
            **({"ahead": ahead.numbers} if ahead.numbers else {}),
            "why": f"{why}; {ahead} are fetched while the first phase runs" if ahead.numbers else why,
        },
        bytes_read=sum(n * node.dtype.size for node, n in read.items()),
        bytes_written=sum(k.bytes_written for k in kernels),
        steps=steps,
    )
