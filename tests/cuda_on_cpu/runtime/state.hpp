// SPDX-License-Identifier: Apache-2.0
// Types and global state of the runtime: what a launch, a block, a warp and a thread are.
//
// One launch runs at a time, on one host thread (Python holds its lock meanwhile), so the state is
// plain globals. Structures that Python packs or unpacks say so; keep them in step with native.py.
#pragma once
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <unordered_map>
#include <vector>

#define API extern "C" __attribute__((visibility("default")))
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define NOINLINE __attribute__((noinline))
#define ALWAYS_INLINE inline __attribute__((always_inline))
// The address of the instruction that called the current function.
#define CALLER_PC ((coc::uptr)__builtin_return_address(0) - 1)

namespace coc {

typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;
typedef uintptr_t uptr;

const u32 MAX_BLOCK_THREADS = 1024;
const u32 WARP = 32;
const u32 MAX_PARAMS = 256;

// ------------------------------------------------------------------- structures shared with Python
enum Fault : u32 {
  NO_FAULT,
  OUT_OF_BOUNDS,
  MISALIGNED,
  RACE,
  UNINITIALISED,
  BARRIER_FAULT,
  WARP_FAULT,
  UNDEFINED,
  BAD_LAUNCH,
  HANG,
  RESTRICT_VIOLATION,
  SHARED_LIFETIME
};

enum Order : u32 { FORWARD, REVERSE, SHUFFLE };
enum Races : u32 { NO_RACES, RACES_IN_BLOCK, RACES_IN_GRID };

struct LaunchParams {  // Python packs it
  u32 grid[3], block[3], cluster[3];
  u32 shared_bytes;  // dynamic shared memory
  u32 order, seed;
  u32 races, uninit;
  u32 cooperative;
  u32 trace_warps;  // record the accesses of so many warps of block 0
  u32 stack_bytes;
  u32 timeout_ms;  // CPU time after which a launch counts as hung, 0 for never
};

struct Report {  // Python unpacks it; all figures in bytes or counts
  u32 fault, line;
  u64 pc, other_pc;  // offsets into the kernel library, 0 if unknown
  u64 global_read, global_written, shared_read, shared_written;
  u64 global_loads, global_stores, wide_loads, wide_stores;  // wide: 16 bytes
  u64 atomics, barriers, warp_ops, grid_barriers, cluster_barriers, async_copies, async_bytes;
  u64 prefetches, prefetched;  // lines, and the bytes of buffers in them
  u64 threads, switches, static_shared;
  u64 traffic_rows;
  char message[1024];
};

struct TrafficRow {  // Python unpacks it; follows the Report, one for each buffer of the launch
  u64 read_bytes, written_bytes, atomic_bytes, read_unique, written_unique;
  char name[56];
};
const u32 MAX_TRAFFIC_ROWS = 256;

struct TraceRow {  // Python unpacks it
  u64 pc;
  u32 space, write, size, requests, sectors, ideal, conflict, lanes;
};

// ------------------------------------------------------------------------------------ shadow
// memory What the shadow keeps for one granule of memory: the last writer and two readers, each
// with the logical clock of the access. A thread word is a thread's id (from 1) and flags in its
// top bits.
struct Cell {
  u32 wthr, wclk, wpc;
  u32 rthr[2], rclk[2], rpc;
};
const u32 SYNC_BIT = 1u << 31;      // by an atomic or a volatile access
const u32 PENDING_BIT = 1u << 30;   // writer: an asynchronous copy that has not been waited for
const u32 READONLY_BIT = 1u << 30;  // reader: through the read-only path (__ldg, ld.global.nc)
const u32 ID_MASK = READONLY_BIT - 1;

struct Region {
  uptr lo = 0, hi = 0;    // the bytes a kernel may access
  Cell* cells = nullptr;  // one for each granule; room for one a byte is reserved
  u32 log2 = 4;           // of the granule in bytes, 0 to 4
  u32 finest = 4;         // the least that log2 has been since the mapping was made
  bool pristine = true;   // no cell says anything yet
  bool init = false;      // the host filled it whole: never 'uninitialised'
  bool shared = false;
  u32 born = 0;   // a cell written before this clock counts as never written
  u32 since = 0;  // accesses before this clock belong to an earlier launch or block
  uptr map = 0;   // the mapping with its guard zones, 0 for memory of the host's
  size_t map_bytes = 0, body_bytes = 0;
  Region* primary = nullptr;  // set in an alias: the region whose memory it shows
  u32 alias = 0;              // bit of this alias in AliasUse
  u8* alias_read = nullptr;   // per byte: which aliases read and wrote it in this launch
  u8* alias_written = nullptr;
  bool active = false;
  u64 loads = 0, stores = 0, wide_loads = 0, wide_stores = 0;
  u64 read_bytes = 0, written_bytes = 0, atomic_bytes = 0, read_unique = 0, written_unique = 0;
  char name[56] = {0};
};

// ------------------------------------------------------------------------- blocks, warps and
// threads
enum Wait : u8 { FRESH, RUN, AT_WARP, AT_BLOCK, AT_PART, AT_CLUSTER, AT_GRID, DONE, WAITS };

struct Dim {
  u32 x, y, z;
};

// What a thread knows of others through fences and atomics: accesses before the clock are visible.
struct Knowledge {
  std::unordered_map<u32, u32> blocks;   // block index -> clock, for all threads of that block
  std::unordered_map<u32, u32> threads;  // thread id -> clock
  void join(const Knowledge& other) {
    for (auto& entry : other.blocks) raise(blocks[entry.first], entry.second);
    for (auto& entry : other.threads) raise(threads[entry.first], entry.second);
  }
  static void raise(u32& clock, u32 to) {
    if (clock < to) clock = to;
  }
};

struct AsyncCopy {
  uptr to, from;
  u32 bytes, zero_fill, clock;
  uptr pc;
};
struct AsyncQueue {
  std::vector<AsyncCopy> copies;
  std::vector<size_t> batches;  // for each committed batch: how many copies it ends after
  size_t done = 0, waited = 0;  // copies and batches completed
};

// Scopes of the memory model: whom a fence or a synchronising access of a thread concerns.
enum Scope : u32 { SCOPE_BLOCK, SCOPE_CLUSTER, SCOPE_GPU, SCOPE_SYSTEM, SCOPES };  // as ptx.h has them
// What releases have left behind an address, those of one scope and, where that is one, of a block or a cluster.
struct Released {
  Scope scope;
  u32 block, cluster;  // of the threads that released, MANY where they differ
  Knowledge what;
};
const u32 MANY = ~0u;
struct Flag {
  u64 version = 0;  // number of the last release
  std::vector<Released> left;
};

struct Block;
struct Warp;
struct Fiber;

const u32 ARRIVALS = 4;  // of a thread that others may still ask for: it is at most two ahead

struct Thread {
  Dim index;
  u32 linear, lane, id;  // id: unique in the launch, from 1
  Warp* warp;
  Block* block;
  Fiber* fiber;
  // the operation it waits in
  u32 kind, mask;
  int aux, width, line;
  u64 value, result;
  uptr pc;
  u32 fence_clk[SCOPES];  // accesses of its own before this clock are fenced at this scope
  u32 polls;      // atomic and volatile accesses so far
  u32 arrivals, waits;       // at the barrier of the cluster
  u32 arrive_clk[ARRIVALS];  // accesses of its own before this clock were released by that arrival
  int wait_line;             // where it waited last
  Knowledge* known;
  std::vector<Released>* observed;  // by relaxed reads; known behind the next fence
  uptr observed_at;                 // the flag of the last of them …
  u64 observed_version;             // … and its version
  AsyncQueue* async;
};

struct Warp {
  Thread* first;
  u32 index, size;
  u32 runnable;  // threads that are FRESH or RUN
  u32 waiting;   // threads AT_WARP
  const u8* order;
  bool synced;                // lane_clk is in use
  std::vector<u32> lane_clk;  // [lane][other]: accesses of 'other' before it are ordered for 'lane'
};

struct Cluster {
  std::vector<Block*> blocks;
  u32 phase;    // how often all threads have arrived
  u32 arrived;  // threads since then, …
  int line;     // … and where
  Knowledge gathered, known;  // what arrivals have released, and did up to this phase
};

struct Block {
  u32 index, size, first_id, rank;  // rank: within the cluster
  Dim id;
  Cluster* cluster;
  Thread* threads;
  std::vector<Warp> warps;
  std::vector<u32> warp_order;
  std::vector<u8> lane_order;
  u8 wait[MAX_BLOCK_THREADS];
  u32 counts[WAITS];
  u32 bar_clk;           // the last barrier of the block
  bool parted;           // part_clk is in use
  u32 part_clk[MAX_BLOCK_THREADS / WARP + 1];  // the last barrier of its first so many warps
  u32 ordered_as = ~0u;  // the Order that lane_order and warp_order are in
  bool done;
  Knowledge* known;
  char* shared;  // its shared memory
  Region region;
  u32 waits;      // the most that a thread of it has waited for the cluster
  u32 remote_id;  // last thread of another block to access 'shared'
  uptr remote_pc;
  u32 remote_clk;
  u32 remote_arrivals;  // of that thread before the access
};

// ------------------------------------------------------------------------------ modules and
// kernels
struct Range {
  uptr lo, hi;
};
struct ModuleInfo {
  uptr base;
  std::vector<Range> image;  // code, constants and __device__ variables
  u32 static_shared = 0;     // bytes of declared __shared__ variables
  u32 dynamic_at = 0;        // where the extern arrays start
  u32 shared_log2 = 2;       // finest granule its shared memory has needed
  bool fenced = false;       // the text has fences, or accesses that order others
  bool checked = true;
  std::vector<u8> owner;  // per byte of static shared memory: 0 padding, else which variable
  std::vector<std::pair<u32, const char*>> variables;  // offset and name, ascending
};
struct KernelInfo {
  ModuleInfo* module;
  void (*entry)(void**);
  u32 params;
  u32 offset[MAX_PARAMS], size[MAX_PARAMS];
  char kind[MAX_PARAMS];  // 'p' pointer, 'P' pointer to const, else a value
  u8 is_restrict[MAX_PARAMS];
  const char* param_name[MAX_PARAMS];
};

// ----------------------------------------------------------------------------------- launch in
// flight
struct State {
  const KernelInfo* kernel = nullptr;
  ModuleInfo* module = nullptr;
  LaunchParams params{};
  Report* report = nullptr;
  Dim grid{}, block{}, cluster{};
  u32 block_threads = 0, blocks = 0;
  u32 clk = 1;         // logical clock; goes on from launch to launch
  u32 launch_clk = 1;  // its value when this launch began
  u32 grid_clk = 0;    // at the last grid barrier
  u64 writes = 0;                   // accesses so far that another thread may be waiting for
  Scope sync_scope = SCOPE_SYSTEM;  // of the synchronising access that is being checked
  Thread* cur = nullptr;
  bool running = false, abort = false, know = false;
  void** args = nullptr;
  Range arg_bytes{};
  Range shared{};  // shared memory of all blocks that live at once
  size_t shared_stride = 0, shared_used = 0;
  std::vector<Region*> active;  // the regions this launch may reach, by address
  Region* last = nullptr;
  std::vector<Block*> group;  // the blocks that live at once
};
static State g;

inline bool is_runnable(u8 wait) { return wait == FRESH || wait == RUN; }

inline u8 wait_of(const Thread& t) { return t.block->wait[t.linear]; }

inline void set_wait(Thread& t, Wait to) {
  Block& b = *t.block;
  const u8 from = b.wait[t.linear];
  b.wait[t.linear] = to;
  b.counts[from]--;
  b.counts[to]++;
  t.warp->runnable += is_runnable(to) - is_runnable(from);
  t.warp->waiting += (to == AT_WARP) - (from == AT_WARP);
}

}  // namespace coc
