# SPDX-License-Identifier: Apache-2.0
"""Mutation of templates, kernel headers and loops that are data: does a test fail for every small fault in them?

    python tests/mutation/mutate.py [--file templates/cuda/rows.j2 ...] [--count 20] [--seed 0] [--json out.json]

Works in a copy of the checkout. Each mutant (mutants.py) is written there, and forks of one warm process run tests until
one fails, as many as there is time for: first some of the case graphs of tests/compiler whose text it changes or whose kernels
include it, executed on both targets; if they pass, tests that look closer (MORE), and the other graphs. ``--count 0``
takes every mutant; with ``--json`` a run that was stopped goes on, and ``--part 0 2``, ``--part 1 2`` share it out over
two processes. A mutant is

- killed: a test failed that passes without it (or crashed, or went on for too long);
- stillborn: a template or a compiler refused it;
- explained: not tried, as survivors.json has it, with the reason why it changes no result;
- survived: no test noticed (exit code 1);
- false: the test that failed also fails without it, which is a fault of the test or of this job (exit code 1).
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatch
from functools import cache, partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

from mutants import Mutant, mutants_of, sample  # noqa: E402  (of this folder)
from touched import Cases, named  # noqa: E402

NUMBERS = "kernels/math*.h"  #: case graphs notice little of their faults: they come last
KERNEL_SECONDS = 20.0  #: of processor time of a case graph
MATH = "tests/kernels/test_math.py"
PERSISTENT = ["tests/compiler/test_persistent.py", "tests/compiler/test_persistent_barriers.py"]
MATH_CUDA = "tests/kernels/test_math_cuda.py"
SURVIVORS = HERE / "survivors.json"
THREADS = "tests/runtime/test_threads.py::test_bits_do_not_depend_on_the_number_of_threads"
FIRST = 0.2  #: of the time for case graphs: what these do not notice at once is left to what looks closer
GRAPHS = "tests/compiler/test_graphs.py"
#: modules whose loops templates print as they are
LOOPS = "hybridgpu/compiler/schedule"
LOOP_MODULES = [f"{LOOPS}/blocks.py", f"{LOOPS}/cpu/reduction_loops.py", f"{LOOPS}/cuda/reduction_loops.py"]
#: what looks closer at some files than the case graphs do
MORE = {
    "templates/cuda/map.j2": ["tests/compiler/test_map.py"],
    "templates/cuda/tiles.j2": ["tests/compiler/test_map.py"],
    "templates/cpu/loops.j2": ["tests/compiler/test_map.py", "tests/compiler/test_rows.py"],
    "templates/nests.j2": ["tests/compiler/test_map.py", "tests/compiler/test_scatter.py"],
    f"{LOOPS}/cpu/reduction_loops.py": [
        "tests/compiler/test_rows.py",
        "tests/compiler/test_nontemporal_stores.py",
        "tests/compiler/test_column_sums.py",
        "tests/compiler/test_full_reductions.py",
    ],
    f"{LOOPS}/cuda/reduction_loops.py": ["tests/compiler/test_rows_cuda.py", "tests/compiler/test_column_sums_cuda.py"],
    f"{LOOPS}/blocks.py": ["tests/compiler/test_blocks.py", "tests/compiler/test_map.py"],
    "templates/cuda/*s.j2": ["tests/compiler/test_rows_cuda.py", "tests/compiler/test_map.py"],
    "templates/cuda/rows*.j2": [
        "tests/compiler/test_column_sums_cuda.py::test_sums_stay_in_registers",
        "tests/compiler/test_column_sums_cuda.py",
    ],
    "templates/cuda/spans.j2": ["tests/compiler/test_column_sums_cuda.py"],
    "templates/cuda/teams.j2": ["tests/compiler/test_column_sums_cuda.py"],
    "templates/cuda/elements.j2": ["tests/compiler/test_scatter_cuda.py"],
    "templates/cuda/matmul*.j2": ["tests/compiler/test_matmul_cuda.py"],
    "templates/cpu/matmul*.j2": [f"{THREADS}[heads]", f"{THREADS}[blocked_products_of_a_batch]"],
    "templates/cpu/matmul.j2": ["tests/compiler/test_matmul.py"],
    "templates/cuda/graph.j2": PERSISTENT,
    "templates/cuda/entry.j2": PERSISTENT,
    "kernels/chunks_cpu.h": ["tests/kernels/test_chunks.py"],
    "templates/cpu/conv.j2": ["tests/ops/test_conv.py"],
    "templates/cuda/conv.j2": ["tests/compiler/test_conv_pool.py", "tests/ops/test_conv.py::test_kernels_of_the_gpu"],
    "templates/cpu/conv_input_dilated.j2": ["tests/ops/test_conv.py"],
    "templates/cpu/conv_backward_filter.j2": ["tests/compiler/test_conv_backward_filter.py"],
    "templates/cuda/scatter.j2": ["tests/compiler/test_scatter_cuda.py"],
    "kernels/conv_cpu.h": ["tests/ops/test_conv.py"],
    "kernels/conv_input_dilated_cpu.h": ["tests/ops/test_conv.py"],
    "kernels/conv_backward_filter_cpu.h": [
        "tests/compiler/test_conv_backward_filter.py::test_forms[one axis, a wide window with holes-f32]",
        "tests/compiler/test_conv_backward_filter.py::test_forms[rows of taps left over-f32]",
        "tests/compiler/test_conv_backward_filter.py",
    ],
    "kernels/conv_cuda.h": ["tests/ops/test_conv.py::test_kernels_of_the_gpu"],
    "kernels/core.h": ["tests/ops/test_edges.py", "tests/ops/test_table.py"],
    "kernels/divide_cuda.h": ["tests/kernels/test_divide.py"],
    "kernels/cuda.h": ["tests/kernels/test_nvrtc.py::test_what_asks_for_its_registers_gets_them"],
    "kernels/grid.h": ["tests/kernels/test_grid.py", *PERSISTENT],
    "kernels/half.h": ["tests/compiler/test_half.py", "tests/compiler/test_bfloat16.py"],
    "kernels/math_cuda*.h": [
        f"{MATH_CUDA}::test_functions_made_of_approximations",
        f"{MATH_CUDA}::test_fast_functions_made_of_approximations",
        f"{MATH_CUDA}::test_cuda_text_runs_on_the_host",
        f"{MATH_CUDA}::test_circular_functions_on_cuda",
        f"{MATH_CUDA}::test_extrema_of_older_processors",
    ],
    "kernels/math_[!c]*.h": [MATH, f"{MATH_CUDA}::test_cuda_text_runs_on_the_host", MATH_CUDA],
    "kernels/math_cpu*.h": [MATH],
    "kernels/matmul_cpu.h": [
        "tests/kernels/test_dynamic_args.py",
        "tests/kernels/test_other_processors.py",
        "tests/compiler/test_matmul.py",
        "tests/compiler/test_long_sums.py",
    ],
    "kernels/matmul_blocked_cpu.h": ["tests/kernels/test_other_processors.py", "tests/compiler/test_matmul.py"],
    "kernels/matmul_cuda.h": ["tests/compiler/test_matmul_cuda.py"],
    "kernels/philox.h": ["tests/ops/test_sampling.py"],
    "kernels/reduce.h": [
        "tests/compiler/test_rows.py::test_extremes_of_integers",
        "tests/compiler/test_rows.py",
        "tests/compiler/test_rows_cuda.py::test_every_thread_has_the_position_of_an_extreme",
        "tests/compiler/test_rows_cuda.py",
    ],
    "kernels/reduce_cpu.h": [
        "tests/kernels/test_dynamic_args.py",
        "tests/compiler/test_rows.py",
        "tests/compiler/test_long_sums.py",
    ],
    "kernels/cluster.h": ["tests/compiler/test_cluster_barriers.py"],
    "kernels/reduce_cuda.h": ["tests/kernels/test_spans.py", "tests/compiler/test_rows_cuda.py"],
    "kernels/scatter_cuda.h": ["tests/compiler/test_scatter_cuda.py"],
    "kernels/steps_cpu.h": [
        f"{GRAPHS}::test_cpu[many_kernels_and_pointers-plain]",
        "tests/runtime/test_folded_parameters.py",
    ],
    "kernels/stream_cpu.h": ["tests/kernels/test_stream.py", "tests/compiler/test_nontemporal_stores.py"],
    "kernels/thread_pool.h": ["tests/kernels/test_thread_pool.py", "tests/runtime/test_threads.py"],
    "kernels/tile_cpu.h": ["tests/kernels/test_other_processors.py", "tests/compiler/test_map.py"],
}
STATUS = ("killed", "stillborn", "explained", "survived", "false")
REFUSED = re.compile(r"CompileError|jinja2\.exceptions|Untranslatable|\.j2, translated|TemplateSyntaxError")


def files(root: Path = ROOT) -> list[str]:
    """What is mutated."""
    found = [*root.glob("templates/**/*.j2"), *root.glob("kernels/*.h")]
    return sorted([*(p.relative_to(root).as_posix() for p in found), *LOOP_MODULES])


def changed(file: str, since: str) -> set[int]:
    """The lines of a file that are not as they were in a commit."""
    command = ["git", "diff", "--unified=0", since, "--", file]
    text = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", text, re.MULTILINE)
    return {int(first) + k for first, count in found for k in range(int(count or 1))}


def spent() -> float:
    """Processor time of this process and of those that it has started, in seconds."""
    return sum(os.times()[:4])


class Watch:
    """A plugin: tests run in an order by chance while there is time; the first that fails, and what it says."""

    def __init__(self, seconds: float) -> None:
        self.failed, self.log, self.ran = "", "", 0
        self.end = spent() + seconds

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        random.Random(0).shuffle(items)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        NOTE.write_text(nodeid, encoding="utf-8")

    def pytest_runtest_protocol(self, item: Any) -> None:
        if spent() > self.end:
            item.session.shouldstop = "no time left"

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.ran += report.when == "call"
        if report.failed and not self.failed:
            self.failed, self.log = report.nodeid, str(report.longrepr)[-3000:]


def tested(paths: Sequence[str], seconds: float = 1e9) -> dict[str, Any]:
    """Run tests in this process until one fails, or time is over."""
    import pytest

    watch = Watch(seconds)
    code = pytest.main(
        ["-x", "-q", "--as-shipped", "-p", "no:cacheprovider", "-p", "no:randomly", *paths], plugins=[watch]
    )
    if not watch.failed and code not in (0, 5) and not (code == 2 and watch.ran):  # 2: no time left, 5: nothing to run
        watch.failed, watch.log = f"exit code {code} of pytest", ""
    status = "survived" if not watch.failed else "stillborn" if REFUSED.search(watch.log) else "killed"
    return {"status": status, "by": watch.failed, "ran": watch.ran, "log": watch.log[-400:]}


def executed(cases: Sequence[tuple[str, str]], seconds: float, before: int = 0) -> dict[str, Any]:
    """Run case graphs in this process, by the functions of test_graphs.py, until one fails, or time is over.

    The first ``before`` runs were made by an earlier look.
    """
    import numpy as np
    from compiler import test_graphs
    from emulated import install

    end, ran = spent() + seconds, 0
    warnings.simplefilter("error")
    runs = [(test, name, s) for test, name in cases for s in (("-plain", "-specials") if test == "test_cpu" else ("",))]
    for test, name, specials in runs[before:]:
        if spent() > end:
            break
        running = f"{GRAPHS}::{test}[{name}{specials}]"
        NOTE.write_text(running, encoding="utf-8")
        signal.setitimer(signal.ITIMER_PROF, KERNEL_SECONDS)  # ends a loop without end, and this process
        random.seed(0)
        np.random.seed(0)
        try:
            if specials:
                test_graphs.test_cpu(name, specials == "-specials", None)
            else:
                test_graphs.execute_as_cuda(name, install())
        except BaseException as e:
            log = "".join(traceback.format_exception_only(e))
            status = "stillborn" if REFUSED.search(log) else "killed"
            return {"status": status, "by": running, "ran": ran, "log": log[:400]}
        ran += 1
    signal.setitimer(signal.ITIMER_PROF, 0)
    return {"status": "survived", "by": "", "ran": ran}


def anew() -> None:
    """Forget what this process has read of templates and modules, and hashed of them and of headers: texts are made of what is
    there now, and libraries compiled with others are not taken."""
    from hybridgpu.cache import package_files
    from hybridgpu.compiler.codegen.render import _templates

    _templates.cache_clear()
    package_files._found.clear()
    for file in LOOP_MODULES:
        read_again(file)


def read_again(file: str) -> None:
    """Give the functions of a module that is imported the code that is in its file now: others hold its classes."""
    module = importlib.import_module(file.removesuffix(".py").replace("/", "."))
    space = {"__name__": module.__name__, "__package__": module.__package__}
    exec(compile(Path(file).read_text(encoding="utf-8"), file, "exec"), space)
    for name, new in space.items():
        old = vars(module).get(name)
        if getattr(new, "__module__", None) != module.__name__:
            continue
        if isinstance(new, types.FunctionType):
            old.__code__ = new.__code__
        elif isinstance(new, type):
            for key, value in vars(new).items():
                if isinstance(value, (types.FunctionType, property)):
                    setattr(old, key, value)


def in_child(work: Callable[[], dict[str, Any]], seconds: float) -> dict[str, Any]:
    """The result of ``work`` in a fork of this process, whose output is dropped. A crash or a hang kills the mutant."""
    global NOTE
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        answer = Path(folder, "answer.json")
        pid = os.fork()
        if not pid:
            try:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                os.setsid()
                NOTE = Path(folder, "running")
                os.environ["TMPDIR"] = tempfile.tempdir = folder
                resource.setrlimit(resource.RLIMIT_CPU, (int(2 * seconds), int(2 * seconds) + 5))
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, 1)
                os.dup2(null, 2)
                answer.write_text(json.dumps(work()), encoding="utf-8")
            except SyntaxError as e:  # a module that is none any more
                answer.write_text(json.dumps({"status": "stillborn", "by": f"{type(e).__name__}: {e}", "ran": 0}))
            except Exception as e:  # of this job, not of a test
                answer.write_text(json.dumps({"status": "false", "by": f"{type(e).__name__}: {e}", "ran": 0}))
            finally:
                os._exit(0)
        end = time.monotonic() + 20 * seconds
        ended = False
        try:
            while not ended and time.monotonic() < end:
                time.sleep(0.02)
                ended = os.waitpid(pid, os.WNOHANG)[0] == pid
        finally:  # also if this job is stopped
            if not ended:
                os.killpg(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        if not answer.is_file():
            running = Path(folder, "running")  # the process ended, or went on for too long
            return {
                "status": "killed",
                "by": running.read_text(encoding="utf-8") if running.is_file() else "",
                "ran": 0,
                "log": "crash or time-out",
            }
        return dict(json.loads(answer.read_text(encoding="utf-8")))


@cache
def passes(test: str) -> bool:
    """Whether a test passes without a mutant, run as with one: only then does its failure say something."""
    if graph := re.fullmatch(rf"{GRAPHS}::(\w+)\[(\w+).*\]", test):
        return in_child(lambda: executed([graph.group(1, 2)], 600), 600)["status"] == "survived"
    return in_child(lambda: tested([test]), 600)["status"] == "survived"


NOTE = Path()  #: where the child writes which test runs


def judge(mutant: Mutant, cases: Cases, seconds: float) -> dict[str, Any]:
    """Write a mutant into the copy, which is the current folder, and try to kill it."""
    path = Path(mutant.file)
    text = path.read_text(encoding="utf-8")
    path.write_text(mutant.apply(text), encoding="utf-8")
    try:

        def graphs(share: float, before: int = 0) -> dict[str, Any]:
            if not mutant.file.endswith(".j2"):
                anew()  # a template changes texts, which are part of what libraries are found by
            try:
                wanted = cases.touched(mutant)
            except Exception as e:  # a template that cannot be rendered
                return {"status": "stillborn", "by": f"{type(e).__name__}: {e}", "ran": 0}
            return executed(wanted, share * seconds, before)

        def closer(file: str) -> dict[str, Any]:
            anew()
            return tested([file], seconds / 2 / len(more))

        more = list(dict.fromkeys(f for pattern, fs in MORE.items() if fnmatch(mutant.file, pattern) for f in fs))
        # each of these files has its share of the time: the one that kills is often over in a second
        looks: list[Callable[[], dict[str, Any]]] = [partial(closer, file) for file in more]
        ran: list[int] = []
        if fnmatch(mutant.file, NUMBERS):
            called = ["-k", " or ".join(sorted(named(mutant))) or "none", MATH]
            looks = [partial(tested, called, seconds / 4)] * (MATH in more) + [*looks, partial(graphs, 1)]
        else:
            looks = [partial(graphs, FIRST), *looks, lambda: graphs(1 - FIRST, ran[0])]
        for look in looks:
            result = in_child(look, seconds)
            ran.append(result["ran"])
            if result["status"] != "survived":
                break
        return {**result, "ran": sum(ran)}
    finally:
        path.write_text(text, encoding="utf-8")


def explained() -> dict[tuple[str, str, str, int], str]:
    """The survivors that were looked at -> why each changes no result."""
    entries = json.loads(SURVIVORS.read_text(encoding="utf-8"))
    return {(e["file"], e["before"], e["after"], e["nth"]): e["reason"] for e in entries}


def copied(folder: Path) -> None:
    """What tests need of the checkout, in ``folder``."""
    leave = shutil.ignore_patterns("__pycache__", ".*", "gpu", "*.so")
    for name in ("hybridgpu", "templates", "kernels", "tests", "docs"):
        shutil.copytree(ROOT / name, folder / name, ignore=leave)
    shutil.copy(ROOT / "pyproject.toml", folder)


def run(chosen: Sequence[Mutant], seconds: float) -> Iterator[tuple[Mutant, dict[str, Any]]]:
    """Judge mutants one after the other."""
    memory = Path("/dev/shm")  # a file system in memory, where there is one
    with tempfile.TemporaryDirectory(prefix="mutation-", dir=memory if memory.is_dir() else None) as folder:
        tree = Path(folder, "tree")
        tree.mkdir()
        copied(tree)
        os.chdir(tree)
        tempfile.tempdir = os.environ["TMPDIR"] = folder
        os.environ.update(HYBRIDGPU_CACHE_DIR=folder, CUDA_ON_CPU_CACHE=f"{folder}/cuda", HYBRIDGPU_VERIFY="1")
        sys.dont_write_bytecode = True
        sys.path[:0] = [str(tree / "tests"), str(tree)]
        from compiler import test_graphs  # noqa: F401  (and with it what all children need)

        from hybridgpu.backends.cpu.backend import cpu_backend

        cpu_backend()
        cases, known = Cases(), explained()
        for mutant in chosen:
            if mutant.key in known:
                yield mutant, {"status": "explained", "by": known[mutant.key], "ran": 0, "seconds": 0.0}
                continue
            begun = time.monotonic()
            result = judge(mutant, cases, seconds)
            if "::" in result["by"] and not passes(result["by"]):
                result["status"] = "false"
            yield mutant, {**result, "seconds": round(time.monotonic() - begun, 1)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", nargs="+", choices=files(), default=files(), metavar="FILE")
    parser.add_argument("--count", type=int, default=5, help="mutants a file; 0: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lines", type=int, nargs=2, metavar=("FIRST", "LAST"), help="only of these lines")
    parser.add_argument("--since", metavar="COMMIT", help="only of lines that are not as they were then")
    parser.add_argument("--seconds", type=int, default=60, help="of processor time that a mutant may take")
    parser.add_argument("--part", type=int, nargs=2, default=(0, 1), metavar=("K", "OF"), help="every OF-th from K on")
    parser.add_argument("--json", type=Path, help="results in lines; mutants found there are not tried again")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # which leaves no folder and no process behind
    results, chosen = [], []
    for file in options.file:
        found = mutants_of(file, (ROOT / file).read_text(encoding="utf-8"))
        if options.lines:
            found = [m for m in found if options.lines[0] <= m.line <= options.lines[1]]
        if options.since:
            lines_since = changed(file, options.since)
            found = [m for m in found if m.line in lines_since]
        chosen += sample(found, options.count, options.seed)
    out = options.json and options.json.resolve()
    if out and out.is_file():  # what an earlier run left
        results = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    done = {(r["file"], r["before"], r["after"], r["nth"]) for r in results}
    part, parts = options.part
    for m, result in run([m for m in chosen[part::parts] if m.key not in done], options.seconds):
        results.append({"file": m.file, "line": m.line, "nth": m.nth, "what": m.what, **result})
        results[-1].update(before=m.before.strip(), after=m.after.strip())
        say = f"{m.file}:{m.line}: {m.what}: {result['status']} {result['seconds']} s {result['by']}"
        print(
            say if result["status"] != "survived" else f"{say}\n  - {m.before.strip()}\n  + {m.after.strip()}",
            flush=True,
        )
        if out:
            with out.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(results[-1]) + "\n")
    for file in options.file:
        of = [r["status"] for r in results if r["file"] == file]
        print(file, {s: of.count(s) for s in STATUS if s in of})
    return int(any(r["status"] in ("survived", "false") for r in results))


if __name__ == "__main__":
    sys.exit(main())
