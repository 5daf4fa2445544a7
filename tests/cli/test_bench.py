# SPDX-License-Identifier: Apache-2.0
"""``hybridgpu bench``: its output and JSON, its errors; never how fast anything is."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from emulated import EmulatedDevice, EmulatedDriver

import hybridgpu as mx
from hybridgpu.backends import devices
from hybridgpu.backends.devices import use_gpu_devices
from hybridgpu.cli import main
from hybridgpu.cli.bench import children, worker
from hybridgpu.cli.bench.command import LARGE, NAMES, _measure
from hybridgpu.cli.bench.results import SCHEMA, CaseResult, Document, FirstCall, Row, SuiteResult
from hybridgpu.cli.bench.workloads import SUITES


@pytest.fixture(autouse=True)
def _no_gpu():
    held = devices._gpu_factory
    use_gpu_devices(None)
    yield
    use_gpu_devices(held)


@pytest.fixture
def no_gpu():
    if mx.num_gpus():
        pytest.skip("there is a GPU here")


def bench(*arguments: str):
    return CliRunner().invoke(main, ["bench", *arguments])


def check_document(document: dict, device: str = "cpu(0)") -> None:
    """Every field of docs/benchmarks.md is there and makes sense."""
    assert set(document) == set(Document.__annotations__) and document["schema"] == SCHEMA
    assert set(document["machine"]) == {"versions", "cpu", "compiler", "cuda", "environment"}
    for suite in document["suites"]:
        assert set(suite) == set(SuiteResult.__annotations__)
        assert suite["device"] == device and suite["threads"] in ("all", "1")
        for case in suite["cases"]:
            check_case(case, suite["reference"])
        assert [f["cache"] for f in suite["first_calls"]] == ["cold", "warm"]
        for first in suite["first_calls"]:
            assert set(first) == set(FirstCall.__annotations__)
            assert first["first_call_ms"] > 0 and first["import_ms"] > 0
        assert suite["first_calls"][1]["modules"] == 0


def check_case(case: dict, reference: str) -> None:
    assert set(case) == set(CaseResult.__annotations__)
    rows = {row["mode"]: row for row in case["rows"]}
    assert list(rows)[0] == reference and {"eager", "hybridized", "static", "copy"} <= set(rows)
    assert ("bare" in rows) == (case["bare"] is not None)
    for row in rows.values():
        assert set(row) == set(Row.__annotations__)
        assert 0 < row["min_us"] <= row["median_us"] and row["calls"] >= 1 and row["rounds"] >= 1
        assert math.isclose(row["spread_us"], row["median_us"] - row["min_us"], abs_tol=1e-9)
        assert (row["over_bare_us"] is not None) == (row["mode"] in ("hybridized", "static") and "bare" in rows)
    assert rows[reference]["over_reference"] == 1 and rows["copy"]["over_copy"] == 1


@pytest.mark.long_test
def test_all_suites_in_a_hurry(tmp_path, monkeypatch, compiler):
    monkeypatch.setenv("HYBRIDGPU_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    file = tmp_path / "out.json"
    out = bench("--quick", "--repeat", "1", "--json", str(file))
    assert out.exit_code == 0, out.output
    for text in (
        "batch 1",
        "batch 16",
        "1000 elements",
        "hybridized",
        "NumPy",
        "first call, cold cache",
        f"wrote {file}",
    ):
        assert text in out.output
    document = json.loads(file.read_text())
    check_document(document)
    assert str(tmp_path) not in file.read_text(), "a path of this machine"
    assert document["machine"]["environment"]["OMP_NUM_THREADS"] == "3"
    assert document["options"] == {
        "suite": "all",
        "device": "cpu",
        "quick": True,
        "large": False,
        "rounds": 1,
        "threads": ["all"],
    }
    assert [suite["name"] for suite in document["suites"]] == list(SUITES) == list(NAMES)
    mlp, chain, _, rows, lenet, _, eager, networks = document["suites"]
    assert all("bare" in case and len(case["rows"]) == 6 for case in eager["cases"])
    training, inference = networks["cases"]
    assert networks["reference"] == "eager" and (training["bare"], inference["bare"]) == (None, "foreign call")
    assert mlp["name"] == "mlp" and all(r["calls"] == 1000 for c in mlp["cases"] for r in c["rows"])
    assert mlp["cases"][0]["bytes"] == 4 * (512 + 512 * 256 + 256 + 256 * 128 + 128 + 128 * 2 + 2 + 2)
    assert chain["name"] == "chain" and [c["parameters"]["elements"] for c in chain["cases"]] == [
        1000,
        100_000,
        1_000_000,
    ]
    assert chain["cases"][0]["bytes"] == 8000
    assert chain["cases"][0]["bare"] == "foreign call"
    assert chain["first_calls"][0]["modules"] == 1
    assert rows["cases"][0]["parameters"] == {"rows": 4096, "columns": 1024} and rows["cases"][0]["bytes"] == 1 << 25
    assert lenet["cases"][0]["elements"] == 160 and lenet["cases"][0]["bare"] == "foreign call"


@pytest.mark.parametrize(
    ("name", "k", "shared"), [*((name, 0, name != "networks") for name in NAMES), ("networks", 1, True)]
)
def test_blocks_share_parameters(name, k, shared):
    """The ways of computing differ in nothing but how they are called; steps of training, which write them, have copies."""
    case = SUITES[name].cases[k]
    net, _ = case.make(mx.cpu())
    again = case.again(net)
    ours, theirs = (list(block.collect_params().values()) for block in (net, again))
    assert len(ours) == len(theirs)
    for p, q in zip(ours, theirs, strict=True):
        assert (p.data() is q.data()) == shared and (p.data() == q.data()).asnumpy().all()


@pytest.mark.parametrize("case", SUITES["eager"].cases, ids=lambda case: case.name)
def test_eager_cases_are_calls_without_blocks(case):
    """Their NumPy code agrees, and no block is called."""
    block, x = case.make(mx.cpu())
    function = case.eager(block, mx.cpu())
    block.hybrid_forward = None
    want = case.reference(np, x._data, *(p.data().asnumpy() for p in block.collect_params().values()))
    np.testing.assert_allclose(function(x).asnumpy(), want, 1e-4, 1e-4)


def test_steps_that_learn_otherwise_are_not_timed(monkeypatch):
    """The first loss is right whatever the gradient is; the second is not."""
    case = SUITES["networks"].cases[0]
    step, x = case.make(mx.cpu())
    step.trainer.set_learning_rate(0.03)
    with pytest.raises(worker.WrongResult, match="eager gives wrong results for LeNet, training"):
        worker._check(case, {"eager": step}, x, [], "numpy", np)
    assert worker._check(case, {"eager": case.make(mx.cpu())[0]}, x, [], "numpy", np).shape == (64,)


def test_a_column_for_each_number_of_threads(capsys, monkeypatch):
    """The first measurement is shown whole, of the others the medians."""

    def measured(options, step):
        row = {"mode": "eager", "median_us": 5.0, "min_us": 4.0, "over_reference": 1.0, "over_copy": 2.0,
               "over_bare_us": None, "spread_us": 1.0}  # fmt: skip
        row["median_us"] *= {"all": 1, "1": 3, "7": 2}[options["threads"]]
        row["spread_us"] = row["median_us"] - row["min_us"]
        case = {"name": "one", "bytes": 8, "bare": None, "rows": [row]}
        return {"name": "mlp", "title": "Nets", "device": "cpu(0)", "threads": options["threads"], "reference": "eager",
                "cases": [case], "first_calls": []}  # fmt: skip

    monkeypatch.setattr(children, "run_worker", measured)
    monkeypatch.setattr(children, "first_calls", lambda *a: [])
    out = bench("--suite", "mlp", "--threads", "all", "--threads", "1", "--threads", "07")
    assert out.exit_code == 0, out.output
    for text in ("Nets on cpu(0), all threads", "one thread", "7 threads", " 5.00", "~15.0", "~10.0", "other work may"):
        assert text in " ".join(out.output.split()), out.output  # (the least time is 4: two of the medians are marked)


@pytest.mark.parametrize(
    ("asked", "measured", "written"),
    [
        (["mlp"], ["mlp"], "mlp"),
        (["rows", "mlp", "rows"], ["rows", "mlp"], "rows, mlp"),
        (["mlp", "all"], list(SUITES), "all"),
        ([], list(SUITES), "all"),
    ],
    ids=str,
)
def test_several_suites(monkeypatch, tmp_path, asked, measured, written):
    """Each once, in the order in which they are asked for."""
    monkeypatch.setattr(
        children,
        "run_worker",
        lambda options, step: {"name": options["suite"], "title": "Nets", "device": "cpu(0)", "threads": "all",
                               "reference": "eager", "cases": [], "first_calls": []},
    )  # fmt: skip
    monkeypatch.setattr(children, "first_calls", lambda *a: [])
    file = tmp_path / "out.json"
    out = bench(*(word for name in asked for word in ("--suite", name)), "--json", str(file))
    assert out.exit_code == 0, out.output
    document = json.loads(file.read_text())
    assert [s["name"] for s in document["suites"]] == measured
    assert document["options"]["suite"] == written


@pytest.mark.parametrize(("done", "written"), [(0, None), (2, ["mlp", "chain"])])
def test_what_was_measured_before_ctrl_c_is_written(monkeypatch, tmp_path, done, written):
    def measured(options, step):
        if NAMES.index(options["suite"]) == done:
            raise KeyboardInterrupt
        return {"name": options["suite"], "title": "Nets", "device": "cpu(0)", "threads": "all", "reference": "eager",
                "cases": [], "first_calls": []}  # fmt: skip

    monkeypatch.setattr(children, "run_worker", measured)
    monkeypatch.setattr(children, "first_calls", lambda *a: [])
    file = tmp_path / "out.json"
    out = bench("--json", str(file))
    assert out.exit_code == 1 and out.stderr.strip().endswith("Aborted!")
    assert ("is not written" in out.stderr) == (written is None)
    assert file.exists() == (written is not None)
    assert written is None or [s["name"] for s in json.loads(file.read_text())["suites"]] == written


def test_threads_of_the_measuring_process(monkeypatch):
    """All: what each library takes by itself, as in any program of the user's."""
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("HYBRIDGPU_NUM_THREADS", raising=False)
    assert children._environment("all")["OMP_NUM_THREADS"] == "3"
    assert "HYBRIDGPU_NUM_THREADS" not in children._environment("all")
    alone = children._environment("1")
    assert {alone[name] for name in children._THREADS} == {"1"} and "HYBRIDGPU_NUM_THREADS" in alone


def test_without_a_compiler_there_is_no_bare_call(tmp_path, monkeypatch):
    monkeypatch.setenv("HYBRIDGPU_CXX", "none")
    file = tmp_path / "out.json"
    out = bench("--quick", "--suite", "mlp", "--repeat", "1", "--json", str(file))
    assert out.exit_code == 0, out.output
    document = json.loads(file.read_text())
    check_document(document)
    assert all(case["bare"] is None for case in document["suites"][0]["cases"])


def test_gpu_that_is_not_there(no_gpu, tmp_path):
    out = bench("--device", "gpu", "--json", str(tmp_path / "out.json"))
    assert out.exit_code == 1
    lines = out.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("Error: gpu(0) cannot be used")
    for text in ("CuPy", "CUDA driver", "nvidia-smi"):
        assert text in lines[0]
    assert not (tmp_path / "out.json").exists()


def test_plot_without_matplotlib(monkeypatch, tmp_path):
    real = __import__("importlib.util").util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name, package=None: None if name == "matplotlib" else real(name, package)
    )
    monkeypatch.setattr(children, "run_worker", lambda *a: pytest.fail("nothing may be measured first"))
    out = bench("--plot", str(tmp_path / "out.png"))
    assert out.exit_code == 1
    assert out.stderr.strip() == "Error: --plot needs matplotlib: pip install matplotlib"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--plot", "out.gif"], "must end in .png, .svg, .pdf"),
        (["--large", "--suite", "mlp"], "mlp has none; chain, broadcast, rows have"),
        (["--large", "--suite", "rows", "--suite", "mlp"], "mlp has none; chain, broadcast, rows have"),
        (["--json", "no/such/folder/out.json"], "there is no folder"),
    ],
    ids=["format", "no large sizes", "no large sizes of one", "folder"],
)
def test_wrong_files_are_usage_errors(arguments, text):
    out = bench(*arguments)
    assert out.exit_code == 2 and text in out.stderr


def document_of(tmp_path, device="cpu") -> dict:
    """A document with made-up times."""

    def case(name, parameters, scale):
        modes = {"numpy": 9.0, "eager": 50.0, "hybridized": 2.0, "static": 1.5, "bare": 1.0, "copy": 0.5}
        rows = [
            {
                "mode": m,
                "median_us": t * scale,
                "min_us": t * scale,
                "calls": 1,
                "rounds": 1,
                "over_reference": t / 9,
                "over_copy": t / 0.5,
                "over_bare_us": None,
                "spread_us": 0.0,
            }
            for m, t in modes.items()
        ]
        return {"name": name, "parameters": parameters, "elements": 1, "bytes": 8, "bare": "foreign call", "rows": rows}

    machine = {"cuda": {"gpus": []}, "cpu": {"model": "a processor"}, "versions": {"hybridgpu": "1", "numpy": "2"}}
    mlp = [case("batch 1", {"batch": 1}, 1), case("batch 16", {"batch": 16}, 3)]
    chain = [case(f"{n} elements", {"elements": n}, n / 100) for n in (1000, 100_000)]
    suites = [
        {
            "name": name,
            "title": name,
            "device": "cpu(0)",
            "threads": "all",
            "reference": "numpy",
            "cases": cases,
            "first_calls": [],
        }
        for name, cases in (("mlp", mlp), ("chain", chain))
    ]
    return {
        "schema": SCHEMA,
        "date": "2026-01-01T00:00:00+00:00",
        "options": {"device": device},
        "machine": machine,
        "suites": suites,
    }


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_plot_is_drawn(tmp_path, ending):
    pytest.importorskip("matplotlib")
    from hybridgpu.cli.bench.plot import draw

    file = tmp_path / f"out.{ending}"
    draw(document_of(tmp_path), file)
    start = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[ending]
    assert file.read_bytes().startswith(start) and file.stat().st_size > 5000
    if ending == "svg":
        text = file.read_text()
        for label in ("mlp; all threads", "NumPy", "hybridized", "copy of the same bytes", "batch 16", "a processor"):
            assert label in text


def test_plot_of_a_single_suite(tmp_path):
    pytest.importorskip("matplotlib")
    from hybridgpu.cli.bench.plot import draw

    document = document_of(tmp_path)
    document["suites"] = document["suites"][1:]
    document["suites"][0]["cases"] = document["suites"][0]["cases"][:1]  # a single size: bars
    draw(document, tmp_path / "out.png")
    assert (tmp_path / "out.png").stat().st_size > 5000


def test_large_sizes_lie_beyond_any_cache():
    """An H200 has 60 MB of L2, and reads and writes these in a call."""
    assert {name for name, suite in SUITES.items() if suite.large} == set(LARGE)
    for suite in SUITES.values():
        for case in suite.large:
            assert (
                case.parameters.get("elements", case.parameters.get("rows", 1) * case.parameters.get("columns", 1))
                >= 1 << 25
            )


def test_large_sizes_alone(monkeypatch, tmp_path):
    options = {"suite": "chain", "device": "cpu", "quick": True, "large": True, "rounds": 1, "threads": "1"}
    measured = []
    monkeypatch.setattr(worker, "measure_case", lambda case, *more: measured.append(case.name))
    worker.measure_suite(SUITES["chain"], "cpu", True, 1, lambda message: None, large=True)
    assert measured == [case.name for case in SUITES["chain"].large]
    monkeypatch.setattr(children, "run_worker", lambda options, step: {"first_calls": []})
    monkeypatch.setattr(children, "first_calls", lambda *a: pytest.fail("first calls were made"))
    assert _measure(options) == {"first_calls": []}


def test_wrong_results_are_not_timed(monkeypatch):
    case = SUITES["chain"].cases[0]
    wrong = type(case)(case.name, case.parameters, 1, case.make, case.again, lambda xp, x: xp.tanh(x))
    with pytest.raises(worker.WrongResult, match="eager gives wrong results for 1000 elements"):
        worker.measure_case(wrong, mx.cpu(), worker.HostClock(), True, 1)


def test_a_failing_worker_is_reported(monkeypatch):
    options = {"suite": "chain", "device": "gpu", "quick": True, "large": False, "rounds": 1, "threads": "1"}
    if mx.num_gpus() == 0:
        with pytest.raises(children.click.ClickException, match=r"gpu\(0\) cannot be used"):
            children.run_worker(options, lambda *a: None)
    with pytest.raises(children.click.ClickException, match="KeyError: 'none'"):
        children.run_worker({**options, "suite": "none"}, lambda *a: None)


def test_the_quickest_process_counts_whole(monkeypatch):
    """Not the least of each column, which no process took together."""
    runs = [{"backend_ms": b, "first_call_ms": c, "import_ms": 1.0} for b, c in ((1, 9), (3, 4), (2, 6))] * 2
    left = iter(runs)
    monkeypatch.setattr(children, "_first_call", lambda *a: next(left))
    cold, warm = children.first_calls("chain", "cpu", "1", 3)
    assert cold == {"cache": "cold", "processes": 3, **runs[1]} and warm == {"cache": "warm", "processes": 3, **runs[1]}


@pytest.mark.parametrize("suite", ["rows", "eager"])
def test_a_cold_first_call_compiles(suite):
    """Also where an eager call of the same block would be compiled."""
    cold, warm = children.first_calls(suite, "cpu", "1", 1)
    assert (cold["modules"], warm["modules"]) == (1, 0)


def test_a_failing_first_call_is_reported():
    with pytest.raises(children.click.ClickException, match="timing the first call failed: KeyError"):
        children.first_calls("none", "cpu", "all", 1)


def test_progress_is_told(monkeypatch, capsys):
    seen = []
    suite = SUITES["chain"]
    short = type(suite)(suite.name, suite.title, suite.cases[:1], 1, 0)
    result = worker.measure_suite(short, "cpu", True, 2, seen.append)
    assert seen == [{"steps": 2}, {"done": "1000 elements"}, {"done": "1000 elements"}]
    assert [row["rounds"] for row in result["cases"][0]["rows"]] == [2] * len(result["cases"][0]["rows"])


class FakeCuda:
    """What CudaClock and the copy need of CuPy, over an emulated device whose arrays are NumPy's."""

    class Event:
        def record(self):
            FakeCuda.log.append("record")

        def synchronize(self):
            FakeCuda.log.append("synchronize")

    class Stream:
        def synchronize(self):
            FakeCuda.log.append("idle")

    log: list[str] = []

    @staticmethod
    def get_current_stream():
        return FakeCuda.Stream()

    @staticmethod
    def get_elapsed_time(start, stop):
        return 4.0


def test_a_batch_on_a_gpu_lies_between_events():
    FakeCuda.log = []
    clock = worker.CudaClock(type("cupy", (), {"cuda": FakeCuda}))
    assert clock.measure(lambda calls: FakeCuda.log.append(f"{calls} calls"), 7) == 0.004
    assert FakeCuda.log == ["idle", "record", "7 calls", "record", "synchronize"]


def test_suite_on_an_emulated_gpu(monkeypatch):
    """The way of the data on a GPU, with emulated kernels; times mean nothing."""
    driver = EmulatedDriver(checked=False)
    use_gpu_devices(lambda number: EmulatedDevice(number, driver))
    monkeypatch.setattr(worker, "clock_for", lambda ctx: worker.HostClock())
    suite = SUITES["chain"]
    case = suite.cases[0]
    once = type(case)(case.name, case.parameters, 1, case.make, case.again, case.reference)
    result = worker.measure_suite(type(suite)(suite.name, suite.title, (once,), 1, 0), "gpu", True, 1, lambda m: None)
    assert result["device"] == "gpu(0)" and result["reference"] == "cupy"
    check_case(result["cases"][0], "cupy")
    assert result["cases"][0]["bare"] == "loaded program"
    assert len(driver.launches) >= 3


def test_rounds_are_interleaved_and_ratios_paired():
    from hybridgpu.cli.bench.timing import compare

    order: list[str] = []

    class Steps:
        """A machine that gets ten times slower after the first round."""

        def measure(self, run, calls):
            run(calls)
            return (1.0 if len(order) <= 2 else 10.0) * (2.0 if order[-1] == "slow" else 1.0)

    loops = {"slow": lambda calls: order.append("slow"), "fast": lambda calls: order.append("fast")}
    samples = compare(loops, Steps(), rounds=3, seconds=0, calls=1)
    assert order == ["slow", "fast", "fast", "slow", "slow", "fast"]
    assert samples["slow"].over(samples["fast"]) == 2.0
    assert samples["slow"].rounds == [2e6, 2e7, 2e7] and samples["slow"].minimum == 2e6
    assert samples["slow"].beyond(samples["fast"]) == 1e7


def test_a_batch_fills_its_time():
    from hybridgpu.cli.bench.timing import batch_size

    class Millisecond:
        def measure(self, run, calls):
            return calls * 1e-3

    assert batch_size(lambda calls: None, Millisecond(), 0.05) == 50
    assert batch_size(lambda calls: None, Millisecond(), 1e-6) == 1


def test_bare_call_computes_the_result(compiler):
    net, x = SUITES["mlp"].cases[0].make(mx.cpu())
    want = net(x).asnumpy()
    net.hybridize()
    net(x)
    run, kind = worker.bare_loop(net, x, mx.cpu())
    assert kind == "foreign call"
    _, (result,) = run.__defaults__[0]  # what it keeps alive: arguments, results
    result[...] = 0
    run(2)
    np.testing.assert_allclose(result, want, 1e-4, 1e-5)


def test_child_finds_hybridgpu_whatever_the_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", "")
    environment = children._environment("2")
    assert environment["OMP_NUM_THREADS"] == environment["OPENBLAS_NUM_THREADS"] == "2"
    assert Path(environment["PYTHONPATH"], "hybridgpu").is_dir()
