# SPDX-License-Identifier: Apache-2.0
"""Streams of prepared calls on a GPU: what starts the program on each, and where results come from."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from ...ndarray.ndarray import NDArray
from ..captured import CapturedError
from ..compilation import Compiled

__all__ = ["StreamStates"]

_STREAMS = 8  #: that a prepared call remembers in each thread

Allocator = Callable[[], NDArray]


class StreamStates(threading.local):
    """For each stream of a thread, by its pointer: (what starts the program there, allocators of its results).

    Args:
        bound: the program with the addresses of its parameters.
        allocators: makes those of all results, which are others for each stream.
    """

    def __init__(self, program: Compiled, bound: Any, allocators: Callable[[], Sequence[Allocator]]) -> None:
        self.known: dict[int, tuple[Callable[..., None], Sequence[Allocator]]] = {}
        self._program, self._bound, self._allocators = program, bound, allocators

    def add(self) -> tuple[Callable[..., None], Sequence[Allocator]]:
        """The state of the current stream.

        Raises:
            CapturedError: the user captures it.
        """
        program, states = self._program, self.known
        capturing = program.device.is_capturing
        if capturing():
            raise CapturedError
        if len(states) >= _STREAMS:
            del states[next(iter(states))]
        run, ptr = self._bound.lane().run, program.loaded.driver.stream().ptr
        if program.loaded.layout.libraries:  # whose errors tell of operators
            run = program.names.in_errors(run)
        first, *others = self._allocators()

        def checked() -> NDArray:
            if capturing():
                raise CapturedError
            return first()

        state = states[ptr] = (run, (checked if ptr else first, *others))  # the default stream cannot be captured
        return state
