// SPDX-License-Identifier: Apache-2.0
// Happens-before: which earlier accesses of other threads the running thread may rely on.
//
// Order comes from barriers of the block, the cluster and the grid, from __syncwarp within its
// mask, and, in kernels with fences or accesses that have an order, from what these release and
// acquire within their scopes, atomics and volatile accesses included. Nothing else
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
    if (UNLIKELY(t.waits) && clk < b.threads[rel].arrive_clk[t.waits % ARRIVALS]) return true;
    const Warp& w = *t.warp;
    if (w.synced && rel / WARP == w.index && clk < w.lane_clk[t.lane * WARP + rel % WARP])
      return true;
  } else {
    if (g.params.races < RACES_IN_GRID && !shared) return true;
    if (clk < g.grid_clk) return true;
    block = (id - 1) / g.block_threads;
    if (UNLIKELY(t.waits)) {
      for (const Block* other : b.cluster->blocks) {
        if (other->index != block) continue;
        if (clk < other->threads[id - other->first_id].arrive_clk[t.waits % ARRIVALS]) return true;
      }
    }
  }
  return g.know && (known(t.known, id, block, clk) || known(b.known, id, block, clk));
}

// ------------------------------------------------------------- order by fences and synchronising
// accesses
static u64 g_releases;
static std::unordered_map<uptr, Flag> g_released;  // by the address of the atomic or the flag

static Knowledge& knowledge_of(Knowledge*& k) {
  if (!k) k = new Knowledge();
  return *k;
}

static Released& entry_for(std::vector<Released>& list, Scope scope, u32 block, u32 cluster) {
  for (Released& r : list) {
    if (r.scope != scope) continue;
    if (scope >= SCOPE_GPU || (scope == SCOPE_CLUSTER ? r.cluster == cluster : r.block == block)) {
      if (r.block != block) r.block = MANY;
      if (r.cluster != cluster) r.cluster = MANY;
      return r;
    }
  }
  list.push_back({scope, block, cluster, {}});
  return list.back();
}

// The access makes known, to those within 'scope', what its thread did before 'clk'. Threads of its block count up to
// the block's last barrier: what happened before that happened before the access, too.
static void release_until(Flag& f, Scope scope, u32 clk) {
  Thread& t = *g.cur;
  const u32 block = t.block->index;
  Knowledge& k = entry_for(f.left, scope, block, cluster_key(block)).what;
  if (t.known) k.join(*t.known);
  if (t.block->known) k.join(*t.block->known);
  Knowledge::raise(k.blocks[block], t.block->bar_clk);
  Knowledge::raise(k.threads[t.id], clk);
  f.version = ++g_releases;
}

// What fences before a write make of it: a release, at the narrower of both scopes.
static void release(uptr at, Scope scope) {
  for (u32 s = 0; s < SCOPES; s++) {
    const u32 clk = g.cur->fence_clk[s];
    if (clk) release_until(g_released[at], std::min((Scope)s, scope), clk);
  }
}

// Whether threads of that block, or of that cluster, are within the scope of the running thread.
static bool within(Scope scope, u32 block, u32 cluster) {
  const u32 own = g.cur->block->index;
  return scope >= SCOPE_GPU || (scope == SCOPE_CLUSTER ? cluster == cluster_key(own) : block == own);
}

// Two accesses synchronise if each is in the other's scope.
static void learn(const Released& r, Scope scope) {
  if (within(scope, r.block, r.cluster) && within(r.scope, r.block, r.cluster)) {
    knowledge_of(g.cur->known).join(r.what);
  }
}

static void acquire(uptr at, Scope scope) {
  auto found = g_released.find(at);
  if (found == g_released.end()) return;
  for (const Released& r : found->second.left) learn(r, scope);
}

// A relaxed read: what it has seen is known behind a fence, and not before.
static void observe(uptr at, Scope scope) {
  auto found = g_released.find(at);
  Thread& t = *g.cur;
  if (found == g_released.end()) return;
  if (t.observed_at == at && t.observed_version == found->second.version) return;
  t.observed_at = at;
  t.observed_version = found->second.version;
  if (!t.observed) t.observed = new std::vector<Released>();
  for (const Released& r : found->second.left) {
    if (within(scope, r.block, r.cluster)) {
      entry_for(*t.observed, r.scope, r.block, r.cluster).what.join(r.what);
    }
  }
}

static void fence(Scope scope) {
  if (!g.know) return;
  Thread& t = *g.cur;
  t.fence_clk[scope] = ++g.clk;
  if (!t.observed) return;
  for (const Released& r : *t.observed) learn(r, scope);
  t.observed_at = 0;
  t.observed->clear();
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
