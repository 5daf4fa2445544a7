# SPDX-License-Identifier: Apache-2.0
"""Generated matrix products, with prologues and epilogues.

The loops live in ``kernels/matmul_*.h``; a template passes them the strides and a lambda that
receives each element of the product and stores the results of the epilogue. On the CPU there are two
forms, by the operand that is read most: *dots*, where the right matrix is contiguous along the summed
axis (the weight of a dense layer), and *axpy*, where it is contiguous along the columns. Those of a GPU
are chosen in ``config_cuda``.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...ir.graph import Node
from ...ir.indexing import Var
from ...passes.fuse.group import Group
from ...target import Target
from ..index_set_splitting import outer_breakpoint_axis
from ..kernel import CWriter, Kernel
from ..scalar import ScalarProgram
from .cpu import cpu_kernel
from .product import Product

__all__ = ["schedule_matmul"]


def schedule_matmul(
    program: ScalarProgram,
    dot: Node,
    target: Target,
    members: list[Node],
    prologues: Mapping[int, Group] | None = None,
) -> Kernel:
    """The kernel of a group around ``dot``; ``program.vars`` are the product's axes above extent 1.

    Args:
        prologues: position of an operand -> the group that says how to compute it.
    """
    writer = CWriter(target, program, allows_dynamic=True)
    writer.split_axis = outer_breakpoint_axis(program)
    if len(dot.shape) == 2:
        writer.delinearized_axes = tuple(v for v in program.vars if v.name == "i0")
    axis_of = {v.name: v for v in program.vars}
    *batch, m, n = (axis_of.get(f"i{k}", Var(f"i{k}", 1)) for k in range(dot.ndim))
    k = Var("k", dot.inputs[0].shape[-1])
    product = Product(members, program, dot, writer, batch, m, n, k, dict(prologues or {}), [], [], [])
    if target.name == "cpu":
        return cpu_kernel(product, target)
    from .cuda import cuda_kernel

    return cuda_kernel(product, target)
