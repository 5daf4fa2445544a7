# SPDX-License-Identifier: Apache-2.0
"""Grid loops: loops whose iterations are phases of a persistent kernel (CUDA).

A loop whose body consists of kernels need not come back to the host: the body's kernels become steps that the grid
plays again at every iteration, behind a barrier. What differs from iteration to iteration is where arrays begin: slices of operands
and of stacked results move on, a state is read where the iteration before wrote it, and what is not stacked goes to two
arrays by turns and at last to its place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....core.dataclass import dataclass, field
from ...ir.graph import Builder, Graph, Node
from ...primitives import TABLE
from ...primitives.loop import OutputSegment, layout
from ...primitives.views import RESHAPES, strip_views
from ...target import Target
from ..kernel import Kernel, Launch, Pointer, TemplateFields
from ..traffic import bytes_of, elements_read_by_all

__all__ = ["Body", "GridLoop", "Loop", "loop_kernel", "why_no_kernel"]

_ALIGNED = 16  #: bytes: kernels take arrays to begin at multiples of them

#: (body, target) -> its graph as kernels see it, and these, None for a library call
Body = Callable[[Graph, Target], tuple[Graph, list[Kernel | None]]]


@dataclass(frozen=True, eq=False)
class Loop:
    """A loop as what a kernel does again and again.

    Attributes:
        node: the loop.
        graph: its body.
        kernels: those of an iteration, in order.
        phases: for each the barriers of an iteration before it.
        operands: what the inputs of the body are, or are slices of, in memory.
        parts: number of a body's output -> where ``node`` holds it.
        double_buffers: number of a body's output that is not stacked -> arrays that hold it between iterations.
        temporaries: what kernels of an iteration hand to later ones.
    """

    node: Node
    graph: Graph
    kernels: list[Kernel]
    phases: list[int]
    operands: list[Node]
    parts: dict[int, OutputSegment]
    double_buffers: dict[int, list[Node]]
    temporaries: list[Node]

    @property
    def length(self) -> int:
        """Iterations."""
        return int(self.node.params["length"])

    @property
    def depth(self) -> int:
        """Phases of an iteration."""
        return 1 + max(self.phases)

    @property
    def scratch(self) -> list[Node]:
        """Arrays that nothing else reads."""
        return [*self.temporaries, *(n for spare in self.double_buffers.values() for n in spare)]


@dataclass
class GridLoop:
    """Loops that a kernel goes through side by side.

    Attributes:
        length: C text of the number of iterations.
        depth: phases of an iteration.
        backward: one of them begins with the last index, which is 'at'.
        pointers: definitions of what is worked out at every iteration.
    """

    length: str
    depth: int = 0
    backward: bool = False
    pointers: list[str] = field(default_factory=list)
    count: int = 0

    def add(self, loop: Loop, name: dict[Node, str], number: Callable[[int], str]) -> dict[Node, str]:
        """Take up a loop.

        Args:
            name: C text of a pointer to the beginning of an array.
            number: C text of a runtime argument.

        Returns:
            C text of a pointer to each array of the body.
        """
        params, graph = loop.node.params, loop.graph
        n, m, first = params["data"], params["states"], len(graph.outputs) - params["states"]
        at, before = ("at", "(at + 1)") if params["reverse"] else ("iteration", "(iteration - 1)")
        mark = f"_{self.count}" if self.count else ""
        place = name[loop.node]
        where = {x: name[x] for x in loop.temporaries}

        def begin(part: OutputSegment) -> str:
            return f"{place} + {number(part.begin)}" if part.begin else place

        def double_buffered(even: Node, odd: Node) -> str:
            return name[even] if even is odd else f"iteration % 2 ? {name[odd]} : {name[even]}"

        def pointer(x: Node, written: bool, text: str) -> None:
            where[x] = f"{'b' if written else 'a'}{len(where)}{mark}"
            self.pointers.append(f"{Pointer(where[x], x.dtype, written).type}* const {where[x]} = {text};")

        for k, x in enumerate(graph.inputs):
            source = name[loop.operands[k]]
            part, spare = loop.parts.get(k - n + first), loop.double_buffers.get(k - n + first, [])
            if k < n:
                pointer(x, False, f"{source} + {at} * {number(x.size)}")
            elif k >= n + m:
                where[x] = source
            elif loop.length == 1:
                pointer(x, False, source)
            elif part is not None and part.stacked:
                pointer(x, False, f"iteration == 0 ? {source} : {begin(part)} + {before} * {number(x.size)}")
            else:
                pointer(x, False, f"iteration == 0 ? {source} : {double_buffered(spare[-1], spare[0])}")
        for k, x in enumerate(graph.outputs):
            part, spare = loop.parts.get(k), loop.double_buffers.get(k, [])
            if part is not None and part.stacked:
                pointer(x, True, f"{begin(part)} + {at} * {number(x.size)}")
            elif part is None:
                pointer(x, True, double_buffered(spare[0], spare[-1]))
            elif loop.length == 1:
                pointer(x, True, begin(part))
            else:
                pointer(
                    x, True, f"iteration == {self.length} - 1 ? {begin(part)} : {double_buffered(spare[0], spare[-1])}"
                )
        self.depth, self.count = max(self.depth, loop.depth), self.count + 1
        self.backward |= params["reverse"]
        return where


def why_no_kernel(node: Node, graph: Graph, kernels: Sequence[Kernel | None]) -> str:
    """Why a loop cannot be a kernel, '' if it can; ``graph`` and ``kernels`` are those of its body."""
    params = node.params
    if params["guard"] >= 0:
        return "what it computes says if it goes on"
    if not kernels or None in kernels:
        return "a library computes part of an iteration"
    n = params["data"]
    moving = [x.type.nbytes for x in graph.inputs[:n]]
    for part in layout([x.type for x in graph.outputs], params):
        moving.append(part.begin * node.dtype.size)
        if part.stacked:
            moving.append(graph.outputs[part.position].type.nbytes)
    if any(m % _ALIGNED for m in moving):
        return f"slices of its arrays are no multiples of {_ALIGNED} bytes"
    return ""


def loop_kernel(node: Node, graph: Graph, kernels: Sequence[Kernel], phases: list[int]) -> Kernel:
    """A loop as a kernel of kind loop, which is part of one of kind graph before it is written.

    Args:
        phases: for each kernel of an iteration the barriers before it.
    """
    params = node.params
    m, length = params["states"], params["length"]
    first = len(graph.outputs) - m
    parts = {p.position: p for p in layout([x.type for x in graph.outputs], params)}
    spares: dict[int, list[Node]] = {}
    for k in range(first, len(graph.outputs)):
        part = parts.get(k)
        if part is None or not part.stacked:  # the last value of what is wanted goes to its place
            count = min(2, length - (part is not None))
            spares[k] = [Builder(TABLE).input(graph.outputs[k].type, f"spare{j}") for j in range(count)]
    written = dict.fromkeys(x for k in kernels for x in k.outputs)
    passed = [x for x in written if x not in set(graph.outputs)]
    operands = [strip_views(i, RESHAPES) for i in node.inputs]
    loop = Loop(node, graph, list(kernels), phases, operands, parts, spares, passed)
    outputs = [node, *loop.scratch]
    threads = max(k.launch.threads for k in kernels if k.launch)
    shared = max(k.launch.shared for k in kernels if k.launch)
    counts = _elements_read(loop)
    return Kernel(
        kind="loop",
        summary="loop",
        fields=TemplateFields(pointers=()),
        inputs=list(dict.fromkeys(operands)),
        outputs=outputs,
        extents=(),
        headers=tuple(dict.fromkeys(h for k in kernels for h in k.headers)),
        members=[x for k in kernels for x in k.members],
        launch=Launch(threads, extent=0, scale=1, per_block=1, shared=shared),
        bytes_read=bytes_of(counts),
        bytes_written=sum(x.type.nbytes for x in outputs),
        elements_read=counts,
        loop=loop,
    )


def _elements_read(loop: Loop) -> dict[Node, int]:
    """Elements of each array that a loop reads, those that it reads again not counted."""
    graph, length, params = loop.graph, loop.length, loop.node.params
    n, first = params["data"], len(graph.outputs) - params["states"]
    read = elements_read_by_all(loop.kernels)
    elements: dict[Node, int] = {}

    def add(x: Node, count: int) -> None:
        if count:
            elements[x] = min(x.size, elements.get(x, 0) + count)

    for k, x in enumerate(graph.inputs):
        add(loop.operands[k], read.get(x, 0) * (length if k < n else 1))
    for k, x in enumerate(graph.outputs):
        later = read.get(graph.inputs[k - first + n], 0) if k >= first else 0
        now = read.get(x, 0)
        part = loop.parts.get(k)
        if part is not None and part.stacked:
            add(loop.node, (length - 1) * max(now, later) + now)
        else:
            for j, spare in enumerate(loop.double_buffers[k]):
                add(spare, max(now, later if j < length - 1 else 0))
            if part is not None:
                add(loop.node, now)
    for x in loop.temporaries:
        add(x, read.get(x, 0))
    return elements
