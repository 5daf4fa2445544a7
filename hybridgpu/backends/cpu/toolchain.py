# SPDX-License-Identifier: Apache-2.0
"""The host's C++ compiler: finding it, what flags it takes, running it."""

from __future__ import annotations

import errno
import hashlib
import os
import platform
import shutil
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ...compiler.program import END_OF_UNIT
from ...dataclass import dataclass
from ...resources import kernels_folder, kernels_hash
from ...scratch import scratch
from ...settings import text_of
from ...store import Store
from ..base import NotBuiltError, this_thread
from .process import run as _run

if TYPE_CHECKING:
    import subprocess

    from .waiting import Waiting

__all__ = ["CompileError", "Toolchain", "find_toolchain"]

#: The user's products are rounded; kernels/math_fma.h names those that need not be.
_UNCONTRACTED = "-ffp-contract=off"
_FAST = ("-ffp-contract=fast", "-DHG_FAST_MATH")  #: what fast mode has in its place
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
    _UNCONTRACTED,
    "-fvisibility=hidden",
    "-fno-exceptions",
    "-fno-rtti",
    "-shared",
    "-fPIC",
    "-w",
    "-nostdlib",  # kernels need neither start-up files nor C++'s library: a tenth of the time of a small graph
    "-pipe",  # the assembler starts with the compiler
)
_LIBRARIES = ("-lm", "-lc", "-lgcc")  #: what -nostdlib leaves out and kernels do call; behind the source
_REQUIRED = ("-shared", "-fPIC", _UNCONTRACTED)


class CompileError(RuntimeError):
    """The compiler refused a text that hybridgpu generated.

    Attributes:
        source: the text.
        log: what the compiler said.
    """

    def __init__(self, command: str, source: str, log: str) -> None:
        super().__init__(f"the C++ compiler refused a generated source ({command}):\n{log[:4000]}")
        self.source, self.log = source, log


@dataclass(frozen=True)
class Toolchain:
    """A compiler that works.

    Attributes:
        command: how it is started.
        identity: path, size and time of the binary, so that an upgrade changes every cache key.
        flags: what it accepts of FLAGS.
        waits: whether it can be started before its text is known (see waiting.py).
        linker: the program that it links with, '' where that is not known.
    """

    command: tuple[str, ...]
    identity: str
    flags: tuple[str, ...]
    waits: bool = False
    linker: str = ""

    @property
    def key(self) -> str:
        """Hash of everything but the source that decides about the machine code."""
        return _hash(self.identity, " ".join((*self.flags, *_FAST, *self._libraries)), cpu_features(), kernels_hash())

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
    def _libraries(self) -> tuple[str, ...]:
        return _LIBRARIES if "-nostdlib" in self.flags else ()

    def start(self, numeric: str) -> AbstractContextManager[Waiting | None]:
        """A compiler that is ready when a text for :meth:`compile` is there; nothing where it would only take time."""
        if not self.waits or cpu_count() == 1:
            return nullcontext()
        from .waiting import Waiting  # needed as seldom as ``subprocess``

        try:
            return Waiting([*self.command, *self.mode_flags(numeric), "-c", *_from_start()])
        except OSError:  # no place, no more processes: compile will say so
            return nullcontext()

    def compile(self, source: str, numeric: str, store: Store, waiting: Waiting | None = None) -> bytes:
        """The shared library of ``source``, whose units are compiled side by side.

        Where there are many, ``store`` keeps the machine code of all but the last, which has a program's entries:
        another order of the same kernels, or some other kernels among them, do not compile all again. Two units are
        there for the sake of two processors alone: with one, both are compiled as the one unit that they are, too.

        Args:
            waiting: what :meth:`start` gave; it compiles the first unit.

        Raises:
            CompileError: with the text and the compiler's message.
            NotBuiltError: there is no room for temporary files, or the compiler has gone.
        """
        units = source.split(END_OF_UNIT)
        if len(units) == 2 and cpu_count() == 1:
            units = [source]
        try:
            with scratch() as folder:
                out = folder / "unit.so"
                start = [*self.command, *self.mode_flags(numeric), f"-I{kernels_folder()}"]
                objects = [folder / f"{k}.o" for k in range(len(units))]
                keys = [_hash(self.key, numeric, unit) for unit in units[:-1]] if len(units) > 2 else []
                missing = [k for k, o in enumerate(objects) if k >= len(keys) or not _fetched(store, keys[k], o)]
                if waiting is not None:  # there is an entry to compile at least
                    objects[missing[0]] = waiting.object
                runs = _side_by_side(
                    [
                        partial(_run, [*start, "-x", "c++", "-c", "-", "-o", str(objects[k])], units[k])
                        if waiting is None or k != missing[0]
                        else partial(waiting.finish, units[k])
                        for k in missing
                    ]
                )
                if not any(run.returncode for run in runs):
                    for k in missing:
                        if k < len(keys):
                            store.put("o", keys[k], objects[k].read_bytes())
                    runs = [self._link(start, [*map(str, objects), "-o", str(out)])]
                failed = next((run for run in runs if run.returncode), None)
                if failed is None:
                    return out.read_bytes()
        except OSError as e:
            if shutil.which(self.command[0]) is None:
                raise NotBuiltError(
                    f"the C++ compiler {self.command[0]} has gone since it was found",
                    "Install it again, or start Python again with another one in HYBRIDGPU_CXX.",
                ) from None
            raise NotBuiltError(f"the C++ compiler has no place to work in: {e.strerror or e}") from None
        if os.strerror(errno.ENOSPC) in failed.stderr:
            raise NotBuiltError(f"the C++ compiler has no place to work in: {os.strerror(errno.ENOSPC)}")
        said = failed.stderr.strip() or f"it ended with code {failed.returncode} and said nothing; was memory short?"
        raise CompileError(" ".join(self.command), source, said)

    def _link(self, start: list[str], files: list[str]) -> subprocess.CompletedProcess[str]:
        """Link first without the libraries, which most kernels do not call: looking into them takes longer than all
        the rest of linking. The linker itself is started, where it is known: two programs that would start it take as
        long again."""
        if self._libraries:
            direct = [self.linker, "-shared", "--hash-style=gnu", "--eh-frame-hdr", *files, "-z", "defs"]
            with suppress(OSError):  # it has gone since it was found
                run = _run(direct if self.linker else [*start, *files, "-Wl,-z,defs"], "")
                if run.returncode == 0:
                    return run
        return _run([*start, *files, *self._libraries], "")


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _fetched(store: Store, key: str, file: Path) -> bool:
    """Put kept machine code into ``file``; False if there is none."""
    code = store.get("o", key)
    if code is not None:
        file.write_bytes(code)
    return code is not None


def cpu_count() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _side_by_side(
    jobs: Sequence[Callable[[], subprocess.CompletedProcess[str]]],
) -> list[subprocess.CompletedProcess[str]]:
    """What compilers say, as many at a time as there are processors; in the background one less."""
    results: list[Any] = [None] * len(jobs)
    todo = iter(enumerate(jobs))
    failures: list[Exception] = []

    def work() -> None:
        try:
            for k, job in todo:
                results[k] = job()
        except Exception as e:  # of any thread: the caller's to handle
            failures.append(e)

    most = max(1, cpu_count() - this_thread.background)
    threads = [threading.Thread(target=work) for _ in range(min(most, len(jobs)) - 1)]
    for thread in threads:
        thread.start()
    try:
        work()
    finally:  # Ctrl-C, too, leaves no compiler behind that writes into a folder that is gone
        for _ in todo:
            pass
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]
    return results


@lru_cache
def cpu_features() -> str:
    """Architecture and feature flags: a cache on a shared home meets other processors."""
    try:
        with open("/proc/cpuinfo", "rb", buffering=0) as f:  # as text it takes ten times as long
            head = f.read(8192).decode("ascii", "replace")
        lines = [line for line in head.splitlines() if line.startswith(("flags", "Features", "model name", "CPU part"))]
        return platform.machine() + "".join(dict.fromkeys(lines))
    except OSError:
        return f"{platform.machine()} {platform.processor()}"


def _candidates() -> list[tuple[str, ...]]:
    named = [("HYBRIDGPU_CXX", text_of("HYBRIDGPU_CXX")), ("CXX", os.environ.get("CXX", "").strip())]
    named = [(name, v) for name, v in named if v]
    found = [_words(v) for _, v in named]
    if named and named[0][0] == "HYBRIDGPU_CXX":
        return found[:1]
    found += [("c++",), ("g++",), ("clang++",)]
    zig = shutil.which("zig") or shutil.which("python-zig")
    if zig:
        found.append((zig, "c++"))
    return found


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
        path = shutil.which(command[0]) if command else None
        if path is None:
            continue
        info = os.stat(path)
        identity = f"{os.path.realpath(path)} {info.st_size} {info.st_mtime_ns} {' '.join(command[1:])}"
        key = hashlib.sha256(f"{identity} {FLAGS} {cpu_features()} {Probed._fields}".encode()).hexdigest()
        found = _probed(store.get_json("flags", key))
        if found is None:
            found = _probe((path, *command[1:]))
            if found is None:
                continue
            store.put_json("flags", key, found)
        return Toolchain((path, *command[1:]), identity, *found)
    return None


def find_toolchain(store: Store) -> Toolchain | None:
    """The first compiler of ``$HYBRIDGPU_CXX``, ``$CXX``, c++, g++, clang++, zig that works, or None.

    ``HYBRIDGPU_CXX=none`` says that there is none (the reference interpreter then runs everything).
    """
    candidates = tuple(_candidates())
    return None if candidates[:1] == (("none",),) else _find(candidates, store)


class Probed(NamedTuple):
    """What :func:`_probe` found of a compiler, as in :class:`Toolchain`."""

    flags: tuple[str, ...]
    waits: bool
    linker: str


def _probed(entry: object) -> Probed | None:
    """What a cache entry says; None where it is none of :func:`_probe`."""
    match entry:
        case [list() as flags, bool() as waits, str() as linker]:
            if all(f in FLAGS for f in flags) and all(f in flags for f in _REQUIRED):
                return Probed(tuple(flags), waits, linker)
    return None


def _from_start() -> list[str]:
    """How a compiler is told to read what all units begin with, and the rest from its standard input."""
    return [f"-I{kernels_folder()}", "-x", "c++", str(kernels_folder() / "waiting.h")]


_PROBE = 'extern "C" float probe(float x) { return __builtin_sinf(x) + 1; }\n'


def _probe(command: tuple[str, ...]) -> Probed | None:
    """What the compiler can: all flags, or those it takes one by one; None if it fails."""

    def works(flags: tuple[str, ...], text: Sequence[str] = ("-x", "c++", "-"), named: bytes = b"") -> bool:
        try:
            with scratch() as folder:
                made = folder / "probe.so"
                libraries = _LIBRARIES if "-nostdlib" in flags else ()
                run = _run([*command, *flags, "-Werror", *text, "-o", str(made), *libraries], _PROBE)
                code = made.read_bytes() if run.returncode == 0 else b""
                return bool(code) and named in code
        except OSError:
            return False

    if works(FLAGS, _from_start(), b"probe"):
        return Probed(FLAGS, True, _linker(command))
    if works(FLAGS):
        return Probed(FLAGS, False, _linker(command))
    if not works(_REQUIRED):
        return None
    return Probed(tuple(f for f in FLAGS if f in _REQUIRED or works((*_REQUIRED, f))), False, "")


def _linker(command: tuple[str, ...]) -> str:
    """The linker of a compiler, '' if its command has arguments, which the linker may have to know of, too."""
    if len(command) > 1 or not sys.platform.startswith("linux"):
        return ""
    run = _run([*command, "-print-prog-name=ld"], "")
    return shutil.which(run.stdout.strip()) or "" if run.returncode == 0 else ""
