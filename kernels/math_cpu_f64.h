// SPDX-License-Identifier: Apache-2.0
// The functions of double: branch-free ones by the methods of their float twins, libm's for the rest.
// Part of math_cpu.h. Errors: maxima over random arguments.
#pragma once

extern "C" double lgamma_r(double, int *) noexcept;  // libm's lgamma writes the global signgam

namespace hg {

// -- libm, one call an element

HG_DEVICE double log2(double x) { return __builtin_log2(x); }
HG_DEVICE double log10(double x) { return __builtin_log10(x); }
HG_DEVICE double sin(double x) { return __builtin_sin(x); }
HG_DEVICE double cos(double x) { return __builtin_cos(x); }
HG_DEVICE double sinpi(double x) { return sin(3.1415926535897932 * x); }  // of at most half a turn
HG_DEVICE double cospi(double x) { return cos(3.1415926535897932 * x); }
HG_DEVICE double tan(double x) { return __builtin_tan(x); }
HG_DEVICE double asin(double x) { return __builtin_asin(x); }
HG_DEVICE double acos(double x) { return __builtin_acos(x); }
HG_DEVICE double atan(double x) { return __builtin_atan(x); }
HG_DEVICE double atan2(double y, double x) { return __builtin_atan2(y, x); }
HG_DEVICE double sinh(double x) { return __builtin_sinh(x); }
HG_DEVICE double cosh(double x) { return __builtin_cosh(x); }
HG_DEVICE double asinh(double x) { return __builtin_asinh(x); }
HG_DEVICE double acosh(double x) { return __builtin_acosh(x); }
HG_DEVICE double atanh(double x) { return __builtin_atanh(x); }
HG_DEVICE double pow(double x, double y) {
  // GCC's vectoriser makes a bare square root of an exponent 0.5, which is wrong at -0 and -inf
  if (y == 0.5) return x == -__builtin_inf() ? __builtin_inf() : __builtin_sqrt(x) + 0.0;
  return __builtin_pow(x, y);
}
HG_DEVICE double erfc(double x) { return __builtin_erfc(x); }
HG_DEVICE double tgamma(double x) { return __builtin_tgamma(x); }
HG_DEVICE double lgamma(double x) {
  int sign;
  return lgamma_r(x, &sign);
}
// the double functions are good to 2^-50: 0.5 ulp of float
HG_DEVICE float tgamma(float x) { return (float)__builtin_tgamma((double)x); }
HG_DEVICE float lgamma(float x) { return (float)lgamma((double)x); }

// -- branch-free

// e^r - 1, |r| <= ln2 / 2, error 2^-57.8 of e^r
HG_DEVICE double expm1_near_0(double r) {
  // fit: exp_f64
  const double c2 = 0.5000000000000011, c3 = 0.16666666666666466, c4 = 0.04166666666652615,
      c5 = 0.008333333333456266, c6 = 0.001388888894469873, c7 = 0.00019841269596872452, c8 = 2.4801491956154347e-05,
      c9 = 2.7557499083882874e-06, c10 = 2.763067246090607e-07, c11 = 2.5029797122231878e-08;
  double z = r * r, z2 = z * z;
  double high = fma(fma(c11, r, c10), z2, poly(r, z, c6, c7, c8, c9));
  return fma(fma(high, z2, poly(r, z, c2, c3, c4, c5)), z, r);
}

// e^r - 1, |r| <= ln2 / 2, relative error 2^-61
HG_DEVICE double expm1_relative(double r) {
  // fit: expm1_f64
  const double c2 = 0.5, c3 = 0.16666666666666677, c4 = 0.04166666666666669, c5 = 0.008333333333321771,
      c6 = 0.0013888888888883035, c7 = 0.000198412698852445, c8 = 2.480158730526305e-05, c9 = 2.7557245431999e-06,
      c10 = 2.755730639730555e-07, c11 = 2.5108535078001958e-08, c12 = 2.0900772466490953e-09;
  double z = r * r, z2 = z * z;
  double high = fma(poly(r, z, c10, c11, c12), z2, poly(r, z, c6, c7, c8, c9));
  return fma(fma(high, z2, poly(r, z, c2, c3, c4, c5)), z, r);
}

HG_DEVICE double exp_scale(double q, unsigned long long i) {
  unsigned long long half = i >> 1;
  double s = from_bits(half << 52);
  return fma(q, s, s) * from_bits((i - half) << 52);
}

// e^x, -746 <= x <= 710
HG_DEVICE double exp_in_range(double x) {
  const double bias = kRound64 + 2046.0;
  double t = fma(x, kLog2E64, bias), n = t - bias;
  double r = fma(-n, kLn2Lo64, fma(-n, kLn2Hi64, x));
  return exp_scale(expm1_near_0(r), to_bits(t));
}

// Max error 1.01 ulp.
HG_DEVICE double exp(double x) {
  double y = exp_in_range(x);
  y = x > 710.0 ? kInf64 : y;
  return x < -746.0 ? 0.0 : y;
}

// Max error 1.98 ulp.
HG_DEVICE double expm1(double x) {
  const double bias = kRound64 + 1022.0;
  double t = fma(x, kLog2E64, bias), n = t - bias;
  double r = fma(-n, kLn2Lo64, fma(-n, kLn2Hi64, x));
  double s = from_bits(to_bits(t) << 52);
  double y = 2.0 * fma(expm1_relative(r), s, s - 0.5);
  y = x > 710.0 ? kInf64 : y;
  y = x < -38.0 ? -1.0 : y;
  return abs(x) < 1e-17 ? x : y;
}

// Max error 2.16 ulp.
HG_DEVICE double tanh(double x) {
  const double bias = kRound64 + 1023.0;
  double a = abs(x);
  double t = fma(a, -2.0 * kLog2E64, bias), n = t - bias;
  double r = fma(-n, kLn2Lo64, fma(-n, kLn2Hi64, -2.0 * a));
  double s = from_bits(to_bits(t) << 52), q = expm1_relative(r);
  double y = fma(-q, s, 1.0 - s) / fma(q, s, 1.0 + s);
  return copysign(a > 20.0 ? 1.0 : y, x);
}

// Max error 2 ulp.
HG_DEVICE double sigmoid(double x) {
  const double small = 7.4583407312002067e-155, bias = kRound64 + 511.0;  // 2^-512
  double t = fma(x, -kLog2E64, bias), n = t - bias;
  double r = fma(-n, kLn2Lo64, fma(-n, kLn2Hi64, -x));
  double s = from_bits(to_bits(t) << 52);
  double d = fma(expm1_near_0(r), s, small) + s;
  double y = small / (x > 45.0 ? small : d);
  return x < -746.0 ? 0.0 : y;
}

// log(1 + f) = f - (h - s (h + R(s^2))), h = f^2 / 2, s = f / (2 + f)
HG_DEVICE double log1p_near_0(double f) {
  // fit: log_f64
  const double c1 = 0.6666666666666734, c2 = 0.39999999999417063, c3 = 0.28571428741886884, c4 = 0.22222198622329378,
      c5 = 0.1818356186552099, c6 = 0.15314111486494364, c7 = 0.14795357600659548;
  double h = 0.5 * f * f, s = f / (2.0 + f), z = s * s, z2 = z * z;
  double p = fma(poly(z, z2, c2, c3, c4, c5, c6, c7), z, c1);
  return f - fma(-s, fma(p, z, h), h);
}

// e + 1023 of a positive normal x = 2^e m, sqrt(1/2) <= m < sqrt(2), in the place of the exponent
HG_DEVICE unsigned long long exponent_field(double x) {
  return (to_bits(x) + (0x3ff0000000000000ull - 0x3fe6a09e667f3bcdull)) & 0xfff0000000000000ull;
}
HG_DEVICE double exponent_value(unsigned long long k) {
  return from_bits(k >> 52 | 0x4330000000000000ull) - 4503599627371519.0;  // 2^52 + 1023
}

// Max error 1.13 ulp.
HG_DEVICE double log(double x) {
  bool tiny = x < 2.2250738585072014e-308;
  double m = tiny ? x * 18014398509481984.0 : x, shift = tiny ? 54.0 : 0.0;
  unsigned long long k = exponent_field(m);
  double e = exponent_value(k) - shift, f = from_bits(to_bits(m) - k + 0x3ff0000000000000ull) - 1.0;
  double y = fma(e, kLn2Hi64, fma(e, kLn2Lo64, log1p_near_0(f)));
  y = x < kInf64 ? y : x;
  return x > 0.0 ? y : x == 0.0 ? -kInf64 : kNan64;
}

// Max error 1.74 ulp.
HG_DEVICE double log1p(double x) {
  double u = 1.0 + x, c = x - (u - 1.0);
  unsigned long long k = exponent_field(u);
  double e = exponent_value(k);
  double f = from_bits(to_bits(u) - k + 0x3ff0000000000000ull) - 1.0;
  f = fma(c * from_bits(0x7ff0000000000000ull - k), 0.5, f);
  double y = copysign(fma(e, kLn2Hi64, fma(e, kLn2Lo64, log1p_near_0(f))), x);
  y = x < kInf64 ? y : x;
  return x > -1.0 ? y : x == -1.0 ? -kInf64 : kNan64;
}

// Max error 2.04 ulp.
HG_DEVICE double softplus(double x) {
  double a = abs(x), e = exp_in_range(-a);
  bool large = e > 0.41421356237309503;
  double y = log1p_near_0(large ? fma(0.5, e, -0.5) : e) + (large ? 0.6931471805599453 : 0.0);
  return maximum(x, 0.0) + (a > 746.0 ? 0.0 : y);
}

// The argument of P is (a - 3) / 3, which keeps a polynomial of this degree well-conditioned. Max error 1.66 ulp.
HG_DEVICE double erf(double x) {
  const double bias = kRound64 + 1023.0;
  double a = abs(x), v = fma(a, 0.33333333333333333, -1.0), v2 = v * v, v4 = v2 * v2, v8 = v4 * v4;
  // fit: erf_f64
  const double high = 1.1283791670955126, low = 1.533545961316588e-17, c0 = 0.8150250600771772,
      c1 = 0.09507472048169165, c2 = -0.047780282238514694, c3 = 0.022721519356419913, c4 = -0.009842550749453985,
      c5 = 0.0035972691943736085, c6 = -0.0008416007387876081, c7 = -0.00018493207298246492,
      c8 = 0.00043194174251079534, c9 = -0.00038222154309179357, c10 = 0.00025283283329383523,
      c11 = -0.0001384695436674217, c12 = 8.888830861393666e-05, c13 = 1.4596083012748577e-05,
      c14 = -4.460563391769605e-05, c15 = -0.00019816742556967164, c16 = -0.0002138787263407763,
      c17 = 0.0001787002942850027, c18 = 0.0006193740076041748, c19 = 0.0005351351692675078,
      c20 = -9.797580452718674e-05, c21 = -0.0005776933353634031, c22 = -0.0005139075791660753,
      c23 = -0.0002119834264497517, c24 = -3.504989898448259e-05;
  double p0 = fma(poly(v, v2, c4, c5, c6, c7), v4, poly(v, v2, c0, c1, c2, c3));
  double p1 = fma(poly(v, v2, c12, c13, c14, c15), v4, poly(v, v2, c8, c9, c10, c11));
  double p2 = fma(poly(v, v2, c20, c21, c22, c23), v4, poly(v, v2, c16, c17, c18, c19));
  double p = horner(v8, p0, p1, p2, c24);
  double g = fma(a, high, fma(p, a * a, a * low));
  double t = fma(g, -kLog2E64, bias), n = t - bias;
  double q = expm1_relative(fma(-n, kLn2Lo64, fma(-n, kLn2Hi64, -g)));
  double s = from_bits(to_bits(t) << 52);
  double y = fma(-q, s, 1.0 - s);
  return copysign(a > 6.0 ? 1.0 : y, x);
}

}  // namespace hg
