// SPDX-License-Identifier: Apache-2.0
// Warp operations: shuffles, votes, matches, reductions, __syncwarp. They complete when every lane
// of the mask waits in the same operation.
#pragma once
#include "access.hpp"

namespace coc {

enum WarpOp : u32 {  // the headers pass these numbers
  W_SYNC,
  W_SHFL,
  W_SHFL_UP,
  W_SHFL_DOWN,
  W_SHFL_XOR,
  W_BALLOT,
  W_ANY,
  W_ALL,
  W_MATCH_ANY,
  W_ADD,
  W_MIN,
  W_MAX,
  W_AND,
  W_OR,
  W_XOR,
  W_MATCH_ALL
};

static u64 reduce_lanes(Thread* lanes, u32 mask, u32 op) {
  u64 acc = 0;
  bool first = true;
  for (u32 l = 0; l < WARP; l++) {
    if (!(mask >> l & 1)) continue;
    const u64 v = lanes[l].value;  // values come sign-extended
    switch (op) {
      case W_ADD: acc += v; break;
      case W_MIN: acc = first || (int64_t)v < (int64_t)acc ? v : acc; break;
      case W_MAX: acc = first || (int64_t)v > (int64_t)acc ? v : acc; break;
      case W_AND: acc = first ? v : acc & v; break;
      case W_OR: acc |= v; break;
      case W_XOR: acc ^= v; break;
    }
    first = false;
  }
  return acc;
}

static u32 lanes_with(Thread* lanes, u32 mask, u64 value) {
  u32 found = 0;
  for (u32 l = 0; l < WARP; l++) {
    if (mask >> l & 1 && lanes[l].value == value) found |= 1u << l;
  }
  return found;
}

// The lane that a shuffle of thread t reads.
static u32 shuffle_source(const Thread& t) {
  const u32 width = (u32)t.width, base = t.lane & ~(width - 1), in = t.lane & (width - 1);
  const u32 by = (u32)t.aux;
  switch (t.kind) {
    case W_SHFL: return base + (by & (width - 1));
    case W_SHFL_UP: return in < by ? t.lane : t.lane - by;
    case W_SHFL_DOWN: return in + by >= width ? t.lane : t.lane + by;
    default: return (t.lane ^ by) >= base + width ? t.lane : t.lane ^ by;
  }
}

static void complete_warp_op(Warp& w, u32 mask) {
  Thread* lanes = w.first;
  const u32 op = lanes[__builtin_ctz(mask)].kind;
  u32 ballot = 0;
  u64 reduced = 0;
  if (op >= W_BALLOT && op <= W_ALL) ballot = mask & ~lanes_with(lanes, mask, 0);
  if (op >= W_ADD && op <= W_XOR) reduced = reduce_lanes(lanes, mask, op);
  if (op == W_SYNC) sync_lanes(w, mask);  // nothing else orders memory
  for (u32 l = 0; l < WARP; l++) {
    if (!(mask >> l & 1)) continue;
    Thread& t = lanes[l];
    switch (op) {
      case W_SYNC: break;
      case W_BALLOT: t.result = ballot; break;
      case W_ANY: t.result = ballot != 0; break;
      case W_ALL: t.result = ballot == mask; break;
      case W_MATCH_ANY: t.result = lanes_with(lanes, mask, t.value); break;
      case W_MATCH_ALL: t.result = lanes_with(lanes, mask, t.value) == mask ? mask : 0; break;
      case W_SHFL:
      case W_SHFL_UP:
      case W_SHFL_DOWN:
      case W_SHFL_XOR: {
        const u32 source = shuffle_source(t);
        if (!(mask >> source & 1)) {
          return fault(WARP_FAULT, &t, Site{t.pc, 0, t.line},
                       "shuffle reads lane %u, which is not in mask 0x%08x", source, mask);
        }
        t.result = lanes[source].value;
        break;
      }
      default: t.result = reduced;
    }
  }
  for (u32 l = 0; l < WARP; l++) {
    if (mask >> l & 1) set_wait(lanes[l], RUN);
  }
  g.report->warp_ops++;
}

enum Readiness { NOT_YET, READY, WRONG };

// Whether all lanes of thread t's mask wait in t's operation; faults where they never can.
static Readiness readiness(const Warp& w, const Thread& t) {
  Readiness ready = READY;
  for (u32 k = 0; k < WARP; k++) {
    if (!(t.mask >> k & 1)) continue;
    const u8 wait = k < w.size ? wait_of(w.first[k]) : (u8)DONE;
    if (wait == DONE) {
      fault(WARP_FAULT, &t, Site{t.pc, 0, t.line}, "mask 0x%08x names lane %u, which %s", t.mask, k,
            k < w.size ? "has exited" : "does not exist (block size is no multiple of 32)");
      return WRONG;
    }
    const Thread& other = w.first[k];
    if (wait != AT_WARP) {
      ready = NOT_YET;
    } else if (other.kind != t.kind || other.mask != t.mask || other.line != t.line) {
      if (other.mask >> t.lane & 1) {
        fault(WARP_FAULT, &t, Site{t.pc, 0, t.line},
              "lanes of one mask wait in different warp operations: lane %u line %d mask 0x%08x, "
              "lane %u line %d mask 0x%08x",
              t.lane, t.line, t.mask, k, other.line, other.mask);
        return WRONG;
      }
      ready = NOT_YET;
    }
  }
  return ready;
}

// Completes what can be completed; true if that was anything. Look at g.abort after it.
static bool resolve_warp(Warp& w) {
  bool any = false;
  for (u32 l = 0; l < w.size; l++) {
    const Thread& t = w.first[l];
    if (wait_of(t) != AT_WARP) continue;
    if (readiness(w, t) == READY) {
      complete_warp_op(w, t.mask);
      any = true;
    }
    if (g.abort) return false;
  }
  return any;
}

}  // namespace coc

API unsigned long coc_warp(int op, unsigned mask, unsigned long value, int aux, int width,
                           int line) {
  using namespace coc;
  Thread& t = *g.cur;
  if (UNLIKELY(g_expired)) hang(CALLER_PC);
  t.pc = CALLER_PC;
  t.line = line;
  if (UNLIKELY(!(mask >> t.lane & 1))) {
    fault(WARP_FAULT, &t, Site{t.pc, 0, line},
          "calls a warp operation with mask 0x%08x, which lacks its own lane %u", mask, t.lane);
  }
  if (UNLIKELY(width < 1 || width > 32 || width & (width - 1))) {
    fault(WARP_FAULT, &t, Site{t.pc, 0, line}, "shuffle width %d is not a power of two up to 32",
          width);
  }
  t.kind = op;
  t.mask = mask;
  t.value = value;
  t.aux = aux;
  t.width = width;
  set_wait(t, AT_WARP);
  to_scheduler();
  return t.result;
}

// All that CUDA promises about lanes that may have diverged.
API unsigned coc_activemask() { return 1u << coc::g.cur->lane; }
