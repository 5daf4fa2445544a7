// SPDX-License-Identifier: Apache-2.0
// kernels/divide_cuda.h on the host, and the quotients that are hardest to round.
//
// A quotient of mantissas N / D is near the middle between two neighbours Q and Q + 1 where
// c = N 2^s - (2 Q + 1) D is small, s being 24, or 25 where N < D. The formula is off by less than 2.3 2^-24 ulp before
// it rounds, and the middle is |c| / 2D ulp away: it can go wrong only where |c| < 5. So all N with |c| up to LIMIT are
// found for every D, by an inverse modulo the odd part of D, and tried; all other quotients are rounded as they should be.
#include <cmath>
#include <cstdint>
#include <cstring>

#define HG_DEVICE static inline
#define HG_UNROLL
static inline unsigned __float_as_uint(float x) {
  unsigned u;
  std::memcpy(&u, &x, 4);
  return u;
}
namespace hg {
template <typename T, int V>
struct span {
  T v[V];
};
static inline unsigned minimum(unsigned a, unsigned b) { return a < b ? a : b; }
static inline float maximum(float a, float b) { return a != a || a > b ? a : b; }
}  // namespace hg
#include "divide_cuda.h"

static const int LIMIT = 16;

static int64_t inverse(int64_t a, int64_t modulus) {
  int64_t t = 0, next = 1, r = modulus, rest = a % modulus;
  while (rest) {
    const int64_t quotient = r / rest, before = t - quotient * next, left = r - quotient * rest;
    t = next, next = before, r = rest, rest = left;
  }
  return t < 0 ? t + modulus : t;
}

static float quotient(float n, float d) {
  hg::span<float, 1> s = {{n}};
  hg::divide(s, d, 1.0f / d);
  return s.v[0];
}

// How many of the hardest quotients by mantissas from first to last, every step-th, are wrong; *tried: how many there are.
extern "C" int64_t wrong_quotients(int64_t first, int64_t last, int64_t step, int64_t* tried) {
  int64_t wrong = 0, count = 0;
  for (int64_t D = first; D < last; D += step) {
    const int twos = __builtin_ctzll(D);
    const int64_t odd = D >> twos;
    for (int smaller = 0; smaller < 2; smaller++) {
      const int shift = 24 + smaller;
      int64_t power = 1 % odd;
      for (int k = 0; k < shift - twos; k++) power = power * 2 % odd;
      const int64_t back = odd == 1 ? 0 : inverse(power, odd);
      const int64_t low = smaller ? 1 << 23 : D, high = smaller ? D : 1 << 24;
      for (int64_t c = -LIMIT; c <= LIMIT; c++) {
        if (c == 0 || c % ((int64_t)1 << twos) != 0) continue;
        const int64_t part = ((c >> twos) % odd + odd) % odd, N0 = part * back % odd;
        for (int64_t N = N0 + (low > N0 ? (low - N0 + odd - 1) / odd : 0) * odd; N < high; N += odd) {
          const float n = (float)N, d = (float)D;
          wrong += quotient(n, d) != n / d;
          count++;
        }
      }
    }
  }
  *tried = count;
  return wrong;
}

// Four numerators a divisor.
extern "C" void divide_all(const float* n, const float* d, float* q, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    hg::span<float, 4> s;
    std::memcpy(s.v, n + 4 * i, sizeof s.v);
    hg::divide(s, d[i], 1.0f / d[i]);
    std::memcpy(q + 4 * i, s.v, sizeof s.v);
  }
}
