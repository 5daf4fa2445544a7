// SPDX-License-Identifier: Apache-2.0
// Kernels that never end, and crashes of kernels that run unchecked.
//
// A CPU-time alarm stops a hung kernel at its next access or barrier, or at once if it is in the
// kernel's own code: abandoning a fiber there is safe, because it holds no lock. SIGSEGV and its
// like come from unchecked kernels, library calls with wild pointers and stack overflow.
#pragma once
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

#include "faults.hpp"

namespace coc {

static volatile sig_atomic_t g_expired;
static pthread_t g_launch_thread;

static const char* about_other_blocks() {
  return g.params.cooperative ? ""
                              : " (blocks of a launch that is not cooperative run one after another: "
                                "waiting for another block never ends)";
}

NOINLINE static void hang(uptr pc) {
  g_expired = 0;
  FAULT(HANG, pc, "still running after %u ms of CPU time%s", g.params.timeout_ms,
        about_other_blocks());
}

static uptr interrupted_pc(void* context) {
#if defined(__x86_64__)
  return (uptr)((ucontext_t*)context)->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
  return (uptr)((ucontext_t*)context)->uc_mcontext.pc;
#else
  return 0;
#endif
}

static void on_alarm(int, siginfo_t*, void* context) {
  if (!g.running) return;
  if (!pthread_equal(pthread_self(), g_launch_thread)) {
    pthread_kill(g_launch_thread, SIGVTALRM);
    return;
  }
  g_expired = 1;
  const uptr pc = interrupted_pc(context);
  if (!g.cur) return;
  for (const Range& r : g.module->image) {
    if (pc >= r.lo && pc < r.hi) hang(pc);
  }
}

static struct sigaction g_old_segv, g_old_bus, g_old_fpe;

static void on_crash(int signal, siginfo_t* info, void* context) {
  const bool ours = g.running && g.cur && pthread_equal(pthread_self(), g_launch_thread);
  if (!ours) {  // not a kernel's: let the instruction fail again under the former handler
    sigaction(signal,
              signal == SIGSEGV  ? &g_old_segv
              : signal == SIGBUS ? &g_old_bus
                                 : &g_old_fpe,
              nullptr);
    return;
  }
  const uptr at = (uptr)info->si_addr, pc = interrupted_pc(context);
  const char* stack = g.cur->fiber->stack_lo;
  if (signal == SIGFPE) {
    FAULT(UNDEFINED, pc, "integer division by zero or overflow");
  } else if (at + PAGE >= (uptr)stack && at < (uptr)stack) {
    FAULT(UNDEFINED, pc, "stack overflow (%zu bytes a thread; see stack_bytes)", g_stack_bytes);
  } else {
    FAULT(OUT_OF_BOUNDS, pc, "crashes at address %p", (void*)at);
  }
}

// Installs the handlers and their stack for the time of one launch.
struct SignalScope {
  bool timed;
  stack_t former_stack;
  explicit SignalScope(u32 timeout_ms) : timed(timeout_ms != 0) {
    // A kernel that overflows its stack has none left for the handler. One is enough, since threads launch one
    // after the other; it is left at the end, or an alarm that another thread gets meets this one's handler there.
    static char alternate[64 * 1024] __attribute__((aligned(16)));
    g_launch_thread = pthread_self();
    g_expired = 0;
    stack_t stack{};
    stack.ss_sp = alternate;
    stack.ss_size = sizeof alternate;
    sigaltstack(&stack, &former_stack);
    struct sigaction crash{};
    crash.sa_sigaction = on_crash;
    crash.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    sigaction(SIGSEGV, &crash, &g_old_segv);
    sigaction(SIGBUS, &crash, &g_old_bus);
    sigaction(SIGFPE, &crash, &g_old_fpe);
    if (!timed) return;
    // Stays installed: an alarm already on its way when a launch ends would kill the process
    // under the default action.
    struct sigaction alarm{};
    alarm.sa_sigaction = on_alarm;
    alarm.sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART | SA_ONSTACK;
    sigaction(SIGVTALRM, &alarm, nullptr);
    itimerval timer{};
    timer.it_value = {time_t(timeout_ms / 1000), suseconds_t(timeout_ms % 1000 * 1000)};
    timer.it_interval = {0, 10000};
    setitimer(ITIMER_VIRTUAL, &timer, nullptr);
  }
  ~SignalScope() {
    if (timed) {
      itimerval off{};
      setitimer(ITIMER_VIRTUAL, &off, nullptr);
    }
    sigaction(SIGSEGV, &g_old_segv, nullptr);
    sigaction(SIGBUS, &g_old_bus, nullptr);
    sigaction(SIGFPE, &g_old_fpe, nullptr);
    sigaltstack(&former_stack, nullptr);
  }
};

}  // namespace coc
