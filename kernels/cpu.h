// SPDX-License-Identifier: Apache-2.0
// The host target: how its kernels are declared.
#pragma once

// Kernels stay functions of their own: inlined into one entry, a hundred of them take g++ three times as long.
#ifdef HG_UNITS
#define HG_KERNEL extern "C" __attribute__((noinline)) void
#else
#define HG_KERNEL static __attribute__((noinline)) void
#endif

#include "host.h"
