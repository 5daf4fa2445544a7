# SPDX-License-Identifier: Apache-2.0
"""Convolutions on gpu(0), each in every way it can be computed: direct kernel, cuDNN, unfolded for cuBLAS.

    python bench/gpu_convolutions.py [--json FILE] [--no-timing] [--emulate] [CASE ...]

Every way's result is compared with float64, then all are timed in turns. The figures show whether the choices are
right: up to which size the direct kernel is, and what cuDNN brings. ``--emulate`` rehearses with small arrays on the
CPU; its times mean nothing. Exits with 1 if a result is wrong, 2 if there is no GPU.
"""

from __future__ import annotations

import argparse
import json
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from gpu_kernels import BATCH_SECONDS, ROUNDS, Device

from hybridgpu.backends.cuda.backend import CudaBackend
from hybridgpu.base import MXNetError
from hybridgpu.cli.bench.timing import compare, loop
from hybridgpu.compiler.ir import Graph, tensor_type
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.program import HostStep
from hybridgpu.compiler.reference import evaluate
from hybridgpu.compiler.schedule import conv as schedule
from hybridgpu.compiler.target import CUDA
from hybridgpu.dtypes import from_short

#: of the sum of the magnitudes of all products
BOUND = {"f16": 1e-3, "bf16": 8e-3, "f32": 4e-6, "f64": 1e-13}
_DIRECT_UP_TO = 1 << 28  #: multiplications beyond which the direct kernel is not tried
_CHECKED = 2  #: samples of the comparison with float64


@dataclass(frozen=True)
class Case:
    """A convolution: shapes without the number of samples, which comes first in ``x`` (or in both, as channels)."""

    dtype: str
    batch: int
    x: tuple[int, ...]
    w: tuple[int, ...]
    params: dict[str, Any]
    of_weight: bool = False  #: samples are the channels that are summed over

    def graph(self, small: bool, few: bool) -> Graph:
        """Its graph; ``few`` samples for a comparison, ``small`` extents for an emulated device."""
        batch = min(self.batch, _CHECKED) if few else self.batch
        x, w = list(self.x), list(self.w)
        if small:
            batch, x[0], w[0] = 1, max(1, x[0] // 16), max(1, w[0] // 16)
            if not self.of_weight:
                w[1] = max(1, w[1] // 16)
        shapes = ((x[0], batch, *x[1:]), (w[0], batch, *w[1:])) if self.of_weight else ((batch, *x), tuple(w))
        rank = len(shapes[0]) - 2
        defaults = {"stride": 1, "low": 0, "high": 0, "dilate": 1, "base_dilate": 1}
        params = {k: (self.params.get(k, v),) * rank for k, v in defaults.items()}
        groups = self.params.get("groups", 1)
        b = builder()
        inputs = [b.input(tensor_type(s, from_short(self.dtype)), n) for s, n in zip(shapes, "xw", strict=True)]
        return b.finish([b.conv(*inputs, **params, groups=max(1, groups // 16) if small else groups)], "conv")


SAME = {"low": 1, "high": 1}
CASES: dict[str, Case] = {
    "3x3 of 16, small": Case("f32", 1, (16, 14, 14), (16, 16, 3, 3), SAME),
    "3x3 of 64, one sample": Case("f32", 1, (64, 28, 28), (64, 64, 3, 3), SAME),
    "3x3 of 64": Case("f32", 32, (64, 56, 56), (64, 64, 3, 3), SAME),
    "3x3 of 512": Case("f32", 32, (512, 7, 7), (512, 512, 3, 3), SAME),
    "1x1 to 256": Case("f32", 32, (64, 56, 56), (256, 64, 1, 1), {}),
    "7x7, stride 2": Case("f32", 32, (3, 224, 224), (64, 3, 7, 7), {"stride": 2, "low": 3, "high": 3}),
    "depthwise": Case("f32", 32, (128, 56, 56), (128, 1, 3, 3), {**SAME, "groups": 128}),
    "float16": Case("f16", 32, (64, 56, 56), (64, 64, 3, 3), SAME),
    "bfloat16": Case("bf16", 32, (64, 56, 56), (64, 64, 3, 3), SAME),
    "float64": Case("f64", 8, (64, 28, 28), (64, 64, 3, 3), SAME),
    "one axis": Case("f32", 32, (128, 1024), (128, 128, 5), {"low": 2, "high": 2}),
    "three axes": Case("f32", 4, (32, 16, 28, 28), (32, 32, 3, 3, 3), SAME),
    "uneven padding": Case("f32", 32, (64, 56, 56), (64, 64, 3, 3), {"low": 0, "high": 1}),
    "transposed, stride 2": Case("f32", 32, (64, 28, 28), (64, 64, 4, 4), {"base_dilate": 2, "low": 2, "high": 2}),
    "derivative by 3x3 weight": Case("f32", 32, (64, 56, 56), (64, 56, 56), SAME, of_weight=True),
    "derivative by 1x1 weight": Case("f32", 32, (64, 56, 56), (256, 56, 56), {}, of_weight=True),
    "derivative, float16": Case("f16", 32, (64, 56, 56), (64, 56, 56), SAME, of_weight=True),
}


@contextmanager
def direct_up_to(multiplications: int) -> Iterator[None]:
    """Direct kernels up to another size than usually."""
    held, schedule._DIRECT = schedule._DIRECT, multiplications
    try:
        yield
    finally:
        schedule._DIRECT = held


def ways(device: Device, graph: Graph) -> dict[str, tuple[Any, Any, str]]:
    """Name -> (program, what runs it, what it says of itself), for every way the convolution can be computed."""
    (node,) = graph.outputs
    shape = schedule.shape_of(node)
    found: dict[str, tuple[Any, Any, str]] = {}
    if shape is not None and shape.work <= _DIRECT_UP_TO:
        with direct_up_to(_DIRECT_UP_TO):
            program = compile_graph(graph, CUDA)
        if program.kernels and any(k.kind == "conv" for k in program.kernels):
            found["direct"] = program, device.backend.load(program), "direct kernel"
    with direct_up_to(0):
        program = compile_graph(graph, CUDA)
    steps = [s for s in program.steps if isinstance(s, HostStep)]
    if not steps:
        return found
    held = device.device
    unfolding = CudaBackend(device.backend.driver, held.xp, held.address)
    found["unfolded"] = program, unfolding.load(program), "unfolding + cuBLAS"
    loaded = device.backend.load(program)
    note = loaded.describe(steps[-1])
    if note.startswith("cuDNN"):
        found["cudnn"] = program, loaded, note
    return found


def operands(graph: Graph) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [rng.standard_normal(n.shape, np.float32).astype(n.dtype.np) for n in graph.inputs]


def check(device: Device, name: str) -> dict[str, Any]:
    """Each way's largest error, in parts of the sum of the magnitudes, and what is wrong."""
    case, errors, notes, problem = CASES[name], {}, {}, ""
    try:
        graph = case.graph(device.emulate, few=True)
        inputs = operands(graph)
        (want,) = evaluate(graph, inputs, wide=True)
        (scale,) = evaluate(graph, [np.abs(a) for a in inputs], wide=True)
        for way, (program, loaded, note) in ways(device, graph).items():
            outputs = [device.filled(shape, short) for shape, short in program.outputs]
            loaded([device.device.from_host(a) for a in inputs], outputs)
            device.device.synchronize()
            got = device.device.to_host(outputs[0]).astype(np.float64)
            error = float((np.abs(got - want) / (scale + 1e-4)).max())
            errors[way], notes[way] = error, note
            if not error <= BOUND[case.dtype]:
                problem = problem or f"{way}: off by {error:.2g} of the sum of magnitudes"
    except Exception as e:  # one case's failure is a row; the others go on
        problem = f"{type(e).__name__}: {e}"[:400]
        traceback.print_exc()
    return {"name": name, "errors": errors, "notes": notes, "ok": not problem, "problem": problem}


def timed(device: Device, name: str) -> dict[str, Any]:
    """Microseconds of each way, timed in turns, and what the usual choice is."""
    graph = CASES[name].graph(device.emulate, few=False)
    inputs = [device.device.from_host(a) for a in operands(graph)]
    found = ways(device, graph)
    loops = {}
    for way, (program, loaded, _) in found.items():
        outputs = [device.filled(shape, short) for shape, short in program.outputs]
        loops[way] = loop(loaded, inputs, outputs)
        loops[way](2)
    rounds, calls = (1, 1) if device.emulate else (ROUNDS, None)
    samples = compare(loops, device.clock, rounds, BATCH_SECONDS, calls)
    (node,) = graph.outputs
    program = compile_graph(graph, CUDA)
    kernels = any(k.kind == "conv" for k in program.kernels)
    chosen = "direct" if kernels else "cudnn" if "cudnn" in found else "unfolded"
    w = graph.inputs[1]
    # zeros between elements are no work
    work = node.size * prod(w.shape[1:]) / prod(node.params["base_dilate"])
    return {
        "name": name,
        "multiplications": work,
        "us": {way: s.minimum for way, s in samples.items()},
        "chosen": chosen,
        "fastest": min(samples, key=lambda way: samples[way].minimum),
        "tera_per_s": 2e-6 * work / samples[chosen].minimum,
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="names of cases (default: all)")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--timing", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--emulate", action="store_true")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.cases) - set(CASES))
    if unknown:
        parser.error(f"no such case: {', '.join(unknown)}; there are {', '.join(CASES)}")
    try:
        device = Device(options.emulate, pool=True)
    except MXNetError as e:
        print(f"error: no GPU was found: {e}", file=sys.stderr)
        return 2
    binding = device.device.convolutions.binding
    library = binding if isinstance(binding, str) else f"cuDNN {binding.version}"
    print(f"library: {library}", flush=True)
    names = options.cases or list(CASES)
    document: dict[str, Any] = {"library": library, "cases": [check(device, n) for n in names], "times": []}
    for c in document["cases"]:
        shown = ", ".join(f"{way} {e:.1e}" for way, e in c["errors"].items())
        print(f"{'ok   ' if c['ok'] else 'WRONG'} {c['name']:<26} {shown} {c['problem']}".rstrip(), flush=True)
    for name in names if options.timing else ():
        row = timed(device, name)
        document["times"].append(row)
        shown = "  ".join(f"{way} {us:9.1f} us" for way, us in row["us"].items())
        print(f"{name:<26} {shown}  {row['chosen']}, {row['tera_per_s']:.2f} Tflop/s", flush=True)
        device.device.empty_cache()
    if options.json:
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    wrong = sum(not c["ok"] for c in document["cases"])
    slower = [r["name"] for r in document["times"] if r["chosen"] != r["fastest"]]
    print(f"{len(names) - wrong} of {len(names)} convolutions agree with float64 in every way")
    if slower and not options.emulate:
        print(f"another way than the chosen one is faster: {', '.join(slower)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
