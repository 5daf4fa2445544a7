# SPDX-License-Identifier: Apache-2.0
"""The bound call of a CPU program, for callers that repeat it: where memory for intermediate results comes from, in
which order the entry takes addresses, and what has to stay alive.

It is written once, as lines of Python: a caller that writes itself (runtime/dispatch/prepare.py) takes them over without a
frame of their own, and :attr:`Bound.call` is made of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from ..code_cache import define

if TYPE_CHECKING:
    from .backend import CpuProgram

__all__ = ["Bound"]


class Bound:
    """A program with the addresses of its fixed inputs, which have to stay where they are.

    It has to live as long as what it gives is called.

    Attributes:
        whole: whether the program is one foreign call: if there are library calls between the kernels, which take
            arrays, there is neither ``call`` nor lines.
    """

    def __init__(self, program: CpuProgram, addresses: Sequence[int]) -> None:
        self._program = program
        self._pointers = program.pointers(addresses)
        self._last = program.table, self._pointers.buffer_info()[0]
        self.whole = program.single is not None
        self._arena = program.program.arena_bytes > 0

    @property
    def names(self) -> dict[str, Any]:
        """The values that :meth:`lines` name; ``bound`` has to stay alive, too."""
        table, fixed = self._last
        names = {"bound": self, "entry": self._program.single, "table": table, "fixed": fixed}
        return names | {"free": self._program.free, "make_arena": self._program.arena} if self._arena else names

    def lines(self, addresses: str) -> list[str]:
        """Python that runs the program.

        Threads may run it at once, and another program may take waiting arenas away (``_make_room``): so the list is
        not asked whether it holds one.

        Args:
            addresses: expressions for those of the other inputs and of the outputs, separated by commas.
        """
        if not self._arena:
            return [f"entry(0, table, fixed, {addresses})"]
        return [
            "try:",
            "    arena = free.pop()",
            "except IndexError:",
            "    arena = make_arena()",
            f"entry(arena[1], table, fixed, {addresses})",
            "free.append(arena)",
        ]

    @property
    def call(self) -> Callable[[list[int]], None] | None:
        """A function that takes the addresses in a list."""
        if not self.whole:
            return None
        return define("call(addresses)", self.lines("*addresses"), self.names, f"{__file__}, call of a program")

    @contextmanager
    def held(self) -> Iterator[Callable[..., None]]:
        """A function of the addresses one by one, with an arena that is held meanwhile: for many calls from one thread."""
        entry = self._program.single
        assert entry is not None
        arena = self._program.arena()
        try:
            yield partial(entry, arena[1], *self._last)
        finally:
            self._program.release(arena)

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Run on arrays; ``inputs``: all of them, of which the fixed ones are where they were."""
        self._program(inputs, outputs, self._pointers)
