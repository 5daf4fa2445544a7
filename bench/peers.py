# SPDX-License-Identifier: Apache-2.0
"""hybridgpu beside other libraries, in one run.

    python bench/peers.py [PYTHON ...] [--workload NAME ... | all] [--device cpu|gpu] [--threads all 1] [--rounds 15]
                          [--size N ... | --case WORKLOAD:SIZE ...] [--elements N] [--limit SECONDS] [--minutes N]
                          [--quick] [--out FOLDER]

Each PYTHON is an interpreter that has some of torch, jax, tensorflow, mxnet, numexpr, numba; the one that runs
this file has hybridgpu, NumPy and (on a GPU) CuPy, and its own peers if it has any. Every library runs in a
process of its own (bench/peer_worker.py); all of them are started first, then take turns,
a batch of calls at a time, so that a slow phase of the machine meets all. Times are medians over rounds;
ratios are medians of the ratio to hybridgpu static within a round. On the CPU every result is waited for
before the next call. On a GPU both are measured: with that wait (latency) and without (throughput).
The limit is a copy of as many bytes as a program has to read and write. What has used up ``--limit`` takes part
in no further round of a case. Of arrays beyond 2^26 elements each library's fastest ways alone are measured.

``--threads``: "all" leaves every library the threads that it takes by itself, as users have it; "1", the laboratory, gives
each one thread. Both may be named; each case is then measured twice.

Two workloads are suites. ``eager``: single operators, called as programs without blocks do. ``networks``
(bench/peer_networks.py): inference and steps of training (forward, loss, backward, update), each way in a new process, whose
most resident memory beyond that of the imported library is noted; losses of three steps have to agree. The
workload ``first`` is another measurement: bench/peer_first.py times first calls of two workloads and of networks in new
processes, in an empty cache folder and in a filled one.

``--minutes``: no case is begun later. ``--out`` writes peers-DATE-PROCESSOR.json and .md there, after every case, or
NAME-DATE-PROCESSOR where one suite, or ``first``, alone was asked for.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import sys
import time
from datetime import datetime, timezone
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import peer_first as first  # noqa: E402  (of this folder)
import peer_networks as networks  # noqa: E402
import peer_workloads as workloads  # noqa: E402
from peer_process import OURS, Worker, WorkerFailed, say  # noqa: E402

SCHEMA = "hybridgpu-peers/1"
BASE = f"{OURS} static"
PEERS = ("mxnet", "torch", "jax", "tensorflow", "numexpr", "numba")
SIZES = {"mlp": (1, 16), "chain": tuple(10**k for k in range(3, 9)), **workloads.SIZES, **networks.SIZES}
TITLES = {
    "mlp": "Perceptron 512-256-128-2, relu, float32; batch of",
    "chain": "tanh(a*x+b)*sigmoid(x) + 0.5*relu(x-c) - exp(-x*x), float32; elements",
    **workloads.TITLES,
    **networks.TITLES,
}
SUITES = {**workloads.SUITES, "networks": tuple(networks.NETWORKS)}
#: on the CPU with one thread, further processes of a library: (library, label, environment)
VARIANTS = (
    # the default engine hands every operator to another thread; this one runs it in the caller's
    ("mxnet", "mxnet NaiveEngine", {"MXNET_ENGINE_TYPE": "NaiveEngine"}),
    # with a pool of one thread every call waits for that thread; with more, JAX runs small ones itself
    ("jax", "jax one thread", {"PJRT_NPROC": "1"}),
)
#: the same where libraries take as many threads as they like: by itself MXNet counts one of the two threads of a core
ALL_THREADS_VARIANTS = (("mxnet", "mxnet OMP", {"OMP_NUM_THREADS": str(len(os.sched_getaffinity(0)))}),)
FIRST = "first"  #: the workload of first calls
LIMIT = 20.0  #: seconds that one way may take in one case
PAUSE = 0.25  #: seconds before a turn of all threads: pools of other libraries wait for work busily for so long
AGREEMENT = 0.02  #: relative difference of losses after two steps of training
COPY = "copy"  #: mode of NumPy and CuPy: the limit
SEVERAL = 1.1  #: processor time / wall time from which a row is marked


def start(pythons: list[str], device: str, timeout: float, threads: str = "1") -> tuple[list[Worker], dict[str, str]]:
    """(workers that are ready, library -> why it is not there)."""
    wanted = [(OURS, sys.executable, OURS, {}), ("cupy" if device == "gpu" else "numpy", sys.executable, "numpy", {})]
    for python in dict.fromkeys([*pythons, sys.executable]):
        for library in PEERS:
            wanted.append((library, python, library, {}))
            variants = () if device == "gpu" else VARIANTS if threads == "1" else ALL_THREADS_VARIANTS
            wanted += [(label, python, name, more) for name, label, more in variants if name == library]
    ready: list[Worker] = []
    missing: dict[str, str] = {}
    for label, python, library, more in wanted:
        if label in (w.label for w in ready):
            continue
        worker = Worker(label, python, library, device, more, timeout, threads)
        try:
            answer = worker.ask(do="hello")
        except WorkerFailed as e:
            worker.close()
            missing.setdefault(label, str(e))
            continue
        worker.versions, worker.modes, worker.first = answer["versions"], answer["modes"], answer["first"]
        worker.networks = answer["networks"]
        missing.pop(label, None)
        ready.append(worker)
        say(f"{label}: " + ", ".join(f"{k} {v}" for k, v in worker.versions.items()))
    return ready, missing


class Contender:
    """A mode of a library in one case."""

    def __init__(self, worker: Worker, mode: str) -> None:
        self.worker, self.mode = worker, mode
        self.name = f"{worker.label} {mode}"
        self.rounds: list[float] = []
        self.cpu: list[float] = []
        self.calls, self.warm = 1, 3
        self.spent = 0.0  #: seconds

    def time(self, calls: int, wait: bool) -> dict[str, Any]:
        if self.worker.threads != "1" and self.worker.device == "cpu":
            time.sleep(PAUSE)
        answer = self.worker.ask(do="time", mode=self.mode, calls=calls, warm=self.warm, wait=wait)
        self.spent += answer["us"] * (calls + self.warm) / 1e6
        self.warm = 3 if answer["us"] < 1e5 else 1 if answer["us"] < 1e6 else 0
        return answer

    def calibrate(self, seconds: float, wait: bool) -> None:
        """Choose a number of calls that takes about ``seconds``."""
        calls, self.warm = 1, 0
        while True:
            took = self.time(calls, wait)["us"] * calls / 1e6
            if took > seconds / 4 or calls >= 1 << 18:
                self.calls = max(1, min(round(calls * seconds / took), 1 << 18))
                return
            calls *= 4


def measure(
    workers: list[Worker],
    workload: str,
    size: int,
    rounds: int,
    seconds: float,
    kinds: list[bool],
    limit: float = LIMIT,
) -> list[dict[str, Any]]:
    """A case of each kind: every mode of every library that can run it, in turns."""
    ready: list[tuple[Worker, str]] = []
    failed: dict[str, str] = {}
    for worker in workers:
        if worker.process.poll() is not None:
            continue
        say(f"  {workload} {size}: {worker.label}")
        try:
            answers = worker.ask(do="prepare", workload=workload, size=size)["modes"]
        except WorkerFailed as e:
            failed[worker.label] = str(e)
            continue
        for mode, problem in answers.items():
            if problem:
                failed[f"{worker.label} {mode}"] = problem
            else:
                ready.append((worker, mode))
    return take_turns(ready, failed, workload, size, rounds, seconds, kinds, limit)


def measure_network(
    workers: list[Worker],
    workload: str,
    size: int,
    rounds: int,
    seconds: float,
    kinds: list[bool],
    limit: float = LIMIT,
) -> list[dict[str, Any]]:
    """A case of each kind: every way of a network in a new process, in turns. Losses of training have to agree with ours."""
    ready: list[tuple[Worker, str]] = []
    failed: dict[str, str] = {}
    losses: dict[str, list[float]] = {}
    started: list[Worker] = []
    try:
        for worker, mode in ((w, m) for w in workers for m in w.networks):
            name = f"{worker.label} {mode}"
            say(f"  {workload} {size}: {name}")
            process = worker.another()
            started.append(process)
            try:
                process.ask(do="hello")
                losses[name] = process.ask(do="prepare", workload=workload, size=size, mode=mode)["losses"]
                ready.append((process, mode))
            except WorkerFailed as e:
                failed[name] = str(e)
        ours = losses.get(BASE, [])
        for name, found in losses.items():
            if any(abs(a - b) > AGREEMENT * abs(b) for a, b in zip(found, ours)):
                failed[name] = f"trains otherwise: losses {found}, where ours are {ours}"
        return take_turns(ready, failed, workload, size, rounds, seconds, kinds, limit, memory=True)
    finally:
        for process in started:
            process.close()


def take_turns(
    ready: list[tuple[Worker, str]],
    failed: dict[str, str],
    workload: str,
    size: int,
    rounds: int,
    seconds: float,
    kinds: list[bool],
    limit: float,
    memory: bool = False,
) -> list[dict[str, Any]]:
    """A case of each kind, of ways that are prepared."""
    cases = []
    for wait in kinds:
        contenders = [Contender(w, mode) for w, mode in ready if f"{w.label} {mode}" not in failed]
        run_rounds(contenders, failed, rounds, seconds, wait, limit)
        kind = "latency" if wait else "throughput"
        rows = rows_of(contenders)
        if memory:
            for row, c in zip(rows, contenders):
                row["memory_mib"] = c.worker.ask(do="memory")["peak_mib"]
        threads = {w.threads for w, _ in ready}
        case = {"workload": workload, "size": size, "kind": kind, "threads": next(iter(threads), "1")}
        cases.append({**case, "rows": rows, "failed": dict(failed)})
    return cases


def rows_of(contenders: list[Contender]) -> list[dict[str, Any]]:
    """What each took, beside ours and a copy."""
    base = next((c for c in contenders if c.name == BASE), None)
    copy = next((c for c in contenders if c.mode == COPY), None)

    def over(c: Contender, other: Contender | None) -> float | None:
        """Median over rounds of a ratio; a way whose time was up has fewer rounds."""
        return median(b / a for a, b in zip(other.rounds, c.rounds)) if other else None

    rows = []
    for c in contenders:
        rows.append(
            {
                "name": c.name,
                "library": c.worker.label,
                "mode": c.mode,
                "median_us": median(c.rounds),
                "min_us": min(c.rounds),
                "over_hybridgpu": over(c, base),
                "over_copy": over(c, copy),
                "calls": c.calls,
                "rounds": len(c.rounds),
                "cpu_over_wall": median(c.cpu),
            }
        )
    return rows


def run_rounds(
    contenders: list[Contender], failed: dict[str, str], rounds: int, seconds: float, wait: bool, limit: float
) -> None:
    """Let the contenders take turns; one that fails is moved from the list to ``failed``."""

    def attempt(c: Contender, step: Any) -> None:
        try:
            step()
        except WorkerFailed as e:
            failed[c.name] = str(e)
            contenders.remove(c)

    def one_round(c: Contender) -> None:
        answer = c.time(c.calls, wait)
        c.rounds.append(answer["us"])
        c.cpu.append(answer["cpu"])

    for c in list(contenders):
        attempt(c, lambda c=c: c.calibrate(seconds, wait))
    for k in range(rounds):
        first = k % max(1, len(contenders))  # nobody is always first
        for c in [*contenders[first:], *contenders[:first]]:
            if not c.rounds or c.spent < limit:
                attempt(c, lambda c=c: one_round(c))


def markdown(document: dict[str, Any]) -> str:
    """The document as short tables."""
    lines = []
    for (workload, kind, threads), measured in grouped(document["cases"]).items():
        cases = sorted(measured, key=lambda c: c["size"])
        title = TITLES[workload].format(elements=document.get("elements", 1 << 22) >> 20) + (
            f" ({THREADS[threads]})" if document["device"] == "cpu" else f" ({kind})"
        )
        lines += [f"**{title}**", ""]
        lines.append(
            "| microseconds a call (times hybridgpu static) | " + " | ".join(f"{c['size']:,}" for c in cases) + " |"
        )
        lines.append("|---|" + "---|" * len(cases))
        names = list(dict.fromkeys(r["name"] for c in cases for r in c["rows"]))
        for name in names:
            rows = [next((r for r in c["rows"] if r["name"] == name), None) for c in cases]
            cells = [cell(row, document["rounds"], threads == "1") for row in rows]
            label = f"**{name}**" if name.startswith(OURS) else name
            label = "copy of the same bytes" if any(r and r["mode"] == COPY for r in rows) else label
            lines.append(f"| {label} | " + " | ".join(cells) + " |")
        for label, summary in SUMMARIES.items():
            cells = [summary(c) for c in cases]
            if any(cells):
                lines.append(f"| *{label}* | " + " | ".join(c or "–" for c in cells) + " |")
        lines.append("")
        problems = {k: v for c in cases for k, v in c["failed"].items() if not v.startswith("NotImplementedError")}
        lines += [f"{name} did not run: {why}" for name, why in problems.items()] + ([""] if problems else [])
    lines += first.tables(document.get("first", []))  # older documents have none
    machine = document["machine"]
    gpus = [g["name"] for g in machine["cuda"]["gpus"]]
    facts = [document["date"][:10], *gpus, f"{machine['cpu']['model']}, {machine['cpu']['cores']} cores"]
    facts += [f"{k} {v}" for k, v in document["versions"].items()]
    facts += [f"{k}={v}" for k, v in machine["environment"].items()]
    kept = ""
    if any(r["rounds"] < document["rounds"] for c in document["cases"] for r in c["rows"]):
        kept = f"‡ fewer, since it had taken {document.get('limit', LIMIT):g} seconds. "
    how = f"Interleaved; medians of {document['rounds']} rounds. {kept}" if document["cases"] else ""
    lines.append(how + "; ".join(facts) + ".")
    return "\n".join(lines) + "\n"


def over_limit(case: dict[str, Any]) -> str:
    """Our time over that of a copy of the same bytes."""
    row = next((r for r in case["rows"] if r["name"] == BASE), None)
    ratio = row.get("over_copy") if row else None
    return "" if ratio is None else f"{ratio:.2f}"


def best_other(case: dict[str, Any]) -> str:
    """The fastest way of another library, and its time over ours; nothing in documents without a copy."""
    if not over_limit(case):
        return ""
    others = [r for r in case["rows"] if not r["name"].startswith(OURS) and r["mode"] != COPY]
    row = min(others, key=lambda r: r["over_hybridgpu"], default=None)
    return "" if row is None else f"{row['over_hybridgpu']:.2f} ({row['name']})"


SUMMARIES = {"hybridgpu static, times a copy": over_limit, "best of the others, times hybridgpu static": best_other}


THREADS = {"1": "one thread", "all": "all threads"}


def grouped(cases: list[dict[str, Any]]) -> dict[tuple[str, str, str], list[dict[str, Any]]]:
    """Workload, kind and threads (older documents have one) -> cases."""
    found: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for c in cases:
        found.setdefault((c["workload"], c["kind"], c.get("threads", "1")), []).append(c)
    return found


def cell(row: dict[str, Any] | None, rounds: int, one_thread: bool) -> str:
    if row is None:
        return "–"
    us = row["median_us"]
    text = f"{us:,.0f}" if us >= 1000 else f"{us:.0f}" if us >= 100 else f"{us:.3g}"
    ratio = row["over_hybridgpu"]
    mark = ("†" if one_thread and row["cpu_over_wall"] > SEVERAL else "") + ("‡" if row["rounds"] < rounds else "")
    memory = f"; {row['memory_mib']:,.0f} MiB" if "memory_mib" in row else ""
    return text + ("" if ratio is None else f" ({ratio:.2f})") + mark + memory


def write(document: dict[str, Any], folder: Path) -> list[Path]:
    """The document as JSON and as tables, under a name with date and processor (or GPU)."""
    machine = document["machine"]
    name = machine["cuda"]["gpus"][0]["name"] if document["device"] == "gpu" else machine["cpu"]["model"]
    stem = f"{document.get('suite', 'peers')}-{document['date'][:10]}-{re.sub(r'[^a-z0-9]+', '-', name.lower()).strip('-')}"
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{stem}.json", folder / f"{stem}.md"]
    files[0].write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    files[1].write_text(markdown(document), encoding="utf-8")
    return files


def sized(wanted: list[str], quick: bool, only: list[int] | None) -> list[tuple[str, int]]:
    """The usual sizes of workloads; of these the ones in ``only``."""
    found = [(w, n) for w in wanted if w != FIRST for n in (SIZES[w][:1] if quick else SIZES[w])]
    return [(w, n) for w, n in found if only is None or n in only]


def case_of(text: str) -> tuple[str, int]:
    """``WORKLOAD:SIZE``."""
    workload, _, size = text.partition(":")
    if workload not in SIZES or not size.isdigit():
        raise argparse.ArgumentTypeError(f"{text} is no WORKLOAD:SIZE; there are {', '.join(SIZES)}")
    return workload, int(size)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pythons", nargs="*", metavar="PYTHON")
    parser.add_argument("--workload", choices=[*SIZES, *SUITES, FIRST, "all"], default=["all"], nargs="+")
    parser.add_argument("--device", choices=["cpu", "gpu"], default="cpu")
    parser.add_argument("--threads", choices=["all", "1"], default=["all"], nargs="+", help="of every library")
    parser.add_argument("--minutes", type=float, default=float("inf"), metavar="N", help="no case is begun later")
    parser.add_argument("--size", type=int, nargs="+", metavar="N", help="of the workloads' sizes these only")
    parser.add_argument(
        "--case", type=case_of, nargs="+", default=[], metavar="WORKLOAD:SIZE", help="instead: these, of any size"
    )
    parser.add_argument(
        "--elements",
        type=int,
        default=workloads.ELEMENTS,
        help="of all rows of softmax and norm (default: %(default)s)",
    )
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="the smallest size of each, short batches")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds that one way may take in one case")
    parser.add_argument("--out", type=Path, metavar="FOLDER")
    parser.add_argument("--timeout", type=float, default=300, help="seconds that a library may take to compile a case")
    return parser.parse_args()


def main() -> int:
    options = parse()
    from hybridgpu.cli.cache import open_store
    from hybridgpu.cli.machine import machine

    os.environ["PEER_ELEMENTS"] = str(options.elements)  # for the processes
    kinds = [True] if options.device == "cpu" else [True, False]
    asked = [name for w in options.workload for name in ([*SIZES, FIRST] if w == "all" else SUITES.get(w, (w,)))]
    cases = options.case or sized(asked, options.quick, options.size)
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "device": options.device,
        "rounds": options.rounds,
        "limit": options.limit,
        "elements": options.elements,
        "machine": machine(open_store()),
        "versions": {"python": platform.python_version()},
        "missing": {},
        "cases": [],
        "first": [],
    }
    if len(options.workload) == 1 and options.workload[0] in (*SUITES, FIRST) and not options.case:
        document["suite"] = options.workload[0]
    files: list[Path] = []
    end = time.monotonic() + 60 * options.minutes
    for threads in options.threads if options.device == "cpu" else ["1"]:
        workers, missing = start(options.pythons, options.device, options.timeout, threads)
        document["missing"].update(missing)
        if OURS in missing:
            say(f"error: hybridgpu does not run here: {missing[OURS]}")
            return 1
        for w in reversed(workers):  # of versions of Python and NumPy those beside hybridgpu count
            document["versions"].update(w.versions)
        try:
            for workload, size in cases:
                if time.monotonic() > end:
                    say(f"left out, since {options.minutes:g} minutes are over: {workload} {size}, threads: {threads}")
                    continue
                seconds = 0.005 if options.quick else 0.05
                measuring = measure_network if workload in networks.NETWORKS else measure
                document["cases"] += measuring(workers, workload, size, options.rounds, seconds, kinds, options.limit)
                if options.out:  # a run takes long: what there is outlives its end
                    files = write(document, options.out)
            if FIRST in asked and not options.case and not document["first"]:
                rounds = 1 if options.quick else max(options.rounds, first.ROUNDS)
                for case in first.measure_all(workers, options.device, rounds, options.limit):
                    document["first"].append(case)
                    files = write(document, options.out) if options.out else []
        finally:
            for w in workers:
                w.close()
    print(markdown(document))
    for file in files:
        say(f"wrote {file}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
