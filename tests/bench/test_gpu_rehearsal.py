# SPDX-License-Identifier: Apache-2.0
"""bench/gpu_check.sh from end to end on a machine with a null GPU (tests/cupy_on_null/rehearsal.py).

Its kernels compute nothing, so nearly every result is wrong; what counts is that nothing else is. ``pytest -m exhaustive``
goes through both commands whole, with each of the interpreters that $CUDA_PYTHONS names (as $PATH does; by default this
one): half an hour each.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import signal
import subprocess
import sys
import time

import pytest
from cuda_on_cpu.toolchain import compiler as cxx

from bench.gpu_check import steps
from bench.gpu_check.processes import ROOT

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64" or importlib.util.find_spec("cupy") is None,
    reason="CuPy of an x86-64 Linux is what is patched",
)
PYTHONS = [p for p in os.environ.get("CUDA_PYTHONS", "").split(os.pathsep) if p] or [sys.executable]
#: cases with a sort, which is Thrust's: its CUDA is one of its own, that finds no device
SORTED = ("steps_around_a_sort",)
SANITIZER = """
echo '========= COMPUTE-SANITIZER'
while [ "${1#--}" != "$1" ]; do shift 2; done
"$@"; code=$?
echo '========= ERROR SUMMARY: 0 errors'
exit $code
"""
NCU = """
while [ "${1#--}" != "$1" ]; do [ "$1" = --csv ] || shift; shift; done
"$@" || exit $?
echo '"ID","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value"'
echo '"0","tanh_exp","GPU Speed Of Light Throughput","DRAM Throughput","%","91.5"'
"""


class Null:
    """The machine, with what stands for NVIDIA's tools."""

    def __init__(self, python, folder):
        from cupy_on_null.rehearsal import Machine

        self.folder = folder
        self.machine = Machine(python, folder, cxx())
        tools = folder / "tools"
        tools.mkdir()
        for name, text in (("compute-sanitizer", SANITIZER), ("ncu", NCU)):
            (tools / name).write_text("#!/bin/sh\n" + text)
            (tools / name).chmod(0o755)
        self.environment = {**self.machine.environment, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}

    def command(self, out, *arguments):
        """gpu_check's, with small arrays and, since this machine may be busy, patience."""
        usual = {"--out": str(out), "--bytes": "65536", "--patience": "60"}
        given = {k for k in usual if k in arguments}
        more = [w for k, v in usual.items() if k not in given for w in (k, v)]
        return ["bash", str(ROOT / "bench" / "gpu_check.sh"), "--installed", *arguments, *more]

    def run(self, out, *arguments, **environment):
        """(exit code, output, steps by name) of a call."""
        done = subprocess.run(
            self.command(out, *arguments), env={**self.environment, **environment}, capture_output=True, text=True
        )
        file = out / "check.json"
        found = json.loads(file.read_text())["steps"] if file.exists() else []
        return done.returncode, done.stdout + done.stderr, {s["name"]: s for s in found}


@pytest.fixture(scope="module")
def null(tmp_path_factory):
    return Null(sys.executable, tmp_path_factory.mktemp("null"))


def rows_of(step):
    return [r for rows in step["data"].values() if isinstance(rows, list) for r in rows]


@pytest.mark.long_test
def test_both_commands(null, tmp_path):
    """Of some steps a few parts: the second call takes over what the first one has, and adds to it."""
    out, other = tmp_path / "out", tmp_path / "other"
    chosen = "--steps", "kernels,bandwidth,counters,constants"
    code, said, found = null.run(out, *chosen, "--only", "chain", "--budget", "300")
    assert code == 1 and list(found) == ["facts", "kernels", "constants", "bandwidth", "counters"], said
    assert found["facts"]["status"] == "ran" and found["facts"]["data"]["kernel"][0]["arch"] == "sm_90"
    assert {r["name"]: r["outcome"] for r in rows_of(found["kernels"])}["chain"] == "wrong"
    assert [r["timed"] for r in rows_of(found["bandwidth"])] == ["64 launches in a graph"]
    assert [r["kernels"][0]["kernel"] for r in rows_of(found["counters"])] == ["tanh_exp"]
    code, said, found = null.run(other, "--steps", "memcheck", "--only", "chain", "--earlier", str(out))
    assert {"kernels", "memcheck"} <= set(found) and found["kernels"]["status"] == "cut off"
    assert [r["errors"] for r in found["memcheck"]["data"]["tool"]] == [0] and "\n== kernels" not in said
    for step in found.values():
        assert {r["outcome"] for r in rows_of(step)} <= {"ok", "wrong"}, step
    assert sorted(p.name for p in other.iterdir()) == ["check.json", "check.log"]
    for file in other.iterdir():
        text = file.read_text()
        assert str(ROOT) not in text and os.path.expanduser("~") + "/" not in text


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["HANG", "CRASH", "FAULT"])
def test_a_kernel_that_takes_its_process_along(null, tmp_path, kind):
    """The perceptron as one kernel, of which there are several."""
    start = time.monotonic()
    code, said, found = null.run(
        tmp_path, "--steps", "kernels", "--only", "steps_", "--patience", "12", **{f"NULL_CUDA_{kind}": "dot_add_div"}
    )
    outcomes = {r["name"]: (r["outcome"], r.get("problem", "")) for r in rows_of(found["kernels"])}
    expected = {"HANG": "deadlock", "CRASH": "crash", "FAULT": "error"}[kind]
    assert outcomes["steps_mlp"][0] == expected, said
    others = {o for name, (o, _) in outcomes.items() if name not in ("steps_mlp", *SORTED)}
    assert others <= ({"wrong", "ok", "skipped"} if kind == "HANG" else {"wrong", "ok"}), outcomes
    skipped = ("skipped", "after the deadlock of steps_mlp, also of the family grid barrier")
    assert (skipped in outcomes.values()) == (kind == "HANG")
    assert "steps_mlp" in " ".join(found["kernels"]["problems"]) and time.monotonic() - start < 300


@pytest.mark.exhaustive
def test_a_kernel_that_waits_for_ever_in_a_test(null, tmp_path):
    environment = {"NULL_CUDA_HANG": "cupy_arange"}
    _, said, found = null.run(
        tmp_path, "--steps", "tests", "--only", "arange or printing", "--patience", "12", **environment
    )
    outcomes = {r["name"].partition("::")[2]: r["outcome"] for r in rows_of(found["tests"])}
    assert "deadlock" in outcomes.values() and outcomes["test_printing[real]"] == "ok", said


@pytest.mark.exhaustive
def test_a_check_that_is_killed(null, tmp_path):
    out = tmp_path / "out"
    with subprocess.Popen(
        null.command(out, "--steps", "kernels,forms"),
        env=null.environment,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        end = time.monotonic() + 120
        rows = out / "kernels.rows.jsonl"
        while time.monotonic() < end and not (rows.exists() and rows.read_text().count('"row"') > 5):
            time.sleep(0.2)
        os.killpg(process.pid, signal.SIGKILL)
    before = rows.read_text().count('"row"')
    _, said, found = null.run(out, "--steps", "kernels", "--budget", "30")
    names = [r["name"] for r in rows_of(found["kernels"])]
    assert len(names) == len(set(names)) > before > 5 and not rows.exists(), said


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"NULL_CUDA_LOADS": "222"}, ["kernel: error: DeviceError", "nvrtc 1", "driver 1"]),
        ({"NULL_CUDA_DEVICES": "0", "NULL_CUDA_DRIVER": "11080"}, ["the NVIDIA driver is one of CUDA 11", "update"]),
        ({"NULL_CUDA_DEVICES": "0"}, ["no GPU was found: gpu(0) cannot be used"]),
    ],
    ids=["refuses NVRTC's code", "older than CuPy", "no device"],
)
def test_machines_on_which_nothing_runs(null, tmp_path, environment, words):
    code, said, found = null.run(tmp_path / "out", **environment)
    assert code == 2 and not found and not (tmp_path / "out").exists()
    assert "error: nothing was checked" in said and all(w in said for w in words), said


@pytest.mark.exhaustive
def test_tools_that_are_missing(null, tmp_path):
    path = os.pathsep.join(
        p for p in os.environ["PATH"].split(os.pathsep) if not os.path.exists(os.path.join(p, "ncu"))
    )
    code, said, found = null.run(tmp_path, "--steps", "counters,memcheck", "--only", "chain", PATH=path)
    assert code == 3 and {found[n]["status"] for n in ("counters", "memcheck")} == {"skipped"}
    assert all(" is not here" in found[n]["why"] for n in ("counters", "memcheck")), said


@pytest.mark.exhaustive
@pytest.mark.parametrize("python", PYTHONS)
def test_everything(python, tmp_path):
    null = Null(python, tmp_path)
    for command in steps.COMMANDS:
        _, said, found = null.run(tmp_path / "out", command, "--budget", "3600")
        for name in steps.of_command(command):
            step = found[name]
            # (a stand-in's products of thousands of rows take calibrate minutes)
            assert step["status"] == "ran" or name == "constants", (name, step["why"], said[-2000:])
            wrong = {"wrong", "ok", "skipped"} | ({"error"} if name in ("tests", "bench", "peers") else set())
            bad = [r for r in rows_of(step) if r["outcome"] not in wrong and r["name"] not in SORTED]
            assert not bad, (name, bad)
