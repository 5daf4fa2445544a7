// SPDX-License-Identifier: Apache-2.0
// Asynchronous copies from global to shared memory; the data arrives at the wait.
#pragma once

COC_UNTRACED static void __pipeline_memcpy_async(void* to, const void* from, size_t bytes,
                                                 size_t zero_fill = 0) {
  coc_async_copy(to, from, (unsigned)bytes, (unsigned)zero_fill, COC_RETURN);
}
static inline void __pipeline_commit() { coc_async_commit(); }
static inline void __pipeline_wait_prior(size_t pending) { coc_async_wait((unsigned)pending); }
