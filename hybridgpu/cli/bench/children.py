# SPDX-License-Identifier: Apache-2.0
"""The child processes of ``hybridgpu bench``, started from the parent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from .first_call import SCRIPT
from .results import FirstCall, SuiteResult

__all__ = ["first_calls", "run_worker"]

_LIBRARIES = ("HYBRIDGPU", "OMP", "OPENBLAS", "MKL", "NUMEXPR")
_THREADS = (*(f"{library}_NUM_THREADS" for library in _LIBRARIES), "VECLIB_MAXIMUM_THREADS")


def _environment(threads: str, **more: str) -> dict[str, str]:
    """This process's environment with a number of threads, or "all" that each library takes by itself, and hybridgpu where it
    was imported from."""
    root = str(Path(__file__).resolve().parents[3])
    path = os.pathsep.join(p for p in (root, os.environ.get("PYTHONPATH", "")) if p)
    counts = {} if threads == "all" else dict.fromkeys(_THREADS, threads)
    return {**os.environ, **counts, "PYTHONPATH": path, **more}


def run_worker(options: dict[str, Any], progress: Callable[[int, str], None]) -> SuiteResult:
    """Measure one suite in a process of its own.

    Args:
        options: the worker's.
        progress: (steps in all, label of the step done; '' at the start).

    Raises:
        click.ClickException: it failed; the message is the worker's.
    """
    command = [sys.executable, "-m", "hybridgpu.cli.bench.worker", json.dumps(options)]
    environment = _environment(options["threads"])
    result: SuiteResult | None = None
    error = ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        steps = 0
        for line in process.stdout:
            message = json.loads(line)
            if "steps" in message:
                steps = message["steps"]
                progress(steps, "")
            elif "done" in message:
                progress(steps, message["done"])
            elif "error" in message:
                error = message["error"]
            else:
                result = message["result"]
    if result is None:
        raise click.ClickException(error or f"the measuring process ended with code {process.returncode}")
    return result


def first_calls(suite: str, device: str, threads: str, processes: int) -> list[FirstCall]:
    """What new processes wait for: with an empty cache folder each (cold), then with the last one's (warm).

    Raises:
        click.ClickException: a process failed.
    """
    calls: list[FirstCall] = []
    with tempfile.TemporaryDirectory(prefix="hybridgpu-bench-") as root:
        for cache in ("cold", "warm"):
            runs = []
            for k in range(processes):
                folder = Path(root, str(k if cache == "cold" else 0))
                runs.append(_first_call(suite, device, _environment(threads, HYBRIDGPU_CACHE_DIR=str(folder))))
            least = min(runs, key=lambda run: run["backend_ms"] + run["first_call_ms"])
            calls.append({"cache": cache, "processes": processes, **least})  # type: ignore[typeddict-item]
    return calls


def _first_call(suite: str, device: str, environment: dict[str, str]) -> dict[str, Any]:
    environment.pop("HYBRIDGPU_CACHE", None)  # 0 would make every process a cold one
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # it would add the time of compiling our own sources and templates
    command = [sys.executable, "-c", SCRIPT, suite, device]
    run = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if run.returncode != 0:
        lines = run.stderr.strip().splitlines()
        raise click.ClickException(f"timing the first call failed: {lines[-1] if lines else run.returncode}")
    return json.loads(run.stdout.strip().splitlines()[-1])  # type: ignore[no-any-return]
