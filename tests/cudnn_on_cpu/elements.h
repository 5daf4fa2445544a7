// SPDX-License-Identifier: Apache-2.0
// Elements in memory as the stand-ins of NVIDIA's libraries see them. FLOAT, DOUBLE, HALF and BFLOAT16 are theirs.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace {

bool known(int type) { return type == FLOAT || type == DOUBLE || type == HALF || type == BFLOAT16; }

double half_value(uint16_t bits) {
    const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    const double sign = bits >> 15 ? -1 : 1;
    if (exponent == 31) return mantissa ? NAN : sign * INFINITY;
    return sign * (exponent ? std::ldexp(1024 + mantissa, exponent - 25) : std::ldexp(mantissa, -24));
}

uint16_t half_bits(double value) {
    if (std::isnan(value)) return 0x7e00;
    const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    double left = std::fabs(value);
    if (left == 0) return sign;
    if (left >= 65520) return sign | 0x7c00;
    int exponent = 0;
    std::frexp(left, &exponent);
    if (exponent < -13) exponent = -13;
    const double units = std::nearbyint(std::ldexp(left, 11 - exponent));
    return sign | uint16_t(exponent == -13 && units < 1024 ? units : (exponent + 13) * 1024 + units);
}

double bfloat_value(uint16_t bits) {
    const uint32_t wide = uint32_t(bits) << 16;
    float value;
    std::memcpy(&value, &wide, 4);
    return value;
}

uint16_t bfloat_bits(double value) {
    const float narrow = float(value);
    uint32_t bits;
    std::memcpy(&bits, &narrow, 4);
    if (std::isnan(narrow)) return uint16_t(bits >> 16 | 64);
    return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float tf32(float value) {  // 10 bits of mantissa
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    if (std::isfinite(value)) bits = (bits + 0xfff + (bits >> 13 & 1)) & ~0x1fffu;
    std::memcpy(&value, &bits, 4);
    return value;
}

double load(const void *data, long at, int type, bool reduced) {
    switch (type) {
        case DOUBLE: return static_cast<const double *>(data)[at];
        case FLOAT: {
            const float value = static_cast<const float *>(data)[at];
            return reduced ? tf32(value) : value;
        }
        case HALF: return half_value(static_cast<const uint16_t *>(data)[at]);
        default: return bfloat_value(static_cast<const uint16_t *>(data)[at]);
    }
}

void store(void *data, long at, int type, double value) {
    switch (type) {
        case DOUBLE: static_cast<double *>(data)[at] = value; break;
        case FLOAT: static_cast<float *>(data)[at] = float(value); break;
        case HALF: static_cast<uint16_t *>(data)[at] = half_bits(value); break;
        default: static_cast<uint16_t *>(data)[at] = bfloat_bits(value);
    }
}

}  // namespace
