# SPDX-License-Identifier: Apache-2.0
"""The step tests: ``pytest -m gpu tests/gpu``, several at a time, with a row for each test as soon as it is done.

A test whose kernel waits for ever ends its process (tests/gpu/conftest.py), and pytest-xdist starts another one. The case
graphs are left out: the step kernels has them, in more ways.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from typing import Any

import pytest

from bench.gpu_check.device import arguments
from bench.gpu_check.processes import ROOT, cores
from bench.gpu_check.record import public
from bench.gpu_check.rows import Rows, append

WORKERS = 8  #: at most, and half as many as there are processors, which compile kernels
FAILURES = 60  #: after which more of them say nothing new
RESTARTS = 20  #: of processes whose device has failed
COMPILED = 3.0  #: seconds that tests get beyond the usual patience: several at a time compile kernels
ELSEWHERE = ("tests/gpu/test_kernels.py::test_case",)
_LAST = "test_graph_kernels.py"  #: barriers of the whole grid


class RowsOfTests:
    """A plugin of pytest that writes rows.

    Args:
        alone: tests run in this process, which a kernel that waits for ever takes with it: what begins is noted.
        patience: seconds that tests/gpu/conftest.py gives a test.
    """

    def __init__(self, rows: Rows, file: Any, alone: bool, patience: float) -> None:
        self._rows, self._file, self._alone, self._patience = rows, file, alone, patience
        self._started: dict[str, float] = {}
        self.written = {row["name"] for row in rows.found.lists.get("tests", [])}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items.sort(key=lambda item: _LAST in item.nodeid)

    def pytest_runtest_logstart(self, nodeid: str, location: Any) -> None:
        self._started[nodeid] = time.monotonic()
        if self._alone and self._file is not None:
            append(self._file, begin={"part": ["name"], "name": nodeid}, list="tests", patience=self._patience)

    def pytest_runtest_logreport(self, report: Any) -> None:
        took = time.monotonic() - self._started.get(report.nodeid, time.monotonic())
        row: dict[str, Any] = {"part": ["name"], "name": report.nodeid, "outcome": "ok"}
        if report.when not in ("setup", "call", "teardown"):  # pytest-xdist: the process is gone
            waited = took > self._patience - 1
            row |= {"outcome": "deadlock" if waited else "crash", "problem": _first(report)}
        elif report.failed:
            row |= {"outcome": "error", "problem": _first(report)}
        elif report.skipped:
            row |= {"outcome": "skipped", "problem": _first(report)}
        elif report.when != "teardown":
            return
        if report.nodeid in self.written:
            return  # a failure has its row already
        self.written.add(report.nodeid)
        row["seconds"] = round(took, 3)
        self._rows.found.lists.setdefault("tests", []).append(row)
        if self._file is not None:
            append(self._file, row=row, list="tests")


def _first(report: Any) -> str:
    """What a report says, in a line."""
    crash = getattr(getattr(report.longrepr, "reprcrash", None), "message", None)
    text = crash or (report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr))
    return public(" ".join(text.split()))[:300]


def main(arguments_: list[str] | None = None) -> int:
    parser = arguments(__doc__, ("tests", {"nargs": "*", "metavar": "TEST", "default": ["tests/gpu"]}))
    options = parser.parse_args(arguments_)
    rows = Rows(options.rows)
    os.chdir(ROOT)
    # plugins of other packages that happen to be installed are none of ours, and our warnings are errors
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    alone = importlib.util.find_spec("xdist") is None
    patience = (options.patience or 60.0) + COMPILED
    os.environ["GPU_TEST_PATIENCE"] = str(patience)
    before = len(rows.found.lists.get("tests", []))
    plugin = RowsOfTests(rows, options.rows, alone, patience)
    chosen = [*options.tests, "-m", "gpu", "-p", "no:cacheprovider", "--tb=short", f"--maxfail={FAILURES}"]
    chosen += [f"--deselect={name}" for name in (*ELSEWHERE, *plugin.written)]
    chosen += ["-k", options.only] if options.only else []
    if not alone:
        chosen += [
            "-p",
            "xdist.plugin",
            "-n",
            str(max(2, min(WORKERS, cores() // 2))),
            f"--max-worker-restart={RESTARTS}",
        ]
    code = pytest.main(chosen, plugins=[plugin])
    found = rows.found.lists.get("tests", [])
    print(", ".join(f"{sum(r['outcome'] == o for r in found)} {o}" for o in sorted({r["outcome"] for r in found})))
    if sum(r["outcome"] == "error" for r in found[before:]) >= FAILURES:
        rows.facts(stopped=f"it stopped after {FAILURES} failures")
        return rows.finish()
    if code in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) or (
        code == pytest.ExitCode.NO_TESTS_COLLECTED and found
    ):
        rows.found.left = int(bool(options.only))
        return rows.finish()
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
