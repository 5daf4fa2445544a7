# SPDX-License-Identifier: Apache-2.0
"""Transpose tiling: which two axes of a map kernel are walked in tiles.

An operand whose elements are neighbours along another axis than the kernel's innermost one would be
read a cache line (a sector of memory) for every element. In tiles of both axes such an operand passes
through fast memory: it is read along its own axis and used along the kernel's.
"""

from __future__ import annotations

from math import gcd, prod

from ...core.dataclass import dataclass
from ..devices.cpu import CpuConstants
from ..ir.dims import nominal
from ..ir.indexing import Expr, Var
from ..size_buckets import bucket
from .runtime_args import likely_dynamic
from .scalar import Scalar, ScalarProgram

__all__ = [
    "MIN_EXTENT",
    "Tiling",
    "bucketed_points",
    "choose_tiling",
    "tiling_of_axes",
    "transposed_loads",
    "transposed_runs",
    "unit_stride",
]

MIN_EXTENT = 8  #: an axis below is no axis to walk along
_MIN_POINTS = 2048  #: points of a kernel that is worth it
_MIN_RUNS = 16  #: runs along either axis that are worth exchanging the loops over them
_MAX_STREAMS = CpuConstants.streams  #: lines that a core follows at once
#: bytes of an array that comes from memory, where following lines pays more than turning them
_LARGE_ARRAY_BYTES = CpuConstants.l3_bytes // 2
_VECTOR_LOOP_ALLOWANCE = (
    1.5  #: what innermost loops over whole vectors may cost: a result is turned in place of an operand, or both are
)


@dataclass(frozen=True)
class Tiling:
    """Walk ``along`` (innermost) and ``across`` in tiles.

    Attributes:
        loads: operands that are neighbours along ``across``.
        stores: numbers of the stores that are.
        why: a few words for people.
    """

    across: Var
    along: Var
    loads: list[Scalar]
    stores: list[int]
    why: str


def unit_stride(e: Expr | None, var: Var) -> bool:
    """True if neighbours along ``var`` are neighbours in memory and nothing else in ``e`` varies with it."""
    return e is not None and e.coefficient(var) == 1 and not any(a is not var and var in a.vars for a, _ in e.terms)


def choose_tiling(program: ScalarProgram, conditions: bool = False, cached: bool = False) -> Tiling | None:
    """The tiles that save most uncoalesced traffic, None if a plain walk is as good.

    Args:
        program: its last variable is the innermost of a plain walk.
        conditions: count loads under conditions too, as if the conditions were gone.
        cached: a few lines stay in a cache from one step of an outer loop to the next (a host's core).
    """
    if len(program.vars) < 2 or bucketed_points(program) < _MIN_POINTS:
        return None
    inner = program.vars[-1]
    best, least = None, _cost(program, inner, None, cached)
    for other in program.vars[:-1]:
        for along, across in ((inner, other), (other, inner)):
            tiling = tiling_of_axes(program, across, along, conditions)
            cost = _cost(program, along, tiling, cached) if tiling else least
            # (on the CPU a sequence length is an argument, and innermost loops go over features)
            steadier = (
                best
                and cached
                and cost < _VECTOR_LOOP_ALLOWANCE * least
                and likely_dynamic(best.along.extent)
                and not likely_dynamic(along.extent)
            )
            if tiling and (cost < least or steadier):
                best, least = tiling, cost
    return best


def bucketed_points(program: ScalarProgram) -> int:
    """The points of a kernel as they decide: the number of outermost ones, an argument, as in a batch of few sizes."""
    first, *rest = (nominal(v.extent) for v in program.vars)
    return bucket(first) * prod(rest)


def tiling_of_axes(
    program: ScalarProgram, across: Var, along: Var, conditions: bool = False, shortest: int = MIN_EXTENT
) -> Tiling | None:
    """Tiles of two axes, None if no operand needs them or an axis is shorter than ``shortest``."""
    if min(nominal(across.extent), nominal(along.extent)) < shortest:
        return None
    loads = [
        s
        for s in program.scalars
        if s.op == "load" and s.offset and (conditions or not s.conditions) and _is_transposed(s.offset, across, along)
    ]
    stores = [k for k, t in enumerate(program.stores) if _is_transposed(t.offset, across, along)]
    if not loads and not stores:
        return None
    why = " and ".join(
        f"{n} operand{'s' if n > 1 else ''} {what}" for n, what in ((len(loads), "read"), (len(stores), "written")) if n
    )
    return Tiling(across, along, loads, stores, f"{why} across the innermost axis")


def transposed_runs(program: ScalarProgram) -> bool:
    """True if runs shorter than a cache line exchange places: the last axis is a run, the other two are exchanged.

    Such are the elements of a kernel whose channels are, for a convolution's gradient: no axis but that of the run has
    neighbours on both sides. Read as they are written, each run is a line of its own, far from the one before.
    """
    if len(program.vars) != 3 or len(program.stores) != 1 or any(s.conditions for s in program.scalars):
        return False
    outer, inner, run = program.vars
    (store,) = program.stores
    if store.scattered or run.extent * store.node.dtype.size >= CpuConstants.line_bytes:
        return False
    if min(nominal(outer.extent), nominal(inner.extent)) < _MIN_RUNS:
        return False

    large = any(
        s.node is not None and nominal(s.node.type.nbytes) > CpuConstants.l1_bytes for s in transposed_loads(program)
    )
    return large and _runs_follow(store.offset, inner, run)


def transposed_loads(program: ScalarProgram) -> list[Scalar]:
    """The loads of a kernel over :func:`transposed_runs` across the axis along which it writes."""
    outer, _, run = program.vars
    return [s for s in program.scalars if s.op == "load" and _runs_follow(s.offset, outer, run)]


def _runs_follow(e: Expr | None, along: Var, run: Var) -> bool:
    """True if neighbours along ``along`` are runs that follow each other."""
    return e is not None and e.affine and e.coefficient(along) == run.extent and abs(e.coefficient(run)) == 1


def _cost(program: ScalarProgram, along: Var, tiles: Tiling | None, cached: bool) -> float:
    """The cost of memory for an element of a loop along ``along``, in quarters of a byte."""
    total = 0.0
    points = bucketed_points(program)
    for s in program.scalars:
        if s.op == "load" and s.offset and s.node and along in s.offset.vars:
            size = s.node.dtype.size
            if tiles and s in tiles.loads:
                factor = CpuConstants.tiled_byte_cost
            else:
                stays = (
                    cached
                    and nominal(s.node.type.nbytes) >= _LARGE_ARRAY_BYTES
                    and _stays_cached(s.offset, along, size)
                )
                factor = CpuConstants.cached_byte_cost if stays else _byte_cost(s.offset, along)
            total += factor * size * min(1.0, nominal(s.node.size) / points)  # what is read again comes from a cache
    for k, t in enumerate(program.stores):
        total += (
            CpuConstants.tiled_byte_cost if tiles and k in tiles.stores else _byte_cost(t.offset, along)
        ) * t.node.dtype.size
    return total


def _byte_cost(e: Expr, along: Var) -> int:
    return CpuConstants.ordered_byte_cost if unit_stride(e, along) else CpuConstants.scattered_byte_cost


def _stays_cached(e: Expr, along: Var, size: int) -> bool:
    """True if the lines that a walk along ``along`` touches stay in a first-level cache of 64 sets and 8 ways.

    The next step of the loop around it then finds its elements there. (Narrow elements are not gathered.)
    """
    step = nominal(abs(e.coefficient(along))) * size
    if size < 4 or not step:
        return False
    sets = 64 // gcd(step // 64, 64) if step % 64 == 0 else 64
    return nominal(along.extent) <= min(_MAX_STREAMS, 8 * sets)


def _is_transposed(e: Expr, across: Var, along: Var) -> bool:
    return e.affine and e.coefficient(across) == 1 and e.coefficient(along) not in (0, 1)
