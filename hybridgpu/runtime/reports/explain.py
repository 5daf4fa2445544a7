# SPDX-License-Identifier: Apache-2.0
"""The report of what a compiled graph consists of, for people and for tests."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from math import prod
from typing import Any

from ...compiler.program import KernelStep, LibraryStep, PassRecord, Program, Refusal
from ...core.dataclass import dataclass

__all__ = [
    "Explanation",
    "FoldedValue",
    "KernelReport",
    "LibraryCall",
    "RecordedExplanation",
    "Refusal",
    "StagedExplanation",
    "annotated",
    "counted",
    "size",
]

_LOOP = "loop"  #: the step that runs a body of kernels again and again
_NAMED = 4  #: values of a kind that are named
_NUMBERED = re.compile(r"\b[A-Za-z_]\w*\d\w*")  #: names with numbers in them


@dataclass(frozen=True)
class KernelReport:
    """One start of a kernel.

    Attributes:
        name, kind: of the kernel; kind is map, foreach, reduce, rows, matmul, conv, scatter or graph.
        operators: names of the nodes it computes, in order.
        source: its text under a comment that names the user's operators and lines.
        bytes_moved: traffic, every element of every array it touches once.
        bytes_min: the part of it that the program's own arguments and results need.
        choice: the numbers the schedule chose.
        note: why this kind of kernel, where a library could compute it as well; of which loop's body it is.
        threads: how threads of the CPU share it, or why they do not, in words; '' on a GPU.
    """

    name: str
    kind: str
    operators: tuple[str, ...]
    source: str
    bytes_moved: int
    bytes_min: int
    choice: dict[str, Any]
    note: str = ""
    threads: str = ""


@dataclass(frozen=True)
class LibraryCall:
    """A step that a library computes, or a loop: the primitive, its node, its bytes.

    Attributes:
        note: which library, if there is a choice.
        reason: why a library computes what a generated kernel could.
    """

    name: str
    operator: str
    bytes_moved: int
    note: str = ""
    reason: str = ""


@dataclass(frozen=True)
class FoldedValue:
    """A value that is computed from parameters alone, once until one of them is written.

    Attributes:
        computes: the primitives, and the operator that they are part of.
        reason: what every call would do for it.
        nbytes: the memory it takes between calls.
    """

    computes: str
    reason: str
    nbytes: int


class Explanation:
    """The report of ``net.explain(x)``; ``print`` it.

    Attributes:
        kernels: KernelReport for every kernel start, in order; those of a loop's body once.
        library_calls: LibraryCall for every library step.
        refusals: Refusal for each pair of neighbours that was not fused.
        folded_values: FoldedValue for each value that is computed from parameters once, outside training.
        passes: PassRecord for every pass of the compiler that ran, in order; its seconds are 0 where the program was found.
        compile_seconds: what preparing the signature cost.
        cache_hit: True if nothing had to be compiled.
        target: 'cpu', 'cuda' or 'reference'.
        numeric: 'strict' or 'fast'.
        bytes_moved, bytes_min: of the whole program.
        execution_mode: how calls run on a GPU, in words: launches, CUDA graphs or why there is none, and whose memory.
        arena_bytes, peak_live_bytes: memory for intermediate results, and what lives at once at the fullest step.
        in_place_results, aliased_to_outputs: the number of results that kernels write over an operand, and of intermediate
            results in the memory of a result of the program, which is written later.
        folded_bytes: memory of the folded values.
        captured: arrays that are no arguments, which a traced function met and reads at each call, in words.
    """

    captured: Sequence[str] = ()

    def __init__(self, name: str, executable: Any) -> None:
        self.name = name
        self.compile_seconds: float = executable.seconds
        self.program: Program | None = executable.described
        self.kernels: list[KernelReport] = []
        self.library_calls: list[LibraryCall] = []
        self.refusals: list[Refusal] = []
        self.folded_values: list[FoldedValue] = []
        self.passes: list[PassRecord] = []
        self.compiler = self.execution_mode = ""
        self.target, self.numeric = "reference", "strict"
        self.cache_hit, self._planned = True, False
        self.bytes_moved = self.bytes_min = self.arena_bytes = self.peak_live_bytes = self.folded_bytes = 0
        self.in_place_results = self.aliased_to_outputs = 0
        if self.program is None:
            self._interpreted: str = executable.reason
            return
        self.target, self.numeric = self.program.target, self.program.numeric
        self.cache_hit = executable.loaded.info.compiled == 0
        self._planned = executable.cache != "disk"
        self.compiler, self.execution_mode = executable.loaded.info.detail, executable.loaded.execution_mode
        self.bytes_moved, self.bytes_min = self.program.bytes_moved, self.program.bytes_min
        self.arena_bytes, self.peak_live_bytes = self.program.arena_bytes, self.program.peak_live_bytes
        self.in_place_results, self.aliased_to_outputs = self.program.in_place_results, self.program.aliased_to_outputs
        self._steps(self.program, executable.program, executable.loaded)
        self.refusals = list(self.program.refusals)
        self.folded_values, self.folded_bytes = (
            [FoldedValue(*k) for k in self.program.folded_values],
            self.program.folded_bytes,
        )
        self.passes = self.program.passes

    def _steps(self, program: Program, plan: Program, loaded: Any, within: str = "") -> None:
        """Tell of the steps of ``program``, which is ``plan`` with names."""
        results = set(program.output_buffers)
        for step, planned in zip(program.steps, plan.steps, strict=True):
            if isinstance(step, KernelStep):
                k = program.kernels[step.kernel]
                of = {b: program.buffers[b] for b in step.buffers}
                theirs = {at for at, b in of.items() if b.space == "input" or at in results or b.parent in results}
                needed = sum(program.buffers[b].nbytes for b in theirs)
                written = step.buffers[len(step.buffers) - step.outputs :]
                # what takes the place of an argument is read and written
                needed += sum(program.buffers[b].nbytes for b in written if program.buffers[b].space == "input")
                moved = step.bytes_read + step.bytes_written
                operators = list(dict.fromkeys(step.operators or k.operators))
                threads = _threads(program, step) if program.target == "cpu" else ""
                choice = k.choice if step.choice is None else step.choice
                self.kernels.append(
                    KernelReport(
                        k.name,
                        k.kind,
                        tuple(dict.fromkeys(n or o for o, n, _ in operators)),
                        annotated(k.text, operators),
                        moved,
                        min(needed, moved),
                        choice,
                        "; ".join(filter(None, (_direct(k.kind, choice), within, threads if step.chunk else ""))),
                        threads,
                    )
                )
            elif isinstance(step, LibraryStep) and isinstance(planned, LibraryStep):
                moved = sum(program.buffers[b].nbytes for b in (*step.inputs, step.output))
                operator = step.operator[1] or step.operator[0]
                notes = loaded.describe(planned), f"writes its part of {step.concat}" if step.concat else ""
                note = "; ".join(filter(None, notes))
                self.library_calls.append(LibraryCall(step.primitive, operator, moved, note, step.note))
                if step.body is not None and planned.body is not None:
                    self._steps(step.body, planned.body, loaded, f"at every step of {operator}")

    def source(self) -> str:
        """All kernel texts, each under its operators."""
        return "\n".join(k.source for k in self.kernels)

    def _captured(self) -> list[str]:
        return [f"  reads arrays from outside: {', '.join(self.captured)}"] if self.captured else []

    def _preparation(self) -> str:
        """What the time was spent on."""
        if self.program is None:
            return "prepared"
        if not self.cache_hit:
            return "compiled"
        return "planned with known kernels" if self._planned else "found in the cache and loaded"

    def __str__(self) -> str:
        calls = [c for c in self.library_calls if c.name != _LOOP]
        loops = len(self.library_calls) - len(calls)
        lines = [
            f"{self.name} on {self.target}{_mode(self.numeric)}: {counted(len(self.kernels), 'kernel')}, "
            f"{counted(len(calls), 'library call')}, "
            f"{counted(loops, 'loop') + ', ' if loops else ''}{self._preparation()} in {self.compile_seconds * 1e3:.1f} ms"
        ]
        lines += self._captured()
        if self.program is None:
            return "\n".join([*lines, f"NumPy runs the graph operator by operator: {self._interpreted}"])
        width = max([len(k.name) for k in self.kernels] + [len(c.name) for c in self.library_calls] + [6])
        lines.append(f"  {'kind':<8} {'kernel':<{width}} {'bytes':>10} {'min bytes':>10}  operators")
        table = [
            f"  {k.kind:<8} {k.name:<{width}} {size(k.bytes_moved):>10} {size(k.bytes_min):>10}  {', '.join(k.operators)}{_noted(k.note)}"
            for k in self.kernels
        ]
        table += [
            f"  {_LOOP if c.name == _LOOP else 'library':<8} {c.name:<{width}} {size(c.bytes_moved):>10} {'':>10}  {c.operator}{_noted('; '.join(dict.fromkeys(filter(None, (c.note, c.reason)))))}"
            for c in self.library_calls
        ]
        lines += [f"{line}{_times(len(list(alike)))}" for line, alike in groupby(table)]
        memory = f"intermediate results take {size(self.arena_bytes)}"
        if self.arena_bytes:
            memory += f" ({size(self.peak_live_bytes)} live at once)"
        if self.in_place_results:
            memory += f"; {self.in_place_results} written over an operand"
        if self.aliased_to_outputs:
            memory += f"; {self.aliased_to_outputs} in the memory of results"
        lines.append(f"  moves {size(self.bytes_moved)}, at least {size(self.bytes_min)} are needed; {memory}")
        if self.execution_mode:
            lines.append(f"  {self.execution_mode}")
        lines += [f"  {words}" for words in self.program.launch_fusion_notes]
        if self.folded_values:
            lines.append(f"  computed once, until a parameter is written; {size(self.folded_bytes)} are kept:")
            lines += [f"    {line}" for line in _folded_value_lines(self.folded_values)]
        if self.refusals:
            lines.append("  not fused:")
            lines += [f"    {line}" for line in _refusal_lines(self.refusals)]
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

    _why = "since some operators cannot be part of one"

    def __init__(self, name: str, parts: Sequence[Explanation | LibraryCall]) -> None:
        self.name, self.parts, self.program = name, list(parts), None
        programs = [p for p in parts if isinstance(p, Explanation)]
        self.kernels = [k for p in programs for k in p.kernels]
        self.library_calls = []
        for p in parts:
            self.library_calls += p.library_calls if isinstance(p, Explanation) else [p]
        self.refusals = [c for p in programs for c in p.refusals]
        self.folded_values = [k for p in programs for k in p.folded_values]
        self.passes = [r for p in programs for r in p.passes]
        self.compile_seconds = sum(p.compile_seconds for p in programs)
        self.cache_hit = all(p.cache_hit for p in programs)
        self.target = programs[0].target if programs else "reference"
        self.numeric = programs[0].numeric if programs else "strict"
        self.compiler = programs[0].compiler if programs else ""
        self.execution_mode = "; ".join(dict.fromkeys(p.execution_mode for p in programs if p.execution_mode))
        self.bytes_moved = sum(p.bytes_moved for p in programs)
        self.bytes_min = sum(p.bytes_min for p in programs)
        self.arena_bytes = max((p.arena_bytes for p in programs), default=0)
        self.peak_live_bytes = max((p.peak_live_bytes for p in programs), default=0)
        self.folded_bytes = sum(p.folded_bytes for p in programs)
        self.in_place_results = sum(p.in_place_results for p in programs)
        self.aliased_to_outputs = sum(p.aliased_to_outputs for p in programs)

    def __str__(self) -> str:
        count = sum(isinstance(p, Explanation) for p in self.parts)
        lines = [f"{self.name}: {counted(count, 'program')}, {self._why}", *self._captured()]
        for p in self.parts:
            if isinstance(p, Explanation):
                lines.append(str(p))
            else:
                lines.append(
                    f"{p.name} {p.operator} runs by itself: extents depend on values, or it is written in Python"
                )
        return "\n".join(lines)

    __repr__ = __str__


class RecordedExplanation(StagedExplanation):
    """The report of a call that ``autograd.record`` records: ``kernels`` and the rest are those of both programs.

    Attributes:
        forward: the program of the call, which also returns what the other one takes over.
        backward: that of ``backward()``; None if no argument or parameter wants a gradient.
    """

    def __init__(self, name: str, forward: Explanation, backward: Explanation | None) -> None:
        super().__init__(name, [forward] if backward is None else [forward, backward])
        self.forward, self.backward = forward, backward
        self._why = "for the recorded call" + (" and for backward()" if backward else "; nothing wants a gradient")


def counted(number: int, what: str) -> str:
    """``1 kernel``, ``2 kernels``."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def _threads(program: Program, step: KernelStep) -> str:
    """How threads share a step."""
    if not step.chunk:
        taken = f"{step.nanoseconds / 1e3:.0f} us" if step.nanoseconds >= 1000 else "less than 1 us"
        return (
            f"in one: {taken}"
            if program.kernels[step.kernel].chunk_multiple
            else f"in one, as it cannot be cut: {taken}"
        )
    turns, kind = step.extents[0], program.kernels[step.kernel].kind
    flat = kind == "map" and prod(program.buffers[step.buffers[-1]].shape) == turns
    unit = "units" if kind == "conv" else "elements" if flat else "rows"
    return f"in {-(-turns // step.chunk)} chunks of {step.chunk} {unit}"


def _noted(note: str) -> str:
    return f" [{note}]" if note else ""


def _times(number: int) -> str:
    return f"  × {number}" if number > 1 else ""


def _refusal_lines(refusals: Iterable[Refusal]) -> list[str]:
    """A line for each reason, with the first few pairs; of many reasons that differ in names alone the first one's."""
    alike: dict[str, list[Refusal]] = {}
    for refusal in refusals:
        alike.setdefault(_NUMBERED.sub("#", refusal.reason), []).append(refusal)
    lines = []
    for group in alike.values():
        reasons: dict[str, list[Refusal]] = {}
        for refusal in group:
            reasons.setdefault(refusal.reason, []).append(refusal)
        if len(reasons) > _NAMED:
            lines.append(f"{group[0]}{_times(len(group))}, with other names")
        else:
            lines += map(_refusals_line, reasons.values())
    return lines


def _refusals_line(refusals: Sequence[Refusal]) -> str:
    pairs: dict[str, list[str]] = {}  # those that differ in the numbers of names (of steps, layers) are one
    for c in refusals:
        pair = f"{c.producer} | {c.consumer}"
        pairs.setdefault(_NUMBERED.sub(lambda m: re.sub(r"\d+", "#", m[0]), pair), []).append(pair)
    first = list(pairs.values())[:_NAMED]
    named = [f"{p[0]}{_times(len(p))}{', with other numbers' if len(set(p)) > 1 else ''}" for p in first]
    more = len(refusals) - sum(map(len, first))
    return f"{'; '.join(named)}{f' and {more} more' if more else ''}: {refusals[0].reason}"


def _folded_value_lines(values: Sequence[FoldedValue]) -> list[str]:
    """A line for each reason, with the first few values."""
    lines = []
    for reason in dict.fromkeys(v.reason for v in values):
        alike = [v for v in values if v.reason == reason]
        named = "; ".join(f"{v.computes} ({size(v.nbytes)})" for v in alike[:_NAMED])
        more = f" and {len(alike) - _NAMED} more" if len(alike) > _NAMED else ""
        lines.append(f"{named}{more}: {reason}")
    return lines


def _direct(kind: str, choice: dict[str, Any]) -> str:
    """Why a product or convolution is a kernel of our own, where it could be a library's; what it computes as it loads.

    Of any kernel whether its results are parts of joins.
    """
    notes = [str(choice[k]) for k in ("selected", "why", "prologue") if choice.get(k)]
    notes = notes if kind in ("matmul", "conv", "scatter") else []
    return "; ".join([*notes, choice["writes"]] if "writes" in choice else notes)


def _mode(numeric: str) -> str:
    """The numeric mode where it is not the usual one."""
    return "" if numeric == "strict" else f", numeric mode {numeric}"


def size(n: int) -> str:
    """A size for people."""
    value = float(n)
    for unit in ("B", "KB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.3g} {unit}"
        value /= 1000
    raise AssertionError


def annotated(text: str, operators: list[tuple[str, str, str]]) -> str:
    """A kernel's text under a comment that names the user's operators and lines."""
    lines = [f"//   {op} {_in_comment(name)}  {line}".rstrip() for op, name, line in operators]
    return "// computes\n" + "\n".join(lines) + "\n" + text


def _in_comment(name: str) -> str:
    """A name, which may be of somebody else's file, as part of one line that ends where it ends."""
    return name if name.isprintable() and not name.endswith("\\") else ascii(name)
