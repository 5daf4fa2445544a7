# SPDX-License-Identifier: Apache-2.0
"""Records that the templates of CUDA's elementwise kernels read."""

from __future__ import annotations

from typing import ClassVar

from ....core.dataclass import dataclass, field
from ..kernel import Statement, TemplateFields, variables_of

__all__ = ["LinearPart", "MapFields", "PartBody", "RowPart", "SharedTile", "TiledPart", "VectorAccess"]

_MAX_SHARED_ELEMENT = 8  #: bytes of an element in shared memory, at most


@dataclass(frozen=True)
class VectorAccess:
    """Neighbouring elements that travel in one access: a variable of the text, its element type, and where they lie."""

    name: str
    type: str
    address: str
    variables: frozenset[str] = frozenset()  #: loop variables in the address


@dataclass
class PartBody:
    """The work of a thread for its elements: wide loads, statements once and for each, wide stores."""

    loads: list[VectorAccess] = field(default_factory=list)
    once: list[Statement] = field(default_factory=list)
    each: list[Statement] = field(default_factory=list)
    stores: list[VectorAccess] = field(default_factory=list)

    @property
    def names(self) -> frozenset[str]:
        """All loop variables that it names."""
        return variables_of([*self.once, *self.each]).union(*(p.variables for p in (*self.loads, *self.stores)))


@dataclass
class LinearPart:
    """A part that walks its elements in order.

    Attributes:
        suffix: of the names of its functions.
        vector: elements of a thread.
        tail: elements are left over that do not fill a thread.
        coordinates: definitions from the position ``e`` of the first element.
        scale, fixed_size: it has ``n0 * scale`` elements, or ``fixed_size``.
        block_count: blocks that it takes, where parts share them.
        load_coordinates: those of the coordinates that wide loads need.
        unroll: steps of a thread whose wide loads are under way at once, where a part has a launch of its own.
    """

    suffix: str
    vector: int
    tail: bool
    coordinates: list[Statement]
    body: PartBody
    scale: int
    fixed_size: int
    block_count: str = ""
    load_coordinates: list[Statement] = field(default_factory=list)
    unroll: int = 1
    is_tiled: ClassVar[bool] = False

    @property
    def size(self) -> str:
        """C text of the number of its elements."""
        return str(self.fixed_size) if self.fixed_size else f"(Index)n0{f' * {self.scale}' if self.scale > 1 else ''}"


@dataclass(frozen=True)
class SharedTile:
    """An operand that passes through shared memory: ``array``, rows of ``pitch`` elements along ``across``.

    Half precision lies there as it does in memory, in bits.
    """

    name: str
    array: str
    type: str
    shared_type: str
    pitch: int
    address: str
    count: int
    variables: frozenset[str]  #: loop variables in the address
    bits_suffix: str  #: behind an element that is copied: half precision as it is


@dataclass
class TiledPart:
    """A part that walks two axes in tiles.

    Attributes:
        vector: elements of one access.
        steps: accesses of a thread in a tile.
        across, along: names of the variables.
        begin_across, begin_along: those of where the tile begins: ``b`` and their number.
        access_across, access_along: what finds the place of access ``k``, whose elements are neighbours along an axis, and
            skips what is outside of the tensor.
        coordinates: definitions from the number of the tile.
        count: C text of the number of tiles.
        loads, stores: operands through shared memory.
        final_barrier: the tile may not be overwritten before all threads are here.
    """

    suffix: str
    vector: int
    steps: int
    across: str
    along: str
    begin_across: str
    begin_along: str
    access_across: list[str]
    access_along: list[str]
    coordinates: list[Statement]
    count: str
    loads: list[SharedTile]
    stores: list[SharedTile]
    body: PartBody
    final_barrier: bool
    block_count: str = ""
    is_tiled: ClassVar[bool] = True


@dataclass(frozen=True)
class RowPart:
    """The work of a thread for neighbours of a row that it has on chip.

    Attributes:
        body: for its elements.
        begin: definitions before.
    """

    body: PartBody
    begin: list[Statement] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class MapFields(TemplateFields):
    """An elementwise kernel on CUDA.

    Attributes:
        parts: what its blocks walk.
        index_type: of positions.
        several: there are several parts, which share the blocks.
        bounds: the macro that tells how many threads a block has.
        held: blocks of a multiprocessor whose registers it may fill; 0: as the compiler wants.
    """

    template: ClassVar[str] = "cuda/map.j2"
    parts: list[LinearPart | TiledPart]
    index_type: str
    several: bool
    bounds: str
    held: int

    @property
    def uses_pool(self) -> bool:
        return any(p.is_tiled for p in self.parts)

    @property
    def shared_bytes(self) -> int:
        return sum(
            _MAX_SHARED_ELEMENT * (2 + t.count)
            for p in self.parts
            if isinstance(p, TiledPart)
            for t in (*p.loads, *p.stores)
        )
