// SPDX-License-Identifier: Apache-2.0
// Random bits of one element: Philox 4x32-10, see compiler/primitives/random.py.
#pragma once

namespace hg {

HG_DEVICE unsigned int random_bits(unsigned int k0, unsigned int k1, const unsigned int call0,
                                   const unsigned int call1, const long long i, const unsigned int stream) {
  unsigned int c0 = (unsigned int)i, c1 = stream + (unsigned int)(i >> 32) * 0x10000u, c2 = call0, c3 = call1;
  HG_UNROLL
  for (int round = 0; round < 10; ++round) {
    const unsigned long long p0 = (unsigned long long)c0 * 0xD2511F53u;
    const unsigned long long p1 = (unsigned long long)c2 * 0xCD9E8D57u;
    c0 = (unsigned int)(p1 >> 32) ^ c1 ^ k0;
    c1 = (unsigned int)p1;
    c2 = (unsigned int)(p0 >> 32) ^ c3 ^ k1;
    c3 = (unsigned int)p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c0;
}

}  // namespace hg
