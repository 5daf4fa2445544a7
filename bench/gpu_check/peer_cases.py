# SPDX-License-Identifier: Apache-2.0
"""The step peers: bench/peers.py on gpu(0), with the libraries that are here: arrays far beyond the L2, and small batches.

A library's first case may take it long: that is
when torch.compile starts its compilers.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.gpu_check.device import arguments, open_rows
from bench.gpu_check.processes import follow, shortfall

PATIENCE = 120  #: seconds that a library may take to prepare a case
LEAST = 20.0  #: seconds without which no workload is begun
ROUNDS = "7"
#: groups of cases that are measured in one process of each library
GROUPS = {
    "beyond the L2": ("chain:33554432", "normalise:32768", "softmax:1024", "norm:1024", "softmax:262144"),
    "batches": ("mlp:1", "mlp:16", "lenet:16", "resnet:8"),
}
ELEMENTS = 1 << 25  #: of rows, together: 128 MiB, as the others have
SMALL = {"beyond the L2": ("chain:1000", "softmax:8192"), "batches": ("mlp:1",)}  #: in a rehearsal


def measure(name: str, peers: list[str], seconds: float, device: str, small: bool) -> dict[str, Any]:
    """The row of a group: the document of bench/peers.py, as far as it came."""
    with tempfile.TemporaryDirectory(prefix="hybridgpu-check-") as folder:
        command = [sys.executable, "bench/peers.py", *peers, "--device", device, "--out", folder, "--rounds", ROUNDS]
        command += ["--timeout", str(PATIENCE), "--limit", "5", "--case", *(SMALL if small else GROUPS)[name]]
        command += [] if small else ["--elements", str(ELEMENTS)]
        code, output = follow(command, lambda line: print(line, end="", flush=True), seconds)
        files = sorted(Path(folder).glob("*.json"))
        document = json.loads(files[0].read_text(encoding="utf-8")) if files else {}
    row: dict[str, Any] = {"peers": {k: v for k, v in document.items() if k != "machine"}}
    return row | shortfall(code, output, seconds)


def main(arguments_: list[str] | None = None) -> int:
    parser = arguments(__doc__, ("--device", {"choices": ["cpu", "gpu"], "default": "gpu"}))
    options = parser.parse_args(arguments_)
    rows = open_rows(options)

    def work(name: str) -> dict[str, Any]:
        return measure(name, options.peer, rows.seconds, options.device, options.bytes < 1 << 24)

    for row in rows.measure("workloads", [{"name": n} for n in GROUPS], work, patience=0, least=LEAST):
        print(f"{row['name']:<14} {row['outcome']} {row.get('problem', '')}".rstrip(), flush=True)
    return rows.finish()


if __name__ == "__main__":
    sys.exit(main())
