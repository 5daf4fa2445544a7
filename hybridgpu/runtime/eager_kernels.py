# SPDX-License-Identifier: Apache-2.0
"""Compiled eager operators: an operator's graph as a program, by the compiler and the cache of hybridized blocks.

Which operators have one is decided by their graphs alone (ndarray/kernels.py). The program is found on disk or compiled when
the operator first meets its types, and stays: results never depend on when a compiler was done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from ..backends.code_cache import define
from ..backends.cpu.compile import cpu_count
from ..backends.devices import Device
from ..compiler.ir.dims import Scope
from ..compiler.ir.graph import Graph, is_random_state
from ..compiler.size_buckets import nominal_types
from ..core.fork_safe_lock import Lock
from ..core.settings import numeric_mode
from .compilation import Compilation, Compiled
from .dimensions import ChangedTypes, Sizes, Templates, symbolic_types
from .dispatch.pools import shared_storage

if TYPE_CHECKING:
    from ..compiler.ir.types import TensorType
    from ..ndarray.tape import DifferentiableGraph

__all__ = ["EagerKernel", "eager_kernels"]

_building = Lock()
_templates: Templates = {}


class EagerKernel:
    """A compiled operator.

    Attributes:
        graph: what it computes.
        names, lines: objects that :attr:`lines` name, and Python that runs it, for who repeats it on the host; None where
            it takes more than one foreign call.
        takes: on the host, for each result what gives (data, its memory, its address).
    """

    def __init__(self, graph: Graph, executable: Compiled) -> None:
        self.graph, self._executable = graph, executable
        self.names: dict[str, Any] = {}
        self.lines: Callable[[str], list[str]] | None = None
        self.takes: list[Callable[[], tuple[Any, Any, int]]] = []
        self._run = self._on_device
        program = executable.program
        if program is not None and program.target == "cpu":
            self.takes = [shared_storage(t) for t in executable.outputs]
            bound = executable.loaded.bind([])
            self._run = self._in_steps
            if bound.whole:
                self.names, self.lines = bound.names, bound.lines
                self._run = self._whole(bound)

    def __call__(self, *arrays: Any) -> list[Any]:
        """Results for arrays of the device, the random state last."""
        return self._run(*arrays)

    def _on_device(self, *arrays: Any) -> list[Any]:
        if self._executable.draws:
            return self._executable.results(arrays[:-1], arrays[-1])
        return self._executable.results(arrays)

    def _in_steps(self, *arrays: Any) -> list[Any]:
        results = [take()[0] for take in self.takes]
        self._executable.loaded(arrays, results)
        return results

    def _whole(self, bound: Any) -> Callable[..., list[Any]]:
        """One foreign call, written out for its number of arrays."""
        count, results = len(self.graph.inputs), range(len(self.takes))
        names = self.names | {f"take{k}": take for k, take in enumerate(self.takes)}
        passed = ", ".join(
            [*(f"a{k}.__array_interface__['data'][0]" for k in range(count)), *(f"q{k}" for k in results)]
        )
        lines = [*(f"d{k}, m{k}, q{k} = take{k}()" for k in results), *bound.lines(passed)]
        lines.append(f"return [{', '.join(f'd{k}' for k in results)}]")
        return define(f"call({', '.join(f'a{k}' for k in range(count))})", lines, names, f"{__file__}, eager kernel")


def eager_kernels(wanted: Sequence[tuple[DifferentiableGraph, bool]], device: Device) -> list[EagerKernel | None]:
    """The programs of (operator, whether its kernels are to serve other sizes), which are compiled side by side; None where
    there is no compiler."""
    backend = device.backend()
    if backend is None:
        return [None] * len(wanted)
    numeric = numeric_mode()
    executables: list[Compiled] = []
    jobs: list[Compilation] = []
    sources: set[str] = set()
    with _building, ExitStack() as entered:
        for function, any_size in wanted:
            graph = function.graph
            types = [n.type for n in graph.inputs if not is_random_state(n)]
            given: Sequence[TensorType] = types
            changed: ChangedTypes = ()
            key = None
            if any_size and function.sized is not None:
                given, _, key = function.sized
                changed = tuple(enumerate(nominal_types(given)))
            identity = f"eager {backend.key()} {numeric} {changed} {graph}"
            size = Sizes(_templates, (key, numeric, backend.key(), id(device)), given, changed)
            scope = entered.enter_context(size.scope())
            lower = partial(_lowered, function, changed)
            job = Compilation(
                lower, types, device, frozenset(), graph.name, "eager call", identity, numeric,
                scope=scope, program=size.found,
            )  # fmt: skip
            jobs.append(entered.enter_context(job))
            size.keep(job.planned)
            if len(wanted) > 1 and job.source not in sources:  # kernels of another size would be compiled twice
                sources.add(job.source)
                job.start()
            if len(jobs) - len(executables) > cpu_count():
                executables.append(jobs[len(executables)].finish())
        executables += [job.finish() for job in jobs[len(executables) :]]
    return [
        EagerKernel(function.graph, one) if one.program is not None else None
        for (function, _), one in zip(wanted, executables, strict=True)
    ]


def _lowered(function: DifferentiableGraph, changed: ChangedTypes, _: object, scope: Scope | None) -> Graph:
    if scope is None or function.sized is None:
        return function.graph
    return function.sized.lower(symbolic_types(function.sized.types, changed, scope))
