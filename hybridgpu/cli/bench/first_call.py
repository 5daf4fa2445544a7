# SPDX-License-Identifier: Apache-2.0
"""Times the first call of a new process."""

from __future__ import annotations

import json
import os
import time

__all__ = ["SCRIPT", "main"]

#: what such a process runs with ``python -c``; arguments: suite, device
SCRIPT = """\
import time
start = time.perf_counter()
import hybridgpu, hybridgpu.gluon
seconds = time.perf_counter() - start
import sys
from hybridgpu.cli.bench.first_call import main
main(sys.argv[1], sys.argv[2], seconds)
"""


def main(suite: str, device: str, import_seconds: float) -> None:
    """Find the compiler, make a net, and call it; print one JSON object with what each took (``results.FirstCall``)."""
    from ...backends.devices import device_of
    from ...runtime.reports.events import compile_report
    from .worker import context_of
    from .workloads import SUITES

    chosen, ctx = SUITES[suite], context_of(device)
    where = device_of(ctx)
    start = time.perf_counter()
    where.backend()
    ready = time.perf_counter()
    net, x = chosen.cases[chosen.first].make(ctx)
    net.hybridize(static_alloc=True, static_shape=True)
    where.synchronize()
    compiled = compile_report().compiled_modules  # of eager operators, such as what fills parameters
    begun, before = time.perf_counter(), _processor_seconds()
    net(x)
    where.synchronize()
    done, after = time.perf_counter(), _processor_seconds()
    times = {
        "import_ms": import_seconds * 1e3,
        "backend_ms": (ready - start) * 1e3,
        "first_call_ms": (done - begun) * 1e3,
        "first_call_cpu_ms": (after - before) * 1e3,
        "modules": compile_report().compiled_modules - compiled,
    }
    print(json.dumps(times))


def _processor_seconds() -> float:
    """What this process and the compilers it started have used."""
    children = os.times()
    return time.process_time() + children.children_user + children.children_system
