# SPDX-License-Identifier: Apache-2.0
"""One kernel on gpu(0) for a profiler: ``python -m bench.gpu_check.profiled NAME``; only its last call is to be profiled."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace

from bench.gpu_check.bandwidth import BANDWIDTH, ROWS, WIDTH, graph_of
from bench.gpu_check.device import Device
from hybridgpu.compiler.ir import Graph
from hybridgpu.compiler.pipeline import compile_graph

_WARM = 3  #: calls before it

#: name -> the graph for arrays of so many bytes; a net in place of a graph is called in one kernel
KERNELS: dict[str, Callable[[int], Graph] | None] = {
    "chain": lambda n: graph_of(BANDWIDTH["map: chain of ten"], n, WIDTH),
    "softmax of 131072": lambda n: graph_of(ROWS["softmax"], n, 131072),
    "softmax of 262144": lambda n: graph_of(ROWS["softmax"], n, 262144),
    "column sum": lambda n: graph_of(BANDWIDTH["reduce: columns"], n, WIDTH),
    "LeNet": None,
}


def call_of(device: Device, name: str, nbytes: int) -> Callable[[], object]:
    """What starts the kernel."""
    make = KERNELS[name]
    if make is None:
        from bench.gpu_check.persistent import of_suite

        device.backend.target = replace(device.backend.target, resident="always")
        net, x = of_suite("lenet", 0)()
        net.hybridize()
        return lambda: net(x)
    graph = make(nbytes)
    program = compile_graph(graph, device.backend.target)
    loaded = device.backend.load(program)
    inputs = [device.random(n.shape, n.dtype) for n in graph.inputs]
    outputs = [device.empty(shape, short) for shape, short in program.outputs]
    return lambda: loaded(inputs, outputs)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=KERNELS)
    parser.add_argument("--bytes", type=int, default=1 << 28)
    options = parser.parse_args()
    device = Device()
    call = call_of(device, options.name, options.bytes)
    for _ in range(_WARM):
        call()
    device.device.synchronize()
    device.xp.cuda.profiler.start()
    call()
    device.device.synchronize()
    device.xp.cuda.profiler.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
