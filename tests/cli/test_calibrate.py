# SPDX-License-Identifier: Apache-2.0
"""``hybridgpu calibrate`` without a GPU; ``tests/cupy_on_null/calibration.py`` has it over the null device."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from cublaslt_on_cpu.support import FakeProducts
from cudnn_on_cpu.support import Memory

import hybridgpu as mx
from hybridgpu.backends import devices
from hybridgpu.backends.cuda.calibration import STEPS, Bench, Unmeasurable
from hybridgpu.backends.cuda.cublaslt_dot import ProductLibrary
from hybridgpu.backends.devices import use_gpu_devices
from hybridgpu.cache.disk_cache import default_store, reset_default_store
from hybridgpu.cli import calibrate_cpu, main
from hybridgpu.cli.calibrate import _products, _value
from hybridgpu.compiler.devices.cpu import CpuConstants
from hybridgpu.compiler.devices.record import constants_of
from hybridgpu.compiler.target import CPU, CUDA


def run(*arguments: str):
    return CliRunner().invoke(main, ["calibrate", *arguments])


@pytest.fixture
def no_gpu():
    held = devices._gpu_factory
    use_gpu_devices(None)
    if mx.num_gpus():
        pytest.skip("there is a GPU here")
    yield
    use_gpu_devices(held)


def test_without_a_gpu_it_says_what_was_looked_for_as_the_benchmark_does(no_gpu, tmp_path):
    found = run("--json", str(tmp_path / "out.json"))
    other = CliRunner().invoke(main, ["bench", "--device", "gpu"])
    instead = "Write --device cpu for the constants of this processor.\n"
    assert (found.exit_code, found.output) == (other.exit_code, other.output + instead)
    assert found.exit_code == 1 and "looked for" in found.output and not (tmp_path / "out.json").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--show", "--forget"], "--show and --forget exclude each other"),
        (["--forget", "--dry-run"], "--dry-run measures; --show and --forget do not"),
        (["--show", "--dry-run"], "--dry-run measures; --show and --forget do not"),
        (["--device", "cpu", "--forget"], "nothing is stored for processors"),
        (["--seconds", "0"], "--seconds"),
        (["--seconds", "nan"], "--seconds"),
        (["--json", "no/such/folder/x.json"], "there is no folder"),
        (["--device", "tpu"], "--device"),
    ],
)
def test_usage(arguments, words):
    found = run(*arguments)
    assert found.exit_code == 2 and words in found.output, found.output


@pytest.mark.as_shipped
def test_a_processor_is_measured_and_left_as_it_is(compiler, tmp_path, monkeypatch):
    monkeypatch.setenv("HYBRIDGPU_CACHE_DIR", str(tmp_path / "cache"))
    reset_default_store()
    try:
        file = tmp_path / "out.json"
        found = run("--device", "cpu", "--seconds", "0.6", "--json", str(file))
        assert found.exit_code == 0, found.output
        document = json.loads(file.read_text())
        assert [s["name"] for s in document["steps"]] == list(calibrate_cpu.STEPS)
        rows = {r["name"]: r for r in document["constants"]}
        assert set(rows) == {c.name for c in constants_of(CpuConstants)}
        for step in document["steps"]:  # on a busy machine a difference may drown; then it is said
            assert step["found"] or step["failed"] == "more took no longer"
            assert all(rows[k]["measured"] == v > 0 for k, v in step["found"].items())
        assert rows["byte_seconds"]["measured"] and document["stored"] is None
        assert all(r["new"] is None and r["used"] == getattr(CpuConstants, n) for n, r in rows.items())
        assert "nothing is stored" in found.output and CPU.device == CpuConstants()
        assert not (default_store().folder / "devices").exists()
        assert str(tmp_path) not in file.read_text(), "a path of this machine"
    finally:
        reset_default_store()


def test_a_step_that_fails_is_named(monkeypatch):
    def broken(seconds: float) -> dict[str, float]:
        raise RuntimeError("there is no C++ compiler\nand more")

    monkeypatch.setattr(calibrate_cpu, "STEPS", {"arithmetic": broken, "copies": lambda s: {"byte_seconds": 1e-9}})
    found = run("--device", "cpu", "--seconds", "0.1")
    assert found.exit_code == 0 and "arithmetic: there is no C++ compiler\n" in found.output
    assert "more than 2 times from what is used: byte_seconds" in found.output
    monkeypatch.setattr(calibrate_cpu, "STEPS", {"arithmetic": broken})
    found = run("--device", "cpu", "--seconds", "0.1")
    assert found.exit_code == 1 and "no constant could be measured" in found.output


def test_what_is_used_is_shown():
    found = run("--device", "cpu", "--show")
    assert found.exit_code == 0 and "measured  " not in found.output
    assert all(c.name in found.output for c in constants_of(CpuConstants))
    assert "older processors less" in " ".join(found.output.split()), "a source was cut off"


def test_values_are_printed_whole():
    assert (
        _value(65536, "count") == "65536" and _value(True, "flag") == "yes" and _value(1.5e9, "cycles/s") == "1.5e+09"
    )


def test_the_command_s_products_are_cublaslt_s(tmp_path):
    """As the step "products of a library" starts them: each kind, in types of its own."""
    fake, place = FakeProducts(tmp_path), Memory()
    place.products, place.compute_capability = ProductLibrary(place, fake.find), 90
    multiply = _products(place)
    for count, kind in enumerate(("f32", "tf32", "f16"), 1):
        multiply(kind, 8)()
        assert fake.products == count
    place.compute_capability = 75
    assert multiply("tf32", 8) is None and multiply("f16", 8) is not None
    place.products = ProductLibrary(place, lambda version: "not here")
    assert multiply("f32", 8) is None


@pytest.mark.parametrize(("missing", "words"), [("", ""), ("f16", "there is no cuBLASLt")])
def test_constants_of_products(missing, words):
    """A library of known rates is found to have them."""
    gpu = CUDA.gpu
    cycles, call = gpu.multiprocessors * gpu.clock, 9e-6
    rates = {"f32": 0.75 * gpu.lanes, "tf32": 700, "f16": 1400}
    running: list[float] = []

    def multiply(kind: str, size: int):
        return None if kind == missing else lambda: running.append(call + size**3 / (rates[kind] * cycles))

    def timer(run) -> float:
        running.clear()
        run(0)
        return sum(running)

    bench = Bench(None, None, None, timer, gpu, 1e-3, multiply)
    if words:
        with pytest.raises(Unmeasurable, match=words):
            STEPS["products of a library"](bench)
        return
    found = STEPS["products of a library"](bench)
    assert found == {
        "library_seconds": pytest.approx(call - gpu.launch_seconds, rel=0.3),  # the smallest takes a little by itself
        "library_share": pytest.approx(0.75, rel=1e-2),
        "tensor_lanes": pytest.approx(1400, rel=5e-2),
    }
    assert set(bench.figures["product_seconds"]) == set(rates)
