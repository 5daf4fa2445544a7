# SPDX-License-Identifier: Apache-2.0
"""Registers that kernels with reductions take, as the compiler predicts and as ptxas gives them. No GPU needed.

    python bench/registers.py [--forms N] [--fit] [--json FILE] [--markdown FILE] [--arch sm_90]

Compiles the case graphs of tests/compiler/cases and usual rows of several lengths with NVRTC, each in the form that the
model prefers and in its next ones, and compares the registers of a thread, and the blocks that a multiprocessor has
registers for. ``--fit`` fits the figures of hybridgpu/compiler/schedule/cuda/register_model.py anew and prints them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from compiler.cases import CASES, build, cuda_of, parse  # noqa: E402
from cuda_on_cpu.static_checks import compile_report  # noqa: E402

from hybridgpu.backends.cuda.driver import module_source  # noqa: E402
from hybridgpu.backends.cuda.nvrtc import NUMERIC  # noqa: E402
from hybridgpu.cache.package_files import kernels_folder  # noqa: E402
from hybridgpu.compiler import assemble  # noqa: E402
from hybridgpu.compiler.codegen.render import KernelText  # noqa: E402
from hybridgpu.compiler.ir import Graph, Node  # noqa: E402
from hybridgpu.compiler.pipeline import compile_graph  # noqa: E402
from hybridgpu.compiler.primitives import builder  # noqa: E402
from hybridgpu.compiler.program import KernelInfo  # noqa: E402
from hybridgpu.compiler.schedule.cuda import reduction_config  # noqa: E402
from hybridgpu.compiler.schedule.cuda.reduction_fields import ReductionFields  # noqa: E402
from hybridgpu.compiler.schedule.cuda.register_model import (  # noqa: E402
    COLUMNS,
    MAX_REGISTERS,
    MIN_REGISTERS,
    ROWS,
    RegisterDemand,
    blocks_by_registers,
    predicted_registers,
)
from hybridgpu.compiler.target import Target, cuda_target  # noqa: E402

CHUNK = 100  #: kernels of one compilation
SQUEEZE = 2  #: registers below what a thread may have, from which on ptxas counts as held back
WIDTHS = (96, 512, 1000, 4096, 32768, 131072)
ELEMENTS = 1 << 24
MULTIPROCESSORS = 132  #: of an H100 or H200


# -- what is compiled


def _softmax(b: Any, x: Node) -> Node:
    e = b.exp(x - b.reduce("amax", x, (-1,), keepdims=True))
    return e / b.sum(e, (-1,), keepdims=True)


def _normalised(b: Any, x: Node, g: Node, c: Node) -> Node:
    d = x - b.mean(x, (-1,), keepdims=True)
    return d * b.rsqrt(b.mean(d * d, (-1,), keepdims=True) + 1e-5) * g + c


def _slopes(b: Any, x: Node, dy: Node, g: Node) -> Node:
    d = x - b.mean(x, (-1,), keepdims=True)
    r = b.rsqrt(b.mean(d * d, (-1,), keepdims=True) + 1e-5)
    n, w = d * r, dy * g
    return r * (w - b.mean(w, (-1,), keepdims=True) - n * b.mean(w * n, (-1,), keepdims=True))


def _columns(b: Any, x: Node) -> Node:
    d = x - b.mean(x, (0,), keepdims=True)
    return d * b.rsqrt(b.mean(d * d, (0,), keepdims=True) + 1e-5)


#: graphs of usual nets: function, types with R rows of W elements
USUAL: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "softmax": (_softmax, ("[R,W]",)),
    "layer_norm": (_normalised, ("[R,W]", "[W]", "[W]")),
    "layer_norm_slopes": (_slopes, ("[R,W]", "[R,W]", "[W]")),
    "sum": (lambda b, x: b.sum(x, (1,)), ("[R,W]",)),
    "column_sum": (lambda b, x: b.sum(b.exp(x) * x, (0,)), ("[W,R]",)),
    "column_norm": (_columns, ("[W,R]",)),
}


def graphs(arch: str) -> Iterator[tuple[str, Graph, Target]]:
    """(name, graph, target) of everything."""
    target = cuda_target(arch, MULTIPROCESSORS)
    for case in CASES:
        yield case, build(case), replace(cuda_of(case, arch), resident="never")
    for name, (function, types) in USUAL.items():
        for width in WIDTHS:
            for dtype in ("f32", "f16"):
                b = builder()
                rows = str(max(4, min(ELEMENTS // width, 8192)))
                shapes = (t.replace("R", rows).replace("W", str(width)) for t in types)
                nodes = [b.input(parse(f"{dtype}{t}"), f"x{k}") for k, t in enumerate(shapes)]
                yield f"{name} {dtype} {width}", b.finish([function(b, *nodes)], name), target


@contextmanager
def _preferring(number: int) -> Iterator[None]:
    """Choose the form that the model puts at this place, 0 the best, as far as there are others that keep as much."""
    best = reduction_config._fastest

    def chosen(forms: Any, work: Any) -> Any:
        order = sorted(forms, key=lambda f: (len(f.not_cached), f.seconds))
        alike = [f for f in order if len(f.not_cached) == len(order[0].not_cached)]
        return replace(alike[min(number, len(alike) - 1)], why="")

    if number:
        reduction_config._fastest = chosen
    try:
        yield
    finally:
        reduction_config._fastest = best


@contextmanager
def _recorded(found: dict[str, Any]) -> Iterator[None]:
    """Keep the kernels whose texts are written, by name."""
    write = assemble.kernel_text

    def kept(kernel: Any, numeric: str) -> KernelText:
        text = write(kernel, numeric)
        found[text.name] = kernel
        return text

    assemble.kernel_text = kept  # type: ignore[assignment]
    try:
        yield
    finally:
        assemble.kernel_text = write


# -- the comparison


@dataclass(frozen=True)
class Row:
    """A kernel: what it holds, and the registers of a thread as ptxas gives and the compiler predicts them."""

    case: str
    threads: int
    demand: RegisterDemand
    given: int
    predicted: int
    blocks_given: int
    blocks_predicted: int

    @property
    def error(self) -> int:
        return abs(self.given - self.predicted)


def collect(found: Iterable[tuple[str, Graph, Target]], forms: int, arch: str) -> list[Row]:
    """Every different kernel with reductions of the graphs, in so many forms each."""
    kernels: dict[str, tuple[str, Any, KernelInfo, Target]] = {}
    everything = list(found)
    for number in range(forms):
        for case, graph, target in everything:
            made: dict[str, Any] = {}
            with _preferring(number), _recorded(made):
                infos = compile_graph(graph, target).kernels
            for info in infos:
                kernel = made[info.name]
                if isinstance(kernel.fields, ReductionFields):
                    kernels.setdefault(info.name, (case, kernel, info, target))
    names = list(kernels)
    given: dict[str, int] = {}
    for at in range(0, len(names), CHUNK):
        source = module_source([kernels[n][2] for n in names[at : at + CHUNK]])
        report = compile_report(source, arch, ["-default-device", *NUMERIC["strict"]], [kernels_folder()])
        given.update((n, need.registers) for n, need in report.kernels.items())
    return [_row(case, kernel, target, given[n]) for n, (case, kernel, _, target) in kernels.items()]


def _row(case: str, kernel: Any, target: Target, given: int) -> Row:
    demand, threads = kernel.fields.form.demand, kernel.launch.threads
    predicted = predicted_registers(demand, threads, target)
    return Row(
        case, threads, demand, given, predicted, _blocks(given, threads, target), _held(predicted, threads, target)
    )


def _blocks(count: int, threads: int, target: Target) -> int:
    """Blocks of a multiprocessor for threads of so many registers."""
    gpu = target.gpu
    held = gpu.registers // (max(MIN_REGISTERS, -(-count // gpu.register_unit) * gpu.register_unit) * threads)
    return max(1, min(held, gpu.resident_threads // threads, gpu.resident_blocks))


def _held(predicted: int, threads: int, target: Target) -> int:
    gpu = target.gpu
    return min(blocks_by_registers(predicted, threads, target), gpu.resident_threads // threads, gpu.resident_blocks)


def summary(rows: list[Row]) -> dict[str, float]:
    """Kernels, median and 90th percentile of the error in registers, and the part with a wrong number of blocks."""
    errors = np.array([r.error for r in rows])
    wrong = sum(r.blocks_given != r.blocks_predicted for r in rows)
    return {
        "kernels": len(rows),
        "median_error": float(np.median(errors)),
        "error_of_90_percent": float(np.percentile(errors, 90)),
        "wrong_blocks": round(wrong / len(rows), 3),
    }


def fit(rows: list[Row], target: Target) -> dict[str, float]:
    """The figures that leave the least sum of errors, of kernels that ptxas did not hold back."""
    free = [r for r in rows if r.given < min(MAX_REGISTERS, target.gpu.registers // r.threads) - SQUEEZE]
    names = [n for n in ROWS if n == "any" or any(getattr(r.demand, n) for r in free)]
    held = np.array([[1 if n == "any" else getattr(r.demand, n) for n in names] for r in free], float)
    given = np.array([r.given for r in free], float)
    weights = np.ones(len(free))
    for _ in range(60):  # least squares whose weights make them least absolute errors
        found, *_ = np.linalg.lstsq(held * weights[:, None], given * weights, rcond=None)
        weights = 1 / np.sqrt(np.maximum(np.abs(held @ found - given), 0.5))
    return dict.fromkeys(ROWS, 0.0) | {n: round(float(c), 2) for n, c in zip(names, found, strict=True)}


def table(rows: list[Row]) -> str:
    """The summary as Markdown, of rows and columns apart."""
    lines = ["| kernels | number | median error | error of 90 % | wrong number of blocks |", "|---|---|---|---|---|"]
    for name, part in _parts(rows).items():
        s = summary(part)
        lines.append(
            f"| {name} | {s['kernels']:.0f} | {s['median_error']:.0f} registers | {s['error_of_90_percent']:.0f} | "
            f"{s['wrong_blocks'] * 100:.0f} % |"
        )
    return "\n".join(lines)


def _parts(rows: list[Row]) -> dict[str, list[Row]]:
    parts = {
        "rows": [r for r in rows if not r.demand.columns],
        "columns": [r for r in rows if r.demand.columns],
        "all": rows,
    }
    return {name: part for name, part in parts.items() if part}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--forms", type=int, default=3)
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    target = cuda_target(options.arch, MULTIPROCESSORS)
    rows = collect(graphs(options.arch), options.forms, options.arch)
    print(table(rows))
    if options.fit:
        print("ROWS =", fit([r for r in rows if not r.demand.columns], target))
        print("COLUMNS =", fit([r for r in rows if r.demand.columns], target))
    if options.json:
        found = {name: summary(part) for name, part in _parts(rows).items()}
        options.json.write_text(json.dumps({"rows": ROWS, "columns": COLUMNS, "found": found}, indent=1) + "\n")
    if options.markdown:
        options.markdown.write_text(table(rows) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
