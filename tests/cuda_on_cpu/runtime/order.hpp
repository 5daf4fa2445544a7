// SPDX-License-Identifier: Apache-2.0
// Happens-before: which earlier accesses of other threads the running thread may rely on.
//
// Order comes from barriers of the block, the cluster and the grid, from __syncwarp within its
// mask, and, in kernels that use __threadfence, from atomics and volatile accesses. Nothing else
// orders memory: not a shuffle, and not that threads happen to run one after another here.
#pragma once
#include "regions.hpp"

namespace coc {

static u32 cluster_key(u32 block) {
  const u32 x = block % g.grid.x / g.cluster.x, y = block / g.grid.x % g.grid.y / g.cluster.y;
  const u32 z = block / g.grid.x / g.grid.y / g.cluster.z;
  return x + (g.grid.x / g.cluster.x) * (y + (g.grid.y / g.cluster.y) * z);
}

// What blocks know of each other by fences takes room for every pair of them. In kernels with
// fences and larger grids, races between blocks are not looked for.
const u32 MAX_KNOWN_BLOCKS = 4096;

static bool known(const Knowledge* k, u32 id, u32 block, u32 clk) {
  if (!k) return false;
  auto b = k->blocks.find(block);
  if (b != k->blocks.end() && clk < b->second) return true;
  auto t = k->threads.find(id);
  return t != k->threads.end() && clk < t->second;
}

// Whether an access by thread 'id' at clock 'clk' is ordered before what thread t does now.
static bool ordered(u32 id, u32 clk, const Thread& t, bool shared) {
  id &= ID_MASK;
  if (id == t.id) return true;
  const Block& b = *t.block;
  const u32 rel = id - b.first_id;
  u32 block = b.index;
  if (rel < b.size) {
    if (clk < b.bar_clk) return true;
    if (UNLIKELY(b.parted)) {
      for (u32 k = std::max(rel, t.linear) / WARP + 1; k <= b.warps.size(); k++) {
        if (clk < b.part_clk[k]) return true;
      }
    }
    const Warp& w = *t.warp;
    if (w.synced && rel / WARP == w.index && clk < w.lane_clk[t.lane * WARP + rel % WARP])
      return true;
  } else {
    if (g.params.races < RACES_IN_GRID && !shared) return true;
    if (clk < g.grid_clk) return true;
    block = (id - 1) / g.block_threads;
    const bool together =
        b.cluster->blocks.size() > 1 && cluster_key(block) == cluster_key(b.index);
    if (together && clk < b.cluster->clk) return true;
  }
  return g.know && (known(t.known, id, block, clk) || known(b.known, id, block, clk));
}

// ------------------------------------------------------------- order by fences and synchronising
// accesses
static std::unordered_map<uptr, Knowledge> g_released;  // by the address of the atomic or the flag

static Knowledge& knowledge_of(Knowledge*& k) {
  if (!k) k = new Knowledge();
  return *k;
}

static void fence() {
  if (!g.know) return;
  g.cur->fence_clk = ++g.clk;
}

// The access makes known what its thread has fenced. Threads of its block count as fenced up to the
// last barrier: they fence before it, or the thread does after it, in every pattern in use.
static void release(uptr at) {
  Thread& t = *g.cur;
  if (!t.fence_clk) return;
  Knowledge& k = g_released[at];
  if (t.known) k.join(*t.known);
  if (t.block->known) k.join(*t.block->known);
  Knowledge::raise(k.blocks[t.block->index], t.block->bar_clk);
  Knowledge::raise(k.threads[t.id], t.fence_clk);
}

static void acquire(uptr at) {
  auto found = g_released.find(at);
  if (found != g_released.end()) knowledge_of(g.cur->known).join(found->second);
}

// At a barrier what one thread knows becomes known to its block.
static void share_knowledge(Block& b) {
  for (u32 i = 0; i < b.size; i++) {
    Thread& t = b.threads[i];
    if (!t.known) continue;
    knowledge_of(b.known).join(*t.known);
    delete t.known;
    t.known = nullptr;
  }
}

// The ordering effect of __syncwarp: every lane of the mask comes to know what any of them knew.
static void sync_lanes(Warp& w, u32 mask) {
  if (!w.synced) {
    w.lane_clk.assign(WARP * WARP, 0);
    w.synced = true;
  }
  const u32 now = ++g.clk;
  u32 merged[WARP] = {0};
  for (u32 lane = 0; lane < WARP; lane++) {
    if (!(mask >> lane & 1)) continue;
    for (u32 k = 0; k < WARP; k++) {
      merged[k] = std::max(merged[k], w.lane_clk[lane * WARP + k]);
    }
  }
  for (u32 lane = 0; lane < WARP; lane++) {
    if (mask >> lane & 1) merged[lane] = now;
  }
  for (u32 lane = 0; lane < WARP; lane++) {
    if (mask >> lane & 1) memcpy(&w.lane_clk[lane * WARP], merged, sizeof merged);
  }
}

}  // namespace coc
