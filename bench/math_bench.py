# SPDX-License-Identifier: Apache-2.0
"""Nanoseconds an element of kernels/math_cpu.h, one thread, beside libm called in a loop and NumPy.

    python bench/math_bench.py [--dtype f64] [--march x86-64] [--compiler clang++] [--fast] [--compile-time] [NAME ...]

Minima of many repetitions over arrays that stay in the cache (10,000 elements; 100,000 for the chain).
"""

from __future__ import annotations

import argparse
import ctypes
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "kernels"))
import math_library as ml

# What the plain C++ programmer writes; other names are libm's own.
PLAIN = {
    "rsqrt": "1 / {sqrt}(x)", "rcbrt": "1 / {cbrt}(x)", "sigmoid": "1 / (1 + {exp}(-x))",
    "softplus": "{log1p}({exp}(x))", "round_away": "{round}(x)", "abs": "{fabs}(x)",
    "sign": "(x > 0) - (x < 0)", "maximum": "x > y ? x : y", "minimum": "x < y ? x : y",
}  # fmt: skip
NO_LIBM = {"erfinv", "digamma"}
NUMPY: dict[str, Callable[..., object]] = {
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "rcbrt": lambda x: 1 / np.cbrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "softplus": lambda x: np.logaddexp(x, np.float32(0)),
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "atan2": np.arctan2, "pow": np.power, "round_away": np.round,
}  # fmt: skip


def cpu_chain(t: str) -> str:
    body = "hg::tanh(a * v + b) * hg::sigmoid(v) + T(0.5) * hg::maximum(v - c, T(0)) - hg::exp(-v * v)"
    return (
        f'extern "C" void chain(const {t} *__restrict x, {t} *__restrict out, long n) {{ typedef {t} T; '
        "const T a = T(1.25), b = T(-0.3), c = T(0.2); "
        f"for (long i = 0; i < n; i++) {{ T v = x[i]; out[i] = {body}; }} }}\n"
    )


def numpy_chain(v: np.ndarray) -> np.ndarray:
    half, a, b, c = (v.dtype.type(k) for k in (0.5, 1.25, -0.3, 0.2))
    return np.tanh(a * v + b) / (1 + np.exp(-v)) + half * np.maximum(v - c, 0) - np.exp(-v * v)


def libm_name(name: str, key: str) -> str:
    return f"::{name}f" if key == "f32" else f"::{name}"


def plain_loops(names: list[str], key: str) -> str:
    t = ml.TYPES[key][0]
    table = {n: libm_name(n, key) for n in ("sqrt", "cbrt", "exp", "log1p", "round", "fabs", "tanh")}
    lines = ["#include <math.h>"]
    for name in names:
        if name in NO_LIBM:
            continue
        two = name in ml.BINARY
        call = PLAIN.get(name, libm_name(name, key) + ("(x, y)" if two else "(x)")).format(**table)
        lines.append(
            f'extern "C" void {key}_{name}(const {t} *a, {"const " + t + " *b, " if two else ""}{t} *out, long n) '
            f"{{ for (long i = 0; i < n; i++) {{ {t} x = a[i]{', y = b[i]' if two else ''}; out[i] = {call}; }} }}"
        )
    sigmoid = "1 / (1 + {exp}(-v))".format(**table)
    lines.append(
        f'extern "C" void chain(const {t} *x, {t} *out, long n) {{ typedef {t} T; const T a = T(1.25), b = T(-0.3), '
        f"c = T(0.2); for (long i = 0; i < n; i++) {{ T v = x[i]; T r = v - c > 0 ? v - c : 0; "
        f"out[i] = {table['tanh']}(a * v + b) * ({sigmoid}) + T(0.5) * r - {table['exp']}(-v * v); }} }}"
    )
    return "\n".join(lines) + "\n"


# In C, since a call by ctypes costs as much as a thousand elements.
TIMER = """
#include <time.h>
static double now() { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e9 + t.tv_nsec; }
template <class Call> static double fastest(Call call, int count) {
  double least = 1e300;
  for (int i = 0; i < count; i++) { double t = now(); call(); t = now() - t; if (t < least) least = t; }
  return least;
}
extern "C" double fastest1(void (*f)(void *, void *, long), void *x, void *out, long n, int count) {
  return fastest([&] { f(x, out, n); }, count);
}
extern "C" double fastest2(void (*f)(void *, void *, void *, long), void *x, void *y, void *out, long n, int count) {
  return fastest([&] { f(x, y, out, n); }, count);
}
"""


def aligned(values: np.ndarray) -> np.ndarray:
    room = np.empty(values.nbytes + 64, np.uint8)
    start = -room.ctypes.data % 64
    out = room[start : start + values.nbytes].view(values.dtype)
    out[:] = values
    return out


def best(call: Callable[[], object], seconds: float = 0.02) -> float:
    """The least time of a Python call, in nanoseconds."""
    least = float("inf")
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter_ns()
        call()
        least = min(least, time.perf_counter_ns() - start)
    return least


def best_in_c(timer: ctypes.CDLL, f: Any, pointers: list[Any], count: int = 300) -> float:
    """The same for a compiled loop."""
    function = timer.fastest2 if len(pointers) == 4 else timer.fastest1
    function.restype = ctypes.c_double
    return float(function(f, *pointers, ctypes.c_int(count)))


def domain(name: str, n: int, dtype: type) -> np.ndarray:
    rng = np.random.default_rng(0)
    lo, hi = -4.0, 4.0
    if name in ("log", "log2", "log10", "sqrt", "rsqrt", "acosh", "tgamma", "lgamma", "digamma", "pow"):
        lo, hi = 1.1, 30.0
    elif name in ("asin", "acos", "atanh", "erfinv", "log1p"):
        lo, hi = -0.95, 0.95
    return aligned(rng.uniform(lo, hi, n).astype(dtype))


def row(label: str, cells: list[float | None], digits: int = 3) -> None:
    print(f"{label:12s}" + "".join(f"{'-':>10s}" if c is None else f"{c:10.{digits}f}" for c in cells))


def compile_time(folder: Path, compiler: str | None) -> None:
    """Milliseconds to compile one kernel without the header, with it, and the chain."""
    loop = 'extern "C" void f(const float *x, float *out, long n) { for (long i = 0; i < n; i++) out[i] = x[i] * 2; }\n'
    include = '#include "math_cpu.h"\n'
    texts = {"no header": loop, "header": include + loop, "header, chain": include + cpu_chain("float")}
    least = dict.fromkeys(texts, float("inf"))
    for _ in range(15):
        for label, text in texts.items():
            start = time.perf_counter()
            ml.compile_text(text, folder / "time.so", [*ml.FLAGS, "-march=native"], compiler)
            least[label] = min(least[label], time.perf_counter() - start)
    print("compile, ms:", ", ".join(f"{label} {t * 1e3:.1f}" for label, t in least.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--dtype", choices=["f32", "f64"], default="f32")
    parser.add_argument("--march", default="native")
    parser.add_argument("--compiler", default=None)
    parser.add_argument("--fast", action="store_true", help="as programs of numeric mode fast are compiled")
    parser.add_argument("--compile-time", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    key, (t, dtype) = options.dtype, ml.TYPES[options.dtype]
    names = options.names or [*ml.UNARY, *ml.BINARY]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if options.compile_time:
            compile_time(folder, options.compiler)
            return
        ours_path, plain_path = folder / "ours.so", folder / "plain.so"
        text = '#include "math_cpu.h"\n' + ml.loops(names, (key,)) + cpu_chain(t)
        flags = [*ml.FLAGS, f"-march={options.march}", *(ml.FAST if options.fast else ())]
        ml.compile_text(text, ours_path, flags, options.compiler)
        plain_flags = ["-O2", "-fno-tree-vectorize", "-shared", "-fPIC", f"-march={options.march}"]
        ml.compile_text(plain_loops(names, key) + TIMER, plain_path, plain_flags, "g++")
        ours, plain = ml.Library(ctypes.CDLL(str(ours_path))), ml.Library(ctypes.CDLL(str(plain_path)))
        checker = ml.build_checker(folder)
        print(f"{key}, ns an element{'':4s}ours      libm     NumPy    max ulp (sampled)")
        n = 10_000
        for name in names:
            x = domain(name, n, dtype)
            arrays = [x, domain("pow" if name == "pow" else "", n, dtype)][: 2 if name in ml.BINARY else 1]
            out = aligned(np.empty(n, dtype))
            pointers = [*(ml.pointer(a) for a in (*arrays, out)), ctypes.c_long(n)]
            f = ours.function(name, key)
            cells: list[float | None] = [best_in_c(plain.code, f, pointers) / n]
            if name in NO_LIBM:
                cells.append(None)
            else:
                cells.append(best_in_c(plain.code, plain.function(name, key), pointers, 50) / n)
            numpy = NUMPY.get(name) or getattr(np, name, None)
            cells.append(best(lambda u=numpy, a=arrays: u(*a)) / n if callable(numpy) else None)
            f(*pointers)
            bits = np.uint32 if dtype is np.float32 else np.uint64
            wide = np.random.default_rng(1).integers(0, np.iinfo(bits).max, (2, 20_000), dtype=bits).view(dtype)
            samples = [arrays, list(wide[: len(arrays)])]
            cells.append(max(checker.compare(name, ours(name, *a), *a).max_ulp for a in samples))
            row(name, cells)
        x = aligned(np.random.default_rng(0).uniform(-4, 4, 100_000).astype(dtype))
        out = aligned(np.empty_like(x))
        for n in (1_000, 10_000, 100_000):
            pointers = [ml.pointer(x), ml.pointer(out), ctypes.c_long(n)]
            v = x[:n]
            row(
                f"chain {n:.0e}",
                [
                    best_in_c(plain.code, ours.code.chain, pointers) / n,
                    best_in_c(plain.code, plain.code.chain, pointers, 50) / n,
                    best(lambda v=v: numpy_chain(v), 0.2) / n,
                    None,
                ],
            )


if __name__ == "__main__":
    main()
