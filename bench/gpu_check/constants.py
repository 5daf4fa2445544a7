# SPDX-License-Identifier: Apache-2.0
"""The step constants: `hybridgpu calibrate`, which measures what the compiler's choices take for granted of a device.

Nothing is stored, so that the steps behind this one measure what every user of such a GPU gets.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.gpu_check.device import arguments, open_rows
from bench.gpu_check.processes import CUT_OFF, follow

STARTED = 6.0  #: seconds that it takes besides
COMMAND = [sys.executable, "-m", "hybridgpu", "calibrate"]


def available() -> bool:
    """Whether this hybridgpu has the command."""
    return follow([*COMMAND, "--help"], lambda line: None, 30.0)[0] == 0


def measure(seconds: float) -> dict[str, Any]:
    """The row: what the command measured."""
    with tempfile.TemporaryDirectory(prefix="hybridgpu-check-") as folder:
        file = Path(folder, "constants.json")
        code, output = follow(
            [*COMMAND, "--dry-run", "--seconds", f"{max(1.0, seconds - STARTED):.0f}", "--json", str(file)],
            lambda line: print(line, end="", flush=True),
            seconds,
        )
        row: dict[str, Any] = {"constants": json.loads(file.read_text(encoding="utf-8"))} if file.exists() else {}
    if code == CUT_OFF:
        return row | {"outcome": "cut off", "problem": f"it took longer than {seconds:.0f} s"}
    if code:
        lines = [line for line in output.splitlines() if line.strip()]
        return row | {"outcome": "error", "problem": (lines[-1] if lines else f"it ended with code {code}")[:300]}
    return row


def main(arguments_: list[str] | None = None) -> int:
    options = arguments(__doc__).parse_args(arguments_)
    rows = open_rows(options)
    if not available():
        rows.skip("not available: this hybridgpu has no command calibrate")
        return 0
    for row in rows.measure(
        "constants", [{"name": "constants"}], lambda name: measure(rows.seconds), patience=0, least=2 * STARTED
    ):
        print(f"constants: {row['outcome']} {row.get('problem', '')}".rstrip(), flush=True)
    return rows.finish()


if __name__ == "__main__":
    sys.exit(main())
