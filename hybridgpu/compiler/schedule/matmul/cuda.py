# SPDX-License-Identifier: Apache-2.0
"""Matrix products of a GPU, in the form that ``config_cuda`` chooses."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from ...ir.indexing import Var
from ...target import Target
from ..choice import Choice
from ..cuda.index_type import index_type
from ..kernel import (
    Kernel,
    Launch,
    StageableColumns,
    Statement,
    unravel,
    variables_of,
)
from ..prologue import (
    loader,
)
from .fields import (
    CudaMatmulFields,
    ElementFields,
    MatmulInputs,
    PatchFields,
)

if TYPE_CHECKING:
    from .config_cuda import MatmulConfig
from .product import COMPUTED, Product, epilogue_statements, lay_out_operands

__all__ = ["cuda_kernel"]


def cuda_kernel(p: Product, target: Target) -> Kernel:
    """The chosen form, and loaders of the operands that are made."""
    from .config_cuda import choose_config, dot_shape, loads_along_k

    writer, dot, m, n = p.writer, p.dot, p.m, p.n
    shape = dot_shape(dot)
    form = choose_config(target, shape)
    row, column = (Var("line", m.extent), Var("column", n.extent)) if form.rows else (m, n)
    lay_out_operands(p, row, column, constants=False)
    dynamic = shape.dynamic_k
    sums = loads_along_k(form)
    places = ("line", "column") if form.rows else (None, None)
    batch = [v for v in p.batch if v.extent > 1]
    statements = epilogue_statements(p)
    depth = f"(int){writer.runtime_args.named('depth', p.k.extent)}" if dynamic else str(p.k.extent)
    computed = {k: p.prologue_operand(k, sums[k]) for k in p.prologues}
    loaders = [
        loader(x, COMPUTED[k], writer, form.vectors[k], (m, n)[k], places[k], dynamic) for k, x in computed.items()
    ]
    sizes = [*(node.size for node in (*writer.inputs, dot)), *(s.extent_in_memory for s in p.program.stores)]
    used = variables_of(statements).union(p.start_variables, *(x.used for x in loaders))
    whole_type = index_type([p.program, *(x.program for x in computed.values())], sizes)
    both: MatmulInputs = {
        "pointers": p.pointers,
        "index_type": whole_type,
        "product": p.element,
        "threads": form.threads,
        "batched": bool(batch),
        "starts": p.starts,
        "loaders": loaders,
        "depth": depth,
        "statements": statements,
    }
    extents, launch = _grid(form, batch, m, n)
    fields: CudaMatmulFields
    if form.rows:
        at = (("line", m, f"e / {form.columns}"), ("column", n, f"e % {form.columns}"))
        fields = PatchFields(
            **both,
            arguments=[*_arguments(form), dot.dtype.compute],
            coordinates=[s for s in unravel(batch, "batch") if s.name in used],
            form=form.name,
            patch=(form.rows, form.columns),
            blocks=(-(-m.extent // form.rows), -(-n.extent // form.columns)),
            lines=m.extent if batch else "n0",
            columns=n.extent,
            layers=form.layers,
            words=form.words,
            unroll=max(1, min(4, form.rows * form.columns // form.threads)),
            place=[Statement("Index", v.name, f"{first} + {text}") for first, v, text in at if v.name in used],
            right_type=dot.inputs[1].dtype.storage,
        )
    else:
        fields = ElementFields(
            **both,
            arguments=[dot.dtype.compute, *_arguments(form)],
            coordinates=[s for s in unravel([*batch, m, n], "e") if s.name in used],
            per_outer=launch.scale,
        )
    stageable = None if batch or loaders or dynamic else _stageable_columns(p, form)
    return p.kernel(fields, _choice(form), extents, launch=launch, matmul_config=form, stageable_columns=stageable)


def _stageable_columns(p: Product, form: MatmulConfig) -> StageableColumns | None:
    """The columns of the right operand that a block reads, if they lie in one piece."""
    right, depth = p.operands[1], p.k.extent
    node = next(n for n, name in p.writer.pointers.items() if name == right.pointer)
    line = depth * node.dtype.size
    if form.name != "dots" or (right.first, right.second) != (1, depth):
        return None
    return StageableColumns(node, line, min(form.columns, p.n.extent) * line)


def _arguments(form: MatmulConfig) -> list[str]:
    return [str(a).lower() for a in form.arguments]


def _grid(form: MatmulConfig, batch: list[Var], m: Var, n: Var) -> tuple[tuple[int, ...], Launch]:
    """The extents, and one block a patch (or a thread an element)."""
    outer = batch[0].extent if batch else m.extent
    if not form.rows:
        extents = (outer,) if batch else (outer, outer)
        per_outer = prod(v.extent for v in (*batch, m, n)[1:])
        return extents, Launch(form.threads, extent=0, scale=per_outer, per_block=form.threads)
    down, across = -(-m.extent // form.rows), -(-n.extent // form.columns)
    if not batch:
        return (outer, down), Launch(form.threads, extent=1, scale=across, per_block=1)
    rest = prod(v.extent for v in batch[1:])
    return (outer,), Launch(form.threads, extent=0, scale=rest * down * across, per_block=1)


def _choice(form: MatmulConfig) -> Choice:
    """The numbers, and the form in words."""
    patch = f" {form.rows} x {form.columns}" if form.rows else ""
    shape = {"product_element": "an element a thread"}.get(form.name, f"{form.name}{patch}")
    return Choice(
        {
            "form": form.name,
            "rows": form.rows,
            "columns": form.columns,
            "threads": form.threads,
            "layers": form.layers,
            "vectors": list(form.vectors),
        },
        why=f"{shape}, about {form.seconds * 1e6:.1f} us",
    )
