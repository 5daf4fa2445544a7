// SPDX-License-Identifier: Apache-2.0
// The instructions that ptx.py turns inline PTX into: each an implementation of its own, from the
// description in the PTX manual, independent of any library's conversions.
//
// What 'approx' instructions leave open is decided by the operand's bits: rcp is up to 1 ulp off, ex2
// up to 2, in either direction, as the manual allows; results of tanh keep 11 significant bits. The
// others are accurate.
#pragma once

namespace coc {
namespace ptx {

// ------------------------------------------------------------------------------------- operands
// %n as the constraint letter has it. The sizes must agree, as NVRTC demands.
template <char C>
struct operand;
template <>
struct operand<'h'> {
  typedef unsigned short type;
};
template <>
struct operand<'r'> {
  typedef unsigned type;
};
template <>
struct operand<'l'> {
  typedef unsigned long long type;
};
template <>
struct operand<'f'> {
  typedef float type;
};
template <>
struct operand<'d'> {
  typedef double type;
};
template <>
struct operand<'n'> {
  typedef long long type;
};

template <char C, class T>
COC_INLINE typename operand<C>::type get(const T& v) {
  static_assert(sizeof(T) == sizeof(typename operand<C>::type),
                "operand size differs from its constraint");
  typename operand<C>::type r;
  __builtin_memcpy(&r, &v, sizeof r);
  return r;
}
template <class T>
COC_INLINE long long immediate(T v) {
  return (long long)v;
}
template <class V, class T>
COC_INLINE void set(T& to, V v) {
  static_assert(sizeof(T) == sizeof(V), "operand size differs from its constraint or instruction");
  __builtin_memcpy(&to, &v, sizeof v);
}
template <class To, class From>
COC_INLINE To bits(From v) {
  static_assert(sizeof(To) == sizeof(From), "bits of another size");
  To r;
  __builtin_memcpy(&r, &v, sizeof r);
  return r;
}

// ---------------------------------------------------------------------------------- conversions
static const unsigned short CANONICAL_NAN_16 = 0x7fff;

static inline float cvt_f32_f16(unsigned short h) {
  const unsigned sign = (unsigned)(h & 0x8000u) << 16, exponent = h >> 10 & 31u,
                 mantissa = h & 1023u;
  if (exponent == 31) return bits<float>(mantissa ? 0x7fffffffu : sign | 0x7f800000u);
  if (exponent) return bits<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  const float magnitude = (float)mantissa * 5.9604644775390625e-08f;  // in units of 2**-24, exact
  return sign ? -magnitude : magnitude;
}

// Rounds to nearest even at bit 'drop' of a magnitude.
static inline unsigned round_off(unsigned magnitude, unsigned drop) {
  const unsigned half = 1u << (drop - 1), rest = magnitude & ((1u << drop) - 1);
  const unsigned kept = magnitude >> drop;
  return kept + (rest > half || (rest == half && kept & 1u));
}

static inline unsigned short cvt_rn_f16_f32(float x) {
  const unsigned u = bits<unsigned>(x), sign = u >> 16 & 0x8000u, magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return CANONICAL_NAN_16;
  const int exponent = (int)(magnitude >> 23) - 127;
  if (exponent >= 16) return (unsigned short)(sign | 0x7c00u);
  if (exponent >= -14) {  // a carry out of the mantissa goes on into the exponent, up to infinity
    return (unsigned short)(sign | round_off(magnitude - (112u << 23), 13));
  }
  if (exponent < -25) return (unsigned short)sign;
  const unsigned mantissa = (magnitude & 0x7fffffu) | 0x800000u;  // subnormal: units of 2**-24
  return (unsigned short)(sign | round_off(mantissa, (unsigned)(-1 - exponent)));
}

static inline float cvt_f32_bf16(unsigned short h) { return bits<float>((unsigned)h << 16); }

static inline unsigned short cvt_rn_bf16_f32(float x) {
  const unsigned u = bits<unsigned>(x), magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return CANONICAL_NAN_16;
  return (unsigned short)((u >> 16 & 0x8000u) | round_off(magnitude, 16));
}

// The first operand becomes the upper half.
static inline unsigned cvt_rn_f16x2_f32(float high, float low) {
  return (unsigned)cvt_rn_f16_f32(high) << 16 | cvt_rn_f16_f32(low);
}
static inline unsigned cvt_rn_bf16x2_f32(float high, float low) {
  return (unsigned)cvt_rn_bf16_f32(high) << 16 | cvt_rn_bf16_f32(low);
}

// ----------------------------------------------------------------------------------- arithmetic
// .ftz: subnormal operands and results become zeros of their sign.
static inline float flush(float x) {
  const unsigned u = bits<unsigned>(x);
  return u & 0x7f800000u ? x : bits<float>(u & 0x80000000u);
}

#define COC_PTX_UNARY(name, expression)     \
  static inline float name##_f32(float a) { \
    const double x = a;                     \
    return (float)(expression);             \
  }                                         \
  static inline float name##_ftz_f32(float a) { return flush(name##_f32(flush(a))); }

// A float no further from 'exact' than 'most' ulp, one of those that are, chosen by the bits of 'a'.
static inline float within_ulps(double exact, float a, int most) {
  const float r = (float)exact;
  const unsigned u = bits<unsigned>(r), magnitude = u & 0x7fffffffu;
  if (magnitude <= (unsigned)most || magnitude >= 0x7f800000u) return r;
  const double unit = ldexp(1.0, (magnitude >> 23 ? (int)(magnitude >> 23) : 1) - 150);
  const unsigned hash = bits<unsigned>(a) * 2654435761u;
  for (int off = (int)(hash >> 16) % (2 * most + 1) - most; off; off -= off > 0 ? 1 : -1) {
    const float near = bits<float>(u + (unsigned)off);
    if (!(fabs((double)near - exact) > most * unit)) return near;
  }
  return r;
}

COC_PTX_UNARY(ex2_approx, within_ulps(exp2(x), a, 2))
COC_PTX_UNARY(rcp_approx, within_ulps(1.0 / x, a, 1))
COC_PTX_UNARY(lg2_approx, log2(x))
COC_PTX_UNARY(rcp_rn, 1.0 / x)
COC_PTX_UNARY(rsqrt_approx, 1.0 / sqrt(x))
COC_PTX_UNARY(sqrt_approx, sqrt(x))
COC_PTX_UNARY(sqrt_rn, sqrt(x))
COC_PTX_UNARY(sin_approx, sin(x))
COC_PTX_UNARY(cos_approx, cos(x))

// Maximum relative error 2**-10.987 in the manual; rounding to 11 bits makes one of 2**-11.
static inline float tanh_approx_f32(float a) {
  const unsigned u = bits<unsigned>((float)tanh((double)a)), magnitude = u & 0x7fffffffu;
  if (magnitude >= 0x7f800000u || magnitude < 0x00800000u) return bits<float>(u);
  return bits<float>((u & 0x80000000u) | round_off(magnitude, 13) << 13);
}

// NaN, if either is; -0 is less than +0.
static inline float max_nan_f32(float a, float b) {
  if (a != a || b != b) return bits<float>(0x7fffffffu);
  return a > b || (a == b && !__builtin_signbitf(a)) ? a : b;
}
static inline float min_nan_f32(float a, float b) {
  if (a != a || b != b) return bits<float>(0x7fffffffu);
  return a < b || (a == b && __builtin_signbitf(a)) ? a : b;
}

static inline float fma_rn_f32(float a, float b, float c) { return fmaf(a, b, c); }
static inline float fma_rn_ftz_f32(float a, float b, float c) {
  return flush(fmaf(flush(a), flush(b), flush(c)));
}
static inline double fma_rn_f64(double a, double b, double c) { return fma(a, b, c); }

// ------------------------------------------------------------------------------- data movement
static inline unsigned pack_b32(unsigned short low, unsigned short high) {
  return (unsigned)high << 16 | low;
}
static inline unsigned long long pack_b64(unsigned low, unsigned high) {
  return (unsigned long long)high << 32 | low;
}
static inline unsigned short half_of_b32(unsigned v, int k) {
  return (unsigned short)(v >> 16 * k);
}
static inline unsigned half_of_b64(unsigned long long v, int k) { return (unsigned)(v >> 32 * k); }

// One access of BYTES bytes.
template <unsigned BYTES>
COC_UNTRACED static void load(void* to, unsigned long long from, int read_only) {
  if (COC_CHECKED) coc_ptx_access((void*)from, BYTES, 0, read_only, COC_RETURN);
  __builtin_memcpy(to, (const void*)from, BYTES);
}
template <unsigned BYTES>
COC_UNTRACED static void store(unsigned long long to, const void* from) {
  if (COC_CHECKED) coc_ptx_access((void*)to, BYTES, 1, 0, COC_RETURN);
  __builtin_memcpy((void*)to, from, BYTES);
}
// Accesses with an order and a scope (0 a block's, 1 a cluster's, 2 the GPU's, 3 the system's).
template <class T>
COC_UNTRACED static T sync_load(unsigned long long at, int acquires, int scope) {
  coc_sync_access((void*)at, sizeof(T), 1, 0, acquires, 0, scope, COC_RETURN);
  return *(volatile const T*)at;
}
template <class T>
COC_UNTRACED static void sync_store(unsigned long long at, T v, int releases, int scope) {
  coc_sync_access((void*)at, sizeof(T), 0, 1, 0, releases, scope, COC_RETURN);
  *(volatile T*)at = v;
}
#define COC_PTX_ATOMIC(name, expression)                                                        \
  template <class T>                                                                            \
  COC_UNTRACED static T atom_##name(unsigned long long at, T v, int acquires, int releases, int scope) { \
    coc_sync_access((void*)at, sizeof(T), 1, 1, acquires, releases, scope, COC_RETURN);         \
    const T old = *(volatile const T*)at;                                                       \
    *(volatile T*)at = (T)(expression);                                                         \
    return old;                                                                                 \
  }
COC_PTX_ATOMIC(add, old + v)
COC_PTX_ATOMIC(exch, v)
COC_PTX_ATOMIC(min, v < old ? v : old)
COC_PTX_ATOMIC(max, v > old ? v : old)
COC_PTX_ATOMIC(and, old& v)
COC_PTX_ATOMIC(or, old | v)
COC_PTX_ATOMIC(xor, old ^ v)
COC_INLINE unsigned long long shared_address(unsigned long long at) {
  return (unsigned long long)coc_shared_pointer((unsigned)at);
}
COC_UNTRACED static void async_copy(unsigned to, unsigned long long from, unsigned bytes,
                                    unsigned source_bytes) {
  const unsigned zero_fill = source_bytes < bytes ? bytes - source_bytes : 0;
  coc_async_copy(coc_shared_pointer(to), (const void*)from, bytes, zero_fill, COC_RETURN);
}

COC_UNTRACED static void prefetch(unsigned long long at) {
  coc_prefetch((const void*)at, COC_RETURN);
}

// ---------------------------------------------------------------------------- special registers
static inline unsigned lane() {
  const uint3 t = threadIdx;
  const dim3 n = blockDim;
  return (t.x + n.x * (t.y + n.y * t.z)) & 31u;
}
static inline unsigned warp_of_block() {
  const uint3 t = threadIdx;
  const dim3 n = blockDim;
  return (t.x + n.x * (t.y + n.y * t.z)) / 32u;
}
static inline unsigned block_linear() {
  return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
}
static inline unsigned lanemask_eq() { return 1u << lane(); }
static inline unsigned lanemask_lt() { return (1u << lane()) - 1u; }
static inline unsigned lanemask_le() { return lanemask_lt() | lanemask_eq(); }
static inline unsigned lanemask_gt() { return ~lanemask_le(); }
static inline unsigned lanemask_ge() { return ~lanemask_lt(); }
static inline unsigned cluster_blocks() {
  const coc_triple c = coc_cluster_dim();
  return c.x * c.y * c.z;
}
static const unsigned SM_COUNT = 132;  // blocks go round them

}  // namespace ptx
}  // namespace coc
