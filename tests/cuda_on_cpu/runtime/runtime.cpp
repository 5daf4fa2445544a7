// SPDX-License-Identifier: Apache-2.0
// The runtime that executes CUDA kernels on one CPU thread, one fiber for each CUDA thread. One
// translation unit, so that the checks of an access inline into the hook that the compiler calls.
#include "launch.hpp"
