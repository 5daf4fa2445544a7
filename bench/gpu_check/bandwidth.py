# SPDX-License-Identifier: Apache-2.0
"""The step bandwidth: memory-bound kernels of every kind, and rows of every length, beside a copy on gpu(0).

Arrays have ``--bytes`` each, far beyond any cache, and hold random numbers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from compiler.cases import parse

from bench.gpu_check.device import Device, Timer, arguments, families, kinds, open_rows
from hybridgpu.compiler.ir import Builder, Graph, Node
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder

WIDTH = 1024
Work = tuple[Callable[..., Node], tuple[str, ...]]


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


def softmax_inner(b: Builder, x: Node) -> Node:
    e = b.exp(x - b.reduce("amax", x, (1,), keepdims=True))
    return e / b.sum(e, (1,), keepdims=True)


def normalised_backward(b: Builder, x: Node, dy: Node, g: Node) -> Node:
    d = x - b.mean(x, (-1,), keepdims=True)
    r = b.rsqrt(b.mean(d * d, (-1,), keepdims=True) + 1e-5)
    n, w = d * r, dy * g
    return r * (w - b.mean(w, (-1,), keepdims=True) - n * b.mean(w * n, (-1,), keepdims=True))


#: memory-bound graphs at ``n`` rows of ``w``: name -> (function, input types)
BANDWIDTH: dict[str, Work] = {
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
#: rows of every length, in arrays of the same size: name -> (function, input types of ``n`` rows of ``w``; ``o`` is the
#: odd length behind it, ``m`` a 64th of the rows)
ROWS: dict[str, Work] = {
    "softmax": (softmax, ("f32[{n},{w}]",)),
    "softmax, float16": (softmax, ("f16[{n},{w}]",)),
    "softmax, rows anywhere": (softmax, ("f32[{n},{o}]",)),
    "softmax, inner axis": (softmax_inner, ("f32[{m},{w},64]",)),
    "layer normalisation": (normalised, ("f32[{n},{w}]",)),
    "its derivative": (normalised_backward, ("f32[{n},{w}]", "f32[{n},{w}]", "f32[{w}]")),
    "sum": (lambda b, x: b.sum(x * x, (-1,)), ("f32[{n},{w}]",)),
    "sum of columns": (lambda b, x: b.sum(x * x, (0,)), ("f32[{w},{n}]",)),
}
LENGTHS = (128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144)


def graph_of(work: Work, nbytes: int, width: int, small: bool = False) -> Graph:
    """A graph whose arrays of float32 have about so many bytes, in rows of ``width``; of a few rows if ``small``."""
    function, types = work
    rows = 3 if small else max(1, nbytes // 4 // width)
    b = builder()
    shapes = [t.format(n=rows, w=width, o=width + 1, m=-(-rows // 64)) for t in types]
    return b.finish([function(b, *[b.input(parse(t), f"x{k}") for k, t in enumerate(shapes)])], "bandwidth")


class Measured:
    """Speeds beside that of a copy of ``nbytes``."""

    def __init__(self, device: Device, nbytes: int) -> None:
        self._device, self._timer, self._nbytes = device, Timer(device), nbytes
        self._source = device.random((64 if device.emulate else max(1, nbytes // 4),), parse("f32[1]").dtype)
        self._target = device.xp.empty_like(self._source)

    def copy(self, k: int) -> None:
        """A copy within the device's memory."""
        if self._device.emulate:
            np.copyto(self._target, self._source)
            return
        stream = self._device.xp.cuda.get_current_stream()
        self._target.data.copy_from_device_async(self._source.data, self._source.nbytes, stream)

    def row(self, graph: Graph) -> dict[str, Any]:
        """GB/s of a graph and its part of the copy's."""
        device = self._device
        program = compile_graph(graph, device.backend.target)
        loaded = device.backend.load(program)
        inputs = [device.random(n.shape, n.dtype) for n in graph.inputs]
        outputs = [device.empty(shape, short) for shape, short in program.outputs]
        times = self._timer.times({"kernel": lambda k: loaded(inputs, outputs), "copy": self.copy})
        speed = program.bytes_min / times["kernel"].us / 1e3
        copied = 2 * self._source.nbytes / times["copy"].us / 1e3
        inputs.clear()
        outputs.clear()
        device.release()
        return {
            "kinds": kinds(program),
            "choices": [k.choice for k in program.kernels],
            "bytes_min": program.bytes_min,
            "bytes_moved": program.bytes_moved,
            "us": times["kernel"].us,
            "median_us": times["kernel"].median_us,
            "timed": times["kernel"].timed,
            "gb_per_s": speed,
            "copy_gb_per_s": copied,
            "of_copy": speed / copied,
        }


def shown(row: dict[str, Any]) -> str:
    """A row for people."""
    name = f"{row['name']} {row.get('length', '')}"
    if "of_copy" not in row:
        return f"{name:<40} {row['outcome']} {row.get('problem', '')}"
    return f"{name:<40} {row['gb_per_s']:8.1f} GB/s  {row['of_copy']:5.2f} of a copy"


def main(arguments_: list[str] | None = None) -> int:
    options = arguments(__doc__).parse_args(arguments_)
    device = Device(options.emulate)
    rows = open_rows(options, device)
    measured = Measured(device, options.bytes)
    small = device.emulate

    def of_kind(name: str) -> Graph:
        return graph_of(BANDWIDTH[name], options.bytes, 64 if small else WIDTH, small)

    def of_length(name: str, length: int) -> Graph:
        return graph_of(ROWS[name], options.bytes, length, small)

    lengths = LENGTHS[:4:3] if small else LENGTHS
    # lengths that are furthest apart first: what the time is too short for lies between others
    spread = sorted(lengths, key=lambda n: (lengths.index(n) % 4 != 3, lengths.index(n) % 2, n))
    for row in rows.measure("bandwidth", [{"name": n} for n in BANDWIDTH], lambda name: measured.row(of_kind(name))):
        print(shown(row), flush=True)
    for row in rows.measure(
        "rows",
        [{"name": n, "length": w} for w in spread for n in ROWS],
        lambda name, length: measured.row(of_length(name, length)),
        lambda part: families(compile_graph(of_length(**part), device.backend.target)),
    ):
        print(shown(row), flush=True)
    return rows.finish()


if __name__ == "__main__":
    sys.exit(main())
