# SPDX-License-Identifier: Apache-2.0
"""Make a Program of scheduled kernels and library calls: their order, their buffers, their texts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import accumulate
from math import trunc
from operator import mul
from typing import TYPE_CHECKING, Any

from .codegen.cpu_units import cpu_source
from .codegen.render import KernelText, kernel_text
from .ir.dims import nominal
from .ir.graph import Graph, Node
from .passes.fuse import Group
from .passes.fuse.group import label_pair
from .passes.materialize import PRODUCTS, as_strided, batch_channel_swapped, blas_layout
from .passes.memory.buffer_assignment import assign_buffers
from .passes.memory.buffer_donation import donate_buffers
from .passes.memory.step_order import StepBuffers, order_steps
from .primitives.views import RESHAPES, strip_views
from .program import Buffer, KernelInfo, KernelStep, LibraryStep, Program, Refusal
from .schedule.cpu.chunks import CHUNK_ROWS, chunk_size, either, one_thread_seconds
from .schedule.in_place import apply_in_place
from .schedule.kernel import Kernel, TemplateFields
from .schedule.schedule_groups import Scheduled
from .size_buckets import bucket_bytes, worth_argument
from .target import Target

if TYPE_CHECKING:
    from .pass_context import PassContext
    from .passes.concat.inplace_concat import BufferSlice

__all__ = ["assemble"]


def assemble(scheduled: Scheduled, ctx: PassContext) -> Program:
    """The program of kernels, of ``ctx.materialized``."""
    ready, target = ctx.materialized, ctx.target
    assert ready is not None
    source, graph = ready.source, ready.graph
    uses = [
        StepBuffers(k.inputs, k.outputs, k.in_place)
        if k
        else StepBuffers(*_library_nodes(g), library=g.concat_buffer is None)
        for g, k in scheduled
    ]
    placed = _concat_slices(graph)
    roots = {n: p.root for n, p in placed.items()}
    batches = {n.shape[0] for k, n in enumerate(graph.inputs) if n.ndim > 1 and k not in ctx.pinned_inputs}

    joined = _joined_batches(graph, batches)

    def nbytes(node: Node) -> int:
        return bucket_bytes(joined.get(node, node.shape), node.type.nbytes, batches)

    steps_in_order = order_steps(uses, frozenset((*graph.inputs, *graph.outputs)), roots=roots, nbytes=nbytes)
    scheduled, uses = [scheduled[k] for k in steps_in_order], [uses[k] for k in steps_in_order]
    updates = donate_buffers(graph, uses, ctx.donated)
    results = [k for k, n in enumerate(graph.outputs) if n not in updates]
    remaining = [graph.outputs[k] for k in results]
    parts = _ProgramBuilder(target)
    for k, node in enumerate(graph.inputs):
        parts.declare(node, "input", k)
    for k, node in enumerate(remaining):
        parts.declare(node, "output", k)
    parts.where.update({n: parts.where[argument] for n, argument in updates.items()})
    memory = assign_buffers((*graph.inputs, *updates), remaining, uses, target.device.in_place_bytes, roots, nbytes)
    for (group, kernel), use, pairs in zip(scheduled, uses, memory.in_place, strict=True):
        for node in use.outputs:
            root = roots.get(node, node)
            if root not in parts.where:
                parts.declare(root, *memory.locations[root])
            if root is not node:
                # a library takes any address
                start = placed[node].pointer_offset(target) if kernel is not None else placed[node].start
                parts.declare_slice(node, root, start * node.dtype.size)
        if group.concat_buffer is not None:
            continue  # its parts are where they belong
        joins = dict.fromkeys(_label(roots[n]) for n in use.outputs if n in roots)
        if joins and kernel is not None:
            kernel.choice = replace(kernel.choice, writes=f"writes its part of {' and '.join(joins)}")
        if kernel is None:
            parts.add_library_call(group, ctx, " and ".join(joins))
        else:
            parts.add_kernel(
                kernel, use, [*pairs, *((updates[y], y) for y in use.outputs if updates.get(y) in use.inputs)]
            )
    program = Program(
        name=source.name,
        target=target.name,
        inputs=[(n.shape, n.dtype.short) for n in graph.inputs],
        outputs=[(source.outputs[k].shape, source.outputs[k].dtype.short) for k in results],
        output_buffers=[parts.where[n] for n in remaining],
        buffers=parts.buffers,
        kernels=parts.kernels,
        steps=parts.steps,
        arena_bytes=memory.arena_bytes,
        peak_live_bytes=memory.peak_live,
        refusals=[Refusal(*label_pair(c.producer, c.consumer, _label), c.rule, c.reason) for c in ctx.refusals],
        graph=str(source),
        pinned_inputs=sorted(ctx.pinned_inputs),
        numeric=target.numeric,
        tf32=target.rounds_to_tf32,
        input_output_aliases=[(k, parts.where[updates[n]]) for k, n in enumerate(graph.outputs) if n in updates],
        launch_fusion_notes=ctx.launch_fusion_notes,
        passes=ctx.records,
    )
    if target.name == "cpu":
        cpu_source(program)
    return program


def _joined_batches(graph: Graph, batches: Collection[int]) -> dict[Node, tuple[int, ...]]:
    """Nodes whose first axis is a batch and axes after it in one, as the rows of a product are: the shapes with the batch
    by itself."""
    split_shapes: dict[Node, tuple[int, ...]] = {}
    for n in graph.nodes:
        if n.prim.name == "reshape":
            for node, apart in (n, n.inputs[0].shape), (n.inputs[0], n.shape):
                joins = node.ndim > 1 and node.shape[0] not in batches and apart[:1] and apart[0] in batches
                if joins and node.shape[0] in accumulate(apart, mul):
                    split_shapes[node] = apart
        elif n.ndim > 1:
            rows = next((i for i in n.inputs if i in split_shapes and i.shape[0] == n.shape[0]), None)
            if rows is not None:
                split_shapes[n] = split_shapes[rows]
    return split_shapes


def _concat_slices(graph: Graph) -> Mapping[Node, BufferSlice]:
    """The slices of concat buffers."""
    if all(n.prim.name != "concat_buffer" for n in graph.nodes):  # as in most graphs
        return {}
    from .passes.concat.inplace_concat import concat_slices

    return concat_slices(graph)


class _ProgramBuilder:
    """The buffers, kernels and steps of a program, as they are added.

    Attributes:
        where: the buffer of each node in memory.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self.buffers: list[Buffer] = []
        self.where: dict[Node, int] = {}
        self.kernels: list[KernelInfo] = []
        self._by_identity: dict[str, int] = {}
        self._texts: dict[Any, tuple[KernelText, TemplateFields]] = {}  # what a text follows from -> the text, fields
        self.steps: list[KernelStep | LibraryStep] = []

    def declare(self, node: Node, place: str, index: int) -> None:
        """Add the buffer of a node; ``place``, ``index``: as for Buffer."""
        self.where[node] = len(self.buffers)
        self.buffers.append(Buffer(place, index, node.shape, node.dtype.short, node.type.nbytes))

    def declare_slice(self, node: Node, root: Node, start: int) -> None:
        """Add the buffer of a part of the join ``root``, ``start`` bytes behind its begin."""
        whole = self.where[root]
        b = self.buffers[whole]
        self.where[node] = len(self.buffers)
        self.buffers.append(Buffer(b.space, b.index, node.shape, node.dtype.short, node.type.nbytes, start, whole))

    def add_kernel(self, kernel: Kernel, use: StepBuffers, pairs: Sequence[tuple[Node, Node]]) -> None:
        """Add the start of a kernel; ``pairs``: operands and the results that are written over them."""
        fields = kernel.fields
        apply_in_place(kernel, pairs)
        operators = list(dict.fromkeys(_origin(m) for m in kernel.members))
        chunk = chunk_size(kernel, self._target)
        in_chunks = not kernel.most_chunks and (
            (kernel.chunk_multiple > 0 and worth_argument(kernel.extents[0])) or nominal(chunk) > 0
        )
        if not (in_chunks or kernel.most_chunks):
            chunk = 0  # where this size alone has some: others have the same text
        if kernel.most_chunks:
            kernel.runtime_args.named(CHUNK_ROWS, either(chunk, max(1, kernel.extents[0])))
        number = self._number(kernel, fields, operators)
        first, choice = self.kernels[number], kernel.choice.report()
        bound = [self.where[n] for n in (*use.inputs, *use.outputs)]
        waits = kernel.launch is not None and kernel.launch.cooperative
        if waits:
            bound.append(self._barrier())
        self.steps.append(
            KernelStep(
                kernel=number,
                buffers=tuple(bound),
                extents=kernel.arguments,
                outputs=len(use.outputs) + waits,
                bytes_read=kernel.bytes_read,
                bytes_written=kernel.bytes_written,
                in_place=tuple((self.where[x], self.where[y]) for x, y in pairs),
                operators=() if operators == first.operators else tuple(operators),
                choice=None if choice == first.choice else choice,
                chunk=chunk,
                in_chunks=in_chunks,
                nanoseconds=trunc(one_thread_seconds(kernel, self._target) * 1e9),
            )
        )

    def _number(self, kernel: Kernel, fields: TemplateFields, operators: list[tuple[str, str, str]]) -> int:
        """The number of the kernel's text, which several starts may share; ``fields`` are those of all kernels like it."""
        args, aliased = kernel.runtime_args, tuple(p.aliased for p in kernel.fields.pointers)
        key = id(fields), aliased, tuple(args.values), args.definitions
        cached = self._texts.get(key)
        if cached is None:
            cached = self._texts[key] = kernel_text(kernel, self._target.numeric), fields  # which keep their id
        text, _ = cached
        if text.identity not in self._by_identity:
            self._by_identity[text.identity] = len(self.kernels)
            self.kernels.append(
                KernelInfo(
                    name=text.name,
                    kind=kernel.kind,
                    text=text.text,
                    headers=kernel.headers,
                    launch=asdict(kernel.launch) if kernel.launch else None,
                    operators=operators,
                    choice=kernel.choice.report(),
                    numeric=self._target.numeric,
                    compile_cost=kernel.compile_cost,
                    chunk_multiple=kernel.chunk_multiple,
                    library=kernel.library,
                )
            )
        return self._by_identity[text.identity]

    def _barrier(self) -> int:
        """The buffer on which blocks of kernels wait for each other: one for all, since these run one after another."""
        for k, b in enumerate(self.buffers):
            if b.space == "barrier":
                return k
        self.buffers.append(Buffer("barrier", 0, (1,), "u32", 4))
        return len(self.buffers) - 1

    def add_library_call(self, group: Group, ctx: PassContext, writes: str) -> None:
        """Add a library's call; ``writes``: the concat, as for LibraryStep."""
        node = group.library
        assert node is not None
        params = dict(node.params)
        inner = params.pop("body", None)  # of a loop: a program of its own
        operands = _library_operands(node)
        self.steps.append(
            LibraryStep(
                primitive=node.prim.name,
                params=params,
                inputs=tuple(self.where[n] for n, _, _ in operands),
                input_shapes=tuple(shape for _, shape, _ in operands),
                transposed=tuple(flag for _, _, flag in operands),
                output=self.where[node],
                operator=_origin(node),
                body=None if inner is None else ctx.compile_body(inner),
                note=ctx.select(node).reason,
                concat=writes,
            )
        )


def _origin(node: Node) -> tuple[str, str, str]:
    return tuple(node.prov) if node.prov else (node.prim.name, "", "")  # type: ignore[return-value]


def _label(node: Node) -> str:
    return node.prov.name or node.prov.op if node.prov else node.prim.name


def _library_operands(node: Node) -> list[tuple[Node, tuple[int, ...], bool]]:
    """For each operand of a library call: the node in memory, its shape there, and if two axes are exchanged."""
    if node.prim.name not in PRODUCTS:
        turned = [batch_channel_swapped(node, i) for i in node.inputs]
        return [
            (strip_views(i, RESHAPES), i.shape, False)
            if x is None
            else (x, (i.shape[1], i.shape[0], *i.shape[2:]), True)
            for i, x in zip(node.inputs, turned, strict=True)
        ]
    operands = []
    for operand in node.inputs[:2]:
        view = as_strided(operand)
        assert view is not None
        transposed = bool(blas_layout(operand, view))
        shape = operand.shape
        operands.append((view[0], (*shape[:-2], shape[-1], shape[-2]) if transposed else shape, transposed))
    return operands + [(strip_views(i, RESHAPES), i.shape, False) for i in node.inputs[2:]]


def _library_nodes(group: Group) -> tuple[list[Node], list[Node]]:
    assert group.library is not None
    return [node for node, _, _ in _library_operands(group.library)], [group.library]
