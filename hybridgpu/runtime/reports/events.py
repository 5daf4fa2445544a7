# SPDX-License-Identifier: Apache-2.0
"""Reports of what was compiled and why: counters, ``compile_report()``, HYBRIDGPU_DEBUG and HYBRIDGPU_DUMP."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...base import MXNetError
from ...compiler.program import KernelStep, Program
from ...core.dataclass import dataclass, field
from ...core.fork_safe_lock import Lock
from ...core.name_table import NameTable
from ...core.settings import debug_level, dump_folder
from .explain import annotated, counted, size

if TYPE_CHECKING:
    from ...compiler.ir.dims import Scope
    from ..compilation import Compiled

__all__ = ["CompileEvent", "CompileReport", "Dumper", "compile_report", "modules_compiled", "record"]


@dataclass(frozen=True)
class CompileEvent:
    """One signature that a program was made for.

    Attributes:
        name: of the graph.
        signature: input types, in words.
        target: 'cpu', 'cuda' or 'reference'.
        reason: why a program was needed: 'first call', or which input changed and how.
        kernels: number of kernels.
        compiled_modules: modules a compiler ran for; 0 when everything came from a cache.
        cache: 'disk' where the program came from there; 'background' where operators run one by one until the program
            is made, which is an event of its own when it is there; else 'none'.
        seconds: wall time.
        numeric: 'strict' or 'fast'; NumPy, where there is no compiler, is strict.
        compiled_kernels: names of the kernels in the compiled modules, which no cache had.
    """

    name: str
    signature: str
    target: str
    reason: str
    kernels: int
    compiled_modules: int
    cache: str
    seconds: float
    numeric: str = "strict"
    compiled_kernels: tuple[str, ...] = ()

    @property
    def mode(self) -> str:
        """The numeric mode where it is not the usual one, for tables."""
        return "" if self.numeric == "strict" else f"  {self.numeric}"


@dataclass
class CompileReport:
    """All events of the process, in order."""

    events: list[CompileEvent] = field(default_factory=list)

    @property
    def signatures(self) -> int:
        """Number of compiled programs."""
        return sum(e.cache != "background" for e in self.events)

    @property
    def compiled_modules(self) -> int:
        """The number of times a compiler ran."""
        return sum(e.compiled_modules for e in self.events)

    @property
    def seconds(self) -> float:
        return sum(e.seconds for e in self.events)

    def __str__(self) -> str:
        lines = [
            f"{counted(self.signatures, 'signature')}, {counted(self.compiled_modules, 'module')} compiled, "
            f"{self.seconds * 1e3:.0f} ms in all"
        ]
        wide = max((len(e.name) for e in self.events), default=0)
        wider = max((len(e.signature) for e in self.events), default=0)
        for e in self.events:
            source = _SOURCES[_origin_of(e)]
            lines.append(
                f"  {e.name:<{wide}} {e.signature:<{wider}} {counted(e.kernels, 'kernel'):>11}  {source:<12} "
                f"{e.seconds * 1e3:7.1f} ms{e.mode}  {e.reason}"
            )
            if e.compiled_kernels:
                named, more = ", ".join(e.compiled_kernels[:_NAMED]), len(e.compiled_kernels) - _NAMED
                lines.append(f"    {named}{f' and {more} more' if more > 0 else ''}")
        ways = set(map(_origin_of, self.events))
        lines += [f"{_SOURCES[way]}: {text}" for way, text in _MEANINGS.items() if way in ways]
        return "\n".join(lines)


#: where a program came from
_SOURCES = {
    "compiled": "compiled",
    "disk": "from disk",
    "none": "planned",
    "numpy": "for NumPy",
    "background": "not yet",
}
#: what the time was spent on where it was no compiler's
_MEANINGS = {
    "disk": "the program was in the cache on disk; the time went into reading and loading it",
    "none": "its kernels were known, in this process or on disk, so no compiler ran; the time went into planning it",
    "numpy": "no compiler ran; NumPy runs the graph operator by operator",
}
_NAMED = 8  #: compiled kernels of an event that a report names
_report = CompileReport()


def _origin_of(event: CompileEvent) -> str:
    if event.target == "reference" and event.cache == "none":
        return "numpy"
    return "compiled" if event.compiled_modules else event.cache


_lock = Lock()
_modules = [0]


def compile_report() -> CompileReport:
    """Every signature compiled so far in this process, with the reason and the time it took."""
    with _lock:
        return CompileReport(list(_report.events))


def modules_compiled() -> int:
    """The number of times a compiler has run so far in this process."""
    return _modules[0]


def record(event: CompileEvent, executable: Compiled) -> None:
    """Note an event and print it as HYBRIDGPU_DEBUG asks for."""
    with _lock:
        _report.events.append(event)
        _modules[0] += event.compiled_modules
    level = debug_level()
    if level < 1:
        return
    modules = event.compiled_modules
    source = f"{counted(modules, 'module')} compiled" if modules else _SOURCES[_origin_of(event)]
    log(
        f"{event.name} {event.signature} on {event.target}: {counted(event.kernels, 'kernel')}, {source}, "
        f"{event.seconds * 1e3:.1f} ms{event.mode} ({event.reason})"
    )
    program = executable.described if level >= 2 else None
    if program is None:
        return
    if level >= 2:
        width = max((len(k.name) for k in program.kernels), default=0)
        for step in program.steps:
            if isinstance(step, KernelStep):
                k = program.kernels[step.kernel]
                moved = step.bytes_read + step.bytes_written
                log(
                    f"  {k.kind:<7} {k.name:<{width}} {size(moved):>10}  {', '.join(f'{a}={b}' for a, b in k.choice.items())}"
                )
            else:
                log(f"  library {step.primitive}")
        log(f"  moves {size(program.bytes_moved)}, at least {size(program.bytes_min)} are needed")
        for computes, reason, nbytes in program.folded_values:
            log(f"  keeps {size(nbytes)}: {computes} ({reason})")
    if level >= 3:
        log(program.graph)
        for r in program.refusals:
            log(f"  not fused {r.producer} | {r.consumer} [{r.rule}]: {r.reason}")
    if level >= 4:
        log(program.source or "\n".join(k.text for k in program.kernels))


def log(text: str) -> None:
    """A line on stderr."""
    if sys.stderr is not None:  # or it would go to stdout
        with contextlib.suppress(OSError):  # nobody reads it any more
            print(f"hybridgpu: {text}", file=sys.stderr)


def _unwritable(folder: Path | str, error: OSError) -> MXNetError:
    return MXNetError(
        f"HYBRIDGPU_DUMP={folder}: {error.strerror}. Name a folder that can be made and written to, or unset it."
    )


class Dumper:
    """Writes every stage of one compilation into a folder of its own under HYBRIDGPU_DUMP."""

    _count = 0

    def __init__(self, name: str, names: NameTable, scope: Scope | None = None) -> None:
        self._names = names
        self._scope = scope  # of dimensions, whose numbers at this size are written
        self._written = ""
        root = dump_folder()
        self.folder: Path | None = None
        if root:
            Dumper._count += 1
            safe = re.sub(r"\W+", "_", name)[:40] or "graph"
            self.folder = Path(root, f"{time.strftime('%H%M%S')}_{os.getpid()}_{Dumper._count:03d}_{safe}")
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise _unwritable(root, error) from error

    def write(self, name: str, text: str) -> None:
        if self.folder is not None:
            try:
                (self.folder / name).write_text(text, encoding="utf-8")
            except OSError as error:
                raise _unwritable(self.folder, error) from error

    def __call__(self, stage: str, value: Any) -> None:
        if self.folder is None:
            return
        if isinstance(value, Program):
            from ...compiler.size_templates import at_own_extents

            program = value if self._scope is None else at_own_extents(self._scope, value)
            self._write_program(program.renamed(self._names))
            return
        from ...compiler.ir.dims import without_marks
        from ...compiler.ir.text import align_comments
        from ...compiler.stage_text import stage_text

        text = align_comments(self._names(without_marks(stage_text(value))))
        if text == self._written:
            return  # the pass did nothing
        number = _stage_number(stage)
        self.write(f"{number:02}_{stage}.txt" if number else f"{stage}.txt", text)
        if number:
            self._written = text

    def _write_program(self, program: Program) -> None:
        self.write("passes.txt", "".join(f"{record}\n" for record in program.passes))
        plan = {k: v for k, v in asdict(program).items() if k not in ("units", "kernels", "graph", "passes")}
        self.write("plan.json", json.dumps(plan, indent=1))
        ending = "cpp" if program.target == "cpu" else "cu"
        if program.source:
            self.write(f"program.{ending}", program.source)
        for k in program.kernels:
            self.write(f"kernel_{k.name}.{ending}", annotated(k.text, k.operators))


def _stage_number(stage: str) -> int:
    """The position of a pass in the compiler's table, behind the lowered graph; 0 for what no pass gives."""
    from ...compiler.pipeline import PASSES

    return ["lowered", *(p.name for p in PASSES)].index(stage) + 1 if stage != "prelude" else 0
