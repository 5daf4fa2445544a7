# SPDX-License-Identifier: Apache-2.0
"""bench/peers.py: every workload is the same mathematics in every library, and the worker's protocol."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu.cli.bench.workloads import dense, elementwise, pictures
from hybridgpu.cli.bench.workloads.rows import norm_reference, softmax_reference

BENCH = Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))
import peer_first  # noqa: E402
import peer_libraries as libraries  # noqa: E402
import peer_networks as networks  # noqa: E402
import peer_operators as operators  # noqa: E402
import peer_worker as worker  # noqa: E402
import peer_workloads as workloads  # noqa: E402
import peers  # noqa: E402

SMALL = {"normalise": 3, "gelu": 3, "softmax": 128, "norm": 128, "lenet": 2, "resnet": 1}
SMALL |= {name: min(workloads.SIZES[name]) for name in workloads.SUITES["eager"]}


@pytest.mark.parametrize("workload", workloads.FUNCTIONS)
def test_a_workload_is_the_same_in_gluon(workload, monkeypatch):
    monkeypatch.setattr(workloads, "ELEMENTS", 1 << 12)
    x, parameters = workloads.data(workload, SMALL[workload])
    o = operators.GluonOperators([mx.nd.array(p) for p in parameters], [p.shape for p in parameters], mx.nd)
    got = workloads.FUNCTIONS[workload](o, mx.nd.array(x)).asnumpy()
    ((rows, want),) = workloads.exact(workload, SMALL[workload])
    assert rows == slice(0, len(want))
    np.testing.assert_allclose(got, want, 1e-4, 1e-4)


@pytest.mark.long_table
@pytest.mark.parametrize("name", networks.NETWORKS)
def test_a_network_is_the_same_in_gluon(name, monkeypatch):
    """Of smaller pictures and batches: NumPy's results in float64; of training the first loss, which the steps make less."""
    network = networks.NETWORKS[name]
    if not network.words and "lenet" not in name:
        side = 64 if network.trained else 32  # the last BatchNorm of a batch of two has to have some elements
        monkeypatch.setattr(network, "shape", lambda batch: (batch, 3, side, side))
    size = 2 if network.trained else 1
    library = libraries.Gluon("cpu", "hybridgpu")
    for mode in library.networks if name == "train_lenet" else ["static"]:
        made = library.networks[mode](network, size)
        if network.trained:
            losses = worker.first_losses(made, network.expected(size))
            assert losses[2] != losses[1] != losses[0]
        else:
            worker.check(made, network.expected(size))


def test_eager_and_hybridized_training_is_the_same():
    losses = [
        worker.first_losses(make(networks.NETWORKS["train_lenet"], 4), networks.NETWORKS["train_lenet"].expected(4))
        for make in libraries.Gluon("cpu", "hybridgpu").networks.values()
    ]
    np.testing.assert_allclose(losses[0], losses[1], 1e-5)


class NetworkProcess:
    """A library whose steps of training have some losses, and take some time."""

    threads, device = "1", "cpu"

    def __init__(self, label, us, losses, networks=("static",)):
        self.label, self.us, self.losses, self.networks, self.closed = label, us, losses, networks, []

    def another(self):
        other = NetworkProcess(self.label, self.us, self.losses)
        other.closed = self.closed
        return other

    def ask(self, do, **message):
        answers = {"hello": {}, "prepare": {"losses": self.losses}, "memory": {"peak_mib": 10 * self.us}}
        return answers.get(do) or {"us": self.us, "cpu": 1.0}

    def close(self):
        self.closed.append(self.label)


def test_losses_of_training_have_to_agree():
    ours = NetworkProcess("hybridgpu", 10.0, [3.0, 2.0, 1.0])
    near = NetworkProcess("mxnet", 20.0, [3.0, 2.0, 1.01])
    far = NetworkProcess("torch", 5.0, [3.0, 2.0, 1.1], ["eager"])
    (case,) = peers.measure_network([ours, near, far], "train_lenet", 64, 2, 1e-5, [True])
    assert case["failed"].keys() == {"torch eager"} and "trains otherwise" in case["failed"]["torch eager"]
    assert [(r["name"], r["memory_mib"]) for r in case["rows"]] == [
        ("hybridgpu static", 100.0),
        ("mxnet static", 200.0),
    ]
    assert case["threads"] == "1" and [w.closed for w in (ours, near, far)] == [["hybridgpu"], ["mxnet"], ["torch"]]
    machine = {"cpu": {"model": "a processor", "cores": 1}, "cuda": {"gpus": []}, "environment": {}}
    document = {"device": "cpu", "rounds": 2, "date": "2100-01-01", "machine": machine, "versions": {}, "cases": [case]}
    assert "| mxnet static | 20 (2.00); 200 MiB |" in peers.markdown(document).splitlines()


#: the same as ``hybridgpu bench`` has them: Python 3.8 cannot import these, nor the package what is in bench/
OURS = {
    "normalise": elementwise.normalise_reference,
    "gelu": elementwise.gelu_reference,
    "softmax": softmax_reference,
    "norm": norm_reference,
    "lenet": pictures.lenet_reference,
    "resnet": pictures.residual_reference,
}


@pytest.mark.parametrize("workload", OURS)
def test_a_workload_is_that_of_hybridgpu_bench(workload, monkeypatch):
    monkeypatch.setattr(workloads, "ELEMENTS", 1 << 12)
    x, parameters = workloads.data(workload, SMALL[workload])
    ((_, want),) = workloads.exact(workload, SMALL[workload])
    np.testing.assert_allclose(OURS[workload](np, *map(np.float64, (x, *parameters))), want, 1e-9, 1e-9)


def test_perceptron_and_chain_are_those_of_hybridgpu_bench():
    assert libraries.LAYERS == dense.LAYERS
    assert (libraries.A, libraries.B, libraries.C) == (elementwise.A, elementwise.B, elementwise.C)


@pytest.mark.parametrize("workload", workloads.FUNCTIONS)
def test_bytes_that_have_to_be_moved(workload, monkeypatch):
    """Input, parameters and result."""
    monkeypatch.setattr(workloads, "ELEMENTS", 1 << 12)
    x, parameters = workloads.data(workload, SMALL[workload])
    ((_, want),) = workloads.exact(workload, SMALL[workload])
    assert workloads.bytes_moved(workload, SMALL[workload]) == 4 * (
        x.size + want.size + sum(p.size for p in parameters)
    )


def test_large_results_are_compared_in_parts(monkeypatch):
    """From the first row to the last one; each part is what the whole has there."""
    (whole,) = workloads.exact("normalise", 40)
    monkeypatch.setattr(workloads, "CHECKED", 1 << 13)
    parts = workloads.exact("normalise", 40)
    assert [(rows.start, rows.stop) for rows, _ in parts] == [(0, 2), (12, 14), (25, 27), (38, 40)]
    for rows, want in parts:
        np.testing.assert_array_equal(want, whole[1][rows])
    right = np.float32(whole[1])
    mode = libraries.Mode(lambda x: x, right, None, np.asarray)
    worker.check(mode, parts)
    right[39, 5] += 1
    with pytest.raises(ValueError, match="wrong results"):
        worker.check(mode, parts)


def test_sizes_are_in_decades():
    assert peers.SIZES["chain"] == tuple(10**k for k in range(3, 9))
    counts = sorted(1024 * rows for rows in peers.SIZES["normalise"])
    for wanted in peers.SIZES["chain"]:
        assert any(abs(n / wanted - 1) < 0.03 for n in counts)


def test_of_the_largest_arrays_the_fastest_ways_are_measured(monkeypatch):
    monkeypatch.setattr(worker, "LARGE", 1000)
    server = worker.Server("numpy", "cpu")
    server.hello({})
    monkeypatch.setattr(server.library, "large", ("copy",))
    assert server.prepare({"workload": "chain", "size": 999})["modes"] == {"eager": None, "copy": None}
    modes = server.prepare({"workload": "chain", "size": 1000})["modes"]
    assert modes.pop("copy") is None and modes["eager"].startswith("NotImplementedError")


def row(name: str, us: float, **more):
    library, _, mode = name.rpartition(" ")
    made = {"name": name, "library": library, "mode": mode, "median_us": us, "min_us": us, "over_hybridgpu": us / 10}
    return {**made, "over_copy": us / 4, "calls": 1, "rounds": 5, "cpu_over_wall": 1.0, **more}


def test_tables_have_the_limit_and_every_peer():
    rows = [
        row("hybridgpu static", 10.0),
        row("numpy copy", 4.0),
        row("jax jit", 25.0),
        row("mxnet static", 90.0, rounds=2),
    ]
    case = {"workload": "chain", "size": 1000, "kind": "latency", "rows": rows, "failed": {}}
    machine = {"cpu": {"model": "a processor", "cores": 1}, "cuda": {"gpus": []}, "environment": {}}
    document = {"device": "cpu", "rounds": 5, "limit": 7.0, "date": "2100-01-01", "machine": machine, "versions": {}}
    text = peers.markdown({**document, "cases": [case]})
    for line in (
        "| **hybridgpu static** | 10 (1.00) |",
        "| copy of the same bytes | 4 (0.40) |",
        "| jax jit | 25 (2.50) |",
        "| mxnet static | 90 (9.00)‡ |",
        "| *hybridgpu static, times a copy* | 2.50 |",
        "| *best of the others, times hybridgpu static* | 2.50 (jax jit) |",
    ):
        assert line in text.splitlines(), text
    assert "‡ fewer, since it had taken 7 seconds." in text
    before = [{k: v for k, v in r.items() if k != "over_copy"} for r in rows]
    assert "times a copy" not in peers.markdown({**document, "cases": [{**case, "rows": before}]})


class Process:
    """A library whose first call takes 40 ms in an empty cache folder, and a tenth of that in another one."""

    def __init__(self, label, *first, folder=None, missing=()):
        self.label, self.first, self.folder, self.missing = label, dict(first), folder, missing
        self.networks = ["static"]

    def another(self, **environment):
        (folder,) = {v for k, v in environment.items() if k.endswith("CACHE_DIR")}
        return Process(self.label, *self.first.items(), folder=Path(folder), missing=self.missing)

    def ask(self, do, **message):
        if do == "hello":
            return {"import_ms": 100.0}
        if message["workload"] in self.missing:
            raise peers.WorkerFailed("NotImplementedError: not that")
        ms = 4.0 if any(self.folder.iterdir()) else 40.0
        if self.first[message["mode"]]:
            (self.folder / "compiled").write_text("")
        return {"first_ms": ms if self.label == peers.OURS else 2 * ms, "first_cpu_ms": 30.0}

    def close(self):
        self.folder = None


def test_first_calls_are_cold_and_warm_beside_every_peer_and_the_limit():
    workers = [Process("hybridgpu", ("static", True)), Process("mxnet", ("static", False)), Process("numpy")]
    workers.append(Process("jax", ("jit", True), missing=("mlp",)))
    perceptron, chain, *nets = peer_first.measure_all(workers, "cpu", 2, 20.0)
    assert perceptron["failed"] == {"jax jit": "NotImplementedError: not that"}
    assert [r["name"] for r in perceptron["rows"]] == ["hybridgpu static", "mxnet static"]
    lines = peer_first.tables([chain])
    for line in (
        "| **hybridgpu static** | 100 | 40 (1.00) | 30 | 0.27 | 4 (1.00) | 1.33 |",
        "| mxnet static | 100 | 80 (2.00) | 30 | 0.53 | keeps nothing | – |",
        "| jax jit | 100 | 80 (2.00) | 30 | 0.53 | 8 (2.00) | 2.67 |",
    ):
        assert line in lines, lines
    assert {len(net["rows"]) for net in nets} == {2}, "jax has no network"
    lines = peer_first.tables(nets[:1])
    assert "| milliseconds (times hybridgpu static) | import | cold | its processor time | warm |" in lines
    assert "| **hybridgpu static** | 100 | 40 (1.00) | 30 | 4 (1.00) |" in lines
    assert peer_first.tables([]) == []
    once, *_ = peer_first.measure_all(workers[:1], "cpu", 2, 0.0)
    assert once["rows"][0]["rounds"] == 1
    assert any("**hybridgpu static** ‡" in line for line in peer_first.tables([once]))


def test_first_calls_stand_in_the_document():
    machine = {"cpu": {"model": "a processor", "cores": 1}, "cuda": {"gpus": []}, "environment": {}}
    document = {"device": "cpu", "rounds": 5, "date": "2100-01-01", "machine": machine, "versions": {}, "cases": []}
    cases = list(peer_first.measure_all([Process("hybridgpu", ("static", True))], "cpu", 1, 20.0))
    text = peers.markdown({**document, "first": cases})
    assert all(f"**First call of a new process: {title}**" in text for title in peer_first.TITLES.values())
    assert "First call" not in peers.markdown(document)


def test_every_workload_has_sizes_and_a_title():
    assert set(workloads.SIZES) == set(workloads.TITLES) == set(workloads.FUNCTIONS)
    assert set(networks.SIZES) == set(networks.TITLES) == set(peers.SUITES["networks"])
    assert not set(networks.SIZES) & set(workloads.SIZES) and {*networks.SIZES, *workloads.SIZES} <= set(peers.SIZES)


def test_worker(compiler):
    """All ways of hybridgpu compute LeNet rightly, and are timed; what cannot run says why."""
    command = [sys.executable, str(BENCH / "peer_worker.py"), "hybridgpu", "cpu"]
    environment = {**os.environ, "PYTHONPATH": str(BENCH.parent)}
    messages = [
        {"do": "hello"},
        {"do": "prepare", "workload": "lenet", "size": 1},
        {"do": "time", "mode": "static", "calls": 2, "warm": 1, "wait": True},
        {"do": "first", "mode": "static", "workload": "chain", "size": 10},
        {"do": "prepare", "workload": "none", "size": 1},
    ]
    text = "".join(json.dumps(m) + "\n" for m in messages)
    run = subprocess.run(command, input=text, capture_output=True, text=True, env=environment, timeout=300, check=True)
    hello, prepared, timed, first, unknown = map(json.loads, run.stdout.splitlines())
    assert hello["modes"] == ["eager", "hybridized", "static"] and "hybridgpu" in hello["versions"]
    assert prepared["modes"] == dict.fromkeys(hello["modes"])
    assert hello["first"] == {"static": True} and hello["import_ms"] > 0
    assert timed["us"] > 0 and timed["cpu"] > 0
    assert first["first_ms"] > 0 and first["first_cpu_ms"] > 0
    assert unknown == {"error": "ValueError: there is no workload none"}


@pytest.mark.parametrize(
    ("python", "library", "kept"),
    [(sys.executable, "torch", True), (sys.executable, peers.OURS, True), ("another-python", "torch", False)],
)
def test_packages_on_the_path_are_those_of_this_interpreter(monkeypatch, python, library, kept):
    """Where nothing can be installed, they are brought along there."""
    given = {}

    class Process:
        stdout = ()

        def __init__(self, command, env, **more):
            given.update(env)

    monkeypatch.setattr(peers.Worker.__init__.__globals__["subprocess"], "Popen", Process)
    monkeypatch.setenv("PYTHONPATH", "carried")
    peers.Worker(library, python, library, "gpu", {}, 1.0)
    path = given.get("PYTHONPATH", "").split(os.pathsep)
    assert ("carried" in path) is kept and (str(BENCH.parent) in path) is (library == peers.OURS)
