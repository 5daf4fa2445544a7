# SPDX-License-Identifier: Apache-2.0
"""Which case graphs of tests/compiler a mutant of a template, a header or a module touches."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mutants import Mutant

__all__ = ["Cases", "named"]


class Cases:
    """The case graphs as the unchanged compiler renders them; made in the copy, before any mutant."""

    def __init__(self) -> None:
        from compiler.cases import CASES, build, cuda_of

        from hybridgpu.compiler.codegen import cpu_units, render
        from hybridgpu.compiler.pipeline import compile_graph
        from hybridgpu.compiler.target import CPU

        self.rendered: dict[tuple[str, str], list[tuple[str, dict[str, Any], str]]] = {}
        self.headers: dict[tuple[str, str], set[str]] = {}
        self.texts: dict[tuple[str, str], list[str]] = {}
        self._compile = lambda key: compile_graph(build(key[1]), CPU if key[0] == "test_cpu" else cuda_of(key[1]))
        self._render = original = render.render
        texts: list[tuple[str, dict[str, Any], str]] = []

        def note(template: str, **context: Any) -> str:
            texts.append((template, context, original(template, **context)))
            return texts[-1][2]

        render.render = cpu_units.render = note
        for name in CASES:
            for target, key in ((CPU, "test_cpu"), (cuda_of(name), "test_cuda_text_executed_on_the_cpu")):
                texts.clear()
                made = compile_graph(build(name), target)
                direct = {"cuda.h" if target.name == "cuda" else "cpu.h", *(h for k in made.kernels for h in k.headers)}
                self.rendered[key, name], self.headers[key, name] = list(texts), included(direct)
                self.texts[key, name] = [k.text for k in made.kernels]
        render.render = cpu_units.render = original

    def touched(self, mutant: Mutant) -> list[tuple[str, str]]:
        """(test, case) of what a mutant changes: those that name what it is part of, then the shortest."""
        from hybridgpu.compiler.codegen.render import _templates

        _templates.cache_clear()
        names: set[str] = set()
        if mutant.file.endswith(".h"):
            found = [key for key, headers in self.headers.items() if Path(mutant.file).name in headers]
            names = named(mutant)
        elif mutant.file.endswith(".py"):
            other = "test_cpu" if "/cuda/" in mutant.file else "test_cuda" if "/cpu/" in mutant.file else "none"
            found = [
                key
                for key, was in self.texts.items()
                if not key[0].startswith(other) and [k.text for k in self._compile(key).kernels] != was
            ]
        else:
            users = using(mutant.file.partition("/")[2])
            found = [
                key
                for key, texts in self.rendered.items()
                if any(t in users and self._render(t, **c) != was for t, c, was in texts)
            ]
        texts = {key: "".join(text for _, _, text in self.rendered[key]) for key in found}
        return sorted(found, key=lambda key: (not any(n and n in texts[key] for n in names), len(texts[key])))


def named(mutant: Mutant) -> set[str]:
    """What the function or structure of a header is called that a mutant is part of."""
    lines = Path(mutant.file).read_text(encoding="utf-8").split("\n")[: mutant.line]
    begun = next((k for k in range(len(lines) - 1, 0, -1) if re.match(r"\w|#define", lines[k])), 0)
    head = " ".join(lines[begun : begun + 2])
    return {n for pair in re.findall(r"(\w{3,})[<(]|(?:struct|define) (\w+)", head) for n in pair if n}


def using(template: str) -> set[str]:
    """The templates that a template is part of, with itself."""
    found = {template}
    while True:
        more = {
            path.relative_to("templates").as_posix()
            for path in Path("templates").rglob("*.j2")
            if any(f"'{name}'" in path.read_text(encoding="utf-8") for name in found)
        }
        if more <= found:
            return found
        found |= more


def included(headers: set[str]) -> set[str]:
    """These headers and what they include."""
    found: set[str] = set()
    while headers:
        found |= headers
        texts = [Path("kernels", h).read_text(encoding="utf-8") for h in headers]
        headers = {h for t in texts for h in re.findall(r'#include "(.*)"', t)} - found
    return found
