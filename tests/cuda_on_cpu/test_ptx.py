# SPDX-License-Identifier: Apache-2.0
"""Inline PTX: every supported instruction against NumPy, every other a CompileError."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

from . import Buffer, CompileError, Misaligned, OutOfBounds, Race, Report, UninitialisedRead
from .ptx import replace_asm, supported_instructions
from .support import launch, normal, out

F32_EDGES = np.array(
    [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1.1754944e-38, 3.4e38, 65504.0]
    + [
        65519.996,
        65520.0,
        5.9604645e-08,
        2.9802322e-08,
        2.9802326e-08,
        6.097555e-05,
        6.1035156e-05,
    ],
    np.float32,
)


def one_instruction(asm: str, x: np.ndarray, to: type) -> np.ndarray:
    """Applies 'asm', which computes o from v, to every element."""
    text = f"""
    typedef {_ctype(x.dtype)} From;
    typedef {_ctype(np.dtype(to))} To;
    __global__ void k(const From* x, To* y, int n) {{
      for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {{
        From v = x[i];
        To o;
        {asm}
        y[i] = o;
      }}
    }}"""
    result = Buffer.empty(x.shape, to, name="y")
    launch(text, Buffer(x, name="x"), result, np.int32(x.size), grid=4, block=256)
    return result.get()


def _ctype(dtype: np.dtype) -> str:
    return {"uint16": "unsigned short", "uint32": "unsigned", "float32": "float"}[dtype.name]


def floats_around_halves() -> np.ndarray:
    """Every half, the midpoints between neighbours, and the floats next to those."""
    halves = np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float32)
    finite = np.sort(halves[np.isfinite(halves)])
    middles = ((finite[1:].astype(np.float64) + finite[:-1]) / 2).astype(np.float32)
    near = [np.nextafter(middles, np.float32(s) * np.inf) for s in (-1, 1)]
    random = np.random.default_rng(1).integers(0, 1 << 32, 200_000, dtype=np.uint64)
    patterns = random.astype(np.uint32).view(np.float32)
    return np.concatenate([halves, middles, *near, F32_EDGES, patterns])


def test_half_to_float_for_all_values():
    x = np.arange(65536, dtype=np.uint16)
    got = one_instruction('asm("cvt.f32.f16 %0, %1;" : "=f"(o) : "h"(v));', x, np.float32)
    np.testing.assert_array_equal(got, x.view(np.float16).astype(np.float32))
    assert (np.signbit(got) == np.signbit(x.view(np.float16)))[~np.isnan(got)].all()


def test_float_to_half_with_ties_subnormals_overflow_and_nan():
    x = floats_around_halves()
    got = one_instruction('asm("cvt.rn.f16.f32 %0, %1;" : "=h"(o) : "f"(v));', x, np.uint16)
    with np.errstate(over="ignore"):
        expected = x.astype(np.float16)
    numbers = ~np.isnan(x)
    np.testing.assert_array_equal(got[numbers], expected[numbers].view(np.uint16))
    assert (got[~numbers] == 0x7FFF).all()


def test_bfloat16_both_ways():
    halves = np.arange(65536, dtype=np.uint16)
    wide = one_instruction('asm("cvt.f32.bf16 %0, %1;" : "=f"(o) : "h"(v));', halves, np.float32)
    np.testing.assert_array_equal(wide.view(np.uint32), halves.astype(np.uint32) << 16)
    x = np.concatenate([floats_around_halves(), wide[np.isfinite(wide)] * np.float32(1 + 2**-8)])
    got = one_instruction('asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(o) : "f"(v));', x, np.uint16)
    bits = x.view(np.uint32).astype(np.uint64)
    expected = ((bits + 0x7FFF + (bits >> np.uint64(16) & np.uint64(1))) >> np.uint64(16)).astype(np.uint16)
    numbers = ~np.isnan(x)
    np.testing.assert_array_equal(got[numbers], expected[numbers])
    assert (got[~numbers] == 0x7FFF).all()


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_packed_conversion_puts_the_first_operand_high(kind):
    x = normal(512)
    pair = f'asm("cvt.rn.{kind}x2.f32 %0, %1, %2;" : "=r"(o) : "f"(v), "f"(1.0f));'
    single = f'asm("cvt.rn.{kind}.f32 %0, %1;" : "=h"(o) : "f"(v));'
    both = one_instruction(pair, x, np.uint32)
    np.testing.assert_array_equal(both >> 16, one_instruction(single, x, np.uint16))
    assert (both & 0xFFFF == (0x3C00 if kind == "f16" else 0x3F80)).all()


FUNCTIONS = {
    "ex2.approx": np.exp2,
    "lg2.approx": np.log2,
    "rcp.approx": lambda x: 1 / x,
    "rcp.rn": lambda x: 1 / x,
    "rsqrt.approx": lambda x: 1 / np.sqrt(x),
    "sqrt.approx": np.sqrt,
    "sqrt.rn": np.sqrt,
    "sin.approx": np.sin,
    "cos.approx": np.cos,
}
SMALLEST_NORMAL = np.float32(2.0**-126)


def flush(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < SMALLEST_NORMAL, np.copysign(np.float32(0), x), x)


@pytest.mark.parametrize("ftz", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_unary_functions(name, ftz):
    x = np.concatenate([normal(4096) * 20, F32_EDGES, np.float32(2) ** np.arange(-149, 128)])
    x = x.astype(np.float32)
    suffix = ".ftz" if ftz else ""
    got = one_instruction(f'asm("{name}{suffix}.f32 %0, %1;" : "=f"(o) : "f"(v));', x, np.float32)
    with np.errstate(all="ignore"):
        expected = FUNCTIONS[name]((flush(x) if ftz else x).astype(np.float64)).astype(np.float32)
    if ftz:
        expected = flush(expected)
        assert (np.abs(got[got != 0]) >= SMALLEST_NORMAL)[~np.isnan(got[got != 0])].all()
    np.testing.assert_allclose(got, expected, rtol=3e-7, atol=0 if ftz else 3e-45)
    np.testing.assert_array_equal(np.isinf(got), np.isinf(expected))


@pytest.mark.parametrize(("name", "most"), [("rcp", 1), ("ex2", 2)])
def test_approximations_are_as_inexact_as_documented(name, most):
    x = np.random.default_rng(1).uniform(-20, 20, 20_000).astype(np.float32)
    got = one_instruction(f'asm("{name}.approx.ftz.f32 %0, %1;" : "=f"(o) : "f"(v));', x, np.float32)
    exact = FUNCTIONS[f"{name}.approx"](x.astype(np.float64))
    error = (got - exact) / np.spacing(np.abs(exact).astype(np.float32))
    assert 0.9 * most < error.max() <= most and 0.9 * most < -error.min() <= most


@pytest.mark.parametrize(("name", "exact"), [("max.NaN.f32", np.maximum), ("min.NaN.f32", np.minimum)])
def test_extrema_keep_nan(name, exact):
    x = np.concatenate([normal(256), F32_EDGES, np.float32([0.0, -0.0, np.nan])])
    for other in ("0.5f", "0.0f", "-0.0f", "__int_as_float(0x7fc00000)", "__int_as_float(0xff800000)"):
        value = {"0.5f": 0.5, "0.0f": 0.0, "-0.0f": -0.0}.get(other, np.nan if "7fc" in other else -np.inf)
        for first, second in (("v", other), (other, "v")):
            text = f'asm("{name} %0, %1, %2;" : "=f"(o) : "f"({first}), "f"({second}));'
            got = one_instruction(text, x, np.float32)
            want = exact(x, np.float32(value))
            np.testing.assert_array_equal(got, want)
            zero = (x == 0) & (value == 0)  # -0 is the smaller one
            signs = (np.signbit(x) & np.signbit(value)) if "max" in name else (np.signbit(x) | np.signbit(value))
            np.testing.assert_array_equal(np.signbit(got)[zero], signs[zero])


def test_tanh_is_as_inexact_as_documented():
    x = np.concatenate([normal(20_000), F32_EDGES])
    got = one_instruction('asm("tanh.approx.f32 %0, %1;" : "=f"(o) : "f"(v));', x, np.float32)
    exact = np.tanh(x.astype(np.float64))
    numbers = np.isfinite(exact) & (np.abs(exact) > 1e-30)
    error = np.abs(got[numbers] / exact[numbers] - 1)
    assert 2**-12 < error.max() <= 2**-10.987
    assert (np.abs(got[np.isfinite(got)]) <= 1).all()
    assert np.isnan(got[np.isnan(x)]).all()


def test_fused_multiply_add():
    x = normal(256)
    text = 'asm("fma.rn.f32 %0, %1, %1, %2;" : "=f"(o) : "f"(v), "f"(1.0f));'
    expected = (x.astype(np.float64) ** 2 + 1).astype(np.float32)
    np.testing.assert_array_equal(one_instruction(text, x, np.float32), expected)
    text = 'o = 1.0f; asm("fma.rn.ftz.f32 %0, %1, 0f40000000, %0;" : "+f"(o) : "f"(v));'
    np.testing.assert_allclose(one_instruction(text, x, np.float32), x * 2 + 1, rtol=1e-6, atol=1e-6)


def test_fused_multiply_add_of_doubles():
    text = """__global__ void k(double* o) {
      asm("fma.rn.f64 %0, %1, %1, %2;" : "=d"(o[0]) : "d"(1.0 + 0x1p-52), "d"(-1.0));
    }"""
    result = out(1, np.float64)
    launch(text, result, block=1)
    assert result.get()[0] == 2.0**-51 + 2.0**-104


def test_several_instructions_packing_and_immediates():
    x = np.arange(64, dtype=np.uint32) * 0x01010101
    swap = """unsigned short a, b;
      asm volatile("mov.b32 {%0, %1}, %2; // apart\\n\\t" : "=h"(a), "=h"(b) : "r"(v));
      asm("mov.b32 %0, {%1, %2};" "mov.b32 %0, %0;" : "=&r"(o) : "h"(b), "h"(a));
      asm volatile("" ::: "memory");"""
    got = one_instruction(swap, x, np.uint32)
    np.testing.assert_array_equal(got, x >> 16 | x << 16)
    assert (one_instruction('asm("mov.u32 %0, 7;" : "=r"(o));', x, np.uint32) == 7).all()
    assert (one_instruction('asm("mov.u32 %0, %1;" : "=r"(o) : "n"(3 + 4));', x, np.uint32) == 7).all()


def test_special_registers():
    names = ["laneid", "warpid", "tid.y", "ctaid.x", "ntid.x", "nctaid.x", "lanemask_lt", "smid"]
    reads = "".join(f'asm("mov.u32 %0, %%{n};" : "=r"(r[{i}]));' for i, n in enumerate(names))
    text = f"""__global__ void k(unsigned* o) {{
      unsigned r[8];
      {reads}
      const int t = threadIdx.x + 16 * threadIdx.y + 64 * blockIdx.x;
      for (int i = 0; i < 8; i++) o[t * 8 + i] = r[i];
    }}"""
    result = Buffer.empty((128, 8), np.uint32)
    launch(text, result, grid=2, block=(16, 4))
    t = np.arange(64)
    got = result.get()[64:]
    assert (got[:, 0] == t % 32).all()
    assert (got[:, 1] == t // 32).all()
    assert (got[:, 2] == t // 16).all()
    assert got[0, 3:6].tolist() == [1, 16, 2]
    assert (got[:, 6] == (np.uint64(1) << (t % 32).astype(np.uint64)) - 1).all()


VECTORS = [
    ("ld.global.nc.v4.f32", "st.global.v4.f32", 16),
    ("ld.global.L1::no_allocate.v4.f32", "st.global.L1::no_allocate.v4.f32", 16),
    ("ld.global.nc.L1::no_allocate.L2::256B.v4.f32", "st.global.cs.v4.f32", 16),
    ("ld.global.L1::evict_last.v4.f32", "st.global.v4.f32", 16),
]


def run_vector(load: str, store: str, n: int = 128, offset: int = 0) -> tuple[Report, Buffer]:
    text = f"""__global__ void k(const float* x, float* y) {{
      float a, b, c, d;
      asm volatile("{load} {{%0, %1, %2, %3}}, [%4];"
                   : "=f"(a), "=f"(b), "=f"(c), "=f"(d) : "l"(x + threadIdx.x * 4));
      asm volatile("{store} [%0], {{%1, %2, %3, %4}};"
                   :: "l"(y + threadIdx.x * 4), "f"(d), "f"(c), "f"(b), "f"(a) : "memory");
    }}"""
    x, y = Buffer(np.arange(n, dtype=np.float32), name="x"), Buffer.empty(128, np.float32, name="y")
    return launch(text, x.offset(offset), y), y


@pytest.mark.parametrize("load, store, size", VECTORS)
def test_vector_loads_and_stores(load, store, size):
    report, y = run_vector(load, store)
    assert (report.wide_loads, report.wide_stores, report.global_read) == (32, 32, 512)
    assert (y.get().reshape(-1, 4) == np.arange(128).reshape(-1, 4)[:, ::-1]).all()


@pytest.mark.parametrize("load, store, size", VECTORS)
def test_vector_accesses_are_checked(load, store, size):
    with pytest.raises(OutOfBounds, match="after the end of buffer 'x'"):
        run_vector(load, store, n=124)
    with pytest.raises(Misaligned, match="off by 4"):
        run_vector(load, store, n=132, offset=4)


def test_loads_and_stores_of_every_width():
    text = """__global__ void k(const char* x, char* y) {
      unsigned short h; unsigned r; unsigned long long l; double d; float f;
      asm("ld.global.u8 %0, [%1];" : "=h"(h) : "l"(x));
      asm("st.global.u8 [%0], %1;" :: "l"(y), "h"(h));
      asm("ld.global.s8 %0, [%1];" : "=h"(h) : "l"(x + 1));
      asm("st.global.u16 [%0], %1;" :: "l"(y + 2), "h"(h));
      asm("ld.global.nc.b32 %0, [%1+4];" : "=r"(r) : "l"(x));
      asm("st.global.b32 [%0+4], %1;" :: "l"(y), "r"(r));
      asm("ld.global.u64 %0, [%1];" : "=l"(l) : "l"(x + 8));
      asm("st.global.u64 [%0 + 8], %1;" :: "l"(y), "l"(l));
      asm("ld.global.f64 %0, [%1+16];" : "=d"(d) : "l"(x));
      asm("st.global.f64 [%0+16], %1;" :: "l"(y), "d"(d));
      asm("ld.global.f32 %0, [%1+24];" : "=f"(f) : "l"(x));
      asm("st.global.f32 [%0+24], %1;" :: "l"(y), "f"(f));
    }"""
    x = np.arange(0xF0, 0xF0 + 28).astype(np.uint8)
    y = Buffer(np.zeros(28, np.uint8), name="y")
    launch(text, Buffer(x, name="x"), y, block=1)
    expected = x.copy()
    expected[1:4] = [0, 0xF1, 0xFF]  # sign-extended
    assert y.get().tolist() == expected.tolist()


def test_shared_addresses():
    text = """__global__ void k(float* o) {
      __shared__ float s[64];
      extern __shared__ float t[];
      unsigned at = __cvta_generic_to_shared(&s[threadIdx.x]);
      unsigned from = __cvta_generic_to_shared(&s[31 - threadIdx.x]);
      unsigned first = __cvta_generic_to_shared(t), mine = first + 4 * threadIdx.x;
      asm volatile("st.shared.f32 [%0], %1;" :: "r"(at), "f"((float)threadIdx.x));
      asm volatile("st.shared.f32 [%0], %1;" :: "r"(mine), "f"(1.f));
      __syncthreads();
      float v, w;
      asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(from));
      asm volatile("ld.shared.f32 %0, [%1];" : "=f"(w) : "r"(first));
      o[threadIdx.x] = v + w;
    }"""
    result = out(32)
    launch(text, result, shared_mem=128)
    assert (result.get() == 32 - np.arange(32)).all()
    with pytest.raises((Race, UninitialisedRead)):
        launch(text.replace("__syncthreads();", ""), out(32), shared_mem=128)
    with pytest.raises(UninitialisedRead):
        launch(text.replace("31 - threadIdx.x", "32 + threadIdx.x"), out(32), shared_mem=128)


UNSUPPORTED = {
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 %0, %0, %0, %0;": "mma.sync.aligned",
    "{ .reg .pred p; setp.ne.u32 p, %0, 0; }": "reg .pred",
    "tanh.approx.bf16 %0, %0;": "'tanh.approx.bf16' is not supported",
    "mov.u32 %0, %%envreg3;": "special register 'envreg3'",
    "cvt.f32.f16 %0;": "takes 2 operands",
    "mov.u32 %0, %7;": "'%7' is no operand",
    "ld.global.v3.b32 {%0, %0, %0}, [%0];": "not supported",
    "cvt.f32.f16 %0, %0;": "%0 must have constraint 'f'",
}


@pytest.mark.parametrize("asm", UNSUPPORTED)
def test_what_is_not_supported_is_named(asm):
    with pytest.raises(CompileError) as caught:
        launch(
            f'__global__ void k(unsigned* o) {{ unsigned v; asm("{asm}" : "=r"(v)); o[0] = v; }}',
            out(),
        )
    assert UNSUPPORTED[asm] in str(caught.value)


def test_operand_sizes_must_fit_their_constraints():
    with pytest.raises(CompileError, match="operand size differs"):
        launch(
            '__global__ void k(float* o) { int h; asm("cvt.f32.f16 %0, %1;" : "=f"(*o) : "h"(h));}',
            out(),
        )


def test_line_numbers_survive_an_asm_statement_of_many_lines():
    text = """__global__ void k(float* o) {
      float v;
      asm volatile("ex2.approx.f32 %0, %1;"
                   : "=f"(v)

                   : "f"(1.0f));
      o[99] = v;
    }"""
    with pytest.raises(OutOfBounds) as caught:
        launch(text, out())
    assert caught.value.line == 7


def test_asm_from_a_macro():
    text = """
    #define CVT(o, v) asm("cvt.f32.f16 %0, %1;" : "=f"(o) : "h"((unsigned short)(v)))
    __global__ void k(float* o) {
      float a;
      CVT(a, 0x3c00 + threadIdx.x * 0);
      CVT(o[threadIdx.x], 0x4000);
      o[threadIdx.x] += a;
    }"""
    result = out(32)
    launch(text, result)
    assert (result.get() == 3).all()


def test_every_instruction_is_tested_here():
    own = pathlib.Path(__file__).read_text()
    names = [n for n in supported_instructions() if not n.startswith(tuple(FUNCTIONS))]
    templated = {"cvt.rn.f16x2.f32", "cvt.rn.bf16x2.f32"}
    assert [n for n in names if n not in own and n not in templated] == []


def test_text_without_asm_is_left_alone():
    text = "int asmodeus = 1; // asm\n"
    assert replace_asm("int asmodeus = 1;\n") == "int asmodeus = 1;\n"
    assert "asmodeus" in text
