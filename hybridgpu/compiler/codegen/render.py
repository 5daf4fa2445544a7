# SPDX-License-Identifier: Apache-2.0
"""Kernels and programs as source text.

A kernel's name is a summary of its operators and eight hex digits of its text's hash: the same
kernel has the same name and the same bytes in every process, whatever the blocks are called.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from ...cache.package_files import templates_folder
from ...core.dataclass import dataclass
from ..ir.dim_texts import with_literals
from ..schedule.kernel import FlatFields, Kernel, TemplateFields
from .templates import Templates

if TYPE_CHECKING:
    from ..schedule.persistent.fields import Step

__all__ = [
    "NUMBER",
    "Argument",
    "EntryCall",
    "EntryFields",
    "Function",
    "KernelText",
    "StepTable",
    "UnitFields",
    "kernel_text",
    "render",
    "without_blanks",
]

NUMBER = "number"  #: the base of arguments that are no addresses
_NAME = "HG_NAME"
_STEP_NAME = "HG_STEP"


@dataclass(frozen=True)
class Function:
    """The function that a kernel template prints (``f`` there); see templates/cuda/entry.j2.

    Attributes:
        name: of the function.
        runtime_args: parameters besides pointers and extents.
        definitions: CPU: statements at its head, of what follows from these.
        step: CUDA: which step of a persistent kernel it is; None for a kernel that is started by itself.
        block_at, block_count: CUDA: C text of the number of its block, and of how many there are.
        loop: CUDA: the macro of a loop over elements that are dealt out to all threads.
        sync: CUDA: the statement where the threads of a block wait for each other.
    """

    name: str
    runtime_args: Sequence[str]
    definitions: Sequence[str] = ()
    step: Step | None = None
    block_at: str = "blockIdx.x"
    block_count: str = "gridDim.x"
    loop: str = "HG_GRID"
    sync: str = "__syncthreads();"


@lru_cache
def _templates() -> Templates:
    return Templates(templates_folder())


@dataclass(frozen=True)
class Argument:
    """An argument that an entry function of the CPU gives a kernel: an address in what a call passes, or a number of its table ``e``.

    Attributes:
        base: what the address lies in, as ``arena`` or ``input3``; 'number' for a number.
        address: C text of where that begins.
        entry: position in ``e`` of the bytes behind there, or of the number; for none as for EntryCall.
        storage: C text of the type of elements.
    """

    base: str
    address: str
    entry: int
    storage: str

    def __str__(self) -> str:
        if self.base == NUMBER:
            return f"e[{self.entry}]"
        if self.entry < 0:
            return f"({self.storage}*){self.address}"
        return f"({self.storage}*)({self.address} + e[{self.entry}])"


@dataclass(frozen=True)
class EntryCall:
    """The call of a kernel in an entry function of the CPU.

    Attributes:
        number, kernel: which of the program's kernels it is, and its name.
        pointers, numbers: before and behind the bounds of its outermost loop.
        iterations: position in the table ``e`` of where that loop ends, which begins at 0.
        chunk: that of the iterations that a thread takes at once, none if the call takes all of them. None is -1, in a StepTable 0,
            where a zero is.
    """

    number: int
    kernel: str
    pointers: Sequence[Argument]
    numbers: Sequence[Argument]
    iterations: int
    chunk: int


@dataclass(frozen=True)
class StepTable:
    """Entry functions whose calls are data, of the template of the CPU's translation units (``k.table``).

    Attributes:
        calls: one of each kernel, by number.
        bases: (name of what pointers lie in, its number for ``run_steps``, see kernels/steps_cpu.h).
        most: arguments of the kernel that has most.
        pointers: the parameters of which the entry makes the array of pointers, none where it takes one.
    """

    calls: Sequence[EntryCall]
    bases: Sequence[tuple[str, int]]
    most: int
    pointers: Sequence[str]

    @classmethod
    def of(cls, entries: Sequence[Sequence[EntryCall]], bases: dict[str, int], pointers: Sequence[str]) -> StepTable:
        """The table of some entry functions."""
        calls = {c.number: c for calls in entries for c in calls}
        used = dict.fromkeys(a.base for calls in entries for c in calls for a in c.pointers)
        most = max(len(c.pointers) + len(c.numbers) for c in calls.values())
        return cls([calls[k] for k in sorted(calls)], [(name, bases[name]) for name in used], most, pointers)


@dataclass(frozen=True, kw_only=True)
class UnitFields:
    """Fields of the template of the head of the CPU's translation units, which reads them as ``k``.

    Attributes:
        headers: files of ``kernels/`` that the unit includes.
        options: what GCC is told.
    """

    template: ClassVar[str] = "cpu/unit.j2"
    headers: Sequence[str]
    options: str


@dataclass(frozen=True, kw_only=True)
class EntryFields:
    """Fields of the template of the CPU's entry functions, which reads them as ``k``.

    Attributes:
        declarations: of kernels in other units.
        parameters: of the entry functions, behind those that all have.
        entries: for each the calls.
        table: where these are data.
    """

    template: ClassVar[str] = "cpu/entries.j2"
    declarations: Sequence[str]
    parameters: Sequence[str]
    entries: Sequence[Sequence[EntryCall]]
    table: StepTable | None


def render(template: str, **context: Any) -> str:
    """The text of a template file, without empty lines."""
    return without_blanks(_templates().render(template, context))


def without_blanks(text: str) -> str:
    """A text without empty lines."""
    return "".join(line + "\n" for line in text.splitlines() if line.strip())


class KernelText(NamedTuple):
    """The text of a kernel.

    Attributes:
        name: its operators, and what tells its text from others.
        text: C++ or CUDA.
        identity: the text without the name, which other operators' kernels may have as well, and the numeric mode: the
            code of one text differs.
    """

    name: str
    text: str
    identity: str


def kernel_text(kernel: Kernel, numeric: str) -> KernelText:
    """The text of a kernel in a numeric mode."""
    fields = _with_functions(kernel.fields) if kernel.kind == "graph" else kernel.fields
    function = Function(_NAME, tuple(kernel.runtime_args.values), kernel.runtime_args.definitions)
    text = with_literals(_text(fields, function))
    identity = text if numeric == "strict" else f"{numeric}\0{text}"
    name = f"{kernel.summary}_{hashlib.sha256(identity.encode()).hexdigest()[:8]}"
    return KernelText(name, text.replace(_NAME, name), identity)


def _text(fields: TemplateFields, function: Function) -> str:
    return render(fields.template, k=fields, f=function)


def _with_functions(fields: TemplateFields) -> TemplateFields:
    """The record of a kernel with steps, with their functions, each text once."""
    from ..schedule.persistent.fields import PersistentFields  # which few programs have

    assert isinstance(fields, PersistentFields)
    names: dict[str, str] = {}
    of_steps = []
    for step in fields.steps:
        inner = step.kernel.fields
        if isinstance(inner, FlatFields):
            inner = replace(inner, threads=step.threads)
        text = _text(inner, _step_function(step))
        of_steps.append(names.setdefault(text, f"{_NAME}_{len(names)}"))
    return fields.with_functions(of_steps, [text.replace(_STEP_NAME, name) for text, name in names.items()])


def _step_function(step: Step) -> Function:
    """The function of a step of a persistent kernel."""
    return Function(
        _STEP_NAME,
        tuple(step.kernel.runtime_args.values),
        step=step,
        block_at="block_at",
        block_count="block_count",
        loop="HG_PART",
        sync=f"hg::sync_first<{step.threads}>();" if step.idle_threads else "__syncthreads();",
    )


def includes(headers: Iterable[Sequence[str]]) -> list[str]:
    """The headers of several kernels in one order that respects their dependences."""
    order = ("half.h", "math.h", "reduce.h", "matmul_cpu.h", "matmul_cuda.h")
    used = {h for hs in headers for h in hs}
    return [h for h in order if h in used] + sorted(used - set(order))
