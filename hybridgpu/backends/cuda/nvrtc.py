# SPDX-License-Identifier: Apache-2.0
"""Compiling CUDA texts with NVRTC (through CuPy's binding). No device is needed."""

from __future__ import annotations

import hashlib
import re
import struct
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...cache.package_files import kernels_folder
from ...compiler.devices.gpu import GpuConstants

__all__ = [
    "NUMERIC",
    "OPTIONS",
    "REPORT",
    "NvrtcError",
    "architecture",
    "compile_cubin",
    "compile_reported",
    "compiler_version",
    "in_registers",
    "log_of",
    "rules_hash",
    "with_last_byte",
    "without_report",
]

OPTIONS = ("--std=c++17", "-default-device")
#: what a numeric mode adds; subnormal floats count in the strict one
NUMERIC = {
    "strict": ("--fmad=false",),
    "fast": ("--fmad=true", "--ftz=true", "--prec-div=false", "--prec-sqrt=false", "-DHG_FAST_MATH"),
}

REPORT = "--ptxas-options=-v"  #: lets the log say what each kernel needs
_REGISTERS, _UNIT = GpuConstants.registers, GpuConstants.register_unit  #: of a multiprocessor, and of a thread
_KERNEL = re.compile(r"Compiling entry function '(\w+)'(.*?)Used (\d+) registers", re.S)
_LINE = re.compile(r"(ptxas +(info +:|\. +).*|ptxas info|    \d+ bytes stack frame.*)\n?")


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
def rules_hash() -> str:
    """Identifies this module, whose rules besides a text decide what machine code is made of it."""
    return hashlib.sha256(Path(__file__).read_bytes()).hexdigest()


@lru_cache
def supported() -> tuple[int, ...]:
    """Compute capabilities (as 90 for sm_90) that NVRTC knows."""
    return tuple(sorted(int(a) for a in _nvrtc().getSupportedArchs()))


def architecture(capability: int) -> tuple[str, bool]:
    """(``--gpu-architecture`` value, True if it makes machine code) for a compute capability such as 90.

    A device newer than NVRTC gets PTX of the newest architecture that NVRTC knows, which the driver
    compiles when it is loaded.
    """
    architectures = supported()
    if capability in architectures:
        return f"sm_{capability}", True
    older = [a for a in architectures if a <= capability]
    if not older:
        raise NvrtcError(
            "",
            f"compute capability {capability / 10} is older than NVRTC {compiler_version()} supports (from {architectures[0] / 10})",
        )
    return f"compute_{older[-1]}", False


def in_registers(source: str, log: str) -> str:
    """``source`` where kernels that ``log`` gives a stack ask for a block less of each multiprocessor.

    Where blocks are not asked for, the assembler parks values in memory to a register more that costs a block. Most
    kernels do not come to that, and would take many more registers if they all asked for few blocks. Asking for one
    is the last step: then registers hold whatever there is room for. Where one block less is not enough it asks for half
    as many each time, so that a text is compiled six times at most.
    """
    for name, needs, registers in _KERNEL.findall(log):
        if not int(re.search(r"(\d+) bytes stack frame", needs + " 0 bytes stack frame")[1]):  # type: ignore[index]
            continue
        entry = re.search(rf"HG_BOUNDS(?:_FOR)?\((\d+)(?:, (\d+))?\)((?: \w+\([^()]*\))? {name}\()", source)
        if entry is None:
            continue
        threads = int(entry[1])
        blocks = (
            _REGISTERS // (threads * -(-int(registers) // _UNIT) * _UNIT) - 1
            if entry[2] is None
            else int(entry[2]) // 2
        )
        text = f"HG_BOUNDS_FOR({threads}, {max(1, blocks)}){entry[3]}"
        source = source[: entry.start()] + text + source[entry.end() :]
    return source


def without_report(log: str) -> str:
    """The messages of NVRTC without the report of what kernels need."""
    return _LINE.sub("", log).strip()


def compile_cubin(source: str, arch: str, numeric: str = "strict") -> tuple[bytes, str]:
    """(machine code or PTX, log) of a translation unit.

    Raises:
        NvrtcError: with the text and the log.
    """
    code, log = compile_reported(source, arch, numeric)
    return code, without_report(log)


def compile_reported(source: str, arch: str, numeric: str = "strict") -> tuple[bytes, str]:
    """The same; the log also says what each kernel needs."""
    while True:
        code, log = _compile(source, arch, numeric)
        again = in_registers(source, log)
        if again == source:
            return code, log
        source = again


def _compile(source: str, arch: str, numeric: str) -> tuple[bytes, str]:
    nvrtc = _nvrtc()
    program = nvrtc.createProgram(source, "hybridgpu.cu", [], [])
    flags = [f"--gpu-architecture={arch}", f"-I{kernels_folder()}", *OPTIONS, *NUMERIC[numeric]]
    flags += [REPORT] if arch.startswith("sm_") else []
    try:
        try:
            nvrtc.compileProgram(program, flags)
        except nvrtc.NVRTCError:
            raise NvrtcError(source, log_of(nvrtc, program)) from None
        log = log_of(nvrtc, program)
        if arch.startswith("sm_"):
            return with_last_byte(bytes(nvrtc.getCUBIN(program))), log
        code = nvrtc.getPTX(program)
        return (code.encode() if isinstance(code, str) else bytes(code)), log
    finally:
        nvrtc.destroyProgram(program)


def log_of(nvrtc: Any, program: Any) -> str:
    """The log of NVRTC for a program."""
    return re.sub(r"\x00", "", nvrtc.getProgramLog(program))


def with_last_byte(cubin: bytes) -> bytes:
    """Machine code as NVRTC made it: CuPy takes its last byte for the NUL of a text, and drops it.

    NVRTC writes the tables of the ELF file last, whose last field, a small number of eight bytes, ends in a zero.
    """
    segments, sections = struct.unpack_from("<QQ", cubin, 32)  # where the tables begin
    segment_bytes, segment_count, section_bytes, section_count = struct.unpack_from("<4H", cubin, 54)
    end = max(segments + segment_bytes * segment_count, sections + section_bytes * section_count)
    return cubin + b"\0" if len(cubin) + 1 == end else cubin
