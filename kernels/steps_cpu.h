// SPDX-License-Identifier: Apache-2.0
// Entries of programs of many kernels on the host target: a loop over steps that are data.
#pragma once

#include "chunks_cpu.h"

namespace hg {

// A kernel and the number of its arguments, bounds aside.
struct KernelCall {
  void (*run)(const Index* arguments, Index begin, Index end);
  int count;
};

// Where an argument begins: 0 for a number, 1 for the arena, from 2 on for pointers that a call passes, -1, -2 … for those that
// stay the same.
HG_DEVICE Index argument_base(const int base, char* const arena, char* const* const p, char* const* const w) {
  return base == 0 ? 0 : (Index)(base == 1 ? arena : base > 1 ? p[base - 2] : w[-1 - base]);
}

// The steps of a program. Each is a number of a call, the entries in `e` of its turns and of a chunk's (0: all turns are one
// call), and for each argument its base and the entry in `e` of what is added to that. No kernel has more than MOST arguments.
template <int MOST>
HG_DEVICE void run_steps(const KernelCall* const calls, const int* at, const Index size, char* const arena,
                         char* const* const p, char* const* const w, const Index* const e) {
  struct Step {
    const KernelCall* call;
    Index arguments[MOST];
  } step;
  for (const int* const end = at + size; at != end;) {
    step.call = calls + at[0];
    const Index turns = e[at[1]];
    const int chunk = at[2];
    at += 3;
    for (int k = 0; k < step.call->count; ++k, at += 2) step.arguments[k] = argument_base(at[0], arena, p, w) + e[at[1]];
    if (chunk) {
      const auto run = [](void* s, Index b, Index n) { ((const Step*)s)->call->run(((const Step*)s)->arguments, b, n); };
      hg_run_chunks(turns, e[chunk], run, &step);
    } else {
      step.call->run(step.arguments, 0, turns);
    }
  }
}

}  // namespace hg
