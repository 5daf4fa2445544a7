// SPDX-License-Identifier: Apache-2.0
// Global memory: regions between guard zones, their shadow cells, what of them has been written.
//
// Freed mappings are kept for the next region of their size. Nothing is ever cleared: a cell tells
// by its clock whether it speaks of this launch (Region::since) and of this region (Region::born).
#pragma once
#include <sys/mman.h>

#include <algorithm>
#include <map>

#include "faults.hpp"

namespace coc {

const size_t GUARD = 1 << 16;  // unmapped bytes before and after a buffer
const size_t LEAD = 256;       // aligns a buffer as cudaMalloc promises, and no better
// Freed mappings of so many resident bytes are kept, shadow included: touching fresh pages is dear.
const size_t POOL_BYTES = size_t(192) << 20;

static std::vector<Region*> g_regions;  // all live ones, by address
static std::map<size_t, std::vector<Region*>> g_pool;
static size_t g_pooled;

static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

static Cell* map_cells(size_t count) {
  void* p = mmap(nullptr, std::max<size_t>(1, count) * sizeof(Cell), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : (Cell*)p;
}

// Splits every cell so that a granule has no more than 1 << log2 bytes.
NOINLINE static void refine(Region& r, u32 log2) {
  if (!r.pristine) {
    const u32 parts = 1u << (r.log2 - log2);
    size_t i = ((r.hi - r.lo) + (size_t(1) << r.log2) - 1) >> r.log2;
    while (i-- > 0) {  // backwards, in place: the finer cells end further on
      const Cell whole = r.cells[i];
      for (u32 k = parts; k-- > 0;) r.cells[i * parts + k] = whole;
    }
  }
  r.log2 = log2;
  r.finest = std::min(r.finest, log2);
  if (r.shared) g.module->shared_log2 = std::min(g.module->shared_log2, log2);
}

static bool starts_lower(const Region* a, const Region* b) { return a->lo < b->lo; }

static void enter(Region* r, const char* name, bool init) {
  r->init = init;
  r->born = r->since = ++g.clk;
  r->log2 = 4;
  r->pristine = true;
  memset(r->name, 0, sizeof r->name);
  snprintf(r->name, sizeof r->name, "%s", name);
  g_regions.insert(std::lower_bound(g_regions.begin(), g_regions.end(), r, starts_lower), r);
}

static Region* map_region(size_t body) {
  const size_t total = body + 2 * GUARD;
  char* map =
      (char*)mmap(nullptr, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) return nullptr;
  // Shared, so that restrict checks can map the same bytes a second time.
  void* at = mmap(map + GUARD, body, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  Cell* cells = at == MAP_FAILED ? nullptr : map_cells(body);
  if (!cells) {
    munmap(map, total);
    return nullptr;
  }
  Region* r = new Region();
  r->map = (uptr)map;
  r->map_bytes = total;
  r->body_bytes = body;
  r->lo = r->map + GUARD + LEAD;
  r->cells = cells;
  return r;
}

static void unmap_region(Region* r) {
  munmap(r->cells, std::max<size_t>(1, r->body_bytes) * sizeof(Cell));
  if (r->map) munmap((void*)r->map, r->map_bytes);
  delete r;
}

// The most memory that the mapping has touched so far.
static size_t resident(const Region& r) {
  return r.body_bytes + (r.body_bytes >> r.finest) * sizeof(Cell);
}

static void empty_pool() {
  for (auto& entry : g_pool) {
    for (Region* r : entry.second) unmap_region(r);
  }
  g_pool.clear();
  g_pooled = 0;
}

// The live region that starts at p.
static Region* region_at(uptr p) {
  Region key;
  key.lo = p;
  auto it = std::lower_bound(g_regions.begin(), g_regions.end(), &key, starts_lower);
  return it != g_regions.end() && (*it)->lo == p ? *it : nullptr;
}

// The live region that p points into, or just past the end of.
static Region* region_around(uptr p) {
  Region key;
  key.lo = p;
  auto it = std::upper_bound(g_regions.begin(), g_regions.end(), &key, starts_lower);
  if (it == g_regions.begin()) return nullptr;
  Region* r = *--it;
  return p <= r->hi ? r : nullptr;
}

static bool cell_written(const Region& r, const Cell& c) { return r.init || c.wclk >= r.born; }

// Marks bytes as written by the host, or as never written.
static void mark(Region& r, size_t at, size_t bytes, bool written) {
  if (!bytes) return;
  const size_t size = r.hi - r.lo;
  if (at == 0 && bytes == size) {  // all of it: forget every cell
    r.init = written;
    r.born = r.since = ++g.clk;
    r.pristine = true;
    return;
  }
  if (r.init == written && r.pristine) return;
  const size_t edge = at | (at + bytes == size ? 16 : at + bytes);
  const u32 log2 = std::min(4, __builtin_ctzll(edge | 16));
  if (log2 < r.log2) refine(r, log2);
  const size_t whole = (size + (size_t(1) << r.log2) - 1) >> r.log2;
  if (r.init && !written) {  // the other cells keep their state by themselves from now on
    for (size_t i = 0; i < whole; i++) {
      if (!r.pristine && r.cells[i].wclk >= r.born) continue;
      r.cells[i] = Cell{};
      r.cells[i].wclk = r.born;
    }
    r.pristine = r.init = false;
  }
  const size_t from = at >> r.log2, to = (at + bytes + (size_t(1) << r.log2) - 1) >> r.log2;
  for (size_t i = from; i < std::min(to, whole); i++) {
    if (r.pristine || r.cells[i].wclk < r.born || !written) {
      r.cells[i] = Cell{};
      r.cells[i].wclk = written ? r.born : 0;
    }
  }
  r.pristine = false;
}

// Zeroes the cells from the first-th on, up to the room there is.
static void clear_cells(Region& r, size_t first) {
  char* from = (char*)(r.cells + first);
  char* end = (char*)(r.cells + r.body_bytes);
  char* page = std::min(end, (char*)round_up((uptr)from, PAGE));
  memset(from, 0, page - from);
  madvise(page, end - page, MADV_DONTNEED);
}

// Logical clocks have 32 bits. Before they run out every cell is reduced to 'written' or not.
static void renew_clocks() {
  for (Region* r : g_regions) {
    const size_t count =
        r->pristine ? 0 : ((r->hi - r->lo) + (size_t(1) << r->log2) - 1) >> r->log2;
    for (size_t i = 0; i < count; i++) {
      const bool written = r->cells[i].wclk >= r->born;
      r->cells[i] = Cell{};
      r->cells[i].wclk = written;
    }
    clear_cells(*r, count);
    r->born = r->since = 1;
  }
  for (auto& entry : g_pool) {
    for (Region* r : entry.second) clear_cells(*r, 0);
  }
  g.clk = 2;
}

// ------------------------------------------------------------------------------------ host
// functions Fresh memory filled with 0xA5; null when there is none.
API void* coc_alloc(size_t bytes, int init, const char* name) {
  const size_t body = round_up(bytes + LEAD, PAGE);
  Region* r;
  auto& kept = g_pool[body];
  if (!kept.empty()) {
    r = kept.back();
    kept.pop_back();
    g_pooled -= resident(*r);
  } else {
    r = map_region(body);
    if (!r) return nullptr;
  }
  r->hi = r->lo + bytes;
  if (!init) memset((void*)r->lo, 0xA5, bytes);
  enter(r, name, init);
  return (void*)r->lo;
}

// Host memory, used in place. 0: no memory for its shadow; -1: it overlaps a live region.
API int coc_register(void* p, size_t bytes, const char* name) {
  for (const Region* other : g_regions) {
    if ((uptr)p < other->hi && (uptr)p + bytes > other->lo) return -1;
  }
  Region* r = new Region();
  r->lo = (uptr)p;
  r->hi = r->lo + bytes;
  r->body_bytes = bytes;
  r->cells = map_cells(bytes);
  if (!r->cells) {
    delete r;
    return 0;
  }
  enter(r, name, true);
  return 1;
}

API void coc_free(void* p) {
  Region* r = region_at((uptr)p);
  if (!r) return;
  g_regions.erase(std::lower_bound(g_regions.begin(), g_regions.end(), r, starts_lower));
  if (!r->map || resident(*r) > POOL_BYTES / 4) return unmap_region(r);
  if (g_pooled + resident(*r) > POOL_BYTES) empty_pool();
  g_pooled += resident(*r);
  g_pool[r->body_bytes].push_back(r);
}

API u64 coc_live_regions() { return g_regions.size(); }

// Host copies keep track of what is written: to a buffer, from one, between two.
API int coc_write(void* p, size_t at, const void* from, size_t bytes) {
  Region* r = region_at((uptr)p);
  if (!r || at > r->hi - r->lo || bytes > r->hi - r->lo - at) return 0;
  memmove((char*)p + at, from, bytes);
  mark(*r, at, bytes, true);
  return 1;
}

API int coc_forget(void* p, size_t at, size_t bytes) {
  Region* r = region_at((uptr)p);
  if (!r || at > r->hi - r->lo || bytes > r->hi - r->lo - at) return 0;
  memset((char*)p + at, 0xA5, bytes);
  mark(*r, at, bytes, false);
  return 1;
}

// How many of the bytes nothing has written.
API u64 coc_unwritten(void* p, size_t at, size_t bytes) {
  Region* r = region_at((uptr)p);
  if (!r || r->init) return 0;
  if (r->pristine) return bytes;
  u64 count = 0;
  for (size_t i = at; i < at + bytes;) {
    const size_t next = std::min(at + bytes, ((i >> r->log2) + 1) << r->log2);
    if (!cell_written(*r, r->cells[i >> r->log2])) count += next - i;
    i = next;
  }
  return count;
}

API int coc_copy(void* to, size_t to_at, void* from, size_t from_at, size_t bytes) {
  Region *d = region_at((uptr)to), *s = region_at((uptr)from);
  if (!d || !s || to_at > d->hi - d->lo || bytes > d->hi - d->lo - to_at ||
      from_at > s->hi - s->lo || bytes > s->hi - s->lo - from_at) {
    return 0;
  }
  const bool whole = coc_unwritten(from, from_at, bytes) == 0;
  memmove((char*)to + to_at, (char*)from + from_at, bytes);
  if (whole) {
    mark(*d, to_at, bytes, true);
    return 1;
  }
  const size_t step = size_t(1) << s->log2;
  for (size_t i = 0; i < bytes;) {
    const size_t next = std::min(bytes, ((from_at + i) / step + 1) * step - from_at);
    mark(*d, to_at + i, next - i, cell_written(*s, s->cells[(from_at + i) / step]));
    i = next;
  }
  return 1;
}

// One byte for each element: bit 0 written and bit 1 read in its last launch, bit 2 ever written.
API void coc_touched(void* p, size_t element, u8* out) {
  Region* r = region_at((uptr)p);
  if (!r) return;
  const size_t size = r->hi - r->lo;
  for (size_t i = 0; i * element < size; i++) {
    u8 bits = r->init || !element ? 4 : 0;
    if (!r->pristine) {
      bool known = true;
      for (size_t at = i * element; at < std::min(size, (i + 1) * element);) {
        const Cell& c = r->cells[at >> r->log2];
        const bool read =
            (c.rthr[0] && c.rclk[0] >= r->since) || (c.rthr[1] && c.rclk[1] >= r->since);
        bits |= (c.wthr && c.wclk >= r->since ? 1 : 0) | (read ? 2 : 0);
        known = known && cell_written(*r, c);
        at = ((at >> r->log2) + 1) << r->log2;
      }
      if (known) bits |= 4;
    }
    out[i] = bits;
  }
}

}  // namespace coc
