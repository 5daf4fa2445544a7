# SPDX-License-Identifier: Apache-2.0
"""The step counters: ncu, the profiler of the CUDA toolkit, on five kernels of gpu(0) (profiled.py)."""

from __future__ import annotations

import csv
import re
import sys
from typing import Any

from bench.gpu_check.device import arguments, open_rows
from bench.gpu_check.processes import CUT_OFF, find_tool, follow, module
from bench.gpu_check.profiled import KERNELS

SECTIONS = (
    *("SpeedOfLight", "MemoryWorkloadAnalysis", "Occupancy", "LaunchStats"),
    *("SchedulerStats", "WarpStateStats", "InstructionStats"),
)
SECONDS = 15.0  #: of one kernel
_REFUSED = re.compile(r"ERR_NVGPUCTRPERM|LibraryNotLoaded|not supported|Failed to (initialize|prepare)", re.I)
_ERROR = re.compile(r"^==ERROR==\s*(.*)", re.M)


class RefusedError(RuntimeError):
    """ncu may not, or cannot, read this device's counters."""


def metrics(output: str) -> list[dict[str, Any]]:
    """The kernels of ncu's comma-separated output: ``kernel``, and ``metrics`` by "section: name (unit)"."""
    lines = output.splitlines()
    start = next((k for k, line in enumerate(lines) if line.startswith('"ID"')), len(lines))
    found: dict[str, dict[str, Any]] = {}
    for row in csv.DictReader(line for line in lines[start:] if line.startswith('"')):
        name, value = row.get("Metric Name"), row.get("Metric Value")
        if not name or value is None:
            continue
        kernel = found.setdefault(row["ID"], {"kernel": row.get("Kernel Name", ""), "metrics": {}})
        unit = f" ({row['Metric Unit']})" if row.get("Metric Unit") else ""
        kernel["metrics"][f"{row.get('Section Name', '')}: {name}{unit}"] = _number(value)
    return list(found.values())


def _number(text: str) -> float | str:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return text


def profile(ncu: str, name: str, nbytes: int, seconds: float) -> dict[str, Any]:
    """The row of a kernel.

    Raises:
        RefusedError: no kernel can be profiled here.
    """
    options = [
        "--clock-control", "none",  # the clocks belong to the machine
        "--profile-from-start", "off", "--target-processes", "all", "--csv", "--page", "details",
        *(o for s in SECTIONS for o in ("--section", s)),
    ]  # fmt: skip
    command = [ncu, *options, *module("profiled", name, "--bytes", str(nbytes))]
    code, output = follow(command, lambda line: None, seconds)
    said = " ".join(_ERROR.findall(output))
    if _REFUSED.search(said) or "ERR_NVGPUCTRPERM" in output:
        raise RefusedError(said[:300])
    if code == CUT_OFF:
        return {"outcome": "deadlock", "problem": f"no end within {seconds:.0f} s under ncu"}
    found = metrics(output)
    if code or not found:
        lines = [line for line in output.splitlines() if line.strip()]
        return {"outcome": "error", "problem": (said or (lines[-1] if lines else f"code {code}"))[:300]}
    return {"kernels": found}


def main(arguments_: list[str] | None = None) -> int:
    options = arguments(__doc__).parse_args(arguments_)
    rows = open_rows(options)
    ncu = find_tool("ncu")
    if not ncu:
        rows.skip("ncu is not here (looked on the PATH, in $CUDA_HOME, $CUDA_PATH and /usr/local/cuda)")
        return 0
    refused: list[str] = []

    def work(name: str) -> dict[str, Any]:
        try:
            return profile(ncu, name, options.bytes, SECONDS)
        except RefusedError as e:
            refused.append(str(e))
            return {"outcome": "skipped", "problem": str(e)}

    for row in rows.measure("kernels", [{"name": n} for n in KERNELS], work, patience=0, least=SECONDS):
        for found in row.get("kernels", ()):
            print(f"{row['name']:<18} {found['kernel']}: {len(found['metrics'])} metrics", flush=True)
        if row.get("problem"):
            print(f"{row['name']:<18} {row['outcome']}: {row['problem']}", flush=True)
        if refused:
            rows.skip(f"ncu is here, but cannot read this device's counters: {refused[0]}")
            return 0
    return rows.finish()


if __name__ == "__main__":
    sys.exit(main())
