# SPDX-License-Identifier: Apache-2.0
"""bench/gpu_check without a GPU: time, rows, processes that end before their time, and the document of several commands."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

import hybridgpu as mx
from bench.gpu_check import __main__ as check
from bench.gpu_check import (
    constants,
    counters,
    device_tests,
    peer_cases,
    processes,
    record,
    rows,
    runner,
    sanitizer,
    steps,
    suites,
)

#: a step whose parts do what a device may do; what is in ``left alone`` works
SCRIPT = """
import os, sys, time
sys.path.insert(0, {root!r})
from bench.gpu_check.device import arguments
from bench.gpu_check.rows import Rows
options = arguments("").parse_args()
ruined = []
def alive():
    if ruined:
        raise RuntimeError("an illegal memory access was encountered")
def work(name):
    open({ran!r}, "a").write(name + " ")
    kind = "" if "tame" in {how!r} else name.split()[0]
    if kind == "waits":
        time.sleep(60)
    if kind == "dies":
        os.abort()
    if kind == "wild":
        ruined.append(name)
    if kind == "slow":
        time.sleep(1.5)
    alive()
    if kind == "wrong":
        return {{"outcome": "wrong", "problem": "off by 2"}}
    return {{"value": 1}}
rows = Rows(options.rows, options.patience, options.seconds, alive)
if "missing" in {how!r}:
    rows.skip("no tool is here")
    sys.exit()
if "broken" in {how!r}:
    raise OSError("no library")
for row in rows.measure("cases", [{{"name": n}} for n in {parts!r}], work, lambda part: part["name"].partition(" of ")[2]):
    print(row["name"], row["outcome"], flush=True)
sys.exit(rows.finish())
"""
STEP = steps.Step("kernels", "first", 60, "kernels", "scripted parts", "cases")


class Scripted:
    """Steps that are SCRIPT."""

    def __init__(self, folder, monkeypatch):
        self.folder, self.file, self.log = folder, folder / "rows.jsonl", record.Log()
        self.ran = folder / "ran"
        monkeypatch.setattr(runner, "module", lambda name, *more: [sys.executable, str(folder / "step.py"), *more])
        monkeypatch.setattr(runner, "LEAST", 0.5)
        monkeypatch.setattr(runner, "MARGIN", 0.5)
        monkeypatch.setattr(processes, "GRACE", 0.5)

    def run(self, *parts, how="", seconds=60.0, patience=15.0):
        root = str(processes.ROOT)
        text = SCRIPT.format(root=root, parts=parts, how=how, ran=str(self.ran))
        (self.folder / "step.py").write_text(text)
        return runner.run(STEP, self.file, seconds, runner.Options(patience), self.log)


@pytest.fixture
def scripted(tmp_path, monkeypatch):
    return Scripted(tmp_path, monkeypatch)


def outcomes(result):
    return {row["name"]: row["outcome"] for row in result.data.get("cases", [])}


def test_what_takes_the_process_along_is_named_and_the_rest_goes_on(scripted):
    result = scripted.run("one", "wrong", "wild", "two", "dies", "three")
    assert (result.status, result.why) == ("ran", "")
    assert outcomes(result) == {
        "one": "ok", "wrong": "wrong", "wild": "error", "two": "ok", "dies": "crash", "three": "ok",
    }  # fmt: skip
    assert result.problems == [
        "wrong: wrong: off by 2",
        "wild: error: RuntimeError: an illegal memory access was encountered",
        "dies: crash: its process ended with signal 6",
    ]


def test_what_waits_for_ever_costs_its_patience(scripted):
    start = time.monotonic()
    result = scripted.run("one", "waits of barrier", "two", "three of barrier", patience=6)
    assert time.monotonic() - start < 40 and result.status == "ran"
    assert outcomes(result) == {
        "one": "ok", "waits of barrier": "deadlock", "two": "ok", "three of barrier": "skipped",
    }  # fmt: skip
    assert result.problems == ["waits of barrier: deadlock: no end within 6 s"]
    (left,) = (r["problem"] for r in result.data["cases"] if r["outcome"] == "skipped")
    assert left == "after the deadlock of waits of barrier, also of the family barrier"


def test_a_device_that_does_not_answer_any_more(scripted):
    result = scripted.run("one", *(f"dies {k}" for k in range(6)), "two")
    assert (result.status, outcomes(result)["one"]) == ("failed", "ok")
    assert result.why == "the device does not answer any more: 3 processes in turn came to nothing"
    assert list(outcomes(result).values()).count("crash") == 4  # the first of them behind one that had answered


@pytest.mark.parametrize(
    ("how", "status", "why"),
    [("missing", "skipped", "no tool is here"), ("broken", "failed", "OSError: no library")],
)
def test_steps_that_cannot_run(scripted, how, status, why):
    result = scripted.run("one", how=how)
    assert (result.status, result.why) == (status, why)


def test_what_there_is_no_time_for_is_measured_by_the_next_command(scripted):
    parts = [f"slow {k}" for k in range(8)]
    result = scripted.run(*parts, seconds=9)
    before = outcomes(result)
    assert result.status == "cut off" and 0 < len(before) < 8
    again = scripted.run(*parts, how="tame")
    assert again.status == "ran" and outcomes(again) == dict.fromkeys(parts, "ok")
    ran = re.findall(r"slow \d", scripted.ran.read_text())
    assert ran == parts or ran == [*parts[: len(before)], parts[len(before)], *parts[len(before) :]]  # one was cut off


def test_a_step_that_is_killed_at_its_limit(scripted):
    """A process that does not look at the time: its rows are there, the part at work is none of them."""
    result = scripted.run("one", "waits", seconds=6, patience=30)
    assert (result.status, result.why) == ("cut off", "its time was up") and outcomes(result) == {"one": "ok"}
    assert scripted.run("one", "waits", how="tame").status == "ran"


def test_packages_and_time_that_are_missing(scripted):
    lacking = runner.run(steps.Step("x", "", 1, "x", "", "", needs=("pytest", "no_such")), scripted.file, 60,
                         runner.Options(), scripted.log)  # fmt: skip
    assert (lacking.status, lacking.why) == ("skipped", "this Python has no no_such")
    assert scripted.run("one", seconds=0.1).why == "no time was left for it"


def test_what_a_step_started_ends_with_it(tmp_path):
    """Or it would use the device while the next step is measured."""
    beat = tmp_path / "beat"
    child = f"import time\nwhile True:\n    open({str(beat)!r}, 'a').write('x')\n    time.sleep(0.05)"
    script = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    code, _ = processes.follow([sys.executable, "-c", script], lambda line: None, 3)
    assert code == processes.CUT_OFF and beat.exists()
    time.sleep(0.3)
    size = beat.stat().st_size
    time.sleep(0.3)
    assert beat.stat().st_size == size


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
def test_what_runs_ends_when_the_check_is_killed(tmp_path):
    beat = tmp_path / "beat"
    child = f"import time\nwhile True:\n    open({str(beat)!r}, 'a').write('x')\n    time.sleep(0.05)"
    script = (
        f"import sys; sys.path.insert(0, {str(processes.ROOT)!r})\nfrom bench.gpu_check.processes import follow\n"
        f"follow([sys.executable, '-c', {child!r}], print, 60)"
    )
    with subprocess.Popen([sys.executable, "-c", script]) as parent:
        end = time.monotonic() + 30
        while not beat.exists() and time.monotonic() < end:
            time.sleep(0.05)
        parent.send_signal(signal.SIGKILL)
    time.sleep(0.5)
    size = beat.stat().st_size
    time.sleep(0.3)
    assert beat.stat().st_size == size


# -- rows


def test_a_line_that_was_cut_off_is_left_out(tmp_path):
    file = tmp_path / "x"
    first = rows.Rows(file)
    list(first.measure("cases", [{"name": "a"}], lambda name: {}))
    with file.open("a") as stream:
        stream.write('{"row": {"name": "b", "outc')
    second = rows.Rows(file)
    made = [r["name"] for r in second.measure("cases", [{"name": "a"}, {"name": "b"}], lambda name: {})]
    assert made == ["b"] and [r["name"] for r in rows.read(file).lists["cases"]] == ["a", "b"]


def test_rows_that_were_cut_off_are_replaced(tmp_path):
    file = tmp_path / "x"
    for outcome, left in (("cut off", 1), ("ok", 0)):
        made = rows.Rows(file)
        list(made.measure("cases", [{"name": "a"}], lambda name, outcome=outcome: {"outcome": outcome}))
        assert made.found.left == left and made.finish() == 0
        assert [r["outcome"] for r in rows.read(file).lists["cases"]] == [outcome]
    assert rows.read(file).finished


# -- the table


def test_the_table_of_steps():
    names = [s.name for s in steps.STEPS]
    assert len(set(names)) == len(names)
    for command in steps.COMMANDS:
        chosen = [s for s in steps.STEPS if s.name in steps.of_command(command)]
        assert 500 < sum(s.seconds for s in chosen) < steps.SECONDS < 600, command
    for step in steps.STEPS:
        assert callable(importlib.import_module(f"bench.gpu_check.{step.module}").main), step.name
        assert step.name in steps.table() and step.runs and step.writes


def test_time_that_is_left_over_is_shared_out():
    a, b, c = (steps.Step(n, "", seconds, n, "", "") for n, seconds in (("a", 10), ("b", 20), ("c", 30)))
    assert runner.share(60, a, [b, c]) == 10 and runner.share(120, a, [b, c]) == 20
    assert runner.share(55, b, [c]) == 22 and runner.share(33, c, []) == 33  # b took 11 seconds less than that


# -- commands


GPU = {"name": "NVIDIA T1", "compute_capability": "9.0", "multiprocessors": 132, "memory_bytes": 1}
MACHINE = {"versions": {}, "cuda": {"gpus": [GPU], "cupy": "14", "nvrtc": "12.9", "driver": "12.9"}}


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """Runs the command line where each step is a function; returns (exit code, document, steps that ran)."""

    def run(*arguments, machine=MACHINE, code="one", out="out", **results):
        ran = []

        def step(step, file, seconds, options, log, code=""):
            made = record.StepRecord(step.name, "ran", code=code, date="today")
            if step.name == "facts":
                made.data = {"machine": [{"name": "machine", "outcome": "ok", "found": machine}]}
                return made
            ran.append((step.name, [r["name"] for r in rows.read(file).lists.get("cases", [])], round(seconds)))
            made.data = {"cases": [{"part": ["name"], "name": "a", "outcome": "ok"}]}
            for key, value in results.get(step.name, {}).items():
                setattr(made, key, value)
            return made

        monkeypatch.setattr(check, "run", step)
        monkeypatch.setattr("hybridgpu.cache.package_files.sources_hash", lambda: code)
        exit_code = check.main([*arguments, "--out", str(tmp_path / out)])
        file = tmp_path / out / "check.json"
        return exit_code, json.loads(file.read_text()) if file.exists() else None, ran

    return run


def test_two_commands_make_one_document(commands, tmp_path):
    code, document, ran = commands("first")
    assert code == 0 and [n for n, *_ in ran] == steps.of_command("first")[1:]
    assert sum(s for *_, s in ran) > 569 * 1.5  # none took any of its time, which the later ones got
    code, document, ran = commands("second", "--earlier", str(tmp_path / "out"), out="other")
    assert code == 0 and [n for n, *_ in ran] == steps.of_command("second")[1:]
    assert {s["name"] for s in document["steps"]} == {n for c in steps.COMMANDS for n in steps.of_command(c)}
    assert document["schema"] == record.SCHEMA and document["machine"] == MACHINE
    assert sorted(p.name for p in (tmp_path / "other").iterdir()) == ["check.json", "check.log"]
    assert (tmp_path / "other" / "check.log").read_text().count("NVIDIA T1") == 2


def test_a_command_goes_on_with_what_is_missing(commands, capsys):
    cut = {"kernels": {"status": "cut off", "why": "its time was up", "left": 3}, "counters": {"status": "skipped"}}
    code, document, _ = commands("first", **cut)
    assert code == 3 and "the same command again goes on with kernels\n" in capsys.readouterr().out
    code, document, ran = commands("first", code="two", bandwidth={"status": "failed", "why": "planted"})
    assert code == 0 and [(n, r) for n, r, _ in ran] == [("kernels", ["a"]), ("counters", ["a"])]
    said = capsys.readouterr().out
    assert "== bandwidth: taken over from today, of other code (one); --again runs it anew" in said
    code, document, ran = commands("--steps", "kernels,tests", "--again", kernels={"problems": ["a: wrong: planted"]})
    assert code == 1 and [(n, r) for n, r, _ in ran] == [("kernels", []), ("tests", [])]
    assert "kernels      ran          0 s  1 problem: a: wrong: planted" in capsys.readouterr().out


def test_what_a_killed_command_left_is_taken_up(commands, tmp_path):
    folder = tmp_path / "left"
    folder.mkdir()
    rows.append(folder / "kernels.rows.jsonl", row={"part": ["name"], "name": "b", "outcome": "ok"}, list="cases")
    rows.append(folder / "kernels.rows.jsonl", begin={"part": ["name"], "name": "c"}, list="cases", patience=15)
    _, document, ran = commands("--steps", "kernels", "--earlier", str(folder))
    assert [(n, r) for n, r, _ in ran] == [("kernels", ["b"])]


@pytest.mark.parametrize("what", ["another GPU", "another program"])
def test_results_of_something_else_stay(commands, tmp_path, capsys, what):
    assert commands("--steps", "kernels")[0] == 0
    file = tmp_path / "out" / "check.json"
    document = json.loads(file.read_text())
    if what == "another GPU":
        document["machine"]["cuda"]["gpus"] = [{**GPU, "name": "another"}]
    else:
        document["schema"] = "hybridgpu-gpu-check/1"
    file.write_text(json.dumps(document))
    assert commands("--steps", "kernels")[0] == 2 and json.loads(file.read_text()) == document
    assert ("a check of another GPU" if what == "another GPU" else "is no hybridgpu") in capsys.readouterr().err


def test_memory_may_differ_from_machine_to_machine(commands):
    assert commands("first")[0] == 0
    slightly = {**MACHINE, "cuda": {**MACHINE["cuda"], "gpus": [{**GPU, "memory_bytes": 2}]}}
    assert commands("first", machine=slightly)[2] == []


def test_no_gpu_is_said_plainly(capsys, tmp_path):
    if mx.num_gpus():
        pytest.skip("there is a GPU here")
    pytest.importorskip("cupy")
    assert check.main(["--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert "nothing was checked: no GPU was found: gpu(0) cannot be used" in said and "CUDA driver" in said
    assert not (tmp_path / "out").exists()


def script(*arguments: str) -> subprocess.CompletedProcess:
    """bench/gpu_check.sh, run to its end by this Python."""
    command = ["bash", str(processes.ROOT / "bench" / "gpu_check.sh"), *arguments]
    environment = {**os.environ, "PYTHON": sys.executable}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_no_environment_is_made_without_a_driver():
    if shutil.which("nvidia-smi"):
        pytest.skip("there is nvidia-smi here")
    result = script("first")
    assert result.returncode == 2 and "nothing was checked: nvidia-smi finds no NVIDIA driver" in result.stderr
    assert not result.stdout, "it began to make an environment"


@pytest.mark.parametrize("arguments", [["--list"], ["first", "--list"], ["first", "--list", "--installed"]])
def test_the_list_needs_no_environment_wherever_its_option_stands(arguments):
    result = script(*arguments)
    assert (result.returncode, result.stdout) == (0, steps.table()), result.stderr


def test_packages_that_are_missing_are_named(monkeypatch, capsys):
    monkeypatch.setattr(check, "PACKAGES", ("numpy", "no_such_package", "nor_this"))
    assert check.main([]) == 2 and "this Python has no no_such_package, nor_this." in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--steps", "tests,nonsense"], ["nonsense"]], ids=["step", "command"])
def test_usage_errors(arguments, capsys):
    with pytest.raises(SystemExit) as e:
        check.main(arguments)
    assert e.value.code == 2 and "error: no such" in capsys.readouterr().err


def test_folders_of_this_machine_are_not_written():
    text = record.public(f"{processes.ROOT}/bench/x {tempfile.gettempdir()}/tmpabc {sys.prefix}/bin/python")
    assert text == "./bench/x TMP/tmpabc PYTHON/bin/python"


# -- NVIDIA's tools


def tool(folder, monkeypatch, name, text):
    """A program of that name on the PATH."""
    file = folder / name
    file.write_text("#!/bin/sh\n" + text)
    file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


NCU = """
echo '==PROF== Connected to process 7'
echo '"ID","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value"'
echo '"0","tanh_exp","GPU Speed Of Light Throughput","DRAM Throughput","%","91.5"'
echo '"0","tanh_exp","GPU Speed Of Light Throughput","Elapsed Cycles","cycle","1,234,567"'
echo '"1","sum_0a","Launch Statistics","Function Cache Configuration","","CachePreferNone"'
"""


def test_counters_are_read(tmp_path, monkeypatch):
    tool(tmp_path, monkeypatch, "ncu", NCU)
    file = tmp_path / "rows"
    assert counters.main(["--rows", str(file)]) == 0
    found = rows.read(file)
    assert found.finished and [r["name"] for r in found.lists["kernels"]] == list(counters.KERNELS)
    first, second = found.lists["kernels"][0]["kernels"]
    assert first["kernel"] == "tanh_exp" and first["metrics"] == {
        "GPU Speed Of Light Throughput: DRAM Throughput (%)": 91.5,
        "GPU Speed Of Light Throughput: Elapsed Cycles (cycle)": 1234567.0,
    }
    assert second["metrics"] == {"Launch Statistics: Function Cache Configuration": "CachePreferNone"}


@pytest.mark.parametrize(
    "said",
    [
        "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters",
        "==ERROR== Failed to initialize the profiler: LibraryNotLoaded",
    ],
    ids=["permission", "not loaded"],
)
def test_counters_that_may_not_be_read(tmp_path, monkeypatch, said):
    tool(tmp_path, monkeypatch, "ncu", f"echo '{said}'\nexit 1\n")
    assert counters.main(["--rows", str(tmp_path / "rows")]) == 0
    found = rows.read(tmp_path / "rows")
    assert found.skipped == f"ncu is here, but cannot read this device's counters: {said[10:]}" and not found.finished
    assert len(found.lists["kernels"]) == 1  # the others were not tried


@pytest.mark.parametrize("step", [counters, sanitizer], ids=["ncu", "compute-sanitizer"])
def test_tools_that_are_missing(tmp_path, monkeypatch, step):
    monkeypatch.setattr(step, "find_tool", lambda name: "")
    assert step.main([*(["memcheck"] if step is sanitizer else []), "--rows", str(tmp_path / "rows")]) == 0
    assert " is not here (looked on the PATH, " in rows.read(tmp_path / "rows").skipped


def test_a_kernel_that_waits_for_ever_under_ncu(tmp_path, monkeypatch):
    tool(tmp_path, monkeypatch, "ncu", "sleep 60\n")
    monkeypatch.setattr(processes, "GRACE", 0.2)
    assert counters.profile(str(tmp_path / "ncu"), "chain", 1, 1.0)["outcome"] == "deadlock"


#: of a case, what kernels.py would write, and what the tool says of it
SANITIZED = """
while [ "$1" != --rows ]; do shift; done
echo '{{"begin": {{"part": ["name"], "name": "chain"}}, "list": "cases", "patience": 18}}' >>"$2"
echo '========= COMPUTE-SANITIZER'
{said}
sleep 0.3
echo '{{"row": {{"part": ["name"], "name": "chain", "outcome": "ok"}}, "list": "cases"}}' >>"$2"
echo '{{"finished": true}}' >>"$2"
{summary}
exit {code}
"""
INVALID = "echo '========= Invalid __global__ write of size 4 bytes'; sleep 0.3"


@pytest.mark.parametrize(
    ("said", "summary", "code", "problem"),
    [
        ("", "echo '========= ERROR SUMMARY: 0 errors'", 0, None),
        (INVALID, "echo '========= ERROR SUMMARY: 2 errors'", 86,
         "2 errors; chain: Invalid __global__ write of size 4 bytes"),
        (INVALID, "", 1, "1 errors; chain: Invalid __global__ write of size 4 bytes"),
        ("", "echo '========= RACECHECK SUMMARY: 1 hazard displayed'", 86, "1 errors;"),
        ("", "", 0, "no summary; it ended with code 0"),
    ],
    ids=["clean", "errors", "killed", "hazard", "says nothing"],
)  # fmt: skip
def test_what_compute_sanitizer_says(tmp_path, monkeypatch, said, summary, code, problem):
    tool(tmp_path, monkeypatch, "compute-sanitizer", SANITIZED.format(said=said, summary=summary, code=code))
    file = tmp_path / "rows"
    assert sanitizer.main(["memcheck", "--rows", str(file)]) == code
    (row,) = rows.read(file).lists["tool"]
    assert (row.get("problem"), row["version"]) == (
        problem and problem.ljust(len(problem) + problem.endswith(";")),
        "COMPUTE-SANITIZER",
    )


def test_a_device_that_the_sanitizer_refuses(tmp_path, monkeypatch):
    tool(tmp_path, monkeypatch, "compute-sanitizer", "echo '========= Error: Device not supported'\nexit 1\n")
    assert sanitizer.main(["racecheck", "--rows", str(tmp_path / "rows")]) == 0
    assert rows.read(tmp_path / "rows").skipped.endswith("cannot check this device: Error: Device not supported")


# -- pytest


TESTS = """
import os, pytest, time
pytestmark = pytest.mark.gpu
def test_a(): pass
def test_b(): assert 1 == 2, "planted"
def test_c(): pytest.skip("not here")
@pytest.fixture
def broken():
    yield
    raise OSError("at the end")
def test_d(broken): pass
"""


def test_tests_have_rows(tmp_path):
    file, module = tmp_path / "rows", tmp_path / "test_planted.py"
    module.write_text(TESTS)
    command = [*processes.module("device_tests", str(module), "--rows", str(file))]
    for k in range(2):  # the second finds them done
        code, _ = processes.follow(command, lambda line: None, 60)
        found = rows.read(file)
        got = {r["name"].partition("::")[2]: (r["outcome"], r.get("problem")) for r in found.lists["tests"]}
        assert code == 1 and found.finished and len(found.lists["tests"]) == 4, k
        assert got["test_a"] == ("ok", None) and got["test_c"] == ("skipped", "Skipped: not here")
        assert got["test_b"][0] == "error" and "planted" in got["test_b"][1]
        assert got["test_d"][0] == "error" and "at the end" in got["test_d"][1]


def test_a_test_that_waits_for_ever_is_named(tmp_path):
    plugin = device_tests.RowsOfTests(rows.Rows(tmp_path / "x"), tmp_path / "x", True, 18.0)

    class Report:
        nodeid, when, failed, skipped, longrepr = (
            "t::a",
            "???",
            True,
            False,
            "worker 'gw0' crashed while running 't::a'",
        )

    for took, outcome in ((0, "crash"), (18, "deadlock")):
        plugin.written.clear()
        plugin._started["t::a"] = time.monotonic() - took
        plugin.pytest_runtest_logreport(Report)
        assert rows.read(tmp_path / "x").lists["tests"][-1]["outcome"] == outcome


# -- other programs

CALIBRATE = """
while [ "$1" != --json ]; do shift; done
echo '{"figures": {"clock": 1.98e9}}' >"$2"
"""


def test_constants_are_what_the_command_measured(tmp_path, monkeypatch):
    tool(tmp_path, monkeypatch, "hybridgpu", CALIBRATE)
    monkeypatch.setattr(constants, "COMMAND", [str(tmp_path / "hybridgpu"), "calibrate"])
    assert constants.main(["--rows", str(tmp_path / "rows"), "--seconds", "30"]) == 0
    found = rows.read(tmp_path / "rows")
    assert found.finished and found.lists["constants"][0]["constants"] == {"figures": {"clock": 1.98e9}}


def test_suites_and_groups_that_are_cut_off_come_again(tmp_path, monkeypatch):
    """Each is a row; what a cut-off one had is kept until then."""
    answers = iter([(processes.CUT_OFF, ""), (0, ""), (1, "Error: wrong results\n")])

    def follow(command, show, seconds):
        code, said = next(answers)
        out = Path(command[command.index("--out") + 1])
        if not said:
            (out / "peers-x.json").write_text('{"machine": {}, "cases": [1]}')
        return code, said

    monkeypatch.setattr(peer_cases, "follow", follow)
    monkeypatch.setattr(peer_cases, "GROUPS", {"one": ("chain:1",)})
    file = tmp_path / "rows"
    assert peer_cases.main(["--rows", str(file)]) == 0 and rows.read(file).left == 1
    assert rows.read(file).lists["workloads"][0]["peers"] == {"cases": [1]}
    assert peer_cases.main(["--rows", str(file)]) == 0 and rows.read(file).finished
    assert [r["outcome"] for r in rows.read(file).lists["workloads"]] == ["ok"]
    file.unlink()
    assert peer_cases.main(["--rows", str(file)]) == 1
    assert rows.read(file).lists["workloads"][0]["problem"] == "Error: wrong results"


def test_a_suite_that_fails_leaves_the_others_figures(tmp_path, monkeypatch):
    def follow(command, show, seconds):
        name, file = command[command.index("--suite") + 1], Path(command[command.index("--json") + 1])
        if name == "rows":
            return 1, "Error: wrong results\n"
        file.write_text(json.dumps({"suites": [{"name": name}]}))
        return 0, ""

    monkeypatch.setattr(suites, "follow", follow)
    assert suites.main(["--rows", str(tmp_path / "x")]) == 1
    found = {r["name"]: r.get("suite", r.get("problem")) for r in rows.read(tmp_path / "x").lists["suites"]}
    assert list(found) == list(suites.SUITES) and found.pop("rows") == "Error: wrong results"
    assert all(suite == {"name": name} for name, suite in found.items())
