# SPDX-License-Identifier: Apache-2.0
"""Monitor: statistics of everything that executors compute (``mx.monitor``)."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable
from typing import Any

from .ndarray import NDArray

__all__ = ["Monitor"]


def _root_mean_square(x: NDArray) -> NDArray:
    from . import ndarray as nd

    return nd.norm(x) / math.sqrt(x.size)  # type: ignore[no-any-return]


class Monitor:
    """Collects a statistic of results and variables of executors, every ``interval`` batches.

    Args:
        stat_func: array -> array (or a list of them); by default the root mean square.
        pattern: regular expression for the names to look at.
        sort: order by name.
        monitor_all: look at the inputs of operators, too.
    """

    def __init__(
        self,
        interval: int,
        stat_func: Callable[[NDArray], Any] | None = None,
        pattern: str = ".*",
        sort: bool = False,
        monitor_all: bool = False,
    ) -> None:
        self.stat_func = stat_func or _root_mean_square
        self.interval, self.sort, self.monitor_all = interval, sort, monitor_all
        self.re_prog = re.compile(pattern)
        self.activated = False
        self.queue: list[tuple[int, str, Any]] = []
        self.step = 0
        self.exes: list[Any] = []

    def stat_helper(self, name: str | bytes, array: NDArray) -> None:
        """Take the statistic of one result, if this batch counts and the name matches."""
        text = name.decode() if isinstance(name, bytes) else name
        if self.activated and self.re_prog.match(text):
            self.queue.append((self.step, text, self.stat_func(array)))

    def install(self, exe: Any) -> None:
        """Watch an executor."""
        exe.set_monitor_callback(self.stat_helper, self.monitor_all, lambda: self.activated)
        self.exes.append(exe)

    def tic(self) -> None:
        """Begin a batch."""
        if self.step % self.interval == 0:
            self.queue = []
            self.activated = True
        self.step += 1

    def toc(self) -> list[tuple[int, str, str]]:
        """End a batch: (batch, name, statistic as text) of what was seen, variables included."""
        if not self.activated:
            return []
        for exe in self.exes:
            symbol = exe._symbol
            for names, arrays in (
                (symbol.list_arguments(), exe.arg_arrays),
                (symbol.list_auxiliary_states(), exe.aux_arrays),
            ):
                for name, array in zip(names, arrays, strict=True):
                    self.stat_helper(name, array)
        self.activated = False
        seen = sorted(self.queue, key=lambda entry: entry[1]) if self.sort else self.queue
        self.queue = []
        return [(step, name, _text(values)) for step, name, values in seen]

    def toc_print(self) -> None:
        """End a batch and log what was seen."""
        for step, name, text in self.toc():
            logging.info("Batch: %7d %30s %s", step, name, text)


def _text(values: Any) -> str:
    values = [values] if isinstance(values, NDArray) else values
    assert isinstance(values, list)
    parts = [str(v.asscalar()) if v.shape == (1,) else str(v.asnumpy()) for v in values]
    return "".join(part + "\t" for part in parts)
