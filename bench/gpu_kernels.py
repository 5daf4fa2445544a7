# SPDX-License-Identifier: Apache-2.0
"""Every generated kind of kernel on gpu(0): results against the reference, bandwidth against a copy.

    python bench/gpu_kernels.py [--json FILE] [--no-timing] [--pool/--no-pool] [--emulate] [--patience SECONDS]
                                [--budget SECONDS] [CASE ...]

Continues what FILE has if a process before did not come to the end of it. The case graphs are those of
tests/compiler/cases. ``--no-pool`` takes every array from the driver, so that
compute-sanitizer sees where each begins and ends. ``--emulate`` executes the kernels on the CPU (tests/emulated.py),
with small arrays; its times mean nothing. Exits with 1 if a result is wrong, 2 if there is no GPU.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT))

from compiler.cases import CASES, arrays, build, cuda_of, parse
from gpu_progress import Progress

from hybridgpu.backends.base import Mode
from hybridgpu.backends.devices import device_of
from hybridgpu.base import MXNetError
from hybridgpu.cli.bench.timing import CudaClock, HostClock, compare, loop
from hybridgpu.compiler.ir import Builder, Graph, Node
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.program import KernelStep, Program
from hybridgpu.compiler.reference import evaluate
from hybridgpu.context import gpu
from hybridgpu.dtypes import from_short

TOLERANCE = {2: 4e-3, 4: 3e-5, 8: 1e-9}  #: by the bytes of the narrowest float that took part
WIDTH = 1024
ROUNDS, BATCH_SECONDS = 9, 0.02


def normalised(b: Builder, x: Node) -> Node:
    d = x - b.mean(x, (-1,), keepdims=True)
    return d * b.rsqrt(b.mean(d * d, (-1,), keepdims=True) + 1e-5)


def softmax(b: Builder, x: Node) -> Node:
    e = b.exp(x - b.reduce("amax", x, (-1,), keepdims=True))
    return e / b.sum(e, (-1,), keepdims=True)


def chain(b: Builder, x: Node) -> Node:
    return b.tanh(x * 1.1 + 0.2) * b.sigmoid(x) + b.max(x - 0.3, 0.0) * 0.5 - b.exp(-(x * x))


def scattered(b: Builder, x: Node, i: Node) -> Node:
    """The gradient of a table whose rows were looked up once each, in no order (``i`` counts)."""
    return b.scatter_add(x, b.mod(i * 7919, x.shape[0]), axis=0, extent=x.shape[0])


#: memory-bound graphs at ``n`` rows of WIDTH: name -> (function, input types)
BANDWIDTH: dict[str, tuple[Callable[..., Node], tuple[str, ...]]] = {
    "map: one operator": (lambda b, x: b.neg(x), ("f32[{n},{w}]",)),
    "map: chain of ten": (chain, ("f32[{n},{w}]",)),
    "map: two inputs": (lambda b, x, y: x * y + x, ("f32[{n},{w}]", "f32[{n},{w}]")),
    "map: broadcast row": (lambda b, x, y: b.max(x + y, 0.0), ("f32[{n},{w}]", "f32[{w}]")),
    "map: float16": (lambda b, x: x * 2.0 + 1.0, ("f16[{n},{w}]",)),
    "map: transpose": (lambda b, x: b.transpose(x, (1, 0)) * 2.0, ("f32[{n},{w}]",)),
    "reduce: rows": (lambda b, x: b.sum(x * x, (1,)), ("f32[{n},{w}]",)),
    "reduce: columns": (lambda b, x: b.sum(x, (0,)), ("f32[{n},{w}]",)),
    "reduce: everything": (lambda b, x: b.sum(x), ("f32[{n},{w}]",)),
    "rows: softmax": (softmax, ("f32[{n},{w}]",)),
    "rows: layer normalisation": (normalised, ("f32[{n},{w}]",)),
    "map: take": (lambda b, x, i: b.take(x, i, axis=0) * 2.0, ("f32[{n},{w}]", "i32[{n}]")),
    "scatter: rows anywhere": (scattered, ("f32[{n},{w}]", "i32[{n}]")),
    "scatter: rows that are looked up often": (
        lambda b, x, i: b.scatter_add(x, b.mod(i * 7, 64), axis=0, extent=64),
        ("f32[{n},{w}]", "i32[{n}]"),
    ),
    "matmul: one row": (lambda b, x, m: b.dot(x, b.transpose(m, (1, 0))), ("f32[1,{w}]", "f32[{n},{w}]")),
}


def softmax_inner(b: Builder, x: Node) -> Node:
    e = b.exp(x - b.reduce("amax", x, (1,), keepdims=True))
    return e / b.sum(e, (1,), keepdims=True)


def normalised_backward(b: Builder, x: Node, dy: Node, g: Node) -> Node:
    d = x - b.mean(x, (-1,), keepdims=True)
    r = b.rsqrt(b.mean(d * d, (-1,), keepdims=True) + 1e-5)
    n, w = d * r, dy * g
    return r * (w - b.mean(w, (-1,), keepdims=True) - n * b.mean(w * n, (-1,), keepdims=True))


#: rows of every length, in arrays of the same size: name -> (function, input types of ``n`` rows of ``w``)
ROWS: dict[str, tuple[Callable[..., Node], tuple[str, ...]]] = {
    "softmax": (softmax, ("f32[{n},{w}]",)),
    "softmax, float16": (softmax, ("f16[{n},{w}]",)),
    "softmax, rows anywhere": (softmax, ("f32[{n},{w}1]",)),
    "softmax, inner axis": (softmax_inner, ("f32[{m},{w},64]",)),
    "layer normalisation": (normalised, ("f32[{n},{w}]",)),
    "its derivative": (normalised_backward, ("f32[{n},{w}]", "f32[{n},{w}]", "f32[{w}]")),
    "sum": (lambda b, x: b.sum(x * x, (-1,)), ("f32[{n},{w}]",)),
    "sum of columns": (lambda b, x: b.sum(x * x, (0,)), ("f32[{w},{n}]",)),
}
LENGTHS = (128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144)


class Device:
    """gpu(0), real or emulated."""

    def __init__(self, emulate: bool, pool: bool) -> None:
        self.emulate = emulate
        if emulate:
            from emulated import install

            install()
        self.device = device_of(gpu(0))
        self.xp, self.backend = self.device.xp, self.device.backend()
        if not emulate and not pool:
            self.xp.cuda.set_allocator(None)
        self.clock = HostClock() if emulate else CudaClock(self.xp)

    def filled(self, shape: tuple[int, ...], short: str) -> Any:
        """An array whose bits are all set: what a kernel leaves unwritten is NaN."""
        dtype = from_short(short).np
        nbytes = int(np.prod(shape)) * dtype.itemsize
        return self.device.from_host(np.full(nbytes, 0xFF, np.uint8).view(dtype).reshape(shape))


def kinds(program: Program) -> list[str]:
    """Of the program's kernels in order, 'library' for other steps."""
    return [program.kernels[s.kernel].kind if isinstance(s, KernelStep) else "library" for s in program.steps]


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
        return " ".join(str(e).split())[:400]
    return ""


def check(device: Device, name: str) -> dict[str, Any]:
    """Run a case: kernel by kernel, as a CUDA graph with NaN and infinities among its inputs, and as that graph with
    other addresses."""
    graph = build(name)
    problem, found = "", []
    try:
        program = compile_graph(graph, cuda_of(name, device.backend.driver.arch))
        found = kinds(program)
        loaded = device.backend.load(program)
        for specials, mode in ((False, Mode.FRESH), (True, Mode.GRAPH), (False, Mode.GRAPH)):
            inputs = arrays(graph, 3, specials)
            outputs = [device.filled(shape, short) for shape, short in program.outputs]
            loaded.in_mode(mode)([device.device.from_host(a) for a in inputs], outputs)
            device.device.synchronize()
            with np.errstate(all="ignore"):
                wanted = evaluate(graph, inputs, wide=True)
            for k, (got, want) in enumerate(zip(outputs, wanted, strict=True)):
                wrong = difference(device.device.to_host(got), want, inputs)
                if wrong and not problem:
                    problem = f"output {k}{' (special values)' if specials else ''}: {wrong}"
    except Exception as e:  # one case's failure is a row; the others go on
        problem = f"{type(e).__name__}: {e}"[:400]
        traceback.print_exc()
    return {"name": name, "kinds": found, "ok": not problem, "problem": problem}


def large(name: str, rows: int, width: int) -> Graph:
    """The graph of a row of BANDWIDTH."""
    function, types = BANDWIDTH[name]
    b = builder()
    inputs = [b.input(parse(t.format(n=rows, w=width)), f"x{k}") for k, t in enumerate(types)]
    return b.finish([function(b, *inputs)], "bandwidth")


def bandwidth(device: Device, nbytes: int, name: str) -> dict[str, Any]:
    """GB/s of a row of BANDWIDTH and its part of the speed of a copy, timed in turns."""
    rows, width = (8, 64) if device.emulate else (max(1, nbytes // 4 // WIDTH), WIDTH)
    return measured(device, name, large(name, rows, width), nbytes)


def lengths(device: Device, nbytes: int, name: str, length: int) -> dict[str, Any]:
    """The same for rows of a length, with the form that was chosen."""
    function, types = ROWS[name]
    rows = 3 if device.emulate else max(1, nbytes // 4 // length)
    b = builder()
    shapes = [t.format(n=rows, w=length, m=-(-rows // 64)) for t in types]
    inputs = [b.input(parse(t), f"x{k}") for k, t in enumerate(shapes)]
    return measured(device, f"{name} {length}", b.finish([function(b, *inputs)], "rows"), nbytes)


def measured(device: Device, name: str, graph: Graph, nbytes: int) -> dict[str, Any]:
    """A graph's speed and that of a copy of ``nbytes``."""
    xp = device.xp
    source = xp.ones(64 if device.emulate else nbytes // 4, np.float32)
    target = xp.empty_like(source)
    program = compile_graph(graph, device.backend.target)
    loaded = device.backend.load(program)
    inputs = [
        xp.arange(n.size, dtype=n.dtype.np) if n.dtype.kind == "i" else xp.full(n.shape, 1, n.dtype.np)
        for n in graph.inputs
    ]
    outputs = [device.filled(shape, short) for shape, short in program.outputs]
    loops = {"kernel": loop(loaded, inputs, outputs), "copy": copies(source, target, device)}
    for run in loops.values():
        run(2)
    rounds, calls = (1, 1) if device.emulate else (ROUNDS, None)
    samples = compare(loops, device.clock, rounds, BATCH_SECONDS, calls)
    least = program.bytes_min
    speed = {k: b / s.minimum / 1e3 for (k, s), b in zip(samples.items(), (least, 2 * source.nbytes), strict=True)}
    print(f"{name:<32} {speed['kernel']:8.1f} GB/s  {speed['kernel'] / speed['copy']:5.2f} of a copy", flush=True)
    del inputs, outputs, loops
    device.device.empty_cache()
    return {
        "kinds": kinds(program),
        "choices": [k.choice for k in program.kernels],
        "bytes_min": least,
        "bytes_moved": program.bytes_moved,
        "us": samples["kernel"].minimum,
        "gb_per_s": speed["kernel"],
        "copy_gb_per_s": speed["copy"],
        "of_copy": speed["kernel"] / speed["copy"],
    }


def copies(source: Any, target: Any, device: Device) -> Callable[[int], None]:
    """Copies within the device's memory."""
    if device.emulate:
        return loop(np.copyto, target, source)
    stream = device.xp.cuda.get_current_stream()
    return loop(target.data.copy_from_device_async, source.data, source.nbytes, stream)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="names of cases (default: all)")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--timing", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--pool", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--emulate", action="store_true")
    parser.add_argument(
        "--patience", type=float, default=90, help="seconds that a part may take (default: %(default)s)"
    )
    parser.add_argument("--budget", type=float, default=float("inf"), help="seconds after which no part is begun")
    parser.add_argument("--bytes", type=int, default=1 << 28, help="of the large arrays (default: %(default)s)")
    options = parser.parse_args()
    unknown = sorted(set(options.cases) - set(CASES))
    if unknown:
        parser.error(f"no such case: {', '.join(unknown)}; there are {', '.join(CASES)}")
    try:
        device = Device(options.emulate, options.pool)
    except MXNetError as e:
        print(f"error: no GPU was found: {e}", file=sys.stderr)
        return 2
    patience = 0 if options.emulate else options.patience
    progress = Progress(options.json, patience, device.device.synchronize, options.budget)
    document = progress.document
    for c in progress.rows("cases", [{"name": n} for n in options.cases or CASES], lambda name: check(device, name)):
        shown = f"{c['name']:<24} {', '.join(c.get('kinds', ()))} {c['problem']}"
        print(f"{'ok   ' if c['ok'] else 'WRONG'} {shown}".rstrip(), flush=True)
    cases = document["cases"]
    document["kinds"] = sorted({k for c in cases for k in c.get("kinds", ())})
    widths = LENGTHS[:4:3] if options.emulate else LENGTHS
    for key, parts, measure in (
        ("bandwidth", [{"name": n} for n in BANDWIDTH], bandwidth),
        ("rows", [{"name": n, "length": w} for n in ROWS for w in widths], lengths),
    ):
        for _ in progress.rows(
            key, parts if options.timing else [], lambda measure=measure, **part: measure(device, options.bytes, **part)
        ):
            pass
    progress.finish()
    if progress.left:
        print(f"no time was left for {progress.left} parts")
    wrong = sum(not c["ok"] for c in cases)
    untimed = sum("problem" in row for key in ("bandwidth", "rows") for row in document[key])
    print(f"{len(cases) - wrong} of {len(cases)} cases agree with the reference; kinds: {', '.join(document['kinds'])}")
    return 1 if wrong or untimed else 0


if __name__ == "__main__":
    sys.exit(main())
