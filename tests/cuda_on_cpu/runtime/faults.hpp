// SPDX-License-Identifier: Apache-2.0
// Reporting a fault: the first one is kept, the launch is abandoned, the host process goes on.
#pragma once
#include <cstdarg>
#include <cstdio>

#include "fibers.hpp"

namespace coc {

struct Name {
  char text[96];
};

static Name thread_name(u32 id) {
  Name name;
  const u32 thread = (id - 1) % g.block_threads, block = (id - 1) / g.block_threads;
  snprintf(name.text, sizeof name.text, "block (%u,%u,%u) thread (%u,%u,%u)", block % g.grid.x,
           block / g.grid.x % g.grid.y, block / g.grid.x / g.grid.y, thread % g.block.x,
           thread / g.block.x % g.block.y, thread / g.block.x / g.block.y);
  return name;
}

static u64 image_offset(uptr pc) {
  return pc && g.module && pc >= g.module->base ? pc - g.module->base : 0;
}

struct Site {  // where a fault lies: addresses in the kernel library, or a known source line
  uptr pc = 0;
  u64 other_pc = 0;  // already an image offset
  int line = 0;      // of kernel.cu
};

// Records the fault. In a kernel's thread it does not return; the scheduler must look at g.abort.
__attribute__((format(printf, 4, 5))) NOINLINE static void fault(Fault kind, const Thread* subject,
                                                                 Site site, const char* format,
                                                                 ...) {
  Report& r = *g.report;
  if (!r.fault) {
    r.fault = kind;
    r.pc = image_offset(site.pc);
    r.other_pc = site.other_pc;
    r.line = site.line > 0 ? site.line : 0;
    int used = 0;
    if (subject) {
      used = snprintf(r.message, sizeof r.message, "%s: ", thread_name(subject->id).text);
    }
    va_list ap;
    va_start(ap, format);
    vsnprintf(r.message + used, sizeof r.message - used, format, ap);
    va_end(ap);
  }
  g.abort = true;
  if (g.cur) {
    to_scheduler();
    __builtin_trap();  // an abandoned fiber is never resumed
  }
}

// A fault of the thread that is running.
#define FAULT(kind, pc, ...) fault(kind, g.cur, Site{pc, 0, 0}, __VA_ARGS__)

}  // namespace coc
