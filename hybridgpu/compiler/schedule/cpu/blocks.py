# SPDX-License-Identifier: Apache-2.0
"""C blocks as data: the loops of the CPU's kernels, which ``templates/cpu/loops.j2`` prints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Union

from ....core.dataclass import dataclass
from ..kernel import TemplateFields

__all__ = ["Block", "Line", "LoopFields", "for_head", "texts"]

Line = Union[str, "Block"]  #: a line of C text as it is, or a block


@dataclass(frozen=True)
class Block:
    """Lines in braces.

    Attributes:
        heads: what stands before the brace, a line each: pragmas, and loops or conditions without braces of their own.
        lines: what is inside.
        otherwise: what is done else, if the last head is a condition.
    """

    heads: Sequence[str]
    lines: Sequence[Line]
    otherwise: Sequence[Line] = ()

    @property
    def opening(self) -> list[str]:
        """The lines up to the brace."""
        return [*self.heads[:-1], f"{self.heads[-1]} {{"] if self.heads else ["{"]


def for_head(var: str, begin: str, end: str, step: int | str = 1) -> str:
    """The head of a loop."""
    return f"for (Index {var} = {begin}; {var} < {end}; {f'++{var}' if step == 1 else f'{var} += {step}'})"


def texts(statements: Iterable[object]) -> list[str]:
    """Statements, buffers and calls as lines."""
    return [str(s) for s in statements]


@dataclass(frozen=True, kw_only=True)
class LoopFields(TemplateFields):
    """A kernel of loops on the CPU.

    Attributes:
        lines: the body of its function.
        nontemporal: the body of one that may store past the caches, if that may be faster.
        extents: parameters behind those of the range that its outermost loop runs over.
    """

    template: ClassVar[str] = "cpu/loops.j2"
    lines: Sequence[Line]
    nontemporal: Sequence[Line] | None = None
    extents: Sequence[str] = ()

    @property
    def body(self) -> Sequence[Line]:
        """What is printed: results that are written over operands are in the caches already."""
        return self.lines if self.nontemporal is None or any(p.aliased for p in self.pointers) else self.nontemporal
