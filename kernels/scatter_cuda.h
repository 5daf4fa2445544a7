// SPDX-License-Identifier: Apache-2.0
// A block's share of a scatter: which updates meet its rows of the table, in their order.
#pragma once

namespace hg {

const int SCATTER_WARPS = 8;                        // of a block
const int SCATTER_STEPS = 4;                        // positions that a thread looks at in a round
const int SCATTER_LOOK = 32 * SCATTER_STEPS;        // … and a warp, which are neighbours
const int SCATTER_ROUND = SCATTER_WARPS * SCATTER_LOOK;  // … and a block
const int SCATTER_LIST = SCATTER_ROUND * 3 / 2;     // updates that are kept at hand

// Updates that meet rows of the block: which they are, and which row each meets.
template <typename Index>
struct Hits {
  Index update[SCATTER_LIST];
  int row[SCATTER_LIST];
  int counts[2][SCATTER_WARPS];
};

// Where in a round the calling thread looks at step `step`: warps take neighbours, one after the other.
HG_DEVICE int scan_position(const int step) {
  return (int)threadIdx.x / 32 * SCATTER_LOOK + step * 32 + (int)threadIdx.x % 32;
}

// Put what a round that begins at `begin` has found behind the `count` updates that are kept, and return how many there
// are now. `row` has the row that each update of this thread meets, -1 for none of the block's. `slot` is 0 and 1 in turn.
// All threads are here; the list is complete behind the next barrier.
template <typename Index>
HG_DEVICE int collect(Hits<Index>& hits, const int (&row)[SCATTER_STEPS], const Index begin, const int count, const int slot) {
  const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
  unsigned int met[SCATTER_STEPS];
  int mine = 0;
  HG_UNROLL
  for (int s = 0; s < SCATTER_STEPS; ++s) {
    met[s] = __ballot_sync(0xffffffffu, row[s] >= 0);
    mine += __popc(met[s]);
  }
  if (lane == 0) hits.counts[slot][warp] = mine;
  __syncthreads();
  int place = count, all = count;
  HG_UNROLL
  for (int w = 0; w < SCATTER_WARPS; ++w) {
    const int theirs = hits.counts[slot][w];
    if (w < warp) place += theirs;
    all += theirs;
  }
  HG_UNROLL
  for (int s = 0; s < SCATTER_STEPS; ++s) {
    if (row[s] >= 0) {
      const int at = place + __popc(met[s] & ((1u << lane) - 1));
      hits.update[at] = begin + scan_position(s);
      hits.row[at] = row[s];
    }
    place += __popc(met[s]);
  }
  return all;
}

// The first update from `at` on that meets a row of team `team`, of TEAMS (a power of two) that own rows in turn.
template <int TEAMS, typename Index>
HG_DEVICE int next_hit(const Hits<Index>& hits, int at, const int count, const int team) {
  while (at < count && (hits.row[at] & (TEAMS - 1)) != team) ++at;
  return at;
}

}  // namespace hg
