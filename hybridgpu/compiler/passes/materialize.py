# SPDX-License-Identifier: Apache-2.0
"""Materialization: copies where a view needs memory of its own.

Inside kernels views are free. But an output, or an operand of a library call, must lie in memory
in row-major order: there this pass puts an explicit ``copy``, which fusion then merges with
whatever computes the elements.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...core.dataclass import dataclass
from ..ir.graph import Builder, Graph, Node
from ..ir.indexing import Expr, Var, linearize, of_var, view_operands
from ..primitives import TABLE
from ..primitives.conv import is_forward
from ..primitives.packed_weight import pack, packed_weight
from ..primitives.views import PERMUTING_VIEWS, RESHAPES, strip_views
from ..size_buckets import bucket

if TYPE_CHECKING:
    from ..pass_context import PassContext

__all__ = [
    "PRODUCTS",
    "SCATTERS",
    "Materialized",
    "as_strided",
    "batch_channel_swapped",
    "is_fusible",
    "matrix_strides",
    "memory_behind",
    "readable_without_copy",
    "run",
]

PRODUCTS = ("dot", "gemm_bias")  #: primitives that take their first two operands strided
_FEW_ROWS = 256  #: bucket of the rows of a product whose right operand is rather copied in the order of the sum (CPU)
#: primitives that write at computed positions; their last operands are what is written, and where
SCATTERS = ("scatter_add", "scatter_along", "scatter_set")


@dataclass(frozen=True)
class Materialized:
    """A graph whose outputs all compute.

    Attributes:
        source: without the copies; the types of its outputs are those that they are seen under.
        generated: the products, convolutions and scatters that kernels compute.
        sources: the node of the graph before for which each product, convolution and scatter stands.
    """

    source: Graph
    graph: Graph
    generated: frozenset[Node]
    sources: Mapping[Node, Node]


def is_fusible(node: Node) -> bool:
    """True for what generated kernels alone compute, by index expressions over views."""
    return node.prim.family in ("elementwise", "reduce") or node.prim.name in ("take", "take_along")


def as_strided(node: Node) -> tuple[Node, list[Var], Expr] | None:
    """A view as strides over memory: the node in memory, one variable an axis, the element offset.

    None if the view's positions are no sum of its index times strides (or it is padded, joined or narrowed).
    """
    variables = [Var(f"d{k}", d) for k, d in enumerate(node.shape)]
    index = tuple(map(of_var, variables))
    while node.prim.family == "view":
        if (
            node.prim.name == "reshape" and strip_views(node, RESHAPES).prim.family != "view"
        ):  # positions in memory are the same
            offset, node = linearize(index, node.shape), strip_views(node, RESHAPES)
            break
        parts = view_operands(node, index)
        if node.prim.name == "round_to" or len(parts) != 1 or parts[0].conditions:
            return None
        node, index = parts[0].node, parts[0].index
    else:
        offset = linearize(index, node.shape)
    if (node.prim.family == "leaf" and node.prim.name != "input") or not offset.affine:
        return None
    return node, variables, offset


def matrix_strides(operand: Node) -> tuple[int, int] | None:
    """Strides of the last two axes in memory, in elements; None where ``operand`` is no strided view."""
    strided = as_strided(operand)
    if strided is None:
        return None
    _, variables, offset = strided
    return offset.coefficient(variables[-2]), offset.coefficient(variables[-1])


def batch_channel_swapped(conv: Node, operand: Node) -> Node | None:
    """The node in memory of which an operand of a library's convolution is a view with the first two axes exchanged.

    Gradients of weights are convolutions of such views, and libraries take what is behind them: channels of samples
    change places with samples of channels, so that copies of both operands would be turned back. None for other
    operands, and for what a layer computes, whose operand a library wants as it is.
    """
    if conv.prim.name != "conv" or is_forward(conv.inputs[1].shape, conv.shape, conv.params) or operand.ndim < 3:
        return None
    strided = None if readable_without_copy(conv, 0, operand) else as_strided(operand)
    if strided is None or strided[0].size != operand.size or strided[2].const:
        return None
    node, variables, offset = strided
    inner = operand.type.strides
    strides = [inner[1], operand.shape[0] * inner[1], *inner[2:]]
    fits = all(offset.coefficient(v) == s or v.extent == 1 for v, s in zip(variables, strides, strict=True))
    return node if fits else None


def run(graph: Graph, ctx: PassContext) -> Graph:
    """``graph`` with copies for outputs and library operands, of which ``ctx.materialized`` tells.

    The kernel of a dot takes strided operands, and that of some convolutions whole planes through views that permute.
    """
    b = Builder(TABLE)
    new: dict[Node, Node] = {}
    kernels: set[Node] = set()
    sources: dict[Node, Node] = {}
    for node in graph.inputs:
        new[node] = b.input(node.type, node.params["name"])
    for node in graph.nodes:
        if node in new:
            continue
        b.prov = node.prov
        selected = node.prim.name in ("dot", "conv", *SCATTERS)
        generated = selected and ctx.generates(node)
        new[node] = b.reapply(node, _operands(b, node, [new[i] for i in node.inputs], ctx, generated))
        if generated:
            kernels.add(new[node])
        if generated or node.prim.name in PRODUCTS:
            sources[new[node]] = node
        elif selected:
            sources.setdefault(new[node], node)
    outputs: dict[Node, None] = {}
    copies: dict[Node, int] = {}
    for o in graph.outputs:
        node = strip_views(new[o], RESHAPES)
        b.prov = new[o].prov
        if node.prim.family in ("view", "leaf") or node in outputs:
            node = _copy(b, new[o], again=int(node in outputs))
            while node in outputs:  # each from the same memory: a copy of a copy would wait for it
                copies[new[o]] = copies.get(new[o], 0) + 1
                node = _copy(b, new[o], again=copies[new[o]])
        outputs[node] = None
    finished = b.finish(list(outputs), graph.name)
    nodes = set(finished.nodes)
    materialized = Materialized(
        graph,
        finished,
        frozenset(kernels & nodes),
        {n: old for n, old in sources.items() if n in nodes},
    )
    ctx.materialized = materialized
    ctx.select.carry(materialized.sources)
    return finished


def _operands(b: Builder, node: Node, inputs: list[Node], ctx: PassContext, generated: bool) -> list[Node]:
    """``inputs`` of ``node``, copied where what computes it cannot read them where they are.

    Args:
        generated: a kernel computes the product, convolution or scatter.
    """
    name, device = node.prim.name, ctx.target.device
    if name in PRODUCTS:
        inputs = [i if readable_without_copy(node, k, i, generated) else _copy(b, i) for k, i in enumerate(inputs)]
        # (few rows: a kernel of blocks reads the right operand along the sum, and copies the left one)
        turned = 2 if not generated or (device.loop_nests and bucket(node.shape[-2]) <= _FEW_ROWS) else 1
        return [*(_transposed_copy(b, i) for i in inputs[:turned]), *inputs[turned:]]
    if generated and name == "conv":
        copied = ctx.select.copied_planes(node)
        if copied is not None:
            pairs = zip(inputs, copied, strict=True)
            return [_swapped_copy(b, i) if copy else _materialize_source(b, i) for i, copy in pairs]
        if not device.loop_nests:
            return [i if readable_without_copy(node, k, i) else _copy(b, i) for k, i in enumerate(inputs)]
        x, w = inputs
        is_read = [readable_without_copy(node, k, i, True) for k, i in enumerate(inputs)]
        block = 0 if packed_weight(node, w) else ctx.select.packed_outputs(node, is_free=not is_read[1])
        if block:
            w = pack(b, w, block)
        elif not is_read[1]:
            w = _copy(b, w)
        return [x if is_read[0] else _copy(b, x), w]
    if generated:
        table, *rest = inputs
        if name == "scatter_set" and table.prim.name != "full" and not readable_without_copy(node, 0, table):
            return [_copy(b, table), *rest]
        return inputs
    # what kernels compute reads views through index expressions; a library needs memory
    if node.prim.family in ("view", "leaf") or is_fusible(node):
        return inputs
    swaps = device.library_swaps_axes
    return [
        i if readable_without_copy(node, k, i) else _library_operand(b, node, i, swaps) for k, i in enumerate(inputs)
    ]


def readable_without_copy(node: Node, k: int, operand: Node, generated: bool = False) -> bool:
    """True if operand ``k`` of a product, a convolution or a library's primitive can be read where it is.

    Args:
        operand: what stands there, a view or a value.
        generated: a kernel computes the product, or (of loops, which reads packed weights) the convolution.
    """
    if node.prim.name in PRODUCTS and k < 2:
        return _dot_can_read(operand, generated)
    if generated and node.prim.name == "conv" and k == 1 and packed_weight(node, operand):
        return True
    return _has_memory(strip_views(operand, RESHAPES))


def memory_behind(node: Node, k: int, operand: Node, generated: bool = False) -> Node:
    """The node in memory where ``operand`` is read; the arguments are those of :func:`readable_without_copy`."""
    if not readable_without_copy(node, k, operand, generated):
        return operand
    packed = packed_weight(node, operand) if generated and node.prim.name == "conv" and k == 1 else None
    if packed:
        return packed[0]
    view = as_strided(operand)
    return view[0] if view is not None else strip_views(operand, RESHAPES)


def _has_memory(node: Node) -> bool:
    return node.prim.family not in ("view", "leaf") or node.prim.name == "input"


def _library_operand(b: Builder, node: Node, view: Node, swaps: bool) -> Node:
    """``view`` as a library can read it: as it is, as a view of a copy in the order of what is behind it, or copied."""
    if not swaps:
        return _copy(b, view)
    if batch_channel_swapped(node, view) is not None:
        return view
    if view.prim.name == "transpose" and view.params["perm"] == (1, 0, *range(2, view.ndim)):
        turned = b.transpose(_copy(b, view.inputs[0]), view.params["perm"])
        if batch_channel_swapped(node, turned) is not None:  # as other convolutions want it
            return turned
    return _copy(b, view)


def _swapped_copy(b: Builder, node: Node) -> Node:
    """``node`` as a view of a copy whose two first axes are exchanged."""
    perm = (1, 0, *range(2, node.ndim))
    return b.transpose(_copy(b, b.transpose(node, perm)), perm)


def _materialize_source(b: Builder, node: Node) -> Node:
    """``node`` with what is behind its arranging views in memory: copied, if it is not there."""
    views = []
    while node.prim.name in PERMUTING_VIEWS:
        views.append(node)
        node = node.inputs[0]
    if not _has_memory(node):
        node = _copy(b, node)
    for view in reversed(views):
        node = b.apply(view.prim, (node,), view.params)
    return node


def _transposed_copy(b: Builder, operand: Node) -> Node:
    """The copy of a transposed matrix as a transposed copy: what is summed in a gradient is often the batch.

    Libraries read either, and often another product wants the matrix as it is.
    """
    source = operand.inputs[0] if operand.prim.name == "copy" else operand
    if operand is source or source.prim.name != "transpose" or source.params["perm"] != (1, 0):
        return operand
    return b.transpose(_copy(b, source.inputs[0]), (1, 0))


def _copy(b: Builder, node: Node, again: int = 0) -> Node:
    """A copy of ``node``, another one for each number ``again``."""
    return b.copy(node, **({"again": again} if again else {}))


def _dot_can_read(operand: Node, generated: bool) -> bool:
    """True if a dot can take ``operand`` as it is."""
    strided = as_strided(operand)
    if strided is None:
        return False
    if generated:
        return True
    return blas_layout(operand, strided) is not None


def blas_layout(operand: Node, found: tuple[Node, list[Var], Expr]) -> bool | None:
    """True if the matrices are stored transposed, False if not, None if BLAS cannot take them."""
    node, variables, offset = found
    if node.size != operand.size:  # part of an array: a library is given whole ones
        return None
    rows, columns = variables[-2:]
    by_row, by_column = offset.coefficient(rows), offset.coefficient(columns)
    if offset.const or any(offset.coefficient(v) < 0 for v in variables):
        return None
    strides = 1
    for v in reversed(variables[:-2]):  # batches must be packed
        if v.extent > 1 and offset.coefficient(v) != strides * rows.extent * columns.extent:
            return None
        strides *= v.extent
    if (by_column == 1 or columns.extent == 1) and (by_row == columns.extent or rows.extent == 1):
        return False
    if (by_row == 1 or rows.extent == 1) and (by_column == rows.extent or columns.extent == 1):
        return True
    return None
