# SPDX-License-Identifier: Apache-2.0
"""The step persistent: nets whose small kernels become one on gpu(0) never, auto or always, each fresh and as a CUDA graph.

``us`` is a call without a wait, as in a loop; ``latency_us`` one that is waited for; ``device_us`` what the GPU takes,
Python left out (64 launches captured into a graph). Results have to be those of ``never``, bit by bit.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from bench.gpu_check.device import Device, Timer, arguments, open_rows
from hybridgpu import autograd, nd
from hybridgpu.cli.bench.timing import CudaClock, HostClock, compare, loop
from hybridgpu.cli.bench.worker import bare_loop
from hybridgpu.cli.bench.workloads import SUITES
from hybridgpu.context import gpu
from hybridgpu.core.settings import GRAPH_KERNELS
from hybridgpu.gluon import HybridBlock, nn, rnn

FLAGS: dict[str, dict[str, bool]] = {"fresh": {}, "graph": {"static_alloc": True, "static_shape": True}}
ROUNDS, BATCH_SECONDS = 7, 0.01


def of_suite(suite: str, number: int) -> Callable[[], tuple[HybridBlock, nd.NDArray]]:
    """A net of `hybridgpu bench`, and an argument."""
    return lambda: SUITES[suite].cases[number].make(gpu(0))


class Recurrent(HybridBlock):
    """An LSTM that begins with zeros."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.layer = rnn.LSTM(128, input_size=64)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return self.layer(x)


def recurrent() -> tuple[HybridBlock, nd.NDArray]:
    """16 steps, batch 1."""
    net = Recurrent()
    net.initialize(ctx=gpu(0))
    return net, nd.array(np.random.RandomState(0).standard_normal((16, 1, 64)), ctx=gpu(0))


class Attention(HybridBlock):
    """Two heads of 32 over 64 positions, with a residual and a normalisation."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.joint, self.out = nn.Dense(192, flatten=False, in_units=64), nn.Dense(64, flatten=False, in_units=64)
            self.norm = nn.LayerNorm(in_channels=64)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        q, k, v = F.split(F.transpose(F.reshape(self.joint(x), (64, 6, 32)), (1, 0, 2)), 3, axis=0)
        weights = F.softmax(F.batch_dot(q, k, transpose_b=True) * 0.18)
        joined = F.reshape(F.transpose(F.batch_dot(weights, v), (1, 0, 2)), (64, 64))
        return self.norm(x + self.out(joined))


def attention() -> tuple[HybridBlock, nd.NDArray]:
    net = Attention()
    net.initialize(ctx=gpu(0))
    return net, nd.array(np.random.RandomState(0).standard_normal((64, 64)), ctx=gpu(0))


NETS: dict[str, Callable[[], tuple[HybridBlock, nd.NDArray]]] = {
    "perceptron, batch 1": of_suite("mlp", 0),
    "perceptron, batch 16": of_suite("mlp", 1),
    "LeNet, batch 1": of_suite("lenet", 1),
    "LeNet, batch 16": of_suite("lenet", 0),
    "LSTM of 16 steps": recurrent,
    "attention": attention,
}
TRAINED = ("perceptron, batch 16", "LeNet, batch 16")  #: forward and backward, too


class Nets:
    """Nets with their arguments, and what ``never`` computes."""

    def __init__(self, device: Device) -> None:
        self._device, self._timer = device, Timer(device)
        self._clock = HostClock() if device.emulate else CudaClock(device.xp)
        self._ready: dict[str, tuple[HybridBlock, nd.NDArray]] = {}
        self._wanted: dict[tuple[str, str], list[np.ndarray]] = {}

    def measure(self, name: str, what: str, resident: str, calls: str) -> dict[str, Any]:
        """The row of a net, which is called or trained, with one of GRAPH_KERNELS; its calls are fresh or a graph."""
        key = name, what
        if resident != GRAPH_KERNELS[0] and key not in self._wanted:
            self._wanted[key] = self._results(name, what, GRAPH_KERNELS[0], "fresh")[0]
        got, net, x, act = self._results(name, what, resident, calls)
        self._wanted.setdefault(key, got)
        row = self._times(net, x, act, what == "called")
        for a, b in zip(got, self._wanted[key], strict=True):
            if not np.array_equal(a, b, equal_nan=True):
                row |= {"outcome": "wrong", "problem": f"other bits than with {GRAPH_KERNELS[0]}"}
        return row

    def _results(self, name: str, what: str, resident: str, calls: str) -> Any:
        backend = self._device.backend
        backend.target = replace(backend.target, resident=resident)
        if name not in self._ready:
            self._ready[name] = NETS[name]()
            net, x = self._ready[name]
            net(x)
        net, x = self._ready[name]
        net.hybridize(False)
        net.hybridize(**FLAGS[calls])
        parameters = [p for p in net.collect_params().values() if p.grad_req != "null"]

        def train() -> nd.NDArray:
            with autograd.record():
                y = net(x)
            y.backward()
            return y

        act = train if what == "trained" else lambda: net(x)
        for _ in range(4):
            y = act()
        got = [y.asnumpy()]
        got += [p.grad(gpu(0)).asnumpy() for p in parameters] if what == "trained" else []
        return got, net, x, act

    def _times(self, net: HybridBlock, x: nd.NDArray, act: Callable[[], nd.NDArray], called: bool) -> dict[str, Any]:
        row: dict[str, Any] = {}
        if called:
            report = net.explain(x)
            row = {"kernels": len(report.kernels), "execution_mode": report.execution_mode}
            bare, _ = bare_loop(net, x, gpu(0))
            if bare is not None:
                time = self._timer.times({"bare": lambda k: bare(1)})["bare"]
                row |= {"device_us": time.us, "device_timed": time.timed}

        def waited() -> None:
            act().wait_to_read()

        loops = {"us": loop(act), "latency_us": loop(waited)}
        count = (1, 1) if self._device.emulate else (ROUNDS, None)
        samples = compare(loops, self._clock, count[0], BATCH_SECONDS, count[1])
        return row | {key: s.minimum for key, s in samples.items()}


def main(arguments_: list[str] | None = None) -> int:
    parser = arguments(__doc__, ("nets", {"nargs": "*", "metavar": "NET", "help": "names of nets (default: all)"}))
    options = parser.parse_args(arguments_)
    device = Device(options.emulate)
    rows = open_rows(options, device)
    nets = Nets(device)
    names = [n for n in NETS if not options.nets or n in options.nets]
    whats = [(n, "called") for n in names] + [(n, "trained") for n in names if n in TRAINED]
    parts = [
        {"name": n, "what": what, "resident": k, "calls": c} for k in GRAPH_KERNELS for n, what in whats for c in FLAGS
    ]
    if not getattr(device.backend.driver, "cooperative", False):
        rows.skip("this GPU has no cooperative launches")
        return 0
    for row in rows.measure(
        "calls", parts, nets.measure, lambda part: "" if part["resident"] == GRAPH_KERNELS[0] else "grid barrier"
    ):
        said = f"{row['name']:<22} {row['what']:<8} {row['resident']:<7} {row['calls']:<6}"
        if "us" in row:
            said += (
                f"{row['us']:9.1f} us, {row['latency_us']:.1f} with a wait, {row.get('device_us', 0):.1f} on the GPU;"
            )
            said += f" {row.get('execution_mode', '')}"
        print(
            f"{said} {row['outcome'] if row['outcome'] != 'ok' else ''} {row.get('problem', '')}".rstrip(), flush=True
        )
    return rows.finish()


if __name__ == "__main__":
    sys.exit(main())
