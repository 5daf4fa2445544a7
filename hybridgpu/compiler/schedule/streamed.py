# SPDX-License-Identifier: Apache-2.0
"""Results that a host's map kernel stores past the caches.

A plain store fetches the line that it overwrites: a third more bytes where one array is read and one written. Results
larger than the caches have left them anyway before anybody reads them. How many elements there are is an argument, so
that a kernel has both nests of loops, and chooses. The other one computes a block of each result at a time into a buffer
in the first-level cache, which is then streamed out.

Kernels that compute much for what they move are not held up by memory (streaming them was measured to be slower), and
what is written over an operand is in the cache already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from ...dataclass import dataclass
from ..ir.graph import Node
from .indexing import Var, of_var
from .kernel import Statement, Writer, address
from .map_cpu import Buffer, Call, Loop
from .scalar import ScalarProgram

__all__ = ["Streamed", "streamed"]

_BLOCK = 4096  #: bytes of a result's buffer
_RESULTS = 4  #: whose buffers stay in the first-level cache
_SHORT = 512  #: bytes of a row that is not worth a block
_LINE = 64


@dataclass(frozen=True)
class Streamed:
    """The other nest: when it is taken, its buffers, and its loops."""

    test: str
    buffers: list[Buffer]
    loops: list[Loop]


def streamed(program: ScalarProgram, writer: Writer, loops: Sequence[Loop]) -> Streamed | None:
    """The nest that streams, or None where it would not be faster; ``loops``: the one with plain stores."""
    walk = _single(loops)
    if walk is None or not 0 < len(program.stores) <= _RESULTS:
        return None
    innermost, first = walk[-1], program.vars[0]
    inner = next((v for v in program.vars if v.name == innermost.var), None)
    if inner is None or not _plain(program, inner) or not _cheap(program, inner, first):
        return None
    widest = max(s.node.dtype.size for s in program.stores)
    size = _BLOCK // widest
    known = inner is not first
    if known:
        if inner.extent * widest < _SHORT:
            return None
        size = min(size, inner.extent)
    at = of_var(Var("at", max(2, inner.extent)))
    whole = known and inner.extent % size == 0
    count = str(size) if whole else f"hg::minimum<Index>({size}, {innermost.end} - at)"
    body = innermost.body[: -len(program.stores)]
    buffers: list[Buffer] = []
    out: list[Statement] = []
    for k, store in enumerate(program.stores):
        held = Buffer(store.node.dtype.storage, f"s{k}", size)
        buffers.append(held)
        body.append(Statement("", writer.place(store.value, f"{held.name}[j]"), writer.names[store.value]))
        target = address(f"{writer.results}{k}", writer.expr(store.offset + of_var(inner) * -1 + at))
        out.append(Call("", "", f"hg::stream({target}, {held.name}, count)"))
    within = Loop("j", "0", "count", body=[Statement("Index", inner.name, "at + j"), *body])
    counted = [Statement("Index", "count", count)]
    made = Loop("at", innermost.begin, innermost.end, size, body=counted, inner=[within], last=out)
    for loop in reversed(walk[:-1]):
        made = replace(loop, inner=[made])
    return Streamed(f"hg::streams((end - begin) * {_bytes(program, first)})", buffers, [made])


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


def _plain(program: ScalarProgram, inner: Var) -> bool:
    """Whether every result is walked along, each row from the beginning of a line; nothing is gathered."""
    for store in program.stores:
        size = store.node.dtype.size
        if not store.offset.affine or store.offset.coefficient(inner) != 1:
            return False
        others = [c for v, c in store.offset.terms if v is not inner]
        if any(c * size % _LINE for c in (*others, store.offset.const)):
            return False
    return all(s.offset is not None and s.offset.affine and not s.conditions for s in program.scalars if s.op == "load")


def _cheap(program: ScalarProgram, inner: Var, first: Var) -> bool:
    """Whether there is no more than an operation for each byte."""
    busy = sum(s.node.prim.cost for s in program.scalars if s.op == "compute" and s.node and inner in s.vars)
    return busy <= sum(n.dtype.size for n in _moving(program, first))


def _moving(program: ScalarProgram, first: Var) -> list[Node]:
    """The arrays that grow with the first variable's extent."""
    scalars = (s for s in program.scalars if s.op == "load" and s.offset is not None and first in s.offset.vars)
    loads = [s.node for s in scalars if s.node is not None]
    return list(dict.fromkeys([*loads, *(s.node for s in program.stores)]))


def _bytes(program: ScalarProgram, first: Var) -> int:
    """Bytes that one value of the first variable moves."""
    return prod(v.extent for v in program.vars if v is not first) * sum(n.dtype.size for n in _moving(program, first))
