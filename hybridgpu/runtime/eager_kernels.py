# SPDX-License-Identifier: Apache-2.0
"""Compiled eager operators: an operator's graph as a program, by the compiler and the cache of hybridized blocks.

Which operators have one is decided by their graphs alone (ndarray/kernels.py). The program is found on disk or compiled when
the operator first meets its types, and stays: results never depend on when a compiler was done.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..backends.devices import Device
from ..compiler.ir.graph import RANDOM_STATE, Graph
from ..core.fork_safe_lock import Lock
from ..core.settings import numeric_mode
from .compilation import Compilation, Compiled
from .dispatch.pools import shared_storage

__all__ = ["EagerKernel", "eager_kernel"]

_building = Lock()


class EagerKernel:
    """A compiled operator.

    Attributes:
        graph: what it computes.
        names, lines: objects that :attr:`lines` name, and Python that runs it, for who repeats it on the host; None where
            it takes more than one foreign call.
        takes: for each result what gives (data, its memory, its address).
    """

    def __init__(self, graph: Graph, made: Compiled) -> None:
        self.graph, self._made = graph, made
        self.names: dict[str, Any] = {}
        self.lines: Callable[[str], list[str]] | None = None
        self.takes: list[Callable[[], tuple[Any, Any, int]]] = []
        program = made.program
        if program is not None and program.target == "cpu":
            bound = made.loaded.bind([])
            if bound.whole:
                self.names, self.lines = bound.names, bound.lines
                self.takes = [shared_storage(t) for t in made.outputs]

    def __call__(self, *arrays: Any) -> list[Any]:
        """Results for arrays of the device, the random state last."""
        if self._made.draws:
            return self._made.results(arrays[:-1], arrays[-1])
        return self._made.results(arrays)


def eager_kernel(graph: Graph, device: Device) -> EagerKernel | None:
    """The program of an operator's graph; None where there is no compiler."""
    backend = device.backend()
    if backend is None:
        return None
    types = [n.type for n in graph.inputs if n.params["name"] != RANDOM_STATE]
    numeric = numeric_mode()
    identity = f"eager {backend.key()} {numeric} {graph}"
    with (
        _building,
        Compilation(lambda _: graph, types, device, frozenset(), graph.name, "eager call", identity, numeric) as job,
    ):
        made = job.finish()
    return EagerKernel(graph, made) if made.program is not None else None
