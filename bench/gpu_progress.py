# SPDX-License-Identifier: Apache-2.0
"""Measurements of many parts, one of which may take the device or the process with it.

After an illegal access every call of a process fails, and a kernel that waits for ever takes its process with it. So what is
found is written after every part, with the name of the one at work; a process that cannot go on ends, and the next one
with the same file continues behind that part.
"""

from __future__ import annotations

import faulthandler
import json
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

__all__ = ["LOST", "Progress"]

LOST = 3  #: exit code of a process whose device fails whatever it is asked


class Progress:
    """A document, and the file it is written to.

    Args:
        file: None writes nothing.
        seconds: that a part may take before the process is ended, 0 for as long as it likes.
        alive: raises an error if the device is of no use any more.
        budget: seconds after which no part is begun.

    Attributes:
        document: what was found; ``finished`` is in it once all parts are.
        left: how many parts no time was left for.
    """

    def __init__(
        self, file: Path | None, seconds: float, alive: Callable[[], object], budget: float = float("inf")
    ) -> None:
        self._file, self._seconds, self._alive = file, seconds, alive
        self._end, self.left = time.monotonic() + budget, 0
        self.document: dict[str, Any] = {}
        if file is not None and file.exists():
            before: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
            self.document = {} if "finished" in before else before
            ended = self.document.pop("running", None)
            if ended is not None:
                rows = self.document.setdefault(ended.pop("list"), [])
                rows.append({**ended, "ok": False, "problem": "the process did not outlive it"})

    def rows(
        self, key: str, parts: Sequence[dict[str, Any]], measure: Callable[..., dict[str, Any]]
    ) -> Iterator[dict[str, Any]]:
        """Measure what the document's list ``key`` lacks; gives each new row.

        Args:
            parts: what names each part; ``measure`` takes it as keywords, its row begins with it.

        Raises:
            SystemExit: the device has failed, with code LOST.
        """
        found = self.document.setdefault(key, [])
        for part in parts:
            if any(part.items() <= row.items() for row in found):
                continue
            if time.monotonic() > self._end:
                self.left += 1
                continue
            self.document["running"] = {"list": key, **part}
            self._write()
            if self._seconds:
                faulthandler.dump_traceback_later(self._seconds, exit=True, file=sys.__stderr__)
            try:
                row = {**part, **measure(**part)}
            except Exception as e:  # one part's failure is a row; the others go on
                traceback.print_exc()
                row = {**part, "ok": False, "problem": f"{type(e).__name__}: {e}"[:400]}
            finally:
                faulthandler.cancel_dump_traceback_later()
            found.append(row)
            del self.document["running"]
            self._write()
            yield row
            if row.get("problem"):
                self._check()

    def finish(self) -> None:
        """All parts are there, or as many as there was time for."""
        self.document["finished"] = True
        self._write()

    def _check(self) -> None:
        try:
            self._alive()
        except Exception as e:
            print(f"the device has failed: {type(e).__name__}: {e}", file=sys.stderr, flush=True)
            sys.exit(LOST)

    def _write(self) -> None:
        if self._file is not None:
            new = self._file.with_suffix(".new")
            new.write_text(json.dumps(self.document, indent=1) + "\n", encoding="utf-8")
            new.replace(self._file)
