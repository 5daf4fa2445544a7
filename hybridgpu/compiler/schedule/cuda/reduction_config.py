# SPDX-License-Identifier: Apache-2.0
"""Launch configuration of a CUDA reduction kernel, by a model of what a row costs a multiprocessor.

Memory traffic takes time, at a rate that needs enough bytes under way, and so do arithmetic and latencies (barriers,
starting blocks), which a multiprocessor hides behind one another as far as it has several rows at hand. Values that
are needed again stay in registers, else in shared memory, both shared out over the blocks of a cluster, and are read
again where none has room.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ....core.dataclass import dataclass, field
from ... import cost
from ...cost import block_traffic_seconds, overlapped_seconds
from ...devices.gpu import PORTABLE_CLUSTER
from ...passes.fuse.column_sums import MAX_SUM_WORDS
from ...size_buckets import bucket, next_power_of_two
from ...target import Target
from ..reduction_passes import PassPlan
from ..scalar import Scalar
from .register_model import RegisterDemand, blocks_by_registers, predicted_registers
from .vector_access import cached_size

__all__ = [
    "LaunchConfig",
    "LiveValue",
    "Workload",
    "choose_columns",
    "choose_rows",
    "choose_rows_with_sums",
    "live_values",
]

_BASE_REGISTERS = 20  #: registers of a thread besides the values it keeps, where they are scarce
_BASE_REGISTERS_F64 = 60  #: … for values of two registers, and functions of them
_REGISTERS_PER_ARRAY = 8  #: … and for every further array
_MAX_CACHED_WORDS = 64  #: 4-byte words of values that a thread keeps
_MAX_UNROLLED = 16  #: elements under way where loops are not taken apart …
_MAX_UNROLLED_STEPS = 4  #: … in so many steps at most
_RESERVED_SHARED = 2048  #: bytes of shared memory for the states of warps and for the system
_MAX_STATE_BYTES = 32 * 1024  #: bytes of shared memory for the states of the columns form
_LONG_ROW = 8192  #: elements of a row from which on the number of rows counts; for shorter ones that are …
_TYPICAL_ELEMENTS = 1 << 22  #: … so many elements in all, so that kernels do not depend on the number of rows
_MANY_ROWS = 16  #: times as many rows as are usual
_MIN_THREADS = 128  #: of a block, …
_MIN_CLUSTER_THREADS = 256  #: … and of one that shares rows with others that are neighbours in memory
_REGISTERS_OF_SUMS = 4  #: registers that sums over all rows take besides their words
# Each block leaves a row of such sums in memory, which is written and read again: with R rows for each block the parts
# are 2 / R of the bytes of an array, so few blocks with many rows move least. One block leaves a multiprocessor idle
# behind its barriers. Both figures follow from that and were not measured, there was no GPU.
_MAX_SUM_BLOCKS = 2  #: blocks of a multiprocessor that take such sums, at most
_MAX_SUM_SHARED = 32 * 1024  #: of shared memory, in which the teams of a block put their sums together
_MIN_SUM_ROWS = 4  #: rows of a team, at least: its part is then at most half an array's bytes, …
_CLUSTER_SUM_ROWS = (
    32  #: … and a sixteenth with so many rows, which blocks of a cluster have together where rows have …
)
_MIN_CLUSTER_WIDTH = (
    2048  #: … so many elements: kernels of shorter ones may be steps of another, which clusters may not
)
# Loops over sums are taken apart, and the compiler reads ahead in them and finds positions once for all rows: it parks
# values in memory where sums take more than a part of the registers, unless spans are short and positions are hidden from
# it; nothing else is kept beyond a quarter. These parts are NVRTC's, for five architectures.
_HIGH_PRESSURE = 1 / 4  #: no blocks of 1024 threads, positions in clusters hidden; beyond, all are, spans of two …
_FULL_PRESSURE = 3 / 8  #: … and single elements from here on in a block that has its rows alone


@dataclass(frozen=True)
class LiveValue:
    """A value that later passes need again: bytes of one, the pass that computes it and the last that needs it."""

    scalar: Scalar
    size: int
    first: int
    last: int


@dataclass(frozen=True)
class Workload:
    """The work of a reduction, as the choice of a launch sees it.

    Attributes:
        rows, width: how many rows, of how many elements.
        vector: elements of a span.
        unaligned_rows: rows may begin at any element.
        read, written: bytes of an element in memory.
        passes, merges: how often a row is read, and how often states are put together.
        state, operations: bytes of the states, and scalar operations of an element, of all passes.
        live: what later passes need again.
        reread: bytes of an element that later passes read from memory.
        arrays, loaded: how many are read in spans, and bytes of an element of them all.
        double: arithmetic is in double precision.
        dynamic_width: rows may be shorter: how long they are is an argument.
        column_sum_words: 4-byte words of an element of the sums over all rows.
        row_values: values of a row that passes leave to others.
    """

    rows: int
    width: int
    vector: int
    unaligned_rows: bool
    read: int
    written: int
    passes: int
    merges: int
    state: int
    operations: int
    live: tuple[LiveValue, ...]
    reread: int = 0
    arrays: int = 1
    loaded: int = 4
    double: bool = False
    dynamic_width: bool = False
    column_sum_words: int = 0
    row_values: int = 0

    @property
    def spans(self) -> int:
        """Spans that a row touches, at most."""
        return -(-(self.width + (self.vector - 1 if self.unaligned_rows else 0)) // self.vector)

    def unroll(self, threads: int) -> int:
        """Steps of a loop that are under way at once in a block of so many threads."""
        elements = _MAX_UNROLLED // (2 if self.double else 1) // (2 if threads > 512 else 1)
        return min(_MAX_UNROLLED_STEPS, max(1, elements // self.vector))


@dataclass(frozen=True)
class LaunchConfig:
    """A choice.

    Attributes:
        threads: of a block.
        team: threads that share a row; in the columns form those that share a span of rows.
        cluster: blocks that share a row.
        steps: spans of a row that a thread takes.
        storage: for every kept value 'registers', or its offset in shared memory.
        not_cached: values that are read or computed again.
        shared: bytes of dynamic shared memory.
        seconds: what the model says for all rows.
        unroll: steps of a loop that are taken together.
        blocks: of a multiprocessor, where a block takes rows to the end; else 0: there are as many as rows need.
        cluster_reduced: blocks that have rows of their own, and put their sums over all rows together behind these.
        recompute_indices: positions are found anew in every pass: no registers keep them from row to row.
        demand: what a thread holds in registers.
        why: the choice in words.
    """

    threads: int
    team: int
    cluster: int
    steps: int
    storage: dict[Scalar, str | int] = field(default_factory=dict)
    not_cached: frozenset[Scalar] = frozenset()
    shared: int = 0
    seconds: float = 0.0
    unroll: int = 1
    blocks: int = 0
    cluster_reduced: int = 1
    recompute_indices: bool = False
    demand: RegisterDemand | None = None
    why: str = ""

    @property
    def teams(self) -> int:
        """Teams of a block, which take a row each; in the columns form a span of rows."""
        return self.threads // self.team

    @property
    def lanes(self) -> int:
        """Threads of a warp that share a span of rows, in the columns form."""
        return _lanes(self.teams, self.team)

    @property
    def states_per_row(self) -> int:
        """States of a row in a block, those of a warp's lanes merged, in the columns form."""
        return self.team // self.lanes

    def partial_sum_rows(self, rows: int, target: Target) -> int:
        """The number of blocks, or clusters, that share out so many rows and leave sums each.

        There are two at least, so that adding them up is no other text. All are to run at once.
        """
        gpu = target.gpu
        live = self.blocks * gpu.multiprocessors
        each = self.cluster * self.cluster_reduced
        if each > 1:
            live = int(live * gpu.cluster_fill) // each
        return max(2, min(live, -(-rows // (self.teams * _MIN_SUM_ROWS * self.cluster_reduced))))


def live_values(plan: PassPlan) -> tuple[LiveValue, ...]:
    """The values that ``plan`` would keep, and from which pass to which."""
    values = []
    for s in plan.cache:
        at = [k for k, w in enumerate(plan.passes) if s in w.scalars]
        values.append(LiveValue(s, cached_size(s), at[0], at[-1]))
    return tuple(sorted(values, key=lambda k: k.first))


def choose_rows(work: Workload, target: Target) -> LaunchConfig:
    """The form of a kernel whose rows are contiguous."""
    return _fastest([_row_config(work, target, *c) for c in _teams(work, target)], work)


def choose_rows_with_sums(work: Workload, target: Target) -> LaunchConfig | None:
    """The same where blocks keep sums over all rows; None if spans are too wide for it.

    The number of rows does not count, so that kernels do not depend on it.
    """
    rows = max(1, _TYPICAL_ELEMENTS // work.width)
    usual = replace(work, rows=rows)
    shapes = [
        (team, cluster, threads)
        for team, cluster in _teams(work, target)
        if team > 1
        for threads in ((128, 256, 512, 1024) if cluster == 1 else (team,))
        if threads >= team
    ]
    forms = [_row_config(usual, target, *s) for s in shapes if _column_sums_fit(work, target, *s)]
    if not forms:
        return None
    best = min(
        forms,
        key=lambda f: (
            len(f.not_cached),
            _register_pressure(work, f.steps, f.threads, target) > _HIGH_PRESSURE,
            f.seconds,
        ),
    )
    best = replace(best, seconds=best.seconds * work.rows / rows)
    return replace(best, why=_why(best, work, len(forms)))


def choose_columns(work: Workload, target: Target, neighbours: int, same_order: bool) -> LaunchConfig:
    """The form of a kernel of which so many rows are ``neighbours`` in memory.

    Args:
        same_order: a row is added up in the same order however many there are: threads and blocks share it as is good
            for usual numbers of rows, few and many.
    """
    shapes = list(_column_shapes(work, target, neighbours))
    if same_order and work.width < _LONG_ROW:
        best = _typical_columns(work, target, neighbours)
        shapes = [s for s in shapes if _summation_order(*s) == _summation_order(best.teams, best.team, best.cluster)]
        shapes = shapes or [(best.teams, best.team, best.cluster)]
    return _fastest(_column_configs(work, target, neighbours, shapes), work)


def _column_configs(
    work: Workload, target: Target, neighbours: int, shapes: Sequence[tuple[int, int, int]]
) -> list[LaunchConfig]:
    least = min(_MIN_THREADS, max(a * d for a, d, _ in shapes))
    return [_column_config(work, target, neighbours, *s) for s in shapes if s[0] * s[1] >= least]


def _summation_order(across: int, down: int, cluster: int) -> tuple[int, int, int]:
    """The order in which a row is added up: threads, blocks, and lanes of a warp that share it."""
    return down, cluster, _lanes(across, down)


def _typical_columns(work: Workload, target: Target, neighbours: int) -> LaunchConfig:
    """The form whose order loses least against the fastest ones for few rows and for many."""
    rows = max(_MIN_THREADS * work.vector, _TYPICAL_ELEMENTS // work.width)
    lost: dict[tuple[int, int, int], list[tuple[int, float]]] = {}
    by_order: dict[tuple[int, int, int], LaunchConfig] = {}
    counts = rows, rows * _MANY_ROWS
    for count in counts:
        usual = replace(work, rows=count)
        forms = _column_configs(usual, target, neighbours, list(_column_shapes(usual, target, neighbours)))
        fastest = min(f.seconds for f in forms)
        best: dict[tuple[int, int, int], LaunchConfig] = {}
        for f in sorted(forms, key=lambda f: (len(f.not_cached), f.seconds)):
            best.setdefault(_summation_order(f.teams, f.team, f.cluster), f)
        for order, f in best.items():
            lost.setdefault(order, []).append((len(f.not_cached), f.seconds / fastest))
            by_order.setdefault(order, f)
    everywhere = {order: losses for order, losses in lost.items() if len(losses) == len(counts)}
    return by_order[min(everywhere, key=lambda o: (max(n for n, _ in lost[o]), sum(s for _, s in lost[o])))]


def _column_shapes(work: Workload, target: Target, neighbours: int) -> Iterator[tuple[int, int, int]]:
    """Candidates: (spans of rows that a block takes, threads of a span, blocks that share them)."""
    across = min(_MIN_THREADS, next_power_of_two(-(-bucket(work.rows) // work.vector)))
    while across:
        down = 1
        while across * down <= 1024 and (down == 1 or down * 4 <= work.width):
            if down == 1 or _state_bytes(work, across, down, 1) <= _MAX_STATE_BYTES:
                yield across, down, 1
            cluster = 2
            while _may_cluster(work, target, neighbours, across, down) and down * cluster * 4 <= work.width:
                if cluster > target.gpu.cluster_blocks:
                    break
                yield across, down, cluster
                cluster *= 2
            down *= 2
        across //= 2


def _may_cluster(work: Workload, target: Target, neighbours: int, across: int, down: int) -> bool:
    """Whether blocks of a cluster may share rows: if they keep elements, and sectors of memory are not cut into more than two."""
    if (
        not work.live
        or down == 1
        or across * down < _MIN_CLUSTER_THREADS
        or _state_bytes(work, across, down, 2) > _MAX_STATE_BYTES
    ):
        return False
    return 2 * across * work.vector >= min(neighbours, target.gpu.sector_bytes // max(1, work.read // work.arrays))


def _lanes(across: int, down: int) -> int:
    return 32 // across if across < 32 and down > 1 and across * down % 32 == 0 else 1


def _state_bytes(work: Workload, across: int, down: int, cluster: int) -> int:
    """Bytes of shared memory in which threads leave each other states of rows."""
    ways = down // _lanes(across, down)
    return ((ways if ways > 1 else 0) + (cluster > 1)) * across * work.vector * work.state


def _teams(work: Workload, target: Target) -> Iterator[tuple[int, int]]:
    """Candidates: (threads of a row in one block, blocks of a row)."""
    most = 512 if work.double else 1024  # 64 registers of a thread hold no erf of doubles beside what is kept
    cluster, gpu = 1, target.gpu
    # (what fits beside sums was found with fewer blocks; those of a device that has no more are all there are)
    large = not work.column_sum_words and gpu.cluster_blocks >= PORTABLE_CLUSTER
    largest = max(gpu.cluster_blocks, gpu.row_cluster_blocks) if large else gpu.cluster_blocks
    while cluster <= largest:
        mine = -(-work.spans // cluster)
        team = 1 if cluster == 1 else 128
        while team <= most and (team == 1 or team < 2 * mine):
            yield team, cluster
            team *= 2
        cluster *= 2


def _column_sums_fit(work: Workload, target: Target, team: int, cluster: int, threads: int) -> bool:
    """True if the threads of a block have registers for their sums, and teams have room to put them together."""
    steps = -(-work.width // (team * cluster * work.vector))
    words = work.column_sum_words * work.vector * steps
    registers = target.gpu.registers // threads
    spans = work.vector * work.arrays * (2 if work.double else 1) if work.vector > 1 else 0
    own = _BASE_REGISTERS_F64 if work.double else _BASE_REGISTERS
    if words > min(MAX_SUM_WORDS, registers - own - spans):
        return False
    crowd = _register_pressure(work, steps, threads, target)
    if crowd >= _HIGH_PRESSURE and threads > 512:
        return False
    if crowd > _HIGH_PRESSURE and work.vector > (2 if crowd <= _FULL_PRESSURE or cluster > 1 else 1):
        return False
    return threads == team or threads * words * 4 <= _MAX_SUM_SHARED


def _register_pressure(work: Workload, steps: int, threads: int, target: Target) -> float:
    """The part of a thread's registers that its sums take, or two values that it keeps, if these take more."""
    return max(work.column_sum_words, 4 if work.double else 2) * steps * work.vector * threads / target.gpu.registers


def _row_config(work: Workload, target: Target, team: int, cluster: int, block: int = 0) -> LaunchConfig:
    """The launch with rows along threads, and its seconds by the cost model.

    Args:
        team, cluster: threads of a row in each block, and blocks of a row.
        block: threads of a block; 0: those of a team, but at least the smallest block.
    """
    gpu = target.gpu
    steps = -(-work.spans // (team * cluster))
    threads = block or max(team, _MIN_THREADS)
    teams = threads // team
    space = gpu.shared_bytes - _RESERVED_SHARED if teams == 1 else 0
    unroll = work.unroll(threads)
    places, refused, words, shared = _allocate(work, target, threads, steps, space)
    rows = work.rows if work.width >= _LONG_ROW else max(1, _TYPICAL_ELEMENTS // work.width)
    blocks = -(-rows // teams) * cluster
    kept_words = words + work.column_sum_words
    taken = steps if kept_words else unroll
    at_once = min(steps, taken)
    merged, states = (
        _cluster_reduced(work, target, cluster, teams),
        threads * work.column_sum_words * steps * work.vector * 4,
    )
    if merged > 1 and states <= gpu.shared_bytes - _RESERVED_SHARED:  # (nothing else is kept any more)
        shared, states = max(shared, states), 0
    else:
        merged, states = 1, states if teams > 1 else 0
    demand = _register_demand(work, words, steps, at_once, False)
    resident = _resident_blocks(target, threads, demand, shared + states, blocks)
    if work.column_sum_words:
        crowded = _register_pressure(work, steps, threads, target) * _MAX_SUM_BLOCKS > _HIGH_PRESSURE
        own = _BASE_REGISTERS_F64 + work.column_sum_words * steps * work.vector
        crowded |= work.double and own * threads * _MAX_SUM_BLOCKS > gpu.registers
        resident = 1 if crowded else min(resident, _MAX_SUM_BLOCKS)
    items = teams * cluster * steps * team * work.vector  # of a block, were all spans full
    used = teams * work.width / items * cluster
    moved = _traffic_seconds(work, target, resident, blocks, threads, at_once, used) * work.width
    computed = items / teams * (work.operations + 4 * work.passes) / gpu.lanes
    exchanged = work.width * _shared_traffic(work, places) / gpu.shared_cycle_bytes
    computed = max(computed, exchanged)  # other units do it
    cycles: float = gpu.row_cycles + work.merges * gpu.shuffle_cycles * min(team, 32).bit_length()
    if team > 32:
        cycles += work.merges * (gpu.barrier_cycles + 4 * (team // 32) + gpu.shuffle_cycles * 5)
    if cluster > 1:
        cycles += (work.merges + 1) * gpu.cluster_barrier_cycles
    cycles += gpu.loop_cycles * -(-steps // unroll) * work.passes if steps > unroll else 0
    cycles *= cluster / (resident * teams)
    cycles += steps / 2 * max(1.0, team * work.vector * max(work.read, 1) / gpu.line_bytes)
    computed /= gpu.clock
    per_row = overlapped_seconds(moved, computed, cycles / gpu.clock, resident * teams)
    per_row *= _code_size_factor(kept_words, steps * work.vector)
    seconds = per_row * work.rows / min(gpu.multiprocessors, blocks)
    parts = resident * gpu.multiprocessors / (cluster * merged)
    seconds += cost.seconds(target, 8 * work.column_sum_words * work.width * parts)
    live = resident if work.column_sum_words else 0
    share = work.column_sum_words * steps * work.vector * threads / gpu.registers
    hidden = not work.double and (share > _HIGH_PRESSURE or (share == _HIGH_PRESSURE and cluster > 1))
    return LaunchConfig(
        threads, team, cluster, steps, places, refused, shared, seconds, taken, live, merged, hidden, demand
    )


def _cluster_reduced(work: Workload, target: Target, cluster: int, teams: int) -> int:
    """Blocks that put their sums together: so many that parts are a small share of all bytes."""
    alone = work.column_sum_words and cluster == teams == 1 and work.width >= _MIN_CLUSTER_WIDTH
    return min(target.gpu.cluster_blocks, _CLUSTER_SUM_ROWS // _MIN_SUM_ROWS) if alone else 1


def _column_config(
    work: Workload, target: Target, neighbours: int, across: int, down: int, cluster: int
) -> LaunchConfig:
    """The launch with rows side by side (threads run across them first), and its seconds by the cost model.

    Args:
        neighbours: rows that are adjacent in memory.
        across: threads that each take ``work.vector`` rows.
        down, cluster: threads and blocks that share a row.
    """
    gpu = target.gpu
    threads = across * down
    rows = across * work.vector
    steps = -(-work.width // (down * cluster))
    states = _state_bytes(work, across, down, cluster)
    lanes = _lanes(across, down)
    unroll = work.unroll(threads)
    space = gpu.shared_bytes - _RESERVED_SHARED - states
    places, refused, words, shared = _allocate(work, target, threads, steps, space, work.row_values * work.vector)
    assumed = work.rows if work.width * rows >= _LONG_ROW else max(rows, _TYPICAL_ELEMENTS // work.width)
    blocks = -(-assumed // rows) * cluster
    taken = steps if words else unroll
    at_once = min(steps, taken)
    demand = _register_demand(work, words, steps, at_once, True)
    resident = _resident_blocks(target, threads, demand, shared + states, blocks)
    used = work.width / (steps * down * cluster)
    moved = _traffic_seconds(work, target, resident, blocks, threads, at_once, used) * work.width * rows
    if rows < neighbours:  # else what follows along the row is next in memory
        moved *= max(1.0, 2 * gpu.sector_bytes / (rows * max(work.read, 1)))
    computed = cluster * steps * down * rows * (work.operations + 2 * work.passes) / gpu.lanes
    computed = max(computed, work.width * rows * _shared_traffic(work, places) / gpu.shared_cycle_bytes)
    cycles = gpu.row_cycles + gpu.loop_cycles * steps * work.passes
    if lanes > 1:
        cycles += work.merges * gpu.shuffle_cycles * lanes.bit_length() * work.vector
    if down > lanes:
        cycles += work.merges * (gpu.barrier_cycles + threads // 8 + 30 + 6 * -(-down // lanes**2) * work.vector)
        cycles += work.merges * gpu.shuffle_cycles * (lanes.bit_length() - 1) * work.vector
    if cluster > 1:
        cycles += (work.merges + 1) * gpu.cluster_barrier_cycles
    computed /= gpu.clock
    per_block = overlapped_seconds(moved, computed, cluster * cycles / gpu.clock / resident, resident)
    per_block *= _code_size_factor(words, steps * work.vector)
    seconds = per_block * -(-work.rows // rows) / min(gpu.multiprocessors, blocks)
    return LaunchConfig(threads, down, cluster, steps, places, refused, shared, seconds, taken, demand=demand)


def _shared_traffic(work: Workload, places: dict[Scalar, str | int]) -> int:
    """Bytes of an element that are written to shared memory and read from there."""
    return sum(2 * k.size for k in work.live if isinstance(places.get(k.scalar), int))


def _traffic_seconds(
    work: Workload, target: Target, resident: int, blocks: int, threads: int, steps: int, used: float
) -> float:
    """Seconds that an element's bytes take a multiprocessor, one of so many that are at work.

    Args:
        steps: spans of a thread that are under way at once.
        used: part of the spans that holds elements.
    """
    in_flight = resident * threads * steps * work.vector * max(work.read, 1) * used
    return block_traffic_seconds(target, work.read + work.written + work.reread, blocks, in_flight)


def _fastest(forms: Sequence[LaunchConfig], work: Workload) -> LaunchConfig:
    """The fastest of those that keep all they can; of equals the first, which has the smallest team."""
    best = min(forms, key=lambda f: (len(f.not_cached), f.seconds))
    return replace(best, why=_why(best, work, len(forms)))


def _why(form: LaunchConfig, work: Workload, count: int) -> str:
    where = {"registers": sum(p == "registers" for p in form.storage.values())}
    where["shared memory"] = len(form.storage) - where["registers"]
    words = [f"{n} value{'s' if n > 1 else ''} of an element in {place}" for place, n in where.items() if n]
    if work.reread:
        words.append(f"{work.reread} bytes of an element are read again: on chip there is no room")
    description = ", ".join(words) or "no element is needed again"
    return f"{description}; {form.seconds * 1e6:.3g} us by the model, the least of {count} forms"


def _allocate(
    work: Workload, target: Target, threads: int, steps: int, space: int, more: int = 0
) -> tuple[dict[Scalar, str | int], frozenset[Scalar], int, int]:
    """(places, refused, 4-byte words of registers an element, bytes of shared memory a block, of ``space``).

    Values that are not needed at the same time take turns.

    Args:
        more: values that a thread holds besides, such as those of a row.
    """
    gpu = target.gpu
    items = steps * work.vector
    # what remains of a thread's registers beside its own ones and the spans that it works on
    own = _BASE_REGISTERS_F64 if work.double else _BASE_REGISTERS
    spans = (work.vector * work.arrays * (4 if work.unaligned_rows else 1) + more) * (2 if work.double else 1)
    free = min(_MAX_CACHED_WORDS, gpu.registers // threads - own - spans)
    partial = work.dynamic_width or (threads * items % work.width and work.width % (threads * items))
    if (threads > 512 or steps > _MAX_UNROLLED) and partial:
        free = min(free, _MAX_UNROLLED)  # ends that have a condition each
    if threads > 512 and (
        more or gpu.cluster_blocks == 1
    ):  # (rows of a cluster are longer: reading them again costs more)
        free -= _REGISTERS_PER_ARRAY * (work.arrays - 1)
    if work.column_sum_words:
        free -= work.column_sum_words * items + _REGISTERS_OF_SUMS
        free = 0 if _register_pressure(work, steps, threads, target) > _HIGH_PRESSURE else free
    room = max(0, free) // items if items <= target.thread_items else 0
    places: dict[Scalar, str | int] = {}
    refused: set[Scalar] = set()
    registers: list[LiveValue] = []
    slots: list[tuple[int, int, int]] = []  # (offset, size, last pass) of shared memory
    words = used = 0
    for k in work.live:
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


def _register_demand(work: Workload, words: int, steps: int, at_once: int, columns: bool) -> RegisterDemand:
    """The registers of a thread that keeps so many 4-byte words of each element and takes so many of its steps ``at_once``."""
    items, rows = steps * work.vector, work.vector if columns else 1
    loading = -(-work.vector * work.loaded // 4) * (min(at_once, _MAX_UNROLLED_STEPS) - 1)
    return RegisterDemand(
        columns,
        words * items,
        work.column_sum_words * items,
        loading,
        work.row_values * rows,
        work.double,
        work.unaligned_rows and not columns,
    )


def _resident_blocks(target: Target, threads: int, demand: RegisterDemand, shared: int, blocks: int) -> int:
    """Blocks that a multiprocessor holds at once, if there are so many ``blocks``."""
    gpu = target.gpu
    by_registers = blocks_by_registers(predicted_registers(demand, threads, target), threads, target)
    fits = [gpu.resident_threads // threads, by_registers, gpu.resident_blocks]
    if shared:
        fits.append(gpu.shared_total // (shared + gpu.system_shared))
    return max(1, min(*fits, -(-blocks // gpu.multiprocessors)))


def _code_size_factor(words: int, items: int) -> float:
    """The cost of long texts: loops over registers are unrolled."""
    return 1 + 0.004 * items if words else 1.0
