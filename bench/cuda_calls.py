# SPDX-License-Identifier: Apache-2.0
"""Python's share of a call on a GPU: the tutorial's perceptron, batch 1, with a driver that starts nothing.

    python bench/cuda_calls.py [--calls N]

Prints microseconds of a thread's time for each combination of flags, with one input and with inputs that change, and the
ratio to the limit. What CUDA itself takes is not in it: ``hybridgpu bench --device gpu`` measures whole calls.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402

import hybridgpu as mx  # noqa: E402
from hybridgpu import nd  # noqa: E402
from hybridgpu.backends.cuda.backend import CudaBackend  # noqa: E402
from hybridgpu.backends.devices import HostDevice, use_gpu_devices  # noqa: E402
from hybridgpu.gluon import nn  # noqa: E402

LIMIT = 3.0  #: microseconds
FLAGS: dict[str, dict[str, Any]] = {
    "hybridize()": {},
    "static_alloc": {"static_alloc": True},
    "static_alloc, static_shape": {"static_alloc": True, "static_shape": True},
}


class NullDriver:
    """A driver that loads and starts nothing."""

    arch, multiprocessors, identity, compiled = "sm_90", 132, "null", 0
    compiled_kernels: Sequence[str] = ()
    ptr = 0  #: of its stream, which it is itself
    cooperative = False  # so that every kernel is a start of its own: what is measured is Python's share in them
    limits: Mapping[str, int] = MappingProxyType({})
    constants: Mapping[str, float] = MappingProxyType({})

    def load(self, kernels: Sequence[Any]) -> dict[str, Any]:
        return {k.name: k.name for k in kernels}

    def attach(self) -> None:
        pass

    def stream(self) -> NullDriver:
        return self

    def is_capturing(self) -> bool:
        return False

    def starter(self, launch: Any) -> Callable[[int], None]:
        return lambda stream: None

    def graph(self, launches: Sequence[Any]) -> NullDriver:
        return self

    def update(self, node: int) -> None:
        pass

    def launch(self, stream: int) -> None:
        pass


class NullDevice(HostDevice):
    """A GPU with the host's memory."""

    def __init__(self) -> None:
        self._backend = CudaBackend(NullDriver(), np, self.address)

    def backend(self) -> Any:
        return self._backend


def measure(call: Callable[[Any], Any], inputs: Sequence[Any], calls: int) -> float:
    """Microseconds a call: the least of many short runs."""
    best = float("inf")
    for _ in range(40):
        start = time.thread_time_ns()
        for _ in range(max(1, calls // len(inputs) // 40)):
            for x in inputs:
                result = call(x)
        best = min(best, (time.thread_time_ns() - start) / (max(1, calls // len(inputs) // 40) * len(inputs)))
        del result
    return best / 1e3


def measured(calls: int) -> dict[str, tuple[int, float, float]]:
    """For each combination of flags: kernels, microseconds with one input, and with inputs that change."""
    device = NullDevice()

    def factory(number: int) -> NullDevice:
        return device

    factory.count = 1  # type: ignore[attr-defined]
    use_gpu_devices(factory)
    try:
        ctx, found = mx.gpu(0), {}
        net = nn.HybridSequential()
        net.add(nn.Dense(256, activation="relu", in_units=512), nn.Dense(128, activation="relu", in_units=256))
        net.add(nn.Dense(2, in_units=128))
        net.initialize(ctx=ctx)
        inputs = [nd.ones((1, 512), ctx=ctx) for _ in range(32)]
        for name, flags in FLAGS.items():
            net.hybridize(**flags)
            net(inputs[0])
            kernels = len(net.explain(inputs[0]).kernels)
            found[name] = kernels, measure(net, inputs[:1] * 32, calls), measure(net, inputs, calls)
        return found
    finally:
        use_gpu_devices(None)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--calls", type=int, default=100_000, help="calls measured for each figure")
    options = parser.parse_args(arguments)
    print(f"{'flags':<28} {'kernels':>7} {'one input':>12} {'changing':>12}   ratio to {LIMIT:g} us")
    for name, (kernels, one, many) in measured(options.calls).items():
        print(f"{name:<28} {kernels:>7} {one:>9.2f} us {many:>9.2f} us   {one / LIMIT:.2f} {many / LIMIT:.2f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
