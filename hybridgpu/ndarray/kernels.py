# SPDX-License-Identifier: Apache-2.0
"""Who computes an eager operator: its compiled graph, or the array library primitive by primitive.

The two round differently in functions and reductions. So the choice follows from the graph (operator, attributes, types), the
kind of device and the settings, and is made when an operator first meets its types: no result depends on how busy a
machine is, on what else a program computes, or on what lies in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..backends.devices import HostDevice
from ..backends.library import as_function
from ..compiler.interpreter_cost import pays_to_compile
from ..compiler.passes.canonicalize.simplify import simplify
from ..compiler.reference import Interpreter
from ..core.settings import eager_kernels
from .late_bindings import late

if TYPE_CHECKING:
    from ..backends.devices import Device
    from ..compiler.ir.graph import Graph

__all__ = ["runners", "wants_kernel"]


def runners(graphs: Sequence[Graph], device: Device) -> list[Callable[..., list[Any]]]:
    """What computes each graph of an operator, or of its derivative, on arrays of a device: a kernel, or an interpreter.

    Kernels of several graphs are compiled side by side.
    """
    simple = [simplify(g) for g in graphs]
    wanted = [k for k, g in enumerate(simple) if _simple_wants_kernel(g, device)]
    kernels = late.eager_kernels([graphs[k] for k in wanted], device) if wanted else []
    found = {k: kernel for k, kernel in zip(wanted, kernels, strict=True) if kernel is not None}
    hook = as_function(device.library, device.xp)
    return [found.get(k) or Interpreter(g, device.xp, special=hook) for k, g in enumerate(simple)]


def wants_kernel(graph: Graph, device: Device) -> bool:
    """Whether a graph is compiled for arrays of a device, as far as there is a compiler."""
    return _simple_wants_kernel(simplify(graph), device)


def _simple_wants_kernel(graph: Graph, device: Device) -> bool:
    if isinstance(device, HostDevice) and any(n.prim.checks for n in graph.nodes):
        return False  # an eager call raises its errors, however large its arrays are
    wanted = eager_kernels()
    if wanted == "auto":
        return pays_to_compile(graph, "cpu" if isinstance(device, HostDevice) else "cuda")
    return wanted == "always"
