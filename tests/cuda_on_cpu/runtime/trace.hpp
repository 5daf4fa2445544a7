// SPDX-License-Identifier: Apache-2.0
// Coalescing of the traced warps: 32-byte sectors of each warp request, shared-memory bank
// conflicts.
#pragma once
#include <algorithm>
#include <map>
#include <utility>

#include "state.hpp"

namespace coc {

enum Space : u32 { GLOBAL_SPACE, SHARED_SPACE };

struct TracedAccess {
  u64 pc;
  u32 warp, turn, lane, size, space, write;
  uptr addr;
};
static std::vector<TracedAccess> g_traced;
static std::map<std::pair<u64, u32>, u32> g_turns;  // (pc, thread) -> how often it came by

NOINLINE static void trace(Space space, uptr a, u32 size, bool write, u64 pc) {
  const Thread& t = *g.cur;
  const u32 turn = g_turns[{pc, t.linear}]++;
  g_traced.push_back({pc, t.warp->index, turn, t.lane, size, space, write, a});
}

typedef std::vector<const TracedAccess*> Request;

static void count_sectors(const Request& request, TraceRow& row) {
  std::vector<uptr> bytes, sectors;
  for (const TracedAccess* t : request) {
    for (uptr a = t->addr; a < t->addr + t->size; a++) {
      bytes.push_back(a);
      sectors.push_back(a / 32);
    }
  }
  std::sort(sectors.begin(), sectors.end());
  std::sort(bytes.begin(), bytes.end());
  row.sectors += std::unique(sectors.begin(), sectors.end()) - sectors.begin();
  row.ideal += (std::unique(bytes.begin(), bytes.end()) - bytes.begin() + 31) / 32;
}

// 32 banks of 4 bytes; requests of 8 and 16 bytes a lane go in halves and quarters.
static u32 bank_conflict(const Request& request, u32 size) {
  const size_t lanes = std::max(1u, WARP / std::max(1u, size / 4));
  u32 worst = 1;
  for (size_t i = 0; i < request.size(); i += lanes) {
    std::map<u32, std::vector<uptr>> banks;
    for (size_t k = i; k < std::min(request.size(), i + lanes); k++) {
      const TracedAccess& t = *request[k];
      for (uptr word = t.addr / 4; word <= (t.addr + t.size - 1) / 4; word++) {
        auto& words = banks[word % 32];
        if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
      }
    }
    for (auto& bank : banks) worst = std::max(worst, (u32)bank.second.size());
  }
  return worst;
}

static void clear_trace() {
  if (g_traced.empty()) return;
  g_traced.clear();
  g_turns.clear();
}

// Fills up to 'room' rows, one for each instruction; returns how many there are.
API u32 coc_trace(TraceRow* out, u32 room) {
  std::map<std::pair<u64, u32>, TraceRow> rows;
  std::map<std::pair<std::pair<u64, u32>, u32>, Request> requests;
  for (const TracedAccess& t : g_traced) requests[{{t.pc, t.turn}, t.warp}].push_back(&t);
  for (auto& entry : requests) {
    Request& request = entry.second;
    const TracedAccess& first = *request[0];
    TraceRow& row = rows[{first.pc, first.write}];
    row.pc = first.pc;
    row.space = first.space;
    row.write = first.write;
    row.size = std::max(row.size, first.size);
    row.requests++;
    row.lanes += request.size();
    if (first.space == GLOBAL_SPACE) {
      count_sectors(request, row);
    } else {
      std::sort(request.begin(), request.end(),
                [](const TracedAccess* a, const TracedAccess* b) { return a->lane < b->lane; });
      row.conflict = std::max(row.conflict, bank_conflict(request, first.size));
    }
  }
  u32 count = 0;
  for (auto& entry : rows) {
    if (count < room) out[count] = entry.second;
    count++;
  }
  return count;
}

}  // namespace coc
