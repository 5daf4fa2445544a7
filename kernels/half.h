// SPDX-License-Identifier: Apache-2.0
// Floats of two bytes in memory; arithmetic is done in float. No vendor header. float16 is converted by one
// instruction each way under CUDA and by integer arithmetic on hosts, which vectorises where GCC's _Float16
// does not. bfloat16 is the upper half of a float: a shift and an addition on any device.
#pragma once
#define HG_HALF 1

namespace hg {

HG_DEVICE float bits_to_float(const unsigned int u) {
#ifdef HG_CUDA
  return __uint_as_float(u);
#else
  float f;
  __builtin_memcpy(&f, &u, 4);
  return f;
#endif
}

HG_DEVICE unsigned int float_to_bits(const float f) {
#ifdef HG_CUDA
  return __float_as_uint(f);
#else
  unsigned int u;
  __builtin_memcpy(&u, &f, 4);
  return u;
#endif
}

#if defined(HG_CUDA)

HG_DEVICE float half_to_float(const unsigned short h) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
  return f;
}
HG_DEVICE unsigned short float_to_half(const float f) {
  unsigned short h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
}

#else

// Shifting the exponent's bias is a multiplication by 2^112, which also normalises subnormals.
HG_DEVICE float half_to_float(const unsigned short h) {
  const unsigned int sign = (unsigned int)(h & 0x8000) << 16, rest = (unsigned int)(h & 0x7fff) << 13;
  const unsigned int special = rest >= 0x0f800000u ? 0x7f800000u : 0u;
  return bits_to_float(float_to_bits(bits_to_float(rest) * 5.192296858534828e33f) | special | sign);
}

// Adding a power of two that puts the last kept bit at the end of the significand rounds to even.
HG_DEVICE unsigned short float_to_half(const float f) {
  const unsigned int u = float_to_bits(f), sign = u >> 16 & 0x8000, a = u & 0x7fffffffu;
  if (a > 0x7f800000u) return (unsigned short)(sign | 0x7e00);   // NaN
  if (a >= 0x477ff000u) return (unsigned short)(sign | 0x7c00);  // overflow
  if (a < 0x38800000u) {                                         // subnormal
    return (unsigned short)(sign | (float_to_bits(bits_to_float(a) + 0.5f) - 0x3f000000u));
  }
  const unsigned int odd = a >> 13 & 1;
  return (unsigned short)(sign | ((a + 0xc8000fffu + odd) >> 13));
}

#endif

// Assigning a float stores its bits: GCC does not vectorise the copy of a temporary struct.
struct half {
  unsigned short bits;
  half() = default;
  HG_METHOD half(const float f) : bits(float_to_half(f)) {}
  HG_METHOD void operator=(const float f) { bits = float_to_half(f); }
  HG_METHOD operator float() const { return half_to_float(bits); }
};

// A float rounded to half precision.
#if defined(HG_CUDA)
HG_DEVICE float round_half(const float f) { return half_to_float(float_to_half(f)); }
#else
// In the lanes of floats: there and back again would pack and unpack vectors.
HG_DEVICE float round_half(const float f) {
  const unsigned int u = float_to_bits(f), sign = u & 0x80000000u, a = u ^ sign;
  const unsigned int near = (a + 0xfff + (a >> 13 & 1)) & ~0x1fffu;
  const unsigned int normal = near >= 0x47800000u ? 0x7f800000u : near;  // overflow
  const unsigned int small = float_to_bits((bits_to_float(a) + 0.5f) - 0.5f);  // subnormal: multiples of 2^-24
  const unsigned int number = a < 0x38800000u ? small : normal;
  return bits_to_float(sign | (a > 0x7f800000u ? 0x7fc00000u : number));
}
#endif
HG_DEVICE float round_half(const double d) { return round_half((float)d); }

HG_DEVICE float bfloat16_to_float(const unsigned short b) { return bits_to_float((unsigned int)b << 16); }

// To nearest, ties to even: a carry out of the significand is the next exponent, and in the end infinity.
HG_DEVICE unsigned short float_to_bfloat16(const float f) {
  const unsigned int u = float_to_bits(f), rounded = u + 0x7fffu + (u >> 16 & 1), quiet = u | 0x400000u;
  return (unsigned short)(((u & 0x7fffffffu) > 0x7f800000u ? quiet : rounded) >> 16);
}

struct bfloat16 {
  unsigned short bits;
  bfloat16() = default;
  HG_METHOD bfloat16(const float f) : bits(float_to_bfloat16(f)) {}
  HG_METHOD void operator=(const float f) { bits = float_to_bfloat16(f); }
  HG_METHOD operator float() const { return bfloat16_to_float(bits); }
};

// A float rounded to bfloat16.
HG_DEVICE float round_bfloat16(const float f) { return bfloat16_to_float(float_to_bfloat16(f)); }
HG_DEVICE float round_bfloat16(const double d) { return round_bfloat16((float)d); }

}  // namespace hg
