# SPDX-License-Identifier: Apache-2.0
"""The check's document and log: check.json and check.log in a folder, which several commands fill."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TextIO

from bench.gpu_check.processes import ROOT
from bench.gpu_check.rows import Found, append, read

__all__ = ["SCHEMA", "Log", "Record", "StepRecord", "public"]

SCHEMA = "hybridgpu-gpu-check/2"
_ROWS = ".rows.jsonl"  #: what the name of a step's file ends with, while it is at work


def public(text: str) -> str:
    """A text in which this machine's folders are named by what they are."""
    known = {str(ROOT): ".", sys.prefix: "PYTHON", tempfile.gettempdir(): "TMP", str(Path.home()): "HOME"}
    for folder in sorted(known, key=len, reverse=True):
        if len(folder) > 1:
            text = re.sub(rf"(?<!\w){re.escape(folder)}(?![\w.-])", known[folder], text)
    return text


class Log:
    """Everything the steps print, on the terminal and in a file, without the folders of this machine."""

    def __init__(self, file: TextIO | None = None) -> None:
        self._file, self._waiting = file, ""

    def write(self, text: str) -> None:
        text = public(text)
        sys.stdout.write(text)
        sys.stdout.flush()
        if self._file is None:
            self._waiting += text
        else:
            self._file.write(text)
            self._file.flush()

    def into(self, file: TextIO) -> None:
        """From now on also there, with what has been written so far."""
        file.write(self._waiting)
        self._file, self._waiting = file, ""


@dataclass
class StepRecord:
    """What became of a step.

    Attributes:
        status: 'ran' to its end, 'cut off' when its time was up (it goes on when it is run again), 'skipped' since it
            cannot run here, or 'failed' by itself; ``why`` says more of the last three.
        seconds: that it took, in all commands together.
        date, code: of its last process: when, and a hash of hybridgpu's sources.
        problems: a sentence for each row that is not as it should be.
        left: parts that are still to be measured, if it was cut off and could count them.
        data: its facts, and its rows by the name of their list.
    """

    name: str
    status: str
    why: str = ""
    seconds: float = 0.0
    date: str = ""
    code: str = ""
    left: int = 0
    problems: list[str] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)

    def take(self, found: Found) -> None:
        """Take over the rows of a file."""
        self.data = {**found.facts, **found.lists}
        self.problems = [public(p) for p in found.problems()]
        self.left = found.left

    def line(self) -> str:
        """A line for people."""
        words = [self.why] if self.why else []
        if self.problems:
            more = f" (and {len(self.problems) - 1} more)" if len(self.problems) > 1 else ""
            words.append(
                f"{len(self.problems)} problem{'s' * (len(self.problems) > 1)}: {self.problems[0][:160]}{more}"
            )
        return f"{self.name:<13}{self.status:<8}{self.seconds:6.0f} s  {'; '.join(words)}".rstrip()


class Record:
    """The steps of a folder's check.json.

    Args:
        order: the names of all steps.

    Attributes:
        machine: the facts of the machine that the steps ran on, empty before the first.
    """

    def __init__(self, folder: Path, order: list[str]) -> None:
        self.folder, self._order = folder, order
        self.machine: dict[str, Any] = {}
        self.steps: dict[str, StepRecord] = {}

    def take_up(self, folder: Path) -> None:
        """Take over the steps of another folder, or of this one: also what a command left that was killed."""
        file = folder / "check.json"
        if file.exists():
            document = json.loads(file.read_text(encoding="utf-8"))
            if document.get("schema") != SCHEMA:
                raise ValueError(f"{file} is no {SCHEMA}")
            self.machine = document["machine"]
            self.steps |= {s["name"]: StepRecord(**s) for s in document["steps"] if s["name"] in self._order}
        for left in sorted(folder.glob(f"*{_ROWS}")):
            name = left.name.removesuffix(_ROWS)
            if name in self._order:
                step = self.steps.setdefault(name, StepRecord(name, "cut off"))
                found = read(left)
                step.take(found)
                step.status = "ran" if found.finished else "cut off"
                step.why = "" if found.finished else "the command ended before it"

    def rows_file(self, name: str, again: bool) -> Path:
        """The file for a step's rows, with those it has already; ``again`` begins anew."""
        file = self.folder / f"{name}{_ROWS}"
        file.unlink(missing_ok=True)
        step = self.steps.get(name)
        if step is None or again:
            return file
        lists = {k: v for k, v in step.data.items() if isinstance(v, list) and all(_is_row(r) for r in v)}
        facts = {k: v for k, v in step.data.items() if k not in lists}
        if facts:
            append(file, facts=facts)
        for key, rows in lists.items():
            for row in rows:
                append(file, row=row, list=key)
        return file

    def put(self, step: StepRecord) -> None:
        """Keep a step and write the document, whole: a machine may be taken away."""
        self.steps[step.name] = step
        document = {
            "schema": SCHEMA,
            "machine": self.machine,
            "steps": [asdict(self.steps[n]) for n in self._order if n in self.steps],
        }
        new = self.folder / "check.json.new"
        new.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        os.replace(new, self.folder / "check.json")
        (self.folder / f"{step.name}{_ROWS}").unlink(missing_ok=True)


def _is_row(row: Any) -> bool:
    return isinstance(row, dict) and "outcome" in row
