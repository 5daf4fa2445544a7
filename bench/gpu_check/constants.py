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
from bench.gpu_check.processes import follow, shortfall

STARTED = 6.0  #: seconds that it takes besides
COMMAND = [sys.executable, "-m", "hybridgpu", "calibrate"]


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
    return row | shortfall(code, output, seconds)


def main(arguments_: list[str] | None = None) -> int:
    options = arguments(__doc__).parse_args(arguments_)
    rows = open_rows(options)
    for row in rows.measure(
        "constants", [{"name": "constants"}], lambda name: measure(rows.seconds), patience=0, least=2 * STARTED
    ):
        print(f"constants: {row['outcome']} {row.get('problem', '')}".rstrip(), flush=True)
    return rows.finish()


if __name__ == "__main__":
    sys.exit(main())
