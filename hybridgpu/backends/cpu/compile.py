# SPDX-License-Identifier: Apache-2.0
"""Compiling C++ texts: units in parallel, linked into one shared library."""

from __future__ import annotations

import errno
import os
import shutil
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ...cache.disk_cache import Store
from ...cache.package_files import kernels_folder
from ...compiler.program import Unit, source_of
from ...core.temp_dirs import scratch
from ..base import NotBuiltError, this_thread
from .kernel_objects import KernelObjects, UnitPlan
from .process import run as _run

if TYPE_CHECKING:
    import subprocess

    from .prestarted_compiler import PrestartedCompiler
    from .toolchain import Toolchain

__all__ = ["CompileError", "Compiled", "compile_units", "cpu_count", "probe", "start"]


class CompileError(RuntimeError):
    """The compiler refused a text that hybridgpu generated.

    Attributes:
        source: the text.
        log: what the compiler said.
    """

    def __init__(self, command: str, source: str, log: str) -> None:
        super().__init__(f"the C++ compiler refused a generated source ({command}):\n{log[:4000]}")
        self.source, self.log = source, log


class Compiled(NamedTuple):
    """The results of compiling a C++ text.

    Attributes:
        library: the shared library, as bytes of its file.
        kernels: the names of those that were compiled for it: the rest was linked from what is kept.
    """

    library: bytes
    kernels: tuple[str, ...]


_LIBRARY = "unit.so"  #: a file's name
_ROOM = 4 << 20  #: bytes: more than any library and its parts take

#: code and constants lie in the same pages: a fifth of the bytes, and two pieces to bring into memory in place of four
_AS_PAGES = ("-z", "noseparate-code")


def start(toolchain: Toolchain, numeric: str, units: int) -> AbstractContextManager[Sequence[PrestartedCompiler]]:
    """As many compilers as ``units`` can use that are ready when a text for :func:`compile_units` is there; none where they
    would only take time."""
    count = min(units, cpu_count() - this_thread.background) if cpu_count() > 1 else 0
    if not toolchain.waits or not count:
        return nullcontext(())
    from .prestarted_compiler import start_many  # needed as seldom as ``subprocess``

    return start_many(count, [*toolchain.command, *toolchain.mode_flags(numeric), "-c", *_from_start()])


def compile_units(
    toolchain: Toolchain,
    units: Sequence[Unit],
    numeric: str,
    store: Store,
    prestarted: Sequence[PrestartedCompiler] = (),
) -> Compiled:
    """The shared library of some units, which are compiled side by side.

    ``store`` keeps the machine code: another order of the same kernels, or some other kernels among them, do not compile all
    again (see kernel_objects.py).

    Args:
        prestarted: what :func:`start` gave: they compile the first units.

    Raises:
        CompileError: with the text and the compiler's message.
        NotBuiltError: there is no room for temporary files, or the compiler has gone.
    """
    kept = KernelObjects(toolchain, numeric, store)
    try:
        with scratch() as folder:
            plans = [kept.plan(unit) for unit in units]
            failed = _build(toolchain, numeric, kept, plans, folder, prestarted)
            if failed is not None and any(plan.objects for plan in plans):  # which may be no objects
                plans = [kept.plan(unit, anew=True) for unit in units]
                failed = _build(toolchain, numeric, kept, plans, folder, ())
            if failed is None:
                kernels = tuple(name for plan in plans for name in plan.kernels.values() if name)
                return Compiled((folder / _LIBRARY).read_bytes(), kernels)
            problem = _no_room(folder)
    except OSError as e:
        if shutil.which(toolchain.command[0]) is None:
            raise NotBuiltError(
                f"the C++ compiler {toolchain.command[0]} has gone since it was found",
                "Install it again, or start Python again with another one in HYBRIDGPU_CXX.",
            ) from None
        raise NotBuiltError(f"the C++ compiler has no place to work in: {e.strerror or e}") from None
    if not problem and os.strerror(errno.ENOSPC) in failed.stderr:  # somebody has made room meanwhile
        problem = os.strerror(errno.ENOSPC)
    if problem:
        raise NotBuiltError(f"the C++ compiler has no place to work in: {folder.parent}: {problem}")
    errors = failed.stderr.strip() or f"it ended with code {failed.returncode} and said nothing; was memory short?"
    raise CompileError(" ".join(toolchain.command), source_of(units), errors)


def _build(
    toolchain: Toolchain,
    numeric: str,
    kept: KernelObjects,
    plans: Sequence[UnitPlan],
    folder: Path,
    prestarted: Sequence[PrestartedCompiler],
) -> subprocess.CompletedProcess[str] | None:
    """Compile what is to be compiled of the units and link them; give what failed, if anything."""
    start = [*toolchain.command, *toolchain.mode_flags(numeric), f"-I{kernels_folder()}"]
    compiled = [plan for plan in plans if plan.text]
    aliases = {name: other for plan in plans for name, other in plan.aliases.items()}
    objects = {key: code for plan in plans for key, code in plan.objects.items()}
    files = [folder / f"kept{k}.o" for k in range(len(objects))]
    for file, code in zip(files, objects.values(), strict=True):
        file.write_bytes(code)
    made = [folder / f"{k}.o" for k in range(len(compiled))]
    ready = dict(enumerate(prestarted[: len(compiled)]))
    for k, compiler in ready.items():
        made[k] = compiler.object
    runs = _side_by_side(
        [
            partial(ready[k].finish, plan.text)
            if k in ready
            else partial(_run, [*start, "-x", "c++", "-c", "-", "-o", str(made[k])], plan.text)
            for k, plan in enumerate(compiled)
        ]
    )
    if not any(run.returncode for run in runs):
        for plan, file in zip(compiled, made, strict=True):
            kept.keep(plan, file.read_bytes())
        # what is new first: the linker takes the first of several definitions, as of entries
        runs = [_link(toolchain, start, [*map(str, (*made, *files)), "-o", str(folder / _LIBRARY)], aliases)]
    return next((run for run in runs if run.returncode), None)


def _no_room(folder: Path) -> str:
    """Why nothing of a library's size can be written to a folder, '' where it can. A compiler says it in its own language,
    or nothing where a signal ended it, as at a limit of file sizes."""
    try:
        (folder / "room").write_bytes(bytes(_ROOM))
    except OSError as e:
        return e.strerror or str(e)
    return ""


def _link(
    toolchain: Toolchain, start: list[str], files: list[str], aliases: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Link files; ``aliases``: names that functions in them are called by, and their own.

    First without the libraries, which most kernels do not call: looking into them takes longer than all
    the rest of linking. The linker itself is started, where it is known: two programs that would start it take as
    long again."""
    names = [f"--defsym={name}={own}" for name, own in aliases.items()]
    start = [*start, *(f"-Wl,{name}" for name in names)]
    if toolchain.libraries:
        direct = [
            toolchain.linker,
            "-shared",
            "--hash-style=gnu",
            "--eh-frame-hdr",
            *files,
            *_AS_PAGES,
            *toolchain.part_options,
            *names,
            "-z",
            "defs",
        ]
        with suppress(OSError):  # it has gone since it was found
            run = _run(direct if toolchain.linker else [*start, *files, "-Wl,-z,defs"], "")
            if run.returncode == 0:
                return run
    return _run([*start, *files, *toolchain.libraries], "")


def cpu_count() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _side_by_side(
    jobs: Sequence[Callable[[], subprocess.CompletedProcess[str]]],
) -> list[subprocess.CompletedProcess[str]]:
    """The outputs of compilers, as many at a time as there are processors; in the background one less."""
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
    threads: list[threading.Thread] = []
    for _ in range(min(most, len(jobs)) - 1):
        thread = threading.Thread(target=work)
        try:
            thread.start()
        except RuntimeError:  # can't start new thread: fewer at a time do
            break
        threads.append(thread)
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


def _from_start() -> list[str]:
    """The arguments by which a compiler reads what all units begin with, and the rest from its standard input."""
    return [f"-I{kernels_folder()}", "-x", "c++", str(kernels_folder() / "read_stdin.h")]


_PROBE = 'extern "C" __attribute__((visibility("default"))) float probe(float x) { return __builtin_sinf(x) + 1; }\n'


def probe(
    command: tuple[str, ...], all_flags: tuple[str, ...], required: tuple[str, ...], libraries: tuple[str, ...]
) -> tuple[tuple[str, ...], bool, str] | None:
    """What the compiler can, the last values of a :class:`Toolchain`: all flags that are wanted, or those it takes one by
    one, and so on; None if it fails. ``libraries``: what -nostdlib leaves out."""

    def works(
        flags: tuple[str, ...],
        text: Sequence[str] = ("-x", "c++", "-"),
        named: bytes = b"",
        meanwhile: Callable[[], object] | None = None,
    ) -> bool:
        try:
            with scratch() as folder:
                shared_object = folder / "probe.so"
                linked = libraries if "-nostdlib" in flags else ()
                run = _run([*command, *flags, "-Werror", *text, "-o", str(shared_object), *linked], _PROBE, meanwhile)
                code = shared_object.read_bytes() if run.returncode == 0 else b""
                return bool(code) and named in code
        except OSError:
            return False

    if works(all_flags, _from_start(), b"probe", _import_planning):
        return all_flags, True, _linker(command)
    if works(all_flags):
        return all_flags, False, _linker(command)
    if not works(required):
        return None
    return tuple(f for f in all_flags if f in required or works((*required, f))), False, ""


def _import_planning() -> None:
    """Where a compiler is new, so are graphs: what plans them takes as long to import as half a probe."""
    from ...compiler import pipeline  # noqa: F401


def _linker(command: tuple[str, ...]) -> str:
    """The linker of a compiler, '' if its command has arguments, which the linker may have to know of, too."""
    if len(command) > 1 or not sys.platform.startswith("linux"):
        return ""
    run = _run([*command, "-print-prog-name=ld"], "")
    return shutil.which(run.stdout.strip()) or "" if run.returncode == 0 else ""
