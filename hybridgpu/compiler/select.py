# SPDX-License-Identifier: Apache-2.0
"""Selection: who computes each product, convolution and scatter, a generated kernel (of which kind) or a library, and why.

Passes, fusion, scheduling and reports ask here, and nobody else decides. A selection is a function of a node and the
target; :class:`Selector` remembers those of one compile. A later form of a graph keeps the selections of the earlier one
(:meth:`Selector.carry`): a copy of an operand changes how it lies, not who computes with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import TYPE_CHECKING, Literal

from ..core.dataclass import dataclass
from ..core.dtypes import f32
from .ir.dim_texts import report_text
from .ir.dims import nominal
from .passes.materialize import SCATTERS

if TYPE_CHECKING:
    from .devices.cpu import CpuConstants
    from .ir.graph import Node
    from .schedule.conv.bands import ConvShape
    from .target import Target

__all__ = ["Kind", "Selection", "Selector", "library_computes", "select"]

Kind = Literal["matmul", "conv", "conv_input_dilated", "conv_backward_filter", "scatter", "library"]

#: CPU: the share of a direct convolution's multiplications that counts, from which on it pays, …
_MIN_UTILIZATION = 0.4
_THIN_CHANNELS = 16  #: … or with so few channels, of which windows make products too thin, …
_MIN_THIN_UTILIZATION = 0.1  #: … the share where there are zeros between elements, which cost less then


@dataclass(frozen=True)
class Selection:
    """The choice of who computes a node: the kind of a generated kernel or 'library', and a reason ('' where there is no choice)."""

    kind: Kind
    reason: str = ""

    @property
    def generated(self) -> bool:
        return self.kind != "library"


class Selector:
    """The selections of one compile, each made once."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._selections: dict[Node, Selection] = {}

    def __call__(self, node: Node) -> Selection:
        selection = self._selections.get(node)
        if selection is None:
            selection = self._selections[node] = select(node, self.target)
        return selection

    def carry(self, sources: Mapping[Node, Node]) -> None:
        """Keep selections for a rewritten graph: node of it -> the node that it stands for."""
        self._selections.update({new: self(old) for new, old in sources.items()})

    def copied_planes(self, conv: Node) -> tuple[bool, bool] | None:
        """If the kernel of ``conv`` reads whole planes through views that permute: whether each operand is copied for it."""
        kind = self(conv).kind
        if kind == "conv_backward_filter":
            return False, False
        if kind != "conv" or self.target.device.loop_nests:
            return None
        from .schedule.conv.direct import swapped_planes

        planes = swapped_planes(conv)
        return planes and planes[0]

    def packed_outputs(self, conv: Node, is_free: bool) -> int:
        """The output channels of a block in which the weight of ``conv`` is packed best; 0 if it stays as it is.

        Args:
            is_free: the weight is packed once, or copied anyway; else packing it has to pay at every call.
        """
        from .schedule.conv.bands import packed_outputs, shape_of

        shape = shape_of(conv) if self.target.panels and self(conv).kind == "conv" and not conv.dtype.is_half else None
        return packed_outputs(shape, conv.dtype.size, is_free) if shape else 0


def select(node: Node, target: Target) -> Selection:
    """The selection for ``node``: whatever is no product, convolution or scatter, a library alone computes."""
    if node.prim.name == "dot":
        return _select_dot(node, target)
    if node.prim.name == "conv":
        return _select_conv(node, target)
    if node.prim.name in SCATTERS:
        return _select_scatter(node, target)
    # what a library computes together with a product or a convolution that was its own: for the same reason
    if node.prim.name == "gemm_bias":
        return Selection("library", _select_dot(node, target).reason)
    if node.prim.name == "conv_bias_act":
        return Selection("library", _select_conv(node, target).reason)
    if node.prim.name in ("conv_backward_filter", "conv_backward_data"):  # of a convolution that was a library's
        return Selection("library", "derivative of a convolution, from the layer's arrays as they lie")
    return Selection("library")


def library_computes(target: Target) -> Callable[[Node], bool] | None:
    """Whether a library computes a product or convolution on ``target``; None where its operands are no reason to keep them."""
    if not target.device.saves_library_operands:
        return None
    selector = Selector(target)
    return lambda node: not selector(node).generated


# -- products


def _select_dot(node: Node, target: Target) -> Selection:
    """On the CPU thin products are bound by reading the matrix once, small ones by the cost of a call; of what is larger
    the operands are copied, column by column or in blocks."""
    m, k = node.inputs[0].shape[-2:]
    if node.size == 0 or k == 0:
        return Selection("library", "it multiplies nothing")
    if not node.dtype.is_float:
        return Selection("matmul", "libraries multiply floats alone")
    if target.name != "cpu":
        return _select_dot_by_cost(node, target)
    cpu, work = target.cpu, node.size * k
    if m <= cpu.thin_rows:
        return Selection("matmul", f"{report_text(m)} {'row' if m == 1 else 'rows'}: bound by reading the matrix once")
    from .schedule.matmul.blocked import why_in_blocks

    why = why_in_blocks(node, target)
    if why:
        return Selection("matmul", f"in blocks: {why}")
    small = work if node.dtype.is_half else nominal(work)  # (else it decides about these words alone)
    if small <= cpu.small_product_ops:
        return Selection("matmul", f"{report_text(work, ',')} multiplications take less than copying the operands")
    if node.dtype.is_half:
        return Selection(
            "library", f"{report_text(work, ',')} multiplications of halves, more than {cpu.small_product_ops:,}"
        )
    return Selection("matmul", f"{report_text(work, ',')} multiplications, at most {cpu.tiled_product_ops:,}")


def _select_dot_by_cost(node: Node, target: Target) -> Selection:
    if not target.library_products:
        return Selection("matmul", "no library multiplies")
    from .schedule.matmul.config_cuda import kernel_and_library_seconds

    ours, theirs = kernel_and_library_seconds(target, node)
    return Selection("matmul" if ours - theirs <= 0 else "library", _compared(ours, theirs))


def _compared(ours: float, theirs: float) -> str:
    return f"by the model {ours * 1e6:,.1f} us in a kernel, {theirs * 1e6:,.1f} us in a library"


# -- convolutions


def _select_conv(node: Node, target: Target) -> Selection:
    from .schedule.conv.bands import shape_of

    shape = shape_of(node)
    if target.name == "cpu":
        return _select_conv_of_cpu(node, shape, target.cpu)
    return _select_conv_of_gpu(node, shape, target.gpu.direct_conv_ops)


def _select_conv_of_gpu(node: Node, shape: ConvShape | None, most: int) -> Selection:
    if shape is None:
        return Selection("library", "more than three spatial axes")
    if node.size == 0 or shape.work == 0:
        return Selection("library", "it multiplies nothing")
    if shape.work > most:  # of this size, whatever came first: bits follow from it
        return Selection("library", f"{report_text(shape.work, ',')} multiplications, more than {most:,}")
    return Selection("conv", f"direct kernel: {report_text(shape.work, ',')} multiplications, at most {most:,}")


def _select_conv_of_cpu(node: Node, shape: ConvShape | None, cpu: CpuConstants) -> Selection:
    from .schedule.conv.backward_filter import filter_gradient_of
    from .schedule.conv.bands import band_of
    from .schedule.conv.input_dilated import phases_of

    if node.size and filter_gradient_of(node) is not None:
        return Selection("conv_backward_filter", "derivative by a weight")
    if shape is None or node.size == 0 or shape.work == 0:
        return Selection("library", _why_im2col(node, shape))
    if node.dtype.short in ("f32", "f64") and phases_of(shape, node.dtype.size) is not None:
        return Selection("conv_input_dilated", f"{prod(shape.base)} phases without the zeros between elements")
    # bands of halves are read as they lie: the pass promote_half_convs asks again with float32
    band = None if node.dtype.is_half else band_of(shape, node.dtype.size)
    if band is not None:
        # a wasteful kernel still beats the calls of a library where there is little to do
        zeros = prod(shape.base)
        useful = band.utilization / zeros
        if (
            useful >= _MIN_UTILIZATION
            or (zeros > 1 and shape.inputs <= _THIN_CHANNELS and useful >= _MIN_THIN_UTILIZATION)
            or shape.work / useful <= cpu.wasteful_conv_ops  # of this size, whatever came first: bits follow from it
        ):
            return Selection("conv", f"direct kernel: {useful:.0%} of what it computes counts")
    return Selection("library", _why_im2col(node, shape))


def _why_im2col(node: Node, shape: ConvShape | None) -> str:
    """Why the CPU unfolds a convolution, for a product."""
    from .schedule.conv.backward_filter import filter_gradient, why_no_kernel
    from .schedule.conv.bands import band_of

    reason = ""
    if prod(node.inputs[1].shape[2:]) > node.size // max(1, prod(node.shape[:2])):
        reason = why_no_kernel(filter_gradient(shape, ()), node.dtype)
    band = None if shape is None else band_of(shape, max(node.dtype.size, f32.size))  # halves would be widened
    if reason:
        pass
    elif shape is None:
        reason = "more than three spatial axes"
    elif band is None:
        reason = "no band of rows fits the cache"
    else:
        reason = f"{band.utilization / prod(shape.base):.0%} of what a kernel computes would count"
    return f"unfolded, for a product: {reason}"


# -- scatters


def _select_scatter(node: Node, target: Target) -> Selection:
    """The selection of a scatter: a kernel that adds in the order of the updates has the same results in every run."""
    adds = node.prim.name != "scatter_set"
    if adds and node.dtype.kind == "b":
        return Selection("library", "truth values are no sum")
    if node.size == 0 or node.inputs[-2].size == 0:
        return Selection("library")
    if not adds:
        return Selection("scatter", "replaces rows in the order of the updates")
    if target.name == "cpu":  # the pass promote_half_scatters makes sums of halves sums of floats
        return Selection("library" if node.dtype.is_half else "scatter", "")
    if node.dtype.is_float and target.numeric == "strict":
        return Selection("scatter", "in any other order sums would differ from run to run")
    from .passes.reductions.scatter_cost import choose_config, estimate_library_seconds, scatter_workload

    work = scatter_workload(node)
    ours, theirs = choose_config(work, target).seconds, estimate_library_seconds(work, target)
    kind: Kind = "scatter" if ours <= target.gpu.library_scatter_gain * theirs else "library"
    return Selection(
        kind,
        f"{work.updates:,} updates: by the model {ours * 1e6:.0f} us in a kernel, {theirs * 1e6:.0f} us in a library",
    )
