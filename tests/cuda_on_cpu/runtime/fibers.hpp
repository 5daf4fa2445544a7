// SPDX-License-Identifier: Apache-2.0
// Fibers: a stack and a saved stack pointer for every CUDA thread that has begun and not ended.
//
// A fiber whose thread returns goes on with the next thread of the warp that has not begun, so that
// threads which never wait cost no switch at all.
#pragma once
#include <sys/mman.h>
#include <ucontext.h>

#include "state.hpp"

namespace coc {

struct Fiber {
  char* stack_lo;
  void* sp;
#if !defined(__x86_64__)
  ucontext_t context;
#endif
};

const size_t PAGE = 4096;
// Guard pages cost two kernel mappings a stack; a process may have 65530 mappings in all.
const u32 MAX_GUARDED_STACKS = 8192;
const u32 MAX_FIBERS = 65536;
const u64 STACK_CANARY = 0x5ca1ab1e0ddba11ull;

static char* g_stacks;
static size_t g_stack_bytes, g_stacks_mapped;
static u32 g_stack_count;
static std::vector<Fiber> g_fibers;
static u32 g_fibers_used;
static std::vector<Fiber*> g_idle;  // fibers whose thread has ended

static bool guarded() { return g_stack_count <= MAX_GUARDED_STACKS; }

static bool reserve_fibers(u32 count, size_t stack_bytes) {
  stack_bytes = (stack_bytes + PAGE - 1) / PAGE * PAGE;
  count = count < MAX_BLOCK_THREADS ? MAX_BLOCK_THREADS : count;
  const bool unguarded = g_stack_count > MAX_GUARDED_STACKS && count <= MAX_GUARDED_STACKS;
  if (g_stack_count >= count && g_stack_bytes == stack_bytes && !unguarded) return true;
  if (g_stacks) munmap(g_stacks, g_stacks_mapped);
  g_stack_count = 0;
  const size_t stride = stack_bytes + PAGE;
  g_stacks_mapped = count * stride;
  void* map = mmap(nullptr, g_stacks_mapped, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  g_stacks = map == MAP_FAILED ? nullptr : (char*)map;
  if (!g_stacks) return false;
  g_stack_bytes = stack_bytes;
  g_fibers.resize(count);
  for (u32 i = 0; i < count; i++) {
    char* guard = g_stacks + i * stride;
    if (count <= MAX_GUARDED_STACKS) mprotect(guard, PAGE, PROT_NONE);
    g_fibers[i].stack_lo = guard + PAGE;
  }
  g_stack_count = count;
  return true;
}

static void fiber_main();

#if defined(__x86_64__)
// Saves the callee-saved registers on the current stack, its pointer in *save, and goes on at
// 'load'.
extern "C" void coc_switch(void** save, void* load);
asm(R"(
.text
.globl coc_switch
.hidden coc_switch
.type coc_switch, @function
coc_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size coc_switch, .-coc_switch
)");
static void* g_scheduler_sp;

static void fiber_prepare(Fiber& f) {
  void** top = (void**)(f.stack_lo + g_stack_bytes);
  *--top = nullptr;  // null return address; leaves the stack aligned as at a function's entry
  *--top = (void*)fiber_main;
  for (int i = 0; i < 6; i++) *--top = nullptr;
  f.sp = top;
}
static inline void to_fiber(Fiber& f) { coc_switch(&g_scheduler_sp, f.sp); }
static inline void to_scheduler() { coc_switch(&g.cur->fiber->sp, g_scheduler_sp); }
#else
// Portable, several times slower: saving the signal mask costs a system call a switch.
static ucontext_t g_scheduler_context;

static void fiber_prepare(Fiber& f) {
  getcontext(&f.context);
  f.context.uc_stack.ss_sp = f.stack_lo;
  f.context.uc_stack.ss_size = g_stack_bytes;
  f.context.uc_link = nullptr;
  makecontext(&f.context, fiber_main, 0);
}
static inline void to_fiber(Fiber& f) { swapcontext(&g_scheduler_context, &f.context); }
static inline void to_scheduler() { swapcontext(&g.cur->fiber->context, &g_scheduler_context); }
#endif

static Fiber& take_fiber() {
  if (!g_idle.empty()) {
    Fiber* f = g_idle.back();
    g_idle.pop_back();
    return *f;
  }
  Fiber& f = g_fibers[g_fibers_used++];
  if (!guarded()) *(u64*)f.stack_lo = STACK_CANARY;
  fiber_prepare(f);
  return f;
}

static inline bool stack_overflowed(const Fiber& f) {
  return !guarded() && *(const u64*)f.stack_lo != STACK_CANARY;
}

// Ends a launch: no fiber is in use; the memory that many of them have touched is given back.
static void drop_fibers() {
  if (g_fibers_used > MAX_GUARDED_STACKS / 2) madvise(g_stacks, g_stacks_mapped, MADV_DONTNEED);
  g_fibers_used = 0;
  g_idle.clear();
}

}  // namespace coc
