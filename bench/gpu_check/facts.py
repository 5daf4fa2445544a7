# SPDX-License-Identifier: Apache-2.0
"""The step facts: what this machine is, what is installed, and whether one kernel runs."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from typing import Any

from bench.gpu_check.device import Device, arguments, open_rows
from bench.gpu_check.processes import find_tool

TOOLS = ("ncu", "compute-sanitizer", "nvcc", "cuobjdump", "nvdisasm")
SMI = "name,driver_version,memory.total,clocks.max.sm,clocks.max.memory,clocks.sm,power.limit,temperature.gpu,ecc.mode.current,mig.mode.current"


def found_machine() -> dict[str, Any]:
    """Versions, processor, compiler, GPUs."""
    from hybridgpu.cli.cache import open_store
    from hybridgpu.cli.machine import machine

    return {"found": machine(open_store())}


def tools() -> dict[str, Any]:
    """The versions of NVIDIA's tools, '' for those that are not here; what nvidia-smi says of the first GPU."""
    found: dict[str, Any] = {}
    for name in TOOLS:
        path = find_tool(name)
        said = _output([path, "--version"]) if path else ""
        version = re.search(r"(?:release |[Vv]ersion )([\d.]+)", said)
        found[name] = version[1] if version else ("here" if path else "")
    smi = shutil.which("nvidia-smi")
    said = _output([smi, f"--query-gpu={SMI}", "--format=csv,noheader"]).splitlines() if smi else []
    values = [v.strip() for v in said[0].split(",")] if said else []
    return {"tools": found, "nvidia_smi": dict(zip(SMI.split(","), values, strict=False))}


def one_kernel() -> dict[str, Any]:
    """Whether a kernel is compiled, loaded and started. Its result is looked at by the step kernels."""
    from hybridgpu.compiler.pipeline import compile_graph

    device = Device()
    from compiler.cases import build, cuda_of

    program = compile_graph(build("chain"), cuda_of("chain", device.backend.driver.arch))
    loaded = device.backend.load(program)
    inputs = [device.random(n.shape, n.dtype) for n in build("chain").inputs]
    loaded(inputs, [device.filled(shape, short) for shape, short in program.outputs])
    device.device.synchronize()
    attributes = {k: v for k, v in sorted(device.xp.cuda.Device(0).attributes.items()) if isinstance(v, int)}
    return {"arch": device.backend.driver.arch, "attributes": attributes}


def _output(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=5, check=False).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def main(arguments_: list[str] | None = None) -> int:
    options = arguments(__doc__).parse_args(arguments_)
    from hybridgpu.backends.devices import device_of
    from hybridgpu.base import MXNetError
    from hybridgpu.cli.machine import gpu_search
    from hybridgpu.context import gpu

    rows = open_rows(options)
    try:
        device_of(gpu(0))
    except MXNetError as e:
        looked = "\n".join(f"  {what}: {found}" for what, found in gpu_search())
        rows.skip(f"no GPU was found: {str(e).splitlines()[0]}. Looked for:\n{looked}")
        return 2
    for name, work in (("machine", found_machine), ("tools", tools), ("kernel", one_kernel)):
        for row in rows.measure(name, [{"name": name}], lambda name, work=work: work()):
            print(f"{name}: {row['outcome']} {row.get('problem', '')}".rstrip(), flush=True)
    return rows.finish()


if __name__ == "__main__":
    sys.exit(main())
