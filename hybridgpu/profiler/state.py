# SPDX-License-Identifier: Apache-2.0
"""Whether the profiler runs, and with which settings."""

from __future__ import annotations

from typing import Any

from ..base import MXNetError
from ..core.fork_safe_lock import Lock
from .hooks import Hooks
from .trace import Trace

__all__ = ["state"]

_SETTINGS: dict[str, Any] = {
    "filename": "profile.json",
    "profile_all": False,
    "profile_symbolic": True,
    "profile_imperative": True,
    "profile_memory": True,
    "profile_api": True,
    "continuous_dump": True,
    "dump_period": 1.0,
    "aggregate_stats": False,
    "profile_process": "worker",
}


class _State:
    """The one profiler of the process.

    Attributes:
        trace: what was recorded.
        running: between ``set_state('run')`` and ``set_state('stop')``.
        paused: between ``pause`` and ``resume``.
        active: running and not paused.
        open: it has run since the last trace was finished.
    """

    def __init__(self) -> None:
        self.trace = Trace()
        self.settings = dict(_SETTINGS)
        self.running = self.paused = self.active = self.open = False
        self._hooks: Hooks | None = None
        self._lock = Lock()

    def configure(self, settings: dict[str, Any]) -> None:
        """Replace all settings; what is not given returns to its default.

        Raises:
            MXNetError: an unknown setting.
        """
        for name in settings:
            if name not in _SETTINGS:
                raise MXNetError(f"Cannot find argument '{name}', Possible Arguments:\n{', '.join(_SETTINGS)}")
        paused = self.paused
        self.switch(paused=True)
        self.settings = {**_SETTINGS, **settings}
        self.switch(paused=paused)

    def switch(self, running: bool | None = None, paused: bool | None = None) -> None:
        """Start, stop, pause or resume."""
        with self._lock:
            self.running = self.running if running is None else running
            self.paused = self.paused if paused is None else paused
            active = self.running and not self.paused
            if active == self.active:
                return
            self.active = active
            if self._hooks is not None:
                self._hooks.remove()
                self._hooks = None
            if active:
                every = self.settings["profile_all"]
                operators, graphs = self.settings["profile_imperative"], self.settings["profile_symbolic"]
                self._hooks = Hooks(self.trace, bool(every or operators), bool(every or graphs))
                self._hooks.install()
                self.open = True


state = _State()
