// SPDX-License-Identifier: Apache-2.0
// The host target: how its kernels are declared.
#pragma once

// Kernels stay functions of their own: inlined into one entry, a hundred of them take g++ three times as long, and other
// programs are linked with them.
#define HG_KERNEL extern "C" __attribute__((noinline)) void

#include "host.h"
