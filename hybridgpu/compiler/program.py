# SPDX-License-Identifier: Apache-2.0
"""Programs: a compiled graph as plain data, kernels with their texts, steps, buffers. They are stored as bytes.

The runtime turns a Program into something that runs; nothing in it depends on the process that
made it.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from typing import Any, NamedTuple

from ..core.dataclass import dataclass, field

__all__ = [
    "Buffer",
    "KernelInfo",
    "KernelStep",
    "LibraryStep",
    "PassRecord",
    "Program",
    "Refusal",
    "Unit",
    "kernel_head",
    "source_of",
]

_MAX_POINTERS = 48  #: pointers that an entry takes one by one: to pass an array of more takes a foreign call less time
VERSION = 10  #: of the stored form; part of every program's key


def kernel_head(text: str) -> str:
    """The head of the function that a kernel of the CPU defines, '' where a text defines none."""
    return next((line.removesuffix(" {") for line in text.splitlines() if line.startswith("HG_KERNEL ")), "")


@dataclass
class Unit:
    """A translation unit of the CPU.

    Attributes:
        head: its text before the kernels.
        kernels: (name, text) of each; what is no kernel, but functions of a library, has no name.
        entries: the text behind them: entry functions, if it has any.
        entry_count: how many.
    """

    head: str = ""
    kernels: list[tuple[str, str]] = field(default_factory=list)
    entries: str = ""
    entry_count: int = 0

    @property
    def text(self) -> str:
        """All of its text."""
        return "".join((self.head, *(text for _, text in self.kernels), self.entries))


def source_of(units: Iterable[Unit]) -> str:
    """The text of translation units, which is one as well."""
    return "".join(u.text for u in units)


@dataclass
class Buffer:
    """A buffer that steps read and write.

    Attributes:
        space: 'input', 'output' (a result, or what lies in its memory before it is written), 'arena' or
            'barrier' (the word on which the blocks of a kernel wait for each other).
        index: the argument's position, or the offset in the arena in bytes.
        shape, dtype: as library steps see it (dtype by its short name).
        nbytes: its size.
        offset: bytes from the begin of ``parent`` to its own.
        parent: the buffer of the zero-copy concat of which it is a slice, where its rows may lie apart; -1 for others.
    """

    space: str
    index: int
    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    offset: int = 0
    parent: int = -1


@dataclass
class KernelInfo:
    """A kernel's text and what ``explain`` tells of it.

    Attributes:
        numeric: the mode that it is compiled in.
        compile_cost: the time that the C++ compiler takes for it, in fiftieths of a second.
        chunk_multiple: CPU: what chunks of its outermost loop are multiples of; 0: it runs as a whole.
        library: CPU: functions that it calls, which several units share, as (header, text that defines them); or nothing.
    """

    name: str
    kind: str
    text: str
    headers: tuple[str, ...]
    launch: dict[str, int] | None
    operators: list[tuple[str, str, str]]
    choice: dict[str, Any]
    numeric: str = "strict"
    compile_cost: int = 2
    chunk_multiple: int = 0
    library: tuple[str, ...] = ()


@dataclass
class KernelStep:
    """One start of a kernel.

    Attributes:
        chunk: CPU: iterations of its outermost loop that a thread takes at once; 0: it takes all of them.
        in_chunks: CPU: an entry calls it for chunks: also where one size is a single chunk, since others have the same text.
        nanoseconds: CPU: what it takes on one thread, as the cost model estimates it.
    """

    kernel: int
    buffers: tuple[int, ...]
    extents: tuple[int, ...]
    outputs: int  #: how many of the buffers, at the end, are written
    bytes_read: int
    bytes_written: int
    in_place: tuple[tuple[int, int], ...] = ()  #: (operand, result) buffers that share memory
    operators: tuple[tuple[str, str, str], ...] = ()  #: what it computes, if not what the kernel's first start does
    choice: dict[str, Any] | None = None  #: its own, if it is not that of the kernel's first start
    chunk: int = 0
    in_chunks: bool = False
    nanoseconds: int = 0


@dataclass
class LibraryStep:
    """A library call: a primitive computed on whole arrays."""

    primitive: str
    params: dict[str, Any]
    inputs: tuple[int, ...]
    input_shapes: tuple[tuple[int, ...], ...]
    #: operands of a matrix product whose last two axes are swapped in memory, of a convolution the first two
    transposed: tuple[bool, ...]
    output: int
    operator: tuple[str, str, str]
    body: Program | None = None  #: what a loop runs at every step
    note: str = ""  #: why a library computes what a kernel could as well
    concat: str = ""  #: the join that it writes a part of


class Refusal(NamedTuple):
    """The reason why two nodes are not in one kernel: the two parties, a rule by its short name, a sentence."""

    producer: str
    consumer: str
    rule: str
    reason: str

    def __str__(self) -> str:
        return f"{self.producer} | {self.consumer}: {self.reason}"


@dataclass(frozen=True)
class PassRecord:
    """The record of one pass of the compiler.

    Attributes:
        name: of the pass.
        before, after: how many nodes, groups or kernels there were.
        unit: which of these ``after`` counts.
        changed: whether it did anything.
        seconds: what it took; 0 where the program comes from the disk.
    """

    name: str
    before: int
    after: int
    unit: str
    changed: bool
    seconds: float = field(default=0.0, compare=False, repr=False)

    def __str__(self) -> str:
        did = f"{self.before} -> {self.after} {self.unit}" if self.changed else "unchanged"
        return f"{self.name} {self.seconds * 1e3:.2f} ms  {did}"


@dataclass
class Program:
    """Everything needed to run a graph on one target.

    Attributes:
        name, target: of the graph, and 'cpu' or 'cuda'.
        inputs, outputs: (shape, short dtype) of the arguments and results.
        output_buffers: the buffer of each result.
        buffers, kernels, steps: see the classes.
        arena_bytes: size of the memory for intermediate results.
        peak_live_bytes: live bytes at the fullest step, which no placement can do without: an operand that a
            kernel may write over counts once, what lies in results' memory not at all.
        units: CPU: the translation units (codegen/cpu_units.py); CUDA: none (kernels are compiled from their texts).
        segments: CPU: for each run of consecutive kernels, (first step, last step + 1).
        runtime_values: CPU: (what it is, value) of the numbers that a call reads from memory.
        refusals: why neighbours are not in one kernel.
        graph: the printed graph after simplification.
        pinned_inputs: positions of inputs whose address is the same at every call (parameters).
        numeric: the mode that it is compiled in, see Target.
        tf32: libraries may round operands of float32 to TF32.
        prelude: computes further inputs, which follow the others, from some of the fixed ones; None without any.
        prelude_inputs: positions of the prelude's inputs.
        launch_fusion_notes: CUDA: which kernels became one launch and which did not, and why, in words.
        folded_values: for each of the further inputs what computes it, why that is not done at every call, and its bytes.
        input_output_aliases: (number of the result, position of the input) of results that are written over inputs,
            and are no outputs of the program.
        passes: what each pass did to the graph.
    """

    name: str
    target: str
    inputs: list[tuple[tuple[int, ...], str]]
    outputs: list[tuple[tuple[int, ...], str]]
    output_buffers: list[int]
    buffers: list[Buffer]
    kernels: list[KernelInfo]
    steps: list[KernelStep | LibraryStep]
    arena_bytes: int
    peak_live_bytes: int = 0
    units: list[Unit] = field(default_factory=list)
    segments: list[tuple[int, int]] = field(default_factory=list)
    runtime_values: list[tuple[str, int]] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    graph: str = ""
    pinned_inputs: list[int] = field(default_factory=list)
    numeric: str = "strict"
    prelude: Program | None = None
    prelude_inputs: list[int] = field(default_factory=list)
    folded_values: list[tuple[str, str, int]] = field(default_factory=list)
    launch_fusion_notes: list[str] = field(default_factory=list)
    input_output_aliases: list[tuple[int, int]] = field(default_factory=list)
    tf32: bool = False
    passes: list[PassRecord] = field(default_factory=list)

    @property
    def source(self) -> str:
        """CPU: the text of all units."""
        return source_of(self.units)

    @property
    def has_chunks(self) -> bool:
        """CPU: whether threads share a step."""
        return any(isinstance(s, KernelStep) and s.chunk for s in self.steps)

    @property
    def folded_bytes(self) -> int:
        """Memory of what the prelude computes."""
        return sum(nbytes for _, _, nbytes in self.folded_values)

    @property
    def bytes_moved(self) -> int:
        """Traffic of all steps, in bytes."""
        total = 0
        for step in self.steps:
            if isinstance(step, KernelStep):
                total += step.bytes_read + step.bytes_written
            else:
                total += sum(self.buffers[i].nbytes for i in (*step.inputs, step.output))
        return total

    @property
    def bytes_min(self) -> int:
        """Bytes of all arguments and results, of which slices and gathers read less: what any program must move."""
        used = {b for s in self.steps for b in (s.buffers if isinstance(s, KernelStep) else s.inputs)}
        read = sum(b.nbytes for i, b in enumerate(self.buffers) if b.space == "input" and i in used)
        updated = sum(self.buffers[b].nbytes for _, b in self.input_output_aliases)
        return min(read + updated + sum(self.buffers[b].nbytes for b in self.output_buffers), self.bytes_moved)

    @property
    def in_place_results(self) -> int:
        """The number of kernels' results that are written over an operand."""
        return sum(len(s.in_place) for s in self.steps if isinstance(s, KernelStep))

    @property
    def aliased_to_outputs(self) -> int:
        """The number of intermediate results that lie in the memory of a result of the program until that is written."""
        return sum(b.space == "output" and b.parent < 0 for b in self.buffers) - len(self.output_buffers)

    def capacity(self, buffer: int) -> int:
        """Bytes from the begin of a buffer to the end of the memory that it is a part of."""
        b = self.buffers[buffer]
        return b.nbytes if b.parent < 0 else self.buffers[b.parent].nbytes - b.offset

    @property
    def takes_pointer_array(self) -> bool:
        """CPU: True if entries take one array of pointers, first those to inputs that may move, then to outputs."""
        return len(self.inputs) - len(self.pinned_inputs) + len(self.outputs) > _MAX_POINTERS

    def renamed(self, rename: Callable[[str], str]) -> Program:
        """The same program, for reports: what ``rename`` makes of all texts that name nodes."""
        from .ir.text import align_comments  # which calls need not wait for

        def renamed(x: Any) -> Any:
            cls = type(x)
            if cls is str:
                return rename(x)
            if cls in (list, tuple):
                return cls(map(renamed, x))
            if cls is Refusal:
                return Refusal(*map(renamed, x))
            if cls is dict:
                return {k: renamed(v) for k, v in x.items()}
            if cls in _NAMING:
                x = replace(x, **{n: renamed(getattr(x, n)) for n in _NAMING[cls]})
            if cls is Program:
                x.graph = align_comments(x.graph)
            return x

        return renamed(self)  # type: ignore[no-any-return]

    def to_bytes(self) -> bytes:
        """A form that :meth:`from_bytes` reads back, and that depends on the values alone.

        Raises:
            TypeError: a value that is neither a number, text, None, nor a tuple, list or dict of such.
        """
        return marshal.dumps(_data(self), 0)

    @classmethod
    def from_bytes(cls, data: bytes) -> Program:
        """The program of :meth:`to_bytes`' form; EOFError, TypeError or ValueError if it is none."""
        return _program(marshal.loads(data))


#: where names of nodes may stand
_NAMING: dict[type, tuple[str, ...]] = {
    KernelInfo: ("operators", "choice"),
    KernelStep: ("operators", "choice"),
    LibraryStep: ("operator", "body", "note", "concat"),
    Program: ("name", "kernels", "steps", "refusals", "graph", "prelude", "folded_values", "launch_fusion_notes"),
}
_STORED = (Buffer, KernelInfo, KernelStep, LibraryStep, PassRecord, Program, Unit)
_FIELDS = {cls: [f.name for f in fields(cls) if f.compare] for cls in _STORED}


def _data(x: Any) -> Any:
    """A value as :func:`_program` and ``marshal`` take it, which tells exact types from each other alone."""
    cls = type(x)
    if x is None or cls in (bool, int, float, str):
        return x
    if cls in _FIELDS:
        return (
            *([cls is LibraryStep] if cls in (KernelStep, LibraryStep) else []),
            *(_data(getattr(x, n)) for n in _FIELDS[cls]),
        )
    if isinstance(x, (list, tuple)):
        return (list if isinstance(x, list) else tuple)(map(_data, x))
    if isinstance(x, dict):
        return {_data(k): _data(v) for k, v in x.items()}
    for plain in (int, float, str):
        if isinstance(x, plain):
            return plain(x)
    raise TypeError(f"a program cannot be stored with {x!r}")


_FIELD_POSITIONS = {name: k for k, name in enumerate(_FIELDS[Program])}
_BODY = _FIELDS[LibraryStep].index("body")


def _program(data: Any) -> Program:
    values = list(data)
    if len(values) != len(_FIELDS[Program]):
        raise ValueError("no program")
    for name, cls in (("buffers", Buffer), ("kernels", KernelInfo), ("units", Unit), ("passes", PassRecord)):
        values[_FIELD_POSITIONS[name]] = [cls(*x) for x in values[_FIELD_POSITIONS[name]]]
    values[_FIELD_POSITIONS["steps"]] = [
        _library_step(x) if host else KernelStep(*x) for host, *x in values[_FIELD_POSITIONS["steps"]]
    ]
    refusals = _FIELD_POSITIONS["refusals"]
    values[refusals] = [Refusal(*x) for x in values[refusals]]
    prelude = values[_FIELD_POSITIONS["prelude"]]
    values[_FIELD_POSITIONS["prelude"]] = None if prelude is None else _program(prelude)
    return Program(*values)


def _library_step(values: list[Any]) -> LibraryStep:
    body = values[_BODY]
    values[_BODY] = None if body is None else _program(body)
    return LibraryStep(*values)
