# SPDX-License-Identifier: Apache-2.0
"""Programs on a CUDA device: kernels launched from prepared argument tables, library calls in between.

Everything happens on CuPy's current stream of the device, which must be the current device. Calls may come from
several threads and on several streams at once: each thread has, for each stream, a :class:`Lane` of its own.
"""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from ...compiler.devices.gpu import TF32_CAPABILITY
from ...compiler.program import LibraryStep, Program
from ...compiler.target import Target, cuda_target
from ...core.dtypes import from_short
from ...core.fork_safe_lock import Lock
from ...core.settings import disabled_passes, graph_kernels, tf32
from ..base import BuildInfo, Mode
from ..device_errors import DeviceError, raise_translated, register_holder, retry_after_oom
from ..library import AddressCall, Library, prepare_step, run_host_step
from ..memory import alias, empty, zeros
from ..memory import copy as copied
from ..write_tracking import assign
from .argument_tables import Arena, Arenas, ArgumentTable, DirectCall, Layout, LibraryCall
from .device_tables import digest
from .driver import Driver, NoGraphError, NotCapturedError, Stream

__all__ = ["ALIGNMENT", "Bound", "CudaBackend", "CudaProgram", "Lane"]

ALIGNMENT = 16  #: bytes; wide accesses need it
_BOUND = 8  #: sets of parameters that a program remembers
_FRAMES = 3  #: frames of a lane that differ in their addresses: as many as results that a loop's variables keep alive
_SMALL = 1 << 20  #: bytes of an arena that is kept whatever the flags: taking memory costs more than a small kernel
_BARRIER = 128  #: bytes for a word that nothing else shares a line with
_LARGE = 64  #: kernels beyond which one frame is enough, since making it costs more than changing it


class CudaProgram:
    """A program bound to its kernels."""

    def __init__(
        self,
        program: Program,
        driver: Driver,
        xp: Any,
        address: Any,
        info: BuildInfo,
        arenas: Arenas,
        library: Library | None = None,
    ) -> None:
        self.program, self.info, self.mode = program, info, Mode.EAGER_ALLOC
        self.driver, self._xp, self._address, self.arenas = driver, xp, address, arenas
        handles = driver.load(program.kernels)
        bodies = {
            k: CudaProgram(step.body, driver, xp, address, info, arenas, library)
            for k, step in enumerate(program.steps)
            if isinstance(step, LibraryStep) and step.body is not None
        }
        #: what the device's library prepared for each library step, by its identity
        self._prepared = {id(s): prepare_step(library, s, program) for s in program.steps if isinstance(s, LibraryStep)}
        self.layout = Layout(program, handles, driver, bodies, self._address_calls())
        self._bodies = list(bodies.values())
        self._fixed = sorted(program.pinned_inputs)
        self._bound: dict[tuple[tuple[int, ...], Mode], Bound] = {}
        self._binding = Lock()
        self.no_graph: list[str] = []  #: why CUDA graphs cannot be used, once that is known

    def _address_calls(self) -> dict[int, AddressCall]:
        """Step number -> how its library starts it by addresses alone, where it can."""
        address_calls: dict[int, AddressCall] = {}
        for k, step in enumerate(self.program.steps):
            prepared = self._prepared.get(id(step))
            if prepared is not None and isinstance(step, LibraryStep):
                address_call = prepared.address_call(step.input_shapes, step.transposed)
                if address_call is not None:
                    address_calls[k] = address_call
        return address_calls

    def in_mode(self, mode: Mode) -> CudaProgram:
        """The same program with its calls repeated in another way; both share everything else."""
        other = copy.copy(self)
        other.mode = mode
        return other

    @property
    def execution_mode(self) -> str:
        """The way calls run, in words."""
        words = f"{self.layout.kernels} launch{'' if self.layout.kernels == 1 else 'es'} a call"
        if self.mode is Mode.GRAPH:
            words = f"{words} without a CUDA graph: {self.no_graph[0]}" if self.no_graph else self.layout.execution_mode
        if self.keeps:
            words += "; memory of intermediate results is kept"
        return words

    @property
    def keeps(self) -> bool:
        """Whether the arena is kept between calls."""
        nbytes = self.layout.nbytes
        return bool(nbytes) and (self.mode is not Mode.EAGER_ALLOC or nbytes <= _SMALL)

    def bind(self, fixed: tuple[int, ...]) -> Bound:
        """The program with the addresses of its parameters, in order of their positions."""
        key = (fixed, self.mode)
        bound = self._bound.get(key)
        if bound is None:
            with self._binding:
                bound = self._bound.get(key)
                if bound is None:
                    if len(self._bound) >= _BOUND:
                        del self._bound[next(iter(self._bound))]
                    bound = self._bound[key] = Bound(self, fixed)
        return bound

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        xp, address = self._xp, self._address
        inputs, targets, at = list(inputs), outputs, [address(a) for a in inputs]
        for k, place in enumerate(at):
            if place % ALIGNMENT:
                inputs[k] = copied(xp, inputs[k])
                at[k] = address(inputs[k])
        outputs = [a if address(a) % ALIGNMENT == 0 else empty(xp, a.shape, a.dtype) for a in outputs]
        moving = (*(at[k] for k in self.layout.moving), *map(address, outputs))
        fixed = tuple([at[k] for k in self._fixed])
        if self.driver.is_capturing():
            self._captured(fixed, moving, inputs, outputs)
        else:
            self.bind(fixed).lane().run(moving, inputs, outputs)
        for target, value in zip(targets, outputs, strict=True):
            if target is not value:
                assign(target, value)

    def _captured(
        self, fixed: tuple[int, ...], moving: tuple[int, ...], inputs: Sequence[Any], outputs: Sequence[Any]
    ) -> None:
        """Start everything on a stream that the user captures: no graph of ours, and memory of this call's own."""
        driver, layout = self.driver, self.layout
        driver.attach()
        arena = Arena(self._xp, self._address, layout.nbytes) if layout.nbytes else None
        barrier = self.barrier() if layout.barrier_slot >= 0 else None
        word = self._address(barrier) if barrier is not None else 0
        key = (arena.base if arena is not None else 0, *moving)
        self.start(ArgumentTable(layout, driver, fixed, word, key, False), driver.stream().ptr, arena, inputs, outputs)

    def start(
        self, frame: ArgumentTable, stream: int, arena: Arena | None, inputs: Sequence[Any], outputs: Sequence[Any]
    ) -> None:
        """Start all parts of a frame; the arrays are for library calls."""
        if not frame.libraries:
            for start in frame.starts:
                start(stream)
            return
        for part in frame.parts:
            if isinstance(part, DirectCall):
                if not part.start(stream):
                    self.library(part.call, arena, inputs, outputs)  # type: ignore[arg-type]
            elif isinstance(part, LibraryCall):
                self.library(part, arena, inputs, outputs)  # type: ignore[arg-type]
            else:
                part(stream)

    def barrier(self) -> Any:
        """Memory for a word on which blocks of a kernel wait for each other, zero on the current stream."""
        return zeros(self._xp, (_BARRIER,), np.uint8)

    def place_of(self, array: Any) -> int:
        """The address of an array."""
        return int(self._address(array))

    def library(self, call: LibraryCall, arena: Arena, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Run a library call on the arrays of a call."""
        program = self.program

        def array(index: int, shape: tuple[int, ...]) -> Any:
            b = program.buffers[index]
            if b.space == "arena":
                assert arena.owner is not None
                return arena.owner[b.index : b.index + b.nbytes].view(from_short(b.dtype).np).reshape(shape)
            if b.space == "output" and program.output_buffers[b.index] != index:
                return alias(outputs[b.index], b.nbytes, from_short(b.dtype).np, shape)
            return (inputs if b.space == "input" else outputs)[b.index].reshape(shape)

        step, prepared = call.step, self._prepared[id(call.step)]
        try:
            run_host_step(step, array, program, self._xp, call.body, prepared)
        except Exception as e:
            if call.body is not None:  # some of a loop's steps were made
                raise_translated(e)
            retry_after_oom(e, run_host_step, step, array, program, self._xp, None, prepared)

    def describe(self, step: LibraryStep) -> str:
        """The library that computes a step, in words; '' if there was no choice."""
        if id(step) in self._prepared:
            prepared = self._prepared[id(step)]
            return "" if prepared is None else prepared.note
        return next((description for body in self._bodies if (description := body.describe(step))), "")


class Bound:
    """A program with its parameters' addresses, and what its calls keep."""

    def __init__(self, program: CudaProgram, fixed: tuple[int, ...]) -> None:
        self.program, self.fixed = program, fixed
        self._own = _Lanes()

    def lane(self) -> Lane:
        """The lane of the calling thread and the current stream."""
        stream = self.program.driver.stream()
        lane = self._own.lanes.get(stream.ptr)
        if lane is None:
            lanes = self._own.lanes
            if len(lanes) >= _BOUND:
                del lanes[next(iter(lanes))]
            try:
                lane = Lane(self.program, self.fixed, stream)
            except Exception as e:
                lane = retry_after_oom(e, Lane, self.program, self.fixed, stream)
            lanes[stream.ptr] = lane
        return lane


class _Lanes(threading.local):
    def __init__(self) -> None:
        self.lanes: dict[int, Lane] = {}


class Lane:
    """Calls of a program from one thread on one stream.

    Frames are taken out while a call uses them, for a call may come while another one is at work: from a
    finaliser, or a signal's handler.
    """

    def __init__(self, program: CudaProgram, fixed: tuple[int, ...], stream: Stream) -> None:
        driver = program.driver
        driver.attach()
        self._program, self._fixed, self._stream = program, fixed, stream
        self._ptr, self._layout = stream.ptr, program.layout
        self._bytes = program.layout.nbytes
        self._frames: dict[tuple[int, ...], ArgumentTable] = {}
        self._limit = _FRAMES if self._layout.kernels <= _LARGE else 1
        # calls on a stream take turns, and all kernels leave the word as they found it; CuPy clears it on this stream
        self._barrier = program.barrier() if self._layout.barrier_slot >= 0 else None
        self._waits = program.place_of(self._barrier) if self._barrier is not None else 0
        self._arenas = program.arenas.of(stream) if program.keeps else None
        self._free = self._arenas.free if self._arenas is not None else None
        self._graphs = program.mode is Mode.GRAPH and not program.no_graph and bool(self._layout.chains())

    def run(self, moving: tuple[int, ...], inputs: Sequence[Any] = (), outputs: Sequence[Any] = ()) -> None:
        """Start everything on the stream.

        Args:
            moving: addresses of the inputs that are no parameters, then of the results; all aligned.
            inputs, outputs: the arrays, for library calls; not looked at without any.
        """
        arena: Arena | None = None
        base = 0
        if self._bytes:
            arenas = self._arenas
            if arenas is None:
                arena = Arena(self._program._xp, self._program._address, self._bytes)
            else:
                arena = arenas.take(self._bytes)
            base = arena.base
        key = (base, *moving)
        frames = self._frames
        ptr = self._ptr
        try:
            frame = frames.pop(key, None) or self._frame(key)
            if frame.libraries:
                self._program.start(frame, ptr, arena, inputs, outputs)
            else:
                for start in frame.starts:
                    start(ptr)
        except Exception as e:  # the frame is gone with what may be wrong in it
            raise_translated(e)
        if frame.graphs is self._graphs:
            frames[key] = frame
        else:
            self._layout.loaded = True
        if self._free is not None:
            self._free.append(arena)  # type: ignore[arg-type]

    def _frame(self, key: tuple[int, ...]) -> ArgumentTable:
        """A frame with these addresses: the one that was not used for longest, changed, or a new one."""
        frames, layout = self._frames, self._layout
        while self._graphs and layout.loaded:
            try:
                if len(frames) >= self._limit:
                    frame = frames.pop(next(iter(frames)))
                    frame.move(key)
                    return frame
                try:
                    return self._new(key, graphs=True)
                except DeviceError as e:
                    return retry_after_oom(e, self._new, key, True)
            except NotCapturedError as e:  # graphs end before that call, and begin behind it
                layout.left_out[e.node] = str(e)
            except NoGraphError as e:
                self._program.no_graph.append(str(e))
                self._graphs = False
        if len(frames) >= self._limit:
            frame = frames.pop(next(iter(frames)))
            frame.move(key)
            return frame
        return self._new(key, graphs=False)

    def _new(self, key: tuple[int, ...], graphs: bool) -> ArgumentTable:
        return ArgumentTable(self._layout, self._program.driver, self._fixed, self._waits, key, graphs)


class CudaBackend:
    """Compiles programs for one CUDA device.

    Args:
        library: computes some library steps; None leaves all to ``xp``.
    """

    def __init__(self, driver: Driver, xp: Any, address: Callable[[Any], int], library: Library | None = None) -> None:
        self._has_tf32 = int(driver.arch.rpartition("_")[2].rstrip("af")) >= TF32_CAPABILITY
        target = cuda_target(driver.arch, driver.multiprocessors).changed(**driver.constants)
        target = target.changed(**{k: min(getattr(target.gpu, k), most) for k, most in driver.limits.items()})
        if library is not None:
            products, convolutions = library.supports("gemm_bias"), library.supports("conv_bias_act")
            target = replace(target, library_epilogues=products, library_convolutions=convolutions)
        self._target = replace(target, resident=graph_kernels()) if driver.cooperative else target
        self.driver, self.xp, self._address, self._library = driver, xp, address, library
        self.arenas = Arenas(xp, address)
        register_holder(self.arenas)

    @property
    def target(self) -> Target:
        """The target that programs are compiled for now."""
        rounding = tf32() if self._has_tf32 else False
        target = self._target if self._target.tf32 is rounding else replace(self._target, tf32=rounding)
        return target.without_passes(disabled_passes())

    @target.setter
    def target(self, target: Target) -> None:
        self._target = target

    def key(self, target: Target | None = None) -> str:
        target = target or self.target
        epilogues = " epilogues" if target.library_epilogues else ""
        epilogues += " convolutions" if target.library_convolutions else ""
        epilogues += "" if target.tf32 is None else f" tf32 {target.tf32}"
        one = f" clusters of {target.persistent_cluster}" + (" replayed" if target.replayed else "")
        return f"cuda {self.driver.identity} {digest(target.gpu)}{epilogues}{one} {target.resident}{target.passes_key}"

    def prewarm(self, numeric: str) -> AbstractContextManager[Any]:
        return nullcontext()  # NVRTC is a library of this process: nothing runs beside the first call

    def loads_in_parallel(self, program: Program) -> bool:
        return False  # threads do not help NVRTC

    def load(self, program: Program, prewarmed: Any = None) -> CudaProgram:
        start, before, kernels_before = time.perf_counter(), self.driver.compiled, len(self.driver.compiled_kernels)
        info = BuildInfo(0.0, 0, self.driver.identity)
        try:
            loaded = self._loaded(program, info)
        except Exception as e:
            loaded = retry_after_oom(e, self._loaded, program, info)
        info.seconds, info.compiled = time.perf_counter() - start, self.driver.compiled - before
        info.kernels = tuple(self.driver.compiled_kernels[kernels_before:])
        return loaded

    def _loaded(self, program: Program, info: BuildInfo) -> CudaProgram:
        if program.prelude is not None:  # one compilation for both
            self.driver.load([*program.kernels, *program.prelude.kernels])
        return CudaProgram(program, self.driver, self.xp, self._address, info, self.arenas, self._library)
