# SPDX-License-Identifier: Apache-2.0
"""The steps memcheck, racecheck, initcheck and synccheck: every case graph on gpu(0) under compute-sanitizer.

The rows are those of the step kernels, which runs under the tool; the list ``tool`` has a row for each of its processes.
Cases are taken so that those for which there was time are of every kind.
"""

from __future__ import annotations

import re
import sys
import time

from bench.gpu_check.device import arguments
from bench.gpu_check.kernels import compilers
from bench.gpu_check.processes import beside, find_tool, follow, module
from bench.gpu_check.rows import LOST, Rows, append, read
from bench.gpu_check.rows import title as title_of

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
FOUND = 86  #: exit code of compute-sanitizer where it reports something
COMPILERS = 6
SPREAD = 4  #: every fourth case first
SLOW = 18.0  #: seconds that a kernel may take at least, which the tool makes many times slower
_REFUSED = re.compile(r"Device not supported|Failed to initialize|Unable to find injection library", re.I)
_SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (\d+)")
_ERROR = re.compile(
    r"^=========\s+(Invalid|Error|Warning|Uninitialized|Barrier error|Race|Program hit|Malloc|Free)", re.I
)


class Listener:
    """Shows a tool's output and keeps what it says of errors, with the case that was at work."""

    def __init__(self, file: object) -> None:
        self._file = file
        self.errors: list[str] = []
        self.refused = self.version = ""

    def __call__(self, line: str) -> None:
        sys.stdout.write(line)
        sys.stdout.flush()
        text = line.strip("= \n")
        if _REFUSED.search(line):
            self.refused = self.refused or text
        if "COMPUTE-SANITIZER" in line:
            self.version = text
        elif _ERROR.match(line) and "SUMMARY" not in line and len(self.errors) < 20:
            begun = read(self._file).begun if self._file is not None else None  # type: ignore[arg-type]
            self.errors.append(f"{title_of(begun['begin'])}: {text}" if begun else text)


def counted(output: str) -> int | None:
    """How many errors or hazards the tool counted; None if it came to no summary."""
    found = _SUMMARY.findall(output)
    return sum(map(int, found)) if found else None


def main(arguments_: list[str] | None = None) -> int:
    parser = arguments(__doc__, ("tool", {"choices": TOOLS}), ("cases", {"nargs": "*", "metavar": "CASE"}))
    options = parser.parse_args(arguments_)
    rows = Rows(options.rows)
    binary = find_tool("compute-sanitizer")
    if not binary:
        looked = "on the PATH, in $CUDA_HOME, $CUDA_PATH and /usr/local/cuda"
        rows.skip(f"compute-sanitizer is not here (looked {looked}); it comes with the CUDA toolkit")
        return 0
    told = ["--no-pool", "--spread", str(SPREAD), "--patience", f"{max(SLOW, options.patience):g}"]
    told.append(f"--only={options.only}")
    if options.rows is not None:
        told += ["--rows", str(options.rows)]
    if options.seconds != float("inf"):
        told += ["--seconds", f"{options.seconds - SLOW / 2:.1f}"]  # it writes its summary behind the last case
    own = ["--tool", options.tool, "--error-exitcode", str(FOUND), "--print-limit", "20"]
    listener = Listener(options.rows)
    start = time.monotonic()
    command = [binary, *own, *module("kernels", *options.cases, *told)]
    with beside(compilers(COMPILERS, SPREAD, options.only)):  # not under the tool
        code, output = follow(command, listener, min(options.seconds, 3600.0))
    if listener.refused:
        rows.skip(f"compute-sanitizer is here, but cannot check this device: {listener.refused}")
        return 0
    errors = counted(output)
    found = read(options.rows) if options.rows is not None else rows.found
    name = f"process {1 + len(found.lists.get('tool', []))}"
    row = {"part": ["name"], "name": name, "outcome": "ok", "version": listener.version, "errors": errors}
    row |= {"seconds": round(time.monotonic() - start, 1), "first": listener.errors}
    if errors or (errors is None and listener.errors):
        said = f"{len(listener.errors) if errors is None else errors} errors; {'; '.join(listener.errors[:3])}"
        row |= {"outcome": "wrong", "problem": said[:400]}
    elif errors is None and found.begun is None:
        row |= {"outcome": "error", "problem": f"no summary; it ended with code {code}"}
    if options.rows is None:
        print(row)
        return int(row["outcome"] != "ok")
    if found.begun is None:
        append(options.rows, row=row, list="tool")
        # its own code hides that of the kernels
        return LOST if code == FOUND and not (found.finished or found.left) else code
    append(options.rows, facts={f"tool in {name}": row})  # the case that is still at work took it along
    return code


if __name__ == "__main__":
    sys.exit(main())
