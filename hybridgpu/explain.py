# SPDX-License-Identifier: Apache-2.0
"""What a compiled graph consists of, for people and for tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .compiler.program import HostStep, KernelInfo, KernelStep, Program

__all__ = ["Cut", "Explanation", "KernelReport", "LibraryCall", "StagedExplanation", "annotated"]


@dataclass(frozen=True)
class KernelReport:
    """One start of a kernel.

    Attributes:
        name, kind: of the kernel; kind is map, foreach, reduce, rows, matmul or conv.
        operators: names of the nodes it computes, in order.
        source: its text under a comment that names the user's operators and lines.
        bytes_moved: traffic, every element of every array it touches once.
        bytes_min: the part of it that the program's own arguments and results need.
        choice: the numbers the schedule chose.
        note: why this kind of kernel, where a library could compute it as well.
    """

    name: str
    kind: str
    operators: tuple[str, ...]
    source: str
    bytes_moved: int
    bytes_min: int
    choice: dict[str, Any]
    note: str = ""


@dataclass(frozen=True)
class LibraryCall:
    """A step that a library computes: the primitive, its node, its bytes; and which library, where there is a choice."""

    name: str
    operator: str
    bytes_moved: int
    note: str = ""


@dataclass(frozen=True)
class Cut:
    """Why two nodes are not in one kernel."""

    producer: str
    consumer: str
    rule: str
    reason: str

    def __str__(self) -> str:
        return f"{self.producer} | {self.consumer}: {self.reason}"


class Explanation:
    """The report of ``net.explain(x)``; ``print`` it.

    Attributes:
        kernels: KernelReport for every kernel start, in order; those of a loop's body once.
        library_calls: LibraryCall for every library step.
        cuts: Cut for everything that was not fused.
        compile_seconds: what preparing the signature cost.
        cache_hit: True if nothing had to be compiled.
        target: 'cpu', 'cuda' or 'reference'.
        numeric: 'strict' or 'fast'.
        bytes_moved, bytes_min: of the whole program.
        manner: how calls run on a GPU, in words: launches, CUDA graphs or why there is none, and whose memory.
        arena_bytes, arena_least: memory for intermediate results, and what lives at once at the fullest step.
    """

    def __init__(self, name: str, made: Any) -> None:
        self.name = name
        self.compile_seconds: float = made.seconds
        self.program: Program | None = made.program
        self.kernels: list[KernelReport] = []
        self.library_calls: list[LibraryCall] = []
        self.cuts: list[Cut] = []
        self.compiler = self.manner = ""
        self.target, self.numeric = "reference", "strict"
        self.cache_hit = True
        self.bytes_moved = self.bytes_min = self.arena_bytes = self.arena_least = 0
        if self.program is None:
            return
        self.target, self.numeric = self.program.target, self.program.numeric
        self.cache_hit = made.loaded.info.compiled == 0
        self.compiler, self.manner = made.loaded.info.detail, made.loaded.manner
        self.bytes_moved, self.bytes_min = self.program.bytes_moved, self.program.bytes_min
        self.arena_bytes, self.arena_least = self.program.arena_bytes, self.program.arena_least
        self._steps(self.program, made.loaded)
        self.cuts = [Cut(*c) for c in self.program.cuts]

    def _steps(self, program: Program, loaded: Any) -> None:
        for step in program.steps:
            if isinstance(step, KernelStep):
                k = program.kernels[step.kernel]
                needed = sum(
                    program.buffers[b].nbytes for b in set(step.buffers) if program.buffers[b].place != "arena"
                )
                moved = step.bytes_read + step.bytes_written
                self.kernels.append(
                    KernelReport(
                        k.name,
                        k.kind,
                        tuple(dict.fromkeys(n or o for o, n, _ in k.operators)),
                        annotated(k.text, k.operators),
                        moved,
                        min(needed, moved),
                        k.choice,
                        _direct(k),
                    )
                )
            elif isinstance(step, HostStep):
                moved = sum(program.buffers[b].nbytes for b in (*step.inputs, step.output))
                operator = step.operator[1] or step.operator[0]
                self.library_calls.append(LibraryCall(step.primitive, operator, moved, loaded.describe(step)))
                if step.body is not None:
                    self._steps(step.body, loaded)

    def source(self) -> str:
        """All kernel texts, each under its operators."""
        return "\n".join(k.source for k in self.kernels)

    def __str__(self) -> str:
        lines = [
            f"{self.name} on {self.target}{_mode(self.numeric)}: {len(self.kernels)} kernels, {len(self.library_calls)} library calls, "
            f"{'cached' if self.cache_hit else 'compiled'} in {self.compile_seconds * 1e3:.1f} ms"
        ]
        if self.program is None:
            return "\n".join([*lines, "no compiler was found: NumPy runs the graph operator by operator"])
        width = max([len(k.name) for k in self.kernels] + [len(c.name) for c in self.library_calls] + [6])
        lines.append(f"  {'kind':<8} {'kernel':<{width}} {'moved':>10} {'least':>10}  computes")
        for k in self.kernels:
            lines.append(
                f"  {k.kind:<8} {k.name:<{width}} {_bytes(k.bytes_moved):>10} {_bytes(k.bytes_min):>10}  {', '.join(k.operators)}{_noted(k.note)}"
            )
        for c in self.library_calls:
            lines.append(
                f"  {'library':<8} {c.name:<{width}} {_bytes(c.bytes_moved):>10} {'':>10}  {c.operator}{_noted(c.note)}"
            )
        kept = f"intermediate results take {_bytes(self.arena_bytes)}"
        if self.arena_bytes:
            kept += f" ({_bytes(self.arena_least)} live at once)"
        lines.append(f"  moves {_bytes(self.bytes_moved)}, at least {_bytes(self.bytes_min)} are needed; {kept}")
        if self.manner:
            lines.append(f"  {self.manner}")
        if self.cuts:
            lines.append("  not fused:")
            lines += [f"    {c}" for c in self.cuts]
        return "\n".join(lines)

    __repr__ = __str__


class StagedExplanation(Explanation):
    """The report of a graph that is several programs, with operators that run by themselves between them.

    Such an operator's results have extents that depend on values, or it is written in Python. ``kernels``,
    ``library_calls`` and the rest are those of all programs together; the operators in between are among the
    library calls.

    Attributes:
        parts: an Explanation for each program and a LibraryCall for each operator in between, in order.
    """

    def __init__(self, name: str, parts: Sequence[Explanation | LibraryCall]) -> None:
        self.name, self.parts, self.program = name, list(parts), None
        programs = [p for p in parts if isinstance(p, Explanation)]
        self.kernels = [k for p in programs for k in p.kernels]
        self.library_calls = []
        for p in parts:
            self.library_calls += p.library_calls if isinstance(p, Explanation) else [p]
        self.cuts = [c for p in programs for c in p.cuts]
        self.compile_seconds = sum(p.compile_seconds for p in programs)
        self.cache_hit = all(p.cache_hit for p in programs)
        self.target = programs[0].target if programs else "reference"
        self.numeric = programs[0].numeric if programs else "strict"
        self.compiler = programs[0].compiler if programs else ""
        self.manner = "; ".join(dict.fromkeys(p.manner for p in programs if p.manner))
        self.bytes_moved = sum(p.bytes_moved for p in programs)
        self.bytes_min = sum(p.bytes_min for p in programs)
        self.arena_bytes = max((p.arena_bytes for p in programs), default=0)
        self.arena_least = max((p.arena_least for p in programs), default=0)

    def __str__(self) -> str:
        count = sum(isinstance(p, Explanation) for p in self.parts)
        lines = [f"{self.name}: {count} programs, since some operators cannot be part of one"]
        for p in self.parts:
            if isinstance(p, Explanation):
                lines.append(str(p))
            else:
                lines.append(
                    f"{p.name} {p.operator} runs by itself: extents depend on values, or it is written in Python"
                )
        return "\n".join(lines)

    __repr__ = __str__


def _noted(note: str) -> str:
    return f" [{note}]" if note else ""


def _direct(kernel: KernelInfo) -> str:
    """Why a convolution or a matrix product on a GPU is a kernel of our own."""
    if kernel.kind == "matmul":
        return str(kernel.choice.get("why", ""))
    work, limit = (kernel.choice.get(k) for k in ("multiplications", "direct_up_to"))
    return f"direct kernel: {work:,} multiplications, at most {limit:,}" if kernel.kind == "conv" and limit else ""


def _mode(numeric: str) -> str:
    """The numeric mode where it is not the usual one."""
    return "" if numeric == "strict" else f", numeric mode {numeric}"


def _bytes(n: int) -> str:
    """A size for people."""
    value = float(n)
    for unit in ("B", "KB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.3g} {unit}"
        value /= 1000
    raise AssertionError


def annotated(text: str, operators: list[tuple[str, str, str]]) -> str:
    """A kernel's text under a comment that names the user's operators and lines."""
    lines = [f"//   {op} {name}  {line}".rstrip() for op, name, line in operators]
    return "// computes\n" + "\n".join(lines) + "\n" + text
