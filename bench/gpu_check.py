# SPDX-License-Identifier: Apache-2.0
"""Everything that only a GPU can show, in one run: bench/gpu_check.sh starts this.

    python bench/gpu_check.py [tests] [sanitizer] [bench] [--steps tests,kernels,…] [--peers PYTHON …]
                              [--out FOLDER] [--budget SECONDS] [--full] [--emulate]

Parts: ``tests`` (steps tests, kernels, convolutions, products), ``sanitizer``, ``bench`` (bench, peers); all of them
where none is named. Steps: ``tests`` (pytest -m gpu), ``kernels`` (every kind of kernel against the reference, and its bandwidth),
``convolutions`` (direct kernels, cuDNN and unfolding: results and times of each),
``products`` (matrix products: forms of the generated kernel, cuBLASLt and CuPy, likewise),
``memcheck``, ``racecheck``, ``initcheck``, ``synccheck`` (compute-sanitizer over the same kernels), ``bench``
(hybridgpu bench) and ``peers`` (bench/peers.py). A step that fails is recorded and the rest goes on.

Writes check.json and check.log into bench/results/DATE-GPU, or into FOLDER; a folder that has them already gets the steps
of this call in place of earlier ones of the same name. So a check may be made in several calls, each of which
``--budget`` keeps within its time: a step that is out of it is ended, one for which none is left is not started.
Exits with 0 if every step that could run passed, 1 if one failed, 2 if there is no GPU or a package is missing that
all steps need. ``--emulate`` rehearses the run without a GPU: kernels are
executed on the CPU, the benchmark measures the CPU, and the document says so.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, TextIO
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from gpu_progress import LOST  # noqa: E402  (of this folder)

SCHEMA = "hybridgpu-gpu-check/1"
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
PARTS = {"tests": ("tests", "kernels", "convolutions", "products"), "sanitizer": TOOLS, "bench": ("bench", "peers")}
STEPS = tuple(step for steps in PARTS.values() for step in steps)
PACKAGES = ("numpy", "ml_dtypes", "jinja2", "click", "rich", "cupy")  #: what every step imports
OF_TESTS = ("pytest", "hypothesis")  #: … and the steps that use tests/ as well
SLOW = 20.0  #: seconds in which a kernel that compute-sanitizer watches comes to its end
GRACE = 10.0  #: seconds in which a command that is interrupted may write what it has
LEAST = 5.0  #: seconds without which no step is started
PROCESSES = 5  #: that a step may use up: one whose device has failed is of no use any more
FAILURES = 100  #: of tests, after which more of them say nothing new
PATIENCE = 60  #: seconds that another library may take to compile a case
WORKERS = 4  #: of pytest, where it can have several
_REFUSED = re.compile(r"Device not supported|Failed to initialize|Unable to find injection library", re.I)
_ERROR = re.compile(r"([A-Za-z_][\w.]*(Error|Exception)|error|Error): ")
SANITIZER_FOUND = 86  #: exit code of compute-sanitizer where it reports something


@dataclass
class Result:
    """One step.

    Attributes:
        status: passed, failed, missing (a tool or package that is not here), or waiting (no time was left for it).
        detail: a sentence: why it failed, what is missing.
        data: what the step measured.
    """

    name: str
    status: str
    command: str = ""
    exit_code: int | None = None
    seconds: float = 0.0
    detail: str = ""
    data: dict[str, Any] = field(default_factory=dict)


class Log:
    """Everything the steps print, on the terminal and in a file, without the folders of this machine."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> None:
        text = public(text)
        sys.stdout.write(text)
        sys.stdout.flush()
        self._file.write(text)
        self._file.flush()


def public(text: str) -> str:
    """A text in which this machine's folders are named by what they are."""
    known = {str(ROOT): ".", sys.prefix: "PYTHON", tempfile.gettempdir(): "TMP", str(Path.home()): "HOME"}
    for folder in sorted(known, key=len, reverse=True):
        if len(folder) > 1:
            text = re.sub(rf"(?<!\w){re.escape(folder)}(?![\w.-])", known[folder], text)
    return text


@contextlib.contextmanager
def _interrupts_heeded() -> Iterator[None]:
    """What a shell starts in the background ignores SIGINT, and all that it starts would; here it does not."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)


def run(command: Sequence[str], log: Log, seconds: float, **more: str) -> tuple[int, str]:
    """(exit code, output) of a command, shown while it runs; one that takes longer is ended, with code 124."""
    path = os.pathsep.join(p for p in (str(ROOT), os.environ.get("PYTHONPATH", "")) if p)
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **more}
    with _interrupts_heeded():
        process = subprocess.Popen(
            list(command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", cwd=ROOT,
            env=environment, start_new_session=True,
        )  # fmt: skip
    assert process.stdout is not None
    lines: queue.Queue[str | None] = queue.Queue()

    def read(stream: TextIO) -> None:
        for line in stream:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, args=(process.stdout,), daemon=True).start()
    output: list[str] = []

    def follow(seconds: float) -> bool:
        """Show what comes; whether that ended in time."""
        end = time.monotonic() + seconds
        while True:
            try:
                line = lines.get(timeout=max(0.01, end - time.monotonic()))
            except queue.Empty:
                return False
            if line is None:
                return True
            output.append(line)
            log.write(line)

    def send(signal: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal)

    try:
        if follow(seconds):
            return process.wait(), "".join(output)
        log.write(f"ended after {seconds:.0f} s\n")
        send(signal.SIGINT)  # pytest then writes what it has
        follow(GRACE)
        return 124, "".join(output)
    finally:
        send(signal.SIGKILL)  # whatever it started must not use the device any longer
        process.wait()


class Check:
    """The steps, with what they share.

    Args:
        full: the benchmark's long form.
        emulate: a rehearsal without a GPU.
        peers: further interpreters for bench/peers.py.
        seconds: what a step may take.
        budget: seconds that all of them may take from now on.
    """

    def __init__(
        self,
        log: Log,
        folder: Path,
        full: bool,
        emulate: bool,
        peers: Sequence[str],
        seconds: float,
        budget: float = float("inf"),
    ) -> None:
        self.log, self.folder, self.full, self.emulate = log, folder, full, emulate
        self.peers, self.seconds, self._end = list(peers), seconds, time.monotonic() + budget
        self.coming: Sequence[str] = ()  #: steps that this call has still to make

    def step(self, name: str) -> Result:
        """Run a step; whatever goes wrong becomes its result."""
        self.log.write(f"\n== {name}\n")
        start = time.monotonic()
        if self._end - start < LEAST:
            return Result(name, "waiting", detail=f"no time was left for it; run it with --steps {name}")
        method: Callable[[str], Result] = self._sanitizer if name in TOOLS else getattr(self, f"_{name}")
        try:
            result = method(name)
        except Exception as e:
            result = Result(name, "failed", detail=public(f"{type(e).__name__}: {e}"))
        result.seconds = round(time.monotonic() - start, 1)
        self.log.write(f"== {name}: {result.status} {result.detail}".rstrip() + "\n")
        return result

    def _run(self, name: str, command: Sequence[str], **more: str) -> tuple[Result, str]:
        seconds = min(self.seconds, self._end - time.monotonic())
        code, output = run(command, self.log, seconds, **more)
        shown = public(" ".join("python" if c == sys.executable else c for c in command))
        result = Result(name, "failed" if code else "passed", shown, code)
        if code:
            last = [line for line in output.splitlines() if line.strip()]
            errors = [line for line in last if _ERROR.match(line)]  # a message may have further lines
            result.detail = public((errors or last)[-1])[:300] if last else f"it ended with code {code}"
            if code == 124:
                result.detail = f"it took longer than {seconds:.0f} s"
        return result, output

    def _tests(self, name: str) -> Result:
        lacking = absent(OF_TESTS)
        if lacking:
            return Result(name, "missing", detail=f"this Python has no {', '.join(lacking)}")
        file = self.folder / "tests.xml"
        chosen = ["-k", "emulated"] if self.emulate else ["-m", "gpu"]
        command = [
            sys.executable,
            "-m",
            "pytest",
            "tests/gpu",
            *chosen,
            "-p",
            "no:cacheprovider",
            "--tb=short",
            f"--maxfail={FAILURES}",
            f"--junitxml={file}",
        ]
        # plugins of other packages that happen to be installed are none of ours, and our warnings are errors; with xdist a
        # process whose device has failed is replaced by another one, and kernels are compiled side by side
        if not self.emulate and not absent(["xdist"]):
            command += ["-p", "xdist.plugin", "-n", str(WORKERS), f"--max-worker-restart={4 * PROCESSES}"]
        result, _ = self._run(name, command, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
        result.data = junit(file)
        if not result.data["passed"] and result.status == "passed":
            result.status, result.detail = "failed", "no test ran"
        return result

    def _kernels(self, name: str) -> Result:
        return self._script(name)

    def _convolutions(self, name: str) -> Result:
        return self._script(name)

    def _products(self, name: str) -> Result:
        return self._script(name)

    def _script(self, name: str) -> Result:
        """A step that is a program of its own, bench/gpu_NAME.py."""
        file = self.folder / f"{name}.json"
        file.unlink(missing_ok=True)
        command = [
            sys.executable,
            f"bench/gpu_{name}.py",
            "--json",
            str(file),
            *(["--emulate"] if self.emulate else []),
        ]
        for _ in range(PROCESSES):
            result, _ = self._run(name, command)
            result.data = read(file)
            if "finished" in result.data or ("running" not in result.data and result.exit_code != LOST):
                break  # it came to its end, or not even to the first part
            if self._end - time.monotonic() < LEAST or "took longer" in result.detail:
                break
        if result.status == "failed" and (problems := faults(result.data)):
            result.detail = "; ".join(problems)[:300]
        return result

    def _sanitizer(self, name: str) -> Result:
        binary = find_sanitizer()
        if binary is None:
            looked = "on the PATH, in $CUDA_HOME, $CUDA_PATH and /usr/local/cuda"
            return Result(
                name,
                "missing",
                detail=f"compute-sanitizer is not here (looked {looked}); it comes with the CUDA toolkit",
            )
        if self.emulate:
            return Result(name, "missing", detail="compute-sanitizer needs a GPU; the emulated one has its own checks")
        options = ["--tool", name, "--error-exitcode", str(SANITIZER_FOUND), "--print-limit", "20"]
        # the tools of a call share its time; each checks as many kernels as it comes to, since one that is ended says nothing
        tools = 1 + sum(step in TOOLS for step in self.coming)
        share = min(self.seconds, (self._end - time.monotonic()) / tools)
        file = self.folder / f"{name}.json"
        checked = ["bench/gpu_kernels.py", "--no-timing", "--no-pool", "--patience", "300", "--json", str(file)]
        command = [binary, *options, sys.executable, *checked, "--budget", f"{max(1.0, share - SLOW):.0f}"]
        result, output = self._run(name, command)
        result.command = result.command.replace(binary, "compute-sanitizer")
        result.data = sanitizer_summary(output)
        result.data["cases"] = [row["name"] for row in read(file).get("cases", [])]
        refused = next((line.strip("= ") for line in output.splitlines() if _REFUSED.search(line)), "")
        if refused:
            result.status, result.detail = (
                "missing",
                f"compute-sanitizer is here, but cannot check this device: {refused}",
            )
            return result
        if "errors" not in result.data and result.status == "passed":
            result.status, result.detail = "failed", "compute-sanitizer printed no summary"
        return result

    def _bench(self, name: str) -> Result:
        from hybridgpu.cli.bench.command import NAMES

        device = "cpu" if self.emulate else "gpu"
        whole, problems = Result(name, "passed"), []
        for suite in NAMES:  # one after the other: what one meets does not take the others' figures along
            if self._end - time.monotonic() < LEAST:
                problems.append(f"{suite}: no time was left")
                continue
            file = self.folder / f"bench-{suite}.json"
            options = ["--suite", suite, "--device", device, "--full" if self.full else "--quick", "--json", str(file)]
            result, _ = self._run(name, [sys.executable, "-m", "hybridgpu", "bench", *options])
            whole.command = whole.command or result.command
            whole.exit_code = whole.exit_code or result.exit_code
            if result.status == "failed":
                problems.append(f"{suite}: {result.detail}")
            if found := read(file):
                whole.data = {**found, "suites": [*whole.data.get("suites", []), *found["suites"]]}
        whole.command, whole.detail = public(whole.command), "; ".join(problems)
        whole.status = "failed" if problems else "passed"
        return whole

    def _peers(self, name: str) -> Result:
        folder = self.folder / "peers"
        device = "cpu" if self.emulate else "gpu"
        options = ["--device", device, "--out", str(folder), "--timeout", str(PATIENCE)]
        options += [] if self.full else ["--quick", "--rounds", "5"]
        result, _ = self._run(name, [sys.executable, "bench/peers.py", *self.peers, *options])
        files = sorted(folder.glob("*.json"))
        result.data = read(files[0]) if files else {}
        result.command = public(result.command)
        return result


def absent(packages: Sequence[str]) -> list[str]:
    """Those that this Python does not have."""
    return [p for p in packages if importlib.util.find_spec(p) is None]


def read(file: Path) -> dict[str, Any]:
    """A step's JSON; what it did not write is empty."""
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return found


def faults(data: Mapping[str, Any]) -> list[str]:
    """What the parts of a step's document say is wrong."""
    rows = [row for found in data.values() if isinstance(found, list) for row in found if isinstance(row, dict)]
    return [f"{row['name']}: {row['problem']}" for row in rows if row.get("problem")]


def junit(file: Path) -> dict[str, Any]:
    """Counts of a pytest run, and the first line of every failure."""
    found: dict[str, Any] = {"passed": 0, "failed": 0, "errors": 0, "skipped": 0, "failures": []}
    if not file.exists():
        return found
    kinds = {"failure": "failed", "error": "errors", "skipped": "skipped"}
    for case in ElementTree.parse(file).iter("testcase"):
        if not case.get("name"):  # the one that was interrupted
            continue
        kind = next((kinds[child.tag] for child in case if child.tag in kinds), "passed")
        found[kind] += 1
        if kind in ("failed", "errors"):
            message = next((child.get("message") or "" for child in case if child.tag in kinds), "")
            text = f"{case.get('classname')}::{case.get('name')}: {' '.join(message.split())}"
            found["failures"].append(public(text)[:400])
    return found


def sanitizer_summary(output: str) -> dict[str, Any]:
    """How many errors (and, of racecheck, hazards) compute-sanitizer counted, and the first lines it said of them."""
    found: dict[str, Any] = {}
    counts = re.findall(r"(?:ERROR|RACECHECK) SUMMARY: (\d+)", output)
    if counts:
        found["errors"] = sum(map(int, counts))
    lines = [line for line in output.splitlines() if line.startswith("=========") and line.strip("= ")]
    found["first"] = [public(line) for line in lines[:20]] if found.get("errors") else []
    version = next((line for line in lines if "COMPUTE-SANITIZER" in line), "")
    found["tool"] = version.strip("= ")
    return found


def find_sanitizer() -> str | None:
    """compute-sanitizer's path."""
    folders = [os.environ.get("CUDA_HOME", ""), os.environ.get("CUDA_PATH", ""), "/usr/local/cuda"]
    places = [os.environ.get("PATH", ""), *(str(Path(f, "bin")) for f in folders if f)]
    return shutil.which("compute-sanitizer", path=os.pathsep.join(places))


def summary(results: Sequence[Result]) -> str:
    """A line a step."""
    return "".join(f"{r.name:<10} {r.status:<8} {r.seconds:7.1f} s  {r.detail}".rstrip() + "\n" for r in results)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of {', '.join(PARTS)}; all without any")
    parser.add_argument("--steps", default="", help=f"instead: some of {','.join(STEPS)}")
    parser.add_argument("--peers", nargs="*", default=[], metavar="PYTHON", help="interpreters that have torch, jax, …")
    parser.add_argument("--out", type=Path, metavar="FOLDER")
    parser.add_argument("--full", action="store_true", help="all sizes and rounds of the benchmarks")
    parser.add_argument(
        "--timeout", type=float, default=1800, metavar="SECONDS", help="that a step may take (default: %(default)s)"
    )
    parser.add_argument(
        "--budget", type=float, default=float("inf"), metavar="SECONDS", help="that the whole call may take"
    )
    parser.add_argument("--emulate", action="store_true", help="rehearse without a GPU; needs --out")
    options = parser.parse_args(arguments)
    strange = [p for p in options.parts if p not in PARTS]
    if strange:
        parser.error(f"no such part: {', '.join(strange)}; there are {', '.join(PARTS)}")
    of_parts = [s for p in PARTS for s in PARTS[p] if p in (options.parts or PARTS)]
    options.steps = [s for s in options.steps.split(",") if s] or of_parts
    unknown = [s for s in options.steps if s not in STEPS]
    if unknown:
        parser.error(f"no such step: {', '.join(unknown)}; there are {', '.join(STEPS)}")
    if options.emulate and options.out is None:
        parser.error("a rehearsal's results do not belong among the measured ones: name a folder with --out")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    start = time.monotonic()
    options = parse(arguments)
    lacking = absent([p for p in PACKAGES if p != "cupy" or not options.emulate])
    if lacking:
        print(
            f"error: this Python has no {', '.join(lacking)}. Without a network, bring their wheels and put what they "
            "hold on PYTHONPATH.",
            file=sys.stderr,
        )
        return 2
    with tempfile.TemporaryDirectory(prefix="hybridgpu-check-") as work:
        if absent(["platformdirs"]) and not os.environ.get("HYBRIDGPU_CACHE_DIR"):
            print("platformdirs is not installed: kernels are cached in a folder of this call")
            os.environ["HYBRIDGPU_CACHE_DIR"] = str(Path(work, "cache"))
        return check_all(options, Path(work), start)


def check_all(options: argparse.Namespace, work: Path, start: float) -> int:
    """Run the steps and write what they found; returns the exit code.

    Args:
        work: a folder for what steps write.
        start: when this call began.
    """
    from hybridgpu.cli.cache import open_store
    from hybridgpu.cli.machine import gpu_search, machine

    facts = machine(open_store())
    gpus = facts["cuda"]["gpus"]
    if not gpus and not options.emulate:
        looked = "\n".join(f"  {what}: {found}" for what, found in gpu_search())
        print(f"error: no GPU was found, so nothing was checked. Looked for:\n{looked}", file=sys.stderr)
        return 2
    date = datetime.now(timezone.utc)
    name = re.sub(r"[^a-z0-9]+", "-", gpus[0]["name"].lower()).strip("-") if gpus else "emulated"
    folder = options.out or ROOT / "bench" / "results" / f"{date:%Y-%m-%d}-{name}"
    folder.mkdir(parents=True, exist_ok=True)
    before = read(folder / "check.json")
    if before and (before["emulated"], before["machine"]["cuda"]["gpus"]) != (options.emulate, gpus):
        print(f"error: {folder} has a check of another machine; name another folder with --out", file=sys.stderr)
        return 2
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "date": date.isoformat(timespec="seconds"),
        "emulated": options.emulate,
        "machine": facts,
        "steps": [s for s in before.get("steps", []) if s["name"] not in options.steps],
    }
    results: list[Result] = []
    with (folder / "check.log").open("a", encoding="utf-8") as file:
        log = Log(file)
        log.write(
            f"\n{document['date']} {', '.join(g['name'] for g in gpus) or 'emulated'}: {', '.join(options.steps)}\n"
        )
        budget = options.budget - (time.monotonic() - start)
        check = Check(log, work, options.full, options.emulate, options.peers, options.timeout, budget)
        for k, step in enumerate(options.steps):
            check.coming = options.steps[k + 1 :]
            results.append(check.step(step))
            document["steps"].append(asdict(results[-1]))
            document["steps"].sort(key=lambda s: STEPS.index(s["name"]))
            # written every time, and whole: a machine may be taken away
            new = folder / "check.json.new"
            new.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
            new.replace(folder / "check.json")
        log.write("\n" + summary(results))
    print(f"wrote check.json and check.log into {folder}")
    return 1 if any(r.status == "failed" for r in results) else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what runs is ended, too
    sys.exit(main())
