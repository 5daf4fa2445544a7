# SPDX-License-Identifier: Apache-2.0
"""The host compiler, and the cache folder, where processes may build the same things at once."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from .faults import CompileError, ToolMissing

__all__ = [
    "HERE",
    "build_folder",
    "cache_dir",
    "compiler",
    "compiler_version",
    "harness_digest",
    "libgcc",
    "linker",
    "nvidia_includes",
    "one_at_a_time",
    "run",
    "tls_flags",
]

HERE = Path(__file__).resolve().parent
OLDEST_COMPILER = 12
CACHE_BYTES = 1 << 30
ABANDONED_SECONDS = 3600.0


@functools.cache
def compiler() -> str:
    """The path of g++: $CXX, or the first on the PATH. Raises ToolMissing."""
    wanted = os.environ.get("CXX", "").strip()
    for name in [wanted] if wanted else ["g++", "g++-14", "g++-13", "g++-12"]:
        path = shutil.which(name)
        if path and (wanted or _version_of(path) is not None):
            if _version_of(path) is None:
                raise ToolMissing(f"CXX={wanted} is not g++ {OLDEST_COMPILER} or later")
            return path
    raise ToolMissing(f"cuda_on_cpu needs g++ {OLDEST_COMPILER} or later: install it, or name one in CXX")


@functools.cache
def _version_of(path: str) -> str | None:
    """'12.2.0' for a g++ that is new enough; None for anything else, clang included."""
    try:
        result = subprocess.run([path, "-dumpfullversion", "-dumpversion"], capture_output=True, text=True)
        text = subprocess.run([path, "--version"], capture_output=True, text=True).stdout
    except OSError:
        return None
    version = result.stdout.strip()
    major = version.split(".")[0]
    if not major.isdigit() or int(major) < OLDEST_COMPILER or "clang" in text.lower():
        return None
    return version


def compiler_version() -> str:
    """The version of compiler()."""
    return f"{compiler()} {_version_of(compiler())}"


@functools.cache
def linker() -> str:
    """What the compiler links with, whose own start takes longer than all of a kernel's linking."""
    return _answer("-print-prog-name=ld")


@functools.cache
def libgcc() -> str:
    """The archive of what the compiler calls where a processor has no instruction."""
    return _answer("-print-libgcc-file-name")


def _answer(question: str) -> str:
    return subprocess.run([compiler(), question], capture_output=True, text=True, check=True).stdout.strip()


@functools.cache
def tls_flags() -> tuple[str, ...]:
    """Makes thread-local addresses go through __tls_get_addr, which kernel libraries replace."""
    return {
        "x86_64": ("-mtls-dialect=gnu",),
        "aarch64": ("-mtls-dialect=trad",),
    }.get(platform.machine(), ())


@functools.cache
def nvidia_includes() -> tuple[str, ...]:
    """Include folders of NVIDIA's runtime, compiler and cccl wheels, as far as installed."""
    base = Path(sysconfig.get_paths()["purelib"]) / "nvidia"
    folders = (base / n / "include" for n in ("cuda_runtime", "cuda_nvcc", "cuda_cccl", "cu13"))
    return tuple(str(p) for p in folders if p.is_dir())


@functools.cache
def harness_digest() -> str:
    """A hash of everything of the harness that a compiled kernel depends on."""
    digest = hashlib.sha256(compiler_version().encode())
    own = [HERE / name for name in ("elf.py", "module.py", "ptx.py", "translate.py")]
    for path in [*own, *sorted((HERE / "include").rglob("*.h"))]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    for folder in nvidia_includes():
        digest.update(f"{folder} {os.stat(folder).st_mtime_ns}".encode())
    return digest.hexdigest()


@functools.cache
def cache_dir() -> Path:
    """Where compiled kernels stay between runs: $CUDA_ON_CPU_CACHE, else in the temporary folder.

    Raises CompileError if the folder belongs to somebody else.
    """
    named = os.environ.get("CUDA_ON_CPU_CACHE")
    path = Path(named or Path(tempfile.gettempdir()) / f"cuda_on_cpu-{os.getuid()}")
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.stat().st_uid != os.getuid():
        raise CompileError(f"{path} belongs to another user: set CUDA_ON_CPU_CACHE")
    _tidy(path)
    return path


def _tidy(folder: Path) -> None:
    """Removes build folders of processes that died, and the least recently used results."""
    now = time.time()
    results: list[tuple[float, int, Path]] = []
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            used = path.stat().st_mtime
            if not path.name.startswith("build-"):
                parts = [path, *path.iterdir()] if path.is_dir() else [path]
                results.append((used, sum(p.stat().st_size for p in parts), path))
            elif now - used > ABANDONED_SECONDS:
                shutil.rmtree(path, ignore_errors=True)
    total = sum(size for _, size, _ in results)
    for _, size, path in sorted(results):
        if total <= CACHE_BYTES:
            break
        with contextlib.suppress(OSError):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
            total -= size


@contextlib.contextmanager
def build_folder() -> Iterator[Path]:
    """A scratch folder beside the cached results, so that these can be moved into place at once."""
    with tempfile.TemporaryDirectory(prefix="build-", dir=cache_dir()) as name:
        yield Path(name)


@contextlib.contextmanager
def one_at_a_time(what: str) -> Iterator[None]:
    """Processes that would make the same wait for the one that does: it takes many seconds of all processors."""
    with open(cache_dir() / f"{what}.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def run(command: Sequence[str | Path], folder: Path | None = None) -> None:
    """Runs a compiler command in a folder; raises CompileError with its messages."""
    result = subprocess.run([str(c) for c in command], cwd=folder, capture_output=True, text=True)
    if result.returncode:
        raise CompileError(result.stderr[:8000] or f"{command[0]} failed")
