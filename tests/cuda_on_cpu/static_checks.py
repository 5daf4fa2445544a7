# SPDX-License-Identifier: Apache-2.0
"""What a machine without a GPU can tell of a kernel's compiled form: NVRTC to cubin, its resources.

report = compile_report(kernel_text, "sm_90", include_dirs=["kernels"])
assert not report.spills and report.kernels["my_kernel"].registers <= 64
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from .faults import CompileError, ToolMissing
from .includes import find_includes
from .toolchain import build_folder, cache_dir, nvidia_includes

__all__ = [
    "ARCHITECTURES",
    "KernelResources",
    "StaticReport",
    "compile_report",
    "has_nvrtc",
    "nvdisasm",
    "nvrtc_cubin",
    "occupancy",
    "resident_blocks",
    "resources",
]

ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")

# SASS instructions that are counted, where nvdisasm is installed.
_COUNTED = {
    "ldg128": r"\bLDG\.E\S*\.128",
    "ldg64": r"\bLDG\.E\S*\.64",
    "ldg": r"\bLDG\.",
    "stg128": r"\bSTG\.E\S*\.128",
    "stg": r"\bSTG\.",
    "lds": r"\bLDS\b",
    "sts": r"\bSTS\b",
    "ldl": r"\bLDL\b",
    "stl": r"\bSTL\b",
    "shfl": r"\bSHFL\.",
    "bar": r"\bBAR\.",
    "atom": r"\b(?:ATOM|RED|ATOMG|ATOMS|REDG)\b",
    "fma": r"\b(?:FFMA|FMUL|FADD)",
    "mufu": r"\bMUFU\.",
    "mma": r"\b[HIQ]G?MMA\b",
    "f64": r"\bD(?:FMA|MUL|ADD)\b",
}


@dataclass(frozen=True)
class KernelResources:
    """What one kernel needs: registers of a thread; stack, spills of a thread and static shared
    memory of a block in bytes; barriers of a block."""

    name: str
    registers: int = 0
    stack: int = 0
    spill_stores: int = 0
    spill_loads: int = 0
    shared: int = 0
    barriers: int = 0

    @property
    def spills(self) -> int:
        """Bytes of spill stores and loads."""
        return self.spill_stores + self.spill_loads


@dataclass(frozen=True)
class StaticReport:
    """One text compiled for one architecture.

    kernels: by their (mangled) name. instructions: SASS instructions by kind, and 'all', where they are counted; empty
    where nvdisasm is not installed. warnings: NVRTC's.
    """

    arch: str
    kernels: dict[str, KernelResources]
    warnings: tuple[str, ...] = ()
    instructions: dict[str, int] = field(default_factory=dict)
    cubin_bytes: int = 0
    log: str = field(default="", repr=False)

    @property
    def registers(self) -> int:
        """The most that any kernel needs."""
        return max((k.registers for k in self.kernels.values()), default=0)

    @property
    def spills(self) -> int:
        """Bytes of spill stores and loads of all kernels."""
        return sum(k.spills for k in self.kernels.values())

    @property
    def stack(self) -> int:
        """The most bytes of stack that any kernel needs."""
        return max((k.stack for k in self.kernels.values()), default=0)

    @property
    def shared(self) -> int:
        """The most bytes of static shared memory that any kernel needs."""
        return max((k.shared for k in self.kernels.values()), default=0)


# ------------------------------------------------------------------------------------- NVRTC
@functools.cache
def _nvrtc() -> ctypes.CDLL:
    site = Path(sysconfig.get_paths()["purelib"]) / "nvidia"
    found = sorted(site.glob("*/lib/libnvrtc.so.*")) or sorted(site.glob("*/lib/libnvrtc.so"))
    name = str(found[0]) if found else ctypes.util.find_library("nvrtc")
    if not name:
        raise ToolMissing("NVRTC is not installed: the wheel nvidia-cuda-nvrtc-cu12 has it")
    return ctypes.CDLL(name)


def has_nvrtc() -> bool:
    """Whether compile_report works here."""
    try:
        _nvrtc()
    except (ToolMissing, OSError):
        return False
    return True


def _version() -> str:
    major, minor = ctypes.c_int(), ctypes.c_int()
    _nvrtc().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return f"{major.value}.{minor.value}"


def _text(read_size: str, read: str, program: ctypes.c_void_p) -> bytes:
    library, size = _nvrtc(), ctypes.c_size_t()
    getattr(library, read_size)(program, ctypes.byref(size))
    room = ctypes.create_string_buffer(size.value)
    getattr(library, read)(program, room)
    return room.raw


def nvrtc_cubin(
    source: str,
    arch: str,
    options: Sequence[str] = (),
    include_dirs: Sequence[str | os.PathLike[str]] = (),
    names: Sequence[str] = (),
) -> tuple[bytes, str]:
    """The cubin and the log, which has ptxas' resource lines. Raises CompileError, ToolMissing."""
    library, program = _nvrtc(), ctypes.c_void_p()
    flags = [f"--gpu-architecture={arch}", "--std=c++17", "--ptxas-options=-v", *options]
    flags += [f"-I{os.path.abspath(d)}" for d in include_dirs]
    flags += [f"-I{d}" for d in nvidia_includes()]
    encoded = (ctypes.c_char_p * len(flags))(*[f.encode() for f in flags])
    library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None)
    try:
        for name in names:
            library.nvrtcAddNameExpression(program, name.encode())
        failed = library.nvrtcCompileProgram(program, len(flags), encoded)
        raw = _text("nvrtcGetProgramLogSize", "nvrtcGetProgramLog", program)
        log = raw.split(b"\0")[0].decode(errors="replace")
        if failed:
            raise CompileError(f"NVRTC {arch}: {log or f'error {failed}, options {flags}'}")
        return _text("nvrtcGetCUBINSize", "nvrtcGetCUBIN", program), log
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


# ------------------------------------------------------------------------------------ reading
def resources(log: str) -> dict[str, KernelResources]:
    """From the lines of ptxas -v."""
    found = {}
    for part in re.split(r"Compiling entry function '", log)[1:]:
        name = part.split("'")[0]

        def number(pattern: str, part: str = part) -> int:
            match = re.search(pattern, part)
            return int(match[1]) if match else 0

        found[name] = KernelResources(
            name=name,
            registers=number(r"Used (\d+) registers"),
            stack=number(r"(\d+) bytes stack frame"),
            spill_stores=number(r"(\d+) bytes spill stores"),
            spill_loads=number(r"(\d+) bytes spill loads"),
            shared=number(r"(\d+) bytes smem"),
            barriers=number(r"used (\d+) barriers"),
        )
    return found


@functools.cache
def nvdisasm() -> str | None:
    """Where the disassembler is: of the wheel nvidia-cuda-nvdisasm, or on the path."""
    site = Path(sysconfig.get_paths()["purelib"]) / "nvidia"
    found = [str(p) for p in sorted(site.glob("*/bin/nvdisasm"))]
    return found[0] if found else shutil.which("nvdisasm")


def _instructions(cubin: bytes) -> dict[str, int]:
    tool = nvdisasm()
    if not tool:
        return {}
    with build_folder() as folder:
        path = folder / "kernel.cubin"
        path.write_bytes(cubin)
        result = subprocess.run([tool, "-c", str(path)], capture_output=True, text=True)
    if result.returncode:  # an older nvdisasm than the architecture
        return {}
    lines = [x for x in result.stdout.splitlines() if re.match(r"\s+/\*[0-9a-f]{4,}\*/", x)]
    counts = {"all": sum(1 for x in lines if not re.search(r"\bNOP\b", x))}
    for kind, pattern in _COUNTED.items():
        if count := sum(1 for x in lines if re.search(pattern, x)):
            counts[kind] = count
    return counts


def compile_report(
    source: str,
    arch: str,
    options: Sequence[str] = (),
    include_dirs: Sequence[str | os.PathLike[str]] = (),
    *,
    names: Sequence[str] = (),
    warnings_as_errors: bool = False,
    count: bool = False,
) -> StaticReport:
    """Compiles a text with NVRTC and reads what its kernels need.

    arch: 'sm_90' and the like. options, names: as for Module. Raises CompileError with the log if
    it does not compile (or, on request, for any warning), ToolMissing without NVRTC. Reports are
    cached by content. count: the instructions, too, which takes a quarter of a second.
    """
    includes = find_includes(source, include_dirs)
    parts = [_version(), source, includes.digest(), arch, *options, "", *names, str(nvdisasm() if count else None)]
    parts += [Path(__file__).read_text(), *nvidia_includes()]
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]
    kept = cache_dir() / f"static-{key}.json"
    if kept.exists():
        data = json.loads(kept.read_text())
        data["kernels"] = {n: KernelResources(**k) for n, k in data["kernels"].items()}
        data["warnings"] = tuple(data["warnings"])
        report = StaticReport(**data)
    else:
        cubin, log = nvrtc_cubin(source, arch, options, include_dirs, names)
        found = re.findall(r"^.*?\(\d+\): warning.*$|^ptxas.*warning.*$", log, re.M)
        report = StaticReport(
            arch, resources(log), tuple(found), _instructions(cubin) if count else {}, len(cubin), log
        )
        with build_folder() as folder:
            (folder / "report.json").write_text(json.dumps(asdict(report)))
            os.replace(folder / "report.json", kept)
    if warnings_as_errors and report.warnings:
        raise CompileError(f"NVRTC {arch}: " + "\n".join(report.warnings))
    return report


# ---------------------------------------------------------------------------------- occupancy
@dataclass(frozen=True)
class _Multiprocessor:
    """Of the CUDA programming guide's table of technical specifications: what an SM holds."""

    threads: int
    blocks: int
    shared: int
    shared_unit: int = 128
    shared_reserved: int = 1024  # of each block
    registers: int = 65536


_MULTIPROCESSORS = {
    "sm_75": _Multiprocessor(1024, 16, 64 << 10, shared_unit=256, shared_reserved=0),
    "sm_80": _Multiprocessor(2048, 32, 164 << 10),
    "sm_86": _Multiprocessor(1536, 16, 100 << 10),
    "sm_89": _Multiprocessor(1536, 24, 100 << 10),
    "sm_90": _Multiprocessor(2048, 32, 228 << 10),
    "sm_100": _Multiprocessor(2048, 32, 228 << 10),
    "sm_120": _Multiprocessor(1536, 24, 100 << 10),
}
_REGISTER_UNIT = 256  # registers are given to a warp in such units
_WARP_UNIT = 4  # and warps share them in four partitions


def resident_blocks(arch: str, registers: int, threads: int, shared: int = 0) -> int:
    """Blocks of so many threads that an SM holds at once.

    registers: of a thread; shared: bytes of static and dynamic shared memory of a block.
    """
    sm = _MULTIPROCESSORS[arch]
    warps = -(-threads // 32)
    per_warp = -(-max(registers, 1) * 32 // _REGISTER_UNIT) * _REGISTER_UNIT
    warps_by_registers = sm.registers // per_warp // _WARP_UNIT * _WARP_UNIT
    need = -(-(shared + sm.shared_reserved) // sm.shared_unit) * sm.shared_unit
    return min(
        sm.threads // (warps * 32),
        sm.blocks,
        warps_by_registers // warps,
        sm.shared // need if need else sm.blocks,
    )


def occupancy(arch: str, registers: int, threads: int, shared: int = 0) -> float:
    """Resident threads over the most an SM can hold; arguments as for :func:`resident_blocks`."""
    blocks = resident_blocks(arch, registers, threads, shared)
    return blocks * -(-threads // 32) * 32 / _MULTIPROCESSORS[arch].threads
