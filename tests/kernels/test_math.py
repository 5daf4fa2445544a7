# SPDX-License-Identifier: Apache-2.0
"""kernels/math_cpu.h and math_cuda.h: errors, special values, vectorisation, and where the coefficients come from.

`pytest -m exhaustive` goes over all 2^32 float arguments of the functions that matter most (minutes).
"""

from __future__ import annotations

import importlib.util
import math
import platform
import re
import shutil
import subprocess
import sys
from decimal import localcontext
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import math_library as ml

pytestmark = pytest.mark.skipif(ml.CXX is None, reason="no C++ compiler")

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


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("math")


@pytest.fixture(scope="session")
def checker(folder: Path) -> ml.Checker:
    return ml.build_checker(folder)


@pytest.fixture(scope="session")
def library(folder: Path) -> ml.Library:
    return ml.build(folder)


@pytest.fixture(scope="session")
def fast_library(folder: Path) -> ml.Library:
    return ml.build(folder, fast=True)


def check_unary(library: ml.Library, checker: ml.Checker, name: str, dtype: type, count: int) -> None:
    x = arguments(name, dtype, count)
    if name == "digamma" and dtype is np.float64:
        x = x[~(x < 0)]  # below 0 neither side keeps its digits near the roots
    if name == "tgamma" and dtype is np.float64:
        x = x[np.isnan(x) | (x > -170)]  # the reference's own errors
    result = checker.compare(name, library(name, x), x)
    assert not result.wrong, str(result)
    assert result.max_ulp <= ULP[name][dtype is np.float64], str(result)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ml.UNARY)
def test_unary(library: ml.Library, checker: ml.Checker, name: str, dtype: type) -> None:
    slow = name in ("tgamma", "lgamma", "digamma", "erfinv") or (dtype is np.float64 and name not in VECTORS["f64"])
    check_unary(library, checker, name, dtype, 3000 if slow else 20000)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ml.CLASSES)
def test_classes(library: ml.Library, name: str, dtype: type) -> None:
    x = arguments(name, dtype, 1000)
    assert np.array_equal(library(name, x), getattr(np, name)(x))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ml.BINARY)
def test_binary(library: ml.Library, checker: ml.Checker, name: str, dtype: type) -> None:
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


def same(got: float, want: float) -> bool:
    return bool(np.array_equal(got, want, equal_nan=True)) and np.signbit(got) == np.signbit(want)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("name", "x", "want"),
    [
        ("exp", -np.inf, 0.0), ("exp", np.inf, np.inf), ("expm1", -0.0, -0.0), ("expm1", -np.inf, -1.0),
        ("log", -0.0, -np.inf), ("log", 1.0, 0.0), ("log", np.inf, np.inf), ("log1p", -0.0, -0.0),
        ("log1p", -1.0, -np.inf), ("log2", 8.0, 3.0), ("log10", 1000.0, 3.0), ("tanh", -0.0, -0.0),
        ("tanh", -np.inf, -1.0), ("sin", -0.0, -0.0), ("tan", -0.0, -0.0), ("cos", 0.0, 1.0), ("sqrt", -0.0, -0.0),
        ("rsqrt", -0.0, -np.inf), ("cbrt", -27.0, -3.0), ("cbrt", -np.inf, -np.inf), ("sigmoid", -np.inf, 0.0),
        ("sigmoid", np.inf, 1.0), ("softplus", np.inf, np.inf), ("softplus", -np.inf, 0.0), ("erf", -np.inf, -1.0),
        ("erfc", np.inf, 0.0), ("erfinv", -1.0, -np.inf), ("atanh", 1.0, np.inf), ("acosh", 1.0, 0.0),
        ("lgamma", 1.0, 0.0), ("lgamma", -3.0, np.inf), ("digamma", -0.0, np.inf), ("rint", 2.5, 2.0),
        ("rint", -0.2, -0.0), ("round_away", -2.5, -3.0), ("ceil", -0.5, -0.0), ("sign", np.nan, 0.0),
        ("abs", -0.0, 0.0),
    ],
)  # fmt: skip
def test_exact_value(library: ml.Library, name: str, x: float, want: float, dtype: type) -> None:
    got = library(name, np.array([x], dtype))[0]
    assert same(got, dtype(want)), got


@pytest.mark.parametrize(
    ("name", "first", "last"),
    [
        ("exp", -103.9, -87.4), ("sigmoid", -103.9, -87.4), ("softplus", -103.9, -87.4),
        ("erfc", 9.3, 10.05), ("sinh", 1e-44, 1e-38), ("pow", -149.4, -126.1),
    ],
)  # fmt: skip
def test_subnormal_results_are_not_flushed(
    library: ml.Library, checker: ml.Checker, name: str, first: float, last: float
) -> None:
    a = np.linspace(first, last, 3000).astype(np.float32)
    arrays = (np.full_like(a, 2), a) if name == "pow" else (a,)
    got = library(name, *arrays)
    assert (got > 0).all() and (got < np.finfo(np.float32).tiny).all()
    assert checker.compare(name, got, *arrays).max_ulp <= ULP[name][0]


def test_constant_operand_of_maximum(folder: Path) -> None:
    """Against a constant one instruction is left, and NaN still wins."""
    text = '#include "math_cpu.h"\n' + "".join(
        f'extern "C" void f32_{name}(const float *__restrict x, float *__restrict out, long n) '
        f"{{ for (long i = 0; i < n; i++) out[i] = hg::{call}; }}\n"
        for name, call in (("floor", "maximum(x[i], 0.0f)"), ("ceil", "minimum(x[i], 6.0f)"))
    )
    out = folder / "constant.so"
    ml.compile_text(text, out, [*ml.FLAGS, "-march=native"])
    library = ml.Library(ml.ctypes.CDLL(str(out)))
    x = arguments("relu", np.float32, 1000)
    assert np.array_equal(library("floor", x), np.maximum(x, np.float32(0)), equal_nan=True)
    assert np.array_equal(library("ceil", x), np.minimum(x, np.float32(6)), equal_nan=True)


EXPONENTIALS = ("exp_not_above_0", "exp")


def not_above_0(folder: Path, fast: bool) -> ml.Library:
    text = '#include "math_cpu.h"\n' + "".join(
        f'extern "C" void f32_{name}(const float *__restrict x, float *__restrict out, long n) '
        f"{{ for (long i = 0; i < n; i++) out[i] = hg::{name}(x[i]); }}\n"
        for name in EXPONENTIALS
    )
    out = folder / f"not_above_0_{fast}.so"
    ml.compile_text(text, out, [*ml.FLAGS, "-march=native", *(ml.FAST if fast else ())])
    return ml.Library(ml.ctypes.CDLL(str(out)))


def same_exponentials(library: ml.Library, step: int) -> None:
    """The same bits from -0 down to -inf."""
    block, end = 1 << 24, 0xFF800001
    for first in range(0x80000000, end, block):
        x = np.arange(first, min(first + block, end), step, dtype=np.uint32).view(np.float32)
        got, want = (library(name, x).view(np.uint32) for name in EXPONENTIALS)
        assert np.array_equal(got, want)
    got, want = (library(name, np.array([0.0, -np.inf, np.nan, -np.nan], np.float32)) for name in EXPONENTIALS)
    assert np.array_equal(got, want, equal_nan=True)


@pytest.mark.parametrize("fast", [False, True])
def test_exponential_of_arguments_not_above_0(folder: Path, fast: bool) -> None:
    same_exponentials(not_above_0(folder, fast), 997)


@pytest.mark.exhaustive
@pytest.mark.parametrize("fast", [False, True])
def test_exponential_of_every_argument_not_above_0(folder: Path, fast: bool) -> None:
    same_exponentials(not_above_0(folder, fast), 1)


def test_floating_point_environment_is_left_alone(library: ml.Library) -> None:
    library("exp", np.array([-100.0, 1e30], np.float32))
    tiny = np.array([5e-324])
    assert (tiny * 1.0)[0] == 5e-324


# -- numeric mode fast


def check_fast(library: ml.Library, checker: ml.Checker, name: str, count: int, error: float = FAST_ERROR) -> None:
    x = arguments(name, np.float32, count)
    low, high = FAST_DOMAIN.get(name, (-np.inf, np.inf))
    x = x[np.isnan(x) | ((x >= low) & (x <= high))]
    result = checker.compare(name, library(name, x), x)
    assert not result.wrong, str(result)
    assert result.max_relative <= error, f"2^{np.log2(result.max_relative):.2f} at {result.relative_x!r}"


@pytest.mark.parametrize("name", FAST)
def test_fast_errors(fast_library: ml.Library, checker: ml.Checker, name: str) -> None:
    check_fast(fast_library, checker, name, 20000)


def test_fast_functions_are_other_ones(library: ml.Library, fast_library: ml.Library) -> None:
    x = np.linspace(0.1, 3, 1000, dtype=np.float32)
    differ = {n for n in ml.UNARY if not np.array_equal(library(n, x), fast_library(n, x), equal_nan=True)}
    assert set(FAST) <= differ


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", sorted(set(ml.UNARY) - set(FAST)))
def test_fast_leaves_the_others_alone(fast_library: ml.Library, checker: ml.Checker, name: str, dtype: type) -> None:
    """Contraction alone keeps every bound; erfinv is made of log."""
    if name == "erfinv" and dtype is np.float32:
        x = np.linspace(-1, 1, 5001, dtype=np.float32)
        assert checker.compare(name, fast_library(name, x), x).max_relative <= FAST_ERROR
    else:
        check_unary(fast_library, checker, name, dtype, 2000)


@pytest.mark.parametrize("name", FAST)
def test_fast_double_is_strict(fast_library: ml.Library, checker: ml.Checker, name: str) -> None:
    check_unary(fast_library, checker, name, np.float64, 2000)


@pytest.mark.parametrize(
    ("name", "x", "want"),
    [
        ("exp", 88.38, np.inf), ("exp", 3e38, np.inf), ("exp", np.inf, np.inf), ("exp", -87.6, 0.0),
        ("exp", -3e38, 0.0), ("exp", -np.inf, 0.0), ("exp", -0.0, 1.0), ("exp", 1e-45, 1.0), ("log", 0.0, -np.inf),
        ("log", -0.0, -np.inf), ("log", 1e-40, -np.inf), ("log", -1e-40, -np.inf), ("log", -1.0, np.nan),
        ("log", np.inf, np.inf), ("log", -np.inf, np.nan), ("log", 1.0, 0.0), ("log2", 8.0, 3.0), ("log2", 0.0, -np.inf),
        ("log10", np.inf, np.inf), ("log10", -2.0, np.nan), ("tanh", -0.0, -0.0), ("tanh", np.inf, 1.0),
        ("tanh", -3e38, -1.0), ("erf", -0.0, -0.0), ("erf", -np.inf, -1.0), ("erf", 3e38, 1.0), ("sigmoid", 0.0, 0.5),
        ("sigmoid", np.inf, 1.0), ("sigmoid", -np.inf, 0.0), ("sigmoid", -88.5, 0.0), ("softplus", np.inf, np.inf),
        ("softplus", -np.inf, 0.0), ("softplus", -88.0, 0.0), ("softplus", 3e38, 3e38),
    ],
)  # fmt: skip
def test_fast_special_value(fast_library: ml.Library, name: str, x: float, want: float) -> None:
    got = fast_library(name, np.array([x, np.nan], np.float32))
    assert same(got[0], np.float32(want)), got[0]
    assert np.isnan(got[1])


# -- other instruction sets and compilers


def cpu_flags() -> set[str]:
    try:
        return set(re.findall(r"\w+", re.search(r"flags\s*:(.*)", Path("/proc/cpuinfo").read_text())[1]))  # type: ignore[index]
    except (OSError, TypeError):
        return set()


@pytest.mark.parametrize(
    ("compiler", "march"),
    [("g++", "x86-64"), ("g++", "haswell"), ("clang++", "x86-64"), ("clang++", "haswell"), ("clang++", "native")],
)
def test_other_targets(folder: Path, checker: ml.Checker, compiler: str, march: str) -> None:
    """SSE2 without FMA, AVX2, this machine."""
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("not an x86-64 machine")
    if march == "haswell" and not {"avx2", "fma", "bmi2"} <= cpu_flags():
        pytest.skip("no AVX2 here")
    library = ml.build(folder, march, compiler, VECTORS["f32"])
    fast = ml.build(folder, march, compiler, FAST, fast=True)
    for name in FAST:
        check_fast(fast, checker, name, 1500, FAST_ERROR_WITHOUT_FMA if march == "x86-64" else FAST_ERROR)
    for dtype, key in ((np.float32, "f32"), (np.float64, "f64")):
        for name in set(VECTORS[key]) & set(ml.UNARY):
            check_unary(library, checker, name, dtype, 1500)
        for name in set(VECTORS[key]) & set(ml.BINARY):
            test_binary(library, checker, name, dtype)


def gcc_version() -> int:
    text = subprocess.run([ml.CXX or "c++", "--version"], capture_output=True, text=True).stdout
    found = re.search(r"\) (\d+)\.", text)
    return int(found[1]) if found and "clang" not in text else 0


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("march", ["native", "haswell", "x86-64"])
def test_loops_become_vector_code(folder: Path, march: str, fast: bool) -> None:
    if gcc_version() < 12:
        pytest.skip("the report is that of g++ 12 or later")
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("not an x86-64 machine")
    text = '#include "math_cpu.h"\n' + ml.loops()
    flags = [*ml.FLAGS, f"-march={march}", "-fopt-info-vec", *(ml.FAST if fast else ())]
    said = ml.compile_text(text, folder / f"vector_{march}_{fast}.so", flags)
    reported = {int(n) for n in re.findall(r":(\d+):\d+: optimized: loop vectorized", said)}
    found = {re.findall(r"void (\w+)\(", line)[0] for i, line in enumerate(text.splitlines(), 1) if i in reported}
    assert {f"{key}_{name}" for key, names in VECTORS.items() for name in names} <= found


# -- exhaustive


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


def number_rows() -> tuple[ModuleType, dict[str, tuple[str, str]]]:
    """docs/make_numbers.py, and the rows of the table that it writes."""
    numbers = module_at(ml.KERNELS.parent / "docs" / "make_numbers.py")
    return numbers, numbers.rows(numbers.PAGE.read_text(encoding="utf-8"))


def has_fma() -> bool:
    return platform.machine() in ("aarch64", "arm64") or "fma" in cpu_flags()


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", [*FAST, "expm1", "log1p"])
def test_every_float(library: ml.Library, checker: ml.Checker, name: str) -> None:
    result = checker.sweep(library, name)
    print(f"{name}: {result}")
    assert result.count == 1 << 32
    assert not result.wrong, str(result)
    assert result.max_ulp <= ULP[name][0], str(result)
    if name in FAST and has_fma():
        numbers, rows = number_rows()
        assert numbers.strict_cell(result) == rows[name][0]


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", FAST)
def test_every_float_fast(fast_library: ml.Library, checker: ml.Checker, name: str) -> None:
    result = checker.sweep(fast_library, name)
    assert result.count == 1 << 32
    assert result.max_relative <= (FAST_ERROR if has_fma() else FAST_ERROR_WITHOUT_FMA)
    if has_fma():
        numbers, rows = number_rows()
        assert numbers.fast_cell(result) == rows[name][1]


def test_the_table_of_errors(library: ml.Library, fast_library: ml.Library, checker: ml.Checker) -> None:
    """Every function has a row, whose errors some of its arguments nearly reach and none exceeds."""
    numbers, rows = number_rows()
    assert list(rows) == list(numbers.FUNCTIONS) == FAST
    assert rows == numbers.rows(f"<!-- errors -->\n{numbers.table(rows)}<!-- end of errors -->")
    for name, (strict, fast) in rows.items():
        base, exponent = fast.split("^")
        assert base == "2" and float(strict) <= ULP[name][0] and 2 ** float(exponent) <= FAST_ERROR
        if has_fma():
            sampled = checker.sweep(library, name, step=9973)
            assert 0.7 * float(strict) <= sampled.max_ulp <= float(strict) + 0.005, name
            sampled = checker.sweep(fast_library, name, step=9973)
            assert 0.5 * 2 ** float(exponent) <= sampled.max_relative <= 2 ** float(exponent), name


# -- the sources


SLOW_FITS = {"erf_f64", "erfinv_central_f32", "erfinv_tail_f32", "digamma_f64"}


@pytest.fixture(scope="session")
def fits() -> ModuleType:
    return module_at(ml.KERNELS / "fit" / "fit_math.py")


def header_statements(fits: ModuleType) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for path in sorted(ml.KERNELS.glob("math_*.h")):
        for name, statement in fits.fitted_statements(path.read_text()):
            found.setdefault(name, set()).add(statement)
    return found


def test_every_table_is_fitted_and_used(fits: ModuleType) -> None:
    assert set(header_statements(fits)) == set(fits.TABLES)


def test_headers_hold_what_the_script_prints(fits: ModuleType) -> None:
    statements = header_statements(fits)
    for name in sorted(set(fits.TABLES) - SLOW_FITS):
        assert statements[name] == {fits.TABLES[name]().statement()}, name


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", sorted(SLOW_FITS))
def test_headers_hold_the_slow_fits(fits: ModuleType, name: str) -> None:
    assert header_statements(fits)[name] == {fits.TABLES[name]().statement()}


def test_headers_include_nothing_else() -> None:
    for path in sorted(ml.KERNELS.glob("math_*.h")):
        text = path.read_text()
        assert text.startswith("// SPDX-License-Identifier: Apache-2.0\n")
        for included in re.findall(r"#\s*include\s*(\S+)", text):
            assert re.fullmatch(r'"math_\w+\.h"', included), (path.name, included)
        assert text.count("\n") <= 600


# -- CUDA


def cuda_text() -> str:
    """math_cuda.h in one piece."""
    seen: set[str] = set()

    def inline(name: str) -> str:
        if name in seen:
            return ""
        seen.add(name)
        text = (ml.KERNELS / name).read_text().replace("#pragma once", "")
        return re.sub(r'#include "(math_\w+\.h)"', lambda m: inline(m[1]), text)

    return "#define HG_CUDA 1\n" + inline("math_cuda.h")


def cuda_kernels() -> str:
    text = ml.loops().replace('extern "C" void', 'extern "C" __global__ void')
    return text.replace("for (long i = 0; i < n; i++)", "long i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n)")


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90"])
def test_nvrtc_compiles_without_a_word(arch: str, fast: bool) -> None:
    nvrtc = pytest.importorskip("cupy.cuda").nvrtc
    for text in (cuda_text() + cuda_kernels(), cuda_text()):
        program = nvrtc.createProgram(text, "math.cu", (), ())
        try:
            nvrtc.compileProgram(program, [f"-arch={arch}", "-std=c++17", *(["-DHG_FAST_MATH"] if fast else [])])
            assert nvrtc.getProgramLog(program).strip("\0\n ") == ""
            assert nvrtc.getCUBIN(program)
        except nvrtc.NVRTCError:
            pytest.fail(nvrtc.getProgramLog(program)[:2000])
        finally:
            nvrtc.destroyProgram(program)


#: of each type the largest errors in ulp, and numbers whose products with 2 / pi are special: 64 bits in the middle are zero
CIRCULAR = {
    "float32": ({"sin": 1.7, "cos": 1.6, "tan": 3.8}, []),
    "float64": ({"sin": 1.5, "cos": 1.5, "tan": 3.0}, [4512395720392704 * 2.0**210]),
}


def near_right_angles(fits: ModuleType, dtype: str, more_bits: int = 0) -> list[tuple[float, float]]:
    """Of each power of two the multiple, by less than what a mantissa holds, that is nearest to one of a right angle.

    With the binary logarithm of how far it is, in right angles. These are denominators of continued fractions of 2 / pi
    times the power.
    """
    with localcontext() as context:
        context.prec = 390
        scaled = int(2 / fits.LONG_PI * 2**1250)
    bits, found = np.finfo(dtype).nmant + 1, []
    for power in range(1 - bits, np.finfo(dtype).maxexp - bits + 1):
        one = 1 << 1250 - min(power, 0)
        last, rest = one, scaled << max(power, 0)
        before, m = 0, 1
        while m < 1 << bits + more_bits:
            quotient, left = divmod(last, rest)
            before, m, last, rest = m, quotient * m + before, rest, left
        found.append((before * 2.0**power, math.log2(last) - math.log2(one)))
    return found


@pytest.mark.parametrize("dtype", CIRCULAR)
def test_circular_functions_on_cuda(dtype: str, cuda_driver, fits: ModuleType) -> None:
    """Under the harness's checks, with what is nearest to multiples of a right angle among the arguments."""
    from hybridgpu import gluon, gpu, nd

    ulp, special = CIRCULAR[dtype]
    largest = np.finfo(dtype).maxexp
    powers = np.linspace(0, largest, 500, endpoint=False).astype(int)
    large = np.ldexp(np.random.default_rng(3).uniform(1, 2, 500), powers)
    small = [2.0 ** (largest - 1), np.inf, np.nan, 0.0, np.finfo(dtype).tiny / 8, np.finfo(dtype).tiny]
    near = [x for x, _ in near_right_angles(fits, dtype)]
    x = np.concatenate([special, [2.0**17, 2.0**31], small, near, large, np.linspace(0, 100, 500)]).astype(dtype)
    x = np.concatenate([x, -x])
    net = gluon.nn.HybridLambda(lambda F, x: F.stack(F.sin(x), F.cos(x), F.tan(x)))
    net.hybridize()
    found = net(nd.array(x, ctx=gpu(0), dtype=dtype)).asnumpy()
    for y, name in zip(found, ulp, strict=True):
        with np.errstate(invalid="ignore"):  # NumPy's own of doubles are off by more than ours
            exact = getattr(np, name)(x.astype(np.longdouble))
        unit = np.spacing(np.maximum(abs(exact.astype(dtype)), np.finfo(dtype).tiny))
        off = abs(y - exact) / unit
        assert np.array_equal(np.isnan(y), np.isnan(exact)) and np.nanmax(off) <= ulp[name], (name, np.nanmax(off))
    for y in (found[0], found[2]):
        assert np.array_equal(np.signbit(y[x == 0]), np.signbit(x[x == 0]))


def test_how_near_doubles_come_to_right_angles(fits: ModuleType) -> None:
    """What math_cuda_trig.h relies on. Twice what is near half a right angle is near one, with a bit more."""
    assert min(near for x, near in near_right_angles(fits, "float64")) > -62
    assert min(near for x, near in near_right_angles(fits, "float64", 1)) > -63


@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_120"])
def test_circular_functions_need_no_memory(arch: str) -> None:
    """CUDA's own take 32 bytes a thread for floats, 40 for doubles."""
    checks = pytest.importorskip("cuda_on_cpu.static_checks")
    if not checks.has_nvrtc():
        pytest.skip("NVRTC is not installed")
    names = [(t, name) for t in ("float", "double") for name in ("sin", "cos", "tan")]
    kernel = 'extern "C" __global__ void {0}_{1}(const {0} *x, {0} *y) {{ *y = hg::{1}(*x); }}\n'
    text = cuda_text() + "".join(kernel.format(*n) for n in names)
    needs = checks.compile_report(text, arch, ["-default-device"]).kernels
    assert {name: (need.stack, need.spills) for name, need in needs.items()} == {"_".join(n): (0, 0) for n in names}


def cuda_on_the_host(folder: Path, fast: bool, *options: str) -> ml.Library:
    """math_cuda.h compiled as the harness compiles kernels: its CUDA names stand for libm's functions."""
    from cuda_on_cpu.ptx import replace_asm

    header = ml.HERE.parent / "cuda_on_cpu" / "include" / "cuda_on_cpu.h"
    if not header.exists():
        pytest.skip("the CUDA-on-CPU harness is not here")
    flags = ["-std=c++17", "-O1", "-fPIC", "-shared", "-ffp-contract=off", "-w", f"-I{header.parent}"]
    flags += ["-include", header.name, *(["-DHG_FAST_MATH"] if fast else []), *options]
    out = folder / f"cuda_{fast}{''.join(options)}.so"
    ml.compile_text(replace_asm(cuda_text()) + ml.loops(), out, flags)
    return ml.Library(ml.ctypes.CDLL(str(out)))


@pytest.mark.parametrize("fast", [False, True])
def test_cuda_text_runs_on_the_host(folder: Path, checker: ml.Checker, fast: bool) -> None:
    library = cuda_on_the_host(folder, fast)
    loose = {"tgamma": 8, "cbrt": 4, "rcbrt": 6, "softplus": 3, "sigmoid": 6, "tanh": 3, "tan": 3.8}
    loose |= {"erf": 64} if fast else {}
    for dtype in (np.float32, np.float64):
        for name in ml.UNARY:
            x = arguments(name, dtype, 1000)
            if name in ("digamma", "tgamma", "lgamma"):
                x = x[~(x < 0)]
            result = checker.compare(name, library(name, x), x)
            assert not result.wrong, (name, str(result))
            if fast and dtype is np.float32 and name in FAST_APPROXIMATED:  # whose errors are relative
                continue
            assert result.max_ulp <= loose.get(name, max(2.1, ULP[name][dtype is np.float64])), (name, str(result))
        for name in ml.BINARY:
            if name not in EXTREMA:  # of two zeros they may give either
                test_binary(library, checker, name, dtype)
        check_extrema(library, dtype)


EXTREMA = {"maximum": np.maximum, "minimum": np.minimum}


def check_extrema(library: ml.Library, dtype: type) -> None:
    x, y = (np.ravel(a) for a in np.meshgrid(*[arguments("maximum", dtype, 20)] * 2))
    for name, exact in EXTREMA.items():
        assert np.array_equal(library(name, x, y), exact(x, y), equal_nan=True), name


#: functions of float that are ours, made of approximate instructions; largest errors in ulp where these err as they may
APPROXIMATED = {"tanh": 3.0, "sigmoid": 6.0}


#: the same in fast mode: relative errors of results that are normal numbers
FAST_APPROXIMATED = {"exp": 2.0**-17.9, "sigmoid": 2.0**-17.9, "softplus": 2.0**-17.9, "tanh": 2.0**-15}


@pytest.mark.parametrize("name", FAST_APPROXIMATED)
def test_fast_functions_made_of_approximations(folder: Path, checker: ml.Checker, name: str) -> None:
    library = cuda_on_the_host(folder, True)
    result = checker.sweep(library, name, step=997)
    assert not result.wrong and FAST_APPROXIMATED[name] / 2 < result.max_relative <= FAST_APPROXIMATED[name], str(
        result
    )


@pytest.mark.parametrize("name", APPROXIMATED)
def test_functions_made_of_approximations(folder: Path, checker: ml.Checker, name: str) -> None:
    library = cuda_on_the_host(folder, False)
    result = checker.sweep(library, name, step=997)
    assert not result.wrong and result.max_ulp <= APPROXIMATED[name], str(result)
    x = np.array([0, -0.0, np.inf, -np.inf, 200, -200, np.nan], np.float32)
    wanted = {"tanh": [0, -0.0, 1, -1, 1, -1, np.nan], "sigmoid": [0.5, 0.5, 1, 0, 1, 0, np.nan]}[name]
    np.testing.assert_allclose(library(name, x), np.array(wanted, np.float32), rtol=3e-7, atol=0)
    y = library(name, arguments(name, np.float32, 20000))
    assert (abs(y[~np.isnan(y)]) <= 1).all()
    x = np.linspace(-103.9, -87.4, 3000).astype(np.float32)
    if name == "sigmoid":
        assert (library(name, x) > 0).all()  # subnormal


def test_extrema_of_older_processors(folder: Path) -> None:
    """They have no instruction that keeps NaN."""
    check_extrema(cuda_on_the_host(folder, False, "-D__CUDA_ARCH__=750"), np.float32)


def check_circular(folder: Path, checker: ml.Checker, step: int) -> None:
    """Every ``step``-th float: what of these functions is ours does not differ between GPUs."""
    library = cuda_on_the_host(folder, False)
    for name, ulp in CIRCULAR["float32"][0].items():
        result = checker.sweep(library, name, step=step)
        print(f"{name}: {result}")
        assert not result.wrong and result.max_ulp <= ulp, (name, str(result))


def test_circular_functions_of_floats_on_cuda(folder: Path, checker: ml.Checker) -> None:
    check_circular(folder, checker, 9973)


@pytest.mark.exhaustive
def test_circular_functions_of_every_float_on_cuda(folder: Path, checker: ml.Checker) -> None:
    check_circular(folder, checker, 1)
