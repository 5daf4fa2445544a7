# SPDX-License-Identifier: Apache-2.0
"""Everything that only a GPU can show, in two commands of ten minutes at most: bench/gpu_check.sh starts this.

    python -m bench.gpu_check [first] [second] [--steps NAME,…] [--out FOLDER] [--earlier FOLDER] [--again]

``first`` is about kernels, ``second`` about what compute-sanitizer finds and how fast programs are beside other libraries;
without a name, both. ``--list`` prints their steps. Each step leaves what it has when its time is up; the same command again
goes on behind that, and leaves alone the steps that came to their end (``--again`` runs them anew). So does another
machine with the same GPU that is given the folder of a check with ``--earlier``.

Writes check.json and check.log into bench/results/DATE-GPU, or into FOLDER. Exits with 0 if all steps ran and nothing was
wrong, 1 if something was, 2 if there is no GPU, no kernel runs on it, or a package is missing that all steps need, 3 if
steps were cut off or could not run.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

from bench.gpu_check.processes import ROOT
from bench.gpu_check.record import Log, Record
from bench.gpu_check.runner import PATIENCE, Options, absent, run, share
from bench.gpu_check.steps import COMMANDS, SECONDS, STEPS, Step, of_command, table

PACKAGES = ("numpy", "ml_dtypes", "jinja2", "click", "rich", "cupy")  #: what every step imports
FACTS = 30.0  #: seconds that each of the facts may take: the first contact with a GPU takes longest
_BY_NAME = {s.name: s for s in STEPS}


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        "bench/gpu_check.sh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("commands", nargs="*", metavar="COMMAND", help=f"{' or '.join(COMMANDS)}; both without any")
    parser.add_argument(
        "--installed", action="store_true", help="use $PYTHON (python3) as it is, instead of making .venv-gpu"
    )
    parser.add_argument("--steps", default="", metavar="NAME,…", help="instead of commands: these steps")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="what is written (bench/results/DATE-GPU)")
    parser.add_argument("--earlier", type=Path, metavar="FOLDER", help="of a check that is gone on with")
    parser.add_argument("--again", action="store_true", help="steps that came to their end are run anew")
    parser.add_argument("--budget", type=float, default=SECONDS, metavar="SECONDS", help="of a command (%(default)g)")
    parser.add_argument(
        "--patience", type=float, default=PATIENCE, metavar="SECONDS", help="that a kernel may take (%(default)g)"
    )
    parser.add_argument("--bytes", type=int, default=1 << 28, metavar="N", help="of a large array (%(default)s)")
    parser.add_argument("--peers", nargs="*", default=[], metavar="PYTHON", help="interpreters that have torch, jax, …")
    parser.add_argument("--only", default="", metavar="WORD", help="parts of steps that have it in their name")
    parser.add_argument("--list", action="store_true", help="print the steps")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.commands) - set(COMMANDS))
    if unknown:
        parser.error(f"no such command: {', '.join(unknown)}; there are {', '.join(COMMANDS)}")
    names = [n for n in options.steps.split(",") if n]
    unknown = sorted(set(names) - set(_BY_NAME))
    if unknown:
        parser.error(f"no such step: {', '.join(unknown)}; there are {', '.join(_BY_NAME)}")
    options.plan = [of_command(c) for c in COMMANDS if c in (options.commands or COMMANDS)]
    if names:
        options.plan = [[s.name for s in STEPS if s.name in names or s.always]]
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; returns the exit code."""
    start = time.monotonic()
    options = parse(arguments)
    if options.list:
        print(table(), end="")
        return 0
    lacking = absent(PACKAGES)
    if lacking:
        print(
            f"error: this Python has no {', '.join(lacking)}. Install what is missing for {sys.executable}, or, without "
            "a network, bring wheels and put what they hold on PYTHONPATH.",
            file=sys.stderr,
        )
        return 2
    with tempfile.TemporaryDirectory(prefix="hybridgpu-check-") as work:
        if absent(["platformdirs"]) and not os.environ.get("HYBRIDGPU_CACHE_DIR"):
            print("platformdirs is not installed: kernels are cached in a folder of this call")
            os.environ["HYBRIDGPU_CACHE_DIR"] = str(Path(work, "cache"))
        return Check(options, Path(work)).run_all(start)


class Check:
    """A call of this program.

    Args:
        work: a folder that lasts as long as it.
    """

    def __init__(self, options: argparse.Namespace, work: Path) -> None:
        from hybridgpu.cache.package_files import sources_hash

        self.options, self.work, self.log = options, work, Log()
        self.code = sources_hash()[:12]
        self.told = Options(options.patience, options.bytes, options.only, tuple(options.peers))

    def run_all(self, start: float) -> int:
        """Run the commands of the plan, the first of which began at ``start``."""
        facts = run(_BY_NAME["facts"], self.work / "facts.jsonl", 60.0, Options(FACTS), self.log, self.code)
        machine = facts.data.get("machine", [{}])[0].get("found", {})
        gpus = machine.get("cuda", {}).get("gpus", [])
        if facts.status != "ran" or facts.problems:
            why = facts.why or "; ".join(facts.problems)
            cuda = machine.get("cuda", {})
            found = [f"{k} {cuda[k]}" for k in ("cupy", "nvrtc", "driver") if cuda.get(k)]
            versions = f" ({', '.join(found)}; the driver by the newest CUDA that it is for)" if found else ""
            print(f"error: nothing was checked: {why}{versions}", file=sys.stderr)
            return 2
        date = datetime.now(timezone.utc)
        name = re.sub(r"[^a-z0-9]+", "-", gpus[0]["name"].lower()).strip("-")
        folder = self.options.out or ROOT / "bench" / "results" / f"{date:%Y-%m-%d}-{name}"
        folder.mkdir(parents=True, exist_ok=True)
        record = Record(folder, [s.name for s in STEPS])
        for place in (self.options.earlier, folder):
            try:
                if place is not None:
                    record.take_up(place)
            except ValueError as e:
                print(f"error: {e}", file=sys.stderr)
                return 2
            if record.machine and _kind(record.machine) != _kind(machine):
                print(f"error: {place} has a check of another GPU; name another folder with --out", file=sys.stderr)
                return 2
        if self.options.earlier is not None and (log := self.options.earlier / "check.log").exists():
            shutil.copyfile(log, folder / "check.log")
        record.machine = machine
        with (folder / "check.log").open("a", encoding="utf-8") as file:
            self.log.into(file)
            self.log.write(f"\n{date.isoformat(timespec='seconds')} {gpus[0]['name']}, code {self.code}\n")
            record.put(facts)
            for k, names in enumerate(self.options.plan):
                end = (start if k == 0 else time.monotonic()) + self.options.budget
                self.command(record, [_BY_NAME[n] for n in names if n != "facts"], end)
            wanted = [n for names in self.options.plan for n in names]
            steps = [record.steps[n] for n in dict.fromkeys(wanted)]
            self.log.write("\n" + "".join(s.line() + "\n" for s in steps))
            if unfinished := [s.name for s in steps if s.status == "cut off"]:
                self.log.write(f"the same command again goes on with {', '.join(unfinished)}\n")
        print(f"wrote check.json and check.log into {folder}")
        if any(s.problems or s.status == "failed" for s in steps):
            return 1
        return 3 if any(s.status != "ran" for s in steps) else 0

    def command(self, record: Record, steps: list[Step], end: float) -> None:
        """Run the steps that did not come to their end, until ``end``."""
        waiting: list[Step] = []
        for step in steps:
            before = record.steps.get(step.name)
            if before is None or before.status != "ran" or self.options.again:
                waiting.append(step)
                continue
            other = "" if before.code == self.code else f", of other code ({before.code}); --again runs it anew"
            self.log.write(f"== {step.name}: taken over from {before.date}{other}\n")
        while waiting:
            step = waiting.pop(0)
            self.log.write(f"\n== {step.name}: {step.runs}\n")
            before = record.steps.get(step.name)
            file = record.rows_file(step.name, self.options.again)
            seconds = share(end - time.monotonic(), step, waiting)
            result = run(step, file, seconds, self.told, self.log, self.code)
            if before is not None and not self.options.again:
                result.seconds = round(result.seconds + before.seconds, 1)
            record.put(result)
            self.log.write(f"== {result.line()}\n")


def _kind(machine: dict[str, object]) -> list[tuple[object, ...]]:
    """What has to be the same for results to belong together."""
    return [(g["name"], g["compute_capability"], g["multiprocessors"]) for g in machine["cuda"]["gpus"]]  # type: ignore[index]


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what runs is ended, too
    sys.exit(main())
