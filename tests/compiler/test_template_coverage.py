# SPDX-License-Identifier: Apache-2.0
"""Every branch of every template is taken by a kernel that the tests execute.

``test_graphs.py`` executes all cases on both targets. Here the same cases are compiled with templates whose
branches report themselves: bodies of if, elif, else, for, macro and call, both sides of inline
conditions, and the way past an if without else.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import jinja2
import pytest
from compiler.cases import CASES, build, cuda_of
from jinja2 import nodes

from hybridgpu.cache.package_files import templates_folder
from hybridgpu.compiler.codegen import render as seam
from hybridgpu.compiler.codegen.jinja_compiler import environment
from hybridgpu.compiler.codegen.templates import Templates
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.target import CPU, CUDA

pytestmark = pytest.mark.no_host_code

Branch = tuple[str, int, str]  # template, line, which


class Instrumented(jinja2.Environment):
    """An environment whose templates note each branch they take in ``taken``; ``known`` has those that exist."""

    known: set[Branch]
    taken: set[Branch]

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        self._mark_all(tree, str(name))
        return tree

    def _mark_all(self, tree: nodes.Template, name: str) -> None:
        seen: Counter[tuple[int, str]] = Counter()

        def key(node: nodes.Node, which: str) -> nodes.Const:
            seen[node.lineno, which] += 1  # several inline conditions of a line are branches of their own
            nth = seen[node.lineno, which]
            branch = (name, node.lineno, which if nth == 1 else f"{which}, number {nth}")
            self.known.add(branch)
            return nodes.Const(branch, lineno=node.lineno)

        def mark(node: nodes.Node, which: str) -> nodes.Node:
            branch = key(node, which)
            return nodes.ExprStmt(wrap(branch, branch), lineno=node.lineno)

        def wrap(value: nodes.Expr, branch: nodes.Const) -> nodes.Filter:
            return nodes.Filter(value, "covered", [branch], [], None, None, lineno=branch.lineno)

        inner = {id(e) for i in tree.find_all(nodes.If) for e in i.elif_}
        for node in list(tree.find_all((nodes.If, nodes.For, nodes.Macro, nodes.CallBlock, nodes.CondExpr))):
            if isinstance(node, nodes.CondExpr):
                node.expr1 = wrap(node.expr1, key(node, "inline if"))
                if node.expr2 is not None:
                    node.expr2 = wrap(node.expr2, key(node, "inline else"))
                continue
            kind = type(node).__name__.lower()
            node.body.insert(0, mark(node, "elif" if id(node) in inner else kind))
            if isinstance(node, nodes.If) and id(node) not in inner:
                node.else_.insert(0, mark(node, "else" if node.else_ else "if not"))


class Both:
    """Renders with Jinja, and sees that the translated template writes the same."""

    def __init__(self, env: Instrumented) -> None:
        self._env, self._translated = env, Templates(templates_folder())

    def render(self, name: str, given: dict[str, Any]) -> str:
        text = self._env.get_template(name).render(**given)
        assert self._translated.render(name, given) == text, f"templates/{name} means something else to Jinja"
        return text


@pytest.fixture
def instrumented(monkeypatch):
    env = environment().overlay(loader=jinja2.FileSystemLoader(templates_folder()), undefined=jinja2.StrictUndefined)
    env.__class__ = Instrumented
    env.known, env.taken = set(), set()

    @jinja2.pass_context
    def covered(context: Any, value: Any, branch: Branch) -> Any:
        env.taken.add(branch)
        return value

    env.filters = {**env.filters, "covered": covered}
    monkeypatch.setattr(seam, "_templates", lambda: Both(env))
    return env


def compile_cases(names) -> None:
    for name in names:
        for target in (CPU, cuda_of(name)):
            compile_graph(build(name), target)


def missing(env: Instrumented) -> list[str]:
    for path in sorted(templates_folder().rglob("*.j2")):
        env.get_template(path.relative_to(templates_folder()).as_posix())
    return [f"templates/{t}:{line}: {which}" for t, line, which in sorted(env.known - env.taken)]


def test_every_branch_is_taken(instrumented):
    compile_cases(CASES)
    assert len(instrumented.known) > 50
    unreached = missing(instrumented)
    assert not unreached, "no case takes these branches:\n" + "\n".join(unreached)


def test_an_unreached_branch_is_named(instrumented):
    compile_cases(["chain"])
    unreached = missing(instrumented)
    assert any(line.startswith("templates/cuda/rows.j2:") for line in unreached)
    taken = {(template, which) for template, _, which in instrumented.taken}
    assert ("nests.j2", "for") in taken and ("cuda/rows.j2", "for") not in taken


def test_instrumented_templates_write_the_same_text(instrumented, monkeypatch):
    noted = [compile_graph(build("softmax"), t).kernels[0].text for t in (CPU, CUDA)]
    monkeypatch.undo()
    assert noted == [compile_graph(build("softmax"), t).kernels[0].text for t in (CPU, CUDA)]
