# SPDX-License-Identifier: Apache-2.0
"""Running a step: within its time, past parts that wait for ever, and past those that take the device along."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from bench.gpu_check.processes import CUT_OFF, follow, module
from bench.gpu_check.record import Log, StepRecord, public
from bench.gpu_check.rows import LOST, append, read
from bench.gpu_check.steps import Step

__all__ = ["PATIENCE", "Options", "absent", "run", "share"]

PATIENCE = 15.0  #: seconds that a part may take before its kernel is taken to wait for ever
MARGIN = 1.5  #: seconds that its own process has to end itself, with the place where it waits
LEAST = 4.0  #: seconds without which no process is started
PROCESSES = 10  #: that may end before their time before the device, or this machine, is taken to be of no use, …
IN_TURN = 3  #: … and so many one after the other with nothing to show
_ERROR = re.compile(r"([A-Za-z_][\w.]*(Error|Exception)|error|Error): ")


@dataclass
class Options:
    """What steps are told.

    Attributes:
        nbytes: of large arrays.
        only: parts that have it in their name are measured, the others left.
        peers: further interpreters for bench/peers.py.
    """

    patience: float = PATIENCE
    nbytes: int = 1 << 28
    only: str = ""
    peers: tuple[str, ...] = ()


def absent(packages: Sequence[str]) -> list[str]:
    """Those that this Python does not have."""
    from importlib.util import find_spec

    return [p for p in packages if find_spec(p) is None]


def share(seconds: float, step: Step, coming: Sequence[Step]) -> float:
    """How many of the ``seconds`` that are left a step may take, where others come behind it."""
    return seconds * step.seconds / (step.seconds + sum(s.seconds for s in coming))


def run(step: Step, file: Path, seconds: float, options: Options, log: Log, code: str = "") -> StepRecord:
    """Run a step for at most so many seconds; ``file`` has the rows of earlier processes."""
    start = time.monotonic()
    result = StepRecord(step.name, "skipped", code=code)
    lacking = absent(step.needs)
    if lacking:
        result.why = f"this Python has no {', '.join(lacking)}"
    elif seconds < LEAST:
        result.status, result.why = ("cut off" if file.exists() else "skipped"), "no time was left for it"
    else:
        result.status, result.why = _processes(step, file, start + seconds, options, log)
    result.take(read(file))
    result.seconds = round(time.monotonic() - start, 1)
    result.date = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return result


def _processes(step: Step, file: Path, end: float, options: Options, log: Log) -> tuple[str, str]:
    """(status, why), after as many processes as it takes."""
    in_turn = 0
    for _ in range(PROCESSES):
        left = end - time.monotonic()
        if left < LEAST:
            return "cut off", "its time was up"
        size = file.stat().st_size if file.exists() else 0
        before = _answered(file)
        arguments = ["--rows", str(file), "--seconds", f"{left - MARGIN:.1f}", "--patience", f"{options.patience:g}"]
        arguments += ["--bytes", str(options.nbytes), f"--only={options.only}", *(f"--peer={p}" for p in options.peers)]
        code, output = follow(
            module(step.module, *step.arguments, *arguments), log.write, left, lambda size=size: not _waits(file, size)
        )
        found = read(file)
        if found.skipped:
            return "skipped", public(found.skipped)
        if found.finished:
            return "ran", str(found.facts.get("stopped", ""))
        waited = found.begun is not None and _age(file) >= found.begun["patience"] > 0
        if code == CUT_OFF and not waited:
            return "cut off", "its time was up"
        if found.begun is not None:
            row = found.begun["begin"]
            if waited:
                row |= {"outcome": "deadlock", "problem": f"no end within {found.begun['patience']:g} s"}
            else:
                row |= {"outcome": "crash", "problem": f"its process ended with {_words(code)}"}
            append(file, row=row, list=found.begun["list"])
            log.write(f"{row['outcome']}: {' '.join(str(row[k]) for k in row['part'])}: {row['problem']}\n")
        elif found.left:
            why = f"{options.only!r} is not in their names" if options.only else "no time was left for them"
            return "cut off", f"{found.left} parts were left: {why}"
        elif code != LOST:
            return "failed", public(_last_error(output) or f"its process ended with {_words(code)}")
        in_turn = 0 if _answered(file) > before else in_turn + 1
        if in_turn == IN_TURN:
            return "failed", f"the device does not answer any more: {IN_TURN} processes in turn came to nothing"
    return "failed", f"{PROCESSES} processes were lost"


def _answered(file: Path) -> int:
    """How many parts a device gave some result for."""
    return sum(row["outcome"] in ("ok", "wrong") for rows in read(file).lists.values() for row in rows)


def _age(file: Path) -> float:
    """Seconds since a row was written."""
    return time.time() - file.stat().st_mtime


def _waits(file: Path, size: int) -> bool:
    """Whether the part at work takes longer than it may, and its process has not ended."""
    if not file.exists() or file.stat().st_size <= size:  # nothing has begun in this process
        return False
    begun = read(file).begun
    return begun is not None and begun["patience"] > 0 and _age(file) > begun["patience"] + MARGIN


def _words(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"code {code}"


def _last_error(output: str) -> str:
    """The line of a command's output that says what failed."""
    lines = [line for line in output.splitlines() if line.strip()]
    return next((line for line in reversed(lines) if _ERROR.match(line)), lines[-1] if lines else "")[:300]
