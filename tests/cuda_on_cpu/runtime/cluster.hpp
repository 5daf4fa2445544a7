// SPDX-License-Identifier: Apache-2.0
// The barrier of a cluster, in its two halves: a thread arrives, goes on, and waits until all have arrived.
//
// What a thread did before an arrival that releases is ordered before what any thread does behind the wait that
// belongs to it (a wait always acquires). An arrival that is relaxed orders no memory. Every thread waits once for
// each of its arrivals.
#pragma once
#include "barriers.hpp"

namespace coc {

static void arrive_at_cluster(bool releases, int line, uptr pc) {
  Thread& t = *g.cur;
  Cluster& c = *t.block->cluster;
  if (UNLIKELY(g_expired)) hang(pc);
  if (t.arrivals != t.waits) {
    fault(BARRIER_FAULT, &t, Site{pc, 0, line},
          "arrives at the cluster barrier again without having waited (see line %d)", t.line);
  }
  if (c.arrived && c.line != line) {
    fault(BARRIER_FAULT, nullptr, Site{pc, 0, line},
          "divergent cluster barrier: %s arrives at line %d, another thread at line %d",
          thread_name(t.id).text, line, c.line);
  }
  t.line = c.line = line;
  const u32 before = t.arrive_clk[t.arrivals % ARRIVALS];
  t.arrive_clk[++t.arrivals % ARRIVALS] = releases ? ++g.clk : before;
  if (g.know && releases) {
    if (t.known) c.gathered.join(*t.known);
    if (t.block->known) c.gathered.join(*t.block->known);
  }
  if (++c.arrived < c.blocks.size() * t.block->size) return;
  c.arrived = 0;
  c.phase++;
  if (g.know) c.known = c.gathered;
  g.report->cluster_barriers++;
  for (Block* b : c.blocks) {
    for (u32 i = 0; b->counts[AT_CLUSTER] && i < b->size; i++) {
      if (b->wait[i] == AT_CLUSTER) set_wait(b->threads[i], RUN);
    }
  }
}

static void wait_at_cluster(int line, uptr pc) {
  Thread& t = *g.cur;
  Cluster& c = *t.block->cluster;
  if (UNLIKELY(g_expired)) hang(pc);
  if (t.arrivals == t.waits) {
    fault(BARRIER_FAULT, &t, Site{pc, 0, line},
          "waits at the cluster barrier without having arrived");
  }
  const Warp& w = *t.warp;
  for (u32 k = 0; k < w.size; k++) {  // both halves are for whole warps (.aligned)
    const Thread& other = w.first[k];
    if (t.block->wait[w.index * WARP + k] == FRESH || other.waits != t.waits + 1 || other.wait_line == line) continue;
    fault(BARRIER_FAULT, nullptr, Site{pc, 0, line},
          "divergent cluster barrier: %s waits at line %d, %s at line %d", thread_name(t.id).text,
          line, thread_name(other.id).text, other.wait_line);
  }
  t.wait_line = t.line = line;
  t.pc = pc;
  t.waits++;
  if (c.phase < t.waits) {
    set_wait(t, AT_CLUSTER);
    to_scheduler();
  }
  t.block->waits = std::max(t.block->waits, t.waits);
  if (g.know) knowledge_of(t.block->known).join(c.known);
}

// The threads of the block that are not waiting for the cluster have arrived, too: others may let it go on.
static bool awaits_cluster(const Block& b) {
  if (!b.counts[AT_CLUSTER]) return false;
  for (u32 i = 0; i < b.size; i++) {
    if (b.threads[i].arrivals == b.cluster->phase) return false;
  }
  return true;
}

}  // namespace coc

API void coc_cluster_arrive(int releases, int line) {
  coc::arrive_at_cluster(releases, line, CALLER_PC);
}
API void coc_cluster_wait(int line) { coc::wait_at_cluster(line, CALLER_PC); }
API void coc_cluster_barrier(int line) {
  const coc::uptr pc = CALLER_PC;
  coc::arrive_at_cluster(true, line, pc);
  coc::wait_at_cluster(line, pc);
}
