# SPDX-License-Identifier: Apache-2.0
"""Records that the template of persistent kernels reads: steps, phases, sections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from ....core.dataclass import dataclass, field
from ..cuda.reduction_fields import cluster_dims
from ..kernel import Kernel, TemplateFields
from .grid_loops import GridLoop
from .prefetch import StagedOperand

__all__ = ["PersistentFields", "Phase", "Section", "Step"]


@dataclass(frozen=True)
class Step:
    """A kernel as a step of another.

    Attributes:
        kernel: what it would be by itself.
        phase: the phases before it; of those of a loop each counts once.
        arguments: C text of its arguments.
        blocks: C text of the number of its blocks.
        takes_grid: it is called once, with the blocks that there are, and takes what is left in a loop of its own.
        uses_pool: it has shared memory of known size, which lies over that of other steps.
        uses_shared: it has shared memory.
        idle_threads: there are threads beyond its own, which return at once.
        threads: its own.
        staged: what its blocks copy into shared memory before it begins (prefetch.py).
        function: its name (codegen/render.py).
    """

    kernel: Kernel
    phase: int
    arguments: str
    blocks: str
    takes_grid: bool
    uses_pool: bool
    uses_shared: bool
    idle_threads: bool
    threads: int
    staged: StagedOperand | None = None
    function: str = ""

    @property
    def shared(self) -> str:
        """C text of the last arguments: its pieces of shared memory."""
        pool = f", *reinterpret_cast<{self.function}_::Pool*>(pool)" if self.uses_pool else ""
        return pool + (f", held + {self.staged.offset}" if self.staged else "")


@dataclass(frozen=True)
class Phase:
    """Steps that do not depend on each other.

    Attributes:
        number: of the phases before it.
        steps: these.
        barrier: C text of the wait for the phase before it, '' for the first one.
        indent: what its lines begin with.
    """

    number: int
    steps: list[Step]
    barrier: str
    indent: str

    @property
    def first(self) -> str:
        """C text that declares the block at which a step begins."""
        return "unsigned int first" if len(self.steps) > 1 else "const unsigned int first"


@dataclass(frozen=True)
class Section:
    """Phases of a kernel with steps: those of a loop, or some around loops.

    Attributes:
        loop: what the grid goes through again and again, if it does.
        phases: in order.
    """

    loop: GridLoop | None
    phases: list[Phase]


@dataclass(frozen=True, kw_only=True)
class PersistentFields(TemplateFields):
    """A kernel whose steps are kernels.

    Attributes:
        threads: of a block.
        cluster: blocks of the only cluster, 0 for a cooperative grid.
        numbers: names of the runtime arguments.
        prefetched: (pointer, bytes) of arrays that are fetched into the second-level cache at once.
        steps: what it consists of, in the order in which they were scheduled.
        loops: loops, by the first phase of each.
        functions: texts of the steps' functions, each once (codegen/render.py).
    """

    template: ClassVar[str] = "cuda/graph.j2"
    threads: int
    cluster: int
    numbers: list[str]
    prefetched: list[tuple[str, str]]
    steps: list[Step]
    loops: dict[int, GridLoop]
    functions: list[str] = field(default_factory=list)

    @property
    def sections(self) -> list[Section]:
        """The phases, those of loops apart from those around them."""
        sections: list[Section] = []
        end = -1  # of the loop that a phase is in
        for at in range(1 + max(s.phase for s in self.steps)):
            loop = self.loops.get(at)
            if loop is not None or at >= end:
                if loop is not None or not sections or at == end:
                    sections.append(Section(loop, []))
                end = at + loop.depth if loop is not None else -1
            within = sections[-1].loop is not None
            barrier = self._wait if at else f"if (iteration > 0) {self._wait}" if within else ""
            steps = [s for s in self.steps if s.phase == at]
            sections[-1].phases.append(Phase(at, steps, barrier, "  " if within else ""))
        return sections

    @property
    def _wait(self) -> str:
        """C text of a barrier of all blocks."""
        return (
            "hg::cluster_sync();"
            if self.cluster > 1
            else "__syncthreads();"
            if self.cluster
            else "hg::grid_sync(arrived);"
        )

    @property
    def bounds(self) -> str:
        """C text of the launch's bounds and clusters."""
        return f"HG_BOUNDS_WIDE({self.threads}){cluster_dims(self.cluster)}"

    @property
    def counter(self) -> str:
        """C text of the parameter that a barrier of the grid counts in, '' if it needs none."""
        return "" if self.cluster else "unsigned int* const arrived, "

    @property
    def pools(self) -> list[str]:
        """C text of the sizes of the steps' shared memory, each once."""
        return list(dict.fromkeys(f"sizeof({s.function}_::Pool)" for s in self.steps if s.uses_pool))

    @property
    def staged(self) -> list[Step]:
        """The steps whose blocks copy what they multiply with before they begin."""
        return [s for s in self.steps if s.staged]

    def with_functions(self, names: Sequence[str], texts: list[str]) -> PersistentFields:
        """The same, with the functions' ``texts``, and the ``names`` of those of the steps."""
        steps = [replace(s, function=name) for s, name in zip(self.steps, names, strict=True)]
        return replace(self, steps=steps, functions=texts)
