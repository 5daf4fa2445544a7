# SPDX-License-Identifier: Apache-2.0
"""The six moments of a training loop. A handler is a class that inherits the moments it wants to be called at."""

from __future__ import annotations

from typing import Any

__all__ = [
    "BatchBegin", "BatchEnd", "EpochBegin", "EpochEnd", "EventHandler", "TrainBegin", "TrainEnd", "handler_list",
]  # fmt: skip


class EventHandler:
    """What all handlers are. One with an attribute ``priority`` is called in that order, lowest first; others have 0."""


class TrainBegin(EventHandler):
    """Called once, before the first epoch."""

    def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """``estimator`` is the Estimator that trains, here and below."""


class TrainEnd(EventHandler):
    """Called once, after the last epoch."""

    def train_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """To be overridden."""


class EpochBegin(EventHandler):
    """Called before each pass over the data."""

    def epoch_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """To be overridden."""


class EpochEnd(EventHandler):
    """Called after each pass over the data, also after one that was cut short."""

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> Any:
        """True ends the training."""
        return False


class BatchBegin(EventHandler):
    """Called before each batch."""

    def batch_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """``batch`` comes by name."""


class BatchEnd(EventHandler):
    """Called after each batch."""

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> Any:
        """``batch``, and lists with an entry a device, ``pred``, ``label`` and ``loss``, come by name.

        True ends the epoch; only ``epoch_end`` ends the training.
        """
        return False


def handler_list(handlers: Any) -> list[EventHandler]:
    """One handler, several, or None, as a list of its own.

    Raises:
        ValueError: something else.
    """
    if isinstance(handlers, EventHandler):
        return [handlers]
    several: list[EventHandler] = list(handlers or [])
    if not all(isinstance(h, EventHandler) for h in several):
        raise ValueError(f"handlers must be an EventHandler or a list of EventHandler, got: {handlers}")
    return several
