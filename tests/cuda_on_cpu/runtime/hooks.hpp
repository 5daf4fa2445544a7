// SPDX-License-Identifier: Apache-2.0
// What the compiler's instrumentation calls. Kernels are compiled with -fsanitize=thread and parts
// of -fsanitize=undefined but linked with neither library: these functions take their place.
#pragma once
#include "access.hpp"

namespace coc {

// Volatile accesses do not race with one another, except in the shared memory of kernels without
// fences: there they are what is left of warp-synchronous programming.
static ALWAYS_INLINE u32 volatile_kind(uptr a, u32 kind) {
  const bool shared = a >= g.shared.lo && a < g.shared.hi;
  return shared && !g.know ? kind : kind | SYNC;
}

static void volatile_access(uptr a, u32 size, u32 kind, uptr pc) {
  if (!g.running) return;
  g.cur->pc = pc;
  if (!(kind & WRITE)) poll();  // first: the load itself comes right after this function
  if (g.know && kind & WRITE) release(a, SCOPE_SYSTEM);
  access(a, size, volatile_kind(a, kind), pc);
  if (g.know && !(kind & WRITE)) acquire(a, SCOPE_SYSTEM);
}

}  // namespace coc

#define TSAN_HOOKS(n)                                                                        \
  API void __tsan_read##n(void* a) { coc::access((coc::uptr)a, n, coc::READ, CALLER_PC); }   \
  API void __tsan_write##n(void* a) { coc::access((coc::uptr)a, n, coc::WRITE, CALLER_PC); } \
  API void __tsan_unaligned_read##n(void* a) {                                               \
    coc::access((coc::uptr)a, n, coc::READ, CALLER_PC);                                      \
  }                                                                                          \
  API void __tsan_unaligned_write##n(void* a) {                                              \
    coc::access((coc::uptr)a, n, coc::WRITE, CALLER_PC);                                     \
  }                                                                                          \
  API void __tsan_volatile_read##n(void* a) {                                                \
    coc::volatile_access((coc::uptr)a, n, coc::READ, CALLER_PC);                             \
  }                                                                                          \
  API void __tsan_volatile_write##n(void* a) {                                               \
    coc::volatile_access((coc::uptr)a, n, coc::WRITE, CALLER_PC);                            \
  }                                                                                          \
  API void __tsan_unaligned_volatile_read##n(void* a) {                                      \
    coc::volatile_access((coc::uptr)a, n, coc::READ, CALLER_PC);                             \
  }                                                                                          \
  API void __tsan_unaligned_volatile_write##n(void* a) {                                     \
    coc::volatile_access((coc::uptr)a, n, coc::WRITE, CALLER_PC);                            \
  }
TSAN_HOOKS(1)
TSAN_HOOKS(2)
TSAN_HOOKS(4)
TSAN_HOOKS(8)
TSAN_HOOKS(16)

API void __tsan_read_range(void* a, unsigned long n) {
  coc::access((coc::uptr)a, (coc::u32)n, coc::READ, CALLER_PC);
}
API void __tsan_write_range(void* a, unsigned long n) {
  coc::access((coc::uptr)a, (coc::u32)n, coc::WRITE, CALLER_PC);
}
API void __tsan_init() {}
API void __tsan_func_entry(void*) {}
API void __tsan_func_exit() {}
API void __tsan_vptr_update(void**, void*) {}
API void __tsan_vptr_read(void**) {}

// The kernel library's own memcpy, memmove and memset ask before they touch anything.
API void* coc_checked_copy(void* to, const void* from, unsigned long bytes, void* ret) {
  coc::access((coc::uptr)from, (coc::u32)bytes, coc::READ, (coc::uptr)ret - 1);
  coc::access((coc::uptr)to, (coc::u32)bytes, coc::WRITE, (coc::uptr)ret - 1);
  return memmove(to, from, bytes);
}
API void* coc_checked_fill(void* to, int value, unsigned long bytes, void* ret) {
  coc::access((coc::uptr)to, (coc::u32)bytes, coc::WRITE, (coc::uptr)ret - 1);
  return memset(to, value, bytes);
}

namespace coc {

struct SourceLocation {  // as libubsan has it
  const char* file;
  u32 line, column;
};

// A finding inside an inlined helper of the headers is placed by its address instead.
static Site site_of(const SourceLocation& l, uptr pc) {
  const bool in_kernel = l.file && !strcmp(l.file, "kernel.cu");
  return Site{pc, 0, in_kernel ? (int)l.line : 0};
}

struct TypeDescriptor {
  uint16_t kind, info;
  char name[1];
};
struct TypeMismatch {
  SourceLocation location;
  TypeDescriptor* type;
  u8 log_align, kind;
};

}  // namespace coc

API void __ubsan_handle_type_mismatch_v1(coc::TypeMismatch* d, coc::uptr p) {
  using namespace coc;
  if (!g.running) return;
  const uptr align = uptr(1) << d->log_align, off = p & (align - 1);
  const Site site = site_of(d->location, CALLER_PC);
  if (off) {
    fault(MISALIGNED, g.cur, site,
          "address %p of a %s access is not a multiple of %zu (off by %zu)", (void*)p,
          d->type->name, size_t(align), size_t(off));
  } else {
    fault(UNDEFINED, g.cur, site, "bad pointer %p for %s", (void*)p, d->type->name);
  }
}

API void __ubsan_handle_out_of_bounds(coc::SourceLocation* d, coc::uptr index) {
  using namespace coc;
  if (!g.running) return;
  fault(OUT_OF_BOUNDS, g.cur, site_of(*d, CALLER_PC),
        "index %lld is outside the array's declared size", (long long)index);
}

#define UBSAN_HOOK(name, text)                                                       \
  API void __ubsan_handle_##name(coc::SourceLocation* d) {                           \
    if (!coc::g.running) return;                                                     \
    coc::fault(coc::UNDEFINED, coc::g.cur, coc::site_of(*d, CALLER_PC), "%s", text); \
  }
UBSAN_HOOK(shift_out_of_bounds, "shift count out of range")
UBSAN_HOOK(divrem_overflow, "division by zero or overflow")
UBSAN_HOOK(add_overflow, "signed overflow in +")
UBSAN_HOOK(sub_overflow, "signed overflow in -")
UBSAN_HOOK(mul_overflow, "signed overflow in *")
UBSAN_HOOK(negate_overflow, "signed overflow in negation")
UBSAN_HOOK(builtin_unreachable, "unreachable code was reached")
UBSAN_HOOK(missing_return, "no value returned")
UBSAN_HOOK(load_invalid_value, "invalid bool or enum value")
UBSAN_HOOK(vla_bound_not_positive, "bad array size")
UBSAN_HOOK(pointer_overflow, "pointer arithmetic overflow")
UBSAN_HOOK(float_cast_overflow, "float to integer out of range")
