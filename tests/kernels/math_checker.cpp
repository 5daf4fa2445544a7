// SPDX-License-Identifier: Apache-2.0
// Compares results with references: libm in double for float, in long double for double. Test code only.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace {

struct Result {
    double max_ulp, worst_x, worst_y;  // largest error and where
    int64_t wrong;                     // NaN, infinity or the sign of zero is not as it should be
    double wrong_x, wrong_y;
    int64_t count;
    double max_relative, relative_x;   // largest error relative to results that are normal numbers, and where
};

template <class R> R digamma(R x) {
    if (x == 0) return -std::copysign(R(1) / R(0), x);
    if (std::isinf(x)) return x > 0 ? x : x - x;
    if (x < 0) {
        R f = x - std::rint(x);
        if (f == 0) return std::numeric_limits<R>::quiet_NaN();
        R pi = std::acos(R(-1));
        return digamma(R(1) - x) - pi / std::tan(pi * f);
    }
    if (x > R(1.3) && x < R(1.6)) {
        // near the root r: psi(x) = sum over k of (x - r) / ((k + x)(k + r)), the tail by Euler and Maclaurin
        const R high = R(1.4616321449683622), low = R(9.549995429965697e-17L), r = high + low;
        R sum = 0, n = 1000;
        for (int k = 999; k >= 0; k--) sum += 1 / ((k + x) * (k + r));
        R a = n + x, b = n + r, d = (x - high) - low;
        R tail = std::log1p(d / b) / d + (1 / (a * b)) / 2 + ((a + b) / (a * a * b * b)) / 12;
        return d * (sum + tail);
    }
    R below = 0;
    while (x < 30) below += 1 / x, x += 1;
    R z = 1 / (x * x);
    R s = z * (R(1) / 12 - z * (R(1) / 120 - z * (R(1) / 252 - z * (R(1) / 240 - z * (R(1) / 132 - z * (R(691) / 32760 - z / 12))))));
    return std::log(x) - 1 / (2 * x) - s - below;
}

template <class R> R erfinv(R x) {
    R a = std::fabs(x), two_over_sqrt_pi = 2 / std::sqrt(std::acos(R(-1)));
    if (!(a < 1)) return a == 1 ? std::copysign(std::numeric_limits<R>::infinity(), x) : std::numeric_limits<R>::quiet_NaN();
    if (a < R(1e-12)) return x / two_over_sqrt_pi;
    R w = -std::log1p(-a * a), y = std::sqrt(w) * R(0.8);
    for (int i = 0; i < 60; i++) {  // Newton on erfc for the tail, on erf below
        R e = a > R(0.5) ? std::erfc(y) - (1 - a) : a - std::erf(y);
        R step = a > R(0.5) ? std::log(std::erfc(y) / (1 - a)) * std::erfc(y) : e;
        step *= std::exp(y * y) / two_over_sqrt_pi;
        y += step;
        if (std::fabs(step) < y * std::numeric_limits<R>::epsilon()) break;
    }
    return std::copysign(y, x);
}

template <class R> struct Entry {
    const char *name;
    R (*one)(R);
    R (*two)(R, R);
};

template <class R> const Entry<R> *entries() {
#define ONE(name, expr) {#name, [](R x) -> R { return expr; }, nullptr}
#define TWO(name, expr) {#name, nullptr, [](R x, R y) -> R { return expr; }}
    static const Entry<R> all[] = {
        ONE(exp, std::exp(x)), ONE(expm1, std::expm1(x)), ONE(log, std::log(x)),
        ONE(log2, std::log2(x)), ONE(log10, std::log10(x)), ONE(log1p, std::log1p(x)), ONE(sqrt, std::sqrt(x)),
        ONE(rsqrt, 1 / std::sqrt(x)), ONE(cbrt, std::cbrt(x)), ONE(rcbrt, 1 / std::cbrt(x)), ONE(sin, std::sin(x)),
        ONE(cos, std::cos(x)), ONE(tan, std::tan(x)), ONE(asin, std::asin(x)), ONE(acos, std::acos(x)),
        ONE(atan, std::atan(x)), ONE(sinh, std::sinh(x)), ONE(cosh, std::cosh(x)), ONE(tanh, std::tanh(x)),
        ONE(asinh, std::asinh(x)), ONE(acosh, std::acosh(x)), ONE(atanh, std::atanh(x)), ONE(erf, std::erf(x)),
        ONE(erfc, std::erfc(x)), ONE(erfinv, erfinv(x)), ONE(tgamma, std::tgamma(x)), ONE(lgamma, std::lgamma(x)),
        ONE(digamma, digamma(x)), ONE(floor, std::floor(x)), ONE(ceil, std::ceil(x)), ONE(trunc, std::trunc(x)),
        ONE(rint, std::rint(x)), ONE(round_away, std::round(x)), ONE(abs, std::fabs(x)),
        ONE(sigmoid, x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x))),
        ONE(softplus, std::fmax(x, R(0)) + std::log1p(std::exp(-std::fabs(x))) + (x != x ? x : 0)),
        ONE(sign, R(x > 0) - R(x < 0)), ONE(isnan, R(x != x)), ONE(isinf, R(std::isinf(x))),
        ONE(isfinite, R(std::isfinite(x))),
        TWO(pow, std::pow(x, y)), TWO(hypot, std::hypot(x, y)), TWO(atan2, std::atan2(x, y)),
        TWO(maximum, x != x ? x : y != y ? y : x > y ? x : y), TWO(minimum, x != x ? x : y != y ? y : x < y ? x : y),
        TWO(copysign, std::copysign(x, y)), {nullptr, nullptr, nullptr}};
    return all;
}

template <class R> const Entry<R> *find(const char *name) {
    for (const Entry<R> *e = entries<R>(); e->name; e++)
        if (!std::strcmp(e->name, name)) return e;
    return nullptr;
}

template <class T, class R> R unit(R reference) {
    const int least = std::numeric_limits<T>::min_exponent, digits = std::numeric_limits<T>::digits;
    R a = std::fabs(reference), top = std::numeric_limits<T>::max();
    int exponent;
    std::frexp(a > top ? top : a, &exponent);
    return std::ldexp(R(1), (exponent < least ? least : exponent) - digits);
}

// the same for float and double from the exponent's bits: most of the time of a sweep
template <> inline double unit<float, double>(double reference) {
    uint64_t bits;
    std::memcpy(&bits, &reference, 8);
    uint64_t exponent = bits >> 52 & 0x7ff;
    exponent = exponent < 1023 - 126 ? 1023 - 126 : exponent > 1023 + 127 ? 1023 + 127 : exponent;
    bits = (exponent - 23) << 52;
    std::memcpy(&reference, &bits, 8);
    return reference;
}

template <class T, class R> void compare(const Entry<R> *entry, const T *x, const T *y, const T *got, long n, Result *r) {
    for (long i = 0; i < n; i++) {
        R reference = y ? entry->two(x[i], y[i]) : entry->one(x[i]);
        T want = (T)reference, g = got[i];
        double a = (double)x[i], b = y ? (double)y[i] : 0;
        bool same = std::isnan(want) == std::isnan(g) && std::isinf(want) == std::isinf(g) &&
                    (std::isnan(g) || !(g == 0 || std::isinf(g)) || std::signbit(g) == std::signbit(want));
        r->count++;
        if (!same) {
            r->wrong++;
            r->wrong_x = a, r->wrong_y = b;
        } else if (std::isfinite(g)) {
            double error = (double)(std::fabs((R)g - reference) / unit<T, R>(reference));
            if (error > r->max_ulp) r->max_ulp = error, r->worst_x = a, r->worst_y = b;
            R size = std::fabs(reference);
            if (size >= (R)std::numeric_limits<T>::min()) {
                double relative = (double)(std::fabs((R)g - reference) / size);
                if (relative > r->max_relative) r->max_relative = relative, r->relative_x = a;
            }
        }
    }
}

}  // namespace

extern "C" int compare_f32(const char *name, const float *x, const float *y, const float *got, long n, Result *r) {
    const Entry<double> *entry = find<double>(name);
    if (!entry) return 1;
    compare<float, double>(entry, x, y, got, n, r);
    return 0;
}

extern "C" int compare_f64(const char *name, const double *x, const double *y, const double *got, long n, Result *r) {
    const Entry<long double> *entry = find<long double>(name);
    if (!entry) return 1;
    compare<double, long double>(entry, x, y, got, n, r);
    return 0;
}

// The bit patterns first, first + step, ... below last
extern "C" int sweep_f32(const char *name, void (*f)(const float *, float *, long), uint64_t first, uint64_t last,
                         uint64_t step, Result *r) {
    const Entry<double> *entry = find<double>(name);
    if (!entry) return 1;
    static thread_local float x[4096], got[4096];
    while (first < last) {
        long n = 0;
        for (; n < 4096 && first < last; first += step) {
            uint32_t bits = (uint32_t)first;
            std::memcpy(&x[n++], &bits, 4);
        }
        f(x, got, n);
        compare<float, double>(entry, x, nullptr, got, n, r);
    }
    return 0;
}
