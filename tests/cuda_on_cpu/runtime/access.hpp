// SPDX-License-Identifier: Apache-2.0
// Every load and store of a kernel comes here before it happens: bounds, initialisation, races,
// restrict, and the figures of the report.
#pragma once
#include "order.hpp"
#include "signals.hpp"
#include "trace.hpp"

namespace coc {

enum AccessKind : u32 {
  READ = 0,
  WRITE = 1,
  SYNC = 2,        // atomic or volatile: no race with its like
  RMW = 4,         // atomic read-modify-write
  READONLY = 8,    // a read through the read-only path
  ASYNC = 16,      // a write by an asynchronous copy, which stays pending
  ASYNC_END = 32,  // the same copy has been waited for
};

static const char* verb(u32 kind) { return kind & WRITE ? "writes" : "reads"; }

// ------------------------------------------------------------------------------------------
// messages
struct Place {
  char text[160];
};

static Place place(const Region& r, uptr a) {
  Place p;
  size_t at = a - r.lo;
  if (!r.shared) {
    snprintf(p.text, sizeof p.text, "global memory '%s' byte %zu", r.name, at);
    return p;
  }
  const char* name = "dynamic";
  if (at >= g.module->dynamic_at) {
    at -= g.module->dynamic_at;
  } else {
    name = "__shared__";
    for (auto& v : g.module->variables) {
      if (v.first > a - r.lo) break;
      name = v.second;
      at = a - r.lo - v.first;
    }
  }
  snprintf(p.text, sizeof p.text, "shared memory '%s' byte %zu", name, at);
  return p;
}

NOINLINE static void report_race(const char* what, const Region& r, uptr a, u32 other, u32 other_pc,
                                 uptr pc) {
  fault(RACE, g.cur, Site{pc, other_pc, 0},
        "%s race on %s with %s: no barrier orders the two accesses", what, place(r, a).text,
        thread_name(other & ID_MASK).text);
}

NOINLINE static void report_pending(const Region& r, uptr a, u32 kind, const Cell& c, uptr pc) {
  fault(RACE, g.cur, Site{pc, c.wpc, 0},
        "%s %s while an asynchronous copy into it by %s is in flight (it ends at "
        "__pipeline_wait_prior, or cp.async.wait_group)",
        verb(kind), place(r, a).text, thread_name(c.wthr & ID_MASK).text);
}

NOINLINE static void report_readonly(const Region& r, uptr a, u32 other_pc, uptr pc) {
  fault(RACE, g.cur, Site{pc, other_pc, 0},
        "%s is written and read through the read-only path (__ldg, ld.global.nc) in one launch",
        place(r, a).text);
}

NOINLINE static void report_unwritten(const Region& r, uptr a, uptr pc) {
  FAULT(UNINITIALISED, pc, "reads %s, which nothing has written", place(r, a).text);
}

NOINLINE static void wild(uptr a, u32 size, u32 kind, uptr pc) {
  if (a >= (uptr)g_stacks && a < (uptr)g_stacks + g_stacks_mapped) {
    return FAULT(OUT_OF_BOUNDS, pc, "%s %u bytes of another thread's local memory", verb(kind),
                 size);
  }
  Region* best = nullptr;
  size_t distance = GUARD + 1;
  for (const auto* list : {&g_regions, &g.active}) {  // the second has aliases, too
    for (Region* r : *list) {
      const size_t d = a < r->lo ? r->lo - a : a < r->hi ? 0 : a - r->hi;
      if (d >= distance) continue;
      distance = d;
      best = r;
    }
  }
  if (best && a >= best->lo && a < best->hi) {
    FAULT(OUT_OF_BOUNDS, pc,
          "%s %u bytes of buffer '%s', to which no argument of the launch points (see 'reach')",
          verb(kind), size, best->name);
  } else if (best) {
    FAULT(OUT_OF_BOUNDS, pc, "%s %u bytes %zu bytes %s buffer '%s' of %zu bytes", verb(kind), size,
          distance, a < best->lo ? "before" : "after the end of", best->name,
          size_t(best->hi - best->lo));
  } else if (a < PAGE) {
    FAULT(OUT_OF_BOUNDS, pc, "%s %u bytes through a null pointer", verb(kind), size);
  } else {
    FAULT(OUT_OF_BOUNDS, pc, "%s %u bytes at wild address %p", verb(kind), size, (void*)a);
  }
}

// -------------------------------------------------------------------------------------- shadow
// cells
static ALWAYS_INLINE u32 lowest_bit(u32 x) { return __builtin_ctz(x | 16); }

// Synchronising accesses do not race with each other if they concern each other's threads.
static bool both_sync(u32 kind, u32 other) {
  if (!(kind & SYNC && other & SYNC_BIT)) return false;
  if (LIKELY(g.sync_scope >= SCOPE_GPU)) return true;
  const u32 block = ((other & ID_MASK) - 1) / g.block_threads;
  return within(g.sync_scope, block, cluster_key(block));
}

NOINLINE static bool write_clashes(Region& r, Cell& c, uptr at, u32 kind, uptr pc) {
  const Thread& t = *g.cur;
  if (c.wthr & PENDING_BIT && !(kind & ASYNC_END)) {
    report_pending(r, at, kind, c, pc);
    return true;
  }
  if (g.params.races && !both_sync(kind, c.wthr) &&
      !ordered(c.wthr, c.wclk, t, r.shared)) {
    report_race(kind & WRITE ? "write-after-write" : "read-after-write", r, at, c.wthr, c.wpc, pc);
    return true;
  }
  return false;
}

NOINLINE static bool read_clashes(Region& r, Cell& c, int slot, uptr at, u32 kind, uptr pc) {
  if (!g.params.races) return false;
  if (c.rthr[slot] & READONLY_BIT && !r.shared && g.params.races == RACES_IN_GRID) {
    report_readonly(r, at, c.rpc, pc);
    return true;
  }
  if (both_sync(kind, c.rthr[slot])) return false;
  if (ordered(c.rthr[slot], c.rclk[slot], *g.cur, r.shared)) return false;
  report_race("write-after-read", r, at, c.rthr[slot], c.rpc, pc);
  return true;
}

// How little is lost if the running thread's read takes this reader's place: most where the reader
// is ordered before it, less where both are of one warp, or of one block.
static u32 nearness(u32 reader, u32 clk, bool shared) {
  const Thread& t = *g.cur;
  if (ordered(reader, clk, t, shared)) return 3;
  const u32 rel = (reader & ID_MASK) - t.block->first_id;
  return rel >= t.block->size ? 0 : rel / WARP == t.warp->index ? 2 : 1;
}

// Two readers are kept, as far apart as can be: a later writer that is ordered after one of them is
// then not ordered after the other, unless after all.
NOINLINE static int reader_to_replace(const Cell& c, bool shared) {
  return nearness(c.rthr[0], c.rclk[0], shared) < nearness(c.rthr[1], c.rclk[1], shared);
}

static ALWAYS_INLINE void shadow(Region& r, uptr a, u32 size, u32 kind, uptr pc) {
  const u32 id = g.cur->id;
  const u32 fine = lowest_bit((u32)(a - r.lo) | size);
  if (UNLIKELY(fine < r.log2)) refine(r, fine);
  r.pristine = false;
  const u32 pc32 = (u32)image_offset(pc), step = 1u << r.log2, since = r.since;
  Cell* const end = r.cells + ((a - r.lo + size) >> r.log2);
  uptr at = a;
  for (Cell* c = r.cells + ((a - r.lo) >> r.log2); c != end; ++c, at += step) {
    const bool reads = !(kind & WRITE) || kind & RMW;
    if (reads && UNLIKELY(c->wclk < r.born && !r.init) && g.params.uninit) {
      return report_unwritten(r, at, pc);
    }
    if (c->wclk >= since && UNLIKELY(c->wthr != id) && write_clashes(r, *c, at, kind, pc)) return;
    if (kind & WRITE) {
      for (int k = 0; k < 2; k++) {
        if (c->rclk[k] >= since && UNLIKELY(c->rthr[k] != id) &&
            read_clashes(r, *c, k, at, kind, pc)) {
          return;
        }
      }
      if (c->wclk < since) r.written_unique += step;
      c->wthr = id | (kind & SYNC ? SYNC_BIT : 0) | (kind & ASYNC ? PENDING_BIT : 0);
      c->wclk = g.clk;
      c->wpc = pc32;
    } else {
      if (UNLIKELY(kind & READONLY) && c->wclk >= since && g.params.races == RACES_IN_GRID) {
        return report_readonly(r, at, c->wpc, pc);
      }
      const bool unread0 = c->rclk[0] < since, unread1 = c->rclk[1] < since;
      if (unread0 && unread1) r.read_unique += step;
      int slot = 0;
      if (!unread0 && (c->rthr[0] & ID_MASK) != id) {
        const bool mine = unread1 || (c->rthr[1] & ID_MASK) == id;
        slot = mine ? 1 : reader_to_replace(*c, r.shared);
      }
      c->rthr[slot] = id | (kind & SYNC ? SYNC_BIT : 0) | (kind & READONLY ? READONLY_BIT : 0);
      c->rclk[slot] = g.clk;
      c->rpc = pc32;
    }
  }
}

// ------------------------------------------------------------------------------------ shared
// memory
static ALWAYS_INLINE bool traced() {
  return g.cur->warp->index < g.params.trace_warps && g.cur->block->index == 0;
}

static void shared_access(Block& owner, uptr a, u32 size, u32 kind, uptr pc) {
  const ModuleInfo& m = *g.module;
  const size_t at = a - (uptr)owner.shared;
  if (at >= m.dynamic_at) {
    if (UNLIKELY(!g.params.shared_bytes)) {
      return FAULT(OUT_OF_BOUNDS, pc,
                   "%s %u bytes at byte %zu of shared memory, overrunning its %u bytes", verb(kind),
                   size, at, m.static_shared);
    }
    if (UNLIKELY(at + size > m.dynamic_at + g.params.shared_bytes)) {
      return FAULT(OUT_OF_BOUNDS, pc,
                   "%s %u bytes at byte %zu of dynamic shared memory, launched with %u bytes",
                   verb(kind), size, at - m.dynamic_at, g.params.shared_bytes);
    }
  } else if (UNLIKELY(at + size > m.static_shared || !m.owner[at] ||
                      m.owner[at] != m.owner[at + size - 1])) {
    return FAULT(OUT_OF_BOUNDS, pc, "%s %u bytes that overrun the variable at %s", verb(kind), size,
                 place(owner.region, a).text);
  }
  (kind & WRITE ? g.report->shared_written : g.report->shared_read) += size;
  if (UNLIKELY(traced())) trace(SHARED_SPACE, a, size, kind & WRITE, image_offset(pc));
  shadow(owner.region, a, size, kind, pc);
}

// Shared memory of a block other than the thread's own: distributed shared memory of its cluster.
NOINLINE static void remote_access(uptr a, u32 size, u32 kind, uptr pc) {
  const Block& mine = *g.cur->block;
  const size_t slot = (a - g.shared.lo) / g.shared_stride;
  Block& target = *g.group[slot];
  if (target.cluster != mine.cluster) {
    return FAULT(OUT_OF_BOUNDS, pc, "%s %u bytes of the shared memory of block (%u,%u,%u)%s",
                 verb(kind), size, target.id.x, target.id.y, target.id.z,
                 ", which is not in its cluster");
  }
  if (target.done) {
    return FAULT(SHARED_LIFETIME, pc, "%s shared memory of block rank %u, which has exited",
                 verb(kind), target.rank);
  }
  if (!mine.waits) {
    return FAULT(
        SHARED_LIFETIME, pc,
        "%s shared memory of block rank %u, which may not have started: no cluster barrier "
        "came before",
        verb(kind), target.rank);
  }
  target.remote_id = g.cur->id;
  target.remote_pc = pc;
  target.remote_clk = g.clk;
  target.remote_arrivals = std::max(target.remote_arrivals, g.cur->arrivals);
  shared_access(target, a, size, kind, pc);
}

// ------------------------------------------------------------------------------------ global
// memory
static ALWAYS_INLINE Region* find(uptr a) {
  Region* r = g.last;
  if (LIKELY(r && a >= r->lo && a < r->hi)) return r;
  for (Region* other : g.active) {
    if (a >= other->lo && a < other->hi) return g.last = other;
  }
  return nullptr;
}

// A buffer that came in by several pointers has a mapping for each: the address tells which was
// used.
NOINLINE static bool alias_clash(const Region& r, Region& primary, uptr a, u32 size, u32 kind,
                                 uptr pc);

static ALWAYS_INLINE void access(uptr a, u32 size, u32 kind, uptr pc) {
  if (UNLIKELY(!g.running || !size)) return;
  if (UNLIKELY(g_expired)) hang(pc);
  g.writes += (kind & WRITE) != 0;
  Block& b = *g.cur->block;
  if (a - (uptr)b.shared < g.shared_stride) return shared_access(b, a, size, kind, pc);
  if (Region* r = find(a)) {
    if (UNLIKELY(a + size > r->hi)) {
      return FAULT(OUT_OF_BOUNDS, pc, "%s %u bytes at byte %zu of buffer '%s' of %zu bytes",
                   verb(kind), size, size_t(a - r->lo), r->name, size_t(r->hi - r->lo));
    }
    if (UNLIKELY(r->alias)) {
      Region& primary = r->primary ? *r->primary : *r;
      if (alias_clash(*r, primary, a, size, kind, pc)) return;
      a = a - r->lo + primary.lo;
      r = &primary;
    }
    if (UNLIKELY(kind & RMW)) {
      r->atomic_bytes += size;
    } else if (kind & WRITE) {
      r->written_bytes += size;
      r->stores++;
      r->wide_stores += size == 16;
    } else {
      r->read_bytes += size;
      r->loads++;
      r->wide_loads += size == 16;
    }
    if (UNLIKELY(traced())) trace(GLOBAL_SPACE, a, size, kind & WRITE, image_offset(pc));
    return shadow(*r, a, size, kind, pc);
  }
  const uptr stack = (uptr)g.cur->fiber->stack_lo;
  if (a >= stack && a + size <= stack + g_stack_bytes) return;  // local memory
  if (a >= g.shared.lo && a < g.shared.hi) return remote_access(a, size, kind, pc);
  for (const Range& r : g.module->image) {
    if (a >= r.lo && a + size <= r.hi) return;  // constants and __device__ variables
  }
  if (a >= g.arg_bytes.lo && a + size <= g.arg_bytes.hi) return;
  wild(a, size, kind, pc);
}

// After so many atomic or volatile accesses a thread lets the others run: it may be waiting for
// one.
const u32 POLLS_BEFORE_YIELD = 32;

static void yield() {
  set_wait(*g.cur, RUN);
  to_scheduler();
}

static ALWAYS_INLINE void poll() {
  if (UNLIKELY(++g.cur->polls % POLLS_BEFORE_YIELD == 0)) yield();
}

}  // namespace coc
