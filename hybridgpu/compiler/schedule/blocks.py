# SPDX-License-Identifier: Apache-2.0
"""C blocks as data: loops and conditions with what is inside, which ``templates/nests.j2`` prints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Union

from ...core.dataclass import dataclass

__all__ = ["Block", "Line", "for_head", "texts"]

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
