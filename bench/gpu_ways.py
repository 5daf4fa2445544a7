# SPDX-License-Identifier: Apache-2.0
"""Work that can be computed in several ways on gpu(0): each compared with float64, then all timed in turns.

What gpu_convolutions.py and gpu_products.py share.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from gpu_kernels import BATCH_SECONDS, ROUNDS, Device
from gpu_progress import Progress

from hybridgpu.base import MXNetError
from hybridgpu.cli.bench.timing import compare, loop
from hybridgpu.compiler.ir import Graph
from hybridgpu.compiler.program import Program
from hybridgpu.compiler.reference import evaluate

__all__ = ["Subject", "Way", "run"]

#: of the sum of the magnitudes of all terms
BOUND = {"f16": 1e-3, "bf16": 8e-3, "f32": 4e-6, "f64": 1e-13}


@dataclass(frozen=True)
class Way:
    """A way to compute a graph: the program, what runs it, what it says of itself; seconds that a model expects."""

    program: Program
    loaded: Any
    note: str
    expected: float = 0.0


class Case(Protocol):
    """One size of the work.

    Attributes:
        dtype: by its short name.
    """

    @property
    def dtype(self) -> str: ...

    def graph(self, small: bool, few: bool) -> Graph:
        """Its graph; part of it for a comparison (``few``), ``small`` extents for an emulated device."""


class Subject(Protocol):
    """The work.

    Attributes:
        plural: its name.
        cases: by name.
    """

    plural: str
    cases: Mapping[str, Case]

    def library(self, device: Device) -> dict[str, Any]:
        """What is known of the library; ``library`` is its name and version, or why there is none."""

    def ways(self, device: Device, graph: Graph) -> dict[str, Way]:
        """Every way the graph can be computed, by name."""

    def chosen(self, device: Device, graph: Graph, found: Mapping[str, Way]) -> str:
        """The name of the way that is usually taken."""

    def figures(self, graph: Graph, found: Mapping[str, Way], us: float) -> dict[str, Any]:
        """Further figures of a row, where the chosen way takes ``us`` microseconds."""

    def line(self, row: dict[str, Any]) -> str:
        """A row of times, for people."""


def operands(graph: Graph) -> list[np.ndarray]:
    """Normally distributed inputs."""
    rng = np.random.default_rng(3)
    return [rng.standard_normal(n.shape, np.float32).astype(n.dtype.np) for n in graph.inputs]


def check(subject: Subject, device: Device, name: str) -> dict[str, Any]:
    """Each way's largest error, in parts of the sum of the magnitudes, and what is wrong."""
    case, problem = subject.cases[name], ""
    errors: dict[str, float] = {}
    notes: dict[str, str] = {}
    try:
        graph = case.graph(device.emulate, few=True)
        inputs = operands(graph)
        (want,) = evaluate(graph, inputs, wide=True)
        (scale,) = evaluate(graph, [np.abs(a) for a in inputs], wide=True)
        for key, way in subject.ways(device, graph).items():
            outputs = [device.filled(shape, short) for shape, short in way.program.outputs]
            way.loaded([device.device.from_host(a) for a in inputs], outputs)
            device.device.synchronize()
            got = device.device.to_host(outputs[0]).astype(np.float64)
            error = float((np.abs(got - want) / (scale + 1e-4)).max())
            errors[key], notes[key] = error, way.note
            if not error <= BOUND[case.dtype]:
                problem = problem or f"{key}: off by {error:.2g} of the sum of magnitudes"
    except Exception as e:  # one case's failure is a row; the others go on
        problem = f"{type(e).__name__}: {e}"[:400]
        traceback.print_exc()
    return {"name": name, "errors": errors, "notes": notes, "ok": not problem, "problem": problem}


def timed(subject: Subject, device: Device, name: str) -> dict[str, Any]:
    """Microseconds of each way, timed in turns, and what the usual choice is."""
    graph = subject.cases[name].graph(device.emulate, few=False)
    inputs = [device.device.from_host(a) for a in operands(graph)]
    found = subject.ways(device, graph)
    loops = {}
    for key, way in found.items():
        outputs = [device.filled(shape, short) for shape, short in way.program.outputs]
        loops[key] = loop(way.loaded, inputs, outputs)
        loops[key](2)
    rounds, calls = (1, 1) if device.emulate else (ROUNDS, None)
    samples = compare(loops, device.clock, rounds, BATCH_SECONDS, calls)
    usual = subject.chosen(device, graph, found)
    return {
        "name": name,
        "us": {key: s.minimum for key, s in samples.items()},
        "chosen": usual,
        "fastest": min(samples, key=lambda key: samples[key].minimum),
        **subject.figures(graph, found, samples[usual].minimum),
    }


def run(subject: Subject, description: str, arguments: list[str] | None = None) -> int:
    """The command line: 0, or 1 if a result is wrong, 2 if there is no GPU."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="names of cases (default: all)")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--timing", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument(
        "--patience", type=float, default=90, help="seconds that a part may take (default: %(default)s)"
    )
    parser.add_argument("--emulate", action="store_true")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.cases) - set(subject.cases))
    if unknown:
        parser.error(f"no such case: {', '.join(unknown)}; there are {', '.join(subject.cases)}")
    try:
        device = Device(options.emulate, pool=True)
    except MXNetError as e:
        print(f"error: no GPU was found: {e}", file=sys.stderr)
        return 2
    progress = Progress(options.json, 0 if options.emulate else options.patience, device.device.synchronize)
    document = progress.document
    for row in progress.rows("libraries", [{"name": subject.plural}], lambda name: subject.library(device)):
        document |= (known := {k: v for k, v in row.items() if k != "name"})
        print("; ".join(f"{k}: {v}" for k, v in known.items()), flush=True)
    names = options.cases or list(subject.cases)
    parts = [{"name": n} for n in names]
    for c in progress.rows("cases", parts, lambda name: check(subject, device, name)):
        shown = ", ".join(f"{key} {e:.1e}" for key, e in c.get("errors", {}).items())
        print(f"{'ok   ' if c['ok'] else 'WRONG'} {c['name']:<26} {shown} {c['problem']}".rstrip(), flush=True)

    def timed_alone(name: str) -> dict[str, Any]:
        row = timed(subject, device, name)
        print(f"{name:<26} {subject.line(row)}", flush=True)
        device.device.empty_cache()
        return row

    for _ in progress.rows("times", parts if options.timing else [], timed_alone):
        pass
    progress.finish()
    wrong = sum(not c["ok"] for c in document["cases"])
    untimed = sum("problem" in row for row in document["times"])
    slower = [r["name"] for r in document["times"] if "us" in r and r["chosen"] != r["fastest"]]
    print(f"{len(names) - wrong} of {len(names)} {subject.plural} agree with float64 in every way")
    if slower and not options.emulate:
        print(f"another way than the chosen one is faster: {', '.join(slower)}")
    return 1 if wrong or untimed else 0
