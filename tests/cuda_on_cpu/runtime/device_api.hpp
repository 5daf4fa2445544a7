// SPDX-License-Identifier: Apache-2.0
// What the headers call on behalf of a kernel's thread, other than barriers and warp operations.
#pragma once
#include "scheduler.hpp"

struct coc_triple {  // as the header execution.h declares it
  unsigned x, y, z;
};

static inline coc_triple triple(coc::Dim d) { return {d.x, d.y, d.z}; }

API coc_triple coc_thread_idx() { return triple(coc::g.cur->index); }
API coc_triple coc_block_idx() { return triple(coc::g.cur->block->id); }
API coc_triple coc_block_dim() { return triple(coc::g.block); }
API coc_triple coc_grid_dim() { return triple(coc::g.grid); }
API coc_triple coc_cluster_dim() { return triple(coc::g.cluster); }
API unsigned coc_cluster_rank() { return coc::g.cur->block->rank; }

// Checks an atomic on p before it happens; 'ret' is the return address in the kernel.
API void coc_atomic(void* p, unsigned size, void* ret) {
  using namespace coc;
  const uptr a = (uptr)p, pc = (uptr)ret - 1;
  if (UNLIKELY(a % size)) {
    FAULT(MISALIGNED, pc, "atomic on address %p, which is not a multiple of %u", p, size);
  }
  g.report->atomics++;
  poll();
  if (UNLIKELY(g_expired)) hang(pc);
  if (!g.module->checked) return;
  access(a, size, WRITE | SYNC | RMW, pc);
  if (g.know) {
    acquire(a, SCOPE_SYSTEM);
    release(a, SCOPE_SYSTEM);
  }
}

// Checks an ld, st, atom or red of inline PTX that has an order and a scope, before it happens. Unlike atomicAdd, whose
// acquire is taken on trust, it orders what its words say and nothing else.
API void coc_sync_access(void* p, unsigned size, int reads, int writes, int acquires, int releases, int scope,
                         void* ret) {
  using namespace coc;
  const uptr a = (uptr)p, pc = (uptr)ret - 1;
  const Scope s = (Scope)scope;
  if (UNLIKELY(a % size)) {
    FAULT(MISALIGNED, pc, "synchronising access to address %p, which is not a multiple of %u", p, size);
  }
  g.report->atomics += reads && writes;
  g.cur->pc = pc;
  if (reads) poll();
  if (UNLIKELY(g_expired)) hang(pc);
  if (!g.module->checked) return;
  g.sync_scope = s;
  access(a, size, (writes ? WRITE : READ) | SYNC | (reads && writes ? RMW : 0), pc);
  g.sync_scope = SCOPE_SYSTEM;
  if (!g.know) return;
  if (writes && !reads) g_released.erase(a);  // who reads this value has not seen those before it
  if (reads) acquires ? acquire(a, s) : observe(a, s);
  if (writes) {
    release(a, s);
    if (releases) release_until(g_released[a], s, ++g.clk);
  }
}

// Checks a read through the read-only path.
API void coc_read_only(const void* p, unsigned size, void* ret) {
  using namespace coc;
  const uptr a = (uptr)p, pc = (uptr)ret - 1;
  if (UNLIKELY(a % size)) {
    FAULT(MISALIGNED, pc,
          "reads %u bytes at address %p, which is not a multiple of %u (off by %zu)", size, p, size,
          size_t(a % size));
  }
  access(a, size, find(a) ? READONLY : READ, pc);
}

// Checks a load or store of inline PTX, which needs its natural alignment.
API void coc_ptx_access(void* p, unsigned bytes, int write, int read_only, void* ret) {
  using namespace coc;
  const uptr a = (uptr)p, pc = (uptr)ret - 1;
  if (read_only) return coc_read_only(p, bytes, ret);
  if (UNLIKELY(a % bytes)) {
    FAULT(MISALIGNED, pc, "%s %u bytes at address %p, which is not a multiple of %u (off by %zu)",
          verb(write), bytes, p, bytes, size_t(a % bytes));
  }
  access(a, bytes, write ? WRITE : READ, pc);
}

API void coc_fence(int scope) { coc::fence((coc::Scope)scope); }
API void coc_yield() { coc::yield(); }
API void coc_trap(int line, const char* what) {
  using namespace coc;
  fault(UNDEFINED, g.cur, Site{CALLER_PC, 0, line}, "%s", what);
}

// The address of p, which lies in the caller's shared memory, in the block of that rank.
API void* coc_map_shared(const void* p, unsigned rank, int line) {
  using namespace coc;
  const Block& b = *g.cur->block;
  const uptr at = (uptr)p - (uptr)b.shared;
  const Site site{CALLER_PC, 0, line};
  if (at >= g.shared_stride) {
    fault(OUT_OF_BOUNDS, g.cur, site,
          "map_shared_rank of %p, which is not the block's shared memory", p);
  }
  if (rank >= b.cluster->blocks.size()) {
    fault(OUT_OF_BOUNDS, g.cur, site, "map_shared_rank to rank %u of a cluster of %zu blocks", rank,
          b.cluster->blocks.size());
  }
  return b.cluster->blocks[rank]->shared + at;
}

// Addresses as ld.shared and cp.async have them, from the start of the block's shared memory.
API unsigned long coc_shared_offset(const void* p) { return (char*)p - coc::g.cur->block->shared; }
API void* coc_shared_pointer(unsigned offset) { return coc::g.cur->block->shared + offset; }
API int coc_is_shared(const void* p) { return coc::is_own_shared((coc::uptr)p); }
