# SPDX-License-Identifier: Apache-2.0
"""Kernels and programs as source text.

A kernel's name is a summary of its operators and eight hex digits of its text's hash: the same
kernel has the same name and the same bytes in every process, whatever the blocks are called.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from ...resources import templates_folder
from ..schedule.kernel import Kernel

__all__ = ["kernel_text", "render"]

_NAME = "HG_NAME"


@lru_cache
def _environment() -> Any:
    import jinja2  # 30 ms: only where something must be compiled

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates_folder()),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
        keep_trailing_newline=True,
    )


def render(template: str, **context: Any) -> str:
    """The text of a template file, without empty lines."""
    text = _environment().get_template(template).render(**context)
    return "".join(line + "\n" for line in text.splitlines() if line.strip())


def kernel_text(kernel: Kernel, numeric: str) -> tuple[str, str]:
    """(name, text) of a kernel. The text is that of both numeric modes, the name is not: their code differs."""
    text = render(kernel.template, k=SimpleNamespace(name=_NAME, **kernel.fields))
    identity = text if numeric == "strict" else f"{numeric}\0{text}"
    name = f"{kernel.summary}_{hashlib.sha256(identity.encode()).hexdigest()[:8]}"
    return name, text.replace(_NAME, name)


def includes(headers: Iterable[Sequence[str]]) -> list[str]:
    """The headers of several kernels in one order that respects their dependences."""
    order = ("half.h", "math.h", "reduce.h", "matmul_cpu.h", "matmul_cuda.h")
    used = {h for hs in headers for h in hs}
    return [h for h in order if h in used] + sorted(used - set(order))
