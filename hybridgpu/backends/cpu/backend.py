# SPDX-License-Identifier: Apache-2.0
"""Programs on the CPU: one foreign call a segment.

:meth:`CpuProgram.bind` is the fast way in: it takes addresses as integers, in the order of the program's inputs and
outputs. The arena of a call comes from a free list, so threads may call at once.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import time
import weakref
from array import array as c_array
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...cache.disk_cache import Store, default_store
from ...cache.package_files import kernels_hash
from ...compiler.ir.types import tensor_type
from ...compiler.program import LibraryStep, Program
from ...compiler.target import CPU, Target
from ...core.dtypes import from_short
from ...core.fork_safe_lock import Lock
from ...core.settings import disabled_passes
from ...core.temp_dirs import scratch
from ..base import BuildInfo, Mode, NotBuiltError, this_thread
from ..library import run_host_step
from ..memory import alias, persistent
from ..worker_thread import ThreadCall
from .bound_call import Bound
from .elf import HEADER, is_complete
from .thread_pool import ThreadPool
from .toolchain import MOST_WAITING, Toolchain, find_toolchain

if TYPE_CHECKING:
    from .prestarted_compiler import PrestartedCompiler

__all__ = ["CpuBackend", "CpuProgram", "address_of"]

#: type codes of arrays, which unlike those of ctypes need no class for each length
_NUMBER, _POINTER = "q", "Q" if ctypes.sizeof(ctypes.c_void_p) == 8 else "I"
_KEEP_GIL_BELOW = 50_000  # bytes moved: a call so short is over before another thread could start

_KEPT_ARENAS = 256 << 20  # bytes that wait for the next call of their program


def address_of(array: Any) -> int:
    """The address of a NumPy array's data."""
    return int(array.__array_interface__["data"][0])


class CpuProgram:
    """A program whose segments are functions of a shared library.

    Attributes:
        single: the entry function if the whole program is one call, else None. It takes the arena's
            address, ``table``, the address of an array with the fixed inputs' addresses, and the
            addresses of the other inputs and of the outputs.
        table: address of the numbers (extents, offsets).
        free: arenas that wait for a call.
    """

    def __init__(
        self,
        program: Program,
        library: ctypes.CDLL | None,
        info: BuildInfo,
        bodies: Mapping[int, CpuProgram] | None = None,
    ) -> None:
        """``library``: None if there are no segments; ``bodies``: step number -> what a loop runs."""
        self.program, self.info, self._bodies = program, info, bodies or {}
        self._numbers = c_array(_NUMBER, [v for _, v in program.runtime_values] or [0])
        self.table = self._numbers.buffer_info()[0]
        self._library = library
        self.free: list[tuple[Any, int]] = []
        fixed = set(program.pinned_inputs)
        self._passed = [k for k in range(len(program.inputs)) if k not in fixed]
        count = 4 if program.takes_pointer_array else 3 + len(self._passed) + len(program.outputs)
        self._segments: list[Callable[..., None]] = []
        for k in range(len(program.segments)):
            function = getattr(library, f"run{k}")
            function.argtypes = [ctypes.c_void_p] * count
            function.restype = None
            self._segments.append(_packing(function) if program.takes_pointer_array else function)
        whole = len(self._segments) == 1 and program.segments[0] == (0, len(program.steps))
        self.single = self._segments[0] if whole else None

    def arena(self) -> tuple[Any, int]:
        """(owner, address) of memory for one call; give it back with :meth:`release`."""
        try:
            return self.free.pop()
        except IndexError:
            if not self.program.arena_bytes:
                return (None, 0)
            _make_room(self)
            memory = persistent(np, (self.program.arena_bytes,), np.uint8)
            return memory, address_of(memory)

    def describe(self, step: LibraryStep) -> str:
        return step.note  # NumPy computes every library step

    @property
    def execution_mode(self) -> str:
        return ""

    def in_mode(self, mode: Mode) -> CpuProgram:
        return self  # arenas are kept and calls are one function in every mode

    def release(self, arena: tuple[Any, int]) -> None:
        self.free.append(arena)

    def bind(self, addresses: Sequence[int]) -> Bound:
        """The program with these addresses of its fixed inputs, for calls that repeat."""
        return Bound(self, addresses)

    def pointers(self, addresses: Sequence[int]) -> c_array[int]:
        """The array of fixed inputs' addresses; keep it alive during the call."""
        return c_array(_POINTER, addresses or [0])

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Any], pointers: Any = None) -> None:
        """See :class:`~hybridgpu.backends.base.Loaded`; ``pointers``: to the fixed inputs, if they are known."""
        fixed = (
            self.pointers([address_of(inputs[k]) for k in self.program.pinned_inputs]) if pointers is None else pointers
        )
        moving = [address_of(inputs[k]) for k in self._passed] + [address_of(a) for a in outputs]
        arena = self.arena()
        try:
            self._run_steps(arena, [self.table, fixed.buffer_info()[0], *moving], list(inputs), list(outputs))
        finally:
            self.release(arena)

    def repeat(self, step: LibraryStep, array: Callable[[int, tuple[int, ...]], Any], program: Program) -> None:
        """Run this program as the body of a loop, a step of ``program``."""
        from .host_loop import run_by_address  # few programs have loops

        operands = [array(k, shape) for k, shape in zip(step.inputs, step.input_shapes, strict=True)]
        packed = array(step.output, program.buffers[step.output].shape)
        outputs = [tensor_type(shape, from_short(short)) for shape, short in self.program.outputs]
        bound = self.bind([])
        with bound.held() as call:
            run_by_address(operands, step.params, outputs, packed, address_of, call)

    def _run_steps(self, arena: tuple[Any, int], rest: list[int], inputs: list[Any], outputs: list[Any]) -> None:
        owner, base = arena

        def array(index: int, shape: tuple[int, ...]) -> Any:
            b = self.program.buffers[index]
            if b.space == "input":
                return inputs[b.index].reshape(shape)
            if b.space == "output" and self.program.output_buffers[b.index] == index:
                return outputs[b.index].reshape(shape)
            if b.space == "output":
                return alias(outputs[b.index], b.nbytes, from_short(b.dtype).np, shape)
            return owner[b.index : b.index + b.nbytes].view(from_short(b.dtype).np).reshape(shape)

        segment = {begin: (k, end) for k, (begin, end) in enumerate(self.program.segments)}
        at = 0
        while at < len(self.program.steps):
            if at in segment:
                k, at = segment[at]
                self._segments[k](base, *rest)
                continue
            step = self.program.steps[at]
            assert isinstance(step, LibraryStep)
            body = self._bodies.get(at)
            if body is not None and body.single is not None and step.params["guard"] < 0:
                body.repeat(step, array, self.program)
            else:
                run_host_step(step, array, self.program, np, body)
            at += 1


def _packing(function: Callable[..., None]) -> Callable[..., None]:
    """``function``, which takes the addresses of arguments and results in an array, with its usual parameters."""

    def call(arena: int, table: int, fixed: int, *addresses: int) -> None:
        pointers = c_array(_POINTER, addresses)
        function(arena, table, fixed, pointers.buffer_info()[0])

    return call


_held: weakref.WeakKeyDictionary[CpuProgram, int] = weakref.WeakKeyDictionary()  #: bytes of arenas, oldest first
_counting = Lock()


def _make_room(program: CpuProgram) -> None:
    """Count an arena that ``program`` makes; beyond the bound, programs that made theirs earlier lose them.

    A net that meets a thousand shapes has a thousand programs, and each would keep its memory.
    """
    with _counting:
        _held[program] = _held.pop(program, 0) + program.program.arena_bytes
        excess = sum(_held.values()) - _KEPT_ARENAS
        for other in list(_held):
            if excess <= 0 or other is program:
                break
            excess -= _held.pop(other)
            other.free.clear()


def _opener(program: Program) -> type[ctypes.CDLL]:
    """The function that opens a program's library: its functions keep Python's lock or give it up."""
    return ctypes.PyDLL if program.bytes_moved < _KEEP_GIL_BELOW else ctypes.CDLL


def _opened(file: Path, opener: type[ctypes.CDLL] = ctypes.CDLL) -> ctypes.CDLL:
    """A shared library. Raises OSError if it cannot be loaded, or is cut short."""
    with open(file, "rb", buffering=0) as f:
        if not is_complete(f.read(HEADER), os.fstat(f.fileno()).st_size):
            raise OSError(errno.EIO, "the library is cut short", str(file))
    return opener(str(file))


class CpuBackend:
    """Compiles programs with the host's C++ compiler."""

    xp = np

    def __init__(self, toolchain: Toolchain, store: Store) -> None:
        self.toolchain, self.store = toolchain, store
        kernels_hash(store)  # the toolchain's key contains it
        self._loaded: dict[str, Any] = {}
        self._units_last = MOST_WAITING  #: how many units of the last program had to be compiled, at most
        self._prelude: Program | None = None  #: of that program
        self._pool = ThreadPool(toolchain, store, self._kept_and_opened)

    @cached_property
    def _target(self) -> Target:
        return replace(CPU, panels=self.toolchain.wide)

    @property
    def target(self) -> Target:
        return self._target.without_passes(disabled_passes())

    def key(self, target: Target | None = None) -> str:
        return f"cpu {self.toolchain.key}{(target or self.target).passes_key}"

    def prewarm(self, numeric: str) -> AbstractContextManager[Sequence[PrestartedCompiler]]:
        # after a program whose kernels were there, those of another size or of a block alike will be, too; and after one of
        # a single unit, a second compiler would start for nothing, which is a third of the time of such a unit
        return self.toolchain.start(numeric, self._units_last) if self._units_last else nullcontext(())

    def loads_in_parallel(self, program: Program) -> bool:
        # compilers are processes of their own; a library that is open already is found before a thread has started
        return not program.segments or self._library_key(program) not in self._loaded

    def _library_key(self, program: Program) -> str:
        identity = f"{self.toolchain.key}\0{program.numeric}\0{program.source}"
        return hashlib.sha256(identity.encode()).hexdigest()

    def _library(
        self, program: Program, prestarted: Sequence[PrestartedCompiler] = ()
    ) -> tuple[ctypes.CDLL, tuple[int, tuple[str, ...]]]:
        """The program's compiled code, how many modules were compiled for it now, and the kernels in them.

        A prelude that has to be compiled as well is compiled at the same time, since it will be wanted next.
        """
        key = self._library_key(program)
        compiled = 0
        kernels: tuple[str, ...] = ()
        library = self._loaded.get(key)
        if library is None:
            path = self.store.path("so", key)
            if path is not None:
                try:
                    library = _opened(path, _opener(program))
                except OSError:  # built for something else: rebuild it
                    self.store.forget("so", key)
            if library is None:
                pool = self._pool.preparing() if program.has_chunks else nullcontext()
                with pool, self._compiling(program.prelude) as prelude:
                    made = self.toolchain.compile(program.units, program.numeric, self.store, prestarted)
                of_prelude = (0, ()) if prelude is None else prelude.result()
                compiled, kernels = 1 + of_prelude[0], made.kernels + of_prelude[1]
                library = self._kept_and_opened(key, made.library)
            self._loaded[key] = library
        return library, (compiled, kernels)

    def _compiling(
        self, prelude: Program | None
    ) -> AbstractContextManager[ThreadCall[tuple[int, tuple[str, ...]]] | None]:
        """The compilation of a prelude in another thread, which gives how many modules it was, and the kernels in them."""
        if prelude is None or not prelude.segments or this_thread.background:
            return nullcontext()

        def count() -> tuple[int, tuple[str, ...]]:
            with suppress(Exception):  # what goes wrong shows when it is loaded
                return self._library(prelude)[1]
            return 0, ()

        return ThreadCall(count)

    def _kept_and_opened(self, key: str, code: bytes) -> ctypes.CDLL:
        """A new library, from its entry; from a file of its own where another process has deleted that since, or where
        nothing in the store's folder may be executed."""
        path = self.store.put("so", key, code)
        if path is None:
            raise NotBuiltError("compiled code cannot be written to any folder")
        with suppress(OSError):
            return _opened(path)
        try:
            with scratch() as folder:
                file = folder / "unit.so"
                file.write_bytes(code)
                return _opened(file)
        except OSError as e:
            raise NotBuiltError(f"compiled code cannot be loaded: {e}") from None

    def load(self, program: Program, prewarmed: Sequence[PrestartedCompiler] = ()) -> CpuProgram:
        loaded = self._load(program, prewarmed)
        if program.segments and program is not self._prelude:  # which was compiled beside its program
            self._units_last = len(program.units) if loaded.info.compiled else 0
            self._prelude = program.prelude
        return loaded

    def _load(self, program: Program, prewarmed: Sequence[PrestartedCompiler] = ()) -> CpuProgram:
        start = time.perf_counter()
        library, (compiled, kernels) = self._library(program, prewarmed) if program.segments else (None, (0, ()))
        if library is not None and type(library) is not (opener := _opener(program)):  # as another program opened it
            library = opener(library._name, handle=library._handle)
        if library is not None and program.has_chunks:
            self._pool.serve(library)
        info = BuildInfo(time.perf_counter() - start, compiled, " ".join(self.toolchain.command), kernels)
        bodies = {
            k: self._load(s.body)
            for k, s in enumerate(program.steps)
            if isinstance(s, LibraryStep) and s.body is not None
        }
        for body in bodies.values():
            info.compiled += body.info.compiled
            info.kernels += body.info.kernels
        return CpuProgram(program, library, info, bodies)


_backend: CpuBackend | None = None


def cpu_backend() -> CpuBackend | None:
    """The backend of this process's default store, or None where there is no compiler."""
    global _backend
    store = default_store()
    if _backend is None or _backend.store is not store:
        toolchain = find_toolchain(store)
        _backend = CpuBackend(toolchain, store) if toolchain else None
    return _backend
