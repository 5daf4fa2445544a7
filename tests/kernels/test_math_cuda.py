# SPDX-License-Identifier: Apache-2.0
"""kernels/math_cuda.h: compiled by NVRTC, executed as CUDA, and compiled for the host as the harness compiles kernels."""

from __future__ import annotations

import math
import re
import sys
from decimal import localcontext
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import math_library as ml  # noqa: E402  (of this folder)
from math_accuracy import (  # noqa: E402
    ULP,
    arguments,
    check_binary,
)

pytestmark = pytest.mark.skipif(ml.CXX is None, reason="no C++ compiler")


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


@pytest.mark.long_table
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
                check_binary(library, checker, name, dtype)
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


@pytest.mark.long_table
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
