// SPDX-License-Identifier: Apache-2.0
// Makes CUDA C++ kernel text compile with g++ for the host. It is included before the kernel text,
// as a precompiled header; the runtime executes the result.
//
// __global__, __shared__, __launch_bounds__ and __cluster_dims__ stay undefined here: translate.py
// looks for them in the preprocessed text.
#pragma once
#include <cstddef>
// libstdc++'s special functions are templates that every compilation would instantiate: 20 ms.
#undef _GLIBCXX_USE_STD_SPEC_FUNCS

#include <cassert>
#include <cfloat>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <math.h>
#include <type_traits>
#include <utility>

#define CUDA_ON_CPU 1

#include "coc/types.h"
#include "coc/execution.h"
#include "coc/memory.h"
#include "coc/integers.h"
#include "coc/floats.h"
#include "coc/ptx.h"
#include "coc/glue.h"
