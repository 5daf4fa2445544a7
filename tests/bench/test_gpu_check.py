# SPDX-License-Identifier: Apache-2.0
"""bench/gpu_check.py and bench/gpu_kernels.py without a GPU: rehearsals, failures, and what they write."""

from __future__ import annotations

import importlib.util
import io
import json
import signal
import sys
import tempfile
import time
from pathlib import Path

import pytest

import hybridgpu as mx
from hybridgpu.backends import devices

ROOT = Path(__file__).resolve().parents[2]


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "bench" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    path = list(sys.path)
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path[:] = path
    return module


gpu_progress = load("gpu_progress")  # which those after it import
gpu_check, gpu_kernels, gpu_ways = load("gpu_check"), load("gpu_kernels"), load("gpu_ways")
gpu_convolutions, gpu_products = load("gpu_convolutions"), load("gpu_products")  # which import those before


@pytest.fixture
def check(tmp_path):
    log = gpu_check.Log(io.StringIO())
    return gpu_check.Check(log, tmp_path, full=False, emulate=True, peers=[], seconds=60)


def test_no_gpu_is_said_plainly(capsys, tmp_path):
    if mx.num_gpus():
        pytest.skip("there is a GPU here")
    assert gpu_check.main(["--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "no GPU was found, so nothing was checked" in said and "CUDA driver" in said
    assert not list(tmp_path.iterdir())


NOT_REHEARSED = ("kernels", "numbers", "cudnn", "cublaslt", "programs", "calls", "graph_kernels")


def test_a_rehearsal_writes_one_document(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_check, "find_sanitizer", lambda: None)
    # they run on the emulated device by themselves; here a part is enough
    monkeypatch.setenv("PYTEST_ADDOPTS", " ".join(f"--ignore=tests/gpu/test_{n}.py" for n in NOT_REHEARSED))
    assert gpu_check.main(["--emulate", "--steps", "memcheck,tests", "--out", str(tmp_path)]) == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["check.json", "check.log"]
    document = json.loads((tmp_path / "check.json").read_text())
    assert document["schema"] == gpu_check.SCHEMA and document["emulated"] is True
    tests, memcheck = document["steps"]  # in the order of all
    assert memcheck["status"] == "missing" and "compute-sanitizer is not here" in memcheck["detail"]
    assert tests["status"] == "passed" and tests["data"]["passed"] > 20 and tests["data"]["failures"] == []
    for file in tmp_path.iterdir():
        text = file.read_text()
        assert str(ROOT) not in text and str(Path.home()) + "/" not in text


def test_a_failed_step_is_recorded_and_the_rest_goes_on(tmp_path, monkeypatch):
    def broken(self, name):
        raise RuntimeError("planted")

    monkeypatch.setattr(gpu_check.Check, "_kernels", broken)
    monkeypatch.setattr(gpu_check.Check, "_bench", lambda self, name: gpu_check.Result(name, "passed"))
    assert gpu_check.main(["--emulate", "--steps", "kernels,bench", "--out", str(tmp_path)]) == 1
    kernels, bench = json.loads((tmp_path / "check.json").read_text())["steps"]
    assert (kernels["status"], kernels["detail"]) == ("failed", "RuntimeError: planted")
    assert bench["status"] == "passed"


def passing(self, name):
    return gpu_check.Result(name, "passed")


def test_calls_for_parts_make_one_document(tmp_path, monkeypatch):
    for step in ("_tests", "_kernels", "_convolutions", "_products", "_sanitizer", "_bench", "_peers"):
        monkeypatch.setattr(gpu_check.Check, step, passing)
    for part in ("bench", "tests", "sanitizer"):
        assert gpu_check.main(["--emulate", part, "--out", str(tmp_path)]) == 0
    monkeypatch.setattr(gpu_check.Check, "_kernels", lambda self, name: gpu_check.Result(name, "failed"))
    assert (
        gpu_check.main(["--emulate", "--steps", "kernels", "--out", str(tmp_path)]) == 1
    )  # in place of the earlier one
    document = json.loads((tmp_path / "check.json").read_text())
    assert [s["name"] for s in document["steps"]] == list(gpu_check.STEPS)
    assert [s["name"] for s in document["steps"] if s["status"] != "passed"] == ["kernels"]
    assert (tmp_path / "check.log").read_text().count("== bench: passed") == 1  # the log goes on, too


def test_results_of_another_machine_stay(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(gpu_check.Check, "_bench", passing)
    assert gpu_check.main(["--emulate", "--steps", "bench", "--out", str(tmp_path)]) == 0
    file = tmp_path / "check.json"
    document = json.loads(file.read_text())
    document["machine"]["cuda"]["gpus"] = [{"name": "another"}]
    file.write_text(json.dumps(document))
    assert gpu_check.main(["--emulate", "--steps", "bench", "--out", str(tmp_path)]) == 2
    assert "a check of another machine" in capsys.readouterr().err and json.loads(file.read_text()) == document


def test_what_has_no_time_waits(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_check, "LEAST", 1.0)
    script = "import time; time.sleep(60)"
    monkeypatch.setattr(gpu_check.Check, "_kernels", lambda self, n: self._run(n, [sys.executable, "-c", script])[0])
    check = gpu_check.Check(gpu_check.Log(io.StringIO()), tmp_path, False, True, [], seconds=60, budget=2)
    kernels, bench = check.step("kernels"), check.step("bench")
    assert kernels.status == "failed" and "it took longer than" in kernels.detail
    assert (bench.status, bench.detail) == ("waiting", "no time was left for it; run it with --steps bench")


def test_packages_that_are_missing_are_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(gpu_check, "PACKAGES", ("numpy", "no_such_package", "nor_this"))
    assert gpu_check.main(["--emulate", "--out", str(tmp_path)]) == 2
    assert "this Python has no no_such_package, nor_this." in capsys.readouterr().err
    monkeypatch.setattr(gpu_check, "OF_TESTS", ("pytest", "no_such_package"))
    log = gpu_check.Log(io.StringIO())
    result = gpu_check.Check(log, tmp_path, False, True, [], 60).step("tests")
    assert result.status == "missing" and result.detail == "this Python has no no_such_package"


def test_every_step_belongs_to_a_part():
    assert sorted(gpu_check.STEPS) == sorted(s for steps in gpu_check.PARTS.values() for s in steps)
    assert gpu_check.parse(["bench", "tests"]).steps == [*gpu_check.PARTS["tests"], *gpu_check.PARTS["bench"]]


#: a device that an illegal access ruins, and a kernel that waits for ever
PARTS = """
import sys, time
from pathlib import Path
sys.path.insert(0, "bench")
from gpu_progress import Progress
ruined = []
def alive():
    if ruined:
        raise RuntimeError("an illegal memory access was encountered")
def measure(name):
    if name == "waits" and {waits}:
        time.sleep(60)
    if name == "wild":
        ruined.append(name)
    alive()
    if name == "wrong":
        raise ValueError("of this part alone")
    return {{"ok": True, "problem": ""}}
progress = Progress(Path(sys.argv[2]), {patience}, alive)
for row in progress.rows("cases", [{{"name": n}} for n in ("one", "wrong", "wild", "two", "waits", "three")], measure):
    print(row)
progress.finish()
sys.exit(any(row["problem"] for row in progress.document["cases"]))
"""


@pytest.mark.parametrize("waits", [False, True])
def test_parts_that_take_their_process_along(tmp_path, monkeypatch, check, waits):
    script = tmp_path / "script.py"
    script.write_text(PARTS.format(waits=waits, patience=5 if waits else 0))
    run = gpu_check.Check._run
    monkeypatch.setattr(gpu_check.Check, "_run", lambda self, n, c: run(self, n, [c[0], str(script), *c[2:]]))
    result = check._kernels("kernels")
    rows = {row["name"]: row["problem"] for row in result.data["cases"]}
    assert rows == {
        "one": "",
        "wrong": "ValueError: of this part alone",
        "wild": "RuntimeError: an illegal memory access was encountered",
        "two": "",
        "waits": "the process did not outlive it" if waits else "",
        "three": "",
    }
    assert result.data["finished"] and result.status == "failed"
    assert result.detail.startswith("wrong: ValueError: of this part alone; wild: RuntimeError: an illegal")


def test_parts_that_there_is_no_time_for(tmp_path):
    file = tmp_path / "x.json"
    progress = gpu_progress.Progress(file, 0, lambda: None, budget=-1)
    assert list(progress.rows("cases", [{"name": "a"}, {"name": "b"}], dict)) == [] and progress.left == 2
    again = gpu_progress.Progress(file, 0, lambda: None)
    assert [row["name"] for row in again.rows("cases", [{"name": "a"}, {"name": "b"}], dict)] == ["a", "b"]
    assert json.loads(file.read_text())["cases"] == [{"name": "a"}, {"name": "b"}] and again.left == 0


def test_the_sanitizers_share_the_time_of_a_call(tmp_path, monkeypatch):
    budgets = []

    def run(self, name, command):
        budgets.append(float(command[-1]))
        Path(command[command.index("--json") + 1]).write_text('{"cases": [{"name": "chain", "ok": true}]}')
        return gpu_check.Result(name, "passed", "x", 0), "========= ERROR SUMMARY: 0 errors\n"

    monkeypatch.setattr(gpu_check, "find_sanitizer", lambda: "true")
    monkeypatch.setattr(gpu_check.Check, "_run", run)
    check = gpu_check.Check(gpu_check.Log(io.StringIO()), tmp_path, False, False, [], seconds=1800, budget=410)
    for k, step in enumerate(gpu_check.TOOLS):
        check.coming = gpu_check.TOOLS[k + 1 :]
        assert check.step(step).data["cases"] == ["chain"]
    assert budgets == pytest.approx([82, 117, 185, 390], abs=4)


def test_what_a_step_started_ends_with_it(check, tmp_path):
    """Or it would use the device while the next step is measured."""
    check.seconds, beat = 2, tmp_path / "beat"
    child = f"import time\nwhile True:\n    open({str(beat)!r}, 'a').write('x')\n    time.sleep(0.05)"
    script = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    result, _ = check._run("x", [sys.executable, "-c", script])
    assert result.status == "failed" and beat.exists()
    time.sleep(0.3)
    size = beat.stat().st_size
    time.sleep(0.3)
    assert beat.stat().st_size == size


def test_a_suite_that_fails_leaves_the_others_figures(check, monkeypatch):
    def run(self, name, command):
        suite, file = command[command.index("--suite") + 1], Path(command[-1])
        if suite == "rows":
            return gpu_check.Result(name, "failed", "hybridgpu bench", 1, detail="Error: wrong results"), ""
        file.write_text(json.dumps({"schema": "x", "suites": [{"name": suite}]}))
        return gpu_check.Result(name, "passed", "hybridgpu bench", 0), ""

    monkeypatch.setattr(gpu_check.Check, "_run", run)
    result = check.step("bench")
    assert (result.status, result.detail, result.exit_code) == ("failed", "rows: Error: wrong results", 1)
    assert [s["name"] for s in result.data["suites"]] == ["mlp", "chain", "broadcast", "lenet", "resnet"]


@pytest.mark.parametrize(
    ("script", "status", "detail"),
    [
        ("print('fine')", "passed", ""),
        ("import sys; print('it broke'); sys.exit(3)", "failed", "it broke"),
        ("import sys; sys.exit(3)", "failed", "it ended with code 3"),
        ("raise OSError('no library:\\n  looked in x')", "failed", "OSError: no library:"),
        ("import time; time.sleep(60)", "failed", "it took longer than 1 s"),
    ],
    ids=["passes", "says why", "says nothing", "an error of several lines", "hangs"],
)
def test_commands(check, script, status, detail):
    check.seconds = 1 if "sleep" in script else 60
    result, _ = check._run("x", [sys.executable, "-c", script])
    assert (result.status, result.detail) == (status, detail)


def test_the_sanitizers_summary_is_read():
    output = "========= COMPUTE-SANITIZER\n========= Invalid __global__ write of size 4 bytes\n========= ERROR SUMMARY: 2 errors\n"
    found = gpu_check.sanitizer_summary(output)
    assert found["errors"] == 2 and "Invalid __global__ write" in found["first"][1]
    clean = gpu_check.sanitizer_summary(
        "========= COMPUTE-SANITIZER\n========= RACECHECK SUMMARY: 0 hazards displayed\n"
    )
    assert clean["errors"] == 0 and clean["first"] == []
    assert "errors" not in gpu_check.sanitizer_summary("nothing")


def test_a_sanitizer_that_says_nothing_is_a_failure(check, monkeypatch):
    check.emulate = False
    monkeypatch.setattr(gpu_check, "find_sanitizer", lambda: "true")
    result = check._sanitizer("memcheck")
    assert (result.status, result.detail) == ("failed", "compute-sanitizer printed no summary")


def test_a_device_that_the_sanitizer_refuses(check, monkeypatch, tmp_path):
    tool = tmp_path / "compute-sanitizer"
    tool.write_text(
        "#!/bin/sh\necho '========= COMPUTE-SANITIZER'\necho '========= Error: Device not supported'\nexit 1\n"
    )
    tool.chmod(0o755)
    check.emulate = False
    monkeypatch.setattr(gpu_check, "find_sanitizer", lambda: str(tool))
    result = check._sanitizer("racecheck")
    assert result.status == "missing" and result.detail.endswith(
        "cannot check this device: Error: Device not supported"
    )


def test_failures_of_pytest_are_listed(tmp_path, check):
    test = tmp_path / "test_planted.py"
    test.write_text("def test_a():\n    assert 1 == 2\ndef test_b():\n    pass\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-c",
        "/dev/null",
        "-p",
        "no:cacheprovider",
        str(test),
        f"--junitxml={tmp_path / 'x.xml'}",
    ]
    result, _ = check._run("tests", command)
    assert result.exit_code == 1
    data = gpu_check.junit(tmp_path / "x.xml")
    assert (data["passed"], data["failed"]) == (1, 1) and "assert 1 == 2" in data["failures"][0]


def test_folders_of_this_machine_are_not_written():
    text = gpu_check.public(f"{ROOT}/bench/x {tempfile.gettempdir()}/tmpabc {sys.prefix}/bin/python")
    assert text == "./bench/x TMP/tmpabc PYTHON/bin/python"


@pytest.mark.parametrize(
    "arguments", [["--steps", "tests,nonsense"], ["nonsense"], ["--emulate"]], ids=["step", "part", "no folder"]
)
def test_usage_errors(arguments, capsys):
    with pytest.raises(SystemExit) as e:
        gpu_check.main(arguments)
    assert e.value.code == 2 and "error:" in capsys.readouterr().err


@pytest.mark.parametrize("in_background", [False, True])
def test_tests_that_are_out_of_time_are_counted(tmp_path, check, in_background):
    test, file = tmp_path / "test_planted.py", tmp_path / "x.xml"
    test.write_text("import time\ndef test_a():\n    pass\ndef test_b():\n    time.sleep(60)\n")
    options = ["-c", "/dev/null", "-p", "no:cacheprovider", str(test), f"--junitxml={file}"]
    former = signal.signal(signal.SIGINT, signal.SIG_IGN if in_background else signal.default_int_handler)
    try:
        for seconds in (4, 8, 16, 32):  # on a busy machine pytest takes some of them to begin
            check.seconds = seconds
            result, _ = check._run("tests", [sys.executable, "-m", "pytest", *options])
            assert result.detail == f"it took longer than {seconds} s"
            if file.exists() and gpu_check.junit(file)["passed"] == 1:
                return
    finally:
        signal.signal(signal.SIGINT, former)
    pytest.fail("the test that had passed was not counted")


@pytest.fixture
def emulated():
    """Afterwards gpu(0) is again whatever it was: other tests of this process may have an emulated one."""
    held = devices._gpu_factory
    yield
    devices.use_gpu_devices(held)


def test_kernels_are_compared_and_timed(emulated, monkeypatch, tmp_path, capsys):
    file = tmp_path / "kernels.json"
    monkeypatch.setattr(
        sys, "argv", ["gpu_kernels.py", "--emulate", "--json", str(file), "chain", "softmax", "dense_one"]
    )
    assert gpu_kernels.main() == 0
    document = json.loads(file.read_text())
    assert document["kinds"] == ["map", "matmul", "rows"] and all(c["ok"] for c in document["cases"])
    assert [row["name"] for row in document["bandwidth"]] == list(gpu_kernels.BANDWIDTH)
    for row in document["bandwidth"]:
        assert row["name"].split(":")[0] == row["kinds"][0] and 0 < row["bytes_min"] <= row["bytes_moved"]
    assert {row["name"] for row in document["rows"]} == set(gpu_kernels.ROWS)
    for row in document["rows"]:
        assert len(row["kinds"]) == 1 and row["choices"][0]["why"] and row["bytes_min"] == row["bytes_moved"]
    monkeypatch.setattr(gpu_kernels, "evaluate", lambda *a, **k: [x + 0.01 for x in reference(*a, **k)])
    monkeypatch.setattr(sys, "argv", ["gpu_kernels.py", "--emulate", "--no-timing", "chain"])
    assert gpu_kernels.main() == 1 and "WRONG chain" in capsys.readouterr().out


reference = gpu_kernels.evaluate


CONVOLUTIONS = ["3x3 of 16, small", "float16", "one axis", "transposed, stride 2", "derivative by 3x3 weight"]


@pytest.mark.parametrize("cudnn", [False, True], ids=["without cuDNN", "with cuDNN"])
def test_convolutions_are_computed_in_every_way(emulated, monkeypatch, tmp_path, capsys, cudnn):
    from cudnn_on_cpu.support import Fake

    fake = Fake(tmp_path)

    class Device(gpu_kernels.Device):
        def __init__(self, emulate, pool):
            super().__init__(emulate, pool)
            if cudnn:
                convolutions = self.device.convolutions  # which may have looked for the library
                convolutions._finder, convolutions._found = fake.find, None

    monkeypatch.setattr(gpu_ways, "Device", Device)
    file = tmp_path / "convolutions.json"
    assert gpu_convolutions.main(["--emulate", "--json", str(file), *CONVOLUTIONS]) == 0
    document = json.loads(file.read_text())
    ways = ["direct", "unfolded", *(["cudnn"] if cudnn else [])]
    assert document["library"] == ("cuDNN 9.12.3" if cudnn else "cuDNN needs a GPU")
    for c, t in zip(document["cases"], document["times"], strict=True):
        assert c["ok"] and list(c["errors"]) == list(t["us"]) == ways and t["chosen"] == "direct"  # they are small here
    assert bool(fake.runs) is cudnn
    evaluate = gpu_ways.evaluate
    monkeypatch.setattr(gpu_ways, "evaluate", lambda *a, **k: [x + 0.01 for x in evaluate(*a, **k)])
    assert gpu_convolutions.main(["--emulate", "--no-timing", CONVOLUTIONS[0]]) == 1
    assert "WRONG 3x3 of 16, small" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        gpu_convolutions.main(["--emulate", "nonsense"])


PRODUCTS = ["one row, dense", "4 rows, columns", "8 rows, float16", "attention, scores", "1024 cubed, float64"]


@pytest.mark.parametrize("cublaslt", [False, True], ids=["without cuBLASLt", "with cuBLASLt"])
def test_products_are_computed_in_every_way(emulated, monkeypatch, tmp_path, capsys, cublaslt):
    from cublaslt_on_cpu.support import FakeProducts
    from emulated import EmulatedDevice, install, no_cudnn

    fake = FakeProducts(tmp_path)

    class Device(gpu_kernels.Device):
        def __init__(self, emulate, pool):
            super().__init__(emulate, pool)
            if cublaslt:
                self.device = EmulatedDevice(0, install(), no_cudnn, find_products=fake.find)
                self.backend = self.device.backend()

    monkeypatch.setattr(gpu_ways, "Device", Device)
    file = tmp_path / "products.json"
    assert gpu_products.main(["--emulate", "--json", str(file), *PRODUCTS]) == 0
    document = json.loads(file.read_text())
    assert document["library"] == ("cuBLASLt 12.3.1" if cublaslt else "cuBLASLt needs a GPU")
    for c, t in zip(document["cases"], document["times"], strict=True):
        assert c["ok"] and list(c["errors"]) == list(t["us"]) == list(t["expected_us"]) and t["chosen"] in t["us"]
        assert "tiles" in t["us"] and ("cublaslt" in t["us"]) is cublaslt and "cupy" in t["us"]
    assert bool(fake.products) is cublaslt
    assert document["relu_keeps_nan"] is (False if cublaslt else None)  # that of the stand-in does not
    evaluate = gpu_ways.evaluate
    monkeypatch.setattr(gpu_ways, "evaluate", lambda *a, **k: [x + 0.01 for x in evaluate(*a, **k)])
    assert gpu_products.main(["--emulate", "--no-timing", PRODUCTS[0]]) == 1
    assert "WRONG one row, dense" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        gpu_products.main(["--emulate", "nonsense"])
