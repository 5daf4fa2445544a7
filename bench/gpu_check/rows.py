# SPDX-License-Identifier: Apache-2.0
"""Rows of a step: a file of JSON lines that outlives whatever happens to the process which writes it.

After an illegal access every call of a process fails, a kernel that waits for ever takes its process with it, and a
machine may be taken away at any time. So a part is noted when it begins and its row is written when it ends; the next
process with the same file goes on behind the last one. The lines:

    {"begin": PART, "list": NAME, "patience": SECONDS}    a part is at work
    {"row": ROW, "list": NAME}                            what became of it; a row begins with its part
    {"facts": {...}}                                      what holds for all rows
    {"skipped": WHY}                                      the step cannot run here
    {"left": N}                                           no time was left for so many parts
    {"finished": true}                                    every part has its row
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["BAD", "LOST", "Found", "Rows", "append", "read"]

LOST = 3  #: exit code of a process whose device fails whatever it is asked
BAD = ("wrong", "error", "deadlock", "crash")  #: outcomes that are problems; "ok", "skipped" and "cut off" are none


@dataclass
class Found:
    """What a file of rows says.

    Attributes:
        lists: rows by the name of their list.
        begun: the part that was at work when the file ended, as its line.
        left: parts for which no time was left when a process last ended by itself.
    """

    lists: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    begun: dict[str, Any] | None = None
    skipped: str = ""
    left: int = 0
    finished: bool = False

    def add(self, name: str, row: dict[str, Any]) -> None:
        """Add a row to a list, in place of one of the same part that was cut off."""
        rows = self.lists.setdefault(name, [])
        rows[:] = [r for r in rows if r["outcome"] != "cut off" or title(r) != title(row)]
        rows.append(row)

    def problems(self) -> list[str]:
        """A sentence for every row that is not as it should be."""
        rows = [row for rows in self.lists.values() for row in rows if row.get("outcome") in BAD]
        return [f"{title(row)}: {row['outcome']}: {row.get('problem', '')}".rstrip(": ") for row in rows]


def title(row: dict[str, Any]) -> str:
    """A row's part in words."""
    return " ".join(str(row[k]) for k in row.get("part", ["name"]) if k in row)


def read(file: Path) -> Found:
    """Fold a file of rows; a line that was cut off is left out."""
    found = Found()
    if not file.exists():
        return found
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            message = json.loads(line)
        except ValueError:
            continue
        if "begin" in message:
            found.begun, found.left = message, 0
        elif "row" in message:
            found.add(message["list"], message["row"])
            found.begun = None
        found.facts |= message.get("facts", {})
        found.skipped = message.get("skipped", found.skipped)
        found.left = message.get("left", found.left)
        found.finished |= message.get("finished", False)
    return found


def append(file: Path, **message: Any) -> None:
    """Add a line."""
    with file.open("ab+") as stream:
        size = stream.seek(0, os.SEEK_END)
        if size:
            stream.seek(size - 1)
            torn = stream.read(1) != b"\n"  # the process before was killed within a line
            stream.write(b"\n" if torn else b"")
        stream.write(json.dumps(message).encode() + b"\n")


class Rows:
    """The rows of this process's step.

    Args:
        file: None writes nothing.
        patience: seconds that a part may take before the process is ended, 0 for as long as it likes.
        seconds: after which no part is begun.
        alive: raises an error if the device is of no use any more.
        only: parts whose title has this in it are measured, the others left.

    Attributes:
        found: everything so far, also of the processes before.
    """

    def __init__(
        self,
        file: Path | None = None,
        patience: float = 0,
        seconds: float = float("inf"),
        alive: Callable[[], object] = lambda: None,
        only: str = "",
    ) -> None:
        self._file, self._patience, self._alive, self._only = file, patience, alive, only
        self._end = time.monotonic() + seconds
        self.found = read(file) if file is not None else Found()
        self.found.left, self.found.begun = 0, None

    @property
    def seconds(self) -> float:
        """How much time is left."""
        return self._end - time.monotonic()

    def facts(self, **values: Any) -> None:
        """Note what holds for all rows."""
        self.found.facts |= values
        self._write(facts=values)

    def skip(self, why: str) -> None:
        """The step cannot run here."""
        self.found.skipped = why
        self._write(skipped=why)

    def measure(
        self,
        name: str,
        parts: Sequence[dict[str, Any]],
        work: Callable[..., dict[str, Any]],
        family: Callable[[dict[str, Any]], str] = lambda part: "",
        patience: float | None = None,
        least: float = 0,
    ) -> Iterator[dict[str, Any]]:
        """Do what the list ``name`` lacks; gives each new row.

        Args:
            parts: what tells them apart; ``work`` takes each as keywords and gives its row, with an ``outcome`` if it is
                not "ok" and then a ``problem``.
            family: of a part: after one that waits for ever the others of its family are left out ('' is no family).
            patience: of these parts, in place of the usual one; 0 where ``work`` looks after that itself.
            least: seconds without which a part is not begun.

        Raises:
            SystemExit: the device has failed, with code LOST.
        """
        rows = self.found.lists.setdefault(name, [])
        patience = self._patience if patience is None else patience
        for part in parts:
            if any(part.items() <= row.items() and row["outcome"] != "cut off" for row in rows):
                continue
            begun = {"part": list(part), **part, **({"family": f} if (f := family(part)) else {})}
            blocked = next((r for r in rows if f and r.get("family") == f and r["outcome"] == "deadlock"), None)
            if blocked is not None:
                why = f"after the deadlock of {title(blocked)}, also of the family {f}"
                yield self._add(name, {**begun, "outcome": "skipped", "problem": why})
                continue
            if self.seconds < least or self._only not in title(begun):
                self.found.left += 1
                continue
            self._write(begin=begun, list=name, patience=patience)
            if patience:
                faulthandler.dump_traceback_later(patience, exit=True, file=sys.__stderr__)
            try:
                row = {"outcome": "ok", **work(**part)}
            except KeyboardInterrupt:
                print(f"ended at {title(begun)}", file=sys.stderr, flush=True)
                sys.exit(130)
            except Exception as e:  # one part's failure is a row; the others go on
                traceback.print_exc()
                row = {"outcome": "error", "problem": f"{type(e).__name__}: {' '.join(str(e).split())}"[:400]}
            finally:
                faulthandler.cancel_dump_traceback_later()
            yield self._add(name, begun | row)
            self.found.left += row["outcome"] == "cut off"
            if row["outcome"] in BAD:
                self._check()

    def finish(self) -> int:
        """All parts are there, or as many as there was time for. Returns the exit code: 1 if a row is bad."""
        if self.found.left:
            self._write(left=self.found.left)
            print(f"{self.found.left} parts were left")
        elif not self.found.skipped:
            self._write(finished=True)
        return 1 if self.found.problems() else 0

    def _add(self, name: str, row: dict[str, Any]) -> dict[str, Any]:
        self.found.add(name, row)
        self._write(row=row, list=name)
        return row

    def _check(self) -> None:
        try:
            self._alive()
        except Exception as e:
            print(f"the device has failed: {type(e).__name__}: {e}", file=sys.stderr, flush=True)
            sys.exit(LOST)

    def _write(self, **message: Any) -> None:
        if self._file is not None:
            append(self._file, **message)
