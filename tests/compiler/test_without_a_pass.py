# SPDX-License-Identifier: Apache-2.0
"""Programs without a pass: what they compute is the same, in strict numerics to the bit, where the pass orders no sums anew.

The graphs are the passes' examples, and the cases in which a pass does something, which ``passes/cases`` lists.
After a change: ``pytest tests/compiler/test_without_a_pass.py --update-golden -m "remaining or not remaining"``.
"""

from __future__ import annotations

import numpy as np
import pytest
from compiler.cases import CASES, arrays, build, cuda_of
from compiler.one_pass import PASS_BY_NAME
from compiler.oracle import Oracle
from compiler.test_pass_examples import FOLDER, read
from guard_pages import guarded, guarded_copy

from hybridgpu.backends.cpu.backend import cpu_backend
from hybridgpu.backends.cuda.backend import CudaBackend
from hybridgpu.compiler.pipeline import PASSES, compile_graph
from hybridgpu.compiler.target import CPU
from hybridgpu.core.dtypes import from_short

TARGETS = {"cpu": lambda name: CPU, "cuda": cuda_of}
#: but for those of library calls, whose example says that nothing is generated (tests/cudnn_on_cpu, tests/cublaslt_on_cpu)
EXAMPLES = [p.name for p in PASSES if not p.required and "generates:" not in (FOLDER / f"{p.name}.txt").read_text()]
LISTED = [
    (*line.partition(": ")[0].split(), case)
    for line in (FOLDER / "cases").read_text().splitlines()
    for case in line.partition(": ")[2].split()
]
#: the first case of a pass on a target daily, the others in the second job
FIRST = {row[:2]: row for row in reversed(LISTED)}
ROWS = [
    pytest.param(*row, marks=() if FIRST[row[:2]] == row else pytest.mark.remaining, id=" ".join(row)) for row in LISTED
]


def run(program, inputs, driver):
    """What a program computes of arrays that end where pages of memory end: nothing beside them may be touched."""
    outputs = [guarded(shape, from_short(short).np) for shape, short in program.outputs]
    held = [guarded_copy(x) for x in inputs]
    backend = cpu_backend()
    if program.target == "cuda":
        backend = CudaBackend(driver, np, lambda a: int(a.__array_interface__["data"][0]))
    backend.load(program)(held, outputs)
    return outputs


def compare(name, graph, target, driver, **context):
    ordinary = compile_graph(graph, target, **context)
    assert any(r.name == name and r.changed for r in ordinary.passes), "the pass does nothing"
    program = compile_graph(graph, target.without_passes((name,)), **context)
    assert name not in [r.name for r in program.passes] and program.prelude is None
    inputs = arrays(graph, 1)
    found = run(program, inputs, driver)
    halves = any(n.dtype.is_half for n in graph.nodes)  # which are rounded where they are stored
    if PASS_BY_NAME[name].reorders or halves or ordinary.prelude is not None:
        Oracle(graph, inputs).check(found, name)
    else:
        for one, other in zip(found, run(ordinary, inputs, driver), strict=True):
            assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name, compiler, cuda_driver):
    ctx, graph, _ = read(name)
    compare(name, graph, ctx.target, cuda_driver, folded_inputs=ctx.folded_inputs)


@pytest.mark.parametrize(("name", "target", "case"), ROWS)
def test_cases(name, target, case, compiler, cuda_driver):
    compare(name, build(case), TARGETS[target](case), cuda_driver)


@pytest.mark.remaining
def test_all_cases_are_listed(update_golden):
    found = {}
    for case in CASES:
        for target in TARGETS:
            for record in compile_graph(build(case), TARGETS[target](case)).passes:
                if record.changed and not PASS_BY_NAME[record.name].required:
                    found.setdefault((record.name, target), []).append(case)
    order = [p.name for p in PASSES]
    keys = sorted(found, key=lambda key: (order.index(key[0]), key[1]))
    text = "".join(f"{name} {target}: {' '.join(found[name, target])}\n" for name, target in keys)
    if update_golden:
        (FOLDER / "cases").write_text(text)
    assert (FOLDER / "cases").read_text() == text
