# SPDX-License-Identifier: Apache-2.0
"""Processes of the check: each with everything that it starts ends in time, and with the process that started it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TextIO

__all__ = ["CUT_OFF", "ROOT", "beside", "cores", "find_tool", "follow", "module", "shortfall"]

ROOT = Path(__file__).resolve().parents[2]
CUT_OFF = 124  #: the code of what took too long
GRACE = 3.0  #: seconds in which a command that is interrupted may write what it has
TICK = 0.5  #: seconds between two questions whether a command may go on
_DIES_WITH_PARENT = 1  #: PR_SET_PDEATHSIG


def module(name: str, *arguments: str) -> list[str]:
    """The command that runs a module of this folder."""
    return [sys.executable, "-m", f"bench.gpu_check.{name}", *arguments]


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def find_tool(name: str) -> str:
    """The path of a tool of the CUDA toolkit, '' if there is none on the PATH or where toolkits usually are."""
    import shutil

    folders = [os.environ.get("CUDA_HOME", ""), os.environ.get("CUDA_PATH", ""), "/usr/local/cuda"]
    places = [os.environ.get("PATH", ""), *(str(Path(f, "bin")) for f in folders if f)]
    return shutil.which(name, path=os.pathsep.join(places)) or ""


@contextlib.contextmanager
def beside(commands: Sequence[Sequence[str]]) -> Iterator[None]:
    """Programs that run beside this one, unseen, for as long as the ``with`` lasts."""
    running = [
        subprocess.Popen(
            list(command), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT,
            preexec_fn=_with_parent(),  # noqa: PLW1509 - it takes no lock
        )
        for command in commands
    ]  # fmt: skip
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def _with_parent() -> Callable[[], object] | None:
    """What a new process calls first: it ends when the one that started it is killed, which could not end it any more."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl  # found before the fork: between it and the program's start nothing may take a lock
    return lambda: prctl(_DIES_WITH_PARENT, int(signal.SIGKILL))


@contextlib.contextmanager
def _interrupts_heeded() -> Iterator[None]:
    """What a shell starts in the background ignores SIGINT, and all that it starts would; here it does not."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)


def shortfall(code: int, output: str, seconds: float) -> dict[str, str]:
    """What a row says of a command that :func:`follow` saw end otherwise than well; else nothing."""
    if code == CUT_OFF:
        return {"outcome": "cut off", "problem": f"it took longer than {seconds:.0f} s"}
    if code:
        lines = [line for line in output.splitlines() if line.strip()]
        return {"outcome": "error", "problem": (lines[-1] if lines else f"it ended with code {code}")[:300]}
    return {}


def follow(
    command: Sequence[str],
    show: Callable[[str], object],
    seconds: float,
    may_go_on: Callable[[], bool] = lambda: True,
    environment: Mapping[str, str] | None = None,
) -> tuple[int, str]:
    """(exit code, output) of a command.

    Args:
        show: takes each line while it runs.
        seconds: after which it is interrupted, and then killed, with code CUT_OFF.
        may_go_on: asked now and then; False ends it in the same way, with the code of a killed process.
    """
    path = os.pathsep.join(p for p in (str(ROOT), os.environ.get("PYTHONPATH", "")) if p)
    with _interrupts_heeded():
        process = subprocess.Popen(
            list(command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **(environment or {})},
            start_new_session=True, preexec_fn=_with_parent(),  # noqa: PLW1509 - it takes no lock
        )  # fmt: skip
    assert process.stdout is not None
    lines: queue.Queue[str | None] = queue.Queue()

    def receive(stream: TextIO) -> None:
        for line in stream:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=receive, args=(process.stdout,), daemon=True).start()
    output: list[str] = []

    def until(end: float) -> bool | None:
        """Show what comes; True if the command ended, False if it may not go on, None if it took too long."""
        while (now := time.monotonic()) < end:
            try:
                line = lines.get(timeout=min(TICK, end - now))
            except queue.Empty:
                if not may_go_on():
                    return False
                continue
            if line is None:
                return True
            output.append(line)
            show(line)
        return None

    def send(number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)

    try:
        ended = until(time.monotonic() + seconds)
        if ended:
            return process.wait(), "".join(output)
        show(f"ended after {seconds:.0f} s\n" if ended is None else "ended: it waits for ever\n")
        send(signal.SIGINT)  # pytest then writes what it has, and a step ends what it has started
        may_go_on = lambda: True  # noqa: E731
        until(time.monotonic() + GRACE)
        return (CUT_OFF if ended is None else -signal.SIGKILL), "".join(output)
    finally:
        send(signal.SIGKILL)  # whatever it started must not use the device any longer
        process.wait()
