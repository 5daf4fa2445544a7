// SPDX-License-Identifier: Apache-2.0
// Integer and bit intrinsics, conversions between integers and floating point.
#pragma once

static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline unsigned __brev(unsigned x) {
  unsigned r = 0;
  for (int i = 0; i < 32; i++) r |= (x >> i & 1u) << (31 - i);
  return r;
}
static inline unsigned __umulhi(unsigned a, unsigned b) {
  return (unsigned)(((unsigned long long)a * b) >> 32);
}
static inline int __mulhi(int a, int b) { return (int)(((long long)a * b) >> 32); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)(((unsigned __int128)a * b) >> 64);
}
static inline long long __mul64hi(long long a, long long b) {
  return (long long)(((__int128)a * b) >> 64);
}
static inline int __mul24(int a, int b) {
  const int x = (int)((unsigned)a << 8) >> 8, y = (int)((unsigned)b << 8) >> 8;
  return (int)((unsigned)x * (unsigned)y);
}
static inline unsigned __umul24(unsigned a, unsigned b) {
  return (a & 0xffffffu) * (b & 0xffffffu);
}
static inline unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned s) {
  s &= 31;
  return s ? hi << s | lo >> (32 - s) : hi;
}
static inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned s) {
  s &= 31;
  return s ? lo >> s | hi << (32 - s) : lo;
}
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned s) {
  const unsigned long long v = (unsigned long long)b << 32 | a;
  unsigned r = 0;
  for (int i = 0; i < 4; i++) r |= (unsigned)(v >> ((s >> 4 * i & 7) * 8) & 0xff) << 8 * i;
  return r;
}
static inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 4; i++) c += (int)(signed char)(a >> 8 * i) * (int)(signed char)(b >> 8 * i);
  return c;
}

static inline int __float_as_int(float f) {
  int i;
  __builtin_memcpy(&i, &f, 4);
  return i;
}
static inline unsigned __float_as_uint(float f) {
  unsigned i;
  __builtin_memcpy(&i, &f, 4);
  return i;
}
static inline float __int_as_float(int i) {
  float f;
  __builtin_memcpy(&f, &i, 4);
  return f;
}
static inline float __uint_as_float(unsigned i) {
  float f;
  __builtin_memcpy(&f, &i, 4);
  return f;
}
static inline long long __double_as_longlong(double f) {
  long long i;
  __builtin_memcpy(&i, &f, 8);
  return i;
}
static inline double __longlong_as_double(long long i) {
  double f;
  __builtin_memcpy(&f, &i, 8);
  return f;
}
static inline double __hiloint2double(int h, int l) {
  return __longlong_as_double((long long)((unsigned long long)(unsigned)h << 32 | (unsigned)l));
}
static inline int __double2hiint(double x) { return (int)(__double_as_longlong(x) >> 32); }
static inline int __double2loint(double x) { return (int)__double_as_longlong(x); }

// Floating point to integer saturates on the GPU, and NaN gives 0.
namespace coc {
template <class To, class From>
COC_INLINE To saturate(From x) {
  constexpr bool is_signed = To(-1) < To(0);
  constexpr int bits = sizeof(To) * 8 - is_signed;
  constexpr To most = To(~(typename std::make_unsigned<To>::type)0 >> is_signed);
  const From limit = bits == 64 ? (From)18446744073709551616.0 : (From)(1ull << (bits & 63));
  if (!(x == x)) return 0;
  if (x >= limit) return most;
  if (is_signed && x <= -limit) return To(-most - 1);
  if (!is_signed && x <= 0) return 0;
  return (To)x;
}
}  // namespace coc
#define COC_FLOAT_TO(name, From, To, suffix)                                             \
  static inline To name##_rz(From x) { return coc::saturate<To>(x); }                    \
  static inline To name##_rn(From x) { return coc::saturate<To>(nearbyint##suffix(x)); } \
  static inline To name##_rd(From x) { return coc::saturate<To>(floor##suffix(x)); }     \
  static inline To name##_ru(From x) { return coc::saturate<To>(ceil##suffix(x)); }
COC_FLOAT_TO(__float2int, float, int, f)
COC_FLOAT_TO(__float2uint, float, unsigned, f)
COC_FLOAT_TO(__float2ll, float, long long, f)
COC_FLOAT_TO(__float2ull, float, unsigned long long, f)
COC_FLOAT_TO(__double2int, double, int, )
COC_FLOAT_TO(__double2uint, double, unsigned, )
COC_FLOAT_TO(__double2ll, double, long long, )
COC_FLOAT_TO(__double2ull, double, unsigned long long, )
static inline float __int2float_rn(int x) { return (float)x; }
static inline float __uint2float_rn(unsigned x) { return (float)x; }
static inline float __ll2float_rn(long long x) { return (float)x; }
static inline float __ull2float_rn(unsigned long long x) { return (float)x; }
static inline double __int2double_rn(int x) { return x; }
static inline double __uint2double_rn(unsigned x) { return x; }
static inline double __ll2double_rn(long long x) { return (double)x; }
static inline double __ull2double_rn(unsigned long long x) { return (double)x; }
static inline float __double2float_rn(double x) { return (float)x; }

#define COC_MIN_MAX(A, B, R)                                          \
  static inline R min(A a, B b) { return (R)b < (R)a ? (R)b : (R)a; } \
  static inline R max(A a, B b) { return (R)a < (R)b ? (R)b : (R)a; }
COC_MIN_MAX(int, int, int)
COC_MIN_MAX(unsigned, unsigned, unsigned)
COC_MIN_MAX(int, unsigned, unsigned)
COC_MIN_MAX(unsigned, int, unsigned)
COC_MIN_MAX(long, long, long)
COC_MIN_MAX(unsigned long, unsigned long, unsigned long)
COC_MIN_MAX(long, unsigned long, unsigned long)
COC_MIN_MAX(unsigned long, long, unsigned long)
COC_MIN_MAX(long long, long long, long long)
COC_MIN_MAX(unsigned long long, unsigned long long, unsigned long long)
COC_MIN_MAX(long long, unsigned long long, unsigned long long)
COC_MIN_MAX(unsigned long long, long long, unsigned long long)
#undef COC_MIN_MAX
