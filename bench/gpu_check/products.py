# SPDX-License-Identifier: Apache-2.0
"""The step products: matrix products on gpu(0), each in every form of the generated kernel, by cuBLASLt, by CuPy.

Every way's result is compared with float64, then all are timed in turns. The figures show whether the choices are right.
Each product is a dense layer without activation: cuBLASLt adds the bias in its epilogue, CuPy by a kernel. Exits with 1
if a result is wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.gpu_check.device import Device
from bench.gpu_check.ways import Way, run
from hybridgpu.backends.cuda.backend import CudaBackend
from hybridgpu.backends.library import LibraryRequest
from hybridgpu.compiler.ir import Graph, tensor_type
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.program import LibraryStep
from hybridgpu.compiler.schedule.matmul import config_cuda as schedule
from hybridgpu.compiler.schedule.matmul.config_cuda import (
    DotShape,
    MatmulConfig,
    candidate_configs,
    dot_shape,
    library_seconds,
)
from hybridgpu.compiler.target import Target
from hybridgpu.core.dtypes import from_short

_GENERATED_UP_TO = 1 << 32  #: multiplications beyond which no kernel is tried
_FORMS = 5  #: of the generated kernel, those that the model finds fastest
_SMALL = 24  #: extents on an emulated device, at most
_CHECKED = 64  #: rows and columns of the comparison with float64


@dataclass(frozen=True)
class Case:
    """A product (batch, m, k) . (batch, k, n) + n; ``dense``: the right operand is stored as (n, k)."""

    dtype: str
    m: int
    k: int
    n: int
    dense: bool = True
    batch: int = 0

    def graph(self, small: bool, few: bool) -> Graph:
        """Its graph; ``few`` rows and columns for a comparison, ``small`` extents for an emulated device."""
        most = _SMALL if small else _CHECKED if few else max(self.m, self.n)
        m, n = min(self.m, most), min(self.n, most)
        k, batch = (min(self.k, 4 * _SMALL), min(self.batch, 2)) if small else (self.k, self.batch)
        front = (batch,) if batch else ()
        b, dtype = builder(), from_short(self.dtype)
        x = b.input(tensor_type((*front, m, k), dtype), "x")
        w = b.input(tensor_type((*front, *((n, k) if self.dense else (k, n))), dtype), "w")
        bias = b.input(tensor_type((n,), dtype), "b")
        if self.dense:
            w = b.transpose(w, (*range(len(front)), len(front) + 1, len(front)))
        y = b.dot(x, w)
        return b.finish([y + b.broadcast(b.reshape(bias, (1,) * len(front) + (1, n)), y.shape)], "product")


CASES: dict[str, Case] = {
    "one row, dense": Case("f32", 1, 4096, 4096),
    "one row, columns": Case("f32", 1, 4096, 4096, dense=False),
    "one row, float16": Case("f16", 1, 4096, 11008),
    "one row, bfloat16, columns": Case("bf16", 1, 4096, 11008, dense=False),
    "one row, 1000 classes": Case("f32", 1, 2048, 1000),
    "one row, 10 classes": Case("f32", 1, 4096, 10),
    "one row, odd": Case("f32", 1, 4099, 1001),
    "4 rows": Case("f32", 4, 4096, 4096),
    "4 rows, columns": Case("f32", 4, 4096, 4096, dense=False),
    "8 rows, float16": Case("f16", 8, 4096, 4096),
    "8 rows, float64": Case("f64", 8, 2048, 2048),
    "16 rows": Case("f32", 16, 4096, 4096),
    "16 rows, bfloat16": Case("bf16", 16, 4096, 4096),
    "mlp, first layer": Case("f32", 64, 784, 256),
    "mlp, last layer": Case("f32", 64, 64, 10),
    "128 cubed": Case("f32", 128, 128, 128),
    "256 cubed": Case("f32", 256, 256, 256),
    "256 cubed, float16": Case("f16", 256, 256, 256),
    "512 cubed": Case("f32", 512, 512, 512),
    "attention, scores": Case("f32", 128, 64, 128, batch=96),
    "attention, values": Case("f16", 128, 128, 64, dense=False, batch=96),
    "4 x 4, many": Case("f32", 4, 4, 4, dense=False, batch=16384),
    "2048 cubed": Case("f32", 2048, 2048, 2048),
    "4096 cubed, float16": Case("f16", 4096, 4096, 4096),
    "4096 cubed, bfloat16": Case("bf16", 4096, 4096, 4096),
    "1024 cubed, float64": Case("f64", 1024, 1024, 1024),
}


@contextmanager
def instead(choose: Callable[[Target, DotShape], MatmulConfig] | None) -> Iterator[None]:
    """Products by this choice of forms, or by a library for None."""
    held = schedule.choose_config, schedule.library_seconds
    schedule.library_seconds = lambda target, dot: float("inf") if choose else 0.0
    schedule.choose_config = choose or schedule.choose_config
    try:
        yield
    finally:
        schedule.choose_config, schedule.library_seconds = held


def ways(device: Device, graph: Graph) -> dict[str, Way]:
    """Every way the product can be computed, by name."""
    target, backend = device.backend.target, device.backend
    dot = dot_shape(next(n for n in graph.nodes if n.prim.name == "dot"))
    found: dict[str, Way] = {}
    for form in sorted(candidate_configs(target, dot), key=lambda f: f.seconds) if dot.work <= _GENERATED_UP_TO else ():
        if form.name in found or len(found) == _FORMS:
            continue
        with instead(lambda target, dot, form=form: form):
            program = compile_graph(graph, target)
        words = f"{form.rows} x {form.columns}, {form.layers} layers, vectors {form.vectors}"
        found[form.name] = Way(program, backend.load(program), words, form.seconds)
    expected = library_seconds(target, dot)
    with instead(None):
        program = compile_graph(graph, target)
        plain = CudaBackend(backend.driver, device.device.xp, device.device.address)
        other = compile_graph(graph, plain.target)
    found["cupy"] = Way(other, plain.load(other), "CuPy's matmul", expected)
    loaded = backend.load(program)
    note = next((n for s in program.steps if isinstance(s, LibraryStep) if (n := loaded.describe(s))), "")
    if note.startswith("cuBLASLt"):
        found["cublaslt"] = Way(program, loaded, note, expected)
    return found


def relu_keeps_nan(device: Device) -> bool | None:
    """Whether NaN goes through cuBLASLt's relu, which is not documented; None without cuBLASLt."""
    f32 = from_short("f32")
    types = [tensor_type(s, f32) for s in ((64, 64), (64, 64), (64,))]
    prepared = device.device.products.prepare(LibraryRequest("gemm_bias", types, {"relu": True}, types[0], "relu"))
    arrays = [
        device.device.from_host(np.full(t.shape, np.nan if k == 0 else 1, np.float32)) for k, t in enumerate(types)
    ]
    out = device.filled((64, 64), "f32")
    if prepared is None or not prepared(arrays, out):
        return None
    device.device.synchronize()
    return bool(np.isnan(device.device.to_host(out)).all())


class Products:
    """See ways.Subject."""

    plural, cases = "products", CASES

    def library(self, device: Device) -> dict[str, Any]:
        binding = device.device.products.binding
        name = binding if isinstance(binding, str) else f"cuBLASLt {binding.version}"
        return {"library": name, "relu_keeps_nan": relu_keeps_nan(device)}

    def ways(self, device: Device, graph: Graph) -> dict[str, Way]:
        return ways(device, graph)

    def chosen(self, device: Device, graph: Graph, found: Mapping[str, Way]) -> str:
        program = compile_graph(graph, device.backend.target)
        form = next((k.choice["form"] for k in program.kernels if k.kind == "matmul"), "")
        return form or ("cublaslt" if "cublaslt" in found else "cupy")

    def figures(self, graph: Graph, found: Mapping[str, Way], us: float) -> dict[str, Any]:
        dot = dot_shape(next(n for n in graph.nodes if n.prim.name == "dot"))
        return {
            "multiplications": dot.work,
            "expected_us": {key: way.expected * 1e6 for key, way in found.items()},
            "notes": {key: way.note for key, way in found.items()},
            "tera_per_s": 2e-6 * dot.work / us,
            "gb_per_s": dot.nbytes / us / 1e3,
        }

    def line(self, row: dict[str, Any]) -> str:
        shown = "  ".join(f"{key} {us:.1f} ({row['expected_us'][key]:.1f})" for key, us in row["us"].items())
        rates = f"{row['tera_per_s']:.2f} Tflop/s, {row['gb_per_s']:.0f} GB/s"
        return f"us (expected): {shown}; {row['chosen']}, {rates}"


def main(arguments: list[str] | None = None) -> int:
    return run(Products(), __doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
