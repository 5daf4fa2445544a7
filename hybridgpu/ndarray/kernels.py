# SPDX-License-Identifier: Apache-2.0
"""Who computes an eager operator: its compiled graph, or the array library primitive by primitive.

The two round differently in functions and reductions. So the choice follows from the graph (operator, attributes, types), the
kind of device and the settings, and is made when an operator first meets its types: no result depends on how busy a
machine is, on what else a program computes, or on what lies in the cache.
"""

from __future__ import annotations

from collections.abc import Callable
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

__all__ = ["runner"]


def runner(graph: Graph, device: Device) -> Callable[..., list[Any]]:
    """What computes the graph of an operator, or of its derivative, on arrays of a device: a kernel, or an interpreter."""
    simple = simplify(graph)
    if _wants_kernel(simple, device):
        found: Callable[..., list[Any]] | None = late.eager_kernel(graph, device)
        if found is not None:
            return found
    return Interpreter(simple, device.xp, special=as_function(device.library, device.xp))


def _wants_kernel(graph: Graph, device: Device) -> bool:
    if isinstance(device, HostDevice) and any(n.prim.checks for n in graph.nodes):
        return False  # an eager call raises its errors, however large its arrays are
    wanted = eager_kernels()
    if wanted == "auto":
        return pays_to_compile(graph, "cpu" if isinstance(device, HostDevice) else "cuda")
    return wanted == "always"
