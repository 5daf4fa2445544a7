# SPDX-License-Identifier: Apache-2.0
"""Builds kernels/math_cpu.h into a shared library of loops, and the checker beside it.

Used by test_math.py and bench/math_bench.py.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hybridgpu.backends.cpu.toolchain import cpu_features
from hybridgpu.cache.disk_cache import default_store

HERE = Path(__file__).resolve().parent
KERNELS = HERE.parent.parent / "kernels"
CXX = os.environ.get("HYBRIDGPU_CXX") or os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
FLAGS = (
    "-O3 -mprefer-vector-width=512 -fno-math-errno -fno-trapping-math -fopenmp-simd -ffp-contract=off "
    "-shared -fPIC -std=c++17"
).split()
FAST = ("-ffp-contract=fast", "-DHG_FAST_MATH")  # behind FLAGS

UNARY = (
    "exp expm1 log log2 log10 log1p sqrt rsqrt cbrt rcbrt sin cos tan asin acos atan sinh cosh tanh asinh acosh "
    "atanh erf erfc erfinv sigmoid softplus tgamma lgamma digamma floor ceil trunc rint round_away abs sign"
).split()
CLASSES = "isnan isinf isfinite".split()  # bool results
BINARY = "pow hypot atan2 maximum minimum copysign".split()
TYPES = {"f32": ("float", np.float32), "f64": ("double", np.float64)}
KEYS = {np.dtype(t[1]): key for key, t in TYPES.items()}


def loops(names: Sequence[str] | None = None, keys: Sequence[str] = ("f32", "f64")) -> str:
    """One loop a function and type, one a line, as a kernel has them."""
    lines = []
    for key in keys:
        t = TYPES[key][0]
        for name in (*UNARY, *CLASSES, *BINARY):
            if names is not None and name not in names:
                continue
            out = "bool" if name in CLASSES else t
            second, call = (f"const {t} *__restrict y, ", "x[i], y[i]") if name in BINARY else ("", "x[i]")
            lines.append(
                f'extern "C" void {key}_{name}(const {t} *__restrict x, {second}{out} *__restrict out, long n) '
                f"{{ for (long i = 0; i < n; i++) out[i] = hg::{name}({call}); }}"
            )
    return "\n".join(lines) + "\n"


def compile_text(text: str, out: Path, flags: Sequence[str], compiler: str | None = None) -> str:
    """Compile C++ text; returns what the compiler printed.

    Both are kept in the disk cache: workers of a run and the second job would compile the same again, for many seconds.
    """
    command = [compiler or CXX or "c++", *flags]
    store, key = default_store(), _key(command, text)
    code, said = store.get("so", key), store.get_json("said", key)
    if code is None or said is None:
        path = out.with_suffix(".cpp")
        path.write_text(text)
        command += ["-iquote", str(KERNELS), str(path), "-o", str(out)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}\n{done.stderr[:4000]}")
        said = done.stderr
        store.put("so", key, out.read_bytes())
        store.put_json("said", key, said)
    else:
        new = out.with_suffix(".new")  # as a compiler does: the old file may be loaded
        new.write_bytes(code)
        new.replace(out)
    return said


def _key(command: Sequence[str], text: str) -> str:
    """A hash of everything that decides about the machine code of a text, and about what the compiler says to it."""
    parts = ["math_library", _identity(command[0]), *command[1:], cpu_features(), _headers(), text]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@functools.cache
def _identity(compiler: str) -> str:
    """The file that is started, as a toolchain knows it."""
    path = os.path.realpath(shutil.which(compiler) or compiler)
    state = os.stat(path) if os.path.exists(path) else None
    return f"{path} {state.st_size} {state.st_mtime_ns}" if state else path


def _headers() -> str:
    """A hash of what a text may include now: tests/mutation changes it."""
    files = [*sorted(KERNELS.glob("*.h")), *sorted((HERE.parent / "cuda_on_cpu" / "include").rglob("*.h"))]
    return hashlib.sha256(b"\0".join(b"%s\0%s" % (f.name.encode(), f.read_bytes()) for f in files)).hexdigest()


class Result(ctypes.Structure):
    """What the checker found: the largest error, and where NaN, infinity or the sign of zero is wrong."""

    _fields_ = [
        ("max_ulp", ctypes.c_double),
        ("worst_x", ctypes.c_double),
        ("worst_y", ctypes.c_double),
        ("wrong", ctypes.c_int64),
        ("wrong_x", ctypes.c_double),
        ("wrong_y", ctypes.c_double),
        ("count", ctypes.c_int64),
        ("max_relative", ctypes.c_double),
        ("relative_x", ctypes.c_double),
    ]

    def __str__(self) -> str:
        text = f"{self.max_ulp:.3f} ulp at ({self.worst_x!r}, {self.worst_y!r})"
        return text + (f", {self.wrong} wrong, one at ({self.wrong_x!r}, {self.wrong_y!r})" if self.wrong else "")


def pointer(array: np.ndarray | None) -> ctypes.c_void_p:
    return ctypes.c_void_p(None if array is None else array.ctypes.data)


@dataclass
class Library:
    """The functions under test."""

    code: ctypes.CDLL

    def function(self, name: str, key: str) -> Any:
        f = getattr(self.code, f"{key}_{name}")
        f.restype = None
        return f

    def __call__(self, name: str, *arrays: np.ndarray) -> np.ndarray:
        arrays = tuple(np.ascontiguousarray(a) for a in arrays)
        out = np.empty(arrays[0].shape, bool if name in CLASSES else arrays[0].dtype)
        f = self.function(name, KEYS[arrays[0].dtype])
        f(*(pointer(a) for a in (*arrays, out)), ctypes.c_long(out.size))
        return out


@dataclass
class Checker:
    """The references."""

    code: ctypes.CDLL

    def compare(self, name: str, got: np.ndarray, x: np.ndarray, y: np.ndarray | None = None) -> Result:
        result = Result()
        function = getattr(self.code, f"compare_{KEYS[got.dtype]}")
        failed = function(
            name.encode(), pointer(x), pointer(y), pointer(got), ctypes.c_long(got.size), ctypes.byref(result)
        )
        assert not failed, f"no reference for {name}"
        return result

    def sweep(self, library: Library, name: str, first: int = 0, last: int = 1 << 32, step: int = 1) -> Result:
        """float32 arguments by their bit patterns."""
        result = Result()
        u = ctypes.c_uint64
        failed = self.code.sweep_f32(
            name.encode(), library.function(name, "f32"), u(first), u(last), u(step), ctypes.byref(result)
        )
        assert not failed, f"no reference for {name}"
        return result


def build(
    folder: Path,
    march: str = "native",
    compiler: str | None = None,
    names: Sequence[str] | None = None,
    keys: Sequence[str] = ("f32", "f64"),
    fast: bool = False,
) -> Library:
    """``fast``: as programs of numeric mode fast are compiled."""
    out = folder / f"math_{Path(compiler or CXX or 'c++').name}_{march}{'_fast' * fast}.so"
    flags = [*FLAGS, f"-march={march}", *(FAST if fast else ())]
    compile_text('#include "math_cpu.h"\n' + loops(names, keys), out, flags, compiler)
    return Library(ctypes.CDLL(str(out)))


def build_checker(folder: Path) -> Checker:
    out = folder / "checker.so"
    compile_text((HERE / "math_checker.cpp").read_text(), out, ["-O2", "-shared", "-fPIC", "-std=c++17"])
    return Checker(ctypes.CDLL(str(out)))
