# SPDX-License-Identifier: Apache-2.0
"""Results that a host's kernel may store past the caches (streaming, or non-temporal, stores).

A plain store fetches the line that it overwrites: a third more bytes where one array is read and one written. Results
that are not small beside the caches have left them anyway before anybody reads them. How many elements there are is an
argument, so that a kernel chooses as it runs: it computes a few vectors, which stay in registers, and stores these in
either way. (Longer buffers were measured to be slower: nothing is computed while one is streamed out.)

Kernels that compute very much for what they move are not held up by memory, and what is written over an operand is in the
cache already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from ...dataclass import dataclass
from ..ir.graph import Node
from ..ir.indexing import ZERO, Var, of_var
from .kernel import Statement, Writer, address
from .map_cpu import AHEAD, BUSY, Buffer, Call, Loop, operations, walked
from .scalar import ScalarProgram, Store

__all__ = ["Streamed", "head", "past", "put", "side_by_side", "streamed", "walks", "walks_lines"]

_BLOCK = 256  #: bytes of a result that are stored together: four of the widest vectors
_RESULTS = 4  #: whose blocks stay in registers
_SHORT = 512  #: bytes of a row that is not worth blocks
_LINE = 64
_MOST_OPERATIONS = 4  #: for a byte
_FAR = 16 << 10  #: bytes between what is in work and what is fetched ahead from memory, …
_ALL_FAR = 32 << 10  #: … of all arrays: two thirds of a first-level cache


@dataclass(frozen=True)
class Streamed:
    """The other nest: when it streams, and its loops."""

    test: str
    loops: list[Loop]


def streamed(program: ScalarProgram, writer: Writer, loops: Sequence[Loop]) -> Streamed | None:
    """The nest that may stream, or None where that would not be faster; ``loops``: the one with plain stores."""
    walk = _single(loops)
    if walk is None or not 0 < len(program.stores) <= _RESULTS:
        return None
    innermost, first = walk[-1], program.vars[0]
    inner = next((v for v in program.vars if v.name == innermost.var), None)
    if inner is None or innermost.ordered or not all(walks(s, inner) for s in program.stores):
        return None
    lines = all(walks_lines(s, inner) for s in program.stores)
    if not lines and (inner is first or not side_by_side(program.stores)):
        return None
    if sum(isinstance(t, Statement) and not t.type for t in innermost.body) != len(program.stores):
        return None  # a short loop inside is written out
    busy, moved = operations(program, inner), sum(n.dtype.size for n in _moving(program, first))
    if busy > _MOST_OPERATIONS * moved or not _in_order(program):
        return None
    sizes = [s.node.dtype.size for s in program.stores]
    size = max(_BLOCK // max(sizes), _LINE // min(sizes))
    if inner is not first and inner.extent * max(sizes) < _SHORT:
        return None
    body = innermost.body[: -len(program.stores)]
    buffers: list[Buffer] = []
    fetched: list[Statement] = [Call("", "", text) for text in _ahead(program, writer, inner, busy, size)]
    out: list[Statement] = []
    for k, store in enumerate(program.stores):
        held = Buffer(store.node.dtype.storage, f"o{k}", size)
        buffers.append(held)
        body.append(Statement("", writer.place(store.value, f"{held.name}[j]"), writer.names[store.value]))
        out.append(Call("", "", put(writer, k, store, inner, size)))
    within = Loop("j", "0", str(size), body=[Statement("Index", inner.name, "at + j"), *body])
    begin, end = innermost.begin, innermost.end
    made: list[Loop] = []
    if not lines:  # what comes before the first line that a row has for itself
        first_line = head(writer, 0, program.stores[0], inner, begin)
        made.append(replace(innermost, end=first_line if begin == "0" else f"{begin} + {first_line}"))
        begin = made[0].end
    whole = lines and inner is not first and inner.extent % size == 0
    stop = end if whole else f"{end} - {size - 1}"
    made.append(Loop("at", begin, stop, size, buffers=buffers, body=fetched, inner=[within], last=out))
    if not whole:  # what is left over
        made.append(replace(innermost, begin=f"{end} - ({end} - {begin}) % {size}"))
    for loop in reversed(walk[:-1]):
        made = [replace(loop, inner=made)]
    return Streamed(past(program, writer, first, program.stores, lines), made)


def past(program: ScalarProgram, writer: Writer, first: Var, stores: Sequence[Store], lines: bool = True) -> str:
    """C text of whether a kernel that runs over ``first`` from ``begin`` to ``end`` streams ``stores``.

    ``lines``: whether each row begins with a line, or finds its first one.
    """
    start = "begin" if lines and any(s.offset.coefficient(first) * s.node.dtype.size % _LINE for s in stores) else "0"
    starts = [f"hg::aligned({address(f'{writer.results}{program.stores.index(s)}', start)})" for s in stores]
    each = sum(_moving(program, first).values())
    text = writer.numbers.told("bytes", each) if writer.told else str(each)
    return " && ".join([f"hg::streams((end - begin) * {text})", *starts])


def put(writer: Writer, k: int, store: Store, inner: Var, size: int) -> str:
    """C text of storing a block of the ``k``-th result, whose elements along ``inner`` begin ``at``."""
    return f"hg::put<{size}>({_place(writer, k, store, inner, 'at')}, o{k}, past)"


def head(writer: Writer, k: int, store: Store, inner: Var, begin: str) -> str:
    """C text of how many elements of a row of the ``k``-th result come before its first line, from ``begin`` on."""
    return f"hg::head({_place(writer, k, store, inner, begin)}, past)"


def _place(writer: Writer, k: int, store: Store, inner: Var, at: str) -> str:
    """C text of where the element of the ``k``-th result lies whose place along ``inner`` is ``at``."""
    start = ZERO if at == "0" else of_var(Var(at, max(2, inner.extent)))
    return address(f"{writer.results}{k}", writer.expr(store.offset + of_var(inner) * -1 + start))


def walks_lines(store: Store, inner: Var) -> bool:
    """Whether a result is walked along ``inner``, each row from the beginning of a line."""
    size = store.node.dtype.size
    others = [c for v, c in store.offset.terms if v is not inner]
    return walks(store, inner) and not any(c * size % _LINE for c in (*others, store.offset.const))


def walks(store: Store, inner: Var) -> bool:
    """Whether the elements of a result follow each other along ``inner``."""
    return not store.scattered and store.offset.affine and store.offset.coefficient(inner) == 1


def side_by_side(stores: Sequence[Store]) -> bool:
    """Whether lines of all results begin at the same places of a row, if those of the results do."""
    return all(s.offset == stores[0].offset and s.node.dtype.size == stores[0].node.dtype.size for s in stores)


def _single(loops: Sequence[Loop]) -> list[Loop] | None:
    """The loops from the outermost to the innermost, if there is one of each and nothing between them."""
    found: list[Loop] = []
    while loops:
        if len(loops) > 1:
            return None
        (loop,) = loops
        if loop.step != 1 or loop.buffers or loop.before or loop.after or loop.last:
            return None
        found.append(loop)
        loops = loop.inner
    return found or None


def _in_order(program: ScalarProgram) -> bool:
    """Whether nothing is gathered."""
    return all(s.offset is not None and s.offset.affine and not s.conditions for s in program.scalars if s.op == "load")


def _ahead(program: ScalarProgram, writer: Writer, inner: Var, busy: int, size: int) -> list[str]:
    """C text of fetching what is read soon of each array that is walked along.

    From memory that pays everywhere, from a cache only where :meth:`.map_cpu._Nests.streams` says, and not from as far.
    """
    at = of_var(Var("at", max(2, inner.extent)))
    found = walked(program, inner)
    always = len(found) > 1 and busy >= BUSY * len(found)
    calls = []
    for s in found:
        assert s.offset is not None and s.node is not None
        far, near = (n // s.node.dtype.size for n in (min(_FAR, _ALL_FAR // len(found)), AHEAD))
        place = writer.place_of(s.offset + of_var(inner) * -1 + at)
        source = address(writer.pointers[s.node], f"{place} + {f'(past ? {far} : {near})' if always else far}")
        calls.append(f"{'' if always else 'if (past) '}hg::ahead<true>({source}, {size})")
    return calls


def _moving(program: ScalarProgram, first: Var) -> dict[Node, int]:
    """Bytes that one value of the first variable moves of each array that grows with its extent."""
    loads = [(s.node, s.offset) for s in program.scalars if s.op == "load"]
    found: dict[Node, int] = {}
    for node, offset in (*loads, *((s.node, s.offset) for s in program.stores)):
        if node is not None and offset is not None and first in offset.vars:
            extents = [v.extent for v in program.vars if v is not first and v in offset.vars]
            found[node] = max(found.get(node, 0), prod(extents) * node.dtype.size)
    return found
