# SPDX-License-Identifier: Apache-2.0
"""The C++ toolchain: which compiler there is, and which flags it takes.

A process whose programs are on disk needs no more of it than its key: what runs it (compile.py) is imported when
there is something to compile.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import TYPE_CHECKING

from ...cache.disk_cache import Store
from ...cache.package_files import kernels_hash
from ...core.dataclass import dataclass
from ...core.settings import text_of
from ..base import NotBuiltError

if TYPE_CHECKING:
    from ...compiler.program import Unit
    from .compile import Compiled
    from .prestarted_compiler import PrestartedCompiler

__all__ = ["FLAGS", "MOST_WAITING", "Toolchain", "find_toolchain"]

MOST_WAITING = 2  #: compilers that start before there is a text for them

#: The user's products are rounded; kernels/math_fma.h names those that need not be.
_UNCONTRACTED = "-ffp-contract=off"
_FAST = ("-ffp-contract=fast", "-DHG_FAST_MATH")  #: what fast mode has in its place
#: To the linker: take one of several definitions, and leave out what nothing uses.
_LINK_PARTS = "-Wl,-z,muldefs,--gc-sections"
#: No flag here changes results: NaN, infinities, signed zeros and subnormals stay as IEEE 754 has them.
#: -ffast-math would even switch the whole process to flush-to-zero.
FLAGS = (
    "-std=c++17",
    "-O3",
    "-march=native",
    "-mprefer-vector-width=512",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fopenmp-simd",
    # GCC 12's straight-line vectoriser mixes up lanes of strided loads with AVX-512 (test_linalg mirrors matrices)
    "-fno-tree-slp-vectorize",
    # and its induction variables those of simd loops that read an array both plainly and with a stride (test_running)
    "-fno-ivopts",
    # it takes selections after each other apart into paths, and what was a maximum of two vectors becomes a dozen masks
    "-fno-tree-dominator-opts",
    _UNCONTRACTED,
    "-fvisibility=hidden",
    "-fno-exceptions",
    "-fno-rtti",
    "-shared",
    "-fPIC",
    "-w",
    "-ffunction-sections",  # a linked unit's other kernels are left out
    _LINK_PARTS,
    "-nostdlib",  # kernels need neither start-up files nor C++'s library: a tenth of the time of a small graph
    "-pipe",  # the assembler starts with the compiler
)
_LIBRARIES = ("-lm", "-lc", "-lgcc")  #: what -nostdlib leaves out and kernels do call; behind the source
_REQUIRED = ("-shared", "-fPIC", _UNCONTRACTED)


@dataclass(frozen=True)
class Toolchain:
    """A compiler that works.

    Attributes:
        command: how it is started.
        identity: path, size and time of the binary, so that an upgrade changes every cache key.
        flags: what it accepts of FLAGS.
        waits: whether it can be started before its text is known (see prestarted_compiler.py).
        linker: the program that it links with, '' where that is not known.
        note: the store's key of what was found out about it, '' if nothing is kept there.
    """

    command: tuple[str, ...]
    identity: str
    flags: tuple[str, ...]
    waits: bool = False
    linker: str = ""
    note: str = ""

    @property
    def key(self) -> str:
        """Hash of everything but the source that decides about the machine code."""
        return _hash(self.identity, " ".join((*self.flags, *_FAST, *self.libraries)), cpu_features(), kernels_hash())

    def unit_key(self, numeric: str, unit: str) -> str:
        """Under which the machine code of a translation unit is kept."""
        return _hash(self.key, numeric, unit)

    @property
    def wide(self) -> bool:
        """Whether it writes code for vectors of 64 bytes."""
        return "-march=native" in self.flags and "avx512f" in cpu_features().split()

    def mode_flags(self, numeric: str) -> tuple[str, ...]:
        """The flags of a numeric mode."""
        if numeric == "strict":
            return self.flags
        return (*(f for f in self.flags if f != _UNCONTRACTED), *_FAST)

    @property
    def part_options(self) -> tuple[str, ...]:
        """What its linker is told where units are kept of which some kernels belong to other programs, or are in two units;
        nothing where it cannot be: such units are kept whole."""
        return tuple(_LINK_PARTS.split(",")[1:]) if _LINK_PARTS in self.flags else ()

    @property
    def libraries(self) -> tuple[str, ...]:
        """Libraries to link with where linking without is refused."""
        return _LIBRARIES if "-nostdlib" in self.flags else ()

    def start(self, numeric: str, units: int = MOST_WAITING) -> AbstractContextManager[Sequence[PrestartedCompiler]]:
        """Compilers that are ready when a text for :meth:`compile`, of so many units, is there; none where they would only
        take time."""
        from .compile import start

        return start(self, numeric, min(units, MOST_WAITING))

    def compile(
        self, units: Sequence[Unit], numeric: str, store: Store, prestarted: Sequence[PrestartedCompiler] = ()
    ) -> Compiled:
        """The shared library of some units; see :func:`~hybridgpu.backends.cpu.compile.compile_units`."""
        from .compile import CompileError, compile_units

        try:
            return compile_units(self, units, numeric, store, prestarted)
        except CompileError:
            if self._is_as_noted(store):
                raise
        raise NotBuiltError(
            f"the C++ compiler {self.command[0]} takes other flags than when it was found",
            "Start Python again, which asks it anew.",
        )

    def _is_as_noted(self, store: Store) -> bool:
        """Whether it is what was noted of it. A script, whose file stays the same, may start another compiler by now; then
        the note goes."""
        from .compile import probe

        noted = _noted(store.get_json("compiler", self.note)) if self.note else None
        fresh = None if noted is None else probe(self.command, FLAGS, _REQUIRED, _LIBRARIES)
        if noted is not None and fresh not in (None, noted[1:]):  # None: it takes nothing now, as where memory is short
            store.forget("compiler", self.note)
            _outdated.add(self.note)
        return self.note not in _outdated


_outdated: set[str] = set()  #: notes that turned out to be wrong


def _hash(*parts: str) -> str:
    """A hash of texts, for keys."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@lru_cache
def cpu_features() -> str:
    """Architecture and feature flags: a cache on a shared home meets other processors."""
    try:
        with open("/proc/cpuinfo", "rb", buffering=0) as f:  # as text it takes ten times as long
            head = f.read(8192)
        lines = [
            line for line in head.split(b"\n") if line.startswith((b"flags", b"Features", b"model name", b"CPU part"))
        ]
        return os.uname().machine + b"".join(dict.fromkeys(lines)).decode("ascii", "replace")
    except OSError:
        return f"{platform.machine()} {platform.processor()}"


def _candidates() -> list[tuple[str, ...]]:
    named = [("HYBRIDGPU_CXX", text_of("HYBRIDGPU_CXX")), ("CXX", os.environ.get("CXX", "").strip())]
    named = [(name, v) for name, v in named if v]
    commands = [_words(v) for _, v in named]
    if named and named[0][0] == "HYBRIDGPU_CXX":
        return commands[:1]
    return [*commands, ("c++",), ("g++",), ("clang++",), ("zig", "c++"), ("python-zig", "c++")]


@lru_cache
def _words(command: str) -> tuple[str, ...]:
    """A command line in words; one whose quotes do not close is no command."""
    import shlex

    try:
        return tuple(shlex.split(command))
    except ValueError:
        return ()


@lru_cache
def _find(candidates: tuple[tuple[str, ...], ...], store: Store) -> Toolchain | None:
    for command in candidates:
        path = _which(command[0]) if command else None
        if path is None:
            continue
        whole, s = (path, *command[1:]), os.stat(path)
        # all that tells one state of a file from another: what was found out of it is true as long as that stays (but the
        # device, which has another number whenever a container is started)
        state = (whole, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns)
        key = _hash(repr(state), repr(FLAGS), cpu_features())
        noted = _noted(store.get_json("compiler", key))
        if noted is None:
            from .compile import probe

            probed = probe(whole, FLAGS, _REQUIRED, _LIBRARIES)
            if probed is None:
                continue
            noted = (os.path.realpath(path), *probed)
            store.put_json("compiler", key, noted)
        real, flags, waits, linker = noted
        identity = f"{real} {s.st_size} {s.st_mtime_ns} {' '.join(command[1:])}"
        return Toolchain(whole, identity, flags, waits, linker, key)
    return None


def _which(command: str) -> str | None:
    """A path as of ``shutil.which``, which asks three times for each file that is not there."""
    path = os.environ.get("PATH")
    if os.name != "posix" or path is None or os.path.dirname(command):
        return shutil.which(command)
    for folder in path.split(os.pathsep) if path else ():
        file = os.path.join(folder, command)
        if os.access(file, os.X_OK) and not os.path.isdir(file):
            return file
    return None


def find_toolchain(store: Store) -> Toolchain | None:
    """The first compiler of ``$HYBRIDGPU_CXX``, ``$CXX``, c++, g++, clang++, zig that works, or None.

    ``HYBRIDGPU_CXX=none`` says that there is none (the reference interpreter then runs everything).
    """
    candidates = tuple(_candidates())
    return None if candidates[:1] == (("none",),) else _find(candidates, store)


def _noted(entry: object) -> tuple[str, tuple[str, ...], bool, str] | None:
    """The values of a cache entry: the compiler's own file, flags, whether it waits, linker. None where it is no such entry."""
    match entry:
        case [str() as real, list() as flags, bool() as waits, str() as linker]:
            if all(f in FLAGS for f in flags) and all(f in flags for f in _REQUIRED):
                return real, tuple(flags), waits, linker
    return None
