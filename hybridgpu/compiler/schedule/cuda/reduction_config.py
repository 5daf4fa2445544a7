# SPDX-License-Identifier: Apache-2.0
"""Which form a CUDA kernel with reductions takes, by a model of what a row costs a multiprocessor.

Memory traffic takes time, at a rate that needs enough bytes under way, and so do arithmetic and latencies (barriers,
starting blocks), which a multiprocessor hides behind one another as far as it has several rows at hand. Values that
are needed again stay in registers, else in shared memory, both shared out over the blocks of a cluster, and are read
again where none has room.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ....dataclass import dataclass, field
from ...devices.gpu import PORTABLE_CLUSTER
from ...passes.fuse.column_sums import MOST_SUMS
from ...size_buckets import alike
from ...target import Target
from ..reduction_passes import Plan
from ..scalar import Scalar
from .register_model import Demand, blocks_by_registers, predicted_registers
from .vector_access import kept_size

__all__ = ["Form", "Kept", "Work", "choose_columns", "choose_rows", "choose_rows_with_sums", "kept_values"]

_LEAST_OWN = 20  #: registers of a thread besides the values it keeps, where they are scarce
_DOUBLE_OWN = 60  #: … for values of two registers, and functions of them
_ARRAY_OWN = 8  #: … and for every further array
_MOST_KEPT = 64  #: 4-byte words of values that a thread keeps
_UNROLLED = 16  #: elements under way where loops are not taken apart …
_MOST_STEPS = 4  #: … in so many steps at most
_RESERVED = 2048  #: bytes of shared memory for the states of warps and for the system
_STATES = 32 * 1024  #: bytes of shared memory for the states of the columns form
_LONG = 8192  #: elements of a row from which on the number of rows counts; for shorter ones that are …
_USUAL = 1 << 22  #: … so many elements in all, so that kernels do not depend on the number of rows
_MANY_ROWS = 16  #: times as many rows as are usual
_LEAST_THREADS = 128  #: of a block, …
_LEAST_CLUSTERED = 256  #: … and of one that shares rows with others that are neighbours in memory
_SUM_OWN = 4  #: registers that sums over all rows take besides their words
# Each block leaves a row of such sums in memory, which is written and read again: with R rows for each block the parts
# are 2 / R of the bytes of an array, so few blocks with many rows move least. One block leaves a multiprocessor idle
# behind its barriers. Both figures follow from that and were not measured, there was no GPU.
_SUM_BLOCKS = 2  #: blocks of a multiprocessor that take such sums, at most
_SUM_BYTES = 32 * 1024  #: of shared memory, in which the teams of a block put their sums together
_SUM_ROWS = 4  #: rows of a team, at least: its part is then at most half an array's bytes, …
_PART_ROWS = 32  #: … and a sixteenth with so many rows, which blocks of a cluster have together where rows have …
_PART_WIDTH = 2048  #: … so many elements: kernels of shorter ones may be steps of another, which clusters may not
# Loops over sums are taken apart, and the compiler reads ahead in them and finds positions once for all rows: it parks
# values in memory where sums take more than a part of the registers, unless spans are short and positions are hidden from
# it; nothing else is kept beyond a quarter. These parts are NVRTC's, for five architectures.
_CROWDED = 1 / 4  #: no blocks of 1024 threads, positions in clusters hidden; beyond, all are, spans of two …
_FULL = 3 / 8  #: … and single elements from here on in a block that has its rows alone


@dataclass(frozen=True)
class Kept:
    """A value that later walks need again: bytes of one, the walk that computes it and the last that needs it."""

    scalar: Scalar
    size: int
    first: int
    last: int


@dataclass(frozen=True)
class Work:
    """What is to be done.

    Attributes:
        rows, width: how many rows, of how many elements.
        vector: elements of a span.
        ragged: rows may begin at any element.
        read, written: bytes of an element in memory.
        walks: how often a row is walked, …
        merges: … and how often states are put together.
        state: bytes of the states of all walks.
        operations: scalar operations of an element in all walks.
        kept: what later walks need again.
        again: bytes of an element that later walks read from memory.
        arrays, loaded: how many are read in spans, and bytes of an element of them all.
        double: arithmetic is in double precision.
        told: rows may be shorter: how long they are is an argument.
        sums: 4-byte words of an element of the sums over all rows.
        crossing: values of a row that walks leave to others.
    """

    rows: int
    width: int
    vector: int
    ragged: bool
    read: int
    written: int
    walks: int
    merges: int
    state: int
    operations: int
    kept: tuple[Kept, ...]
    again: int = 0
    arrays: int = 1
    loaded: int = 4
    double: bool = False
    told: bool = False
    sums: int = 0
    crossing: int = 0

    def unroll(self, threads: int) -> int:
        """Steps of a loop that are under way at once in a block of so many threads."""
        elements = _UNROLLED // (2 if self.double else 1) // (2 if threads > 512 else 1)
        return min(_MOST_STEPS, max(1, elements // self.vector))


@dataclass(frozen=True)
class Form:
    """A choice.

    Attributes:
        threads: of a block.
        team: threads that share a row; in the columns form those that share a span of rows.
        cluster: blocks that share a row.
        steps: spans of a row that a thread takes.
        places: for every kept value 'registers', or its offset in shared memory.
        refused: values that are read or computed again.
        shared: bytes of dynamic shared memory.
        seconds: what the model says for all rows.
        unroll: steps of a loop that are taken together.
        blocks: of a multiprocessor, where a block takes rows to the end; else 0: there are as many as rows need.
        merged: blocks that have rows of their own, and put their sums over all rows together behind these.
        hidden: positions are found anew in every walk: no registers keep them from row to row.
        demand: what a thread holds in registers.
        why: the choice in words.
    """

    threads: int
    team: int
    cluster: int
    steps: int
    places: dict[Scalar, str | int] = field(default_factory=dict)
    refused: frozenset[Scalar] = frozenset()
    shared: int = 0
    seconds: float = 0.0
    unroll: int = 1
    blocks: int = 0
    merged: int = 1
    hidden: bool = False
    demand: Demand | None = None
    why: str = ""

    @property
    def across(self) -> int:
        """Of the columns form: spans of rows that a block takes."""
        return self.threads // self.team

    @property
    def lanes(self) -> int:
        """Of the columns form: threads of a warp that share a span of rows."""
        return _lanes(self.across, self.team)

    @property
    def ways(self) -> int:
        """Of the columns form: states of a row in a block, those of a warp's lanes put together."""
        return self.team // self.lanes

    def parts(self, rows: int, target: Target) -> int:
        """How many blocks, or clusters, share out so many rows and leave sums each.

        There are two at least, so that adding them up is no other text. All are to run at once.
        """
        gpu = target.gpu
        live = self.blocks * gpu.multiprocessors
        each = self.cluster * self.merged
        if each > 1:
            live = int(live * gpu.cluster_fill) // each
        return max(2, min(live, -(-rows // (self.across * _SUM_ROWS * self.merged))))


def kept_values(plan: Plan) -> tuple[Kept, ...]:
    """What ``plan`` would keep, and from which walk to which."""
    found = []
    for s in plan.cached:
        at = [k for k, w in enumerate(plan.passes) if s in w.scalars]
        found.append(Kept(s, kept_size(s), at[0], at[-1]))
    return tuple(sorted(found, key=lambda k: k.first))


def choose_rows(work: Work, target: Target) -> Form:
    """The form of a kernel whose rows are contiguous."""
    return _best([_row_form(work, target, *c) for c in _teams(work, target)], work)


def choose_rows_with_sums(work: Work, target: Target) -> Form | None:
    """The same where blocks keep sums over all rows; None if spans are too wide for it.

    The number of rows does not count, so that kernels do not depend on it.
    """
    rows = max(1, _USUAL // work.width)
    usual = replace(work, rows=rows)
    shapes = [
        (team, cluster, threads)
        for team, cluster in _teams(work, target)
        if team > 1
        for threads in (_blocks(team) if cluster == 1 else [team])
    ]
    forms = [_row_form(usual, target, *s) for s in shapes if _keeps_sums(work, target, *s)]
    if not forms:
        return None
    best = min(
        forms,
        key=lambda f: (len(f.refused), _crowd(work, f.steps, f.threads, target) > _CROWDED, f.seconds),
    )
    best = replace(best, seconds=best.seconds * work.rows / rows)
    return replace(best, why=_why(best, work, len(forms)))


def _blocks(team: int) -> list[int]:
    """Threads that a block of such teams may have."""
    return [n for n in (128, 256, 512, 1024) if n >= team]


def choose_columns(work: Work, target: Target, neighbours: int, same_order: bool) -> Form:
    """The form of a kernel of which so many rows are ``neighbours`` in memory.

    Args:
        same_order: a row is added up in the same order however many there are: threads and blocks share it as is good
            for usual numbers of rows, few and many.
    """
    shapes = list(_shapes(work, target, neighbours))
    if same_order and work.width < _LONG:
        best = _usual_columns(work, target, neighbours)
        shapes = [s for s in shapes if _order(*s) == _order(best.across, best.team, best.cluster)]
        shapes = shapes or [(best.across, best.team, best.cluster)]
    return _best(_column_forms(work, target, neighbours, shapes), work)


def _column_forms(work: Work, target: Target, neighbours: int, shapes: Sequence[tuple[int, int, int]]) -> list[Form]:
    least = min(_LEAST_THREADS, max(a * d for a, d, _ in shapes))
    return [_column_form(work, target, neighbours, *s) for s in shapes if s[0] * s[1] >= least]


def _order(across: int, down: int, cluster: int) -> tuple[int, int, int]:
    """What decides in which order a row is added up: threads, blocks, and lanes of a warp that share it."""
    return down, cluster, _lanes(across, down)


def _usual_columns(work: Work, target: Target, neighbours: int) -> Form:
    """The form whose order loses least against the fastest ones for few rows and for many."""
    rows = max(_LEAST_THREADS * work.vector, _USUAL // work.width)
    lost: dict[tuple[int, int, int], list[tuple[int, float]]] = {}
    found: dict[tuple[int, int, int], Form] = {}
    counts = rows, rows * _MANY_ROWS
    for count in counts:
        usual = replace(work, rows=count)
        forms = _column_forms(usual, target, neighbours, list(_shapes(usual, target, neighbours)))
        fastest = min(f.seconds for f in forms)
        best: dict[tuple[int, int, int], Form] = {}
        for f in sorted(forms, key=lambda f: (len(f.refused), f.seconds)):
            best.setdefault(_order(f.across, f.team, f.cluster), f)
        for order, f in best.items():
            lost.setdefault(order, []).append((len(f.refused), f.seconds / fastest))
            found.setdefault(order, f)
    everywhere = {order: losses for order, losses in lost.items() if len(losses) == len(counts)}
    return found[min(everywhere, key=lambda o: (max(n for n, _ in lost[o]), sum(s for _, s in lost[o])))]


def _shapes(work: Work, target: Target, neighbours: int) -> Iterator[tuple[int, int, int]]:
    """Candidates: (spans of rows that a block takes, threads of a span, blocks that share them)."""
    across = min(_LEAST_THREADS, _power_of_two(-(-alike(work.rows) // work.vector)))
    while across:
        down = 1
        while across * down <= 1024 and (down == 1 or down * 4 <= work.width):
            if down == 1 or _states(work, across, down, 1) <= _STATES:
                yield across, down, 1
            cluster = 2
            while _clusters(work, target, neighbours, across, down) and down * cluster * 4 <= work.width:
                if cluster > target.gpu.cluster_blocks:
                    break
                yield across, down, cluster
                cluster *= 2
            down *= 2
        across //= 2


def _clusters(work: Work, target: Target, neighbours: int, across: int, down: int) -> bool:
    """Whether blocks of a cluster may share rows: if they keep elements, and sectors of memory are not cut into more than two."""
    if not work.kept or down == 1 or across * down < _LEAST_CLUSTERED or _states(work, across, down, 2) > _STATES:
        return False
    return 2 * across * work.vector >= min(neighbours, target.gpu.sector_bytes // max(1, work.read // work.arrays))


def _lanes(across: int, down: int) -> int:
    return 32 // across if across < 32 and down > 1 and across * down % 32 == 0 else 1


def _states(work: Work, across: int, down: int, cluster: int) -> int:
    """Bytes of shared memory in which threads leave each other states of rows."""
    ways = down // _lanes(across, down)
    return ((ways if ways > 1 else 0) + (cluster > 1)) * across * work.vector * work.state


def _teams(work: Work, target: Target) -> Iterator[tuple[int, int]]:
    """Candidates: (threads of a row in one block, blocks of a row)."""
    spans = -(-(work.width + (work.vector - 1 if work.ragged else 0)) // work.vector)
    most = 512 if work.double else 1024  # 64 registers of a thread hold no erf of doubles beside what is kept
    cluster, gpu = 1, target.gpu
    # (what fits beside sums was found with fewer blocks; those of a device that has no more are all there are)
    large = not work.sums and gpu.cluster_blocks >= PORTABLE_CLUSTER
    largest = max(gpu.cluster_blocks, gpu.row_cluster_blocks) if large else gpu.cluster_blocks
    while cluster <= largest:
        mine = -(-spans // cluster)
        team = 1 if cluster == 1 else 128
        while team <= most and (team == 1 or team < 2 * mine):
            yield team, cluster
            team *= 2
        cluster *= 2


def _keeps_sums(work: Work, target: Target, team: int, cluster: int, threads: int) -> bool:
    """True if the threads of a block have registers for their sums, and teams have room to put them together."""
    steps = -(-work.width // (team * cluster * work.vector))
    words = work.sums * work.vector * steps
    registers = target.gpu.registers // threads
    spans = work.vector * work.arrays * (2 if work.double else 1) if work.vector > 1 else 0
    own = _DOUBLE_OWN if work.double else _LEAST_OWN
    if words > min(MOST_SUMS, registers - own - spans):
        return False
    crowd = _crowd(work, steps, threads, target)
    if crowd >= _CROWDED and threads > 512:
        return False
    if crowd > _CROWDED and work.vector > (2 if crowd <= _FULL or cluster > 1 else 1):
        return False
    return threads == team or threads * words * 4 <= _SUM_BYTES


def _crowd(work: Work, steps: int, threads: int, target: Target) -> float:
    """The part of a thread's registers that its sums take, or two values that it keeps, if these take more."""
    return max(work.sums, 4 if work.double else 2) * steps * work.vector * threads / target.gpu.registers


def _row_form(work: Work, target: Target, team: int, cluster: int, block: int = 0) -> Form:
    gpu = target.gpu
    spans = -(-(work.width + (work.vector - 1 if work.ragged else 0)) // work.vector)
    steps = -(-spans // (team * cluster))
    threads = block or max(team, _LEAST_THREADS)
    teams = threads // team
    space = gpu.shared_bytes - _RESERVED if teams == 1 else 0
    unroll = work.unroll(threads)
    places, refused, words, shared = _place(work, target, threads, steps, space)
    rows = work.rows if work.width >= _LONG else max(1, _USUAL // work.width)
    blocks = -(-rows // teams) * cluster
    kept = words + work.sums
    merged, states = _merged(work, target, cluster, teams), threads * work.sums * steps * work.vector * 4
    if merged > 1 and states <= gpu.shared_bytes - _RESERVED:  # (nothing else is kept any more)
        shared, states = max(shared, states), 0
    else:
        merged, states = 1, states if teams > 1 else 0
    demand = _demand(work, words, steps, steps if kept else min(steps, unroll), False)
    resident = _resident(target, threads, demand, shared + states, blocks)
    if work.sums:
        crowded = _crowd(work, steps, threads, target) * _SUM_BLOCKS > _CROWDED
        own = _DOUBLE_OWN + work.sums * steps * work.vector
        crowded |= work.double and own * threads * _SUM_BLOCKS > gpu.registers
        resident = 1 if crowded else min(resident, _SUM_BLOCKS)
    items = teams * cluster * steps * team * work.vector  # of a block, were all spans full
    used = teams * work.width / items * cluster
    moved = _moving(work, target, resident, blocks, threads, steps if kept else min(steps, unroll), used) * work.width
    computed = items / teams * (work.operations + 4 * work.walks) / gpu.lanes
    exchanged = work.width * _in_shared(work, places) / gpu.shared_cycle_bytes
    computed = max(computed, exchanged)  # other units do it
    cycles: float = gpu.row_cycles + work.merges * gpu.shuffle_cycles * min(team, 32).bit_length()
    if team > 32:
        cycles += work.merges * (gpu.barrier_cycles + 4 * (team // 32) + gpu.shuffle_cycles * 5)
    if cluster > 1:
        cycles += (work.merges + 1) * gpu.cluster_barrier_cycles
    cycles += gpu.loop_cycles * -(-steps // unroll) * work.walks if steps > unroll else 0
    cycles *= cluster / (resident * teams)
    cycles += steps / 2 * max(1.0, team * work.vector * max(work.read, 1) / gpu.line_bytes)
    computed /= gpu.clock
    per_row = max(moved, computed) + min(moved, computed) / (resident * teams) + cycles / gpu.clock
    per_row *= _text(kept, steps * work.vector)
    seconds = per_row * work.rows / min(gpu.multiprocessors, blocks)
    parts = resident * gpu.multiprocessors / (cluster * merged)
    seconds += 8 * work.sums * work.width * parts * target.byte_seconds
    live = resident if work.sums else 0
    share = work.sums * steps * work.vector * threads / gpu.registers
    hidden = not work.double and (share > _CROWDED or (share == _CROWDED and cluster > 1))
    taken = steps if kept else unroll
    return Form(threads, team, cluster, steps, places, refused, shared, seconds, taken, live, merged, hidden, demand)


def _merged(work: Work, target: Target, cluster: int, teams: int) -> int:
    """Blocks that put their sums together: so many that parts are a small share of all bytes."""
    alone = work.sums and cluster == teams == 1 and work.width >= _PART_WIDTH
    return min(target.gpu.cluster_blocks, _PART_ROWS // _SUM_ROWS) if alone else 1


def _column_form(work: Work, target: Target, neighbours: int, across: int, down: int, cluster: int) -> Form:
    gpu = target.gpu
    threads = across * down
    rows = across * work.vector
    steps = -(-work.width // (down * cluster))
    states = _states(work, across, down, cluster)
    lanes = _lanes(across, down)
    unroll = work.unroll(threads)
    space = gpu.shared_bytes - _RESERVED - states
    places, refused, words, shared = _place(work, target, threads, steps, space, work.crossing * work.vector)
    assumed = work.rows if work.width * rows >= _LONG else max(rows, _USUAL // work.width)
    blocks = -(-assumed // rows) * cluster
    demand = _demand(work, words, steps, steps if words else min(steps, unroll), True)
    resident = _resident(target, threads, demand, shared + states, blocks)
    used = work.width / (steps * down * cluster)
    moved = (
        _moving(work, target, resident, blocks, threads, steps if words else min(steps, unroll), used)
        * work.width
        * rows
    )
    if rows < neighbours:  # else what follows along the row is next in memory
        moved *= max(1.0, 2 * gpu.sector_bytes / (rows * max(work.read, 1)))
    computed = cluster * steps * down * rows * (work.operations + 2 * work.walks) / gpu.lanes
    computed = max(computed, work.width * rows * _in_shared(work, places) / gpu.shared_cycle_bytes)
    cycles = gpu.row_cycles + gpu.loop_cycles * steps * work.walks
    if lanes > 1:
        cycles += work.merges * gpu.shuffle_cycles * lanes.bit_length() * work.vector
    if down > lanes:
        cycles += work.merges * (gpu.barrier_cycles + threads // 8 + 30 + 6 * -(-down // lanes**2) * work.vector)
        cycles += work.merges * gpu.shuffle_cycles * (lanes.bit_length() - 1) * work.vector
    if cluster > 1:
        cycles += (work.merges + 1) * gpu.cluster_barrier_cycles
    computed /= gpu.clock
    per_block = max(moved, computed) + (min(moved, computed) + cluster * cycles / gpu.clock) / resident
    per_block *= _text(words, steps * work.vector)
    seconds = per_block * -(-work.rows // rows) / min(gpu.multiprocessors, blocks)
    taken = steps if words else unroll
    return Form(threads, down, cluster, steps, places, refused, shared, seconds, taken, demand=demand)


def _in_shared(work: Work, places: dict[Scalar, str | int]) -> int:
    """Bytes of an element that are written to shared memory and read from there."""
    return sum(2 * k.size for k in work.kept if isinstance(places.get(k.scalar), int))


def _moving(work: Work, target: Target, resident: int, blocks: int, threads: int, steps: int, used: float) -> float:
    """Seconds that an element's bytes take a multiprocessor, one of so many that are at work.

    Args:
        steps: spans of a thread that are under way at once.
        used: part of the spans that holds elements.
    """
    gpu = target.gpu
    share = 1 / (target.byte_seconds * gpu.multiprocessors)
    boost = gpu.boost(blocks)
    under_way = resident * threads * steps * work.vector * max(work.read, 1) * used
    rate = share * boost * min(1.0, under_way / (gpu.bytes_in_flight * boost))
    return (work.read + work.written + work.again) / rate


def _best(forms: Sequence[Form], work: Work) -> Form:
    """The fastest of those that keep all they can; of equals the first, which has the smallest team."""
    best = min(forms, key=lambda f: (len(f.refused), f.seconds))
    return replace(best, why=_why(best, work, len(forms)))


def _why(form: Form, work: Work, count: int) -> str:
    where = {"registers": sum(p == "registers" for p in form.places.values())}
    where["shared memory"] = len(form.places) - where["registers"]
    words = [f"{n} value{'s' if n > 1 else ''} of an element in {place}" for place, n in where.items() if n]
    if work.again:
        words.append(f"{work.again} bytes of an element are read again: on chip there is no room")
    kept = ", ".join(words) or "no element is needed again"
    return f"{kept}; {form.seconds * 1e6:.3g} us by the model, the least of {count} forms"


def _place(
    work: Work, target: Target, threads: int, steps: int, space: int, more: int = 0
) -> tuple[dict[Scalar, str | int], frozenset[Scalar], int, int]:
    """(places, refused, 4-byte words of registers an element, bytes of shared memory a block, of ``space``).

    Values that are not needed at the same time take turns.

    Args:
        more: values that a thread holds besides, such as those of a row.
    """
    gpu = target.gpu
    items = steps * work.vector
    # what remains of a thread's registers beside its own ones and the spans that it works on
    own = _DOUBLE_OWN if work.double else _LEAST_OWN
    spans = (work.vector * work.arrays * (4 if work.ragged else 1) + more) * (2 if work.double else 1)
    free = min(_MOST_KEPT, gpu.registers // threads - own - spans)
    partial = work.told or (threads * items % work.width and work.width % (threads * items))
    if (threads > 512 or steps > _UNROLLED) and partial:
        free = min(free, _UNROLLED)  # ends that have a condition each
    if threads > 512 and (
        more or gpu.cluster_blocks == 1
    ):  # (rows of a cluster are longer: reading them again costs more)
        free -= _ARRAY_OWN * (work.arrays - 1)
    if work.sums:
        free -= work.sums * items + _SUM_OWN
        free = 0 if _crowd(work, steps, threads, target) > _CROWDED else free
    room = max(0, free) // items if items <= target.thread_items else 0
    places: dict[Scalar, str | int] = {}
    refused: set[Scalar] = set()
    registers: list[Kept] = []
    slots: list[tuple[int, int, int]] = []  # (offset, size, last walk) of shared memory
    words = used = 0
    for k in work.kept:
        alive = sum(max(1, o.size // 4) for o in registers if o.last > k.first) + max(1, k.size // 4)
        if alive <= room:
            places[k.scalar] = "registers"
            registers.append(k)
            words = max(words, alive)
            continue
        slot = next((n for n, (_, size, last) in enumerate(slots) if last <= k.first and size == k.size), None)
        if slot is not None:
            slots[slot] = (slots[slot][0], k.size, k.last)
            places[k.scalar] = slots[slot][0]
            continue
        need = threads * items * k.size
        if used + need <= space:
            places[k.scalar] = used
            slots.append((used, k.size, k.last))
            used += -(-need // 16) * 16
        else:
            refused.add(k.scalar)
    return places, frozenset(refused), words, used


def _demand(work: Work, words: int, steps: int, at_once: int, columns: bool) -> Demand:
    """What a thread holds that keeps so many 4-byte words of each element and takes so many of its steps ``at_once``."""
    items, rows = steps * work.vector, work.vector if columns else 1
    loading = -(-work.vector * work.loaded // 4) * (min(at_once, _MOST_STEPS) - 1)
    return Demand(
        columns,
        words * items,
        work.sums * items,
        loading,
        work.crossing * rows,
        work.double,
        work.ragged and not columns,
    )


def _resident(target: Target, threads: int, demand: Demand, shared: int, blocks: int) -> int:
    """Blocks that a multiprocessor holds at once, if there are so many ``blocks``."""
    gpu = target.gpu
    held = blocks_by_registers(predicted_registers(demand, threads, target), threads, target)
    fits = [gpu.resident_threads // threads, held, gpu.resident_blocks]
    if shared:
        fits.append(gpu.shared_total // (shared + gpu.system_shared))
    return max(1, min(*fits, -(-blocks // gpu.multiprocessors)))


def _text(words: int, items: int) -> float:
    """What long texts cost: loops over registers are taken apart."""
    return 1 + 0.004 * items if words else 1.0


def _power_of_two(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()
