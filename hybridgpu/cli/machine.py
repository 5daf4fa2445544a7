# SPDX-License-Identifier: Apache-2.0
"""What is known of this machine: versions, compiler, processor, GPUs, environment.

Everything is looked up without failing: what is missing becomes a sentence that says what was looked for.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..cache.disk_cache import Store
from ..core.extras import INSTALL_CUDA
from ..core.settings import text_of

__all__ = ["compiler", "cpu", "cuda", "environment", "gpu_search", "machine", "versions"]

_PREFIXES = ("HYBRIDGPU_", "OPENBLAS_", "OMP_", "MKL_", "GOTO_", "VECLIB_", "CUPY_", "CUDA_", "NVIDIA_VISIBLE")
_FEATURES = (
    *(
        "sse4_2",
        "avx",
        "f16c",
        "fma",
        "avx2",
        "avx512f",
        "avx512bw",
        "avx512dq",
        "avx512vl",
        "avx512_vnni",
        "avx512_bf16",
    ),
    *("avx512_fp16", "amx_tile", "amx_bf16", "asimd", "asimdhp", "asimddp", "bf16", "i8mm", "sve", "sve2"),
)


def versions() -> dict[str, str]:
    """Versions of hybridgpu, Python, NumPy and its BLAS, and the operating system."""
    config: Any = np.show_config(mode="dicts")
    blas = (config or {}).get("Build Dependencies", {}).get("blas", {})
    return {
        "hybridgpu": __version__,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "numpy": np.__version__,
        "blas": f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip(),
        "os": f"{platform.system()} {platform.release()} {platform.machine()}",
    }


def cpu() -> dict[str, Any]:
    """The processor: model, cores that this process may use, instruction sets that matter to kernels."""
    model, flags = platform.processor() or platform.machine(), ""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        text = ""
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            model = value.strip()
        elif key.strip() in ("flags", "Features"):
            flags = value
        if not line.strip() and flags:
            break
    present = set(flags.split())
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return {"model": model, "cores": cores, "features": [f for f in _FEATURES if f in present]}


def compiler(store: Store) -> dict[str, Any]:
    """The host's C++ compiler with the flags it takes, or what was looked for."""
    from ..backends.cpu.toolchain import FLAGS, find_toolchain

    toolchain = find_toolchain(store)
    if toolchain is None:
        if text_of("HYBRIDGPU_CXX") == "none":
            return {"found": False, "reason": "HYBRIDGPU_CXX=none: NumPy runs hybridized graphs"}
        return {
            "found": False,
            "reason": "none works of $HYBRIDGPU_CXX, $CXX, c++, g++, clang++, zig; NumPy runs hybridized graphs",
        }
    return {
        "found": True,
        "command": " ".join(toolchain.command),
        "version": _first_line([*toolchain.command, "--version"]),
        "flags": list(toolchain.flags),
        "refused": [f for f in FLAGS if f not in toolchain.flags],
    }


def cuda() -> dict[str, Any]:
    """CuPy, driver, NVRTC, cuDNN, cuBLASLt and GPUs; where there is none, ``search`` says what was looked for.

    ``gpus`` holds for each device name, compute capability, memory in bytes and multiprocessors.
    """
    facts: dict[str, Any] = dict.fromkeys(("cupy", "driver", "nvrtc", "cudnn", "cublaslt"))
    facts |= {"architectures": [], "gpus": []}
    facts["search"] = gpu_search()
    cupy = _cupy()
    if cupy is None:
        return facts
    facts["cupy"] = cupy.__version__
    try:
        from ..backends.cuda.nvrtc import compiler_version, supported

        facts["nvrtc"] = ".".join(map(str, compiler_version()))
        facts["architectures"] = list(supported())
    except Exception as e:  # whatever a missing or broken library raises
        facts["search"].append(["NVRTC", _one_line(e)])
    try:
        from ..backends.cuda.device import cudnn

        library = cudnn()
        if isinstance(library, str):
            facts["search"].append(["cuDNN", f"{library}; convolutions are unfolded for cuBLAS"])
        else:
            facts["cudnn"] = library.version
    except Exception as e:  # as above
        facts["search"].append(["cuDNN", _one_line(e)])
    try:
        from ..backends.cuda.device import cublaslt

        products = cublaslt()
        if isinstance(products, str):
            facts["search"].append(["cuBLASLt", f"{products}; large products are CuPy's"])
        else:
            facts["cublaslt"] = products.version
    except Exception as e:  # as above
        facts["search"].append(["cuBLASLt", _one_line(e)])
    if not cupy.cuda.is_available():
        return facts
    runtime = cupy.cuda.runtime
    version = int(runtime.driverGetVersion())
    facts["driver"] = f"{version // 1000}.{version % 1000 // 10}"
    for number in range(int(runtime.getDeviceCount())):
        p = runtime.getDeviceProperties(number)
        name = p["name"].decode() if isinstance(p["name"], bytes) else str(p["name"])
        facts["gpus"].append(
            {
                "name": name,
                "compute_capability": f"{p['major']}.{p['minor']}",
                "memory_bytes": int(p["totalGlobalMem"]),
                "multiprocessors": int(p["multiProcessorCount"]),
            }
        )
    return facts


def gpu_search() -> list[list[str]]:
    """[what was looked for, what was found] on the way to a GPU."""
    rows = [["CuPy", f"not installed: {INSTALL_CUDA}"]]
    if importlib.util.find_spec("cupy") is not None:
        cupy = _cupy()
        rows = [["CuPy", f"version {cupy.__version__}" if cupy else "installed, but its import fails"]]
    library = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        ctypes.CDLL(library)
        rows.append(["CUDA driver", f"{library} loads"])
    except OSError:
        rows.append(["CUDA driver", f"{library} is not there: no NVIDIA driver, or a container started without one"])
    smi = shutil.which("nvidia-smi")
    devices = _first_line([smi, "--query-gpu=name,driver_version", "--format=csv,noheader"]) if smi else ""
    rows.append(["nvidia-smi", devices or ("sees no device" if smi else "not on the PATH")])
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        rows.append(["CUDA_VISIBLE_DEVICES", repr(visible)])
    return rows


def environment(paths: bool = True) -> dict[str, str]:
    """Variables that are set and change what hybridgpu, NumPy or CUDA do.

    Args:
        paths: False leaves out those whose value names a folder or a file.
    """
    chosen = {k: v for k, v in sorted(os.environ.items()) if k.startswith(_PREFIXES) or k == "CXX"}
    return chosen if paths else {k: v for k, v in chosen.items() if not re.search(r"[/\\]", v)}


def machine(store: Store) -> dict[str, Any]:
    """Everything that a measurement's reader needs to know; no paths of this machine beyond the compiler's."""
    return {
        "versions": versions(),
        "cpu": cpu(),
        "compiler": compiler(store),
        "cuda": cuda(),
        "environment": environment(paths=False),
    }


def _cupy() -> Any:
    """The module, None where it is missing or broken."""
    try:
        return importlib.import_module("cupy")
    except ImportError:
        return None


def _first_line(command: list[str]) -> str:
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    lines = run.stdout.strip().splitlines()
    return lines[0] if run.returncode == 0 and lines else ""


def _one_line(e: BaseException) -> str:
    lines = str(e).strip().splitlines()
    return f"{type(e).__name__}: {lines[0]}" if lines else type(e).__name__
