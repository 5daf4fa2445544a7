// SPDX-License-Identifier: Apache-2.0
// Chunks of kernels of the host target: ranges of the outermost loop, which depend on shapes alone, so that results have
// the same bits whatever runs them.
#pragma once

#include "host.h"

typedef void (*HgChunk)(void*, Index, Index);

static void hg_run_all_chunks(Index n, Index, HgChunk body, void* context) { body(context, 0, n); }

// What runs chunks, one or several that follow each other in a call, of nothing an empty one: the process's thread pool
// (thread_pool.h), once it is there. Weak, so that the units of a program have one.
extern "C" {
__attribute__((visibility("default"), weak)) void (*hg_run_chunks)(Index, Index, HgChunk, void*) = hg_run_all_chunks;
}

namespace hg {

// body(begin, end) for all chunks of 0 … n - 1, some at a time: of a kernel that computes the same wherever its range is cut
// between chunks, and that keeps what neighbouring chunks have in common. There is one call of body: of a kernel that is
// called for all turns besides, compilers would make two.
template <typename F>
HG_DEVICE void in_chunks(const Index n, const Index chunk, const F& body) {
  hg_run_chunks(n, chunk, [](void* f, Index begin, Index end) { (*(const F*)f)(begin, end); }, (void*)&body);
}

// body(begin, end) for every chunk by itself.
template <typename F>
HG_DEVICE void in_single_chunks(const Index n, const Index chunk, const F& body) {
  in_chunks(n, chunk, [&](Index begin, const Index end) {
    do {
      body(begin, end - begin < chunk ? end : begin + chunk);
      begin += chunk;
    } while (begin < end);
  });
}

}  // namespace hg
