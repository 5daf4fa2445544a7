# SPDX-License-Identifier: Apache-2.0
"""The steps of bench/gpu_check on the emulated GPU, whose kernels do compute: what is right, what is wrong, what is chosen."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import hybridgpu as mx
from bench.gpu_check import bandwidth, convolutions, forms, kernels, persistent, products, rows, ways
from bench.gpu_check.device import Device, Timer, families
from hybridgpu.backends import devices
from hybridgpu.compiler.pipeline import compile_graph

reference = kernels.evaluate


@pytest.fixture(autouse=True)
def _emulated():
    """Afterwards gpu(0) is again whatever it was: other tests of this process may have an emulated one."""
    held = devices._gpu_factory
    yield
    devices.use_gpu_devices(held)


def run(step, file, *arguments):
    """(exit code, lists of rows) of a step."""
    file.unlink(missing_ok=True)
    code = step.main(["--emulate", "--rows", str(file), *arguments])
    return code, rows.read(file).lists


def test_kernels_are_compared(tmp_path, monkeypatch, capsys):
    code, lists = run(kernels, tmp_path / "x", "chain", "softmax", "dense_one")
    assert code == 0 and [r["kinds"] for r in lists["cases"]] == [["map"], ["rows"], ["matmul"]]
    monkeypatch.setattr(kernels, "evaluate", lambda *a, **k: [x + 0.01 for x in reference(*a, **k)])
    code, lists = run(kernels, tmp_path / "x", "chain")
    assert code == 1 and lists["cases"][0]["outcome"] == "wrong"
    assert lists["cases"][0]["problem"].startswith("output 0, fresh: ")
    with pytest.raises(SystemExit):
        kernels.main(["--emulate", "nonsense"])


def test_what_may_wait_for_ever_comes_last():
    names = ["looped", "steps_mlp", "softmax_in_a_cluster", *list(kernels.CASES)[:12]]
    programs = {n: compile_graph(kernels.build(n), kernels.cuda_of(n, "sm_90")) for n in names}
    order = kernels.in_order(programs, 4)
    assert order[-3:] == ["softmax_in_a_cluster", "looped", "steps_mlp"] or order[-3:] == [
        "softmax_in_a_cluster", "steps_mlp", "looped",
    ]  # fmt: skip
    assert [families(programs[n]) for n in order[-3:]] == ["cluster", "grid barrier", "grid barrier"]
    assert order[:3] == [n for n in names[::4] if not families(programs[n])][:3]


def test_other_processes_compile(tmp_path, monkeypatch):
    """All cases are shared out among as many as there are processors for."""
    monkeypatch.setattr(kernels, "cores", lambda: 5)
    commands = kernels.compilers(6, 4, "")
    assert [c[-2:] for c in commands] == [["--compile", f"{k}/3"] for k in range(3)]
    monkeypatch.setattr(kernels, "cores", lambda: 2)
    assert kernels.compilers(6, 4, "") == []
    loaded = []
    monkeypatch.setattr(
        "hybridgpu.backends.cuda.backend.CudaBackend.load", lambda self, program: loaded.append(program)
    )
    names = ["chain", "softmax", "dense_one", "looped"]
    for k in range(2):
        assert run(kernels, tmp_path / "x", *names, "--compile", f"{k}/2")[0] == 0
    assert len(loaded) == 4 and len({p.kernels[0].name for p in loaded}) == 4


@pytest.fixture
def few(monkeypatch):
    """Of every table two rows."""
    monkeypatch.setattr(bandwidth, "LENGTHS", bandwidth.LENGTHS[:4])
    for name in ("BANDWIDTH", "ROWS"):
        monkeypatch.setattr(bandwidth, name, dict(list(getattr(bandwidth, name).items())[::3]))


def test_bandwidth_is_measured(tmp_path, few):
    code, lists = run(bandwidth, tmp_path / "x")
    assert code == 0 and [row["name"] for row in lists["bandwidth"]] == list(bandwidth.BANDWIDTH)
    for row in lists["bandwidth"]:
        assert row["name"].split(":")[0] == row["kinds"][0] and 0 < row["bytes_min"] <= row["bytes_moved"]
    assert {row["name"] for row in lists["rows"]} == set(bandwidth.ROWS)
    for row in lists["rows"]:
        assert len(row["kinds"]) == 1 and row["choices"][0]["why"] and row["bytes_min"] == row["bytes_moved"]


def test_arrays_have_the_size_that_is_asked_for():
    """None is ten times as large by a slip in its type."""
    for name, work in {**bandwidth.BANDWIDTH, **bandwidth.ROWS}.items():
        for width in (128, 1024, 65536, 262144):
            graph = bandwidth.graph_of(work, 1 << 26, width)
            most = max(n.size * n.dtype.np.itemsize for n in graph.inputs)
            assert most <= (1 << 26) * 1.6, (name, width)
            assert most >= (1 << 26) * 0.45, (name, width)


def test_every_form_is_timed(tmp_path, monkeypatch):
    monkeypatch.setattr(forms, "WIDTHS", (256, 16384))
    monkeypatch.setattr(forms, "MOST", 3)
    code, lists = run(forms, tmp_path / "x")
    assert code == 0 and len(lists["forms"]) == 6
    for width in (256, 16384):
        found = [r for r in lists["forms"] if r["width"] == width]
        assert len({r["form"] for r in found}) == 3 and sum(r["chosen"] for r in found) == 1
        assert all(r["model_us"] > 0 and r["us"] > 0 for r in found)
    slow = {"outcome": "ok", "name": "sum", "width": 1, "us": 3.0, "chosen": True}
    assert forms.slower([slow, {**slow, "us": 2.0, "chosen": False}]) == ["sum 1: 1.50"]


def test_a_form_is_really_another_kernel():
    device = Device(emulate=True)
    made = forms.Forms(device, 1 << 20)
    assert any(" 1 blocks" not in part["form"] for part in made.parts("softmax", 262144))  # clusters
    texts = set()
    for part in made.parts("softmax", 1024):
        with forms.Choice(part["form"]).made() as choice:
            program = compile_graph(made.graph("softmax", 1024), device.backend.target)
        assert forms.label(choice.taken) == part["form"]
        texts.add(program.kernels[0].text)
    assert len(texts) == len(made.parts("softmax", 1024)) > 4


def test_persistent_kernels_are_compared(tmp_path, monkeypatch, capsys):
    from emulated import EmulatedDriver

    monkeypatch.setattr(EmulatedDriver, "cooperative", True)
    monkeypatch.setattr(persistent, "NETS", {"small": small, **persistent.NETS})
    monkeypatch.setattr(persistent, "TRAINED", ("small",))
    code, lists = run(persistent, tmp_path / "x", "small")
    assert code == 0 and len(lists["calls"]) == 12
    kernels_of = {(r["resident"], r["calls"]): r["kernels"] for r in lists["calls"] if r["what"] == "called"}
    assert kernels_of["never", "graph"] > kernels_of["always", "graph"] == 1
    assert all(r["us"] > 0 and r["latency_us"] > 0 for r in lists["calls"])
    monkeypatch.setattr(persistent.np, "array_equal", lambda a, b, equal_nan: False)
    code, lists = run(persistent, tmp_path / "x", "small")
    assert code == 1 and lists["calls"][-1]["problem"] == "other bits than with never"


def test_calls_are_captured_as_they_usually_are():
    """Not as in a user's capture, where a call has memory and a cleared barrier of its own: these would be timed, too."""

    class Stream:
        begin_capture = end_capture = synchronize = lambda self, *mode: Graph()

    class Graph:
        def launch(self, stream):
            pass

    device = Device(emulate=True)
    timer, driver, seen = Timer(device), device.backend.driver, []
    timer._stream, timer._device = (
        Stream(),
        SimpleNamespace(
            backend=device.backend,
            xp=SimpleNamespace(cuda=SimpleNamespace(runtime=SimpleNamespace(streamCaptureModeRelaxed=2))),
        ),
    )
    usual, driver.is_capturing = type(driver).is_capturing, lambda: True
    try:
        timer._captured(lambda k: seen.append((k, driver.is_capturing())))
    finally:
        vars(driver).pop("is_capturing", None)
    assert seen == [(k, False) for k in range(64)] and driver.is_capturing.__func__ is usual


def small():
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(6, activation="relu", in_units=4), mx.gluon.nn.HybridLambda("softmax"))
    net.initialize(ctx=mx.gpu(0))
    return net, mx.nd.ones((2, 4), ctx=mx.gpu(0))


CONVOLUTIONS = ["3x3 of 16, small", "float16", "one axis", "transposed, stride 2", "derivative by 3x3 weight"]


@pytest.mark.parametrize("cudnn", [False, True], ids=["without cuDNN", "with cuDNN"])
def test_convolutions_are_computed_in_every_way(monkeypatch, tmp_path, capsys, cudnn):
    from cudnn_on_cpu.support import Fake

    fake = Fake(tmp_path)

    class WithLibrary(Device):
        def __init__(self, emulate):
            super().__init__(emulate)
            if cudnn:
                found = self.device.convolutions  # which may have looked for the library
                found._finder, found._found = fake.find, None

    monkeypatch.setattr(ways, "Device", WithLibrary)
    code, lists = run(convolutions, tmp_path / "x", *CONVOLUTIONS)
    expected = ["direct", "unfolded", *(["cudnn"] if cudnn else [])]
    assert code == 0 and lists["library"][0]["library"] == ("cuDNN 9.12.3" if cudnn else "cuDNN needs a GPU")
    for c, t in zip(lists["cases"], lists["times"], strict=True):
        assert list(c["errors"]) == list(t["us"]) == expected and t["chosen"] == "direct"  # they are small here
    assert bool(fake.runs) is cudnn
    monkeypatch.setattr(ways, "evaluate", lambda *a, **k: [x + 0.01 for x in reference(*a, **k)])
    code, lists = run(convolutions, tmp_path / "x", CONVOLUTIONS[0])
    assert code == 1 and lists["cases"][0]["problem"].startswith("direct: off by ")
    with pytest.raises(SystemExit):
        convolutions.main(["--emulate", "nonsense"])


PRODUCTS = ["one row, dense", "4 rows, columns", "8 rows, float16", "attention, scores", "1024 cubed, float64"]


@pytest.mark.parametrize("cublaslt", [False, True], ids=["without cuBLASLt", "with cuBLASLt"])
def test_products_are_computed_in_every_way(monkeypatch, tmp_path, capsys, cublaslt):
    from cublaslt_on_cpu.support import FakeProducts
    from emulated import EmulatedDevice, install, no_cudnn

    fake = FakeProducts(tmp_path)

    class WithLibrary(Device):
        def __init__(self, emulate):
            super().__init__(emulate)
            if cublaslt:
                self.device = EmulatedDevice(0, install(), no_cudnn, find_products=fake.find)
                self.backend = self.device.backend()

    monkeypatch.setattr(ways, "Device", WithLibrary)
    code, lists = run(products, tmp_path / "x", *PRODUCTS)
    library = lists["library"][0]
    assert code == 0 and library["library"] == ("cuBLASLt 12.3.1" if cublaslt else "cuBLASLt needs a GPU")
    for c, t in zip(lists["cases"], lists["times"], strict=True):
        assert list(c["errors"]) == list(t["us"]) == list(t["expected_us"]) and t["chosen"] in t["us"]
        assert "tiles" in t["us"] and ("cublaslt" in t["us"]) is cublaslt and "cupy" in t["us"]
    assert bool(fake.products) is cublaslt
    assert library["relu_keeps_nan"] is (False if cublaslt else None)  # that of the stand-in does not
    monkeypatch.setattr(ways, "evaluate", lambda *a, **k: [x + 0.01 for x in reference(*a, **k)])
    code, lists = run(products, tmp_path / "x", PRODUCTS[0])
    assert code == 1 and "off by" in lists["cases"][0]["problem"]
    with pytest.raises(SystemExit):
        products.main(["--emulate", "nonsense"])
