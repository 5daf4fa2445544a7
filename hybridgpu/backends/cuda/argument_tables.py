# SPDX-License-Identifier: Apache-2.0
"""Argument tables: prepared argument blocks, graphs and scratch memory of a CUDA program's calls.

A *layout* numbers the 8-byte values that the kernels of a program take as arguments: addresses that change
from call to call (inputs and results), addresses in the arena, those of parameters, and extents. A *frame*
is one table of these values, with the argument blocks of all kernels pointing into it and, where asked for,
CUDA graphs made of them, and of what libraries start with addresses from that table. A call takes a frame,
writes what has changed, starts the kernels, and puts the frame back. CUDA copies arguments when a kernel is started,
so a frame is free again at once.

Memory is another matter: kernels use it later, in the order of their stream. So an arena that is kept belongs to
one stream, and only one call at a time may start kernels that use it. Fresh arenas come from CuPy's pool, which
keeps freed memory for the stream that it was taken on.
"""

from __future__ import annotations

import ctypes
import struct
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...compiler.program import LibraryStep, Program
from ...core.fork_safe_lock import Lock
from ...core.settings import cuda_graphs
from ..library import AddressCall
from ..memory import empty
from .driver import Driver, KernelGraph, Launch, LibraryStart, Memory, NotCapturedError

__all__ = ["Arena", "Arenas", "ArgumentTable", "DirectCall", "KernelCall", "Layout", "LibraryCall", "StreamArenas"]

_WORD = 8  #: bytes of a value
_WORKSPACE = 256  #: bytes of which the address of a library's workspace is a multiple
_PER_THREAD = 2  #: address that stands for "the default stream of the calling thread"


class KernelCall(NamedTuple):
    """A start of a kernel, its arguments as numbers of values in the table."""

    kernel: Any
    grid: tuple[int, int]
    threads: int
    shared: int
    slots: tuple[int, ...]
    memory: tuple[Memory, ...]
    cooperative: bool


class LibraryCall(NamedTuple):
    """A step that a library computes; ``body`` is what a loop runs.

    Attributes:
        address_call: how it is started by addresses, where that is possible.
        slots: numbers of the values that are the operands' addresses, then the result's and the workspace's.
    """

    step: LibraryStep
    body: Any
    address_call: AddressCall | None
    slots: tuple[int, ...]


class DirectCall(NamedTuple):
    """A library call of a frame: a function of a stream, and the call for where that function did nothing."""

    start: Callable[[int], bool]
    call: LibraryCall


class Layout:
    """The places of a program's kernel arguments in its table.

    Attributes:
        calls: the steps, those left out that have nothing to do.
        moving: positions of the inputs whose addresses may change; those of all results follow.
        kernels, libraries: how many of each.
        size: number of values.
        nbytes: of the arena, behind whose intermediate results is the libraries' workspace.
        left_out: numbers of library calls that are no part of a CUDA graph though they are started by addresses, with the
            reason.
        loaded: each library call was made once, so that the libraries have loaded what they need.
    """

    def __init__(
        self,
        program: Program,
        handles: dict[str, Any],
        driver: Driver,
        bodies: dict[int, Any],
        address_calls: dict[int, AddressCall],
    ) -> None:
        """
        Args:
            bodies: step number -> what a loop runs.
            address_calls: step number -> how a library starts it by addresses.
        """
        fixed = sorted(program.pinned_inputs)
        self.moving = [k for k in range(len(program.inputs)) if k not in set(fixed)]
        self.count = len(self.moving) + len(program.outputs)
        self.offsets = sorted({b.index + b.offset for b in program.buffers if b.space == "arena"})
        self.nbytes = program.arena_bytes
        workspace = max((d.workspace for d in address_calls.values()), default=0)
        if workspace:  # which belongs to a call as all of the arena does
            at = -(-self.nbytes // _WORKSPACE) * _WORKSPACE
            self.offsets = sorted({*self.offsets, at})
            self.nbytes = at + workspace
        self.arena_slot = self.count
        self.fixed_slot = self.arena_slot + len(self.offsets)
        #: the word on which blocks of a kernel wait for each other, -1 where no kernel has one
        self.barrier_slot = self.fixed_slot + len(fixed) if any(b.space == "barrier" for b in program.buffers) else -1
        #: parts of results: (place of the result's address, bytes to the part), and where their addresses begin
        self.parts = sorted(
            {(len(self.moving) + b.index, b.offset) for b in program.buffers if b.space == "output" and b.offset}
        )
        self.part_slot = self.fixed_slot + len(fixed) + (self.barrier_slot >= 0)
        self.size = self.part_slot + len(self.parts)
        of_input = {k: n for n, k in enumerate(self.moving)} | {k: self.fixed_slot + n for n, k in enumerate(fixed)}
        of_offset = {at: self.arena_slot + n for n, at in enumerate(self.offsets)}

        def slot_of(index: int) -> int:
            b = program.buffers[index]
            if b.space == "barrier":
                return self.barrier_slot
            if b.space == "output":
                at = len(self.moving) + b.index
                return self.part_slot + self.parts.index((at, b.offset)) if b.offset else at
            return of_offset[b.index + b.offset] if b.space == "arena" else of_input[b.index]

        self.numbers: dict[int, int] = {}  #: integer -> its place
        self.calls: list[KernelCall | LibraryCall] = []
        for number, step in enumerate(program.steps):
            if isinstance(step, LibraryStep):
                places = [slot_of(i) for i in (*step.inputs, step.output)]
                started = address_calls.get(number)
                if started is not None and started.workspace:
                    places.append(self.fixed_slot - 1)
                self.calls.append(LibraryCall(step, bodies.get(number), started, tuple(places)))
                continue
            kernel = program.kernels[step.kernel]
            launch = kernel.launch
            assert launch is not None, f"kernel {kernel.name} was made for another target"
            blocks = -(-step.extents[launch["extent"]] * launch["scale"] // launch["per_block"])
            if launch["limit"]:
                blocks = min(blocks, launch["limit"] * driver.multiprocessors)
            if launch["cooperative"]:
                resident_blocks = driver.resident(handles[kernel.name], launch["threads"], launch["shared"])
                assert resident_blocks > 0, f"no multiprocessor has room for a block of {kernel.name}"
                blocks = min(blocks, resident_blocks * driver.multiprocessors)
            blocks *= launch["cluster"]
            if blocks == 0:
                continue
            slots, memory = [], []
            for k, index in enumerate(step.buffers):
                slots.append(slot_of(index))
                written = k >= len(step.buffers) - step.outputs
                part = program.buffers[index].nbytes if program.buffers[index].parent >= 0 else 0
                memory.append(Memory(program.capacity(index), written, part))
            slots += [self.numbers.setdefault(n, self.size + len(self.numbers)) for n in step.extents]
            self.calls.append(
                KernelCall(
                    handles[kernel.name],
                    (blocks, 1),
                    launch["threads"],
                    launch["shared"],
                    tuple(slots),
                    tuple(memory),
                    bool(launch["cooperative"]),
                )
            )
        self.size += len(self.numbers)
        self.libraries = sum(isinstance(c, LibraryCall) for c in self.calls)
        self.kernels = len(self.calls) - self.libraries
        self.left_out: dict[int, str] = {}
        self.loaded = not self.libraries
        self._graphs = cuda_graphs()
        #: for each value of a key (the arena, then what moves), the calls that take it
        arena = range(self.arena_slot, self.fixed_slot)
        parts = range(self.part_slot, self.part_slot + len(self.parts))
        users: list[list[int]] = [[] for _ in range(1 + self.count)]
        for k, call in enumerate(self.calls):
            if isinstance(call, KernelCall) or call.address_call is not None:
                if any(s in arena for s in call.slots):
                    users[0].append(k)
                moving = {self.parts[s - self.part_slot][0] if s in parts else s for s in call.slots}
                for s in {s for s in moving if s < self.count}:
                    users[1 + s].append(k)
        self.users = [tuple(u) for u in users]
        self.pack_moving = struct.Struct(f"={self.count}Q").pack_into
        self.pack_parts = struct.Struct(f"={len(self.parts)}Q").pack_into
        self.pack_arena = struct.Struct(f"={len(self.offsets)}Q").pack_into

    def chains(self) -> list[list[int]]:
        """Runs of kernels and library calls that nothing else interrupts: what becomes a CUDA graph each.

        A graph of one kernel or call is started no faster than that, and changed less easily.
        """
        chains: list[list[int]] = [[]]
        for k, call in enumerate(self.calls):
            if isinstance(call, KernelCall) or (call.address_call is not None and k not in self.left_out):
                chains[-1].append(k)
            else:
                chains.append([])
        if self._graphs == "never":
            return []
        least = 1 if self._graphs == "always" else 2
        return [chain for chain in chains if len(chain) >= least]

    @property
    def execution_mode(self) -> str:
        """The way replayed calls run, in words."""
        chains = self.chains()
        if not chains:
            words = f"{self.kernels} launch{'' if self.kernels == 1 else 'es'} a call"
            why = "HYBRIDGPU_CUDA_GRAPHS is never" if self._graphs == "never" else self._reasons
            why = why or ("no two kernels follow each other" if len(self.calls) != 1 else "it would be of one step")
            return f"{words} without a CUDA graph: {why}" if why else words
        inside = [self.calls[k] for chain in chains for k in chain]
        libraries = sum(isinstance(c, LibraryCall) for c in inside)
        kernels = len(inside) - libraries
        parts = [_counted(kernels, "kernel")] if kernels else []
        parts += [_counted(libraries, "library call")] if libraries else []
        words = f"{' and '.join(parts)} a call in {_counted(len(chains), 'CUDA graph')}"
        alone, outside = self.kernels - kernels, self.libraries - libraries
        words += f", {alone} by {'itself' if alone == 1 else 'themselves'}" if alone else ""
        if outside:
            words += f"; {_counted(outside, 'library call')} {'runs' if outside == 1 else 'run'} outside"
            words += f" ({self._reasons})" if self.left_out else ""
        return words

    @property
    def _reasons(self) -> str:
        return "; ".join(dict.fromkeys(self.left_out.values()))


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


class ArgumentTable:
    """A table of arguments with the kernels' argument blocks.

    Args:
        fixed: addresses of the parameters.
        barrier: address of the word on which blocks of a kernel wait for each other, 0 where no kernel needs one.
        key: the arena's address, then what moves: what the table starts with.
        graphs: make CUDA graphs of chains of kernels and library calls.

    Attributes:
        parts: what a call runs in order: functions of a stream, and library calls.
        starts: the same where there are only functions.
        libraries: whether library calls are among the parts.
        key: the addresses that stand in the table.

    Raises:
        NoGraphError: ``graphs`` is wanted and cannot be had.
        NotCapturedError: it could without one library call, whose number among the layout's calls the error has.
    """

    __slots__ = ("_blocks", "_layout", "_nodes", "_table", "graphs", "key", "libraries", "parts", "starts")

    def __init__(
        self,
        layout: Layout,
        driver: Driver,
        fixed: Sequence[int],
        barrier: int,
        key: tuple[int, ...],
        graphs: bool,
    ) -> None:
        self._layout = layout
        table = self._table = (ctypes.c_uint64 * max(1, layout.size))()
        base = ctypes.addressof(table)
        struct.pack_into(f"={len(fixed)}Q", table, _WORD * layout.fixed_slot, *fixed)
        if layout.barrier_slot >= 0:
            struct.pack_into("=Q", table, _WORD * layout.barrier_slot, barrier)
        for number, slot in layout.numbers.items():
            struct.pack_into("=q", table, _WORD * slot, number)
        self.key, self.graphs = key, graphs
        self._write(key)
        steps: dict[int, Launch | LibraryStart] = {}
        self._blocks: list[Any] = []
        for k, call in enumerate(layout.calls):
            if isinstance(call, KernelCall):
                block = (ctypes.c_void_p * max(1, len(call.slots)))(*(base + _WORD * s for s in call.slots))
                self._blocks.append(block)
                numbers = len(call.slots) - len(call.memory)
                steps[k] = Launch(*call[:4], ctypes.addressof(block), call.memory, numbers, call.cooperative)
            elif call.address_call is not None:
                steps[k] = _starter(call, table)
        self._nodes: dict[int, tuple[KernelGraph, int]] = {}
        heads: dict[int, KernelGraph] = {}
        for chain in layout.chains() if graphs else ():
            try:
                graph = heads[chain[0]] = driver.graph([steps[k] for k in chain])
            except NotCapturedError as e:
                raise NotCapturedError(chain[e.node], str(e)) from e
            self._nodes.update({k: (graph, n) for n, k in enumerate(chain)})
        self.parts: list[Callable[[int], None] | LibraryCall | DirectCall] = []
        for k, call in enumerate(layout.calls):
            step = steps.get(k)
            if k in heads:
                self.parts.append(heads[k].launch)
            elif k in self._nodes:
                pass
            elif isinstance(step, Launch):
                self.parts.append(driver.starter(step))
            elif isinstance(call, LibraryCall):
                self.parts.append(call if step is None else DirectCall(step, call))
        self.starts = [p for p in self.parts if not isinstance(p, LibraryCall | DirectCall)]
        self.libraries = len(self.starts) < len(self.parts)

    def _write(self, key: tuple[int, ...]) -> None:
        layout, base = self._layout, key[0]
        self._pack_moving(key)
        layout.pack_arena(self._table, _WORD * layout.arena_slot, *(base + at for at in layout.offsets))

    def _pack_moving(self, key: tuple[int, ...]) -> None:
        layout = self._layout
        layout.pack_moving(self._table, 0, *key[1:])
        if layout.parts:
            layout.pack_parts(self._table, _WORD * layout.part_slot, *(key[1 + k] + at for k, at in layout.parts))

    def move(self, key: tuple[int, ...]) -> None:
        """Take other addresses, in the table and in the graphs. After an error the frame is of no use.

        Raises:
            NotCapturedError: as when it was made.
        """
        old, nodes = self.key, self._nodes
        if key[0] == old[0]:
            self._pack_moving(key)
        else:
            self._write(key)
        if nodes:
            touched: set[int] = set()
            for before, now, users in zip(old, key, self._layout.users, strict=True):
                if before != now:
                    touched.update(users)
            for k in touched:
                node = nodes.get(k)
                if node is not None:
                    try:
                        node[0].update(node[1])
                    except NotCapturedError as e:
                        raise NotCapturedError(k, str(e)) from e
        self.key = key


def _starter(call: LibraryCall, table: Any) -> Callable[[int], bool]:
    """The function that starts a library call with the addresses that stand in a table then."""
    assert call.address_call is not None
    places = [ctypes.c_void_p.from_buffer(table, _WORD * slot) for slot in call.slots]
    operands = len(call.step.inputs)
    work = places[operands + 1] if call.address_call.workspace else None
    return call.address_call.starter(places[:operands], places[operands], work)


class Arena:
    """Memory for the intermediate results of one call at a time.

    Attributes:
        base: its address.
        owner: the array that holds it, of bytes.
    """

    __slots__ = ("base", "nbytes", "owner")

    def __init__(self, xp: Any, address: Callable[[Any], int], nbytes: int) -> None:
        self.nbytes = nbytes
        self.owner = empty(xp, (nbytes,), np.uint8) if nbytes else None
        self.base = address(self.owner) if nbytes else 0


class StreamArenas:
    """The kept arenas of one stream: a call takes one, which all its kernels use, and gives it back.

    All programs share them, so that a stream's memory is that of its largest program, once for each thread that calls
    at the same time. A program that needs a larger one replaces it; the memory of the old one goes back to CuPy, which gives it to work
    of the same stream only.
    """

    __slots__ = ("__weakref__", "_address", "_xp", "free", "stream")

    def __init__(self, xp: Any, address: Callable[[Any], int], stream: Any) -> None:
        self._xp, self._address = xp, address
        self.stream = stream  #: held, so that no other stream gets its address
        self.free: list[Arena] = []

    def take(self, nbytes: int) -> Arena:
        """An arena of at least ``nbytes`` that nobody else uses; append it to ``free`` after the call."""
        try:
            arena = self.free.pop()
        except IndexError:
            return Arena(self._xp, self._address, nbytes)
        return arena if arena.nbytes >= nbytes else Arena(self._xp, self._address, nbytes)


class Arenas:
    """The kept arenas of a device, by stream. They live as long as something that was called with them."""

    def __init__(self, xp: Any, address: Callable[[Any], int]) -> None:
        self._xp, self._address = xp, address
        self._streams: weakref.WeakValueDictionary[Any, StreamArenas] = weakref.WeakValueDictionary()
        self._lock = Lock()

    def of(self, stream: Any) -> StreamArenas:
        """The tables of a stream, in the calling thread where the stream is one of each thread."""
        key = (stream.ptr, threading.get_ident() if stream.ptr == _PER_THREAD else 0)
        with self._lock:
            arenas = self._streams.get(key)
            if arenas is None:
                arenas = self._streams[key] = StreamArenas(self._xp, self._address, stream)
            return arenas

    def release(self) -> None:
        """Give memory back that no call is using; the next calls take new memory."""
        with self._lock:
            for arenas in list(self._streams.values()):
                arenas.free.clear()
