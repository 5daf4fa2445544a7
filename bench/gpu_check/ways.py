# SPDX-License-Identifier: Apache-2.0
"""Work that can be computed in several ways on gpu(0): each compared with float64, then all timed in turns.

What the steps products and convolutions share.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from bench.gpu_check.device import Device, Timer, arguments, open_rows
from hybridgpu.compiler.ir import Graph
from hybridgpu.compiler.program import Program
from hybridgpu.compiler.reference import evaluate

__all__ = ["Subject", "Way", "run"]

#: of the sum of the magnitudes of all terms
BOUND = {"f16": 1e-3, "bf16": 8e-3, "f32": 4e-6, "f64": 1e-13}
SMALL = 1 << 24  #: bytes of large arrays below which extents are small, too: a rehearsal


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


def check(subject: Subject, device: Device, name: str, small: bool) -> dict[str, Any]:
    """Each way's largest error, in parts of the sum of the magnitudes, and what is wrong."""
    case, wrong = subject.cases[name], ""
    errors: dict[str, float] = {}
    notes: dict[str, str] = {}
    graph = case.graph(small, few=True)
    rng = np.random.default_rng(3)
    inputs = [rng.standard_normal(n.shape, np.float32).astype(n.dtype.np) for n in graph.inputs]
    (want,) = evaluate(graph, inputs, wide=True)
    (scale,) = evaluate(graph, [np.abs(a) for a in inputs], wide=True)
    for key, way in subject.ways(device, graph).items():
        outputs = [device.filled(shape, short) for shape, short in way.program.outputs]
        way.loaded([device.device.from_host(a) for a in inputs], outputs)
        device.device.synchronize()
        got = device.device.to_host(outputs[0]).astype(np.float64)
        error = float((np.abs(got - want) / (scale + 1e-4)).max())
        # (NaN is no number of JSON)
        errors[key], notes[key] = (error if np.isfinite(error) else 1e300), way.note
        if not error <= BOUND[case.dtype]:
            wrong = wrong or f"{key}: off by {error:.2g} of the sum of magnitudes"
    row: dict[str, Any] = {"errors": errors, "notes": notes}
    return row | ({"outcome": "wrong", "problem": wrong} if wrong else {})


def timed(subject: Subject, device: Device, timer: Timer, name: str, small: bool) -> dict[str, Any]:
    """Microseconds of each way, timed in turns, and what the usual choice is."""
    graph = subject.cases[name].graph(small, few=False)
    sets = timer.sets([device.random(n.shape, n.dtype) for n in graph.inputs])
    found = subject.ways(device, graph)
    calls = {}
    for key, way in found.items():
        outputs = [device.empty(shape, short) for shape, short in way.program.outputs]
        calls[key] = lambda k, way=way, outputs=outputs: way.loaded(sets[k % len(sets)], outputs)
    times = timer.times(calls)
    usual = subject.chosen(device, graph, found)
    calls.clear()
    sets.clear()
    device.release()
    return {
        "us": {key: t.us for key, t in times.items()},
        "timed": {key: t.timed for key, t in times.items()},
        "chosen": usual,
        "fastest": min(times, key=lambda key: times[key].us),
        **subject.figures(graph, found, times[usual].us),
    }


def run(subject: Subject, description: str | None, arguments_: list[str] | None = None) -> int:
    """The step's command line; returns the exit code."""
    parser = arguments(
        description, ("cases", {"nargs": "*", "metavar": "CASE", "help": "names of cases (default: all)"})
    )
    options = parser.parse_args(arguments_)
    unknown = sorted(set(options.cases) - set(subject.cases))
    if unknown:
        parser.error(f"no such case: {', '.join(unknown)}; there are {', '.join(subject.cases)}")
    device = Device(options.emulate)
    rows = open_rows(options, device)
    small = options.emulate or options.bytes < SMALL
    timer = Timer(device, options.bytes)
    for row in rows.measure("library", [{"name": subject.plural}], lambda name: subject.library(device)):
        print("; ".join(f"{k}: {v}" for k, v in row.items() if k not in ("name", "part", "outcome")), flush=True)
    names = [{"name": n} for n in options.cases or subject.cases]
    for part in names:  # one after the other: where the time is short, some cases have both
        for row in rows.measure("cases", [part], lambda name: check(subject, device, name, small)):
            shown = ", ".join(f"{key} {e:.1e}" for key, e in row.get("errors", {}).items())
            print(f"{row['outcome']:<8} {row['name']:<26} {shown} {row.get('problem', '')}".rstrip(), flush=True)
        for row in rows.measure("times", [part], lambda name: timed(subject, device, timer, name, small)):
            said = subject.line(row) if row["outcome"] == "ok" else f"{row['outcome']} {row.get('problem', '')}"
            print(f"{row['name']:<26} {said}".rstrip(), flush=True)
    times = [r for r in rows.found.lists.get("times", []) if r["outcome"] == "ok"]
    slower = [r["name"] for r in times if r["chosen"] != r["fastest"]]
    if slower and not small:
        print(f"another way than the chosen one is faster: {', '.join(slower)}")
    return rows.finish()
