# SPDX-License-Identifier: Apache-2.0
"""kernels/math_cpu.h: errors, special values, vectorisation, and where the coefficients come from.

`pytest -m exhaustive` goes over all 2^32 float arguments of the functions that matter most (minutes).
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import math_library as ml  # noqa: E402  (of this folder)
from math_accuracy import (  # noqa: E402
    FAST,
    FAST_DOMAIN,
    FAST_ERROR,
    FAST_ERROR_WITHOUT_FMA,
    ULP,
    VECTORS,
    arguments,
    check_binary,
    check_unary,
    cpu_flags,
    module_at,
)

pytestmark = pytest.mark.skipif(ml.CXX is None, reason="no C++ compiler")


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
    check_binary(library, checker, name, dtype)


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


def test_constant_operand_of_extrema(folder: Path) -> None:
    """Against a constant one instruction is left, and NaN still wins."""
    text = '#include "math_cpu.h"\n' + "".join(
        f'extern "C" void {short}_{name}(const {dtype} *__restrict x, {dtype} *__restrict out, long n) '
        f"{{ for (long i = 0; i < n; i++) out[i] = hg::{call}; }}\n"
        for short, dtype in (("f32", "float"), ("f64", "double"))
        for name, call in (("floor", f"maximum(x[i], ({dtype})0)"), ("ceil", f"minimum(x[i], ({dtype})6)"))
    )
    out = folder / "constant.so"
    ml.compile_text(text, out, [*ml.FLAGS, "-march=native"])
    library = ml.Library(ml.ctypes.CDLL(str(out)))
    for dtype in (np.float32, np.float64):
        x = arguments("relu", dtype, 1000)
        assert np.array_equal(library("floor", x), np.maximum(x, dtype(0)), equal_nan=True)
        assert np.array_equal(library("ceil", x), np.minimum(x, dtype(6)), equal_nan=True)


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


@pytest.mark.long_table
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
            check_binary(library, checker, name, dtype)


def gcc_version() -> int:
    text = subprocess.run([ml.CXX or "c++", "--version"], capture_output=True, text=True).stdout
    found = re.search(r"\) (\d+)\.", text)
    return int(found[1]) if found and "clang" not in text else 0


@pytest.mark.long_table
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
