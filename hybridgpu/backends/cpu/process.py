# SPDX-License-Identifier: Apache-2.0
"""Compiler processes, which a child that is forked meanwhile leaves alone.

The child has all pipes, too. A compiler whose input it could still write to would read on until the child ends, and
who reads what a compiler says would wait for it as long.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    import subprocess

__all__ = ["run", "start"]

_fed: WeakSet[subprocess.Popen[str]] = WeakSet()
_starting = threading.RLock()  #: forks wait for it: until a compiler is started its ends of the pipes are ours


def start(command: list[str], own_group: bool = False) -> subprocess.Popen[str]:
    """Start a compiler that reads its standard input. Raises OSError if that cannot be done.

    Args:
        own_group: so that it can be ended together with what it starts.
    """
    import subprocess  # 3 ms, and nothing that is in the cache needs it

    pipe = subprocess.PIPE
    with _starting:
        process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, close_fds=False, start_new_session=own_group
        )
        _fed.add(process)
    return process


def run(
    command: list[str], source: str, meanwhile: Callable[[], object] | None = None
) -> subprocess.CompletedProcess[str]:
    """The output of a compiler for a text, which is short if there is something to do ``meanwhile``."""
    import subprocess

    with start(command) as process:
        try:
            if meanwhile is not None:
                assert process.stdin is not None
                with suppress(BrokenPipeError), process.stdin:  # broken: it said what it has to say without reading
                    process.stdin.write(source)
                process.stdin, source = None, ""
                meanwhile()
            out, errors = process.communicate(source)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, errors)


def _after_in_child() -> None:
    try:
        for process in list(_fed):
            stream = process.stdin
            if stream is not None and not stream.closed:
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, stream.fileno(), inheritable=False)
                os.close(nowhere)
        _fed.clear()
    finally:  # even where no file can be opened: compilers of the child start
        _starting.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_starting.acquire, after_in_parent=_starting.release, after_in_child=_after_in_child)
