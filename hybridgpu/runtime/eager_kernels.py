# SPDX-License-Identifier: Apache-2.0
"""Compiled eager operators: an operator's graph as a program, by the compiler and the cache of hybridized blocks.

Which operators have one is decided by their graphs alone (ndarray/kernels.py). The program is found on disk or compiled when
the operator first meets its types, and stays: results never depend on when a compiler was done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from ..backends.code_cache import code_of
from ..backends.cpu.compile import cpu_count
from ..backends.devices import Device
from ..compiler.ir.dims import nominal_shape
from ..compiler.ir.graph import RANDOM_STATE, Graph
from ..compiler.ir.types import tensor_type
from ..core.fork_safe_lock import Lock
from ..core.settings import numeric_mode
from .compilation import Compilation, Compiled
from .dispatch.pools import shared_storage

__all__ = ["EagerKernel", "eager_kernels"]

_building = Lock()


class EagerKernel:
    """A compiled operator.

    Attributes:
        graph: what it computes.
        names, lines: objects that :attr:`lines` name, and Python that runs it, for who repeats it on the host; None where
            it takes more than one foreign call.
        takes: on the host, for each result what gives (data, its memory, its address).
    """

    def __init__(self, graph: Graph, made: Compiled) -> None:
        self.graph, self._made = graph, made
        self.names: dict[str, Any] = {}
        self.lines: Callable[[str], list[str]] | None = None
        self.takes: list[Callable[[], tuple[Any, Any, int]]] = []
        self._run = self._on_device
        program = made.program
        if program is not None and program.target == "cpu":
            self.takes = [shared_storage(t) for t in made.outputs]
            bound = made.loaded.bind([])
            self._run = self._in_steps
            if bound.whole:
                self.names, self.lines = bound.names, bound.lines
                self._run = self._whole(bound)

    def __call__(self, *arrays: Any) -> list[Any]:
        """Results for arrays of the device, the random state last."""
        return self._run(*arrays)

    def _on_device(self, *arrays: Any) -> list[Any]:
        if self._made.draws:
            return self._made.results(arrays[:-1], arrays[-1])
        return self._made.results(arrays)

    def _in_steps(self, *arrays: Any) -> list[Any]:
        results = [take()[0] for take in self.takes]
        self._made.loaded(arrays, results)
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
        text = f"def call({', '.join(f'a{k}' for k in range(count))}):\n" + "".join(f"    {line}\n" for line in lines)
        exec(code_of(text, f"{__file__}, eager kernel"), names)  # a file of ours, so that messages name the user's line
        call: Callable[..., list[Any]] = names.pop("call")
        return call


def eager_kernels(graphs: Sequence[Graph], device: Device) -> list[EagerKernel | None]:
    """The programs of operators' graphs, which are compiled side by side; None where there is no compiler."""
    backend = device.backend()
    if backend is None:
        return [None] * len(graphs)
    numeric = numeric_mode()
    made: list[Compiled] = []
    jobs: list[Compilation] = []
    sources: set[str] = set()
    with _building, ExitStack() as entered:
        for graph in graphs:
            operands = [n.type for n in graph.inputs if n.params["name"] != RANDOM_STATE]
            types = [tensor_type(tuple(map(int, t.shape)), t.dtype) for t in operands]
            dims = [nominal_shape(t.shape) for t in operands]
            identity = f"eager {backend.key()} {numeric} {dims} {graph}"
            lower = partial(_itself, graph)
            job = Compilation(lower, types, device, frozenset(), graph.name, "eager call", identity, numeric)
            jobs.append(entered.enter_context(job))
            if len(graphs) > 1 and job.source not in sources:  # kernels of another size would be compiled twice
                sources.add(job.source)
                job.start()
            if len(jobs) - len(made) > cpu_count():
                made.append(jobs[len(made)].finish())
        made += [job.finish() for job in jobs[len(made) :]]
    return [
        EagerKernel(graph, one) if one.program is not None else None for graph, one in zip(graphs, made, strict=True)
    ]


def _itself(graph: Graph, _: object) -> Graph:
    return graph
