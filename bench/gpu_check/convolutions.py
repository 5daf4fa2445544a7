# SPDX-License-Identifier: Apache-2.0
"""The step convolutions: each in every way it can be computed on gpu(0): direct kernel, cuDNN, unfolded for cuBLAS.

Every way's result is compared with float64, then all are timed in turns. The figures show whether the choices are
right: up to which size the direct kernel is, and what cuDNN brings. Exits with 1 if a result is wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from bench.gpu_check.device import Device
from bench.gpu_check.ways import Way, run
from hybridgpu.backends.cuda.backend import CudaBackend
from hybridgpu.compiler.ir import Graph, tensor_type
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.program import LibraryStep
from hybridgpu.compiler.schedule.conv import bands
from hybridgpu.compiler.target import CUDA
from hybridgpu.core.dtypes import from_short

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


def ways(device: Device, graph: Graph) -> dict[str, Way]:
    """Every way the convolution can be computed, by name."""
    (node,) = graph.outputs
    shape = bands.shape_of(node)
    found: dict[str, Way] = {}
    if shape is not None and shape.work <= _DIRECT_UP_TO:
        program = compile_graph(graph, CUDA.changed(direct_conv_ops=_DIRECT_UP_TO))
        if program.kernels and any(k.kind == "conv" for k in program.kernels):
            found["direct"] = Way(program, device.backend.load(program), "direct kernel")
    program = compile_graph(graph, CUDA.changed(direct_conv_ops=0))
    steps = [s for s in program.steps if isinstance(s, LibraryStep)]
    if not steps:
        return found
    held = device.device
    unfolding = CudaBackend(device.backend.driver, held.xp, held.address)
    found["unfolded"] = Way(program, unfolding.load(program), "unfolding + cuBLAS")
    loaded = device.backend.load(program)
    note = loaded.describe(steps[-1])
    if note.startswith("cuDNN"):
        found["cudnn"] = Way(program, loaded, note)
    return found


class Convolutions:
    """See ways.Subject."""

    plural, cases = "convolutions", CASES

    def library(self, device: Device) -> dict[str, Any]:
        binding = device.device.convolutions.binding
        return {"library": binding if isinstance(binding, str) else f"cuDNN {binding.version}"}

    def ways(self, device: Device, graph: Graph) -> dict[str, Way]:
        return ways(device, graph)

    def chosen(self, device: Device, graph: Graph, found: Mapping[str, Way]) -> str:
        kernels = any(k.kind == "conv" for k in compile_graph(graph, CUDA).kernels)
        return "direct" if kernels else "cudnn" if "cudnn" in found else "unfolded"

    def figures(self, graph: Graph, found: Mapping[str, Way], us: float) -> dict[str, Any]:
        (node,) = graph.outputs
        # zeros between elements are no work
        work = node.size * prod(graph.inputs[1].shape[1:]) / prod(node.params["base_dilate"])
        return {"multiplications": work, "tera_per_s": 2e-6 * work / us}

    def line(self, row: dict[str, Any]) -> str:
        shown = "  ".join(f"{key} {us:9.1f} us" for key, us in row["us"].items())
        return f"{shown}  {row['chosen']}, {row['tera_per_s']:.2f} Tflop/s"


def main(arguments: list[str] | None = None) -> int:
    return run(Convolutions(), __doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
