# SPDX-License-Identifier: Apache-2.0
"""Records that the templates of matrix products read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, TypedDict

from ....core.dataclass import dataclass
from ...ir.dims import Dim
from ..blocks import Line
from ..kernel import FlatFields, Pointer, Statement, TemplateFields, address
from ..prologue import Loader

__all__ = [
    "BlockedMatmulFields",
    "ColumnSpan",
    "CpuMatmulFields",
    "CudaMatmulFields",
    "ElementFields",
    "MatmulInputs",
    "Matrix",
    "PatchFields",
]

_DYNAMIC = "hg::DYNAMIC"  #: in the place of a number that a product's function takes at run time


@dataclass(frozen=True)
class Matrix:
    """An operand: its pointer, the offset of the batch, strides along its two axes, in elements, and which are dynamic."""

    pointer: str
    offset: str
    first: int
    second: int
    dynamic: tuple[bool, bool] = (False, False)

    @property
    def address(self) -> str:
        return address(self.pointer, self.offset)

    @property
    def strides(self) -> tuple[str, str]:
        """C text of both strides in a function's name."""
        first, second = (
            _DYNAMIC if dynamic else str(n) for dynamic, n in zip(self.dynamic, (self.first, self.second), strict=True)
        )
        return first, second

    def with_dynamic(self, along: bool, across: bool) -> Matrix:
        """The same, whose stride is dynamic that steps over an axis of a dynamic extent.

        Args:
            along, across: whether the extents of its first and second axis are dynamic.
        """
        return replace(
            self, dynamic=(self.second == 1 != self.first and across, self.first == 1 != self.second and along)
        )

    def with_dims(self) -> Matrix:
        """The same, whose strides are dynamic that follow from dimensions, as over a batch between a sentence's words."""
        known = [type(stride) is Dim for stride in (self.first, self.second)]
        return replace(self, dynamic=(self.dynamic[0] or known[0], self.dynamic[1] or known[1]))


@dataclass(frozen=True)
class ColumnSpan:
    """Columns that one call of a product's function computes on the CPU: all of them, if none are made in panels.

    Attributes:
        begin, end: where such calls begin, and C text of where they end.
        columns: how many each computes, 0 where that is dynamic: up to ``step``.
        step: from one panel to the next.
        right: the right operand.
        panel: what is computed of it first, if anything.
        parameters: names of the row and the column that the function counts.
        places: the product's variables in terms of these.
    """

    begin: int
    end: str
    columns: int
    step: int
    right: Matrix
    panel: list[Line] | None
    parameters: tuple[str, str]
    places: list[Statement]


@dataclass(frozen=True, kw_only=True)
class CpuMatmulFields(TemplateFields):
    """A product on the CPU.

    Attributes:
        product: type and name of an element of the product.
        form, first: of its function's name, and the function's first parameter.
        batch: the loops over matrices, as (variable, extent).
        depth, terms: terms of a sum, 0 where that is dynamic, and C text of what is known at run time.
        left, range: the left operand, and C text of the rows that a call computes.
        rows, left_panel: what the loop over panels of it runs between and its step, and what such a panel is.
        spans: the calls.
        statements: the epilogue of an element.
        panels: there is one left operand for all, see passes/prepack_weights.py.
    """

    template: ClassVar[str] = "cpu/matmul.j2"
    product: tuple[str, str]
    form: str
    first: str
    batch: list[tuple[str, int]]
    depth: int
    terms: str
    left: Matrix
    range: str
    rows: tuple[str, str, str | int] | None
    left_panel: list[Line] | None
    spans: list[ColumnSpan]
    statements: list[Statement]
    panels: bool


@dataclass(frozen=True, kw_only=True)
class BlockedMatmulFields(TemplateFields):
    """A large product on the CPU, whose operands are copied in blocks.

    Attributes:
        product: type and name of an element of the product.
        batch: the loops over matrices, as (variable, extent).
        rows, columns: C text of those that a call computes, from and to.
        shape: C text of the members of an ``hg::Shape``.
        left, right: the operands.
        coordinates: names of an element's row and column.
        statements: the epilogue of an element.
    """

    template: ClassVar[str] = "cpu/matmul_blocked.j2"
    product: tuple[str, str]
    batch: list[tuple[str, int]]
    rows: str
    columns: str
    shape: str
    left: Matrix
    right: Matrix
    coordinates: tuple[str, str]
    statements: list[Statement]


class MatmulInputs(TypedDict):
    """The fields of :class:`CudaMatmulFields` that both forms fill in alike."""

    pointers: Sequence[Pointer]
    index_type: str
    product: tuple[str, str]
    threads: int
    batched: bool
    starts: list[str]
    loaders: list[Loader]
    depth: str
    statements: list[Statement]


@dataclass(frozen=True, kw_only=True)
class CudaMatmulFields(TemplateFields):
    """Fields that both forms of products on CUDA read.

    Attributes:
        index_type: of positions.
        product: type and name of an element of the product.
        threads: of a block.
        batched: there are several matrices.
        arguments: of the function's name.
        starts: C text of where a row of the left operand and a column of the right one begin.
        loaders: operands that are computed as they are loaded.
        depth: C text of the number of terms of a sum.
        coordinates: definitions of the variables of the batch, or of all.
        statements: the epilogue of an element.
    """

    index_type: str
    product: tuple[str, str]
    threads: int
    batched: bool
    arguments: list[str]
    starts: list[str]
    loaders: list[Loader]
    depth: str
    coordinates: list[Statement]
    statements: list[Statement]


@dataclass(frozen=True, kw_only=True)
class ElementFields(CudaMatmulFields, FlatFields):
    """A small product: a thread computes an element.

    Attributes:
        per_outer: elements for each value of the outermost variable.
    """

    template: ClassVar[str] = "cuda/matmul_element.j2"
    per_outer: int


@dataclass(frozen=True, kw_only=True)
class PatchFields(CudaMatmulFields):
    """A product whose blocks compute patches of some rows and columns.

    Attributes:
        form: the function of matmul_cuda.h.
        patch, blocks: rows and columns of a patch, and patches along either axis.
        lines, columns: C text of the number of rows, and columns of a matrix.
        layers, words: partial sums of an element, and those of a patch in shared memory, in elements.
        unroll: elements of the epilogue that a thread takes together.
        place: definitions of an element's row and column.
        right_type: of the right operand in memory.
    """

    template: ClassVar[str] = "cuda/matmul.j2"
    form: str
    patch: tuple[int, int]
    blocks: tuple[int, int]
    lines: str | int
    columns: int
    layers: int
    words: int
    unroll: int
    place: list[Statement]
    right_type: str

    @property
    def uses_pool(self) -> bool:
        return True

    @property
    def shared_bytes(self) -> int:
        return self.words * (8 if self.product[0] in ("double", "long long", "unsigned long long") else 4)
