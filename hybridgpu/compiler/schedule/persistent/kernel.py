# SPDX-License-Identifier: Apache-2.0
"""Persistent kernels (CUDA): consecutive small kernels as the steps of one, whose blocks all live at once.

These are all blocks of a cooperative grid, those of one cluster, or a single block: what costs least (cost.py).

Where kernels take less time than starting them, the steps of a graph share one launch. Steps that do not depend on
each other make a *phase*; between phases all blocks wait for each other (``kernels/grid.h``). What an earlier phase
wrote stays in the second-level cache, as do the weights from call to call if they fit.

A step keeps its template and its numbers: its text becomes a function that plays one block of its grid, called for
every block by turns. So sums are taken in the same order, and results are the same to the last bit. Blocks have one
size, that of the largest step. Threads that a step has no use for skip it, and its barriers are for the others.

A loop is a step of several phases, which it goes through again at every iteration (grid_loops.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from ...cost import launch_seconds
from ...devices.gpu import GpuConstants
from ...ir.graph import Node
from ...target import Target
from ..choice import Choice
from ..cuda.foreach import MAX_PARAMETERS
from ..cuda.reduction_fields import ReductionFields
from ..kernel import Kernel, Launch, Pointer, summary
from ..matmul.config_cuda import kernel_and_library_seconds
from ..traffic import bytes_of, elements_read_by_all
from .cost import (
    Estimate,
    PhaseStep,
    barriers_of,
    block_threads,
    blocks_held,
    compare,
    grid_blocks,
    max_phase_blocks,
    registers_of,
    seconds_alone,
    size_of,
)
from .fields import PersistentFields, Step
from .grid_loops import Body, GridLoop, Loop, loop_kernel, why_no_kernel
from .prefetch import StagedOperand, plan_prefetch

if TYPE_CHECKING:
    from ...pass_context import PassContext
    from ..schedule_groups import Scheduled

__all__ = ["run"]

_MAX_STEP_LAUNCHES = 4  #: launches that a step may take as long as
_MAX_STEPS = 32  #: of a kernel: compilers take more than twice as long for twice the text
_HEAVY_WORDS = (
    96  #: words that a thread of a product holds, from which on blocks may not leave threads 128 registers each
)
_MAX_HEAVY_BLOCK = 256  #: threads of a block with such a step, at most
_STATIC_SHARED = GpuConstants.static_shared  #: bytes of shared memory that steps declare, at most


def run(scheduled: Scheduled, ctx: PassContext) -> Scheduled:
    """``scheduled`` with runs of kernels put together where that pays (or wherever it can be, as the target says).

    What was decided for each run and why is in ``ctx.launch_fusion_notes``.
    """
    target = ctx.target
    scheduled, loops = _with_loops(scheduled, target, ctx.schedule_body)
    notes = ctx.launch_fusion_notes
    notes += [
        f"a loop of {k.loop.length} iterations is one kernel: {_estimate(k, target).reason}"
        for _, k in scheduled
        if k and k.loop
    ]
    notes += _why_no_steps(scheduled, target, loops)
    if not any(k is not None and _is_large(k, target) for _, k in scheduled):  # (others decide over what lives when)
        scheduled = _cluster_steps(scheduled, target)
    out = dict(enumerate(scheduled))
    for run in _fusible_runs(scheduled, target):
        kernels = [k for at in run if (k := scheduled[at][1])]
        placed = _in_phases(kernels)
        estimate = compare(placed, len(kernels), target, [_estimate(k, target) for k in kernels if k.loop])
        apart = len(run) > 1 and not estimate.wins and target.resident != "always"
        if apart:
            notes.append(f"{len(run)} kernels stay apart: {estimate}")
        if apart or len(run) == 1:
            for at, kernel in zip(run, kernels, strict=True):
                if kernel.loop is not None:
                    alone = _estimate(kernel, target)
                    one = _persistent_kernel([kernel], _in_phases([kernel]), target, alone.reason, alone.cluster)
                    out[at] = (scheduled[at][0], one)
            continue
        why = estimate.reason
        notes.append(f"{len(run)} kernels are one: {why}")
        out[run[0]] = (scheduled[run[0]][0], _persistent_kernel(kernels, placed, target, why, estimate.cluster))
        for at in run[1:]:
            del out[at]
    return list(out.values())


def _with_loops(scheduled: Scheduled, target: Target, body: Body) -> tuple[Scheduled, dict[Node, str]]:
    """``scheduled`` with loops that are kernels, and of the other loops why they are none."""
    result: Scheduled = []
    reasons: dict[Node, str] = {}
    for group, kernel in scheduled:
        node = group.library
        if kernel is not None or node is None or "body" not in node.params:
            result.append((group, kernel))
            continue
        graph, steps = body(node.params["body"], target)
        if None in steps:  # what a library computes faster may cost less without the host
            graph, steps = body(node.params["body"], replace(target, library_products=False))
        why = why_no_kernel(node, graph, steps)
        kernels = [k for k in steps if k is not None]
        why = why or next(filter(None, (_why_no_member(k, target) for k in kernels)), "")
        if not why and (len(kernels) > _MAX_STEPS or _block_size(kernels) is None):
            why = "more or other kernels in a turn than one can hold"
        loop = None if why else loop_kernel(node, graph, kernels, [p.phase for p in _in_phases(kernels)])
        if loop is not None and target.resident != "always":
            weighed = _estimate(loop, target)
            why = "" if weighed.wins else str(weighed)
        if why:
            reasons[node] = why
        result.append((group, None if why else loop))
    return result, reasons


def _estimate(loop: Kernel, target: Target) -> Estimate:
    """Seconds that one kernel would save against starting a loop's kernels one by one, which no CUDA graph does."""
    assert loop.loop is not None
    length, kernels = loop.loop.length, loop.loop.kernels
    estimate = compare(_in_phases([loop]), length * len(kernels), replace(target, replayed=False))
    products = [x for k in kernels for x in k.members if x.prim.name == "dot"]
    slower = sum(max(0.0, ours - theirs) for ours, theirs in (kernel_and_library_seconds(target, x) for x in products))
    host = length * target.gpu.iteration_seconds
    return replace(estimate, saved=estimate.saved + host, cost=estimate.cost + length * slower, iterations=length)


# -- which kernels may be steps


def _why_no_step(kernel: Kernel, target: Target) -> str:
    """Why a kernel may not be a step of another, '' if it may."""
    if kernel.loop is not None:
        return ""
    return "far longer than starting one" if _is_large(kernel, target) else _why_no_member(kernel, target)


def _why_no_member(kernel: Kernel, target: Target) -> str:
    """Why a kernel may not be part of another whatever it takes, '' if it may."""
    launch, f = kernel.launch, kernel.fields
    assert launch is not None
    if isinstance(f, ReductionFields) and f.form.cluster > 1:
        return "rows that several blocks share"
    if isinstance(f, ReductionFields) and f.form.cluster_reduced > 1:
        return "sums that several blocks put together"
    if kernel.kind == "scatter":
        return "a table that blocks own in parts"
    if kernel.reread_bytes:
        return "rows that are read a second time"
    if launch.shared and launch.shared + _STATIC_SHARED > target.gpu.shared_bytes:
        return "more shared memory than steps have"
    return ""


def _why_no_steps(scheduled: Scheduled, target: Target, of_loops: dict[Node, str]) -> list[str]:
    """Notes on kernels that are no steps, if there are several that could be: how many of what, and why.

    Args:
        of_loops: loops that are none, and why.
    """
    reasons: dict[tuple[str, str], int] = {}
    for group, kernel in scheduled:
        if kernel is not None:
            what = "kernel", _why_no_step(kernel, target)
        else:
            assert group.library is not None
            if group.concat_buffer is not None:
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


def _cluster_steps(scheduled: Scheduled, target: Target) -> Scheduled:
    """``scheduled`` in an order that brings together what may be a step, as far as what is read allows."""
    may = [k is not None and not _why_no_step(k, target) for _, k in scheduled]
    if all(may) or not any(may):
        return scheduled
    makers: dict[Node, int] = {}
    readers: list[list[int]] = [[] for _ in scheduled]
    missing = [0] * len(scheduled)
    for at, (group, kernel) in enumerate(scheduled):
        for maker in {makers[n] for n in (kernel.inputs if kernel else group.reads) if n in makers}:
            readers[maker].append(at)
            missing[at] += 1
        outputs = kernel.outputs if kernel else [group.library] if group.library else []
        makers.update(dict.fromkeys(outputs, at))
    ready: dict[bool, list[int]] = {True: [], False: []}  # heaps
    for at, count in enumerate(missing):
        if not count:
            ready[may[at]].append(at)
    order: Scheduled = []
    kind = True
    while len(order) < len(scheduled):
        kind = kind if ready[kind] else not kind
        at = heappop(ready[kind])
        order.append(scheduled[at])
        for reader in readers[at]:
            missing[reader] -= 1
            if not missing[reader]:
                heappush(ready[may[reader]], reader)
    return order


def _fusible_runs(scheduled: Scheduled, target: Target) -> Iterator[list[int]]:
    """Neighbours that fit into one kernel: two or more, or a loop."""
    run: list[int] = []
    members: list[Kernel] = []
    used = 0

    def whole() -> bool:
        return len(run) > 1 or any(k is not None and k.loop is not None for _, k in (scheduled[at] for at in run))

    for at, (_, kernel) in enumerate(scheduled):
        parts = [] if kernel is None or _why_no_step(kernel, target) else _step_kernels(kernel)
        parameters = 0 if kernel is None else 2 * len(kernel.inputs) + len(kernel.outputs) + len(kernel.arguments)
        if kernel is not None and kernel.loop is not None:  # and where slices begin
            parameters += sum(len(k.arguments) for k in parts) + 2 * len(kernel.inputs) + 2 * len(kernel.outputs)
        full = len(members) + len(parts) > _MAX_STEPS or used + parameters + 2 > MAX_PARAMETERS
        if not parts or full or _block_size([*members, *parts]) is None:
            if whole():
                yield run
            run, members, used = [], [], 0
        if parts:
            run.append(at)
            members += parts
            used += parameters
    if whole():
        yield run


def _step_kernels(kernel: Kernel) -> list[Kernel]:
    """A kernel, or those of an iteration of a loop."""
    return [kernel] if kernel.loop is None else list(kernel.loop.kernels)


def _is_large(kernel: Kernel, target: Target) -> bool:
    """Whether a kernel would lose more by a smaller grid than a launch costs, unless that is asked for."""
    if target.resident != "auto" or kernel.loop is not None:
        return False
    return seconds_alone(kernel, target) > _MAX_STEP_LAUNCHES * launch_seconds(target)


def _is_register_heavy(kernel: Kernel) -> bool:
    """Whether a step's threads hold so much that there may not be many."""
    config = kernel.matmul_config
    if config is None or config.name != "axpy":
        return False
    from ..matmul.config_cuda import axpy_words

    deep, vector = config.vectors
    dot = next(n for n in kernel.members if n.prim.name == "dot")
    return axpy_words(config.rows, deep, vector, dot.dtype) >= _HEAVY_WORDS


def _block_size(kernels: Sequence[Kernel]) -> int | None:
    """The size of the blocks of a kernel with such steps, if there is one."""
    threads = block_threads([size_of(k) for k in kernels])
    if threads is None or threads <= _MAX_HEAVY_BLOCK:
        return threads
    # (a product whose own blocks are as large was chosen with that in view)
    return None if any(k.launch and k.launch.threads < threads and _is_register_heavy(k) for k in kernels) else threads


# -- the choice


def _in_phases(kernels: Sequence[Kernel]) -> list[PhaseStep]:
    """The kernels of a run and those of its loops, phase by phase; loops share phases with other loops alone."""
    ready: dict[Node, int] = {}  # what is written here -> the first phase that may read it
    steps: list[PhaseStep] = []
    floor = 0  # the phase behind the last loop
    remaining = list(kernels)
    while remaining:
        behind: set[Node] = set()  # what loops compute that have not run, and what follows from it
        left: list[Kernel] = []
        loops: list[tuple[Loop, Kernel]] = []
        for k in remaining:
            if k.loop is None and not behind.intersection(k.inputs):
                phase = max((ready.get(n, 0) for n in k.inputs), default=0)
                steps.append(PhaseStep(k, max(floor, phase)))
                ready.update((n, steps[-1].phase + 1) for n in k.outputs)
                continue
            if (
                k.loop is not None
                and not behind.intersection(k.inputs)
                and all(k.loop.length == other.length for other, _ in loops)
            ):
                loops.append((k.loop, k))
            else:
                left.append(k)
            behind.update(k.outputs)
        remaining = left
        if loops:
            floor = max((p.phase + 1 for p in steps), default=0)
            for loop, _ in loops:
                pairs = zip(loop.kernels, loop.phases, strict=True)
                steps += [PhaseStep(inner, floor + phase, loop) for inner, phase in pairs]
            floor += max(loop.depth for loop, _ in loops)
            ready.update((n, floor) for _, k in loops for n in k.outputs)
    return steps


# -- the kernel


class _NumberList:
    """Runtime arguments of a persistent kernel. Calling it adds one and gives the parameter's name."""

    def __init__(self) -> None:
        self.values: list[int] = []

    def __call__(self, value: int) -> str:
        self.values.append(value)
        return f"n{len(self.values) - 1}"


def _grid_loops(
    placed: Sequence[PhaseStep], name: dict[Node, str], number: _NumberList
) -> tuple[dict[int, GridLoop], dict[Loop | None, dict[Node, str]]]:
    """The loops by the first of their phases, and what arrays are called in each loop and outside."""
    loops: dict[int, GridLoop] = {}
    where: dict[Loop | None, dict[Node, str]] = {None: name}
    for loop in dict.fromkeys(p.loop for p in placed if p.loop):
        begin = min(p.phase for p in placed if p.loop is loop)
        if begin not in loops:
            loops[begin] = GridLoop(number(loop.length))
        where[loop] = loops[begin].add(loop, name, number)
    return loops, where


def _step(
    placed: PhaseStep,
    threads: int,
    name: dict[Node, str],
    number: _NumberList,
    staged: StagedOperand | None,
) -> Step:
    """A kernel as a step of one whose blocks have ``threads``."""
    kernel, launch, (how, own) = placed.kernel, placed.kernel.launch, placed.size
    assert launch is not None
    numbers = [number(n) for n in kernel.arguments]
    count = numbers[launch.extent] + (f" * {launch.scale}" if launch.scale > 1 else "")
    each = threads if how == "flat" else launch.per_block
    if each > 1:
        count = f"({count} + {each - 1}) / {each}"
    pool = kernel.fields.uses_pool
    return Step(
        kernel=kernel,
        phase=placed.phase,
        arguments=", ".join([*(name[n] for n in (*kernel.inputs, *kernel.outputs)), *numbers]),
        blocks=f"(unsigned int)({count})",
        takes_grid=bool(launch.limit),
        uses_pool=pool,
        uses_shared=pool or bool(launch.shared),
        idle_threads=how == "own" and own < threads,
        threads=threads if how == "flat" else own,
        staged=staged,
    )


def _persistent_kernel(
    kernels: Sequence[Kernel], placed: Sequence[PhaseStep], target: Target, why: str, cluster: int
) -> Kernel:
    """The kernel of all steps: its launch, its parameters (each array once), loops, prefetches and the record.

    Args:
        kernels: the steps, a loop counted as one.
        placed: the same with the bodies of loops spread out, each with its phase.
        why: the reason for a persistent kernel, for reports.
        cluster: blocks of the only cluster; 0: the grid has several.
    """
    gpu = target.gpu
    threads = block_threads([p.size for p in placed])
    assert threads is not None
    outputs = list(dict.fromkeys(n for k in kernels for n in k.outputs))
    written = set(outputs)
    inputs = list(dict.fromkeys(n for k in kernels for n in k.inputs if n not in written))
    # (only what no step writes may be read through caches that do not see other blocks' writes)
    pointers = [
        Pointer(f"p{j}", n.dtype, n in written, aliased=n in written) for j, n in enumerate((*inputs, *outputs))
    ]
    name = {n: p.name for n, p in zip((*inputs, *outputs), pointers, strict=True)}
    resident_blocks = 1 if cluster else blocks_held(placed, threads, target)
    grid = grid_blocks(placed, threads, cluster, target)
    first = {k: next(p.phase for p in placed if p.kernel is k or (p.loop and p.loop is k.loop)) for k in kernels}
    seconds = [
        sum(p.times * seconds_alone(p.kernel, target) for p in placed if p.kernel in _step_kernels(k)) for k in kernels
    ]
    ahead = plan_prefetch(kernels, [first[k] for k in kernels], seconds, resident_blocks, grid, target)
    near = {kernels[k]: staged for k, staged in ahead.staged.items()}
    number = _NumberList()
    loops, where = _grid_loops(placed, name, number)
    steps = [_step(p, threads, where[p.loop], number, near.get(p.kernel)) for p in placed]
    far = [(name[n], number(n.type.nbytes)) for n in ahead.l2]  # (numbers, so that texts do not depend on the batch)
    members = [m for k in kernels for m in k.members]
    return Kernel(
        kind="graph",
        summary=summary(members),
        fields=PersistentFields(
            pointers=pointers,
            threads=threads,
            cluster=cluster,
            numbers=[f"n{j}" for j in range(len(number.values))],
            prefetched=far,
            steps=steps,
            loops=loops,
        ),
        inputs=inputs,
        outputs=outputs,
        extents=(*number.values, 1 if cluster else max_phase_blocks(placed, threads)),
        headers=tuple(dict.fromkeys([h for k in kernels for h in k.headers] + ["cluster.h", "grid.h"])),
        members=members,
        launch=Launch(
            threads,
            extent=len(number.values),
            scale=1,
            per_block=1,
            limit=0 if cluster else gpu.resident_threads // threads,
            shared=ahead.shared_bytes,
            cooperative=not cluster,
            cluster=cluster or 1,
        ),
        choice=Choice(
            {
                "threads": threads,
                "steps": [p.kernel.kind for p in placed],
                "iterations": [p.times for p in placed] if loops else None,
                "barriers": barriers_of(placed),
                "registers": registers_of(placed),
                "cluster": cluster or None,
                "prefetched": ahead.figures or None,
            },
            why=f"{why}; {ahead} are fetched while the first phase runs" if ahead.figures else why,
        ),
        bytes_read=bytes_of(elements_read_by_all(kernels)),
        bytes_written=sum(k.bytes_written for k in kernels),
    )
