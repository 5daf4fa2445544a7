// SPDX-License-Identifier: Apache-2.0
// Asynchronous copies from global to shared memory. The bytes arrive when the thread waits for
// them, not before; until then any other access to their destination is a fault.
#pragma once
#include "access.hpp"

namespace coc {

const uptr PREFETCH_LINE = 128;

static bool is_own_shared(uptr a) { return a - (uptr)g.cur->block->shared < g.shared_stride; }

static void complete(const AsyncCopy& copy) {
  const u32 bytes = copy.bytes - copy.zero_fill;
  if (g.module->checked) {
    Region* r = find(copy.from);
    if (r && !r->primary && bytes) {
      for (uptr a = copy.from; a < copy.from + bytes; a += uptr(1) << r->log2) {
        const Cell& c = r->cells[(a - r->lo) >> r->log2];
        if (c.wthr && c.wclk >= r->since && c.wclk >= copy.clock && g.params.races) {
          return fault(RACE, g.cur, Site{copy.pc, c.wpc, 0},
                       "%s is written by %s while an asynchronous copy from it is in flight",
                       place(*r, a).text, thread_name(c.wthr & ID_MASK).text);
        }
      }
    }
    Region& to = g.cur->block->region;
    shadow(to, copy.to, copy.bytes, WRITE | ASYNC_END, copy.pc);
  }
  memcpy((void*)copy.to, (const void*)copy.from, bytes);
  memset((char*)copy.to + bytes, 0, copy.zero_fill);
}

}  // namespace coc

API void coc_async_copy(void* to, const void* from, unsigned bytes, unsigned zero_fill, void* ret) {
  using namespace coc;
  const uptr pc = (uptr)ret - 1;
  if (bytes != 4 && bytes != 8 && bytes != 16) {
    return FAULT(UNDEFINED, pc, "asynchronous copy of %u bytes: only 4, 8 and 16 are possible",
                 bytes);
  }
  if (((uptr)to | (uptr)from) % bytes) {
    return FAULT(MISALIGNED, pc, "asynchronous copy of %u bytes from %p to %p: not aligned", bytes,
                 from, to);
  }
  if (zero_fill > bytes) {
    return FAULT(UNDEFINED, pc, "asynchronous copy of %u bytes fills %u with zeros", bytes,
                 zero_fill);
  }
  if (!is_own_shared((uptr)to)) {
    return FAULT(OUT_OF_BOUNDS, pc, "asynchronous copy to %p, which is not shared memory", to);
  }
  if (g.module->checked) {
    if (is_own_shared((uptr)from)) {
      return FAULT(OUT_OF_BOUNDS, pc, "asynchronous copy from shared memory, not from global");
    }
    if (bytes > zero_fill) access((uptr)from, bytes - zero_fill, READ, pc);
    access((uptr)to, bytes, WRITE | ASYNC, pc);
  }
  g.report->async_copies++;
  g.report->async_bytes += bytes - zero_fill;
  AsyncQueue*& q = g.cur->async;
  if (!q) q = new AsyncQueue();
  q->copies.push_back({(uptr)to, (uptr)from, bytes, zero_fill, g.clk, pc});
}

// Fetches the line of 128 bytes around an address into the second-level cache. Hardware ignores what
// is nobody's memory; here that is a fault, since whoever prefetches it has miscounted. It orders
// nothing and is no read, so that it can take part in no race.
API void coc_prefetch(const void* p, void* ret) {
  using namespace coc;
  const uptr pc = (uptr)ret - 1, a = (uptr)p;
  g.report->prefetches++;
  if (!g.module->checked) return;
  if (is_own_shared(a)) {
    return FAULT(OUT_OF_BOUNDS, pc, "prefetch of shared memory, not of global");
  }
  const Region* r = find(a);
  if (!r) return FAULT(OUT_OF_BOUNDS, pc, "prefetch at %p, which is in no buffer of the launch", p);
  const uptr line = a & ~uptr(PREFETCH_LINE - 1), end = line + PREFETCH_LINE;
  g.report->prefetched += (end < r->hi ? end : r->hi) - (line > r->lo ? line : r->lo);
}

API void coc_async_commit() {
  coc::AsyncQueue*& q = coc::g.cur->async;
  if (!q) q = new coc::AsyncQueue();
  q->batches.push_back(q->copies.size());
}

// Completes all committed batches but the last 'pending'; ~0u: also what was not committed.
API void coc_async_wait(unsigned pending) {
  using namespace coc;
  AsyncQueue* q = g.cur->async;
  if (!q) return;
  size_t until = q->done;
  if (pending == ~0u) {
    until = q->copies.size();
    q->waited = q->batches.size();
  } else {
    while (q->waited + pending < q->batches.size()) until = q->batches[q->waited++];
  }
  while (q->done < until) complete(q->copies[q->done++]);
}
