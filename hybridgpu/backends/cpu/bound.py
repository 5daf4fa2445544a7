# SPDX-License-Identifier: Apache-2.0
"""The call of a program on the host, for callers that repeat it: where memory for intermediate results comes from, in
which order the entry takes addresses, and what has to stay alive."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .backend import CpuProgram

__all__ = ["Bound"]


class Bound:
    """A program with the addresses of its fixed inputs, which have to stay where they are.

    It has to live as long as what it gives is called.

    Attributes:
        call: runs the program; takes the addresses of the other inputs and of the outputs, in a list. None if
            there are library calls between the kernels, which take arrays.
        entry: the foreign function, and the arguments that stand behind the arena's address; None as for ``call``.
        direct: the same with the addresses as arguments, no frame of Python around it; None if the program needs an
            arena, too.
    """

    def __init__(self, program: CpuProgram, addresses: Sequence[int]) -> None:
        self._program = program
        self._pointers = program.pointers(addresses)
        self._last = program.table, ctypes.addressof(self._pointers)
        self.call: Callable[[list[int]], None] | None = None
        self.direct: Callable[..., None] | None = None
        entry = program.single
        self.entry = None if entry is None else (entry, *self._last)
        if entry is not None:
            self.call = self._calling(entry)
            if not program.program.arena_bytes:
                self.direct = partial(entry, 0, *self._last)

    def _calling(self, entry: Callable[..., None]) -> Callable[[list[int]], None]:
        table, fixed = self._last
        free, make = self._program.free, self._program.arena

        def call(addresses: list[int]) -> None:
            entry(0, table, fixed, *addresses)

        def call_with_arena(addresses: list[int]) -> None:
            arena = free.pop() if free else make()
            entry(arena[1], table, fixed, *addresses)
            free.append(arena)

        return call_with_arena if self._program.program.arena_bytes else call

    @contextmanager
    def held(self) -> Iterator[Callable[..., None]]:
        """As ``direct``, with an arena that is held meanwhile: for many calls from one thread."""
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
