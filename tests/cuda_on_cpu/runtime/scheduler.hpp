// SPDX-License-Identifier: Apache-2.0
// Running blocks: warp by warp and lane by lane in the order asked for, each thread until it waits.
//
// Blocks of an ordinary launch run one after another. The blocks of a cluster, and all blocks of a
// cooperative launch, live at once: each gets its turn until all of its threads wait or have ended.
#pragma once
#include <random>

#include "async.hpp"
#include "cluster.hpp"

// Where the shared memory of the running block lies; kernel libraries add their offsets to it.
API char* coc_shared_now;
char* coc_shared_now;

namespace coc {

struct Cursor {  // which lanes of the running warp have had their turn
  Warp* warp;
  u32 at;
};
static Cursor g_cursor;
static std::mt19937_64 g_random;

// Shared memory of a block that lives at once with others starts at a multiple of this.
const size_t SHARED_STRIDE = 512 * 1024;
const size_t MAX_SHARED = 227 * 1024;  // of one block, on sm_90
const size_t MAX_STATIC_SHARED = 48 * 1024;

static std::vector<Block*> g_blocks;  // kept from launch to launch
static std::vector<Cluster> g_clusters;
static size_t g_shared_slots;
static Cell* g_shared_cells;

// --------------------------------------------------------------------------------------- threads
static ALWAYS_INLINE void begin_thread(Block& b, Warp& w, u32 lane, Fiber* fiber) {
  Thread& t = w.first[lane];
  const u32 linear = w.index * WARP + lane;
  if (g.block.y * g.block.z == 1) {
    t.index = {linear, 0, 0};
  } else {
    const u32 rest = linear / g.block.x;
    t.index = {linear % g.block.x, rest % g.block.y, rest / g.block.y};
  }
  t.linear = linear;
  t.lane = lane;
  t.id = b.first_id + linear;
  t.warp = &w;
  t.block = &b;
  t.fiber = fiber;
  memset(t.fence_clk, 0, sizeof t.fence_clk);
  t.polls = 0;
  t.arrivals = t.waits = 0;
  memset(t.arrive_clk, 0, sizeof t.arrive_clk);
  t.result = 0;
  if (UNLIKELY(t.known != nullptr)) {
    delete t.known;
    t.known = nullptr;
  }
  if (UNLIKELY(t.observed != nullptr)) t.observed->clear();
  t.observed_at = 0;
  if (UNLIKELY(t.async != nullptr)) *t.async = AsyncQueue();
  b.wait[linear] = RUN;
  b.counts[FRESH]--;
  b.counts[RUN]++;
  g.cur = &t;
}

static ALWAYS_INLINE bool begin_next_thread(Fiber* fiber) {
  Warp& w = *g_cursor.warp;
  if (g_cursor.at == w.size) return false;
  const u32 lane = w.order[g_cursor.at];
  Block& b = *g.cur->block;
  if (b.wait[w.index * WARP + lane] != FRESH) return false;
  g_cursor.at++;
  begin_thread(b, w, lane, fiber);
  return true;
}

static void fiber_main() {
  for (;;) {
    Fiber* self = g.cur->fiber;
    do {
      g.kernel->entry(g.args);
      if (UNLIKELY(g.cur->arrivals != g.cur->waits)) {
        fault(BARRIER_FAULT, g.cur, Site{0, 0, g.cur->line},
              "returns without waiting at the cluster barrier that it arrived at in line %d", g.cur->line);
      }
      set_wait(*g.cur, DONE);
    } while (begin_next_thread(self));
    to_scheduler();
  }
}

static bool run_warp(Block& b, Warp& w) {
  do {
    g_cursor = {&w, 0};
    while (g_cursor.at < w.size) {
      const u32 lane = w.order[g_cursor.at++];
      const u8 wait = b.wait[w.index * WARP + lane];
      if (!is_runnable(wait)) continue;
      if (wait == FRESH) {
        begin_thread(b, w, lane, &take_fiber());
      } else {
        g.cur = &w.first[lane];
      }
      g.report->switches++;
      to_fiber(*g.cur->fiber);
      Thread& last = *g.cur;  // the fiber may have gone on to further threads
      g.cur = nullptr;
      if (g.abort) return false;
      if (UNLIKELY(stack_overflowed(*last.fiber))) {
        fault(UNDEFINED, &last, Site{last.pc, 0, 0},
              "stack overflow (%zu bytes a thread; see stack_bytes)", g_stack_bytes);
        return false;
      }
      if (wait_of(last) == DONE) g_idle.push_back(last.fiber);
    }
  } while (w.waiting && resolve_warp(w));
  return !g.abort;
}

// ---------------------------------------------------------------------------------------- blocks
static bool exit_block(Block& b) {
  b.done = true;
  if (b.remote_id && b.remote_clk >= g.grid_clk && b.waits <= b.remote_arrivals) {
    fault(
        SHARED_LIFETIME, nullptr, Site{b.remote_pc, 0, 0},
        "%s accesses shared memory of block (%u,%u,%u), which exits with no cluster barrier after "
        "the access",
        thread_name(b.remote_id).text, b.id.x, b.id.y, b.id.z);
    return false;
  }
  return true;
}

// Until every thread waits for other blocks, has ended, or only polls. False after a fault.
static bool run_block(Block& b) {
  coc_shared_now = b.shared;
  for (;;) {
    for (u32 i : b.warp_order) {
      Warp& w = b.warps[i];
      if (w.runnable && !run_warp(b, w)) return false;
    }
    if (b.counts[AT_BLOCK] == b.size) {
      if (!complete_block_barrier(b)) return false;
      continue;
    }
    if (b.counts[AT_PART]) {
      if (complete_part_barrier(b)) continue;
      if (g.abort) return false;
    }
    if (b.counts[DONE] == b.size) return exit_block(b);
    if (b.counts[RUN] || b.counts[AT_GRID] == b.size || awaits_cluster(b)) return true;
    report_stuck_block(b);
    return false;
  }
}

static void set_order(Block& b) {
  const u32 order = g.params.order, warps = b.warps.size();
  b.ordered_as = order;
  b.lane_order.resize(warps * WARP);
  b.warp_order.resize(warps);
  for (u32 i = 0; i < warps; i++) b.warp_order[i] = order == REVERSE ? warps - 1 - i : i;
  if (order == SHUFFLE) {
    g_random.seed(g.params.seed * 1000003ull + b.index);
    std::shuffle(b.warp_order.begin(), b.warp_order.end(), g_random);
  }
  for (Warp& w : b.warps) {
    u8* lanes = &b.lane_order[w.index * WARP];
    for (u32 i = 0; i < w.size; i++) lanes[i] = order == REVERSE ? w.size - 1 - i : i;
    if (order == SHUFFLE) std::shuffle(lanes, lanes + w.size, g_random);
    w.order = lanes;
  }
}

// Prepares the slot's block structure for blocks of this launch.
static void size_block(Block& b, u32 slot) {
  if (b.size != g.block_threads) {
    delete[] b.threads;
    b.size = g.block_threads;
    b.threads = new Thread[b.size]();
    b.ordered_as = ~0u;
    b.warps.clear();
    b.warps.resize((b.size + WARP - 1) / WARP);
    for (u32 i = 0; i < b.warps.size(); i++) {
      Warp& w = b.warps[i];
      w.index = i;
      w.first = b.threads + i * WARP;
      w.size = std::min(WARP, b.size - i * WARP);
    }
  }
  if (g.params.order != SHUFFLE && b.ordered_as != g.params.order) set_order(b);
  b.shared = (char*)g.shared.lo + slot * SHARED_STRIDE;
  Region& r = b.region;
  r.lo = (uptr)b.shared;
  r.hi = r.lo + g.shared_used;
  r.cells = g_shared_cells + slot * SHARED_STRIDE;
  r.shared = true;
}

static void begin_block(Block& b, u32 index, Cluster& cluster, u32 rank) {
  b.index = index;
  b.id = {index % g.grid.x, index / g.grid.x % g.grid.y, index / g.grid.x / g.grid.y};
  b.first_id = index * b.size + 1;
  b.cluster = &cluster;
  b.rank = rank;
  b.done = false;
  b.waits = 0;
  b.remote_id = b.remote_arrivals = 0;
  memset(b.wait, FRESH, b.size);
  memset(b.counts, 0, sizeof b.counts);
  b.counts[FRESH] = b.size;
  b.bar_clk = g.clk;
  b.parted = false;
  for (Warp& w : b.warps) {
    w.runnable = w.size;
    w.waiting = 0;
    w.synced = false;
  }
  delete b.known;
  b.known = nullptr;
  if (g.params.order == SHUFFLE) set_order(b);
  b.region.born = b.region.since = g.clk;
  b.region.log2 = g.module->shared_log2;
  b.region.pristine = true;
  if (g.module->checked) memset(b.shared, 0xA5, g.shared_used);
}

// ------------------------------------------------------------------------- blocks that live at
// once
// Rounds in which threads of these blocks ran and none wrote anything: they all wait in loops for something that no
// thread is going to write.
const u32 IDLE_ROUNDS = 64;

static void report_idle_group() {
  for (const Block* b : g.group) {
    if (const Thread* t = first_in(*b, RUN)) {
      return fault(HANG, t, Site{t->pc, 0, 0},
                   "deadlock: every thread that is left waits, this one in a loop, and none writes%s",
                   about_other_blocks());
    }
  }
}

static u64 events() {
  const Report& r = *g.report;
  return g.writes + r.barriers + r.warp_ops + r.grid_barriers + r.cluster_barriers;
}

static bool run_group() {
  u64 seen = events();
  u32 idle = 0;
  for (;;) {
    u32 done = 0;
    for (Block* b : g.group) {
      if (!b->done && !run_block(*b)) return false;
      done += b->done;
    }
    if (done == g.group.size()) return true;
    bool progress = false;
    for (Block* b : g.group) {
      progress = progress || b->counts[RUN] || b->counts[FRESH];
    }
    if (all_at(g.group, AT_GRID)) {
      if (!complete_grid_barrier(g.group)) return false;
      progress = true;
    }
    if (!progress) {
      report_stuck_group(g.group);
      return false;
    }
    idle = events() == seen ? idle + 1 : 0;
    seen = events();
    if (idle == IDLE_ROUNDS && g.module->checked) {
      report_idle_group();
      return false;
    }
  }
}

static u32 block_of_cluster(u32 cluster, u32 rank) {
  const u32 nx = g.grid.x / g.cluster.x, ny = g.grid.y / g.cluster.y;
  const u32 x = cluster % nx * g.cluster.x + rank % g.cluster.x;
  const u32 y = cluster / nx % ny * g.cluster.y + rank / g.cluster.x % g.cluster.y;
  const u32 z = cluster / nx / ny * g.cluster.z + rank / g.cluster.x / g.cluster.y;
  return x + g.grid.x * (y + g.grid.y * z);
}

// Starts the blocks of these clusters and runs them to their end.
static bool run_clusters(const u32* clusters, u32 count) {
  const u32 blocks_each = g.cluster.x * g.cluster.y * g.cluster.z;
  g.clk++;
  u32 slot = 0;
  for (u32 i = 0; i < count; i++) {
    Cluster& c = g_clusters[i];
    c.phase = c.arrived = 0;
    c.gathered = c.known = Knowledge();
    c.blocks.resize(blocks_each);
    for (u32 rank = 0; rank < blocks_each; rank++) {
      Block& b = *g.group[slot++];
      c.blocks[rank] = &b;
      const u32 index = blocks_each == 1 ? clusters[i] : block_of_cluster(clusters[i], rank);
      begin_block(b, index, c, rank);
    }
  }
  return run_group();
}

static bool reserve_shared(u32 slots) {
  if (slots > g_shared_slots) {
    if (g_shared_slots) {
      munmap((void*)g.shared.lo, g_shared_slots * SHARED_STRIDE);
      munmap(g_shared_cells, g_shared_slots * SHARED_STRIDE * sizeof(Cell));
      g_shared_slots = 0;
    }
    void* p = mmap(nullptr, slots * SHARED_STRIDE, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    g_shared_cells = map_cells(slots * SHARED_STRIDE);
    if (p == MAP_FAILED || !g_shared_cells) return false;
    g.shared = {(uptr)p, (uptr)p + slots * SHARED_STRIDE};
    g_shared_slots = slots;
  }
  g.shared_stride = SHARED_STRIDE;
  return true;
}

// Runs every block of the grid. The order of clusters (of blocks, where there are none) is the
// order asked for.
static void run_grid() {
  const u32 blocks_each = g.cluster.x * g.cluster.y * g.cluster.z;
  const u32 clusters = g.blocks / blocks_each;
  const u32 at_once = g.params.cooperative ? clusters : 1;
  const u32 slots = at_once * blocks_each;
  if (!reserve_shared(slots) || !reserve_fibers(slots * g.block_threads, g.params.stack_bytes)) {
    return fault(BAD_LAUNCH, nullptr, Site{}, "not enough address space for %u blocks at once",
                 slots);
  }
  while (g_blocks.size() < slots) g_blocks.push_back(new Block());
  g.group.assign(g_blocks.begin(), g_blocks.begin() + slots);
  for (u32 i = 0; i < slots; i++) size_block(*g.group[i], i);
  if (g_clusters.size() < at_once) g_clusters.resize(at_once);
  std::vector<u32> shuffled;
  if (g.params.order == SHUFFLE || g.params.cooperative) {
    shuffled.resize(clusters);
    for (u32 i = 0; i < clusters; i++)
      shuffled[i] = g.params.order == REVERSE ? clusters - 1 - i : i;
  }
  if (g.params.order == SHUFFLE) {
    g_random.seed(g.params.seed);
    std::shuffle(shuffled.begin(), shuffled.end(), g_random);
  }
  if (g.params.cooperative) {
    run_clusters(shuffled.data(), clusters);
    return;
  }
  for (u32 i = 0; i < clusters; i++) {
    const u32 next = g.params.order == SHUFFLE   ? shuffled[i]
                     : g.params.order == REVERSE ? clusters - 1 - i
                                                 : i;
    if (!run_clusters(&next, 1)) return;
  }
}

// Clocks start again at 1: shared cells of the past must not look like the future.
static void renew_shared_clocks() {
  if (g_shared_slots) {
    madvise(g_shared_cells, g_shared_slots * SHARED_STRIDE * sizeof(Cell), MADV_DONTNEED);
  }
}

}  // namespace coc
