# SPDX-License-Identifier: Apache-2.0
"""Kernels and programs as source text.

A kernel's name is a summary of its operators and eight hex digits of its text's hash: the same
kernel has the same name and the same bytes in every process, whatever the blocks are called.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ...cache.package_files import templates_folder
from ...core.dataclass import dataclass
from ..schedule.kernel import OPAQUE_ZERO, Kernel
from .templates import Templates

if TYPE_CHECKING:
    from ..schedule.persistent.kernel import Step

__all__ = ["Function", "kernel_text", "render"]

_NAME = "HG_NAME"
_STEP_NAME = "HG_STEP"


@dataclass(frozen=True)
class Function:
    """The function that a kernel template prints (``f`` there); see templates/cuda/entry.j2.

    Attributes:
        name: of the function.
        runtime_args: parameters besides pointers and extents.
        step: CUDA: which step of a persistent kernel it is; None for a kernel that is started by itself.
        block_at, block_count: CUDA: C text of the number of its block, and of how many there are.
        loop: CUDA: the macro of a loop over elements that are dealt out to all threads.
        sync: CUDA: the statement where the threads of a block wait for each other.
    """

    name: str
    runtime_args: Sequence[str]
    step: Step | None = None
    block_at: str = "blockIdx.x"
    block_count: str = "gridDim.x"
    loop: str = "HG_GRID"
    sync: str = "__syncthreads();"


@lru_cache
def _templates() -> Templates:
    return Templates(templates_folder())


def render(template: str, **context: Any) -> str:
    """The text of a template file, without empty lines."""
    text = _templates().render(template, context)
    return "".join(line + "\n" for line in text.splitlines() if line.strip())


def kernel_text(kernel: Kernel, numeric: str) -> tuple[str, str]:
    """(name, text) of a kernel. The text is that of both numeric modes, the name is not: their code differs."""
    fields = _graph_fields(kernel) if kernel.steps else kernel.fields
    text = render(kernel.template, k=SimpleNamespace(**fields), f=Function(_NAME, tuple(kernel.runtime_args.values)))
    lines = list(kernel.runtime_args.lines)
    if re.search(rf"\b{OPAQUE_ZERO}\b", text):
        lines.append(f"const Index {OPAQUE_ZERO} = hg::opaque(0);")
    if lines:
        text = text.replace(") {\n", ") {\n" + "".join(f"  {line}\n" for line in lines), 1)
    identity = text if numeric == "strict" else f"{numeric}\0{text}"
    name = f"{kernel.summary}_{hashlib.sha256(identity.encode()).hexdigest()[:8]}"
    return name, text.replace(_NAME, name)


def _graph_fields(kernel: Kernel) -> dict[str, Any]:
    """What the template of a kernel with steps sees: their functions, each text once, and who calls which."""
    names: dict[str, str] = {}
    steps = []
    for step in kernel.steps:
        seen = step.kernel.fields
        if step.element_per_thread:
            seen = seen | {"threads": step.threads}
        text = render(step.kernel.template, k=SimpleNamespace(**seen), f=_step_function(step))
        names.setdefault(text, f"{_NAME}_{len(names)}")
        steps.append(replace(step, function=names[text]))
    return kernel.fields | {
        "functions": [text.replace(_STEP_NAME, name) for text, name in names.items()],
        "pools": list(dict.fromkeys(f"sizeof({s.function}_::Pool)" for s in steps if s.uses_pool)),
        "staged": [s for s in steps if s.staged],
        "sections": _sections(kernel, steps),
    }


def _step_function(step: Step) -> Function:
    """The function of a step of a persistent kernel."""
    return Function(
        _STEP_NAME,
        tuple(step.kernel.runtime_args.values),
        step,
        block_at="block_at",
        block_count="block_count",
        loop="HG_PART",
        sync=f"hg::sync_first<{step.threads}>();" if step.idle_threads else "__syncthreads();",
    )


def _sections(kernel: Kernel, steps: Sequence[Any]) -> list[dict[str, Any]]:
    """The phases of a kernel with steps, each the steps in it, those of loops apart from those around them."""
    found: list[dict[str, Any]] = []
    end = -1  # of the loop that a phase is in
    for at in range(1 + max(s.phase for s in steps)):
        turns = kernel.fields["loops"].get(at)
        if turns is not None or at >= end:
            if turns is not None or not found or at == end:
                found.append({"loop": turns, "first": at, "phases": []})
            end = at + turns.depth if turns is not None else -1
        found[-1]["phases"].append([s for s in steps if s.phase == at])
    return found


def includes(headers: Iterable[Sequence[str]]) -> list[str]:
    """The headers of several kernels in one order that respects their dependences."""
    order = ("half.h", "math.h", "reduce.h", "matmul_cpu.h", "matmul_cuda.h")
    used = {h for hs in headers for h in hs}
    return [h for h in order if h in used] + sorted(used - set(order))
