# SPDX-License-Identifier: Apache-2.0
"""The cost of a graph in an array library, primitive by primitive, and what one compiled program would save.

Eager operators ask this once for each of their types, executors for their graphs: the answer decides who computes an operator
in this process and in every other one, so it follows from the graph and from the kind of device alone, never from a measurement.
"""

from __future__ import annotations

from enum import Enum, auto
from math import prod

from ..core.dtypes import f32
from .devices.array_library import ARRAY_LIBRARIES, NumpyConstants
from .ir.graph import Graph, Node

__all__ = ["KernelKind", "interpreted_seconds", "kernel_kind"]

MIN_ELEMENTS = 512  #: of the largest array: programs with very many signatures, such as tests, have small ones
_FASTER = 1.6  #: times faster that it has to be, besides

_FEW_ROWS = 32  #: of a matrix product that kernels compute better than libraries
_ONE_PASS = 8  #: operations of an element that cost no more than to read it

#: what a library computes either way
_LIBRARY = frozenset({"library", "contract", "leaf", "sort"})
#: views that move nothing by themselves
_FREE = frozenset({"reshape", "broadcast", "slice", "round_to"})
#: whose kernels have extents as literals, so that other sizes do not share them
_LITERAL = frozenset({"contract", "conv", "loop"})


class KernelKind(Enum):
    """The program of an eager operator that pays: NONE, one for its types alone, or one whose kernels serve other sizes, too."""

    NONE = auto()
    ONE_SIZE = auto()
    ANY_SIZE = auto()


def kernel_kind(graph: Graph, device: str) -> KernelKind:
    """The program that saves enough for what making it costs.

    Args:
        graph: as it would be evaluated, simplified.
        device: 'cpu' or 'cuda'.
    """
    if max((n.size for n in graph.nodes), default=0) < MIN_ELEMENTS:
        return KernelKind.NONE
    library = ARRAY_LIBRARIES[device]
    if library.owns_convolutions and any(n.prim.family == "conv" for n in graph.nodes):
        return KernelKind.NONE
    thin = library.slow_thin_products
    computing = [n for n in graph.nodes if n.prim.family not in _LIBRARY or (thin and _has_few_rows(n))]
    moved = [n for n in computing if n.prim.name not in _FREE]
    alone = len(moved) == 1 and moved[0].prim.family == "elementwise" and moved[0].prim.cost <= _ONE_PASS
    if alone and not (library.slow_functions and _is_slow_alone(moved[0])):
        return KernelKind.NONE  # the array library has one function for it that takes what memory takes
    uses = graph.uses()
    apart = 0.0
    for n in computing:
        read = uses[n]
        apart += _seconds(n, library, not read or any(m.prim.family != "contract" for m in read) or n in graph.outputs)
    operations = sum(n.prim.cost * n.size for n in computing if n.prim.family == "elementwise")
    together = library.program_seconds + operations * library.program_op_seconds
    together += sum(n.type.nbytes for n in (*graph.inputs, *graph.outputs)) * library.program_byte_seconds
    together += sum(map(_multiply_adds, computing)) * library.program_product_seconds
    saved = apart - together
    if apart <= _FASTER * together:
        return KernelKind.NONE
    if saved > library.saved_seconds and not alone:  # whose kernels are the same for all sizes
        return KernelKind.ONE_SIZE
    literal = any(n.prim.family in _LITERAL for n in graph.nodes)
    shared = not literal and saved > library.saved_any_size_seconds
    return KernelKind.ANY_SIZE if shared else KernelKind.NONE


def interpreted_seconds(graph: Graph, device: str) -> float:
    """Seconds of the array library for a graph that runs primitive by primitive; ``device`` as for ``kernel_kind``."""
    library = ARRAY_LIBRARIES[device]
    return sum((_seconds(n, library) for n in graph.nodes if n.prim.family != "leaf"), 0.0)


def _seconds(node: Node, library: NumpyConstants, strided: bool = True) -> float:
    """Seconds of the array library for a node; ``strided``: whether others than matrix products read a transposed one."""
    name, family, call = node.prim.name, node.prim.family, library.call_seconds
    size = max([node.size, *(i.size for i in node.inputs)])
    if family == "view":
        if name in _FREE or (name == "transpose" and not strided):
            return 0.0
        return call + size * (library.strided_seconds if name == "transpose" else library.element_seconds)
    if node.prim.series:
        call += library.series_seconds
    half = library.half_seconds * size if node.dtype.size == 2 and node.dtype.is_float else 0.0
    if family == "elementwise":
        return call + size * (library.element_seconds + library.element_op_seconds * node.prim.cost) + half
    if family == "reduce":
        return call + library.reduction_seconds + size * library.element_seconds + half
    if family == "loop":
        body: Graph = node.params["body"]
        inside = sum(_seconds(n, library) for n in body.nodes if n.prim.family != "leaf")
        return float(node.params["length"] * (inside + 3 * call))
    if family == "random":
        call += library.random_seconds
    if family == "contract":
        return call + _multiply_adds(node) * library.dot_seconds
    if family == "conv":
        return 4 * call + _multiply_adds(node) * library.conv_seconds
    return 4 * call + size * library.gathered_seconds + half


def _is_slow_alone(node: Node) -> bool:
    """Whether NumPy takes far longer for an elementwise primitive of few operations than memory does.

    Not where kernels round or sign zeros otherwise, so that results would depend on the size: float64 becomes a half by way of
    float32 in them, and of two zeros a maximum of halves is another one.
    """
    dtypes = node.dtype, node.inputs[0].dtype
    if node.prim.name == "cast":
        return dtypes[0].is_half != dtypes[1].is_half and f32 in dtypes
    return node.prim.numpy_slow and not node.dtype.is_half


def _has_few_rows(node: Node) -> bool:
    """Whether it is a matrix product that kernels compute better than libraries."""
    return node.prim.name == "dot" and node.ndim == 2 and node.shape[0] <= _FEW_ROWS and node.dtype.is_float


def _multiply_adds(node: Node) -> int:
    """Multiplications and additions of a convolution or a matrix product."""
    if node.prim.family == "contract":
        return node.size * node.inputs[0].shape[-1]
    if node.prim.family != "conv":
        return 0
    weight = node.inputs[1]
    return node.size * prod(weight.shape[1:])
