// SPDX-License-Identifier: Apache-2.0
// The functions that Python calls: describing a module and its kernels, launching one.
#pragma once
#include <link.h>

#include "device_api.hpp"
#include "hooks.hpp"
#include "restrict.hpp"

namespace coc {

// --------------------------------------------------------------------------------------- modules
static int find_image(dl_phdr_info* info, size_t, void* data) {
  auto* m = (ModuleInfo*)data;
  bool mine = false;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const auto& h = info->dlpi_phdr[i];
    const uptr lo = info->dlpi_addr + h.p_vaddr;
    mine = mine || (h.p_type == PT_LOAD && m->base >= lo && m->base < lo + h.p_memsz);
  }
  if (!mine) return 0;
  m->base = info->dlpi_addr;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const auto& h = info->dlpi_phdr[i];
    if (h.p_type != PT_LOAD) continue;
    m->image.push_back({info->dlpi_addr + h.p_vaddr, info->dlpi_addr + h.p_vaddr + h.p_memsz});
  }
  return 1;
}

// ---------------------------------------------------------------------------------------- launch
static bool bad_launch(const char* why) {
  const LaunchParams& p = g.params;
  fault(BAD_LAUNCH, nullptr, Site{}, "invalid launch: %s: grid (%u,%u,%u) block (%u,%u,%u)", why,
        p.grid[0], p.grid[1], p.grid[2], p.block[0], p.block[1], p.block[2]);
  return false;
}

static bool check_launch() {
  const LaunchParams& p = g.params;
  const u64 threads = (u64)p.block[0] * p.block[1] * p.block[2];
  const u64 blocks = (u64)p.grid[0] * p.grid[1] * p.grid[2];
  const u64 cluster = (u64)p.cluster[0] * p.cluster[1] * p.cluster[2];
  if (!threads || threads > MAX_BLOCK_THREADS || p.block[2] > 64) {
    return bad_launch("a block has 1 to 1024 threads, up to 64 in z");
  }
  if (!blocks || p.grid[0] > 0x7fffffffu || p.grid[1] > 65535 || p.grid[2] > 65535) {
    return bad_launch("grid out of range");
  }
  if (threads * blocks > ID_MASK) return bad_launch("more than 2**30 threads");
  if (!cluster || cluster > 16) return bad_launch("a cluster has 1 to 16 blocks");
  for (int i = 0; i < 3; i++) {
    if (p.grid[i] % p.cluster[i]) return bad_launch("the grid is no multiple of the cluster");
  }
  if ((p.cooperative ? blocks : cluster) * threads > MAX_FIBERS) {
    return bad_launch("more than 65536 threads live at once");
  }
  const ModuleInfo& m = *g.module;
  if (m.static_shared > MAX_STATIC_SHARED)
    return bad_launch("more than 48 KiB of static shared memory");
  if ((u64)m.static_shared + p.shared_bytes > MAX_SHARED) {
    return bad_launch("more than 227 KiB of shared memory");
  }
  return true;
}

static void activate(Region* r) {
  if (r->active) return;
  r->active = true;
  r->since = g.launch_clk;
  r->loads = r->stores = r->wide_loads = r->wide_stores = 0;
  r->read_bytes = r->written_bytes = r->atomic_bytes = r->read_unique = r->written_unique = 0;
  g.active.push_back(r);
}

// Finds the buffers that the arguments point to.
static bool activate_arguments(u8* bytes, Region** of_param) {
  const KernelInfo& k = *g.kernel;
  for (u32 i = 0; i < k.params; i++) {
    u8* at = bytes + k.offset[i];
    of_param[i] = nullptr;
    if (k.kind[i] == 'p' || k.kind[i] == 'P') {
      const uptr p = *(uptr*)at;
      if (!p) continue;
      of_param[i] = region_around(p);
      if (!of_param[i]) {
        fault(BAD_LAUNCH, nullptr, Site{}, "argument %u (%s): %p points into no live buffer", i,
              k.param_name[i], (void*)p);
        return false;
      }
      activate(of_param[i]);
    } else if (k.kind[i] == 's') {  // a struct: whatever looks like a pointer counts
      for (u32 word = 0; word + 8 <= k.size[i]; word += 8) {
        Region* r = region_around(*(uptr*)(at + word));
        if (r) activate(r);
      }
    }
  }
  return true;
}

static void separate_aliases(u8* bytes, Region** of_param) {
  const KernelInfo& k = *g.kernel;
  for (u32 i = 0; i < k.params; i++) {
    Region* r = of_param[i];
    if (!r || r->alias) continue;
    u32 uses = 0, restricted = 0, writable = 0;
    for (u32 j = i; j < k.params; j++) {
      if (of_param[j] != r) continue;
      uses++;
      restricted += k.is_restrict[j];
      writable += k.kind[j] == 'p';
    }
    if (uses < 2 || !restricted || !writable) continue;
    for (u32 j = i; j < k.params; j++) {
      uptr& p = *(uptr*)(bytes + k.offset[j]);
      if (of_param[j] == r) p = alias_parameter(*r, j, p);
    }
  }
}

static void collect_figures() {
  Report& rep = *g.report;
  TrafficRow* row = (TrafficRow*)(&rep + 1);
  for (Region* r : g.active) {
    if (r->primary) continue;
    rep.global_read += r->read_bytes;
    rep.global_written += r->written_bytes + r->atomic_bytes;
    rep.global_loads += r->loads;
    rep.global_stores += r->stores;
    rep.wide_loads += r->wide_loads;
    rep.wide_stores += r->wide_stores;
    if (rep.traffic_rows == MAX_TRAFFIC_ROWS) continue;
    *row = {r->read_bytes,  r->written_bytes,  r->atomic_bytes,
            r->read_unique, r->written_unique, {0}};
    memcpy(row->name, r->name, sizeof row->name);
    row++;
    rep.traffic_rows++;
  }
}

static void deactivate() {
  for (Region* r : g.active) {
    r->active = false;
    // what an unchecked kernel writes is not seen: assume it wrote everything
    if (!g.module->checked && !r->primary) r->init = true;
  }
  g.active.clear();
  g.last = nullptr;
  if (!g_alias_sets.empty()) drop_aliases();
}

}  // namespace coc

// A module whose code has the address 'inside'. owner: which variable each byte of static shared
// memory belongs to, from 1; names and offsets: of those variables.
API void* coc_module_new(void* inside, unsigned static_shared, unsigned dynamic_at, int fenced,
                         int checked, const unsigned char* owner, unsigned variables,
                         const unsigned* offsets, const char** names) {
  using namespace coc;
  auto* m = new ModuleInfo();
  m->base = (uptr)inside;
  dl_iterate_phdr(find_image, m);
  m->static_shared = static_shared;
  m->dynamic_at = dynamic_at;
  m->fenced = fenced;
  m->checked = checked;
  m->owner.assign(owner, owner + static_shared);
  for (u32 i = 0; i < variables; i++) m->variables.push_back({offsets[i], strdup(names[i])});
  return m;
}

API void* coc_kernel_new(void* module, void* entry, unsigned params, const unsigned* sizes,
                         const unsigned* offsets, const char* kinds,
                         const unsigned char* is_restrict, const char** names) {
  using namespace coc;
  auto* k = new KernelInfo();
  k->module = (ModuleInfo*)module;
  k->entry = (void (*)(void**))entry;
  k->params = params;
  for (u32 i = 0; i < params; i++) {
    k->size[i] = sizes[i];
    k->offset[i] = offsets[i];
    k->kind[i] = kinds[i];
    k->is_restrict[i] = is_restrict[i];
    k->param_name[i] = strdup(names[i]);
  }
  return k;
}

// For tests: lets the logical clock come close to its end.
API void coc_set_clock(unsigned clk) { coc::g.clk = clk; }

// args: the argument values at the kernel's offsets. report: room for a Report and its rows.
API int coc_launch(const void* kernel, const void* args, unsigned arg_bytes,
                   const void* const* reach, unsigned reach_count, const void* params,
                   void* report) {
  using namespace coc;
  alignas(64) static u8 bytes[32 * 1024];
  static void* pointers[MAX_PARAMS];
  Region* of_param[MAX_PARAMS];
  if (UNLIKELY(g.clk > 0xf0000000u)) {
    renew_shared_clocks();
    renew_clocks();
  }
  g.kernel = (const KernelInfo*)kernel;
  g.module = g.kernel->module;
  memcpy(&g.params, params, sizeof g.params);
  g.report = (Report*)report;
  memset(report, 0, offsetof(Report, message) + 1);
  g.cur = nullptr;
  g.abort = false;
  if (!check_launch()) return g.report->fault;
  const LaunchParams& p = g.params;
  g.grid = {p.grid[0], p.grid[1], p.grid[2]};
  g.block = {p.block[0], p.block[1], p.block[2]};
  g.cluster = {p.cluster[0], p.cluster[1], p.cluster[2]};
  g.block_threads = g.block.x * g.block.y * g.block.z;
  g.blocks = g.grid.x * g.grid.y * g.grid.z;
  g.launch_clk = ++g.clk;
  g.grid_clk = 0;
  if (g.module->fenced && g.blocks > MAX_KNOWN_BLOCKS) g.params.races &= RACES_IN_BLOCK;
  g.know = g.module->fenced && g.module->checked && p.races && g.blocks <= MAX_KNOWN_BLOCKS;
  g.shared_used = g.module->dynamic_at + p.shared_bytes;
  memcpy(bytes, args, std::min<size_t>(arg_bytes, sizeof bytes));
  g.arg_bytes = {(uptr)bytes, (uptr)bytes + arg_bytes};
  g.args = pointers;
  for (u32 i = 0; i < g.kernel->params; i++) pointers[i] = bytes + g.kernel->offset[i];
  if (activate_arguments(bytes, of_param)) {
    for (u32 i = 0; i < reach_count; i++) {
      Region* r = region_around((uptr)reach[i]);
      if (r) activate(r);
    }
    if (g.module->checked) separate_aliases(bytes, of_param);
    clear_trace();
    if (!g_released.empty()) g_released.clear();
    {
      SignalScope signals(p.timeout_ms);
      g.running = true;
      run_grid();
      g.running = false;
      drop_fibers();
    }
    g.cur = nullptr;
    collect_figures();
    g.report->threads = (u64)g.block_threads * g.blocks;
    g.report->static_shared = g.module->static_shared;
  }
  deactivate();
  return g.report->fault;
}
