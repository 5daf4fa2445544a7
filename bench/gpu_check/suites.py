# SPDX-License-Identifier: Apache-2.0
"""The step bench: `hybridgpu bench` on gpu(0), suite by suite: networks, and arrays far beyond the L2."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.gpu_check.device import arguments, open_rows
from bench.gpu_check.processes import CUT_OFF, follow

SECONDS = 90.0  #: of one suite
LEAST = 15.0  #: without which none is begun
ROUNDS = "7"
#: suite -> options: arrays far beyond the L2 first; of networks the few sizes that a hurry leaves
SUITES = {
    **{name: ["--large"] for name in ("chain", "rows", "broadcast")},
    **{name: ["--quick"] for name in ("mlp", "lenet", "resnet")},
}


def measure(name: str, seconds: float, device: str) -> dict[str, Any]:
    """The row of a suite: what `hybridgpu bench` writes of it."""
    with tempfile.TemporaryDirectory(prefix="hybridgpu-check-") as folder:
        file = Path(folder, "suite.json")
        command = [sys.executable, "-m", "hybridgpu", "bench", "--suite", name, "--device", device, "--json", str(file)]
        code, output = follow([*command, "--repeat", ROUNDS, *SUITES[name]], _show, seconds)
        if file.exists():
            (suite,) = json.loads(file.read_text(encoding="utf-8"))["suites"]
            return {"suite": suite}
    if code == CUT_OFF:
        return {"outcome": "cut off", "problem": f"it took longer than {seconds:.0f} s"}
    lines = [line for line in output.splitlines() if line.strip()]
    return {"outcome": "error", "problem": (lines[-1] if lines else f"it ended with code {code}")[:300]}


def _show(line: str) -> None:
    sys.stdout.write(line)
    sys.stdout.flush()


def main(arguments_: list[str] | None = None) -> int:
    parser = arguments(__doc__, ("--device", {"choices": ["cpu", "gpu"], "default": "gpu"}))
    options = parser.parse_args(arguments_)
    rows = open_rows(options)

    def work(name: str) -> dict[str, Any]:
        return measure(name, min(SECONDS, rows.seconds), options.device)

    for row in rows.measure("suites", [{"name": n} for n in SUITES], work, patience=0, least=LEAST):
        print(f"{row['name']:<10} {row['outcome']} {row.get('problem', '')}".rstrip(), flush=True)
    return rows.finish()


if __name__ == "__main__":
    sys.exit(main())
