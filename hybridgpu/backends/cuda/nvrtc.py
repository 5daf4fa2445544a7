# SPDX-License-Identifier: Apache-2.0
"""Compiling CUDA texts with NVRTC (through CuPy's binding). No device is needed."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from ...resources import kernels_folder

__all__ = ["NUMERIC", "OPTIONS", "NvrtcError", "architecture", "compile_cubin", "compiler_version"]

OPTIONS = ("--std=c++17", "-default-device")
#: what a numeric mode adds; subnormals count in both
NUMERIC = {
    "strict": ("--fmad=false",),
    "fast": ("--fmad=true", "--prec-div=false", "--prec-sqrt=false", "-DHG_FAST_MATH"),
}


class NvrtcError(RuntimeError):
    """NVRTC refused a text that hybridgpu generated.

    Attributes:
        source: the text.
        log: what NVRTC said.
    """

    def __init__(self, source: str, log: str) -> None:
        super().__init__(f"NVRTC refused a generated source:\n{log[:4000]}")
        self.source, self.log = source, log


def _nvrtc() -> Any:
    from cupy.cuda import nvrtc  # type: ignore[import-untyped,import-not-found,unused-ignore]

    return nvrtc


@lru_cache
def compiler_version() -> tuple[int, int]:
    """NVRTC's version."""
    major, minor = _nvrtc().getVersion()
    return int(major), int(minor)


@lru_cache
def supported() -> tuple[int, ...]:
    """Compute capabilities (as 90 for sm_90) that NVRTC knows."""
    return tuple(sorted(int(a) for a in _nvrtc().getSupportedArchs()))


def architecture(capability: int) -> tuple[str, bool]:
    """(``--gpu-architecture`` value, True if it makes machine code) for a compute capability such as 90.

    A device newer than NVRTC gets PTX of the newest architecture that NVRTC knows, which the driver
    compiles when it is loaded.
    """
    known = supported()
    if capability in known:
        return f"sm_{capability}", True
    older = [a for a in known if a <= capability]
    if not older:
        raise NvrtcError(
            "",
            f"compute capability {capability / 10} is older than NVRTC {compiler_version()} supports (from {known[0] / 10})",
        )
    return f"compute_{older[-1]}", False


def compile_cubin(source: str, arch: str, numeric: str = "strict") -> tuple[bytes, str]:
    """(machine code or PTX, log) of a translation unit.

    Raises:
        NvrtcError: with the text and the log.
    """
    nvrtc = _nvrtc()
    program = nvrtc.createProgram(source, "hybridgpu.cu", [], [])
    flags = [f"--gpu-architecture={arch}", f"-I{kernels_folder()}", *OPTIONS, *NUMERIC[numeric]]
    try:
        try:
            nvrtc.compileProgram(program, flags)
        except nvrtc.NVRTCError:
            raise NvrtcError(source, nvrtc.getProgramLog(program)) from None
        log = re.sub(r"\x00", "", nvrtc.getProgramLog(program))
        code = nvrtc.getCUBIN(program) if arch.startswith("sm_") else nvrtc.getPTX(program)
        return (code.encode() if isinstance(code, str) else bytes(code)), log
    finally:
        nvrtc.destroyProgram(program)
