# SPDX-License-Identifier: Apache-2.0
"""SASS as nvdisasm prints it: instructions by kind, and the loops among them.

A loop is that of a jump back: the blocks from which the jump is reached without passing its target. What a jump leaves
out counts as what it does not: a figure is of the text, not of a run. One exception: a loop that calls a subroutine and
touches no memory (what cannot be divided the short way) is part of no other loop.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

__all__ = ["Function", "Instruction", "Loop", "disassemble", "functions"]

_SECTION = re.compile(r"\s*\.section\s+\.text\.(\w+)")
_LABEL = re.compile(r"(\.L_[\w]+|\$[\w$.]+):")
_INSTRUCTION = re.compile(r"\s+/\*([0-9a-f]{4,})\*/\s+(?:(@!?U?P\w+)\s+)?([A-Z][\w.:]*)\s*(.*?)\s*;")
_TARGET = re.compile(r"`\(([^)]+)\)")
_JUMPS = ("BRA", "BRX", "JMP", "JMX")  #: go elsewhere, if unconditional always
_ENDS = ("EXIT", "RET")
_BITS = re.compile(r"\.(128|64|[US]?16|[US]?8)(?=\.|$)")

#: kind -> the operations that it counts
_KINDS = {
    "mufu": ("MUFU",),
    "fchk": ("FCHK",),
    "call": ("CALL",),
    "bar": ("BAR", "UCGABAR_ARV", "UCGABAR_WAIT"),
    "membar": ("MEMBAR",),
    "branch": ("BRA", "BRX", "JMP", "JMX"),
    "shfl": ("SHFL",),
    "lds": ("LDS",),
    "sts": ("STS",),
    "ldl": ("LDL",),
    "stl": ("STL",),
    "ffma": ("FFMA",),
    "mma": ("HMMA", "HGMMA", "IMMA", "DMMA"),
}


@dataclass(frozen=True)
class Instruction:
    """One instruction: where it stands, its operation with modifiers, if a predicate decides, where it may jump."""

    at: int
    operation: str
    conditional: bool
    target: str

    @property
    def name(self) -> str:
        """Its operation without modifiers."""
        return self.operation.split(".")[0]

    @property
    def access_bits(self) -> int:
        """How wide a load or store is, for a thread."""
        found = _BITS.search(self.operation)
        return int(re.sub(r"\D", "", found[1])) if found else 32


@dataclass(frozen=True)
class Loop:
    """The instructions of a loop without another one in it, or of a whole kernel; those for rare cases are left out."""

    instructions: tuple[Instruction, ...]

    def bytes_of(self, *names: str) -> int:
        """Bytes that a thread moves with these operations."""
        return sum(i.access_bits for i in self.instructions if i.name in names) // 8

    def widest(self, *names: str) -> int:
        """Bits of the widest access with these operations."""
        return max((i.access_bits for i in self.instructions if i.name in names), default=0)


@dataclass
class Function:
    """A kernel's instructions without padding; ``subroutines`` are those that its calls go to, such as a division's."""

    name: str
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)  #: label -> index of the instruction behind it
    first_subroutine: int | None = None

    @property
    def body(self) -> list[Instruction]:
        """The kernel without its subroutines."""
        return self.instructions[: self.first_subroutine]

    def counts(self) -> dict[str, int]:
        """Instructions of each kind that occurs."""
        found = {kind: sum(i.name in names for i in self.instructions) for kind, names in _KINDS.items()}
        for i in self.instructions:
            if i.name in ("LDG", "STG"):
                kind = f"{i.name.lower()}{i.access_bits}"
                found[kind] = found.get(kind, 0) + 1
        return {kind: n for kind, n in found.items() if n}

    def straight(self) -> Loop:
        """The kernel from end to end."""
        body, rare = self.body, set().union(*(a for a in self._cycles() if self._is_rare(a)))
        return Loop(tuple(i for k, i in enumerate(body) if k not in rare))

    def loops(self) -> list[Loop]:
        """The innermost loops of the kernel, in their order."""
        cycles = self._cycles()
        rare = [a for a in cycles if self._is_rare(a)]
        usual = [a for a in cycles if a not in rare]
        inner = [a for a in usual if not any(b < a for b in usual)]
        left_out = set().union(*rare)
        return [Loop(tuple(self.body[k] for k in sorted(a - left_out))) for a in sorted(inner, key=min)]

    def _is_rare(self, cycle: set[int]) -> bool:
        """True for a loop that calls a subroutine and touches no memory: the rare cases of a division, one by one."""
        names = {self.body[k].name for k in cycle}
        return "CALL" in names and names.isdisjoint(("LDG", "STG", "LDS", "STS"))

    def _cycles(self) -> list[set[int]]:
        """The indices of the instructions of every loop."""
        body = self.body
        successors: list[list[int]] = []
        for k, i in enumerate(body):
            to = [k + 1] if k + 1 < len(body) else []
            if i.name in _JUMPS or i.name in _ENDS:
                if not i.conditional and ".DIV" not in i.operation:
                    to = []
                if i.target in self.labels and self.labels[i.target] < len(body):
                    to = [*to, self.labels[i.target]]
            successors.append(to)
        predecessors: list[list[int]] = [[] for _ in body]
        for k, to in enumerate(successors):
            for t in to:
                predecessors[t].append(k)
        found: list[set[int]] = []
        for k, to in enumerate(successors):
            for head in (t for t in to if t <= k):
                if head == k:  # the trap behind the end
                    continue
                inside, waiting = {head, k}, [k]
                while waiting:
                    at = waiting.pop()
                    if at == head:
                        continue
                    for p in predecessors[at]:
                        if p not in inside:
                            inside.add(p)
                            waiting.append(p)
                found.append(inside)
        merged: dict[int, set[int]] = {}  # several jumps back to one head are one loop
        for inside in found:
            merged.setdefault(min(inside), set()).update(inside)
        return list(merged.values())


def functions(text: str) -> dict[str, Function]:
    """The kernels in what nvdisasm printed, by name."""
    found: dict[str, Function] = {}
    now: Function | None = None
    for line in text.splitlines():
        if section := _SECTION.match(line):
            now = found.setdefault(section[1], Function(section[1]))
        elif re.match(r"\s*\.section\s", line):
            now = None
        elif now is None:
            continue
        elif label := _LABEL.match(line.strip()):
            now.labels[label[1]] = len(now.instructions)
            if label[1].startswith("$") and now.first_subroutine is None:
                now.first_subroutine = len(now.instructions)
        elif i := _INSTRUCTION.match(line):
            if i[3] == "NOP":
                continue
            target = _TARGET.search(i[4])
            conditional = i[2] is not None or re.match(r"!?U?P\w+,", i[4]) is not None
            now.instructions.append(Instruction(int(i[1], 16), i[3], conditional, target[1] if target else ""))
    for function in found.values():
        _drop_padding(function)
    return found


def _drop_padding(function: Function) -> None:
    """Without the jumps to themselves that stand behind the end."""
    last = function.instructions[-1] if function.instructions else None
    if last is not None and last.name == "BRA" and function.labels.get(last.target) == len(function.instructions) - 1:
        function.instructions.pop()


def disassemble(tool: str, cubin: bytes) -> dict[str, Function]:
    """The kernels of a cubin.

    Raises:
        RuntimeError: the disassembler refuses it, or knows no such architecture.
    """
    with TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        result = subprocess.run([tool, "-c", str(path)], capture_output=True, text=True, check=False)
    if result.returncode:
        raise RuntimeError(f"nvdisasm: {result.stderr.strip()[:400]}")
    return functions(result.stdout)
