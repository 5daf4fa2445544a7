# SPDX-License-Identifier: Apache-2.0
"""The CPU's translation units: all kernels of a program and one entry function a segment.

A segment is a run of kernels without a library call in between. Its entry takes the arena, a table
of numbers (extents and arena offsets, so that the text does not depend on the batch size), the
addresses of the inputs that never move, and one pointer for every other argument and result (where
these are hundreds, the address of an array of pointers).

Compilers can be given several units at the same time. Few kernels make one unit with their entries, or two where
that saves more than reading the headers twice takes. Many are dealt out to several units, and the entries, a unit of their own,
are tables of steps, which a loop goes through (``kernels/steps_cpu.h``), since hundreds of calls take g++ longer. There a
kernel's unit follows from its name, so that another program of mostly the same kernels has mostly the same units, and what
compiles a unit follows from each kernel of it alone. Kernels that share the functions that take longest are in one unit.
Functions that follow from the type of elements alone (those of products) are a unit of their own: a machine compiles it once.
A unit has the name and text of each kernel, since kernels are kept one by one (backends/cpu/kernel_objects.py).
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections.abc import Sequence

from ...core.dtypes import from_short
from ..program import Buffer, KernelInfo, KernelStep, Program, Unit, kernel_head
from ..schedule.cpu.chunks import either
from .math_headers import required_headers
from .render import NUMBER, Argument, EntryCall, EntryFields, StepTable, UnitFields, includes, render, without_blanks

__all__ = ["cpu_source"]

_KERNELS_PER_UNIT = 12  #: kernels of a unit: parsing the headers again costs as much as compiling one
_CHUNKS_HEADER = "chunks_cpu.h"
_STEPS_HEADER = "steps_cpu.h"
_TYPE_HEADERS = ("half.h",)  #: headers of element types, which declarations spell
_SHARERS_PER_UNIT = 32  #: kernels of a unit that share most of what is compiled for them: one more is a call of it
#: Headers whose tiles are functions of runtime arguments (``HG_SHARED``), so that kernels have most of their code in common.
_SHARED_HEADERS = ("conv_backward_filter_cpu.h", "conv_input_dilated_cpu.h")
#: Headers of products, whose tiles fill the registers.
_TILED_HEADERS = ("matmul_", "conv_")
#: GCC orders their instructions after it has allotted registers. Its dominator optimisations take a twentieth of the
#: time for them, and make small convolutions slower (LeNet by an eighth).
_TILED_OPTIONS = '"no-tree-dominator-opts"'
#: In other kernels it may order them before: the polynomials of several vectors, each a long chain, then run side by
#: side (5 to 12 % of the time).
_DEFAULT_OPTIONS = '"schedule-insns", "sched-pressure"'
#: Entries of many kernels move arguments only.
_ENTRY_OPTIONS = '"O1"'
_MIN_SPLIT_COST = 2  #: fiftieths of a second that another run of the compiler takes over


def cpu_source(program: Program) -> None:
    """Fill in ``units``, ``segments`` and ``runtime_values`` of a CPU program."""
    program.segments = _segments(program)
    tabled = len(program.kernels) > _KERNELS_PER_UNIT
    none = _table_entry(program, "offset", 0) if tabled else -1
    entries = []
    for begin, end in program.segments:
        calls = []
        for step in program.steps[begin:end]:
            assert isinstance(step, KernelStep)
            pointers = [_argument(program, b, none) for b in step.buffers]
            iterations, *rest = (_table_entry(program, "extent", n) for n in step.extents)
            chunk = _table_entry(program, "chunk", either(step.chunk, step.extents[0])) if step.in_chunks else none
            numbers = [Argument(NUMBER, "0", n, "") for n in rest]
            name = program.kernels[step.kernel].name
            calls.append(EntryCall(step.kernel, name, pointers, numbers, iterations, chunk))
        entries.append(calls)
    passed: list[str] = []
    parameters = ["char* const* p"]
    if not program.takes_pointer_array:  # a result's memory may hold others before, under its name
        passed = list(dict.fromkeys(_name(b) for b in program.buffers if _is_parameter(program, b)))
        parameters = [f"char* {name}" for name in passed]

    def unit(kernels: Sequence[KernelInfo], declarations: Sequence[str], entries: Sequence[list[EntryCall]]) -> Unit:
        needed = {h for k in kernels for h in k.headers}
        if any(call.chunk >= 0 for calls in entries for call in calls):
            needed.add(_CHUNKS_HEADER)
        table = StepTable.of(entries, _bases(program, passed), passed) if entries and tabled else None
        if table is not None:
            needed.add(_STEPS_HEADER)
        if declarations:
            needed |= {h for k in program.kernels for h in k.headers if h in _TYPE_HEADERS}
        headers = required_headers(includes([list(needed)]), [k.text for k in kernels], program.numeric)
        own = EntryFields(declarations=declarations, parameters=parameters, entries=entries, table=table)
        return Unit(
            _head(headers, _options(needed) if kernels else _ENTRY_OPTIONS),
            [(k.name, without_blanks(k.text)) for k in kernels],
            render(own.template, k=own),
            len(entries),
        )

    first, second = _split_in_two(program.kernels)
    units = [_library_unit(*library) for library in dict.fromkeys(k.library for k in program.kernels if k.library)]
    if tabled:
        units += [unit(some, (), ()) for some in _assign_to_units(program.kernels)]
        units.append(unit((), [kernel_head(k.text) for k in program.kernels], entries))
    else:
        units += [unit(first, (), ())] if first else []
        units.append(unit(second, [kernel_head(k.text) for k in first], entries))
    program.units = units


def _head(headers: Sequence[str], options: str) -> str:
    """The head of a unit."""
    head = UnitFields(headers=headers, options=options)
    return render(head.template, k=head)


def _library_unit(header: str, definitions: str) -> Unit:
    """The unit that defines functions of a header."""
    text = without_blanks(f"namespace hg {{\n{definitions}\n}}  // namespace\n")
    return Unit(_head([header], _options({header})), [("", text)])


def _options(headers: set[str]) -> str:
    """The options of GCC for a unit that includes these."""
    return _TILED_OPTIONS if any(h.startswith(_TILED_HEADERS) for h in headers) else _DEFAULT_OPTIONS


def _split_in_two(kernels: Sequence[KernelInfo]) -> tuple[list[KernelInfo], list[KernelInfo]]:
    """The kernels of two units that take about as long, the first none where one unit is better.

    Each kernel, or those that share code, goes where less is to be done, those that take longest first.
    """
    halves: tuple[list[KernelInfo], list[KernelInfo]] = [], []
    efforts = [0, 0]
    apart: list[list[KernelInfo]] = []
    for header, sharers in _by_shared_header(kernels).items():
        apart += [sharers] if header else [[k] for k in sharers]
    for together in sorted(apart, key=lambda ks: -_compile_cost(ks)):
        less = int(efforts[1] < efforts[0])
        halves[less].extend(together)
        efforts[less] += _compile_cost(together)
    return halves if min(efforts) >= _MIN_SPLIT_COST else ([], list(kernels))


def _assign_to_units(kernels: Sequence[KernelInfo]) -> list[list[KernelInfo]]:
    """The kernels of each unit, those that take longest first: what is left at the end is short."""
    assigned: list[list[KernelInfo]] = []
    for header, some in _by_shared_header(kernels).items():
        most = _SHARERS_PER_UNIT if header else _KERNELS_PER_UNIT
        count = 1 << (-(-len(some) // most) - 1).bit_length()  # a power of two: a kernel more seldom moves all others
        units: list[list[KernelInfo]] = [[] for _ in range(count)]
        for kernel in sorted(some, key=lambda k: k.name):
            units[zlib.crc32(kernel.name.encode()) % count].append(kernel)
        assigned += _units_alike(units)
    return sorted(assigned, key=lambda u: -_compile_cost(u))


def _units_alike(units: Sequence[Sequence[KernelInfo]]) -> list[list[KernelInfo]]:
    """The units, parted so that GCC is told the same for all kernels of one."""
    options = _TILED_OPTIONS, _DEFAULT_OPTIONS
    parts = [[k for k in unit if _options(set(k.headers)) == o] for unit in units for o in options]
    return [part for part in parts if part]


def _by_shared_header(kernels: Sequence[KernelInfo]) -> dict[str, list[KernelInfo]]:
    """The kernels that share tiles of a header; those that do not under ''."""
    by_header: dict[str, list[KernelInfo]] = {}
    for kernel in kernels:
        header = next((h for h in kernel.headers if h in _SHARED_HEADERS), "")
        by_header.setdefault(header, []).append(kernel)
    return by_header


def _compile_cost(kernels: Sequence[KernelInfo]) -> int:
    """Fiftieths of a second for kernels of one unit."""
    return sum(
        max(k.compile_cost for k in some) + len(some) - 1 if header else sum(k.compile_cost for k in some)
        for header, some in _by_shared_header(kernels).items()
    )


def _segments(program: Program) -> list[tuple[int, int]]:
    segments: list[tuple[int, int]] = []
    start = None
    for k, step in enumerate(program.steps):
        if isinstance(step, KernelStep):
            start = k if start is None else start
        elif start is not None:
            segments.append((start, k))
            start = None
    if start is not None:
        segments.append((start, len(program.steps)))
    return segments


def _table_entry(program: Program, kind: str, value: int) -> int:
    """The position of a new number in the table."""
    program.runtime_values.append((kind, value))
    return len(program.runtime_values) - 1


def _is_parameter(program: Program, b: Buffer) -> bool:
    """True for what every call passes: inputs that may move, and outputs."""
    return b.space == "output" or (b.space == "input" and b.index not in program.pinned_inputs)


def _argument(program: Program, buffer: int, none: int) -> Argument:
    """The argument of a call for a buffer; ``none``: the entry of what lies where its memory begins."""
    b = program.buffers[buffer]
    storage = from_short(b.dtype).storage
    if b.space == "arena":
        return Argument("arena", "arena", _table_entry(program, "offset", b.index + b.offset), storage)
    if _is_parameter(program, b):
        start = _table_entry(program, "offset", b.offset) if b.offset else none
        address = f"p[{_position(program, b)}]" if program.takes_pointer_array else _name(b)
        return Argument(_name(b), address, start, storage)
    return Argument(_name(b), f"w[{program.pinned_inputs.index(b.index)}]", none, storage)


def _name(b: Buffer) -> str:
    """The name of an argument or a result in entries."""
    return f"{b.space}{b.index}"


def _position(program: Program, b: Buffer) -> int:
    """The index, in an array of pointers, of an argument that may move, or of a result."""
    if b.space == "input":
        return b.index - bisect_left(program.pinned_inputs, b.index)
    return len(program.inputs) - len(program.pinned_inputs) + b.index


def _bases(program: Program, passed: Sequence[str]) -> dict[str, int]:
    """For each name of what pointers lie in, its number for ``run_steps`` (kernels/steps_cpu.h)."""
    bases = {"arena": 1}
    for b in program.buffers:
        if b.space == "input" and not _is_parameter(program, b):
            bases[_name(b)] = -1 - program.pinned_inputs.index(b.index)
        elif _is_parameter(program, b):
            bases[_name(b)] = 2 + (_position(program, b) if program.takes_pointer_array else passed.index(_name(b)))
    return bases
