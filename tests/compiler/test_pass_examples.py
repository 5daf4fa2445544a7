# SPDX-License-Identifier: Apache-2.0
"""An example of each pass as text: settings, a graph, and what the pass makes of it.

A file of ``tests/compiler/passes`` is the example of the pass that it is named after. Its first lines are settings: ``target:``
(a name and figures that replace the target's), and what else the context has. The graph stands as it is given to the pass, or,
for passes behind ``fuse``, as it is given to ``fuse``; then comes what the pass gave: a graph, the groups of a plan, or kernels.
After a change on purpose: ``pytest tests/compiler/test_pass_examples.py --update-golden``, and read the difference.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from compiler.cases import arrays
from compiler.oracle import Oracle

from hybridgpu.compiler.ir import Graph
from hybridgpu.compiler.ir.parse import parse_graph
from hybridgpu.compiler.ir.verify import verify
from hybridgpu.compiler.passes.fuse import FusionPlan
from hybridgpu.compiler.pipeline import GRAPH_PASSES, PASSES, new_context, run_passes
from hybridgpu.compiler.primitives import TABLE
from hybridgpu.compiler.reference import evaluate
from hybridgpu.compiler.stage_text import stage_text
from hybridgpu.compiler.target import CPU, CUDA

pytestmark = pytest.mark.no_host_code

FOLDER = Path(__file__).parent / "passes"
ARROW = "\n=>\n\n"


def read(name):
    """The context, the graph, and what the pass is to make of it."""
    settings, _, rest = (FOLDER / f"{name}.txt").read_text().partition("\n\n")
    before, _, after = rest.partition(ARROW.rstrip("\n"))  # a new example ends there
    target, context = CPU, {}
    for line in settings.splitlines():
        key, _, value = line.partition(": ")
        if key == "target":
            words = value.split()
            figures = dict(word.split("=") for word in words[1:])
            target = {"cpu": CPU, "cuda": CUDA}[words[0]].changed(**{k: literal(v) for k, v in figures.items()})
        elif key == "generates":
            context[key] = lambda node, value=value: value == "all"
        else:
            context[key] = literal(value)
    return new_context(target, **context), parse_graph(before, TABLE), after.lstrip("\n")


def literal(text):
    value = ast.literal_eval(text) if text[0] in "0123456789'TF{-" else text
    return frozenset(value) if isinstance(value, set) else value


def shown(value):
    """What a pass gave, without what depends on more than the pass: numbers of groups, refusals, choices of schedules."""
    if isinstance(value, list):
        return "".join(f"{'library call' if k is None else k.kind + ' ' + k.summary}\n" for _, k in value)
    if isinstance(value, FusionPlan):
        lines = stage_text(FusionPlan(value.groups, [])).splitlines()
        return "".join(f"group {line.partition(' domain ')[2]}\n" for line in lines)
    return str(value)


@pytest.mark.parametrize("row", PASSES, ids=lambda p: p.name)
def test_example(row, update_golden):
    path = FOLDER / f"{row.name}.txt"
    assert path.exists(), f"write an example: {path}"
    ctx, graph, wanted = read(row.name)
    verify(graph)
    value, earlier = graph, []
    if row not in GRAPH_PASSES:
        # what the earlier passes made of it is no part of the example, but must be there
        earlier = [p for p in PASSES[: PASSES.index(row)] if p not in GRAPH_PASSES or p.name == "materialize"]
        value = run_passes(earlier, graph, ctx)
    before = shown(value)
    found = run_passes([row], value, ctx)
    assert ctx.records[-1].name == row.name and ctx.records[-1].changed, "the example shows nothing"
    text = shown(found) if isinstance(value, Graph) else f"{before}\n=>\n\n{shown(found)}"
    if update_golden:
        settings = path.read_text().partition("\n\n")[0]
        path.write_text(f"{settings}\n\n{graph}{ARROW}{text}")
        return
    assert text == wanted, f"{path.name} differs; if that is meant, run with --update-golden and read the difference"
    if isinstance(found, Graph) and ctx.folding is None:
        inputs = arrays(graph, 1)
        Oracle(graph, inputs).check(evaluate(found, inputs), row.name)
