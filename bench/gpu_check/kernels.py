# SPDX-License-Identifier: Apache-2.0
"""The step kernels: every case graph of tests/compiler/cases once on gpu(0), against the reference in float64.

Each runs kernel by kernel, as a CUDA graph with NaN and infinities among its inputs, and as that graph with other
addresses. Kernels that wait for each other's blocks come last: clusters, then those with a barrier of the whole grid.
``--no-pool`` takes every array from the driver, for compute-sanitizer; ``--spread N`` takes every Nth case first, so that
a part of them is a part of every kind. ``--compilers N`` lets other processes compile kernels into the cache beside this
one, which takes most of the time. Exits with 1 if a result is wrong.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np
from compiler.cases import CASES, arrays, build, cuda_of

from bench.gpu_check.device import Device, arguments, families, kinds, open_rows
from bench.gpu_check.processes import beside, cores, module
from hybridgpu.backends.base import Mode
from hybridgpu.compiler.ir import Graph
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.program import Program
from hybridgpu.compiler.reference import evaluate

TOLERANCE = {2: 4e-3, 4: 3e-5, 8: 1e-9}  #: by the bytes of the narrowest float that took part
ORDER = ("", "cluster", "grid barrier")  #: of families
RUNS = ((False, Mode.EAGER_ALLOC), (True, Mode.GRAPH), (False, Mode.GRAPH))  #: (special values, mode) of each case


def difference(got: np.ndarray, want: np.ndarray, inputs: list[np.ndarray]) -> str:
    """What is wrong with a result, '' if nothing is."""
    if got.shape != want.shape:
        return f"shape {got.shape}, expected {want.shape}"
    try:
        if got.dtype.kind == "f":
            limit = TOLERANCE[min(a.dtype.itemsize for a in (got, *inputs) if a.dtype.kind == "f")]
            np.testing.assert_allclose(got.astype(np.float64), want, rtol=limit, atol=limit)
        else:
            np.testing.assert_array_equal(got, want)
    except AssertionError as e:
        return " ".join(str(e).split())[:300]
    return ""


def check(device: Device, graph: Graph, program: Program, runs: tuple[tuple[bool, Mode], ...] = RUNS) -> dict[str, Any]:
    """The row of a case."""
    loaded = device.backend.load(program)
    wrong = ""
    for specials, mode in runs:
        inputs = arrays(graph, 3, specials)
        outputs = [device.filled(shape, short) for shape, short in program.outputs]
        loaded.in_mode(mode)([device.device.from_host(a) for a in inputs], outputs)
        device.device.synchronize()
        with np.errstate(all="ignore"):
            wanted = evaluate(graph, inputs, wide=True)
        for k, (got, want) in enumerate(zip(outputs, wanted, strict=True)):
            found = difference(device.device.to_host(got), want, inputs)
            if found and not wrong:
                wrong = f"output {k}, {mode.value}{', special values' if specials else ''}: {found}"
    row: dict[str, Any] = {"kinds": kinds(program)}
    return row | ({"outcome": "wrong", "problem": wrong} if wrong else {})


def in_order(programs: dict[str, Program], spread: int) -> list[str]:
    """The cases: every ``spread``-th first, then those behind them; within each pass what cannot wait for ever first."""
    names = list(programs)
    passes = [n for k in range(spread) for n in names[k::spread]]
    return sorted(passes, key=lambda n: ORDER.index(families(programs[n])))


def compilers(wanted: int, spread: int, only: str) -> list[list[str]]:
    """Commands that compile the cases, in the same order, as many as there are processors for beside this one."""
    count = max(0, min(wanted, cores() - 2))
    told = ["--spread", str(spread), f"--only={only}"]
    return [module("kernels", *told, "--compile", f"{k}/{count}") for k in range(count)]


def main(arguments_: list[str] | None = None) -> int:
    parser = arguments(
        __doc__,
        ("cases", {"nargs": "*", "metavar": "CASE", "help": "names of cases (default: all)"}),
        ("--pool", {"action": argparse.BooleanOptionalAction, "default": True}),
        ("--spread", {"type": int, "default": 1, "metavar": "N"}),
        ("--compilers", {"type": int, "default": 0, "metavar": "N"}),
        ("--compile", {"default": "", "metavar": "K/N", "help": "run nothing: load the Kth of N parts of the cases"}),
    )
    options = parser.parse_args(arguments_)
    unknown = sorted(set(options.cases) - set(CASES))
    if unknown:
        parser.error(f"no such case: {', '.join(unknown)}; there are {', '.join(CASES)}")
    device = Device(options.emulate, options.pool)
    rows = open_rows(options, device)
    names = [n for n in options.cases or CASES if options.only in n]
    graphs = {n: build(n) for n in names}
    programs = {n: compile_graph(g, cuda_of(n, device.backend.driver.arch)) for n, g in graphs.items()}
    order = in_order(programs, options.spread)
    if options.compile:
        first, step = map(int, options.compile.split("/"))
        for name in order[first::step]:
            device.backend.load(programs[name])
        return 0
    with beside(compilers(options.compilers, options.spread, options.only)):
        for row in rows.measure(
            "cases",
            [{"name": n} for n in order],
            lambda name: check(device, graphs[name], programs[name]),
            lambda part: families(programs[part["name"]]),
        ):
            shown = f"{row['name']:<24} {', '.join(row.get('kinds', ()))} {row.get('problem', '')}"
            print(f"{row['outcome']:<8} {shown}".rstrip(), flush=True)
    rows.found.left += len(options.cases or CASES) - len(names)
    found = rows.found.lists["cases"]
    right = sum(r["outcome"] == "ok" for r in found)
    present = sorted({k for r in found for k in r.get("kinds", ())})
    print(f"{right} of {len(found)} cases agree with the reference; kinds: {', '.join(present)}")
    return rows.finish()


if __name__ == "__main__":
    sys.exit(main())
