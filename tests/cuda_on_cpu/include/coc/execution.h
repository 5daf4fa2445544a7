// SPDX-License-Identifier: Apache-2.0
// Where a thread is, barriers and warp operations.
#pragma once

struct coc_triple {
  unsigned x, y, z;
};
extern "C" {
__attribute__((const)) coc_triple coc_thread_idx();
__attribute__((const)) coc_triple coc_block_idx();
__attribute__((const)) coc_triple coc_block_dim();
__attribute__((const)) coc_triple coc_grid_dim();
__attribute__((const)) coc_triple coc_cluster_dim();
__attribute__((const)) unsigned coc_cluster_rank();
int coc_barrier(int op, int value, int line);
void coc_grid_barrier(int line);
void coc_part_barrier(int number, unsigned threads, int line);
void coc_cluster_arrive(int releases, int line);
void coc_cluster_wait(int line);
void coc_cluster_barrier(int line);
unsigned long coc_warp(int op, unsigned mask, unsigned long value, int aux, int width, int line);
unsigned coc_activemask();
void coc_fence(int scope);
void coc_yield();
void coc_trap(int line, const char* what);
}

namespace coc {
COC_INLINE uint3 to_uint3(coc_triple v) { return uint3{v.x, v.y, v.z}; }
COC_INLINE dim3 to_dim3(coc_triple v) { return dim3(v.x, v.y, v.z); }
}  // namespace coc
#define threadIdx (coc::to_uint3(coc_thread_idx()))
#define blockIdx (coc::to_uint3(coc_block_idx()))
#define blockDim (coc::to_dim3(coc_block_dim()))
#define gridDim (coc::to_dim3(coc_grid_dim()))
#define warpSize 32

static inline void __syncthreads(COC_LINE) { coc_barrier(0, 0, line); }
static inline int __syncthreads_count(int p, COC_LINE) { return coc_barrier(1, p, line); }
static inline int __syncthreads_and(int p, COC_LINE) { return coc_barrier(2, p, line); }
static inline int __syncthreads_or(int p, COC_LINE) { return coc_barrier(3, p, line); }
static inline void __threadfence_block() { coc_fence(0); }
static inline void __threadfence() { coc_fence(2); }
static inline void __threadfence_system() { coc_fence(3); }
static inline void __nanosleep(unsigned) { coc_yield(); }
static inline long long clock64() {
  static long long t;
  return ++t;
}
static inline unsigned __activemask() { return coc_activemask(); }
static inline void __trap(COC_LINE) { coc_trap(line, "__trap()"); }
#undef assert
#define assert(c) ((c) ? (void)0 : coc_trap(__LINE__, "assertion failed: " #c))

namespace coc {
enum WarpOp {  // as warp_ops.hpp has them
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

template <class T>
COC_INLINE unsigned long pack(T v) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable<T>::value,
                "warp operations take values of up to 8 bytes");
  unsigned long r = 0;
  __builtin_memcpy(&r, &v, sizeof v);
  return r;
}
template <class T>
COC_INLINE T unpack(unsigned long r) {
  T v;
  __builtin_memcpy(&v, &r, sizeof v);
  return v;
}
}  // namespace coc

#define COC_SHUFFLE(name, op, By)                                                   \
  template <class T>                                                                \
  static inline T name(unsigned mask, T v, By by, int width = 32, COC_LINE) {       \
    const unsigned long r = coc_warp(op, mask, coc::pack(v), (int)by, width, line); \
    return coc::unpack<T>(r);                                                       \
  }
COC_SHUFFLE(__shfl_sync, coc::W_SHFL, int)
COC_SHUFFLE(__shfl_up_sync, coc::W_SHFL_UP, unsigned)
COC_SHUFFLE(__shfl_down_sync, coc::W_SHFL_DOWN, unsigned)
COC_SHUFFLE(__shfl_xor_sync, coc::W_SHFL_XOR, int)

static inline void __syncwarp(unsigned mask = 0xffffffffu, COC_LINE) {
  coc_warp(coc::W_SYNC, mask, 0, 0, 32, line);
}
static inline unsigned __ballot_sync(unsigned mask, int p, COC_LINE) {
  return (unsigned)coc_warp(coc::W_BALLOT, mask, p != 0, 0, 32, line);
}
static inline int __any_sync(unsigned mask, int p, COC_LINE) {
  return (int)coc_warp(coc::W_ANY, mask, p != 0, 0, 32, line);
}
static inline int __all_sync(unsigned mask, int p, COC_LINE) {
  return (int)coc_warp(coc::W_ALL, mask, p != 0, 0, 32, line);
}
template <class T>
static inline unsigned __match_any_sync(unsigned mask, T v, COC_LINE) {
  return (unsigned)coc_warp(coc::W_MATCH_ANY, mask, coc::pack(v), 0, 32, line);
}
template <class T>
static inline unsigned __match_all_sync(unsigned mask, T v, int* same, COC_LINE) {
  const unsigned r = (unsigned)coc_warp(coc::W_MATCH_ALL, mask, coc::pack(v), 0, 32, line);
  *same = r != 0;
  return r;
}
#define COC_REDUCE(name, op, T)                                        \
  static inline T name(unsigned mask, T v, COC_LINE) {                 \
    return (T)coc_warp(op, mask, (unsigned long)(long)v, 0, 32, line); \
  }
COC_REDUCE(__reduce_add_sync, coc::W_ADD, int)
COC_REDUCE(__reduce_add_sync, coc::W_ADD, unsigned)
COC_REDUCE(__reduce_min_sync, coc::W_MIN, int)
COC_REDUCE(__reduce_min_sync, coc::W_MIN, unsigned)
COC_REDUCE(__reduce_max_sync, coc::W_MAX, int)
COC_REDUCE(__reduce_max_sync, coc::W_MAX, unsigned)
COC_REDUCE(__reduce_and_sync, coc::W_AND, unsigned)
COC_REDUCE(__reduce_or_sync, coc::W_OR, unsigned)
COC_REDUCE(__reduce_xor_sync, coc::W_XOR, unsigned)
