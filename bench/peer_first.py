# SPDX-License-Identifier: Apache-2.0
"""First calls of new processes, for bench/peers.py: every library cold and warm, beside the limits.

A process of its own imports a library, makes a workload and its input, and then one call is timed, to its result:
what a library traces, compiles, or loads in it; of training that call is a whole step. *Cold*: in an empty cache folder;
*warm*: the next process, in the folder that the first one has left, for libraries that keep compiled code on disk.
Importing (with what a library sets up then) has a column of its own. NumPy has been imported before. Results are compared
afterwards.
"""

from __future__ import annotations

import compileall
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

from peer_networks import NETWORKS
from peer_process import OURS, Worker, WorkerFailed, say

__all__ = ["CASES", "ROUNDS", "measure_all", "tables"]

ROOT = Path(__file__).resolve().parents[1]
#: workload -> its size
CASES = {"mlp": 1, "chain": 1000, "infer_resnet50": 1, "train_resnet18": 8, "train_language_model": 20}
TITLES = {
    "mlp": "perceptron, batch of 1",
    "chain": "chain, 1,000 elements",
    **{name: f"{NETWORKS[name].title}, batch of {size}" for name, size in CASES.items() if name in NETWORKS},
}
#: milliseconds, of all but networks
LIMITS = {"cpu": {"cold": 150.0, "warm": 3.0}, "gpu": {"cold": 250.0, "warm": 10.0}}
ROUNDS = 6  #: at least: one process differs from the next by half of a warm call
BASE = f"{OURS} static"


def caches(folder: str) -> dict[str, str]:
    """The environment in which all libraries keep what they compile in a folder, however quickly it was compiled."""
    return {
        "HYBRIDGPU_CACHE_DIR": folder,
        "TORCHINDUCTOR_CACHE_DIR": folder,
        "TORCHINDUCTOR_FX_GRAPH_CACHE": "1",
        "TORCHINDUCTOR_AUTOGRAD_CACHE": "1",
        "JAX_COMPILATION_CACHE_DIR": folder,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "NUMBA_CACHE_DIR": folder,
        "TF_XLA_FLAGS": f"--tf_xla_persistent_cache_directory={folder}",
        "CUPY_CACHE_DIR": folder,
        "CUDA_CACHE_PATH": folder,
    }


def one_process(worker: Worker, folder: str, mode: str, workload: str) -> dict[str, float]:
    """What a new process takes (``import_ms``, ``first_ms``, ``first_cpu_ms``).

    Raises:
        WorkerFailed: it cannot do that.
    """
    process = worker.another(**caches(folder))
    try:
        imported = process.ask(do="hello")["import_ms"]
        return {"import_ms": imported, **process.ask(do="first", workload=workload, size=CASES[workload], mode=mode)}
    finally:
        process.close()


def one_round(worker: Worker, mode: str, workload: str) -> dict[str, dict[str, float]]:
    """A cold process, and where a library keeps compiled code a warm one."""
    with tempfile.TemporaryDirectory(prefix="peers-first-", ignore_cleanup_errors=True) as folder:
        states = ("cold", "warm") if worker.first[mode] else ("cold",)
        return {state: one_process(worker, folder, mode, workload) for state in states}


def measure_all(workers: Sequence[Worker], device: str, rounds: int, limit: float) -> Iterable[dict[str, Any]]:
    """A case for each workload: all ways of all libraries in turns; what has taken ``limit`` seconds is not repeated."""
    compileall.compile_dir(ROOT / OURS, quiet=2)  # as installed packages are
    for workload, size in CASES.items():
        for worker in workers:
            if worker.label.startswith(OURS):  # it leaves its templates translated, as any earlier use of them does
                with suppress(WorkerFailed):  # which is said below
                    one_round(worker, next(iter(worker.first)), workload)
        rows: dict[tuple[int, str], list[dict[str, dict[str, float]]]] = {}
        failed: dict[str, str] = {}
        spent: dict[tuple[int, str], float] = {}
        network = workload in NETWORKS
        ways = [(k, mode) for k, w in enumerate(workers) for mode in w.first if not network or mode in w.networks]
        for r in range(rounds):
            first = r % max(1, len(ways))  # nobody is always first
            for k, mode in [*ways[first:], *ways[:first]]:
                name = f"{workers[k].label} {mode}"
                if name in failed or spent.get((k, mode), 0.0) > limit:
                    continue
                say(f"  first call, {workload}: {name}")
                start = time.perf_counter()
                try:
                    rows.setdefault((k, mode), []).append(one_round(workers[k], mode, workload))
                except WorkerFailed as e:
                    failed[name] = str(e)
                spent[k, mode] = spent.get((k, mode), 0.0) + time.perf_counter() - start
        done = {f"{workers[k].label} {mode}": rows[k, mode] for k, mode in ways if (k, mode) in rows}
        for name in failed:
            done.pop(name, None)
        limits = None if network else LIMITS[device]
        yield {
            "workload": workload,
            "size": size,
            "rounds": rounds,
            "limit_ms": limits,
            "rows": summarised(done, limits),
            "failed": failed,
        }


def summarised(
    measured: dict[str, list[dict[str, dict[str, float]]]], limits: dict[str, float] | None
) -> list[dict[str, Any]]:
    """Medians over rounds; of ratios to hybridgpu the medians of those within a round."""
    base = measured.get(BASE)
    rows = []
    for name, rounds in measured.items():
        imports = [v["import_ms"] for r in rounds for v in r.values()]
        row: dict[str, Any] = {"name": name, "import_ms": median(imports), "rounds": len(rounds)}
        for state in ("cold", "warm"):
            times = [r[state]["first_ms"] for r in rounds if state in r]
            row[state] = None
            if times:
                row[state] = {
                    "ms": median(times),
                    "min_ms": min(times),
                    "cpu_ms": median(r[state]["first_cpu_ms"] for r in rounds),
                    "over_hybridgpu": median(t / b[state]["first_ms"] for t, b in zip(times, base)) if base else None,
                    "over_limit": median(times) / limits[state] if limits else None,
                }
        rows.append(row)
    return rows


def tables(cases: Iterable[dict[str, Any]]) -> list[str]:
    """The cases as lines of Markdown."""
    lines: list[str] = []
    for case in cases:
        limits = case["limit_ms"] or {}
        lines += [f"**First call of a new process: {TITLES[case['workload']]}**", ""]
        beyond = {state: f" times the limit of {ms:g} ms |" for state, ms in limits.items()}
        lines += [
            "| milliseconds (times hybridgpu static) | import | cold | its processor time |"
            f"{beyond.get('cold', '')} warm |{beyond.get('warm', '')}",
            "|---|" + "---:|" * (4 + len(limits)),
        ]
        for row in case["rows"]:
            name = f"**{row['name']}**" if row["name"].startswith(OURS) else row["name"]
            name += "" if row["rounds"] == case["rounds"] else " ‡"
            cold, warm = row["cold"], row["warm"]
            cells = [number(row["import_ms"]), timed(cold), number(cold["cpu_ms"])]
            cells += [f"{cold['over_limit']:.2f}"] if limits else []
            cells += [timed(warm) if warm else "keeps nothing"]
            cells += ([f"{warm['over_limit']:.2f}"] if warm else ["–"]) if limits else []
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
        lines.append("")
        problems = {k: v for k, v in case["failed"].items() if not v.startswith("NotImplementedError")}
        lines += [f"{name} did not run: {why}" for name, why in problems.items()] + ([""] if problems else [])
    if lines:
        lines += [
            f"First calls: medians of rounds ({case['rounds']}), each in processes of its own (‡ fewer, for the time it "
            "takes). Cold: in an empty cache folder; warm: the next process; what keeps no compiled code on disk starts cold "
            "each time. Importing, with what a library sets up then, is not in the first call; finding a compiler is.",
            "",
        ]
    return lines


def number(ms: float) -> str:
    return f"{ms:,.0f}" if ms >= 100 else f"{ms:.3g}"


def timed(value: dict[str, Any]) -> str:
    ratio = value["over_hybridgpu"]
    return number(value["ms"]) + ("" if ratio is None else f" ({ratio:.2f})")
