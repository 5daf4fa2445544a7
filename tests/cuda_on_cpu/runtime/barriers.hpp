// SPDX-License-Identifier: Apache-2.0
// Barriers of a block, a cluster and the grid: when they complete, and what is said when they
// cannot.
#pragma once
#include "warp_ops.hpp"

namespace coc {

enum BarrierOp : u32 { B_SYNC, B_COUNT, B_AND, B_OR };  // the headers pass these numbers

static Site site_of_wait(const Thread& t) { return Site{t.pc, 0, t.line}; }

static const Thread* first_in(const Block& b, Wait wait) {
  for (u32 i = 0; i < b.size; i++) {
    if (b.wait[i] == wait) return &b.threads[i];
  }
  return nullptr;
}

// All threads of the block wait in one barrier: are they at the same one?
static bool same_barrier(const Block& b, const char* what) {
  const Thread& first = b.threads[0];
  for (u32 i = 1; i < b.size; i++) {
    const Thread& t = b.threads[i];
    if (t.line == first.line && t.kind == first.kind) continue;
    fault(BARRIER_FAULT, nullptr, site_of_wait(first),
          "divergent %s: %s waits at line %d, %s at line %d", what, thread_name(first.id).text,
          first.line, thread_name(t.id).text, t.line);
    return false;
  }
  return true;
}

static void pass_barrier(Block& b, u32 clk) {
  if (g.know) share_knowledge(b);
  b.bar_clk = clk;
  for (u32 i = 0; i < b.size; i++) set_wait(b.threads[i], RUN);
}

static bool complete_block_barrier(Block& b) {
  if (!same_barrier(b, "barrier")) return false;
  const u32 op = b.threads[0].kind;
  if (op != B_SYNC) {
    u64 count = 0;
    for (u32 i = 0; i < b.size; i++) count += b.threads[i].value != 0;
    const u64 result = op == B_COUNT ? count : op == B_AND ? count == b.size : count != 0;
    for (u32 i = 0; i < b.size; i++) b.threads[i].result = result;
  }
  g.report->barriers++;
  pass_barrier(b, ++g.clk);
  return true;
}

// Lets the block's first threads go on if all that one of them waits for are there.
static bool complete_part_barrier(Block& b) {
  const Thread& first = *first_in(b, AT_PART);
  const u32 size = (u32)first.value;
  for (u32 i = 0; i < size; i++) {
    const Thread& t = b.threads[i];
    if (b.wait[i] != AT_PART) return false;
    if (t.kind == first.kind && t.value == first.value && t.line == first.line) continue;
    fault(BARRIER_FAULT, nullptr, site_of_wait(first),
          "divergent barrier of a part of the block: %s waits at line %d, %s at line %d",
          thread_name(first.id).text, first.line, thread_name(t.id).text, t.line);
    return false;
  }
  if (!b.parted) memset(b.part_clk, 0, sizeof b.part_clk);
  b.parted = true;
  b.part_clk[size / WARP] = ++g.clk;
  g.report->barriers++;
  for (u32 i = 0; i < size; i++) set_wait(b.threads[i], RUN);
  return true;
}

static const char* barrier_name(Wait wait) {
  return wait == AT_GRID      ? "grid barrier"
         : wait == AT_CLUSTER ? "cluster barrier"
         : wait == AT_PART    ? "barrier of a part of the block"
                              : "barrier";
}

// No thread of the block can go on, and it is neither done nor whole at one barrier.
static void report_stuck_block(const Block& b) {
  const Thread* at_warp = first_in(b, AT_WARP);
  const Thread* done = first_in(b, DONE);
  const int kinds = 4;
  const Wait waits[kinds] = {AT_BLOCK, AT_CLUSTER, AT_GRID, AT_PART};
  const Thread* at[kinds];
  for (int i = 0; i < kinds; i++) at[i] = first_in(b, waits[i]);
  if (at_warp) {
    return fault(BARRIER_FAULT, nullptr, site_of_wait(*at_warp),
                 "deadlock: %s waits in a warp operation (mask 0x%08x) for lanes that wait at a %s",
                 thread_name(at_warp->id).text, at_warp->mask,
                 at[0]   ? "block barrier"
                 : at[1] ? "cluster barrier"
                 : at[2] ? "grid barrier"
                         : "barrier of a part of the block");
  }
  for (int i = 0; i < kinds; i++) {
    for (int k = i + 1; k < kinds; k++) {
      if (!at[i] || !at[k]) continue;
      return fault(BARRIER_FAULT, nullptr, site_of_wait(*at[i]),
                   "divergent barrier: %s waits at a %s at line %d, %s at a %s at line %d",
                   thread_name(at[i]->id).text, barrier_name(waits[i]), at[i]->line,
                   thread_name(at[k]->id).text, barrier_name(waits[k]), at[k]->line);
    }
  }
  for (int i = 0; i < kinds; i++) {
    if (!at[i] || !done) continue;
    return fault(BARRIER_FAULT, nullptr, site_of_wait(*at[i]),
                 "%s not reached by all threads: %u of %u threads wait at line %d, but %s has "
                 "already returned",
                 barrier_name(waits[i]), b.counts[waits[i]], b.size, at[i]->line,
                 thread_name(done->id).text);
  }
}

// ------------------------------------------------------------------------------------------ grid
// All these blocks wait whole at the barrier.
static bool all_at(const std::vector<Block*>& blocks, Wait wait) {
  for (const Block* b : blocks) {
    if (b->counts[wait] != b->size) return false;
  }
  return true;
}

static bool complete_grid_barrier(const std::vector<Block*>& blocks) {
  const Wait wait = AT_GRID;
  const Thread& first = blocks[0]->threads[0];
  for (const Block* b : blocks) {
    if (!same_barrier(*b, barrier_name(wait))) return false;
    const Thread& other = b->threads[0];
    if (other.line != first.line) {
      fault(BARRIER_FAULT, nullptr, site_of_wait(first),
            "divergent %s: %s waits at line %d, %s at line %d", barrier_name(wait),
            thread_name(first.id).text, first.line, thread_name(other.id).text, other.line);
      return false;
    }
  }
  const u32 clk = ++g.clk;
  g.grid_clk = clk;
  g.report->grid_barriers++;
  for (Block* b : blocks) pass_barrier(*b, clk);
  return true;
}

// Some blocks wait at a barrier that the others can no longer reach.
static void report_stuck_group(const std::vector<Block*>& blocks) {
  for (const Block* b : blocks) {
    for (Wait wait : {AT_GRID, AT_CLUSTER}) {
      if (b->counts[wait] != b->size) continue;
      for (const Block* other : wait == AT_GRID ? blocks : b->cluster->blocks) {
        if (other->counts[wait] == other->size) continue;
        return fault(BARRIER_FAULT, nullptr, site_of_wait(b->threads[0]),
                     "%s not reached by all blocks: %s waits at line %d, but block (%u,%u,%u) %s",
                     barrier_name(wait), thread_name(b->threads[0].id).text, b->threads[0].line,
                     other->id.x, other->id.y, other->id.z,
                     other->done ? "has already returned" : "waits at another barrier");
      }
    }
  }
  for (const Block* b : blocks) {
    if (!b->done) report_stuck_block(*b);
  }
}

}  // namespace coc

static ALWAYS_INLINE int wait_at(coc::Wait where, int op, int value, int line, coc::uptr pc) {
  using namespace coc;
  Thread& t = *g.cur;
  if (UNLIKELY(g_expired)) hang(pc);
  t.kind = op;
  t.value = value;
  t.line = line;
  t.pc = pc;
  set_wait(t, where);
  to_scheduler();
  return (int)t.result;
}

API int coc_barrier(int op, int value, int line) {
  return wait_at(coc::AT_BLOCK, op, value, line, CALLER_PC);
}

// A barrier with a number, of the block's first so many threads.
API void coc_part_barrier(int number, unsigned threads, int line) {
  using namespace coc;
  const Block& b = *g.cur->block;
  if (!threads || threads % WARP || threads > b.size || g.cur->linear >= threads || number > 15) {
    fault(BARRIER_FAULT, g.cur, Site{CALLER_PC, 0, line},
          "barrier %d of %u threads in a block of %u: it is for whole warps, from the first on",
          number, threads, b.size);
  }
  wait_at(AT_PART, number, (int)threads, line, CALLER_PC);
}

API void coc_grid_barrier(int line) {
  using namespace coc;
  if (!g.params.cooperative) {
    fault(BARRIER_FAULT, g.cur, Site{CALLER_PC, 0, line},
          "grid barrier in a launch that is not cooperative");
  }
  wait_at(AT_GRID, B_SYNC, 0, line, CALLER_PC);
}

