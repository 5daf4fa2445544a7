# SPDX-License-Identifier: Apache-2.0
"""The kernel of a scalar program: what follows from the program and its writer alone is filled in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypedDict

from ..ir.graph import Node
from .choice import Choice
from .kernel import CWriter, Kernel, Launch, StageableColumns, TemplateFields, headers, summary
from .traffic import bytes_of, elements_read

if TYPE_CHECKING:
    from typing_extensions import Unpack  # which checkers know without the package; in typing from Python 3.11 on

    from .matmul.config_cuda import MatmulConfig

__all__ = ["TargetOptions", "kernel_of_program"]


class TargetOptions(TypedDict, total=False):
    """Fields of Kernel that the targets fill in, each some of them."""

    launch: Launch | None
    reread_bytes: int
    matmul_config: MatmulConfig | None
    stageable_columns: StageableColumns | None
    compile_cost: int
    chunk_multiple: int
    most_chunks: int
    library: tuple[str, ...]


def kernel_of_program(
    writer: CWriter,
    kind: str,
    members: list[Node],
    fields: TemplateFields,
    choice: Choice,
    extents: tuple[int, ...],
    more_headers: Iterable[str] = (),
    outputs: list[Node] | None = None,
    whole: Sequence[Node] = (),
    also: Sequence[dict[Node, int]] = (),
    in_place: Sequence[tuple[Node, Node]] = (),
    **more: Unpack[TargetOptions],
) -> Kernel:
    """The kernel of ``writer.program``, whose text ``writer`` has printed.

    Args:
        kind, members, fields, choice, extents: as for Kernel.
        more_headers: files that it needs beside those of its scalars.
        outputs: the results, by default what the program stores.
        whole, also: arrays that are read besides, as for :func:`elements_read`.
        in_place, more: as for Kernel.
    """
    program = writer.program
    outputs = [s.node for s in program.stores] if outputs is None else outputs
    counts = elements_read(program, whole, also)
    return Kernel(
        kind=kind,
        summary=summary(members),
        fields=fields,
        inputs=writer.inputs,
        outputs=outputs,
        extents=extents,
        headers=tuple(dict.fromkeys((*headers(program), *more_headers))),
        members=members,
        choice=choice,
        bytes_read=bytes_of(counts) + more.get("reread_bytes", 0),
        bytes_written=sum(n.type.nbytes for n in outputs),
        in_place=in_place,
        elements_read=counts,
        runtime_args=writer.runtime_args,
        **more,
    )
