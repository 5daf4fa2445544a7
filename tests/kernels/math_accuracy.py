# SPDX-License-Identifier: Apache-2.0
"""How exact kernels/math_*.h are: the largest errors, the arguments that are tried, and the comparison."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
import math_library as ml  # noqa: E402  (of this folder)

# Largest error in ulp that a build may show, (float, double). Without FMA and with other compilers too.
ULP = {
    "exp": (1.1, 1.1), "expm1": (1.7, 2.1), "log": (1.1, 1.3), "log2": (2.1, 1.1),
    "log10": (2.2, 2.1), "log1p": (1.7, 2.0), "sqrt": (0.5, 0.5), "rsqrt": (1.5, 1.5), "cbrt": (1.2, 0.8),
    "rcbrt": (2.3, 1.8), "sin": (1.8, 1.0), "cos": (1.7, 1.0), "tan": (3.9, 1.1), "asin": (2.4, 1.1),
    "acos": (1.3, 1.1), "atan": (1.6, 1.1), "sinh": (2.3, 2.5), "cosh": (1.7, 2.5), "tanh": (2.0, 2.2),
    "asinh": (2.2, 2.5), "acosh": (2.2, 2.5), "atanh": (2.5, 2.5), "erf": (3.8, 2.2), "erfc": (2.3, 5.0),
    "erfinv": (3.5, 4.0), "sigmoid": (2.1, 2.2), "softplus": (2.0, 2.2), "tgamma": (0.51, 10.0),
    "lgamma": (0.51, 8.0), "digamma": (0.51, 6.0), "floor": (0, 0), "ceil": (0, 0), "trunc": (0, 0), "rint": (0, 0),
    "round_away": (0, 0), "abs": (0, 0), "sign": (0, 0), "pow": (0.51, 1.1), "hypot": (0.51, 1.1),
    "atan2": (2.0, 1.1), "maximum": (0, 0), "minimum": (0, 0), "copysign": (0, 0),
}  # fmt: skip

# Numeric mode fast: what is computed by other formulas, and the error relative to results that are normal numbers.
FAST = "exp log log2 log10 tanh sigmoid softplus erf".split()
FAST_ERROR = 2.0**-18
FAST_ERROR_WITHOUT_FMA = 2.0**-17
TINY = float(np.finfo(np.float32).tiny)
# Where fast functions are as strict ones in NaN, infinities and signs of zeros: beyond these arguments the results
# are infinite, or subnormal results are 0. Elsewhere the table of test_fast_special_value says what they are.
FAST_DOMAIN = {"exp": (-87.33, 88.37), "log": (TINY, np.inf), "log2": (TINY, np.inf),
               "log10": (TINY, np.inf), "sigmoid": (-87.33, np.inf), "softplus": (-87.33, np.inf)}  # fmt: skip

# What must become vector code; the other functions of double are calls of libm, as are tgamma and lgamma.
NEVER = {"tgamma", "lgamma", "digamma"}
VECTORS = {
    "f32": [n for n in (*ml.UNARY, *ml.CLASSES, *ml.BINARY) if n not in NEVER],
    "f64": "exp expm1 log log1p sqrt rsqrt cbrt rcbrt tanh sigmoid softplus erf floor ceil trunc rint round_away abs "
    "sign maximum minimum copysign".split(),
}

SPECIAL = [
    0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 10.0, 0.49999997, 0.49999999999999994, 0.75, 16.6, 17.4, 25.0, 40.0, 88.72,
    88.73, 89.4, 89.5, 103.9, 104.0, 127.99, 128.0, 149.0, 150.0, 709.78, 709.79, 745.1, 745.2, 1e-45, 1e-40,
    1.17549435e-38, 1.2e-38, 5e-324, 1e-310, 2.2250738585072014e-308, 1e-9, 1e-30, 1e30, 3.4e38, 3.4028235e38, 1e300,
    1.7976931348623157e308, 8388607.5, 8388608.0, 8388609.0, 16777216.0, 4503599627370495.5, 1e5, 1e22, np.inf, np.nan,
]  # fmt: skip


def arguments(name: str, dtype: type, count: int) -> np.ndarray:
    """Special values, random bit patterns, and random numbers where the function has its features."""
    rng = np.random.default_rng(sum(name.encode()))
    with np.errstate(over="ignore"):
        special = np.array([*SPECIAL, *(-v for v in SPECIAL)], dtype)
    bits = np.uint32 if dtype is np.float32 else np.uint64
    patterns = rng.integers(0, np.iinfo(bits).max, count, dtype=bits, endpoint=True).view(dtype)
    parts = [special, patterns, rng.normal(size=count) * 3, rng.uniform(-1, 1, count), rng.uniform(-110, 110, count)]
    parts += [rng.uniform(-760, 760, count), 1 + rng.normal(size=count) * 1e-2]
    with np.errstate(invalid="ignore"):  # signalling NaN among the patterns
        return np.concatenate(parts).astype(dtype)


def check_unary(library: ml.Library, checker: ml.Checker, name: str, dtype: type, count: int) -> None:
    x = arguments(name, dtype, count)
    if name == "digamma" and dtype is np.float64:
        x = x[~(x < 0)]  # below 0 neither side keeps its digits near the roots
    if name == "tgamma" and dtype is np.float64:
        x = x[np.isnan(x) | (x > -170)]  # the reference's own errors
    result = checker.compare(name, library(name, x), x)
    assert not result.wrong, str(result)
    assert result.max_ulp <= ULP[name][dtype is np.float64], str(result)


def check_binary(library: ml.Library, checker: ml.Checker, name: str, dtype: type) -> None:
    with np.errstate(over="ignore"):
        values = np.array(SPECIAL, dtype)
    values = np.concatenate([values, -values, np.array([-5, 5, 33, -33, 1 + 1e-6], dtype)])
    x, y = (np.ravel(a) for a in np.meshgrid(values, values))
    rng = np.random.default_rng(1)
    u, v, w = (rng.normal(size=20000) for _ in range(3))
    x, y = (
        np.concatenate([a, *b]).astype(dtype)
        for a, b in (
            (x, (u, np.abs(u) * 3, arguments("x", dtype, 3000))),
            (y, (v, w * 20, arguments("y", dtype, 3000))),
        )
    )
    result = checker.compare(name, library(name, x, y), x, y)
    assert not result.wrong, str(result)
    assert result.max_ulp <= ULP[name][dtype is np.float64], str(result)


def cpu_flags() -> set[str]:
    try:
        return set(re.findall(r"\w+", re.search(r"flags\s*:(.*)", Path("/proc/cpuinfo").read_text())[1]))  # type: ignore[index]
    except (OSError, TypeError):
        return set()


def module_at(path: Path) -> ModuleType:
    """A script as a module; it may import its neighbours."""
    sys.path.insert(0, str(path.parent))
    try:
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(path.parent))
