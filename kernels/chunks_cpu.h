// SPDX-License-Identifier: Apache-2.0
// Chunks of kernels of the host target: ranges of the outermost loop, which depend on shapes alone, so that results have
// the same bits whatever runs them.
#pragma once

#include "host.h"

typedef void (*HgChunk)(void*, Index, Index);

static void hg_run_chunks_in_turn(Index n, Index chunk, HgChunk body, void* context) {
  Index begin = 0;
  do {
    body(context, begin, n - begin < chunk ? n : begin + chunk);
    begin += chunk;
  } while (begin < n);
}

// What runs chunks, of nothing an empty one: the process's thread pool (thread_pool.h), once it is there. Weak, so that the
// units of a program have one.
extern "C" {
__attribute__((visibility("default"), weak)) void (*hg_run_chunks)(Index, Index, HgChunk, void*) = hg_run_chunks_in_turn;
}

namespace hg {

// body(begin, end) for every chunk of 0 … n - 1. There is one call of it: of a kernel that is called for all turns besides,
// compilers would make two.
template <typename F>
HG_DEVICE void in_chunks(const Index n, const Index chunk, const F& body) {
  hg_run_chunks(n, chunk, [](void* f, Index begin, Index end) { (*(const F*)f)(begin, end); }, (void*)&body);
}

}  // namespace hg
