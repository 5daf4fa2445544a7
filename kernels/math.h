// SPDX-License-Identifier: Apache-2.0
// Scalar mathematics of the target, for float and double.
#pragma once

#ifdef HG_CUDA
#include "math_cuda.h"
#else
#include "math_cpu.h"
#endif
