# SPDX-License-Identifier: Apache-2.0
"""The choice of who computes an eager operator: its compiled graph, or the array library primitive by primitive.

The two round differently in functions and reductions. So the choice follows from the graph (operator, attributes, types), the
kind of device and the settings, and is made when an operator first meets its types: no result depends on how busy a
machine is, on what else a program computes, or on what lies in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..backends.devices import HostDevice
from ..backends.library import as_function
from ..compiler.interpreter_cost import KernelKind, kernel_kind
from ..compiler.passes.canonicalize.simplify import simplify
from ..core.settings import eager_kernels
from .interpreted import InterpretedGraph
from .late_bindings import late

if TYPE_CHECKING:
    from ..backends.devices import Device
    from ..compiler.ir.graph import Graph
    from .tape import DifferentiableGraph

__all__ = ["runners", "wants_kernel"]


def runners(functions: Sequence[DifferentiableGraph], device: Device) -> list[Callable[..., list[Any]]]:
    """Runners of each graph of an operator, or of its derivative, on arrays of a device: a kernel, or an interpreter.

    Kernels of several graphs are compiled side by side.
    """
    simple = [simplify(f.graph) for f in functions]
    kinds = [_kernel_kind(g, device) for g in simple]
    indices = [
        k
        for k, (f, kind) in enumerate(zip(functions, kinds, strict=True))
        if kind is KernelKind.ONE_SIZE or (kind is KernelKind.ANY_SIZE and f.sized is not None)
    ]
    asked = [(functions[k], kinds[k] is KernelKind.ANY_SIZE) for k in indices]
    kernels = late.eager_kernels(asked, device) if asked else []
    compiled = {k: kernel for k, kernel in zip(indices, kernels, strict=True) if kernel is not None}
    hook = as_function(device.library, device.xp)
    return [compiled.get(k) or InterpretedGraph(g, device.xp, hook) for k, g in enumerate(simple)]


def wants_kernel(graph: Graph, device: Device) -> bool:
    """Whether a graph is compiled for arrays of a device, as far as there is a compiler."""
    return _kernel_kind(simplify(graph), device) is not KernelKind.NONE


def _kernel_kind(graph: Graph, device: Device) -> KernelKind:
    """What pays for a simplified graph."""
    if isinstance(device, HostDevice) and any(n.prim.checks for n in graph.nodes):
        return KernelKind.NONE  # an eager call raises its errors, however large its arrays are
    mode = eager_kernels()
    if mode == "auto":
        return kernel_kind(graph, "cpu" if isinstance(device, HostDevice) else "cuda")
    return KernelKind.ONE_SIZE if mode == "always" else KernelKind.NONE
