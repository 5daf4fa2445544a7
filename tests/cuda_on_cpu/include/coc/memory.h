// SPDX-License-Identifier: Apache-2.0
// Cached loads and stores, atomics, shared addresses.
#pragma once

extern "C" {
void coc_atomic(void* p, unsigned size, void* ret);
void coc_sync_access(void* p, unsigned size, int reads, int writes, int acquires, int releases, int scope, void* ret);
void coc_read_only(const void* p, unsigned size, void* ret);
void coc_async_copy(void* to, const void* from, unsigned bytes, unsigned zero_fill, void* ret);
void coc_prefetch(const void* p, void* ret);
void coc_async_commit();
void coc_async_wait(unsigned pending);
void* coc_map_shared(const void* p, unsigned rank, int line);
__attribute__((const)) unsigned long coc_shared_offset(const void* p);
__attribute__((const)) void* coc_shared_pointer(unsigned offset);
__attribute__((const)) int coc_is_shared(const void* p);
void coc_ptx_access(void* p, unsigned bytes, int write, int read_only, void* ret);
void* coc_checked_copy(void* to, const void* from, unsigned long bytes, void* ret);
void* coc_checked_fill(void* to, int value, unsigned long bytes, void* ret);
}

// The read-only path: what goes through it must not be written in the same launch.
#if COC_CHECKED
template <class T>
COC_UNTRACED static T __ldg(const T* p) {
  coc_read_only(p, sizeof(T), COC_RETURN);
  return *p;
}
#else
template <class T>
COC_INLINE T __ldg(const T* p) {
  return *p;
}
#endif

#define COC_LOAD(name)            \
  template <class T>              \
  COC_INLINE T name(const T* p) { \
    return *p;                    \
  }
#define COC_STORE(name)                                      \
  template <class T>                                         \
  COC_INLINE void name(T* p, typename coc_same<T>::type v) { \
    *p = v;                                                  \
  }
COC_LOAD(__ldcg)
COC_LOAD(__ldca)
COC_LOAD(__ldcs)
COC_LOAD(__ldlu)
COC_LOAD(__ldcv)
COC_STORE(__stwb)
COC_STORE(__stcg)
COC_STORE(__stcs)
COC_STORE(__stwt)

#define COC_ATOMIC_SCOPES(name)                                    \
  template <class T>                                               \
  COC_INLINE T name##_block(T* p, typename coc_same<T>::type v) {  \
    return name(p, v);                                             \
  }                                                                \
  template <class T>                                               \
  COC_INLINE T name##_system(T* p, typename coc_same<T>::type v) { \
    return name(p, v);                                             \
  }
#define COC_ATOMIC(name, expression)                               \
  template <class T>                                               \
  COC_UNTRACED static T name(T* p, typename coc_same<T>::type v) { \
    coc_atomic((void*)p, sizeof(T), COC_RETURN);                   \
    const T old = *p;                                              \
    *p = (T)(expression);                                          \
    return old;                                                    \
  }                                                                \
  COC_ATOMIC_SCOPES(name)
COC_ATOMIC(atomicAdd, old + v)
COC_ATOMIC(atomicSub, old - v)
COC_ATOMIC(atomicExch, v)
COC_ATOMIC(atomicMin, v < old ? v : old)
COC_ATOMIC(atomicMax, v > old ? v : old)
COC_ATOMIC(atomicAnd, old& v)
COC_ATOMIC(atomicOr, old | v)
COC_ATOMIC(atomicXor, old ^ v)
COC_ATOMIC(atomicInc, old >= v ? 0 : old + 1)
COC_ATOMIC(atomicDec, (old == 0 || old > v) ? v : old - 1)
template <class T>
COC_UNTRACED static T atomicCAS(T* p, typename coc_same<T>::type expected,
                                typename coc_same<T>::type v) {
  coc_atomic((void*)p, sizeof(T), COC_RETURN);
  const T old = *p;
  if (old == expected) *p = v;
  return old;
}

// Shared addresses count from the start of the block's shared memory.
static inline size_t __cvta_generic_to_shared(const void* p) { return coc_shared_offset(p); }
static inline void* __cvta_shared_to_generic(size_t at) { return coc_shared_pointer((unsigned)at); }
static inline unsigned __isShared(const void* p) { return coc_is_shared(p); }
