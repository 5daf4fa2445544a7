# SPDX-License-Identifier: Apache-2.0
"""Folded parameters: the prelude's results, which calls read, and when they are computed again.

A program may have a *prelude* (compiler/passes/parameter_folding.py), which depends on parameters alone. Its results are kept
with the block, one set for all signatures that want the same ones. Every write into a parameter's memory is told
(backends/write_tracking.py): what is kept is then out of date, and so is every prepared call, so that calls pay
nothing for the check. The next call computes the values again, into new memory: another thread's call may still read the old ones.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..backends.memory import persistent
from ..backends.write_tracking import is_exported, storage, unwatch, watch
from ..core.fork_safe_lock import Lock
from ..ndarray.binding_version import invalidate_bindings
from .captured import refuse_first

if TYPE_CHECKING:
    from .compilation import Compiled

__all__ = ["FoldedParameters", "Prelude"]


class Prelude(NamedTuple):
    """The part of a program that depends on parameters alone."""

    executable: Compiled
    takes: tuple[int, ...]  #: positions of its inputs among those of the program
    key: str  #: equal for preludes that compute the same


class FoldedParameters:
    """The results of a prelude for the parameters of one block on one device.

    Attributes:
        runs: how often they were computed.
    """

    def __init__(self, prelude: Prelude) -> None:
        self._prelude, self.runs = prelude, 0
        self._values: list[Any] = []
        self._read: list[Any] = []  #: the parameters' memory
        self._owners: list[int] = []
        self._outdated = True
        self._computing = Lock()
        self._reference = weakref.ref(self)
        weakref.finalize(self, unwatch, self._reference, self._owners).atexit = False

    def invalidate(self) -> None:
        """See :class:`~hybridgpu.backends.write_tracking.Watcher`."""
        self._outdated = True
        self._read = []  # what was replaced is held no longer than by calls
        invalidate_bindings()

    def values(self, arrays: Sequence[Any]) -> list[Any] | None:
        """The prelude's results, computed again if a parameter was written or moved.

        Args:
            arrays: the parameters' memory.

        Returns:
            None if others may write one of the parameters without telling: then nothing can be kept.
        """
        with self._computing:
            read = self._read
            if self._outdated or len(read) < len(arrays) or any(a is not b for a, b in zip(arrays, read, strict=True)):
                unwatch(self._reference, self._owners)
                self._read = list(arrays)
                self._owners[:] = [id(storage(a)) for a in arrays]
                # a write that comes from now on shows at the next call, whatever this one reads of it
                self._outdated = False
                watch(self._reference, arrays)
                try:
                    if any(map(is_exported, arrays)):
                        self._outdated = True
                        return None
                    self._compute(arrays)
                except BaseException:
                    self._outdated = True
                    raise
            return self._values

    def _compute(self, arrays: Sequence[Any]) -> None:
        executable, device = self._prelude.executable, self._prelude.executable.device
        with device.current():
            refuse_first(device)
            # parameters may have been written on any stream, and the values are read on any
            device.synchronize()
            if executable.program is None:
                values = executable.loaded(*arrays)
            else:
                values = [persistent(device.xp, t.shape, t.dtype.np) for t in executable.outputs]
                executable.loaded(arrays, values)
            device.synchronize()
        self._values = values
        self.runs += 1
