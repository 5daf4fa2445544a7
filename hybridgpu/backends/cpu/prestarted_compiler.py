# SPDX-License-Identifier: Apache-2.0
"""PrestartedCompiler: a compiler process that starts before there is a unit to compile.

A fifth of what a compiler does for a small unit is the same for all: it starts, builds its tables, and reads what
every unit begins with. It can do that while the first call still traces and plans, and then wait for the rest of its
text, which ``kernels/read_stdin.h`` takes from the standard input.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakSet

from ...core import temp_dirs
from .process import start

if TYPE_CHECKING:
    import subprocess

__all__ = ["PrestartedCompiler", "start_many"]

_all: WeakSet[PrestartedCompiler] = WeakSet()


class PrestartedCompiler:
    """A compiler at its standard input. Leaving the ``with`` ends it and deletes what it made.

    Attributes:
        object: the file that the machine code of its unit goes to.
    """

    def __init__(self, command: list[str]) -> None:
        """``command``: all but the file to write. Raises OSError if it cannot be started."""
        self._folder = temp_dirs.make()
        self.object = Path(self._folder, "unit.o")
        self._command = [*command, "-o", str(self.object)]
        try:
            # a group of its own, to be ended together: the driver starts compiler and assembler
            self._process = start(self._command, own_group=True)
        except BaseException:
            temp_dirs.remove(self._folder)
            raise
        _all.add(self)

    def finish(self, text: str) -> subprocess.CompletedProcess[str]:
        """Give it the rest of its unit, once, and wait for what it says."""
        import subprocess

        out, errors = self._process.communicate(text)
        return subprocess.CompletedProcess(self._command, self._process.returncode, out, errors)

    def __enter__(self) -> PrestartedCompiler:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            with contextlib.suppress(OSError):  # of what was still to be written
                if stream is not None:
                    stream.close()

    def end(self) -> None:
        """End the compiler and delete what it made."""
        _all.discard(self)
        if self._process.returncode is None:
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        temp_dirs.remove(self._folder)


@contextlib.contextmanager
def start_many(count: int, command: list[str]) -> Iterator[Sequence[PrestartedCompiler]]:
    """So many of them, or fewer where no more can be started: no place, no more processes."""
    with contextlib.ExitStack() as left:
        compilers: list[PrestartedCompiler] = []
        with contextlib.suppress(OSError):
            for _ in range(count):
                compilers.append(left.enter_context(PrestartedCompiler(command)))
        yield compilers


@atexit.register
def _end_all() -> None:
    """The end of all compilers of a thread that goes on compiling when the process ends."""
    for compiler in list(_all):
        compiler.end()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_all.clear)  # they are the parent's
